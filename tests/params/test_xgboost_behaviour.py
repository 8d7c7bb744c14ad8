"""What a script written for XGBoost relies on: DMatrix, arguments of train, methods of its Booster."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

import hornbeam as hb
from hornbeam.testing.data import make_targets
from hornbeam.testing.peer_names import AS_A_DATASET

xgboost = pytest.importorskip("xgboost")

RANDOM = np.random.default_rng(6)
X, NUMBER, LABEL, CLASSES = make_targets()
SMALL = {"num_leaves": 5, "verbosity": -1, "device": "reference", **AS_A_DATASET}
BINARY = {**SMALL, "objective": "binary:logistic"}


def logistic(scores, dtrain):
    chance = 1.0 / (1.0 + np.exp(-scores))
    return chance - dtrain.get_label(), chance * (1.0 - chance)


def pair(predictions, dtrain):
    return "mine", float(np.mean(np.abs(predictions - dtrain.get_label())))


@pytest.fixture(scope="module")
def data():
    train = hb.DMatrix(X[:300], label=LABEL[:300])
    return train, hb.DMatrix(X[300:], label=LABEL[300:])


@pytest.fixture(scope="module")
def booster(data):
    return hb.train({**BINARY, "eval_metric": ["error", "logloss"]}, data[0], num_boost_round=6)


# --- DMatrix --------------------------------------------------------------------------------------------------------


def test_a_dmatrix_is_a_dataset(data):
    expected = hb.train(BINARY, hb.Dataset(X[:300], LABEL[:300]), 3).fingerprint()
    for made in (data[0], hb.QuantileDMatrix(X[:300], LABEL[:300], max_bin=63), pickle.loads(pickle.dumps(data[0]))):
        assert isinstance(made, hb.Dataset)
        assert hb.train(BINARY, made, 3).fingerprint() == expected
    valid = hb.QuantileDMatrix(X[300:], LABEL[300:], ref=data[0], nthread=2, enable_categorical=True)
    assert valid.reference is data[0] and (valid.num_row(), valid.num_col()) == (100, 4)
    given = hb.DMatrix(X, weight=LABEL + 1, base_margin=X[:, 0], qid=[0] * 400, feature_names=list("abcd"))
    np.testing.assert_array_equal(given.get_base_margin(), X[:, 0])
    assert given.feature_names == list("abcd") and given.feature_types is None


def test_types_of_features_name_the_categorical_ones():
    table = np.column_stack([X[:, 0], RANDOM.integers(0, 4, 400)])
    made = hb.DMatrix(table, NUMBER, feature_types=["q", "c"])
    assert made.categorical_features == [1] and made.feature_types == ["q", "c"]
    same = hb.Dataset(table, NUMBER, categorical_features=[1])
    assert hb.train(SMALL, made, 2).fingerprint() == hb.train(SMALL, same, 2).fingerprint()
    with pytest.raises(hb.DataError, match="one type a feature"):
        hb.DMatrix(table, feature_types="qc")


def test_a_marker_of_missing_values_becomes_nan():
    marked = np.where(X > 1, -999.0, X)
    expected = hb.Dataset(np.where(X > 1, np.nan, X), NUMBER)
    for missing in (-999.0, -999):
        made = hb.DMatrix(marked, NUMBER, missing=missing)
        assert hb.train(SMALL, made, 2).fingerprint() == hb.train(SMALL, expected, 2).fingerprint()
    with pytest.raises(hb.DataError, match="replace the marker"):
        hb.DMatrix([marked[:50].tolist(), marked[50:].astype(str)], missing=-999.0)


class Batches(hb.DataIter):
    def __init__(self, tables, labels):
        self.tables, self.labels, self.place = tables, labels, 0
        super().__init__()

    def next(self, input_data):
        if self.place == len(self.tables):
            return 0
        input_data(data=self.tables[self.place], label=self.labels[self.place])
        self.place += 1
        return 1

    def reset(self):
        self.place = 0


def test_data_come_in_batches():
    made = hb.QuantileDMatrix(Batches([X[:100], X[100:]], [NUMBER[:100], NUMBER[100:]]))
    assert hb.train(SMALL, made, 2).fingerprint() == hb.train(SMALL, hb.Dataset(X, NUMBER), 2).fingerprint()
    for tables, labels, word in (([], [], "no batches"), ([X, X], [NUMBER, None], "some batches")):
        with pytest.raises(hb.DataError, match=word):
            hb.DMatrix(Batches(tables, labels))


def test_what_a_dmatrix_cannot_hold_is_refused():
    with pytest.raises(hb.ParameterError, match="feature_weights has 200 entries and the data"):
        hb.DMatrix(X, feature_weights=np.ones(200))
    with pytest.raises(TypeError, match="no_such"):
        hb.DMatrix(X, no_such=1)


# --- train ----------------------------------------------------------------------------------------------------------


def test_the_best_iteration_is_that_of_xgboost_on_the_same_scores():
    values = [0.5, 0.4, 0.45, 0.3, 0.35, 0.36, 0.2, 0.1]
    best = []
    for library in (xgboost, hb):
        seen = iter(values)
        train, valid = library.DMatrix(X, LABEL), library.DMatrix(X[:50], LABEL[:50])
        params = {"objective": "binary:logistic", "disable_default_eval_metric": 1} if library is xgboost else BINARY
        model = library.train(
            params, train, 8, evals=[(valid, "v")], custom_metric=lambda *_, seen=seen: ("m", next(seen)),
            early_stopping_rounds=2, verbose_eval=False,
        )  # fmt: skip
        best.append(model.best_iteration)
    assert best[0] == best[1]


def test_higher_is_better_if_that_is_said(data):
    rising = iter(range(100))
    model = hb.train(
        {**BINARY, "metric": "none"}, data[0], 6, evals=[(data[1], "eval")], early_stopping_rounds=2, maximize=True,
        custom_metric=lambda *_: ("rising", next(rising)),
    )  # fmt: skip
    assert model.n_iterations == 6
    with pytest.raises(hb.ParameterError, match="maximize"):
        hb.train(BINARY, hb.Dataset(X, label=LABEL), 2, maximize=True)


def test_objective_and_metric_functions(data):
    record = {}
    model = hb.train(
        BINARY, data[0], 3, obj=logistic, custom_metric=pair, evals=[(data[1], "eval")], evals_result=record
    )
    start = {"objective": logistic, "base_score": 0.0}  # which predicts 0.5
    alone = hb.train({**BINARY, **start}, data[0], 3)
    np.testing.assert_array_equal(model.predict(X, raw_score=True), alone.predict(X))
    assert len(record["eval"]["mine"]) == 3
    with pytest.raises(hb.ParameterError, match="obj="):
        hb.train(BINARY, data[0], 3, obj="logistic")
    history = hb.cv(BINARY, data[0], 20, nfold=3, metrics=["logloss"], early_stopping_rounds=2, seed=1)
    assert list(history) == ["train-logloss-mean", "train-logloss-std", "test-logloss-mean", "test-logloss-std"]


def test_metrics_beside_functions_are_xgboosts():
    """A function as objective has the metric of squared errors, beside that of the user's own."""
    names = []
    for library in (xgboost, hb):
        data, record = library.DMatrix(X, LABEL), {}
        library.train(
            {"nthread": 1}, data, 2, evals=[(data, "t")], obj=logistic, evals_result=record, verbose_eval=False,
            custom_metric=lambda scores, dtrain: ("own", float(np.mean((scores > 0) != dtrain.get_label()))),
        )  # fmt: skip
        names.append({name: len(values) for name, values in record["t"].items()})
    assert names[0] == names[1] == {"rmse": 2, "own": 2}


def test_cross_validation_returns_what_xgboosts_does():
    columns = []
    for library in (xgboost, hb):
        params = {"objective": "binary:logistic", "max_depth": 3} if library is xgboost else BINARY
        table = library.cv(params, library.DMatrix(X, LABEL), 4, nfold=3, metrics=("auc", "logloss"), seed=0)
        assert table.shape == (4, 8)
        columns.append(set(table.columns))
        plain = library.cv(params, library.DMatrix(X, LABEL), 2, nfold=3, metrics=("auc",), as_pandas=False)
        assert isinstance(plain, dict) and len(plain["test-auc-mean"]) == 2
    assert columns[0] == columns[1]


def test_the_best_iteration_is_counted_as_the_data_are_made(data, caplog, tmp_path):
    """From 0 for a DMatrix, in copies and files too; as LightGBM counts for a Dataset, where XGBoost's range warns."""
    model = hb.train({**BINARY, "learning_rate": 0.9}, data[0], 60, evals=[(data[1], "eval")], early_stopping_rounds=4)
    up_to_best = model.predict(data[1], iteration_range=(0, model.best_iteration + 1))
    assert np.array_equal(up_to_best, model.predict(data[1], num_iteration=model.n_best))
    assert "counts iterations" not in caplog.text
    model.save_model(tmp_path / "m.json")
    read = hb.Booster()
    read.load_model(tmp_path / "m.json")
    refitted = model.refit(X, LABEL)
    assert refitted.n_used == model.n_used == model.n_iterations
    for other in (read, pickle.loads(pickle.dumps(model)), refitted):
        assert other.best_iteration == model.best_iteration == model.n_best - 1
    model.best_iteration = 1
    assert model.n_best == 2
    with pytest.raises(AttributeError, match="early stopping"):
        _ = hb.train(BINARY, data[0], 2).best_iteration
    train_set = hb.Dataset(X, label=LABEL)
    valid = train_set.create_valid(X[:50], LABEL[:50])
    plain = hb.train({**BINARY, "learning_rate": 0.9, "early_stopping_round": 4}, train_set, 60, [valid])
    assert plain.best_iteration == plain.n_best > 0
    plain.predict(X, iteration_range=(0, plain.best_iteration + 1))
    assert "counts iterations" in caplog.text


# --- Booster --------------------------------------------------------------------------------------------------------


def test_predictions_of_a_dmatrix(booster, data):
    np.testing.assert_array_equal(booster.predict(data[1]), booster.predict(X[300:]))
    np.testing.assert_array_equal(booster.predict(data[1], iteration_range=(1, 3)), booster[1:3].predict(X[300:]))
    np.testing.assert_array_equal(booster.predict(X, iteration_range=(0, 0)), booster.predict(X))
    np.testing.assert_array_equal(booster.predict(X, ntree_limit=2), booster.predict(X, num_iteration=2))
    np.testing.assert_array_equal(booster.inplace_predict(X, predict_type="margin"), booster.predict(X, raw_score=True))
    for wrong in (
        {"iteration_range": (3, 2)}, {"iteration_range": (1, 2, 3)}, {"iteration_range": (0, 2), "num_iteration": 1},
        {"iteration_range": (-1, 2)},
    ):  # fmt: skip
        with pytest.raises(hb.ParameterError, match="iteration_range"):
            booster.predict(X, **wrong)
    with pytest.raises(hb.ParameterError, match="predict_type"):
        booster.inplace_predict(X, predict_type="leaf")


def test_margins_stand_in_the_place_of_what_training_started_from(booster):
    margin = X[:, 2]
    bare = hb.Booster(replace(booster.to_model(), init_scores=[0.0]))
    raw = bare.predict(X, raw_score=True)
    chance = booster.objective.transform((raw + margin)[None])[0]
    for predicted in (
        booster.predict(X, base_margin=margin),
        booster.predict(hb.DMatrix(X, base_margin=margin)),
        booster.inplace_predict(X, base_margin=margin),
    ):
        np.testing.assert_array_equal(predicted, chance)
    np.testing.assert_array_equal(booster.predict(X, base_margin=margin, output_margin=True), raw + margin)
    for library in (hb, xgboost):
        params = {"objective": "binary:logistic", "base_score": 0.2, "max_depth": 2, "verbosity": 0}
        made = library.train(params, library.DMatrix(X, LABEL), 3)
        plain = made.predict(library.DMatrix(X), output_margin=True)
        moved = made.predict(library.DMatrix(X, base_margin=margin), output_margin=True) - plain
        np.testing.assert_allclose(moved, margin - np.log(0.2 / 0.8), rtol=0, atol=1e-5)
    several = hb.train({**SMALL, "objective": "multi:softprob", "num_class": 3}, hb.DMatrix(X, CLASSES), 2)
    bare = hb.Booster(replace(several.to_model(), init_scores=[0.0] * 3))
    np.testing.assert_array_equal(
        several.predict(X, base_margin=X[:, :3], raw_score=True), bare.predict(X, raw_score=True) + X[:, :3]
    )
    with pytest.raises(hb.DataError, match="base_margin has 5 numbers"):
        booster.predict(X, base_margin=margin[:5])


def test_scores_of_features_are_those_of_the_trees(booster):
    splits, gains = booster.feature_importance("split"), booster.feature_importance("gain")
    assert booster.get_fscore() == {f"f{i}": float(n) for i, n in enumerate(splits) if n}
    assert booster.get_score(importance_type="total_gain") == {f"f{i}": g for i, g in enumerate(gains) if g}
    for name in booster.get_score():
        mean, place = booster.get_score(importance_type="gain")[name], int(name.removeprefix("f"))
        assert mean == pytest.approx(gains[place] / splits[place])
    theirs = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, NUMBER), 2)
    assert all(isinstance(value, float) for value in (*theirs.get_score().values(), *booster.get_score().values()))
    with pytest.raises(hb.ParameterError, match="importance_type"):
        booster.get_score(importance_type="split")


def _walk(node, row, names):
    while "leaf" not in node:
        value = row[names.index(node["split"])]
        if isinstance(node["split_condition"], list):
            goes = node["yes"] if value in node["split_condition"] else node["no"]
        else:
            goes = node["missing"] if np.isnan(value) else node["yes" if value < node["split_condition"] else "no"]
        node = next(child for child in node["children"] if child["nodeid"] == goes)
    return node["leaf"]


def test_dumps_hold_the_trees(tmp_path):
    table = np.column_stack([np.where(X[:, 0] > 1.5, np.nan, X[:, 0]), X[:, 1], RANDOM.integers(0, 5, 400)])
    model = hb.train({**SMALL, "min_data_per_group": 5}, hb.DMatrix(table, NUMBER, feature_types=["q", "q", "c"]), 4)
    trees = [json.loads(text) for text in model.get_dump(dump_format="json", with_stats=True)]
    names = ["f0", "f1", "f2"]
    sums = [sum(_walk(tree, row, names) for tree in trees) + model.init_scores[0] for row in table]
    np.testing.assert_allclose(sums, model.predict(table), rtol=1e-12)
    assert trees[0]["cover"] == 400.0 and trees[0]["gain"] > 0
    text = model.get_dump()[0].splitlines()
    assert text[0].startswith("0:[f") and "yes=1,no=2,missing=" in text[0]
    assert len(text) == 2 * model.trees[0].n_leaves - 1
    assert model.dump_model(tmp_path / "text.txt") is None
    assert (tmp_path / "text.txt").read_text().startswith("booster[0]:\n0:[")
    model.dump_model(str(tmp_path / "trees.json"), dump_format="json")
    assert len(json.loads((tmp_path / "trees.json").read_text())) == 4
    theirs = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, NUMBER), 1)
    their_tree, our_tree = json.loads(theirs.get_dump(dump_format="json", with_stats=True)[0]), trees[0]
    assert set(our_tree) == set(their_tree)
    with pytest.raises(hb.ParameterError, match="dump_format"):
        model.get_dump(dump_format="yaml")


@pytest.mark.parametrize("with_stats", [False, True])
def test_dumps_for_graphviz_are_xgboosts(tmp_path, with_stats):
    table = np.column_stack([np.where(X[:, 0] > 1.5, np.nan, X[:, 0]), X[:, 1]])
    theirs = xgboost.train({"max_depth": 3}, xgboost.DMatrix(table, NUMBER, feature_names=["a", "b"]), 3)
    theirs.save_model(tmp_path / "model.json")
    ours = hb.Booster(model_file=tmp_path / "model.json").get_dump(dump_format="dot", with_stats=with_stats)
    expected = theirs.get_dump(dump_format="dot", with_stats=with_stats)

    def edges(text):
        return [line for line in text.splitlines() if "->" in line or "leaf" in line or not any(map(str.isdigit, line))]

    assert [edges(text) for text in ours] == [edges(text) for text in expected]
    assert all(text.count("cover=") == (text.count("[ label=") if with_stats else 0) for text in ours)


def test_names_in_dumps_for_graphviz_may_have_quotes():
    model = hb.train(SMALL, hb.DMatrix(X, NUMBER, feature_names=['say "a"', *map(str, range(1, X.shape[1]))]), 2)
    assert 'say \\"a\\"<' in "".join(model.get_dump(dump_format="dot"))


def test_models_are_loaded_saved_and_copied(tmp_path, booster):
    booster.save_model(tmp_path / "model.json")
    for source in (tmp_path / "model.json", booster.save_raw()):
        empty = hb.Booster({"nthread": 1})
        empty.load_model(source)
        assert empty.fingerprint() == booster.fingerprint()
    assert booster.copy().fingerprint() == booster.fingerprint() and booster.copy() is not booster
    assert json.loads(booster.save_config())["learner"]["objective"]["name"] == "binary:logistic"
    theirs = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, NUMBER), 2)
    theirs.save_model(tmp_path / "theirs.json")
    ours = hb.Booster()
    ours.load_model(tmp_path / "theirs.json")
    np.testing.assert_allclose(ours.predict(X), theirs.predict(xgboost.DMatrix(X)), rtol=1e-5)


def test_a_copy_has_the_best_iteration_and_goes_its_own_way():
    x = np.random.default_rng(0).normal(size=(400, 5))
    y = x[:, 0] + np.random.default_rng(1).normal(size=400)
    train, valid = hb.DMatrix(x[:300], label=y[:300]), hb.DMatrix(x[300:], label=y[300:])
    booster = hb.train(
        {"eta": 0.5, "max_depth": 4, "verbosity": 0}, train, 60, evals=[(valid, "valid")], early_stopping_rounds=3,
        verbose_eval=False,
    )  # fmt: skip
    assert 0 < booster.best_iteration < booster.n_iterations
    expected = booster.predict(valid)
    copied = booster.copy()
    assert copied.best_iteration == booster.best_iteration and copied.best_score == booster.best_score
    np.testing.assert_array_equal(copied.predict(valid), expected)
    copied.set_leaf_output(0, 0, 100.0)
    assert (copied.predict(valid) != expected).any()
    np.testing.assert_array_equal(booster.predict(valid), expected)


def test_evaluations_are_lines_of_text_for_a_dmatrix(booster, data):
    line = booster.eval(data[1], "test", 3)
    assert line == booster.eval_set([(data[1], "test")], 3)
    begin, *values = line.split("\t")
    assert begin == "[3]" and [value.split(":")[0] for value in values] == ["test-error", "test-logloss"]
    assert float(values[1].split(":")[1]) == pytest.approx(log_loss(LABEL[300:], booster.predict(data[1])))
    both = booster.eval_set([(data[0], "train"), (data[1], "eval")], feval=pair)
    assert both.startswith("[0]\ttrain-error:") and "eval-mine:" in both
    tuples = booster.eval(hb.Dataset(X, LABEL), "whole")
    assert [(name, metric) for name, metric, *_ in tuples] == [("whole", "binary_error"), ("whole", "binary_logloss")]
    live = hb.Booster({**BINARY, "metric": "logloss"}, [data[0]])
    live.update(data[0], 0)
    assert live.eval(data[0]).startswith("[0]\teval-logloss:")
    with pytest.raises(hb.DataError, match="wrap it"):
        booster.eval(X)


# --- ways that scripts count on --------------------------------------------------------------------------------------


def test_errors_have_the_names_that_scripts_catch():
    for name in ("basic.LightGBMError", "core.XGBoostError", "LightGBMError", "XGBoostError"):
        home, _, kind = name.rpartition(".")
        with pytest.raises(getattr(getattr(hb, home) if home else hb, kind)):
            hb.train({"num_leaves": 1}, hb.DMatrix(np.zeros((9, 1)), label=np.zeros(9)), 1)


@pytest.mark.parametrize("library", [xgboost, hb])
def test_a_booster_predicts_by_all_trees_and_an_estimator_by_the_best(library):
    params, rounds = {"objective": "binary:logistic", "eta": 1.0, "nthread": 1}, 40
    train, valid = library.DMatrix(X[:250], LABEL[:250]), library.DMatrix(X[250:], LABEL[250:])
    model = library.train(params, train, rounds, evals=[(valid, "v")], early_stopping_rounds=4, verbose_eval=False)
    n_trained = model.num_boosted_rounds()
    assert n_trained == model.best_iteration + 5
    assert np.array_equal(model.predict(valid), model.predict(valid, iteration_range=(0, n_trained)))
    assert model.predict(valid, pred_leaf=True).shape == (150, n_trained)
    stopping = library.callback.EarlyStopping(rounds=4, save_best=True)
    best = library.train(params, train, rounds, evals=[(valid, "v")], callbacks=[stopping], verbose_eval=False)
    assert best.num_boosted_rounds() == best.best_iteration + 1 == model.best_iteration + 1
    up_to_best = model.predict(valid, iteration_range=(0, model.best_iteration + 1))
    assert np.array_equal(best.predict(valid), up_to_best)
    estimator = library.XGBClassifier(n_estimators=rounds, learning_rate=1.0, n_jobs=1, early_stopping_rounds=4)
    estimator.fit(X[:250], LABEL[:250].astype(int), eval_set=[(X[250:], LABEL[250:].astype(int))], verbose=False)
    assert estimator.best_iteration == model.best_iteration
    assert np.array_equal(estimator.predict_proba(X[250:])[:, 1], up_to_best)
    assert estimator.best_score == pytest.approx(model.best_score)


def test_a_model_that_predicts_by_all_trees_is_written_with_all_of_them(tmp_path):
    model = hb.train(
        {**BINARY, "eta": 0.9}, hb.DMatrix(X, LABEL), 20, evals=[(hb.DMatrix(X[:50], 1 - LABEL[:50]), "v")],
        early_stopping_rounds=3, verbose_eval=False,
    )  # fmt: skip
    assert model.n_best < model.n_iterations == model.n_used
    model.save(tmp_path / "m.txt", "lightgbm")
    assert np.allclose(hb.load(tmp_path / "m.txt").predict(X), model.predict(X))
    assert sum(model.get_score().values()) == sum(tree.n_leaves - 1 for tree in model.trees)


def test_a_dmatrix_is_made_and_asked_as_xgboosts():
    weight = RANDOM.random(400)
    by_place, by_name = hb.DMatrix(X, LABEL, weight), hb.DMatrix(X, label=LABEL, weight=weight)
    assert hb.train(BINARY, by_place, 2).fingerprint() == hb.train(BINARY, by_name, 2).fingerprint()
    bare = hb.DMatrix(X)
    assert all(field().shape == (0,) for field in (bare.get_label, bare.get_weight, bare.get_base_margin))
    assert np.array_equal(by_place.get_weight(), weight)


def test_constraints_of_the_first_features_leave_the_others_free():
    of_two = hb.train({**BINARY, "monotone_constraints": (1, -1)}, hb.DMatrix(X, LABEL), 3)
    of_all = hb.train({**BINARY, "monotone_constraints": (1, -1, 0, 0)}, hb.DMatrix(X, LABEL), 3)
    assert of_two.fingerprint() == of_all.fingerprint()


def test_values_that_are_there_are_counted_as_by_xgboost():
    import pandas as pd
    import scipy.sparse

    table = np.where(RANDOM.random((40, 3)) < 0.3, np.nan, RANDOM.normal(size=(40, 3)))
    sparse = scipy.sparse.random(30, 4, 0.4, format="csr", random_state=1)
    frame = pd.DataFrame(table, columns=list("abc")).assign(d=np.arange(40))
    polars = pytest.importorskip("polars").DataFrame({"a": [1.0, None, float("nan")], "b": [None, 2, 3]})
    assert hb.DMatrix(polars).num_nonmissing() == 3
    for data in (table, sparse, frame, table.astype(np.float32)):
        assert hb.DMatrix(data).num_nonmissing() == xgboost.DMatrix(data).num_nonmissing()

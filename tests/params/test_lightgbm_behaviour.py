"""What a script written for LightGBM relies on: orders of arguments, precedence of names, values that mean nothing."""

import json
import logging
import pickle

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.model.formats import write_as

lightgbm = pytest.importorskip("lightgbm")

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(400, 4))
Y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * RANDOM.normal(size=400)
LABEL = (Y > 0).astype(float)
SMALL = {"num_leaves": 5, "verbosity": -1, "device": "reference"}
BOTH = (lightgbm, hb)


def plain(library, **params):
    """Return parameters for either library; the device is one that only ours knows."""
    return {**{name: value for name, value in SMALL.items() if library is hb or name != "device"}, **params}


@pytest.fixture(scope="module")
def booster():
    return hb.train({**SMALL, "objective": "binary"}, hb.Dataset(X, LABEL), 12)


# --- order of arguments ---------------------------------------------------------------------------------------------


def test_arguments_come_in_lightgbms_order(booster):
    np.testing.assert_array_equal(booster.predict(X, 2, 3), booster.predict(X, start_iteration=2, num_iteration=3))
    np.testing.assert_array_equal(booster.predict(X, 0, None, True), booster.predict(X, raw_score=True))
    assert booster.predict(X, 0, 3, False, True).shape == (400, 3)
    weight, score = LABEL + 1, X[:, 1]
    by_place = hb.Dataset(X, LABEL, None, weight, None, score, list("abcd"), [3], {"max_bin": 20})
    assert by_place.feature_name == list("abcd") and by_place.get_params() == {"max_bin": 20}
    np.testing.assert_array_equal(by_place.get_weight(), weight)
    np.testing.assert_array_equal(by_place.get_init_score(), score)
    data = hb.Dataset(X, LABEL)
    assert hb.train(SMALL, data, 2, [data], ["mine"], None, None, True, []).update() is False
    history = hb.cv(SMALL, data, 2, None, 3, False, True, "l1", None, None, None, 7, [], True, True)
    assert {"train l1-mean", "valid l1-mean", "cvbooster"} <= set(history) and len(history["cvbooster"].boosters) == 3


def test_arguments_of_estimators_come_in_lightgbms_order():
    model = hb.HornbeamClassifier(n_estimators=4, **SMALL).fit(X, LABEL)
    number = hb.HornbeamRegressor(n_estimators=4, **SMALL).fit(X, Y)
    for predict in (model.predict, model.predict_proba, number.predict):
        np.testing.assert_array_equal(
            predict(X, True, 1, 2), predict(X, raw_score=True, start_iteration=1, num_iteration=2)
        )
        assert predict(X, False, 0, 3, True).shape == (400, 3)
        with pytest.raises(TypeError, match="by place and by name"):
            predict(X, True, raw_score=True)
        with pytest.raises(TypeError, match="at most 6"):
            predict(X, *[False] * 7)


# --- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"num_leaves": 3, "max_leaf": 9},
        {"max_leaf": 9, "num_leaves": 3},
        {"max_leaves": 3, "max_leaf": 9},
        {"num_leaf": 3, "max_leaf": 9},
        {"max_leaf": 9, "num_leaf": 3},
        {"max_leaf_nodes": 4, "max_leaves": 7, "num_leaf": 6},
    ],
)
def test_of_two_names_of_a_parameter_lightgbms_choice_counts(params, caplog):
    leaves = []
    for library in BOTH:
        given = {name: value for name, value in plain(library).items() if name != "num_leaves"}
        model = library.train({**given, **params, "verbosity": 0}, library.Dataset(X, Y), 1)
        leaves.append(model.dump_model()["tree_info"][0]["num_leaves"])
    assert leaves[0] == leaves[1]
    assert "two names of one parameter (num_leaves)" in caplog.text


def test_names_that_agree_need_no_word(caplog):
    hb.train({**SMALL, "num_leaf": 5, "verbosity": 0}, hb.Dataset(X, Y), 1)
    assert "two names" not in caplog.text


@pytest.mark.parametrize("metric", [None, [], "", [""], ["auc", None], ["None"], "None", "na", ["auc", ""]])
def test_metrics_that_mean_nothing_mean_what_they_do_in_lightgbm(metric):
    seen = []
    for library in BOTH:
        data, record = library.Dataset(X, LABEL), {}
        calls = [library.record_evaluation(record)]
        library.train(plain(library, objective="binary", metric=metric), data, 1, [data], callbacks=calls)
        seen.append({name: list(values) for name, values in record.items()})
    assert seen[0] == seen[1]


def test_early_stopping_of_no_rounds_does_nothing():
    for rounds in (0, -1):
        data, calls = hb.Dataset(X, LABEL), [hb.early_stopping(rounds)]
        assert hb.train(SMALL, data, 3, callbacks=calls).n_iterations == 3
    with pytest.raises(hb.ParameterError, match="stopping_rounds"):
        hb.early_stopping("5")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("early_stopping", (5,)), ("log_evaluation", ()), ("record_evaluation", ({},)), ("reset_parameter", ())],
)
def test_callbacks_have_lightgbms_attributes_and_can_be_pickled(name, arguments):
    rates = {"learning_rate": [0.1, 0.2]} if name == "reset_parameter" else {}
    ours, theirs = (getattr(library, name)(*arguments, **rates) for library in (hb, lightgbm))
    assert (ours.order, ours.before_iteration) == (theirs.order, theirs.before_iteration)
    again = pickle.loads(pickle.dumps(ours))
    assert (again.order, again.before_iteration) == (ours.order, ours.before_iteration)


# --- bins -----------------------------------------------------------------------------------------------------------


def test_features_have_bins_of_their_own_number():
    counts = []
    for library in BOTH:
        data = library.Dataset(X, Y, params={"max_bin_by_feature": [8, 40, 3, 255], "min_data_in_bin": 1}).construct()
        counts.append([data.feature_num_bin(place) for place in range(4)])
    assert counts[1][:3] == [8, 40, 3]
    assert all(abs(ours - theirs) <= 1 for ours, theirs in zip(*counts, strict=True))  # LightGBM has one for zeros
    by_text = hb.Dataset(X, Y, params={"max_bin_by_feature": "8,40,3,255"})
    assert (
        hb.train(SMALL, by_text, 2).fingerprint()
        == hb.train({**SMALL, "max_bin_by_feature": [8, 40, 3, 255]}, hb.Dataset(X, Y), 2).fingerprint()
    )
    for wrong, word in (([8], "4 features"), ([1, 8, 8, 8], "2 to"), ([8.5] * 4, "integers"), (7, "integers")):
        with pytest.raises(hb.HornbeamError, match=word):
            hb.Dataset(X, Y, params={"max_bin_by_feature": wrong}).construct()


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_bounds_that_are_set_are_bounds_of_bins(tmp_path, device):
    path = tmp_path / "bins.json"
    bounds = [{"feature": 0, "bin_upper_bound": [0.3, 0.35, 0.4]}, {"feature": 2, "bin_upper_bound": []}]
    path.write_text(json.dumps(bounds))
    params = {**SMALL, "device": device, "max_bin": 6, "forcedbins_filename": str(path)}
    data = hb.Dataset(X, Y)
    model = hb.train(params, data, 2)
    bounds = data.mapper.upper_bounds
    assert {0.3, 0.35, 0.4} <= set(bounds[0]) and len(bounds[0]) <= 6 and np.all(np.diff(bounds[0]) > 0)
    np.testing.assert_array_equal(bounds[1], hb.Dataset(X, Y, max_bin=6).mapper.upper_bounds[1])
    assert hb.Booster(model_str=model.model_to_string()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "cannot be read"),
        ("[[0]]", "bin_upper_bound"),
        ('[{"feature": "a", "bin_upper_bound": [1]}]', "bin_upper_bound"),
        ('[{"feature": 9, "bin_upper_bound": [1]}]', "names feature 9"),
        ('[{"feature": 0, "bin_upper_bound": ["x"]}]', "finite numbers"),
        ('[{"feature": 0, "bin_upper_bound": [1, 2, 3, 4, 5, 6]}]', "6 bounds"),
    ],
)
def test_bounds_that_cannot_be_are_refused(tmp_path, content, word):
    (tmp_path / "bins.json").write_text(content)
    params = {"forcedbins_filename": tmp_path / "bins.json", "max_bin": 6}
    with pytest.raises(hb.HornbeamError, match=word):
        hb.Dataset(X, Y, params=params).construct()
    with pytest.raises(hb.ParameterError, match="cannot be read"):
        hb.Dataset(X, Y, params={"forcedbins_filename": "no such file"})


# --- metrics --------------------------------------------------------------------------------------------------------

CLASSES = np.clip(np.floor(Y + 2), 0, 3).astype(int)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"metric": "multi_error", "multi_error_top_k": 2}, "multi_error@2"),
        ({"metric": "multi_error", "multi_error_top_k": 1}, "multi_error"),
        ({"metric": "auc_mu"}, "auc_mu"),
        ({"metric": "auc_mu", "auc_mu_weights": [0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 0, 9, 1, 3, 5, 0]}, "auc_mu"),
    ],
)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_metrics_of_classes_are_lightgbms(params, name, device):
    data = hb.Dataset(X, CLASSES)
    ours = hb.train({**SMALL, "objective": "multiclass", "num_class": 4, "device": device, **params}, data, 3, [data])
    theirs = lightgbm.Booster(model_str=_as_lightgbm(ours))
    raw = theirs.predict(X, raw_score=True)
    np.testing.assert_allclose(raw, ours.predict(X, raw_score=True), rtol=1e-9)
    data = lightgbm.Dataset(X, CLASSES, init_score=raw)
    given = {"objective": "multiclass", "num_class": 4, "verbosity": -1, **params}
    measured = lightgbm.Booster(given, data).eval_train()
    assert [(metric, higher) for _, metric, _, higher in measured] == [(name, name == "auc_mu")]
    assert ours.eval_history["training"][name][-1] == pytest.approx(measured[0][2], abs=1e-9)


def _as_lightgbm(model):
    return write_as(model.to_model(), "lightgbm", True).decode()


def test_costs_that_cannot_be_are_refused():
    data = hb.Dataset(X, CLASSES)
    cases = ([1, 2, 3], "squared"), ([0] * 16, "zeros beside"), ([1] * 9, "num_class=4"), ("a,b", "numbers")
    for wrong, word in cases:
        params = {**SMALL, "objective": "multiclass", "num_class": 4, "metric": "auc_mu", "auc_mu_weights": wrong}
        with pytest.raises(hb.ParameterError, match=word):
            hb.train(params, data, 1, [data])


# --- data -----------------------------------------------------------------------------------------------------------


class Rows(hb.Sequence):
    def __init__(self, table, batch_size):
        self.table, self.batch_size, self.asked = table, batch_size, []

    def __getitem__(self, idx):
        self.asked.append(idx)
        return self.table[idx]

    def __len__(self):
        return len(self.table)


class TheirRows(lightgbm.Sequence):
    __init__, __getitem__, __len__ = Rows.__init__, Rows.__getitem__, Rows.__len__


def test_tables_come_in_parts():
    expected = hb.train(SMALL, hb.Dataset(X, Y), 2).fingerprint()
    for parts in (
        [X[:150], X[150:]],
        Rows(X, 64),
        [Rows(X[:100], 7), Rows(X[100:], 1000)],
        TheirRows(X, 50),
        Rows(X, None),
    ):
        assert hb.train(SMALL, hb.Dataset(parts, Y), 2).fingerprint() == expected
    rows = Rows(X, 150)
    hb.Dataset(rows)
    assert rows.asked == [slice(0, 150), slice(150, 300), slice(300, 400)]
    for wrong, word in (
        ([X[:5], X[5:, :2]], "parts of 2 and of 4 columns"),
        (Rows(X[:0], 5), "no rows"),
        (Rows(Y, 5), "dimension"),
    ):
        with pytest.raises(hb.DataError, match=word):
            hb.Dataset(wrong)


def test_text_files_are_data_and_are_predicted(tmp_path):
    path, bare = tmp_path / "train.csv", tmp_path / "bare.csv"
    pd.DataFrame({"y": Y, **{f"f{i}": X[:, i] for i in range(4)}}).to_csv(path, index=False)
    np.savetxt(bare, np.column_stack([Y, X]), delimiter=",", fmt="%.17g")
    header = hb.Dataset(str(path), params={"header": True, "label_column": "name:y"})
    none = hb.Dataset(str(bare), params={"label_column": 0})
    table = hb.Dataset(X, Y)
    models = [hb.train(SMALL, data, 2) for data in (header, none, table)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))
    np.testing.assert_array_equal(models[0].predict(str(path), data_has_header=True), models[0].predict(X))


def test_names_are_compared_unless_that_is_not_wanted():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = hb.train(SMALL, hb.Dataset(frame, Y), 2)
    other = frame.rename(columns={"a": "z"})
    with pytest.raises(hb.DataError, match="'z'"):
        model.predict(other)
    np.testing.assert_array_equal(model.predict(other, validate_features=False), model.predict(frame))


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_a_number_that_is_no_integer_is_an_unseen_level(kind, caplog):
    table = np.column_stack([X[:, 0], RANDOM.integers(0, 4, 400)])
    model = hb.train(SMALL, hb.Dataset(kind(table), Y, categorical_features=[1]), 3)
    unseen, broken = table.copy(), table.copy()
    unseen[:50, 1], broken[:50, 1] = 77, np.where(np.arange(50) % 2, 1.5, np.inf)
    np.testing.assert_array_equal(model.predict(kind(broken)), model.predict(kind(unseen)))
    assert caplog.text.count("no integer") == 1
    with pytest.raises(hb.DataError, match="no integer"):
        hb.Dataset(kind(broken), Y, categorical_features=[1]).construct()


def test_features_in_no_group_stand_alone(caplog):
    params = {**SMALL, "verbosity": 0}
    open_groups = hb.train({**params, "interaction_constraints": [[0, 1]]}, hb.Dataset(X, Y), 5)
    assert caplog.text.count("stands alone") == 1
    spelled_out = hb.train({**params, "interaction_constraints": [[0, 1], [2], [3]]}, hb.Dataset(X, Y), 5)
    np.testing.assert_array_equal(open_groups.predict(X), spelled_out.predict(X))
    assert caplog.text.count("stands alone") == 1


# --- prediction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_rows_that_stop_early_are_lightgbms(objective, caplog):
    label = {"binary": LABEL, "multiclass": CLASSES, "regression": Y}[objective]
    params = {**SMALL, "objective": objective, "learning_rate": 0.5}
    if objective == "multiclass":
        params["num_class"] = 4
    ours = hb.train(params, hb.Dataset(X, label), 23)
    theirs = lightgbm.Booster(model_str=_as_lightgbm(ours))
    for freq, margin in ((5, 1.5), (2, 3.0), (10, 1e9), (50, 0.0)):
        stop = {"pred_early_stop": True, "pred_early_stop_freq": freq, "pred_early_stop_margin": margin}
        mine, other = ours.predict(X, **stop), theirs.predict(X, **stop)
        np.testing.assert_allclose(mine, other, rtol=1e-9)
        if margin > 1e8 or freq == 50:
            np.testing.assert_array_equal(mine, ours.predict(X))
    stop = {"pred_early_stop": True, "pred_early_stop_freq": 2, "pred_early_stop_margin": 0.5}
    assert (ours.predict(X, **stop) == ours.predict(X)).all() == (objective == "regression")
    assert ("pred_early_stop has no effect" in caplog.text) == (objective == "regression")


def test_early_stops_that_cannot_be_are_refused(booster):
    for wrong in ({"pred_early_stop_freq": 0}, {"pred_early_stop_margin": -1.0}, {"pred_early_stop_margin": "a"}):
        with pytest.raises(hb.ParameterError, match="pred_early_stop"):
            booster.predict(X, pred_early_stop=True, **wrong)


# --- cross-validation and messages ----------------------------------------------------------------------------------


def test_folds_are_prepared_by_a_function():
    seen = []

    def shifted(train_set, valid_set, params):
        seen.append((train_set.n_rows, valid_set.n_rows, dict(params)))
        made = hb.Dataset(train_set.get_data(), train_set.get_label() + 10.0)
        return made, hb.Dataset(valid_set.get_data(), valid_set.get_label() + 10.0, made), {**params, "num_leaves": 3}

    params = {**SMALL, "metric": "l2"}
    history = hb.cv(params, hb.Dataset(X, Y), 3, nfold=2, fpreproc=shifted, return_cvbooster=True)
    assert [rows for rows, *_ in seen] == [200, 200] and seen[0][2]["num_leaves"] == 5
    plain_history = hb.cv({**params, "num_leaves": 3}, hb.Dataset(X, Y), 3, nfold=2)
    np.testing.assert_allclose(history["valid l2-mean"], plain_history["valid l2-mean"], rtol=1e-6)
    assert all(model.params["num_leaves"] == 3 for model in history["cvbooster"].boosters)
    with pytest.raises(hb.ParameterError, match="fpreproc must return"):
        hb.cv(params, hb.Dataset(X, Y), 3, nfold=2, fpreproc=lambda *given: given[:2])


def test_messages_go_to_an_object_of_the_users_own():
    class Book:
        def __init__(self):
            self.said, self.warned = [], []

        def note(self, text):
            self.said.append(text)

        def warn(self, text):
            self.warned.append(text)

    log, book = logging.getLogger("hornbeam"), Book()
    before = log.handlers[:], log.propagate
    try:
        hb.register_logger(book, "note", "warn")
        data = hb.Dataset(X, Y)
        hb.train({**SMALL, "verbosity": 1, "top_rate": 0.5}, data, 2, [data], callbacks=[hb.log_evaluation(1)])
        assert [text for text in book.said if "l2" in text] and any("top_rate" in text for text in book.warned)
        with pytest.raises(hb.ParameterError, match="no method 'info'"):
            hb.register_logger(book)
    finally:
        log.handlers[:], log.propagate = before


def test_scripts_import_from_lightgbms_modules():
    from hornbeam.basic import Booster, Dataset, LightGBMError
    from hornbeam.callback import early_stopping
    from hornbeam.engine import cv, train

    from hornbeam import basic
    from hornbeam.sklearn import LGBMClassifier, LGBMModel

    assert (Booster, Dataset, LightGBMError) == (hb.Booster, hb.Dataset, hb.HornbeamError) and hb.basic is basic
    assert (cv, train, early_stopping) == (hb.cv, hb.train, hb.early_stopping)
    assert issubclass(LGBMClassifier, LGBMModel) and hb.LGBMModel is LGBMModel
    with pytest.raises(ImportError, match="no_such_name"):
        from hornbeam.basic import no_such_name  # noqa: F401


def test_an_empty_cvbooster_becomes_what_a_text_holds():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 3))
    data = hb.Dataset(table, label=table[:, 0])
    found = hb.cv({"verbosity": -1}, data, 3, nfold=2, stratified=False, return_cvbooster=True)["cvbooster"]
    read = hb.CVBooster().model_from_string(found.model_to_string())
    assert [one.fingerprint() for one in read.boosters] == [one.fingerprint() for one in found.boosters]


@pytest.mark.parametrize("kind", ["Regressor", "Ranker"])
def test_an_objective_function_of_an_estimator_has_the_metric_of_its_task(kind):
    rng = np.random.default_rng(1)
    table, label = rng.normal(size=(200, 3)), rng.integers(0, 3, 200).astype(float)
    queries = {"group": [20] * 10, "eval_group": [[20] * 10]} if kind == "Ranker" else {}
    found = []
    for library in (lightgbm, hb):
        model = getattr(library, f"LGBM{kind}")(
            n_estimators=3, objective=lambda y, score: (score - y, np.ones_like(y)), verbosity=-1, n_jobs=1
        )
        model.fit(
            table, label, eval_set=[(table, label)], callbacks=[library.early_stopping(2, verbose=False)], **queries
        )
        found.append({name: list(values) for name, values in model.evals_result_.items()})
    assert found[0] == found[1] and any(found[0].values())


def test_importances_of_a_dump_are_those_of_its_iterations():
    rng = np.random.default_rng(2)
    table = rng.normal(size=(300, 4))
    found = []
    for library in (lightgbm, hb):
        data = library.Dataset(table, table[:, 0] + 0.1 * table[:, 1])
        model = library.train({"verbosity": -1, "num_leaves": 4, "num_threads": 1}, data, 10)
        found.append([sum(model.dump_model(n)["feature_importances"].values()) for n in (2, 5, None)])
    assert found[0] == found[1] == [6, 15, 30]


def test_the_training_set_is_known_among_the_sets_though_it_has_weights():
    rng = np.random.default_rng(3)
    table, weight = rng.normal(size=(200, 3)), rng.random(200) + 0.1
    label, other = table[:, 0], np.ones(200)
    for eval_weight in (weight, None, other):
        model = hb.LGBMRegressor(n_estimators=2, verbosity=-1)
        model.fit(table, label, weight, eval_set=[(table, label)], eval_sample_weight=[eval_weight])
        assert list(model.evals_result_) == ["training"]


def test_a_booster_tells_what_scripts_ask_it():
    lightgbm = pytest.importorskip("lightgbm")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": np.arange(60.0), "b": pd.Categorical(["x", "y", "z"] * 20)})
    label = np.arange(60) % 2
    found = {}
    for name, library in (("ours", hb), ("theirs", lightgbm)):
        params = {"objective": "binary", "num_leaves": 7, "learning_rate": 0.2, "verbosity": -1, "num_threads": 1}
        booster = library.train(params, library.Dataset(frame, label), 2)
        found[name] = booster.pandas_categorical, booster.params["num_leaves"], booster.params["learning_rate"]
        assert getattr(booster, "train_set", None) is None
    assert found["ours"] == found["theirs"]
    ours = hb.train({"verbosity": -1}, hb.Dataset(np.arange(60.0)[:, None], label), 1, keep_training_booster=True)
    assert (ours.params["num_leaves"], ours.params["eta"], ours.pandas_categorical) == (31, 0.1, None)
    assert ours.train_set.num_data() == 60 and ours.params["verbose"] == -1
    with pytest.raises(KeyError):
        ours.params["early_stopping_round"]


def test_objective_of_an_estimator_is_the_function_that_was_given():
    def squares(y_true, y_pred):
        return y_pred - y_true, np.ones(len(y_true))

    X, y = np.arange(80.0)[:, None], np.arange(80.0)
    model = hb.LGBMRegressor(objective=squares, n_estimators=2, verbose=-1).fit(X, y)
    assert model.objective_ is squares
    assert hb.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y).objective_ == "regression"


def test_what_is_off_logs_nothing_and_setters_return_the_dataset(caplog):
    caplog.set_level("INFO", "hornbeam")
    train_set = hb.Dataset(np.arange(60.0)[:, None], np.arange(60) % 2)
    valid = hb.Dataset(np.arange(60.0)[:, None], np.arange(60) % 2).set_reference(train_set)
    assert valid.reference is train_set
    hb.train({"verbosity": 1}, train_set, 2, valid_sets=[valid], callbacks=[hb.log_evaluation(period=False)])
    assert "valid_0" not in caplog.text


def test_the_training_set_is_evaluated_first():
    lightgbm = pytest.importorskip("lightgbm")
    X = np.random.default_rng(0).normal(size=(200, 3))
    y, orders = (X[:, 0] > 0).astype(int), []
    for library in (hb, lightgbm):
        data, seen = library.Dataset(X, y), {}
        sets = [library.Dataset(X[:50], y[:50], reference=data), data]
        library.train(
            {"objective": "binary", "verbosity": -1, "num_threads": 1}, data, 2, valid_sets=sets,
            valid_names=["later", "learned"], callbacks=[library.record_evaluation(seen)],
        )  # fmt: skip
        model = library.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1)
        model.fit(X, y, eval_set=[(X[:50], y[:50]), (X, y)])
        orders.append((list(seen), list(model.evals_result_), list(model.best_score_)))
    assert orders[0] == orders[1] and orders[0][0] == ["learned", "later"]
    pairs = hb.DMatrix(X, y)
    seen = {}
    hb.train({"verbosity": 0}, pairs, 1, [(hb.DMatrix(X, y), "a"), (pairs, "b")], evals_result=seen, verbose_eval=False)
    assert list(seen) == ["a", "b"]

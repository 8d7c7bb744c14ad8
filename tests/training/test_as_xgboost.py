"""Trainings on a DMatrix beside XGBoost's own: defaults, numbers, and what is looked at afterwards."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

import hornbeam as hb
from hornbeam.testing.data import make_targets

xgboost = pytest.importorskip("xgboost")

X, NUMBER, Y, CLASSES = make_targets(600)
BOTH = (hb, xgboost)
SPLIT = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.1, "verbosity": 0}


def parts(library):
    noisy = np.where(np.random.default_rng(5).random(600) < 0.2, 1 - Y, Y)
    return library.DMatrix(X[:400], noisy[:400]), library.DMatrix(X[400:], noisy[400:])


def auc(predictions, data):
    return "auc", roc_auc_score(data.get_label(), predictions)


def mape(predictions, data):
    return "mape", float(np.mean(predictions))


@pytest.mark.parametrize("metric", [auc, mape])
def test_a_metric_of_two_is_better_when_it_rises_if_its_name_says_so(metric):
    found = []
    for library in BOTH:
        train, valid = parts(library)
        model = library.train(
            SPLIT, train, 60, evals=[(valid, "eval")], custom_metric=metric, early_stopping_rounds=5, verbose_eval=False
        )
        found.append((model.best_iteration, round(model.best_score, 3)))
        table = library.cv(SPLIT, train, 30, nfold=3, custom_metric=metric, early_stopping_rounds=5, seed=3)
        column = table[f"test-{metric(np.ones(2), hb.DMatrix(X[:2], [0, 1]))[0]}-mean"]
        assert column.iloc[-1] == (column.max() if metric is auc else column.min())
    (ours, score), (theirs, their_score) = found
    assert score == pytest.approx(their_score, abs=0.01)
    assert metric is mape or abs(ours - theirs) <= 3


def test_counts_of_a_heavy_tail_do_not_explode():
    counts = np.round(np.exp(2 + 0.8 * X[:, 0] + np.random.default_rng(0).normal(size=600)))
    ours, theirs = (
        library.train({"objective": "count:poisson", "max_depth": 3}, library.DMatrix(X, counts), 10).predict(
            library.DMatrix(X)
        )
        for library in BOTH
    )
    assert ours.mean() == pytest.approx(theirs.mean(), rel=0.02)
    assert ours.max() == pytest.approx(theirs.max(), rel=0.2)


def test_steps_of_several_classes_are_as_long_as_xgboosts():
    table, label = np.repeat([0.0, 1.0], 200)[:, None], np.r_[np.repeat(0, 200), np.repeat([1, 2, 3], [67, 67, 66])]
    params = {"objective": "multi:softprob", "num_class": 4, "max_depth": 1, "eta": 1.0, "lambda": 0.0}
    params |= {"base_score": 0.5, "min_child_weight": 0.0}
    ours, theirs = (
        library.train(params, library.DMatrix(table, label), 1).predict(library.DMatrix(table)) for library in BOTH
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for kind in ("XGBClassifier", "XGBRFClassifier"):
        ours, theirs = (
            getattr(library, kind)(n_estimators=2, max_depth=1, subsample=1.0, colsample_bynode=1.0, reg_lambda=0.0)
            .fit(table, label)
            .predict_proba(table)
            for library in BOTH
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_leaves_are_the_nodes_of_the_table_and_the_dump():
    for library in BOTH:
        data = library.DMatrix(X, Y)
        model = library.train({**SPLIT, "base_score": 0.5}, data, 4)
        leaves = model.predict(data, pred_leaf=True)
        assert leaves.shape == (600, 4) and leaves.dtype == np.float32
        table = model.trees_to_dataframe()
        values = table[table.Feature == "Leaf"].set_index(["Tree", "Node"]).Gain
        sums = sum(values.loc[[(tree, int(node)) for node in leaves[:, tree]]].to_numpy() for tree in range(4))
        np.testing.assert_allclose(sums, model.predict(data, output_margin=True), atol=1e-6)
    later = hb.train(SPLIT, hb.DMatrix(X, Y), 4)
    leaves = later.predict(X, pred_leaf=True)
    assert np.array_equal(later.predict(X, pred_leaf=True, iteration_range=(1, 3)), leaves[:, 1:3])
    model = hb.XGBClassifier(n_estimators=2, max_depth=2).fit(X, Y)
    assert model.apply(X).min() > 0  # the root is no leaf
    assert hb.train(SPLIT, hb.DMatrix(X, Y), 2)[:0].predict(X, pred_leaf=True).shape == (600, 0)


def test_all_trees_predict_after_early_stopping_in_files_too(tmp_path):
    train, valid = parts(hb)
    model = hb.train({**SPLIT, "eta": 0.8}, train, 60, [(valid, "eval")], early_stopping_rounds=4, verbose_eval=False)
    assert model.n_best < model.n_iterations
    expected = model.predict(valid)
    model.save_model(tmp_path / "model.json")
    model.save(tmp_path / "own.hb")
    for path in (tmp_path / "model.json", tmp_path / "own.hb"):
        for read in (hb.load(path), hb.Booster(model_file=path)):
            assert np.array_equal(read.predict(valid), expected)
            assert read.n_best == model.n_best and read.fingerprint() == model.fingerprint()
            assert read.predict(X, num_iteration=read.n_best).shape == (600,)
    on = hb.train(SPLIT, train, 3, xgb_model=tmp_path / "model.json")
    assert on.n_iterations == model.n_iterations + 3
    theirs = xgboost.Booster(model_file=tmp_path / "model.json")
    theirs.save_model(tmp_path / "theirs.json")
    their_data = parts(xgboost)[1]
    np.testing.assert_allclose(hb.load(tmp_path / "theirs.json").predict(valid), theirs.predict(their_data), atol=1e-6)
    estimator = hb.XGBClassifier(n_estimators=60, learning_rate=0.8, early_stopping_rounds=4)
    estimator.fit(X[:400], train.get_label(), eval_set=[(X[400:], valid.get_label())], verbose=False)
    assert estimator.booster_.n_best < estimator.booster_.n_iterations
    estimator.save_model(tmp_path / "estimator.json")
    again = hb.XGBClassifier()
    again.load_model(tmp_path / "estimator.json")
    assert np.array_equal(again.predict_proba(X), estimator.predict_proba(X))


def test_the_file_says_true_or_false_of_the_trees_that_predict(tmp_path):
    train, valid = parts(hb)
    model = hb.train({**SPLIT, "eta": 0.8}, train, 60, [(valid, "eval")], early_stopping_rounds=4, verbose_eval=False)
    text = model.to_bytes()
    assert b'"stops_at_best":false' in text and b"stops_at_best" not in model[:3].to_bytes()
    with pytest.raises(hb.ModelFormatError, match="stops_at_best"):
        hb.Booster(text.replace(b'"stops_at_best":false', b'"stops_at_best":0'))


@pytest.mark.parametrize("kind", ["XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor"])
def test_estimators_tell_their_objective(kind):
    ours, theirs = (getattr(library, kind)() for library in BOTH)
    assert ours.objective == theirs.objective == ours.get_params()["objective"]
    assert ours.get_xgb_params()["objective"] == theirs.get_xgb_params()["objective"]


def test_parameters_of_an_estimator_train_its_model():
    given = {"n_estimators": 4, "early_stopping_rounds": 2, "learning_rate": 0.5}
    for label, objective, more in ((Y, "binary:logistic", {}), (CLASSES, "multi:softprob", {"num_class": 3})):
        model = hb.XGBClassifier(**given).fit(X, label, eval_set=[(X, label)], verbose=False)
        params = model.get_xgb_params()
        assert params["objective"] == objective
        assert not {"n_estimators", "early_stopping_rounds", "importance_type"} & set(params)
        again = hb.train({**params, **more}, hb.DMatrix(X, label), 4)
        assert [tree.leaf_value.tolist() for tree in again.trees] == [
            tree.leaf_value.tolist() for tree in model.booster_.trees
        ]


def test_epochs_count_from_0_where_a_model_is_trained_on(capsys, tmp_path):
    seen = {}
    for library in BOTH:

        class Watch(library.callback.TrainingCallback):
            epochs = seen.setdefault(library.__name__, [])

            def after_iteration(self, model, epoch, evals_log):
                self.epochs.append(epoch)
                return False

        data = library.DMatrix(X, Y)
        first = library.train(SPLIT, data, 3)
        capsys.readouterr()
        path = tmp_path / library.__name__
        path.mkdir()
        check = library.callback.TrainingCheckPoint(str(path), interval=1)
        library.train(SPLIT, data, 2, evals=[(data, "t")], xgb_model=first, callbacks=[Watch(), check])
        assert [line[:3] for line in capsys.readouterr().out.splitlines()] == ["[0]", "[1]"]
    assert seen["hornbeam"] == seen["xgboost"] == [0, 1]
    assert [file.name for file in (tmp_path / "hornbeam").iterdir()] == ["model_4.ubj"]


def test_the_data_of_a_matrix_are_what_is_there():
    table = np.where(np.arange(X.size).reshape(X.shape) % 5 == 0, np.nan, X)
    frame = pd.DataFrame(table).add_prefix("x")
    for data in (table, frame, sp.csr_matrix(np.nan_to_num(table))):
        ours, theirs = (library.DMatrix(data, enable_categorical=True).get_data() for library in BOTH)
        assert type(ours) is type(theirs) and ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape and (ours != theirs).nnz == 0
    kinds = hb.DMatrix(frame.assign(kind=pd.Categorical(np.where(Y > 0, "b", "a"))), enable_categorical=True)
    assert set(kinds.get_data()[:, X.shape[1]].toarray().ravel()) == {0.0, 1.0}


def test_classes_may_be_told_by_their_number_alone():
    ours, theirs = (library.train({"num_class": 3}, library.DMatrix(X, CLASSES), 5) for library in BOTH)
    assert set(ours.predict(hb.DMatrix(X))) == {0.0, 1.0, 2.0}
    assert np.mean(ours.predict(hb.DMatrix(X)) == theirs.predict(xgboost.DMatrix(X))) > 0.95


def test_a_callback_that_ends_the_training_finds_nothing_best():
    found = []
    for library in BOTH:

        class Ends(library.callback.TrainingCallback):
            def after_iteration(self, model, epoch, evals_log):
                return epoch == 2

        train, valid = parts(library)
        given = {"callbacks": [Ends()], "verbose_eval": False}
        model = library.train(SPLIT, train, 9, evals=[(valid, "eval")], **given)
        with pytest.raises(AttributeError, match="best_iteration"):
            _ = model.best_iteration
        found.append((model.num_boosted_rounds(), model.attributes()))
        if library is hb:  # XGBoost's cv fails here
            assert len(hb.cv(SPLIT, train, 9, nfold=2, callbacks=[Ends()])) == 3
    assert found[0] == found[1] == (3, {})


def test_a_booster_is_made_of_bytes_or_of_another():
    train, valid = parts(hb)
    model = hb.train(SPLIT, train, 3, verbose_eval=False)
    saved, expected = model.save_raw("ubj"), model.predict(valid)
    beside = {"nthread": 1}, [valid]
    for made in (
        hb.Booster(model_file=saved), hb.Booster(*beside, model), hb.Booster(*beside, saved), hb.load(saved),
        hb.load(bytes(saved)),
    ):  # fmt: skip
        assert np.array_equal(made.predict(valid), expected)
    longer = hb.train(SPLIT, train, 2, xgb_model=saved, verbose_eval=False)
    assert longer.num_boosted_rounds() == 5 and np.array_equal(longer.predict(valid, iteration_range=(0, 3)), expected)
    with pytest.raises(hb.ModelFormatError):
        hb.Booster(model_file=bytearray(b"no model"))
    with pytest.raises(hb.ParameterError, match="must be the path of a file") as error:
        hb.load(list(range(10_000)))
    assert len(str(error.value)) < 200


def test_an_estimator_that_is_loaded_knows_its_columns(tmp_path, recwarn):
    frame, path = pd.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])]), tmp_path / "model.json"
    fitted = hb.XGBRegressor(n_estimators=3).fit(frame, NUMBER)
    fitted.save_model(path)
    loaded, bare = hb.XGBRegressor(), hb.XGBRegressor()
    loaded.load_model(path)
    assert np.array_equal(loaded.predict(frame), fitted.predict(frame)) and not recwarn.list
    assert loaded.feature_names_in_.tolist() == frame.columns.tolist()
    hb.XGBRegressor(n_estimators=3).fit(X, NUMBER).save_model(path)
    bare.load_model(path)
    assert not hasattr(bare, "feature_names_in_")


def test_categories_that_are_enabled_need_no_words(caplog):
    frame = pd.DataFrame({"kind": pd.Categorical(np.where(Y > 0, "b", "a")), "x": X[:, 0]})
    with caplog.at_level("INFO", logger="hornbeam"):
        hb.XGBRegressor(n_estimators=2, enable_categorical=True, verbosity=2).fit(frame, NUMBER)
        assert "enable_categorical" not in caplog.text
        hb.XGBRegressor(n_estimators=2, predictor="auto", verbosity=2).fit(frame, NUMBER)
    assert "predictor" in caplog.text


@pytest.mark.parametrize("by", ["rounds", "callback"])
def test_early_stopping_says_nothing_that_was_not_asked_for(by, caplog, capfd):
    train, valid = parts(hb)
    stopping = {"callbacks": [hb.callback.EarlyStopping(3)]} if by == "callback" else {"early_stopping_rounds": 3}
    with caplog.at_level("INFO", logger="hornbeam"):
        model = hb.train({**SPLIT, "eta": 0.8}, train, 60, [(valid, "eval")], verbose_eval=False, **stopping)
    assert 0 < model.best_iteration < 56
    assert not caplog.text and not "".join(capfd.readouterr())


def test_dart_stops_early_as_xgboosts():
    """The Booster predicts by all trees, the estimator by those up to the best, with their weights at the end."""
    params = {"booster": "dart", "rate_drop": 0.2, "eta": 0.8, "max_depth": 3, "nthread": 1}
    for library in (xgboost, hb):
        train, valid = parts(library)
        history = {}
        model = library.train(
            params, train, 80, evals=[(valid, "v")], early_stopping_rounds=4, evals_result=history, verbose_eval=False
        )
        (values,) = history["v"].values()
        assert model.best_iteration == int(np.argmin(values)) and model.num_boosted_rounds() == model.best_iteration + 5
        every = model.predict(valid, iteration_range=(0, model.num_boosted_rounds()))
        np.testing.assert_array_equal(model.predict(valid), every)
        estimator = library.XGBRegressor(
            booster="dart", rate_drop=0.2, learning_rate=0.8, early_stopping_rounds=4, n_jobs=1
        )
        estimator.fit(X[:200], NUMBER[:200], eval_set=[(X[200:], NUMBER[200:])], verbose=False)
        up_to_best = estimator.get_booster().predict(
            library.DMatrix(X), iteration_range=(0, estimator.best_iteration + 1)
        )
        np.testing.assert_allclose(estimator.predict(X), up_to_best, rtol=1e-5, atol=1e-6)
        library.cv(params, train, 30, nfold=2, early_stopping_rounds=3)


def test_a_booster_that_goes_on_keeps_its_best_iteration_and_attributes():
    for library in (xgboost, hb):
        train, valid = parts(library)
        stopped = {"evals": [(valid, "v")], "early_stopping_rounds": 4, "verbose_eval": False}
        first = library.train({**SPLIT, "eta": 0.8}, train, 60, **stopped)
        first.set_attr(author="me")
        longer = library.train({**SPLIT, "eta": 0.8}, train, 3, xgb_model=first)
        assert longer.num_boosted_rounds() == first.num_boosted_rounds() + 3
        assert longer.best_iteration == first.best_iteration and longer.attributes() == first.attributes()
        again = library.train({**SPLIT, "eta": 1e-6}, train, 60, xgb_model=first, **stopped)
        assert int(again.attr("best_iteration")) == again.best_iteration >= first.num_boosted_rounds()

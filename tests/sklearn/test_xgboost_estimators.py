"""Estimators as scripts written for XGBoost use them: files and bytes of models, names of evaluation sets, defaults."""

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.data import make_targets
from hornbeam.testing.peer_names import AS_A_DATASET

xgboost = pytest.importorskip("xgboost")

X, NUMBER, LABEL, CLASSES = make_targets()
SMALL = {"num_leaves": 5, "verbosity": -1, "device": "reference", **AS_A_DATASET}
BINARY = {**SMALL, "objective": "binary:logistic"}


@pytest.mark.parametrize("target", [LABEL.astype(int), CLASSES, NUMBER], ids=["two", "three", "number"])
def test_estimators_are_saved_and_loaded(tmp_path, target):
    kind = hb.HornbeamRegressor if target is NUMBER else hb.HornbeamClassifier
    fitted = kind(n_estimators=3, **SMALL).fit(X, target)
    fitted.save_model(tmp_path / "model.json")
    again = kind()
    again.load_model(str(tmp_path / "model.json"))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.n_features_in_ == 4
    if target is not NUMBER:
        np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_estimators_that_a_model_file_cannot_hold(tmp_path):
    words = hb.HornbeamClassifier(n_estimators=2, **SMALL).fit(X, np.where(LABEL > 0, "yes", "no"))
    with pytest.raises(hb.ParameterError, match="pickle the estimator"):
        words.save_model(tmp_path / "model.json")
    hb.HornbeamRegressor(n_estimators=2, **SMALL).fit(X, NUMBER).save_model(tmp_path / "number.json")
    with pytest.raises(hb.ParameterError, match="no objective of a classifier"):
        hb.HornbeamClassifier().load_model(tmp_path / "number.json")


def test_an_estimator_reads_the_bytes_of_a_model():
    model = hb.train(BINARY, hb.DMatrix(X, LABEL), 3)
    read = hb.XGBClassifier()
    read.load_model(model.save_raw())
    assert np.array_equal(read.predict_proba(X)[:, 1], model.predict(hb.DMatrix(X)))


def test_sets_of_estimators_bear_xgboosts_names():
    seen = {}

    class Seen(hb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            seen.update(evals_log)
            return False

    target = LABEL.astype(int)
    model = hb.XGBClassifier(n_estimators=2, callbacks=[Seen()]).fit(
        X, target, eval_set=[(X, target), (X[:50], target[:50])], verbose=False
    )
    assert list(seen) == list(model.evals_result()) == ["validation_0", "validation_1"]


@pytest.mark.parametrize("library", [xgboost, hb])
def test_few_rows_are_learned_by_heart(library):
    x = np.arange(10.0)[:, None]
    model = library.XGBRegressor(n_estimators=50, n_jobs=1).fit(x, x[:, 0] ** 2)
    assert np.round(model.predict(x)).tolist() == (x[:, 0] ** 2).tolist()


@pytest.mark.parametrize("kind", ["XGBRFClassifier", "XGBRFRegressor"])
def test_a_forest_is_one_iteration_of_as_many_trees(kind):
    ours, theirs = (getattr(library, kind)(n_estimators=7).get_xgb_params() for library in (hb, xgboost))
    assert ours["num_parallel_tree"] == theirs["num_parallel_tree"] == 7

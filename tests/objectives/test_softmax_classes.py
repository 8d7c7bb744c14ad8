"""XGBoost's multi:softmax: a model that predicts classes."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import ModelFormatError
from hornbeam.objectives import objective_from_dict

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 4))
Y = np.digitize(X[:, 0] + 0.5 * X[:, 1] * X[:, 2], [-0.5, 0.5]).astype(np.float64)
PARAMS = {"num_class": 3, "verbosity": -1, "num_leaves": 7, "seed": 1}


def train(objective, **params):
    return hb.train({**PARAMS, **params, "objective": objective}, hb.Dataset(X, label=Y), 5)


@pytest.fixture(scope="module")
def softmax():
    return train("multi:softmax")


def test_classes_are_those_of_the_highest_probability(softmax):
    of_probabilities = train("multi:softprob")
    probabilities = of_probabilities.predict(X)
    assert probabilities.shape == (600, 3)
    classes = softmax.predict(X)
    assert classes.shape == (600,) and classes.dtype == np.float64
    assert (classes == probabilities.argmax(axis=1)).all()
    assert (softmax.predict(X, raw_score=True) == of_probabilities.predict(X, raw_score=True)).all()
    assert (softmax.inplace_predict(X) == classes).all()
    assert (softmax.predict(X, base_margin=np.tile([0.0, 0.0, 99.0], (600, 1))) == 2.0).all()
    assert [stage.shape for stage in softmax.staged_predict(X)] == [(600,)] * 5
    assert softmax.fingerprint() != of_probabilities.fingerprint()


def test_equal_scores_make_the_first_class():
    booster = hb.train({**PARAMS, "objective": "multi:softmax"}, hb.Dataset(X, label=np.arange(600) % 3), 0)
    assert (booster.predict(X) == 0.0).all()


def test_metrics_see_probabilities():
    found, expected = {}, {}
    for objective, history in (("multi:softmax", found), ("multi:softprob", expected)):
        data = hb.DMatrix(X, Y)
        given = {**PARAMS, "objective": objective, "eval_metric": ["mlogloss", "merror"]}
        model = hb.train(given, data, 5, evals=[(data, "train")], evals_result=history, verbose_eval=False)
        if objective == "multi:softmax":
            wrong = np.mean(model.predict(X) != Y)
    assert found == expected and len(found["train"]["mlogloss"]) == 5
    assert wrong == pytest.approx(found["train"]["merror"][-1])


def test_a_file_keeps_what_is_predicted(softmax, tmp_path):
    path = tmp_path / "model.json"
    softmax.save(path)
    loaded = hb.load(path)
    assert loaded.fingerprint() == softmax.fingerprint()
    assert (loaded.predict(X) == softmax.predict(X)).all()
    more = hb.train({**PARAMS, "objective": "multi:softmax"}, hb.Dataset(X, label=Y), 2, init_model=loaded)
    assert more.predict(X).shape == (600,)


def test_files_of_xgboost_hold_it_both_ways(softmax, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    softmax.save(tmp_path / "ours.json", format="xgboost-json")
    peer = xgboost.Booster(model_file=str(tmp_path / "ours.json"))
    assert (peer.predict(xgboost.DMatrix(X)) == softmax.predict(X)).all()
    theirs = xgboost.train({"objective": "multi:softmax", "num_class": 3}, xgboost.DMatrix(X, Y), 4)
    theirs.save_model(str(tmp_path / "theirs.json"))
    read = hb.load(tmp_path / "theirs.json")
    assert (read.predict(X) == theirs.predict(xgboost.DMatrix(X))).all()


def test_a_script_for_xgboost_predicts_as_well_as_there():
    xgboost = pytest.importorskip("xgboost")
    params = {"objective": "multi:softmax", "num_class": 3, "max_depth": 3, "eta": 0.3, "verbosity": 0}
    wrong = []
    for library in (hb, xgboost):
        booster = library.train(params, library.DMatrix(X[:400], Y[:400]), 20)
        classes = booster.predict(library.DMatrix(X[400:]))
        assert classes.shape == (200,) and set(np.unique(classes)) <= {0.0, 1.0, 2.0}
        wrong.append(np.mean(classes != Y[400:]))
    assert wrong[0] <= wrong[1] + 0.03


def test_other_formats_say_that_they_predict_probabilities(softmax, tmp_path, caplog):
    softmax.save(tmp_path / "model.txt", format="lightgbm")
    assert "predict_classes" in caplog.text
    assert hb.load(tmp_path / "model.txt").predict(X).shape == (600, 3)


def test_bad_model_files_are_refused():
    with pytest.raises(ModelFormatError, match="predicts_classes"):
        objective_from_dict({"name": "multiclass", "num_class": 3, "predicts_classes": False})

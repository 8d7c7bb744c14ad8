"""XGBoost's binary:logitraw: a model of probabilities that predicts scores."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.objectives import objective_from_dict

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 4)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.float64)
PARAMS = {"verbosity": 0, "max_depth": 3, "eta": 0.3, "base_score": 0.5}


def train(objective, library=hb, label=Y, **params):
    data = library.DMatrix(X, label)
    found = {}
    given = {**PARAMS, "objective": objective, **params}
    model = library.train(given, data, 5, evals=[(data, "train")], evals_result=found, verbose_eval=False)
    return model, found


@pytest.fixture(scope="module")
def raw():
    return train("binary:logitraw", base_score=None)


def test_scores_are_predicted_and_the_trees_are_those_of_binary(raw):
    model, found = raw
    usual, expected = train("binary:logistic", base_score=None)
    scores = usual.predict(X, output_margin=True)
    for predicted in (model.predict(X), model.predict(X, output_margin=True), model.inplace_predict(X)):
        assert np.array_equal(predicted, scores)
    assert np.array_equal(list(model.staged_predict(X))[-1], scores)
    assert found == expected and list(found["train"]) == ["logloss"]  # metrics see probabilities
    assert model.predict(X, pred_leaf=True).shape == (600, 5)
    assert model.fingerprint() != usual.fingerprint()


def test_files_pickles_and_copies_predict_scores_too(raw, tmp_path):
    model, _ = raw
    model.save(tmp_path / "model.json")
    for again in (hb.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model)), model[:5]):
        assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ModelFormatError, match="predicts_scores"):
        objective_from_dict({"name": "binary", "sigmoid": 1.0, "predicts_scores": False})


def test_predictions_are_near_those_of_xgboost():
    peer = pytest.importorskip("xgboost")
    (_, found), (theirs, expected) = (train("binary:logitraw", one, base_score=0.25) for one in (hb, peer))
    data = peer.DMatrix(X)
    share = 1.0 / (1.0 + np.exp(-theirs.predict(data).astype(np.float64)))  # its own logloss is that of scores
    loss = -np.mean(Y * np.log(share) + (1.0 - Y) * np.log(1.0 - share))
    assert found["train"]["logloss"][-1] == pytest.approx(loss, rel=0.05)  # bins differ
    starts = [train("binary:logitraw", one, base_score=0.25, eta=1e-9)[0] for one in (hb, peer)]
    assert starts[0].predict(X) == pytest.approx(starts[1].predict(data), abs=1e-6)
    assert list(found["train"]) == list(expected["train"])
    written = hb.Booster.from_bytes(bytes(theirs.save_raw("json")))
    assert written.predict(X) == pytest.approx(theirs.predict(data), abs=1e-5)
    assert written.objective.name == "binary"


def test_xgboost_reads_what_is_written(raw, tmp_path):
    peer = pytest.importorskip("xgboost")
    model, _ = raw
    model.save(tmp_path / "model.json", format="xgboost-json")
    theirs = peer.Booster(model_file=tmp_path / "model.json")
    assert theirs.predict(peer.DMatrix(X)) == pytest.approx(model.predict(X), abs=1e-5)


def test_labels_of_several_columns():
    labels = np.column_stack((Y, 1 - Y))
    model, _ = train("binary:logitraw", label=labels)
    assert np.array_equal(model.predict(X), model.predict(X, output_margin=True))
    assert model.predict(X).shape == (600, 2)


def test_a_classifier_predicts_classes_and_probabilities():
    model = hb.XGBClassifier(objective="binary:logitraw", n_estimators=3).fit(X, Y)
    usual = hb.XGBClassifier(n_estimators=3).fit(X, Y)
    assert np.array_equal(model.predict_proba(X), usual.predict_proba(X))
    assert np.array_equal(model.predict(X), usual.predict(X))
    with pytest.raises(ParameterError, match="predict_scores=True: predict of a classifier returns classes"):
        hb.HornbeamClassifier(predict_scores=True).fit(X, Y)

"""Hinge loss, XGBoost's binary:hinge: its start and derivatives, classes as predictions, the peer's models."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import ConversionError, DataError, ParameterError
from hornbeam.objectives import HingeObjective
from hornbeam.testing.checks import usable_devices

rng = np.random.default_rng(0)
X = rng.normal(size=(800, 4)).astype(np.float32)
SIGNAL = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=800)
RARE, FREQUENT = (np.greater(SIGNAL, cut).astype(np.float64) for cut in (1.0, 0.3))
QUIET = {"verbosity": -1, "objective": "hinge", "learning_rate": 0.5, "num_leaves": 7}
XGBOOST = {"verbosity": 0, "objective": "binary:hinge", "max_depth": 3, "eta": 0.3, "tree_method": "exact"}


def test_derivatives_are_those_of_rows_within_the_margin():
    scores = np.array([[-1.5, -1.0, -0.5, 0.0, 1.0, 2.0, -2.0, 0.0, 0.5, 1.0, 1.5]])
    label = np.array([0.0] * 6 + [1.0] * 5)
    gradient, hessian = HingeObjective().gradients(scores, label, None)
    assert gradient[0].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0, 0.0]
    assert (hessian == np.abs(gradient)).all()
    weight = rng.exponential(size=11)
    weighted = HingeObjective().gradients(scores, label, weight)
    assert (weighted[0] == gradient * weight).all() and (weighted[1] == hessian * weight).all()


def test_start_is_the_class_of_most_rows():
    objective = HingeObjective()
    assert [objective.init_scores(label, None)[0] for label in (RARE, FREQUENT)] == [0.0, 1.0]
    assert objective.init_scores(RARE, 1.0 + 9.0 * RARE)[0] == 1.0
    assert objective.init_scores(np.array([0.0, 1.0]), None)[0] == 0.0
    assert HingeObjective(False).init_scores(FREQUENT, None)[0] == 0.0
    model = hb.train({**QUIET, "base_score": 0.3}, hb.Dataset(X, label=RARE), 1)
    assert model.init_scores.tolist() == [0.3]  # a score, as XGBoost's


@pytest.mark.parametrize("label", [RARE, FREQUENT], ids=["rare", "frequent"])
def test_models_of_all_devices_are_one_and_predict_classes(label):
    models, weight = [], np.random.default_rng(1).exponential(size=800) + 0.1
    for device in usable_devices():
        found: dict[str, dict[str, list[float]]] = {}
        data = hb.Dataset(X, label=label, weight=weight)
        model = hb.train(
            {**QUIET, "device": device, "metric": "binary_error,auc"}, data, 20,
            {"own": data}, callbacks=[hb.record_evaluation(found)],
        )  # fmt: skip
        models.append(model.fingerprint())
        predicted = model.predict(X, device=device)
        assert (predicted == (model.predict(X, raw_score=True) > 0.0)).all() and set(predicted) == {0.0, 1.0}
        wrong = np.average(predicted != label, weights=weight)
        assert found["own"]["binary_error"][-1] == pytest.approx(wrong, rel=1e-12) and wrong < 0.12
    assert len(set(models)) == 1


def test_a_training_goes_on_where_every_row_is_beyond_the_margin():
    x = np.repeat([-1.0, 1.0], 100)
    label = np.asarray(x > 0.0, np.float64)
    model = hb.train({**QUIET, "learning_rate": 1.0, "min_data_in_leaf": 1}, hb.Dataset(x[:, None], label=label), 10)
    assert (model.predict(x[:, None]) == label).all() and np.isfinite(model.predict(x[:, None], raw_score=True)).all()
    lone = hb.train({**QUIET, "min_sum_hessian_in_leaf": 0.0}, hb.Dataset(x[:, None], label=np.ones(200)), 3)
    assert (lone.predict(x[:, None]) == 1.0).all()


def test_columns_of_labels_are_models_of_their_own():
    both = hb.train(QUIET, hb.Dataset(X, label=np.column_stack((RARE, FREQUENT))), 5).predict(X)
    for k, label in enumerate((RARE, FREQUENT)):
        assert (both[:, k] == hb.train(QUIET, hb.Dataset(X, label=label), 5).predict(X)).all()


@pytest.mark.parametrize("label", [RARE, FREQUENT], ids=["rare", "frequent"])
def test_models_are_near_those_of_xgboost(label):
    peer = pytest.importorskip("xgboost")
    errors, starts, lone = [], [], []
    for library in (hb, peer):
        data, found = library.DMatrix(X, label), {}
        model = library.train(XGBOOST, data, 15, evals=[(data, "train")], evals_result=found, verbose_eval=False)
        assert list(found["train"]) == ["error"]
        errors.append(found["train"]["error"])
        starts.append(model.predict(data, output_margin=True, iteration_range=(0, 1)))
        lone.append(np.unique(starts[-1]).size)
        assert set(np.unique(model.predict(data))) == {0.0, 1.0}
    assert errors[0][-1] == pytest.approx(errors[1][-1], abs=0.015) and errors[1][-1] < 0.13
    assert errors[0][:2] == pytest.approx(errors[1][:2], abs=0.01) and lone[0] == lone[1]
    assert starts[0].mean() == pytest.approx(starts[1].mean(), abs=0.01)


def test_scale_pos_weight_has_no_effect_as_in_xgboost(caplog):
    peer = pytest.importorskip("xgboost")
    for library in (hb, peer):
        plain, scaled = (
            library.train({**XGBOOST, **more}, library.DMatrix(X, RARE), 3).predict(library.DMatrix(X))
            for more in ({}, {"scale_pos_weight": 5.0})
        )
        assert (plain == scaled).all()
    with caplog.at_level("WARNING", logger="hornbeam"):
        hb.train({**QUIET, "scale_pos_weight": 5.0, "verbosity": 0}, hb.Dataset(X, label=RARE), 1)
    assert "scale_pos_weight has no effect" in caplog.text


def test_files_pickles_and_xgboost_have_the_same_classes(tmp_path):
    model = hb.train(QUIET, hb.Dataset(X, label=RARE), 5)
    model.save(tmp_path / "own.json")
    for again in (hb.load(tmp_path / "own.json"), pickle.loads(pickle.dumps(model))):
        assert (again.predict(X) == model.predict(X)).all()
    for name in ("lightgbm", "treelite"):
        with pytest.raises(ConversionError, match="1 where the score is above 0"):
            model.save(tmp_path / "none", format=name, approximate=True)
        assert not (tmp_path / "none").exists()
    peer = pytest.importorskip("xgboost")
    model.save(tmp_path / "model.json", format="xgboost-json")
    theirs = peer.Booster(model_file=tmp_path / "model.json")
    far = np.abs(model.predict(X, raw_score=True)) > 1e-5  # scores are float32 there
    assert (theirs.predict(peer.DMatrix(X)) == model.predict(X))[far].all() and far.mean() > 0.9
    assert hb.load(tmp_path / "model.json").objective == HingeObjective()


def test_classifiers_predict_as_xgboosts():
    peer = pytest.importorskip("xgboost")
    given = {"objective": "binary:hinge", "n_estimators": 10, "max_depth": 3, "tree_method": "exact"}
    ours, theirs = (library.XGBClassifier(**given).fit(X, RARE) for library in (hb, peer))
    for model in (ours, theirs):
        shares = model.predict_proba(X)
        assert shares.shape == (800, 2) and (shares[:, 0] == 1.0 - shares[:, 1]).all()
        assert set(np.unique(shares)) == {0.0, 1.0} and (model.predict(X) == shares[:, 1]).all()
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.98
    words = np.where(RARE > 0.0, "yes", "no")
    named = hb.HornbeamClassifier(objective="hinge", n_estimators=30).fit(X, words)
    assert named.score(X, words) > 0.9 and set(named.predict(X)) == {"yes", "no"}
    with pytest.raises(ParameterError, match="'hinge': must be multiclass or multiclassova for 3 classes"):
        hb.HornbeamClassifier(objective="hinge").fit(X, np.digitize(SIGNAL, [0.0, 1.0]))


def test_labels_that_are_no_classes_are_refused():
    with pytest.raises(DataError, match=r"objective 'hinge' takes labels 0 and 1, but label\[0\]"):
        hb.train(QUIET, hb.Dataset(X, label=SIGNAL), 1)

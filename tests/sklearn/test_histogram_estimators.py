"""The estimators by scikit-learn's names: `from hornbeam import HistGradientBoostingRegressor`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from sklearn import ensemble
from sklearn.base import clone
from sklearn.inspection import partial_dependence
from sklearn.metrics import log_loss, mean_poisson_deviance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam as hb

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10_500, 5))
Y = X[:, 0] + X[:, 1] ** 2 + RNG.normal(size=len(X))
KINDS = ("HistGradientBoostingRegressor", "HistGradientBoostingClassifier")


@pytest.mark.parametrize("kind", KINDS)
def test_training_stops_early_where_scikit_learns_does(kind):
    y = Y if kind.endswith("Regressor") else Y > 0
    for library in (ensemble, hb):
        many = getattr(library, kind)(max_iter=200, learning_rate=0.5, random_state=0).fit(X, y)
        assert many.do_early_stopping_ and many.n_iter_ < 100, library
        few = getattr(library, kind)(max_iter=25).fit(X[:2_000], y[:2_000])
        assert not few.do_early_stopping_ and few.n_iter_ == 25, library
        assert not getattr(library, kind)(max_iter=3, early_stopping=False).fit(X, y).do_early_stopping_, library


@pytest.mark.parametrize("kind", KINDS)
def test_searches_find_its_step_by_its_name(kind):
    y = Y[:1_000] if kind.endswith("Regressor") else Y[:1_000] > 0
    grid = {f"{kind.lower()}__max_iter": [5, 20], f"{kind.lower()}__max_leaf_nodes": [3, 15]}
    best = [
        GridSearchCV(make_pipeline(StandardScaler(), getattr(library, kind)()), grid, cv=3).fit(X[:1_000], y)
        for library in (ensemble, hb)
    ]
    assert best[0].best_params_ == best[1].best_params_
    assert best[0].best_score_ == pytest.approx(best[1].best_score_, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_said_is_as_in_our_estimators(kind):
    y = Y[:500] if kind.endswith("Regressor") else Y[:500] > 0
    ours = getattr(hb, kind.replace("HistGradientBoosting", "Hornbeam"))(max_iter=7).fit(X[:500], y)
    model = getattr(hb, kind)(max_iter=7)
    assert repr(clone(model)) == repr(model) == f"{kind}(early_stopping='auto', max_iter=7)"
    for same in (model.fit(X[:500], y), clone(model).fit(X[:500], y), pickle.loads(pickle.dumps(model))):
        assert same.booster_.fingerprint() == ours.booster_.fingerprint()
        assert (same.max_iter, same.early_stopping) == (7, "auto")
    assert model.set_params(early_stopping=False, max_iter=9).get_params()["early_stopping"] is False
    assert getattr(hb, kind)().get_params()["early_stopping"] == "auto"  # what was set is not the class's


@pytest.mark.parametrize("features", [[0], [(0, 1)]])
def test_dependence_goes_by_branches_as_scikit_learns_does(features):
    for kind, y in zip(KINDS, (Y[:3_000], Y[:3_000] > 0.5), strict=True):
        models = [getattr(library, kind)(max_iter=30).fit(X[:3_000], y) for library in (ensemble, hb)]
        assert sklearn.base.is_classifier(models[1]) == kind.endswith("Classifier")
        theirs, ours = (
            partial_dependence(model, X[:3_000], features, grid_resolution=6)["average"] for model in models
        )
        np.testing.assert_allclose(ours, theirs, atol=0.12 * np.ptp(theirs))
        asked = partial_dependence(models[1], X[:3_000], features, grid_resolution=6, method="recursion")["average"]
        np.testing.assert_array_equal(ours, asked)


def test_ours_alone_are_asked_by_brute_force():
    model = hb.HornbeamRegressor(max_iter=5).fit(X[:500], Y[:500])
    with pytest.raises(ValueError, match="Try using method='brute'"):
        partial_dependence(model, X[:500], [0], method="recursion")


def test_steps_are_those_of_scikit_learn():
    """Counts and classes, whose hessians LightGBM multiplies, are learned as fast as by scikit-learn."""
    rates = np.exp(Y[:3_000] / 4)
    classes = np.digitize(Y[:3_000], [-0.5, 0.5, 2.0])
    for kind, y, given in (
        (KINDS[0], rates, {"loss": "poisson"}),
        (KINDS[1], classes, {}),
    ):
        loss = mean_poisson_deviance if y is rates else log_loss
        losses = {}
        for name, library, more in (
            ("theirs", ensemble, {}),
            ("ours", hb, {}),
            ("as LightGBM", hb, {"poisson_max_delta_step": 0.7, "multiclass_hessian_factor": 0.0}),
        ):
            model = getattr(library, kind)(max_iter=10, **given, **more).fit(X[:3_000], y)
            losses[name] = loss(y, model.predict(X[:3_000]) if y is rates else model.predict_proba(X[:3_000]))
        assert losses["ours"] == pytest.approx(losses["theirs"], rel=0.02)
        assert losses["as LightGBM"] > 1.05 * losses["theirs"]

"""Estimators as searches and pipelines of scikit-learn use them: other names of parameters, Ctrl-C, routed data."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam as hb
import hornbeam.explain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = (X[:, 0] + 0.5 * RNG.normal(size=300) > 0).astype(int)


def test_a_searched_parameter_replaces_its_other_names():
    model = hb.HornbeamClassifier(max_iter=50, min_samples_leaf=5, verbosity=-1)
    found = GridSearchCV(model, {"n_estimators": [1, 30], "min_child_samples": [3, 100]}, cv=3).fit(X, Y)
    assert len(set(found.cv_results_["mean_test_score"])) > 1
    assert found.best_estimator_.booster_.n_iterations == found.best_params_["n_estimators"]
    model.set_params(n_estimators=5)
    assert model.fit(X, Y).booster_.n_iterations == 5
    assert "max_iter" not in clone(model).get_params()
    model.set_params(max_iter=3, learning_rate=0.5)
    assert clone(model).fit(X, Y).booster_.n_iterations == 3


class Interrupt:
    """Presses Ctrl-C after some iterations."""

    def __init__(self, iteration):
        self.iteration = iteration

    def __call__(self, env):
        if env.iteration == self.iteration:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_the_iterations_so_far_and_is_passed_on():
    """A search stops, as with every other estimator; whoever catches it has the model so far."""
    model = hb.HornbeamClassifier(n_estimators=50, verbosity=-1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, callbacks=[Interrupt(4)])
    assert model.booster_.interrupted
    assert model.booster_.n_iterations == 5
    assert model.predict(X).shape == (300,)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(model, X, Y, cv=3, params={"callbacks": [Interrupt(4)]})
    with pytest.raises(KeyboardInterrupt):
        hb.HornbeamRanker(n_estimators=9, verbosity=-1).fit(X, Y, group=[100, 200], callbacks=[Interrupt(2)])


def test_validation_data_are_routed_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        model = hb.HornbeamClassifier(early_stopping=True, max_iter=20, verbosity=-1)
        model.set_fit_request(X_val=True, y_val=True)
        steps = Pipeline([("scale", StandardScaler()), ("model", model)], transform_input=["X_val"])
        steps.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:])
    plain = hb.HornbeamClassifier(early_stopping=True, max_iter=20, verbosity=-1)
    scaler = StandardScaler().fit(X[:200])
    plain.fit(scaler.transform(X[:200]), Y[:200], X_val=scaler.transform(X[200:]), y_val=Y[200:])
    assert steps[-1].booster_.fingerprint() == plain.booster_.fingerprint()


def test_explanations_bear_the_names_of_classes():
    names = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = hb.HornbeamClassifier(n_estimators=3, verbosity=-1).fit(X, names)
    assert list(model.explain(X[:5]).output_names) == ["high", "low", "middle"]
    importance = hb.explain.permutation_importance(model, X, names, repeats=1)
    coded = hb.explain.permutation_importance(model, X, np.searchsorted(model.classes_, names), repeats=1)
    assert np.array_equal(importance.importances, coded.importances)
    plt.close("all")  # those of other tests
    for drawn, name in (
        (hb.plot_beeswarm(model, X, output="low", style="own"), "low"),
        (hb.plot_waterfall(model, X, output=2, style="own"), "middle"),
    ):
        assert drawn.get_title().endswith(f"class {name}")
        plt.close(drawn.figure)
    with pytest.raises(hb.ParameterError, match="output"):
        hb.plot_beeswarm(model, X, output="lower", style="own")

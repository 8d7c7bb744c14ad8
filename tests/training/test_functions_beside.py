"""Objective functions beside a named objective, as XGBoost's users write them: that one makes predictions of scores."""

import pickle

import numpy as np
import pytest

import hornbeam as hb

xgboost = pytest.importorskip("xgboost")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 4))
NUMBER = X[:, 0] + X[:, 1] * X[:, 2]
LABELS = {"binary": (NUMBER > 0).astype(int), "classes": np.digitize(NUMBER, [-0.5, 0.5])}
PLAIN = {"max_depth": 2, "nthread": 1, "tree_method": "exact", "verbosity": 0}
CASES = [
    ({}, "binary"),
    ({"objective": "binary:logistic"}, "binary"),
    ({"objective": "binary:logistic", "eval_metric": ["error", "auc"]}, "binary"),
    ({"objective": "reg:logistic"}, "binary"),
    ({"objective": "binary:logitraw", "eval_metric": "auc"}, "binary"),
    ({"objective": "binary:hinge"}, "binary"),
    ({"objective": "count:poisson"}, "binary"),
    ({"objective": "reg:quantileerror", "quantile_alpha": 0.3}, "binary"),
    ({"num_class": 3}, "classes"),
    ({"objective": "multi:softprob", "num_class": 3}, "classes"),
    ({"objective": "multi:softmax", "num_class": 3, "eval_metric": "merror"}, "classes"),
]


def function_of(label):
    def logistic(scores, data):
        chance = 1.0 / (1.0 + np.exp(-scores))
        return chance - label, np.full(len(scores), 0.25)

    def softmax(scores, data):
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True) - np.eye(3)[label], np.full(scores.shape, 0.4)

    return softmax if label.max() > 1 else logistic


def trained(library, given, label):
    """Return a model, its data, its evaluations, and the shape of what a metric function saw."""
    seen, history = [], {}

    def metric(scores, data):
        seen.append(scores.shape)
        return "own", 0.0

    data = library.DMatrix(X, label)
    model = library.train(
        {**PLAIN, **given}, data, 3, obj=function_of(label), evals=[(data, "eval")], evals_result=history,
        verbose_eval=False, custom_metric=metric,
    )  # fmt: skip
    return model, data, {name: each[-1] for name, each in history["eval"].items()}, seen[-1]


@pytest.mark.parametrize(("given", "kind"), CASES)
def test_predictions_and_metrics_are_those_of_the_named_objective(given, kind, tmp_path, caplog):
    """Of the model, of its file and of its pickle; functions of the user's own see scores."""
    found = []
    for library in (xgboost, hb):
        model, data, values, shape = trained(library, given, LABELS[kind])
        predicted = model.predict(data)
        model.save_model(tmp_path / "model.json")
        for made in (library.Booster(model_file=tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_allclose(made.predict(data), predicted, rtol=1e-6)
        evaluated = [one.split(":") for one in model.eval(data).split("\teval-")[1:]]
        del values["own"]
        assert {name: float(value) for name, value in evaluated} == pytest.approx(values, rel=1e-5)
        found.append((predicted, model.predict(data, output_margin=True), values, shape))
    (theirs, their_scores, their_values, their_shape), (ours, scores, values, shape) = found
    assert ours.shape == theirs.shape and shape == their_shape and list(values) == list(their_values)
    np.testing.assert_allclose(scores, their_scores, atol=1e-4)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert values == pytest.approx(their_values, rel=1e-3)
    assert not caplog.text


def test_single_iterations_by_a_function_leave_the_predictions_to_the_objective():
    found = []
    for library in (xgboost, hb):
        data = library.DMatrix(X, LABELS["binary"])
        model = library.Booster({**PLAIN, "objective": "binary:logistic"}, [data])
        for place in range(3):
            model.update(data, place, function_of(LABELS["binary"]))
        found.append(model.predict(data))
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)


def test_a_function_alone_leaves_scores_as_they_are():
    """Without a DMatrix, as in LightGBM."""
    data = hb.Dataset(X, LABELS["binary"])
    model = hb.train({"objective": function_of(LABELS["binary"]), "verbosity": -1}, data, 3)
    assert model.objective.name == "custom" and model.predict(X).min() < 0

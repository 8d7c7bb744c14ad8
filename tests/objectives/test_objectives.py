"""Objectives: derivatives, starting points, link functions, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit, softmax

from hornbeam.core.errors import DataError, ModelFormatError, ParameterError
from hornbeam.objectives import (
    BinaryObjective,
    CustomObjective,
    MulticlassObjective,
    RegressionObjective,
    get_objective,
    objective_from_dict,
)
from hornbeam.params.params import Params


def loss(objective, scores, label):
    """The loss itself, written independently of the library."""
    if objective.name == "regression":
        return 0.5 * (scores[0] - label) ** 2
    if objective.name == "binary":
        margin = np.where(label > 0, 1.0, -1.0) * objective.sigmoid * scores[0]
        return np.logaddexp(0.0, -margin)
    top = scores.max(axis=0)
    total = top + np.log(np.exp(scores - top).sum(axis=0))
    return total - scores[label.astype(int), np.arange(len(label))]


CASES = [RegressionObjective(), BinaryObjective(), BinaryObjective(2.5), MulticlassObjective(2), MulticlassObjective(4)]


@pytest.fixture(params=CASES, ids=repr)
def case(request):
    objective = request.param
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(objective.n_outputs, 300)) * 2.0
    label = rng.integers(0, max(2, objective.n_outputs), 300).astype(np.float64)
    if objective.name == "regression":
        label = label + rng.normal(size=300)
    return objective, scores, label, rng.exponential(size=300)


def test_gradient_and_hessian_match_finite_differences(case):
    objective, scores, label, _ = case
    gradient, hessian = objective.gradients(scores, label, None)
    factor = objective.hessian_factor if objective.name == "multiclass" else 1.0
    step = 1e-4
    for k in range(objective.n_outputs):
        up, down = scores.copy(), scores.copy()
        up[k] += step
        down[k] -= step
        high, low, middle = (loss(objective, s, label) for s in (up, down, scores))
        assert np.allclose(gradient[k], (high - low) / (2 * step), atol=1e-6)
        assert np.allclose(hessian[k], factor * (high - 2 * middle + low) / step**2, atol=1e-5)


def test_weights_multiply_gradient_and_hessian(case):
    objective, scores, label, weight = case
    gradient, hessian = objective.gradients(scores, label, None)
    weighted = objective.gradients(scores, label, weight)
    assert (weighted[0] == gradient * weight).all()
    assert (weighted[1] == hessian * weight).all()
    ones = objective.gradients(scores, label, np.ones(300))
    assert (ones[0] == gradient).all() and (ones[1] == hessian).all()


def test_init_scores_do_not_depend_on_row_order(case):
    objective, _, label, weight = case
    order = np.random.default_rng(1).permutation(len(label))
    assert (objective.init_scores(label, None) == objective.init_scores(label[order], None)).all()
    assert (objective.init_scores(label, weight) == objective.init_scores(label[order], weight[order])).all()


def test_init_scores_are_a_stationary_point(case):
    objective, _, label, weight = case
    for w in (None, weight):
        start = objective.init_scores(label, w)
        assert start.shape == (objective.n_outputs,) and start.dtype == np.float64
        gradient, _ = objective.gradients(np.repeat(start[:, None], len(label), axis=1), label, w)
        assert np.max(np.abs(gradient.sum(axis=1))) < 1e-9


def test_inputs_are_not_changed(case):
    objective, scores, label, weight = case
    before = scores.copy(), label.copy(), weight.copy()
    objective.gradients(scores, label, weight)
    objective.transform(scores)
    objective.init_scores(label, weight)
    assert all((a == b).all() for a, b in zip(before, (scores, label, weight), strict=True))


def test_state_survives_json(case):
    objective, scores, _, _ = case
    again = objective_from_dict(json.loads(json.dumps(objective.to_dict())))
    assert again == objective
    assert again.to_dict() == objective.to_dict()
    assert (again.transform(scores) == objective.transform(scores)).all()


def test_init_scores_have_the_known_values():
    label = np.array([0.0, 0.0, 1.0, 2.0])
    weight = np.array([1.0, 1.0, 2.0, 4.0])
    assert RegressionObjective().init_scores(label, None).tolist() == [0.75]
    assert RegressionObjective().init_scores(label, weight).tolist() == [10.0 / 8.0]
    assert MulticlassObjective(3).init_scores(label, weight) == pytest.approx(np.log([0.25, 0.25, 0.5]), abs=1e-15)
    binary = np.array([0.0, 0.0, 0.0, 1.0])
    assert BinaryObjective(2.0).init_scores(binary, None) == pytest.approx([np.log(1 / 3) / 2.0], abs=1e-15)


def test_boost_from_average_false_starts_at_zero():
    label = np.array([0.0, 1.0, 1.0])
    for objective in ("regression", "binary"):
        params = Params.from_dict({"objective": objective, "boost_from_average": False})
        assert get_objective(params).init_scores(label, None).tolist() == [0.0]
    params = Params.from_dict({"objective": "multiclass", "num_class": 3, "boost_from_average": False})
    assert get_objective(params).init_scores(label, None).tolist() == [0.0, 0.0, 0.0]


def test_a_single_class_has_finite_init_scores():
    for value in (0.0, 1.0):
        label = np.full(10, value)
        assert np.isfinite(BinaryObjective().init_scores(label, None)).all()
        assert np.isfinite(MulticlassObjective(3).init_scores(label, None)).all()
        assert np.isfinite(MulticlassObjective(3).init_scores(label, np.ones(10))).all()


def test_links_match_scipy():
    raw = np.random.default_rng(2).normal(size=(4, 1000)) * 20.0
    assert np.max(np.abs(BinaryObjective(0.5).transform(raw[:1]) - expit(0.5 * raw[:1]))) < 1e-15
    p = MulticlassObjective(4).transform(raw)
    assert np.max(np.abs(p - softmax(raw, axis=0))) < 1e-15
    assert np.max(np.abs(p.sum(axis=0) - 1.0)) < 1e-15
    assert RegressionObjective().transform(raw) is raw


def test_l2_without_weights_has_constant_hessian():
    _, hessian = RegressionObjective().gradients(np.zeros((1, 5)), np.arange(5.0), None)
    assert hessian.tolist() == [[1.0] * 5]


@pytest.mark.parametrize("value", [-1.0, 0.5, 2.0])
def test_binary_names_the_label_it_refuses(value):
    with pytest.raises(DataError, match=rf"label\[2\] is {value}"):
        BinaryObjective().check_labels(np.array([0.0, 1.0, value]))


@pytest.mark.parametrize("value", [-1.0, 1.5, 3.0, 1e30])
def test_multiclass_names_the_label_it_refuses(value):
    with pytest.raises(DataError, match=r"labels 0 to 2, but label\[1\] is "):
        MulticlassObjective(3).check_labels(np.array([0.0, value, 2.0]))


def test_good_labels_are_accepted():
    RegressionObjective().check_labels(np.array([-1e30, 0.5]))
    BinaryObjective().check_labels(np.array([0.0, 1.0, -0.0]))
    MulticlassObjective(3).check_labels(np.array([2.0, 2.0]))
    CustomObjective().check_labels(None)


@pytest.mark.parametrize("objective", [RegressionObjective(), BinaryObjective(), MulticlassObjective(3)], ids=repr)
def test_missing_labels_are_an_error(objective):
    with pytest.raises(DataError, match="label="):
        objective.check_labels(None)


def test_get_objective_follows_the_parameters():
    def function(scores, dataset):
        return scores, np.ones_like(scores)

    assert get_objective(Params()) == RegressionObjective()
    assert get_objective(Params(objective="binary", sigmoid=0.3)) == BinaryObjective(0.3)
    assert get_objective(Params(objective="multiclass", num_class=5)) == MulticlassObjective(5)
    custom = get_objective(Params(objective=function, num_class=2))
    assert isinstance(custom, CustomObjective)
    assert custom.function is function and custom.n_outputs == 2


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"name": 3},
        {"name": ["binary"]},
        {"name": "poison"},
        {"name": "poisson", "sigmoid": 1.0},
        {"name": "regression", "reg_sqrt": False},
        {"name": "multiclassova", "num_class": 3},
        {"name": "multiclassova", "num_class": 3, "sigmoid": -1.0},
        {"name": "regression", "extra": 1},
        {"name": "binary"},
        {"name": "binary", "sigmoid": 1},
        {"name": "binary", "sigmoid": True},
        {"name": "binary", "sigmoid": 0.0},
        {"name": "binary", "sigmoid": float("nan")},
        {"name": "binary", "sigmoid": float("inf")},
        {"name": "multiclass", "num_class": 1},
        {"name": "multiclass", "num_class": 3.0},
        {"name": "multiclass", "num_class": True},
        {"name": "multiclass", "num_class": 10**12},
        {"name": "custom"},
        {"name": "custom", "num_class": 0},
    ],
    ids=repr,
)
def test_a_damaged_state_is_refused(state):
    with pytest.raises(ModelFormatError):
        objective_from_dict(state)


class TestCustom:
    """Objectives given as functions."""

    scores = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def test_single_output_is_flat(self):
        dataset = object()

        def function(scores, given):
            assert given is dataset
            assert scores.tolist() == [1.0, 2.0, 3.0]
            scores += 1.0  # the function owns its copy
            return scores, [1, 2, 3]

        scores = self.scores[:1].copy()
        gradient, hessian = CustomObjective(function).evaluate(scores, dataset)
        assert gradient.tolist() == [[2.0, 3.0, 4.0]]
        assert hessian.tolist() == [[1.0, 2.0, 3.0]] and hessian.dtype == np.float64
        assert (scores == self.scores[:1]).all()

    def test_several_outputs_are_rows_by_classes(self):
        def function(scores, dataset):
            assert scores.shape == (3, 2)
            return scores, np.abs(scores)

        gradient, hessian = CustomObjective(function, 2).evaluate(self.scores, None)
        assert gradient.tolist() == self.scores.tolist() and gradient.flags.c_contiguous
        assert hessian.tolist() == self.scores.tolist()

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (None, "pair"),
            (np.ones(3), "pair"),
            ((np.ones(2), np.ones(3)), r"gradient of shape \(2,\).*\(3,\)"),
            ((np.ones(3), np.ones((3, 1))), r"hessian of shape \(3, 1\)"),
            ((np.array([1.0, np.nan, 1.0]), np.ones(3)), "gradient.*row 1"),
            ((np.ones(3), np.array([1.0, 1.0, np.inf])), "hessian.*row 2"),
            ((["a", "b", "c"], np.ones(3)), "real numbers"),
            ((np.ones(3) * 1j, np.ones(3)), "real numbers"),
            (([[1.0], [1.0, 2.0]], np.ones(3)), "real numbers"),
        ],
    )
    def test_bad_results_are_explained(self, result, message):
        with pytest.raises(DataError, match=message):
            CustomObjective(lambda scores, dataset: result).evaluate(self.scores[:1], None)

    def test_negative_hessians_count_as_zero_and_are_told_once(self, caplog):
        objective = CustomObjective(lambda scores, dataset: (np.ones(3), np.array([1.0, -2.0, 3.0])))
        for _ in range(2):
            gradient, hessian = objective.evaluate(self.scores[:1], None)
            assert gradient.tolist() == [[1.0, 1.0, 1.0]] and hessian.tolist() == [[1.0, 0.0, 3.0]]
        assert caplog.text.count("negative hessian in row 1") == 1

    def test_loaded_model_predicts_but_does_not_train(self):
        objective = objective_from_dict(CustomObjective(lambda s, d: (s, s), 2).to_dict())
        assert objective.n_outputs == 2
        assert objective.transform(self.scores) is self.scores
        assert objective.init_scores(np.ones(3), None).tolist() == [0.0, 0.0]
        with pytest.raises(ParameterError, match="objective="):
            objective.evaluate(self.scores, None)

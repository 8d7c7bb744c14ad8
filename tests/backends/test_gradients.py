"""CPU gradients and link functions equal the NumPy definitions bit for bit, with any number of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hornbeam.backends.cpu.losses.gradients import TILE, compute_gradients, transform_scores
from hornbeam.backends.cpu.losses.pointwise import POINTWISE_KERNELS
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.backends.gpu.runtime.runtime import source_text
from hornbeam.objectives import (
    OBJECTIVES as BY_NAME,
)
from hornbeam.objectives import (
    BinaryObjective,
    CustomObjective,
    FocalObjective,
    MulticlassObjective,
    Objective,
    OneVsAllObjective,
    PointwiseObjective,
    RegressionObjective,
    TweedieObjective,
    get_objective,
)
from hornbeam.params.params import Params
from hornbeam.testing.labels import labels_for, params_for

SMALLEST_PART = Tuning().gradient_rows_per_thread

OBJECTIVES = {
    **{name: get_objective(Params.from_dict(params_for(name))) for name in BY_NAME},
    "binary, sigmoid 0.7": BinaryObjective(0.7),
    "multiclass 2": MulticlassObjective(2),
    "multiclass 7": MulticlassObjective(7),
    "multiclassova, sigmoid 0.7": OneVsAllObjective(4, 0.7),
    "regression, reg_sqrt": RegressionObjective(reg_sqrt=True),
    "tweedie 1": TweedieObjective(1.0),
    "tweedie 1.9": TweedieObjective(1.9),
    "focal, gamma 0.5": FocalObjective(0.5, 0.6),
    "focal, gamma 0": FocalObjective(0.0, 0.5),
}
"""Every objective by name, and some with other constants."""


def make_rows(objective: Objective, n_rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(objective.n_outputs, n_rows)) * rng.choice([0.01, 1.0, 10.0, 300.0], n_rows)
    if objective.labels == "real":
        label = np.where(rng.random(n_rows) < 0.1, scores[0], rng.normal(size=n_rows) * 100.0)
    else:
        label = labels_for(objective.name, rng.normal(size=n_rows) * 5.0, objective.n_outputs)
    return scores, label, rng.exponential(size=n_rows)


def assert_same_bits(a, b):
    assert a.shape == b.shape
    assert (a.view(np.int64) == b.view(np.int64)).all()


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_gradients_equal_definition_for_any_thread_count(objective, weighted):
    scores, label, weight = make_rows(objective, 3 * SMALLEST_PART + TILE + 5)
    weight = weight if weighted else None
    expected = objective.gradients(scores, label, weight)
    for n_threads in (1, 2, 3, 8):
        gradient, hessian = np.full_like(scores, np.nan), np.full_like(scores, np.nan)
        compute_gradients(objective, scores, label, weight, gradient, hessian, n_threads)
        assert_same_bits(gradient, expected[0])
        assert_same_bits(hessian, expected[1])


@pytest.mark.parametrize("objective", [BinaryObjective(1.3), MulticlassObjective(3)], ids=["binary", "multiclass"])
def test_gradients_equal_definition_on_a_million_rows(objective):
    scores, label, weight = make_rows(objective, 1_000_000, seed=1)
    gradient, hessian = np.empty_like(scores), np.empty_like(scores)
    compute_gradients(objective, scores, label, weight, gradient, hessian, 2)
    expected = objective.gradients(scores, label, weight)
    assert_same_bits(gradient, expected[0])
    assert_same_bits(hessian, expected[1])


@pytest.mark.sampled
@pytest.mark.parametrize("n_rows", [1, 2, 3, TILE - 1, TILE, TILE + 1, SMALLEST_PART, 2 * SMALLEST_PART + 1])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_gradients_and_predictions_equal_definition_for_any_row_count(objective, n_rows):
    scores, label, _ = make_rows(objective, n_rows)
    gradient, hessian = np.empty_like(scores), np.empty_like(scores)
    compute_gradients(objective, scores, label, None, gradient, hessian, 2)
    expected = objective.gradients(scores, label, None)
    assert_same_bits(gradient, expected[0])
    assert_same_bits(hessian, expected[1])
    assert_same_bits(transform_scores(objective, scores, 2), objective.transform(scores))


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_extreme_scores_give_finite_gradients(objective):
    values = [0.0, -0.0, 1e-300, 1e300, -1e300, 750.0, -750.0, 37.0, -37.0]
    rng = np.random.default_rng(5)
    scores = rng.choice(values, (objective.n_outputs, 500))
    label = labels_for(objective.name, rng.normal(size=500) * 5.0)
    gradient, hessian = np.empty_like(scores), np.empty_like(scores)
    compute_gradients(objective, scores, label, None, gradient, hessian, 1)
    assert np.isfinite(gradient).all() and np.isfinite(hessian).all() and (hessian >= 0.0).all()
    expected = objective.gradients(scores, label, None)
    assert (gradient == expected[0]).all() and (hessian == expected[1]).all()


def test_identity_links_return_the_scores_themselves():
    raw = np.ones((1, 3))
    assert transform_scores(RegressionObjective(), raw, 1) is raw
    assert transform_scores(CustomObjective(), raw, 1) is raw


@pytest.mark.parametrize("n_threads", [1, 3])
def test_one_vs_all_takes_weights_of_classes(n_threads):
    objective = OneVsAllObjective(4, 0.7, is_unbalance=True)
    scores, label, weight = make_rows(objective, 2 * SMALLEST_PART + 5)
    label, weights = objective.prepare(label, weight)
    assert weights.shape == scores.shape
    gradient, hessian = np.empty_like(scores), np.empty_like(scores)
    compute_gradients(objective, scores, label, weights, gradient, hessian, n_threads)
    expected = objective.gradients(scores, label, weights)
    assert_same_bits(gradient, expected[0])
    assert_same_bits(hessian, expected[1])


def test_every_pointwise_objective_has_kernels():
    pointwise = {name: kind for name, kind in BY_NAME.items() if issubclass(kind, PointwiseObjective)}
    assert set(POINTWISE_KERNELS) == set(pointwise)
    codes = [kind.code for kind in pointwise.values()]
    assert len(set(codes)) == len(codes)
    source = source_text("prelude_opencl.h", "gradients.cl")
    for name, kind in pointwise.items():
        assert re.search(rf"OBJECTIVE == {kind.code} +// {name}\n", source), name


def test_rows_are_independent():
    objective = MulticlassObjective(4)
    scores, label, weight = make_rows(objective, 2000)
    order = np.random.default_rng(6).permutation(2000)
    results = []
    for rows in (np.arange(2000), order):
        gradient, hessian = np.empty_like(scores), np.empty_like(scores)
        taken = np.ascontiguousarray(scores[:, rows])
        compute_gradients(objective, taken, label[rows], weight[rows], gradient, hessian, 1)
        results.append((gradient, hessian))
    assert (results[0][0][:, order] == results[1][0]).all()
    assert (results[0][1][:, order] == results[1][1]).all()

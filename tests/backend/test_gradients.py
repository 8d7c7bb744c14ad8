"""CPU gradients and link functions equal the NumPy definitions bit for bit, with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.backends.cpu.gradients import SMALLEST_PART, TILE, compute_gradients, transform_scores
from hornbeam.objectives import (
    BinaryObjective,
    CustomObjective,
    MulticlassObjective,
    Objective,
    RegressionObjective,
)

OBJECTIVES = {
    "regression": RegressionObjective(),
    "binary": BinaryObjective(),
    "binary, sigmoid 0.7": BinaryObjective(0.7),
    "multiclass 2": MulticlassObjective(2),
    "multiclass 7": MulticlassObjective(7),
}


def make_rows(objective: Objective, n_rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(objective.n_outputs, n_rows)) * rng.choice([0.01, 1.0, 10.0, 300.0], n_rows)
    if objective.name == "regression":
        label = rng.normal(size=n_rows) * 100.0
    else:
        label = rng.integers(0, max(2, objective.n_outputs), n_rows).astype(np.float64)
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
    label = rng.integers(0, 2, 500).astype(np.float64)
    gradient, hessian = np.empty_like(scores), np.empty_like(scores)
    compute_gradients(objective, scores, label, None, gradient, hessian, 1)
    assert np.isfinite(gradient).all() and np.isfinite(hessian).all() and (hessian >= 0.0).all()
    expected = objective.gradients(scores, label, None)
    assert (gradient == expected[0]).all() and (hessian == expected[1]).all()


def test_identity_links_return_the_scores_themselves():
    raw = np.ones((1, 3))
    assert transform_scores(RegressionObjective(), raw, 1) is raw
    assert transform_scores(CustomObjective(), raw, 1) is raw


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

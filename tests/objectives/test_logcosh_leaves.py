"""Leaf values of `logcosh`: they minimise the loss of their rows, whatever the rows are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import hornbeam as hb
from hornbeam.backends.cpu.growth.rows.renewal import renew_leaves
from hornbeam.objectives import LogCoshObjective
from hornbeam.objectives.logcosh_leaves import FARTHEST, leaf_minima, slope_and_curvature, towards_minimum, unit_weight
from hornbeam.testing.checks import assert_same_bits

QUIET = {"objective": "logcosh", "verbosity": -1}


def draw(kind, n_rows):
    rng = np.random.default_rng(n_rows)
    return {
        "small": lambda: rng.normal(size=n_rows) * 0.01,
        "normal": lambda: rng.normal(size=n_rows),
        "wide": lambda: rng.laplace(size=n_rows) * 1e4 + 1e6,
        "skewed": lambda: np.exp(2.0 * rng.normal(size=n_rows)),
        "heaps": lambda: np.where(rng.random(n_rows) < 0.4, 0.0, 9.0) + 0.1 * rng.normal(size=n_rows),
        "far away": lambda: rng.standard_cauchy(size=n_rows) * 100.0,
    }[kind]()


def minimum(residuals, weight):
    """The root of the slope, by bisection of the widest interval that may hold it."""
    ends = residuals.min() - 1.0, residuals.max() + 1.0
    return optimize.brentq(lambda value: np.sum(weight * np.tanh(value - residuals)), *ends, xtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_rows", [1, 3, 50, 2001])
@pytest.mark.parametrize("kind", ["small", "normal", "wide", "skewed", "heaps", "far away"])
def test_values_minimise_the_loss(kind, n_rows, weighted):
    residuals = draw(kind, n_rows)
    weight = np.random.default_rng(0).exponential(size=n_rows) if weighted else None
    found = float(leaf_minima(residuals, weight, np.zeros(n_rows, np.int64), 1)[0])
    w = np.ones(n_rows) if weight is None else weight
    slope = abs(np.sum(w * np.tanh(found - residuals)))
    assert abs(found - minimum(residuals, w)) < 1e-9 * max(1.0, abs(found)) or slope < 1e-9 * w.sum()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=30), st.floats(-40.0, 40.0))
def test_no_step_leads_past_the_minimum(residuals, start):
    """From any start, not only from the median: the slope keeps its sign until the last bits."""
    rows, weight, sides = np.array(residuals), np.full(len(residuals), unit_weight(len(residuals))), []
    value = start
    for _ in range(5):
        slope, curvature = slope_and_curvature(value, rows, weight)
        if abs(slope) <= 1e-9 * weight.sum() or curvature <= 1e-9 * weight.sum():
            break
        sides.append(slope > 0)
        step = 0.5 * np.log1p(2.0 * abs(slope) / curvature)
        value = value - step if slope > 0 else value + step
    assert len(set(sides)) <= 1


def test_weights_are_repeated_rows_and_order_does_not_matter():
    rng = np.random.default_rng(3)
    residuals, times = rng.normal(size=400) * 5.0, rng.integers(0, 4, 400)
    leaf = rng.integers(0, 5, 400)
    weighted = leaf_minima(residuals, times.astype(np.float64), leaf, 6)
    repeated = leaf_minima(np.repeat(residuals, times), None, np.repeat(leaf, times), 6)
    assert weighted == pytest.approx(repeated, rel=1e-12) and weighted[5] == 0.0
    order = rng.permutation(400)
    assert_same_bits(leaf_minima(residuals[order], times[order] * 1.0, leaf[order], 6), weighted, "permuted rows")


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_values_of_the_cpu_are_the_references(weighted):
    """Also of rows as far as can be, and of rows without weight."""
    rng = np.random.default_rng(1)
    label = rng.normal(size=3000) * rng.choice([1e-300, 1e-3, 1.0, FARTHEST, 1e4, 1e300], 3000)
    scores, leaf = np.round(rng.normal(size=3000), 1), rng.integers(0, 40, 3000).astype(np.uint16)
    weight = rng.choice([0.0, 1e-9, 0.3, 1e9], 3000) if weighted else None
    found = renew_leaves(scores, label, weight, leaf, 0.5, 41, 2, True)
    assert_same_bits(found, leaf_minima(label - scores, weight, leaf.astype(np.int64), 41), "minima")


def test_no_rows_have_no_slope():
    assert towards_minimum(0.0, np.empty(0), np.empty(0)) == 0.0


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_trees_have_these_values_and_so_have_refitted_ones(weighted):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * 9.0 + rng.standard_t(2.0, size=300)
    weight = rng.exponential(size=300) if weighted else None
    params = {**QUIET, "learning_rate": 0.5, "num_leaves": 5, "lambda_l2": 3.0}
    train = hb.Dataset(X, y, weight=weight)
    booster = hb.train(params, train, 2)
    before, leaves = booster.predict(X, num_iteration=1), booster.predict(X, pred_leaf=True)[:, 1]
    expected = leaf_minima(y - before, weight, leaves.astype(np.int64), 5) * 0.5
    assert booster.trees[1].leaf_value == pytest.approx(expected, rel=1e-12)
    again = booster.refit(X, y, weight=weight, decay_rate=0.0)
    assert again.trees[1].leaf_value == pytest.approx(booster.trees[1].leaf_value, rel=1e-9)


@pytest.mark.parametrize("scale", [0.1, 3.0, 20.0])
def test_the_gain_of_a_split_is_what_it_takes_off_the_loss_at_least(scale):
    """The root becomes two leaves: the loss falls by half of their sums g**2 / h, or more."""
    rng = np.random.default_rng(6)
    X = np.repeat([[0.0], [1.0]], [120, 80], axis=0)
    y = scale * (X[:, 0] + rng.normal(size=200)) + 1.0
    params = {**QUIET, "learning_rate": 1.0, "num_leaves": 2, "boost_from_average": False}
    predicted = hb.train(params, hb.Dataset(X, y), 1).predict(X)
    before, after = (np.sum(np.logaddexp(s - y, y - s)) for s in (np.zeros(200), predicted))
    gradient, hessian = (part[0] for part in LogCoshObjective().gradients(np.zeros((1, 200)), y, None))
    gain = sum(gradient[own].sum() ** 2 / hessian[own].sum() for own in (X[:, 0] == 0.0, X[:, 0] == 1.0))
    assert before - after >= 0.5 * gain > 0.0


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_labels_of_any_unit_are_learned(unit):
    """Rows far away are no reason for a leaf to be refused."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(400, 2))
    y = (3.0 * X[:, 0] + 0.1 * rng.normal(size=400)) * unit
    booster = hb.train(QUIET, hb.Dataset(X, y), 50)
    assert np.abs(booster.predict(X) - y).mean() < 0.2 * np.abs(y - np.median(y)).mean()


@pytest.mark.parametrize("more", [{}, {"monotone_constraints": [1, 0, 0]}], ids=["minima", "constrained, Newton steps"])
def test_no_tree_raises_the_loss(more):
    """The widest step: learning rate 1, labels far away, no regularisation."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = 20.0 * X[:, 0] + rng.standard_t(1.5, size=400)
    train = hb.Dataset(X, y)
    params = {**QUIET, "learning_rate": 1.0, "num_leaves": 8, "min_data_in_leaf": 1, "metric": "logcosh", **more}
    booster = hb.train(params, train, 30, valid_sets={"train": train})
    losses = np.array(booster.eval_history["train"]["logcosh"])
    assert len(losses) == 30 and losses[-1] < (0.9 if more else 0.2) * losses[0]
    assert (np.diff(losses) <= 1e-6 * losses[:-1]).all()
    if more:
        steps = np.linspace(-2.0, 2.0, 50)
        predicted = booster.predict(np.column_stack([steps, np.zeros(50), np.zeros(50)]))
        assert (np.diff(predicted) >= 0.0).all()

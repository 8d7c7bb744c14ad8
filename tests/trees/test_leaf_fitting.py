"""Linear leaves: the definition against least squares, and the kernels against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.linear.fitting import CompiledLeaves
from hornbeam.backends.cpu.tuning import tuned
from hornbeam.core.fixed_point import alone
from hornbeam.trees.leaf_fitting import (
    FittedRows,
    LeafColumns,
    NumpyLeaves,
    Ranges,
    Scales,
    columns_of_leaves,
    fit_leaves,
)
from hornbeam.trees.linear_leaves import LinearLeaves
from hornbeam.trees.records import BinnedTree


def columns_from(paths: list[list[int]]) -> LeafColumns:
    start = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
    return LeafColumns(start, np.array([column for path in paths for column in path], np.int32))


def sample(seed: int, n_rows: int = 400, missing: float = 0.05, dtype=np.float64, bagged: bool = False):
    """Return rows, and columns of five leaves, the first of them without any."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_rows, 6)) * 10.0 ** rng.integers(-3, 4, 6)
    values[rng.random(values.shape) < missing] = np.nan
    values = values.astype(dtype)
    leaf = rng.integers(0, 5, n_rows).astype(np.uint16)
    chosen = rng.permutation(n_rows)[: n_rows // 2].astype(np.uint32) if bagged else None
    n = n_rows if chosen is None else len(chosen)
    paths = [[], *(sorted(rng.choice(6, rng.integers(1, 6), replace=False).tolist()) for _ in range(4))]
    return FittedRows(chosen, rng.standard_normal(n), rng.random(n) + 0.01, leaf, values), columns_from(paths)


def least_squares(rows: FittedRows, path: list[int], leaf: int, ridge: float) -> np.ndarray:
    """Return constant and coefficients by NumPy's solver: sum of h (c + b x + g / h)^2 + ridge |b|^2."""
    chosen = np.arange(len(rows.leaf)) if rows.chosen is None else rows.chosen
    own = rows.leaf[chosen] == leaf
    table = rows.values[chosen[own]][:, path].astype(np.float64)
    used = np.isfinite(table).all(axis=1)
    g, h = rows.gradient[own][used], rows.hessian[own][used]
    root = np.sqrt(h)
    table = np.column_stack([np.ones(used.sum()), table[used]])
    penalty = np.sqrt(ridge) * np.eye(len(path) + 1)[1:]
    left = np.concatenate([root[:, None] * table, penalty])
    right = np.concatenate([-g / root, np.zeros(len(path))])
    return np.linalg.lstsq(left, right, rcond=1e-15)[0]


@pytest.mark.parametrize("arithmetic", [NumpyLeaves(), CompiledLeaves(2)], ids=["definition", "kernels"])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("bagged", [False, True])
def test_coefficients_are_those_of_weighted_ridge_regression(arithmetic, ridge, bagged):
    rows, columns = sample(3, bagged=bagged)
    fitted = fit_leaves(rows, columns, arithmetic, alone, ridge, 0.5, np.arange(5.0))
    assert fitted is not None
    made = fitted.linear
    features, coeff = made.lists()
    assert features[0] == [] and made.const[0] == 0.0
    for leaf in range(1, 5):
        path = columns.columns[columns.start[leaf] : columns.start[leaf + 1]].tolist()
        expected = least_squares(rows, path, leaf, ridge)
        assert features[leaf] == path
        np.testing.assert_allclose(coeff[leaf], 0.5 * expected[1:], rtol=1e-9)
        np.testing.assert_allclose(made.const[leaf], 0.5 * expected[0], rtol=1e-8, atol=1e-10)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from([np.float32, np.float64]),
    bagged=st.booleans(),
    ridge=st.sampled_from([0.0, 1e-3, 10.0]),
    n_threads=st.sampled_from([1, 2, 3]),
)
def test_kernels_have_the_bits_of_the_definition(seed, dtype, bagged, ridge, n_threads):
    rows, columns = sample(seed, missing=0.1, dtype=dtype, bagged=bagged)
    with tuned(fitted_rows_per_thread=16):
        compiled = CompiledLeaves(n_threads)
    results = []
    for arithmetic in (NumpyLeaves(), compiled):
        held = arithmetic.rows_of(rows, columns)
        ranges = held.measure()
        scales = Scales.of(ranges, columns)
        sums = held.add_up(scales)
        solution = arithmetic.solve(sums, ranges.n_rows, columns, scales, ridge)
        made = fit_leaves(rows, columns, arithmetic, alone, ridge, 0.1, np.arange(5.0))
        results.append([*ranges, sums, *solution])
        if made is not None:
            low, high = made.linear.low, made.linear.high
            others = np.where(np.random.default_rng(seed).random(rows.values.shape) < 0.2, 50.0, rows.values)
            values = (arithmetic.outputs(made.linear, np.arange(5.0), rows.leaf, own) for own in (rows.values, others))
            results[-1] += [made.values, low, high, *values]
    for expected, found in zip(*results, strict=True):
        assert expected.tobytes() == found.tobytes()


def test_rows_in_any_order_and_on_any_workers_give_the_same_function():
    rows, columns = sample(5, n_rows=300)
    expected = fit_leaves(rows, columns, NumpyLeaves(), alone, 0.1, 1.0, np.zeros(5))
    order = np.random.default_rng(0).permutation(300)
    turned = FittedRows(None, rows.gradient[order], rows.hessian[order], rows.leaf[order], rows.values[order])
    parts = [
        FittedRows(None, rows.gradient[some], rows.hessian[some], rows.leaf[some], rows.values[some])
        for some in (slice(0, 7), slice(7, 7), slice(7, 300))
    ]
    arithmetic = NumpyLeaves()
    ranges = [arithmetic.rows_of(part, columns).measure() for part in parts]
    together = Ranges(*(np.stack(each) for each in zip(*ranges, strict=True))).together()
    scales = Scales.of(together, columns)
    sums = sum(arithmetic.rows_of(part, columns).add_up(scales) for part in parts)
    of_parts = arithmetic.solve(sums, together.n_rows, columns, scales, 0.1)
    found = fit_leaves(turned, columns, CompiledLeaves(1), alone, 0.1, 1.0, np.zeros(5))
    assert expected is not None and found is not None
    one, other = expected.linear, found.linear
    assert one.coeff.tobytes() == other.coeff.tobytes() == of_parts.coeff[of_parts.coeff != 0].tobytes()
    assert (one.const.tobytes(), one.low.tobytes(), one.high.tobytes()) == (
        other.const.tobytes(), other.low.tobytes(), other.high.tobytes()
    )  # fmt: skip
    ends = [arithmetic.rows_of(part, columns).evaluate(one, np.zeros(5)) for part in parts]
    assert np.min([own.low for own in ends], axis=0)[1:].tolist() == one.low[1:].tolist()
    assert np.max([own.high for own in ends], axis=0)[1:].tolist() == one.high[1:].tolist()


def lone_leaf(values, gradient, ridge=0.0, hessian=None):
    values = np.asarray(values, np.float64)
    n = len(values)
    rows = FittedRows(
        None,
        np.asarray(gradient, np.float64),
        np.ones(n) if hessian is None else hessian,
        np.zeros(n, np.uint16),
        values,
    )
    columns = columns_from([list(range(values.shape[1]))])
    both = [
        fit_leaves(rows, columns, each, alone, ridge, 1.0, np.zeros(1)) for each in (NumpyLeaves(), CompiledLeaves(1))
    ]
    if both[0] is None:
        assert both[1] is None
        return None
    assert both[1] is not None and both[0].linear.coeff.tobytes() == both[1].linear.coeff.tobytes()
    return both[0].linear


def test_a_feature_that_others_make_up_and_a_constant_one_are_left_out():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    table = np.column_stack([x[:, 0], np.full(200, 7.0), x[:, 1], 2.0 * x[:, 0] - x[:, 1]])
    made = lone_leaf(table, -(3.0 * x[:, 0] + 5.0 * x[:, 1] + 1.0))
    assert made is not None and made.feature.tolist() == [0, 2]
    np.testing.assert_allclose(made.coeff, [3.0, 5.0])
    np.testing.assert_allclose(made.const, [1.0])


def test_an_offset_of_all_rows_costs_no_digits():
    x = np.random.default_rng(0).standard_normal((300, 1))
    far = x + 1.7e9
    made = lone_leaf(far, -3.0 * (far[:, 0] - 1.7e9))
    assert made is not None
    np.testing.assert_allclose(made.coeff, [3.0], rtol=1e-9)


@pytest.mark.parametrize("table", [[[1.0, 2.0], [3.0, 4.0]], [[np.nan], [np.inf], [1.0]], [[1e39], [2.0], [-1e300]]])
def test_too_few_rows_that_take_part_leave_a_leaf_constant(table):
    assert lone_leaf(table, np.arange(len(table)) - 0.5) is None


def test_gradients_and_hessians_of_any_size_are_fitted():
    x = np.random.default_rng(0).standard_normal((50, 1))
    for scale in (1e-200, 1e-30, 1e30, 1e200):
        made = lone_leaf(x, -2.0 * x[:, 0] * scale, hessian=np.full(50, scale))
        assert made is not None
        np.testing.assert_allclose(made.coeff, [2.0])
    assert lone_leaf(x, -x[:, 0], hessian=np.zeros(50)) is None
    assert lone_leaf(x, np.zeros(50)) is None


def test_rows_with_a_number_of_no_use_get_the_constant_of_the_leaf():
    linear = LinearLeaves.of_leaves([[0, 1], []], [[2.0, -1.0], []], np.array([0.5, 9.0]))
    values = np.array([[1.0, 1.0], [np.nan, 1.0], [1.0, np.inf], [1.0, -1e39], [np.nan, np.nan]])
    leaf = np.array([0, 0, 0, 0, 1], np.uint16)
    for arithmetic in (NumpyLeaves(), CompiledLeaves(1)):
        made = arithmetic.outputs(linear, np.array([7.0, 9.0]), leaf, values)
        assert made.tolist() == [1.5, 7.0, 7.0, 7.0, 9.0]


@pytest.mark.parametrize("bagged", [False, True])
def test_bounds_are_the_ends_of_the_values_of_the_rows_that_the_tree_was_grown_on(bagged):
    rows, columns = sample(11, n_rows=500, missing=0.1, bagged=bagged)
    leaf_value = np.linspace(-1.0, 1.0, 5)
    fitted = fit_leaves(rows, columns, CompiledLeaves(1), alone, 0.0, 0.5, leaf_value)
    assert fitted is not None
    linear, values = fitted
    features, coeff = linear.lists()
    chosen = range(500) if rows.chosen is None else rows.chosen.tolist()
    by_leaf = {leaf: [] for leaf in range(5)}
    for place, row in enumerate(chosen):
        leaf = int(rows.leaf[row])
        x = [float(rows.values[row, one]) for one in features[leaf]]
        value = float(linear.const[leaf])
        for factor, number in zip(coeff[leaf], x, strict=True):
            value += factor * number
        value = float(leaf_value[leaf]) if np.isnan(x).any() else value
        assert values[place] == value
        by_leaf[leaf].append(value)
    assert features[0] == []
    for leaf, own in by_leaf.items():
        assert (linear.low[leaf], linear.high[leaf]) == (min(own), max(own))


@pytest.mark.parametrize("arithmetic", [NumpyLeaves(), CompiledLeaves(1)], ids=["definition", "kernels"])
def test_values_stay_between_the_bounds_and_missing_ones_keep_the_constant(arithmetic):
    bounds = np.array([-1.0, 9.0]), np.array([2.5, 9.0])
    linear = LinearLeaves.of_leaves([[0], []], [[2.0], []], np.array([0.5, 9.0]), bounds)
    values = np.array([[-50.0], [-0.75], [0.25], [1.0], [50.0], [np.nan], [np.inf], [3.0]])
    leaf = np.array([0, 0, 0, 0, 0, 0, 0, 1], np.uint16)
    made = arithmetic.outputs(linear, np.array([7.0, 9.0]), leaf, values)
    assert made.tolist() == [-1.0, -1.0, 1.0, 2.5, 2.5, 7.0, 7.0, 9.0]
    moved = arithmetic.outputs(linear.plus(10.0), np.array([17.0, 19.0]), leaf, values)
    assert moved.tolist() == (made + 10.0).tolist()


def test_columns_of_a_leaf_are_the_numbers_on_its_path():
    zeros, bools = np.zeros(3, np.int32), np.zeros(3, np.bool_)
    tree = BinnedTree(
        np.array([2, 0, 2], np.int32), zeros, bools, np.array([1, -1, -3], np.int32), np.array([2, -2, -4], np.int32),
        np.zeros(4),
    )  # fmt: skip
    made = columns_of_leaves(tree, np.array([1, 4, 6]), np.array([True] * 7))
    assert [made.columns[a:b].tolist() for a, b in zip(made.start[:-1], made.start[1:], strict=True)] == [
        [1, 6], [1, 6], [6], [6]
    ]  # fmt: skip
    is_number = np.array([True] * 6 + [False])
    assert columns_of_leaves(tree, np.array([1, 4, 6]), is_number).columns.tolist() == [1, 1]

"""Fixed point: nothing is lost that matters, nothing overflows, and sums have no order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.core.fixed_point import (
    COARSE_MEAN,
    COARSE_SPREAD,
    MAX_ROWS,
    NARROW_GRADIENT_LIMIT,
    NARROW_HESSIAN_LIMIT,
    WIDE_LIMIT,
    exact_exponent,
    exact_sum,
    exponent_above,
    is_coarse,
    round_gradients,
    scale_exponent,
)

FINITE = st.floats(-1e150, 1e150)
POSITIVE = st.floats(0.0, 1e150)
ROWS = st.lists(st.tuples(FINITE, POSITIVE), min_size=1, max_size=50)


def split_rows(rows) -> tuple[np.ndarray, np.ndarray]:
    gradient, hessian = np.array(rows, np.float64).T
    return np.ascontiguousarray(gradient), np.ascontiguousarray(hessian)


def is_power_of_two(value: float) -> bool:
    return value > 0.0 and np.frexp(value)[0] == 0.5


def even_spread(n_rows: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1.0, 1.0, n_rows), rng.uniform(0.1, 0.25, n_rows)


# --- rounding -------------------------------------------------------------------------------------------------------


@given(ROWS, st.booleans())
def test_positive_hessian_never_rounds_to_zero_and_zero_stays_zero(rows, high_precision):
    gradient, hessian = split_rows(rows)
    h = round_gradients(gradient, hessian, high_precision)[1]
    assert ((h > 0) == (hessian > 0.0)).all()


@given(ROWS, st.booleans())
def test_rounded_values_stay_within_their_limits(rows, high_precision):
    gradient, hessian = split_rows(rows)
    g, h, how = round_gradients(gradient, hessian, high_precision)
    assert np.abs(g).max() <= (WIDE_LIMIT if how.wide else NARROW_GRADIENT_LIMIT)
    assert h.max() <= (WIDE_LIMIT if how.wide else NARROW_HESSIAN_LIMIT)
    assert h.min() >= 0
    assert (how.hessian_min, how.hessian_max) == (h.min(), h.max())


@given(ROWS, st.booleans())
def test_gradient_units_are_powers_of_two(rows, high_precision):
    how = round_gradients(*split_rows(rows), high_precision)[2]
    assert is_power_of_two(how.gradient_unit)


@given(ROWS, st.booleans())
def test_rounding_is_off_by_at_most_one_unit(rows, high_precision):
    gradient, hessian = split_rows(rows)
    g, h, how = round_gradients(gradient, hessian, high_precision)
    for exact, rounded in zip(gradient.tolist(), g.tolist(), strict=True):
        assert abs(Fraction(exact) - rounded * Fraction(how.gradient_unit)) <= Fraction(how.gradient_unit)
    for exact, rounded in zip(hessian.tolist(), h.tolist(), strict=True):
        assert abs(Fraction(exact) - rounded * Fraction(how.hessian_unit)) <= Fraction(how.hessian_unit)


@pytest.mark.parametrize("high_precision", [False, True])
def test_hessian_units_are_powers_of_two_unless_constant(high_precision):
    gradient, hessian = even_spread()
    assert is_power_of_two(round_gradients(gradient, hessian, high_precision)[2].hessian_unit)


@given(st.floats(5e-324, 1e150), st.integers(1, 30), st.booleans())
def test_constant_hessian_counts_rows(value, n_rows, high_precision):
    g, h, how = round_gradients(np.linspace(-1.0, 1.0, n_rows), np.full(n_rows, value), high_precision)
    assert h.tolist() == [1] * n_rows
    assert (how.hessian_unit, how.hessian_min, how.hessian_max) == (value, 1, 1)
    assert len(g) == n_rows


def test_all_zero_gradients_have_a_defined_scale():
    g, h, how = round_gradients(np.zeros(10), np.full(10, 0.25))
    assert not g.any()
    assert h.tolist() == [1] * 10
    assert how.gradient_unit == 1.0
    assert not how.wide


def test_all_zero_hessians_round_to_zero():
    g, h, how = round_gradients(np.linspace(-1.0, 1.0, 100), np.zeros(100))
    assert g.any()
    assert not h.any()
    assert (how.hessian_min, how.hessian_max) == (0, 0)


@given(ROWS, st.integers(-40, 40), st.integers(-40, 40))
def test_powers_of_two_scale_the_units_alone(rows, shift, h_shift):
    gradient, hessian = split_rows(rows)
    gradient[np.abs(gradient) < 1e-100] = 0.0  # far from the denormals, where scaling would round
    hessian[hessian < 1e-100] = 0.0
    g, h, how = round_gradients(gradient, hessian)
    g2, h2, how2 = round_gradients(gradient * 2.0**shift, hessian * 2.0**h_shift)
    assert g2.tolist() == g.tolist()
    assert h2.tolist() == h.tolist()
    assert how2.wide == how.wide
    if gradient.any():
        assert how2.gradient_unit == how.gradient_unit * 2.0**shift
    if hessian.any():
        assert how2.hessian_unit == how.hessian_unit * 2.0**h_shift


@given(ROWS, st.randoms(use_true_random=False))
def test_permuted_rows_are_rounded_alike(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    gradient, hessian = split_rows(rows)
    g, h, how = round_gradients(gradient, hessian)
    g2, h2, how2 = round_gradients(gradient[order], hessian[order])
    assert g2.tolist() == g[order].tolist()
    assert h2.tolist() == h[order].tolist()
    assert how2 == how


@pytest.mark.parametrize("value", [5e-324, 1e-320, 2.2e-308, 1e-300])
def test_denormals_round_without_overflow(value):
    gradient = np.array([value, -value, 0.0, 3 * value])
    hessian = np.array([value, 2 * value, 0.0, value])
    with np.errstate(all="raise", under="ignore"):
        g, h, how = round_gradients(gradient, hessian)
    assert np.isfinite([how.gradient_unit, how.hessian_unit]).all()
    assert (h > 0).tolist() == [True, True, False, True]
    assert (g[0], g[2]) == (-g[1], 0)


# --- when 16 bits are too few ---------------------------------------------------------------------------------------


def test_even_data_stay_narrow():
    assert not round_gradients(*even_spread())[2].wide


def test_high_precision_is_always_wide():
    assert round_gradients(*even_spread(), True)[2].wide


def test_heavy_tail_of_gradients_makes_the_tree_wide():
    gradient, hessian = even_spread()
    gradient[7] = 1e4
    g, _, how = round_gradients(gradient, hessian)
    assert how.wide
    assert np.count_nonzero(g) == len(g)  # the small ones still count


def test_heavy_tail_of_hessians_makes_the_tree_wide():
    gradient, hessian = even_spread()
    hessian[7] = 1e4
    assert round_gradients(gradient, hessian)[2].wide


def test_offset_much_larger_than_the_spread_makes_the_tree_wide():
    gradient, hessian = even_spread()
    assert round_gradients(gradient * 1e-3 + 1.0, hessian)[2].wide
    assert not round_gradients(gradient + 1.0, hessian)[2].wide


def test_equal_gradients_stay_narrow():
    assert not round_gradients(np.full(100, 0.3), np.full(100, 0.25))[2].wide


def test_zeros_do_not_count_as_coarse():
    gradient, hessian = even_spread(1000)
    gradient[:990], hessian[:990] = 0.0, 0.0
    assert not round_gradients(gradient, hessian)[2].wide


def test_spread_rule_ends_where_it_says():
    hessian = np.ones(2)
    largest = float(NARROW_GRADIENT_LIMIT)
    assert round_gradients(np.array([largest, largest - COARSE_SPREAD + 1.0]), hessian)[2].wide
    assert not round_gradients(np.array([largest, largest - COARSE_SPREAD]), hessian)[2].wide


def test_mean_rule_ends_where_it_says():
    assert is_coarse(COARSE_MEAN * 5 - 1, 5)
    assert not is_coarse(COARSE_MEAN * 5, 5)
    assert not is_coarse(0, 0)


# --- bounds ---------------------------------------------------------------------------------------------------------


@given(st.floats(5e-324, 1.7e308))
def test_exponent_above_is_the_smallest(value):
    exponent = exponent_above(value)
    assert Fraction(value) < Fraction(2) ** exponent
    assert Fraction(value) >= Fraction(2) ** (exponent - 1)


@given(st.floats(0.0, 1.7e308), st.integers(1, 52))
def test_scaled_values_fit_their_bits(largest, bits):
    exponent = scale_exponent(largest, bits)
    assert np.isfinite(2.0**exponent) and np.isfinite(2.0**-exponent)
    assert Fraction(largest) * Fraction(2) ** exponent < 2**bits or largest == 0.0


@given(st.floats(5e-324, 1.7e308), st.integers(1, MAX_ROWS))
def test_exact_sums_cannot_overflow(largest, n_rows):
    exponent = exact_exponent(largest, n_rows)
    most = int(np.rint(largest * 2.0**exponent)) * n_rows
    assert most < 2**62
    assert int(np.rint(largest * 2.0**exponent)) <= 2**52  # rint is exact


def test_histogram_sums_cannot_overflow():
    assert WIDE_LIMIT * MAX_ROWS < 2**63
    assert NARROW_GRADIENT_LIMIT * MAX_ROWS < 2**63
    assert NARROW_HESSIAN_LIMIT * MAX_ROWS < 2**63


# --- exact sums -----------------------------------------------------------------------------------------------------


@given(st.lists(FINITE, max_size=200), st.randoms(use_true_random=False))
def test_exact_sum_has_no_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert exact_sum(np.array(values, np.float64)) == exact_sum(np.array(shuffled, np.float64))


@given(st.lists(FINITE, min_size=1, max_size=200))
def test_exact_sum_is_close_to_the_sum(values):
    total = sum(Fraction(value) for value in values)
    largest = max(abs(value) for value in values)
    error = abs(Fraction(exact_sum(np.array(values))) - total)
    half_a_unit = Fraction(2) ** -1001  # of the smallest unit, 2**-1000, which each value is rounded to: scale_exponent
    assert error <= len(values) * (Fraction(largest) * Fraction(2) ** -50 + half_a_unit)


def test_exact_sum_of_the_smallest_numbers_rounds_each_by_half_a_unit_at_most():
    values = [1.517230238933844e-296] * 3
    error = abs(Fraction(exact_sum(np.array(values))) - 3 * Fraction(values[0]))
    assert Fraction(2) ** -1000 < error <= 3 * Fraction(2) ** -1001  # more than one value may be off by


@given(st.lists(st.integers(-(2**30), 2**30), max_size=500))
def test_exact_sum_of_integers_is_exact(values):
    assert exact_sum(np.array(values, np.float64)) == sum(values)


def test_exact_sum_of_nothing_is_zero():
    assert exact_sum(np.empty(0)) == 0.0
    assert exact_sum(np.zeros(5)) == 0.0

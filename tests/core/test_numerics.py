"""exp, log and sigmoid: accurate, and the same bits from NumPy and from Numba."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.jit import tell_numba
from hornbeam.backends.cpu.losses.numerics import bits_from_float, exp_, float_from_bits, log_, sigmoid_
from hornbeam.core import numerics

N = 1_000_000


@njit(nogil=True, error_model="numpy")
def exp_loop(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        out[i] = exp_(x[i])


@njit(nogil=True, error_model="numpy")
def log_loop(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        out[i] = log_(x[i])


@njit(nogil=True, error_model="numpy")
def sigmoid_loop(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        out[i] = sigmoid_(x[i])


@njit(nogil=True, error_model="numpy")
def bits_loop(x: NDArray[np.float64], bits: NDArray[np.int64], back: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        bits[i] = bits_from_float(x[i])
        back[i] = float_from_bits(bits[i])


def exponents() -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    edges = [0.0, -0.0, 708.0, -708.0, 709.0, -709.0, 1e300, -1e300, np.inf, -np.inf, 5e-324, 0.34657359027997264]
    halves = (np.arange(-1021, 1022) + 0.5) / numerics.LOG2_E
    return np.concatenate(
        [rng.normal(size=N), rng.uniform(-720, 720, N), edges, halves, np.nextafter(halves, 0.0), rng.normal(size=3)]
    )


def positives() -> NDArray[np.float64]:
    rng = np.random.default_rng(2)
    edges = [0.0, 5e-324, 2.2250738585072014e-308, 0.5, numerics.SQRT_HALF, 1.0, 2.0, 1.7976931348623157e308]
    near = np.nextafter(numerics.SQRT_HALF, [0.0, 1.0])
    spread = rng.integers(1 << 52, 0x7FE << 52, N).view(np.float64)
    return np.concatenate([rng.random(N), spread, edges, near, 1.0 + rng.normal(size=1000) * 1e-9])


@pytest.mark.parametrize(
    ("loop", "scalar", "definition", "inputs"),
    [
        (exp_loop, exp_, numerics.exp, exponents),
        (sigmoid_loop, sigmoid_, numerics.sigmoid, exponents),
        (log_loop, log_, numerics.log, positives),
    ],
    ids=["exp", "sigmoid", "log"],
)
def test_numba_twin_equals_numpy_bit_for_bit(loop, scalar, definition, inputs):
    x = inputs()
    out = np.empty_like(x)
    loop(x, out)
    assert (out.view(np.int64) == definition(x).view(np.int64)).all()
    # one value at a time: what a loop computes must not depend on vectorisation
    few = x[-2000:]
    assert [scalar(value) for value in few] == definition(few).tolist()


def test_bit_casts_go_back_and_forth():
    x = exponents()
    bits, back = np.empty(len(x), np.int64), np.empty_like(x)
    tell_numba()  # which else happens when a kernel of ours is first compiled
    bits_loop(x, bits, back)
    assert (bits == x.view(np.int64)).all()
    assert (back.view(np.int64) == bits).all()


def test_exp_is_accurate():
    x = np.random.default_rng(3).uniform(-700, 700, 20_000)
    expected = np.array([math.exp(v) for v in x])
    assert np.max(np.abs(numerics.exp(x) / expected - 1.0)) < 1e-15


def test_log_is_accurate():
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.integers(1 << 52, 0x7FE << 52, 20_000).view(np.float64), rng.random(20_000)])
    expected = np.array([math.log(v) for v in x])
    assert np.max(np.abs(numerics.log(x) - expected) / np.maximum(np.abs(expected), 1e-3)) < 1e-14


def test_exact_values():
    assert numerics.exp(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    assert numerics.log(np.array([1.0])).tolist() == [0.0]
    assert numerics.sigmoid(np.array([0.0])).tolist() == [0.5]


def test_extreme_arguments_give_finite_results():
    x = np.array([-1e308, -1000.0, 1000.0, 1e308, -np.inf, np.inf])
    assert np.isfinite(numerics.exp(x)).all()
    assert np.isfinite(numerics.sigmoid(x)).all()
    assert np.isfinite(numerics.log(np.array([0.0, 5e-324]))).all()


def test_exp_is_monotone_where_it_changes_the_power_of_two():
    borders = (np.arange(-1000, 1000) + 0.5) / numerics.LOG2_E
    x = np.sort(np.concatenate([borders * (1 + d) for d in (-1e-12, 0.0, 1e-12)]))
    assert (np.diff(numerics.exp(x)) >= 0.0).all()

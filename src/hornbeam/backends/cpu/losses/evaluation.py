"""Metrics on the CPU: multi-threaded twins of the losses in `hornbeam.metrics`, equal to them bit for bit.

A mean takes two passes: the first writes the loss of each row and finds the largest, which fixes the scale; the second
adds the losses as integers, whose sum has no order. Both vectorise; the largest is found among bit patterns, since
those of non-negative floats are ordered like the floats, and an integer maximum (unlike a float one) knows no NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.losses.numerics import bits_from_float, log_loss_
from hornbeam.backends.cpu.losses.pointwise import weigh_kernel
from hornbeam.backends.cpu.losses.pointwise_evaluation import POINTWISE_LOSSES
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.core.fixed_point import exact_exponent

FloatArray = NDArray[np.float64]

ABSOLUTE_BITS = 0x7FFFFFFFFFFFFFFF


def mean_loss(
    name: str,
    label: FloatArray,
    predictions: FloatArray,
    weight: FloatArray | None,
    n_threads: int,
    constants: tuple[float, float] | None = None,
) -> float:
    """Return sum(loss * weight) / sum(weight): the twin of `NumpyArithmetic.mean_loss`.

    name         name of the metric whose losses are meant
    label        float64 (n_rows,)            in   contiguous; (2, n_rows) of metrics of bounds
    predictions  float64 (n_outputs, n_rows)  in   C order
    weight       float64 (n_rows,)            in   contiguous, or None
    constants    of a pointwise loss; None: the metric has none
    """
    kernel = LOSS_KERNELS[name] if constants is None else POINTWISE_LOSSES[name]
    n_rows = label.shape[-1]
    losses = np.empty(n_rows)

    def part(start: int, stop: int) -> None:
        if name in ("multi_logloss", "multi_error"):
            kernel(label, predictions, start, stop, losses[start:stop])
        else:
            kernel(*(constants or ()), label[..., start:stop], predictions[0, start:stop], losses[start:stop])
        if weight is not None:
            weigh_kernel(losses[start:stop], weight[start:stop])

    run_ranges(part, n_rows, n_threads, in_use().gradient_rows_per_thread)
    total = exact_sum_threads(losses, n_threads)
    return total / (n_rows if weight is None else exact_sum_threads(weight, n_threads))


def exact_sum_threads(values: FloatArray, n_threads: int) -> float:
    """Compute what `hornbeam.core.fixed_point.exact_sum(values)` returns; NaN if a value is NaN or infinite.

    values  float64 (n,)  in   contiguous
    """
    largest_bits: list[int] = []
    run_ranges(
        lambda start, stop: largest_bits.append(int(largest_bits_kernel(values[start:stop]))),
        len(values),
        n_threads,
        in_use().gradient_rows_per_thread,
    )
    largest = float(np.array([max(largest_bits)], np.int64).view(np.float64)[0])
    if not math.isfinite(largest):
        return math.nan
    exponent = exact_exponent(largest, len(values))
    sums: list[int] = []
    run_ranges(
        lambda start, stop: sums.append(int(fixed_sum_kernel(values[start:stop], 2.0**exponent))),
        len(values),
        n_threads,
        in_use().gradient_rows_per_thread,
    )
    return float(sum(sums)) * 2.0**-exponent


@kernel
def largest_bits_kernel(values: FloatArray) -> int:
    """Return the bit pattern of the largest |value|; that of a NaN or infinity if there is one.

    values  float64 (n,)  in
    """
    largest = 0
    for i in range(len(values)):
        bits: int = bits_from_float(values[i]) & ABSOLUTE_BITS
        largest = bits if bits > largest else largest
    return largest


@kernel
def fixed_sum_kernel(values: FloatArray, scale: float) -> int:
    """Return the sum of rint(value * scale) as an integer.

    values  float64 (n,)  in
    """
    total = 0
    for i in range(len(values)):
        total += np.int64(np.rint(values[i] * scale))  # type: ignore[assignment]
    return total


@kernel
def absolute_error_kernel(label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = |prediction - label|; all float64 (n,)."""
    for row in range(len(label)):
        out[row] = abs(predictions[row] - label[row])


@kernel
def squared_error_kernel(label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = d * d, where d = prediction - label; all float64 (n,)."""
    for row in range(len(label)):
        difference = predictions[row] - label[row]
        out[row] = difference * difference


@kernel
def binary_log_loss_kernel(label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = -log(p if label > 0 else 1 - p), clipped; all float64 (n,)."""
    for row in range(len(label)):
        p = predictions[row]
        out[row] = log_loss_(p if label[row] > 0.0 else 1.0 - p)


@kernel
def binary_error_kernel(label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = 1 where (p > 0.5) differs from (label > 0), else 0; all float64 (n,)."""
    for row in range(len(label)):
        out[row] = 1.0 if (predictions[row] > 0.5) != (label[row] > 0.0) else 0.0


@kernel
def multi_log_loss_kernel(label: FloatArray, predictions: FloatArray, start: int, stop: int, out: FloatArray) -> None:
    """out = -log(p[label]), clipped, for the rows [start, stop).

    label        float64 (n_rows,)            in
    predictions  float64 (n_outputs, n_rows)  in   C order
    out          float64 (stop - start,)      out, overwritten
    """
    for i in range(len(out)):
        out[i] = predictions[np.uint32(label[start + i]), start + i]
    for i in range(len(out)):  # apart from the gather, so that it vectorises
        out[i] = log_loss_(out[i])


@kernel
def multi_error_kernel(label: FloatArray, scores: FloatArray, start: int, stop: int, out: FloatArray) -> None:
    """out = 0 where the score of the true class is above all others, else 1, for the rows [start, stop).

    label   float64 (n_rows,)            in
    scores  float64 (n_outputs, n_rows)  in   C order
    out     float64 (stop - start,)      out, overwritten
    """
    for i in range(len(out)):
        row = start + i
        own = scores[np.uint32(label[row]), row]
        at_least = 0
        for k in range(scores.shape[0]):
            at_least += scores[k, row] >= own
        out[i] = 1.0 if at_least > 1 else 0.0


@allocating_kernel
def ranks_among_kernel(values: FloatArray, others: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count, for each value, how many of the others are below it and how many are not above it.

    values  float64 (n,)  in   ascending
    others  float64 (m,)  in   ascending

    Returns two int64 (n,) arrays: searchsorted(others, values) from the left and from the right, by merging.
    """
    below = np.empty(len(values), np.int64)
    not_above = np.empty(len(values), np.int64)
    left = 0
    right = 0
    for i in range(len(values)):
        while left < len(others) and others[left] < values[i]:
            left += 1
        while right < len(others) and others[right] <= values[i]:
            right += 1
        below[i] = left
        not_above[i] = right
    return below, not_above


LOSS_KERNELS: dict[str, Callable[..., None]] = {
    "l1": absolute_error_kernel,
    "l2": squared_error_kernel,
    "rmse": squared_error_kernel,
    "binary_logloss": binary_log_loss_kernel,
    "binary_error": binary_error_kernel,
    "multi_logloss": multi_log_loss_kernel,
    "multi_error": multi_error_kernel,
}
"""The kernel of each metric that is a mean loss."""

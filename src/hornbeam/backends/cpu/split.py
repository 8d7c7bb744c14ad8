"""Best splits on the CPU: twin of splitting.best_split.

Rows are not counted in histograms: a hessian sum already bounds the number of rows behind it (quantize.py), which
decides `min_data_in_leaf` for nearly every candidate. Where it does not, and the candidate would win, the rows of that
one feature are counted. The result is exact either way.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.threads import run_ranges
from hornbeam.backends.protocol import Segments
from hornbeam.dtypes import SPLIT
from hornbeam.quantize import Quantization
from hornbeam.splitting import ROUNDING_NOISE, SplitRules

BINS_PER_THREAD = 20_000
"""A second thread is worth waking for this many histogram bins, about 60 microseconds."""

NO_COUNTS = np.empty(0, np.int64)


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def leaf_score(gradient, hessian, lambda_l1, lambda_l2, max_delta_step):  # type: ignore[no-untyped-def]
    """Twin of splitting.leaf_score."""
    weight = hessian + lambda_l2
    if weight <= 0.0:
        return 0.0
    if lambda_l1 > 0.0:
        if gradient > lambda_l1:
            gradient = gradient - lambda_l1
        elif gradient < -lambda_l1:
            gradient = gradient + lambda_l1
        else:
            gradient = 0.0
    if max_delta_step > 0.0:
        output = min(max(-gradient / weight, -max_delta_step), max_delta_step)
        return -(2.0 * gradient * output + weight * output * output)
    return gradient * gradient / weight


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_feature(histogram, counts, n_values, has_missing, total_g, total_h, n_rows, units, rules, bounds):  # type: ignore[no-untyped-def]
    """Scan the bins of one feature of one node.

    histogram  int64 (n_values + 1, 2)   in  the missing bin last
    counts     int64 (n_values + 1,)     in  rows, or empty: decide by the bounds below
    units      (gradient unit, hessian unit)
    rules      (lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian)
    bounds     (smallest, largest) fixed-point hessian of a row

    Returns the best certain candidate (gain, bin, missing_left, left_g, left_h) and the best gain among those whose row
    counts the bounds leave open (-inf with counts).
    """
    g_unit, h_unit = units
    lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian = rules
    h_min, h_max = bounds
    exact = len(counts) > 0
    parent = leaf_score(total_g * g_unit, total_h * h_unit, lambda_l1, lambda_l2, max_delta_step)
    best, best_bin, best_missing_left, best_g, best_h = -np.inf, -1, False, np.int64(0), np.int64(0)
    best_open = -np.inf
    surely_many = (min_data - 1) * h_max  # more than that is at least min_data rows
    surely_few = min_data * h_min  # less than that is fewer
    missing_g, missing_h = histogram[n_values, 0], histogram[n_values, 1]
    missing_rows = counts[n_values] if exact else np.int64(0)
    has_missing = has_missing and (missing_g != 0 or missing_h != 0 or missing_rows != 0)
    g, h, rows = np.int64(0), np.int64(0), np.int64(0)
    for b in range(n_values):
        bin_g, bin_h = histogram[b, 0], histogram[b, 1]
        if exact:
            rows += counts[b]
            if counts[b] == 0:
                continue
        elif bin_g == 0 and bin_h == 0 and b > 0:
            continue  # the same division as one bin before, which wins the tie
        g += bin_g
        h += bin_h
        for side in range(2 if has_missing else 1):
            missing_left = has_missing and side == 0
            left_g, left_h, left_rows = g, h, rows
            if missing_left:
                left_g, left_h, left_rows = g + missing_g, h + missing_h, rows + missing_rows
            right_g, right_h = total_g - left_g, total_h - left_h
            if left_h <= 0 or right_h <= 0:
                continue
            certain = True
            if exact:
                if left_rows < min_data or n_rows - left_rows < min_data:
                    continue
            else:
                if left_h < surely_few or right_h < surely_few:
                    continue
                certain = left_h > surely_many and right_h > surely_many
            left_weight, right_weight = left_h * h_unit, right_h * h_unit
            if left_weight < min_hessian or right_weight < min_hessian:
                continue
            score = leaf_score(left_g * g_unit, left_weight, lambda_l1, lambda_l2, max_delta_step) + leaf_score(
                right_g * g_unit, right_weight, lambda_l1, lambda_l2, max_delta_step
            )
            gain = score - parent
            if gain > min_gain and gain > score * ROUNDING_NOISE:
                if certain:
                    if gain > best:
                        best, best_bin, best_missing_left, best_g, best_h = gain, b, missing_left, left_g, left_h
                elif gain > best_open:
                    best_open = gain
    if not has_missing:
        best_missing_left = best_bin >= 0
    return best, best_bin, best_missing_left, best_g, best_h, best_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_kernel(  # type: ignore[no-untyped-def]
    histograms, slots, gradient, hessian, begin, end, offsets, has_missing, no_counts, units, rules, bounds, start,
    stop, found, left_open,
):  # fmt: skip
    """Scan the (node, feature) pairs start:stop.

    found      SPLIT   (n_nodes, n_used)  out
    left_open  float64 (n_nodes, n_used)  out  best gain that would need a row count
    """
    n_used = len(has_missing)
    for pair in range(start, stop):
        node, f = pair // n_used, pair % n_used
        first, last = offsets[f], offsets[f + 1]
        result = scan_feature(
            histograms[slots[node], first:last], no_counts, last - first - 1, has_missing[f], gradient[node],
            hessian[node], end[node] - begin[node], units, rules, bounds,
        )  # fmt: skip
        write_split(found[node, f], f, result)
        left_open[node, f] = result[5]


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def write_split(split, feature, result):  # type: ignore[no-untyped-def]
    """Store what scan_feature returned."""
    split.gain = result[0]
    split.feature = feature if result[1] >= 0 else -1
    split.bin = result[1]
    split.missing_left = result[2]
    split.left_gradient = result[3]
    split.left_hessian = result[4]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def choose_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, histograms, slots, gradient, hessian, begin, end, depth, offsets,
    has_missing, units, rules, bounds, counts, start, stop, found, left_open, best,
):  # fmt: skip
    """Choose the best feature of the nodes start:stop; count rows where that decides.

    counts  int64 (most bins of a feature,)  scratch
    best    SPLIT (n_nodes,)                 out
    """
    mask = np.uint64(0xFFFFFFFF)
    n_used = len(has_missing)
    for node in range(start, stop):
        certain = -np.inf
        for f in range(n_used):
            certain = max(certain, found[node, f].gain)
        source = bins_at(bins, bins_even, bins_odd, gather, depth[node])
        records = records_at(even, odd, depth[node])
        winner = 0
        for f in range(n_used):
            if left_open[node, f] > -np.inf and left_open[node, f] >= certain:
                first, last = offsets[f], offsets[f + 1]
                counts[: last - first] = 0
                for place in range(begin[node], end[node]):
                    index = records[place, 0] & mask if gather else np.uint64(place)
                    counts[np.uint64(source[index, f])] += 1
                result = scan_feature(
                    histograms[slots[node], first:last], counts[: last - first], last - first - 1, has_missing[f],
                    gradient[node], hessian[node], end[node] - begin[node], units, rules, bounds,
                )  # fmt: skip
                write_split(found[node, f], f, result)
                certain = max(certain, result[0])
            if found[node, f].gain > found[node, winner].gain:
                winner = f
        best[node] = found[node, winner]


class SplitFinder:
    """Finds splits for one training run."""

    def __init__(self, offsets: NDArray[np.int64], has_missing: NDArray[np.bool_], n_threads: int) -> None:
        self.offsets = offsets
        self.has_missing = has_missing
        self.n_threads = n_threads
        self.most_bins = int(np.diff(offsets).max(initial=1))

    def find(
        self,
        store: RowStore,
        histograms: NDArray[np.int64],
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        quantization: Quantization,
        rules: SplitRules,
    ) -> NDArray[np.void]:
        """See protocol.Engine.find_splits."""
        n_nodes, n_used = len(slots), len(self.has_missing)
        best = np.zeros(n_nodes, SPLIT)
        if n_used == 0 or n_nodes == 0:
            best["gain"], best["feature"], best["bin"] = -np.inf, -1, -1
            return best
        found = np.empty((n_nodes, n_used), SPLIT)
        left_open = np.empty((n_nodes, n_used))
        units = (quantization.gradient_unit, quantization.hessian_unit)
        limits = (
            rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split, rules.min_data_in_leaf,
            rules.min_sum_hessian_in_leaf,
        )  # fmt: skip
        bounds = (quantization.hessian_min, quantization.hessian_max)
        bins_per_feature = max(1, int(self.offsets[-1]) // n_used)
        run_ranges(
            lambda start, stop: scan_kernel(
                histograms, slots, gradient, hessian, nodes.begin, nodes.end, self.offsets, self.has_missing,
                NO_COUNTS, units, limits, bounds, start, stop, found, left_open,
            ),
            n_nodes * n_used, self.n_threads, smallest=BINS_PER_THREAD // bins_per_feature + 1,
        )  # fmt: skip
        run_ranges(
            lambda start, stop: choose_kernel(
                *store.arrays(), histograms, slots, gradient, hessian, nodes.begin, nodes.end, nodes.depth,
                self.offsets, self.has_missing, units, limits, bounds, np.empty(self.most_bins, np.int64), start, stop,
                found, left_open, best,
            ),
            n_nodes, self.n_threads, smallest=16,
        )  # fmt: skip
        return best

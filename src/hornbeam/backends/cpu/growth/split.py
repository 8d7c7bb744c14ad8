"""Best splits on the CPU: twin of splitting.best_split.

Rows are not counted in histograms: a hessian sum already bounds the number of rows behind it (quantize.py), which
decides `min_data_in_leaf` for nearly every candidate. Where it does not, and the candidate would win, the rows of that
one feature are counted. The result is exact either way.

Divisions are slow, and only the best candidate's gain is needed. A candidate is first compared with the best so far
by products alone:

    gl^2 / hl + gr^2 / hr > bar    <=>    gl^2 hr + gr^2 hl > bar hl hr

Only those that might win (within `MARGIN`, far above the rounding of these products) get their gain computed, by the
one formula of splitting.py.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows import RowStore, bins_at, records_at
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import ROUNDING_NOISE, SplitRules, no_splits

BINS_PER_THREAD = 20_000
"""A second thread is worth waking for this many histogram bins, about 60 microseconds."""

NO_COUNTS = np.empty(0, np.int64)

MARGIN = 1.0 - 1e-9


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


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def is_better(split, other):  # type: ignore[no-untyped-def]
    """Say whether a SPLIT is taken rather than that of another thread: of equal gains the one of the first feature."""
    return split.gain > other.gain or (split.gain == other.gain and split.feature < other.feature)


@njit(nogil=True, inline="always")  # type: ignore[untyped-decorator]
def can_compare(units, rules):  # type: ignore[no-untyped-def]
    """Say whether candidates can be compared by products: no L1 penalty, no clipping, and nothing out of range."""
    scale = units[1] / (units[0] * units[0])
    return rules[0] == 0.0 and rules[2] <= 0.0 and 1e-200 < scale < 1e200 and rules[1] < 1e100 * units[1]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def compare(left_g, left_h, n_values, total_g, total_h, extra, bar, above):  # type: ignore[no-untyped-def]
    """Compare the score of every candidate with a bar, without division or branch; return how many reach it.

    left_g, left_h  int64 (>= n_values,)    in   sums of the left side
    above           float64 (>= n_values,)  out  positive where the bar is reached
    """
    for b in range(n_values):
        left, right = np.float64(left_g[b]), np.float64(total_g - left_g[b])
        wl, wr = np.float64(left_h[b]) + extra, np.float64(total_h - left_h[b]) + extra
        above[b] = (left * left * wr + right * right * wl) - bar * (wl * wr)
    reached = 0
    for b in range(n_values):
        reached += above[b] > 0.0
    return reached


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def evaluate(  # type: ignore[no-untyped-def]
    left_g, left_h, above, n_values, counts, rows, total_g, total_h, n_rows, parent, known, units, rules, bounds
):
    """Compute the gains of the candidates of one feature that might win, and keep the best.

    left_g, left_h  int64   (>= n_values,)   in  sums of the left side
    above           float64 (>= n_values,)   in  positive: might win; see compare
    counts          int64   (n_values,)      in  rows, or empty: decide by the bounds
    rows                                     rows that go left before the first bin
    the rest as in scan_side, which also says what is returned
    """
    g_unit, h_unit = units
    lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian = rules
    h_min, h_max = bounds
    exact = len(counts) > 0
    best, best_bin, best_g, best_h, best_open = -np.inf, -1, np.int64(0), np.int64(0), -np.inf
    # fixed-point hessians below `few` are too few rows, those above `many` enough; with counts they only rule out 0
    few = np.int64(1) if exact else max(np.int64(1), np.int64(min_data * h_min))
    many = np.int64(0) if exact else np.int64((min_data - 1) * h_max)
    scale, extra = h_unit / (g_unit * g_unit), lambda_l2 / h_unit
    compare_first = can_compare(units, rules)
    floor = max(min_gain, known)
    bar = bar_open = -np.inf
    for b in range(n_values):
        if exact:
            rows += counts[b]
        if above[b] <= 0.0:
            continue
        g, h = left_g[b], left_h[b]
        right_g, right_h = total_g - g, total_h - h
        if h < few or right_h < few:
            continue
        certain = h > many and right_h > many
        left, right = np.float64(g), np.float64(right_g)
        wl, wr = np.float64(h) + extra, np.float64(right_h) + extra
        if left * left * wr + right * right * wl < (bar if certain else bar_open) * (wl * wr):
            continue
        if exact and (rows < min_data or n_rows - rows < min_data):
            continue
        left_weight, right_weight = h * h_unit, right_h * h_unit
        if left_weight < min_hessian or right_weight < min_hessian:
            continue
        score = leaf_score(g * g_unit, left_weight, lambda_l1, lambda_l2, max_delta_step) + leaf_score(
            right_g * g_unit, right_weight, lambda_l1, lambda_l2, max_delta_step
        )
        gain = score - parent
        if gain > min_gain and gain > score * ROUNDING_NOISE:
            if certain:
                if gain > best:
                    best, best_bin, best_g, best_h = gain, b, g, h
            elif gain > best_open:
                best_open = gain
            if compare_first:
                bar = (max(best, floor) + parent) * scale * MARGIN
                bar_open = max(bar, (best_open + parent) * scale * MARGIN)
    return best, best_bin, best_g, best_h, best_open


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_side(  # type: ignore[no-untyped-def]
    histogram, counts, g, h, rows, total_g, total_h, n_rows, parent, known, units, rules, bounds, sums, above
):
    """Scan the value bins of one feature of one node, with missing rows on a given side.

    histogram  int64 (n_values, 2)    in
    counts     int64 (n_values,)      in  rows, or empty: decide by the bounds
    g, h, rows                        sums and rows that go left before the first bin: the missing ones, or 0
    parent                            score of the node
    known                             gain that another feature of the node reaches: what is lower need not be found
    units, rules, bounds              see scan_feature
    sums       int64 (2, >= n_values)    scratch
    above      float64 (>= n_values,)    scratch

    Returns the best certain candidate (gain, bin, left_g, left_h) and the best gain among the uncertain.
    """
    n_values = len(histogram)
    left_g, left_h = sums[0], sums[1]
    for b in range(n_values):
        g += histogram[b, 0]
        h += histogram[b, 1]
        left_g[b], left_h[b] = g, h
    if can_compare(units, rules):
        scale, extra = units[1] / (units[0] * units[0]), rules[1] / units[1]
        bar = (max(rules[3], known) + parent) * scale * MARGIN
        compare(left_g, left_h, n_values, total_g, total_h, extra, bar, above)
    else:
        above[:n_values] = 1.0
    return evaluate(
        left_g, left_h, above, n_values, counts, rows, total_g, total_h, n_rows, parent, known, units, rules, bounds
    )


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_feature(histogram, counts, has_missing, total_g, total_h, n_rows, known, units, rules, bounds, sums, above):  # type: ignore[no-untyped-def]
    """Scan the bins of one feature of one node.

    histogram  int64 (n_values + 1, 2)   in  the missing bin last
    counts     int64 (n_values + 1,)     in  rows, or empty: decide by the bounds below
    known      see scan_side
    units      (gradient unit, hessian unit)
    rules      (lambda_l1, lambda_l2, max_delta_step, min_gain, min_data, min_hessian)
    bounds     (smallest, largest) fixed-point hessian of a row
    sums, above  scratch, see scan_side

    Returns the best certain candidate (gain, bin, missing_left, left_g, left_h) and the best gain among those whose row
    counts the bounds leave open (-inf with counts).
    """
    n_values = len(histogram) - 1
    parent = leaf_score(total_g * units[0], total_h * units[1], rules[0], rules[1], rules[2])
    values, value_rows = histogram[:n_values], counts[:n_values]
    missing_g, missing_h = histogram[n_values, 0], histogram[n_values, 1]
    missing_rows = counts[n_values] if len(counts) > 0 else np.int64(0)
    zero = np.int64(0)
    best, bin_, left_g, left_h, left_open = scan_side(
        values, value_rows, missing_g, missing_h, missing_rows, total_g, total_h, n_rows, parent, known, units, rules,
        bounds, sums, above,
    )  # fmt: skip
    missing_left = True
    if has_missing and (missing_g != 0 or missing_h != 0 or missing_rows != 0):
        best2, bin2, left_g2, left_h2, left_open2 = scan_side(
            values, value_rows, zero, zero, zero, total_g, total_h, n_rows, parent, known, units, rules, bounds, sums,
            above,
        )  # fmt: skip
        if best2 > best or (best2 == best and bin2 < bin_):
            best, bin_, left_g, left_h, missing_left = best2, bin2, left_g2, left_h2, False
        left_open = max(left_open, left_open2)
    return best, bin_, missing_left and bin_ >= 0, left_g, left_h, left_open


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
def scan_features(  # type: ignore[no-untyped-def]
    histograms, slot_of_node, total_g, total_h, n_rows, offsets, has_missing, no_counts, units, rules, bounds, f0, f1,
    sums, above, found, left_open,
):  # fmt: skip
    """Scan the features f0:f1 of one node.

    sums, above  scratch, see scan_side
    found        SPLIT   (n_used,)  out  gain -inf also where another feature is known to be better
    left_open    float64 (n_used,)  out  best gain that would need a row count
    """
    g_unit, h_unit = units
    scale, extra = h_unit / (g_unit * g_unit), rules[1] / h_unit
    compare_first = can_compare(units, rules)
    nothing = (-np.inf, -1, False, np.int64(0), np.int64(0), -np.inf)
    known = -np.inf
    parent = leaf_score(total_g * g_unit, total_h * h_unit, rules[0], rules[1], rules[2])
    left_g, left_h = sums[0], sums[1]
    slot = np.uint64(slot_of_node)
    for f in range(f0, f1):
        first, missing = np.uint64(offsets[f]), np.uint64(offsets[f + 1] - 1)
        if compare_first and histograms[slot, missing, 0] == 0 and histograms[slot, missing, 1] == 0:
            # most features of a node end here: nothing reaches what another one has
            g, h = np.int64(0), np.int64(0)
            for entry in range(first, missing):
                g += histograms[slot, entry, 0]
                h += histograms[slot, entry, 1]
                left_g[entry - first], left_h[entry - first] = g, h
            bar = (max(rules[3], known) + parent) * scale * MARGIN
            n_values = np.int64(missing - first)
            if compare(left_g, left_h, n_values, total_g, total_h, extra, bar, above) == 0:
                write_split(found[f], f, nothing)
                left_open[f] = -np.inf
                continue
            best, bin_, best_g, best_h, best_open = evaluate(
                left_g, left_h, above, n_values, no_counts, np.int64(0), total_g, total_h, n_rows, parent, known, units,
                rules, bounds,
            )  # fmt: skip
            result = best, bin_, bin_ >= 0, best_g, best_h, best_open
        else:
            result = scan_feature(
                histograms[slot, offsets[f] : offsets[f + 1]], no_counts, has_missing[f], total_g, total_h, n_rows,
                known, units, rules, bounds, sums, above,
            )  # fmt: skip
        known = max(known, result[0])
        write_split(found[f], f, result)
        left_open[f] = result[5]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def choose_feature(  # type: ignore[no-untyped-def]
    bins, records, gather, histograms, slot, total_g, total_h, begin, end, offsets, has_missing, units, rules, bounds,
    counts, sums, above, found, left_open,
):  # fmt: skip
    """Return the feature with the best split of one node; count rows where that decides.

    counts            int64 (most bins of a feature,)  scratch
    found, left_open  in out, see scan_features
    """
    mask = np.uint64(0xFFFFFFFF)
    n_used = len(has_missing)
    certain = -np.inf
    for f in range(n_used):
        certain = max(certain, found[f].gain)
    winner = 0
    for f in range(n_used):
        if left_open[f] > -np.inf and left_open[f] >= certain:
            first, last = np.int64(offsets[f]), np.int64(offsets[f + 1])
            counts[: last - first] = 0
            for place in range(np.uint64(begin), np.uint64(end)):
                index = records[place, 0] & mask if gather else place
                counts[np.uint64(bins[index, np.uint64(f)])] += 1
            result = scan_feature(
                histograms[slot, first:last], counts[: last - first], has_missing[f], total_g, total_h, end - begin,
                certain, units, rules, bounds, sums, above,
            )  # fmt: skip
            write_split(found[f], f, result)
            certain = max(certain, result[0])
        if found[f].gain > found[winner].gain:
            winner = f
    return winner


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def scan_kernel(  # type: ignore[no-untyped-def]
    histograms, slots, gradient, hessian, begin, end, offsets, has_missing, no_counts, units, rules, bounds, most_bins,
    start, stop, found, left_open,
):  # fmt: skip
    """Scan the (node, feature) pairs start:stop.

    found, left_open  (n_nodes, n_used)  out  see scan_features
    """
    n_used = len(has_missing)
    sums, above = np.empty((2, most_bins), np.int64), np.empty(most_bins)
    for node in range(start // n_used, (stop - 1) // n_used + 1):
        f0, f1 = max(0, start - node * n_used), min(n_used, stop - node * n_used)
        scan_features(
            histograms, slots[node], gradient[node], hessian[node], end[node] - begin[node], offsets, has_missing,
            no_counts, units, rules, bounds, f0, f1, sums, above, found[node], left_open[node],
        )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def choose_kernel(  # type: ignore[no-untyped-def]
    bins, bins_even, bins_odd, even, odd, gather, histograms, slots, gradient, hessian, begin, end, depth, offsets,
    has_missing, units, rules, bounds, counts, start, stop, found, left_open, best,
):  # fmt: skip
    """Choose the best feature of the nodes start:stop.

    counts  int64 (most bins of a feature,)  scratch
    best    SPLIT (n_nodes,)                 out
    """
    sums, above = np.empty((2, len(counts)), np.int64), np.empty(len(counts))
    for node in range(start, stop):
        winner = choose_feature(
            bins_at(bins, bins_even, bins_odd, gather, depth[node]), records_at(even, odd, depth[node]), gather,
            histograms, slots[node], gradient[node], hessian[node], begin[node], end[node], offsets, has_missing, units,
            rules, bounds, counts, sums, above, found[node], left_open[node],
        )  # fmt: skip
        best[node] = found[node, winner]


class SplitFinder:
    """Finds splits for one training run."""

    def __init__(self, offsets: NDArray[np.int64], has_missing: NDArray[np.bool_], n_threads: int) -> None:
        self.offsets = offsets
        self._places = offsets.astype(np.uint64)  # the type that expand.py has: what both use is compiled once
        self.has_missing = has_missing
        self.n_threads = n_threads
        self.most_bins = int(np.diff(offsets).max(initial=1))

    @staticmethod
    def numbers(quantization: Quantization, rules: SplitRules) -> tuple[tuple[float, ...], ...]:
        """Return `units, rules, bounds` as the kernels take them, see scan_feature."""
        return (
            (quantization.gradient_unit, quantization.hessian_unit),
            (
                rules.lambda_l1, rules.lambda_l2, rules.max_delta_step, rules.min_gain_to_split,
                rules.min_data_in_leaf, rules.min_sum_hessian_in_leaf,
            ),
            (quantization.hessian_min, quantization.hessian_max),
        )  # fmt: skip

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
        if n_used == 0 or n_nodes == 0:
            return no_splits(n_nodes)
        best = np.zeros(n_nodes, SPLIT)
        found = np.empty((n_nodes, n_used), SPLIT)
        left_open = np.empty((n_nodes, n_used))
        how = self.numbers(quantization, rules)
        bins_per_feature = max(1, int(self.offsets[-1]) // n_used)
        run_ranges(
            lambda start, stop: scan_kernel(
                histograms, slots, gradient, hessian, nodes.begin, nodes.end, self._places, self.has_missing,
                NO_COUNTS, *how, self.most_bins, start, stop, found, left_open,
            ),
            n_nodes * n_used, self.n_threads, smallest=BINS_PER_THREAD // bins_per_feature + 1,
        )  # fmt: skip
        run_ranges(
            lambda start, stop: choose_kernel(
                *store.arrays(), histograms, slots, gradient, hessian, nodes.begin, nodes.end, nodes.depth,
                self._places, self.has_missing, *how, np.empty(self.most_bins, np.int64), start, stop,
                found, left_open, best,
            ),
            n_nodes, self.n_threads, smallest=16,
        )  # fmt: skip
        return best

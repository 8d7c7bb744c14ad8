"""Trees that all outputs share, grown whole by the driver of other trees (trees/driver.py).

The rounded gradients and hessians of a row are *lanes* of 32 bits, side by side, and so are the counters of a bin: a
row is added to a bin in all lanes at once, by vectors of 4, 8 or 16.

    lanes of three outputs       | g0 g1 g2 | h0 h1 h2 | 1 |     hessians of 1 each are one lane, which counts rows, too
    counters of a bin            the same, in groups of up to 16 lanes
    running sums of a node       (n_lanes, n_total_bins), of 32 bits, or of 64 where sums are larger

Records bring row numbers alone, and bins are fetched by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.dense.shared_histograms import Kept
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS, ROWS_AHEAD
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.rows.rounding import Rounded
from hornbeam.backends.cpu.growth.splits.rules import clear_split
from hornbeam.backends.cpu.growth.splits.shared import Room, score_node, scoring_of, search_feature
from hornbeam.backends.cpu.growth.trees.driver import Work, grow_kernel, tree_table
from hornbeam.backends.cpu.host.atomics import add_eight, add_four, add_sixteen, fetch_ahead
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import Operation, introduced
from hornbeam.backends.cpu.host.team import meet, team, worthwhile
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_splits import OutputsRoot, SharedAhead
from hornbeam.trees.splitting import SplitRules

PADDING = 16
"""Bins after the last one: lanes that are a multiple of 4096 bytes apart would share few lines of the cache."""


class Lanes(NamedTuple):
    """What rows add.

    values     int32 (n,)          row r of group i has its lanes from starts[i] + r * widths[i] on
    starts     int64 (n_groups,)
    widths     int64 (n_groups,)   lanes of a group: 4, 8 or 16
    n_outputs  the first lanes are their gradients
    n_lanes    others of the last group have nothing
    """

    values: NDArray[np.int32]
    starts: NDArray[np.int64]
    widths: NDArray[np.int64]
    n_outputs: int
    n_lanes: int

    @classmethod
    def make(cls, n_rows: int, n_outputs: int, n_lanes: int) -> Lanes:
        """Make room for so many lanes."""
        widths = [16] * (n_lanes // 16)
        if n_lanes % 16:
            widths.append(4 if n_lanes % 16 <= 4 else 8 if n_lanes % 16 <= 8 else 16)
        sizes = np.array(widths) * n_rows
        return cls(
            np.zeros(int(sizes.sum()), np.int32), np.cumsum(sizes) - sizes, np.array(widths), n_outputs, n_lanes
        )  # fmt: skip


class Sums(NamedTuple):
    """Running sums of all slots, (n_slots, n_lanes, n_total_bins + PADDING).

    gradient  int32 or int64
    hessian   uint32 or uint64, the same memory
    """

    gradient: NDArray[Any]
    hessian: NDArray[Any]


@kernel
def fill_lanes(start, stop, narrow, columns, lanes):
    """Write the lanes of the rows start:stop.

    narrow   uint32 (n_rows, n)  in   see Kept
    columns  int64 (n_lanes,)    in   column of `narrow` that a lane is made of
    """
    for group in range(len(lanes.widths)):
        width, first = lanes.widths[group], 16 * group
        for row in range(start, stop):
            place = lanes.starts[group] + row * width - first
            for number in range(first, min(lanes.n_lanes, first + width)):
                pair = narrow[row, columns[number]]
                low, high = np.int32(np.int16(pair & np.uint32(0xFFFF))), np.int32(pair >> np.uint32(16))
                lanes.values[place + number] = low if number < lanes.n_outputs else high


@inner_kernel
def add_rows(bins, records, begin, end, f0, f1, offsets, values, width, counters):
    """Add the rows begin:end to the counters of the features f0:f1, in all lanes of a group.

    values    int32 (n_rows * width,)   in
    counters  int32 (n_bins * width,)   in out
    """
    base, first, last, lanes = np.uint64(offsets[f0]), np.uint64(f0), np.uint64(f1), np.uint64(width)
    fours = begin + (end - begin) // 4 * 4
    for place in range(begin, fours, 4):  # four rows at a time, so that their additions overlap
        r0, r1 = records[np.uint64(place)] & ROW_MASK, records[np.uint64(place + 1)] & ROW_MASK
        r2, r3 = records[np.uint64(place + 2)] & ROW_MASK, records[np.uint64(place + 3)] & ROW_MASK
        v0, v1, v2, v3 = r0 * lanes, r1 * lanes, r2 * lanes, r3 * lanes
        if place + ROWS_AHEAD + 4 <= end:
            for i in range(np.uint64(place + ROWS_AHEAD), np.uint64(place + ROWS_AHEAD + 4)):
                fetch_ahead(bins, records[i] & ROW_MASK)
        for f in range(first, last):
            bin_0 = np.uint64(offsets[f]) - base
            b0, b1 = (bin_0 + np.uint64(bins[r0, f])) * lanes, (bin_0 + np.uint64(bins[r1, f])) * lanes
            b2, b3 = (bin_0 + np.uint64(bins[r2, f])) * lanes, (bin_0 + np.uint64(bins[r3, f])) * lanes
            if width == 4:
                add_four(counters, b0, values, v0)
                add_four(counters, b1, values, v1)
                add_four(counters, b2, values, v2)
                add_four(counters, b3, values, v3)
            elif width == 8:
                add_eight(counters, b0, values, v0)
                add_eight(counters, b1, values, v1)
                add_eight(counters, b2, values, v2)
                add_eight(counters, b3, values, v3)
            else:
                add_sixteen(counters, b0, values, v0)
                add_sixteen(counters, b1, values, v1)
                add_sixteen(counters, b2, values, v2)
                add_sixteen(counters, b3, values, v3)
    for place in range(fours, end):
        r0 = records[np.uint64(place)] & ROW_MASK
        for f in range(first, last):
            entry = (np.uint64(offsets[f]) - base + np.uint64(bins[r0, f])) * lanes
            for i in range(lanes):
                counters[entry + i] += values[r0 * lanes + i]


@inlined
def mask_of(lane, lanes):
    """Return the bits that a counter of 32 bits has, once it is of 64: gradients keep their sign."""
    return np.int64(-1) if lane < lanes.n_outputs else np.int64(0xFFFFFFFF)


@inner_kernel
def run_lane(counters, lane, width, mask, is_first, out):
    """Write the running sums of one lane of a feature, or add them to those of other rows.

    counters  int32 (n_bins * width,)  in
    mask      of what a counter has
    out       int32 or int64 (n_bins,) out
    """
    total = np.int64(0)
    for b in range(len(out)):
        total += np.int64(counters[b * width + lane]) & mask
        out[b] = out.dtype.type(total) if is_first else out.dtype.type(out[b] + total)


@inner_kernel
def _sum(call, crew, rows, lanes, offsets, counters, sums):
    """See sum_lanes; returns False if a thread has failed."""
    t, n_rows, records = call.part, call.end - call.begin, rows.even if call.depth % 2 == 0 else rows.odd
    out, f_first, f_last, n_parts, part = sums.gradient[call.spare], call.first, call.last, np.int64(1), np.int64(0)
    if not call.alone and crew.size > 1 and n_rows > offsets[-1]:  # each thread adds some of the rows
        f_first, f_last, n_parts, part = np.int64(0), np.int64(len(offsets) - 1), np.int64(crew.size), t
    begin, end = call.begin + n_rows * part // n_parts, call.begin + n_rows * (part + 1) // n_parts
    n_turns = 1 if out.itemsize == 4 else max(1, -(-(n_rows // n_parts + 1) // PACKED_ROWS))
    for group in range(len(lanes.widths)):
        width, values = lanes.widths[group], lanes.values[lanes.starts[group] :]
        f1 = f_first
        while f1 < f_last:
            f0, f1 = f1, f1 + 1
            while f1 < f_last and (offsets[f1 + 1] - offsets[f0]) * width <= counters.shape[1]:
                f1 += 1
            base, n = offsets[f0], (offsets[f1] - offsets[f0]) * width
            for turn in range(n_turns):
                counters[t, :n] = 0
                start, stop = begin + (end - begin) * turn // n_turns, begin + (end - begin) * (turn + 1) // n_turns
                add_rows(rows.bins, records, start, stop, f0, f1, offsets, values, width, counters[t])
                if n_parts > 1 and not meet(crew):
                    return False
                for f in range(max(f0, call.first), min(f1, call.last)):
                    for i in range(min(width, lanes.n_lanes - 16 * group)):
                        mask = mask_of(16 * group + i, lanes)
                        for other in range(n_parts):
                            of = t if n_parts == 1 else other
                            run_lane(
                                counters[of, (offsets[f] - base) * width :], i, width, mask, turn == 0 and other == 0,
                                out[16 * group + i, offsets[f] : offsets[f + 1]],
                            )  # fmt: skip
                if n_parts > 1 and not meet(crew):
                    return False
    return True


@kernel
def sum_lanes(t, room, calls, crew, rows, lanes, offsets, counters, sums):
    """Sum the smaller child of a node: the operation `sum`. The larger one is subtracted from when it is searched.

    Each thread sums all rows for its features, or, of a large node, some rows for all features.

    counters  int32 (n_threads, n)   scratch
    sums      Sums                   in out
    """
    if introduced(t, room, (calls, crew, rows, lanes, offsets, counters, sums)):
        return
    call = calls[t]
    call.failed = not _sum(call, crew, rows, lanes, offsets, counters, sums)


@inner_kernel
def subtract_lanes(sums, slot, less, first, last):
    """Subtract the bins first:last of one slot from those of another."""
    for lane in range(sums.shape[1]):
        own, other = sums[slot, lane, first:last], sums[less, lane, first:last]
        for b in range(len(own)):
            own[b] -= other[b]


@inner_kernel
def enter_split(gradient, hessian, first, last, scoring, f, best, split):
    """Enter the best split so far, of feature f; its sums are those of all outputs. best: see search_feature."""
    split.gain, split.feature, split.bin, split.missing_left = best[0], f, best[1], best[2]
    split.left_gradient, split.left_hessian = 0, 0
    for k in range(len(scoring.units)):
        own_g, own_h = gradient[k, first:last], hessian[scoring.hessian_lane[k], first:last]
        split.left_gradient += np.int64(own_g[best[1]])
        split.left_hessian += np.int64(own_h[best[1]])
        if best[2]:
            split.left_gradient += np.int64(own_g[-1]) - np.int64(own_g[-2])
            split.left_hessian += np.int64(own_h[-1]) - np.int64(own_h[-2])


@inner_kernel
def _search(call, offsets, has_missing, sums, scoring, room):
    """See search_lanes."""
    gradient, hessian, split, bar = sums.gradient[call.slot], sums.hessian[call.slot], call.split, -np.inf
    clear_split(split)
    for f in range(call.first, call.last):
        first, last = offsets[f], offsets[f + 1]
        if call.less >= 0:
            subtract_lanes(sums.gradient, call.slot, call.less, first, last)
        if f == call.first:
            score_node(gradient, hessian, last - 1, scoring, room.parents)
        gain, b, is_left, bar = search_feature(gradient, hessian, first, last, has_missing[f], scoring, room, bar)
        if gain > split.gain:
            enter_split(gradient, hessian, first, last, scoring, f, (gain, b, is_left), split)


@kernel
def search_lanes(t, room, calls, offsets, has_missing, sums, scoring, scratch):
    """Search a node: the operation `search`.

    sums     Sums                                  in out   the smaller sibling is subtracted here
    scratch  Room, with a leading axis of threads  scratch
    """
    if introduced(t, room, (calls, offsets, has_missing, sums, scoring, scratch)):
        return
    own = Room(scratch.scores[t], scratch.bits[t], scratch.parents[t])
    _search(calls[t], offsets, has_missing, sums, scoring, own)


@inner_kernel
def add_leaf(records, begin, end, values, width, sums):
    """Add up the rows begin:end in all lanes of a group; values as in add_rows; sums: int32 (16,), in out."""
    lanes, zero = np.uint64(width), np.uint64(0)
    for place in range(np.uint64(begin), np.uint64(end)):
        row = (records[place] & ROW_MASK) * lanes
        if width == 4:
            add_four(sums, zero, values, row)
        elif width == 8:
            add_eight(sums, zero, values, row)
        else:
            add_sixteen(sums, zero, values, row)


@kernel
def sum_nodes(nodes, even, odd, lanes, part, sums):
    """Sum the lanes of all nodes.

    nodes  NODE (n_nodes,)            in
    part   int32 (16,)                scratch
    sums   int64 (n_nodes, n_lanes)   out
    """
    sums[:, :] = 0
    for number in range(len(nodes) - 1, -1, -1):  # children come after their parent
        node, own = nodes[number], sums[number]
        if node.left >= 0:
            for lane in range(len(own)):
                own[lane] = sums[node.left, lane] + sums[node.left + 1, lane]
            continue
        records = even if node.depth % 2 == 0 else odd
        for group in range(len(lanes.widths)):
            values, first = lanes.values[lanes.starts[group] :], 16 * group
            for start in range(node.begin, node.end, PACKED_ROWS):
                part[:] = 0
                add_leaf(records, start, min(start + PACKED_ROWS, node.end), values, lanes.widths[group], part)
                for lane in range(first, min(lanes.n_lanes, first + 16)):
                    own[lane] += np.int64(part[lane - first]) & mask_of(lane, lanes)


def lanes_of(root: OutputsRoot) -> tuple[list[int], list[int]]:
    """Return the histogram that each lane is made of, and the lane of the hessians of each histogram."""
    n_outputs = len(root.quantizations)
    columns, of_hessians, ones = list(range(n_outputs)), [], -1
    for output, how in enumerate(root.quantizations):
        is_one = how.hessian_min == how.hessian_max == 1
        if not is_one or ones < 0:
            columns.append(output)
        of_hessians.append(ones if is_one and ones >= 0 else len(columns) - 1)
        ones = of_hessians[-1] if is_one else ones
    if root.counter == n_outputs:
        columns.append(n_outputs)
        of_hessians.append(len(columns) - 1)
    return columns, of_hessians


class SharedTrees:
    """Grows the trees that all outputs share, one after the other, on dense data.

    growth  what grows other trees of the training
    """

    def __init__(self, growth: DenseGrowth) -> None:
        self._growth = growth
        self._lanes = Lanes.make(0, 0, 0)
        self._memory = np.empty(0, np.int32)
        self._counters = np.empty((0, 0), np.int32)
        self._sum, self._search = Operation(sum_lanes), Operation(search_lanes)

    def _item_bytes(self, rounded: Sequence[Rounded]) -> int:
        """Return the bytes of a running sum; 0: they are too large for any."""
        tuning = self._growth.tuning
        gradient, hessian = (
            max(one.sum_of_magnitudes for one in rounded),
            max(max(one.root.hessian for one in rounded), rounded[0].root.n_rows),
        )
        if any(one.quantization.wide for one in rounded) or max(gradient, hessian) > tuning.most_wide_sums:
            return 0
        return 4 if gradient <= tuning.most_narrow_gradients and hessian <= tuning.most_narrow_hessians else 8

    def grow(
        self, table: NDArray[np.void], root: OutputsRoot, rounded: Sequence[Rounded], kept: Kept, rules: SplitRules,
        limits: GrowthLimits,
    ) -> SharedAhead | None:  # fmt: skip
        """Grow a tree: see engine.OutputGrowth.grow_shared.

        table    NODE (1,): the root
        rounded  of the outputs
        """
        growth, tuning, n_outputs = self._growth, self._growth.tuning, len(rounded)
        (columns, of_hessians), item, space = lanes_of(root), self._item_bytes(rounded), growth.columns
        n_lanes, n_bins, n_features = len(columns), space.n_bins, len(space.numbers)
        room = growth.n_slots * 16 * n_bins  # bytes that histograms may take
        needed = limits.n_leaves * n_lanes * (n_bins + PADDING) * item
        if not item or not n_features or not growth.may_copy or limits.n_leaves > tuning.most_leaves or needed > room:
            return None
        lanes = self._fill(kept, columns, n_outputs)
        scoring = scoring_of(
            [one.quantization for one in rounded], np.array(of_hessians[:n_outputs]), of_hessians[root.counter], rules
        )
        growth.set_rules(rules)
        growth.turn_columns()
        with team(worthwhile(n_outputs * growth.tree_ns(limits), min(growth.n_team, n_features), tuning)) as some:
            with some.interruptible():
                work = self._work(some.crew, lanes, scoring, item, limits)
                grown, numbered_limits = tree_table(table, limits, some.size, growth.sides)
                grown = grown._replace(plan=growth.plan(limits, some.size))
                operation = growth.growing(some.crew, work, grown, numbered_limits)
            some.run(grow_kernel, operation)
        nodes = grown.nodes[0, : int(grown.n_grown[0])]
        sums = np.empty((len(nodes), n_lanes), np.int64)
        sum_nodes(nodes, growth.store.even, growth.store.odd, lanes, np.empty(16, np.int32), sums)
        space.outside(nodes["split"])
        of_outputs = np.stack([sums[:, :n_outputs], sums[:, of_hessians[:n_outputs]]], axis=2)
        return SharedAhead(nodes, lambda: of_outputs)

    def _fill(self, kept: Kept, columns: list[int], n_outputs: int) -> Lanes:
        """Write the lanes of all rows."""
        n_rows, growth, made_of = len(kept.narrow), self._growth, np.array(columns)
        if (self._lanes.n_outputs, self._lanes.n_lanes) != (n_outputs, len(columns)):
            self._lanes = Lanes.make(n_rows, n_outputs, len(columns))
        run_ranges(
            lambda start, stop: fill_lanes(start, stop, kept.narrow, made_of, self._lanes),
            n_rows, growth.n_threads, smallest=growth.tuning.rounded_rows_per_thread,
        )  # fmt: skip
        return self._lanes

    def _work(self, crew: Any, lanes: Lanes, scoring: Any, item: int, limits: GrowthLimits) -> Work:
        """Return what a team needs to grow a tree."""
        growth, columns = self._growth, self._growth.columns
        shape = limits.n_leaves, lanes.n_lanes, columns.n_bins + PADDING
        size = shape[0] * shape[1] * shape[2] * item // 4
        if len(self._memory) < size:
            self._memory = np.empty(size, np.int32)
        gradient = self._memory[:size].view(f"i{item}").reshape(shape)
        sums, most_bins = Sums(gradient, gradient.view(f"u{item}")), int(np.diff(columns.offsets).max())
        n_counters = max(16 * most_bins, min(16 * columns.n_bins, growth.tuning.lanes_at_once))
        if self._counters.shape != (growth.n_threads, n_counters):
            self._counters = np.empty((growth.n_threads, n_counters), np.int32)
        scores = np.empty((growth.n_threads, 2, most_bins), np.float32)
        scratch = Room(scores, scores.view(np.int32), np.empty((growth.n_threads, lanes.n_outputs)))
        rows, calls, offsets = growth.rows._replace(by_row=True), growth.calls, columns.offsets
        divide = growth.divide.on(calls, crew, rows, growth.goes_left)
        summed = self._sum.on(calls, crew, rows, lanes, offsets, self._counters, sums)
        search = self._search.on(calls, offsets, columns.features.has_missing, sums, scoring, scratch)
        cuts = growth.shares(crew.size, limits).cuts
        return Work(calls, cuts, growth.numbers, growth.goes_left, divide, summed, search)

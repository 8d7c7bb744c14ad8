"""Path-dependent Shapley values on the CPU: many rows walk through a tree side by side.

trees/shapley/plan.py says what is computed and in which order. Every step of a walk is a loop over the rows of a block,
two points of the quadrature at a time, which the compiler turns into vector instructions; a row's code picks one of
three numbers that are the same for all rows. What a walk keeps (G by level, H by room, sums by feature) is

    float64 (levels or rooms, 2 points, ROWS), flat

and its deep end, where most of the steps are, stays in the first-level cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.explanation.blocks import Work, run_blocks
from hornbeam.backends.cpu.explanation.decisions import RowRanks, SplitTests, decide, split_tests
from hornbeam.backends.cpu.host.kernels import joined_kernel, kernel
from hornbeam.backends.cpu.prediction.packed_forest import PackedForest
from hornbeam.backends.cpu.prediction.walk import packed
from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.shapley.joined_plan import Paths, Walks, join_paths, join_walks
from hornbeam.trees.shapley.plan import CLOSE, CLOSE_LEAVES, TO_FIRST, TO_SECOND, ShapleyPlan

ROWS = 256
"""Rows of a block. 100 trees of 255 leaves, microseconds a row and tree with 64, 128, 256, 512 rows: 7.1, 4.4, 3.5, 3.3
(Xeon at 2.5 GHz, shared with others); twice the rows are twice the memory, too."""

PAIR_BYTES = 8 << 20
"""Memory of a thread for the sums of pairs of features; trees with many of them take fewer rows at a time."""


class Scratch(NamedTuple):
    """What a thread works with, flat; n is the number of rows of a block.

    codes        uint8   (most splits of a tree, n)
    G            float64 (levels + 1, 2, n)
    H            float64 (rooms + 1, 2, n)
    sums, totals float64 (most features of a tree, n)   of a pair of points, and of the points so far
    parts        float64 (2, n)                         c of the last split
    pair_sums, pair_totals  float64 (most pairs of a tree, n)
    """

    codes: NDArray[np.uint8]
    G: NDArray[np.float64]
    H: NDArray[np.float64]
    sums: NDArray[np.float64]
    totals: NDArray[np.float64]
    parts: NDArray[np.float64]
    pair_sums: NDArray[np.float64]
    pair_totals: NDArray[np.float64]

    @staticmethod
    def allocate(walks: Walks, paths: Paths | None, n_rows: int) -> Scratch:
        """Return room for blocks of n_rows rows."""
        most_pairs = 0 if paths is None else int(np.diff(paths.pair_start).max(initial=0))
        most_features = int(np.diff(walks.feature_start).max(initial=0))
        sizes = (
            2 * (int(walks.level.max(initial=-1)) + 2),
            2 * (int(walks.room.max(initial=-1)) + 2),
            most_features,
            most_features,
            2,
            most_pairs,
            most_pairs,
        )
        codes = np.zeros(int(np.diff(walks.split_start).max(initial=0)) * n_rows, np.uint8)
        return Scratch(codes, *(np.zeros(size * n_rows) for size in sizes))


class CpuExplainer:
    """A forest and its plan as the kernels want them."""

    def __init__(self, forest: PackedForest, plan: ShapleyPlan) -> None:
        self.forest, self.plan = forest, plan
        self.tests: SplitTests = split_tests(forest)
        self.walks = join_walks(plan)
        self._paths: Paths | None = None

    @property
    def paths(self) -> Paths:
        """The paths; made when first asked for."""
        if self._paths is None:
            self._paths = join_paths(self.plan)
        return self._paths


def explainer_of(forest: Forest, plan: ShapleyPlan, cover: str) -> CpuExplainer:
    """Return a forest as the kernels want it; it is kept as long as the Forest lives."""
    own = packed(forest)
    return forest.packed_for(f"cpu, cover by {cover}", lambda: CpuExplainer(own, plan))


def add_contributions(
    explainer: CpuExplainer,
    reader: Reader,
    rows: range,
    chosen: range,
    out: NDArray[np.float64],
    pairs_out: NDArray[np.float64] | None,
    n_threads: int,
) -> None:
    """Add the Shapley values of the chosen trees for some rows, and the derivatives for pairs of features if asked for.

    out        float64 (len(rows), n_outputs, n_features)              in, out
    pairs_out  float64 (len(rows), n_outputs, n_features, n_features)  in, out   or None
    """
    walks, paths = explainer.walks, None if pairs_out is None else explainer.paths
    n_block = ROWS
    if paths is not None:
        n_block = max(8, min(ROWS, PAIR_BYTES // (16 * int(np.diff(paths.pair_start).max(initial=1)) + 1)))

    def begin() -> Work:
        ranks = RowRanks(explainer.forest, n_block)
        scratch = Scratch.allocate(walks, paths, n_block)

        def work(block: NDArray[np.float64], start: int, stop: int) -> None:
            pairs_part = None if pairs_out is None else pairs_out[start:stop]
            walk_kernel(
                ranks.fill(block), explainer.tests, explainer.forest.sets, walks, paths, chosen.start, chosen.stop,
                scratch, out[start:stop], pairs_part,
            )  # fmt: skip

        return work

    run_blocks(begin, reader, rows, n_block, n_threads)


@kernel
def codes_of_tree(ranks, n_rows, stride, tests, sets, walks, tree, codes):
    """Write the codes of a tree: what every row would do at every split.

    ranks  uint16 (n_columns, stride)       in
    codes  uint8 (most splits * stride,)    out
    """
    begin = walks.split_start[tree]
    for number in range(walks.split_start[tree + 1] - begin):
        own = codes[number * stride : number * stride + n_rows]
        decide(ranks, 0, n_rows, tests, sets, walks.split[begin + number], own)
        if walks.is_right[begin + number]:
            for row in range(n_rows):
                own[row] ^= np.uint8(1)
        before = walks.previous[begin + number]
        if before >= 0:
            place, on_path = (before >> 1) * stride, np.uint8(1 - (before & 1))
            earlier = codes[place : place + n_rows]
            for row in range(n_rows):
                own[row] = own[row] if earlier[row] == on_path else np.uint8(2)


@joined_kernel
def _pick(code, away, toward, gone):
    """Return what a code stands for: 0, 1 or 2."""
    return toward if code == np.uint8(1) else (away if code == np.uint8(0) else gone)


@kernel
def walk_kernel(ranks, tests, sets, walks, paths, first, last, scratch, out, pairs_out):
    """Add the Shapley values of trees first..last - 1 for a block of rows.

    ranks      uint16 (n_columns, n_block)             in    see decisions.py
    tests, sets, walks, scratch                              see there
    paths      Paths or None                           in
    out        float64 (n_rows, n_outputs, n_features)              in, out
    pairs_out  float64 (n_rows, n_outputs, n_features, n_features)  in, out   None where paths is
    """
    n_rows, n_outputs, stride = out.shape[0], out.shape[1], ranks.shape[1]
    for tree in range(first, last):
        n_features = walks.feature_start[tree + 1] - walks.feature_start[tree]
        if n_features == 0:
            continue
        codes_of_tree(ranks, n_rows, stride, tests, sets, walks, tree, scratch.codes)
        n_pairs = 0
        if paths is not None:
            n_pairs = paths.pair_start[tree + 1] - paths.pair_start[tree]
        begin = walks.point_start[tree]
        for q in range(begin, walks.point_start[tree + 1], 2):
            _walk(walks, paths, tree, q, scratch, n_rows, stride)
            _gather(scratch.sums, scratch.totals, n_features, n_rows, stride, q == begin)
            if paths is not None:
                _gather(scratch.pair_sums, scratch.pair_totals, n_pairs, n_rows, stride, q == begin)
        features, output = walks.features[walks.feature_start[tree] :], tree % n_outputs
        for slot in range(n_features):
            feature = features[slot]
            for row in range(n_rows):
                out[row, output, feature] += scratch.totals[slot * stride + row]
        if paths is not None:
            for pair in range(n_pairs):
                slots = paths.pairs[paths.pair_start[tree] + pair]
                one, two = features[slots[0]], features[slots[1]]
                for row in range(n_rows):
                    pairs_out[row, output, one, two] += scratch.pair_totals[pair * stride + row]


@kernel
def _gather(sums, totals, n, n_rows, stride, is_first):
    """Add the sums of a pair of points to the totals, and clear them.

    sums, totals  float64 (n * stride,)  in, out
    """
    for place in range(n):
        for i in range(np.uint64(place * stride), np.uint64(place * stride + n_rows)):
            totals[i] = sums[i] if is_first else totals[i] + sums[i]
            sums[i] = 0.0


@kernel
def _walk(walks, paths, tree, q, scratch, n_rows, stride):
    """Walk through a tree at the points q and q + 1; adds to the sums."""
    share, merged, previous, value = walks.share, walks.merged, walks.previous, walks.value
    slots, levels, rooms, steps = walks.slot, walks.level, walks.room, walks.step
    codes, G, H, sums, parts = scratch.codes, scratch.G, scratch.H, scratch.sums, scratch.parts
    t0, t1 = walks.point[q], walks.point[q + 1]
    u0, u1 = 1.0 - t0, 1.0 - t1
    n, wide = np.uint64(n_rows), np.uint64(stride)
    split_begin = walks.split_start[tree]
    for row in range(n):
        G[row] = walks.weight[q]
        G[wide + row] = walks.weight[q + 1]
    for entry in range(walks.step_start[tree], walks.step_start[tree + 1]):
        kind, number = steps[entry] & 7, steps[entry] >> 3
        split = split_begin + number
        code = np.uint64(number) * wide
        g = np.uint64(levels[split]) * np.uint64(2) * wide
        r0 = r1 = 1.0
        if previous[split] >= 0:
            r0 = 1.0 / (merged[split] * u0 + t0)
            r1 = 1.0 / (merged[split] * u1 + t1)
        child = 1 if kind == TO_SECOND else 0
        z = share[split, child]
        # chances of child 1, or of child 2 where the walk goes down to it: a at point q, b at point q + 1
        a, b = merged[split] * z * u0, merged[split] * z * u1
        a0, a1, b0, b1 = a * r0, (a + t0) * r0, b * r1, (b + t1) * r1
        if child == 1:
            a0, a1, b0, b1 = a1, a0, b1, b0
        if kind in (TO_FIRST, TO_SECOND):
            down = g + np.uint64(2) * wide
            for row in range(n):
                c = codes[code + row]
                G[down + row] = G[g + row] * _pick(c, a0, a1, z)
                G[down + wide + row] = G[g + wide + row] * _pick(c, b0, b1, z)
            continue
        total = np.uint64(slots[split]) * wide
        h = np.uint64(rooms[split]) * np.uint64(2) * wide
        x0, x1 = -(merged[split] * share[split, 0] * r0 * r0), merged[split] * share[split, 1] * r0 * r0
        y0, y1 = -(merged[split] * share[split, 0] * r1 * r1), merged[split] * share[split, 1] * r1 * r1
        v = value[split, 1]
        if kind == CLOSE_LEAVES:
            d = value[split, 0] - v
            for row in range(n):
                c = codes[code + row]
                p0 = G[g + row] * _pick(c, x0 * d, x1 * d, 0.0 * d)
                p1 = G[g + wide + row] * _pick(c, y0 * d, y1 * d, 0.0 * d)
                sums[total + row] += p0 + p1
                H[h + row] = _pick(c, v + a0 * d, v + a1 * d, v + z * d)
                H[h + wide + row] = _pick(c, v + b0 * d, v + b1 * d, v + z * d)
                if paths is not None:
                    parts[row] = p0
                    parts[wide + row] = p1
        elif kind == CLOSE:
            second = h + np.uint64(2) * wide
            for row in range(n):
                c = codes[code + row]
                d, e = H[h + row] - H[second + row], H[h + wide + row] - H[second + wide + row]
                p0 = G[g + row] * (_pick(c, x0, x1, 0.0) * d)
                p1 = G[g + wide + row] * (_pick(c, y0, y1, 0.0) * e)
                sums[total + row] += p0 + p1
                H[h + row] = H[second + row] + _pick(c, a0, a1, z) * d
                H[h + wide + row] = H[second + wide + row] + _pick(c, b0, b1, z) * e
                if paths is not None:
                    parts[row] = p0
                    parts[wide + row] = p1
        else:
            for row in range(n):
                c = codes[code + row]
                d, e = H[h + row] - v, H[h + wide + row] - v
                p0 = G[g + row] * (_pick(c, x0, x1, 0.0) * d)
                p1 = G[g + wide + row] * (_pick(c, y0, y1, 0.0) * e)
                sums[total + row] += p0 + p1
                H[h + row] = v + _pick(c, a0, a1, z) * d
                H[h + wide + row] = v + _pick(c, b0, b1, z) * e
                if paths is not None:
                    parts[row] = p0
                    parts[wide + row] = p1
        if paths is not None:
            _interact(walks, paths, tree, number, (t0, t1), scratch, n, wide)


@kernel
def _interact(walks, paths, tree, number, points, scratch, n, wide):
    """Add what a split gives to the pairs of its feature and the other features on its path."""
    codes, parts, pair_sums = scratch.codes, scratch.parts, scratch.pair_sums
    t0, t1 = points
    u0, u1 = 1.0 - t0, 1.0 - t1
    split_begin = walks.split_start[tree]
    begin = split_begin + tree + number
    for entry in range(paths.path_start[begin], paths.path_start[begin + 1]):
        edge = paths.edge[entry]
        other, child = edge >> 1, edge & 1
        z = walks.merged[split_begin + other] * walks.share[split_begin + other, child]
        on0, on1 = (1.0 - z) / (z * u0 + t0), (1.0 - z) / (z * u1 + t1)
        off0, off1 = -1.0 / u0, -1.0 / u1
        code, total, on_path = np.uint64(other) * wide, np.uint64(paths.pair[entry]) * wide, np.uint8(1 - child)
        for row in range(n):
            on = codes[code + row] == on_path
            p0, p1 = parts[row], parts[wide + row]
            pair_sums[total + row] += p0 * (on0 if on else off0) + p1 * (on1 if on else off1)

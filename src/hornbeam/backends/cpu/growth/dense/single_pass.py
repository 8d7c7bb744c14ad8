"""Rounds that read the bins of a row once: rows of large nodes are divided, and those of one child summed, in one pass.

Bins that stay in place are fetched by row number, a line of the cache for each row. A round in steps fetches them
twice, to ask which way a row goes and to sum it. Here a block of rows is asked, moved, and summed while its bins are
in the cache:

    rows of a node     | block | block | block | ...                 threads take pieces in turn, block by block
                           |
                       ask -> left or right;  room for both sides is reserved from the node's ends, by atomic words
                           |
    rows of children   | left . . . >          < . . . right |
                           |
                       rows of one side are added to the counters of the thread

Which side is summed is chosen before, by a few rows: the smaller one, most probably. If it is the larger one, the other
is what the parent has left. The order of rows in a node depends on threads; sums of integers do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.columns import Columns
from hornbeam.backends.cpu.growth.dense.partition import DenseRows, ask, move
from hornbeam.backends.cpu.growth.growth import Growth
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS, PAIRS, add_counters
from hornbeam.backends.cpu.growth.rows.pieces import cut
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.rows.sides import left_bins
from hornbeam.backends.cpu.host.atomics import add
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.team import LINE
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.trees.records import Segments

ASKED_ROWS = 64
"""Rows of a node that choose which side is summed."""

LEFT, RIGHT, NEITHER = 0, 1, 2


class Cached(NamedTuple):
    """What is in the cache together.

    n_rows  rows of a block: Tuning.rows_in_cache
    groups  int64 (n_groups + 1,)  features whose counters are
    places  uint32 (n_used,)       first counter of each feature
    """

    n_rows: int
    groups: NDArray[np.int64]
    places: NDArray[np.uint32]


class Divided(NamedTuple):
    """The nodes of a round.

    splits  SPLIT (n_nodes,)        in
    room    int64 (n_nodes, LINE)   in out  where the next rows go: left ones from the first word up, right ones from
                                            below the second down
    summed  int64 (n_nodes,)        in      the side that is summed: LEFT, RIGHT or NEITHER
    """

    splits: NDArray[np.void]
    room: NDArray[np.int64]
    summed: NDArray[np.int64]


@kernel
def choose_sides(rows, nodes, pieces, sides, table, n_rows):
    """Choose the side of each node that has fewer of some rows, where one is summed at all.

    nodes  Divided                in out
    table  uint8 (most bins,)     scratch
    """
    for node in range(len(nodes.splits)):
        if nodes.summed[node] == NEITHER:
            continue
        split, begin, end = nodes.splits[node], nodes.room[node, 0], nodes.room[node, 1]
        goes_left, depth = table[: left_bins(split, sides, table)], pieces.depth[pieces.first[node]]
        records = rows.even if depth % 2 == 0 else rows.odd
        step, n_left, n_asked = max(np.int64(1), (end - begin) // n_rows), np.int64(0), np.int64(0)
        for place in range(begin, end, step):
            n_left += np.int64(goes_left[rows.bins[records[place] & ROW_MASK, split.feature]])
            n_asked += 1
        nodes.summed[node] = LEFT if 2 * n_left <= n_asked else RIGHT


@inner_kernel
def _unpack(counters, out, is_first):
    """Write packed counters to pairs, or add them, and clear them."""
    for i in range(len(out)):
        gradient, hessian = counters[i] >> 32, counters[i] & 0xFFFFFFFF
        out[i, 0] = gradient if is_first else out[i, 0] + gradient
        out[i, 1] = hessian if is_first else out[i, 1] + hessian
        counters[i] = 0


@kernel
def divide_and_sum(rows, nodes, pieces, taken, sides, table, cache, counters, partials):
    """Divide rows, piece by piece, and sum those of one side of each piece; threads take the pieces in turn.

    nodes     Divided                             in out
    taken     int64 (LINE,)                       in out  pieces that threads have taken
    table     uint8 (most bins,)                  scratch
    counters  int64 (>= n_total_bins,)            scratch
    partials  int64 (n_pieces, n_total_bins, 2)   out     of pieces of which a side is summed
    """
    groups, n_rows, packed = cache.groups, cache.n_rows, counters[: partials.shape[1]]
    packed[:] = 0
    piece = add(taken, 0, 1)
    while piece < len(pieces.node):
        node, depth, n_packed, is_first = pieces.node[piece], pieces.depth[piece], np.int64(0), True
        split, room, summed = nodes.splits[node], nodes.room[node], nodes.summed[node]
        goes_left = table[: left_bins(split, sides, table)]
        out_records = rows.odd if depth % 2 == 0 else rows.even
        for begin in range(pieces.begin[piece], pieces.end[piece], n_rows):
            end = min(begin + n_rows, pieces.end[piece])
            n_left = ask(rows, np.int64(split.feature), depth, goes_left, begin, end)
            n_right = end - begin - n_left
            left, right = add(room, 0, n_left), add(room, 1, -n_right)
            move(rows, depth, begin, end, left, right - 1)
            if summed == NEITHER:
                continue
            first, last = (left, left + n_left) if summed == LEFT else (right - n_right, right)
            if n_packed + (last - first) > PACKED_ROWS:
                _unpack(packed, partials[piece], is_first)
                n_packed, is_first = np.int64(0), False
            n_packed += last - first
            for g in range(len(groups) - 1):
                add_counters(
                    rows.bins, out_records, first, last, True, groups[g], groups[g + 1], cache.places, packed, PAIRS
                )
        if summed != NEITHER:
            _unpack(packed, partials[piece], is_first)
        piece = add(taken, 0, 1)


class SinglePass:
    """The operations of one round (trees/steps.py), of which `partition` sums rows as well.

    growth   what grows the tree
    columns  the features that it may use
    batch    EXPANSION (n_nodes,)
    """

    def __init__(self, growth: Growth, columns: Columns, batch: NDArray[np.void], max_depth: int) -> None:
        self._growth, self._columns = growth, columns
        self._max_depth = max_depth
        self._parent_slots = batch["slot"]
        self._children: dict[tuple[int, int], tuple[int, int]] = {}
        self.subtract, self.find_splits = growth.subtract, growth.find_splits

    @staticmethod
    def serves(rows: DenseRows, n_bins: int, tuning: Tuning) -> bool:
        """Say whether rounds can be done so: bins are bytes and stay in place, sums are narrow, counters are few."""
        is_fetched = rows.by_row and rows.bins.itemsize == 1 and len(rows.columns) == 0
        return is_fetched and len(rows.wide_even) == 0 and 0 < n_bins <= tuning.most_counters_in_pass

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places, and sum those of one side of each node."""
        growth, rows, tuning = self._growth, self._growth.rows, self._growth.tuning
        histograms, n_nodes, sides = self._columns.slots, len(splits), growth.sides
        pieces = cut(nodes, growth.n_threads, tuning.divided_rows_per_thread, tuning)
        n_parts = len(pieces.bounds) - 1
        room = np.zeros((n_nodes, LINE), np.int64)
        room[:, 0], room[:, 1] = nodes.begin, nodes.end
        may_grow = nodes.depth + 1 < self._max_depth
        divided = Divided(self._columns.inside(splits), room, np.where(may_grow, LEFT, NEITHER).astype(np.int64))
        tables = np.empty((n_parts, int(sides.n_value_bins.max(initial=0)) + 1), np.uint8)
        choose_sides(rows, divided, pieces, sides, tables[0], ASKED_ROWS)
        partials = histograms.room_for_partials(len(pieces.node) if may_grow.any() else 0)
        places = histograms.layout.offsets[:-1].astype(np.uint32)
        cached = Cached(tuning.rows_in_cache, histograms.layout.blocks, places)
        counters = np.empty((n_parts, histograms.n_bins + LINE), np.int64)
        taken = np.zeros(LINE, np.int64)
        run_threads(
            lambda part: divide_and_sum(
                rows, divided, pieces, taken, sides, tables[part], cached, counters[part], partials
            ),
            n_parts,
        )  # fmt: skip
        self._first = pieces.first
        self._summed, middle = divided.summed, room[:, 0]
        for node, (begin, cut_at, end) in enumerate(zip(nodes.begin, middle, nodes.end, strict=True)):
            self._children[int(begin), int(cut_at)] = node, LEFT
            self._children[int(cut_at), int(end)] = node, RIGHT
        return middle - nodes.begin

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Write the sums of children into their slots."""
        histograms = self._columns.slots
        for begin, end, slot in zip(nodes.begin.tolist(), nodes.end.tolist(), slots.tolist(), strict=True):
            node, side = self._children[begin, end]
            parent = None if self._summed[node] == side else int(self._parent_slots[node])
            histograms.put_together(int(self._first[node]), int(self._first[node + 1]), slot, parent)

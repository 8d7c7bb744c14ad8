"""Histograms of one worker's rows, written as messages to the others, and theirs added up: histogram_messages.py.

Rows are summed as those of one process are (rows/counters.py). What is summed packed is sent packed, so that the
histogram of a small node is written once, where it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.dense.histograms import Layout, add_wide
from hornbeam.backends.cpu.growth.dense.partition import DenseRows, bins_at
from hornbeam.backends.cpu.growth.rows.counters import COUNTED_ROWS, PACKED_ROWS, PAIRS, TRIPLES, add_counters
from hornbeam.backends.cpu.growth.rows.pieces import whole_nodes
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.slots import subtract_pairs
from hornbeam.backends.cpu.host.kernels import borrowed, inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts, share_of, team
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.backends.histogram_messages import NARROW, NOTHING, PACKED, WIDE, Room, words_of
from hornbeam.trees.records import Segments


class Sections(NamedTuple):
    """The features of all workers, in blocks.

    offsets     int64 (n_used + 1,)     first entry of each feature in a histogram of all
    blocks      int64 (n_blocks + 1,)   features whose counters are in use together; they are all of one worker
    places      uint32 (n_used,)        first counter of each feature in its block
    worker      int64 (n_blocks,)       whose section a block is in
    in_section  int64 (n_used,)         first entry of each feature in its section
    n_bins      int64 (n_workers,)      of each section
    """

    offsets: NDArray[np.int64]
    blocks: NDArray[np.int64]
    places: NDArray[np.uint32]
    worker: NDArray[np.int64]
    in_section: NDArray[np.int64]
    n_bins: NDArray[np.int64]

    @classmethod
    def of(cls, offsets: NDArray[np.int64], sections: Sequence[tuple[int, int]], largest: int) -> Sections:
        """Cut the features of each section into blocks of at most `largest` counters, or one feature."""
        layouts = [Layout.of(offsets, first, last, largest) for first, last in sections]
        blocks = np.concatenate([[0], *(layout.blocks[1:] for layout in layouts)]).astype(np.int64)
        places = np.concatenate([layout.places for layout in layouts])
        worker = np.repeat(np.arange(len(sections)), [len(layout.blocks) - 1 for layout in layouts])
        in_section = np.concatenate([offsets[first:last] - offsets[first] for first, last in sections])
        n_bins = np.array([offsets[last] - offsets[first] for first, last in sections], np.int64)
        return cls(offsets, blocks, places, worker, in_section, n_bins)

    @property
    def most_counters(self) -> int:
        """Counters of the largest block."""
        return int(np.diff(self.offsets[self.blocks]).max(initial=1))


class Outgoing(NamedTuple):
    """Messages that are being written.

    words   int64 (n,)                  all of them, one after the other
    halves  int32 (2 n,)                the same memory
    forms   int64 (n_nodes,)
    starts  int64 (n_workers, n_nodes)  first word of every node in the message to each worker
    n_sums  sums of a bin
    """

    words: NDArray[np.int64]
    halves: NDArray[np.int32]
    forms: NDArray[np.int64]
    starts: NDArray[np.int64]
    n_sums: int


@inner_kernel
def add_rows(bins, records, begin, end, by_row, f0, f1, offsets, out):
    """Count rows of wide records for the features f0:f1, in the third sum of out."""
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place] & ROW_MASK if by_row else place
        for f in range(np.uint64(f0), np.uint64(f1)):
            out[np.uint64(offsets[f]) + bins[row, f], 2] += 1


@inlined
def fields_of(word, n_sums):
    """Return the sums in a packed word; of two the hessian counts rows."""
    hessian = word & 0xFFFFFFFF if n_sums == 2 else (word >> 11) & 0x3FFFFFF
    rows = hessian if n_sums == 2 else word & 0x7FF
    return word >> (32 if n_sums == 2 else 37), hessian, rows


@inner_kernel
def unpack(counters, n_sums, out, start, n_bins):
    """Add packed counters to sums and clear them.

    out, start  where the gradients of these bins are added; hessians and rows n_bins and 2 n_bins after them
    """
    n = len(counters)
    gradient, hessian = out[start : start + n], out[start + n_bins : start + n_bins + n]
    if n_sums == 2:
        for i in range(n):
            gradient[i] += counters[i] >> 32
            hessian[i] += counters[i] & 0xFFFFFFFF
            counters[i] = 0
    else:
        rows = out[start + 2 * n_bins : start + 2 * n_bins + n]
        for i in range(n):
            word = counters[i]
            gradient[i] += word >> 37
            hessian[i] += (word >> 11) & 0x3FFFFFF
            rows[i] += word & 0x7FF
            counters[i] = 0


@inner_kernel
def clear(out, start, n_bins, n, n_sums):
    """Set the n_sums sums of n bins to 0; start and n_bins as in unpack."""
    for k in range(n_sums):
        out[start + k * n_bins : start + k * n_bins + n] = 0


@inner_kernel
def write_some(first, last, rows, nodes, sections, outgoing, counters):
    """Write the (node, block) pairs first:last; counters: int64 (>= sections.most_counters,), scratch."""
    offsets, n_blocks, n_sums = sections.offsets, len(sections.worker), outgoing.n_sums
    fields, at_once = (TRIPLES, COUNTED_ROWS) if n_sums > 2 else (PAIRS, PACKED_ROWS)
    for task in range(first, last):
        node, block = task // n_blocks, task % n_blocks
        begin, end, depth, form = nodes.begin[node], nodes.end[node], nodes.depth[node], outgoing.forms[node]
        if form == NOTHING:
            continue
        f0, f1, worker = sections.blocks[block], sections.blocks[block + 1], sections.worker[block]
        n_bins, start, bin_ = offsets[f1] - offsets[f0], outgoing.starts[worker, node], sections.in_section[f0]
        records, wide = (rows.even, rows.wide_even) if depth % 2 == 0 else (rows.odd, rows.wide_odd)
        bins = bins_at(rows, depth)
        if form == PACKED:
            own = outgoing.words[start + bin_ : start + bin_ + n_bins]
            own[:] = 0
            add_counters(bins, records, begin, end, rows.by_row, f0, f1, sections.places, own, fields)
        elif len(wide) > 0:
            n_all = sections.n_bins[worker]
            clear(outgoing.words, start + bin_, n_all, n_bins, n_sums)
            out = outgoing.words[start : start + n_all * n_sums].reshape((n_sums, n_all)).T
            add_wide(bins, records, wide, begin, end, rows.by_row, f0, f1, sections.in_section, out)
            if n_sums > 2:
                add_rows(bins, records, begin, end, rows.by_row, f0, f1, sections.in_section, out)
        else:
            n_all, own = sections.n_bins[worker], counters[:n_bins]
            own[:] = 0
            if form == NARROW:
                clear(outgoing.halves, 2 * start + bin_, n_all, n_bins, n_sums)
            else:
                clear(outgoing.words, start + bin_, n_all, n_bins, n_sums)
            for some in range(begin, end, at_once):
                stop = min(some + at_once, end)
                add_counters(bins, records, some, stop, rows.by_row, f0, f1, sections.places, own, fields)
                if form == NARROW:
                    unpack(own, n_sums, outgoing.halves, 2 * start + bin_, n_all)
                else:
                    unpack(own, n_sums, outgoing.words, start + bin_, n_all)


@kernel
def write_kernel(t, crew, cuts, rows, nodes, sections, outgoing, counters):
    """Write the histograms of nodes, each thread of a team (host/team.py) some of the (node, block) pairs.

    cuts      int64 (n_parts + 1,)          in       part p has the pairs cuts[p]:cuts[p + 1], numbered node by node
    rows      see DenseRows
    nodes     see Pieces
    counters  int64 (n_parts, n)            scratch  n >= sections.most_counters
    """
    call_helpers(t, crew, (cuts, rows, nodes, sections, outgoing, counters))
    for part in range(t, len(cuts) - 1, crew.size):
        write_some(
            cuts[part], cuts[part + 1], borrowed(rows), borrowed(nodes), borrowed(sections), borrowed(outgoing),
            counters[part],
        )  # fmt: skip


@inlined
def n_words(form, n_bins, n_sums):
    """Twin of histogram_messages.words_of."""
    wide = n_bins * n_sums
    return 0 if form == NOTHING else n_bins if form == PACKED else (wide + 1) // 2 if form == NARROW else wide


@kernel
def add_kernel(t, crew, words, halves, adds, n_sums, slots, pairs, rows):
    """Take the nodes of a message into their slots, each thread of a team some of them.

    words, halves  the message, int64 (n,) and int32 (2 n,)  in
    adds           whether to add to what is there, or to replace it
    slots          int32 (n_nodes,)                          in
    pairs, rows    int64 (n_slots, n_bins, 2) and (n_slots, n_bins)  in out
    """
    call_helpers(t, crew, (words, halves, adds, n_sums, slots, pairs, rows))
    n_bins, at = rows.shape[1], len(slots)
    first, last = share_of(len(slots), t, crew.size)
    for node in range(first):
        at += n_words(words[node], n_bins, n_sums)
    for node in range(first, last):
        form, pair, row = words[node], pairs[slots[node]], rows[slots[node]]
        if not adds:
            for i in range(n_bins):
                pair[i, 0], pair[i, 1], row[i] = 0, 0, 0
        if form == PACKED:
            for i in range(n_bins):
                gradient, hessian, n_rows = fields_of(words[at + i], n_sums)
                pair[i, 0] += gradient
                pair[i, 1] += hessian
                row[i] += n_rows
        elif form == NARROW:
            gradient, hessian = halves[2 * at : 2 * at + n_bins], halves[2 * at + n_bins : 2 * at + 2 * n_bins]
            n_rows = halves[2 * at + (n_sums - 1) * n_bins : 2 * at + n_sums * n_bins]
            for i in range(n_bins):
                pair[i, 0] += gradient[i]
                pair[i, 1] += np.int64(hessian[i]) & 0xFFFFFFFF
                row[i] += np.int64(n_rows[i]) & 0xFFFFFFFF
        elif form == WIDE:
            for i in range(n_bins):
                pair[i, 0] += words[at + i]
                pair[i, 1] += words[at + n_bins + i]
                row[i] += words[at + (n_sums - 1) * n_bins + i]
        at += n_words(form, n_bins, n_sums)


@kernel
def subtract_kernel(t, crew, pairs, rows, parents, children):
    """Turn the histograms of some parents into those of their other children; arrays as in add_kernel.

    parents, children  int32 (n,)  in   slots; parent -1: there is nothing to subtract
    """
    call_helpers(t, crew, (pairs, rows, parents, children))
    first, last = share_of(len(parents), t, crew.size)
    for k in range(first, last):
        parent, child = parents[k], children[k]
        if parent >= 0:
            subtract_pairs(pairs[parent], pairs[child], 0, pairs.shape[1])
            for i in range(rows.shape[1]):
                rows[parent, i] -= rows[child, i]


class MessageWriter:
    """Writes the histograms of one worker's rows.

    sections  used features of each worker, (first, last + 1)
    """

    def __init__(self, growth: DenseGrowth, sections: Sequence[tuple[int, int]]) -> None:
        self._growth, self._sections = growth, sections
        self._layouts: dict[int, Sections] = {}
        offsets = growth.columns.offsets
        n_bins = np.array([offsets[last] - offsets[first] for first, last in sections], np.int64)
        self._n_words = {n_sums: words_of(np.arange(4), n_bins[:, None], n_sums) for n_sums in (2, 3)}  # of each form
        self._counters = np.empty((growth.n_team, 0), np.int64)

    def write(self, rows: DenseRows, nodes: Segments, n_sums: int, room: Room) -> list[memoryview]:
        """Return a message to each worker, in memory that `room` returns."""
        growth, n_nodes, n_used = self._growth, len(nodes.begin), len(self._growth.columns.offsets) - 1
        n_rows = nodes.end - nodes.begin
        n_threads = max(1, min(growth.n_team, int(n_rows.sum()) * n_used // growth.tuning.updates_per_thread))
        layout = self._layout(n_threads, n_nodes)
        outgoing, ends = self._outgoing(n_rows, layout, n_sums, room)
        n_tasks, pieces = n_nodes * len(layout.worker), whole_nodes(nodes)
        cuts = _cuts(n_rows, layout, n_threads, growth.tuning) if n_threads > 1 else np.array([0, n_tasks])
        run_parts(write_kernel, n_threads, cuts, rows, pieces, layout, outgoing, self._counters)
        return [outgoing.words[begin:end].data.cast("B") for begin, end in pairwise(ends)]

    def _layout(self, n_threads: int, n_nodes: int) -> Sections:
        """Return blocks of features that keep so many threads busy."""
        offsets, largest = self._growth.columns.offsets, self._growth.tuning.counters_at_once
        if n_threads > 1 and n_nodes < 2 * n_threads:
            largest = min(largest, -(-int(offsets[-1]) * n_nodes // (2 * n_threads)))
        if largest not in self._layouts:
            self._layouts[largest] = Sections.of(offsets, self._sections, largest)
            most = max(layout.most_counters for layout in self._layouts.values())
            self._counters = np.empty((self._growth.n_team, most), np.int64)
        return self._layouts[largest]

    def _outgoing(
        self, n_rows: NDArray[np.int64], layout: Sections, n_sums: int, room: Room
    ) -> tuple[Outgoing, list[int]]:
        """Decide the forms of nodes, and lay out the messages; returns also where each of these begins, and the end."""
        is_wide = len(self._growth.store.wide_even) > 0
        packed = 0 if is_wide else COUNTED_ROWS if n_sums > 2 else PACKED_ROWS
        narrow = 0 if is_wide else PACKED_ROWS
        forms = np.searchsorted([0, packed, narrow], n_rows)  # NOTHING, PACKED, NARROW and WIDE, in this order
        n_nodes, n_workers = len(forms), len(layout.n_bins)
        sizes = np.empty((n_workers, 1 + n_nodes), np.int64)
        sizes[:, 0], sizes[:, 1:] = n_nodes, self._n_words[n_sums][:, forms]
        starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        ends = [*starts[:, 0].tolist(), int(sizes.sum())]
        words = np.frombuffer(room(8 * ends[-1]), np.int64)
        for start in ends[:-1]:
            words[start : start + n_nodes] = forms
        return Outgoing(words, words.view(np.int32), forms, np.ascontiguousarray(starts[:, 1:]), n_sums), ends


def _cuts(n_rows: NDArray[np.int64], layout: Sections, n_threads: int, tuning: Tuning) -> NDArray[np.int64]:
    """Deal (node, block) pairs to threads, about as much work to each."""
    of_rows = np.outer(n_rows, np.diff(layout.blocks))
    chunks = 1 + n_rows // COUNTED_ROWS
    of_bins = np.outer(chunks, np.diff(layout.offsets[layout.blocks]))
    work = np.cumsum((of_rows + of_bins / tuning.bins_an_update).ravel())
    inside = np.searchsorted(work, work[-1] * np.arange(1, n_threads) / n_threads)
    return np.array([0, *inside.tolist(), len(work)])


def add_messages(
    messages: Sequence[NDArray[np.int64]],
    n_sums: int,
    slots: NDArray[np.int32],
    parents: NDArray[np.int32] | None,
    pairs: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_threads: int,
    tuning: Tuning,
) -> None:
    """Add up the messages of all workers in slots; see add_kernel, and subtract_kernel for `parents`."""
    n_nodes, n_bins = len(slots), rows.shape[1]
    n_threads = max(1, min(n_threads, n_nodes, n_nodes * n_bins * len(messages) // tuning.merged_bins_per_thread))
    with team(n_threads) as some:
        for i, words in enumerate(messages):
            some.run(add_kernel, words, words.view(np.int32), i > 0, n_sums, slots, pairs, rows)
        if parents is not None:
            some.run(subtract_kernel, pairs, rows, parents, slots)


def subtract(
    pairs: NDArray[np.int64],
    rows: NDArray[np.int64],
    parents: NDArray[np.int32],
    children: NDArray[np.int32],
    n_threads: int,
    tuning: Tuning,
) -> None:
    """Subtract histograms of children from those of parents; see subtract_kernel."""
    n_threads = max(1, min(n_threads, len(parents), len(parents) * rows.shape[1] // tuning.merged_bins_per_thread))
    run_parts(subtract_kernel, n_threads, pairs, rows, parents, children)

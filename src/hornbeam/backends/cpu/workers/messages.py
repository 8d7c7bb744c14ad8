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
from hornbeam.backends.cpu.growth.dense.histograms import add_wide
from hornbeam.backends.cpu.growth.dense.partition import bins_at
from hornbeam.backends.cpu.growth.rows.counters import (
    COUNTED_ROWS,
    PACKED_ROWS,
    PAIRS,
    TRIPLES,
    add_counters,
    blocks_of,
)
from hornbeam.backends.cpu.growth.rows.pieces import whole_nodes
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.slots import subtract_pairs
from hornbeam.backends.cpu.host.kernels import borrowed, inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.backends.histogram_messages import NARROW, NOTHING, PACKED, WIDE, words_of
from hornbeam.trees.records import Segments

TASK_ROWS = 64
"""Rows whose summing takes as long as what else is to be done for a node and a block of features."""


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
        cuts = [blocks_of(offsets, first, last, largest) for first, last in sections]
        blocks = np.concatenate([[0], *(cut[1:] for cut in cuts)]).astype(np.int64)
        worker = np.repeat(np.arange(len(sections)), [len(cut) - 1 for cut in cuts])
        firsts = np.array([first for first, _ in sections], np.int64)
        width = np.diff(blocks)
        places = offsets[:-1] - np.repeat(offsets[blocks[:-1]], width)
        in_section = offsets[:-1] - np.repeat(offsets[firsts[worker]], width)
        n_bins = np.array([offsets[last] - offsets[first] for first, last in sections], np.int64)
        return cls(offsets, blocks, places.astype(np.uint32), worker, in_section, n_bins)

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
def unpack(counters, n_sums, out, at):
    """Add packed counters to sums, n_sums a bin from out[at] on."""
    for i in range(len(counters)):
        gradient, hessian, rows = fields_of(counters[i], n_sums)
        out[at] += gradient
        out[at + 1] += hessian
        if n_sums > 2:
            out[at + 2] += rows
        at += n_sums


@kernel
def write_kernel(first, last, rows, nodes, sections, outgoing, counters):
    """Write the histograms of some nodes: the (node, block) pairs first:last, numbered node by node.

    rows      see DenseRows
    nodes     see Pieces
    counters  int64 (>= sections.most_counters,)  scratch
    """
    rows, nodes, sections, outgoing = borrowed(rows), borrowed(nodes), borrowed(sections), borrowed(outgoing)
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
            size = sections.n_bins[worker] * n_sums
            out = outgoing.words[start : start + size].reshape((sections.n_bins[worker], n_sums))
            out[bin_ : bin_ + n_bins] = 0
            add_wide(bins, records, wide, begin, end, rows.by_row, f0, f1, sections.in_section, out)
            if n_sums > 2:
                add_rows(bins, records, begin, end, rows.by_row, f0, f1, sections.in_section, out)
        else:
            if form == NARROW:
                outgoing.halves[2 * start + bin_ * n_sums : 2 * start + (bin_ + n_bins) * n_sums] = 0
            else:
                outgoing.words[start + bin_ * n_sums : start + (bin_ + n_bins) * n_sums] = 0
            own = counters[:n_bins]
            for some in range(begin, end, at_once):
                own[:] = 0
                stop = min(some + at_once, end)
                add_counters(bins, records, some, stop, rows.by_row, f0, f1, sections.places, own, fields)
                if form == NARROW:
                    unpack(own, n_sums, outgoing.halves, 2 * start + bin_ * n_sums)
                else:
                    unpack(own, n_sums, outgoing.words, start + bin_ * n_sums)


@inlined
def n_words(form, n_bins, n_sums):
    """Twin of histogram_messages.words_of."""
    wide = n_bins * n_sums
    return 0 if form == NOTHING else n_bins if form == PACKED else (wide + 1) // 2 if form == NARROW else wide


@kernel
def add_kernel(first, last, words, halves, adds, n_sums, slots, pairs, rows):
    """Take the nodes first:last of a message into their slots.

    words, halves  the message, int64 (n,) and int32 (2 n,)  in
    adds           whether to add to what is there, or to replace it
    slots          int32 (n_nodes,)                          in
    pairs, rows    int64 (n_slots, n_bins, 2) and (n_slots, n_bins)  in out
    """
    n_bins, at = rows.shape[1], len(slots)
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
            for i in range(n_bins):
                cell = 2 * at + i * n_sums
                pair[i, 0] += halves[cell]
                pair[i, 1] += np.int64(halves[cell + 1]) & 0xFFFFFFFF
                row[i] += np.int64(halves[cell + n_sums - 1]) & 0xFFFFFFFF
        elif form == WIDE:
            for i in range(n_bins):
                cell = at + i * n_sums
                pair[i, 0] += words[cell]
                pair[i, 1] += words[cell + 1]
                row[i] += words[cell + n_sums - 1]
        at += n_words(form, n_bins, n_sums)


@kernel
def subtract_kernel(first, last, pairs, rows, parents, children):
    """Turn the histograms of some parents into those of their other children; arrays as in add_kernel.

    parents, children  int32 (n,)  in   slots; parent -1: there is nothing to subtract
    """
    for k in range(first, last):
        parent, child = parents[k], children[k]
        if parent >= 0:
            subtract_pairs(pairs[parent], pairs[child], 0, pairs.shape[1])
            for i in range(rows.shape[1]):
                rows[parent, i] -= rows[child, i]


class MessageWriter:
    """Writes the histograms of one worker's rows, over and over in the same memory.

    sections  used features of each worker, (first, last + 1)
    """

    def __init__(self, growth: DenseGrowth, sections: Sequence[tuple[int, int]]) -> None:
        self._growth, self._sections = growth, sections
        self._layouts: dict[int, Sections] = {}
        self._words = np.empty(0, np.int64)
        self._counters = np.empty((growth.n_threads, 0), np.int64)

    def write(self, nodes: Segments, n_sums: int) -> list[memoryview]:
        """Return a message to each worker; they are good until the next call."""
        growth, n_nodes, n_used = self._growth, len(nodes.begin), len(self._growth.columns.offsets) - 1
        n_rows = nodes.end - nodes.begin
        n_threads = max(1, min(growth.n_threads, int(n_rows.sum()) * n_used // growth.tuning.updates_per_thread))
        layout = self._layout(n_threads, n_nodes)
        outgoing, ends = self._room(n_rows, layout, n_sums)
        n_tasks, pieces = n_nodes * len(layout.worker), whole_nodes(nodes)
        cuts = _cuts(n_rows, layout, n_threads) if n_threads > 1 else [0, n_tasks]
        run_threads(
            lambda t: write_kernel(cuts[t], cuts[t + 1], growth.rows, pieces, layout, outgoing, self._counters[t]),
            n_threads,
        )
        return [self._words[begin:end].data.cast("B") for begin, end in pairwise(ends)]

    def _layout(self, n_threads: int, n_nodes: int) -> Sections:
        """Return blocks of features that keep so many threads busy."""
        offsets, largest = self._growth.columns.offsets, self._growth.tuning.counters_at_once
        if n_threads > 1 and n_nodes < 2 * n_threads:
            largest = min(largest, -(-int(offsets[-1]) * n_nodes // (2 * n_threads)))
        if largest not in self._layouts:
            self._layouts[largest] = Sections.of(offsets, self._sections, largest)
            most = max(layout.most_counters for layout in self._layouts.values())
            self._counters = np.empty((self._growth.n_threads, most), np.int64)
        return self._layouts[largest]

    def _room(self, n_rows: NDArray[np.int64], layout: Sections, n_sums: int) -> tuple[Outgoing, list[int]]:
        """Decide the forms of nodes, and lay out the messages; returns also where each of these begins, and the end."""
        is_wide = len(self._growth.rows.wide_even) > 0
        packed = 0 if is_wide else COUNTED_ROWS if n_sums > 2 else PACKED_ROWS
        narrow = 0 if is_wide else PACKED_ROWS
        forms = np.where(n_rows <= packed, PACKED, np.where(n_rows <= narrow, NARROW, WIDE))
        forms[n_rows == 0] = NOTHING
        n_nodes, n_workers = len(forms), len(layout.n_bins)
        sizes = np.empty((n_workers, 1 + n_nodes), np.int64)
        sizes[:, 0], sizes[:, 1:] = n_nodes, words_of(forms, layout.n_bins[:, None], n_sums)
        starts = np.cumsum(sizes).reshape(sizes.shape) - sizes
        ends = [*starts[:, 0].tolist(), int(sizes.sum())]
        if len(self._words) < ends[-1]:
            self._words = np.empty(ends[-1] * 5 // 4, np.int64)
        for start in ends[:-1]:
            self._words[start : start + n_nodes] = forms
        halves = self._words.view(np.int32)
        return Outgoing(self._words, halves, forms, np.ascontiguousarray(starts[:, 1:]), n_sums), ends


def _cuts(n_rows: NDArray[np.int64], layout: Sections, n_threads: int) -> list[int]:
    """Deal (node, block) pairs to threads, about as much work to each."""
    work = np.cumsum(np.outer(n_rows + TASK_ROWS, np.diff(layout.blocks)).ravel())
    inside = np.searchsorted(work, work[-1] * np.arange(1, n_threads) / n_threads)
    return [0, *inside.tolist(), len(work)]


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
    cuts = [n_nodes * t // n_threads for t in range(n_threads + 1)]

    def work(t: int) -> None:
        for i, words in enumerate(messages):
            add_kernel(cuts[t], cuts[t + 1], words, words.view(np.int32), i > 0, n_sums, slots, pairs, rows)
        if parents is not None:
            subtract_kernel(cuts[t], cuts[t + 1], pairs, rows, parents, slots)

    run_threads(work, n_threads)

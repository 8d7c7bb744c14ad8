"""Histograms of one worker's rows, written as messages to the others: see histogram_messages.py.

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
from hornbeam.backends.cpu.growth.rows.pieces import Pieces, cut
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.host.atomics import add
from hornbeam.backends.cpu.host.kernels import allocating_inner_kernel, inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, meet, run_parts, share_of
from hornbeam.backends.histogram_messages import NARROW, NOTHING, PACKED, Room, words_of
from hornbeam.trees.records import Segments


class Sections(NamedTuple):
    """The features of all workers, in blocks, which need not end where a section does.

    offsets  int64 (n_used + 1,)      first entry of each feature in a histogram of all
    blocks   int64 (n_blocks + 1,)    features whose counters are in use together
    places   uint32 (n_used,)         first counter of each feature in its block
    firsts   int64 (n_workers + 1,)   the section of worker w has the features firsts[w]:firsts[w + 1]
    """

    offsets: NDArray[np.int64]
    blocks: NDArray[np.int64]
    places: NDArray[np.uint32]
    firsts: NDArray[np.int64]

    @classmethod
    def of(cls, offsets: NDArray[np.int64], sections: Sequence[tuple[int, int]], largest: int) -> Sections:
        """Cut the features into blocks of at most `largest` counters, or one feature."""
        layout = Layout.of(offsets, 0, len(offsets) - 1, largest)
        return cls(*layout, np.array([0, *(last for _, last in sections)], np.int64))


class Outgoing(NamedTuple):
    """Messages that are being written.

    words     int64 (n,)                  all of them, one after the other
    halves    int32 (2 n,)                the same memory
    forms     int64 (n_nodes,)
    starts    int64 (n_workers, n_nodes)  first word of every node in the message to each worker
    n_sums    sums of a bin
    partial   int64 (n_pieces,)           row of `partials` for a piece whose node has others; -1: it has none
    partials  int64 (n, n_sums * n_bins)  sums of such pieces: of all bins first gradients, then hessians, then rows
    """

    words: NDArray[np.int64]
    halves: NDArray[np.int32]
    forms: NDArray[np.int64]
    starts: NDArray[np.int64]
    n_sums: int
    partial: NDArray[np.int64]
    partials: NDArray[np.int64]


class Scratch(NamedTuple):
    """Memory of the threads.

    taken     int64 (1,)             pieces that threads have begun, in all blocks
    counters  int64 (n_threads, n)   of the largest block
    places    uint64 (n_threads, n_used)
    """

    taken: NDArray[np.int64]
    counters: NDArray[np.int64]
    places: NDArray[np.uint64]


@inner_kernel
def add_rows(bins, records, begin, end, by_row, f0, f1, offsets, out):
    """Count rows of wide records for the features f0:f1, in the third sum of out."""
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place] & ROW_MASK if by_row else place
        for f in range(np.uint64(f0), np.uint64(f1)):
            out[np.uint64(offsets[f]) + bins[row, f], 2] += 1


@inner_kernel
def add_all(bins, records, wide, begin, end, by_row, f0, f1, offsets, out):
    """Add rows of wide records for the features f0:f1; out: int64 (n_bins, n_sums)."""
    add_wide(bins, records, wide, begin, end, by_row, f0, f1, offsets, out)
    if out.shape[1] > 2:
        add_rows(bins, records, begin, end, by_row, f0, f1, offsets, out)


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
def write_packed(bins, records, begin, end, by_row, f0, f1, node, sections, outgoing, places):
    """Sum rows where they leave; places: uint64 (n_used,), scratch."""
    offsets, firsts, words = sections.offsets, sections.firsts, outgoing.words
    for worker in range(len(firsts) - 1):
        first, last = max(f0, firsts[worker]), min(f1, firsts[worker + 1])
        start = outgoing.starts[worker, node] - offsets[firsts[worker]]
        if first < last:
            words[start + offsets[first] : start + offsets[last]] = 0
        for f in range(first, last):
            places[f] = start + offsets[f]
    fields = TRIPLES if outgoing.n_sums > 2 else PAIRS
    add_counters(bins, records, begin, end, by_row, f0, f1, places, words, fields)


@allocating_inner_kernel
def write_wide(bins, records, wide, begin, end, by_row, f0, f1, node, sections, outgoing, places):
    """Sum rows of wide records where they leave, section by section; places: uint64 (n_used,), scratch."""
    offsets, firsts, n_sums = sections.offsets, sections.firsts, outgoing.n_sums
    for worker in range(len(firsts) - 1):
        first, last, base = max(f0, firsts[worker]), min(f1, firsts[worker + 1]), offsets[firsts[worker]]
        if first < last:
            n_all, start = offsets[firsts[worker + 1]] - base, outgoing.starts[worker, node]
            clear(outgoing.words, start + offsets[first] - base, n_all, offsets[last] - offsets[first], n_sums)
            out = outgoing.words[start : start + n_all * n_sums].reshape((n_sums, n_all)).T
            for f in range(first, last):
                places[f] = offsets[f] - base
            add_all(bins, records, wide, begin, end, by_row, first, last, places, out)


@inner_kernel
def write_unpacked(counters, f0, f1, node, clears, sections, outgoing):
    """Add the packed counters of the features f0:f1 to their sums in the messages, which are 0 where `clears`."""
    offsets, firsts, n_sums = sections.offsets, sections.firsts, outgoing.n_sums
    for worker in range(len(firsts) - 1):
        first, last, base = max(f0, firsts[worker]), min(f1, firsts[worker + 1]), offsets[firsts[worker]]
        if first >= last:
            continue
        own = counters[offsets[first] - offsets[f0] : offsets[last] - offsets[f0]]
        n_all, start, bin_ = offsets[firsts[worker + 1]] - base, outgoing.starts[worker, node], offsets[first] - base
        if outgoing.forms[node] == NARROW:
            if clears:
                clear(outgoing.halves, 2 * start + bin_, n_all, len(own), n_sums)
            unpack(own, n_sums, outgoing.halves, 2 * start + bin_, n_all)
        else:
            if clears:
                clear(outgoing.words, start + bin_, n_all, len(own), n_sums)
            unpack(own, n_sums, outgoing.words, start + bin_, n_all)


@inner_kernel
def write_partial(sums, first, last, node, sections, outgoing):
    """Write the bins first:last of a node's sums: a row of `partials`."""
    offsets, firsts, n_sums, form = sections.offsets, sections.firsts, outgoing.n_sums, outgoing.forms[node]
    n_all = offsets[len(offsets) - 1]
    for worker in range(len(firsts) - 1):
        base, after = offsets[firsts[worker]], offsets[firsts[worker + 1]]
        begin, end, start = max(first, base), min(last, after), outgoing.starts[worker, node]
        if form == PACKED:
            for i in range(begin, end):
                if n_sums == 2:
                    word = (sums[i] << 32) + sums[n_all + i]
                else:
                    word = (sums[i] << 37) + (sums[n_all + i] << 11) + sums[2 * n_all + i]
                outgoing.words[start + i - base] = word
            continue
        for k in range(n_sums):
            of_sum, place = k * n_all, k * (after - base) - base
            if form == NARROW:
                for i in range(begin, end):
                    outgoing.halves[2 * start + place + i] = sums[of_sum + i]
            else:
                for i in range(begin, end):
                    outgoing.words[start + place + i] = sums[of_sum + i]


@inner_kernel
def add_sums(partial, sums, first, last, n_sums):
    """Add the bins first:last of one row of `partials` to another."""
    n_all = len(sums) // n_sums
    for k in range(n_sums):
        for i in range(k * n_all + first, k * n_all + last):
            sums[i] += partial[i]


@allocating_inner_kernel
def sum_partial(bins, records, wide, begin, end, by_row, f0, f1, sections, n_sums, counters, sums):
    """Sum the rows of a piece for the features f0:f1, into a row of `partials`."""
    offsets = sections.offsets
    base, n_bins, n_all = offsets[f0], offsets[f1] - offsets[f0], offsets[len(offsets) - 1]
    clear(sums, base, n_all, n_bins, n_sums)
    if len(wide) > 0:
        add_all(bins, records, wide, begin, end, by_row, f0, f1, offsets, sums.reshape((n_sums, n_all)).T)
        return
    fields, at_once = (TRIPLES, COUNTED_ROWS) if n_sums > 2 else (PAIRS, PACKED_ROWS)
    own = counters[:n_bins]
    own[:] = 0
    for some in range(begin, end, at_once):
        add_counters(bins, records, some, min(some + at_once, end), by_row, f0, f1, sections.places, own, fields)
        unpack(own, n_sums, sums, base, n_all)


@inner_kernel
def write_piece(piece, block, rows, pieces, sections, outgoing, counters, places):
    """Sum a piece for the features of a block; what is the whole of a node is written into the messages."""
    node, begin, end, depth = pieces.node[piece], pieces.begin[piece], pieces.end[piece], pieces.depth[piece]
    f0, f1, n_sums = sections.blocks[block], sections.blocks[block + 1], outgoing.n_sums
    records, wide = (rows.even, rows.wide_even) if depth % 2 == 0 else (rows.odd, rows.wide_odd)
    bins, by_row, form, partial = bins_at(rows, depth), rows.by_row, outgoing.forms[node], outgoing.partial[piece]
    if form == NOTHING:
        return
    if partial >= 0:
        sums = outgoing.partials[partial]
        sum_partial(bins, records, wide, begin, end, by_row, f0, f1, sections, n_sums, counters, sums)
    elif form == PACKED:
        write_packed(bins, records, begin, end, by_row, f0, f1, node, sections, outgoing, places)
    elif len(wide) > 0:
        write_wide(bins, records, wide, begin, end, by_row, f0, f1, node, sections, outgoing, places)
    else:
        fields, at_once = (TRIPLES, COUNTED_ROWS) if n_sums > 2 else (PAIRS, PACKED_ROWS)
        own = counters[: sections.offsets[f1] - sections.offsets[f0]]
        own[:] = 0
        for some in range(begin, end, at_once):
            stop = min(some + at_once, end)
            add_counters(bins, records, some, stop, by_row, f0, f1, sections.places, own, fields)
            write_unpacked(own, f0, f1, node, some == begin, sections, outgoing)


@kernel
def write_kernel(t, crew, rows, pieces, sections, outgoing, scratch):
    """Write the histograms of nodes; each thread of a team (host/team.py) takes the next piece and block.

    rows    see DenseRows
    pieces  see Pieces
    """
    call_helpers(t, crew, (rows, pieces, sections, outgoing, scratch))
    rows, pieces, sections, outgoing, scratch = (
        rows, pieces, sections, outgoing, scratch
    )  # fmt: skip
    n_blocks, n_nodes = len(sections.blocks) - 1, len(outgoing.forms)
    task = add(scratch.taken, 0, 1)
    while task < len(pieces.node) * n_blocks:
        write_piece(
            task // n_blocks, task % n_blocks, rows, pieces, sections, outgoing, scratch.counters[t], scratch.places[t]
        )
        task = add(scratch.taken, 0, 1)
    if len(pieces.node) == n_nodes or not meet(crew):
        return
    first, last = share_of(sections.offsets[len(sections.offsets) - 1], t, crew.size)
    for node in range(n_nodes):
        one, end = outgoing.partial[pieces.first[node]], pieces.first[node + 1]
        if one >= 0:
            sums = outgoing.partials[one]
            for piece in range(pieces.first[node] + 1, end):
                add_sums(outgoing.partials[outgoing.partial[piece]], sums, first, last, outgoing.n_sums)
            write_partial(sums, first, last, node, sections, outgoing)


class MessageWriter:
    """Writes the histograms of one worker's rows.

    sections  used features of each worker, (first, last + 1)
    """

    def __init__(self, growth: DenseGrowth, sections: Sequence[tuple[int, int]]) -> None:
        self._growth, self._tuning, offsets = growth, growth.tuning, growth.columns.offsets
        self._sections = Sections.of(offsets, sections, self._tuning.counters_at_once)
        n_bins = np.array([offsets[last] - offsets[first] for first, last in sections], np.int64)
        self._n_words = {n_sums: words_of(np.arange(4), n_bins[:, None], n_sums) for n_sums in (2, 3)}  # of each form
        self._n_used, self._n_bins = len(offsets) - 1, int(offsets[-1])
        self._scratch = Scratch(
            np.zeros(1, np.int64),
            np.empty((growth.n_team, int(np.diff(offsets[self._sections.blocks]).max(initial=1))), np.int64),
            np.empty((growth.n_team, self._n_used), np.uint64),
        )
        self._partials = np.empty(0, np.int64)

    def write(self, rows: DenseRows, nodes: Segments, n_sums: int, room: Room) -> list[memoryview]:
        """Return a message to each worker, in memory that `room` returns."""
        n_rows, n_blocks = nodes.end - nodes.begin, max(1, len(self._sections.blocks) - 1)
        rows_per_thread = self._tuning.updates_per_thread // max(1, self._n_used) + 1
        n_threads = max(1, min(self._growth.n_team, int(n_rows.sum()) // rows_per_thread))
        # blocks are dealt as well, so that fewer pieces do, and less memory: a piece has sums of all bins
        pieces = cut(nodes, -(-n_threads // n_blocks), rows_per_thread, self._tuning)
        outgoing, ends = self._outgoing(n_rows, pieces, n_sums, room)
        self._scratch.taken[0] = 0
        run_parts(write_kernel, n_threads, rows, pieces, self._sections, outgoing, self._scratch)
        return [outgoing.words[begin:end].data.cast("B") for begin, end in pairwise(ends)]

    def _outgoing(
        self, n_rows: NDArray[np.int64], pieces: Pieces, n_sums: int, room: Room
    ) -> tuple[Outgoing, list[int]]:
        """Decide the forms of nodes, and lay out the messages; returns also where each of these begins, and the end."""
        is_wide = len(self._growth.store.wide_even) > 0
        packed = 0 if is_wide else COUNTED_ROWS if n_sums > 2 else PACKED_ROWS
        narrow = 0 if is_wide else PACKED_ROWS
        forms = np.searchsorted([0, packed, narrow], n_rows)  # NOTHING, PACKED, NARROW and WIDE, in this order
        n_nodes, n_workers = len(forms), len(self._sections.firsts) - 1
        sizes = np.empty((n_workers, 1 + n_nodes), np.int64)
        sizes[:, 0], sizes[:, 1:] = n_nodes, self._n_words[n_sums][:, forms]
        starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        ends = [*starts[:, 0].tolist(), int(sizes.sum())]
        words = np.frombuffer(room(8 * ends[-1]), np.int64)
        for start in ends[:-1]:
            words[start : start + n_nodes] = forms
        partial, partials = self._room_for(pieces, n_sums)
        starts = np.ascontiguousarray(starts[:, 1:])
        return Outgoing(words, words.view(np.int32), forms, starts, n_sums, partial, partials), ends

    def _room_for(self, pieces: Pieces, n_sums: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return `partial` and `partials` of Outgoing."""
        if len(pieces.node) < len(pieces.first):
            return np.full(len(pieces.node), -1), self._partials[:0].reshape(0, n_sums * self._n_bins)
        has_others = np.diff(pieces.first)[pieces.node] > 1
        partial = np.where(has_others, np.cumsum(has_others) - 1, -1)
        shape = int(np.count_nonzero(has_others)), n_sums * self._n_bins
        if len(self._partials) < shape[0] * shape[1]:
            self._partials = np.empty(shape[0] * shape[1], np.int64)
        return partial, self._partials[: shape[0] * shape[1]].reshape(shape)

"""The rows of every node in the order of every feature: lists that are divided as the tree grows.

A feature of many numbers has a list of all rows, sorted by rank, missing values last; an entry is the rank and the row:

    rank (32 bits) | row (32 bits)

The rows of a node are the same places begin:end of every list as of the row list, each list in its own order. Dividing
a node keeps the order of both sides, so nothing is sorted after the first tree. Lists move from buffer to buffer with
the depth, as records do (rows/records.py), and records are one more list here: their row number is in the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.growth.rows.sides import bin_goes_left, bin_in_set
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel


class Lists(NamedTuple):
    """The lists of one training's trees.

    whole      uint64 (n_lists, n_rows)   all rows, never changed
    even, odd  uint64 (n_lists, n_rows)   of the nodes at these depths
    sides      uint8 (n_rows,)            which rows go left, by row
    n_ranks    int64 (n_numeric,)         the rank of missing values
    number     int64 (n_numeric,)         the list of a feature; -1: it has none
    """

    whole: NDArray[np.uint64]
    even: NDArray[np.uint64]
    odd: NDArray[np.uint64]
    sides: NDArray[np.uint8]
    n_ranks: NDArray[np.int64]
    number: NDArray[np.int64]


class Division(NamedTuple):
    """Nodes that are divided.

    begin, end  int64 (n_nodes,)
    depth       int64 (n_nodes,)
    n_left      int64 (n_nodes,)   rows that go left
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int64]
    n_left: NDArray[np.int64]


@inlined
def lists_at(lists, depth):
    """Return the lists of nodes at a depth."""
    if depth == 0:
        return lists.whole
    return lists.even if depth % 2 == 0 else lists.odd


@kernel
def sort_kernel(features, bins, counts, lists):
    """Sort the rows by the ranks of some features, into the whole lists.

    features  int64 (n,)                     in
    bins      unsigned (n_rows, stride)      in    ranks
    counts    int64 (>= most ranks + 2,)     scratch
    """
    for f in features:
        column, entries, places = np.uint64(f), lists.whole[lists.number[f]], counts[: lists.n_ranks[f] + 2]
        places[:] = 0
        for row in range(np.uint64(len(bins))):
            places[np.int64(bins[row, column]) + 1] += 1
        for rank in range(1, len(places)):
            places[rank] += places[rank - 1]
        for row in range(np.uint64(len(bins))):
            rank = np.int64(bins[row, column])
            entries[np.uint64(places[rank])] = (np.uint64(rank) << np.uint64(32)) | row
            places[rank] += 1


@kernel
def keep_kernel(features, lists, out):
    """Keep the rows that the tree sees, those whose side is 1, in the lists of some features.

    out  uint64 (n_lists, n_rows)  out
    """
    whole, sides = lists.whole, lists.sides
    for f in features:
        entries, kept, n = whole[lists.number[f]], out[lists.number[f]], np.uint64(0)
        for place in range(np.uint64(entries.shape[0])):
            entry = entries[place]
            if sides[entry & ROW_MASK]:
                kept[n] = entry
                n += np.uint64(1)


@kernel
def mark_kernel(nodes, lists, records, splits, bins, n_numeric, sets, division):
    """Write the sides of the rows of some nodes, and how many go left.

    nodes     int64 (n,)                              in    positions in the batch
    records   (even, odd), uint64 (n_rows,) each      in
    splits    SPLIT (n_nodes,)                        in
    bins      uint8 or uint16 (n_rows, stride)        in    of the features that have no list
    sets      uint32 (n_sets, n_words)                in    see sides.Sides
    division  its n_left out
    """
    sides = lists.sides
    for i in nodes:
        split, n_left, depth = splits[i], np.int64(0), division.depth[i]
        begin, end, f = np.uint64(division.begin[i]), np.uint64(division.end[i]), np.int64(split.feature)
        last, missing_left, rows = np.int64(split.bin), split.missing_left, records[0] if depth % 2 == 0 else records[1]
        if f < n_numeric and lists.number[f] >= 0:
            entries, n_ranks = lists_at(lists, depth)[lists.number[f]], lists.n_ranks[f]
            for place in range(begin, end):
                entry = entries[place]
                left = bin_goes_left(np.int64(entry >> np.uint64(32)), last, missing_left, n_ranks)
                sides[entry & ROW_MASK] = left
                n_left += left
        elif f < n_numeric:
            n_ranks = lists.n_ranks[f]
            for place in range(begin, end):
                row = rows[place] & ROW_MASK
                left = bin_goes_left(np.int64(bins[row, np.uint64(f)]), last, missing_left, n_ranks)
                sides[row] = left
                n_left += left
        else:
            left_set = sets[split.bin]
            for place in range(begin, end):
                row = rows[place] & ROW_MASK
                left = bin_in_set(np.int64(bins[row, np.uint64(f)]), left_set)
                sides[row] = left
                n_left += left
        division.n_left[i] = n_left


@inner_kernel
def divide(entries, sides, begin, end, n_left, out):
    """Move the entries of a node to its children's places, in order."""
    left, right, one = np.uint64(begin), np.uint64(begin + n_left), np.uint64(1)
    for place in range(np.uint64(begin), np.uint64(end)):
        entry = entries[place]
        goes_left = np.uint64(sides[entry & ROW_MASK])
        out[left if goes_left else right] = entry
        left += goes_left
        right += one - goes_left


@inner_kernel
def divide_records(records, wide, sides, begin, end, n_left, out, out_wide):
    """Move the records of a node, and what is beside them."""
    left, right, one = np.uint64(begin), np.uint64(begin + n_left), np.uint64(1)
    for place in range(np.uint64(begin), np.uint64(end)):
        record = records[place]
        goes_left = np.uint64(sides[record & ROW_MASK])
        to = left if goes_left else right
        out[to] = record
        if len(wide) > 0:
            out_wide[to] = wide[place]
        left += goes_left
        right += one - goes_left


@kernel
def divide_kernel(start, stop, features, lists, records, division):
    """Divide the pairs start:stop of a list and a node, list by list; the last list are the records.

    features  int64 (n,)                                             in   whose lists are divided
    records   (even, odd, wide_even, wide_odd), uint64 (n_rows,) or empty   in out
    """
    n_nodes = len(division.begin)
    for pair in range(start, stop):
        number, i = pair // n_nodes, pair % n_nodes
        begin, end, depth, n_left = division.begin[i], division.end[i], division.depth[i], division.n_left[i]
        if number < len(features):
            f = lists.number[features[number]]
            out = lists.odd if depth % 2 == 0 else lists.even
            divide(lists_at(lists, depth)[f], lists.sides, begin, end, n_left, out[f])
        elif depth % 2 == 0:
            divide_records(records[0], records[2], lists.sides, begin, end, n_left, records[1], records[3])
        else:
            divide_records(records[1], records[3], lists.sides, begin, end, n_left, records[0], records[2])

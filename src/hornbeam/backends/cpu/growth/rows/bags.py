"""Bags on the CPU: which rows are in (twin of trees/bagging.py), and their compact copies.

A tree on a bag grows on the places 0:n_in_bag of the row list, as a tree on all rows does on 0:n_rows: gradients are
gathered and rounded in the order of the bag, then the records get the row numbers. Where bins travel with the rows,
those of the bag are copied to the buffer of the root's depth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, RowStore
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts, share_of
from hornbeam.backends.cpu.losses.random_choices import random_bits
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.dtypes import ROW
from hornbeam.trees.bagging import Bag, Draw, Goss, last_of_top


class Parts(NamedTuple):
    """Which rows are in the bag.

    of_row  uint8 (n_rows,)      0: in the bag; 1: in the bag, drawn by GOSS; 2: outside
    counts  int64 (n_pieces, 3)  rows of each part, in each piece of the rows; a piece is work for one thread
    """

    of_row: NDArray[np.uint8]
    counts: NDArray[np.int64]


@kernel
def draw_kernel(t, crew, key, limit, positive_limit, label, query, parts):
    """Say which rows are in the bag, and count them (team.run_parts).

    label  float64 (n_rows,), or empty: all have `limit`
    query  uint32  (n_rows,), or empty: rows are drawn
    parts  see Parts                            out
    """
    call_helpers(t, crew, (key, limit, positive_limit, label, query, parts))
    part, n_pieces = parts.of_row, len(parts.counts)
    for piece in range(t, n_pieces, crew.size):
        counts, (first, last) = parts.counts[piece], share_of(len(part), piece, n_pieces)
        counts[:] = 0
        for row in range(np.uint64(first), np.uint64(last)):
            drawn = np.uint64(query[row]) if len(query) else row
            most = positive_limit if len(label) and label[row] > 0.0 else limit
            part[row] = 0 if (random_bits(key, drawn) >> np.uint64(11)) < most else 2
            counts[part[row]] += 1


@kernel
def importance_kernel(t, crew, gradient, hessian, out):
    """Twin of bagging.row_importance for one thread's rows; see team.py."""
    call_helpers(t, crew, (gradient, hessian, out))
    first, last = share_of(len(out), t, crew.size)
    for row in range(np.uint64(first), np.uint64(last)):
        total = abs(gradient[0, row] * hessian[0, row])
        for output in range(1, len(gradient)):
            total = total + abs(gradient[output, row] * hessian[output, row])
        out[row] = total


@kernel
def goss_kernel(t, crew, key, limit, importance, least, last_row, parts):
    """Say which rows are top rows, and which of the others are drawn, and count them (team.run_parts)."""
    call_helpers(t, crew, (key, limit, importance, least, last_row, parts))
    part, n_pieces = parts.of_row, len(parts.counts)
    for piece in range(t, n_pieces, crew.size):
        counts, (first, last) = parts.counts[piece], share_of(len(part), piece, n_pieces)
        counts[:] = 0
        for row in range(np.uint64(first), np.uint64(last)):
            value = importance[row]
            if value > least or (value == least and row <= last_row):
                part[row] = 0
            else:
                part[row] = 1 if (random_bits(key, row) >> np.uint64(11)) < limit else 2
            counts[part[row]] += 1


@kernel
def place_kernel(t, crew, parts, places, rows):
    """Write the numbers of rows to the places of their parts (team.run_parts).

    places  int64 (n_pieces, 3)  in, out  next place of each part, for the rows of a piece
    rows    uint32 (n_rows,)     out
    """
    call_helpers(t, crew, (parts, places, rows))
    part, n_pieces = parts.of_row, len(places)
    for piece in range(t, n_pieces, crew.size):
        next_place, (first, last) = places[piece], share_of(len(part), piece, n_pieces)
        for row in range(np.uint64(first), np.uint64(last)):
            place = next_place[part[row]]
            rows[place] = row
            next_place[part[row]] = place + 1


@kernel
def take_kernel(t, crew, gradient, hessian, rows, n_plain, factor, out_gradient, out_hessian):
    """Gather gradients and hessians of one thread's places of a bag; see bagging.Bag.take, and team.py."""
    call_helpers(t, crew, (gradient, hessian, rows, n_plain, factor, out_gradient, out_hessian))
    first, last = share_of(len(out_gradient), t, crew.size)
    for place in range(np.uint64(first), np.uint64(last)):
        row = np.uint64(rows[place])
        g, h = gradient[row], hessian[row]
        if place >= n_plain:
            g, h = g * factor, h * factor
        out_gradient[place], out_hessian[place] = g, h


@kernel
def number_kernel(t, crew, rows, n_in_bag, records, words, out_words):
    """Replace the places in one thread's records by row numbers, and copy the rows' bins unless these stay in place.

    words, out_words  uint64 (n_rows, stride in words)  bins of the data set, and of the root's depth; or empty
    """
    call_helpers(t, crew, (rows, n_in_bag, records, words, out_words))
    n_words, (first, last) = out_words.shape[1] if len(out_words) > 0 else 0, share_of(n_in_bag, t, crew.size)
    for place in range(np.uint64(first), np.uint64(last)):
        row = np.uint64(rows[place])
        records[place] = (records[place] & ~ROW_MASK) | row
        for w in range(n_words):
            out_words[place, w] = words[row, w]


def choose_bag(
    draw: Draw | Goss,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    n_rows: int,
    n_team: int,
    tuning: Tuning,
) -> Bag | None:
    """See bagging.draw_bag and goss_bag; gradients are those of all outputs, and are read by GOSS alone."""
    n_pieces = pieces_of(n_rows, n_team, tuning)
    parts = Parts(np.empty(n_rows, np.uint8), np.empty((n_pieces, 3), np.int64))
    key, limit = np.uint64(draw.key), np.uint64(draw.limit)
    if isinstance(draw, Goss):
        importance = np.empty(n_rows)
        run_parts(importance_kernel, n_pieces, gradient, hessian, importance)
        least, last = last_of_top(importance, draw.n_top)
        run_parts(goss_kernel, n_pieces, key, limit, importance, least, np.uint64(last), parts)
    else:
        label = np.empty(0) if draw.label is None else draw.label
        query = np.empty(0, np.uint32) if draw.query is None else draw.query
        positive = limit if draw.positive_limit is None else np.uint64(draw.positive_limit)
        run_parts(draw_kernel, n_pieces, key, limit, positive, label, query, parts)
    counts = parts.counts
    sizes = counts.sum(axis=0)
    n_plain, n_in_bag = int(sizes[0]), int(sizes[0] + sizes[1])
    if n_in_bag == 0:
        return None
    places = np.array([0, n_plain, n_in_bag]) + np.cumsum(counts, axis=0) - counts
    rows = np.empty(n_rows, ROW)
    run_parts(place_kernel, n_pieces, parts, places, rows)
    return Bag(rows, n_plain, n_in_bag, draw.factor if isinstance(draw, Goss) else 1.0)


def pieces_of(n_rows: int, n_team: int, tuning: Tuning) -> int:
    """Return how many threads should share so many rows."""
    return max(1, min(n_team, n_rows // tuning.drawn_rows_per_thread))


def take_gradients(
    bag: Bag, gradient: NDArray[np.float64], hessian: NDArray[np.float64], n_team: int, tuning: Tuning
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return one output's gradients and hessians in the order of the bag, each float64 (n_in_bag,)."""
    out, n_pieces = (np.empty(bag.n_in_bag), np.empty(bag.n_in_bag)), pieces_of(bag.n_in_bag, n_team, tuning)
    run_parts(take_kernel, n_pieces, gradient, hessian, bag.rows, bag.n_plain, bag.factor, *out)
    return out


def number_records(store: RowStore, bag: Bag, n_team: int, tuning: Tuning) -> None:
    """Turn records in the order of the bag into those of its root."""
    words, out_words = store.bins.view(np.uint64), store.bins_even.view(np.uint64)
    n_pieces = pieces_of(bag.n_in_bag, n_team, tuning)
    run_parts(number_kernel, n_pieces, bag.rows, bag.n_in_bag, store.even, words, out_words)

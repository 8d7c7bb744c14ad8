"""Bags on the CPU: which rows are in (twin of trees/bagging.py), and their compact copies.

A tree on a bag grows on the places 0:n_in_bag of the row list, as a tree on all rows does on 0:n_rows: gradients are
gathered and rounded in the order of the bag, then the records get the row numbers. Where bins travel with the rows,
those of the bag are copied to the buffer of the root's depth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, RowStore
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.backends.cpu.losses.random_choices import random_bits
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.dtypes import ROW
from hornbeam.trees.bagging import Bag, Draw, Goss, last_of_top


@kernel
def draw_kernel(key, limit, positive_limit, label, query, start, stop, part, counts):
    """Say which of the rows start:stop are in the bag (0) and which not (2), and count both.

    label   float64 (n_rows,), or empty: all have `limit`
    query   uint32  (n_rows,), or empty: rows are drawn
    part    uint8   (n_rows,)  out
    counts  int64   (3,)       out
    """
    counts[:] = 0
    for row in range(np.uint64(start), np.uint64(stop)):
        drawn = np.uint64(query[row]) if len(query) else row
        most = positive_limit if len(label) and label[row] > 0.0 else limit
        part[row] = 0 if (random_bits(key, drawn) >> np.uint64(11)) < most else 2
        counts[part[row]] += 1


@kernel
def importance_kernel(gradient, hessian, start, stop, out):
    """Twin of bagging.row_importance for the rows start:stop."""
    for row in range(start, stop):
        total = abs(gradient[0, row] * hessian[0, row])
        for output in range(1, len(gradient)):
            total = total + abs(gradient[output, row] * hessian[output, row])
        out[row] = total


@kernel
def goss_kernel(key, limit, importance, least, last, start, stop, part, counts):
    """Say which of the rows start:stop are top rows (0), drawn (1), outside (2), and count them."""
    counts[:] = 0
    for row in range(np.uint64(start), np.uint64(stop)):
        value = importance[row]
        if value > least or (value == least and row <= last):
            part[row] = 0
        else:
            part[row] = 1 if (random_bits(key, row) >> np.uint64(11)) < limit else 2
        counts[part[row]] += 1


@kernel
def place_kernel(part, places, start, stop, rows):
    """Write the numbers of the rows start:stop to the places of their parts.

    places  int64 (3,)        in, out  next place of each part
    rows    uint32 (n_rows,)  out
    """
    for row in range(start, stop):
        place = places[part[row]]
        rows[place] = row
        places[part[row]] = place + 1


@kernel
def take_kernel(gradient, hessian, rows, n_plain, factor, start, stop, out_gradient, out_hessian):
    """Gather gradients and hessians of the places start:stop of a bag; see bagging.Bag.take."""
    for place in range(start, stop):
        row = np.uint64(rows[place])
        g, h = gradient[row], hessian[row]
        if place >= n_plain:
            g, h = g * factor, h * factor
        out_gradient[place], out_hessian[place] = g, h


@kernel
def number_kernel(rows, records, words, out_words, start, stop):
    """Replace the places in the records start:stop by row numbers, and copy the rows' bins unless these stay in place.

    words, out_words  uint64 (n_rows, stride in words)  bins of the data set, and of the root's depth; or empty
    """
    n_words = out_words.shape[1] if len(out_words) > 0 else 0
    for place in range(np.uint64(start), np.uint64(stop)):
        row = np.uint64(rows[place])
        records[place] = (records[place] & ~ROW_MASK) | row
        for w in range(n_words):
            out_words[place, w] = words[row, w]


def choose_bag(
    draw: Draw | Goss,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    n_rows: int,
    n_threads: int,
    tuning: Tuning,
) -> Bag | None:
    """See bagging.draw_bag and goss_bag; gradients are those of all outputs, and are read by GOSS alone."""
    n_parts = max(1, min(n_threads, n_rows // tuning.drawn_rows_per_thread))
    cuts = [n_rows * part // n_parts for part in range(n_parts + 1)]
    part = np.empty(n_rows, np.uint8)
    counts = np.empty((n_parts, 3), np.int64)
    key, limit = np.uint64(draw.key), np.uint64(draw.limit)
    if isinstance(draw, Goss):
        importance = np.empty(n_rows)
        run_threads(lambda t: importance_kernel(gradient, hessian, cuts[t], cuts[t + 1], importance), n_parts)
        least, last = last_of_top(importance, draw.n_top)
        run_threads(
            lambda t: goss_kernel(
                key, limit, importance, least, np.uint64(last), cuts[t], cuts[t + 1], part, counts[t]
            ),
            n_parts,
        )  # fmt: skip
    else:
        label = np.empty(0) if draw.label is None else draw.label
        query = np.empty(0, np.uint32) if draw.query is None else draw.query
        positive = limit if draw.positive_limit is None else np.uint64(draw.positive_limit)
        run_threads(
            lambda t: draw_kernel(key, limit, positive, label, query, cuts[t], cuts[t + 1], part, counts[t]), n_parts
        )
    sizes = counts.sum(axis=0)
    n_plain, n_in_bag = int(sizes[0]), int(sizes[0] + sizes[1])
    if n_in_bag == 0:
        return None
    places = np.array([0, n_plain, n_in_bag]) + np.cumsum(counts, axis=0) - counts
    rows = np.empty(n_rows, ROW)
    run_threads(lambda t: place_kernel(part, places[t], cuts[t], cuts[t + 1], rows), n_parts)
    return Bag(rows, n_plain, n_in_bag, draw.factor if isinstance(draw, Goss) else 1.0)


def take_gradients(
    bag: Bag, gradient: NDArray[np.float64], hessian: NDArray[np.float64], n_threads: int, tuning: Tuning
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return one output's gradients and hessians in the order of the bag, each float64 (n_in_bag,)."""
    out = np.empty(bag.n_in_bag), np.empty(bag.n_in_bag)
    run_ranges(
        lambda start, stop: take_kernel(gradient, hessian, bag.rows, bag.n_plain, bag.factor, start, stop, *out),
        bag.n_in_bag, n_threads, smallest=tuning.drawn_rows_per_thread,
    )  # fmt: skip
    return out


def number_records(store: RowStore, bag: Bag, n_threads: int, tuning: Tuning) -> None:
    """Turn records in the order of the bag into those of its root."""
    words, out_words = store.bins.view(np.uint64), store.bins_even.view(np.uint64)
    run_ranges(
        lambda start, stop: number_kernel(bag.rows, store.even, words, out_words, start, stop),
        bag.n_in_bag, n_threads, smallest=tuning.drawn_rows_per_thread,
    )  # fmt: skip

"""Query groups: which rows belong together in learning to rank, and the gains and discounts of a ranked list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.errors import DataError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DEFAULT_LABEL_GAIN: tuple[float, ...] = tuple(2.0**label - 1.0 for label in range(31))
"""Gain of a document by its label, where the parameter `label_gain` is not given (as LightGBM)."""


def sizes_of_groups(group: NDArray[Any], n_rows: int) -> IntArray:
    """Return the sizes of the queries, int64 (n_queries,), from what was given as `group`.

    group  (n_queries,)  in   the size of each query; they add up to n_rows

    One entry a row is no exception: only queries of one row each have so many sizes. Ids are given as `qid`, so that
    sizes that do not add up are never taken for ids.
    """
    if group.ndim == 2 and 1 in group.shape:
        group = group.ravel()
    if group.ndim != 1:
        raise DataError(f"group has shape {group.shape}; pass the sizes of the queries, (n_queries,)")
    remedy = "pass the number of rows of every query, in row order"
    if len(group) == n_rows:
        remedy = f"one query id a row is passed as qid=; else {remedy}"
    if group.dtype.kind not in "fiu":
        raise DataError(f"group has {len(group)} entries of dtype {group.dtype}, which are no sizes; {remedy}")
    with np.errstate(invalid="ignore"):
        wrong = ~((group > 0) & (group == np.floor(group)) & (group <= n_rows))
    if wrong.any():
        place = int(np.argmax(wrong))
        what = "an empty query" if group[place] == 0 else "no size of a query"
        raise DataError(
            f"group[{place}] is {group[place]}, {what}; sizes are integers from 1 to the {n_rows} rows of data (leave "
            f"out queries without rows); {remedy}"
        )
    total = int(group.sum())
    if total != n_rows:
        raise DataError(f"the group sizes add up to {total}, and data has {n_rows} rows; {remedy}")
    return group.astype(np.int64)


def sizes_of_ids(ids: NDArray[Any], n_rows: int) -> IntArray:
    """Return the sizes of the queries, int64 (n_queries,), in row order.

    ids  (n_rows,)  in   any dtype that can be compared; equal ids lie together
    """
    if ids.ndim == 2 and 1 in ids.shape:
        ids = ids.ravel()
    if ids.ndim != 1 or len(ids) != n_rows:
        raise DataError(f"qid has shape {ids.shape} and data {n_rows} rows; pass one query id a row")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        row = int(np.argmax(np.isnan(ids)))
        raise DataError(f"qid[{row}] is NaN; every row needs the id of its query: drop rows without one")
    if ids.dtype.kind == "O":
        missing = np.array([one is None or one != one for one in ids.tolist()], np.bool_)
        if missing.any():
            row = int(np.argmax(missing))
            raise DataError(f"qid[{row}] is {ids[row]!r}; every row needs the id of its query: drop rows without one")
    starts = np.flatnonzero(np.append(True, np.asarray(ids[1:] != ids[:-1], np.bool_)))
    first = ids[starts]
    try:
        order = np.argsort(first, kind="stable")
    except TypeError as error:
        raise DataError(f"qid cannot be compared ({error}); pass ids of one type, integers or strings") from None
    again = np.flatnonzero(first[order][1:] == first[order][:-1])
    if len(again) > 0:
        row = int(starts[order[again + 1].min()])
        raise DataError(
            f"qid[{row}] is {ids[row]}, a query that ended some rows above; the rows of a query must lie together: "
            "sort the data by qid"
        )
    return np.diff(np.append(starts, n_rows)).astype(np.int64)


def boundaries_of(sizes: IntArray) -> IntArray:
    """Return where the queries begin, and where the last one ends, int64 (n_queries + 1,)."""
    return np.append(0, np.cumsum(sizes)).astype(np.int64)


def query_of_row(boundaries: IntArray) -> IntArray:
    """Return the number of each row's query, int64 (n_rows,)."""
    return np.repeat(np.arange(len(boundaries) - 1, dtype=np.int64), np.diff(boundaries))


def query_weights(boundaries: IntArray, weight: FloatArray | None) -> FloatArray | None:
    """Return the weight of each query, float64 (n_queries,): the mean weight of its rows (as LightGBM).

    weight  float64 (n_rows,)  in   or None
    """
    if weight is None:
        return None
    sums = np.bincount(query_of_row(boundaries), weights=weight, minlength=len(boundaries) - 1)  # adds in row order
    return np.asarray(sums / np.diff(boundaries), np.float64)


def discounts(n_ranks: int) -> FloatArray:
    """Return the discount of each rank, float64 (n_ranks,): 1 / log2(2 + rank), the first rank being 0."""
    return np.asarray(1.0 / numerics.log2(np.arange(2, n_ranks + 2, dtype=np.float64)))


def check_relevance(label: FloatArray, n_gains: int, who: str) -> None:
    """Raise DataError unless every label is a whole number that has a gain.

    label  float64 (n_rows,)  in
    """
    wrong = (label < 0.0) | (label >= n_gains) | (label != np.floor(label))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{who} takes whole labels from 0 to {n_gains - 1}, but label[{row}] is {float(label[row])!r}; recode the "
            "labels (0 is irrelevant, higher is better), or give label_gain a gain for each label"
        )


def ideal_dcg(label: FloatArray, boundaries: IntArray, gains: FloatArray, at: int) -> FloatArray:
    """Return the largest DCG of each query's first `at` ranks, float64 (n_queries,).

    label       float64 (n_rows,)         in   whole numbers that have a gain
    boundaries  int64 (n_queries + 1,)    in
    gains       float64 (n_gains,)        in   by label

    The documents stand in falling order of their labels; gain * discount is added in rank order.
    """
    query = query_of_row(boundaries)
    order = np.lexsort((-label, query))
    rank = np.arange(len(label)) - boundaries[:-1][query]
    kept = rank < at
    terms = gains[label[order].astype(np.int64)[kept]] * discounts(int(np.diff(boundaries).max()))[rank[kept]]
    sums = np.bincount(query[kept], weights=terms, minlength=len(boundaries) - 1)  # adds in rank order
    return np.asarray(sums, np.float64)

"""Folds for `cv`: which rows train and which validate.

Rows are shuffled by hash (core/hashing.py), so the folds depend on the number of rows, the labels and the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.core.random_choices import Purpose, random_bits, random_key
from hornbeam.data.queries import query_of_row
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.rows import row_numbers
from hornbeam.params.params import Params, whole_number

WITH_CLASSES = ("binary", "multiclass", "multiclassova", "focal", "hinge")
"""Objectives whose labels are classes; those of cross_entropy may be."""


def make_folds(
    params: Params,
    train_set: Dataset,
    folds: Iterable[tuple[Any, Any]] | Any,
    nfold: int,
    stratified: bool,
    shuffle: bool,
    seed: int | None,
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return pairs of (training rows, validation rows)."""
    boundaries = train_set.query_boundaries
    if folds is not None:
        if hasattr(folds, "split"):
            groups = None if boundaries is None else query_of_row(boundaries)
            folds = folds.split(np.empty((train_set.n_rows, 0)), train_set.label, groups)
        if not isinstance(folds, Iterable):
            raise DataError(f"folds must be pairs of rows or a splitter, not {type(folds).__name__}; nfold is a number")
        made = [(row_numbers(a, train_set.n_rows), row_numbers(b, train_set.n_rows)) for a, b in folds]
        if not made:
            raise DataError("folds is empty; pass pairs of (training rows, validation rows), or None for nfold folds")
        return made
    if boundaries is not None:
        return _query_folds(boundaries, nfold, shuffle, params.seed if seed is None else seed)
    nfold = whole_number(nfold, "nfold", 2, train_set.n_rows)
    order = _order(train_set.n_rows, shuffle, params.seed if seed is None else seed)
    label = train_set.label
    if stratified and label is not None and label.ndim == 1 and _has_classes(params, label, nfold):
        order = order[np.argsort(label[order], kind="stable")]
        parts = [np.sort(order[first::nfold]) for first in range(nfold)]
    else:
        parts = [np.sort(part) for part in np.array_split(order, nfold)]
    every = np.arange(train_set.n_rows)
    return [(np.setdiff1d(every, part, assume_unique=True), part) for part in parts]


def _has_classes(params: Params, label: NDArray[np.float64], nfold: int) -> bool:
    """Say whether labels are classes, whose shares stratified folds keep.

    What an objective function makes of labels is not known: whole numbers are classes, if there are enough rows of each
    on average for every fold to have one.

    label  float64 (n_rows,)  in
    """
    if callable(params.objective):
        return bool((label == np.rint(label)).all()) and len(np.unique(label)) * nfold <= len(label)
    if params.objective == "cross_entropy":
        return bool(((label == 0.0) | (label == 1.0)).all())
    return params.objective in WITH_CLASSES


def _order(n: int, shuffle: bool, seed: int) -> NDArray[np.intp]:
    """Return the numbers of n rows or queries in the order in which they are dealt, intp (n,)."""
    numbers = np.arange(n)
    if not shuffle:
        return numbers
    seed = whole_number(seed, "seed", 0)
    return np.argsort(random_bits(random_key(seed, Purpose.FOLDS, 0), numbers), kind="stable")


def _query_folds(
    boundaries: NDArray[np.int64], nfold: int, shuffle: bool, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return pairs of (training rows, validation rows) of whole queries, each fold with about as many queries."""
    n_queries = len(boundaries) - 1
    nfold = whole_number(nfold, "nfold", 2, n_queries)
    order = _order(n_queries, shuffle, seed)
    fold = np.empty(n_queries, np.int64)
    for number, part in enumerate(np.array_split(order, nfold)):
        fold[part] = number
    of_row = fold[query_of_row(boundaries)]
    return [(np.flatnonzero(of_row != number), np.flatnonzero(of_row == number)) for number in range(nfold)]

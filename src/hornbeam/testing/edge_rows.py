"""Rows at the edges of a model's splits: on, just below and just above every threshold, and whatever is special.

Two predictors that agree on such rows agree on all: they read thresholds, missing values, zeros, infinities and
categories alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.outgoing import Column, Outgoing
from hornbeam.data.sources.reader import ZERO
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file import ModelData
from hornbeam.trees.tree import Tree

HUGE_CATEGORY = 1_000_003
"""A category that no model knows."""


def edge_rows(
    model: ModelData, dtype: Any = np.float64, infinities: bool = True, n_random: int = 300, seed: int = 0
) -> NDArray[np.float64]:
    """Return rows at the edges of every split that random rows reach, and the random rows.

    Parameters
    ----------
    model
        Levels of categorical features are integers in the rows; a string is its place among the strings.
    dtype
        float32: all values are float32 numbers, and edges are the nearest ones.
    infinities
        Whether infinite values occur.

    Returns
    -------
    float64 (n_rows, n_features)
    """
    out = Outgoing(model)
    rng = np.random.default_rng(seed)
    values = [_values_of(out, feature, dtype, infinities) for feature in range(len(out.columns))]
    pool = np.stack([rng.choice(own, n_random) for own in values], axis=1)
    compared = np.stack([_compared(out, column, pool[:, i]) for i, column in enumerate(out.columns)], axis=1)
    rows = [pool]
    for tree in out.trees:
        for split, first in _reached(tree, compared):
            feature = int(tree.feature[split])
            column = out.columns[feature]
            if column.levels is None:
                own = _around(float(tree.threshold[split]), dtype, infinities)
            else:
                own = values[feature]
            copies = np.repeat(pool[first][None], len(own), axis=0)
            copies[:, feature] = own
            rows.append(copies)
    return np.concatenate(rows)


def _reached(tree: Tree, compared: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Yield each split that rows come to, and the first row that does."""
    waiting = [(0 if tree.n_splits else ~0, np.arange(len(compared)))]
    while waiting:
        node, rows = waiting.pop()
        if node < 0 or len(rows) == 0:
            continue
        yield node, int(rows[0])
        left = tree.goes_left(node, compared[rows, tree.feature[node]])
        waiting += [(int(tree.left[node]), rows[left]), (int(tree.right[node]), rows[~left])]


def _compared(out: Outgoing, column: Column, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what splits compare: numbers, or codes of levels."""
    levels = column.levels
    if levels is None:
        return np.where(np.abs(values) <= ZERO, np.nan, values) if out.zeros_are_missing else values
    place = {number: code for code, number in enumerate(column.numbers.tolist()) if number >= 0}
    codes = np.array([place.get(value, -1) for value in values.tolist()])
    if isinstance(levels, EncodedLevels):
        numbers = np.append(levels.numbers, levels.other)[codes]
        return np.where(np.isnan(values) | (values < 0), levels.missing, numbers)
    if column.missing_code is not None:
        codes = np.where(np.isnan(values), column.missing_code, codes)
    return codes.astype(np.float64)


def _values_of(out: Outgoing, feature: int, dtype: Any, infinities: bool) -> NDArray[np.float64]:
    """Return the values that a column of random rows has."""
    column = out.columns[feature]
    if column.levels is not None:
        known = column.numbers[column.numbers >= 0]
        unknown = [known.max(initial=0) + 1, HUGE_CATEGORY] if len(known) else [0, HUGE_CATEGORY]
        return np.array([*known.tolist(), *unknown, -1.0, -7.0, np.nan])
    thresholds = [tree.threshold[tree.feature == feature] for tree in out.trees]
    own = np.unique(np.concatenate([np.empty(0), *thresholds]))
    return np.unique(np.concatenate([_around(value, dtype, infinities) for value in [0.0, *own.tolist()]]))


def _around(threshold: float, dtype: Any, infinities: bool) -> NDArray[np.float64]:
    """Return a threshold, its neighbours, and what is special."""
    with np.errstate(over="ignore", under="ignore"):
        edge = np.array([threshold], np.float64).astype(dtype)
        tiny = np.array([ZERO, -ZERO], np.float64).astype(dtype)
        near = np.concatenate([np.nextafter(own, dtype(side)) for own in (edge, tiny) for side in (-np.inf, np.inf)])
        special = np.array([0.0, -0.0, 1.0, -1.0, 1e-40, np.inf, -np.inf, np.nan], dtype)
        every = np.concatenate([edge, tiny, near, special]).astype(np.float64)
    return every if infinities else every[~np.isinf(every)]

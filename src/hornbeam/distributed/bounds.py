"""Bins of features whose rows are spread over workers: the bounds that one worker with all rows would find.

The rows of the sample are chosen by a hash of their number (bin_bounds.sample_rows). Features are dealt to workers:
each gets the sampled values of its features from all others, finds the bounds, and tells them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.bin_bounds import find_upper_bounds, sample_rows
from hornbeam.data.binning import BinParams
from hornbeam.data.sources.reader import TableReader
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.rows import RowMap

BLOCK_CELLS = 1 << 23
"""Values that are read at a time: 64 MB."""


def find_bounds(
    collective: Collective,
    parts: Sequence[TableReader],
    rows: RowMap,
    n_features: int,
    params: BinParams,
    n_levels: Mapping[int, int],
) -> list[NDArray[np.float64]]:
    """Return the upper bounds of every feature, see BinMapper.

    parts     tables of this worker, which read levels as codes
    n_levels  of the categorical features, by number
    """
    params.check(n_features)
    values = sampled_values(parts, rows, n_features, params)
    cuts = [n_features * rank // collective.size for rank in range(collective.size + 1)]
    sections = list(pairwise(cuts))
    messages = [np.ascontiguousarray(values[:, first:last].T).tobytes() for first, last in sections]
    received = collective.exchange(messages, "sampled values")
    first, last = sections[collective.rank]
    found = b""
    if last > first:
        pieces = [np.frombuffer(message, np.float64).reshape(last - first, -1) for message in received]
        whole = np.concatenate(pieces, axis=1)
        for feature in range(first, last):
            bounds = bounds_of_feature(feature, whole[feature - first], params, n_levels.get(feature))
            found += np.int64(len(bounds)).tobytes() + bounds.tobytes()
    every, bounds_of = b"".join(collective.all_gather(found, "bounds of bins")), []
    place = 0
    for _ in range(n_features):
        size = int(np.frombuffer(every, np.int64, 1, place)[0])
        bounds_of.append(np.frombuffer(every, np.float64, size, place + 8).copy())
        place += 8 + 8 * size
    return bounds_of


def bounds_of_feature(
    feature: int, values: NDArray[np.float64], params: BinParams, n_levels: int | None
) -> NDArray[np.float64]:
    """Return the upper bounds of one feature from its sampled values; every level has a bin of its own."""
    if n_levels is not None:
        return np.append(np.arange(n_levels - 1) + 0.5, np.inf) if n_levels else np.empty(0)
    if not params.use_missing:
        values = np.where(np.isnan(values), 0.0, values)
    found = find_upper_bounds(values, params.bins_of(feature), params.min_data_in_bin)
    return params.with_forced(feature, found)


def sampled_values(
    parts: Sequence[TableReader], rows: RowMap, n_features: int, params: BinParams
) -> NDArray[np.float64]:
    """Return the values of this worker's rows that are in the sample, float64 (n, n_features)."""
    sample = sample_rows(rows.n_rows, min(params.bin_construct_sample_cnt, rows.n_rows))
    taken, step = [np.empty((0, n_features))], max(1, BLOCK_CELLS // n_features)
    for (first, last), reader in zip(rows.ranges[rows.rank], parts, strict=True):
        for start in range(first, last, step):
            stop = min(start + step, last)
            wanted = sample[np.searchsorted(sample, start) : np.searchsorted(sample, stop)]
            if len(wanted):
                taken.append(reader.read(start - first, stop - first)[wanted - start])
    return np.concatenate(taken)


def find_missing(
    collective: Collective, parts: Sequence[TableReader], features: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say whether some features have missing values, and whether they have others, in any row; each bool (n,)."""
    seen = np.zeros((2, len(features)), np.bool_)
    for reader in parts:
        step = max(1, BLOCK_CELLS // reader.n_features)
        for start in range(0, reader.n_rows, step):
            missing = np.isnan(reader.read(start, min(start + step, reader.n_rows))[:, features])
            seen |= np.stack([missing.any(axis=0), ~missing.all(axis=0)])
    every = collective.gather_array(seen, "features without values")
    return np.logical_or.reduce(every[:, 0]), np.logical_or.reduce(every[:, 1])

"""Ranks joined to bins before every tree: twin of data/quantiles.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, gradient_of, hessian_of
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.data.quantiles import HEAVY_ROUNDS

TILE = 256
"""Rows that are written at a time, all features of them."""


class Joining(NamedTuple):
    """How ranks are joined.

    ranks         uint32 (n_joined, n_rows)       rank of every row, one feature's in a row; the missing one last
    place         int64 (n_numeric,)              where a feature's are in ranks; -1: it has a bin for every rank
    first_rank    int64 (n_numeric + 1,)          where the ranks of each feature are in bin_of, the missing one last
    first_bin     int64 (n_numeric + 1,)          where its bins are in last_rank, the missing one last
    bin_of        uint16 (ranks of all,)          bin of each rank
    last_rank     int32 (bins of all,)            last rank of each bin
    """

    ranks: NDArray[np.uint32]
    place: NDArray[np.int64]
    first_rank: NDArray[np.int64]
    first_bin: NDArray[np.int64]
    bin_of: NDArray[np.uint16]
    last_rank: NDArray[np.int32]


@kernel
def spread_kernel(records, wide, n_rows, out):
    """Write the fixed-point gradients of the first n_rows records by row.

    records  uint64 (n_rows,)     in
    wide     uint64 (n_rows,)     in   or empty: records are narrow
    out      int32 (n_rows, 2)    out
    """
    is_wide = len(wide) > 0
    for place in range(np.uint64(n_rows)):
        record = records[place]
        row = record & ROW_MASK
        if is_wide:
            out[row, 0], out[row, 1] = gradient_of(wide[place]), hessian_of(wide[place])
        else:
            upper = np.int64(record) >> 32
            out[row, 0], out[row, 1] = np.int16(upper & 0xFFFF), (upper >> 16) & 0xFFFF


@inner_kernel
def join_ranks(weight, n_bins, bin_of, last_rank):
    """Twin of quantiles.join_ranks and last_ranks, for more ranks than bins.

    weight     int64 (n_ranks,)    in
    bin_of     uint16 (n_ranks,)   out
    last_rank  int32 (n_bins,)     out
    """
    n_ranks, light, n_light, bar = len(weight), np.int64(0), np.int64(n_bins), np.int64(0)
    for number in range(n_bins):
        last_rank[number] = n_ranks - 1
    for rank in range(n_ranks):
        light += weight[rank]
    for _ in range(HEAVY_ROUNDS):
        bar = 2 * light // n_light
        light, n_light, was_heavy = np.int64(0), np.int64(n_bins), False
        for rank in range(n_ranks):
            is_heavy = weight[rank] > bar
            if rank > 0 and (is_heavy or was_heavy):
                n_light -= 1
            if not is_heavy:
                light += weight[rank]
            was_heavy = is_heavy
        if n_light == n_bins:  # none is heavy, nor will be
            break
    step, last_share = max(np.int64(1), (light + n_light - 1) // n_light), n_light - 1
    below, limit, share, last, was_heavy = np.int64(0), step, np.int64(0), np.int64(0), False
    for rank in range(n_ranks):
        is_heavy, begins = weight[rank] > bar, below >= limit and share < last_share
        if begins:  # only then a division is needed
            share = min(below // step, last_share)
            limit = (share + 1) * step
        if rank > 0 and (begins or is_heavy or was_heavy):
            last_rank[last] = rank - 1
            last += 1
        bin_of[rank] = last
        was_heavy = is_heavy
        if not is_heavy:
            below += weight[rank]


@kernel
def join_kernel(features, joining, gradients, weight, columns):
    """Join the ranks of some features, and write their bins, one feature's in a row.

    features   int64 (n,)                    in   that have more ranks than bins
    gradients  int32 (n_rows, 2)             in   zeros for rows that the tree does not see
    weight     int64 (>= most ranks + 1,)    scratch
    columns    uint8 or uint16 (n_used, n_rows)   out
    """
    first_rank, first_bin = joining.first_rank, joining.first_bin
    for i in range(len(features)):
        f = features[i]
        ranks, out = joining.ranks[joining.place[f]], columns[f]
        bin_of = joining.bin_of[first_rank[f] : first_rank[f + 1]]
        last_rank = joining.last_rank[first_bin[f] : first_bin[f + 1] - 1]
        n_ranks, n_bins = len(bin_of) - 1, len(last_rank)
        weight[: n_ranks + 1] = 0
        for row in range(np.uint64(len(ranks))):
            weight[ranks[row]] += gradients[row, 1]
        join_ranks(weight[:n_ranks], n_bins, bin_of[:n_ranks], last_rank)
        bin_of[n_ranks] = n_bins
        for row in range(np.uint64(len(ranks))):
            out[row] = bin_of[ranks[row]]


@kernel
def fill_rows_kernel(columns, features, start, stop, bins):
    """Write the columns of some features into rows, those of start:stop.

    features int64 (n,)                         in
    columns  uint8 or uint16 (n_used, n_rows)   in
    bins     the same type (n_rows, stride)     out
    """
    for tile in range(start, stop, TILE):
        for i in range(len(features)):
            f = np.uint64(features[i])
            for row in range(np.uint64(tile), np.uint64(min(tile + TILE, stop))):
                bins[row, f] = columns[f, row]

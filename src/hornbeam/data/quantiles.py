"""Neighbouring ranks joined to bins before every tree: `tree_method="approx"`, the definition.

Every distinct value of a feature has a rank (binning.py), and the rows of a tree give each rank a weight, the sum of
their fixed-point hessians. Ranks are joined to at most `n_bins` bins of about equal weight:

    heavy     a rank that weighs more than two average bins of those that the light ranks share; it has a bin of its own
    light     the others share the bins that are left: L = n_bins - (pairs of neighbours of which one is heavy) bins of
              `step` weight each, step = ceil(weight of the light ranks / L), by the light weight below them

At first all ranks are light. Those that are heavy leave less weight to the others, of which some are heavy now: there
are HEAVY_ROUNDS such rounds. No round runs out of bins, since fewer than L / 2 light ranks weigh more than two average
bins. What is heavy stays heavy: with h new heavy ranks the light weight falls by more than 2 h average bins, and L by
at most 2 h.

A bin ends beside a heavy rank, and where the light weight below passes a multiple of `step`: at most n_bins - 1 times.
Weights are integers, so there is no error, and every device joins the same ranks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.binning import BinMapper, BinnedData
from hornbeam.params.params import Params

HEAVY_ROUNDS = 3
"""Rounds in which heavy ranks are looked for. Of 255 bins for diamonds' carats, of 273 values, one round uses 151, two
use 181, three 200 and five 221; the error on other rows is lowest with three (docs/dev/quality.md)."""


def join_ranks(weight: NDArray[np.int64], n_bins: int) -> NDArray[np.int64]:
    """Return the bin of each rank, int64 (n_ranks,), ascending without gaps from 0 on.

    weight  int64 (n_ranks,)  in
    """
    n_ranks = len(weight)
    if n_ranks <= n_bins:
        return np.arange(n_ranks)
    light, n_light = weight, n_bins
    for _ in range(HEAVY_ROUNDS):
        heavy = weight > 2 * int(light.sum()) // n_light
        beside = heavy[1:] | heavy[:-1]
        light, n_light = np.where(heavy, 0, weight), n_bins - int(np.count_nonzero(beside))
    step = max(1, -(-int(light.sum()) // n_light))
    share = np.minimum((np.cumsum(light) - light) // step, n_light - 1)
    begins = beside | (share[1:] != share[:-1])
    return np.concatenate([[0], np.cumsum(begins)])


def last_ranks(bin_of: NDArray[np.int64], n_bins: int) -> NDArray[np.int32]:
    """Return the last rank of each bin, int32 (n_bins,); that of all for bins that no rank is in.

    bin_of  int64 (n_ranks,)  in  see join_ranks
    """
    ends = np.full(n_bins, len(bin_of) - 1, np.int32)
    begins = np.flatnonzero(np.diff(bin_of))
    ends[: len(begins)] = begins
    return ends


def joined_sizes(binned: BinnedData, params: Params) -> NDArray[np.int32]:
    """Return the number of value bins that each used feature has in every tree, int32 (n_used,)."""
    most = np.full(binned.mapper.n_features, params.max_bin, np.int32)
    if params.max_bin_by_feature is not None:
        most[:] = params.max_bin_by_feature
    sizes = np.minimum(binned.n_value_bins, most[binned.used])
    return np.concatenate([sizes[: binned.n_numeric], binned.n_value_bins[binned.n_numeric :]]).astype(np.int32)


FEW_VALUES = 255
"""Features of numbers of at most so many values have histograms with `tree_method="exact"`: of 256 bins, as others."""


NAMED_BINS = 15
"""Bins of a feature that is there by name alone: with the missing one they fit into 4 bits."""


def listed_features(binned: BinnedData) -> NDArray[np.int64]:
    """Return the features of numbers of many values, whose rows are listed by rank with `tree_method="exact"`."""
    return np.flatnonzero(binned.n_value_bins[: binned.n_numeric] > FEW_VALUES)


def named_sizes(binned: BinnedData) -> NDArray[np.int32]:
    """Return value bins where listed features are there by name alone, in bins of no meaning; int32 (n_used,)."""
    sizes = binned.n_value_bins.astype(np.int32)
    sizes[listed_features(binned)] = NAMED_BINS
    return sizes


def joined_mapper(binned: BinnedData, sizes: NDArray[np.int32]) -> BinMapper:
    """Return a mapper of features of these sizes, whose bounds mean nothing: they differ from tree to tree."""
    fine = binned.mapper
    bounds = list(fine.upper_bounds)
    for feature, size in zip(binned.used.tolist(), sizes.tolist(), strict=True):
        bounds[feature] = np.arange(size, dtype=np.float64)
    return BinMapper(tuple(bounds), fine.has_missing, fine.use_missing, fine.n_levels)

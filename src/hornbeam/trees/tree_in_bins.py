"""A finished tree in the bins of some data: where its thresholds are bounds of bins, rows need not be read again."""

from __future__ import annotations

import numpy as np

from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import BinnedTree
from hornbeam.trees.tree import Tree


def in_bins(tree: Tree, binned: BinnedData) -> BinnedTree | None:
    """Return a tree whose splits look at bins; None where a split has no equal there.

    A split of a number has an equal if its threshold is the upper bound of a bin, as it is for trees that were grown on
    the same data. Categorical splits, and splits of features that these data do not use, have none here.
    """
    if tree.left_codes is not None and any(codes is not None for codes in tree.left_codes):
        return None
    place_of = {feature: place for place, feature in enumerate(binned.used[: binned.n_numeric].tolist())}
    places, bins = np.empty((2, len(tree.feature)), np.int32)
    for split, (feature, threshold) in enumerate(zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True)):
        if feature not in place_of:
            return None
        bounds = binned.mapper.upper_bounds[feature]
        places[split], bins[split] = place_of[feature], np.searchsorted(bounds, threshold)
        if bins[split] == len(bounds) or bounds[bins[split]] != threshold:
            return None
    return BinnedTree(places, bins, tree.missing_left, tree.left, tree.right, tree.leaf_value)

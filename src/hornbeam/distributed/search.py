"""The best split of a node among the features of one worker, from sums over all rows.

Features are dealt to workers in sections of about as many bins. A worker has the histograms of its section alone, but
of the rows of all workers. What it finds goes to all others, and each of them takes the best: the highest gain, and of
equals the lowest feature, as a search of all features would.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.trees.categorical_splits import best_level_set, set_record
from hornbeam.trees.splitting import NodeContext, SplitRules, best_split
from hornbeam.trees.tree import code_bits


def sections(binned: BinnedData, n_workers: int) -> list[tuple[int, int]]:
    """Return the used features of each worker, (first, last + 1), of about as many bins each."""
    ends = binned.offsets[1:]
    wanted = int(binned.offsets[-1]) * np.arange(n_workers + 1) / n_workers
    cuts = np.searchsorted(ends, wanted[1:-1], side="left")
    bounds = [0, *np.minimum(cuts, binned.n_used).tolist(), binned.n_used]
    return list(pairwise(bounds))


class SectionSearch:
    """Searches the section of one worker.

    binned       of this worker; its bins are not looked at
    first, last  used features of the section
    """

    def __init__(self, binned: BinnedData, first: int, last: int) -> None:
        self._binned, self._first, self._last = binned, first, last
        self._offsets = binned.offsets.astype(np.int64) - int(binned.offsets[first])

    def find(
        self,
        sums: NDArray[np.int64],
        chosen: NDArray[np.int32],
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        node: int,
        number: int,
    ) -> tuple[NDArray[np.void], int, NDArray[np.uint32]]:
        """Find the best split of a node.

        sums    int64 (n_bins of the section, 3)  in  gradients, hessians, rows
        chosen  int32 (n,)                        in  used features that the tree may use, ascending
        node    its entry in the context
        number  of the node's set, for a categorical split

        Returns SPLIT (), the rows that go left, and the bins that do for a categorical split, uint32 (set_words,).
        """
        binned, offsets, n_numeric = self._binned, self._offsets, self._binned.n_numeric
        chosen = chosen[(chosen >= self._first) & (chosen < self._last)]
        histogram, counts = np.ascontiguousarray(sums[:, :2]), np.ascontiguousarray(sums[:, 2])
        split = best_split(
            histogram, counts, offsets[: n_numeric + 1], binned.has_missing[:n_numeric], quantization, rules, context,
            node, chosen[chosen < n_numeric],
        )  # fmt: skip
        n_left, words = 0, np.zeros(binned.set_words, np.uint32)
        if split["feature"] >= 0:
            feature = int(split["feature"])
            first = offsets[feature]
            n_left = int(counts[first : first + int(split["bin"]) + 1].sum())
            if split["missing_left"]:
                n_left += int(counts[offsets[feature + 1] - 1])
        for feature in chosen[chosen >= n_numeric].tolist():
            if context is not None and not context.allows(node, feature):
                continue
            own = slice(offsets[feature], offsets[feature + 1])
            found = best_level_set(histogram[own], counts[own], quantization, rules, context, node, feature)
            if found.gain > split["gain"]:
                split = np.array(set_record(found, feature, number), SPLIT)
                words = code_bits(found.bins, binned.set_words)
                n_left = int(counts[own][found.bins].sum())
        return split, n_left, words

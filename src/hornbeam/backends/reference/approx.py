"""The reference engine with bins that are found before every tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.reference.engine import ReferenceEngine
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.data.quantiles import join_ranks, last_ranks
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules


class ApproxReferenceEngine(ReferenceEngine):
    """Sums ranks joined to bins, and names splits by ranks: all else looks at ranks.

    sizes  int32 (n_used,)  value bins of each feature, see quantiles.joined_sizes
    """

    def __init__(self, binned: BinnedData, sizes: NDArray[np.int32]) -> None:
        super().__init__(binned)
        self._sizes = sizes
        self._offsets = np.concatenate([[0], np.cumsum(sizes.astype(np.int64) + 1)])
        self.slot_bytes = 16 * max(1, int(self._offsets[-1]))
        self._bin_of: list[NDArray[np.int64]] = []

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round the gradients, and join ranks by the hessians."""
        quantization = super().quantize(output, high_precision)
        self._bin_of, self._last_rank = [], []
        for feature, size in enumerate(self._sizes.tolist()):
            n_ranks = int(self.binned.n_value_bins[feature])
            weight = np.zeros(n_ranks + 1, np.int64)
            np.add.at(weight, self.binned.bins[:, feature], self._h)
            bin_of = join_ranks(weight[:n_ranks], size)
            self._bin_of.append(np.append(bin_of, size))
            self._last_rank.append(last_ranks(bin_of, size))
        return quantization

    def _codes(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the histogram entry of every (row, used feature), int64 (len(rows), n_used)."""
        found = np.empty((len(rows), self.binned.n_used), np.int64)
        for feature, bin_of in enumerate(self._bin_of):
            found[:, feature] = bin_of[self.binned.bins[rows, feature]] + self._offsets[feature]
        return found

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best split of each node; its bin is the last rank that goes left."""
        splits = super().find_splits(nodes, slots, gradient, hessian, rules, context)
        for split in splits:
            if 0 <= split["feature"] < self.binned.n_numeric:
                split["bin"] = self._last_rank[split["feature"]][split["bin"]]
        return splits

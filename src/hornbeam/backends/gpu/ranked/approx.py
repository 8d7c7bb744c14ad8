"""The GPU engine with bins that are found before every tree; see kernels/growth/join.cl."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.ranked.engine import RankedEngine
from hornbeam.backends.gpu.ranked.join import JoinSizes, RankJoin
from hornbeam.backends.gpu.ranked.sorted_rows import bytes_to_sort
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import ContextsAhead, GrownAhead, LeafRenewal, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules


class ApproxEngine(RankedEngine):
    """Grows trees on ranks joined to bins; outside, splits are named by ranks."""

    def _more_bytes(self, spare: int) -> int:
        return sum(self._sizes().buffers.values()) + bytes_to_sort(self._binned.n_rows)

    def _sizes(self) -> JoinSizes:
        return JoinSizes.of(self.workspace.facts, self._binned, self._joined)

    def _prepare(self) -> None:
        self._first_bin = self._joined.offsets[: self._binned.n_numeric + 1]
        self._ranks_to_bins = RankJoin(self.workspace, self._sizes(), self._ranks)
        self._is_by_count = False
        self._last_rank: NDArray[np.int32] | None = None

    def _sum_root_ahead(self, wide: bool) -> None:
        """Wait: the root has no bins yet."""

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round the gradients, and join ranks by the hessians."""
        quantization = super().quantize(output, high_precision)
        by_count = self._rounded.hessians_count and not self._bag
        if self._binned.n_numeric > 0 and not (by_count and self._is_by_count):  # else every row weighs the same again
            self._ranks_to_bins.join(self._tree_rows().n_rows, bool(self._bag), quantization.wide, self._bins)
            self._last_rank = None
        self._is_by_count = by_count
        return quantization

    # --- names of splits ----------------------------------------------------------------------------------------------

    @property
    def _ends(self) -> NDArray[np.int32]:
        """The last rank of every bin of the tree, read from the device when first asked for."""
        if self._last_rank is None:
            self._last_rank = np.empty(int(self._first_bin[-1]), np.int32)
            self._runtime.download(self.workspace.buffer("last rank"), self._last_rank)
        return self._last_rank

    def _numeric(self, splits: NDArray[np.void]) -> NDArray[np.intp]:
        feature = splits["feature"]
        return np.flatnonzero((feature >= 0) & (feature < self._binned.n_numeric))

    def _in_ranks(self, splits: NDArray[np.void]) -> NDArray[np.void]:
        """Name the bins of splits (in place) by their last ranks."""
        numeric = self._numeric(splits)
        numeric = numeric[splits["gain"][numeric] > -np.inf]
        if len(numeric):
            splits["bin"][numeric] = self._ends[self._first_bin[splits["feature"][numeric]] + splits["bin"][numeric]]
        return splits

    def _in_bins(self, records: NDArray[np.void]) -> NDArray[np.void]:
        """Return splits or expansions whose ranks are named by their bins."""
        renamed = records.copy()
        for place in self._numeric(records).tolist():
            first, past = self._first_bin[records["feature"][place] : records["feature"][place] + 2].tolist()
            renamed["bin"][place] = np.searchsorted(self._ends[first : past - 1], records["bin"][place])
        return renamed

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places."""
        return super().partition(nodes, self._in_bins(splits))

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best splits."""
        return self._in_ranks(super().find_splits(nodes, slots, gradient, hessian, rules, context))

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a whole round."""
        n_left, splits = super().expand(self._in_bins(batch), rules, max_depth)
        return n_left, self._in_ranks(splits.reshape(-1)).reshape(-1, 2)

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
        renewal: LeafRenewal | None = None,
    ) -> GrownAhead | None:
        """Run round after round without the host."""
        ahead = super().grow_ahead(root, rules, limits, learning_rate, meanwhile, contexts, renewal)
        if ahead is not None:
            self._in_ranks(ahead.nodes["split"])
        return ahead

"""Growing trees whose bins are found before each of them: dense data, whose bins are written anew.

A feature that has a bin for every rank has them in all trees: they are written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.ranked.joining import TILE, Joining, fill_rows_kernel, join_kernel, spread_kernel
from hornbeam.backends.cpu.host.threads import run_ranges, run_threads
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.data.binning import BinnedData, allocate_bins
from hornbeam.data.quantiles import joined_mapper
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import GrownAhead, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules


class ApproxGrowth(DenseGrowth):
    """Grows trees on ranks joined to bins; outside, splits are named by ranks.

    sizes  int32 (n_used,)  value bins of each feature, see quantiles.joined_sizes
    """

    def __init__(
        self, ranked: BinnedData, n_threads: int, n_team: int, tuning: Tuning, sizes: NDArray[np.int32]
    ) -> None:
        n_rows, n_numeric, mapper = ranked.n_rows, ranked.n_numeric, joined_mapper(ranked, sizes)
        joined = BinnedData(mapper, allocate_bins(n_rows, ranked.n_used, mapper.bin_dtype))
        is_joined = ranked.n_value_bins[:n_numeric] > sizes[:n_numeric]
        place = np.where(is_joined, np.cumsum(is_joined) - 1, -1)
        columns = self._columns = np.empty((ranked.n_used, n_rows), mapper.bin_dtype)
        self._joined = np.flatnonzero(is_joined)  # those that have more ranks than bins
        super().__init__(joined, n_threads, n_team, tuning)
        self._maker.lend_columns(columns)
        first_rank = ranked.offsets[: n_numeric + 1].astype(np.int64)
        first_bin = joined.offsets[: n_numeric + 1].astype(np.int64)
        self._joining = Joining(
            np.empty((len(self._joined), n_rows), np.uint32), place, first_rank, first_bin,
            _from_zero(first_rank).astype(np.uint16), _from_zero(first_bin).astype(np.int32),
        )  # fmt: skip
        self._take_ranks(ranked)
        self._gradients = np.zeros((n_rows, 2), np.int32)
        self._weight = np.empty((n_threads, int(np.diff(first_rank).max(initial=0))), np.int64)
        self._chosen: NDArray[np.int32] | None = None
        self._is_by_count = np.zeros(n_numeric, np.bool_)

    def _take_ranks(self, ranked: BinnedData) -> None:
        """Copy the ranks of the features that are joined, and the bins of all others."""
        joined, others = self._joined, np.setdiff1d(np.arange(ranked.n_used), self._joined)
        ranks, columns, bins = self._joining.ranks, self._columns, self.binned.bins

        def copy(start: int, stop: int) -> None:
            for tile in range(start, stop, TILE):
                rows = slice(tile, min(tile + TILE, stop))
                taken = ranked.bins[rows]
                ranks[:, rows] = taken[:, joined].T
                bins[rows, others] = taken[:, others]
                columns[others, rows] = taken[:, others].T

        run_ranges(copy, ranked.n_rows, self.n_threads, smallest=self.tuning.copied_rows_per_thread)

    @staticmethod
    def bytes_a_row(ranked: BinnedData) -> int:
        """Return the most bytes that are kept for a row: ranks, and bins by row and by feature."""
        return 4 * ranked.n_numeric + 2 * 2 * ranked.n_used + 8

    def beside(self, n_slots: int, limits: GrowthLimits, n_threads: int) -> None:
        """Bins of one tree are of no use to another."""

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Note the features; their bins are copied once more when they are known."""
        self._chosen = features
        super().choose_features(features)

    def gradients_are_rounded(self, n_rows: int) -> None:
        """Find the bins of the tree's features."""
        hessians = self.rounded.quantization
        features = self._joined if self._chosen is None else np.intersect1d(self._chosen, self._joined)
        by_count = n_rows == self.binned.n_rows and hessians.hessian_min == hessians.hessian_max == 1
        if by_count:  # every row weighs the same, in every tree
            features = features[~self._is_by_count[features]]
        self._is_by_count[features] = by_count
        if len(features):
            self._join(features.astype(np.int64), n_rows)
        super().choose_features(self._chosen)

    def _join(self, features: NDArray[np.int64], n_rows: int) -> None:
        """Join the ranks of some features, and write their bins."""
        bins, store, n_threads = self.binned.bins, self.store, min(self.n_threads, len(features))
        if n_rows < len(bins):
            self._gradients[:] = 0
        spread_kernel(store.even, store.wide_even, n_rows, self._gradients)
        parts = np.array_split(features, n_threads)
        run_threads(
            lambda t: join_kernel(parts[t], self._joining, self._gradients, self._weight[t], self._columns), n_threads
        )
        run_ranges(
            lambda start, stop: fill_rows_kernel(self._columns, features, start, stop, bins),
            len(bins), self.n_threads, smallest=self.tuning.copied_rows_per_thread,
        )  # fmt: skip

    # --- names of splits ----------------------------------------------------------------------------------------------

    def _numeric(self, splits: NDArray[np.void]) -> NDArray[np.intp]:
        feature = splits["feature"]
        return np.flatnonzero((feature >= 0) & (feature < len(self._is_by_count)))

    def _in_ranks(self, splits: NDArray[np.void]) -> NDArray[np.void]:
        """Name the bins of splits (in place) by their last ranks."""
        numeric = self._numeric(splits)
        numeric = numeric[splits["gain"][numeric] > -np.inf]
        places = self._joining.first_bin[splits["feature"][numeric]] + splits["bin"][numeric]
        splits["bin"][numeric] = self._joining.last_rank[places]
        return splits

    def _in_bins(self, records: NDArray[np.void]) -> NDArray[np.void]:
        """Return splits or expansions whose ranks are named by their bins."""
        renamed, numeric = records.copy(), self._numeric(records)
        places = self._joining.first_rank[records["feature"][numeric]] + records["bin"][numeric]
        renamed["bin"][numeric] = self._joining.bin_of[places]
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
    ) -> tuple[NDArray[np.int64], NDArray[np.void]] | None:
        """Expand the nodes of a round."""
        done = super().expand(self._in_bins(batch), rules, max_depth)
        return None if done is None else (done[0], self._in_ranks(done[1].reshape(-1)).reshape(-1, 2))

    def grow(self, *arguments: Any) -> GrownAhead:
        """Grow a tree."""
        grown = super().grow(*arguments)
        self._in_ranks(grown.nodes["split"])
        return grown


def _from_zero(first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from 0 on of each part of an array, whose parts begin at `first`."""
    return np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))

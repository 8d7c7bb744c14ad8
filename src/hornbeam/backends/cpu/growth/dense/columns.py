"""The features that a tree may use, and their bins.

A tree that may use some features alone (`feature_fraction`) gets their bins side by side, copied once: everything after
that, histograms, partition and split search, works on fewer columns and takes less time. Outside the engine features
keep their positions among all used ones; inside they are numbered as they lie.

    bins of the data set   | f0 f1 f2 f3 f4 |          features = 1, 4
    bins of the tree       | f1 f4 |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.histograms import DenseHistograms
from hornbeam.backends.cpu.growth.dense.running_sums import Scores
from hornbeam.backends.cpu.growth.dense.tree import Shares
from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts, share_of
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import NARROW_GRADIENT_LIMIT
from hornbeam.data.binning import BinnedData, allocate_bins

TILE = 256
"""Rows that are turned into columns at a time: they stay in the second-level cache."""


@kernel
def gather_kernel(t, crew, bins, features, out):
    """Copy some columns of one thread's rows; see host/team.py.

    bins      uint8 or uint16 (n_rows, stride)          in
    features  uint64 (n_chosen,)                        in
    out       the same type (n_rows, its own stride)    out
    """
    call_helpers(t, crew, (bins, features, out))
    first, last = share_of(len(bins), t, crew.size)
    for row in range(np.uint64(first), np.uint64(last)):
        for i in range(np.uint64(len(features))):
            out[row, i] = bins[row, features[i]]


@kernel
def turn_kernel(t, crew, bins, out):
    """Write one thread's rows of the bins once more, one feature's in a row; see host/team.py.

    bins  uint8 or uint16 (n_rows, stride)      in
    out   the same type (n_features, n_rows)    out
    """
    call_helpers(t, crew, (bins, out))
    first, last = share_of(len(bins), t, crew.size)
    for start in range(first, last, TILE):
        for f in range(np.uint64(len(out))):
            for row in range(np.uint64(start), np.uint64(min(start + TILE, last))):
                out[f, row] = bins[row, f]


class Columns(Space):
    """Some used features, with their bins, slots and scratch memory.

    store   rows of the tree, with bins of these features alone
    slots   see DenseHistograms
    scores  scratch of whole trees
    turned  uint8 or uint16 (n, n_rows)  bins, one feature's in a row; made for the first whole tree
    shares  by the size of the team: who has which features
    """

    def __init__(
        self, binned: BinnedData, numbers: NDArray[np.int32], store: RowStore, n_threads: int, tuning: Tuning
    ) -> None:
        super().__init__(binned, numbers, np.full(len(numbers), -1), n_threads, tuning)
        self.store = store
        self.slots = DenseHistograms(self.offsets, n_threads, tuning)
        self.scores = Scores.make(n_threads, self.n_bins, self.n_numeric)
        self.turned: NDArray[Any] | None = None
        self.shares: dict[int, Shares] = {}
        self._is_whole = len(numbers) == binned.n_used

    def outside(self, splits: NDArray[np.void]) -> NDArray[np.void]:
        """Rename the features of splits (in place) as they are called outside the engine."""
        if not self._is_whole and len(self.numbers):
            feature = splits["feature"]
            splits["feature"] = np.where(feature >= 0, self.numbers[np.maximum(feature, 0)], feature)
        return splits

    def inside(self, records: NDArray[np.void]) -> NDArray[np.void]:
        """Return splits or expansions with the features renamed as the kernels number them."""
        if self._is_whole:
            return records
        renamed = records.copy()
        renamed["feature"] = np.searchsorted(self.numbers, records["feature"])
        return renamed


class ColumnMaker:
    """Makes the columns of tree after tree, in memory that is kept."""

    def __init__(self, binned: BinnedData, n_threads: int, n_team: int, tuning: Tuning) -> None:
        self._binned = binned
        self._n_threads = n_threads
        self._n_team = n_team
        self._tuning = tuning
        everything = np.arange(binned.n_used, dtype=np.int32)
        self.whole = Columns(binned, everything, RowStore.fitting(binned.bins, tuning, self._stay), n_threads, tuning)
        self._store: RowStore | None = None
        self._slots = np.empty(0, np.int64)
        self._turned: NDArray[Any] | None = None

    @property
    def reads_in_passes(self) -> bool:
        """Whether many threads grow trees on so many rows in rounds, and read the bins in passes (single_pass.py)."""
        binned, tuning = self._binned, self._tuning
        is_large = binned.n_rows * NARROW_GRADIENT_LIMIT > tuning.most_wide_sums  # most sums are too large for others
        has_room = binned.bins.itemsize == 1 and int(binned.offsets[-1]) <= tuning.most_counters_in_pass
        return is_large and has_room and self._n_threads >= tuning.passing_threads

    @property
    def _stay(self) -> bool:
        """Whether bins stay in place though they are many: those of a file, and those that are read in passes."""
        return self._binned.mapped is not None or self.reads_in_passes

    def take(self, numbers: NDArray[np.int32]) -> Columns:
        """Copy the bins of some features side by side."""
        binned, dtype = self._binned, self._binned.mapper.bin_dtype
        wanted = allocate_bins(0, len(numbers), dtype)
        if self._store is None or self._store.bins.shape[1] != wanted.shape[1]:
            chosen_bins = allocate_bins(binned.n_rows, len(numbers), dtype)
            self._store = RowStore.fitting(chosen_bins, self._tuning, self._stay)
        out, chosen = self._store.bins, numbers.astype(np.uint64)
        n_threads = max(1, min(self._n_team, binned.n_rows // self._tuning.copied_rows_per_thread))
        run_parts(gather_kernel, n_threads, binned.bins, chosen, out)
        return Columns(binned, numbers, self._store, self._n_threads, self._tuning)

    def lend_slots(self, columns: Columns, n_slots: int) -> None:
        """Give the columns room for n_slots histograms: memory that the trees before have touched already."""
        if columns is self.whole:
            return
        size = n_slots * int(self._binned.offsets[-1]) * 2
        if len(self._slots) < size:
            self._slots = np.empty(size, np.int64)
        shape = n_slots, columns.n_bins, 2
        columns.slots.histograms = self._slots[: n_slots * columns.n_bins * 2].reshape(shape)

    def lend_columns(self, turned: NDArray[Any]) -> None:
        """Take the bins of all features, each feature's in a row, which are written anew for every tree."""
        self._turned = self.whole.turned = turned

    def turn(self, columns: Columns) -> NDArray[Any]:
        """Return the bins of the columns, each feature's in a row."""
        if columns.turned is None:
            if self._turned is None:
                bins = self._binned.bins
                self._turned = np.empty((self._binned.n_used, len(bins)), bins.dtype)
                n_threads = max(1, min(self._n_team, self._turned.size // self._tuning.turned_cells_per_thread))
                run_parts(turn_kernel, n_threads, bins, self._turned)
            columns.turned = self._turned if columns is self.whole else self._turned[columns.numbers]
        return columns.turned

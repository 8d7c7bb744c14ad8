"""The features that a tree may use, as the kernels see them.

A tree that may use some features alone (`feature_fraction`) gets their bins side by side, copied once: everything after
that, histograms, partition and split search, works on fewer columns and takes less time. Outside the engine features
keep their positions among all used ones; inside they are numbered as they lie.

    bins of the data set   | f0 f1 f2 f3 f4 |          features = 1, 4
    bins of the tree       | f1 f4 |
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.expand import Expander
from hornbeam.backends.cpu.growth.histogram import HistogramBuilder
from hornbeam.backends.cpu.growth.rows import RowStore
from hornbeam.backends.cpu.growth.split import SplitFinder
from hornbeam.backends.cpu.growth.whole_tree import TreeRoom, WholeTree
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.data.binning import BinnedData, allocate_bins

ROWS_PER_THREAD = 20_000
"""A second thread is worth waking for copying this many rows."""


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def gather_kernel(bins, features, start, stop, out):  # type: ignore[no-untyped-def]
    """Copy some columns of the rows start:stop.

    bins      uint8 or uint16 (n_rows, stride)      in
    features  uint64 (n_chosen,)                    in
    out       the same type (n_rows, own stride)    out
    """
    for row in range(np.uint64(start), np.uint64(stop)):
        for i in range(np.uint64(len(features))):
            out[row, i] = bins[row, features[i]]


class Columns:
    """Bins, histograms and split search over some used features of a training set.

    features      int32 (n,): position of each among all used features, ascending
    n_value_bins  int64 (n,)
    n_numeric     number of features that are not categorical; they come first
    offsets       int64 (n + 1,): first histogram entry of each feature
    """

    def __init__(
        self, binned: BinnedData, features: NDArray[np.int32], store: RowStore, room: TreeRoom, n_threads: int
    ) -> None:
        self.features = features
        self.store = store
        self.room = room
        self.n_value_bins = binned.n_value_bins[features].astype(np.int64)
        offsets = np.zeros(len(features) + 1, np.int64)
        np.cumsum(self.n_value_bins + 1, out=offsets[1:])
        self.offsets = offsets
        self.n_numeric = n_numeric = int(np.searchsorted(features, binned.n_numeric))
        self.histograms = HistogramBuilder(offsets, n_threads)
        self.splits = SplitFinder(offsets[: n_numeric + 1], binned.has_missing[features[:n_numeric]], n_threads)
        self.expander = Expander(self.histograms, self.splits, self.n_value_bins)
        self.whole_tree = WholeTree(self.histograms, self.splits, self.n_value_bins, features, room)
        self._n_all = binned.n_used

    @classmethod
    def whole(cls, binned: BinnedData, n_threads: int) -> Columns:
        """Take all used features, where they lie."""
        room = TreeRoom(binned.bins, binned.n_used)
        return cls(binned, np.arange(binned.n_used, dtype=np.int32), RowStore(binned.bins), room, n_threads)

    @property
    def is_whole(self) -> bool:
        """Whether these are all used features."""
        return len(self.features) == self._n_all

    def outside(self, splits: NDArray[np.void]) -> NDArray[np.void]:
        """Rename the features of splits (in place) as they are called outside the engine."""
        if not self.is_whole and len(self.features):
            feature = splits["feature"]
            splits["feature"] = np.where(feature >= 0, self.features[np.maximum(feature, 0)], feature)
        return splits

    def inside(self, records: NDArray[np.void]) -> NDArray[np.void]:
        """Return splits or expansions with the features renamed as the kernels number them."""
        if self.is_whole:
            return records
        renamed = records.copy()
        renamed["feature"] = np.searchsorted(self.features, records["feature"])
        return renamed


class SomeColumns:
    """Makes the columns of tree after tree, in memory that is kept."""

    def __init__(self, binned: BinnedData, room: TreeRoom, n_threads: int) -> None:
        self._binned = binned
        self._room = room
        self._n_threads = n_threads
        self._store: RowStore | None = None
        self._slots = np.empty(0, np.int64)

    def take(self, features: NDArray[np.int32]) -> Columns:
        """Copy the bins of some features side by side."""
        binned = self._binned
        wanted = allocate_bins(0, len(features), binned.mapper.bin_dtype)
        if self._store is None or self._store.bins.shape[1] != wanted.shape[1]:
            self._store = RowStore(allocate_bins(binned.n_rows, len(features), binned.mapper.bin_dtype))
        out, chosen = self._store.bins, features.astype(np.uint64)
        run_ranges(
            lambda start, stop: gather_kernel(binned.bins, chosen, start, stop, out),
            binned.n_rows, self._n_threads, smallest=ROWS_PER_THREAD,
        )  # fmt: skip
        return Columns(binned, features, self._store, self._room, self._n_threads)

    def lend_slots(self, columns: Columns, n_slots: int) -> None:
        """Give the columns room for n_slots histograms: memory that the trees before have touched already."""
        if len(self._slots) < n_slots * int(self._binned.offsets[-1]) * 2:
            self._slots = np.empty(n_slots * int(self._binned.offsets[-1]) * 2, np.int64)
        n_bins = columns.histograms.n_bins
        columns.histograms.histograms = self._slots[: n_slots * n_bins * 2].reshape(n_slots, n_bins, 2)

"""The features that a tree may use, as kernels number them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.pairs import Features, Scratch
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinnedData


class Space:
    """Some used features of a training set, numbers before categories.

    numbers       int32 (n,)      position of each among all used features, ascending
    n_value_bins  int64 (n,)
    offsets       int64 (n + 1,)  first histogram entry of each
    n_numeric     number of features that are not categorical
    features      those, see pairs.Features
    """

    def __init__(
        self,
        binned: BinnedData,
        numbers: NDArray[np.int32],
        default: NDArray[np.int64],
        n_threads: int,
        tuning: Tuning,
    ) -> None:
        self.numbers = numbers
        self.n_value_bins = binned.n_value_bins[numbers].astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.n_value_bins + 1)])
        self.n_numeric = n = int(np.searchsorted(numbers, binned.n_numeric))
        has_missing = np.ascontiguousarray(binned.has_missing[numbers[:n]])
        self.features = Features(self.offsets[: n + 1], has_missing, default[:n], np.ones(n, np.bool_))
        self.n_threads = n_threads
        self.tuning = tuning

    @property
    def n_bins(self) -> int:
        """Bins of all features."""
        return int(self.offsets[-1])

    @lazy
    def scratch(self) -> Scratch:
        """Memory of the threads that search these features."""
        return Scratch.make(self.n_threads, self.features, self.tuning)

"""Slots: histograms of pairs that outlive the kernel that has filled them, and their subtraction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.tuning import Tuning


@inner_kernel
def subtract_pairs(histogram, less, start, stop):
    """Subtract one histogram from another, in the bins start:stop; int64 (n_total_bins, 2) each."""
    for i in range(start, stop):
        histogram[i, 0] -= less[i, 0]
        histogram[i, 1] -= less[i, 1]


@kernel
def subtract_kernel(histograms, parents, children, start, stop):
    """Replace each parent's histogram by parent - child, in the bins start:stop."""
    for pair in range(len(parents)):
        subtract_pairs(histograms[parents[pair]], histograms[children[pair]], start, stop)


class Slots:
    """The histograms of one training's trees.

    histograms  int64 (n_slots, n_total_bins, 2)  gradient and hessian of each bin
    """

    def __init__(self, n_bins: int, n_threads: int, tuning: Tuning) -> None:
        self.n_bins = n_bins
        self.n_threads = n_threads
        self.tuning = tuning
        self.histograms = np.empty((0, n_bins, 2), np.int64)

    def set_slots(self, n_slots: int) -> None:
        """Make room for n_slots histograms; memory is only touched as slots are used."""
        if len(self.histograms) < n_slots:
            self.histograms = np.empty((n_slots, self.n_bins, 2), np.int64)

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """See engine.Engine.subtract."""
        run_ranges(
            lambda start, stop: subtract_kernel(self.histograms, parents, children, start, stop),
            self.n_bins, self.n_threads, smallest=self.tuning.subtracted_bins_per_thread // max(1, len(parents)) + 1,
        )  # fmt: skip

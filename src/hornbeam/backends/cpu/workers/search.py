"""The search for splits among the features of one worker, from sums over the rows of all.

It is the search of one process (growth/search.py), which asks for the rows of a feature where hessians cannot say how
many there are: here they are read from a table, which has come with the histograms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.search import NO_MASK, SlotSearch
from hornbeam.backends.cpu.growth.slots import Slots
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.growth.trees.contexts import tree_mask
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.operations import introduced
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData


class CountTable(NamedTuple):
    """The rows of every node by bin.

    rows     int64 (n_slots, n_total_bins)
    offsets  int64 (n_features + 1,)         first bin of each feature
    """

    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]


@kernel
def count_in_table(t, room, calls, rows, counts, all_counts):
    """Read how many rows of a node are in the bins of one feature, or of all: the operation `count`.

    rows        see CountTable
    counts      int64 (n_threads, most bins)            out
    all_counts  int64 (n_threads, n_total_bins or 0)    out
    """
    if introduced(t, room, (calls, rows, counts, all_counts)):
        return
    call, table = calls[t], rows
    of_node = table.rows[call.slot]
    call.counted = call.feature < 0
    if call.feature < 0:
        out = all_counts
        for i in range(len(of_node)):
            out[t, i] = of_node[i]
    else:
        out, first = counts, table.offsets[call.feature]
        for i in range(call.n_bins):
            out[t, i] = of_node[first + i]


class SectionSlots(SlotSearch):
    """Searches the used features first:last, in slots that are given.

    quantization  of the tree at hand
    rows          the table of the rows
    """

    count_kernel = count_in_table
    in_team = True
    quantization: Quantization
    rows: CountTable

    def __init__(self, binned: BinnedData, first: int, last: int, n_threads: int) -> None:
        super().__init__(binned, n_threads, in_use())
        numbers = np.arange(first, last, dtype=np.int32)
        self.space = Space(binned, numbers, np.full(len(numbers), -1), n_threads, self.tuning)
        self.slots = Slots(self.space.n_bins, n_threads, self.tuning)
        self._mask = NO_MASK

    @property
    def mask(self) -> NDArray[np.uint32]:
        """Features that the tree may use; empty: all."""
        return self._mask

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the tree at hand, by their positions among all; None: all."""
        numbers = self.space.numbers
        chosen = np.ones(len(numbers), bool) if features is None else np.isin(numbers, features)
        self._mask = NO_MASK if features is None else tree_mask(numbers[chosen], self.binned.n_used)
        self.space.features.chosen[:] = chosen[: self.space.n_numeric]

    def use(self, pairs: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Take the slots to search.

        pairs  int64 (n_slots, n_bins, 2)  in  gradients and hessians
        rows   int64 (n_slots, n_bins)     in
        """
        self.slots.histograms, self.rows = pairs, CountTable(rows, self.space.offsets)
        if self.sets is not None:
            self.sets.begin_tree()

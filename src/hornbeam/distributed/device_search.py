"""The search of a worker's section in the memory of its GPU: see search.SectionSearch, which it does the same as."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.device_rows import DeviceRows
from hornbeam.distributed.nccl import NcclCollective
from hornbeam.distributed.search import Candidates, NodeSums
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules


class DeviceSearch:
    """Searches the section of one worker, and keeps its histograms: those of all workers' rows.

    engine       that of this worker's rows
    first, last  used features of the section

    Histograms never leave the devices, which add them up by NCCL. Rows that go left are counted when they are moved.
    """

    counts_rows = False

    def __init__(self, engine: GpuEngine, binned: BinnedData, first: int, last: int) -> None:
        self._engine, self._section = engine, np.arange(first, last, dtype=np.int32)
        self.n_numeric, self.set_words = binned.n_numeric, binned.set_words
        self._is_whole = last - first == binned.n_used
        self.slot_bytes = engine.slot_bytes
        engine.search_together()
        self.choose_features(None)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the used features that the trees to come may use; None: all."""
        if features is None and self._is_whole:
            self._engine.choose_features(None)
        else:
            self._engine.choose_features(self._section if features is None else np.intersect1d(self._section, features))

    def set_slots(self, n_slots: int) -> int:
        """Make room for the histograms of a tree, whose gradients are rounded; returns how many there is room for."""
        return self._engine.begin_together(n_slots)

    def sum_nodes(
        self,
        collective: Collective,
        rows: TreeRows,
        local: Segments,
        n_rows: NDArray[np.int64],
        n_sums: int,
        slots: NDArray[np.int32],
        parents: NDArray[np.int32] | None = None,
    ) -> None:
        """Sum the rows of nodes on all workers into slots, and subtract them from others."""
        assert isinstance(rows, DeviceRows) and isinstance(collective, NcclCollective)
        most_rows, reduce = int(n_rows.max(initial=0)), collective.reduce_on_devices
        self._engine.sum_together(rows.at_depth(local), slots, most_rows, collective.rank, reduce)
        if parents is not None:
            self.subtract(parents[parents >= 0], slots[parents >= 0])

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """Turn the histograms of parents into those of their other children."""
        self._engine.subtract(parents, children)

    def find(
        self,
        nodes: NodeSums,
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> Candidates:
        """Find the best split of some nodes; how many rows go left is not known."""
        splits, sets = self._engine.find_together(
            nodes.segments, nodes.slots, nodes.gradient, nodes.hessian, rules, context
        )
        in_set = splits["feature"] >= self.n_numeric
        splits["bin"][in_set] = first_set + np.flatnonzero(in_set)
        return Candidates(splits, np.zeros(len(splits), np.int64), sets)

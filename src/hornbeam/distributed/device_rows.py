"""The rows of growing trees in the memory of a GPU: see tree_rows.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.runtime.runtime import Buffer
from hornbeam.core.fixed_point import Gather, Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.nccl import NcclCollective
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.trees.bagging import ROOT_DEPTH, Bag
from hornbeam.trees.engine import Engine
from hornbeam.trees.records import BinnedTree, ChosenRows, Root, Segments


class DeviceRows(TreeRows):
    """The rows where their engine has them; there is at least one.

    Histograms come down, node tables go up; gradients, rows and leaves stay, unless somebody asks for them.
    """

    def __init__(self, binned: BinnedData, engine: GpuEngine) -> None:
        super().__init__(binned)
        self._engine = engine

    @property
    def leaf(self) -> NDArray[Any]:
        """A copy of the leaf of every row."""
        return self._engine.row_leaves()

    def begin(self, local: Engine, output: int, bag: Bag | None, high_precision: bool, gather: Gather) -> Quantization:
        """Start a tree on the gradients that are on the device."""
        self._bag, self._rounded = bag, self._engine.round_together(output, bag, high_precision, gather)
        self._places = {(0, 0): (0, self.root.n_rows)}
        return self._rounded.quantization

    @property
    def root(self) -> Root:
        """Number and sums of this worker's rows of the tree."""
        n_rows = self._binned.n_rows if self._bag is None else self._bag.n_in_bag
        return Root(n_rows, self._rounded.gradient, self._rounded.hessian)

    @property
    def largest(self) -> tuple[float, float]:
        """The largest of all workers' rows."""
        return self._rounded.largest

    def chosen_rows(self) -> ChosenRows:
        """Return copies."""
        return self._engine.chosen_rows()

    def _local(self, nodes: Segments) -> Segments:
        """Return the places, at the depths that the rows of a bag have."""
        local = super()._local(nodes)
        return local if self._bag is None else Segments(local.begin, local.end, local.depth + np.int32(ROOT_DEPTH))

    def histograms(self, nodes: Segments, counted: bool, dtype: Any) -> NDArray[Any]:
        """Sum by kernels, and bring the sums down."""
        return self._engine.sum_nodes(self._local(nodes), dtype)

    def reduce_histograms(
        self, nodes: Segments, counted: bool, dtype: Any, collective: Collective, sections: Sequence[slice]
    ) -> NDArray[Any]:
        """Let the devices add up, where they can."""
        if not isinstance(collective, NcclCollective):
            return super().reduce_histograms(nodes, counted, dtype, collective, sections)

        def reduce(sums: Buffer, out: Buffer, n: int) -> None:
            collective.reduce_on_devices(sums, out, n, dtype, "histograms on devices")

        return self._engine.reduce_sums(self._local(nodes), dtype, sections, collective.rank, reduce)

    def _divide(self, local: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Move rows by kernels."""
        return self._engine.divide(local, splits, sets)

    def assign(self, nodes: Segments, leaf_of_node: NDArray[np.int32]) -> None:
        """Tell the leaves by kernels."""
        local = self._local(nodes)
        here = np.flatnonzero(local.end > local.begin)
        self._engine.assign_leaves(local.take(here), leaf_of_node[here])

    def find_others(self, tree: BinnedTree) -> None:
        """Route rows by kernels."""
        self._engine.find_other_leaves(tree)

    def add_values(self, local: Engine, output: int, leaf_value: NDArray[np.float64]) -> None:
        """Add to the scores that are on the device."""
        self._engine.add_leaf_values(output, leaf_value)

    def leaf_integers(self, exponents: Sequence[int], n_leaves: int) -> NDArray[np.int64]:
        """Sum by kernels."""
        return self._engine.leaf_integers(exponents, n_leaves)

"""The rows of growing trees in the memory of a GPU: see tree_rows.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.histogram_messages import Room
from hornbeam.core.fixed_point import Gather, Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Buffer
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.trees.bagging import ROOT_DEPTH, Bag, Draw
from hornbeam.trees.engine import Engine
from hornbeam.trees.records import BinnedTree, ChosenRows, Root, Segments


class DeviceRows(TreeRows):
    """The rows where their engine has them; there is at least one.

    Node tables go up; gradients, rows and leaves stay, unless somebody asks for them. Histograms come down, or stay too
    (device_search.py).
    """

    def __init__(self, binned: BinnedData, sections: Sequence[tuple[int, int]], engine: GpuEngine) -> None:
        super().__init__(binned, sections)
        self._engine = engine
        engine.share_with(sections)

    @property
    def leaf(self) -> NDArray[Any]:
        """A copy of the leaf of every row."""
        return self._engine.row_leaves()

    def draw(self, draw: Draw, gather: Gather) -> Bag | None:
        """Draw on the device."""
        return self._engine.draw_together(draw, gather)

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

    def at_depth(self, local: Segments) -> Segments:
        """Return places at the depths that the rows of a bag have."""
        return local if self._bag is None else Segments(local.begin, local.end, local.depth + np.int32(ROOT_DEPTH))

    def messages(self, local: Segments, n_sums: int, room: Room) -> Sequence[Buffer]:
        """Sum by kernels, and bring the sums down."""
        return self._engine.write_messages(self.at_depth(local))

    def divide(self, local: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Move rows by kernels."""
        return self._engine.divide(self.at_depth(local), splits, sets)

    def assign(self, nodes: Segments, leaf_of_node: NDArray[np.int32]) -> None:
        """Tell the leaves by kernels."""
        local = self.at_depth(self.local(nodes))
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

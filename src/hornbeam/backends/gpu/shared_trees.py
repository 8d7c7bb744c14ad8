"""The operations of a GPU engine for trees that all outputs share; the kernels are launched by growth/outputs.py."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.outputs import STATS
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.trees.bagging import ROOT_DEPTH
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_splits import OutputsRoot, find_counter
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules


class SharedTrees:
    """What GpuEngine has of them; it has everything that is named here."""

    if TYPE_CHECKING:
        _outputs: Any
        _rounded: Any
        _bag: Any
        _tree: Any
        _n_outputs: int
        _output: int
        n_rows: int
        workspace: Workspace
        quantize: Any
        _tree_rows: Any
        _fit_slots: Any
        _begin: Any

    def begin_outputs(self, n_slots: int, high_precision: bool, min_data_in_leaf: int) -> OutputsRoot:
        """Round all outputs, keep that by row, and start a tree."""
        outputs, n_outputs, rounded = self._outputs, self._n_outputs, []
        for output in range(n_outputs):
            how = self.quantize(output, high_precision)
            rounded.append(self._rounded)
            outputs.keep(output, n_outputs, how.wide, self._tree_rows().n_rows, bool(self._bag))
        outputs.rounded, how_all = rounded, tuple(one.quantization for one in rounded)
        outputs.counter = find_counter(how_all, min_data_in_leaf)
        sums = np.array([[one.gradient, one.hessian] for one in rounded], np.int64)
        depth, n_tree = ROOT_DEPTH if self._bag else 0, self._tree_rows().n_rows
        root = OutputsRoot(n_tree, sums, how_all, outputs.counter, depth)
        given = self._fit_slots(n_slots * root.n_histograms)
        self._begin(how_all[0], outputs.is_wide, STATS, True, given)
        outputs.begin_tree()
        return replace(root, n_slots=given)

    def grow_shared(self, table: NDArray[np.void], root: OutputsRoot, rules: SplitRules, limits: GrowthLimits) -> None:
        """Leave that to the operations below."""

    def build_outputs(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the histograms of all outputs."""
        self._outputs.build(self._tree, nodes, slots)

    def find_output_splits(
        self, nodes: Segments, slots: NDArray[np.int32], sums: NDArray[np.int64], rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Find the best splits for all outputs."""
        found: tuple[NDArray[np.void], NDArray[np.int64]] = self._outputs.find(self._tree, nodes, slots, sums, rules)
        return found

    def choose_output(self, output: int) -> None:
        """Choose the gradients that leaves are summed of."""
        self._output, self._rounded = output, self._outputs.rounded[output]
        if self._bag:
            self._bag.take_gradients(output * self.n_rows, self.workspace.room("spare rows", 4 * self.n_rows))

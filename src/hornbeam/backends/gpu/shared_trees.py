"""The operations of a GPU engine for trees that all outputs share; the kernels are launched by growth/outputs.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.growth import DeviceGrowth
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.growth.leaves import DeviceLeaves
from hornbeam.backends.gpu.growth.outputs import STATS, OutputsAhead
from hornbeam.backends.gpu.losses.gradients import DeviceGradients
from hornbeam.backends.gpu.losses.quantize import Rounded, round_later, round_outputs_later, too_coarse
from hornbeam.backends.gpu.runtime.runtime import Buffer
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.trees.bagging import ROOT_DEPTH
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_splits import OutputsRoot, SharedAhead, find_counter, sums_of_splits
from hornbeam.trees.records import LeavesLater, Segments
from hornbeam.trees.splitting import SplitRules


class SharedTrees:
    """What GpuEngine has of them; it has everything that is named here."""

    if TYPE_CHECKING:
        _outputs: Any
        _rounded: Rounded
        _bag: Any
        _tree: Any
        _n_outputs: int
        _output: int
        n_rows: int
        workspace: Workspace
        _take_rows: Any
        _tree_rows: Any
        _fit_slots: Any
        _begin: Any
        _growth: DeviceGrowth
        _gradients: DeviceGradients
        _histograms: DeviceHistograms
        _leaves: DeviceLeaves

    def begin_outputs(self, n_slots: int, high_precision: bool, min_data_in_leaf: int) -> OutputsRoot:
        """Round all outputs, keep that by row, and start a tree."""
        outputs, rounded = self._outputs, []
        for output, one in enumerate(self._keep_all(high_precision)):
            seen, wide = one, high_precision
            if not wide and too_coarse(seen):
                seen, wide = self._keep(output, True)(), True
            rounded.append(Rounded.of(seen, wide))
        outputs.rounded, how_all = rounded, tuple(one.quantization for one in rounded)
        outputs.counter = find_counter(how_all, min_data_in_leaf)
        sums = np.array([[one.gradient, one.hessian] for one in rounded], np.int64)
        depth, n_tree = ROOT_DEPTH if self._bag else 0, self._tree_rows().n_rows
        root = OutputsRoot(n_tree, sums, how_all, outputs.counter, depth)
        given = self._fit_slots(n_slots * root.n_histograms)
        self._begin(how_all[0], outputs.is_wide, STATS, True, given)
        outputs.begin_tree()
        return replace(root, n_slots=given)

    def _keep_all(self, wide: bool) -> Sequence[np.void]:
        """Round all outputs, and keep that by row; returns the reports."""
        if not self._bag and self._gradients.are_stored:
            rows, kept = self._gradients.of_rows(0), self._outputs.make_kept(self._n_outputs)
            return list(round_outputs_later(self.workspace, rows, self._n_outputs, wide, kept)())
        return [report() for report in [self._keep(output, wide) for output in range(self._n_outputs)]]

    def _keep(self, output: int, wide: bool) -> Callable[[], np.void]:
        """Round an output, and keep that by row; returns what waits for the report of it."""
        self._take_rows(output)
        rows = self._tree_rows()
        report = round_later(self.workspace, rows, wide, f"report {output}")
        self._outputs.keep(output, self._n_outputs, wide, rows.n_rows, bool(self._bag))
        return report

    def grow_shared(
        self,
        table: NDArray[np.void],
        root: OutputsRoot,
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> SharedAhead | None:
        """Run round after round without the host, where there are slots for every round, and go on to the leaves."""
        ahead = OutputsAhead(self._outputs, self._tree)
        if ahead.n_slots < 2 * limits.n_leaves:
            return None
        even, odd, *_ = self._histograms.row_buffers()

        def finish(state: Buffer, order: Buffer) -> Callable[[int], LeavesLater]:
            assert learning_rate is not None
            rows, largest = self._gradients.of_rows(0), [one.largest for one in self._outputs.rounded]
            return self._leaves.finish_outputs_ahead(
                state, order, (even, odd), rows, largest, limits.n_leaves, rules, learning_rate
            )

        goes_on = learning_rate is not None and not self._bag and self._gradients.are_stored
        grown = self._growth.grow_ahead(
            self._tree, table, rules, limits, finish if goes_on else None, meanwhile, None, ahead
        )
        if grown is None:
            return None
        nodes, left = grown.nodes, ahead.left
        return SharedAhead(nodes, lambda: sums_of_splits(nodes, root.sums, left), left, grown.leaves, grown.n_splits)

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

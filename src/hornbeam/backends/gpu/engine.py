"""The GPU engine: whole trees on the device; only node tables go up, and counts and splits come back.

What an operation costs (n nodes; see kernels/ for the kernels):

    operation          up                  launches                     down
    compute_gradients                      1 (none where they are computed at each use)
    choose_rows        a few bytes         place (GOSS: 25 more)        1 KB
    quantize                               measure, round (bag: take)   80 bytes
    build_histograms   table, 20 n bytes   zero, histogram
    subtract                               (in the next find_splits)
    find_splits        table, 40 n bytes   split, choose (sets: both)   40 n bytes
    partition          batch, 84 n bytes   partition                    8 n bytes
    expand             batch, 84 n bytes   partition, plan, zero,       84 n bytes
                                           histogram, split, choose
    grow_ahead         the root            select and all of expand,    the nodes, 112 bytes each;
                                           round after round, then      24 bytes a leaf, later
                                           leaf_numbers, assign,
                                           leaf_sums, values
                                           (in contexts: contexts       (32 bytes a node more)
                                           in each round)
    assign_leaves      table, 20 n bytes   assign
    leaf_sums                              clear, leaf_sums             16 bytes a leaf
    leaf_values_later                      clear, leaf_sums, values     24 bytes a leaf, later
    find_other_leaves  the tree            route_rows
    renew_leaves       table, 20 n bytes   residuals, 8 times count     8 bytes a leaf; none in grow_ahead
                                           and pick (weights: 1 more)
    add_leaf_values    8 bytes a leaf      add_values
    chosen_rows                            (bag: none)                  16 bytes a row (bag: 20)
    row_leaves                                                          2 bytes a row
    leaves_in          the tree            route                        2 bytes a row
    add_row_values     8 bytes a row and                                8 bytes a row and output
                       output
    add_tree           the tree            route
    evaluate           (labels, once)      loss, exact_sum (auc: keys,  32 bytes, also a rank
                                           24 of sort, 5; lists: 2 to 5;
                                           auc_mu: as auc for each pair)
    arrays             (labels, once)      what the functions do        1 byte, or a metric
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.replay import replay, replay_kernel
from hornbeam.backends.demand import PLAIN_DEMAND, Demand
from hornbeam.backends.gpu.array_exchange import CupyExchange
from hornbeam.backends.gpu.data.bundles import bundles_of
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.bag import DeviceBag
from hornbeam.backends.gpu.growth.growth import DeviceGrowth
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.growth.leaves import DeviceLeaves, numbering_variant, sums_variant
from hornbeam.backends.gpu.growth.memory import (
    SMALL_BUFFERS,
    fit_memory,
    fits,
    growth_bytes,
    later_buffers,
    limit_bytes,
    most_slots,
    slot_bytes,
    valid_layout,
    wants_columns,
)
from hornbeam.backends.gpu.growth.outputs import DeviceOutputs
from hornbeam.backends.gpu.growth.routing import ValidationSet, upload_scores, upload_tree
from hornbeam.backends.gpu.growth.split_search import SplitSearch
from hornbeam.backends.gpu.losses.gradients import DeviceGradients
from hornbeam.backends.gpu.losses.quantize import Rounded, round_gradients, rounding_variant
from hornbeam.backends.gpu.losses.row_gradients import RowGradients
from hornbeam.backends.gpu.metrics.metrics import DeviceMetrics
from hornbeam.backends.gpu.rows_of_leaves import RowsOfLeaves
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant
from hornbeam.backends.gpu.shared_trees import SharedTrees
from hornbeam.backends.gpu.workers.trees import WorkerTrees
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins, available_bytes
from hornbeam.backends.gpu.workspace.tree_kernels import GrowingTree, TreeKernels, TreeKind, TreeVariants
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.errors import DeviceMemoryError
from hornbeam.core.fixed_point import Quantization, alone
from hornbeam.core.host_memory import free_bytes
from hornbeam.data.binning import BinnedData
from hornbeam.data.columns import Column, StartScores
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import Objective
from hornbeam.trees.bagging import ROOT_DEPTH, Draw, Goss
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.records import (
    BinnedTree,
    ContextsAhead,
    ForestMean,
    GrownAhead,
    LeafRenewal,
    LeavesLater,
    Root,
    Segments,
)
from hornbeam.trees.replay import replay as plain_replay
from hornbeam.trees.splitting import NodeContext, SplitRules

REPLAYED_PLAINLY = 500_000
"""Nodes that a training replays in Python, at 0.2 us each, before it loads Numba, which takes a second."""


class GpuEngine(SharedTrees, RowsOfLeaves, WorkerTrees):
    """Training state on one device; see engine.Engine for what each operation does.

    The work is done by its parts, which share the buffers of one workspace.

    Parameters
    ----------
    runtime
        The device.
    binned
        The training set.
    min_data_in_leaf
        Rows are counted in histograms when more than one is asked for and hessians differ.
    demand
        What will be kept besides; memory is checked for it.
    limit_mb
        Megabytes of device memory that may be taken; 0 or less: all.
    bins_may_stay
        Whether bins that do not fit on the device may be in host memory.
    """

    rounds_are_costly = True
    nodes_are_costly = False
    host_device = "cpu"
    has_own_memory = True

    def __init__(
        self,
        runtime: Runtime,
        binned: BinnedData,
        min_data_in_leaf: int = 20,
        demand: Demand = PLAIN_DEMAND,
        limit_mb: float = -1.0,
        bins_may_stay: bool = False,
    ) -> None:
        self.n_rows = binned.n_rows
        self.device_name = runtime.device_name
        self.workspace = Workspace(runtime, binned.n_rows)
        self._runtime = runtime
        self._binned = binned
        bundles = bundles_of(binned) if demand.bundled else None
        self._most_stats = 2 if min_data_in_leaf <= 1 and not demand.on_workers else 3
        self._demand = demand
        self._most_slots = 0  # not decided
        self._valid: list[ValidationSet] = []
        self._n_outputs = self._output = self._n_replayed = 0
        self._kernels: dict[TreeKind, TreeKernels] = {}
        self._rounded: Rounded
        self._tree: GrowingTree
        self._last_ahead: GrowingTree | None = None  # the last tree, if it was grown ahead
        own = self.workspace
        own.limit_bytes = limit_bytes(runtime.facts, limit_mb)
        sets, layout = (binned, *demand.valid_sets), Layout.of(binned, bundles)
        available = available_bytes(own, sets)
        if bins_may_stay and not fits(layout, demand, self._most_stats, available):
            for each in sets:
                each.leave_device()
            available = available_bytes(own, sets)
        self._layout = fit_memory(layout, demand, self._most_stats, runtime.facts, available, bins_may_stay)
        own.limit_bytes = min(own.limit_bytes, available)
        self.slot_bytes = slot_bytes(self._layout, self._most_stats)
        runtime.compile_soon(self._first_files())
        try:
            self._bins = PlacedBins(own, "tiles", binned, bundles, self._layout)
            own.room("rows even", 4 * self.n_rows)
            own.room("rows odd", 4 * self.n_rows)
            self._gradients = DeviceGradients(own)
            self._bag = DeviceBag(own, self._bins)
            self._histograms = DeviceHistograms(own, self._layout, bundles)
            self._search = SplitSearch(own, self._bins, binned, self._histograms)
            self._outputs = DeviceOutputs(own, self._layout, self._histograms)
            self._growth = DeviceGrowth(own, self._bins, self._histograms, self._search)
            self._leaves = DeviceLeaves(own, self._bag)
            self._metrics = DeviceMetrics(own)
            self._metrics_fit = True
            bridge = runtime.arrays
            self.arrays = None if bridge is None else CupyExchange(bridge, own, self._gradients, self._scores_of)
            own.reserved = later_buffers(self._layout, demand)
        except BaseException:
            self.workspace.close()
            raise

    @property
    def host_bin_bytes(self) -> int:
        """Bytes of the bins that are in host memory."""
        return self._layout.tile_bytes if self._layout.on_host else 0

    def _first_files(self) -> Iterator[Variant]:
        """Return the files that the first trees will need, in the order of that.

        Whether the rows of bins are counted apart from hessians turns out with the gradients: the first trees of a loss
        often have hessians that are all the same.
        """
        own, demand = self.workspace, self._demand
        wide = demand.high_precision
        options = RowGradients.options_of(0 if demand.stores_gradients else demand.formula_code, demand.label_bytes)
        kinds = [TreeKind(wide, stats, demand.n_categorical > 0, True) for stats in (2, self._most_stats)]
        yield rounding_variant(own, wide, options)
        if demand.on_workers:
            yield from self._files_of_rows(kinds)
            return
        yield from TreeVariants.of(own.facts, self._layout, kinds[0])
        yield sums_variant(own, demand.n_leaves, options)
        yield numbering_variant(own, demand.in_context)
        yield from TreeVariants.of(own.facts, self._layout, kinds[1])

    # --- scores and gradients ---------------------------------------------------------------------------------------

    def set_scores(self, scores: NDArray[np.float64] | StartScores, valid: int = -1) -> None:
        """Set the raw scores."""
        if valid >= 0:
            self._valid[valid].write_scores(scores)
            return
        self._n_outputs = len(scores)
        upload_scores(self.workspace, "scores", scores)

    def scores(self) -> NDArray[np.float64]:
        """Return the raw scores."""
        out = np.empty((self._n_outputs, self.n_rows))
        self._runtime.download(self.workspace.buffer("scores"), out)
        return out

    def compute_gradients(self, objective: Objective, label: Column, weight: Column | None) -> None:
        """Compute gradients and hessians of all outputs from the scores."""
        self._gradients.compute(objective, self._n_outputs, label, weight)
        if self._demand.keeps_gradients:
            self._gradients.store()

    def read_gradients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return copies of gradients and hessians."""
        self._gradients.store()
        found = np.empty((2, self._n_outputs, self.n_rows))
        self._runtime.download(self.workspace.buffer("gradient"), found[0])
        self._runtime.download(self.workspace.buffer("hessian"), found[1])
        return found[0], found[1]

    def set_gradients(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> None:
        """Take gradients from elsewhere."""
        self._gradients.set(gradient, hessian)

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose the rows of the trees to come."""
        if isinstance(draw, Goss):
            self._gradients.store()
        self._bag.choose(draw, self._n_outputs)
        return self._bag.n_in_bag or self.n_rows

    def _tree_rows(self) -> RowGradients:
        """Return the gradients of the rows of the tree."""
        buffer = self.workspace.buffer
        if self._bag:
            return RowGradients.stored(buffer("bag gradient"), buffer("bag hessian"), 0, self._bag.n_in_bag)
        return self._gradients.of_rows(self._output)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the trees to come."""
        self._search.choose_features(features)

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round one output's gradients into the records of the root."""
        self._take_rows(output)
        self._rounded = round_gradients(self.workspace, self._tree_rows(), high_precision, self._sum_root_ahead)
        return self._rounded.quantization

    def _take_rows(self, output: int) -> None:
        """Take the gradients of one output, those of a bag in its order."""
        self._output = output
        if self._bag:
            self._gradients.store()
            self._bag.take_gradients(output * self.n_rows)

    def _sum_root_ahead(self, wide: bool) -> None:
        """Give the device work while the host waits: most trees are made like the one before."""
        last = self._last_ahead
        if last is not None and last.quantization.wide == wide:
            self._growth.sum_root_ahead(last, self._tree_rows().n_rows, ROOT_DEPTH if self._bag else 0)

    # --- growing a tree ---------------------------------------------------------------------------------------------

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree: the records are in row order already, and the rows of depth 0 are numbered as they lie."""
        found, categories = self._rounded, self._search.categories
        how = found.quantization
        stats = 2 if found.hessians_count else self._most_stats
        given = self._fit_slots(n_slots)
        self._begin(how, how.wide, stats, found.hessians_count, given)
        self.workspace.upload("units", np.array([how.gradient_unit, how.hessian_unit]))
        if categories is not None:
            categories.begin_tree()
        depth = ROOT_DEPTH if self._bag else 0
        n_rows = self._tree_rows().n_rows
        return Root(n_rows, found.gradient, found.hessian, depth, given if given < n_slots else None)

    def _begin(self, how: Quantization, wide: bool, stats: int, hessians_count: bool, n_slots: int) -> None:
        """Find the kernels of a tree, and make room for its histograms."""
        kind = TreeKind(wide, stats, self._search.categories is not None, self._bins.has_columns)
        if kind not in self._kernels:
            self._kernels[kind] = TreeKernels.compile(self._runtime, self._layout, kind)
        self._tree = GrowingTree(self._kernels[kind], stats, n_slots, how, hessians_count)
        self._histograms.begin_tree(self._tree)

    def _fit_slots(self, n_slots: int) -> int:
        """Return how many histograms there is room for, up to n_slots; the first time, decide about columns too.

        By then everything else is there, but for the tables of a tree and for what is reserved.
        """
        layout, own = self._layout, self.workspace
        if self._most_slots == 0:
            spare = own.spare_bytes() - growth_bytes(layout, self._demand)
            wanted = n_slots * self.slot_bytes
            if 0 < layout.column_bytes <= min(spare - wanted, own.facts.max_buffer_bytes):
                self._bins.make_columns()
                spare -= layout.column_bytes
            elif wants_columns(layout, free_bytes()):
                self._bins.make_columns(on_host=True)
            self._most_slots = most_slots(layout, self._most_stats, spare, own.facts)
            own.reserved["histograms"] = min(n_slots, self._most_slots) * self.slot_bytes  # metrics leave them alone
        return min(n_slots, self._most_slots)

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows into their slots."""
        self._histograms.build(self._tree, nodes, slots)

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Note the pairs: find_splits subtracts."""
        self._histograms.subtract_later(self._tree, parent_slots, child_slots)

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best split of each node."""
        return self._search.find(self._tree, nodes, slots, gradient, hessian, rules, context)

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets of the growing tree."""
        assert self._search.categories is not None
        return self._search.categories.read(numbers)

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places; returns how many went left."""
        return self._growth.divide(self._tree, nodes, splits)

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a whole round with one copy to the device and one back."""
        return self._growth.expand(self._tree, batch, rules, max_depth)

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
        renewal: LeafRenewal | None = None,
    ) -> GrownAhead | None:
        """Run round after round without the host, and go on to the leaves; it looks at the result once."""
        if contexts is not None and contexts.rules.in_turn:
            return None
        even, odd, *_ = self._histograms.row_buffers()

        def finish(state: Buffer, order: Buffer) -> Callable[[int], LeavesLater]:
            assert learning_rate is not None
            return self._leaves.finish_ahead(
                state, order, (even, odd), self._tree_rows(), self._rounded.largest, limits.n_leaves, rules,
                learning_rate, renewal,
            )  # fmt: skip

        ahead = self._growth.grow_ahead(
            self._tree, root, rules, limits, None if learning_rate is None else finish, meanwhile, contexts
        )
        self._last_ahead = None if ahead is None else self._tree
        return ahead

    def grow_outputs(self, rules: SplitRules, limits: GrowthLimits, n_slots: int, learning_rate: float) -> tuple[()]:
        """Leave all to the grower, which waits for no tree."""
        return ()

    # --- leaves -----------------------------------------------------------------------------------------------------

    def replay(self, nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Replay the growth: by the compiled kernel if it is at hand, or if it is worth to load a compiler for it."""
        self._n_replayed += len(nodes)
        quick = self._n_replayed > REPLAYED_PLAINLY or replay_kernel.is_at_hand
        return replay(nodes, limits) if quick else plain_replay(nodes, limits)

    def assign_leaves(self, nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Write each row's leaf number."""
        even, odd, *_ = self._histograms.row_buffers()
        self._leaves.assign((even, odd), nodes, leaves)

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route the rows that were not chosen."""
        if self._bag:
            self._bag.find_other_leaves(upload_tree(self.workspace, tree, self._binned), len(tree.feature))

    def leaf_sums(self, n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients and hessians per leaf in wide fixed point."""
        return self._leaves.sums(self._tree_rows(), self._rounded.largest, n_leaves)

    def renew_leaves(
        self,
        output: int,
        percentile: float,
        label: Column,
        weight: Column | None,
        n_leaves: int,
        logcosh: bool = False,
    ) -> NDArray[np.float64]:
        """Find the percentile, or the minimum, of each leaf's residuals."""
        return self._leaves.renew(LeafRenewal(output, percentile, label, weight, logcosh), n_leaves)

    def leaf_values_later(self, n_leaves: int, rules: SplitRules, learning_rate: float) -> LeavesLater:
        """Compute the leaves' values on the device."""
        return self._leaves.values_later(self._tree_rows(), self._rounded.largest, n_leaves, rules, learning_rate)

    def add_leaf_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Add each row's leaf value to its score."""
        self._leaves.add_values(output, leaf_value)

    # --- validation sets --------------------------------------------------------------------------------------------

    def add_valid(self, binned: BinnedData, scores: NDArray[np.float64] | StartScores) -> int:
        """Keep a validation set on the device."""
        layout = valid_layout(binned, self._layout.on_host)
        self._valid.append(ValidationSet.upload(self.workspace, len(self._valid), binned, scores, layout))
        return len(self._valid) - 1

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Route the rows of a validation set, or of the training set, through a tree and add its values."""
        nodes = upload_tree(self.workspace, tree, self._binned)
        values = self.workspace.upload("values", np.ascontiguousarray(tree.leaf_value, np.float64))
        if valid < 0:
            self._bag.add_tree(nodes, tree, values, output * self.n_rows)
        else:
            self._valid[valid].add_tree(nodes, len(tree.feature), values, output)

    def valid_scores(self, valid: int) -> NDArray[np.float64]:
        """Return the scores of a validation set."""
        return self._valid[valid].read_scores()

    def evaluate(
        self, metric: Metric, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None = None
    ) -> list[tuple[str, float]] | None:
        """Evaluate a metric on the device, where there is a kernel for it, and memory: the host has the same bits."""
        if not self._metrics_fit:
            return None
        try:
            with self.workspace.leaving(SMALL_BUFFERS):  # small buffers of later trees
                return self._metrics.evaluate(metric, objective, dataset, valid, self._scores_of(valid), forest)
        except DeviceMemoryError:
            self._metrics_fit = False
            return None

    def _scores_of(self, valid: int) -> tuple[Buffer, int]:
        """Return the scores of a validation set, or of the training set, and the number of outputs."""
        if valid >= 0:
            return self._valid[valid].scores, self._valid[valid].n_outputs
        return self.workspace.buffer("scores"), self._n_outputs

    # --- for tests, and the end -------------------------------------------------------------------------------------

    def read_histogram(self, slot: int) -> NDArray[np.int64]:
        """Return the histogram in a slot as the reference engine has it, int64 (n_total_bins, 2)."""
        return self._histograms.read(self._tree, slot, self._binned.n_value_bins)

    def gather(self, figures: NDArray[Any]) -> NDArray[Any]:
        """Return them: this engine has all rows."""
        return alone(figures)

    def close(self) -> None:
        """Free everything on the device."""
        self._valid = []
        self._growth.close()
        self._gradients.close()
        self._metrics.close()
        if self.arrays is not None:
            self.arrays.close()
            self.arrays = None  # it knows this engine: bins would wait for garbage collection
        self.workspace.close()

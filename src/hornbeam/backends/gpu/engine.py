"""The GPU engine: whole trees on the device; only node tables go up, and counts and splits come back.

What an operation costs (n nodes; see kernels/ for the kernels):

    operation          up                  launches                     down
    compute_gradients                      1
    choose_rows        a few bytes         place (GOSS: 25 more)        1 KB
    quantize                               measure, round (bag: take)   80 bytes
    build_histograms   table, 20 n bytes   zero, histogram
    subtract                               (in the next find_splits)
    find_splits        table, 40 n bytes   split, choose                40 n bytes
    partition          batch, 84 n bytes   partition                    8 n bytes
    expand             batch, 84 n bytes   partition, plan, zero,       84 n bytes
                                           histogram, split, choose
    grow_ahead         the root            select and all of expand,    the nodes, 112 bytes each
                                           round after round
    assign_leaves      table, 20 n bytes   assign
    leaf_sums                              clear, leaf_sums             16 bytes a leaf
    find_other_leaves  the tree            route_rows
    renew_leaves                                                        10 bytes a row
    add_leaf_values    8 bytes a leaf      add_values
    add_tree           the tree            route
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.bag import DeviceBag, Memory
from hornbeam.backends.gpu.binning import DeviceBins
from hornbeam.backends.gpu.categorical import DeviceCategories
from hornbeam.backends.gpu.layout import TILE_BYTES, Layout, check_buffer, check_memory
from hornbeam.backends.gpu.ranking import DeviceRanking
from hornbeam.backends.gpu.runtime import Buffer, Kernel, Runtime, Variant, u32, u64
from hornbeam.backends.gpu.tables import chunk_rows, node_table
from hornbeam.backends.gpu.tree_kernels import CAPACITY, TreeKernels, general_variant, plain_variant
from hornbeam.backends.protocol import BinnedTree, Root, Segments
from hornbeam.backends.steps import expand_in_steps
from hornbeam.bagging import ROOT_DEPTH, Draw, Goss
from hornbeam.binning import BinnedData
from hornbeam.dtypes import EXPANSION, NODE, SPLIT
from hornbeam.errors import DeviceError
from hornbeam.frontier import GrowthLimits
from hornbeam.objectives import (
    BinaryObjective,
    MulticlassObjective,
    OneVsAllObjective,
    PointwiseObjective,
    RankingObjective,
    RegressionObjective,
)
from hornbeam.objectives.base import Objective
from hornbeam.percentiles import rows_in_bag
from hornbeam.quantize import (
    COARSE_SPREAD,
    NARROW_GRADIENT_BITS,
    NARROW_HESSIAN_BITS,
    WIDE_BITS,
    Quantization,
    exact_exponent,
    is_coarse,
    scale_exponent,
)
from hornbeam.splitting import FeatureRules, NodeContext, SplitRules

LEAF_CLASSES = (64, 256, 1024)
"""Most leaves whose sums are added in local memory, 24 bytes each; with more leaves, in global memory."""

LARGEST_AHEAD = CAPACITY // 4
"""Most leaves of a tree that the device grows ahead of the host: a round may double the frontier."""

FIRST_ROUNDS_AHEAD, MOST_ROUNDS_AHEAD = 16, 80
"""Rounds that are launched before the host looks whether the tree is finished: it learns from the trees before."""

SPARE_ROUNDS, MORE_ROUNDS = 2, 8
"""Rounds to launch beyond what the last tree took, and when they were not enough."""

LARGEST_SHARE, SMALLEST_SHARE = 2, 8
"""One in this many candidates is expanded in a round, see kernels/select.cl."""

LONGER_THAN_DEEP, IN_VAIN = 3, 1.15
"""Rounds beyond the depth of a tree, and expanded nodes for each split, that make the share change."""

SEARCHING_GROUPS = 16
"""Groups of the split search a compute unit: what it can run at once, several times over."""

STATE_BYTES = 64
"""Head of the device's node table."""

SMALL_BUFFER = 1 << 20
"""Buffers below this many bytes are made larger than asked, so that they seldom have to be made anew."""

LAYOUT_BLOCK = 64 << 20
"""Bytes of bins that are uploaded at a time."""

REPORT = np.dtype([("largest", np.float64, 3), ("sums", np.int64, 5), ("extremes", np.int32, 4)])
"""What quantize.cl reports, its report_t."""


@dataclass(slots=True)
class ValidSet:
    """A validation set on the device."""

    n_rows: int
    n_outputs: int
    stride: int
    bin_bytes: int
    bins: Buffer
    scores: Buffer


class GpuEngine:
    """Training state on one device; see protocol.Engine for what each operation does.

    Parameters
    ----------
    runtime
        The device.
    binned
        The training set.
    min_data_in_leaf
        Rows are counted in histograms when more than one is asked for and hessians differ.
    """

    rounds_are_costly = True
    nodes_are_costly = False

    def __init__(self, runtime: Runtime, binned: BinnedData, min_data_in_leaf: int = 20) -> None:
        self.n_rows = binned.n_rows
        self._runtime = runtime
        self._facts = runtime.facts
        self._binned = binned
        self._layout = Layout.of(binned)
        self._min_data = min_data_in_leaf
        check_memory(self._layout, self._facts)
        self._held: dict[str, tuple[Buffer, int]] = {}
        self._borrowed: set[str] = set()  # what somebody else frees
        self._valid: list[ValidSet] = []
        self._uploaded: dict[str, Any] = {}
        self._pending: list[tuple[int, int]] = []  # subtractions that find_splits will do on the way
        self._n_outputs = 0
        self._output = 0
        self._stats = 2
        self._n_slots = 0
        self._rounds_ahead = FIRST_ROUNDS_AHEAD
        self._feature_rules: FeatureRules | None = None  # what is on the device
        self._share = LARGEST_SHARE
        self._n_allocations = 0
        self._round: tuple[Any, Callable[[], None]] | None = None  # a round to be repeated, and what it depends on
        self._ranking: DeviceRanking | None = None
        self._kernels_of: tuple[bool, int] | None = None
        self._plain = self._variant("leaves.cl")
        self._groups = self._facts.compute_units * 8  # of kernels that stride over the rows
        memory = Memory(
            self.n_rows, self._room, self._buffer, self._upload, self._upload_once, self._launch_rows
        )  # fmt: skip
        self._categories: DeviceCategories | None = None
        self._n_numeric = binned.n_numeric
        self._bag = DeviceBag(runtime, self._variant("bag.cl", bin_bytes=self._layout.bin_bytes), memory)
        try:
            self._upload_bins()
            self._described = binned.n_value_bins.astype(np.uint32) * 2 + binned.has_missing.astype(np.uint32)
            self._upload("features", self._described)
            self._upload("tree features", self._described)
            if binned.n_numeric < binned.n_used:
                self._categories = DeviceCategories(runtime, memory, self._layout, binned)
            self._room("rows even", 4 * self.n_rows)
            self._room("rows odd", 4 * self.n_rows)
            self._room("leaf", 2 * self.n_rows)
            self._room("partial", 24 * self._groups)
            self._room("report", REPORT.itemsize)
        except BaseException:
            self.close()
            raise

    # --- memory -----------------------------------------------------------------------------------------------------

    def _room(self, name: str, n_bytes: int) -> Buffer:
        """Return the buffer of this name, made anew if it is too small; small ones grow by doubling."""
        held = self._held.get(name)
        if held is not None and held[1] >= n_bytes:
            return held[0]
        if n_bytes < SMALL_BUFFER:
            n_bytes = 1 << max(12, n_bytes.bit_length())
        if held is not None:
            del self._held[name]
            self._runtime.free(held[0])
        check_buffer(n_bytes, name, self._facts)
        buffer = self._runtime.allocate(n_bytes)
        self._held[name] = (buffer, n_bytes)
        self._n_allocations += 1
        return buffer

    def _buffer(self, name: str) -> Buffer:
        return self._held[name][0]

    def _upload(self, name: str, array: NDArray[Any]) -> Buffer:
        """Copy an array into the buffer of this name."""
        buffer = self._room(name, array.nbytes)
        self._runtime.upload(buffer, np.ascontiguousarray(array))
        return buffer

    def _upload_once(self, name: str, array: NDArray[Any] | None) -> Buffer:
        """Copy labels, weights or queries, unless they are there already."""
        if array is None:
            return self._room(name, 8)
        if self._uploaded.get(name) is not array:
            self._upload(name, np.ascontiguousarray(array))
            self._uploaded[name] = array
        return self._buffer(name)

    def _shared_bins(self, binned: BinnedData) -> DeviceBins | None:
        """Return the bins of a data set that are on this device already."""
        found = binned.on_device
        return found if found is not None and found.runtime is self._runtime else None

    def _upload_bins(self) -> None:
        """Bring the bins into both layouts, a block of rows at a time."""
        layout, shared = self._layout, self._shared_bins(self._binned)
        columns = self._room("columns", layout.n_used * self.n_rows * layout.bin_bytes)
        if shared is not None and layout.n_used > 0:
            self._held["tiles"] = (shared.tiles, shared.n_bytes)
            self._borrowed.add("tiles")
            shared.untile(columns, 1, self.n_rows)
            return
        tiles = self._room("tiles", layout.n_tiles * self.n_rows * TILE_BYTES)
        if layout.n_used == 0:
            return
        stride = self._binned.stride
        step = max(1, LAYOUT_BLOCK // (stride * layout.bin_bytes))
        block = self._runtime.allocate(min(step, self.n_rows) * stride * layout.bin_bytes)
        variant = self._variant("layout.cl", bin_bytes=layout.bin_bytes)
        tile_kernel = self._runtime.kernel("tile_kernel", variant)
        column_kernel = self._runtime.kernel("column_kernel", variant)
        for first in range(0, self.n_rows, step):
            part = self._binned.block(first, min(first + step, self.n_rows))
            self._runtime.upload(block, part)
            where = (u32(first), u32(len(part)), u32(self.n_rows))
            used = (u32(stride), u32(layout.n_used))
            self._runtime.launch(tile_kernel, self._groups, block, *used, u32(layout.n_tiles), *where, tiles)
            self._runtime.launch(column_kernel, self._groups, block, *used, *where, columns)
        self._runtime.synchronize()
        self._runtime.free(block)

    def _variant(self, source: str, **options: Any) -> Variant:
        return plain_variant(self._facts, source, **options)

    def _launch_rows(self, kernel: Kernel, *arguments: Any) -> None:
        """Launch a kernel that strides over all rows."""
        groups = min(self._groups, max(1, -(-self.n_rows // kernel.threads)))
        self._runtime.launch(kernel, groups, *arguments)

    # --- scores and gradients ---------------------------------------------------------------------------------------

    def set_scores(self, scores: NDArray[np.float64], valid: int = -1) -> None:
        """Set the raw scores."""
        if valid >= 0:
            self._runtime.upload(self._valid[valid].scores, np.array(scores, np.float64, order="C"))
            return
        self._n_outputs = len(scores)
        self._upload("scores", np.array(scores, np.float64, order="C"))

    def scores(self) -> NDArray[np.float64]:
        """Return the raw scores."""
        out = np.empty((self._n_outputs, self.n_rows))
        self._runtime.download(self._buffer("scores"), out)
        return out

    def compute_gradients(
        self, objective: Objective, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> None:
        """Compute gradients and hessians of all outputs from the scores."""
        size = 8 * self._n_outputs * self.n_rows
        out = (self._room("gradient", size), self._room("hessian", size))
        given = (
            self._buffer("scores"),
            self._upload_once("label", label),
            self._upload_once("weight", weight),
            u32(0 if weight is None else weight.ndim),
            u32(self.n_rows),
        )
        if isinstance(objective, PointwiseObjective):
            kernel = self._runtime.kernel("pointwise_kernel", self._variant("gradients.cl", objective=objective.code))
            self._launch_rows(kernel, *given, *map(np.float64, objective.constants), *out)
            return
        variant = self._variant("gradients.cl")
        if isinstance(objective, RegressionObjective):
            self._launch_rows(self._runtime.kernel("regression_kernel", variant), *given, *out)
        elif isinstance(objective, BinaryObjective):
            kernel = self._runtime.kernel("binary_kernel", variant)
            self._launch_rows(kernel, *given, np.float64(objective.sigmoid), *out)
        elif isinstance(objective, MulticlassObjective):
            kernel = self._runtime.kernel("multiclass_kernel", variant)
            factor = np.float64(objective.hessian_factor)
            self._launch_rows(kernel, *given, u32(self._n_outputs), factor, *out)
        elif isinstance(objective, OneVsAllObjective):
            kernel = self._runtime.kernel("one_vs_all_kernel", variant)
            self._launch_rows(kernel, *given, u32(self._n_outputs), np.float64(objective.sigmoid), *out)
        elif isinstance(objective, RankingObjective):
            assert objective.queries is not None
            if self._ranking is None or self._ranking.queries is not objective.queries:
                self._ranking = DeviceRanking(self._runtime, self._room, self._upload, objective.queries)
            self._ranking.compute(objective, given[0], *given[2:4], *out)
        else:
            raise DeviceError(f"objective {objective.name!r} has no GPU kernel; train on device='cpu'")

    def read_gradients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gradients and hessians, each float64 (n_outputs, n_rows), for tests."""
        found = np.empty((2, self._n_outputs, self.n_rows))
        self._runtime.download(self._buffer("gradient"), found[0])
        self._runtime.download(self._buffer("hessian"), found[1])
        return found[0], found[1]

    def set_gradients(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> None:
        """Take gradients from elsewhere."""
        self._upload("gradient", np.array(gradient, np.float64, order="C"))
        self._upload("hessian", np.array(hessian, np.float64, order="C"))

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose the rows of the trees to come."""
        self._bag.choose(draw, self._n_outputs)
        return self._bag.n_in_bag or self.n_rows

    def _tree_rows(self) -> tuple[Buffer, Buffer, int, int]:
        """Return gradients and hessians of the rows of the tree, where its output begins, and the number of rows."""
        if self._bag:
            return self._buffer("bag gradient"), self._buffer("bag hessian"), 0, self._bag.n_in_bag
        return self._buffer("gradient"), self._buffer("hessian"), self._output * self.n_rows, self.n_rows

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Describe the other features to the split search as ones without bins."""
        described = np.zeros_like(self._described) if features is not None else self._described
        if features is not None:
            described[features] = self._described[features]
        self._upload("tree features", described)

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round one output's gradients into the records of the root."""
        self._output = output
        if self._bag:
            self._bag.take_gradients(output * self.n_rows)
        seen = self._round_gradients(high_precision)
        if not high_precision:
            constant = self._is_constant(seen)
            h_sum, abs_sum, nonzero_g, nonzero_h = seen["sums"][1:].tolist()
            low, high = seen["extremes"][:2].tolist()
            coarse = is_coarse(abs_sum, nonzero_g) or 0 < high - low < COARSE_SPREAD
            if coarse or (not constant and is_coarse(h_sum, nonzero_h)):
                seen = self._round_gradients(wide=True)
        n_rows, depth = self._tree_rows()[3], ROOT_DEPTH if self._bag else 0
        self._root = Root(n_rows, int(seen["sums"][0]), int(seen["sums"][1]), depth)
        how = self._quantization
        has_counts = how.hessian_min == how.hessian_max == 1  # every hessian is 1: its sums count rows
        self._stats = 2 if has_counts or self._min_data <= 1 else 3
        self._hessians_count = has_counts
        return how

    @staticmethod
    def _is_constant(seen: np.void) -> bool:
        return bool(seen["largest"][1] > 0.0 and seen["largest"][1] == seen["largest"][2])

    def _round_gradients(self, wide: bool) -> np.void:
        """Measure and round on the device; returns REPORT ()."""
        runtime = self._runtime
        variant = self._variant("quantize.cl", wide=wide)
        size = (8 if wide else 4) * self.n_rows
        even = self._room("records even", size)
        self._room("records odd", size)
        gradient, hessian, offset, n_rows = self._tree_rows()
        source = (gradient, hessian, u64(offset), u32(n_rows))
        groups = min(self._groups, max(1, -(-n_rows // variant.threads)))
        partial, report = self._buffer("partial"), self._buffer("report")
        runtime.launch(runtime.kernel("measure_kernel", variant), groups, *source, partial, report)
        runtime.launch(runtime.kernel("round_kernel", variant), groups, *source, partial, u32(groups), even, report)
        found = np.empty(1, REPORT)
        runtime.download(report, found)
        seen: np.void = found[0]
        self._wide = wide
        self._largest = seen["largest"][:2].tolist()
        bits = (WIDE_BITS, WIDE_BITS) if wide else (NARROW_GRADIENT_BITS, NARROW_HESSIAN_BITS)
        g_exponent, h_exponent = (scale_exponent(*pair) for pair in zip(self._largest, bits, strict=True))
        hessian_unit = self._largest[1] if self._is_constant(seen) else 2.0**-h_exponent
        low, high = seen["extremes"][2:].tolist()
        self._quantization = Quantization(2.0**-g_exponent, hessian_unit, wide, low, high)
        return seen

    # --- growing a tree ---------------------------------------------------------------------------------------------

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree: the records are in row order already, and the rows of depth 0 are numbered as they lie."""
        self._pending = []
        if self._kernels_of != (self._wide, self._stats):
            kinds = self._wide, self._stats
            categorical = self._categories is not None
            self._kernels = TreeKernels.compile(self._runtime, self._layout, *kinds, categorical)
            self._kernels_of = kinds
        self._n_slots = n_slots
        self._upload("units", np.array([self._quantization.gradient_unit, self._quantization.hessian_unit]))
        if self._categories is not None:
            self._categories.begin_tree()
        self._room("histograms", 8 * n_slots * self._layout.slot_size(self._stats))
        return self._root

    def _row_buffers(self) -> tuple[Buffer, Buffer, Buffer, Buffer]:
        return (
            self._buffer("rows even"),
            self._buffer("rows odd"),
            self._buffer("records even"),
            self._buffer("records odd"),
        )

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum the nodes' rows into their slots."""
        self._subtract_pending()
        if self._layout.n_used == 0 or len(slots) == 0:
            return
        chunk = chunk_rows(int((nodes.end - nodes.begin).sum()), self._kernels.groups_a_pass)
        table = node_table(nodes, chunk, slots)
        table[1, -1] = chunk
        self._launch_histograms(self._upload("table", table), self._count(len(slots)), len(slots))

    def _count(self, n_nodes: int) -> Buffer:
        """Tell the kernels how many nodes there are; in `grow_ahead` the device knows it by itself."""
        return self._upload("count", np.array([n_nodes], np.uint32))

    def _launch_histograms(self, table: Buffer, count: Buffer, most_nodes: int) -> None:
        """Clear the slots and sum into them, as the table on the device says; count is at most most_nodes."""
        runtime, kernels = self._runtime, self._kernels
        histograms, size = self._buffer("histograms"), self._layout.slot_size(self._stats)
        clear_groups = min(self._groups, max(1, most_nodes * size // (4 * kernels.zero.threads)))
        runtime.launch(kernels.zero, clear_groups, table, count, u32(kernels.groups_a_pass), u32(size), histograms)
        runtime.launch(
            kernels.histogram,
            kernels.groups_a_pass * kernels.n_passes,
            self._buffer("tiles"),
            *self._row_buffers(),
            table,
            count,
            u32(kernels.groups_a_pass),
            u32(self.n_rows),
            u32(self._layout.n_tiles),
            histograms,
        )

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Note the pairs: find_splits subtracts while it reads the parents' histograms anyway."""
        self._subtract_pending()
        self._pending = list(zip(parent_slots.tolist(), child_slots.tolist(), strict=True))

    def _subtract_pending(self, but: frozenset[int] = frozenset()) -> None:
        """Subtract now what find_splits will not, because its slot is not among `but`."""
        pairs = [pair for pair in self._pending if pair[0] not in but]
        self._pending = [pair for pair in self._pending if pair[0] in but]
        if not pairs or self._layout.n_used == 0:
            return
        table = self._upload("pairs", np.array(pairs, np.int32))
        size = u32(self._layout.slot_size(self._stats))
        self._runtime.launch(
            self._kernels.subtract, self._groups, self._buffer("histograms"), table, u32(len(pairs)), size
        )

    def _check_rules(self, rules: SplitRules) -> None:
        """Whether rows are counted is decided when a tree begins, before its rules are seen."""
        needed = rules.min_data_in_leaf > 1 or rules.path_smooth > 0.0
        if needed and self._min_data <= 1 and not self._hessians_count:
            raise DeviceError("this engine does not count rows; make it with the min_data_in_leaf of the rules")

    def _min_rows(self, rules: SplitRules) -> int:
        """Return the fewest rows; without counts the hessians stand in for them: a positive sum is a row or more."""
        return rules.min_data_in_leaf if self._stats == 3 or self._hessians_count else 1

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
        best = np.zeros(len(slots), SPLIT)
        if self._layout.n_used == 0 or len(slots) == 0:
            best["gain"], best["feature"], best["bin"] = -np.inf, -1, -1
            return best
        self._check_rules(rules)
        if context is not None:
            self._subtract_pending()
            table = np.stack([gradient, hessian, nodes.end - nodes.begin, slots.astype(np.int64)], axis=1)
            found = self._launch_general(table, rules, context)
            if self._categories is not None:
                around = self._buffer("context"), self._buffer("mask"), context.mask.shape[1]
                self._improve(
                    self._buffer("table"), 4, len(slots), rules, found, (*around, self._buffer("contribution"))
                )
            self._runtime.download(found, best)
            return best
        # the search for sets, which comes second, wants all histograms subtracted
        self._subtract_pending(but=frozenset(slots.tolist() if self._categories is None else ()))
        sibling = dict(self._pending)
        self._pending = []
        table = np.empty((len(slots), 5), np.int64)
        table[:, 0], table[:, 1], table[:, 2], table[:, 3] = gradient, hessian, nodes.end - nodes.begin, slots
        table[:, 4] = [sibling.get(slot, -1) for slot in slots.tolist()]
        found = self._room("best", SPLIT.itemsize * len(slots))
        on_device = self._upload("table", table)
        self._launch_search(on_device, self._count(len(slots)), 1, len(slots), rules, found)
        if self._categories is not None:
            self._improve(on_device, 5, len(slots), rules, found, None)
        self._runtime.download(found, best)
        return best

    def _improve(
        self,
        table: Buffer,
        n_columns: int,
        n_nodes: int,
        rules: SplitRules,
        best: Buffer,
        context: tuple[Buffer, Buffer, int, Buffer] | None,
    ) -> None:
        """Search the categorical features of nodes that have been searched otherwise; see DeviceCategories.improve."""
        own = self._categories
        assert own is not None
        own.improve(
            table, n_columns, self._count(n_nodes), 1, n_nodes, rules, self._quantization, self._stats,
            self._min_rows(rules), context, own.reserve(n_nodes), best,
        )  # fmt: skip

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets of the growing tree."""
        assert self._categories is not None
        return self._categories.read(numbers)

    def _launch_search(
        self, table: Buffer, count: Buffer, children: int, most_nodes: int, rules: SplitRules, best: Buffer
    ) -> None:
        """Search the nodes of a table on the device, count * children of them and at most most_nodes.

        best gets SPLIT (n_nodes,) from its beginning on.
        """
        layout, runtime = self._layout, self._runtime
        n_pieces = self._kernels.n_pieces
        found = self._room("splits", SPLIT.itemsize * most_nodes * n_pieces)
        runtime.launch(
            self._kernels.split,
            min(most_nodes * n_pieces, SEARCHING_GROUPS * self._facts.compute_units),
            self._buffer("histograms"),
            table,
            count,
            u32(children),
            self._buffer("tree features"),
            u32(self._n_numeric),
            u32(layout.n_tiles),
            self._buffer("units"),
            np.float64(rules.lambda_l1),
            np.float64(rules.lambda_l2),
            np.float64(rules.max_delta_step),
            np.float64(rules.min_gain_to_split),
            np.float64(rules.min_sum_hessian_in_leaf),
            np.int64(self._min_rows(rules)),
            found,
        )
        runtime.launch(self._kernels.choose, most_nodes, found, count, u32(children), u32(n_pieces), best)

    def _launch_general(self, table: NDArray[np.int64], rules: SplitRules, context: NodeContext) -> Buffer:
        """Search nodes with a context, as kernels/split_general.cl says; returns where SPLIT (n_nodes,) will be."""
        layout, runtime, n_nodes = self._layout, self._runtime, len(table)
        searching = general_variant(self._facts, layout, self._stats)
        floats = (context.lower, context.upper, context.parent_output, context.score, context.monotone_factor)
        around = np.stack([*(values.view(np.int64) for values in floats), context.key.view(np.int64)], axis=1)
        features = context.features
        if self._feature_rules is not features:
            self._feature_rules = features
            self._upload("signs", features.sign.astype(np.int32))
            self._upload("contribution", features.contribution)
        several = layout.n_tiles > 1
        best = self._room("best", SPLIT.itemsize * n_nodes)
        found = self._room("splits", SPLIT.itemsize * n_nodes * layout.n_tiles) if several else best
        runtime.launch(
            runtime.kernel("split_general_kernel", searching),
            n_nodes * layout.n_tiles,
            self._buffer("histograms"),
            self._upload("table", table),
            self._upload("context", around),
            self._upload("mask", context.mask),
            u32(context.mask.shape[1]),
            self._buffer("tree features"),
            self._buffer("signs"),
            self._buffer("contribution"),
            u32(self._n_numeric),
            u32(layout.n_tiles),
            np.float64(self._quantization.gradient_unit),
            np.float64(self._quantization.hessian_unit),
            np.float64(rules.lambda_l1),
            np.float64(rules.lambda_l2),
            np.float64(rules.max_delta_step),
            np.float64(rules.min_gain_to_split),
            np.float64(rules.min_sum_hessian_in_leaf),
            np.int64(self._min_rows(rules)),
            np.float64(rules.path_smooth),
            u32(rules.monotone),
            u32(rules.extra_trees),
            found,
        )
        if several:
            runtime.launch(
                self._kernels.choose, n_nodes, found, self._count(n_nodes), u32(1), u32(layout.n_tiles), best
            )
        return best

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move rows to the children's places; returns how many went left."""
        batch = np.zeros(len(splits), EXPANSION)
        batch["begin"], batch["end"], batch["depth"] = nodes.begin, nodes.end, nodes.depth
        for name in ("feature", "bin", "missing_left"):
            batch[name] = splits[name]
        on_device = self._launch_partition(batch)
        placed = np.empty((len(splits), 2), np.uint32)
        self._runtime.download(on_device, placed, offset=batch.nbytes + 4 * (len(batch) + 1))
        return placed[:, 0].astype(np.int64)

    def _launch_partition(self, batch: NDArray[np.void]) -> Buffer:
        """Upload a batch, EXPANSION (n_nodes,), with room behind it for the rows placed, and move the rows."""
        runtime, n_nodes = self._runtime, len(batch)
        tile = self._kernels.partition_tile
        upload = np.zeros(batch.nbytes + 4 * (n_nodes + 1) + 8 * n_nodes, np.uint8)
        upload[: batch.nbytes] = batch.view(np.uint8)
        first_tile = upload[batch.nbytes :].view(np.uint32)[: n_nodes + 1]
        np.cumsum((batch["end"] - batch["begin"] + (tile - 1)) // tile, out=first_tile[1:])
        on_device = self._upload("batch", upload)
        runtime.launch(
            self._kernels.partition,
            min(self._groups, max(1, int(first_tile[-1]))),
            self._buffer("columns"),
            *self._row_buffers(),
            self._buffer("features"),
            on_device,
            self._count(n_nodes),
            u32(self.n_rows),
            *(() if self._categories is None else self._categories.partition_arguments),
        )
        return on_device

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a whole round with one copy to the device and one back."""
        if self._categories is not None:
            return expand_in_steps(self, batch, rules, max_depth)
        self._subtract_pending()
        self._check_rules(rules)
        runtime, n_nodes = self._runtime, len(batch)
        on_device = self._launch_partition(np.ascontiguousarray(batch))
        work = self._room("table", 20 * (n_nodes + 1))
        search = self._room("search", 80 * n_nodes)
        result = np.empty(2 * n_nodes * SPLIT.itemsize + 4 * n_nodes, np.uint8)
        best = self._room("best", result.nbytes)
        count = self._buffer("count")
        runtime.launch(
            self._kernels.plan,
            1,
            on_device,
            count,
            np.int64(rules.min_data_in_leaf),
            np.int32(min(max_depth, 2**31 - 1)),
            u32(self._kernels.groups_a_pass),
            work,
            search,
            best,
        )
        self._launch_histograms(work, count, n_nodes)
        self._launch_search(search, count, 2, 2 * n_nodes, rules, best)
        runtime.download(best, result)
        splits = result[: 2 * n_nodes * SPLIT.itemsize].view(SPLIT).reshape(n_nodes, 2)
        return result[splits.nbytes :].view(np.uint32).astype(np.int64), splits

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        meanwhile: Callable[[], None] | None,
    ) -> NDArray[np.void] | None:
        """Run round after round without the host, which looks at the result once: see kernels/select.cl."""
        most_batch = limits.n_leaves - 1
        if limits.n_leaves > LARGEST_AHEAD or self._layout.n_used == 0 or self._categories is not None:
            return None
        self._subtract_pending()
        self._check_rules(rules)
        runtime, kernels = self._runtime, self._kernels
        state = np.zeros(STATE_BYTES + NODE.itemsize, np.uint8)
        state[:12].view(np.uint32)[:] = 0, 1, 0  # nothing to expand yet, one node, no round
        state[STATE_BYTES:] = root.view(np.uint8)
        self._room("state", STATE_BYTES + NODE.itemsize * CAPACITY)
        on_device = self._upload("state", state)
        batch = self._room("batch", (EXPANSION.itemsize + 12) * (most_batch + 1))
        chosen = self._room("chosen", 4 * most_batch)
        best = self._room("best", (2 * SPLIT.itemsize + 4) * most_batch)
        work = self._room("table", 20 * (most_batch + 1))
        search = self._room("search", 80 * most_batch)
        self._room("splits", SPLIT.itemsize * 2 * most_batch * kernels.n_pieces)
        whole = Segments(root["begin"], root["end"], root["depth"])
        self.build_histograms(whole, root["slot"])
        n_rows = int(root["end"][0])
        sums = np.array([[root["gradient"][0], root["hessian"][0], n_rows, 0, -1]], np.int64)
        self._launch_search(self._upload("search", sums), self._buffer("count"), 1, 1, rules, best)

        def select() -> None:
            runtime.launch(
                kernels.select, 1, on_device, batch, chosen, best, u32(most_batch), u32(limits.depthwise),
                u32(min(self._n_slots, CAPACITY)), u32(CAPACITY), u32(kernels.partition_tile), u32(self._share),
            )  # fmt: skip

        def do_round() -> None:
            runtime.launch(
                kernels.partition, self._groups, self._buffer("columns"), *self._row_buffers(),
                self._buffer("features"), batch, on_device, u32(self.n_rows),
            )  # fmt: skip
            runtime.launch(
                kernels.plan, 1, batch, on_device, np.int64(rules.min_data_in_leaf),
                np.int32(min(limits.max_depth, 2**31 - 1)), u32(kernels.groups_a_pass), work, search, best,
            )  # fmt: skip
            self._launch_histograms(work, on_device, most_batch)
            self._launch_search(search, on_device, 2, 2 * most_batch, rules, best)
            select()

        select()
        min_rows = self._min_rows(rules)  # which may change from tree to tree where GOSS scales hessians
        same = (self._n_allocations, self._kernels_of, self._n_slots, self._share, rules, limits, min_rows)
        if self._round is None or self._round[0] != same:
            self._round = same, runtime.repeatable(do_round)
        table = np.empty(STATE_BYTES + NODE.itemsize * min(CAPACITY, 4 * limits.n_leaves), np.uint8)
        n_rounds = self._rounds_ahead
        while True:
            for _ in range(n_rounds):
                self._round[1]()
            if meanwhile is not None:
                meanwhile()
            runtime.download(on_device, table)
            n_batch, n_nodes, n_selected = table[:12].view(np.uint32).tolist()
            if n_batch == 0:
                break
            n_rounds = MORE_ROUNDS
        if n_nodes * NODE.itemsize + STATE_BYTES > len(table):
            table = np.empty(STATE_BYTES + NODE.itemsize * n_nodes, np.uint8)
            runtime.download(on_device, table)
        nodes = table[STATE_BYTES:].view(NODE)[:n_nodes]
        self._learn(limits, n_selected - 1, nodes)
        return nodes

    def _learn(self, limits: GrowthLimits, n_rounds: int, nodes: NDArray[np.void]) -> None:
        """Choose how the next tree is grown from how this one was.

        A tree needs at least as many rounds as it is deep. Where it took more, rounds may be larger; where many nodes
        were expanded in vain, smaller.
        """
        self._rounds_ahead = min(n_rounds + SPARE_ROUNDS, MOST_ROUNDS_AHEAD)
        if n_rounds - int(nodes["depth"].max() - nodes["depth"][0]) >= LONGER_THAN_DEEP:
            self._share = max(LARGEST_SHARE, self._share // 2)
        elif (len(nodes) - 1) // 2 > IN_VAIN * (limits.n_leaves - 1):
            self._share = min(SMALLEST_SHARE, self._share * 2)

    # --- leaves -----------------------------------------------------------------------------------------------------

    def assign_leaves(self, nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Write each row's leaf number."""
        kernel = self._runtime.kernel("assign_kernel", self._plain)
        table = node_table(nodes, 8 * kernel.threads, leaves)
        groups = min(self._groups, max(1, int(table[0, -1])))
        rows = self._row_buffers()[:2]
        self._runtime.launch(
            kernel, groups, *rows, self._upload("table", table), u32(len(leaves)), self._buffer("leaf")
        )

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route the rows that were not chosen."""
        if self._bag:
            self._bag.find_other_leaves(self._upload_tree(tree), len(tree.feature))

    def leaf_sums(self, n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients and hessians per leaf in wide fixed point."""
        gradient, hessian, offset, n_rows = self._tree_rows()
        leaf = self._bag.take_leaves() if self._bag else self._buffer("leaf")
        exponents = [exact_exponent(value, n_rows) for value in self._largest]
        fits = [most for most in LEAF_CLASSES if n_leaves <= most]
        variant = self._variant("leaves.cl", leaves=fits[0] if fits else 0)
        kernel = self._runtime.kernel("leaf_sums_kernel", variant)
        rows_a_group = min(65_536, max(4096, -(-n_rows // self._groups)))
        sums = self._room("leaf sums", 16 * max(n_leaves, 256))
        self._runtime.zero(sums, 16 * n_leaves)
        self._runtime.launch(
            kernel,
            -(-n_rows // rows_a_group),
            gradient,
            hessian,
            u64(offset),
            leaf,
            np.float64(2.0 ** exponents[0]),
            np.float64(2.0 ** exponents[1]),
            u32(n_rows),
            u32(rows_a_group),
            u32(n_leaves),
            sums,
        )
        found = np.empty((n_leaves, 2), np.int64)
        self._runtime.download(sums, found)
        total = found.astype(np.float64)
        return total[:, 0] * 2.0 ** -exponents[0], total[:, 1] * 2.0 ** -exponents[1]

    def renew_leaves(
        self,
        output: int,
        percentile: float,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        n_leaves: int,
    ) -> NDArray[np.float64]:
        """Find the percentile of each leaf's residuals: scores and leaf numbers are brought to the host for it."""
        from hornbeam.backends.cpu.renewal import renew_leaves
        from hornbeam.backends.cpu.threads import resolve_threads

        scores, leaf = np.empty(self.n_rows), np.empty(self.n_rows, np.uint16)
        self._runtime.download(self._buffer("scores"), scores, offset=8 * output * self.n_rows)
        self._runtime.download(self._buffer("leaf"), leaf)
        rows = rows_in_bag(self._bag.on_host(), scores, label, weight, leaf)
        return renew_leaves(*rows, percentile, n_leaves, resolve_threads(0))

    def add_leaf_values(self, output: int, leaf_value: NDArray[np.float64]) -> None:
        """Add each row's leaf value to its score."""
        values = self._upload("values", np.ascontiguousarray(leaf_value, np.float64))
        kernel = self._runtime.kernel("add_values_kernel", self._plain)
        offset = u64(output * self.n_rows)
        self._launch_rows(kernel, self._buffer("scores"), offset, self._buffer("leaf"), values, u32(self.n_rows))

    # --- validation sets --------------------------------------------------------------------------------------------

    def add_valid(self, binned: BinnedData, scores: NDArray[np.float64]) -> int:
        """Keep a validation set on the device."""
        number, (n_outputs, n_rows) = len(self._valid), scores.shape
        name, shared = f"bins of validation set {number}", self._shared_bins(binned)
        size = np.dtype(binned.mapper.bin_dtype).itemsize
        stride = binned.stride if shared is None else binned.n_used
        bins = self._room(name, max(1, n_rows * stride * size))
        if shared is None:
            step = max(1, LAYOUT_BLOCK // (stride * size))
            for first in range(0, n_rows, step):
                part = binned.block(first, min(first + step, n_rows))
                self._runtime.upload(bins, np.ascontiguousarray(part), offset=first * stride * size)
        else:
            shared.untile(bins, stride, 1)
        on_device = self._upload(f"scores of validation set {number}", np.array(scores, np.float64, order="C"))
        self._valid.append(ValidSet(n_rows, n_outputs, stride, size, bins, on_device))
        return number

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Route the rows of a validation set, or of the training set, through a tree and add its values."""
        nodes = self._upload_tree(tree)
        values = self._upload("values", np.ascontiguousarray(tree.leaf_value, np.float64))
        if valid < 0:
            self._bag.add_tree(nodes, tree, values, output * self.n_rows)
            return
        held = self._valid[valid]
        kernel = self._runtime.kernel("route_kernel", self._variant("route.cl", bin_bytes=held.bin_bytes))
        self._runtime.launch(
            kernel,
            min(self._groups, max(1, -(-held.n_rows // kernel.threads))),
            held.bins,
            u32(held.stride),
            u32(held.n_rows),
            nodes,
            u32(len(tree.feature)),
            values,
            held.scores,
            u64(output * held.n_rows),
        )

    def _upload_tree(self, tree: BinnedTree) -> Buffer:
        """Bring a tree to the device: the nodes of route.cl, and the sets of its categorical splits behind them."""
        n_values, n_splits = self._binned.n_value_bins[tree.feature], len(tree.feature)
        bins, missing_left = tree.bin, tree.missing_left.astype(np.int32)
        sets = np.empty((n_splits, 0), np.uint32) if tree.left_sets is None else tree.left_sets
        if tree.left_sets is not None:
            categorical = tree.feature >= self._binned.n_numeric
            bins = np.where(categorical, 6 * n_splits + np.arange(n_splits) * sets.shape[1], bins)
            missing_left[categorical] = 2
        columns = (tree.feature, bins, missing_left, n_values, tree.left, tree.right)
        nodes = np.stack(columns, axis=1).astype(np.int32)
        return self._upload("tree", np.concatenate([nodes.ravel(), sets.view(np.int32).ravel()]))

    def valid_scores(self, valid: int) -> NDArray[np.float64]:
        """Return the scores of a validation set."""
        held = self._valid[valid]
        out = np.empty((held.n_outputs, held.n_rows))
        self._runtime.download(held.scores, out)
        return out

    # --- for tests, and the end -------------------------------------------------------------------------------------

    def read_histogram(self, slot: int) -> NDArray[np.int64]:
        """Return the histogram in a slot as the reference engine has it, int64 (n_total_bins, 2)."""
        self._subtract_pending()
        layout = self._layout
        held = np.empty((layout.n_tiles, self._stats, layout.n_bins, layout.lanes), np.int64)
        self._runtime.download(self._buffer("histograms"), held, offset=slot * held.nbytes)
        by_feature = held.transpose(0, 3, 2, 1).reshape(-1, layout.n_bins, self._stats)
        parts = [
            by_feature[feature, : n_values + 1, :2]
            for feature, n_values in enumerate(self._binned.n_value_bins.tolist())
        ]
        return np.concatenate([np.empty((0, 2), np.int64), *parts])

    def close(self) -> None:
        """Free everything on the device."""
        self._valid = []
        self._uploaded = {}
        self._round = None
        while self._held:
            name, (buffer, _) = self._held.popitem()
            if name not in self._borrowed:
                self._runtime.free(buffer)
        self._runtime.close()

"""The operations of a GPU engine for trees that grow on several workers.

Bins, gradients and rows stay on the device; node tables go up. Histograms of nodes come down, and the host searches a
section of the features (distributed/search.py), or they go to the other workers' devices, each of which searches its
section (distributed/device_search.py). What an operation costs (n nodes), besides what the host exchanges:

    operation        up                      launches                     down
    draw_together    (row numbers, once)     place                        1 KB
    round_together   100 bytes               measure, round (bag: take)   24 bytes a group of threads, 80 bytes
    write_messages   tables, 36 n bytes      zero, histogram, node_sums   4 or 8 bytes a sum
    sum_together     the same                and NCCL's, section_sums     nothing
    find_together    48 n bytes              split, choose                40 n bytes
    divide           batch, 84 n bytes       partition                    8 n bytes
    leaf_integers                            clear, leaf_sums             16 bytes a leaf
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.demand import Demand
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.bag import DeviceBag
from hornbeam.backends.gpu.growth.growth import DeviceGrowth
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.growth.leaves import DeviceLeaves
from hornbeam.backends.gpu.growth.split_search import SplitSearch
from hornbeam.backends.gpu.losses.quantize import Rounded
from hornbeam.backends.gpu.runtime.runtime import Runtime, Variant
from hornbeam.backends.gpu.workers.node_sums import NodeSums, Reduction, form_of, sending_variant
from hornbeam.backends.gpu.workers.rounding import round_together
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.tree_kernels import (
    GrowingTree,
    RowKernels,
    SummedTree,
    TreeKind,
    histogram_variant,
    partition_variant,
)
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.backends.histogram_messages import WIDE
from hornbeam.core.fixed_point import Gather
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinnedData
from hornbeam.trees.bagging import Bag, Draw
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules

POOL_BYTES = 256 << 20
"""Histograms that are summed at once, and as many bytes again of what is sent of them."""


class DrawnBag(Bag):
    """A bag whose rows are on a device, and are copied when somebody asks for them."""

    def __init__(self, bag: DeviceBag) -> None:
        for name in ("n_plain", "n_in_bag", "factor"):
            object.__setattr__(self, name, getattr(bag, name))
        object.__setattr__(self, "_read", bag.read_rows)

    @property
    def rows(self) -> NDArray[np.uint32]:
        """Copies of the numbers, in any order within each part."""
        found: NDArray[np.uint32] = self._read()  # type: ignore[attr-defined]
        return found


class WorkerTrees:
    """What GpuEngine has of them; it has everything that is named here."""

    if TYPE_CHECKING:
        _bag: DeviceBag
        _binned: BinnedData
        _bins: PlacedBins
        _demand: Demand
        _growth: DeviceGrowth
        _histograms: DeviceHistograms
        _layout: Layout
        _most_stats: int
        _leaves: DeviceLeaves
        _rounded: Rounded
        _runtime: Runtime
        _search: SplitSearch
        slot_bytes: int
        workspace: Workspace
        _fit_slots: Any
        _take_rows: Any
        _tree: GrowingTree
        _tree_rows: Any
        begin_tree: Any

    _node_sums: NodeSums
    _is_searching = False
    _worker_bag: Bag | None = None
    _worker_tree: SummedTree

    @property
    def can_share_trees(self) -> bool:
        """Whether this engine's rows can be part of trees that grow on several workers: it has histograms to send."""
        return self._layout.n_used > 0 and not self._layout.is_bundled

    def _files_of_rows(self, kinds: Iterable[TreeKind]) -> Iterator[Variant]:
        """Return the files that the first trees will need."""
        for kind in kinds:
            yield histogram_variant(self.workspace.facts, self._layout, kind.wide, kind.stats)[0]
            yield partition_variant(self.workspace.facts, self._layout, kind)
            yield sending_variant(self.workspace, kind.stats)

    def draw_together(self, draw: Draw, gather: Gather) -> Bag | None:
        """Draw the rows of a bag by the numbers that `draw.query` has for them; None: no worker has a row in it."""
        bag = self._bag
        bag.choose(draw, 1)
        sizes = gather(np.array([bag.n_plain, 0, self.workspace.n_rows - bag.n_plain]))  # as Bag.from_parts
        bag.is_drawn = bool(sizes[:, :2].sum() > 0)
        self._worker_bag = DrawnBag(bag) if bag.is_drawn else None
        return self._worker_bag

    def round_together(self, output: int, bag: Bag | None, high_precision: bool, gather: Gather) -> Rounded:
        """Start a tree: round the gradients of its rows by the scale of all workers' rows.

        bag  the rows of the tree that are here; None: all
        """
        if bag is not self._worker_bag:
            self._worker_bag = bag
            self._bag.take(bag)
        self._take_rows(output)
        self._rounded = round_together(self.workspace, self._tree_rows(), high_precision, gather)
        if not self._is_searching:
            self._begin_rows()
        return self._rounded

    def _begin_rows(self) -> None:
        """Make room for histograms that come down."""
        n_slots, stats = self._worker_slots, 2 if self._rounded.hessians_count else 3
        has_sets = self._search.categories is not None
        kind = TreeKind(self._rounded.quantization.wide, stats, has_sets, self._bins.has_columns)
        if kind not in self._row_kernels:
            self._row_kernels[kind] = RowKernels.load(self._runtime, self._layout, kind)
        self._worker_tree = SummedTree(self._row_kernels[kind], stats, n_slots)
        self._histograms.begin_tree(self._worker_tree)

    @lazy
    def _row_kernels(self) -> dict[TreeKind, RowKernels]:
        return {}

    @lazy
    def _worker_slots(self) -> int:
        """How many nodes are summed at once: half of the memory is for histograms, half for what is sent of them."""
        own = self.workspace
        wanted = max(1, min(POOL_BYTES // self.slot_bytes, self._demand.n_leaves))
        n_slots: int = max(1, self._fit_slots(2 * wanted) // 2)
        own.reserved["histograms"] = own.reserved["node sums"] = n_slots * self.slot_bytes
        return n_slots

    def share_with(self, sections: Sequence[tuple[int, int]]) -> None:
        """Prepare for trees of several workers; sections: used features of each, (first, last + 1)."""
        offsets = self._binned.offsets
        self._node_sums = NodeSums(self.workspace, self._layout, self._histograms, offsets, sections)

    def write_messages(self, nodes: Segments) -> list[memoryview]:
        """Return the histograms of this worker's rows of nodes, a message to each worker."""
        return self._node_sums.messages(self._worker_tree, nodes, self._rounded.quantization)

    def search_together(self) -> None:
        """Keep the histograms of the trees to come on the device, and search them there."""
        self._is_searching = True
        self._node_sums.reserve(self._demand.n_leaves, self._most_stats, POOL_BYTES)

    def begin_together(self, n_slots: int) -> int:
        """Start a tree on the gradients that were rounded; returns how many histograms there is room for."""
        self._node_sums.make_room()
        root = self.begin_tree(n_slots)
        self._worker_tree = self._tree
        return n_slots if root.n_slots is None else root.n_slots

    def sum_together(
        self, nodes: Segments, slots: NDArray[np.int32], most_rows: int, rank: int, reduction: Reduction
    ) -> None:
        """Sum the rows of nodes into slots, then those of all workers, in one worker's section.

        most_rows  no node has more on all workers together
        """
        has_rows = nodes.end > nodes.begin
        self._histograms.build(self._tree, nodes.take(np.flatnonzero(has_rows)), slots[has_rows])
        is_narrow = bool(form_of(np.array(most_rows), self._rounded.quantization) != WIDE)
        self._node_sums.reduce(self._tree, slots, has_rows, is_narrow, rank, reduction)

    def find_together(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None,
    ) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
        """Find the best split of each node among the features that were chosen.

        Returns SPLIT (n_nodes,), and the sets of those that are categorical, uint32 (n_nodes, set_words).
        """
        categories, sets = self._search.categories, np.zeros((len(slots), self._binned.set_words), np.uint32)
        if categories is not None:
            categories.begin_tree()  # the sets before were read
        splits = self._search.find(self._tree, nodes, slots, gradient, hessian, rules, context)
        in_set = np.flatnonzero(splits["feature"] >= self._binned.n_numeric)
        if categories is not None and len(in_set):
            sets[in_set] = categories.read(splits["bin"][in_set])
        return splits, sets

    def divide(self, nodes: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Move the rows of nodes, some of which may have none here; returns how many went left, int64 (n_nodes,).

        sets  uint32 (n_sets, n_words)  in  of categorical splits, by the number in the place of their bin
        """
        n_left, here = np.zeros(len(splits), np.int64), np.flatnonzero(nodes.end > nodes.begin)
        if len(here) == 0:
            return n_left
        splits = splits[here]
        in_set = np.flatnonzero(splits["feature"] >= self._binned.n_numeric)
        if len(in_set):
            self.workspace.upload("sets", sets[splits["bin"][in_set]])
            splits["bin"][in_set] = np.arange(len(in_set))
        n_left[here] = self._growth.divide(self._worker_tree, nodes.take(here), splits)
        return n_left

    def leaf_integers(self, exponents: Sequence[int], n_leaves: int) -> NDArray[np.int64]:
        """Return the sums of gradients and hessians of each leaf in fixed point, int64 (n_leaves, 2)."""
        return self._leaves.integers(self._tree_rows(), (exponents[0], exponents[1]), n_leaves)

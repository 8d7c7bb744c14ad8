"""The rows of growing trees on one worker: where they lie, their histograms, their leaves.

`TreeRows` is the definition, in NumPy; `CompiledRows` does the same by the kernels that grow trees of one process, and
`DeviceRows` (device_rows.py) by those of a GPU, in its memory.

Nodes are those of all workers: their places begin:end number the rows of all. Here each has the places of this worker's
rows, of which there may be none. A node has at least one row somewhere, so (begin, depth) names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_messages import Room, write_message
from hornbeam.backends.reference.engine import bins_go_left, route
from hornbeam.core.fixed_point import Gather, Quantization, round_gradients
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Buffer, Collective
from hornbeam.trees.bagging import ROOT_DEPTH, Bag, Draw, draw_bag
from hornbeam.trees.engine import Engine
from hornbeam.trees.output_splits import OutputsRoot, find_counter
from hornbeam.trees.records import BinnedTree, ChosenRows, Root, Segments

FloatArray = NDArray[np.float64]


class TreeRows:
    """The rows of tree after tree.

    binned    the rows of this worker
    sections  used features of each worker, (first, last + 1)
    n_leaves  that the growing tree will have, at most, as far as is known
    """

    def __init__(self, binned: BinnedData, sections: Sequence[tuple[int, int]]) -> None:
        self._binned, self._sections, self.n_leaves = binned, sections, 1
        self._leaf: NDArray[Any] = np.zeros(binned.n_rows, np.int64)
        self._kept: list[NDArray[np.int64]] = []  # rounded gradients of the outputs that share a tree

    @property
    def leaf(self) -> NDArray[Any]:
        """The leaf of every row, once `assign` has told those of the tree, and `find_others` the rest."""
        return self._leaf

    def draw(self, draw: Draw, gather: Gather) -> Bag | None:
        """Draw the rows of the trees to come by the numbers that `draw.query` has for them; None: all rows."""
        return draw_bag(draw, self._binned.n_rows, gather)

    def begin(self, local: Engine, output: int, bag: Bag | None, high_precision: bool, gather: Gather) -> Quantization:
        """Start a tree of one output on the gradients that the engine of this worker's rows has.

        bag  the rows of the tree; None: all
        """
        gradient, hessian = (values[output] for values in local.read_gradients())
        if bag is not None:
            gradient, hessian = bag.take(gradient), bag.take(hessian)
        return self.round(gradient, hessian, bag, high_precision, gather)

    def round(
        self, gradient: FloatArray, hessian: FloatArray, bag: Bag | None, high_precision: bool, gather: Gather
    ) -> Quantization:
        """Start a tree: round the gradients of its rows by the scale of all workers' rows.

        gradient, hessian  float64 (n,)  in  of the rows in the bag
        """
        self._gradient, self._hessian, self._bag = gradient, hessian, bag
        self._places: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, len(gradient))}
        return self._round(high_precision, gather)

    def _round(self, high_precision: bool, gather: Gather) -> Quantization:
        """Round the gradients by the definition."""
        self._rows = np.arange(self._binned.n_rows) if self._bag is None else self._bag.inside.astype(np.int64)
        *values, how = round_gradients(self._gradient, self._hessian, high_precision, gather)
        self._values: NDArray[np.int64] = np.stack(values, axis=1)
        return how

    @property
    def root(self) -> Root:
        """Number and sums of this worker's rows of the tree."""
        return Root(len(self._values), *self._values.sum(axis=0).tolist())

    @property
    def largest(self) -> tuple[float, float]:
        """No gradient and no hessian of this worker's rows of the tree is larger."""
        return float(np.max(np.abs(self._gradient), initial=0.0)), float(np.max(self._hessian, initial=0.0))

    def chosen_rows(self) -> ChosenRows:
        """Return this worker's rows of the tree."""
        return ChosenRows(None if self._bag is None else self._bag.inside, self._gradient, self._hessian)

    def local(self, nodes: Segments) -> Segments:
        """Return the places of this worker's rows of each node."""
        places = [self._places[key] for key in zip(nodes.begin.tolist(), nodes.depth.tolist(), strict=True)]
        begin, end = np.array(places, np.int64).reshape(-1, 2).T.copy()
        return Segments(begin, end, nodes.depth)

    def set_places(self, nodes: Segments, places: NDArray[np.int64]) -> None:
        """Take from elsewhere where the rows of nodes lie, int64 (n_nodes, 2)."""
        keys = zip(nodes.begin.tolist(), nodes.depth.tolist(), strict=True)
        self._places.update(zip(keys, map(tuple, places.tolist()), strict=True))

    def exchange(self, collective: Collective, local: Segments, n_sums: int) -> Sequence[Buffer]:
        """Send the histograms of this worker's rows to the others; returns those of its section, as messages to add.

        local  places of this worker's rows of each node
        """
        return collective.exchange(self.messages(local, n_sums, collective.room), "histograms")

    def messages(self, local: Segments, n_sums: int, room: Room) -> Sequence[Buffer]:
        """Return the histograms of this worker's rows, a message to each worker (backends/histogram_messages.py).

        room  returns memory that the messages may lie in, of a number of bytes
        """
        sums, offsets = self.histograms(local, n_sums), self._binned.offsets
        return [write_message(sums[:, offsets[first] : offsets[last]]).tobytes() for first, last in self._sections]

    def histograms(self, local: Segments, n_sums: int) -> NDArray[Any]:
        """Return the sums of this worker's rows by bin, integers (n_nodes, n_total_bins, n_sums)."""
        binned = self._binned
        sums = np.zeros((len(local.begin), int(binned.offsets[-1]), n_sums), np.int64)
        for node, (begin, end) in enumerate(zip(local.begin.tolist(), local.end.tolist(), strict=True)):
            codes = binned.bins[self._rows[begin:end], : binned.n_used].astype(np.int64)
            values = np.ones((end - begin, n_sums), np.int64)
            values[:, :2] = self._values[begin:end]
            for feature in range(binned.n_used):
                np.add.at(sums[node], codes[:, feature] + int(binned.offsets[feature]), values)
        return sums

    def partition(
        self, nodes: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32], n_left_of_all: NDArray[np.int64]
    ) -> None:
        """Move rows to the places of children.

        sets           uint32 (n_sets, n_words)  in  of categorical splits, by the number in the place of their bin
        n_left_of_all  int64 (n_nodes,)          in  rows of all workers that go left
        """
        local = self.local(nodes)
        self.enter_children(nodes, local, self.divide(local, splits, sets), n_left_of_all)

    def enter_children(
        self, nodes: Segments, local: Segments, n_left: NDArray[np.int64], n_left_of_all: NDArray[np.int64]
    ) -> None:
        """Note where the rows of the children of some nodes lie.

        n_left  int64 (n_nodes,)  in  this worker's rows that have gone left
        """
        for i, (begin, end) in enumerate(zip(local.begin.tolist(), local.end.tolist(), strict=True)):
            first, depth, middle = int(nodes.begin[i]), int(nodes.depth[i]) + 1, begin + int(n_left[i])
            self._places[first, depth] = begin, middle
            self._places[first + int(n_left_of_all[i]), depth] = middle, end

    def divide(self, local: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Move this worker's rows of nodes; returns how many went left, int64 (n_nodes,)."""
        n_left = np.zeros(len(splits), np.int64)
        for i, (begin, end) in enumerate(zip(local.begin.tolist(), local.end.tolist(), strict=True)):
            if begin == end:
                continue
            split, rows = splits[i], self._rows[begin:end]
            left_set = sets[split["bin"]] if split["feature"] >= self._binned.n_numeric else None
            left = bins_go_left(self._binned, rows, split["feature"], split["bin"], split["missing_left"], left_set)
            order = begin + np.argsort(~left, kind="stable")
            self._rows[begin:end], self._values[begin:end] = self._rows[order], self._values[order]
            n_left[i] = np.count_nonzero(left)
        return n_left

    def assign(self, nodes: Segments, leaf_of_node: NDArray[np.int32]) -> None:
        """Tell the rows of the tree their leaves."""
        local = self.local(nodes)
        for begin, end, number in zip(local.begin, local.end, leaf_of_node, strict=True):
            self._leaf[self._rows[begin:end]] = number

    def find_others(self, tree: BinnedTree) -> None:
        """Tell the rows outside of the bag their leaves."""
        if self._bag is not None:
            self._leaf[self._bag.outside] = route(self._binned, tree)[self._bag.outside]

    def add_values(self, local: Engine, output: int, leaf_value: FloatArray) -> None:
        """Add the values of leaves to the scores of the engine of this worker's rows."""
        local.add_row_values(output, leaf_value[self.leaf])

    def leaf_integers(self, exponents: Sequence[int], n_leaves: int) -> NDArray[np.int64]:
        """Return the sums of gradients and hessians of each leaf in fixed point, int64 (n_leaves, 2)."""
        total = np.zeros((n_leaves, 2), np.int64)
        for i, values in enumerate((self._gradient, self._hessian)):
            np.add.at(total[:, i], self._leaf_in_bag, np.rint(values * 2.0 ** exponents[i]).astype(np.int64))
        return total

    @property
    def _leaf_in_bag(self) -> NDArray[Any]:
        return self.leaf if self._bag is None else self.leaf[self._bag.inside]

    # --- a tree that all outputs share ------------------------------------------------------------------------------

    def begin_outputs(
        self, local: Engine, bag: Bag | None, high_precision: bool, min_data_in_leaf: int, gather: Gather
    ) -> OutputsRoot:
        """Start a tree of all outputs; returns number and sums of this worker's rows."""
        gradient, hessian = local.read_gradients()
        take = np.ascontiguousarray if bag is None else bag.take
        self._of_outputs = [(take(g), take(h)) for g, h in zip(gradient, hessian, strict=True)]
        how, sums = [], []
        for output, of_rows in enumerate(self._of_outputs):
            how.append(self.round(*of_rows, bag, high_precision, gather))
            sums.append((self.root.gradient, self.root.hessian))
            self._keep_output(output)
        counter = find_counter(how, min_data_in_leaf)
        self._finish_outputs(counter == len(how))
        return OutputsRoot(len(self._gradient), np.array(sums, np.int64), tuple(how), counter)

    def _keep_output(self, output: int) -> None:
        """Keep the rounded gradients of an output."""
        self._kept[output:] = [self._values]

    def _finish_outputs(self, counts: bool) -> None:
        """Let the rows of the tree bring what was kept of all outputs; counts: and one histogram more counts rows."""
        more = np.tile([0, 1], (len(self._values), int(counts)))
        self._values = np.concatenate([*self._kept, more], axis=1)

    def choose_output(self, output: int) -> tuple[float, float]:
        """Choose the output that `leaf_integers` is of; returns what `largest` is for it."""
        self._gradient, self._hessian = self._of_outputs[output]
        return self.largest

    def exchange_outputs(self, collective: Collective, local: Segments, n_histograms: int) -> Sequence[Buffer]:
        """Send all histograms of this worker's rows, those of a node one after the other; returns those of its section.

        local  places of this worker's rows of each node
        """
        sums, offsets = self.output_histograms(local, n_histograms), self._binned.offsets
        messages = [write_message(sums[:, offsets[first] : offsets[last]]).tobytes() for first, last in self._sections]
        return collective.exchange(messages, "histograms")

    def output_histograms(self, local: Segments, n_histograms: int) -> NDArray[np.int64]:
        """Return the sums of this worker's rows by bin, int64 (n_nodes * n_histograms, n_total_bins, 2)."""
        binned = self._binned
        sums = np.zeros((len(local.begin), int(binned.offsets[-1]), 2 * n_histograms), np.int64)
        for node, (begin, end) in enumerate(zip(local.begin.tolist(), local.end.tolist(), strict=True)):
            codes = binned.bins[self._rows[begin:end], : binned.n_used].astype(np.int64)
            for feature in range(binned.n_used):
                np.add.at(sums[node], codes[:, feature] + int(binned.offsets[feature]), self._values[begin:end])
        by_histogram = sums.reshape(*sums.shape[:2], n_histograms, 2).transpose(0, 2, 1, 3)
        return by_histogram.reshape(-1, sums.shape[1], 2)


class CompiledRows(TreeRows):
    """The same by compiled kernels on some threads; there is at least one row."""

    def __init__(self, binned: BinnedData, sections: Sequence[tuple[int, int]], n_threads: int) -> None:
        from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
        from hornbeam.backends.cpu.host.team import largest_team
        from hornbeam.backends.cpu.tuning import in_use
        from hornbeam.backends.cpu.workers.messages import MessageWriter

        super().__init__(binned, sections)
        self._leaf = np.zeros(binned.n_rows, np.uint16)
        self._tuning = in_use()
        self._growth = DenseGrowth(binned, n_threads, largest_team(n_threads, self._tuning), self._tuning)
        self._writer = MessageWriter(self._growth, sections)
        self._shared: Any = None  # histograms of all outputs, once a tree asks for them
        self._largest_of: list[tuple[float, float]] = []  # of these outputs

    def _round(self, high_precision: bool, gather: Gather) -> Quantization:
        """Round the gradients into records."""
        from hornbeam.backends.cpu.growth.rows import bags, rounding

        growth, tuning, bag = self._growth, self._tuning, self._bag
        growth.rounded = rounding.quantize(
            growth.store, self._gradient, self._hessian, high_precision, growth.n_team, tuning, gather
        )
        if bag is not None:
            bags.number_records(growth.store, bag, growth.n_team, tuning)
        self._largest = growth.rounded.largest_gradient, growth.rounded.largest_hessian
        return growth.rounded.quantization

    @property
    def root(self) -> Root:
        """Number and sums of this worker's rows of the tree."""
        return self._growth.rounded.root

    @property
    def largest(self) -> tuple[float, float]:
        """What rounding has measured, of the rows of all workers."""
        return self._largest

    def _at_depth(self, local: Segments) -> Segments:
        """Return places at the depths that the rows of a bag have."""
        return local if self._bag is None else Segments(local.begin, local.end, local.depth + np.int32(ROOT_DEPTH))

    def messages(self, local: Segments, n_sums: int, room: Room) -> Sequence[Buffer]:
        """Sum by kernels, into messages."""
        return self._writer.write(self._growth.rows_in(self.n_leaves), self._at_depth(local), n_sums, room)

    def divide(self, local: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Move rows by kernels."""
        from hornbeam.backends.cpu.workers.rows import divide

        return divide(self._growth, self.n_leaves, self._at_depth(local), splits, sets)

    def assign(self, nodes: Segments, leaf_of_node: NDArray[np.int32]) -> None:
        """Tell the leaves by kernels."""
        from hornbeam.backends.cpu.growth.rows.leaves import assign_leaves

        growth = self._growth
        assign_leaves(
            growth.store, self._at_depth(self.local(nodes)), leaf_of_node, growth.n_team, self._tuning, self._leaf
        )

    def find_others(self, tree: BinnedTree) -> None:
        """Route rows by kernels."""
        from hornbeam.backends.cpu.growth.routing import find_leaves

        if self._bag is not None:
            find_leaves(self._binned, tree, self._bag.outside, self._growth.n_team, self._tuning, self._leaf)

    def add_values(self, local: Engine, output: int, leaf_value: FloatArray) -> None:
        """Add them by kernels, where scores are in host memory."""
        from hornbeam.backends.cpu.engine import CpuEngine

        if isinstance(local, CpuEngine):
            local.add_values_of(output, self._leaf, leaf_value)
        else:
            super().add_values(local, output, leaf_value)

    def leaf_integers(self, exponents: Sequence[int], n_leaves: int) -> NDArray[np.int64]:
        """Sum by kernels."""
        from hornbeam.backends.cpu.growth.rows.leaves import leaf_integers

        values, n_threads = (self._gradient, self._hessian), self._growth.n_team
        return leaf_integers(*values, exponents, self._leaf_in_bag, n_leaves, n_threads, self._tuning)

    def _keep_output(self, output: int) -> None:
        """Keep them by row."""
        from hornbeam.backends.cpu.growth.dense.shared_histograms import SharedHistograms

        growth = self._growth
        if output == 0:
            if self._shared is None:
                self._shared = SharedHistograms(
                    self._binned.n_rows, len(self._of_outputs), growth.n_threads, self._tuning
                )
            self._shared.begin()
        self._shared.keep(growth.store, len(self._gradient), output)
        self._largest_of[output:] = [self._largest]

    def choose_output(self, output: int) -> tuple[float, float]:
        """Choose what rounding has measured of the output, too."""
        self._largest = self._largest_of[output]
        return super().choose_output(output)

    def _finish_outputs(self, counts: bool) -> None:
        """Let records bring row numbers alone."""
        self._shared.finish(counts)
        self._growth.store.set_width(False)

    def output_histograms(self, local: Segments, n_histograms: int) -> NDArray[np.int64]:
        """Sum by kernels."""
        growth, n_nodes = self._growth, len(local.begin)
        slots = np.arange(n_nodes * n_histograms, dtype=np.int32).reshape(n_nodes, n_histograms)
        growth.columns.slots.set_slots(slots.size)
        rows = growth.rows_in(self.n_leaves)
        self._shared.build(growth.columns.slots, rows, self._at_depth(local), slots)
        return growth.columns.slots.histograms[: slots.size]

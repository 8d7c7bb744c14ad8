"""The engine of one worker: its rows, and what their sums need from the other workers.

To the training it looks like an engine of all rows. Scores, labels and row numbers that come in are those of all rows,
and the worker keeps its own; whatever comes out is the same on every worker, so that each of them takes the same
decisions and ends with the same model. There is no master.

    operation          what is exchanged
    choose_rows        sizes of the bag; GOSS: the last top row, in 8 rounds of 4 KB
    quantize           the largest gradient and hessian; sums of the rounded ones: 100 bytes, twice
    begin_tree         the root's sums, and the largest gradient and hessian, for the sums of leaves
    build_histograms   histograms of the nodes, a section of the features to each worker
    subtract           nothing: each worker subtracts in its section
    find_splits        the best split of each node in every section, 48 bytes a node
    grow_ahead         the last two, round after round
    begin_outputs      those of quantize and begin_tree, of each output
    build_outputs      histograms of all outputs
    find_output_splits the best split of each node in every section, with the sums of all outputs on its left
    partition          nothing: rows that go left are counted in histograms; GPUs and shared trees: 8 bytes a node
    compute_gradients  survival:cox: the scores of all rows
    leaf_sums          sums of each leaf
    gather             linear leaves: ends of each leaf's features, 16 bytes each; sums of products, 8 bytes each
    renew_leaves       counts of residuals, in 16 rounds
    evaluate           means of losses: 32 bytes; other metrics: the scores of all rows

Gradients, scores and validation sets are those of a local engine of any device. Where that is a GPU the rows of trees
stay there. Histograms come down, and splits are searched in host memory; or they go to the other GPUs (nccl.py), which
search them (device_search.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.evaluation import arithmetic_on
from hornbeam.core.errors import ParameterError
from hornbeam.core.fixed_point import Quantization, exact_exponent, exact_sum
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinnedData
from hornbeam.data.fields import Fields
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.devices import rows_of, search_of
from hornbeam.distributed.leaf_renewal import SharedLeaves
from hornbeam.distributed.rows import RowMap
from hornbeam.distributed.search import Candidates, NodeSums, Search, SectionSearch, best_of_outputs, sections
from hornbeam.distributed.selection import goss_bag
from hornbeam.metrics.base import MeanLoss, Metric, check_classes
from hornbeam.objectives.base import Objective
from hornbeam.objectives.cox import CoxObjective
from hornbeam.objectives.ranking import LambdarankObjective, RankingObjective
from hornbeam.trees.bagging import Bag, Draw, Goss, row_importance, rows_in_bag
from hornbeam.trees.engine import Engine
from hornbeam.trees.forest import average_scores
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_splits import OutputsRoot
from hornbeam.trees.records import (
    BinnedTree,
    ChosenRows,
    ContextsAhead,
    ForestMean,
    GrownAhead,
    LeafRenewal,
    Root,
    Segments,
)
from hornbeam.trees.splitting import NodeContext, SplitRules
from hornbeam.trees.steps import expand_in_steps

FloatArray = NDArray[np.float64]

ROW_SUMS = 3
"""Sums of a bin that are kept: gradients, hessians, rows."""


MOST_SLOTS = 2**31
"""More slots than there can be."""

MOST_TAKEN = 16
"""Arrays of all rows whose entries a worker keeps."""


class DistributedEngine:
    """See trees/engine.Engine for what each operation does.

    Parameters
    ----------
    local
        Engine of this worker's rows, which may be none.
    binned
        The bins of this worker's rows.
    rows
        Which rows are whose.
    row_maps
        The same of validation sets, by the id of their bins.
    compiled
        Whether trees grow by compiled kernels, or by NumPy alone.
    n_threads
        Threads of the kernels.
    is_shared
        Whether all outputs share their trees, which grow in host memory then.
    """

    rounds_are_costly = False
    nodes_are_costly = False
    arrays = None

    def __init__(
        self,
        collective: Collective,
        local: Engine,
        binned: BinnedData,
        rows: RowMap,
        row_maps: dict[int, RowMap],
        compiled: bool,
        n_threads: int = 1,
        is_shared: bool = False,
    ) -> None:
        self._collective, self._local, self._binned = collective, local, binned
        self._rows, self._row_maps = rows, row_maps
        self.n_rows = rows.n_rows
        self.device_name, self.host_device = local.device_name, local.host_device
        self.has_own_memory = local.has_own_memory
        self._compiled, self._n_threads = self._how = compiled, n_threads
        sent, own = self._deal(binned)
        self._tree = rows_of(local, binned, sent, compiled, n_threads, is_shared)
        self._search = self._make_search(own)
        largest = max(int(binned.offsets[last] - binned.offsets[first]) for first, last in sent)
        self.slot_bytes = self._search.slot_bytes or 8 * ROW_SUMS * max(1, largest)
        self._outputs: OutputsRoot | None = None  # of the tree at hand, where all outputs share it
        self._valid: list[RowMap] = []
        # an objective, and that of this worker's queries
        self._ranking: tuple[LambdarankObjective | None, ...] = None, None
        self._bag: Bag | None = None
        self._taken: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}  # by id: values of all rows, and of these

    def _deal(self, binned: BinnedData) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """Return the sections of the used features that histograms are sent in, and the one that is searched here."""
        found = sections(binned, self._collective.size)
        return found, found[self._collective.rank]

    def _make_search(self, section: tuple[int, int]) -> Search:
        """Return what searches a section of the used features."""
        return search_of(self._local, self._tree, self._collective, self._binned, section, *self._how)

    def gather(self, figures: NDArray[Any]) -> NDArray[Any]:
        """Return the figures of every worker, (n_workers, n)."""
        return self._collective.gather_array(figures, "figures of rows")

    # --- scores -----------------------------------------------------------------------------------------------------

    def set_scores(self, scores: FloatArray, valid: int = -1) -> None:
        """Keep the scores of this worker's rows."""
        self._local.set_scores(self._map_of(valid).take(scores), valid)

    def _map_of(self, valid: int) -> RowMap:
        return self._rows if valid < 0 else self._valid[valid]

    def scores(self) -> FloatArray:
        """Return the scores of all rows."""
        return self._rows.gather_values(self._collective, self._local.scores(), "scores")

    def add_leaf_values(self, output: int, leaf_value: FloatArray | None) -> None:
        """Add the values of leaves to the scores of this worker's rows."""
        assert leaf_value is not None
        self._tree.add_values(self._local, output, leaf_value)

    def add_row_values(self, output: int, values: FloatArray, valid: int = -1) -> None:
        """Add to the scores of this worker's rows."""
        self._local.add_row_values(output, values, valid)

    def add_valid(self, binned: BinnedData, scores: FloatArray) -> int:
        """Keep this worker's rows of a validation set."""
        if id(binned) not in self._row_maps:
            raise ParameterError("add_valid in a training on workers: all must know the sets; pass it in valid_sets=")
        self._valid.append(self._row_maps[id(binned)])
        return self._local.add_valid(binned, self._valid[-1].take(scores))

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Add a tree to this worker's rows."""
        self._local.add_tree(valid, output, tree)

    def valid_scores(self, valid: int) -> FloatArray:
        """Return the scores of all rows of a validation set."""
        return self._valid[valid].gather_values(self._collective, self._local.valid_scores(valid), "scores")

    # --- gradients --------------------------------------------------------------------------------------------------

    def compute_gradients(self, objective: Objective, label: FloatArray, weight: FloatArray | None) -> None:
        """Compute the gradients of this worker's rows."""
        if isinstance(objective, CoxObjective):  # a row's gradient depends on all rows
            self.set_gradients(*objective.gradients(self.scores(), label, weight))
            return
        weight = None if weight is None else self._own(weight)
        if isinstance(objective, LambdarankObjective) and self._binned.n_rows > 0:
            objective = self._own_queries(objective)
        elif isinstance(objective, RankingObjective):  # random numbers are those of rows among all
            self._local.set_gradients(*self._query_gradients(objective, weight))
            return
        self._local.compute_gradients(objective, self._own(label), weight)

    def _own(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return this worker's entries of labels and the like; the same array each time, which a device keeps."""
        held = self._taken.get(id(values))
        if held is None:
            if len(self._taken) >= MOST_TAKEN:
                self._taken.clear()
            held = self._taken[id(values)] = values, self._rows.take(values)
        return held[1]

    @lazy
    def _numbers(self) -> NDArray[np.uint32]:
        """Numbers of this worker's rows among all."""
        return self._rows.own.astype(np.uint32)

    def _own_queries(self, objective: LambdarankObjective) -> LambdarankObjective:
        """Return the objective of this worker's queries; the same one for the same objective."""
        if self._ranking[0] is not objective:
            assert objective.queries is not None
            boundaries, ranges = objective.queries.boundaries, self._rows.ranges[self._rows.rank]
            numbers = [np.arange(*np.searchsorted(boundaries, pair)) for pair in ranges]
            own = copy.copy(objective)
            own.queries = objective.queries.take(np.concatenate(numbers), self._rows.own)
            self._ranking = objective, own
        own_queries = self._ranking[1]
        assert own_queries is not None
        return own_queries

    def _query_gradients(self, objective: RankingObjective, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Compute the gradients of this worker's queries, one after the other."""
        assert objective.queries is not None
        boundaries, scores = objective.queries.boundaries, self._local.scores()
        gradient, hessian = np.zeros_like(scores), np.zeros_like(scores)
        done = 0
        for first, last in self._rows.ranges[self._rows.rank]:
            start, stop = np.searchsorted(boundaries, (first, last)).tolist()
            for query, pair in enumerate(pairwise(boundaries[start : stop + 1].tolist()), start):
                here = slice(done + pair[0] - first, done + pair[1] - first)
                gradient[0, here], hessian[0, here] = objective.query_gradients(scores[0, here], query)
            done += last - first
        return (gradient, hessian) if weight is None else (gradient * weight, hessian * weight)

    def set_gradients(self, gradient: FloatArray, hessian: FloatArray) -> None:
        """Keep the gradients of this worker's rows."""
        self._local.set_gradients(*(np.ascontiguousarray(self._rows.take(each)) for each in (gradient, hessian)))

    def read_gradients(self) -> tuple[FloatArray, FloatArray]:
        """Return the gradients of all rows."""
        gradient, hessian = self._local.read_gradients()
        gathered = self._rows.gather_values(self._collective, np.concatenate([gradient, hessian]), "gradients")
        return gathered[: len(gradient)], gathered[len(gradient) :]

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose rows by their numbers among all."""
        self._bag = None
        if isinstance(draw, Goss):
            importance = row_importance(*self._local.read_gradients())
            self._bag = goss_bag(self._collective, draw, importance, self._rows.own, self.n_rows)
        elif draw is not None:
            label = None if draw.label is None else self._own(draw.label)
            numbers = self._numbers if draw.query is None else self._own(draw.query)
            self._bag = self._tree.draw(replace(draw, label=label, query=numbers), self.gather)
        if self._bag is None:
            return self.n_rows
        return int(self.gather(np.array([self._bag.n_in_bag])).sum())

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the trees to come."""
        self._search.choose_features(features)

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round the gradients of this worker's rows, by the scale of all rows."""
        self._quantization = self._tree.begin(self._local, output, self._bag, high_precision, self.gather)
        return self._quantization

    # --- growth -----------------------------------------------------------------------------------------------------

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree on the chosen rows of all workers."""
        room = self._search.set_slots(n_slots)
        self._tree.n_leaves = n_slots
        self._outputs = None
        self._left_rows: dict[tuple[int, int], int] = {}
        self._sets = np.zeros((0, self._binned.set_words), np.uint32)
        root = self._tree.root
        figures = [root.n_rows, root.gradient, root.hessian], [*self._tree.largest, MOST_SLOTS - room]
        sums, (*self._largest, without) = self._collective.sums_and_largest(*figures, "sums of the root")
        self._n_slots = MOST_SLOTS - int(without)
        self._root = Root(sums[0], sums[1], sums[2], 0, self._n_slots if self._n_slots < n_slots else None)
        return self._root

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Add up the histograms of all workers, a section of the features on each."""
        local, n_rows = self._tree.local(nodes), nodes.end - nodes.begin
        self._search.sum_nodes(self._collective, self._tree, local, n_rows, self._quantization.n_sums, slots)

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Subtract in this worker's section."""
        self._search.subtract(parent_slots, child_slots)

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Search this worker's section, and take the best of all workers'."""
        of_nodes = NodeSums(nodes, slots, gradient, hessian)
        found = self._search.find(of_nodes, self._quantization, rules, context, len(self._sets))
        received = self._collective.all_gather(found.to_bytes(), "best splits")
        return self._take_best(nodes, Candidates.best_of(received, len(slots), self._binned.set_words))

    def _take_best(self, nodes: Segments, best: Candidates) -> NDArray[np.void]:
        """Note the rows that go left at the best splits of nodes, and the sets of these; return the splits."""
        keys = zip(nodes.begin.tolist(), nodes.depth.tolist(), strict=True)
        self._left_rows.update(zip(keys, best.n_left.tolist(), strict=True))
        self._sets = np.concatenate([self._sets, best.sets])
        return best.splits

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets of the growing tree."""
        return self._sets[numbers]

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move this worker's rows; how many of all go left the histograms have said, or the others are asked."""
        if self._outputs is not None or not self._search.counts_rows:
            local = self._tree.local(nodes)
            mine = self._tree.divide(local, splits, self._sets)
            n_left: NDArray[np.int64] = self.gather(mine).sum(axis=0)
            self._tree.enter_children(nodes, local, mine, n_left)
            return n_left
        keys = zip(nodes.begin.tolist(), nodes.depth.tolist(), strict=True)
        n_left = np.array([self._left_rows[key] for key in keys], np.int64)
        self._tree.partition(nodes, splits, self._sets, n_left)
        return n_left

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a round step by step."""
        return expand_in_steps(self, batch, rules, max_depth)

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
        """Grow the tree by compiled rounds, where nodes have no contexts and all their histograms fit."""
        if not self._compiled or contexts is not None or self._n_slots < limits.n_leaves:
            return None
        from hornbeam.distributed.growth import WorkersGrowth

        growth = WorkersGrowth(self._collective, self._tree, self._search, self._quantization, rules, limits)
        growth.grow(root, self._n_slots, self._binned.set_words)
        nodes = growth.nodes
        ends = np.flatnonzero(nodes["left"] < 0)
        segments = Segments(nodes["begin"][ends], nodes["end"][ends], nodes["depth"][ends])
        self._tree.set_places(segments, growth.table.places[ends])
        self._sets = growth.table.sets
        return GrownAhead(nodes)

    def grow_outputs(self, rules: SplitRules, limits: GrowthLimits, n_slots: int, learning_rate: float) -> tuple[()]:
        """Leave all to the grower."""
        return ()

    def begin_outputs(self, n_slots: int, high_precision: bool, min_data_in_leaf: int) -> OutputsRoot:
        """Start a tree of all outputs on the chosen rows of all workers."""
        self._tree.n_leaves = n_slots
        mine = self._tree.begin_outputs(self._local, self._bag, high_precision, min_data_in_leaf, self.gather)
        n_outputs = len(mine.quantizations)
        largest = [self._tree.choose_output(output) for output in range(n_outputs)]
        figures = [mine.n_rows, *mine.sums.ravel().tolist()], largest
        (n_rows, *sums), self._largest_of = self._collective.sums_and_largest(*figures, "sums of the root")
        self._root = Root(n_rows, 0, 0)
        self._sets = np.zeros((0, self._binned.set_words), np.uint32)
        self._outputs = replace(mine, n_rows=n_rows, sums=np.array(sums, np.int64).reshape(n_outputs, 2))
        self._search.set_slots(n_slots * self._outputs.n_histograms)
        return self._outputs

    def grow_shared(self, *arguments: object) -> None:
        """Leave that to the operations below."""

    def build_outputs(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Add up the histograms of all workers, a section of the features on each."""
        assert isinstance(self._search, SectionSearch)
        received = self._tree.exchange_outputs(self._collective, self._tree.local(nodes), slots.shape[1])
        self._search.take(received, 2, slots.reshape(-1))

    def find_output_splits(
        self, nodes: Segments, slots: NDArray[np.int32], sums: NDArray[np.int64], rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Search this worker's section, and take the best of all workers'."""
        assert self._outputs is not None and isinstance(self._search, SectionSearch)
        splits, left = self._search.find_outputs(slots, sums, self._outputs, rules)
        received = self._collective.all_gather(splits.tobytes() + left.tobytes(), "best splits")
        return best_of_outputs(received, len(slots), sums.shape[1])

    def choose_output(self, output: int) -> None:
        """Choose the gradients that leaves are summed of."""
        self._tree.choose_output(output)
        self._largest = self._largest_of[output]

    def replay(self, nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Replay the growth."""
        return self._local.replay(nodes, limits)

    # --- leaves -----------------------------------------------------------------------------------------------------

    def assign_leaves(self, nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Note the leaves of this worker's rows."""
        self._tree.assign(nodes, leaves)

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Note the leaves of this worker's other rows."""
        self._tree.find_others(tree)

    def chosen_rows(self) -> ChosenRows:
        """Return this worker's chosen rows."""
        return self._tree.chosen_rows()

    def row_leaves(self) -> NDArray[np.uint16]:
        """Return the leaves of this worker's rows."""
        return self._tree.leaf.astype(np.uint16)

    def leaves_in(self, valid: int, tree: BinnedTree) -> NDArray[np.uint16]:
        """Route this worker's rows of a validation set."""
        return self._local.leaves_in(valid, tree)

    def leaf_sums(self, n_leaves: int) -> tuple[FloatArray, FloatArray]:
        """Sum gradients and hessians per leaf, over all workers."""
        exponents = [exact_exponent(largest, self._root.n_rows) for largest in self._largest]
        totals = self._tree.leaf_integers(exponents, n_leaves)
        self._collective.all_reduce(totals, "sums of leaves")
        gradient, hessian = totals.T.astype(np.float64)
        return gradient * 2.0 ** -exponents[0], hessian * 2.0 ** -exponents[1]

    def renew_leaves(
        self,
        output: int,
        percentile: float,
        label: FloatArray,
        weight: FloatArray | None,
        n_leaves: int,
        logcosh: bool = False,
    ) -> FloatArray:
        """Find the percentile, or the minimum, of each leaf's residuals on all workers."""
        mine = self._own(label), None if weight is None else self._own(weight)
        scores, label, weight, leaf = rows_in_bag(self._bag, self._local.scores()[output], *mine, self._tree.leaf)
        shared = SharedLeaves(self._collective, label - scores, weight, leaf, n_leaves)
        return shared.minima() if logcosh else shared.percentiles(percentile)

    def leaf_values_later(self, n_leaves: int, rules: SplitRules, learning_rate: float) -> None:
        """Leave that to the host."""

    # --- evaluation -------------------------------------------------------------------------------------------------

    def evaluate(
        self, metric: Metric, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None = None
    ) -> list[tuple[str, float]] | None:
        """Add up means of losses over workers; leave other metrics to the caller, who asks for all scores."""
        if not isinstance(metric, MeanLoss):
            return None
        (label, weight), rows = metric.with_weights(metric.targets(dataset), dataset.weight), self._map_of(valid)
        scores = self._local.scores() if valid < 0 else self._local.valid_scores(valid)
        if forest is not None:
            scores = scores.copy()
            average_scores(scores, forest.init_scores, forest.n_iterations)
        if metric.for_classes:
            check_classes(label, len(scores))
        arithmetic = arithmetic_on("reference", 1)
        predictions = scores if metric.uses_raw_scores else arithmetic.transform(objective, scores)
        losses = metric.losses(rows.take(label), predictions)
        if weight is not None:
            losses = losses * rows.take(weight)
        is_wrong = self.gather(np.array([not np.isfinite(losses).all()])).any()
        if is_wrong:
            return [(metric.name, metric.finish(float("nan")))]
        total = exact_sum(losses, self.gather)
        return [(metric.name, metric.finish(total / (dataset.n_rows if weight is None else exact_sum(weight))))]

    def close(self) -> None:
        """Free what the local engine holds."""
        self._local.close()

"""The reference engine: NumPy, naive, slow, obviously right. It defines every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization, alone, exact_exponent, round_gradients
from hornbeam.data.binning import BinnedData
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import Objective
from hornbeam.objectives.logcosh_leaves import leaf_minima
from hornbeam.objectives.percentiles import leaf_percentiles
from hornbeam.trees.bagging import ROOT_DEPTH, Bag, Draw, Goss, draw_bag, goss_bag, rows_in_bag
from hornbeam.trees.categorical_splits import best_level_set, set_record
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.histogram_pool import host_slot_bytes
from hornbeam.trees.output_splits import OutputsRoot, best_output_split, find_counter
from hornbeam.trees.records import BinnedTree, ChosenRows, ContextsAhead, ForestMean, LeafRenewal, Root, Segments
from hornbeam.trees.replay import replay
from hornbeam.trees.splitting import NodeContext, SplitRules, best_split
from hornbeam.trees.steps import expand_in_steps
from hornbeam.trees.tree import bits_to_codes, code_bits


class ReferenceEngine:
    """Training state in plain NumPy arrays; one row list, permuted in place."""

    rounds_are_costly = False
    nodes_are_costly = False
    arrays = None
    device_name = "cpu"
    host_device = "reference"
    has_own_memory = False

    def __init__(self, binned: BinnedData) -> None:
        self.binned = binned
        self.n_rows = binned.n_rows
        self.slot_bytes = host_slot_bytes(binned)
        self._offsets = binned.offsets.astype(np.int64)
        self._valid: list[tuple[BinnedData, NDArray[np.float64]]] = []
        self._bag: Bag | None = None
        self._features: NDArray[np.int32] | None = None

    def set_scores(self, scores: NDArray[np.float64], valid: int = -1) -> None:
        """Set the raw scores."""
        if valid >= 0:
            self._valid[valid] = self._valid[valid][0], scores.copy()
            return
        self._scores = scores.copy()

    def scores(self) -> NDArray[np.float64]:
        """Return the raw scores."""
        return self._scores

    def compute_gradients(
        self, objective: Objective, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> None:
        """Compute gradients and hessians from the scores, by the objective's definition."""
        self._gradient, self._hessian = objective.gradients(self._scores, label, weight)

    def set_gradients(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> None:
        """Take gradients and hessians from elsewhere."""
        self._gradient, self._hessian = gradient, hessian

    def read_gradients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what there is."""
        return self._gradient, self._hessian

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose rows by the definition."""
        self._bag = None
        if isinstance(draw, Goss):
            self._bag = goss_bag(draw, self._gradient, self._hessian)
        elif draw is not None:
            self._bag = draw_bag(draw, self.n_rows)
        return self.n_rows if self._bag is None else self._bag.n_in_bag

    def _chosen(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the chosen rows, as they count."""
        return values if self._bag is None else self._bag.take(values)

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the trees to come."""
        self._features = features

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round one output's gradients to fixed point."""
        self._output = output
        rows = slice(None) if self._bag is None else self._bag.inside
        self._g, self._h = np.zeros(self.n_rows, np.int64), np.zeros(self.n_rows, np.int64)
        self._g[rows], self._h[rows], self._quantization = round_gradients(
            self._chosen(self._gradient[output]), self._chosen(self._hessian[output]), high_precision
        )
        return self._quantization

    def begin_tree(self, n_slots: int) -> Root:
        """Start with all chosen rows in one node."""
        self._rows = np.arange(self.n_rows) if self._bag is None else self._bag.inside.astype(np.intp)
        self._histograms: dict[int, NDArray[np.int64]] = {}
        self._sets: list[NDArray[np.int64]] = []  # one a node searched, empty where its split is one of numbers
        depth = 0 if self._bag is None else ROOT_DEPTH
        return Root(len(self._rows), int(self._g.sum()), int(self._h.sum()), depth)

    def _codes(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the histogram entry of every (row, used feature), int64 (len(rows), n_used)."""
        n_used = len(self.binned.used)
        return self.binned.bins[rows, :n_used].astype(np.int64) + self._offsets[:n_used]

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum gradients and hessians per bin, one node after the other."""
        for begin, end, slot in zip(nodes.begin, nodes.end, slots, strict=True):
            rows = self._rows[begin:end]
            codes = self._codes(rows)
            histogram = np.zeros((int(self._offsets[-1]), 2), np.int64)
            for feature in range(codes.shape[1]):
                np.add.at(histogram[:, 0], codes[:, feature], self._g[rows])
                np.add.at(histogram[:, 1], codes[:, feature], self._h[rows])
            self._histograms[int(slot)] = histogram

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Turn each parent's histogram into that of the other child."""
        for parent, child in zip(parent_slots, child_slots, strict=True):
            self._histograms[int(parent)] = self._histograms[int(parent)] - self._histograms[int(child)]

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best split of each node; rows are counted exactly."""
        splits = np.zeros(len(slots), SPLIT)
        offsets = self._offsets
        n_numeric, first_set = self.binned.n_numeric, len(self._sets)
        chosen = np.arange(self.binned.n_used, dtype=np.int32) if self._features is None else self._features
        for i, slot in enumerate(slots):
            codes = self._codes(self._rows[nodes.begin[i] : nodes.end[i]])
            counts = np.bincount(codes.ravel(), minlength=int(offsets[-1]))
            histogram = self._histograms[int(slot)]
            splits[i] = best_split(
                histogram,
                counts,
                offsets[: n_numeric + 1],
                self.binned.has_missing[:n_numeric],
                self._quantization,
                rules,
                context,
                i,
                chosen[chosen < n_numeric],
            )
            own_set = np.empty(0, np.int64)
            for feature in chosen[chosen >= n_numeric].tolist():
                if context is not None and not context.allows(i, feature):
                    continue
                own = slice(offsets[feature], offsets[feature + 1])
                found = best_level_set(
                    histogram[own], counts[own], self._quantization, rules, context, i, feature
                )  # fmt: skip
                if found.gain > splits[i]["gain"]:
                    splits[i], own_set = set_record(found, feature, first_set + i), found.bins
            self._sets.append(own_set)
        return splits

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Reorder each node's rows: left ones first."""
        n_left = np.zeros(len(splits), np.int64)
        for i, (begin, end, split) in enumerate(zip(nodes.begin, nodes.end, splits, strict=True)):
            rows = self._rows[begin:end]
            left_set = None
            if split["feature"] >= self.binned.n_numeric:
                left_set = self.left_sets(split["bin"][None])[0]
            left = bins_go_left(self.binned, rows, split["feature"], split["bin"], split["missing_left"], left_set)
            self._rows[begin:end] = np.concatenate([rows[left], rows[~left]])
            n_left[i] = np.count_nonzero(left)
        return n_left

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return sets of the growing tree as bits."""
        n_words = self.binned.set_words
        return np.array([code_bits(self._sets[number], n_words) for number in numbers]).reshape(-1, n_words)

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
    ) -> None:
        """Leave the choice to the grower."""

    def grow_outputs(self, rules: SplitRules, limits: GrowthLimits, n_slots: int, learning_rate: float) -> tuple[()]:
        """Leave all to the grower."""
        return ()

    def begin_outputs(self, n_slots: int, high_precision: bool, min_data_in_leaf: int) -> OutputsRoot:
        """Round all outputs, and start with all chosen rows in one node."""
        how, rounded = [], []
        for output in range(len(self._gradient)):
            how.append(self.quantize(output, high_precision))
            rounded.append((self._g, self._h))
        counter = find_counter(how, min_data_in_leaf)
        sums = np.array([[g.sum(), h.sum()] for g, h in rounded])
        if counter == len(rounded):
            rounded.append((np.zeros(self.n_rows, np.int64), np.ones(self.n_rows, np.int64)))
        self._of_outputs, self._quantizations = rounded, tuple(how)
        root = self.begin_tree(n_slots)
        return OutputsRoot(root.n_rows, sums, self._quantizations, counter, root.depth)

    def grow_shared(self, *arguments: object) -> None:
        """Leave that to the operations below."""

    def build_outputs(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum one histogram after the other."""
        for number, rounded in enumerate(self._of_outputs):
            self._g, self._h = rounded
            self.build_histograms(nodes, slots[:, number])

    def find_output_splits(
        self, nodes: Segments, slots: NDArray[np.int32], sums: NDArray[np.int64], rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Find the best split of each node; rows are counted exactly."""
        splits, left = np.zeros(len(slots), SPLIT), np.zeros(sums.shape, np.int64)
        chosen = np.arange(self.binned.n_used, dtype=np.int32) if self._features is None else self._features
        for i, own in enumerate(slots[:, : sums.shape[1]]):
            codes = self._codes(self._rows[nodes.begin[i] : nodes.end[i]])
            counts = np.bincount(codes.ravel(), minlength=int(self._offsets[-1]))
            histograms = np.stack([self._histograms[int(slot)] for slot in own])
            splits[i], left[i] = best_output_split(
                histograms, counts, self._offsets, self.binned.has_missing, self._quantizations, rules, chosen
            )
        return splits, left

    def choose_output(self, output: int) -> None:
        """Choose the gradients that leaves are summed of."""
        self._output = output

    def replay(self, nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Replay the growth by the definition."""
        return replay(nodes, limits)

    def assign_leaves(self, nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Write each row's leaf number."""
        self._leaf = np.full(self.n_rows, -1, np.int64)
        for begin, end, leaf in zip(nodes.begin, nodes.end, leaves, strict=True):
            self._leaf[self._rows[begin:end]] = leaf

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Route all rows, and note the leaves of those that were not chosen."""
        self._leaf = np.where(self._leaf < 0, route(self.binned, tree), self._leaf)

    def chosen_rows(self) -> ChosenRows:
        """Return the chosen rows."""
        gradient, hessian = (self._chosen(values[self._output]) for values in (self._gradient, self._hessian))
        return ChosenRows(None if self._bag is None else self._bag.inside, gradient, hessian)

    def row_leaves(self) -> NDArray[np.uint16]:
        """Return the leaf numbers, those of rows that have none as 65535."""
        return self._leaf.astype(np.uint16)

    def leaves_in(self, valid: int, tree: BinnedTree) -> NDArray[np.uint16]:
        """Route the rows of a validation set."""
        return route(self._valid[valid][0], tree).astype(np.uint16)

    def leaf_sums(self, n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients and hessians per leaf in wide fixed point."""
        sums = []
        leaf = self._leaf if self._bag is None else self._leaf[self._bag.inside]
        for values in (self._chosen(self._gradient[self._output]), self._chosen(self._hessian[self._output])):
            exponent = exact_exponent(float(np.max(np.abs(values))), len(values))
            total = np.zeros(n_leaves, np.int64)
            np.add.at(total, leaf, np.rint(values * 2.0**exponent).astype(np.int64))
            sums.append(total.astype(np.float64) * 2.0**-exponent)
        return sums[0], sums[1]

    def renew_leaves(
        self,
        output: int,
        percentile: float,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        n_leaves: int,
        logcosh: bool = False,
    ) -> NDArray[np.float64]:
        """Find the percentile, or the minimum, of each leaf's residuals, one leaf after the other."""
        scores, label, weight, leaf = rows_in_bag(self._bag, self._scores[output], label, weight, self._leaf)
        if logcosh:
            return leaf_minima(label - scores, weight, leaf, n_leaves)
        return leaf_percentiles(label - scores, weight, leaf, n_leaves, percentile)

    def leaf_values_later(self, n_leaves: int, rules: SplitRules, learning_rate: float) -> None:
        """Leave that to the host."""

    def add_leaf_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Add each row's leaf value to its score."""
        assert leaf_value is not None
        self._scores[output] += leaf_value[self._leaf]

    def add_row_values(self, output: int, values: NDArray[np.float64], valid: int = -1) -> None:
        """Add to the scores."""
        scores = self._valid[valid][1] if valid >= 0 else self._scores
        scores[output] += values

    def add_valid(self, binned: BinnedData, scores: NDArray[np.float64]) -> int:
        """Keep a validation set."""
        self._valid.append((binned, scores.copy()))
        return len(self._valid) - 1

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Route the rows of a validation set, or of the training set, through a tree and add its values."""
        binned, scores = self._valid[valid] if valid >= 0 else (self.binned, self._scores)
        scores[output] += tree.leaf_value[route(binned, tree)]

    def valid_scores(self, valid: int) -> NDArray[np.float64]:
        """Return the scores of a validation set."""
        return self._valid[valid][1]

    def evaluate(
        self, metric: Metric, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None = None
    ) -> None:
        """Leave it to the caller: the scores are in the host's memory."""

    def gather(self, figures: NDArray[Any]) -> NDArray[Any]:
        """Return them: this engine has all rows."""
        return alone(figures)

    def close(self) -> None:
        """Nothing to free."""


def bins_go_left(
    binned: BinnedData,
    rows: NDArray[np.intp],
    feature: int,
    bin_: int,
    missing_left: bool,
    left_set: NDArray[np.uint32] | None = None,
) -> NDArray[np.bool_]:
    """Say which rows go left at a split: `Tree.goes_left` in terms of bins.

    left_set  uint32 (n_words,)  in   bits of the bins that go left, where the feature is categorical
    """
    codes = binned.bins[rows, feature].astype(np.int64)
    if feature >= binned.n_numeric:
        assert left_set is not None
        return np.isin(codes, bits_to_codes(left_set))
    return np.where(codes == binned.n_value_bins[feature], missing_left, codes <= bin_)


def route(binned: BinnedData, tree: BinnedTree) -> NDArray[np.int64]:
    """Return the leaf of every row, int64 (n_rows,)."""
    leaf = np.zeros(binned.n_rows, np.int64)
    waiting = {0: np.arange(binned.n_rows)} if len(tree.feature) else {}
    while waiting:
        node, rows = waiting.popitem()
        left_set = None if tree.left_sets is None else tree.left_sets[node]
        left = bins_go_left(binned, rows, tree.feature[node], tree.bin[node], tree.missing_left[node], left_set)
        for child, part in ((int(tree.left[node]), rows[left]), (int(tree.right[node]), rows[~left])):
            if child >= 0:
                waiting[child] = part
            else:
                leaf[part] = ~child
    return leaf

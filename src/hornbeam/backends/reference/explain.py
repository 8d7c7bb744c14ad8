"""Explanations in NumPy: the definition of every operation and of its order, see trees/shapley/plan.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.shapley.background_game import coalition_weights, most_parted
from hornbeam.trees.shapley.plan import CLOSE, CLOSE_LEAVES, TO_FIRST, TO_SECOND, PathFeatures, ShapleyPlan, TreePlan
from hornbeam.trees.tree import Tree

FloatArray = NDArray[np.float64]


def add_contributions(
    trees: Sequence[Tree], plan: ShapleyPlan, chosen: range, n_outputs: int, block: FloatArray, out: FloatArray
) -> None:
    """Add the path-dependent Shapley values of the chosen trees.

    block   float64 (n_rows, n_features)             in
    out     float64 (n_rows, n_outputs, n_features)  in, out
    """
    for i in chosen:
        sums, _ = tree_sums(plan.trees[i], row_codes(trees[i], plan.trees[i], block), None)
        for feature, values in zip(plan.trees[i].features, sums, strict=True):
            out[:, i % n_outputs, feature] += values


def add_interactions(
    trees: Sequence[Tree],
    plan: ShapleyPlan,
    chosen: range,
    n_outputs: int,
    block: FloatArray,
    out: FloatArray,
    pairs_out: FloatArray,
) -> None:
    """Add the Shapley values, and the derivatives for pairs (feature of a split, feature above it), of chosen trees.

    block      float64 (n_rows, n_features)                         in
    out        float64 (n_rows, n_outputs, n_features)              in, out
    pairs_out  float64 (n_rows, n_outputs, n_features, n_features)  in, out
    """
    for i in chosen:
        own, paths, output = plan.trees[i], plan.paths[i], i % n_outputs
        sums, pair_sums = tree_sums(own, row_codes(trees[i], own, block), paths)
        for feature, values in zip(own.features, sums, strict=True):
            out[:, output, feature] += values
        for (slot, other), values in zip(paths.pairs, pair_sums, strict=True):
            pairs_out[:, output, own.features[slot], own.features[other]] += values


def row_codes(tree: Tree, plan: TreePlan, block: FloatArray) -> NDArray[np.uint8]:
    """Return what every row would do at every split of the plan, uint8 (n_splits, n_rows): 1, 0 or 2."""
    codes = np.empty((plan.n_splits, len(block)), np.uint8)
    for number, split in enumerate(plan.split.tolist()):
        codes[number] = tree.goes_left(split, block[:, tree.feature[split]]) ^ plan.is_right[number]
        before = int(plan.previous[number])
        if before >= 0:
            codes[number, codes[before >> 1] != 1 - (before & 1)] = 2
    return codes


def tree_sums(
    plan: TreePlan, codes: NDArray[np.uint8], paths: PathFeatures | None
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the sums of a tree's features, and of its pairs of features where paths are given, each float64 (n_rows,).

    codes  uint8 (n_splits, n_rows)  in
    """
    n_rows = codes.shape[1]
    points, weights = plan.rule
    totals: list[list[FloatArray]] = []
    for q in range(0, plan.n_points, 2):
        sums = [np.zeros(n_rows) for _ in plan.features]
        pair_sums = [] if paths is None else [np.zeros(n_rows) for _ in paths.pairs]
        walks = [_Walk(plan, codes, float(points[q + i]), float(weights[q + i])) for i in range(2)]
        for entry in plan.step.tolist():
            number, kind = divmod(entry, 8)
            if kind in (TO_FIRST, TO_SECOND):
                for walk in walks:
                    walk.go_down(number, kind)
                continue
            parts = [walk.close(number, kind) for walk in walks]
            sums[plan.slot[number]] += parts[0] + parts[1]
            if paths is not None:
                for entry in range(paths.start[number], paths.start[number + 1]):
                    rates = [walk.rate(int(paths.edge[entry])) for walk in walks]
                    pair_sums[paths.pair[entry]] += parts[0] * rates[0] + parts[1] * rates[1]
        totals.append(sums + pair_sums)
    found = totals[0]
    for part in totals[1:]:
        found = [total + more for total, more in zip(found, part, strict=True)]
    return found[: len(plan.features)], found[len(plan.features) :]


class _Walk:
    """The walk at one point t of the quadrature, for all rows."""

    def __init__(self, plan: TreePlan, codes: NDArray[np.uint8], t: float, weight: float) -> None:
        self.plan, self.codes, self.t, self.u = plan, codes, t, 1.0 - t
        self.G = {0: np.full(codes.shape[1], weight)}  # by level
        self.H: dict[int, FloatArray] = {}  # by room

    def _ratio(self, number: int) -> float:
        """Return r."""
        merged = float(self.plan.merged[number])
        return 1.0 if self.plan.previous[number] < 0 else 1.0 / (merged * self.u + self.t)

    def _chance(self, number: int, child: int) -> Any:
        """Return f (child 0) or 1 - f (child 1)."""
        share, ratio = float(self.plan.share[number, child]), self._ratio(number)
        away = float(self.plan.merged[number]) * share * self.u
        cases = {child: away * ratio, 1 - child: (away + self.t) * ratio, 2: share}
        return np.array([cases[0], cases[1], cases[2]])[self.codes[number]]

    def _slope(self, number: int) -> Any:
        """Return f'."""
        merged, ratio = float(self.plan.merged[number]), self._ratio(number)
        first, second = (merged * float(share) * ratio * ratio for share in self.plan.share[number])
        return np.array([-first, second, 0.0])[self.codes[number]]

    def go_down(self, number: int, child: int) -> None:
        level = int(self.plan.level[number])
        self.G[level + 1] = self.G[level] * self._chance(number, child)

    def close(self, number: int, kind: int) -> FloatArray:
        """Return c, and leave H of the split in its room."""
        room, value = int(self.plan.room[number]), self.plan.value[number]
        first = np.full(self.codes.shape[1], value[0]) if kind == CLOSE_LEAVES else self.H[room]
        second = self.H[room + 1] if kind == CLOSE else np.full(self.codes.shape[1], value[1])
        difference = first - second
        self.H[room] = second + self._chance(number, 0) * difference
        found: FloatArray = self.G[int(self.plan.level[number])] * (self._slope(number) * difference)
        return found

    def rate(self, edge: int) -> FloatArray:
        """Return the logarithmic derivative of the chance to come through the splits of a feature, `edge` the last."""
        number, child = edge >> 1, edge & 1
        merged = float(self.plan.merged[number]) * float(self.plan.share[number, child])
        on_path = (1.0 - merged) / (merged * self.u + self.t)
        return np.where(self.codes[number] == 1 - child, on_path, -1.0 / self.u)


# --- background rows --------------------------------------------------------------------------------------------------


def add_background(
    trees: Sequence[Tree], chosen: range, n_outputs: int, block: FloatArray, background: FloatArray, out: FloatArray
) -> None:
    """Add the Shapley values against background rows, summed over these, of the chosen trees.

    block       float64 (n_rows, n_features)             in
    background  float64 (n_background, n_features)       in
    out         float64 (n_rows, n_outputs, n_features)  in, out
    """
    for i in chosen:
        features = np.unique(trees[i].feature)
        lefts = [
            np.array([trees[i].goes_left(split, rows[:, f]) for split, f in enumerate(trees[i].feature)], np.bool_)
            for rows in (block, background)
        ]
        for row in range(len(block)):
            game = _Game(trees[i], coalition_weights(most_parted(trees[i])))
            if trees[i].n_splits:
                for other in range(len(background)):
                    game.visit(0, 0, 0, lefts[0][:, row], lefts[1][:, other], {})
            for feature in features:
                out[row, i % n_outputs, feature] += game.value.get(int(feature), 0.0)


class _Game:
    """The sums of one explained row."""

    def __init__(self, tree: Tree, weights: FloatArray) -> None:
        self.tree, self.weights = tree, weights
        self.value: dict[int, float] = {}

    def visit(
        self, node: int, p: int, n: int, left: NDArray[np.bool_], other_left: NDArray[np.bool_], taken: dict[int, bool]
    ) -> tuple[float, float]:
        """Play the game below a node; `taken` says of each feature whether it is x's."""
        tree = self.tree
        if node < 0:
            value = float(tree.leaf_value[~node])
            return value * float(self.weights[p, n]), value * float(self.weights[n, p])
        feature = int(tree.feature[node])
        children = [int(tree.left[node] if way else tree.right[node]) for way in (left[node], other_left[node])]
        if feature in taken or children[0] == children[1]:
            child = children[0] if taken.get(feature, True) else children[1]
            return self.visit(child, p, n, left, other_left, taken)
        one = self.visit(children[0], p + 1, n, left, other_left, {**taken, feature: True})
        two = self.visit(children[1], p, n + 1, left, other_left, {**taken, feature: False})
        self.value[feature] = self.value.get(feature, 0.0) + (one[0] - two[1])
        return one[0] + two[0], one[1] + two[1]

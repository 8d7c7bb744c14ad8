"""Outputs of a tree's leaves from new data, where they depend on other nodes: path smoothing, monotone constraints.

The rules are those of training (contexts.py), applied to the tree from the root down, split after split in the order in
which training made them: the output of a node is pulled to its parent's and kept between the parent's bounds, and a
split by a constrained feature bounds what is below it. Sums over nodes are of rounded gradients, those of the leaves of
full precision, so the data that a tree was grown from give its values again.

New data may be at odds with a constraint, which training never is, and leave nodes empty:

    outputs of two children the wrong way round    both lie on one side of their middle
    a child that no row reaches                    bounds nothing; the values below it stay, as far as `keep_order` lets
                                                   them
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import round_gradients
from hornbeam.trees.contexts.leaf_boxes import LeafBoxes, as_bits
from hornbeam.trees.splitting import SplitRules, leaf_output, node_output
from hornbeam.trees.tree import Tree, code_bits

FloatArray = NDArray[np.float64]


class TreeShape:
    """A tree numbered as growth numbers its nodes: split i has the children 2 i + 1 and 2 i + 2, the root is 0.

    Attributes
    ----------
    of_split, of_leaf
        int64 (n_splits,), (n_leaves,): their nodes.
    parent
        int64 (n_nodes,): the split above each node, -1 for the root.
    sign
        list of n_splits: the monotone constraint of each split's feature.
    """

    def __init__(self, tree: Tree, sign: NDArray[np.int8], use_missing: bool = True) -> None:
        self._tree, self._use_missing = tree, use_missing
        self.of_split, self.of_leaf = np.zeros(tree.n_splits, np.int64), np.zeros(tree.n_leaves, np.int64)
        self.n_nodes = 2 * tree.n_splits + 1
        self.parent = np.repeat(np.arange(-1, tree.n_splits), 2)[1:]
        for split in range(tree.n_splits):
            for side, child in enumerate((int(tree.left[split]), int(tree.right[split]))):
                owner, number = (self.of_split, child) if child >= 0 else (self.of_leaf, ~child)
                owner[number] = 2 * split + 1 + side
        codes = tree.left_codes or (None,) * tree.n_splits
        self._is_set = [own is not None for own in codes]
        self.sign = [0 if is_set else int(sign[f]) for f, is_set in zip(tree.feature, self._is_set, strict=True)]

    def add_up(self, of_leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums of all nodes, int64 (n_nodes, ...), from those of the leaves."""
        total = np.zeros((self.n_nodes, *of_leaves.shape[1:]), np.int64)
        total[self.of_leaf] = of_leaves
        for split in range(self._tree.n_splits - 1, -1, -1):  # children have higher numbers
            total[self.of_split[split]] = total[2 * split + 1] + total[2 * split + 2]
        return total

    def boxes(self) -> tuple[LeafBoxes, list[tuple[int, int, int, int, bool, int | None]]]:
        """Return the box of the root, and for each split what LeafBoxes.split takes.

        Bins are ranks among the tree's own thresholds; features of numbers come first.
        """
        tree = self._tree
        numeric = sorted({int(f) for f, is_set in zip(tree.feature, self._is_set, strict=True) if not is_set})
        categorical = sorted(set(tree.feature.tolist()).difference(numeric))
        place = {feature: i for i, feature in enumerate([*numeric, *categorical])}
        bounds = {f: np.unique(tree.threshold[tree.feature == f]) for f in numeric}
        sizes = [len(own) + (own[-1] < np.inf) for own in bounds.values()]
        sign = np.zeros(len(place), np.int8)
        for feature, own in zip(tree.feature.tolist(), self.sign, strict=True):
            sign[place[feature]] = own
        made = LeafBoxes(sign, np.array(sizes, np.int32), self._use_missing)
        splits = []
        for split, feature in enumerate(tree.feature.tolist()):
            rank = int(np.searchsorted(bounds.get(feature, np.empty(0)), tree.threshold[split]))
            node = int(self.of_split[split])
            codes = tree.left_codes[split] if tree.left_codes is not None else None
            left_set = None if codes is None else as_bits(code_bits(codes, int(codes.max(initial=0)) // 32 + 1))
            splits.append((node, 2 * split + 1, place[feature], rank, bool(tree.missing_left[split]), left_set))
        return made, splits

    def order(self) -> NDArray[np.bool_]:
        """Return which leaves must not exceed which: bool (n_leaves, n_leaves), [a, b]: value of a <= value of b."""
        boxes, splits = self.boxes()
        for split in splits:
            boxes.split(*split)
        place_of = {node: place for place, node in enumerate(boxes.leaves)}
        places = [place_of[node] for node in self.of_leaf.tolist()]
        found = np.zeros((len(places), len(places)), np.bool_)
        for leaf, place in enumerate(places):
            found[:, leaf] = boxes.below(place)[places]
        return found


def outputs_in_context(
    tree: Tree,
    shape: TreeShape,
    leaf: NDArray[np.int64],
    counts: NDArray[np.bool_],
    gradient: FloatArray,
    hessian: FloatArray,
    leaf_sums: tuple[FloatArray, FloatArray],
    rules: SplitRules,
    more_l2: FloatArray,
    method: str,
    high_precision: bool,
) -> FloatArray:
    """Return what training would give the leaves of a tree, before shrinkage, float64 (n_leaves,).

    leaf               int64 (n_rows,)               in   leaf of each row
    counts             bool (n_rows,)                in   whether it has a weight
    gradient, hessian  float64 (n_rows,)             in
    leaf_sums          two of float64 (n_leaves,)    in   their sums, of full precision
    more_l2            float64 (n_splits,)           in   added to lambda_l2 in the outputs of a split's children
    method             monotone_constraints_method

    A leaf that no row reaches has no output that means anything.
    """
    n_leaves = tree.n_leaves
    if n_leaves == 1:
        return leaf_output(*leaf_sums, rules)
    g, h, how = round_gradients(gradient, hessian, high_precision)
    sums = np.zeros((n_leaves, 4), np.int64)
    np.add.at(sums, leaf, np.stack([g, h, np.ones_like(g), counts], axis=1))
    total = shape.add_up(sums)
    node_g = total[:, 0].astype(np.float64) * how.gradient_unit
    node_h = total[:, 1].astype(np.float64) * how.hessian_unit
    rows, reached = total[:, 2], total[:, 3] > 0
    lower, upper = np.full(shape.n_nodes, -math.inf), np.full(shape.n_nodes, math.inf)
    output = np.zeros(shape.n_nodes)
    output[0] = leaf_output(node_g[:1], node_h[:1], rules)[0]
    boxes, box_splits = shape.boxes() if method != "basic" else (None, [])
    silent = set(np.flatnonzero(~reached).tolist())
    for split in range(tree.n_splits):
        node, sign = int(shape.of_split[split]), shape.sign[split]
        both = slice(2 * split + 1, 2 * split + 3)
        bounds: tuple[FloatArray | float, FloatArray | float] = lower[node], upper[node]
        if boxes is not None and method == "advanced" and box_splits[split][5] is None:
            feature, bin_ = box_splits[split][2:4]
            table = boxes.side_bounds(node, output, silent).get(feature)  # type: ignore[arg-type]
            if table is not None:
                bounds = table[0::2, bin_], table[1::2, bin_]
        own = node_output(node_g[both], node_h[both], rows[both], output[node], *bounds, rules, more_l2[split])
        own[~reached[both]] = output[node]
        bounds_them = sign != 0 and bool(reached[both].all())
        middle = (own[0] + own[1]) / 2.0
        if boxes is not None and bounds_them and (own[1] - own[0]) * sign < 0.0:
            own[:] = middle
        output[both], lower[both], upper[both] = own, lower[node], upper[node]
        if boxes is not None:
            touched = boxes.split(*box_splits[split])
            for other in (2 * split + 1, 2 * split + 2, *touched):
                lower[other], upper[other] = boxes.bounds(other, output, silent)  # type: ignore[arg-type]
        elif bounds_them:
            low, high = (2 * split + 1, 2 * split + 2)[::sign]
            upper[low], lower[high] = min(upper[node], middle), max(lower[node], middle)
    nodes = shape.of_leaf
    if boxes is not None:
        closed = np.array([boxes.bounds(int(node), output, silent) for node in nodes])  # type: ignore[arg-type]
        lower[nodes], upper[nodes] = (closed.T + output[nodes]) / 2.0
    above = shape.parent[nodes]
    return node_output(
        *leaf_sums, rows[nodes], output[shape.of_split[above]], lower[nodes], upper[nodes], rules, more_l2[above]
    )


def keep_order(values: FloatArray, reached: NDArray[np.bool_], order: NDArray[np.bool_]) -> FloatArray:
    """Return values of leaves that keep an order, float64 (n_leaves,); those that keep it already are not changed.

    values   float64 (n_leaves,)          in
    reached  bool (n_leaves,)             in   leaves with rows of the new data; the others give way to them
    order    bool (n_leaves, n_leaves)    in   see TreeShape.order

    Then, where values are still the wrong way round, each becomes the middle between the highest value that must not
    exceed it and the lowest that it must not exceed.
    """
    low = _spread(np.where(reached, values, -np.inf), order)
    high = -_spread(np.where(reached, -values, -np.inf), order.T)
    with np.errstate(invalid="ignore"):  # -inf + inf, where nothing bounds a leaf
        between = np.where(low <= high, np.minimum(np.maximum(values, low), high), (low + high) / 2.0)
    given = np.where(reached, values, between)
    found: FloatArray = _spread(given, order) / 2.0 - _spread(-given, order.T) / 2.0
    return found


def _spread(values: FloatArray, order: NDArray[np.bool_]) -> FloatArray:
    """Return the highest value among a leaf's own and all that must not exceed it, at any remove."""
    while True:
        below = np.where(order, values[:, None], -np.inf).max(axis=0, initial=-np.inf)
        higher = np.maximum(values, below)
        if (higher == values).all():
            return values
        values = higher

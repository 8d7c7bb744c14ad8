r"""How the Shapley values of a tree are computed: the mathematics, and the plan that every device follows.

Let each feature be known with chance t, independently. A row that comes to a split whose feature is known goes where
its value says; else it goes to a child with the child's share of the training rows (its *cover*). E(t) is the mean
value of the leaf that it ends in, where feature i may have a chance t_i of its own. Owen's formula gives

    Shapley value of feature i            integral from 0 to 1 of  dE / dt_i         at t_1 = t_2 = ... = t
    Shapley interaction of i and j        integral from 0 to 1 of  d2E / dt_i dt_j

of the game in which a coalition is the set of known features: path-dependent SHAP values, as LightGBM and XGBoost
define them. Both integrands are polynomials in t, so some points of Gauss-Legendre (core/quadrature.py) integrate them
exactly, and at one point t a single walk through the tree gives all derivatives. At a split n with children 1 and 2:

    f     chance that the row goes to child 1 if it has come to n, and 1 - f to child 2
    G_n   chance that it comes to n, times the weight of the point: the product of the chances on the path
    H_n   mean value of the leaf that it ends in from n on:  H_n = H_2 + f (H_1 - H_2)

    dE / dt_i  is the sum over the splits n of feature i of  G_n  f' (H_1 - H_2),        f' = df / dt_i

G comes from above and H from below. Let z and 1 - z be the shares of the children, and Z the product of the shares that
the path took at earlier splits of the same feature (1 if there is none). A feature is known or not for the whole path,
so the chance depends on what happened there. With u = 1 - t, and r = 1 / (Z u + t), which is 1 at a first split,

                                                           f               1 - f                f'
    row would go to child 1                         (Z z u + t) r        Z (1-z) u r       Z (1-z) r r
    row would go to child 2                          Z z u r          (Z (1-z) u + t) r   -Z z r r
    row left the path at an earlier such split       z                   1 - z                0

The three cases are the *codes* 1, 0 and 2. An explained row enters by its codes alone, so numbers, categories and
missing values are all alike here. For interactions, the chance to have come through feature j's splits on the path to
n has the logarithmic derivative (1 - Z) / (Z u + t) (row would go that way) or -1 / u, Z including the last of them.

Points are taken two at a time. The order of operations, which the bits depend on, is this:

    for every tree, in order
        for every pair of points q, q + 1, in order; sums of the features begin at 0
            visit the splits, child 1 before child 2, and after both of them
                c_q = G_q * (f'_q * (H_1q - H_2q));  sum of the feature += c_q + c_(q + 1)
                H_q = H_2q + f_q * (H_1q - H_2q)
        sums of the pairs of points are added in their order, the first as it is
    sums of the trees are added in their order, beginning at 0

Child 1 is the one with more leaves, the left one if both have as many. So few H wait for their sibling: `room` numbers
them, and is below 17 for any tree that Hornbeam grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.lazy import lazy
from hornbeam.core.quadrature import gauss_legendre, points_needed
from hornbeam.trees.tree import Tree

COVERS = ("count", "weight")
"""What shares are shares of: training rows, as LightGBM, or sums of hessians, as XGBoost."""

TO_FIRST, TO_SECOND, CLOSE, CLOSE_ONE, CLOSE_LEAVES = range(5)
"""Kinds of steps: go down to a child that is a split; leave a split behind whose children are two splits, a split and
a leaf, two leaves."""


class TreePlan(NamedTuple):
    """The walk through one tree. Splits are numbered in the order in which they are visited first.

    split         int32   (n_splits,)  their numbers in the tree
    is_right      bool    (n_splits,)  whether child 1 is the right one
    share         float64 (n_splits, 2)  of the children in the cover
    merged        float64 (n_splits,)  Z
    previous      int32   (n_splits,)  the last split of the same feature on the path, and which child the path took
                                       there: 2 * split + (0 or 1); -1: there is none
    slot          int32   (n_splits,)  number of the feature among `features`
    value         float64 (n_splits, 2)  values of children that are leaves, else 0
    level         int32   (n_splits,)  splits above: where its G is kept
    room          int32   (n_splits,)  where its H is kept; that of child 2 is kept in the next one
    step          int32   (n_steps,)   8 * split + kind
    features      int32   (n_tree_features,)  ascending
    n_points      of the quadrature
    mean          E(0): the mean value of the leaves, by cover
    """

    split: NDArray[np.int32]
    is_right: NDArray[np.bool_]
    share: NDArray[np.float64]
    merged: NDArray[np.float64]
    previous: NDArray[np.int32]
    slot: NDArray[np.int32]
    value: NDArray[np.float64]
    level: NDArray[np.int32]
    room: NDArray[np.int32]
    step: NDArray[np.int32]
    features: NDArray[np.int32]
    n_points: int
    mean: float

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.split)

    @property
    def rule(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points and weights of the quadrature, float64 (n_points,) each."""
        return gauss_legendre(self.n_points)


def plan_tree(tree: Tree, cover: str = "count") -> TreePlan:
    """Plan the walk through a tree."""
    n_splits = tree.n_splits
    features, slots = np.unique(tree.feature, return_inverse=True)
    slot_of, left, right = slots.tolist(), tree.left.tolist(), tree.right.tolist()
    size, share, mean = _subtrees(tree, cover)
    order: list[int] = []
    previous: list[int] = []
    merged: list[float] = []
    level, room = [0] * n_splits, [0] * n_splits
    step: list[int] = []
    last = [-1] * len(features)  # last split of each feature on the path, as in `previous`
    n_known = most_known = 0
    # What is still to be done, the next thing at the end: a split to visit, or ~(8 * number + kind), a step to take.
    waiting = [0] if n_splits else []
    while waiting:
        node = waiting.pop()
        if node >= 0:
            number = len(order)
            order.append(node)
            first, second = left[node], right[node]
            if size[second] > size[first]:
                first, second = second, first
            slot = slot_of[node]
            earlier = last[slot]
            previous.append(earlier)
            if earlier < 0:
                merged.append(1.0)
                n_known += 1
                most_known = max(most_known, n_known)
            else:
                merged.append(merged[earlier >> 1] * share[order[earlier >> 1]][earlier & 1])
            last[slot] = 2 * number
            if first < 0:
                waiting.append(~(8 * number + CLOSE_LEAVES))
                continue
            waiting.append(~(8 * number + (CLOSE_ONE if second < 0 else CLOSE)))
            if second >= 0:
                level[second], room[second] = level[node] + 1, room[node] + 1
                waiting += (second, ~(8 * number + TO_SECOND))
            level[first], room[first] = level[node] + 1, room[node]
            step.append(8 * number + TO_FIRST)
            waiting.append(first)
            continue
        step.append(~node)
        number, kind = divmod(~node, 8)
        slot = slot_of[order[number]]
        if kind == TO_SECOND:
            last[slot] = 2 * number + 1
        else:
            last[slot] = previous[number]
            n_known -= previous[number] < 0
    is_right = np.array([size[right[node]] > size[left[node]] for node in order], np.bool_)
    children = np.stack((tree.left, tree.right), axis=1)[order].reshape(-1, 2)
    children[is_right] = children[is_right, ::-1]
    return TreePlan(
        split=np.array(order, np.int32),
        is_right=is_right,
        share=np.array([share[node] for node in order], np.float64).reshape(-1, 2),
        merged=np.array(merged, np.float64),
        previous=np.array(previous, np.int32),
        slot=slots[order].astype(np.int32),
        value=np.where(children < 0, tree.leaf_value[np.where(children < 0, ~children, 0)], 0.0),
        level=np.array(level, np.int32)[order],
        room=np.array(room, np.int32)[order],
        step=np.array(step, np.int32),
        features=features.astype(np.int32),
        n_points=points_needed(most_known),
        mean=mean,
    )


def _subtrees(tree: Tree, cover: str) -> tuple[list[int], list[tuple[float, float]], float]:
    """Return the leaves below each split, the shares of its larger and its other child, and the mean value of all.

    Sizes have those of the leaves behind them, so that `~leaf`, counted from the end, is the place of a leaf.
    """
    left, right = tree.left.tolist(), tree.right.tolist()
    covers = [0.0] * tree.n_splits + (tree.leaf_count if cover == "count" else tree.leaf_weight)[::-1].tolist()
    means = [0.0] * tree.n_splits + tree.leaf_value[::-1].tolist()
    size = [0] * tree.n_splits + [1] * tree.n_leaves
    shares: list[tuple[float, float]] = [(0.0, 0.0)] * tree.n_splits
    for node in range(tree.n_splits - 1, -1, -1):  # children have higher numbers than their parent
        first, second = left[node], right[node]
        if size[second] > size[first]:
            first, second = second, first
        size[node] = size[first] + size[second]
        total = covers[node] = covers[first] + covers[second]
        of_first, of_second = (covers[first] / total, covers[second] / total) if total > 0.0 else (0.5, 0.5)
        shares[node] = of_first, of_second
        means[node] = of_first * means[first] + of_second * means[second]
    return size, shares, means[0]


class PathFeatures(NamedTuple):
    """The other features on the path to every split of a tree: what its feature interacts with.

    start   int32 (n_splits + 1,)  first entry of each split
    edge    int32 (n_entries,)     the last split of another feature on the path, and the child that the path took
                                   there, as in `TreePlan.previous`
    pair    int32 (n_entries,)     number of the pair of features in `pairs`
    pairs   int32 (n_pairs, 2)     slots: of the split's feature, and of the other one
    """

    start: NDArray[np.int32]
    edge: NDArray[np.int32]
    pair: NDArray[np.int32]
    pairs: NDArray[np.int32]


def path_features(plan: TreePlan) -> PathFeatures:
    """List the other features on the path to every split."""
    start, edges, pair_of = [0], [], []
    numbers: dict[tuple[int, int], int] = {}
    last: dict[int, int] = {}
    slot, previous = plan.slot.tolist(), plan.previous.tolist()
    visited = -1
    for entry in plan.step.tolist():
        number, kind = divmod(entry, 8)
        if number > visited:  # each split is met first by one of its own steps
            visited = number
            for other, edge in last.items():
                if other != slot[number]:
                    edges.append(edge)
                    pair_of.append(numbers.setdefault((slot[number], other), len(numbers)))
            start.append(len(edges))
        if kind in (TO_FIRST, TO_SECOND):
            last[slot[number]] = 2 * number + kind
        elif previous[number] >= 0:
            last[slot[number]] = previous[number]
        else:
            last.pop(slot[number], None)
    return PathFeatures(
        np.array(start, np.int32),
        np.array(edges, np.int32),
        np.array(pair_of, np.int32),
        np.array(list(numbers), np.int32).reshape(-1, 2),
    )


@dataclass(frozen=True, eq=False)
class ShapleyPlan:
    """The walks through all trees of a forest."""

    trees: tuple[TreePlan, ...]

    @staticmethod
    def of_trees(trees: Sequence[Tree], cover: str = "count") -> ShapleyPlan:
        """Plan the walks; `cover` is one of COVERS."""
        return ShapleyPlan(tuple(plan_tree(tree, cover) for tree in trees))

    @lazy
    def paths(self) -> tuple[PathFeatures, ...]:
        """What interactions need besides; made when first asked for."""
        return tuple(path_features(plan) for plan in self.trees)

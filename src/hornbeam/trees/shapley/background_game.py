"""Shapley values against background rows: the game, and how one pair of rows plays it.

A coalition S of features is worth f(x_S, b_rest): the value of the leaf that a row ends in whose features in S are
those of the explained row x and whose others are those of a background row b; the game is the mean over all background
rows (interventional SHAP values). For one pair (x, b), splits where both rows go the same way do not matter. At the
first split of a feature where they part, a leaf below is reached only by coalitions with the feature on x's side, and
only by those without it on b's side; later splits of that feature send the row the way of whoever it belongs to. A leaf
of value v below p features of x and n features of b adds to the Shapley value of each of them

    of x    + v (p - 1)! n! / (p + n)!          of b    - v p! (n - 1)! / (p + n)!

A walk sums both up from below. `visit(split, p, n)` returns a pair (sum for x's features, sum for b's features):

    leaf of value v               (v * W[p, n], v * W[n, p])      W[p, n] = (p - 1)! n! / (p + n)!, and W[0, n] = 0
    split where x and b agree,    visit(their child, p, n)
    or whose feature is taken
    split where they part         one = visit(x's child, p + 1, n);  two = visit(b's child, p, n + 1)
                                  value of the feature += one[0] - two[1];  returns (one[0] + two[0], one[1] + two[1])

Background rows come in their order, then the trees; at the end the sums are divided by the number of background rows.
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.tree import Tree


def most_parted(tree: Tree) -> int:
    """Return the most different features on a path: rows part at no more splits."""
    known: dict[int, frozenset[int]] = {0: frozenset()}
    most = 0
    for split, (feature, left, right) in enumerate(
        zip(tree.feature.tolist(), tree.left.tolist(), tree.right.tolist(), strict=True)
    ):
        features = known.pop(split) | {feature}  # children have higher numbers than their parent
        most = max(most, len(features))
        known |= {child: features for child in (left, right) if child >= 0}
    return most


@cache
def coalition_weights(most: int) -> NDArray[np.float64]:
    """Return W, float64 (most + 1, most + 1), for p + n <= most; rounded once from integers."""
    weights = np.zeros((most + 1, most + 1))
    for p in range(1, most + 1):
        for n in range(most + 1 - p):
            weights[p, n] = 1 / (p * comb(p + n, n))
    weights.setflags(write=False)
    return weights

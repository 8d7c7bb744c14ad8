"""When training ends by itself: an iteration learned nothing, and the next one would learn nothing either.

The second half is true only where iterations differ by their scores alone. Where rows, features, thresholds, trees to
drop or the gradients themselves are drawn anew, an iteration without a split was an unlucky draw: its trees are lone
leaves, they stay in the model, and training goes on. So it does where parameters follow a schedule, by which a later
iteration may split what this one could not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hornbeam.params.params import Params
from hornbeam.params.random_parts import draws_anew
from hornbeam.trees.grown_tree import GrownTree

CONVERGED = 1e-12
"""Lone leaves whose values are all smaller than this have learned nothing."""


def has_converged(params: Params, changes: Mapping[str, Any], trees: Sequence[GrownTree]) -> bool:
    """Say whether an iteration that grew these trees, one an output, is one too many: training ends before it.

    changes  what a schedule gave to this iteration, see CallbackEnv.changes; the learning rate is not among them
    """
    if any(tree.n_splits or abs(tree.leaf_value[0]) > CONVERGED for tree in trees):
        return False
    return not changes and not draws_anew(params)


def lacks_rows(params: Params, n_rows: int) -> bool:
    """Say whether no node can be split, whatever it gains: two leaves would have too few rows."""
    return n_rows < 2 * params.min_data_in_leaf

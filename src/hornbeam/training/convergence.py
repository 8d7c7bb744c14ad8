"""When training ends by itself: an iteration learned nothing, and the next one would learn nothing either.

The second half is true only where iterations differ by their scores alone. Where rows, features, thresholds, trees to
drop or the gradients themselves are drawn anew, an iteration without a split was an unlucky draw: its trees are lone
leaves, they stay in the model, and training goes on. So it does where parameters follow a schedule, by which a later
iteration may split what this one could not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hornbeam.training.row_sampling import samples_rows

if TYPE_CHECKING:
    from hornbeam.params.params import Params
    from hornbeam.trees.grown_tree import GrownTree

CONVERGED = 1e-12
"""Lone leaves whose values are all smaller than this have learned nothing."""

FEATURE_FRACTIONS = ("feature_fraction", "feature_fraction_bylevel", "feature_fraction_bynode")


def draws_for_trees(params: Params) -> bool:
    """Say whether two trees of the same gradients may differ: rows, features or thresholds are drawn."""
    return samples_rows(params) or params.extra_trees or min(getattr(params, name) for name in FEATURE_FRACTIONS) < 1.0


def draws_anew(params: Params) -> bool:
    """Say whether anything of an iteration is drawn, so that it may learn something where the last one did not."""
    return draws_for_trees(params) or params.boosting == "dart" or params.objective == "rank_xendcg"


def has_converged(params: Params, changes: Mapping[str, Any], trees: Sequence[GrownTree]) -> bool:
    """Say whether an iteration that grew these trees, one an output, is one too many: training ends before it.

    changes  what a schedule gave to this iteration, see CallbackEnv.changes; the learning rate is not among them
    """
    if any(tree.n_splits or abs(tree.leaf_value[0]) > CONVERGED for tree in trees):
        return False
    return not changes and not draws_anew(params)

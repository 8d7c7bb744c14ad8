"""What counts as the size of a branch: training rows, or sums of their hessians.

A tree that was trained here knows both. XGBoost's files have sums of hessians alone, and some files of LightGBM have
neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam.core.errors import ParameterError
from hornbeam.trees.shapley.plan import COVERS
from hornbeam.trees.tree import Tree, refuse_linear


def known_cover(trees: Sequence[Tree], cover: str, is_needed: bool = True) -> str:
    """Return "count" or "weight", or refuse what the trees do not know.

    Parameters
    ----------
    trees
        The trees that are explained.
    cover
        "auto": counts where all trees know them, else weights, as XGBoost has them. "count", "weight": these.
    is_needed
        Whether sizes of branches matter: not where rows are compared with a background.
    """
    refuse_linear(trees, "contributions of features", "importances by permutation are")
    if cover not in ("auto", *COVERS):
        raise ParameterError(
            f"cover={cover!r}: must be 'count' (shares of training rows, as LightGBM), 'weight' (of sums of hessians, "
            "as XGBoost), or 'auto': the first that the model knows"
        )
    wanted = COVERS if cover == "auto" else (cover,)
    known = [one for one in wanted if not is_needed or all(_knows(tree, one) for tree in trees)]
    if known:
        return known[0]
    what = {"auto": "training rows or hessians", "count": "training rows", "weight": "sums of hessians"}[cover]
    other = {"count": "pass cover='weight', or", "weight": "pass cover='count', or", "auto": "pass"}[cover]
    raise ParameterError(
        f"the model comes from a file that does not say how many {what} there are in its branches, by which features "
        f"are compared; {other} background= to explain"
    )


def _knows(tree: Tree, cover: str) -> bool:
    return tree.n_splits == 0 or bool((tree.leaf_count if cover == "count" else tree.leaf_weight).any())

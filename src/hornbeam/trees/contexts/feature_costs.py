"""What splits cost (LightGBM's `cegb_*`, cost-effective gradient boosting): a price that a gain has to pay.

The price of a split of a node by a feature is `cegb_tradeoff` times the sum of

    split     cegb_penalty_split for each row of the node
    coupled   cegb_penalty_feature_coupled of the feature, unless a split of the model has used it
    lazy      cegb_penalty_feature_lazy of the feature for each row of the node that no split by it has seen
              (unseen_rows.py)

A gain less its price must exceed min_gain_to_split. The search is told the price of every feature in a node
(`NodeContext.cost`) and knows nothing of where it comes from.

The first split by a feature makes it cheaper in all other leaves, so that a tree grows one split at a time while a
feature has a coupled price still to be paid (growth_in_turn.py). The other prices depend on the way from the root and
on the trees before alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.params.constraints import resolve_per_feature
from hornbeam.params.params import Params
from hornbeam.params.random_parts import samples_rows
from hornbeam.trees.contexts.unseen_rows import UnseenRows
from hornbeam.trees.engine import Engine
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.tree import Tree

PENALTIES = ("cegb_penalty_split", "cegb_penalty_feature_coupled", "cegb_penalty_feature_lazy")
"""Parameters that are prices."""


def has_costs(params: Params) -> bool:
    """Say whether splits may have a price."""
    return params.cegb_tradeoff > 0.0 and any(getattr(params, name) for name in PENALTIES)


class FeatureCosts:
    """The prices of a training's splits, and what has been paid of them.

    contribution  float64 (n_used,)  factors on gains; a gain is multiplied before it pays
    """

    def __init__(
        self,
        params: Params,
        feature_names: Sequence[str],
        used: NDArray[np.int32],
        contribution: NDArray[np.float64],
    ) -> None:
        def prices(name: str) -> NDArray[np.float64]:
            """Return the price of each used feature by a parameter."""
            return params.cegb_tradeoff * resolve_per_feature(getattr(params, name), 0.0, feature_names, name)[used]

        self._used = used
        self._contribution = np.where(contribution > 0.0, contribution, 1.0)
        self._of_row = params.cegb_tradeoff * params.cegb_penalty_split
        self._unpaid = prices("cegb_penalty_feature_coupled")
        self._of_unseen = prices("cegb_penalty_feature_lazy")
        self._unseen = UnseenRows(len(used), samples_rows(params)) if self._of_unseen.any() else None

    @property
    def moves(self) -> bool:
        """Whether a split may still change what splits of other leaves cost."""
        return bool(self._unpaid.any())

    def pay(self, feature: int) -> bool:
        """Note that a split uses a feature; says whether that makes it cheaper from now on."""
        was_unpaid = bool(self._unpaid[feature] > 0.0)
        self._unpaid[feature] = 0.0
        return was_unpaid

    def pay_for(self, trees: Iterable[Tree]) -> None:
        """Note what the trees of a model have used."""
        for tree in trees:
            self._unpaid[np.isin(self._used, tree.feature)] = 0.0

    def begin_tree(self, engine: Engine, nodes: NodeTable) -> None:
        """Begin with a tree of one node."""
        if self._unseen is not None:
            self._unseen.begin_tree(engine, nodes)

    def add_children(self, parents: Sequence[int]) -> None:
        """Enter the children of some nodes, which the table of the tree has already."""
        if self._unseen is not None:
            self._unseen.add_children(parents)

    def end_tree(self, nodes: NDArray[np.void], order: NDArray[np.int32], leaf_of: NDArray[np.int32]) -> None:
        """End a tree whose rows know their leaves; arguments as in GrownTree."""
        if self._unseen is not None:
            self._unseen.end_tree(nodes, order, leaf_of)

    def of(self, some: Sequence[int], n_rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cost of every feature in some nodes, float64 (n_nodes, n_used), as the search takes it.

        n_rows  int64 (n_nodes,)  in  of the nodes

        The search multiplies what is left of a gain by the contribution of the feature, which is for the gain alone.
        """
        cost = self._of_row * n_rows.astype(np.float64)[:, None] + self._unpaid
        if self._unseen is not None:
            cost = cost + self._of_unseen * self._unseen.counts(some).astype(np.float64)
        return cost / self._contribution

"""Contexts of nodes for tests of engines: random ones, whose bounds lie around the node's own output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import FeatureRules, NodeContext, SplitRules, node_output, node_score, pack_mask

MakeContext = Callable[[Segments, NDArray[np.int64], NDArray[np.int64], Quantization], NodeContext]
"""Function of nodes, their fixed-point sums and how these were rounded."""


def random_contexts(
    seed: int, n_used: int, rules: SplitRules, *, share: float = 0.7, signs: bool = True, factors: bool = True
) -> MakeContext:
    """Return a maker of contexts with random bounds, masks, keys and factors.

    share  of the features that a node may look at
    signs  whether features have random signs where the rules are monotone; categorical ones have none
    factors  whether gains of features have random factors and costs
    """
    rng = np.random.default_rng(seed)
    sign = rng.integers(-1, 2, n_used).astype(np.int8)
    contribution = rng.choice([1.0, 1.0, 0.5, 0.0, 1.7], n_used) if factors else np.ones(n_used)
    features = FeatureRules(sign if rules.monotone and signs else np.zeros_like(sign), contribution)

    def make(
        nodes: Segments, gradient: NDArray[np.int64], hessian: NDArray[np.int64], how: Quantization
    ) -> NodeContext:
        n_nodes = len(gradient)
        sums = gradient * np.float64(how.gradient_unit), hessian * np.float64(how.hessian_unit)
        n_rows = nodes.end - nodes.begin
        own = node_output(*sums, n_rows, rng.normal(size=n_nodes) * 0.2, -np.inf, np.inf, rules)
        width = np.where(rng.random((2, n_nodes)) < 0.3, np.inf, np.abs(rng.normal(size=(2, n_nodes))) * 0.5)
        return NodeContext(
            lower=own - width[0],
            upper=own + width[1],
            parent_output=own,
            score=node_score(*sums, n_rows, own, rules),
            monotone_factor=rng.choice([1.0, 0.5, 0.0], n_nodes),
            key=rng.integers(2**64, size=n_nodes, dtype=np.uint64),
            mask=pack_mask(rng.random((n_nodes, n_used)) < share),
            features=features,
            cost=rng.choice([0.0, 0.5, 5.0], (n_nodes, n_used)) * rng.random((n_nodes, n_used)) if factors else None,
        )

    return make

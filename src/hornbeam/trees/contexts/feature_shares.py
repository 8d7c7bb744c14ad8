"""Which features a tree, a depth or a node may use, where that is a share of them: a random choice, by weight or not.

Engines that make contexts by themselves have twins of the choice without weights; with weights the host chooses.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.numerics import log
from hornbeam.core.random_choices import random_bits, uniform


def share_of(n: int, fraction: float) -> int:
    """Return how many of n features a fraction is: the nearest whole number, one at least, all for a fraction of 1."""
    return min(n, max(1, math.floor(fraction * n + 0.5)))


def choose_share(
    key: int, features: NDArray[np.intp], fraction: float, weights: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """Return the share of the features with the smallest hashes under a key, ascending.

    features  intp (n,)         in  positions among the used features
    weights   float64 (n_used,) in  >= 0; None: all features have the same chance

    With weights these are the smallest of -log(u) / weight, u = uniform(key, feature), which draws one after the other
    without replacement by weight (Efraimidis and Spirakis 2006). Features of weight 0 come last.
    """
    if fraction >= 1.0 or len(features) == 0:
        return features
    if weights is None:
        order = np.argsort(random_bits(key, features), kind="stable")
    else:
        waits = -log(uniform(key, features))
        with np.errstate(divide="ignore", over="ignore"):
            order = np.lexsort((waits, waits / weights[features]))
    return np.sort(features[order[: share_of(len(features), fraction)]])

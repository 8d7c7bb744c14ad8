"""Order statistics of values that are spread over workers, exact, by counting digits.

A float64 has 64 bits whose order as an integer is its own order (`order_bits`). Eight bits at a time, from the highest
on, every worker counts its values, or adds up their weights, by digit; the sums over workers say which digit the value
that is looked for has, and values with other digits drop out. After eight rounds all bits are known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.distributed.collective import Collective
from hornbeam.trees.bagging import Bag, Goss, draw_others

DIGIT_BITS = 8
N_DIGITS = 1 << DIGIT_BITS


def order_bits(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return integers in the order of the values; -0.0 and 0.0 have the same."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    sign = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign, ~bits, bits | sign)


def from_order_bits(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the values that have these integers."""
    sign = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign, bits ^ sign, ~bits).astype(np.uint64).view(np.float64)


def select(
    collective: Collective,
    values: NDArray[np.float64],
    weight: NDArray[np.int64] | None,
    group: NDArray[np.int64],
    least: NDArray[np.float64],
    strictly: bool,
) -> NDArray[np.float64]:
    """Return for each group the smallest value up to which, in ascending order, the weights add up to `least`.

    values    float64 (n,)         in  of this worker
    weight    int64 (n,)           in  None: all ones
    group     int64 (n,)           in
    least     float64 (n_groups,)  in  the same on all workers
    strictly  they must add up to more than that; where they never do, the largest value is returned

    Sums of weights are compared as float64, which is how percentiles.py does it. A group without values has any result.
    """
    n_groups = len(least)
    keys, prefix = order_bits(values), np.zeros(n_groups, np.uint64)
    below = np.zeros(n_groups, np.int64)  # weight of the values that are smaller in the digits known so far
    weight = np.ones(len(values), np.int64) if weight is None else weight
    for shift in range(64 - DIGIT_BITS, -1, -DIGIT_BITS):
        digit = ((keys >> np.uint64(shift)) & np.uint64(N_DIGITS - 1)).astype(np.int64)
        sums = np.zeros((n_groups, N_DIGITS, 2), np.int64)  # weights, and values, which may have no weight
        np.add.at(sums[..., 0], (group, digit), weight)
        np.add.at(sums[..., 1], (group, digit), 1)
        collective.all_reduce(sums, "values in order")
        upto = below[:, None] + np.cumsum(sums[..., 0], axis=1)
        reached = upto.astype(np.float64) > least[:, None] if strictly else upto.astype(np.float64) >= least[:, None]
        reached &= sums[..., 1] > 0
        there = sums[..., 1] > 0
        last = N_DIGITS - 1 - np.argmax(there[:, ::-1], axis=1)
        chosen = np.where(reached.any(axis=1), np.argmax(reached, axis=1), last)
        everyone = np.arange(n_groups)
        below = upto[everyone, chosen] - sums[everyone, chosen, 0]
        prefix |= chosen.astype(np.uint64) << np.uint64(shift)
        kept = digit == chosen[group]
        keys, weight, group = keys[kept], weight[kept], group[kept]
    return from_order_bits(prefix)


def goss_bag(
    collective: Collective, goss: Goss, importance: NDArray[np.float64], own: NDArray[np.int64], n_rows: int
) -> Bag | None:
    """Choose the rows of GOSS: twin of bagging.goss_bag.

    importance  float64 (n,)  in   of this worker's rows
    own         int64 (n,)    in   their numbers among all
    n_rows      of all workers
    """
    # the n_top-th from above is the (n_rows - n_top + 1)-th from below
    place, everyone = np.array([n_rows - goss.n_top + 1.0]), np.zeros(len(own), np.int64)
    least = select(collective, importance, None, everyone, place, strictly=False)[0]
    above = np.array([np.count_nonzero(importance > least)])
    n_above = int(collective.gather_array(above, "figures of rows").sum())
    equal = own[importance == least].astype(np.float64)
    wanted = np.array([goss.n_top - n_above], np.float64)
    last = select(collective, equal, None, everyone[: len(equal)], wanted, strictly=False)[0]
    part = np.where(draw_others(goss, own), 1, 2).astype(np.uint8)
    part[(importance > least) | ((importance == least) & (own <= last))] = 0
    return Bag.from_parts(part, goss.factor, lambda figures: collective.gather_array(figures, "figures of rows"))

"""Growth in rounds equals growth one split at a time, for any tree of gains, ties included."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.params.params import Params
from hornbeam.trees import frontier
from hornbeam.trees.frontier import GrowthLimits, next_batch, one_at_a_time

NEVER = -np.inf
BIG = 1 << 30


class GainTree:
    """An endless tree of gains: that of a node is a function of its path. Few distinct gains mean many ties."""

    def __init__(self, seed: int, n_gains: int, dead_share: float, max_depth: int = 60) -> None:
        self.seed, self.n_gains, self.dead_share, self.max_depth = seed, n_gains, dead_share, max_depth

    def __call__(self, path: str) -> float:
        generator = random.Random(f"{self.seed} {path}")
        if len(path) >= self.max_depth or generator.random() < self.dead_share:
            return NEVER
        return float(generator.randrange(self.n_gains))


gain_trees = st.builds(
    GainTree,
    seed=st.integers(0, 10**6),
    n_gains=st.sampled_from([1, 2, 4, 10, 10**9]),
    dead_share=st.sampled_from([0.0, 0.2, 0.5]),
    max_depth=st.sampled_from([2, 5, 60]),
)


def grow_one_by_one(gain_of: GainTree, limits: GrowthLimits) -> list[str]:
    """Return the paths that are split, in order: a loop over the leaves, as plainly as possible."""
    made = {"": 0}
    leaves, order = [""], []
    while len(order) < limits.n_leaves - 1:
        splittable = [path for path in leaves if gain_of(path) > NEVER]
        if not splittable:
            break
        if limits.depthwise:
            shallowest = min(len(path) for path in splittable)
            splittable = [path for path in splittable if len(path) == shallowest]
        highest = max(gain_of(path) for path in splittable)
        chosen = min((path for path in splittable if gain_of(path) == highest), key=made.__getitem__)
        order.append(chosen)
        leaves.remove(chosen)
        for side in "lr":
            made[chosen + side] = len(made)
            leaves.append(chosen + side)
    return order


def grow_in_rounds(gain_of: GainTree, limits: GrowthLimits, sparing: bool = False) -> tuple[list[str], int, int]:
    """Return the paths that are split, in order, the number of rounds and of nodes expanded."""
    paths, parents = [""], [-1]
    gain, left = [gain_of("")], [-1]
    priority = [gain[0]]
    rounds, bound_so_far = 0, NEVER
    while True:
        depth = [len(path) for path in paths]
        batch, bound = next_batch(gain, priority, left, depth, limits, sparing=sparing)
        if len(batch) == 0:
            break
        rounds += 1
        assert len(set(batch)) == len(batch)
        assert bound >= bound_so_far  # what may be forgotten stays forgotten
        bound_so_far = bound
        for node in batch:
            assert left[node] < 0 and gain[node] > NEVER and priority[node] >= bound
            left[node] = len(paths)
            for side in "lr":
                paths.append(paths[node] + side)
                parents.append(node)
                gain.append(gain_of(paths[-1]))
                left.append(-1)
                priority.append(min(priority[node], gain[-1]))
    order = one_at_a_time(gain, left, depth, limits)
    assert all(left[node] >= 0 for node in order)  # everything that is split has been expanded
    return [paths[node] for node in order], rounds, sum(child >= 0 for child in left)


limits_of = st.builds(GrowthLimits, n_leaves=st.integers(2, 40), max_depth=st.just(BIG), depthwise=st.booleans())


@given(gain_trees, limits_of)
def test_growth_in_rounds_equals_one_split_at_a_time(gain_of, limits):
    assert grow_in_rounds(gain_of, limits)[0] == grow_one_by_one(gain_of, limits)


@given(gain_trees, limits_of, st.sampled_from([1, 2, 3, 8, 1000]))
def test_any_smallest_batch_gives_the_same_tree(gain_of, limits, smallest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "SMALLEST_BATCH", smallest)
        assert grow_in_rounds(gain_of, limits)[0] == grow_one_by_one(gain_of, limits)


@given(gain_trees, limits_of)
def test_sparing_rounds_give_the_same_tree_and_waste_no_more(gain_of, limits):
    order, _, expanded = grow_in_rounds(gain_of, limits, sparing=True)
    assert order == grow_one_by_one(gain_of, limits)
    assert expanded <= 2 * (limits.n_leaves - 1)


@given(gain_trees, st.integers(2, 100))
def test_depthwise_growth_wastes_no_expansion_and_takes_a_round_a_level(gain_of, n_leaves):
    order, rounds, expanded = grow_in_rounds(gain_of, GrowthLimits(n_leaves, BIG, True))
    assert expanded == len(order)
    assert rounds == len({len(path) for path in order})


class FallingGains(GainTree):
    """Gains as data have them: those of children are some share of their parent's."""

    def __call__(self, path: str) -> float:
        gain = 1.0
        for end in range(1, len(path) + 1):
            gain *= 0.2 + 0.6 * random.Random(f"{self.seed} {path[:end]}").random()
        return gain


def test_leafwise_growth_takes_few_rounds_and_wastes_little():
    gain_of = FallingGains(1, 0, 0.0)
    order, rounds, expanded = grow_in_rounds(gain_of, GrowthLimits(255, BIG, False))
    assert len(order) == 254
    assert rounds < 40
    assert expanded < 1.3 * 254


@pytest.mark.parametrize("depthwise", [False, True])
def test_two_leaves_need_one_round_and_the_root_alone(depthwise):
    assert grow_in_rounds(GainTree(0, 3, 0.0), GrowthLimits(2, BIG, depthwise)) == ([""], 1, 1)


@pytest.mark.parametrize("depthwise", [False, True])
def test_root_that_cannot_be_split_stays_alone(depthwise):
    assert grow_in_rounds(GainTree(0, 3, 1.0), GrowthLimits(31, BIG, depthwise)) == ([], 0, 0)


@pytest.mark.parametrize("depthwise", [False, True])
def test_equal_gains_are_split_in_the_order_in_which_nodes_are_made(depthwise):
    order = grow_in_rounds(GainTree(0, 1, 0.0), GrowthLimits(8, BIG, depthwise))[0]
    assert order == ["", "l", "r", "ll", "lr", "rl", "rr"]


@pytest.mark.parametrize(("n_rows", "min_data", "expected"), [(100, 20, 5), (100, 0, 100), (1000, 1, 31), (10, 20, 2)])
def test_a_tree_has_no_more_leaves_than_its_rows_allow(n_rows, min_data, expected):
    params = Params.from_dict({"num_leaves": 31 if n_rows == 1000 else 5000, "min_data_in_leaf": min_data})
    assert GrowthLimits.of(params, n_rows).n_leaves == expected


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_leaves_beyond_the_rows_change_no_tree(device):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), rng.normal(size=90)
    params = {"min_data_in_leaf": 2, "verbosity": -1, "device": device}
    models = [hb.train({**params, "num_leaves": n}, hb.Dataset(X, label=y), 5) for n in (45, 60_000)]
    few, many = ([(tree.threshold.tolist(), tree.leaf_value.tolist()) for tree in model.trees] for model in models)
    assert few == many and max(len(values) for _, values in few) > 25

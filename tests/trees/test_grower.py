"""A grown tree equals one grown split by split on plain row sets, on every device, ties included."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.tuning import tuned
from hornbeam.backends.reference.engine import route
from hornbeam.core.fixed_point import exact_exponent, round_gradients
from hornbeam.data.binning import BinnedData
from hornbeam.testing.checks import PLAIN_RULES, binned_data, engine_on, usable_devices
from hornbeam.testing.data import BinnedSample, make_binned
from hornbeam.trees import frontier
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.grower import TreeGrower
from hornbeam.trees.histogram_pool import SMALLEST_POOL
from hornbeam.trees.records import BinnedTree
from hornbeam.trees.splitting import SplitRules, best_split, leaf_output

BIG = 1 << 30
RATE = 0.1
RULES = replace(PLAIN_RULES, min_data_in_leaf=5)
NAMES = ("feature", "bin", "missing_left", "left", "right", "leaf_value")


@pytest.fixture(scope="module", params=[*usable_devices(), "cpu in rounds"])
def device(request):
    """Every usable device, and the CPU as it grows trees that are too large for its whole-tree kernel."""
    if request.param != "cpu in rounds":
        yield request.param
        return
    with tuned(most_leaves=0):
        yield "cpu"


@dataclass(eq=False)
class Leaf:
    rows: np.ndarray
    depth: int
    made: int
    split: np.void
    place: tuple[int, int] | None  # (parent split, side)
    number: int


def naive_tree(binned: BinnedData, gradient, hessian, rules: SplitRules, limits: GrowthLimits) -> dict[str, list]:
    """Grow one split at a time: look at every leaf, split the best (the first made of equals), repeat."""
    g, h, how = round_gradients(gradient, hessian)
    offsets = binned.offsets

    def find(rows, depth):
        histogram, counts = np.zeros((offsets[-1], 2), np.int64), np.zeros(offsets[-1], np.int64)
        for f in range(binned.n_used):
            entries = offsets[f] + binned.bins[rows, f]
            np.add.at(histogram, entries, np.stack([g[rows], h[rows]], axis=1))
            np.add.at(counts, entries, 1)
        split = best_split(histogram, counts, offsets, binned.has_missing, how, rules)
        if depth >= limits.max_depth:
            split["gain"] = -np.inf
        return split

    everything = np.arange(binned.n_rows)
    leaves = [Leaf(everything, 0, 0, find(everything, 0), None, 0)]
    made = 1
    tree = {name: [] for name in (*NAMES, "gain", "split_count", "leaf_count", "leaf_weight")}
    while len(leaves) < limits.n_leaves:
        open_ = [leaf for leaf in leaves if leaf.split["gain"] > -np.inf]
        if limits.depthwise and open_:
            shallowest = min(leaf.depth for leaf in open_)
            open_ = [leaf for leaf in open_ if leaf.depth == shallowest]
        if not open_:
            break
        leaf = min(open_, key=lambda one: (-one.split["gain"], one.made))
        number = len(tree["feature"])
        feature, bin_ = int(leaf.split["feature"]), int(leaf.split["bin"])
        codes = binned.bins[leaf.rows, feature].astype(int)
        left = np.where(codes == binned.n_value_bins[feature], leaf.split["missing_left"], codes <= bin_)
        missing_left = bool(leaf.split["missing_left"])
        if not binned.has_missing[feature]:
            missing_left = bool(2 * left.sum() >= len(left))
        for name, value in (("feature", feature), ("bin", bin_), ("missing_left", missing_left),
                            ("left", None), ("right", None), ("gain", float(leaf.split["gain"])),
                            ("split_count", len(leaf.rows))):  # fmt: skip
            tree[name].append(value)
        if leaf.place is not None:
            tree[("left", "right")[leaf.place[1]]][leaf.place[0]] = number
        leaves.remove(leaf)
        for side, rows in ((0, leaf.rows[left]), (1, leaf.rows[~left])):
            leaf_number = number + 1 if side else leaf.number
            leaves.append(Leaf(rows, leaf.depth + 1, made, find(rows, leaf.depth + 1), (number, side), leaf_number))
            made += 1
    leaf_of_row = np.zeros(binned.n_rows, int)
    exponents = [exact_exponent(float(np.abs(values).max()), binned.n_rows) for values in (gradient, hessian)]
    for leaf in sorted(leaves, key=lambda one: one.number):
        if leaf.place is not None:
            tree[("left", "right")[leaf.place[1]]][leaf.place[0]] = ~leaf.number
        leaf_of_row[leaf.rows] = leaf.number
        sums = [
            int(np.rint(values[leaf.rows] * 2.0**e).astype(np.int64).sum()) * 2.0**-e
            for values, e in zip((gradient, hessian), exponents, strict=True)
        ]
        tree["leaf_value"].append(float(leaf_output(np.array([sums[0]]), np.array([sums[1]]), rules)[0] * RATE))
        tree["leaf_weight"].append(sums[1])
        tree["leaf_count"].append(len(leaf.rows))
    return {**tree, "leaf_of_row": leaf_of_row.tolist()}


def grown_tree(device, binned, gradient, hessian, rules, limits, n_slots=None, num_threads=0) -> dict[str, list]:
    engine = engine_on(device, binned, num_threads)
    engine.set_scores(np.zeros((1, binned.n_rows)))
    engine.set_gradients(gradient[None], hessian[None])
    grower = TreeGrower(engine, binned, rules, limits, n_slots or 2 * limits.n_leaves)
    grown = grower.grow(engine.quantize(0, False), RATE)
    engine.add_leaf_values(0, np.arange(grown.tree.n_leaves, dtype=np.float64))
    found = {name: getattr(grown.binned, name).tolist() for name in NAMES}
    found |= {name: getattr(grown.tree, name).tolist() for name in ("gain", "split_count", "leaf_count", "leaf_weight")}
    assert grown.tree.leaf_value.tolist() == found["leaf_value"]
    assert grown.tree.feature.tolist() == binned.used[grown.binned.feature].tolist()
    assert grown.tree.threshold.tolist() == [
        binned.threshold(f, b) for f, b in zip(found["feature"], found["bin"], strict=True)
    ]
    return {**found, "leaf_of_row": np.asarray(engine.scores()[0]).astype(int).tolist()}


def assert_same_tree(device, sample: BinnedSample, rules=RULES, limits=None, **options) -> dict[str, list]:
    limits = limits or GrowthLimits(15, BIG, False)
    binned = binned_data(sample)
    expected = naive_tree(binned, sample.gradient, sample.hessian, rules, limits)
    found = grown_tree(device, binned, sample.gradient, sample.hessian, rules, limits, **options)
    for name, values in expected.items():
        assert found[name] == values, name
    return found


def tied_sample(n_rows=160, seed=0, hessians=(1.0,)) -> BinnedSample:
    """Duplicated features, duplicated rows and tiny whole gradients: ties everywhere."""
    rng = np.random.default_rng(seed)
    few = rng.integers(0, 5, (n_rows // 4, 3))
    bins = np.tile(np.concatenate([few, few], axis=1), (4, 1)).astype(np.uint8)
    gradient = np.tile(rng.integers(-2, 3, n_rows // 4), 4).astype(np.float64)
    hessian = np.tile(rng.choice(hessians, n_rows // 4), 4)
    has_missing = (bins == 4).any(axis=0)
    return BinnedSample(bins, np.full(6, 4, np.int32), has_missing, gradient, hessian)


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("depthwise", [False, True], ids=["leafwise", "depthwise"])
@pytest.mark.parametrize("n_leaves", [2, 3, 7, 31])
@pytest.mark.parametrize("missing_fraction", [0.0, 0.3])
def test_tree_equals_one_split_at_a_time(device, depthwise, n_leaves, missing_fraction):
    sample = make_binned(400, 5, 15, missing_fraction, seed=n_leaves)
    tree = assert_same_tree(device, sample, limits=GrowthLimits(n_leaves, BIG, depthwise))
    assert len(tree["leaf_value"]) == n_leaves


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("depthwise", [False, True], ids=["leafwise", "depthwise"])
@pytest.mark.parametrize("hessians", [(1.0,), (0.5, 1.0), (0.0, 1.0)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_tied_tree_equals_one_split_at_a_time(device, depthwise, hessians, seed):
    limits = GrowthLimits(6 + 5 * seed, BIG, depthwise)
    assert_same_tree(device, tied_sample(seed=seed, hessians=hessians), PLAIN_RULES, limits)


@given(data=st.data())
@settings(max_examples=60)
def test_tree_of_tiny_random_data_equals_one_split_at_a_time(device, data):
    n_rows, n_features, n_bins = data.draw(st.tuples(st.integers(1, 30), st.integers(1, 3), st.integers(2, 3)))
    size = n_rows * n_features
    codes = np.array(data.draw(st.lists(st.integers(0, n_bins), min_size=size, max_size=size)), np.uint8)
    bins = codes.reshape(n_rows, n_features)
    gradient = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n_rows, max_size=n_rows)), np.float64)
    hessian = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=n_rows, max_size=n_rows)))
    sample = BinnedSample(bins, np.full(n_features, n_bins, np.int32), (bins == n_bins).any(axis=0), gradient, hessian)
    limits = GrowthLimits(
        data.draw(st.integers(2, 12)), data.draw(st.sampled_from([1, 2, 3, BIG])), data.draw(st.booleans())
    )
    rules = replace(PLAIN_RULES, min_data_in_leaf=data.draw(st.integers(1, 3)))
    assert_same_tree(device, sample, rules, limits, n_slots=data.draw(st.integers(SMALLEST_POOL, 8)))


@pytest.mark.parametrize("smallest", [1, 2, 5, 1000])
def test_any_smallest_batch_gives_the_same_tree(device, monkeypatch, smallest):
    monkeypatch.setattr(frontier, "SMALLEST_BATCH", smallest)
    assert_same_tree(device, make_binned(500, 4, 15, 0.2, seed=1), limits=GrowthLimits(25, BIG, False))
    assert_same_tree(device, tied_sample(seed=9), PLAIN_RULES, GrowthLimits(12, BIG, False))


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("n_slots", [SMALLEST_POOL, 3, 4, 5, 8, 13, 62])
@pytest.mark.parametrize("depthwise", [False, True], ids=["leafwise", "depthwise"])
def test_any_number_of_slots_gives_the_same_tree(device, n_slots, depthwise):
    limits = GrowthLimits(31, BIG, depthwise)
    assert_same_tree(device, make_binned(500, 4, 15, 0.2, seed=2), limits=limits, n_slots=n_slots)


@pytest.mark.parametrize("max_depth", [1, 2, 3, 5])
@pytest.mark.parametrize("depthwise", [False, True], ids=["leafwise", "depthwise"])
def test_depth_is_limited(device, max_depth, depthwise):
    limits = GrowthLimits(31, max_depth, depthwise)
    tree = assert_same_tree(device, make_binned(500, 4, 15, 0.2, seed=3), limits=limits)
    assert len(tree["leaf_value"]) <= 2**max_depth


def test_min_data_is_honoured_in_every_leaf(device):
    sample = make_binned(500, 4, 15, 0.2, seed=4)
    for min_data in (1, 20, 60, 249, 251):
        tree = assert_same_tree(device, sample, replace(RULES, min_data_in_leaf=min_data))
        assert min(tree["leaf_count"]) >= min_data
        assert (len(tree["leaf_count"]) > 1) == (2 * min_data <= 500)


def test_data_without_gain_make_a_lone_leaf(device):
    sample = make_binned(100, 3, 7)
    for gradient in (np.zeros(100), np.ones(100)):
        tree = assert_same_tree(device, sample._replace(gradient=gradient, hessian=np.ones(100)))
        assert len(tree["leaf_value"]) == 1


def test_one_row_makes_a_lone_leaf(device):
    tree = assert_same_tree(device, make_binned(1, 2, 3, seed=1), PLAIN_RULES)
    assert tree["leaf_count"] == [1]


def test_grower_is_used_for_tree_after_tree(device):
    """Nothing of one tree is left over in the next, wide or narrow."""
    sample = make_binned(300, 4, 15, 0.2, seed=5)
    binned, limits = binned_data(sample), GrowthLimits(9, BIG, False)
    engine = engine_on(device, binned)
    engine.set_scores(np.zeros((1, 300)))
    grower = TreeGrower(engine, binned, RULES, limits, 18)
    heavy = np.where(np.arange(300) == 7, 1e7, sample.gradient)
    for gradient in (sample.gradient, heavy, -sample.gradient, heavy, sample.gradient):
        engine.set_gradients(gradient[None], sample.hessian[None])
        grown = grower.grow(engine.quantize(0, False), RATE)
        expected = naive_tree(binned, gradient, sample.hessian, RULES, limits)
        assert {name: getattr(grown.binned, name).tolist() for name in NAMES} == {
            name: expected[name] for name in NAMES
        }


def test_training_rows_are_routed_as_validation_rows(device):
    sample = make_binned(500, 5, 15, 0.3, seed=6)
    binned = binned_data(sample)
    found = grown_tree(device, binned, sample.gradient, sample.hessian, RULES, GrowthLimits(31, BIG, False))
    dtypes = (np.int32, np.int32, np.bool_, np.int32, np.int32, np.float64)
    tree = BinnedTree(*(np.array(found[name], dtype) for name, dtype in zip(NAMES, dtypes, strict=True)))
    assert route(binned, tree).tolist() == found["leaf_of_row"]

"""Operations of trees that all outputs share: every device against `reference`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.core.random_choices import chance_limit
from hornbeam.testing.checks import PLAIN_RULES, REFERENCE, binned_data, engine_on
from hornbeam.testing.data import BinnedSample
from hornbeam.testing.output_checks import assert_same_output_operations
from hornbeam.testing.same_bits import assert_same_bits
from hornbeam.trees.bagging import Draw
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_grower import OutputGrower
from hornbeam.trees.splitting import SplitRules

REGULAR = SplitRules(
    lambda_l1=0.3,
    lambda_l2=1.0,
    max_delta_step=0.5,
    min_gain_to_split=0.01,
    min_data_in_leaf=5,
    min_sum_hessian_in_leaf=0.7,
)


def make_binned(rng, n_rows, sizes, missing):
    sizes = np.array(sizes, np.int32)
    bins = np.column_stack([rng.integers(0, n + missing, n_rows) for n in sizes]).astype(np.uint16)
    bins[: len(bins) // 10] = 0
    has_missing = (bins == sizes).any(axis=0)
    return binned_data(BinnedSample(bins, sizes, has_missing, np.empty(0), np.empty(0)))


def make_gradients(rng, n_outputs, n_rows, kind):
    gradient, hessian = rng.normal(size=(n_outputs, n_rows)), rng.random((n_outputs, n_rows))
    if kind == "counting":
        hessian[-1] = 1.0
    elif kind == "wide":  # a few huge gradients of one output ask for 31 bits
        gradient[0, :2] = 1e9
    elif kind == "empty":
        hessian[0, rng.random(n_rows) < 0.5] = 0.0
    return gradient, hessian


CASES = {
    "plain": (PLAIN_RULES, "real", 3, {}),
    "rules": (REGULAR, "real", 5, {}),
    "hessians count": (REGULAR, "counting", 2, {}),
    "wide": (REGULAR, "wide", 3, {}),
    "high precision": (REGULAR, "real", 4, {"high_precision": True}),
    "no hessians": (PLAIN_RULES, "empty", 3, {}),
    "bag": (REGULAR, "real", 3, {"draw": Draw(7, chance_limit(0.6))}),
    "some features": (REGULAR, "real", 9, {"features": np.array([0, 2], np.int32)}),
}


@pytest.mark.sampled
@pytest.mark.parametrize("missing", [False, True], ids=["full", "missing"])
@pytest.mark.parametrize("name", CASES)
def test_operations_are_those_of_the_reference(device, name, missing):
    rules, kind, n_outputs, options = CASES[name]
    rng = np.random.default_rng(0)
    binned = make_binned(rng, 700, (20, 3, 7, 2), missing)
    gradient, hessian = make_gradients(rng, n_outputs, 700, kind)
    assert_same_output_operations(binned, gradient, hessian, engine_on(device, binned), rules=rules, **options)


@pytest.mark.usefixtures("few_bins")
def test_histograms_of_64_bins(device):
    rng = np.random.default_rng(2)
    binned = make_binned(rng, 500, (20, 3, 7, 2), True)
    gradient, hessian = make_gradients(rng, 3, 500, "real")
    assert_same_output_operations(binned, gradient, hessian, engine_on(device, binned), rules=REGULAR)


def test_features_of_many_bins(device):
    rng = np.random.default_rng(1)
    binned = make_binned(rng, 900, (700, 5, 260), True)
    gradient, hessian = make_gradients(rng, 3, 900, "real")
    assert_same_output_operations(binned, gradient, hessian, engine_on(device, binned), rules=REGULAR)


AHEAD = {
    "by depth": (GrowthLimits(12, 4, True), {}),
    "by gain": (GrowthLimits(9, 99, False), {}),
    "high precision": (GrowthLimits(9, 99, False), {"high_precision": True}),
    "bag": (GrowthLimits(9, 5, False), {"draw": Draw(7, chance_limit(0.6))}),
    "some features": (GrowthLimits(12, 4, True), {"features": np.array([1, 2], np.int32)}),
    "few slots": (GrowthLimits(9, 99, False), {"n_slots": 4}),
    "unfinished": (GrowthLimits(9, 99, False), {"capacity": 7}),
}


@pytest.mark.parametrize("name", AHEAD)
def test_tree_that_an_engine_grows_on_its_own_is_that_of_rounds(device, name, monkeypatch):
    limits, options = AHEAD[name]
    rng = np.random.default_rng(3)
    binned = make_binned(rng, 700, (20, 3, 7, 2), True)
    gradient, hessian = make_gradients(rng, 3, 700, "real")
    if "capacity" in options:  # the device has no room for more nodes, and the host goes on
        monkeypatch.setattr("hornbeam.backends.gpu.growth.growth.CAPACITY", options["capacity"])
    found = []
    for engine in (engine_on(device, binned), engine_on(REFERENCE, binned)):
        engine.set_scores(np.zeros(gradient.shape))
        engine.set_gradients(gradient.copy(), hessian.copy())
        n_chosen = engine.choose_rows(options.get("draw"))
        engine.choose_features(options.get("features"))
        grower = OutputGrower(engine, binned, REGULAR, limits, options.get("n_slots", 2 * limits.n_leaves))
        grown = grower.grow(options.get("high_precision", False))
        order, sums = grown.numbering()[0], grown.sums()
        splits = grown.nodes[order]
        children = splits["left"][:, None] + [0, 1]
        leaf_sums = []
        for output in range(3):
            engine.choose_output(output)
            leaf_sums += engine.leaf_sums(len(order) + 1)
        found.append(
            {
                **{name: splits["split"][name] for name in ("gain", "feature", "bin", "missing_left")},
                "rows": splits["end"] - splits["begin"], "sums": sums[order],
                "sums of children": sums[children], "leaves": np.array(leaf_sums),
            }
        )  # fmt: skip
    assert len(found[1]["gain"]) > 3
    assert found[1]["rows"][0] == n_chosen
    for field, expected in found[1].items():
        assert_same_bits(found[0][field], expected, field)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 4, 5]), st.integers(1, 3))
def test_threads_cannot_be_seen(seed, n_outputs, n_threads):
    rng = np.random.default_rng(seed)
    binned = make_binned(rng, int(rng.integers(20, 400)), rng.integers(2, 40, 3), bool(seed % 2))
    gradient, hessian = make_gradients(rng, n_outputs, binned.n_rows, ("real", "counting", "empty")[seed % 3])
    engine = CpuEngine(binned, n_threads)
    assert_same_output_operations(binned, gradient, hessian, engine, rules=REGULAR, n_levels=2)


def test_large_nodes_are_shared_by_threads():
    rng = np.random.default_rng(2)
    binned = make_binned(rng, 150_000, (60, 9), True)
    gradient, hessian = make_gradients(rng, 3, binned.n_rows, "real")
    assert_same_output_operations(binned, gradient, hessian, CpuEngine(binned, 3), rules=REGULAR, n_levels=2)

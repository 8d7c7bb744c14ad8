"""Ways through the GPU engine that depend on the device: local memory, atomics, sizes of groups. None leaves a trace.

What every device must do is in test_engine_ops.py; here an OpenCL device pretends to be a smaller one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import hornbeam as hb
from hornbeam.backends.gpu.data import layout as layout_module
from hornbeam.backends.gpu.data.layout import Layout, padded_bins
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth import growth as growth_module
from hornbeam.backends.gpu.losses.gradients import DeviceGradients
from hornbeam.backends.gpu.runtime import opencl, tables
from hornbeam.backends.gpu.runtime.runtime import Variant
from hornbeam.backends.gpu.workspace import tree_kernels
from hornbeam.backends.gpu.workspace.tree_kernels import histogram_variant
from hornbeam.core.dtypes import EXPANSION
from hornbeam.core.errors import DeviceError
from hornbeam.testing.checks import (
    PLAIN_RULES,
    assert_same_bits,
    assert_same_operations,
    binned_data,
    engine_on,
    usable_devices,
)
from hornbeam.testing.data import BinnedSample, make_binned, make_higgs_like
from hornbeam.testing.golden import CASES
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import leaf_output
from hornbeam.trees.steps import expand_in_steps

RULES = replace(PLAIN_RULES, min_data_in_leaf=20, min_sum_hessian_in_leaf=1e-3)

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")


@pytest.fixture
def runtime():
    """The runtime of the device, whose kernels stay compiled; a test may change what it says about the device."""
    opened = opencl.open_device(0)
    facts = opened.facts
    yield opened
    opened.facts = facts


@pytest.fixture(scope="module")
def sums_in_halves():
    """A runtime of its own: a device without 64-bit atomics."""
    opened = opencl.OpenCLRuntime(opencl.list_devices()[0])
    opened._options.remove("-DATOMIC64")
    return opened


def large(*values):
    return pytest.param(*values, marks=pytest.mark.large)


def check(runtime, sample: BinnedSample, **options) -> None:
    binned = binned_data(sample)
    engine = GpuEngine(runtime, binned)
    assert_same_operations(binned, sample.gradient[None], sample.hessian[None], engine, **options)


@pytest.mark.parametrize(
    ("n_bins", "words", "high_precision"),
    [
        *((15, words, False) for words in (8, 0)),
        *((63, words, False) for words in (4, 1)),
        *((63, words, True) for words in (8, 0)),
        (300, 2, True),
        large(15, 2, False),
        *(large(63, words, False) for words in (8, 2, 0)),
        *(large(300, words, False) for words in (8, 1)),
        large(63, 2, True),
    ],
)
@pytest.mark.usefixtures("few_bins")
def test_histograms_do_not_depend_on_local_memory(runtime, n_bins, words, high_precision):
    sample = make_binned(500, 37, n_bins, 0.2, seed=words)
    plan = Layout.of(binned_data(sample))
    counters = 3 * plan.n_bins * (32 // plan.bin_bits) * (8 if high_precision else 4)
    runtime.facts = replace(runtime.facts, local_bytes=max(1, words) * counters - (words == 0))
    assert histogram_variant(runtime.facts, plan, high_precision, 3)[0].words == words
    rules = replace(RULES, min_data_in_leaf=60)  # trees of a few leaves
    check(runtime, sample, rules=rules, high_precision=high_precision, n_levels=2)


@pytest.mark.parametrize(
    ("n_features", "n_bins", "words", "copies", "high_precision"),
    [(4, 255, 1, 8, False), (7, 63, 2, 4, False), (3, 15, 1, 4, False), (8, 300, 4, 4, True)],
)
@pytest.mark.usefixtures("every_size")
def test_few_features_lie_in_narrow_tiles(runtime, n_features, n_bins, words, copies, high_precision):
    """The free lanes hold copies of the counters, which are added up."""
    sample = make_binned(900, n_features, n_bins, 0.2, seed=n_features)
    plan = Layout.of(binned_data(sample))
    there_is = runtime.facts.local_bytes
    runtime.facts = replace(runtime.facts, local_bytes=1 << 20)
    variant, needed = histogram_variant(runtime.facts, plan, high_precision, 3)
    assert (plan.n_tiles, plan.tile_words, variant.words, variant.copies) == (1, words, words, copies)
    if needed > there_is and runtime.facts.is_gpu:
        pytest.skip(f"{runtime.facts.name} has {there_is} bytes of local memory, and these counters take {needed}")
    check(runtime, sample, rules=RULES, high_precision=high_precision)


@pytest.mark.sampled
@pytest.mark.parametrize("high_precision", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("words", [8, 0], ids=["local", "global"])
def test_sums_in_halves_equal_64_bit_sums(sums_in_halves, high_precision, words, monkeypatch):
    """What devices without 64-bit atomics do."""
    if words == 0:
        monkeypatch.setattr(sums_in_halves, "facts", replace(sums_in_halves.facts, local_bytes=64))
    check(sums_in_halves, make_binned(900, 9, 255, 0.2, seed=1), rules=RULES, high_precision=high_precision)


@pytest.mark.parametrize("high_precision", [False, True], ids=["narrow", "wide"])
@pytest.mark.usefixtures("few_bins")
def test_operations_without_row_counts(runtime, high_precision):
    """With min_data_in_leaf=1 histograms hold two sums, also where hessians differ."""
    sample = make_binned(900, 9, 63, 0.2, seed=5)
    binned = binned_data(sample)
    engine = GpuEngine(runtime, binned, min_data_in_leaf=1)
    gradient, hessian = sample.gradient[None], sample.hessian[None]
    assert_same_operations(binned, gradient, hessian, engine, high_precision=high_precision)
    assert engine._tree.stats == 2


def test_as_many_bins_as_there_can_be(runtime):
    few, many = make_binned(1000, 1, 5, seed=5), make_binned(1000, 1, 65_535, 0.1, seed=6)
    both = [np.concatenate([a, b], axis=-1) for a, b in zip(few[:3], many[:3], strict=True)]
    rules = replace(RULES, min_data_in_leaf=150)  # a few leaves of 65,536 bins each are enough
    check(runtime, BinnedSample(*both, *many[3:]), rules=rules, n_levels=1)


def test_groups_as_large_as_those_of_a_gpu(runtime):
    runtime.facts = replace(runtime.facts, is_gpu=True)
    check(runtime, make_binned(1500, 40, 255, 0.2, seed=2), rules=RULES)


def test_small_groups(runtime):
    runtime.facts = replace(runtime.facts, max_threads=64)
    check(runtime, make_binned(900, 9, 63, 0.2, seed=3), rules=RULES)


def test_nodes_of_more_rows_than_a_counter_holds(runtime, monkeypatch):
    """The largest gradients and hessians in one bin: more than 2**16 rows of one group would overflow its counter."""
    n_rows = 65_536 + 5000
    bins = np.zeros((n_rows, 2), np.uint8)
    bins[:300, 1] = 1
    bins[-3:, 0] = 2
    gradient = np.full(n_rows, -0.99999)  # no power of two: rounded to 16 bits, not to 15
    gradient[:300] = 0.99999
    hessian = np.full(n_rows, 0.99999)
    hessian[0] = 0.5  # not constant
    sample = BinnedSample(bins, np.array([2, 2], np.int32), np.array([True, False]), gradient, hessian)
    monkeypatch.setattr(tree_kernels, "groups_a_pass", lambda *_: 1)
    check(runtime, sample, rules=RULES, n_levels=2)


@pytest.mark.parametrize("n_leaves", [1, 64, 65, 900, 3000])
def test_leaf_sums_for_any_number_of_leaves(runtime, n_leaves):
    sample = make_binned(5000, 2, 7, seed=n_leaves)
    binned = binned_data(sample)
    ends = np.linspace(0, 5000, n_leaves + 1).astype(np.int64)
    nodes = Segments(ends[:-1], ends[1:], np.zeros(n_leaves, np.int32))
    sums = []
    for engine in (GpuEngine(runtime, binned), engine_on("reference", binned)):
        engine.set_gradients(sample.gradient[None], sample.hessian[None])
        engine.quantize(0, False)
        engine.begin_tree(2)
        engine.assign_leaves(nodes, np.arange(n_leaves, dtype=np.int32))
        sums.append(np.stack(engine.leaf_sums(n_leaves)))
    assert_same_bits(sums[0], sums[1], "leaf_sums")


@pytest.mark.sampled
@pytest.mark.parametrize("min_data", [1, 20])
@pytest.mark.parametrize("max_depth", [2, 3, 2**40])
@pytest.mark.parametrize("n_features", [5, 70])
def test_a_round_in_one_go_equals_its_steps(runtime, min_data, max_depth, n_features):
    sample = make_binned(2000, n_features, 31, 0.2, seed=min_data)
    binned = binned_data(sample)
    rules = replace(RULES, min_data_in_leaf=min_data)
    found = []
    for at_once in (True, False):
        engine = GpuEngine(runtime, binned, min_data)
        engine.set_gradients(sample.gradient[None], sample.hessian[None])
        engine.quantize(0, False)
        root = engine.begin_tree(16)
        whole = Segments(np.zeros(1, np.int64), np.array([2000]), np.zeros(1, np.int32))
        engine.build_histograms(whole, np.zeros(1, np.int32))
        sums = np.array([root.gradient]), np.array([root.hessian])
        best = engine.find_splits(whole, np.zeros(1, np.int32), *sums, rules)
        level = [(0, 2000, root.gradient, root.hessian, best[0], 0, 0)]
        seen = []
        for depth in range(3):
            batch = np.zeros(len(level), EXPANSION)
            for i, (begin, end, gradient, hessian, split, slot, _) in enumerate(level):
                named = [split[name] for name in ("left_gradient", "left_hessian")]
                rule = [split[name] for name in ("feature", "bin")]
                batch[i] = (begin, end, gradient, hessian, *named, depth, *rule, slot, 8 + depth, split["missing_left"])
            n_left, splits = (
                engine.expand(batch, rules, max_depth) if at_once else expand_in_steps(engine, batch, rules, max_depth)
            )
            seen += [n_left, splits]
            level = _children(batch, n_left, splits, depth)
            if not level:
                break
        found.append(seen)
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        assert_same_bits(one, other, "expand")


def _children(batch, n_left, splits, depth):
    """The smaller child, whose histogram is in a slot of its own."""
    level = []
    for node, rows, pair in zip(batch, n_left, splits, strict=True):
        middle = node["begin"] + rows
        right_is_small = rows > node["end"] - middle
        small = pair[1 if right_is_small else 0]
        if small["gain"] > -np.inf:
            begin, end = (middle, node["end"]) if right_is_small else (node["begin"], middle)
            sums = [
                node[name] - node[f"left_{name}"] if right_is_small else node[f"left_{name}"]
                for name in ("gradient", "hessian")
            ]
            level.append((begin, end, *sums, small, int(node["spare_slot"]), depth))
    return level


def test_pool_of_few_slots_gives_the_same_model(gpu):
    case = CASES["binary, missing, weights"]
    expected = case.train(device="cpu").fingerprint()
    for megabytes in (1e-6, 0.1, 1.0):
        assert case.train(device=gpu, histogram_pool_size=megabytes).fingerprint() == expected


def test_freed_engine_leaves_the_device_usable(runtime):
    sample = make_binned(300, 4, 15, seed=6)
    for _ in range(3):
        check(runtime, sample, n_levels=1)  # closes its engine


# --- errors -----------------------------------------------------------------------------------------------------------


def test_compiler_log_is_in_the_error(runtime, monkeypatch):
    text = opencl.source_text("prelude_opencl.h", "leaves.cl")
    monkeypatch.setattr(opencl, "source_text", lambda prelude, source: text + "\nthis_is_no_word x;\n")
    with pytest.raises(DeviceError, match="does not compile") as caught:
        runtime.kernel("assign_kernel", Variant("leaves.cl", 64, each=77))
    assert "this_is_no_word" in str(caught.value)


def test_too_little_memory_is_refused_with_the_figures(runtime):
    runtime.facts = replace(runtime.facts, memory_bytes=1000)
    with pytest.raises(DeviceError, match=r"500 rows x 4 features need .* MB for bins"):
        GpuEngine(runtime, binned_data(make_binned(500, 4, 15)))


def test_too_large_a_buffer_is_refused(runtime):
    sample = make_binned(500, 4, 15)
    engine = GpuEngine(runtime, binned_data(sample))
    engine.workspace.facts = replace(runtime.facts, max_buffer_bytes=50_000)
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    engine.quantize(0, False)
    with pytest.raises(DeviceError, match="histogram_pool_size"):
        engine.begin_tree(1000)


def test_more_rows_than_places_are_refused(monkeypatch):
    monkeypatch.setattr(layout_module, "MOST_ROWS", 100)
    with pytest.raises(DeviceError, match="at most 100"):
        Layout.of(binned_data(make_binned(101, 2, 7)))


def test_rules_that_need_row_counts_are_refused_where_none_are_kept(runtime):
    sample = make_binned(500, 4, 15)
    engine = GpuEngine(runtime, binned_data(sample), min_data_in_leaf=1)
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    engine.quantize(0, False)
    engine.begin_tree(2)
    whole = Segments(np.zeros(1, np.int64), np.array([500]), np.zeros(1, np.int32))
    with pytest.raises(DeviceError, match="min_data_in_leaf"):
        engine.find_splits(whole, np.zeros(1, np.int32), np.zeros(1, np.int64), np.ones(1, np.int64), RULES)


def test_device_without_64_bit_floats_says_so():
    class Device:
        name, extensions, available, compiler_available = "toy", "cl_khr_int64_base_atomics", True, True

        class platform:  # noqa: N801
            name = "toys"

    assert "cl_khr_fp64" in opencl.why_not(Device)


def test_number_of_a_device_that_is_not_there():
    with pytest.raises(DeviceError, match="counted from 0"):
        opencl.open_device(99)


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_bins")
def test_bins_are_padded_to_few_sizes():
    assert [padded_bins(n) for n in (2, 16, 17, 64, 256, 257, 1001, 65_536)] == [16, 16, 64, 64, 256, 512, 1024, 65_536]


@pytest.mark.parametrize(
    ("n_bins", "n_features", "bin_bits", "lanes", "bytes_a_row"),
    [(15, 28, 4, 32, 16), (15, 33, 4, 64, 32), (16, 33, 8, 32, 64), (255, 33, 8, 32, 64), (256, 33, 16, 16, 96)],
)
def test_bins_take_as_few_bits_as_hold_them(n_bins, n_features, bin_bits, lanes, bytes_a_row):
    layout = Layout.of_sizes(1001, np.full(n_features, n_bins, np.int32))
    assert (layout.bin_bits, layout.lanes) == (bin_bits, lanes)
    assert layout.tile_bytes == 1001 * bytes_a_row
    assert layout.column_bytes == n_features * -(-1001 * bin_bits // 8)


@pytest.mark.parametrize(("n_rows", "groups"), [(1, 1), (600, 1), (10_000_000, 264), (10**9, 4)])
def test_chunks_are_few_and_within_bounds(n_rows, groups):
    chunk = tables.chunk_rows(n_rows, groups)
    assert tables.SMALLEST_CHUNK <= chunk <= tables.LARGEST_CHUNK
    assert chunk % tables.SMALLEST_CHUNK == 0


def test_passes_share_the_device():
    assert tables.groups_a_pass(264, 1) == 264
    assert tables.groups_a_pass(264, 63) == 4
    assert tables.groups_a_pass(4, 63) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
@pytest.mark.parametrize("capacity", [1, 9, 40, 1536])
def test_model_does_not_depend_on_how_far_the_device_grows_ahead(gpu, monkeypatch, capacity, policy):
    X, y = make_higgs_like(800, 7, seed=3)
    params = {"objective": "binary", "num_leaves": 31, "min_data_in_leaf": 1, "grow_policy": policy, "verbosity": -1}
    expected = hb.train({**params, "device": "reference"}, hb.Dataset(X, label=y), 3).fingerprint()
    monkeypatch.setattr(growth_module, "CAPACITY", capacity)  # the device stops there, and the host goes on
    found = hb.train({**params, "device": gpu}, hb.Dataset(X, label=y), 3)
    assert found.fingerprint() == expected


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_device_finishes_trees_without_the_host(gpu, monkeypatch, policy):
    X, y = make_higgs_like(3000, 7, seed=4)
    rounds = []
    expand = GpuEngine.expand
    monkeypatch.setattr(GpuEngine, "expand", lambda self, *given: rounds.append(1) or expand(self, *given))
    params = {"objective": "binary", "num_leaves": 63, "grow_policy": policy, "device": gpu, "verbosity": -1}
    assert hb.train(params, hb.Dataset(X, label=y), 3).trees[-1].n_leaves > 31
    assert rounds == []


def test_device_finishes_late_trees_whose_gains_rise_from_parent_to_child(gpu, monkeypatch):
    """Many nodes then wait behind one ancestor of low gain, and only the whole chain of gains tells their order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    y = (rng.random(2000) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(float)
    rounds = []
    expand = GpuEngine.expand
    monkeypatch.setattr(GpuEngine, "expand", lambda self, *given: rounds.append(1) or expand(self, *given))
    params = {"objective": "binary", "num_leaves": 31, "learning_rate": 0.5, "min_data_in_leaf": 1, "verbosity": -1}
    found = hb.train({**params, "device": gpu}, hb.Dataset(X, label=y), 15)
    assert rounds == []
    assert found.fingerprint() == hb.train({**params, "device": "cpu"}, hb.Dataset(X, label=y), 15).fingerprint()


@pytest.mark.parametrize("options", [{}, {"lambda_l1": 3.0}, {"max_delta_step": 0.1, "lambda_l2": 2.0}])
def test_leaf_values_of_the_device_are_those_of_the_host(runtime, options):
    X, y = make_higgs_like(1500, 6, seed=6)
    binned = hb.Dataset(X).construct().binned
    engine = GpuEngine(runtime, binned, min_data_in_leaf=1)
    engine.set_scores(np.zeros((1, 1500)))
    engine.set_gradients(y[None] - 0.5, np.where(np.arange(1500) < 300, 0.0, 0.25)[None])  # leaf 0 has no weight
    engine.quantize(0, False)
    engine.begin_tree(2)
    bounds = np.array([0, 300, 700, 1500])
    nodes = Segments(bounds[:-1], bounds[1:], np.zeros(3, np.int32))
    engine.assign_leaves(nodes, np.arange(3, dtype=np.int32))
    rules = replace(PLAIN_RULES, **options)
    gradient, hessian = engine.leaf_sums(3)
    value, weight = engine.leaf_values_later(3, rules, 0.3)()
    assert (value == leaf_output(gradient, hessian, rules) * 0.3).all()
    assert (weight == hessian).all()
    engine.add_leaf_values(0, None)
    assert (engine.scores()[0] == np.repeat(value, np.diff(bounds))).all()
    engine.close()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "objective",
    [
        "binary",
        "regression",
        "cross_entropy",
        "poisson",
        "tweedie",
        "focal",
        "quantile",
        "hinge",
        "cross_entropy_lambda",
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_that_are_computed_at_each_use_are_those_that_could_be_stored(gpu, monkeypatch, objective, weighted):
    X, y = make_higgs_like(800, 6, seed=3)
    weight = np.random.default_rng(3).random(800) if weighted else None
    params = {"objective": objective, "num_leaves": 12, "device": gpu, "verbosity": -1}
    stored = []
    of_rows, store = DeviceGradients.of_rows, DeviceGradients.store
    monkeypatch.setattr(DeviceGradients, "store", lambda self: stored.append(1) or store(self))
    found = hb.train(params, hb.Dataset(X, label=y, weight=weight), 3).fingerprint()
    assert stored == []
    monkeypatch.setattr(DeviceGradients, "of_rows", lambda self, output: self.store() or of_rows(self, output))
    assert found == hb.train(params, hb.Dataset(X, label=y, weight=weight), 3).fingerprint()
    assert len(stored) > 0

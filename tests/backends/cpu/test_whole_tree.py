"""The CPU's whole-tree kernel: its split search is exact up to the largest sums, and it takes only trees that fit.

That its trees are the right ones is tested with those of all devices, in trees/test_grower.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.backends.cpu.growth import growth
from hornbeam.backends.cpu.growth.dense import running_sums
from hornbeam.backends.cpu.growth.dense.partition import DenseRows, count_dense
from hornbeam.backends.cpu.growth.dense.running_sums import Planes, Scores, to_float
from hornbeam.backends.cpu.growth.dense.tree import search_in_tree
from hornbeam.backends.cpu.growth.operations import CALL, Counting
from hornbeam.backends.cpu.growth.rows.records import RowStore
from hornbeam.backends.cpu.growth.splits.contexts import NO_CONTEXTS, NO_MARKS, Contexts, Marks, enter_context
from hornbeam.backends.cpu.growth.splits.rules import RULES, Rules, enter_node
from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.operations import NO_OPERATION, Operation, run
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.fixed_point import NARROW_GRADIENT_LIMIT, NARROW_HESSIAN_LIMIT, Quantization
from hornbeam.testing.checks import PLAIN_RULES, binned_data
from hornbeam.testing.data import BinnedSample, make_binned
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.grower import NodeTable, TreeGrower
from hornbeam.trees.splitting import CategoricalRules, FeatureRules, NodeContext, best_split, node_score, pack_mask

BIG = 1 << 30
WIDE = {"most_narrow_gradients": -1}  # running sums of 64 bits
ROWS = 65_536  # the largest narrow gradients and hessians of as many rows just fit


@kernel
def accumulate(counters, gradient, hessian):
    running_sums.accumulate(counters, gradient, hessian)


@kernel
def run_up(gradient, hessian):
    running_sums.run_up(gradient, hessian)


@kernel
def search_kernel(calls, n_rows, gradient, hessian, n_features, less, rules, contexts, search):
    """Do what trees/driver.py does with one node, in slot 0; less: slot of its sibling, or -1."""
    call = calls[0]
    enter_node(call, 0, n_rows, 0, gradient, hessian, rules[0])
    if len(contexts.score) > 0:
        enter_context(call, contexts, 0)
    call.first, call.last, call.slot, call.less = 0, n_features, 0, less
    run(search, 0)


def assert_same_split(bins, n_values, has_missing, g, h, rules, widths=(4, 8), context=None) -> np.void:
    """Compare the kernels' best split of all rows with that of the definition, with sums of 4 and of 8 bytes."""
    splits = [
        assert_same_split_of(width, bins, n_values, has_missing, g, h, rules, context=context) for width in widths
    ]
    return splits[0]


def assert_same_split_of(
    width, bins, n_values, has_missing, g, h, rules, units=(2.0**-15, 2.0**-16), context=None
) -> np.void:
    """Compare the kernels' best split of all rows with that of the definition.

    The kernels get the running sums twice: as they are, and by subtracting those of half the rows from those of all.

    context  of the node; its score is that of the rows at hand
    """
    bins, has_missing = np.asarray(bins, np.uint8), np.asarray(has_missing)
    columns = np.ascontiguousarray(bins.T)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(n_values) + 1)])
    how = Quantization(*units, False, int(h.min()), int(h.max()))

    def sums(rows):
        histogram, counts = np.zeros((offsets[-1], 2), np.int64), np.zeros(offsets[-1], np.int64)
        gradient, hessian = np.zeros(offsets[-1], f"i{width}"), np.zeros(offsets[-1], f"u{width}")
        for f in range(bins.shape[1]):
            np.add.at(histogram, offsets[f] + bins[rows, f], np.stack([g[rows], h[rows]], axis=1))
            np.add.at(counts, offsets[f] + bins[rows, f], 1)
            own = slice(offsets[f], offsets[f + 1])
            if width == 4:
                accumulate((histogram[own, 0] << 32) + histogram[own, 1], gradient[own], hessian[own])
            else:
                gradient[own], hessian[own] = histogram[own].T
                run_up(gradient[own], hessian[own])
        return histogram, counts, gradient, hessian

    def scored(context, rows):
        g_sum, h_sum = np.array([g[rows].sum() * units[0]]), np.array([h[rows].sum() * units[1]])
        return replace(context, score=node_score(g_sum, h_sum, np.array([len(rows)]), context.parent_output, rules))

    def defined(histogram, counts, rows):
        given = None if context is None else scored(context, rows)
        return best_split(histogram, counts, offsets, has_missing, how, rules, given)

    def search(records, gradient, hessian, less_g, less_h):
        numbers = records.astype(int)
        store = RowStore(np.zeros((len(bins), 8), np.uint8), by_row=True)
        store.even[: len(records)] = records
        rows = DenseRows.of(store, columns, np.empty(0, np.uint8), np.empty((2, 1, 16), np.int64))
        numbers_of_rules = Rules.of(rules, how, context is not None)
        assert numbers_of_rules.by_scores or context is None
        calls, rules_record = np.zeros(1, CALL), np.array([tuple(numbers_of_rules)], RULES)
        contexts, marks = NO_CONTEXTS, NO_MARKS
        if context is not None:
            contexts, features = Contexts.of(scored(context, numbers)), context.features
            names = np.arange(len(features.sign), dtype=np.int32)
            marks = Marks(names, features.sign, features.contribution, context.mask)
        counts, all_counts = np.empty((1, max(n_values) + 1), np.int64), np.empty((1, 0), np.int64)
        count, searching = Operation(count_dense), Operation(search_in_tree)
        counting = Counting(count.on(calls, rows, counts, all_counts), counts, all_counts)
        planes = Planes(np.stack([gradient, less_g]), np.stack([hessian, less_h]))
        operation = searching.on(
            calls, offsets, has_missing, planes, Scores.make(1, int(offsets[-1]), bins.shape[1]),
            np.empty((1, 0, 2), np.int64), marks, rules_record, counting, NO_OPERATION,
        )  # fmt: skip
        total_g, total_h, less = int(g[numbers].sum()), int(h[numbers].sum()), 1 if less_g.any() or less_h.any() else -1
        search_kernel(calls, len(records), total_g, total_h, bins.shape[1], less, rules_record, contexts, operation)
        return calls[0]["split"].copy()

    everything = np.arange(len(bins), dtype=np.uint64)
    histogram, counts, gradient, hessian = sums(slice(None))
    expected = defined(histogram, counts, np.arange(len(bins)))
    nothing_g, nothing_h = np.zeros_like(gradient), np.zeros_like(hessian)
    found = search(everything, gradient, hessian, nothing_g, nothing_h)
    assert found.tolist() == expected.tolist()

    half = len(bins) // 2
    if half:
        _, _, less_g, less_h = sums(slice(half, None))
        histogram, counts, _, _ = sums(slice(None, half))
        by_subtraction = search(everything[:half], gradient, hessian, less_g, less_h)
        assert by_subtraction.tolist() == defined(histogram, counts, np.arange(half)).tolist()
    return expected


@given(data=st.data())
def test_split_equals_the_definition(data):
    n_rows, n_features = data.draw(st.tuples(st.integers(1, 24), st.integers(1, 4)))
    n_values = data.draw(st.lists(st.integers(1, 9), min_size=n_features, max_size=n_features))
    codes = [data.draw(st.lists(st.integers(0, n), min_size=n_rows, max_size=n_rows)) for n in n_values]
    bins = np.array(codes).T
    gradients = st.integers(-3, 3) | st.integers(-NARROW_GRADIENT_LIMIT, NARROW_GRADIENT_LIMIT)
    g = np.array(data.draw(st.lists(gradients, min_size=n_rows, max_size=n_rows)), np.int64)
    hessians = st.integers(0, 3) | st.integers(0, NARROW_HESSIAN_LIMIT)
    h = np.array(data.draw(st.lists(hessians, min_size=n_rows, max_size=n_rows)), np.int64)
    rules = replace(
        PLAIN_RULES,
        min_data_in_leaf=data.draw(st.integers(1, 6)),
        lambda_l1=data.draw(st.sampled_from([0.0, 0.0, 0.1])),
        lambda_l2=data.draw(st.sampled_from([0.0, 1e-3, 1.0, 1e30])),
        max_delta_step=data.draw(st.sampled_from([0.0, 0.0, 0.3])),
        min_gain_to_split=data.draw(st.sampled_from([0.0, 0.5])),
        min_sum_hessian_in_leaf=data.draw(st.sampled_from([0.0, 1e-3, 0.5])),
    )
    assert_same_split(bins, n_values, (bins == n_values).any(axis=0), g, h, rules)


@given(data=st.data())
def test_split_between_bounds_equals_the_definition(data):
    """Scores without bounds say which candidates can win with bounds, signs and factors."""
    n_rows, n_features = data.draw(st.tuples(st.integers(2, 40), st.integers(1, 4)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    n_values = rng.integers(1, 12, n_features).tolist()
    bins = rng.integers(0, np.array(n_values) + 1, (n_rows, n_features))
    g = rng.integers(-9, 10, n_rows) * data.draw(st.sampled_from([1, 900]))
    h = rng.integers(0, 4, n_rows) * 200 if data.draw(st.booleans()) else np.full(n_rows, 200)
    bounds = st.sampled_from([-np.inf, -40.0, -1.5, -0.1, 0.0, 0.2, 3.0, 60.0, np.inf])
    lower, upper = sorted(data.draw(st.tuples(bounds, bounds)))
    if lower == upper and np.isinf(lower):
        lower, upper = -np.inf, np.inf
    factors = [1.0, 1.0, 0.5, 0.0]
    context = NodeContext(
        np.array([lower]), np.array([upper]), np.zeros(1), np.zeros(1), np.array([rng.choice(factors)]),
        np.zeros(1, np.uint64), pack_mask(rng.random((1, n_features)) < 0.8),
        FeatureRules(rng.integers(-1, 2, n_features).astype(np.int8), rng.choice(factors, n_features)),
    )  # fmt: skip
    rules = replace(
        PLAIN_RULES,
        monotone=True,
        min_data_in_leaf=data.draw(st.integers(1, 6)),
        lambda_l2=data.draw(st.sampled_from([0.0, 1e-3, 1.0])),
        min_gain_to_split=data.draw(st.sampled_from([0.0, 0.5])),
    )
    assert_same_split(bins, n_values, (bins == n_values).any(axis=0), g, h, rules, context=context)


def test_rules_refuse_the_candidates_of_highest_score():
    """Candidates near the highest score are looked at first; where none of them is allowed, the others are."""
    bins = np.repeat(np.arange(20), 5)[:, None]
    g = np.where(np.arange(100) < 3, -NARROW_GRADIENT_LIMIT, np.arange(100) % 7)
    bins[:3] = 0
    bins[3:10, 0] = 1
    h = np.full(100, 100)
    h[50] = 101  # hessians that differ leave row counts open
    splits = [
        assert_same_split(bins, [20], [False], g, h, replace(PLAIN_RULES, min_data_in_leaf=rows)) for rows in (1, 4, 30)
    ]
    assert [split["bin"] for split in splits[:2]] == [0, 1]
    assert splits[2]["bin"] > 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_split_of_the_largest_sums_equals_the_definition(sign):
    """65,536 rows of the largest gradient and hessian are the most that 32 bits hold."""
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 8, (ROWS, 2))
    g = np.full(ROWS, sign * NARROW_GRADIENT_LIMIT)
    h = np.full(ROWS, NARROW_HESSIAN_LIMIT)
    assert_same_split(bins, [7, 8], [True, False], g, h, PLAIN_RULES)
    g[bins[:, 0] == 3] *= -1
    h[bins[:, 1] < 4] = 5
    split = assert_same_split(bins, [7, 8], [True, False], g, h, PLAIN_RULES)
    assert split["gain"] > 0
    split = assert_same_split(bins, [7, 8], [True, False], 64 * g, 32 * h, PLAIN_RULES, widths=[8])
    assert abs(64 * g).sum() + 64 * ROWS >= Tuning().most_wide_sums  # next to the largest
    assert split["gain"] > 0


def test_sums_of_eight_bytes_are_rounded_to_floats_once():
    pytest.importorskip("numba")
    powers = np.array([sign * (2**power + step) for power in range(37) for step in (-1, 0, 1) for sign in (1, -1)])
    sums = np.concatenate([powers, np.random.default_rng(0).integers(-(2**37), 2**37, 1000)])
    for kind in (np.int64, np.uint64):
        taken = sums[sums >= 0].astype(kind) if kind is np.uint64 else sums
        found = np.array([to_float.dispatcher(value, 8) for value in taken])
        assert (found == taken.astype(np.float32)).all()


def engine_for(gradient, hessian, **tuning) -> CpuEngine:
    n_rows = len(gradient)
    bins = (np.arange(n_rows)[:, None] % 3).astype(np.uint8)
    sample = BinnedSample(bins, np.array([3], np.int32), np.array([False]), gradient, hessian)
    engine = CpuEngine(binned_data(sample), 1, Tuning(**tuning))
    engine.set_scores(np.zeros((1, n_rows)))
    engine.set_gradients(gradient[None], hessian[None])
    engine.quantize(0, False)
    return engine


def grow(engine: CpuEngine, n_slots: int, n_leaves: int):
    """Return the nodes that the engine makes by itself, or None."""
    root = NodeTable(engine.begin_tree(n_slots)).table()
    ahead = engine.grow_ahead(root, PLAIN_RULES, GrowthLimits(n_leaves, BIG, False))
    return None if ahead is None else ahead.nodes


@pytest.mark.parametrize("n_rows", [ROWS, ROWS + 100])
def test_large_sums_are_of_eight_bytes_and_larger_ones_left_to_the_rounds(n_rows):
    odd = np.arange(n_rows) % 2 == 1
    large_gradient, small_gradient = np.where(odd, 0.9999, -0.9999), np.linspace(-0.9999, 0.9999, n_rows)
    large_hessian, small_hessian = np.where(odd, 0.9999, 0.9998), np.ones(n_rows)  # ones are counted: 1 each
    for gradient, hessian, fits in (
        (large_gradient, small_hessian, n_rows == ROWS),
        (small_gradient, large_hessian, n_rows == ROWS),
        (small_gradient, small_hessian, True),
    ):
        engine = engine_for(gradient, hessian)
        assert grow(engine, 8, 4) is not None
        assert engine.growth._planes[0].itemsize == (4 if fits else 8)
        assert (grow(engine, 2, 4) is not None) == fits  # there are half as many of them in the pool
        assert grow(engine_for(gradient, hessian, most_wide_sums=1000), 8, 4) is None


def test_tree_is_left_to_the_rounds_where_the_pool_is_too_small():
    engine = engine_for(np.linspace(-1.0, 1.0, 90), np.ones(90))
    for n_slots, taken in ((2, False), (3, True), (62, True)):
        assert (grow(engine, n_slots, 6) is not None) == taken


FREE = GrowthLimits(25, BIG, False)


def whole_and_in_rounds(monkeypatch, sample, rules, n_categorical=0, limits=FREE, n_threads=1, **tuning) -> list[dict]:
    """Return the tree that a team has grown whole and that of the rounds, with the scores after it."""
    binned = binned_data(sample, n_categorical)
    trees, sizes, team = [], [], growth.team
    monkeypatch.setattr(growth, "team", lambda size: sizes.append(size) or team(size))
    for whole in (True, False):
        most_leaves = 1024 if whole else 0
        tuned = Tuning(thread_work_ns=1, waking_ns=1, team_cpus=n_threads, most_leaves=most_leaves, **tuning)
        engine = CpuEngine(binned, n_threads, tuned)
        engine.set_scores(np.zeros((1, len(sample.bins))))
        engine.set_gradients(sample.gradient[None], sample.hessian[None])
        grower = TreeGrower(engine, binned, rules, limits, 2 * limits.n_leaves)
        grown = grower.grow(engine.quantize(0, False), 0.1)
        engine.add_leaf_values(0, grown.leaf_value)
        trees.append(
            {name: array.tolist() for name, array in vars(grown.tree).items() if isinstance(array, np.ndarray)}
        )
        trees[-1]["scores"] = engine.scores().tolist()
        codes = grown.tree.left_codes
        trees[-1]["codes"] = None if codes is None else [None if own is None else own.tolist() for own in codes]
    assert sizes == [min(n_threads, sample.bins.shape[1])]
    return trees


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("n_features", "n_bins"), [(3, 300), (70, 200)], ids=["two-byte bins", "blocks of features"])
def test_tree_is_that_of_the_rounds(monkeypatch, ordered, n_features, n_bins, n_threads):
    tuning = {"ordered_smallest_bytes": 0 if ordered else 1 << 40, "travelling_levels": 0}
    sample = make_binned(3000, n_features, n_bins, 0.1, seed=n_bins)
    for each in (sample.bins.T, sample.n_value_bins, sample.has_missing):
        each[-1] = each[0]  # equal gains, of two threads
    rules = replace(PLAIN_RULES, min_data_in_leaf=20)
    whole, in_rounds = whole_and_in_rounds(monkeypatch, sample, rules, n_threads=n_threads, **tuning)
    assert len(whole["leaf_value"]) == 25
    assert whole == in_rounds


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("large_share", [0.0, 0.5, 1e9], ids=["shared", "large ones shared", "alone"])
@pytest.mark.parametrize(
    ("limits", "fewest"),
    [
        (GrowthLimits(25, BIG, True), 25),  # the last generation is split in part
        (GrowthLimits(16, BIG, True), 16),
        (GrowthLimits(300, 5, True), 20),
        (GrowthLimits(300, BIG, True), 60),  # until leaves are too small
    ],
)
def test_tree_by_depth_is_that_of_the_rounds(monkeypatch, limits, fewest, large_share, n_threads):
    sample = make_binned(3000, 7, 30, 0.1, seed=4)
    for each in (sample.bins.T, sample.n_value_bins, sample.has_missing):
        each[1] = each[0]  # equal gains, of one feature and another
    rules = replace(PLAIN_RULES, min_data_in_leaf=20)
    whole, in_rounds = whole_and_in_rounds(
        monkeypatch, sample, rules, 2, limits, n_threads=n_threads, large_share=large_share
    )
    assert len(whole["leaf_value"]) >= fewest
    assert any(codes is not None for codes in whole["codes"])
    assert whole == in_rounds


def test_tree_by_depth_is_the_same_each_time():
    """Large nodes are shared, the others have a thread each: whoever is first, a tree is the same, again and again."""
    sample, limits = make_binned(3000, 7, 30, 0.1, seed=4), GrowthLimits(300, BIG, True)
    binned, rules = binned_data(sample, 2), replace(PLAIN_RULES, min_data_in_leaf=20)
    grown = []
    for n_threads, n_times in ((1, 1), (5, 20)):
        tuned = Tuning(thread_work_ns=1, waking_ns=1, team_cpus=n_threads, most_leaves=1024, large_share=0.5)
        engine = CpuEngine(binned, n_threads, tuned)
        for _ in range(n_times):
            engine.set_scores(np.zeros((1, len(sample.bins))))
            engine.set_gradients(sample.gradient[None], sample.hessian[None])
            grower = TreeGrower(engine, binned, rules, limits, 2 * limits.n_leaves)
            grown.append(grower.grow(engine.quantize(0, False), 0.1).tree)
    first = grown[0]
    assert len(first.leaf_value) > 60
    for other in grown[1:]:
        for name in ("feature", "threshold", "left", "gain", "leaf_value"):
            np.testing.assert_array_equal(getattr(other, name), getattr(first, name))


def test_equal_gains_are_split_in_the_order_of_the_nodes(monkeypatch):
    """Both halves of the rows are alike, so that gains come in pairs, and the last generation may end within one."""
    half = make_binned(600, 4, 12, 0.1, seed=9)
    rows = [np.concatenate([array, array]) for array in (half.bins, half.gradient, half.hessian)]
    sides = np.repeat(np.arange(2, dtype=half.bins.dtype), 600)
    bins = np.column_stack([rows[0], sides])
    sample = half._replace(
        bins=bins, gradient=rows[1] + 50.0 * (2.0 * sides - 1.0), hessian=np.ones(1200),
        n_value_bins=np.append(half.n_value_bins, 2), has_missing=np.append(half.has_missing, False),
    )  # fmt: skip
    rules = replace(PLAIN_RULES, min_data_in_leaf=5)
    for n_leaves in (3, 5, 6, 7, 11):
        with monkeypatch.context() as patch:
            limits = GrowthLimits(n_leaves, BIG, True)
            whole, in_rounds = whole_and_in_rounds(patch, sample, rules, 0, limits, n_threads=2)
        assert whole == in_rounds


@pytest.mark.parametrize("n_threads", [1, 2])
def test_tree_of_large_sums_is_that_of_the_rounds(monkeypatch, n_threads):
    sample = make_binned(70_000, 5, 60, 0.1, seed=4)  # more rows than packed counters hold
    rules = replace(PLAIN_RULES, min_data_in_leaf=20)
    whole, in_rounds = whole_and_in_rounds(monkeypatch, sample, rules, 2, n_threads=n_threads, **WIDE)
    assert len(whole["leaf_value"]) == 25
    assert whole == in_rounds


@pytest.mark.parametrize("look_cost", [0.0, 1.0, 1e9], ids=["never", "large nodes", "always"])
@pytest.mark.parametrize(("n_rows", "wide"), [(3000, False), (3000, True), (140_000, True)])
def test_threads_may_share_rows(monkeypatch, look_cost, n_rows, wide):
    """In groups of four threads and of one, which takes several passes for more rows than packed counters hold."""
    tuning = {"look_cost": look_cost, **(WIDE if wide else {})}
    sample = make_binned(n_rows, 7, 30, 0.1, seed=4)
    rules = replace(PLAIN_RULES, min_data_in_leaf=20)
    whole, in_rounds = whole_and_in_rounds(monkeypatch, sample, rules, 2, n_threads=5, **tuning)
    assert len(whole["leaf_value"]) == 25
    assert whole == in_rounds


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("n_features", "n_bins"), [(3, 300), (9, 20)], ids=["two-byte bins", "one-byte bins"])
@pytest.mark.parametrize("some_numbers", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_tree_with_categories_is_that_of_the_rounds(monkeypatch, ordered, n_features, n_bins, some_numbers, n_threads):
    tuning = {"ordered_smallest_bytes": 0 if ordered else 1 << 40, "travelling_levels": 0}
    sample = make_binned(3000, n_features, n_bins, 0.1, seed=n_bins)
    effect = np.random.default_rng(1).normal(size=n_bins + 1)
    sample = sample._replace(gradient=sample.gradient + effect[sample.bins[:, -1]])
    n_categorical = 2 if some_numbers else n_features
    for categorical in (CategoricalRules(4, 32, 1.0, 1.0, 5), CategoricalRules(500, 32, 10.0, 10.0, 100)):
        with monkeypatch.context() as patch:
            rules = replace(PLAIN_RULES, min_data_in_leaf=20, categorical=categorical)
            whole, in_rounds = whole_and_in_rounds(patch, sample, rules, n_categorical, n_threads=n_threads, **tuning)
        assert len(whole["leaf_value"]) > 5
        assert sum(codes is not None for codes in whole["codes"]) > 2
        assert whole == in_rounds


def test_no_more_is_expanded_than_is_split():
    sample = make_binned(500, 4, 15, 0.2, seed=1)
    binned = binned_data(sample)
    engine = CpuEngine(binned, 1)
    engine.set_scores(np.zeros((1, 500)))
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    for n_leaves in (2, 3, 12):
        limits = GrowthLimits(n_leaves, BIG, False)
        grown = TreeGrower(engine, binned, PLAIN_RULES, limits, 24).grow(engine.quantize(0, False), 0.1)
        table = grow(engine, 24, n_leaves)
        assert table is not None
        assert len(table) == 2 * n_leaves - 1
        assert grown.n_splits == n_leaves - 1

"""Every operation of every engine equals the reference engine's, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.backends.cpu.growth.rows import pieces
from hornbeam.backends.cpu.growth.rows.counters import PACKED_ROWS
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.random_choices import chance_limit
from hornbeam.objectives import OBJECTIVES, get_objective
from hornbeam.params.params import Params
from hornbeam.testing.checks import (
    PLAIN_RULES,
    assert_same_bits,
    assert_same_operations,
    binned_data,
    engine_on,
    leaf_numbers,
    random_binned_tree,
)
from hornbeam.testing.data import BinnedSample, make_binned
from hornbeam.testing.labels import labels_for, params_for
from hornbeam.testing.output_checks import assert_same_output_operations
from hornbeam.trees.bagging import Draw
from hornbeam.trees.engine import Engine
from hornbeam.trees.records import Segments

RULES = replace(PLAIN_RULES, min_data_in_leaf=20, min_sum_hessian_in_leaf=1e-3)


@pytest.fixture
def many_threads(tune):
    """Cut all work as finely as possible, so that threads really share nodes."""
    tune(
        updates_per_thread=1,
        summed_rows_per_thread=1,
        assigned_rows_per_thread=1,
        routed_rows_per_thread=1,
        divided_rows_per_thread=1,
        rounded_rows_per_thread=1,
        renewed_rows_per_thread=1,
        searched_bins_per_thread=1,
        smallest_piece=7,
    )


def check(device, sample: BinnedSample, *, num_threads=0, valid=None, **options) -> None:
    binned = binned_data(sample)
    assert_same_operations(
        binned,
        sample.gradient[None],
        sample.hessian[None],
        engine_on(device, binned, num_threads),
        valid=None if valid is None else binned_data(valid),
        **options,
    )


# --- every device ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("n_bins", [2, 15, 255, 256, 1000])
@pytest.mark.parametrize("missing_fraction", [0.0, 0.3])
@pytest.mark.parametrize("high_precision", [False, True], ids=["auto", "high"])
def test_operations_equal_the_reference(device, n_bins, missing_fraction, high_precision):
    sample = make_binned(900, 7, n_bins, missing_fraction, seed=n_bins)
    check(device, sample, high_precision=high_precision, rules=RULES, valid=make_binned(300, 7, n_bins, 0.2, seed=1))


@pytest.mark.sampled
@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 5, 8, 13, 40])
def test_operations_equal_the_reference_for_any_number_of_features(device, n_features):
    check(device, make_binned(600, n_features, 63, 0.1, seed=n_features), rules=RULES)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "changes",
    [
        {"lambda_l1": 3.0},
        {"lambda_l2": 2.5},
        {"max_delta_step": 0.3},
        {"lambda_l1": 1.0, "lambda_l2": 0.5, "max_delta_step": 0.7},
        {"min_gain_to_split": 5.0},
        {"min_data_in_leaf": 1},
        {"min_data_in_leaf": 150},
        {"min_sum_hessian_in_leaf": 10.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("constant_hessian", [False, True], ids=["hessians", "constant hessian"])
def test_operations_equal_the_reference_under_any_rule(device, changes, constant_hessian):
    sample = make_binned(1200, 5, 31, 0.2, seed=3, constant_hessian=constant_hessian)
    check(device, sample, rules=replace(RULES, **changes))


def test_operations_equal_the_reference_for_heavy_tails(device):
    sample = make_binned(1500, 5, 63, 0.2, seed=4)
    tails = np.random.default_rng(0).random(1500) < 0.004
    heavy = sample._replace(gradient=np.where(tails, sample.gradient * 1e6, sample.gradient))
    check(device, heavy, rules=RULES)
    check(device, heavy._replace(hessian=np.where(tails, 1e5, sample.hessian)), rules=RULES)


@pytest.mark.sampled
@pytest.mark.parametrize("what", ["zero gradients", "zero hessians", "some zero weights", "denormals", "huge"])
def test_operations_equal_the_reference_for_extreme_gradients(device, what):
    sample = make_binned(800, 4, 15, 0.2, seed=5)
    g, h = sample.gradient, sample.hessian
    present = np.random.default_rng(1).random(len(g)) < 0.4
    g, h = {
        "zero gradients": (0.0 * g, h),
        "zero hessians": (g, 0.0 * h),
        "some zero weights": (g * present, h * present),
        "denormals": (g * 1e-310, h * 1e-310),
        "huge": (g * 1e140, h * 1e140),
    }[what]
    check(device, sample._replace(gradient=g, hessian=h), rules=replace(RULES, min_sum_hessian_in_leaf=0.0))


def test_operations_equal_the_reference_for_several_outputs(device):
    samples = [make_binned(700, 6, 31, 0.1, seed=seed) for seed in (0, 1, 2)]
    binned = binned_data(samples[0])
    gradient = np.stack([sample.gradient for sample in samples])
    hessian = np.stack([sample.hessian for sample in samples])
    assert_same_operations(binned, gradient, hessian, engine_on(device, binned), rules=RULES)


@given(
    n_rows=st.integers(1, 300),
    n_features=st.integers(1, 40),
    n_bins=st.sampled_from([2, 3, 16, 255, 300]),
    missing_fraction=st.sampled_from([0.0, 0.1, 0.7]),
    min_data=st.sampled_from([1, 2, 20]),
    high_precision=st.booleans(),
    constant_hessian=st.booleans(),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=7)
def test_operations_equal_the_reference_on_random_data(
    device, n_rows, n_features, n_bins, missing_fraction, min_data, high_precision, constant_hessian, seed
):
    sample = make_binned(n_rows, n_features, n_bins, missing_fraction, seed, constant_hessian)
    rules = replace(RULES, min_data_in_leaf=min_data)
    check(device, sample, rules=rules, high_precision=high_precision, num_threads=2)


@given(data=st.data())
@settings(max_examples=10)
def test_operations_equal_the_reference_when_everything_ties(device, data):
    """Few rows, few bins and few distinct gradients: ties in gain, empty bins and undecided row counts abound."""
    n_rows = data.draw(st.integers(2, 24))
    n_features = data.draw(st.integers(1, 4))
    n_bins = data.draw(st.integers(2, 4))
    codes = st.lists(st.integers(0, n_bins), min_size=n_rows * n_features, max_size=n_rows * n_features)
    bins = np.array(data.draw(codes), np.uint8).reshape(n_rows, n_features)
    gradient = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n_rows, max_size=n_rows)), np.float64)
    hessian = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=n_rows, max_size=n_rows)))
    has_missing = (bins == n_bins).any(axis=0)
    sample = BinnedSample(bins, np.full(n_features, n_bins, np.int32), has_missing, gradient, hessian)
    rules = replace(PLAIN_RULES, min_data_in_leaf=data.draw(st.integers(1, 4)))
    check(device, sample, rules=rules, n_levels=4)


def test_missing_against_values_where_low_bins_are_empty(device):
    """The children of a split lack the bins of the other side; missing against the rest must still name bin 0."""
    n_rows = 200
    bins = np.zeros((n_rows, 1), np.uint8)
    bins[:100, 0] = 0
    bins[100:178, 0] = 2 + np.arange(78) % 2
    bins[178:, 0] = 4  # missing
    gradient = np.repeat([5.0, -1.0, -4.0], [100, 78, 22])
    hessian = np.where(np.arange(n_rows) % 2 == 0, 0.1, 0.25)  # row counts cannot be told from hessian sums
    sample = BinnedSample(bins, np.array([4], np.int32), np.array([True]), gradient, hessian)
    check(device, sample, rules=RULES)


def test_random_splits_send_every_row_to_its_side(device):
    """Partition on splits that no search would choose: empty and full sides, every bin, both missing directions."""
    rng = np.random.default_rng(0)
    for n_bins in (5, 300):
        sample = make_binned(500, 6, n_bins, 0.3, seed=n_bins)
        binned = binned_data(sample)
        whole = Segments(np.zeros(1, np.int64), np.array([500]), np.zeros(1, np.int32))
        engine = engine_on(device, binned)
        for _ in range(10):
            engine.set_gradients(sample.gradient[None], sample.hessian[None])
            engine.quantize(0, False)
            engine.begin_tree(4)
            one = np.zeros(1, SPLIT)
            one["feature"] = rng.integers(6)
            one["bin"] = rng.integers(binned.n_value_bins[one["feature"][0]])
            one["missing_left"] = rng.random() < 0.5
            codes = sample.bins[:, one["feature"][0]]
            missing = codes == binned.n_value_bins[one["feature"][0]]
            left = np.where(missing, one["missing_left"][0], codes <= one["bin"][0])
            n_left = engine.partition(whole, one)
            assert n_left.tolist() == [np.count_nonzero(left)]
            children = Segments(np.array([0, n_left[0]]), np.array([n_left[0], 500]), np.ones(2, np.int32))
            assert (leaf_numbers(engine, children) == ~left).all()


@pytest.mark.sampled
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_of_the_engine_equal_the_reference(device, name, weighted):
    rng = np.random.default_rng(0)
    objective = get_objective(Params.from_dict(params_for(name)))
    binned = binned_data(make_binned(900, 3, 7))
    scores = rng.normal(size=(objective.n_outputs, 900)) * rng.choice([1e-9, 0.1, 1.0, 30.0], 900)
    label = labels_for(name, rng.normal(size=900) * 4.0)
    label, weight = objective.prepare(label, rng.random(900) if weighted else None)
    groups = Segments(np.arange(0, 900, 3), np.arange(3, 901, 3), np.zeros(300, np.int32))
    seen = []
    for name in (device, "reference"):
        engine = engine_on(name, binned)
        engine.set_scores(scores)
        engine.compute_gradients(objective, label, weight)
        for output in range(objective.n_outputs):
            how = engine.quantize(output, False)
            root = engine.begin_tree(2)
            engine.assign_leaves(groups, np.arange(300, dtype=np.int32))
            seen.append((how, root, [sums.tolist() for sums in engine.leaf_sums(300)]))
    assert seen[: objective.n_outputs] == seen[objective.n_outputs :]


@pytest.mark.sampled
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("alpha", "logcosh"), [(0.5, False), (0.9, False), (0.001, False), (0.5, True)])
@pytest.mark.usefixtures("many_threads")
def test_renewed_leaves_equal_the_reference(device, alpha, logcosh, weighted):
    """Ties, zeros of either sign, weights of zero, leaves without rows and of one row."""
    rng = np.random.default_rng(1)
    binned = binned_data(make_binned(900, 3, 7))
    scores = np.round(rng.normal(size=(2, 900)), 1)
    label = np.round(rng.normal(size=900), 1)
    weight = rng.choice([0.0, 0.3, 1.0, 7.0], 900) if weighted else None
    ends = np.array([1, 3, 10, 11, 12, 300, 301, 900])
    groups = Segments(np.append(0, ends[:-1]), ends, np.zeros(8, np.int32))
    leaves_of_groups = np.array([0, 1, 2, 5, 4, 3, 6, 8], np.int32)
    seen = []
    for name in (device, "reference"):
        engine = engine_on(name, binned, 3)
        engine.set_scores(scores)
        engine.set_gradients(np.ones((2, 900)), np.ones((2, 900)))
        engine.quantize(1, False)
        engine.begin_tree(2)
        engine.assign_leaves(groups, leaves_of_groups)
        seen.append(np.asarray(engine.renew_leaves(1, alpha, label, weight, 9, logcosh)))
    assert_same_bits(*seen, "renewed leaves")
    assert seen[0][7] == 0.0


def test_engine_keeps_its_scores_apart_from_the_callers(device):
    binned = binned_data(make_binned(50, 2, 7))
    engine = engine_on(device, binned)
    scores = np.zeros((1, 50))
    engine.set_scores(scores)
    number = engine.add_valid(binned, scores)
    scores[:] = 5.0
    assert not np.asarray(engine.scores()).any()
    assert not np.asarray(engine.valid_scores(number)).any()


def test_several_validation_sets_keep_scores_of_their_own(device):
    train = binned_data(make_binned(60, 3, 9, 0.2))
    engine, reference = engine_on(device, train), engine_on("reference", train)
    sets = [binned_data(make_binned(n, 3, 9, 0.2, seed=n)) for n in (40, 50)]
    for one in (engine, reference):
        assert [one.add_valid(valid, np.zeros((1, valid.n_rows))) for valid in sets] == [0, 1]
        one.add_tree(1, 0, random_binned_tree(np.random.default_rng(0), train, 5))
    assert not np.asarray(engine.valid_scores(0)).any()
    assert_same_bits(np.asarray(engine.valid_scores(1)), reference.valid_scores(1), "scores")


# --- ways through the CPU engine ------------------------------------------------------------------------------------


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("ordered", [False, True], ids=["gather", "ordered"])
@pytest.mark.parametrize("n_bins", [63, 300])
@pytest.mark.parametrize("high_precision", [False, True], ids=["auto", "high"])
@pytest.mark.usefixtures("many_threads")
def test_threads_pieces_and_row_stores_leave_no_trace(tune, n_threads, ordered, n_bins, high_precision):
    tune(ordered_smallest_bytes=0 if ordered else 1 << 40)
    sample = make_binned(900, 6, n_bins, 0.25, seed=n_threads)
    valid = make_binned(200, 6, n_bins, 0.25, seed=100)
    check("cpu", sample, num_threads=n_threads, rules=RULES, high_precision=high_precision, valid=valid)


def test_bins_travel_with_the_rows_or_stay_in_place_by_their_size():
    binned = binned_data(make_binned(100, 3, 7))
    assert not CpuEngine(binned, tuning=Tuning(ordered_smallest_bytes=0)).growth.store.by_row
    assert CpuEngine(binned, tuning=Tuning(ordered_smallest_bytes=0, ordered_bytes_per_row=4)).growth.store.by_row


@pytest.mark.parametrize("ordered", [False, True], ids=["gather", "ordered"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_nodes_of_more_rows_than_a_packed_counter_holds(tune, ordered, n_threads):
    """The largest gradients and hessians in one bin: more than 2**16 rows would overflow a packed counter."""
    tune(ordered_smallest_bytes=0 if ordered else 1 << 40)
    n_rows = PACKED_ROWS + 5000
    bins = np.zeros((n_rows, 2), np.uint8)
    bins[:300, 1] = 1
    bins[-3:, 0] = 2
    gradient = np.full(n_rows, -0.99999)  # no power of two: rounded to 16 bits, not to 15
    gradient[:300] = 0.99999
    hessian = np.full(n_rows, 0.99999)
    hessian[0] = 0.5  # not constant
    sample = BinnedSample(bins, np.array([2, 2], np.int32), np.array([True, False]), gradient, hessian)
    check("cpu", sample, num_threads=n_threads, rules=RULES, n_levels=2)


def test_blocks_of_features_that_exceed_the_counters(tune):
    tune(counters_at_once=40)
    for n_bins in (9, 39, 100):
        check("cpu", make_binned(400, 11, n_bins, 0.2, seed=n_bins), rules=RULES)


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=8), n_threads=st.integers(1, 8), smallest=st.integers(1, 30)
)
def test_pieces_cover_every_row_once(sizes, n_threads, smallest):
    ends = np.cumsum(np.array(sizes, np.int64)) + 5
    nodes = Segments(ends - sizes, ends, np.arange(len(sizes), dtype=np.int32))
    found = pieces.cut(nodes, n_threads, 1, Tuning(smallest_piece=smallest))
    assert found.bounds[0] == 0
    assert found.bounds[-1] == len(found.node)
    assert (np.diff(found.bounds) >= 0).all()
    assert len(found.bounds) <= n_threads + 1
    for node in range(len(sizes)):
        own = slice(found.first[node], found.first[node + 1])
        assert (found.node[own] == node).all()
        assert (found.depth[own] == node).all()
        covered = [
            place for begin, end in zip(found.begin[own], found.end[own], strict=True) for place in range(begin, end)
        ]
        assert covered == list(range(nodes.begin[node], nodes.end[node]))


class Recorder:
    """An engine that notes which of its operations are called."""

    def __init__(self, engine):
        self.engine, self.called = engine, set()

    def __getattr__(self, name):
        self.called.add(name)
        return getattr(self.engine, name)


def test_every_operation_of_the_protocol_is_compared(device):
    """An operation that joins the protocol has to join assert_same_operations too."""
    operations = {name for name in dir(Engine) if not name.startswith("_") and callable(getattr(Engine, name))}
    sample = make_binned(300, 4, 9, seed=1)
    data = binned_data(sample, n_categorical=1)
    recorder = Recorder(engine_on(device, data))
    gradient, hessian = (np.array([values]) for values in (sample.gradient, sample.hessian))
    assert_same_operations(data, gradient, hessian, recorder, valid=data, draw=Draw(3, chance_limit(0.6)))
    numeric = binned_data(sample)
    second = Recorder(engine_on(device, numeric))
    assert_same_operations(numeric, gradient, hessian, second)
    third = Recorder(engine_on(device, numeric))
    outputs = np.concatenate([gradient, -gradient]), np.concatenate([hessian, hessian])
    assert_same_output_operations(numeric, *outputs, third, rules=PLAIN_RULES)
    assert operations - (recorder.called | second.called | third.called) == set()

"""Kernels of workers against their definitions in NumPy, and whole trainings by kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.growth.rows.counters import COUNTED_ROWS
from hornbeam.backends.cpu.tuning import tuned
from hornbeam.backends.histogram_messages import NARROW, NOTHING, PACKED, WIDE, write_message
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import alone
from hornbeam.distributed.search import Candidates, NodeSums, SectionSearch, sections
from hornbeam.distributed.tree_rows import CompiledRows, TreeRows
from hornbeam.params.params import Params
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import golden_score, golden_table
from hornbeam.testing.worker_checks import (
    N_WORKERS,
    assert_same_rows,
    left_rows,
    root_segment,
    some_bag,
    some_gradients,
)
from hornbeam.testing.workers import train_on_workers
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules, no_splits


@pytest.fixture(scope="module", params=[255, 700], ids=["8-bit bins", "16-bit bins"])
def binned(request):
    table = golden_table(1500, 5, missing=True)
    table[:, 4] = np.floor(np.abs(table[:, 4]) * 3.0)
    params = Params.from_dict({"max_bin": request.param, "min_data_in_bin": 1, "device": "reference"})
    data = hb.Dataset(table, label=golden_score(table), categorical_features=[4])
    return data.construct(params).binned


def both_rows(binned, rng, n_threads, kind, bag=None):
    """Return the definition and the compiled twin on the same rounded gradients, and how they were rounded."""
    n_rows = binned.n_rows if bag is None else bag.n_in_bag
    gradient, hessian = some_gradients(n_rows, kind, rng)
    parts = sections(binned, N_WORKERS)
    rows = TreeRows(binned, parts), CompiledRows(binned, parts, n_threads)
    how = [each.round(gradient, hessian, bag, kind == "wide", alone) for each in rows]
    assert how[0] == how[1]
    assert rows[0].root == rows[1].root
    return n_rows, *rows, how[0]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["narrow", "ones", "wide"])
@pytest.mark.parametrize("in_bag", [False, True], ids=["all rows", "bag"])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    "cuts",
    [{}, {"smallest_piece": 40}, {"counters_at_once": 300}, {"smallest_piece": 40, "counters_at_once": 800}],
    ids=["whole", "pieces", "blocks", "both"],
)
def test_rows_are_summed_and_divided_as_defined(binned, kind, in_bag, n_threads, cuts):
    rng = np.random.default_rng(len(kind))
    bag = some_bag(binned, rng) if in_bag else None
    with tuned(updates_per_thread=10, team_cpus=3, **cuts):
        _, defined, compiled, how = both_rows(binned, rng, n_threads, kind, bag)
    assert how.wide == (kind == "wide")
    assert how.n_sums == (2 if kind == "ones" else 3)
    assert_same_rows(binned, defined, compiled, how, rng)


@pytest.mark.parametrize(("kind", "packed", "else_"), [("narrow", COUNTED_ROWS, NARROW), ("wide", 0, WIDE)])
def test_nodes_of_few_rows_are_sent_packed_and_those_of_none_not_at_all(binned, kind, packed, else_):
    n_rows, _, rows, how = both_rows(binned, np.random.default_rng(1), 1, kind)
    ends = np.array([0, 1, 900, 1024, 1025, n_rows])
    nodes = Segments(np.zeros(6, np.int64), ends, np.zeros(6, np.int32))
    for message in rows.messages(nodes, how.n_sums, bytearray):
        forms = np.frombuffer(message, np.int64)[:6].tolist()
        assert forms == [NOTHING if end == 0 else PACKED if end <= packed else else_ for end in ends.tolist()]


@pytest.mark.parametrize("n_sums", [2, 3])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_messages_of_all_workers_are_added_up_and_subtracted(binned, n_sums, n_threads):
    rng = np.random.default_rng(n_sums)
    first, last = sections(binned, 2)[1]
    n_bins = int(binned.offsets[last] - binned.offsets[first])
    largest = np.array([0, 9, 2**31 - 1, 2**40])[:, None, None]
    sums = [rng.integers(-largest, largest + 1, (4, n_bins, n_sums)) for _ in range(3)]
    for one in sums:
        one[..., 1:] = np.abs(one[..., 1:])
    slots, parents = np.array([5, 0, 3, 1], np.int32), np.array([2, -1, 4, -1], np.int32)
    kept = rng.integers(0, 2**50, (6, n_bins, 3))
    found = []
    for compiled in (False, True):
        with tuned(merged_bins_per_thread=10):
            search = SectionSearch(binned, first, last, compiled, n_threads)
            search.set_slots(6)
            search.pairs[:], search.rows[:] = kept[..., :2], kept[..., 2]
            search.take([write_message(one).tobytes() for one in sums], n_sums, slots, parents)
        found.append(np.concatenate([search.pairs, search.rows[..., None]], axis=2))
    total = sum(sums)[..., [0, 1, n_sums - 1]]
    kept[slots] = total
    kept[[2, 4]] -= total[[0, 2]]
    for each in found:
        assert np.array_equal(each, kept)


def test_the_best_splits_have_the_very_type_that_kernels_know():
    found = [Candidates.none(2, 3) for _ in range(2)]
    found[0].splits["gain"], found[1].splits["gain"] = [1.0, 5.0], [1.0, 7.0]
    found[0].splits["feature"], found[1].splits["feature"] = [3, 4], [8, 9]
    found[1].sets[1], found[1].n_left[:] = [1, 2, 3], 6
    best = Candidates.best_of([one.to_bytes() for one in found], 2, 3)
    assert best.splits.dtype is SPLIT  # another one, equal to it, is looked up anew in every call
    assert best.splits["feature"].tolist() == [3, 9]  # of equals the first
    assert best.n_left.tolist() == [0, 6]
    assert best.sets.tolist() == [[0, 0, 0], [1, 2, 3]]


RULES = SplitRules(0.0, 0.0, 0.0, 0.0, 1, 1e-3)


@pytest.mark.parametrize(
    "rules",
    [
        RULES,
        replace(RULES, lambda_l1=3.0, lambda_l2=2.0, min_gain_to_split=0.5, min_data_in_leaf=40),
        replace(RULES, min_sum_hessian_in_leaf=30.0),
        replace(RULES, max_delta_step=0.1),
    ],
    ids=["plain", "regularised", "heavy leaves", "limited outputs"],
)
def test_splits_are_those_of_the_definition(binned, rules):
    rng = np.random.default_rng(8)
    n_rows, rows, _, how = both_rows(binned, rng, 1, "narrow")
    whole, splits = rows.histograms(root_segment(n_rows), 3), no_splits(1)
    splits["feature"], splits["bin"] = 1, binned.n_value_bins[1] // 3
    n_left = left_rows(binned, whole[0], splits[0], None)
    rows.partition(root_segment(n_rows), splits, None, np.array([n_left]))
    children = Segments(np.array([0, n_left]), np.array([n_left, n_rows]), np.ones(2, np.int32))
    sums = np.concatenate([whole, rows.histograms(rows.local(children), 3)])
    first_feature = sums[:, : binned.offsets[1]].sum(axis=1)
    places = Segments(np.zeros(3, np.int64), first_feature[:, 2].copy(), np.zeros(3, np.int32))
    slots = np.array([2, 0, 1], np.int32)
    for first, last in sections(binned, 2):
        bins = slice(*binned.offsets[[first, last]].tolist())
        for features in (None, np.array([0, 3], np.int32)):
            found = []
            for compiled in (False, True):
                search = SectionSearch(binned, first, last, compiled, 2)
                search.choose_features(features)
                search.set_slots(3)
                search.take([write_message(sums[:, bins])], 3, slots)
                nodes = NodeSums(places, slots, *np.ascontiguousarray(first_feature[:, :2].T))
                found.append(search.find(nodes, how, rules, None, 7))
            has_split = found[0].splits["gain"] > -np.inf
            for name in found[0].splits.dtype.names:
                assert np.array_equal(found[0].splits[name][has_split], found[1].splits[name][has_split]), name
            assert np.array_equal(found[0].splits["gain"], found[1].splits["gain"])
            assert np.array_equal(found[0].n_left[has_split], found[1].n_left[has_split])
            assert np.array_equal(found[0].sets, found[1].sets)


COMPILED = ["binary", "binary, categories, weights", "bagging", "binary, depthwise"]
COMPILED += [name for name in CASES if re.search("monotone|interaction|smooth|extra|bynode", name)]


@pytest.mark.parametrize("name", COMPILED)
def test_model_of_compiled_workers_is_that_of_the_reference(name):
    models = train_on_workers(CASES[name], 2, device="cpu", num_threads=1)
    assert {model.fingerprint() for model in models} == {expected_fingerprints()[name]}


@pytest.mark.sampled
@pytest.mark.parametrize("n_workers", [1, 3, 7])
@pytest.mark.parametrize("name", ["regression, heavy tail", "regression, few rows", "binary, categories, weights"])
def test_workers_without_rows_of_a_node_or_without_features_change_nothing(name, n_workers):
    models = train_on_workers(CASES[name], n_workers, device="cpu", num_threads=1)
    assert {model.fingerprint() for model in models} == {expected_fingerprints()[name]}


def test_a_small_pool_of_histograms_changes_nothing():
    case = CASES["binary"]
    small = replace(case, params={**case.params, "histogram_pool_size": 0.02})
    models = train_on_workers(small, 2, device="cpu", num_threads=1)
    one = train_on_workers(case, 2, device="cpu", num_threads=1)
    assert models[0].predict(golden_table(50, 6)).tolist() == one[0].predict(golden_table(50, 6)).tolist()

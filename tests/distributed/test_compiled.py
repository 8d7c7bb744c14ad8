"""Kernels of workers against their definitions in NumPy, and whole trainings by kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.fixed_point import alone
from hornbeam.distributed.search import NodeSums, SectionSearch, sections
from hornbeam.distributed.tree_rows import CompiledRows, TreeRows
from hornbeam.params.params import Params
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import golden_score, golden_table
from hornbeam.testing.workers import train_on_workers
from hornbeam.trees.bagging import Bag
from hornbeam.trees.records import BinnedTree, Segments
from hornbeam.trees.splitting import SplitRules, no_splits
from hornbeam.trees.tree import bits_to_codes, code_bits


@pytest.fixture(scope="module", params=[255, 700], ids=["8-bit bins", "16-bit bins"])
def binned(request):
    table = golden_table(1500, 5, missing=True)
    table[:, 4] = np.floor(np.abs(table[:, 4]) * 3.0)
    params = Params.from_dict({"max_bin": request.param, "min_data_in_bin": 1, "device": "reference"})
    data = hb.Dataset(table, label=golden_score(table), categorical_features=[4])
    return data.construct(params).binned


def root(n_rows):
    return Segments(np.array([0]), np.array([n_rows]), np.array([0], np.int32))


def both_rows(binned, rng, n_threads, kind, bag=None):
    """Return the definition and the compiled twin on the same rounded gradients, and how they were rounded."""
    n_rows = binned.n_rows if bag is None else bag.n_in_bag
    gradient, hessian = rng.normal(size=n_rows), np.ones(n_rows)
    if kind != "ones":
        hessian = rng.random(n_rows)
    rows = TreeRows(binned), CompiledRows(binned, n_threads)
    how = [each.round(gradient, hessian, bag, kind == "wide", alone) for each in rows]
    assert how[0] == how[1]
    assert rows[0].root == rows[1].root
    return n_rows, *rows, how[0]


def a_bag(binned, rng):
    inside = rng.random(binned.n_rows) < 0.7
    return Bag.from_parts(np.where(inside, rng.integers(0, 2, binned.n_rows), 2).astype(np.uint8), 1.5)


@pytest.mark.parametrize("kind", ["narrow", "ones", "wide"])
@pytest.mark.parametrize("in_bag", [False, True], ids=["all rows", "bag"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_rows_are_summed_and_divided_as_defined(binned, monkeypatch, kind, in_bag, n_threads):
    monkeypatch.setattr("hornbeam.backends.cpu.workers.rows.UPDATES_A_THREAD", 10)
    rng = np.random.default_rng(len(kind))
    bag = a_bag(binned, rng) if in_bag else None
    n_rows, defined, compiled, how = both_rows(binned, rng, n_threads, kind, bag)
    assert how.wide == (kind == "wide")
    nodes, counted = root(n_rows), kind != "ones"
    dtype = np.int64 if kind == "wide" else np.int32
    for depth in range(3):
        sums = defined.histograms(nodes, counted, dtype)
        found = compiled.histograms(nodes, counted, dtype)
        assert found.dtype == dtype
        assert np.array_equal(sums, found)
        splits = no_splits(len(nodes.begin))
        sets = np.zeros((len(splits), binned.set_words), np.uint32)
        for node, split in enumerate(splits):
            split["feature"] = rng.integers(0, binned.n_used)
            is_number = split["feature"] < binned.n_numeric
            split["bin"] = rng.integers(0, binned.n_value_bins[split["feature"]]) if is_number else node
            split["missing_left"] = rng.random() < 0.5 and is_number
            levels = np.flatnonzero(rng.random(int(binned.n_value_bins[split["feature"]])) < 0.5)
            sets[node] = 0 if is_number else code_bits(levels, binned.set_words)
        n_left = [left_rows(binned, sum_of_rows, split, sets) for sum_of_rows, split in zip(sums, splits, strict=True)]
        for rows in (defined, compiled):
            rows.partition(nodes, splits, sets, np.array(n_left))
        middle = nodes.begin + n_left
        begin, end = np.stack([nodes.begin, middle], 1).ravel(), np.stack([middle, nodes.end], 1).ravel()
        kept = begin < end
        nodes = Segments(begin[kept], end[kept], np.full(kept.sum(), depth + 1, np.int32))
    leaves = np.arange(len(nodes.begin), dtype=np.int32)
    tree = BinnedTree(*(np.empty(0, kind) for kind in (np.int32, np.int32, bool, np.int32, np.int32)), np.zeros(1))
    for rows in (defined, compiled):
        rows.assign(nodes, leaves)
        rows.find_others(tree)
    assert np.array_equal(defined.leaf, compiled.leaf)
    totals = [rows.leaf_integers((20, 30), len(leaves)) for rows in (defined, compiled)]
    assert np.array_equal(*totals)


def left_rows(binned, sums, split, sets):
    """Count the rows of a node that go left, from its histogram: the last sum counts rows."""
    feature = split["feature"]
    rows = sums[binned.offsets[feature] : binned.offsets[feature + 1], -1]
    if feature >= binned.n_numeric:
        return rows[bits_to_codes(sets[split["bin"]])].sum()
    return rows[: split["bin"] + 1].sum() + (rows[-1] if split["missing_left"] else 0)


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
    whole, splits = rows.histograms(root(n_rows), True, np.int64), no_splits(1)
    splits["feature"], splits["bin"] = 1, binned.n_value_bins[1] // 3
    n_left = left_rows(binned, whole[0], splits[0], None)
    rows.partition(root(n_rows), splits, None, np.array([n_left]))
    children = Segments(np.array([0, n_left]), np.array([n_left, n_rows]), np.ones(2, np.int32))
    sums = np.concatenate([whole, rows.histograms(children, True, np.int64)])
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
                search.enter(slots, sums[:, bins])
                nodes = NodeSums(places, slots, *np.ascontiguousarray(first_feature[:, :2].T))
                found.append(search.find(nodes, how, rules, None, 7))
            has_split = found[0].splits["gain"] > -np.inf
            for name in found[0].splits.dtype.names:
                assert np.array_equal(found[0].splits[name][has_split], found[1].splits[name][has_split]), name
            assert np.array_equal(found[0].splits["gain"], found[1].splits["gain"])
            assert np.array_equal(found[0].n_left[has_split], found[1].n_left[has_split])
            assert np.array_equal(found[0].sets, found[1].sets)


COMPILED = ["binary", "regression, heavy tail", "binary, categories, weights", "bagging"]
COMPILED += [name for name in CASES if re.search("monotone|interaction|smooth|extra|bynode", name)]


@pytest.mark.parametrize("name", COMPILED)
def test_model_of_compiled_workers_is_that_of_the_reference(name):
    models = train_on_workers(CASES[name], 2, device="cpu", num_threads=1)
    assert {model.fingerprint() for model in models} == {expected_fingerprints()[name]}

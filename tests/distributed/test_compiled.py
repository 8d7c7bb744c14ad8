"""Kernels of workers against their definitions in NumPy, and whole trainings by kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.fixed_point import Quantization
from hornbeam.distributed.search import SectionSearch, sections
from hornbeam.distributed.tree_rows import CompiledRows, TreeRows
from hornbeam.params.params import Params
from hornbeam.testing.golden import CASES, expected_fingerprints, golden_score, golden_table
from hornbeam.testing.workers import train_on_workers
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules, no_splits
from hornbeam.trees.tree import code_bits


@pytest.fixture(scope="module", params=[255, 700], ids=["8-bit bins", "16-bit bins"])
def binned(request):
    table = golden_table(1500, 5, missing=True)
    table[:, 4] = np.floor(np.abs(table[:, 4]) * 3.0)
    params = Params.from_dict({"max_bin": request.param, "min_data_in_bin": 1, "device": "reference"})
    data = hb.Dataset(table, label=golden_score(table), categorical_features=[4])
    return data.construct(params).binned


def root(n_rows):
    return Segments(np.array([0]), np.array([n_rows]), np.array([0], np.int32))


def both_rows(binned, rng, n_threads, bits, counted):
    """Return the definition and the compiled twin on the same rows."""
    rows = np.flatnonzero(rng.random(binned.n_rows) < 0.9)
    gradient = rng.integers(-(2 ** (bits - 1)) + 1, 2 ** (bits - 1), len(rows))
    hessian = rng.integers(1, 2**bits, len(rows)) if counted else np.ones(len(rows), np.int64)
    columns = np.ascontiguousarray(binned.bins[:, : binned.n_used].T)
    given = binned, rows, gradient, hessian, counted
    return len(rows), TreeRows(*given), CompiledRows(columns, n_threads, *given)


@pytest.mark.parametrize(("bits", "counted"), [(16, True), (16, False), (30, True)], ids=["packed", "ones", "wide"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_rows_are_summed_and_divided_as_defined(binned, monkeypatch, bits, counted, n_threads):
    monkeypatch.setattr("hornbeam.backends.cpu.workers.rows.ROWS_A_THREAD", 10)
    rng = np.random.default_rng(bits)
    n_rows, defined, compiled = both_rows(binned, rng, n_threads, bits, counted)
    nodes = root(n_rows)
    for depth in range(3):
        assert np.array_equal(defined.histograms(nodes), compiled.histograms(nodes))
        splits, sets = no_splits(len(nodes.begin)), []
        for split in splits:
            split["feature"] = rng.integers(0, binned.n_used)
            is_number = split["feature"] < binned.n_numeric
            split["bin"] = rng.integers(0, binned.n_value_bins[split["feature"]]) if is_number else 0
            split["missing_left"] = rng.random() < 0.5 and is_number
            levels = np.flatnonzero(rng.random(int(binned.n_value_bins[split["feature"]])) < 0.5)
            sets.append(None if is_number else code_bits(levels, binned.set_words))
        n_left = defined.partition(nodes, splits, sets)
        assert np.array_equal(n_left, compiled.partition(nodes, splits, sets))
        for rows in (defined, compiled):
            rows.name_children(nodes, n_left, n_left)
        middle = nodes.begin + n_left
        begin, end = np.stack([nodes.begin, middle], 1).ravel(), np.stack([middle, nodes.end], 1).ravel()
        kept = begin < end
        nodes = Segments(begin[kept], end[kept], np.full(kept.sum(), depth + 1, np.int32))
    leaves = np.arange(len(nodes.begin), dtype=np.int32)
    assert np.array_equal(defined.leaves(nodes, leaves), compiled.leaves(nodes, leaves))


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
    n_rows, rows, _ = both_rows(binned, rng, 1, 16, True)
    sums = rows.histograms(root(n_rows))
    sums = np.concatenate([sums, sums * rng.integers(0, 2, (*sums.shape[:2], 1)), np.zeros_like(sums)])
    how = Quantization(2.0**-12, 2.0**-14, False, 1, 2**16 - 1)
    for first, last in sections(binned, 2):
        bins = slice(*binned.offsets[[first, last]].tolist())
        own = np.ascontiguousarray(sums[:, bins])
        for features in (None, np.array([0, 3], np.int32)):
            found = [
                SectionSearch(binned, first, last, compiled, 2).find(own, features, how, rules, None, 7)
                for compiled in (False, True)
            ]
            has_split = found[0].splits["gain"] > -np.inf
            for name in found[0].splits.dtype.names:
                assert np.array_equal(found[0].splits[name][has_split], found[1].splits[name][has_split]), name
            assert np.array_equal(found[0].splits["gain"], found[1].splits["gain"])
            assert np.array_equal(found[0].n_left[has_split], found[1].n_left[has_split])
            assert np.array_equal(found[0].sets, found[1].sets)


@pytest.mark.parametrize("name", ["binary", "regression, heavy tail", "binary, categories, weights", "bagging"])
def test_model_of_compiled_workers_is_that_of_the_reference(name):
    models = train_on_workers(CASES[name], 2, device="cpu", num_threads=1)
    assert {model.fingerprint() for model in models} == {expected_fingerprints()[name]}

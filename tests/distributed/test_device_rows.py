"""Rows of a worker in the memory of a GPU, against their definition on the host."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.fixed_point import alone
from hornbeam.distributed.device_rows import DeviceRows
from hornbeam.distributed.search import sections
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.params.params import Params
from hornbeam.testing.checks import engine_on
from hornbeam.testing.golden_case import golden_score, golden_table
from hornbeam.testing.worker_checks import (
    N_WORKERS,
    assert_same_rows,
    root_segment,
    some_bag,
    some_gradients,
    sums_of_messages,
)
from hornbeam.trees.bagging import Bag, Draw, draw_bag


def bins_of(max_bin, n_rows=1500):
    table = golden_table(n_rows, 5, missing=True)
    table[:, 4] = np.floor(np.abs(table[:, 4]) * 3.0)
    params = Params.from_dict({"max_bin": max_bin, "min_data_in_bin": 1, "device": "reference"})
    data = hb.Dataset(table, label=golden_score(table), categorical_features=[4])
    return data.construct(params).binned


def both_rows(binned, gpu, rng, kind, bag=None):
    """Return the definition and its twin on a device, how gradients were rounded, and the engine to be closed."""
    gradient, hessian = some_gradients(binned.n_rows, kind, rng)
    parts = sections(binned, N_WORKERS)
    engine = engine_on(gpu, binned)
    engine.set_scores(np.zeros((1, binned.n_rows)))
    engine.set_gradients(gradient[None], hessian[None])
    rows = TreeRows(binned, parts), DeviceRows(binned, parts, engine)
    how = [each.begin(engine, 0, bag, kind == "wide", alone) for each in rows]
    assert how[0] == how[1]
    assert rows[1].largest == rows[0].largest
    return *rows, how[0], engine


@pytest.mark.parametrize(
    ("kind", "max_bin", "in_bag"),
    [("narrow", 255, True), ("ones", 255, False), ("wide", 15, True), ("ones", 700, True)],
)
def test_rows_on_a_device_are_summed_and_divided_as_defined(gpu, kind, max_bin, in_bag):
    binned, rng = bins_of(max_bin), np.random.default_rng(len(kind))
    bag = some_bag(binned, rng) if in_bag else None
    defined, rows, how, engine = both_rows(binned, gpu, rng, kind, bag)
    assert how.wide == (kind == "wide")
    assert_same_rows(binned, defined, rows, how, rng)
    one, two = defined.chosen_rows(), rows.chosen_rows()
    assert np.array_equal(one.gradient, two.gradient)
    assert (one.rows is None) == (two.rows is None)
    engine.close()


def test_nodes_that_have_no_slot_at_once_are_summed_in_turn(gpu, monkeypatch):
    monkeypatch.setattr("hornbeam.backends.gpu.workers.trees.POOL_BYTES", 1)
    binned, rng = bins_of(255), np.random.default_rng(3)
    defined, rows, how, engine = both_rows(binned, gpu, rng, "narrow")
    assert engine._worker_slots == 1
    assert_same_rows(binned, defined, rows, how, rng)
    engine.close()


def test_nodes_of_many_rows_are_sent_in_64_bits(gpu):
    binned, rng = bins_of(15, 70_000), np.random.default_rng(3)
    defined, rows, how, engine = both_rows(binned, gpu, rng, "ones")
    nodes = root_segment(binned.n_rows)
    sums = defined.histograms(nodes, how.n_sums)
    assert np.array_equal(sums, sums_of_messages(binned, rows, nodes, how.n_sums))
    engine.close()


def test_a_bag_without_rows_of_this_worker_leaves_all_to_the_tree(gpu):
    """The others have some: the tree is theirs, and the rows here go down it."""
    binned, rng = bins_of(255), np.random.default_rng(3)
    nobody = Bag(np.arange(binned.n_rows, dtype=np.uint32), 0, 0)

    def with_others(figures):  # another worker has seen the same kind of rows
        if figures.dtype == np.float64:
            return np.stack([figures, [2.0, 1.0, 0.5]])
        return np.stack([figures, [30000, 30000, 60000, -20000, 10**6, 100, 10**6, 100]])

    gradient, hessian = some_gradients(binned.n_rows, "narrow", rng)
    parts, engine = sections(binned, N_WORKERS), engine_on(gpu, binned)
    engine.set_scores(np.zeros((1, binned.n_rows)))
    engine.set_gradients(gradient[None], hessian[None])
    rows = TreeRows(binned, parts), DeviceRows(binned, parts, engine)
    how = [each.begin(engine, 0, nobody, False, with_others) for each in rows]
    assert how[0] == how[1]
    assert rows[0].root == rows[1].root
    assert rows[1].root.n_rows == 0
    for each in rows:
        each.set_places(root_segment(100), np.array([[0, 0]]))
    assert not sums_of_messages(binned, rows[1], root_segment(100), how[0].n_sums).any()
    assert not rows[1].leaf_integers((20, 30), 4).any()
    engine.close()


def test_rows_are_drawn_by_their_numbers_among_all(gpu):
    binned = bins_of(255)
    engine = engine_on(gpu, binned)
    rows = DeviceRows(binned, sections(binned, 1), engine)
    numbers = np.arange(binned.n_rows, dtype=np.uint32) * np.uint32(3) + np.uint32(7)
    label = np.arange(binned.n_rows) % 2.0
    for draw in (Draw(99, 2**52, query=numbers), Draw(98, 2**50, 2**53 - 2**50, label, numbers)):
        expected, found = draw_bag(draw, binned.n_rows), rows.draw(draw, alone)
        assert found.n_in_bag == expected.n_in_bag
        assert np.array_equal(np.sort(found.inside), expected.inside)
        assert np.array_equal(np.sort(found.outside), expected.outside)
    assert rows.draw(Draw(99, 0, query=numbers), alone) is None
    assert rows.draw(Draw(99, 0, query=numbers), lambda sizes: np.stack([sizes, [5, 0, 0]])).n_in_bag == 0
    engine.close()

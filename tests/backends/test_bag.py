"""Bags on every device: rows chosen, and trees on them, equal the reference's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.core.random_choices import Purpose, chance_limit, random_key
from hornbeam.testing.checks import PLAIN_RULES, assert_same_operations, binned_data, engine_on
from hornbeam.testing.data import make_binned
from hornbeam.trees.bagging import Bag, Draw, Goss, draw_bag, goss_bag, last_of_top, row_importance

RULES = replace(PLAIN_RULES, min_data_in_leaf=5, min_sum_hessian_in_leaf=1e-3)
KEY = random_key(1, Purpose.BAGGING, 0)


def draws(n_rows: int) -> dict[str, Draw | Goss]:
    rng = np.random.default_rng(0)
    label = (rng.random(n_rows) < 0.3).astype(np.float64)
    query = np.repeat(np.arange(n_rows, dtype=np.uint32), 7)[:n_rows]
    return {
        "half": Draw(KEY, chance_limit(0.5)),
        "few": Draw(KEY, chance_limit(0.03)),
        "nearly all": Draw(KEY, chance_limit(0.99)),
        "by label": Draw(KEY, chance_limit(0.2), chance_limit(0.9), label),
        "queries": Draw(KEY, chance_limit(0.4), query=query),
        "goss": Goss(KEY, n_rows // 5, chance_limit(0.125), 8.0),
        "goss, one": Goss(KEY, 1, chance_limit(0.0), 3.0),
        "goss, all": Goss(KEY, n_rows, chance_limit(0.5), 3.0),
    }


@pytest.mark.sampled
@pytest.mark.parametrize("what", draws(10))
@pytest.mark.parametrize("n_bins", [31, 300])
def test_operations_on_a_bag_equal_the_reference(device, what, n_bins):
    binned = binned_data(make_binned(600, 6, n_bins, 0.2, seed=1))
    samples = [make_binned(600, 6, n_bins, 0.2, seed=seed) for seed in (1, 2)]
    gradient, hessian = (np.stack([getattr(one, name) for one in samples]) for name in ("gradient", "hessian"))
    engine = engine_on(device, binned)
    assert_same_operations(binned, gradient, hessian, engine, rules=RULES, draw=draws(600)[what])


@pytest.mark.sampled(size=2)
@pytest.mark.parametrize("high_precision", [False, True], ids=["auto", "high"])
def test_operations_on_a_bag_equal_the_reference_with_constant_hessians(device, high_precision):
    sample = make_binned(900, 5, 15, 0.1, seed=3, constant_hessian=True)
    binned = binned_data(sample)
    for what in ("half", "goss"):
        assert_same_operations(
            binned, sample.gradient[None], sample.hessian[None], engine_on(device, binned), rules=RULES,
            draw=draws(900)[what], high_precision=high_precision,
        )  # fmt: skip


@pytest.mark.parametrize("num_threads", [1, 3, 8])
def test_operations_on_a_bag_equal_the_reference_for_bins_that_travel(num_threads, tune):
    tune(ordered_smallest_bytes=0, drawn_rows_per_thread=10)
    sample = make_binned(500, 5, 31, 0.1, seed=5)
    binned = binned_data(sample)
    for draw in draws(500).values():
        assert_same_operations(
            binned, sample.gradient[None], sample.hessian[None], engine_on("cpu", binned, num_threads), rules=RULES,
            draw=draw,
        )  # fmt: skip


def test_an_empty_bag_becomes_all_rows(device):
    sample = make_binned(50, 3, 7, 0.0, seed=0)
    engine = engine_on(device, binned_data(sample))
    engine.set_scores(np.zeros((1, 50)))
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    assert engine.choose_rows(Draw(KEY, 0)) == 50
    engine.quantize(0, False)
    assert engine.begin_tree(4).n_rows == 50


def test_choosing_all_rows_ends_a_bag(device):
    sample = make_binned(300, 3, 7, 0.0, seed=0)
    engine = engine_on(device, binned_data(sample))
    engine.set_scores(np.zeros((1, 300)))
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    engine.quantize(0, False)
    expected = engine.begin_tree(4)
    engine.choose_rows(Draw(KEY, chance_limit(0.5)))
    engine.quantize(0, False)
    assert engine.begin_tree(4).n_rows < 300
    assert engine.choose_rows(None) == 300
    engine.quantize(0, False)
    assert engine.begin_tree(4) == expected


@given(
    values=st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 1e-320, 1e300]), min_size=1, max_size=80),
    data=st.data(),
)
@settings(max_examples=30)
def test_top_rows_are_the_weightiest_and_equals_the_first(device, values, data):
    n_top = data.draw(st.integers(1, len(values)))
    gradient = np.array(values)[None] * np.where(np.arange(len(values)) % 2, -1.0, 1.0)
    sample = make_binned(len(values), 2, 3, 0.0, seed=0)
    engine = engine_on(device, binned_data(sample))
    engine.set_scores(np.zeros_like(gradient))
    engine.set_gradients(gradient, np.ones_like(gradient))
    goss = Goss(KEY, n_top, chance_limit(0.3), 2.0)
    expected = goss_bag(goss, gradient, np.ones_like(gradient))
    best = sorted(range(len(values)), key=lambda row: (-values[row], row))[:n_top]
    assert expected.rows[: expected.n_plain].tolist() == sorted(best)
    assert engine.choose_rows(goss) == expected.n_in_bag
    n_chosen = np.zeros(len(values), np.int64)
    n_chosen[expected.inside] = 1
    assert sorted(expected.rows.tolist()) == list(range(len(values)))
    engine.quantize(0, True)
    assert engine.begin_tree(4).n_rows == n_chosen.sum()
    least, last = last_of_top(row_importance(gradient, np.ones_like(gradient)), n_top)
    assert last in best and abs(gradient[0, last]) == least
    engine.close()


def test_a_row_is_drawn_whatever_the_other_rows_are():
    small, large = (draw_bag(Draw(KEY, chance_limit(0.4)), n) for n in (1000, 5000))
    assert small.inside.tolist() == [row for row in large.inside.tolist() if row < 1000]


def test_queries_are_drawn_whole():
    query = np.repeat(np.arange(200, dtype=np.uint32), np.arange(200) % 6 + 1)
    bag = draw_bag(Draw(KEY, chance_limit(0.5), query=query), len(query))
    inside = set(query[bag.inside].tolist())
    assert not inside & set(query[bag.outside].tolist())
    assert 70 < len(inside) < 130


@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.9])
def test_a_bag_has_about_the_expected_size(fraction):
    n_rows = 100_000
    sizes = [
        draw_bag(Draw(random_key(0, Purpose.BAGGING, i), chance_limit(fraction)), n_rows).n_in_bag for i in range(5)
    ]
    assert len(set(sizes)) > 1
    assert np.abs(np.array(sizes) - fraction * n_rows).max() < 5 * np.sqrt(n_rows * fraction * (1 - fraction))


def test_values_of_drawn_rows_are_multiplied():
    bag = Bag(np.array([3, 0, 2, 1], np.uint32), 1, 3, 4.0)
    assert bag.take(np.array([1.0, 2.0, 3.0, 5.0])).tolist() == [5.0, 4.0, 12.0]

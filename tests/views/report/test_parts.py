"""Parts of a report: escaping, columns, slices, thresholds, trees."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.views.plots.curves import thresholds
from hornbeam.views.plots.seen import SeeingModel
from hornbeam.views.report.charts import Plot, short, ticks
from hornbeam.views.report.columns import describe, drift
from hornbeam.views.report.markup import as_json, el, joined
from hornbeam.views.report.sections.quality import threshold_table
from hornbeam.views.report.sections.trees import chosen_trees
from hornbeam.views.report.slices import groups_of

EVIL = '</script><b title="\'&">'


def test_texts_and_attributes_are_escaped_and_markup_is_not():
    assert el("b", EVIL, title=EVIL, class_="x", hidden=False, id=None) == (
        '<b title="&lt;/script&gt;&lt;b title=&quot;&#x27;&amp;&quot;&gt;" class="x">'
        "&lt;/script&gt;&lt;b title=&quot;&#x27;&amp;&quot;&gt;</b>"
    )
    assert joined([el("i", 1), None, ["<", el("br")]]) == "<i>1</i>&lt;<br>"


def test_json_cannot_leave_its_script():
    text = as_json({"a": [EVIL, "\u2028"]})
    assert "<" not in text and ">" not in text and "&" not in text and text.isascii()
    assert json.loads(text) == {"a": [EVIL, "\u2028"]}


def test_drift_is_the_sum_over_tenths():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=5000), rng.normal(0.7, 1.0, 5000)
    after[:500] = np.nan
    edges = np.quantile(before, np.arange(1, 10) / 10)
    total = 0.0
    bounds = [-math.inf, *edges, math.inf]
    for low, high in pairwise(bounds):
        p = (((before > low) & (before <= high)).sum() + 0.5) / 5005.5
        q = (((after > low) & (after <= high)).sum() + 0.5) / 5005.5
        total += (p - q) * math.log(p / q)
    p, q = 0.5 / 5005.5, 500.5 / 5005.5
    assert drift(before, after, False) == pytest.approx(total + (p - q) * math.log(p / q), rel=1e-9)
    assert drift(before, before, False) == 0.0
    codes = rng.integers(4, size=1000).astype(float)
    assert drift(codes, codes[::-1], True) == 0.0 and drift(codes, np.minimum(codes + 1, 3), True) > 0.25


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.array(["b", "a", "b", "c"], object), ["b", "a", "c"]),
        (np.array([1.0, 2.0, np.nan, 1.0]), ["1", "2", "missing"]),
        (np.array([True, False, True]), ["True", "False"]),
        (np.arange(100.0), ["≤ 24.75", "24.75 to 49.5", "49.5 to 74.25", "> 74.25"]),
    ],
)
def test_groups_hold_every_row_once(values, names):
    groups = groups_of(values)
    assert [name for name, _ in groups] == names
    assert (np.sum([rows for _, rows in groups], axis=0) == 1).all()


def test_slider_counts_what_is_at_or_above_each_threshold():
    rng = np.random.default_rng(0)
    score = rng.beta(1.0, 20.0, 500)  # most near 0
    positive = rng.uniform(size=500) < score
    table = threshold_table(thresholds(positive, score))
    assert (np.diff(table["t"]) > 0).all() and len(table["t"]) > 150
    for t, tp, fp in zip(table["t"], table["tp"], table["fp"], strict=True):
        assert (tp, fp) == ((positive & (score >= t)).sum(), (~positive & (score >= t)).sum())


def test_trees_that_are_too_many_are_thinned_with_both_ends(binary):
    trees = binary.booster.trees * 40
    shown = chosen_trees(trees, 20_000)
    assert shown[0] == 0 and shown[-1] == len(trees) - 1 and shown[:10] == list(range(10))
    assert 20_000 / 2 < 46 * sum(trees[i].n_leaves for i in shown) <= 21_000
    assert chosen_trees(trees[:3]) == [0, 1, 2]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 17.0), (1e-7, 2e-7), (1e9, 4e9)])
def test_ticks_are_round_numbers_inside(low, high):
    found = ticks(low, high)
    assert 3 <= len(found) <= 8 and all(low - 1e-12 <= tick <= high * (1 + 1e-12) for tick in found)


def test_charts_take_values_without_a_range():
    plot = Plot((2.0, 2.0), (0.0, 0.0))
    plot.line(np.array([2.0, np.nan]), np.array([0.0, 1.0]), "s0")
    assert "nan" not in plot.svg("x")
    assert short("a" * 100, 9) == "aaaa…aaaa"


def test_few_values_have_a_bar_each():
    X = np.arange(60.0)[:, None] % 5
    model = SeeingModel(hb.train({"device": "reference", "verbosity": -1}, hb.Dataset(X, label=X[:, 0]), 1))
    column = describe(model, 0, np.array([0.0, 1.0, 1.0, 9.0]), np.array([0.0, 2.0, np.nan, np.inf]))
    assert column.bars.tolist() == [0.25, 0.5, 0.0, 0.25]  # 0, 1, 2, 9
    assert column.other.tolist() == [1 / 3, 0.0, 1 / 3, 0.0]
    assert len(describe(model, 0, np.linspace(0.0, 1.0, 100), None).bars) == 16
    assert describe(model, 0, np.full(3, 2.0), None).bars.sum() == 1.0

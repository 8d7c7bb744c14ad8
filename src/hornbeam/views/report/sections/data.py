"""Data: what the columns are like, and how far validation and training data are apart."""

from __future__ import annotations

import numpy as np

from hornbeam.views.plots.importances import importance
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.charts import short, sparkline
from hornbeam.views.report.columns import N_BARS, describe
from hornbeam.views.report.markup import Content, Markup, absent, card, el, table
from hornbeam.views.report.material import TABLE_ROWS, Material

MAX_FEATURES = 150
"""Rows of the table: the features of the highest gain."""

SMALL_DRIFT, LARGE_DRIFT = 0.1, 0.25
"""Population stability indices from which on data are said to have moved, and to have moved far."""


def data(material: Material) -> list[Content]:
    """Return the table of the columns."""
    first = material.valid or material.train
    if first is None:
        return [absent("No data was passed: pass valid=, and train= to see how far both are apart.")]
    before = material.train if material.valid is not None else None
    values = material.columns_of(first)
    others = None if before is None else material.columns_of(before)
    order = np.argsort(-importance(material.booster, "gain"), kind="stable")[:MAX_FEATURES].tolist()
    head = ["feature", "type", "values", "missing", "distinct", "distribution"]
    rows: list[list[Content]] = []
    for feature in order:
        other = None if others is None else others[:, feature]
        column = describe(material.seeing, feature, values[:, feature], other)
        name = material.booster.feature_names[feature]
        cells: list[Content] = [
            el("span", short(name, 40), title=name),
            column.kind,
            el("span", short(column.summary, 60), title=short(column.summary, 300)),
            f"{column.missing:.1%}" if column.missing else "none",
            f"{column.distinct:,}",
            sparkline(column.bars, "d0", column.other),
        ]
        rows.append([*cells, _drift(column.drift)] if others is not None else cells)
    if others is not None:
        head.append("drift")
    told = [f"Described by {len(values):,} rows" + (f" of {first.n_rows:,}." if len(values) < first.n_rows else ".")]
    if len(order) < material.booster.n_features:
        told.append(f"The {len(order)} features of the highest gain, of {material.booster.n_features:,}.")
    if others is not None:
        told.append(
            f"Bars: validation; line: training. Drift is the population stability index: up to {SMALL_DRIFT} little, "
            f"from {LARGE_DRIFT} on much."
        )
    told.append("Values of numbers: least, median, greatest. Levels unseen in training count as missing.")
    cards: list[Content] = [card("Columns", table(head, rows, numbers_from=3), wide=True, note=" ".join(told))]
    return [_labels(material), *cards]


def _drift(index: float) -> Markup:
    kind = "bad" if index >= LARGE_DRIFT else "mid" if index >= SMALL_DRIFT else "good"
    return el("span", number_text(index, 2), class_=f"badge {kind}")


def _labels(material: Material) -> Markup | None:
    named = [("validation", material.valid), ("training", material.train)]
    rows: list[list[Content]] = []
    for name, dataset in named:
        if dataset is None or dataset.label is None:
            continue
        label = dataset.label[np.linspace(0, dataset.n_rows - 1, min(dataset.n_rows, TABLE_ROWS)).astype(np.int64)]
        few = len(np.unique(label)) <= N_BARS
        bars = np.histogram(label, len(np.unique(label)) if few else N_BARS)[0] / len(label)
        weights = "no" if dataset.weight is None else f"sum {number_text(float(dataset.weight.sum()))}"
        ends = np.quantile(dataset.label, (0.0, 0.5, 1.0)).tolist()
        mean = number_text(float(dataset.label.mean()))
        rows.append(
            [name, f"{dataset.n_rows:,}", mean, " · ".join(map(number_text, ends)), weights, sparkline(bars, "d0")]
        )
    if not rows:
        return None
    return card(
        "Labels",
        table(("data", "rows", "mean", "least · median · greatest", "weights", "distribution"), rows),
        wide=True,
    )

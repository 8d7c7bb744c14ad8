"""Quality: metrics with intervals, by slices, and the curves that suit the task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.metrics.arithmetic import NUMPY
from hornbeam.metrics.ranked_lists import NormalizedGain
from hornbeam.views.plots.curves import Thresholds, calibration, thinned, thresholds
from hornbeam.views.plots.models import Judged, judge
from hornbeam.views.plots.quality import confusion_of, running_bands
from hornbeam.views.plots.seen import choose_rows, number_text
from hornbeam.views.report.charts import Plot, heat_map, legend, limits
from hornbeam.views.report.intervals import Figure, figures, some_rows
from hornbeam.views.report.markup import Content, Markup, absent, card, el, table
from hornbeam.views.report.material import Material
from hornbeam.views.report.slices import slices_of

N_THRESHOLDS = 201
MAX_POINTS = 1500
MAX_CLASSES = 20


def quality(material: Material, overall: list[Figure]) -> list[Content]:
    """Return metrics, slices and curves."""
    judged = material.judged
    if judged is None:
        return [absent("No validation data was passed: pass valid=, a Dataset with labels or a pair (table, labels).")]
    by_task = {"binary": _binary, "multiclass": _multiclass, "ranking": _ranking, "regression": _regression}
    return [_metrics(material, overall), by_task[material.task](material, judged), _slices(material, judged)]


def _metrics(material: Material, overall: list[Figure]) -> Markup:
    head, trained = ["metric", "value", "95% interval"], {}
    if material.train is not None and material.train.label is not None and material.metrics:
        seen = judge(material.booster, material.train)
        fitting = [m for m in material.metrics if material.task != "ranking" or seen.boundaries is not None]
        trained = {figure.name: figure.value for figure in figures(seen, fitting, 0)}
        head.append("training data")
    rows: list[list[Content]] = []
    for figure in overall:
        arrow = "↑" if figure.higher_is_better else "↓"
        side = "higher is better" if figure.higher_is_better else "lower is better"
        cells: list[Content] = [
            [figure.name, " ", el("span", arrow, class_="muted", title=side)], number_text(figure.value), _bar(figure)
        ]  # fmt: skip
        rows.append([*cells, number_text(trained[figure.name]) if figure.name in trained else ""] if trained else cells)
    unit = "queries" if material.task == "ranking" else "rows"
    note = (
        f"Intervals by the bootstrap over {unit}: {material.choices.bootstrap} resamples at most, on {_size(material)}."
    )
    return card("Metrics", table(head[: 3 + bool(trained)], rows), note=note, wide=True)


def _size(material: Material) -> str:
    assert material.judged is not None
    weighted = ", weighted" if material.judged.weight is not None else ""
    return f"all {material.judged.n_rows:,} rows{weighted}"


def _bar(figure: Figure) -> str:
    return f"{number_text(figure.low)} to {number_text(figure.high)}" if np.isfinite(figure.low) else "-"


def _slices(material: Material, judged: Judged) -> list[Content]:
    cards: list[Content] = []
    times = min(material.choices.bootstrap, 100)
    metrics, has_mean = material.metrics[:3], material.task != "multiclass"
    for name, groups in slices_of(material):
        rows: list[list[Content]] = []
        head: list[str] = []
        for text, chosen in groups:
            part = some_rows(judged, chosen)
            if not part.weights.sum() > 0.0:
                continue
            found = figures(part, metrics, times)
            head = [figure.name for figure in found]
            cells = [
                [number_text(figure.value), el("span", f" {_bar(figure)}", class_="muted small")] for figure in found
            ]
            mean = [number_text(float(np.average(part.label, weights=part.weights)))] if has_mean else []
            rows.append([text, f"{part.n_rows:,}", *mean, *cells])
        names = ("slice", "rows", *(["mean label"] if has_mean else []), *head)
        cards.append(card(f"By {name}", table(names, rows), wide=True))
    return cards


# --- two classes ------------------------------------------------------------------------------------------------------


def _binary(material: Material, judged: Judged) -> list[Content]:
    probability = judged.predictions[0]
    groups = calibration(judged.label, probability, judged.weight)
    end = min(1.0, float(max(groups.high.max(), groups.predicted.max())) * 1.05)
    plot = Plot((0.0, end), (0.0, end), xlabel="predicted probability", ylabel="share of positives")
    plot.line(np.array([0.0, end]), np.array([0.0, end]), "rule")
    plot.band(groups.predicted, np.maximum(groups.low, 0.0), np.minimum(groups.high, end), "b0")
    plot.line(groups.predicted, groups.seen, "s0")
    plot.dots(groups.predicted, groups.seen, "p0")
    calibrated = card(
        "Calibration", plot.svg("share of positives by predicted probability"),
        note="Ten groups of as many rows, with 95% intervals.",
    )  # fmt: skip
    if not np.isin(judged.label, (0.0, 1.0)).all():
        return [calibrated, absent("Labels are fractions of a class, which have no ROC curve and no confusion matrix.")]
    at = thresholds(judged.label > 0.5, probability, judged.weight)
    if at.tp[-1] <= 0 or at.fp[-1] <= 0:
        return [calibrated, absent("All rows are of one class, so there is no ROC curve and no confusion matrix.")]
    roc = Plot((0.0, 1.0), (0.0, 1.0), xlabel="false positive rate", ylabel="true positive rate", id_="roc")
    roc.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "rule")
    kept = thinned(at.fall_out, at.recall)
    roc.line(at.fall_out[kept], at.recall[kept], "s0")
    roc.marker("roc-dot")
    pr = Plot((0.0, 1.0), (0.0, 1.0), xlabel="recall", ylabel="precision", id_="pr")
    kept = thinned(at.recall, at.precision)
    pr.horizontal(float(at.tp[-1] / (at.tp[-1] + at.fp[-1])))
    pr.line(at.recall[kept], at.precision[kept], "s0")
    pr.marker("pr-dot")
    return [
        _slider(material, judged),
        card("ROC", roc.svg("ROC curve"), note=f"Area: {at.auc:.4f}. The point is at the threshold above."),
        card(
            "Precision and recall",
            pr.svg("precision against recall"),
            note=f"Average precision: {at.average_precision:.4f}.",
        ),
        calibrated,
        _histogram(judged),
    ]


def threshold_table(at: Thresholds) -> dict[str, list[float]]:
    """Return thresholds, rising, and what is called positive there: `t`, `tp`, `fp`; for the slider.

    Half of the thresholds are evenly spaced, half lie where the predictions are.
    """
    spread = at.threshold[np.isfinite(at.threshold)]
    wanted = np.concatenate(
        [np.linspace(0.0, 1.0, N_THRESHOLDS // 2 + 1), np.quantile(spread, np.linspace(0, 1, N_THRESHOLDS // 2))]
    )
    rising = np.unique(np.round(wanted, 4))
    place = np.searchsorted(-at.threshold, -rising, "right") - 1  # the last threshold that is not below
    return {
        "t": rising.tolist(),
        "tp": np.round(at.tp[place], 3).tolist(),
        "fp": np.round(at.fp[place], 3).tolist(),
    }


def _slider(material: Material, judged: Judged) -> Markup:
    names, costs = judged.class_names, material.choices.costs
    cell = {"class_": "num"}
    matrix = el(
        "table",
        el("thead", el("tr", el("th", ""), [el("th", f"called {name}", **cell) for name in names])),
        el("tbody",
           el("tr", el("th", f"is {names[0]}"), el("td", id="tn", **cell), el("td", id="fp", **cell)),
           el("tr", el("th", f"is {names[1]}"), el("td", id="fn", **cell), el("td", id="tp", **cell))),
        class_="confusion",
    )  # fmt: skip

    def cost_input(id_: str, text: str, value: float) -> Markup:
        field = el("input", type="number", id=id_, value=number_text(value).replace(",", ""), min="0", step="any")
        return el("label", text, " ", field)

    facts = [
        ("precision", "Precision"),
        ("recall", "Recall"),
        ("specificity", "Specificity"),
        ("f1", "F1"),
        ("cost", "Cost"),
        ("cost-row", "Cost a row"),
    ]
    value = el("output", id="threshold-value")
    told = el("dl", [[el("dt", text), el("dd", id=id_)] for id_, text in facts])
    return card(
        "Threshold",
        el(
            "div",
            el("label", "Called ", el("b", names[1]), " from a probability of ", value, for_="threshold"),
            el("input", type="range", id="threshold", min="0", max="1", step="1", value="0"),
            class_="slider",
        ),
        el("div", el("div", matrix, class_="scroll"), told, class_="pair"),
        el(
            "div",
            cost_input("cost-fp", "A false positive costs", costs[0]),
            cost_input("cost-fn", "a false negative", costs[1]),
            el("button", "Lowest cost", type="button", id="cheapest", class_="quiet"),
            class_="costs",
        ),
        el("noscript", absent("The slider needs JavaScript.")),
        wide=True,
    )  # fmt: skip


def _histogram(judged: Judged) -> Markup:
    edges = np.linspace(0.0, 1.0, 41)
    shares = [
        np.histogram(judged.predictions[0][judged.label == k], edges)[0] / max(int((judged.label == k).sum()), 1)
        for k in (0.0, 1.0)
    ]
    plot = Plot(
        (0.0, 1.0),
        (0.0, float(max(share.max() for share in shares)) * 1.05),
        xlabel="predicted probability",
        ylabel="share of the class",
    )
    for place, share in enumerate(shares):
        plot.bars(edges, share, f"d{1 - place} half")
    return card(
        "Predictions by class",
        plot.svg("histogram of predictions"),
        legend([("d1", judged.class_names[0]), ("d0", judged.class_names[1])]),
    )


# --- other tasks ------------------------------------------------------------------------------------------------------


def _multiclass(material: Material, judged: Judged) -> list[Content]:
    counts = confusion_of(judged)
    names, total = list(judged.class_names), counts.sum(axis=1)
    recall = np.diag(counts) / np.maximum(total, 1e-300)
    precision = np.diag(counts) / np.maximum(counts.sum(axis=0), 1e-300)
    often = np.sort(np.argsort(-total, kind="stable")[:MAX_CLASSES])
    rows = [
        [names[k], number_text(float(total[k])), number_text(float(precision[k]), 3), number_text(float(recall[k]), 3),
         number_text(thresholds(judged.label == k, judged.predictions[k], judged.weight).auc, 4)]
        for k in often.tolist()
    ]  # fmt: skip
    part = counts[np.ix_(often, often)]
    share = part / np.maximum(total[often, None], 1e-300)
    texts = [[f"{value:.0%}" if value >= 0.005 else "" for value in row] for row in share.tolist()]
    left_out = f" The {MAX_CLASSES} most frequent of {len(names)} classes." if len(often) < len(names) else ""
    drawn = heat_map([names[k] for k in often], share, texts, ("true", "predicted"))
    by_class = table(("class", "rows", "precision", "recall", "AUC against the rest"), rows)
    return [
        card("Confusion", drawn, note=f"Shares of the true class.{left_out}"),
        card("By class", by_class, note=left_out or None),
    ]


def _regression(material: Material, judged: Judged) -> list[Content]:
    predicted, label = judged.predictions[0], judged.label
    residual = label - predicted
    rows = choose_rows(judged.n_rows, MAX_POINTS)
    middles, bands = running_bands(predicted, residual)
    inner = np.quantile(residual, (0.002, 0.998))
    plot = Plot(limits(predicted), limits(inner), xlabel="prediction", ylabel="label - prediction")
    low, high = plot.y_axis
    plot.dots(predicted[rows], np.clip(residual[rows], low, high), "p0 faint")
    plot.band(middles, bands[0], bands[2], "b1")
    plot.horizontal(0.0)
    plot.line(middles, bands[1], "s1")
    both = Plot(
        limits(predicted), limits(np.quantile(label, (0.002, 0.998)), predicted), xlabel="prediction", ylabel="label"
    )
    both.dots(predicted[rows], np.clip(label[rows], *both.y_axis), "p0 faint")
    ends = np.array([max(both.x_axis[0], both.y_axis[0]), min(both.x_axis[1], both.y_axis[1])])
    both.line(ends, ends, "rule")
    counts, edges = np.histogram(residual, 40, tuple(inner) if inner[1] > inner[0] else None)
    bars = Plot(
        (float(edges[0]), float(edges[-1])),
        (0.0, float(counts.max()) * 1.05),
        xlabel="label - prediction",
        ylabel="rows",
    )
    bars.bars(edges, counts.astype(np.float64), "d0")
    bars.vertical(0.0)
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    quantiles = [
        [f"{level:.0%}", number_text(value)]
        for level, value in zip(levels, np.quantile(residual, levels).tolist(), strict=True)
    ]
    sampled = f"{len(rows):,} of {judged.n_rows:,} rows." if len(rows) < judged.n_rows else ""
    return [
        card(
            "Residuals",
            plot.svg("residuals by prediction"),
            legend([("d1", "median and middle 80%")]),
            note=f"{sampled} Outliers stand at the edge.".strip(),
        ),
        card("Labels and predictions", both.svg("labels by prediction"), note=sampled or None),
        card("Distribution of residuals", bars.svg("histogram of residuals")),
        card("Quantiles of residuals", table(("quantile", "label - prediction"), quantiles)),
    ]


def query_gains(judged: Judged, rank: int = 10) -> NDArray[np.float64]:
    """Return NDCG of every query, cut at a rank, float64 (n_queries,)."""
    assert judged.boundaries is not None
    metric = NormalizedGain((rank,), judged.booster.params.get("label_gain"))
    values: NDArray[np.float64] = NUMPY.list_values(metric, judged.label, judged.raw[0], judged.boundaries)[0]
    return values


def _ranking(material: Material, judged: Judged) -> list[Content]:
    assert judged.boundaries is not None
    gains, sizes = query_gains(judged), np.diff(judged.boundaries)
    counts, edges = np.histogram(gains, 20, (0.0, 1.0))
    bars = Plot((0.0, 1.0), (0.0, float(counts.max()) * 1.05), xlabel="NDCG@10", ylabel="queries")
    bars.bars(edges, counts.astype(np.float64), "d0")
    kept = choose_rows(len(gains), MAX_POINTS)
    by_size = Plot(limits(sizes), (0.0, 1.02), xlabel="documents in the query", ylabel="NDCG@10")
    by_size.dots(sizes[kept].astype(np.float64), gains[kept], "p0 faint")
    worst = np.argsort(gains, kind="stable")[:10]
    rows = [
        [f"{query:,}", f"{int(sizes[query]):,}", number_text(float(gains[query]), 3),
         number_text(float(judged.label[judged.boundaries[query] : judged.boundaries[query + 1]].max()))]
        for query in worst.tolist()
    ]  # fmt: skip
    return [
        card(
            "NDCG@10 by query",
            bars.svg("histogram of NDCG by query"),
            note=f"{len(gains):,} queries; those without a relevant document count as 1.",
        ),
        card("By size of the query", by_size.svg("NDCG by size of the query")),
        card(
            "Worst queries",
            table(("query", "documents", "NDCG@10", "best label"), rows),
            note="Queries are numbered from 0, in the order of the data.",
        ),
    ]

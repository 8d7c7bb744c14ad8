"""Training: metrics after every iteration."""

from __future__ import annotations

import numpy as np

from hornbeam.views.plots.curves import thinned
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.charts import Plot, legend, limits, short
from hornbeam.views.report.markup import Content, absent, card
from hornbeam.views.report.material import Material

MAX_METRICS = 8


def learning(material: Material) -> list[Content]:
    """Return one chart a metric."""
    known = material.history
    if known is None:
        return [
            absent(
                "The model has no evaluations: files do not keep them. Pass evals_result=, the dict of "
                "record_evaluation, or write the report right after a training with valid_sets=."
            )
        ]
    history, best = known
    metrics = list(dict.fromkeys(metric for values in history.values() for metric in values))
    cards: list[Content] = []
    for metric in metrics[:MAX_METRICS]:
        series = [
            (name, np.asarray(values[metric], np.float64)) for name, values in history.items() if metric in values
        ]
        longest = max(len(values) for _, values in series)
        plot = Plot((0.0, float(max(longest, 1))), limits(*(v for _, v in series)), xlabel="iteration")
        if 0 < best <= longest:
            plot.vertical(float(best), text=f"best: {best}")
        for place, (_, values) in enumerate(series):
            x = np.arange(1.0, len(values) + 1.0)
            kept = thinned(x, values, 250)
            plot.line(x[kept], values[kept], f"s{place % 6}")
        key = legend([(f"d{place % 6}", short(name, 30)) for place, (name, _) in enumerate(series)])
        ends = [
            f"{short(name, 30)}: {number_text(float(values[best - 1 if 0 < best <= len(values) else -1]))}"
            for name, values in series
        ]
        at = f"iteration {best}" if best else "the last iteration"
        cards.append(
            card(metric, plot.svg(f"{metric} after every iteration"), key, note=f"At {at}: {'; '.join(ends)}.")
        )
    if len(metrics) > MAX_METRICS:
        cards.append(
            absent(f"{len(metrics) - MAX_METRICS} further metrics are left out: {', '.join(metrics[MAX_METRICS:])}.")
        )
    return cards

"""How much worse a model gets when the values of one feature are shuffled among the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.report.intervals import some_rows
from hornbeam.report.material import Material

FloatArray = NDArray[np.float64]

ROWS = 2000
REPEATS = 3


def permutation_importance(material: Material, features: NDArray[np.intp]) -> tuple[str, FloatArray] | None:
    """Return the metric's name, and how much it gets worse, float64 (n_features,), for some features; None: no data.

    features  int (n,)  in
    """
    if material.judged is None or not material.metrics:
        return None
    metric, judged = material.metrics[0], material.judged
    n_kept = min(ROWS, judged.n_rows)
    chosen = np.zeros(judged.n_rows, np.bool_)
    chosen[np.linspace(0, judged.n_rows - 1, n_kept).astype(np.int64)] = True
    if judged.boundaries is not None:  # whole queries
        chosen[:] = np.repeat(chosen[judged.boundaries[:-1]], np.diff(judged.boundaries))
        chosen[: judged.boundaries[1]] = True
    part = some_rows(judged, chosen)
    values = material.seeing.read(material.table(np.flatnonzero(chosen)))
    start = part.raw - material.seeing.raw_scores(values)  # initial scores of the data
    objective, worse = material.booster.objective, np.zeros(len(features))

    def value_of(raw: FloatArray) -> float:
        if isinstance(metric, QueryMetric):
            assert part.boundaries is not None
            return metric.at_ranks(part.label, raw[0], part.weight, part.boundaries)[-1]
        return metric(part.label, raw, part.weight, objective)

    plain = value_of(part.raw)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(values)) for _ in range(REPEATS)]
    for place, feature in enumerate(features.tolist()):
        column = values[:, feature].copy()
        for order in orders:
            values[:, feature] = column[order]
            shuffled = value_of(np.ascontiguousarray(material.seeing.raw_scores(values) + start))
            worse[place] += (plain - shuffled if metric.higher_is_better else shuffled - plain) / REPEATS
        values[:, feature] = column
    name = metric.names[-1] if isinstance(metric, QueryMetric) else metric.name
    return name, worse

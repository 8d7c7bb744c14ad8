"""Features: importances side by side, and contributions in single rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import HornbeamError
from hornbeam.explain import permutation_importance
from hornbeam.views.plots.explanations import swarm, value_shares
from hornbeam.views.plots.importances import importance
from hornbeam.views.plots.seen import choose_rows
from hornbeam.views.report.charts import Plot, bar_list, limits, short
from hornbeam.views.report.markup import Content, Markup, absent, card, el
from hornbeam.views.report.material import Material

TOP = 15
SWARM_ROWS = 400
N_COLORS = 9
PERMUTED_ROWS, MAX_PERMUTED = 2000, 400
"""Rows that are shuffled, and most features of a model for that."""

WHAT = {
    "split": "number of splits",
    "gain": "sum of the gains of splits",
    "cover": "sum of the hessians at splits",
}


def features(material: Material) -> list[Content]:
    """Return importances and the beeswarm."""
    booster = material.booster
    kinds = {kind: importance(booster, kind) for kind in WHAT}
    cards = [_importance(material, kind.capitalize(), values, WHAT[kind]) for kind, values in kinds.items()]
    found = material.sample_contributions
    if found is not None:
        size = np.abs(found[:, :, :-1]).mean(axis=1).sum(axis=0)
        text = f"mean size of contributions to the raw score, {len(material.sample):,} rows"
        cards.append(_importance(material, "SHAP", size, text))
    permuted = _permuted(material)
    if permuted is not None:
        cards.append(permuted)
    content: list[Content] = [el("div", cards, class_="grid")]
    if material.valid is None:
        content.append(absent("Contributions and shuffled features need data: pass valid=."))
    elif found is None:
        content.append(absent(f"Contributions are left out: {material.left_out['contributions']}"))
    else:
        content.append(_beeswarm(material, found))
    return content


def _importance(material: Material, title: str, values: NDArray[np.float64], note: str) -> Markup:
    order = np.argsort(-values, kind="stable")[:TOP]
    order = order[values[order] > 0]
    names = [material.booster.feature_names[feature] for feature in order]
    if not names:
        return card(title, absent("No feature has any."), note=note)
    return card(title, bar_list(names, values[order], "d0"), note=note)


def _permuted(material: Material) -> Markup | None:
    valid = material.valid
    if valid is None or not material.metrics:
        return None
    if len(material.booster.forest.columns) > MAX_PERMUTED:
        return absent(f"Permutation importances are left out: trees look at more than {MAX_PERMUTED} features.")
    rows = choose_rows(valid.n_rows, PERMUTED_ROWS)
    if valid.query_boundaries is not None:  # whole queries, from the first on
        n_queries = max(int(np.searchsorted(valid.query_boundaries, PERMUTED_ROWS, "right")) - 1, 1)
        rows = np.arange(int(valid.query_boundaries[n_queries]))
    repeats = 3 if len(material.booster.forest.columns) <= 60 else 1
    metric = material.metrics[0]
    name = getattr(metric, "names", [metric.name])[0]
    try:
        with material.timed("permutations"):
            found = permutation_importance(material.booster, valid.take_rows(rows), metric=name, repeats=repeats)
    except HornbeamError as error:
        return absent(f"Permutation importances are left out: {error}")
    note = f"how much worse {name} gets when the feature is shuffled among {len(rows):,} rows, mean of {repeats}"
    return _importance(material, "Permutation", found.mean, note)


def _beeswarm(material: Material, found: NDArray[np.float64]) -> Markup:
    output = material.shown_output
    kept = np.sort(choose_rows(len(material.sample), SWARM_ROWS))
    part, values = found[output][kept], material.sample_values[kept]
    order = np.argsort(-np.abs(part[:, :-1]).mean(axis=0), kind="stable")[:TOP]
    order = order[np.abs(part[:, order]).max(axis=0) > 0]
    if not len(order):
        return card("Contributions", absent("No feature contributes anything."))
    height = 26 * len(order) + 50
    plot = Plot(
        limits(part[:, order]),
        (-0.6, len(order) - 0.4),
        xlabel="contribution to the raw score",
        height=height,
        left=156,
    )
    names = material.booster.feature_names
    plot.y_ticks = [(float(len(order) - 1 - place), short(names[f], 20)) for place, f in enumerate(order.tolist())]
    plot.vertical(0.0)
    for place, feature in enumerate(order.tolist()):
        shares, known = value_shares(values[:, feature])
        y = len(order) - 1 - place + 0.38 * swarm(part[:, feature], 60)
        colors = np.where(known, np.round(shares * (N_COLORS - 1)), -1).astype(np.int64)
        for color in range(-1, N_COLORS):
            chosen = colors == color
            plot.dots(part[chosen, feature], y[chosen], f"v{color}" if color >= 0 else "vm")
    of_class = (
        ""
        if material.judged is None or material.booster.n_outputs == 1
        else f" of class {material.judged.class_names[output]}"
    )
    key = el(
        "div", "low value ", [el("i", class_=f"w{i}") for i in range(N_COLORS)], " high value", class_="legend ramp"
    )
    n_rows = 0 if material.valid is None else material.valid.n_rows
    note = f"A point is a row: {len(kept):,} of {n_rows:,}. Raw scores{of_class}. Grey: missing."
    return card("Contributions", plot.svg("contributions of features"), key, note=note, wide=True)

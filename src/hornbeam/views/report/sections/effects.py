"""Effects: how predictions depend on single features, and which features work together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.views.plots.dependence import PartialDependence, dependence
from hornbeam.views.plots.seen import choose_rows
from hornbeam.views.report.charts import Plot, bar_list, legend, limits, short
from hornbeam.views.report.markup import Content, Markup, absent, card
from hornbeam.views.report.material import INTERACTION_FEATURES, INTERACTION_ROWS, Material

FloatArray = NDArray[np.float64]

TOP = 6
ROWS, LINES = 300, 30
MAX_POINTS = 400
TOP_PAIRS = 12


def effects(material: Material) -> list[Content]:
    """Return dependence plots and pairs."""
    if material.valid is None:
        return [absent("Dependence on features needs data: pass valid=.")]
    chosen = [f for f in material.order[:TOP].tolist() if f in set(material.booster.forest.columns.tolist())]
    if not chosen:
        return [absent("The model has no splits, so predictions depend on no feature.")]
    kept = choose_rows(len(material.sample), ROWS)
    values = material.sample_values[kept]
    with material.timed("dependence"):
        found = [
            dependence(material.seeing, values, f, grid_size=24, output=material.shown_output) for f in chosen
        ]  # fmt: skip
    cards: list[Content] = [_dependence(material, one) for one in found]
    cards += _contributions(material, chosen)
    return [*cards, _pairs(material)]


def _dependence(material: Material, found: PartialDependence) -> Markup:
    grid = np.arange(len(found.grid), dtype=np.float64) if found.is_categorical else found.grid
    lines = found.lines[choose_rows(len(found.lines), LINES)]
    low, high = limits(lines, found.mean)
    room = (high - low) * 0.16
    ends = (-0.5, len(grid) - 0.5) if found.is_categorical else limits(grid, room=0.02)
    plot = Plot(ends, (low - room, high), xlabel=short(found.name, 50), ylabel=_what(material))
    known = found.values[~np.isnan(found.values)]
    edges = np.arange(len(grid) + 1, dtype=np.float64) - 0.5 if found.is_categorical else np.linspace(*ends, 31)
    counts = np.histogram(known, edges)[0]
    foot = (low - room) + counts / max(int(counts.max()), 1) * room * 0.9
    _feet(plot, edges, foot)
    if found.is_categorical:
        most = max(int(60 / len(grid)), 3)
        plot.x_ticks = [(float(place), short(text, most)) for place, text in enumerate(found.texts)]
    for line in lines:
        plot.line(grid, line, "ice")
    plot.line(grid, found.mean, "s0 strong")
    if found.is_categorical:
        plot.dots(grid, found.mean, "p0 large")
    key = legend([("d0", f"mean of {len(found.lines):,} rows"), ("dm", f"{len(lines)} single rows")])
    return card(f"Dependence on {short(found.name, 40)}", plot.svg(f"dependence on {found.name}"), key)


def _feet(plot: Plot, edges: FloatArray, heights: FloatArray) -> None:
    """Draw bars that stand on the lower edge of a plot."""
    low, high = plot.y_axis
    plot.y_axis = (0.0, high - low)
    plot.bars(edges, heights - low, "foot")
    plot.y_axis = (low, high)


def _what(material: Material) -> str:
    if material.booster.n_outputs > 1 and material.judged is not None:
        return f"probability of {material.judged.class_names[material.shown_output]}"
    return {"binary": "probability", "ranking": "score"}.get(material.task, "prediction")


def _contributions(material: Material, chosen: list[int]) -> list[Content]:
    found = material.sample_contributions
    if found is None:
        return [absent(f"Contributions are left out: {material.left_out['contributions']}")]
    kept = choose_rows(len(material.sample), MAX_POINTS)
    cards: list[Content] = []
    for feature in chosen:
        y, x = found[material.shown_output][kept, feature], material.sample_values[kept, feature]
        known = ~np.isnan(x)
        if not np.isfinite(x).any():
            continue
        name = material.booster.feature_names[feature]
        coded = material.seeing.is_categorical(feature)
        inner = np.quantile(x[np.isfinite(x)], (0.005, 0.995))
        ends = limits(inner, room=0.04) if not coded else (-0.5, float(x[known].max()) + 0.5)
        plot = Plot(ends, limits(y), xlabel=short(name, 50), ylabel="contribution to the raw score")
        if coded:
            n_codes = int(x[known].max()) + 1
            most = max(int(60 / n_codes), 3)
            plot.x_ticks = [
                (float(code), short(material.seeing.value_text(feature, code), most))
                for code in range(min(n_codes, 15))
            ]
            x = x + 0.3 * (np.arange(len(x)) % 11 / 5.0 - 1.0)  # aside, so that points do not hide each other
        plot.horizontal(0.0)
        plot.dots(np.clip(x[known], *ends), y[known], "p0 faint")
        missing = f" {int((~known).sum())} rows where it is missing are left out." if not known.all() else ""
        note = f"{int(known.sum()):,} rows.{missing}"
        cards.append(card(f"Contributions of {short(name, 40)}", plot.svg(f"contributions of {name}"), note=note))
    return cards


def _pairs(material: Material) -> Markup:
    sizes = material.pair_contributions
    if sizes is None:
        if material.booster.n_features > INTERACTION_FEATURES:
            return absent(f"Pairs of features are left out: the model has more than {INTERACTION_FEATURES} features.")
        return absent(f"Pairs of features are left out: {material.left_out['pairs']}")
    names = material.booster.feature_names
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-sizes[first, second], kind="stable")[:TOP_PAIRS]
    order = order[sizes[first[order], second[order]] > 0]
    if not len(order):
        return card("Features that work together", absent("No two features work together."))
    texts = [f"{short(names[first[i]], 13)} and {short(names[second[i]], 13)}" for i in order.tolist()]
    n_rows = min(INTERACTION_ROWS, len(material.sample))
    note = f"Mean size of what a pair adds to the raw score beyond both alone, {n_rows} rows."
    return card(
        "Features that work together", bar_list(texts, sizes[first[order], second[order]], "d0", 212), note=note
    )

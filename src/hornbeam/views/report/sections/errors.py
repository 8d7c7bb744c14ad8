"""Errors: the rows with the largest loss, and how their scores came about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.views.plots.explanations import waterfall_steps
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.charts import short, waterfall
from hornbeam.views.report.markup import Content, Markup, absent, card, el, table
from hornbeam.views.report.material import Material
from hornbeam.views.report.sections.quality import query_gains

FloatArray = NDArray[np.float64]

BARS = 9
SHOWN_FEATURES = 6


def errors(material: Material) -> list[Content]:
    """Return one card a row."""
    judged = material.judged
    if judged is None or material.valid is None:
        return [absent("Errors need data with labels: pass valid=.")]
    rows, what, sizes = material.worst, "", np.empty(0)
    if material.task == "ranking":
        rows, what, sizes = _worst_documents(material)
    elif material.losses is not None:
        what, sizes = material.losses[0], material.losses[1][rows]
    if not len(rows):
        return [absent("The metrics of this report have no loss of single rows, so no row is the worst.")]
    values = material.seeing.read(material.table(rows))
    found = material.explained(rows)
    cards: list[Content] = []
    for place, row in enumerate(rows.tolist()):
        output = int(judged.label[row]) if judged.booster.n_outputs > 1 else 0
        facts: list[tuple[str, str]] = [("label", _label(material, row)), ("predicted", _predicted(material, row))]
        facts.append((what, number_text(float(sizes[place]))))
        body: Content
        if found is not None:
            steps = waterfall_steps(material.seeing, found[output, place], values[place], BARS, (15, 9))
            body = waterfall([(n, t.replace(r"\$", "$"), a) for n, t, a in steps], float(found[output, place, -1]))
        else:
            body = _values(material, values[place])
        told = el(
            "p", [[el("span", name, class_="muted"), " ", el("b", text), "  "] for name, text in facts], class_="facts"
        )
        cards.append(card(f"Row {row:,}", told, body))
    intro = (
        "The first document of the queries with the lowest NDCG@10."
        if material.task == "ranking"
        else f"The rows of the validation data with the largest {what}, numbered from 0. Look for wrong labels first."
    )
    return [el("p", intro, class_="intro"), el("div", cards, class_="grid")]


def _values(material: Material, values: FloatArray) -> Markup:
    chosen = material.order[:SHOWN_FEATURES].tolist()
    names = material.booster.feature_names
    return table(
        ("feature", "value"), [[short(names[f], 30), material.seeing.value_text(f, values[f])] for f in chosen]
    )


def _label(material: Material, row: int) -> str:
    assert material.judged is not None
    label, names = float(material.judged.label[row]), material.judged.class_names
    return names[int(label)] if names and label == int(label) else number_text(label)


def _predicted(material: Material, row: int) -> str:
    judged = material.judged
    assert judged is not None
    if material.booster.n_outputs > 1:
        best = int(np.argmax(judged.predictions[:, row]))
        return f"{judged.class_names[best]} ({number_text(float(judged.predictions[best, row]), 3)})"
    return number_text(float(judged.predictions[0, row]))


def _worst_documents(material: Material) -> tuple[NDArray[np.int64], str, FloatArray]:
    """Return the first documents of the worst queries, int64, and the NDCG of these."""
    judged = material.judged
    assert judged is not None and judged.boundaries is not None
    gains = query_gains(judged)
    worst = np.argsort(gains, kind="stable")[:6]
    ends = zip(judged.boundaries[worst].tolist(), judged.boundaries[worst + 1].tolist(), strict=True)
    rows = [start + int(np.argmax(judged.raw[0, start:stop])) for start, stop in ends]
    return np.array(rows, np.int64), "NDCG@10 of its query", gains[worst]

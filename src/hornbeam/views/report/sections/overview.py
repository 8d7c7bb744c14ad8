"""Overview: what the model is, how good it is, and how to get it again."""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.params.params import BY_NAME
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.intervals import Figure
from hornbeam.views.report.markup import Content, Markup, absent, card, el, table
from hornbeam.views.report.material import Material

TASKS = {
    "binary": "Two classes",
    "multiclass": "Several classes",
    "ranking": "Ranking",
    "regression": "Regression",
}


def overview(material: Material, figures: list[Figure]) -> list[Content]:
    """Return the cards of the overview."""
    return [_tiles(material, figures), _model(material), _code(material), _parameters(material), _notes(material)]


def _tiles(material: Material, figures: list[Figure]) -> Markup:
    """Return the first figures, large."""
    if not figures:
        return absent("No validation data was passed, so this report says nothing about quality: pass valid=.")
    tiles = [
        el(
            "div",
            el("div", figure.name, class_="what"),
            el("div", number_text(figure.value), class_="value"),
            el("div", interval_text(figure), class_="interval"),
            class_="tile",
        )
        for figure in figures[:4]
    ]
    return el("div", tiles, class_="tiles")


def interval_text(figure: Figure) -> str:
    """Return the interval of a figure as text."""
    if not np.isfinite(figure.low):
        return ""
    return f"{number_text(figure.low)} to {number_text(figure.high)}"


def _model(material: Material) -> Markup:
    booster = material.booster
    n_leaves = [tree.n_leaves for tree in booster.trees]
    used = booster.n_used
    facts: list[tuple[str, Content]] = [
        ("Task", f"{TASKS[material.task]} ({booster.objective.name})"),
        (
            "Iterations",
            f"{used:,} used" + (f" of {booster.n_iterations:,} trained" if used != booster.n_iterations else ""),
        ),
        ("Trees", f"{len(booster.trees):,}, with {np.mean(n_leaves) if n_leaves else 0:.1f} leaves on average"),
        ("Depth", f"{max((tree.depth() for tree in booster.trees), default=0)} splits at most"),
        ("Features", f"{booster.n_features:,}, of which {len(booster.forest.columns):,} are used"),
    ]
    if material.valid is not None:
        facts.append(("Validation", f"{material.valid.n_rows:,} rows"))
    if material.train is not None:
        facts.append(("Training", f"{material.train.n_rows:,} rows"))
    print_ = el("code", booster.fingerprint(), class_="print")
    return card(
        "Model", el("dl", [[el("dt", name), el("dd", value)] for name, value in facts]), el("h4", "Fingerprint"), print_
    )


def reproducing_code(material: Material) -> str:
    """Return Python code that trains the same model from the training data `X`, `y`."""
    booster = material.booster
    params = {name: list(value) if isinstance(value, tuple) else value for name, value in booster.kept_params.items()}
    lines = ["import hornbeam as hb", ""]
    dataset = "X, label=y"
    levels = booster.levels or []
    categorical = [i for i, own in enumerate(levels) if own is not None]
    if material.task == "ranking":
        dataset += ", group=group"
    if categorical and "categorical_feature" not in params:
        dataset += f", categorical_features={categorical!r}"
    lines.append(f"train = hb.Dataset({dataset})")
    if params.get("objective") == "custom":
        params.pop("objective")
        shown = _literal({**params, "objective": "FUNCTION"}).replace("'FUNCTION'", "function  # your objective")
    else:
        shown = _literal(params)
    lines.append(f"params = {shown}")
    lines.append(f"booster = hb.train(params, train, num_boost_round={booster.n_iterations})")
    if booster.n_best:
        lines.append(f"booster.n_best = {booster.n_best}  # what early stopping chose")
    lines.append(f'assert booster.fingerprint() == "{booster.fingerprint()}"')
    return "\n".join(lines)


def _literal(params: dict[str, Any]) -> str:
    if not params:
        return "{}"
    return "{\n" + "".join(f"    {name!r}: {value!r},\n" for name, value in params.items()) + "}"


def _code(material: Material) -> Markup:
    title = "The same model again"
    if any(tree.n_splits > 0 and not tree.leaf_count.any() for tree in material.booster.trees):
        return card(title, absent("The model was read from a file of another library, which alone trains it again."))
    note = (
        "X, y and the weights are the training data, in the same order of columns. A model that was trained on with "
        "init_model, refitted or merged takes these steps again; one of another library, that library."
    )
    code = reproducing_code(material)
    button = el("button", "Copy", type="button", class_="quiet", data_copy="code")
    return card(title, el("div", button, el("pre", el("code", code, id="code")), class_="code"), note=note)


def _parameters(material: Material) -> Markup:
    rows = [
        [el("code", name), str(value), _default(name)]
        for name, value in sorted(material.booster.kept_params.items())
    ]  # fmt: skip
    if not rows:
        return card("Parameters", el("p", "All parameters that shape the model have their defaults."))
    note = "Only parameters that shape the model and differ from their default; defaults are those of this version."
    return card("Parameters", table(("parameter", "value", "default"), rows), note=note)


def _default(name: str) -> str:
    row = BY_NAME.get(name)
    if row is None:
        return ""
    return "chosen by the data" if row.default is None and row.plain is not None else str(row.default)


def _notes(material: Material) -> Markup | None:
    if not material.choices.notes:
        return None
    facts = [[el("dt", str(name)), el("dd", str(value))] for name, value in material.choices.notes.items()]
    return card("Notes", el("dl", facts))

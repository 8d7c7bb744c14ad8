"""A report as one file: sections put into the template, with style and script inside.

Nothing is loaded from elsewhere, and the page's policy forbids it: no address may be asked, and only the script whose
hash it names may run. So even a text that slipped past the escaping (markup.py) could not run as a script.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.resources import files
from typing import Any

from hornbeam.views.plots.curves import thresholds
from hornbeam.views.report.intervals import figures
from hornbeam.views.report.markup import Content, Markup, as_json, el, joined
from hornbeam.views.report.material import Material
from hornbeam.views.report.sections.data import data as data_section
from hornbeam.views.report.sections.effects import effects
from hornbeam.views.report.sections.errors import errors
from hornbeam.views.report.sections.features import features
from hornbeam.views.report.sections.learning import learning
from hornbeam.views.report.sections.machine import machine
from hornbeam.views.report.sections.overview import TASKS, overview
from hornbeam.views.report.sections.quality import quality, threshold_table
from hornbeam.views.report.sections.trees import tree_data, trees

TITLE_LENGTH = 120


def page_of(material: Material) -> str:
    """Return the whole report as HTML."""
    with material.timed("metrics"):
        overall = (
            [] if material.judged is None else figures(material.judged, material.metrics, material.choices.bootstrap)
        )
    made: list[tuple[str, str, list[Content]]] = []
    sections: tuple[tuple[str, Callable[[], list[Content]]], ...] = (
        ("Overview", lambda: overview(material, overall)),
        ("Quality", lambda: quality(material, overall)),
        ("Features", lambda: features(material)),
        ("Effects", lambda: effects(material)),
        ("Errors", lambda: errors(material)),
        ("Data", lambda: data_section(material)),
        ("Training", lambda: learning(material)),
        ("Trees", lambda: trees(material)),
    )
    for name, make in sections:
        with material.timed(name.lower()):
            made.append((name.lower(), name, make()))
    with material.timed("trees"):
        data = {"thresholds": _threshold_data(material), "forest": tree_data(material)}
    made.append(("machine", "Machine", machine(material)))
    script = _template("script.js")
    return _filled(
        _template("page.html"),
        {
            "policy": joined(_policy(script)),
            "title": joined((material.choices.title or "Hornbeam model")[:TITLE_LENGTH]),
            "subtitle": joined(f"{TASKS[material.task]} · {material.booster.fingerprint()[:12]}"),
            "style": Markup(_template("style.css")),
            "script": Markup(script),
            "navigation": joined([el("a", name, href=f"#{id_}") for id_, name, _ in made]),
            "sections": joined(
                [
                    el("section", el("h2", name), el("div", content, class_="grid"), id=id_)
                    for id_, name, content in made
                ]
            ),
            "data": as_json(data),
            "footer": joined(_footer(material)),
        },
    )


def _filled(template: str, values: dict[str, Markup]) -> str:
    """Put values into a template, all at once: what stands in a value is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def _template(name: str) -> str:
    return (files("hornbeam.views.report") / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _threshold_data(material: Material) -> dict[str, Any] | None:
    judged = material.judged
    if judged is None or material.task != "binary":
        return None
    at = thresholds(judged.label > 0.5, judged.predictions[0], judged.weight)
    if at.tp[-1] <= 0 or at.fp[-1] <= 0:
        return None
    return {**threshold_table(at), "p": float(at.tp[-1]), "n": float(at.fp[-1])}


def _footer(material: Material) -> str:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    told = f"Written by Hornbeam on {now}, in {time.perf_counter() - material.begin:.1f} s."
    if material.valid is not None and len(material.sample) < material.valid.n_rows:
        told += (
            f" Metrics, curves and errors are those of all {material.valid.n_rows:,} rows; contributions and effects "
            f"are those of {len(material.sample):,} sampled rows or fewer, as each card says."
        )
    return told

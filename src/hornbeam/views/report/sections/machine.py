"""Machine: what the model weighs, how fast it predicts, and how long the report took."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib import import_module

import numpy as np

from hornbeam.core.cpus import resolve_threads
from hornbeam.views.plots.seen import number_text
from hornbeam.views.report.markup import Content, card, el, table
from hornbeam.views.report.material import Material

TIMED_ROWS = 20_000


def machine(material: Material) -> list[Content]:
    """Return facts about model and machine."""
    booster = material.booster
    arrays = sum(
        value.nbytes for tree in booster.trees for value in vars(tree).values() if isinstance(value, np.ndarray)
    )
    facts: list[tuple[str, str]] = [
        ("Model file", _bytes(len(booster.to_bytes()))),
        ("Trees in memory", _bytes(arrays)),
        ("Prediction", _speed(material)),
        ("Device of the report", f"cpu, {resolve_threads(booster.num_threads)} threads of {os.cpu_count()} CPUs"),
        ("Peak memory", _peak()),
        ("Machine", f"{platform.machine()}, {platform.system()}"),
        (
            "Versions",
            f"Hornbeam {import_module('hornbeam').__version__}, Python {platform.python_version()}, "
            f"NumPy {np.__version__}",
        ),
    ]
    rows = [[name, f"{seconds:.2f} s"] for name, seconds in material.seconds.items()]
    note = (
        "A model does not say where and how long it was trained, for it is the same on every device; notes= has room "
        "for that."
    )
    return [
        card("Model and machine", el("dl", [[el("dt", name), el("dd", value)] for name, value in facts]), note=note),
        card("Time of this report", table(("part", "time"), rows)),
    ]


def _speed(material: Material) -> str:
    """Measure predictions on some rows of the data."""
    if material.valid is None:
        return "not measured: no data"
    values = np.tile(material.sample_values, (-(-TIMED_ROWS // len(material.sample_values)), 1))[:TIMED_ROWS]
    begin = time.perf_counter()
    material.seeing.predictions(values)
    seconds = max(time.perf_counter() - begin, 1e-9)
    return f"{number_text(len(values) / seconds, 3)} rows a second ({len(values):,} rows)"


def _bytes(number: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"


def _peak() -> str:
    """Return the most memory that the process has had."""
    try:
        import resource
    except ImportError:  # Windows
        return "not known on this system"
    unit = 1 if sys.platform == "darwin" else 1024
    return _bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)

"""Reports: a model and how good it is, as one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hornbeam.core.errors import HornbeamError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.model.booster import Booster
from hornbeam.model.file.writing import check_path, write_atomically
from hornbeam.views.plots.learning import History
from hornbeam.views.report.material import Choices, gather
from hornbeam.views.report.page import page_of
from hornbeam.views.report.slices import check_slices

__all__ = ["write_report"]


def write_report(
    booster: Booster,
    path: str | os.PathLike[str],
    valid: Any = None,
    *,
    train: Any = None,
    evals_result: History | None = None,
    slices: Sequence[str] | Mapping[str, Any] | None = None,
    metrics: Sequence[str] | None = None,
    class_names: Sequence[Any] | None = None,
    title: str | None = None,
    notes: Mapping[str, Any] | None = None,
    costs: tuple[float, float] = (1.0, 1.0),
    sample_rows: int = 1000,
    bootstrap: int = 200,
) -> None:
    """Write a report on a model: one HTML file below 1 MB that needs no network.

    Parameters
    ----------
    booster
        The model.
    path
        File to write. It is written in one step: either the whole report is there or what was there before.
    valid
        Data to judge the model by: a Dataset with labels (for ranking with queries), or a pair (table, labels). None:
        the report has what the model alone tells (parameters, importances, trees, learning curves), and says in each
        section what is left out.
    train
        Training data, as `valid`: shows how far both are apart, and the metrics on it.
    evals_result
        Evaluations during training, the dict of `record_evaluation`; None: those that the
        Booster has from its training.
    slices
        Names of features by whose values metrics are told apart; or a dict with one value a row of `valid` by name,
        for columns that are no features.
    metrics
        Names of metrics; None: those that suit the objective.
    class_names
        One a class, in the order of the labels.
    title
        Heading; None: "Hornbeam model".
    notes
        Further facts by name, such as where and how long the model was trained.
    costs
        Of a false positive and a false negative, which the threshold's slider starts with.
    sample_rows
        Rows of `valid` that contributions and effects are computed for. Metrics and curves take all rows.
    bootstrap
        Resamples of the intervals; 0: no intervals.

    Raises
    ------
    HornbeamError
        Before anything is written: for data with other columns, without labels, or a path that cannot be written.
    """
    check_path(path)
    _check_writable(Path(path))
    choices = Choices(evals_result, slices, metrics, class_names, title, notes, costs, sample_rows, bootstrap)
    with default_mode():
        material = gather(booster, valid, train, choices)
        check_slices(material)
        page = page_of(material)
    try:
        write_atomically(path, page.encode("utf-8"))
    except OSError as error:
        raise _unwritable(path, error.__cause__ or error) from None


def _check_writable(path: Path) -> None:
    """Raise where a file cannot be written, before the work is done that would be lost."""
    try:
        if "\0" in str(path):
            raise _unwritable(path, "no file has a NUL in its name")
        if path.is_dir():
            raise ParameterError(f"path={os.fspath(path)!r} is a folder; give the name of a file, such as report.html")
        if not os.access(path.absolute().parent, os.W_OK):
            raise _unwritable(path, "no folder that may be written to")
    except (OSError, ValueError) as error:
        if isinstance(error, HornbeamError):
            raise
        raise _unwritable(path, error) from None


def _unwritable(path: str | os.PathLike[str], why: object) -> HornbeamError:
    why = getattr(why, "strerror", None) or why
    return HornbeamError(
        f"cannot write the report to {os.fspath(path)!r} ({why}); give a file in a folder that exists and may be "
        "written to"
    )

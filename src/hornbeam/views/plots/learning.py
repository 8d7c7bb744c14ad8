"""Metrics during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hornbeam.core.errors import ParameterError
from hornbeam.core.log import inform
from hornbeam.model.booster import Booster
from hornbeam.views.plots.canvas import MUTED, SERIES, dress, legend, new_axes
from hornbeam.views.plots.models import booster_of

History = Mapping[str, Mapping[str, Sequence[float]]]


def history_of(booster: Any) -> tuple[History, int]:
    """Return evaluations by data set and metric, and the best iteration, 0 where it is not known."""
    if isinstance(booster, Mapping):
        history, best = booster, 0
    else:
        model: Booster = booster_of(booster)
        history, best = model.eval_history, model.n_best
    if not history:
        raise ParameterError(
            "there are no evaluations: train with valid_sets= (fit with eval_set=); a model from a file has none, so "
            "keep the dict of record_evaluation"
        )
    for name, metrics in history.items():
        if not isinstance(metrics, Mapping) or not all(isinstance(name, str) for name in (name, *metrics)):
            raise ParameterError(f"evaluations of {name!r} must be a dict of lists by metric, as record_evaluation has")
    return history, best


def plot_metric(
    booster: Any,
    metric: str | None = None,
    dataset_names: Sequence[str] | None = None,
    ax: Any = None,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Metric during training",
    xlabel: str | None = "Iterations",
    ylabel: str | None = "@metric@",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Draw a metric after every iteration.

    Parameters
    ----------
    booster
        dict of `record_evaluation`, fitted estimator, or Booster that was just trained; a loaded one has no
        evaluations.
    metric
        Its name; None: the only one, or the last (as LightGBM).
    dataset_names
        Names of the data sets to draw; None: all that have the metric.
    ylabel
        @metric@ is replaced by the name.

    A dashed line is at the best iteration, where the model knows it.
    """
    history, best = history_of(booster)
    if dataset_names is None:
        names = list(history)
    elif isinstance(dataset_names, str) or not list(dataset_names):
        raise ParameterError(f"dataset_names={dataset_names!r}: pass a list of at least one name")
    else:
        names = list(dataset_names)
    for name in names:
        if name not in history:
            raise ParameterError(f"dataset_names has {name!r}; evaluated were {', '.join(map(repr, history))}")
    if metric is None:
        known = list(history[names[0]])
        metric = known[-1]
        if len(known) > 1:
            inform(f"plot_metric draws {metric!r}; pass metric= for one of {', '.join(known)}")
    drawn = [(name, history[name][metric]) for name in names if metric in history[name]]
    if not drawn:
        known = sorted({one for name in names for one in history[name]})
        raise ParameterError(f"metric={metric!r} was not evaluated; evaluated were {', '.join(known)}")
    ax = new_axes(ax, figsize, dpi)
    for place, (name, values) in enumerate(drawn):
        color = SERIES[place % len(SERIES)]
        ax.plot(range(1, len(values) + 1), values, label=name, color=color, linewidth=1.8)
    if best:
        ax.axvline(best, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label=f"best iteration: {best}")
    longest = max(len(values) for _, values in drawn)
    sides = (0, longest + 1) if xlim is None else xlim
    if ylim is None:
        every = [float(value) for _, values in drawn for value in values]
        room = (max(every) - min(every)) * 0.1 or abs(max(every)) * 0.1 or 1.0
        ylim = (min(every) - room, max(every) + room)
    text = None if ylabel is None else ylabel.replace("@metric@", metric)
    dress(ax, title=title, xlabel=xlabel, ylabel=text, xlim=sides, ylim=ylim, grid=grid)
    legend(ax)
    return ax

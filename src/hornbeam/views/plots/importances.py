"""How much features are used, and where they are split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.model.booster import Booster
from hornbeam.views.plots.canvas import ACCENT, INK, dress, new_axes, shortened
from hornbeam.views.plots.models import booster_of, feature_position

KINDS = ("split", "gain", "cover", "weight", "total_gain", "total_cover")
"""LightGBM's names, and those that XGBoost has for the same: number, sum of gains and of hessians."""


def importance(booster: Booster, kind: str) -> NDArray[np.float64]:
    """Return the importance of each feature, float64 (n_features,): number, gains or hessians of its splits."""
    if kind not in KINDS:
        raise ParameterError(f"importance_type={kind!r}: must be 'auto', {', '.join(map(repr, KINDS))}")
    return np.asarray(booster.feature_importance(kind), np.float64)


def plot_importance(
    booster: Any,
    ax: Any = None,
    height: float = 0.2,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Feature importance",
    xlabel: str | None = "Feature importance",
    ylabel: str | None = "Features",
    importance_type: str = "auto",
    max_num_features: int | None = None,
    ignore_zero: bool = True,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    precision: int | None = 3,
    show_values: bool = True,
    values_format: str | None = None,
    **kwargs: Any,
) -> Any:
    """Draw the importance of the features as bars.

    Parameters
    ----------
    booster
        Booster or fitted estimator, or a dict of importances by the names of features.
    ax
        Axes to draw on; None: those of a new figure.
    height
        Of the bars, of the room that each has; thicker ones than LightGBM's 0.2 look better: 0.7.
    importance_type
        "split": number of splits; "gain": sum of their gains; "cover": sum of their hessians; "auto": what the
        estimator has as `importance_type`, else "split".
    max_num_features
        Draw so many, the most important ones; None: all.
    ignore_zero
        Leave out features without importance.
    precision
        Digits after the point; None: all.
    show_values, values_format
        XGBoost's: whether the numbers are written beside the bars, and how: "{v:.2f}"; None: by `precision`.
    **kwargs
        To `Axes.barh`.
    xlim, ylim, title, xlabel, ylabel, figsize, dpi, grid
        As in all plots; None leaves a text out.

    Returns
    -------
    The axes.
    """
    if isinstance(booster, Mapping):
        names, values, importance_type = list(booster), np.array(list(booster.values()), np.float64), "given"
    else:
        if importance_type == "auto":
            importance_type = getattr(booster, "importance_type", None) or "split"
        model = booster_of(booster)
        names, values = model.feature_names, importance(model, importance_type)
    order = np.argsort(values, kind="stable")
    if ignore_zero:
        order = order[values[order] > 0]
    if max_num_features is not None and max_num_features > 0:
        order = order[-max_num_features:]
    if not len(order):
        raise ParameterError("no feature has an importance: the model has no splits; pass ignore_zero=False")
    ax = new_axes(ax, figsize, dpi, (6.4, min(max(2.0, 0.8 + 0.28 * len(order)), 40.0)))
    shown, places = values[order], np.arange(len(order))
    ax.barh(places, shown, **{"height": height, "align": "center", "color": ACCENT, **kwargs})
    for place, value in zip(places, shown, strict=True) if show_values else ():
        is_count = importance_type in ("split", "weight")
        text = str(int(value)) if is_count else str(value) if precision is None else f"{value:.{precision}f}"
        text = text if values_format is None else values_format.format(v=value)
        ax.annotate(text, (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    ax.set_yticks(places, [shortened(str(names[feature])) for feature in order])
    sides = (0.0, float(shown.max()) * 1.2 or 1.0) if xlim is None else xlim
    ends = (-0.75, len(order) - 0.25) if ylim is None else ylim
    label = None if xlabel is None else xlabel.replace("@importance_type@", importance_type)
    return dress(ax, title=title, xlabel=label, ylabel=ylabel, xlim=sides, ylim=ends, grid="x" if grid else False)


def plot_split_value_histogram(
    booster: Any,
    feature: int | str,
    bins: int | str | None = None,
    ax: Any = None,
    width_coef: float = 0.8,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Split value histogram for feature with @index/name@ @feature@",
    xlabel: str | None = "Feature split value",
    ylabel: str | None = "Count",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    **kwargs: Any,
) -> Any:
    """Draw how often a feature is split at which values.

    Parameters
    ----------
    booster
        Booster or fitted estimator.
    feature
        Name or position of a feature of numbers.
    bins
        Number of bars, or a rule of `numpy.histogram_bin_edges`; None: one a distinct value, at most what "auto" gives.
    width_coef
        Width of the bars, of the room that each has.
    title
        @index/name@ and @feature@ are replaced.
    **kwargs
        To `Axes.bar`.
    """
    model = booster_of(booster)
    values = model.split_values(feature_position(model, feature))
    if not len(values):
        raise ParameterError(f"feature {feature!r} is split nowhere in the model; choose another one")
    distinct = len(np.unique(values))
    wanted: Any = bins
    if wanted is None:
        wanted = min(distinct, len(np.histogram_bin_edges(values, "auto")) - 1)
    counts, edges = np.histogram(values, wanted)
    ax = new_axes(ax, figsize, dpi)
    widths = np.diff(edges)
    ax.bar(edges[:-1] + widths / 2.0, counts, **{"width": widths * width_coef, "color": ACCENT, **kwargs})
    if title is not None:
        kind = "name" if isinstance(feature, str) else "index"
        title = title.replace("@index/name@", kind).replace("@feature@", shortened(str(feature), 60))
    ends = (0.0, float(counts.max()) * 1.1) if ylim is None else ylim
    return dress(ax, title=title, xlabel=xlabel, ylabel=ylabel, xlim=xlim, ylim=ends, grid="y" if grid else False)

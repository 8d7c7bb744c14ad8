"""Partial dependence: what a model predicts when one feature is set to one value after the other in every row.

The line of a single row is its individual conditional expectation (ICE); their mean is the partial dependence. The
density of the feature is drawn below, for where there are no data the lines mean little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.params.params import whole_number
from hornbeam.views.plots.canvas import ACCENT, MUTED, dress, new_axes, pyplot, shortened
from hornbeam.views.plots.models import booster_of, feature_position, task_of
from hornbeam.views.plots.seen import SeeingModel, choose_rows

FloatArray = NDArray[np.float64]

MAX_LEVELS = 15
"""Levels of a categorical feature that are tried: the most frequent ones in training."""


@dataclass(frozen=True)
class PartialDependence:
    """What a model predicts at values of one feature.

    grid            float64 (n_grid,)          values that were tried; codes of a categorical feature
    texts           one a value
    lines           float64 (n_rows, n_grid)   prediction of every row
    values          float64 (n_rows,)          the feature as it is in the rows
    is_categorical  whether the values are levels
    """

    feature: int
    name: str
    grid: FloatArray
    texts: tuple[str, ...]
    lines: FloatArray
    values: FloatArray
    is_categorical: bool

    @property
    def mean(self) -> FloatArray:
        """The partial dependence, float64 (n_grid,)."""
        mean: FloatArray = self.lines.mean(axis=0)
        return mean


def grid_of(model: SeeingModel, feature: int, values: FloatArray, grid_size: int) -> FloatArray:
    """Return the values of a feature to try: levels, or quantiles from 1% to 99%.

    values  float64 (n_rows,)  in
    """
    known = values[np.isfinite(values)]
    if model.is_categorical(feature):
        assert model.booster.levels is not None
        own = model.booster.levels[feature]
        return np.arange(min(len(own) if own is not None else 0, MAX_LEVELS), dtype=np.float64)
    if not len(known):
        return np.zeros(1)
    distinct = np.unique(known)
    if len(distinct) <= grid_size:
        return distinct
    return np.unique(np.quantile(known, np.linspace(0.01, 0.99, grid_size)))


def dependence(
    model: SeeingModel, values: FloatArray, feature: int, *, grid_size: int = 30, output: int = 0, raw: bool = False
) -> PartialDependence:
    """Compute the partial dependence on a feature.

    values  float64 (n_rows, n_features)  in   see seen.py
    output  which one, of several
    raw     raw scores instead of predictions
    """
    grid = grid_of(model, feature, values[:, feature], grid_size)
    tried = np.tile(values, (len(grid), 1))
    tried[:, feature] = np.repeat(grid, len(values))
    scores = (model.raw_scores if raw else model.predictions)(tried)[output]
    lines = np.ascontiguousarray(scores.reshape(len(grid), len(values)).T)
    texts = tuple(model.value_text(feature, value) for value in grid.tolist())
    name = model.booster.feature_names[feature]
    return PartialDependence(feature, name, grid, texts, lines, values[:, feature], model.is_categorical(feature))


def plot_partial_dependence(
    model: Any,
    data: Any,
    features: int | str | Sequence[int | str],
    *,
    ice: bool = True,
    density: bool = True,
    centered: bool = False,
    raw_score: bool = False,
    output: int = 0,
    grid_size: int = 30,
    n_rows: int = 500,
    n_lines: int = 60,
    ax: Any = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Draw the partial dependence of predictions on features, one plot a feature.

    Parameters
    ----------
    model
        Booster or fitted estimator.
    data
        Table or Dataset; rows of it are sampled.
    features
        Name or position of a feature, or a list of them.
    ice
        Whether to draw the lines of `n_lines` single rows, which show what the mean hides.
    density
        Whether to draw a histogram of the feature below.
    centered
        Whether all lines start at 0, so that they can be compared.
    raw_score
        Draw raw scores (log odds, logarithms of means) instead of predictions.
    output
        Number of the class, of several.
    grid_size, n_rows
        Values to try, and rows to try them in.
    ax
        Axes to draw on, with a single feature.

    Returns
    -------
    The axes; of several features a list of them.
    """
    booster = booster_of(model)
    wanted = [features] if isinstance(features, (int, str, np.integer)) else list(features)
    places = [feature_position(booster, feature) for feature in wanted]
    if not places:
        raise ParameterError("features is empty; name at least one feature")
    if ax is not None and len(places) > 1:
        raise ParameterError(f"ax= with {len(places)} features: pass one feature, or leave ax out")
    for name, value, low in (("grid_size", grid_size, 2), ("n_rows", n_rows, 1), ("n_lines", n_lines, 0)):
        whole_number(value, name, low)
    if whole_number(output, "output", 0) >= booster.n_outputs:
        raise ParameterError(f"output={output}: the model has outputs 0 to {booster.n_outputs - 1}")
    seeing = SeeingModel(booster)
    reader = seeing.open(data)
    values = seeing.read(reader.take(choose_rows(reader.n_rows, n_rows)))
    if len(places) == 1:
        axes = [new_axes(ax, figsize, dpi, (5.4, 4.0))]
    else:
        columns = min(3, len(places))
        rows = -(-len(places) // columns)
        _, grid_axes = pyplot().subplots(
            rows, columns, figsize=figsize or (4.2 * columns, 3.3 * rows), dpi=dpi, layout="constrained", squeeze=False
        )
        axes = list(grid_axes.ravel())
        for empty in axes[len(places) :]:
            empty.set_axis_off()
    for one, place in zip(axes, places, strict=False):
        found = dependence(seeing, values, place, grid_size=grid_size, output=output, raw=raw_score)
        _draw(one, found, n_lines if ice else 0, density, centered)
        dress(
            one, title=title, xlabel=shortened(found.name, 40), ylabel=_label(booster, raw_score, centered), grid=grid
        )
    return axes[0] if len(places) == 1 else axes[: len(places)]


def _label(booster: Any, raw_score: bool, centered: bool) -> str:
    by_task = {"binary": "Probability", "multiclass": "Probability", "ranking": "Score"}
    text = "Raw score" if raw_score else by_task.get(task_of(booster), "Prediction")
    return f"Change of {text.lower()}" if centered else text


def _draw(ax: Any, found: PartialDependence, n_lines: int, density: bool, centered: bool) -> None:
    start = found.lines[:, :1] if centered else 0.0
    lines = found.lines - start
    mean = lines.mean(axis=0)
    places = np.arange(len(found.grid), dtype=np.float64) if found.is_categorical else found.grid
    chosen = lines[choose_rows(len(lines), n_lines)] if n_lines else lines[:0]
    for line in chosen:
        ax.plot(places, line, color=MUTED, linewidth=0.6, alpha=0.45)
    ax.plot(places, mean, color=ACCENT, linewidth=2.4, marker="o" if found.is_categorical else None, markersize=5)
    low, high = (chosen.min(), chosen.max()) if len(chosen) else (mean.min(), mean.max())
    low, high = min(low, mean.min()), max(high, mean.max())
    span = float(high - low) or 1.0
    ax.set_ylim(low - (0.26 if density else 0.06) * span, high + 0.06 * span)
    if density:
        _draw_density(ax, found, places)
    if found.is_categorical:
        texts = [shortened(text, 14) for text in found.texts]
        turned = sum(map(len, texts)) > 26
        ax.set_xticks(places, texts, rotation=40 if turned else 0, ha="right" if turned else "center")


def _draw_density(ax: Any, found: PartialDependence, places: FloatArray) -> None:
    """Draw a histogram of the feature in the lowest sixth of the axes."""
    known = found.values[~np.isnan(found.values)]
    if found.is_categorical:
        counts = np.bincount(known.astype(np.int64), minlength=len(places))[: len(places)]
        middles, width = places, 0.6
    else:
        low, high = float(found.grid[0]), float(found.grid[-1])
        counts, edges = np.histogram(known, 30, (low, high) if high > low else (low - 0.5, low + 0.5))
        middles, width = (edges[1:] + edges[:-1]) / 2.0, (edges[1] - edges[0]) * 0.9
    ax.bar(
        middles, counts / max(counts.max(), 1) * 0.15, width=width, color=MUTED, alpha=0.35, linewidth=0,
        transform=ax.get_xaxis_transform(),
    )  # fmt: skip

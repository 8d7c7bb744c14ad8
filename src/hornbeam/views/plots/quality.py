"""Plots that judge a model on data with labels: ROC, precision and recall, calibration, residuals, confusion.

All take `(model, data, label)`: a Booster or a fitted estimator, and a table with its labels, or a Dataset that has
them, or a pair of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.views.plots.canvas import (
    ACCENT,
    GRID,
    INK,
    MUTED,
    SECOND,
    SERIES,
    dress,
    legend,
    new_axes,
    pyplot,
    shortened,
)
from hornbeam.views.plots.curves import calibration, confusion, thinned, thresholds
from hornbeam.views.plots.models import Judged, judge, task_of
from hornbeam.views.plots.seen import choose_rows, number_text

MAX_CURVES = 6
"""Classes that have a curve each; of more, the most frequent ones."""

MAX_POINTS = 5000
"""Rows that a scatter plot shows."""


def _curves(judged: Judged) -> list[tuple[str, NDArray[np.bool_], NDArray[np.float64]]]:
    """Return name, truth and probability of the classes to draw."""
    task = task_of(judged.booster)
    if task == "binary":
        return [("", judged.label > 0.5, judged.predictions[0])]
    if task != "multiclass":
        raise ParameterError(
            f"objective {judged.booster.objective.name!r} has no classes; plot_residuals draws its errors"
        )
    often = np.argsort(-np.bincount(judged.label.astype(np.int64), minlength=len(judged.class_names)), kind="stable")
    chosen = sorted(often[:MAX_CURVES].tolist())
    return [(judged.class_names[k], judged.label == k, judged.predictions[k]) for k in chosen]


def plot_roc(
    model: Any,
    data: Any,
    label: Any = None,
    *,
    weight: Any = None,
    class_names: Sequence[Any] | None = None,
    ax: Any = None,
    title: str | None = "ROC curve",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Draw true against false positive rates; with several classes, each against all others."""
    judged = judge(model, data, label, weight, class_names=class_names)
    drawn = _curves(judged)
    ax = new_axes(ax, figsize, dpi, (4.8, 4.6))
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    for place, (name, positive, score) in enumerate(drawn):
        at = thresholds(positive, score, judged.weight)
        points = thinned(at.fall_out, at.recall)
        text = f"{shortened(name)}  AUC {at.auc:.4f}".strip()
        ax.plot(at.fall_out[points], at.recall[points], color=SERIES[place], linewidth=1.8, label=text)
    dress(ax, title=title, xlabel="False positive rate", ylabel="True positive rate", xlim=(-0.01, 1.01),
          ylim=(-0.01, 1.02), grid=grid)  # fmt: skip
    legend(ax, loc="lower right")
    return ax


def plot_precision_recall(
    model: Any,
    data: Any,
    label: Any = None,
    *,
    weight: Any = None,
    class_names: Sequence[Any] | None = None,
    ax: Any = None,
    title: str | None = "Precision and recall",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Draw precision against recall; with several classes, each against all others."""
    judged = judge(model, data, label, weight, class_names=class_names)
    drawn = _curves(judged)
    ax = new_axes(ax, figsize, dpi, (4.8, 4.6))
    for place, (name, positive, score) in enumerate(drawn):
        at = thresholds(positive, score, judged.weight)
        points = thinned(at.recall, at.precision)
        text = f"{shortened(name)}  AP {at.average_precision:.4f}".strip()
        ax.step(at.recall[points], at.precision[points], where="pre", color=SERIES[place], linewidth=1.8, label=text)
    if len(drawn) == 1:
        share = float(np.average(drawn[0][1], weights=judged.weight))
        ax.axhline(share, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label=f"share of positives {share:.3g}")
    dress(ax, title=title, xlabel="Recall", ylabel="Precision", xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), grid=grid)
    legend(ax, loc="best")
    return ax


def plot_calibration(
    model: Any,
    data: Any,
    label: Any = None,
    *,
    weight: Any = None,
    class_names: Sequence[Any] | None = None,
    n_groups: int = 10,
    ax: Any = None,
    title: str | None = "Calibration",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Draw the share of positives against the predicted probability, in groups of as many rows, with 95% intervals."""
    judged = judge(model, data, label, weight, class_names=class_names)
    drawn = _curves(judged)
    ax = new_axes(ax, figsize, dpi, (4.8, 4.6))
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="perfect")
    top = 0.0
    for place, (name, positive, score) in enumerate(drawn):
        truth = judged.label if not name else positive.astype(np.float64)
        bars = calibration(truth, score, judged.weight, n_groups)
        room = np.maximum([bars.seen - bars.low, bars.high - bars.seen], 0.0)
        ax.errorbar(
            bars.predicted, bars.seen, room, color=SERIES[place], marker="o", markersize=4, linewidth=1.6,
            elinewidth=1, label=shortened(name) or "model",
        )  # fmt: skip
        top = max(top, float(bars.high.max()), float(bars.predicted.max()))
    end = min(1.02, top * 1.08)
    dress(ax, title=title, xlabel="Predicted probability", ylabel="Share of positives", xlim=(-0.01, end),
          ylim=(-0.01, end), grid=grid)  # fmt: skip
    legend(ax, loc="upper left")
    return ax


def plot_residuals(
    model: Any,
    data: Any,
    label: Any = None,
    *,
    weight: Any = None,
    ax: Any = None,
    title: str | None = "Residuals",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
) -> Any:
    """Draw label minus prediction against the prediction, with the median and the middle 80% along it."""
    judged = judge(model, data, label, weight)
    if task_of(judged.booster) in ("binary", "multiclass"):
        raise ParameterError("the model predicts classes; plot_calibration and plot_confusion draw its errors")
    predicted, residual = judged.predictions[0], judged.label - judged.predictions[0]
    rows = choose_rows(len(predicted), MAX_POINTS)
    ax = new_axes(ax, figsize, dpi)
    ax.scatter(predicted[rows], residual[rows], s=8, color=ACCENT, alpha=0.35, linewidths=0, rasterized=True)
    middles, bands = running_bands(predicted, residual)
    ax.fill_between(middles, bands[0], bands[2], color=SECOND, alpha=0.18, linewidth=0, label="middle 80%")
    ax.plot(middles, bands[1], color=SECOND, linewidth=1.8, label="median")
    ax.axhline(0.0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    dress(ax, title=title, xlabel="Prediction", ylabel="Label - prediction", grid=grid)
    legend(ax, loc="best")
    return ax


def running_bands(
    x: NDArray[np.float64], y: NDArray[np.float64], n_groups: int = 20
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of groups of as many rows along x, float64 (n,), and y's 10%, 50% and 90% there, (3, n).

    x, y  float64 (n_rows,)  in
    """
    parts = np.array_split(np.argsort(x, kind="stable"), min(n_groups, len(x)))
    middles = np.array([np.median(x[part]) for part in parts])
    return middles, np.array([np.quantile(y[part], (0.1, 0.5, 0.9)) for part in parts]).T


def plot_confusion(
    model: Any,
    data: Any,
    label: Any = None,
    *,
    weight: Any = None,
    class_names: Sequence[Any] | None = None,
    threshold: float = 0.5,
    normalize: bool = True,
    ax: Any = None,
    title: str | None = "Confusion",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """Draw which classes are predicted for which: shares of each true class, and numbers of rows (sums of weights).

    threshold  with two classes: the probability from which on the second is predicted
    normalize  False: colours are those of the numbers, and shares are left out
    """
    judged = judge(model, data, label, weight, class_names=class_names)
    table = confusion_of(judged, threshold)
    names, n_classes = judged.class_names, len(judged.class_names)
    side = min(max(3.8, 1.6 + 0.62 * n_classes), 24.0)
    ax = new_axes(ax, figsize, dpi, (side + 0.6, side))
    total = table.sum(axis=1, keepdims=True)
    share = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
    shown = share if normalize else table
    pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("hornbeam_shares", ["#f6f9f8", ACCENT])
    ax.imshow(shown, cmap=colors, vmin=0.0, vmax=float(shown.max()) or 1.0)
    size = 9 if n_classes <= 8 else 7
    for i in range(n_classes):
        for j in range(n_classes):
            number = number_text(float(table[i, j]))
            text = f"{share[i, j]:.1%}\n{number}" if normalize and n_classes <= 12 else number
            dark = shown[i, j] > 0.55 * shown.max()
            ax.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else INK)
    short = [shortened(name, 16) for name in names]
    turned = 45 if max(map(len, short)) * n_classes > 40 else 0
    ax.set_xticks(range(n_classes), short, rotation=turned, ha="right" if turned else "center")
    ax.set_yticks(range(n_classes), short)
    dress(ax, title=title, xlabel="Predicted", ylabel="True", grid=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, color=GRID)
    return ax


def confusion_of(judged: Judged, threshold: float = 0.5) -> NDArray[np.float64]:
    """Return the confusion matrix, float64 (n_classes, n_classes): true classes by predicted ones."""
    task = task_of(judged.booster)
    if task not in ("binary", "multiclass"):
        raise ParameterError(
            f"objective {judged.booster.objective.name!r} has no classes; plot_residuals draws its errors"
        )
    if not 0.0 <= threshold <= 1.0:
        raise ParameterError(f"threshold={threshold!r}: must be a probability, from 0 to 1")
    if task == "binary":
        truth, predicted = judged.label > 0.5, judged.predictions[0] >= threshold
        return confusion(truth.astype(np.int64), predicted.astype(np.int64), 2, judged.weight)
    predicted = np.argmax(judged.predictions, axis=0)
    return confusion(judged.label.astype(np.int64), predicted.astype(np.int64), len(judged.class_names), judged.weight)

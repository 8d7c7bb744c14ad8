"""Beeswarm and waterfall: contributions of features to predictions. shap draws them where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.model.booster import Booster
from hornbeam.params.params import whole_number
from hornbeam.views.plots.canvas import ACCENT, INK, MUTED, SECOND, dress, new_axes, pyplot, shortened, value_colors
from hornbeam.views.plots.contributions import contributions
from hornbeam.views.plots.models import booster_of
from hornbeam.views.plots.seen import SeeingModel, choose_rows, number_text

FloatArray = NDArray[np.float64]


def plot_beeswarm(
    model: Any,
    data: Any,
    *,
    output: int | str = 0,
    max_display: int = 15,
    n_rows: int = 1000,
    style: str = "auto",
    ax: Any = None,
    title: str | None = "Contributions to the raw score",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """Draw the contribution of every feature in every row: a point a row, coloured by the feature's value.

    Parameters
    ----------
    model
        Booster or fitted estimator.
    data
        Table or Dataset; at most `n_rows` of its rows are drawn.
    output
        Number of the class, of several, or its name, of a classifier.
    title
        Headline, which the class is added to where there are several; None: none.
    max_display
        Features to draw, those with the largest mean contributions.
    style
        "shap": drawn by shap; "own": by Hornbeam; "auto": by shap where it is installed and `ax` is not given.
    """
    booster = booster_of(model)
    chosen = _check(model, booster, output, max_display)
    title = _titled(title, model, booster, chosen)
    seeing = SeeingModel(booster)
    reader = seeing.open(data)
    table = reader.take(choose_rows(reader.n_rows, whole_number(n_rows, "n_rows", 1)))
    found, values = contributions(booster, table)[chosen], seeing.read(table)
    if _by_shap(style, ax):
        ax = _explain(seeing, found, values).beeswarm(max_display, figsize)
        return ax if title is None else dress_title(ax, title)
    order = np.argsort(-np.abs(found[:, :-1]).mean(axis=0), kind="stable")[:max_display][::-1]
    ax = new_axes(ax, figsize, dpi, (6.8, 1.4 + 0.36 * len(order)))
    colors = value_colors()
    for place, feature in enumerate(order):
        shares, known = value_shares(values[:, feature])
        x, offsets = found[:, feature], swarm(found[:, feature])
        ax.scatter(x[~known], place + 0.36 * offsets[~known], s=9, color="#c3c8cb", linewidths=0, rasterized=True)
        ax.scatter(
            x[known], place + 0.36 * offsets[known], s=9, c=shares[known], cmap=colors, vmin=0.0, vmax=1.0,
            linewidths=0, rasterized=True,
        )  # fmt: skip
    ax.axvline(0.0, color=MUTED, linewidth=1, zorder=0)
    ax.set_yticks(range(len(order)), [shortened(booster.feature_names[feature]) for feature in order])
    ends = (-0.7, len(order) - 0.3)
    dress(ax, title=title, xlabel="Contribution", ylabel=None, ylim=ends, grid="y")
    ax.spines["left"].set_visible(False)
    bar = ax.figure.colorbar(pyplot().cm.ScalarMappable(cmap=colors), ax=ax, pad=0.02, aspect=40)
    bar.set_ticks([0.0, 1.0], labels=["low", "high"])
    bar.set_label("Feature value", color=INK, labelpad=-6)
    bar.outline.set_visible(False)
    return ax


def plot_waterfall(
    model: Any,
    data: Any,
    row: int = 0,
    *,
    output: int | str = 0,
    max_display: int = 10,
    style: str = "auto",
    ax: Any = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    """Draw how the raw score of one row comes about: from the score without features, feature by feature.

    Parameters
    ----------
    row
        Number of the row in the data.
    max_display
        Bars to draw; the last one has all other features together.

    The other arguments are those of `plot_beeswarm`.
    """
    booster = booster_of(model)
    chosen = _check(model, booster, output, max_display)
    seeing = SeeingModel(booster)
    reader = seeing.open(data)
    if title is None and booster.n_outputs > 1:
        title = _titled("Raw score", model, booster, chosen)
    if whole_number(row, "row", 0) >= reader.n_rows:
        raise DataError(f"row={row}: data has rows 0 to {reader.n_rows - 1}")
    table = reader.take(np.array([row]))
    found, values = contributions(booster, table)[chosen], seeing.read(table)
    if _by_shap(style, ax):
        ax = _explain(seeing, found, values).waterfall(max_display, figsize)
        return ax if title is None else dress_title(ax, title)
    steps = waterfall_steps(seeing, found[0], values[0], max_display)
    ax = new_axes(ax, figsize, dpi, (6.8, 1.3 + 0.38 * len(steps)))
    at = float(found[0, -1])
    base = at
    for place, (_, _, amount) in enumerate(reversed(steps)):
        color = ACCENT if amount >= 0 else SECOND
        ax.barh(place, amount, left=at, color=color, height=0.62)
        end = at + amount
        ax.plot([end, end], [place - 0.31, place + 1.31], color=MUTED, linewidth=0.8)
        shift, side = (4, "left") if amount >= 0 else (-4, "right")
        ax.annotate(
            f"{amount:+.3g}", (end, place), (shift, 0), textcoords="offset points", va="center", ha=side,
            fontsize=9, color=color, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip
        at = end
    ax.set_yticks(range(len(steps)), [text for _, text, _ in reversed(steps)])
    ax.axvline(base, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    ends = base + np.cumsum([0.0, *(amount for _, _, amount in reversed(steps))])
    room = 0.18 * (float(np.ptp(ends)) or 1.0)
    ax.set_xlim(float(ends.min()) - room, float(ends.max()) + room)
    text = f"Row {row}: raw score {number_text(at)}, from {number_text(base)}" if title is None else title
    return dress(ax, title=text, xlabel="Raw score", ylabel=None, ylim=(-0.7, len(steps) - 0.3), grid="x")


def dress_title(ax: Any, title: str) -> Any:
    """Write a title over axes that shap has drawn."""
    ax.set_title(title, fontsize=11, color=INK, pad=10)
    return ax


def swarm(x: FloatArray, n_bins: int = 80) -> FloatArray:
    """Return how far points stand aside so that they do not hide each other, float64 (n,), from -1 to 1.

    x  float64 (n,)  in   points that are near each other are stacked on both sides in turn
    """
    low, span = float(x.min()), float(np.ptp(x)) or 1.0
    bins = np.minimum(((x - low) / span * n_bins).astype(np.int64), n_bins - 1)
    order = np.argsort(bins, kind="stable")
    counts = np.bincount(bins, minlength=n_bins)
    rank = np.empty(len(x), np.int64)
    rank[order] = np.arange(len(x)) - np.repeat(np.cumsum(counts) - counts, counts)
    side = np.where(rank % 2 == 0, 1.0, -1.0)
    return side * ((rank + 1) // 2) / max((int(counts.max()) + 1) // 2, 1)


def value_shares(values: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return where values lie among their like, float64 (n,) from 0 (5% quantile) to 1 (95%), and which are known."""
    known = ~np.isnan(values)
    shares = np.zeros(len(values))
    finite = values[np.isfinite(values)]
    if len(finite):
        low, high = np.quantile(finite, (0.05, 0.95))
        if low == high:
            low, high = finite.min(), finite.max()
        shares[known] = np.clip((values[known] - low) / ((high - low) or 1.0), 0.0, 1.0)
    return shares, known


def waterfall_steps(
    model: SeeingModel, found: FloatArray, values: FloatArray, max_display: int, widths: tuple[int, int] = (22, 14)
) -> list[tuple[str, str, float]]:
    """Return (name, text, contribution) of the bars of a waterfall, the largest first.

    found   float64 (n_features + 1,)  in
    values  float64 (n_features,)      in
    widths  characters of a name and of a value
    """
    order = np.argsort(-np.abs(found[:-1]), kind="stable")
    names = model.booster.feature_names
    few = len(order) <= max_display
    steps = [
        (
            names[f],
            f"{shortened(names[f], widths[0])} = {shortened(model.value_text(f, values[f]), widths[1])}",
            float(found[f]),
        )
        for f in order[: max_display if few else max_display - 1].tolist()
    ]
    if not few:
        rest = order[max_display - 1 :]
        steps.append(("", f"{len(rest)} other features", float(found[rest].sum())))
    return steps


def _check(model: Any, booster: Booster, output: int | str, max_display: int) -> int:
    names = [str(name) for name in getattr(model, "classes_", ())]
    if isinstance(output, str) and booster.n_outputs > 1 and output in names:
        output = names.index(output)
    if whole_number(output, "output", 0) >= booster.n_outputs:
        raise ParameterError(f"output={output}: the model has outputs 0 to {booster.n_outputs - 1}")
    whole_number(max_display, "max_display", 1)
    return int(output)


def _titled(title: str | None, model: Any, booster: Booster, output: int) -> str | None:
    """Return a title that says which of several outputs is drawn."""
    if title is None or booster.n_outputs == 1:
        return title
    names = getattr(model, "classes_", range(booster.n_outputs))
    return f"{title}, class {names[output]}"


def _by_shap(style: str, ax: Any) -> bool:
    if style not in ("auto", "shap", "own"):
        raise ParameterError(f"style={style!r}: must be 'auto', 'shap' or 'own'")
    if style == "shap" and ax is not None:
        raise ParameterError("ax= with style='shap': shap makes a figure of its own; leave ax out")
    if style == "auto":
        return ax is None and find_spec("shap") is not None
    return style == "shap"


class _Explained:
    """Contributions in the form of shap."""

    def __init__(self, explanation: Any, plots: Any) -> None:
        self._explanation, self._plots = explanation, plots

    def beeswarm(self, max_display: int, figsize: Any) -> Any:
        """Draw and return the axes."""
        size = figsize or "auto"
        return self._plots.beeswarm(self._explanation, max_display=max_display, show=False, plot_size=size)

    def waterfall(self, max_display: int, figsize: Any) -> Any:
        """Draw and return the axes."""
        pyplot().figure(figsize=figsize)
        return self._plots.waterfall(self._explanation[0], max_display=max_display, show=False)


def _explain(model: SeeingModel, found: FloatArray, values: FloatArray) -> _Explained:
    pyplot()
    try:
        import shap
    except ImportError as error:
        raise ParameterError(f"style='shap' needs shap: pip install shap, or pass style='own' ({error})") from error
    shown: NDArray[Any] = values.astype(object)
    for feature in filter(model.is_categorical, range(values.shape[1])):
        shown[:, feature] = [model.value_text(feature, value) for value in values[:, feature].tolist()]
    explanation = shap.Explanation(
        values=found[:, :-1],
        base_values=found[:, -1],
        data=values,
        display_data=shown,
        feature_names=list(model.booster.feature_names),
    )
    return _Explained(explanation, shap.plots)

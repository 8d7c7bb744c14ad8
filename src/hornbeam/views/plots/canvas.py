"""Matplotlib: asked for when a plot is drawn, and dressed alike in all of them."""

from __future__ import annotations

from typing import Any

from hornbeam.core.errors import HornbeamError, ParameterError

INK, MUTED, GRID = "#22282b", "#7a858b", "#e4e8ea"
ACCENT, SECOND = "#1f7a5c", "#c2702d"
SERIES = (ACCENT, SECOND, "#3f62a7", "#8a4f9e", "#b23a48", "#7a858b")
LOW, MIDDLE, HIGH = "#3f62a7", "#b9b3c2", "#d0752a"
"""Colours of low, middling and high values of a feature: apart for the colour-blind too."""


def pyplot() -> Any:
    """Return matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise HornbeamError(f"plots need matplotlib: pip install 'hornbeam[plot]' ({error})") from error
    return plt


def new_axes(ax: Any, figsize: Any, dpi: int | None, default: tuple[float, float] = (6.4, 4.2)) -> Any:
    """Return the axes to draw on: those given, or those of a new figure."""
    if ax is not None:
        return ax
    if figsize is not None:
        pair(figsize, "figsize")
    plt = pyplot()
    _, ax = plt.subplots(1, 1, figsize=figsize or default, dpi=dpi, layout="constrained")
    return ax


def dress(
    ax: Any,
    *,
    title: str | None,
    xlabel: str | None,
    ylabel: str | None,
    xlim: Any = None,
    ylim: Any = None,
    grid: bool | str = True,
) -> Any:
    """Write the texts, set the limits, and draw a quiet frame; grid "x" or "y": lines of one direction alone."""
    if xlim is not None:
        ax.set_xlim(pair(xlim, "xlim"))
    if ylim is not None:
        ax.set_ylim(pair(ylim, "ylim"))
    if title is not None:
        ax.set_title(title, fontsize=11, color=INK, pad=10)
    if xlabel is not None:
        ax.set_xlabel(xlabel, color=INK)
    if ylabel is not None:
        ax.set_ylabel(ylabel, color=INK)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(True, axis=grid if isinstance(grid, str) else "both", color=GRID, linewidth=0.8)
    else:
        ax.grid(False)
    return ax


def pair(value: Any, name: str) -> Any:
    """Return a pair of numbers; anything else raises."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise ParameterError(f"{name}={value!r}: must be a tuple of 2 numbers")
    return value


def legend(ax: Any, **choices: Any) -> None:
    """Draw a legend without a frame, where there is something to tell apart."""
    handles, _ = ax.get_legend_handles_labels()
    if handles:
        ax.legend(**{"frameon": False, "fontsize": 9, "labelcolor": INK, **choices})


def shortened(text: str, limit: int = 28) -> str:
    """Return a text of at most `limit` characters, one line, cut in the middle; dollars are no formulas."""
    text = " ".join(str(text).split())
    if len(text) > limit:
        text = f"{text[: limit // 2]}…{text[len(text) - (limit - limit // 2 - 1) :]}"
    return text.replace("$", r"\$")


def value_colors() -> Any:
    """Return the colour map of feature values, low to high."""
    pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("hornbeam", [LOW, MIDDLE, HIGH])

"""The figures of the page, by matplotlib, as SVG: colours that can be read on white and on dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reproduction.bandwidth import BINS
from reproduction.learners import LIBRARIES, METHODS
from reproduction.printed import EXACT, K15, K63, K255, SKETCHING
from reproduction.sets import SETS
from reproduction.tables import Steps, milliseconds, result
from reproduction.trainings import CURVES

COLOURS = {"hornbeam": "#1f9e78", "lightgbm": "#8a7fd1", "xgboost": "#d08a3c"}
TEXT = "#767f89"
STYLE = {
    "svg.hashsalt": "paper", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif",
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#9aa3ab", "grid.alpha": 0.3, "text.color": TEXT, "axes.labelcolor": TEXT, "axes.edgecolor": TEXT,
    "xtick.color": TEXT, "ytick.color": TEXT, "legend.frameon": False, "axes.titlesize": 10, "legend.fontsize": 8,
}  # fmt: skip

MARKS = {K255: "o", K63: "D", K15: "v", EXACT: "X", SKETCHING: "s"}


def draw(steps: Steps, out: Path) -> list[str]:
    """Write the figures that there are results for; returns their names. ImportError: matplotlib is not there."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawn = []
    with plt.rc_context(STYLE):
        for name, make in {"times": times, "bandwidth": bandwidth, "convergence": convergence, "bins": bins}.items():
            figure = make(plt, steps)
            if figure is None:
                continue
            figure.savefig(out / f"{name}.svg", transparent=True, metadata={"Date": None})
            plt.close(figure)
            drawn.append(name)
    return drawn


def bars_of(steps: Steps, one: str, methods: tuple[str, ...]) -> list[tuple[str, str, str, float]]:
    """Return (library, device, method, ms an iteration) of the trainings of a set."""
    found = []
    for device in ("gpu", "cpu"):
        for library in LIBRARIES:
            for method in methods:
                step = result(steps, one, library, device, method)
                if step is not None and step["iteration_ms"] > 0:
                    found.append((library, device, method, step["iteration_ms"]))
    return found


def dot_figure(plt: Any, steps: Steps, methods: tuple[str, ...]) -> Any:
    """Draw a panel for each set, a line of it for each training: on a log scale a place says more than a length."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panels = {one: bars for one in SETS if (bars := bars_of(steps, one, methods))}
    if not panels:
        return None
    n_columns = min(3, len(panels))
    n_lines = -(-len(panels) // n_columns)
    most = max(len(bars) for bars in panels.values())
    figure, axes = plt.subplots(
        n_lines, n_columns, figsize=(3.9 * n_columns, n_lines * (0.19 * most + 0.8)), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for place, axis in enumerate(axes.flat):
        if place >= len(panels):
            axis.axis("off")
            continue
        one, bars = list(panels.items())[place]
        names = []
        for y, (library, device, method, value) in enumerate(bars):
            axis.plot(value, y, MARKS[method], color=COLOURS[library], markersize=6)
            axis.annotate(milliseconds(value), (value, y), (6, 0), textcoords="offset points", va="center", fontsize=7)
            title = METHODS[method].title.replace("Histogram, ", "")
            names.append(f"{LIBRARIES[library]} {device.upper()}, {title}")
        axis.set_yticks(range(len(bars)), names, fontsize=7)
        axis.set_ylim(len(bars) - 0.4, -0.6)
        axis.set_xscale("log")
        axis.grid(axis="y", visible=False)
        low, high = min(bar[3] for bar in bars) / 1.6, max(bar[3] for bar in bars) * 3
        axis.set_xlim(low, high)
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if high < 100 * low else (1.0,)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(SETS[one].title)
        axis.set_xlabel("ms an iteration, log scale", fontsize=8)
    return figure


def times(plt: Any, steps: Steps) -> Any:
    """Draw all algorithms but 15 bins, as the paper's Figure 1."""
    return dot_figure(plt, steps, (K255, K63, EXACT, SKETCHING))


def bins(plt: Any, steps: Steps) -> Any:
    """Draw Histogram with 15, 63 and 255 bins, as the paper's Figure 4."""
    return dot_figure(plt, steps, (K255, K63, K15))


def bandwidth(plt: Any, steps: Steps) -> Any:
    """Draw GB/s against depth, a panel for each number of bins."""
    found = {key: steps[key] for key in steps if key.startswith("bandwidth/") and "failed" not in steps[key]}
    if not found:
        return None
    figure, axes = plt.subplots(1, len(BINS), figsize=(7.8, 3.1), squeeze=False, sharey=True, layout="constrained")
    for axis, (n_bins, title) in zip(axes.flat, BINS.items(), strict=True):
        for device in ("gpu", "cpu"):
            step = found.get(f"bandwidth/{device}/{n_bins}")
            if step is None:
                continue
            where = "CPU" if device == "cpu" else "GPU" if step["is_gpu"] else "PoCL on the CPU"
            depths = [point[0] for point in step["points"]]
            line = "-" if device == "gpu" else "--"
            axis.plot(depths, [point[2] for point in step["points"]], line, marker="o", markersize=3,
                      color=COLOURS["hornbeam"], label=f"ours, {where}")  # fmt: skip
            if device == "gpu":
                axis.plot(depths, [point[3] for point in step["points"]], marker="s", markersize=3,
                          color=COLOURS["lightgbm"], label=f"the paper's kernel, {where}")  # fmt: skip
        axis.set_yscale("log")
        axis.set_title(title)
        axis.set_xlabel("depth D of the node")
        axis.legend()
    axes[0, 0].set_ylabel("GB/s of feature data")
    return figure


def convergence(plt: Any, steps: Steps) -> Any:
    """Draw the metric against iterations: lines by number of bins, libraries by colour."""
    lines = []
    for one in CURVES:
        for library in LIBRARIES:
            for device in ("cpu", "gpu"):
                for method in METHODS:
                    step = result(steps, one, library, device, method)
                    if step is not None and len(step["curve"]) > 1:
                        lines.append((one, library, device, method, step["curve"]))
    if not lines:
        return None
    styles = {K255: "-", K63: "--", K15: ":", EXACT: "-.", SKETCHING: (0, (1, 3))}
    figure, axes = plt.subplots(1, len(CURVES), figsize=(7.8, 3.4), squeeze=False, layout="constrained")
    for axis, one in zip(axes.flat, CURVES, strict=True):
        for which, library, device, method, curve in lines:
            if which != one:
                continue
            if device == "gpu" and any(line[:4] == (one, library, "cpu", method) for line in lines):
                width, alpha = 3.2, 0.35  # a band behind the line of the CPU
            else:
                width, alpha = 1.3, 1.0
            label = f"{LIBRARIES[library]} {device.upper()}, {METHODS[method].title.replace('Histogram, ', '')}"
            axis.plot([p[0] for p in curve], [p[1] for p in curve], linestyle=styles[method], linewidth=width,
                      alpha=alpha, color=COLOURS[library], label=label)  # fmt: skip
        axis.set_title(f"{SETS[one].title}: {SETS[one].metrics[-1].upper()}")
        axis.set_xlabel("iterations")
    named = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=3, fontsize=7)
    return figure

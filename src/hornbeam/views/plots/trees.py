"""Drawings of one tree: with matplotlib, as SVG, or as a graph of Graphviz. Only the last needs Graphviz."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from hornbeam.core.errors import MissingPackageError, ParameterError
from hornbeam.params.peer_arguments import PLOT_TREE, takes_peer_arguments
from hornbeam.views.plots.canvas import ACCENT, INK, MUTED, SECOND, new_axes, shortened
from hornbeam.views.plots.models import booster_of
from hornbeam.views.plots.seen import SeeingModel
from hornbeam.views.plots.tree_layout import MAX_CATEGORIES, Labels, Node, info_of, lay_out

LONGEST_LINE = 44
"""Characters of a line in a drawn node; a tooltip of the SVG has the rest."""

CHARACTER, LINE, PAD, GAP = 6.8, 15, 8, 14
"""Sizes of an SVG in pixels: width of a character, height of a line, room inside of a box and between boxes."""


@takes_peer_arguments(PLOT_TREE)
def plot_tree(
    booster: Any,
    ax: Any = None,
    tree_index: int = 0,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    show_info: Sequence[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: Any = None,
    max_category_values: int = MAX_CATEGORIES,
    rankdir: str | None = None,
    **kwargs: Any,
) -> Any:
    """Draw a tree with matplotlib.

    Parameters
    ----------
    booster
        Booster or fitted estimator.
    tree_index
        Number of the tree; with several outputs tree i is that of output i % n_outputs.
    show_info
        Further facts in the nodes: "split_gain", "internal_value", "internal_count", "internal_weight", "leaf_count",
        "leaf_weight", "data_percentage", and "missing": the edge that missing values take.
    precision
        Digits after the point; None: all.
    orientation
        "horizontal": from left to right; "vertical": from top to bottom.
    example_case
        Table of one row, whose path is marked.
    max_category_values
        Levels that are written before "...".
    rankdir
        XGBoost's orientation: "LR" is horizontal, "TB" and "UT" are vertical; None: `orientation` says.
    **kwargs
        To `Axes.text`, which writes the nodes.

    Where a rule is true a row goes along the edge "yes".
    """
    orientation = _orientation_of(rankdir, orientation)
    _check_orientation(orientation)
    labels = Labels(info_of(show_info), precision, max_category_values)
    nodes = lay_out(SeeingModel(booster_of(booster)), tree_index, labels, example_case)
    across = orientation == "vertical"
    n_leaves, depth = sum(node.is_leaf for node in nodes), max(node.depth for node in nodes)
    n_lines = max(len(node.lines) for node in nodes)
    longest = min(max(len(line) for node in nodes for line in node.lines), LONGEST_LINE)
    box_width, box_height = 0.075 * longest + 0.35, 0.16 * n_lines + 0.2
    if across:
        default = (max(4.0, n_leaves * box_width * 0.85), max(2.5, (depth + 1) * (box_height + 0.55)))
    else:
        default = (max(4.0, (depth + 1) * (box_width + 0.75)), max(2.0, n_leaves * (box_height + 0.12)))
    ax = new_axes(ax, figsize, dpi, (min(default[0], 160.0), min(default[1], 160.0)))
    places = [(node.across, -node.depth) if across else (node.depth, -node.across) for node in nodes]
    for node, (x, y) in zip(nodes, places, strict=True):
        if node.parent >= 0:
            x0, y0 = places[node.parent]
            color, width = (SECOND, 2.0) if node.on_path else (MUTED, 0.9)
            ax.plot([x0, x], [y0, y], color=color, linewidth=width, zorder=1, solid_capstyle="round")
            ax.text(
                0.4 * x0 + 0.6 * x, 0.4 * y0 + 0.6 * y, "yes" if node.is_left else "no",
                fontsize=7, color=MUTED, ha="center", va="center", zorder=2,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
            )  # fmt: skip
    for node, (x, y) in zip(nodes, places, strict=True):
        edge = SECOND if node.on_path else ACCENT if node.is_leaf else MUTED
        box = {
            "boxstyle": "round,pad=0.45",
            "facecolor": "#eef5f2" if node.is_leaf else "white",
            "edgecolor": edge,
            "linewidth": 1.8 if node.on_path else 1.0,
        }
        text = "\n".join(shortened(line, LONGEST_LINE) for line in node.lines)
        style = {"ha": "center", "va": "center", "fontsize": 8, "color": INK, "zorder": 3, "bbox": box, **kwargs}
        ax.text(x, y, text, **style)
    ax.set_axis_off()
    xs, ys = zip(*places, strict=True)
    ax.set_xlim(min(xs) - 0.6, max(xs) + 0.6)
    ax.set_ylim(min(ys) - 0.6, max(ys) + 0.6)
    return ax


def create_tree_svg(
    booster: Any,
    tree_index: int = 0,
    show_info: Sequence[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: Any = None,
    max_category_values: int = MAX_CATEGORIES,
) -> str:
    """Return a drawing of a tree as the text of an SVG file; arguments as in `plot_tree`. It needs no other library."""
    _check_orientation(orientation)
    labels = Labels(info_of(show_info), precision, max_category_values)
    nodes = lay_out(SeeingModel(booster_of(booster)), tree_index, labels, example_case)
    vertical = orientation == "vertical"
    texts = [[shortened(line, LONGEST_LINE).replace(r"\$", "$") for line in node.lines] for node in nodes]
    wide = max(CHARACTER * len(line) for lines in texts for line in lines) + 2 * PAD
    high = LINE * max(len(lines) for lines in texts) + 2 * PAD
    step_x, step_y = (wide + GAP, high + 3 * GAP) if vertical else (wide + 4 * GAP, high + GAP)

    def corner(node: Node) -> tuple[float, float]:
        x, y = (node.across, node.depth) if vertical else (node.depth, node.across)
        return GAP + x * step_x, GAP + y * step_y

    parts: list[str] = []
    for node in nodes:
        if node.parent >= 0:
            (x0, y0), (x1, y1) = corner(nodes[node.parent]), corner(node)
            start = (x0 + wide / 2, y0 + high) if vertical else (x0 + wide, y0 + high / 2)
            end = (x1 + wide / 2, y1) if vertical else (x1, y1 + high / 2)
            color, width = (SECOND, 2.5) if node.on_path else (MUTED, 1)
            parts.append(
                f'<path d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}" stroke="{color}" '
                f'stroke-width="{width}" fill="none"/><text x="{(start[0] + 2 * end[0]) / 3:.1f}" '
                f'y="{(start[1] + 2 * end[1]) / 3 + 3:.1f}" font-size="10" fill="{MUTED}" stroke="#fff" '
                f'stroke-width="4" paint-order="stroke" text-anchor="middle">'
                f"{'yes' if node.is_left else 'no'}</text>"
            )
    for node, lines in zip(nodes, texts, strict=True):
        x, y = corner(node)
        edge = SECOND if node.on_path else ACCENT if node.is_leaf else MUTED
        body = "".join(
            f'<text x="{x + wide / 2:.1f}" y="{y + high / 2 + LINE * (i - len(lines) / 2 + 0.75):.1f}" '
            f'text-anchor="middle" fill="{INK}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        )
        parts.append(
            f'<g><title>{escape(node.whole)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" '
            f'height="{high:.1f}" rx="6" fill="{"#eef5f2" if node.is_leaf else "#fff"}" stroke="{edge}" '
            f'stroke-width="{2 if node.on_path else 1}"/>{body}</g>'
        )
    right = max(corner(node)[0] for node in nodes) + wide + GAP
    bottom = max(corner(node)[1] for node in nodes) + high + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{bottom:.0f}" '
        f'viewBox="0 0 {right:.0f} {bottom:.0f}" font-family="system-ui, sans-serif" font-size="12">'
        f"{''.join(parts)}</svg>\n"
    )


@takes_peer_arguments(PLOT_TREE)
def create_tree_digraph(
    booster: Any,
    tree_index: int = 0,
    show_info: Sequence[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: Any = None,
    max_category_values: int = MAX_CATEGORIES,
    rankdir: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return a tree as `graphviz.Digraph`; arguments as in `plot_tree`, others go to its constructor."""
    try:
        from graphviz import Digraph
    except ImportError as error:
        raise MissingPackageError(
            "create_tree_digraph needs the package graphviz (pip install graphviz); hornbeam.plot_tree and "
            "hornbeam.create_tree_svg draw trees without it"
        ) from error
    orientation = _orientation_of(rankdir, orientation)
    _check_orientation(orientation)
    labels = Labels(info_of(show_info), precision, max_category_values)
    nodes = lay_out(SeeingModel(booster_of(booster)), tree_index, labels, example_case)
    graph = Digraph(**kwargs)
    graph.attr("graph", nodesep="0.05", ranksep="0.3", rankdir="LR" if orientation == "horizontal" else "TB")
    for node in nodes:
        label = "\n".join(node.lines).replace("\\", "\\\\")
        graph.node(
            _graph_name(node),
            label=label,
            tooltip=node.whole.replace("\\", "\\\\"),
            shape="rectangle",
            style="rounded,filled" if node.is_leaf else "rounded",
            fillcolor="#eef5f2" if node.is_leaf else "white",
            color=SECOND if node.on_path else MUTED,
            penwidth="3" if node.on_path else "1",
        )
        if node.parent >= 0:
            graph.edge(
                _graph_name(nodes[node.parent]),
                _graph_name(node),
                "yes" if node.is_left else "no",
                color=SECOND if node.on_path else MUTED,
                penwidth="3" if node.on_path else "1",
            )
    return graph


def to_graphviz(booster: Any, **arguments: Any) -> Any:
    """Return a tree as `graphviz.Digraph`: `create_tree_digraph` by XGBoost's name, from top to bottom by default."""
    return create_tree_digraph(booster, **{"rankdir": "TB", **arguments})


def _orientation_of(rankdir: str | None, orientation: str) -> str:
    """Return the orientation that XGBoost's `rankdir` names, or the one that is given."""
    if rankdir is None:
        return orientation
    if rankdir not in ("LR", "TB", "UT"):
        raise ParameterError(f"rankdir={rankdir!r}: must be 'LR', 'TB' or 'UT'")
    return "horizontal" if rankdir == "LR" else "vertical"


def _graph_name(node: Node) -> str:
    return f"{'leaf' if node.is_leaf else 'split'}{node.number}"


def _check_orientation(orientation: str) -> None:
    if orientation not in ("horizontal", "vertical"):
        raise ParameterError(f"orientation={orientation!r}: must be 'horizontal' or 'vertical'")

"""Plots of models, with matplotlib; it is imported when something is drawn."""

from __future__ import annotations

from hornbeam.views.plots.dependence import plot_partial_dependence
from hornbeam.views.plots.explanations import plot_beeswarm, plot_waterfall
from hornbeam.views.plots.importances import plot_importance, plot_split_value_histogram
from hornbeam.views.plots.learning import plot_metric
from hornbeam.views.plots.quality import (
    plot_calibration,
    plot_confusion,
    plot_precision_recall,
    plot_residuals,
    plot_roc,
)
from hornbeam.views.plots.trees import create_tree_digraph, create_tree_svg, plot_tree, to_graphviz

__all__ = [
    "create_tree_digraph",
    "create_tree_svg",
    "plot_beeswarm",
    "plot_calibration",
    "plot_confusion",
    "plot_importance",
    "plot_metric",
    "plot_partial_dependence",
    "plot_precision_recall",
    "plot_residuals",
    "plot_roc",
    "plot_split_value_histogram",
    "plot_tree",
    "plot_waterfall",
    "to_graphviz",
]

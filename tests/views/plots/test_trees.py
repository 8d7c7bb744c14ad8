"""Drawings of trees: every node once, the path of a row, without Graphviz."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.views.plots.seen import SeeingModel
from hornbeam.views.plots.tree_layout import BOTH_INFO, LEAF_INFO, SPLIT_INFO, Labels, lay_out


def test_every_node_is_laid_out_once_and_leaves_stand_apart(binary):
    for index, tree in enumerate(binary[0].trees):
        nodes = lay_out(SeeingModel(binary[0]), index)
        assert sorted(node.number for node in nodes if node.is_leaf) == list(range(tree.n_leaves))
        assert sorted(node.number for node in nodes if not node.is_leaf) == list(range(tree.n_splits))
        places = [node.across for node in nodes if node.is_leaf]
        assert places == list(range(tree.n_leaves))
        assert max(node.depth for node in nodes) == tree.depth()


def test_the_marked_path_is_that_of_the_row(binary, tables):
    leaves = binary[0].predict(tables[1], pred_leaf=True, num_iteration=0)
    for row in range(20):
        nodes = lay_out(SeeingModel(binary[0]), 3, None, tables[1][row : row + 1])
        marked = [node for node in nodes if node.on_path]
        assert [node.number for node in marked if node.is_leaf] == [leaves[row, 3]]
        assert [node.depth for node in marked] == list(range(len(marked)))


def test_nodes_tell_what_is_asked_for(binary):
    info = (*SPLIT_INFO, *LEAF_INFO, *BOTH_INFO)
    nodes = lay_out(SeeingModel(binary[0]), 0, Labels(info, 2))
    tree = binary[0].trees[0]
    root, leaf = nodes[0], next(node for node in nodes if node.is_leaf)
    expected = {f"gain: {tree.gain[0]:.2f}", "100.00% of data", f"count: {tree.split_count[0]}"}
    assert expected <= set(root.lines)
    assert f"count: {tree.leaf_count[leaf.number]}" in leaf.lines and len(leaf.lines) == 4


def test_rules_name_levels_and_cut_long_lists():
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=2000)
    X = pd.DataFrame({"letter": pd.Categorical([f"L{code}" for code in codes])})
    booster = hb.train({"verbosity": -1, "num_leaves": 3}, hb.Dataset(X, label=codes % 2), 1)
    short, long = (lay_out(SeeingModel(booster), 0, Labels((), 3, most))[0].lines[0] for most in (2, 100))
    assert short.startswith("letter in {L") and "levels)" in short
    assert long.count("L") == len(booster.trees[0].left_codes[0])


def test_svg_is_sound_and_escapes_names(tables):
    X = tables[0][["age", "noise"]].rename(columns={"age": "<script>alert('x')</script> & co"})
    booster = hb.train({"verbosity": -1, "num_leaves": 5}, hb.Dataset(X, label=X["noise"] + X.iloc[:, 0].fillna(0)), 1)
    for orientation in ("horizontal", "vertical"):
        text = hb.create_tree_svg(booster, orientation=orientation, example_case=X[:1])
        root = ET.fromstring(text)
        assert len([child for child in root.iter() if child.tag.endswith("rect")]) == 2 * booster.trees[0].n_leaves - 1
        assert "<script>" not in text


def test_a_lone_leaf_is_drawn(tables):
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1}
    label = np.where(tables[0]["age"] > 40.0, 1, 2)  # class 0 has no rows, and its trees no splits
    booster = hb.train(params, hb.Dataset(tables[0][["age"]], label=label), 1)
    assert booster.trees[0].n_leaves == 1
    assert "leaf 0" in hb.create_tree_svg(booster)
    assert len(hb.plot_tree(booster).texts) == 1


def test_plot_tree_needs_no_graphviz(binary, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    ax = hb.plot_tree(binary[0], tree_index=1, orientation="vertical")
    assert sum(text.get_text() in ("yes", "no") for text in ax.texts) == 2 * binary[0].trees[1].n_splits
    with pytest.raises(hb.HornbeamError, match="create_tree_svg"):
        hb.create_tree_digraph(binary[0])


def test_digraph_has_every_node_and_edge(binary):
    pytest.importorskip("graphviz")
    tree = binary[0].trees[0]
    source = hb.create_tree_digraph(binary[0], name="tree").source
    assert source.count("->") == 2 * tree.n_splits
    assert all(f"leaf{leaf} [" in source for leaf in range(tree.n_leaves))


def test_linear_leaves_show_their_function(tables):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    data = hb.Dataset(X, label=X[:, 0] * np.sign(X[:, 1]), feature_names=["a", "b"])
    booster = hb.train({"linear_tree": True, "num_leaves": 4, "verbosity": -1}, data, 2)
    linear = booster.trees[1].linear
    leaves = [node for node in lay_out(SeeingModel(booster), 1) if node.is_leaf]
    for leaf in leaves:
        expected = linear.formula(leaf.number, ["a", "b"], lambda number: f"{number:.3f}")
        assert leaf.lines[1:] == ([] if expected is None else [expected])
    assert any(" * a" in line or " * b" in line for leaf in leaves for line in leaf.lines)


def test_trees_are_drawn_by_xgboosts_arguments(binary):
    booster = binary[0]
    across, down = hb.plot_tree(booster, num_trees=1, rankdir="LR"), hb.plot_tree(booster, tree_idx=1, rankdir="TB")
    same = hb.plot_tree(booster, tree_index=1, orientation="vertical")
    assert down.get_xlim() == same.get_xlim() != across.get_xlim()
    with pytest.raises(hb.ParameterError, match="rankdir='RL'"):
        hb.plot_tree(booster, rankdir="RL")


def test_graphs_have_xgboosts_name(binary):
    pytest.importorskip("graphviz")
    assert "rankdir=TB" in hb.to_graphviz(binary[0], tree_idx=1).source
    assert hb.to_graphviz(binary[0], rankdir="LR").source == hb.create_tree_digraph(binary[0]).source

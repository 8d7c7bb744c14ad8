"""Operations that an engine does in one go, compared with `reference`: gradients, rounds, whole trees, leaves, metrics.

Part of `checks.assert_same_operations`, which compares the single steps.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import EXPANSION, NODE
from hornbeam.data.binning import BinnedData
from hornbeam.data.fields import Fields
from hornbeam.metrics.classes import BinaryLogLoss
from hornbeam.objectives.binary import BinaryObjective
from hornbeam.testing.same_bits import assert_same_bits
from hornbeam.trees.engine import Engine
from hornbeam.trees.frontier import NO_LIMIT, GrowthLimits
from hornbeam.trees.grower import TreeGrower
from hornbeam.trees.records import Segments
from hornbeam.trees.replay import replay
from hornbeam.trees.splitting import SplitRules
from hornbeam.trees.tree import Tree

N_SLOTS = 40

Engines = tuple[Engine, Engine]


def assert_same_growth(engines: Engines, binned: BinnedData, rules: SplitRules) -> None:
    """Compare gradients of a loss, a round, trees on all features and on some, and a metric; scores are lost."""
    label = (np.arange(binned.n_rows) % 3 == 0).astype(np.float64)
    scores = np.linspace(-1.0, 1.0, binned.n_rows)[None]
    some = np.arange(0, binned.n_used, 2, dtype=np.int32)
    for one in engines:
        one.choose_rows(None)
        one.set_scores(scores)
    for features in (None, some, None):
        for one in engines:
            one.compute_gradients(BinaryObjective(), label, None)
            one.choose_features(features)
        if features is None:
            _assert_same_round(engines, rules, binned.n_numeric)
        _assert_same_tree(engines, binned, rules)
    _assert_same_outputs(engines, binned, rules)
    _assert_same_metric(engines, label)


def _assert_same_round(engines: Engines, rules: SplitRules, n_numeric: int) -> None:
    """Compare `expand` of the root; sets of levels by what they hold, for engines number them as they like."""
    found = []
    for one in engines:
        quantization = one.quantize(0, False)
        root = one.begin_tree(N_SLOTS)
        table = np.zeros(1, EXPANSION)
        nodes = _root_segments(root.n_rows, root.depth)
        one.build_histograms(nodes, np.zeros(1, np.int32))
        sums = np.array([root.gradient], np.int64), np.array([root.hessian], np.int64)
        splits = one.find_splits(nodes, np.zeros(1, np.int32), *sums, rules)
        if splits["gain"][0] == -np.inf:
            return
        for name, value in (("begin", 0), ("end", root.n_rows), ("depth", root.depth), ("slot", 0), ("spare_slot", 1)):
            table[name] = value
        table["gradient"], table["hessian"] = sums
        for name in ("left_gradient", "left_hessian", "feature", "bin", "missing_left"):
            table[name] = splits[name]
        n_left, children = one.expand(table, rules, NO_LIMIT)
        with_sets = children["feature"] >= n_numeric
        sets = one.left_sets(np.ascontiguousarray(children["bin"][with_sets])) if with_sets.any() else np.empty(0)
        children["bin"][with_sets] = 0
        found.append((quantization, n_left, children, sets))
    assert found[0][0] == found[1][0], f"quantize: {found[0][0]}, expected {found[1][0]}"
    assert_same_bits(found[0][1], found[1][1], "expand: rows that went left")
    assert_same_bits(found[0][2], found[1][2], "expand: splits of the children")
    assert_same_bits(found[0][3], found[1][3], "expand: sets of the children")


def _root_segments(n_rows: int, depth: int) -> Segments:
    return Segments(np.zeros(1, np.int64), np.array([n_rows], np.int64), np.array([depth], np.int32))


def _assert_same_tree(engines: Engines, binned: BinnedData, rules: SplitRules) -> None:
    """Compare trees that the grower grows, by whatever way an engine prefers; and scores and `replay`."""
    limits = GrowthLimits(13, NO_LIMIT, False)
    found: list[tuple[Tree, NDArray[np.float64]]] = []
    for one in engines:
        grower = TreeGrower(one, binned, rules, limits, N_SLOTS)
        grown = grower.grow(one.quantize(0, False), 0.3)
        one.add_leaf_values(0, grown.value_for_engine)
        found.append((grown.tree, np.array(one.scores())))
    for field in fields(Tree):
        values = [getattr(tree, field.name) for tree, _ in found]
        if isinstance(values[1], np.ndarray):
            assert_same_bits(values[0], values[1], f"tree.{field.name}")
    assert_same_bits(found[0][1], found[1][1], "scores after a tree")
    _assert_same_replay(engines[0], found[1][0])


def _assert_same_outputs(engines: Engines, binned: BinnedData, rules: SplitRules) -> None:
    """Compare trees of all outputs that an engine grows at once, if it does, with those of single operations."""
    limits = GrowthLimits(13, NO_LIMIT, False)
    growers = [TreeGrower(one, binned, rules, limits, N_SLOTS) for one in engines]
    for output, grown in enumerate(growers[0].grow_outputs(0.3)):
        if grown is None:
            continue
        expected = growers[1].grow(engines[1].quantize(output, False), 0.3)
        engines[1].add_leaf_values(output, expected.value_for_engine)
        for field in fields(Tree):
            values = [getattr(one.tree, field.name) for one in (grown, expected)]
            if isinstance(values[1], np.ndarray):
                assert_same_bits(values[0], values[1], f"grow_outputs: {field.name}")
        assert_same_bits(
            np.array(engines[0].scores())[output], np.array(engines[1].scores())[output], "grow_outputs: scores"
        )


def _assert_same_replay(engine: Engine, tree: Tree) -> None:
    """Compare `replay` of the nodes of a tree, cut back to fewer leaves, with the definition."""
    nodes = nodes_of(tree)
    for n_leaves in (2, 5, 100):
        for depthwise in (False, True):
            limits = GrowthLimits(n_leaves, NO_LIMIT, depthwise)
            for found, expected in zip(engine.replay(nodes, limits), replay(nodes, limits), strict=True):
                assert_same_bits(found, expected, f"replay to {n_leaves} leaves")


def nodes_of(tree: Tree) -> NDArray[np.void]:
    """Return the nodes of a tree as a table of gains, depths and children, dtypes.NODE (2 * n_splits + 1,)."""
    nodes = np.zeros(2 * tree.n_splits + 1, NODE)
    nodes["left"], nodes["parent"], nodes["split"]["gain"] = -1, -1, -np.inf
    place = {0: 0}  # of each split
    for split in range(tree.n_splits):
        node, first = place[split], 2 * split + 1
        nodes["left"][node], nodes["split"]["gain"][node] = first, tree.gain[split]
        nodes["parent"][first : first + 2] = node
        nodes["depth"][first : first + 2] = nodes["depth"][node] + 1
        children = {int(tree.left[split]): first, int(tree.right[split]): first + 1}
        place |= {child: at for child, at in children.items() if child >= 0}
    return nodes


def _assert_same_metric(engines: Engines, label: NDArray[np.float64]) -> None:
    """Compare a metric on the training scores, where an engine evaluates it."""
    data = Fields(len(label), 1)
    data.set_label(label)
    metric, objective = BinaryLogLoss(), BinaryObjective()
    found = engines[0].evaluate(metric, objective, data, -1)
    expected = metric.evaluate(data, np.asarray(engines[1].scores()), objective)
    assert found is None or found == expected, f"evaluate: {found}, expected {expected}"

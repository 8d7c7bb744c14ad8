"""Operations of trees that all outputs share, compared with `reference`."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.binning import BinnedData
from hornbeam.testing.checks import REFERENCE, engine_on
from hornbeam.testing.same_bits import assert_same_bits
from hornbeam.trees.bagging import Draw, Goss
from hornbeam.trees.engine import Engine
from hornbeam.trees.frontier import NO_LIMIT, GrowthLimits
from hornbeam.trees.output_grower import OutputGrower
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules
from hornbeam.trees.tree import Tree

N_LEAVES = 13
"""Leaves of a tree that is grown whole."""


def assert_same_output_operations(
    binned: BinnedData,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    engine: Engine,
    *,
    rules: SplitRules,
    high_precision: bool = False,
    n_levels: int = 3,
    draw: Draw | Goss | None = None,
    features: NDArray[np.int32] | None = None,
) -> None:
    """Grow a tree that all outputs share level by level on an engine and on `reference`, and compare with ==.

    gradient, hessian  float64 (n_outputs, n_rows)  in

    The smaller child is summed and the larger one had by subtraction.
    """
    reference = engine_on(REFERENCE, binned)
    both = engine, reference
    n_outputs, n_slots = len(gradient), 2 << n_levels
    for one in both:
        one.set_scores(np.zeros(gradient.shape))
        one.set_gradients(gradient.copy(), hessian.copy())
        one.choose_rows(draw)
        one.choose_features(features)
    root, expected_root = (one.begin_outputs(n_slots, high_precision, rules.min_data_in_leaf) for one in both)
    assert root.quantizations == expected_root.quantizations, "begin_outputs: quantizations"
    assert (root.n_rows, root.counter) == (expected_root.n_rows, expected_root.counter), "begin_outputs: rows"
    assert_same_bits(root.sums, expected_root.sums, "begin_outputs: sums")
    places = np.arange(root.n_histograms, dtype=np.int32) * n_slots
    nodes = Segments(np.zeros(1, np.int64), np.array([root.n_rows]), np.array([root.depth], np.int32))
    slots, sums = np.zeros(1, np.int32), root.sums[None]
    for one in both:
        one.build_outputs(nodes, slots[:, None] + places)
    ends: list[tuple[int, int, int]] = []
    for level in range(n_levels):
        found, expected = (one.find_output_splits(nodes, slots[:, None] + places, sums, rules) for one in both)
        assert_same_bits(found[0], expected[0], f"find_output_splits: level {level}")
        assert_same_bits(found[1], expected[1], f"find_output_splits: left sums of level {level}")
        chosen = np.flatnonzero(expected[0]["gain"] > -np.inf)
        others = np.setdiff1d(np.arange(len(slots)), chosen)
        ends += [(int(nodes.begin[i]), int(nodes.end[i]), int(nodes.depth[i])) for i in others]
        nodes, slots, sums = nodes.take(chosen), slots[chosen], sums[chosen]
        if len(chosen) == 0:
            break
        splits, left = expected[0][chosen], expected[1][chosen]
        n_left, expected_left = (one.partition(nodes, splits) for one in both)
        assert_same_bits(n_left, expected_left, f"partition: level {level}")
        middle, depth = nodes.begin + n_left, nodes.depth + np.int32(1)
        halves = [Segments(nodes.begin, middle, depth), Segments(middle, nodes.end, depth)]
        is_right = (n_left * 2 > nodes.end - nodes.begin)[:, None]
        small, large = _chosen(is_right[:, 0], halves), _chosen(~is_right[:, 0], halves)
        spare = np.setdiff1d(np.arange(n_slots, dtype=np.int32), slots)[: len(slots)]
        for one in both:
            one.build_outputs(small, spare[:, None] + places)
            one.subtract((slots[:, None] + places).reshape(-1), (spare[:, None] + places).reshape(-1))
        right = sums - left
        small_sums = np.where(is_right[:, :, None], right, left)
        sums = np.concatenate([small_sums, sums - small_sums])
        slots = np.concatenate([spare, slots])
        nodes = Segments(*(np.concatenate([getattr(small, n), getattr(large, n)]) for n in ("begin", "end", "depth")))
    ends += list(zip(nodes.begin.tolist(), nodes.end.tolist(), nodes.depth.tolist(), strict=True))
    begin, end, depth = (np.array(column) for column in zip(*ends, strict=True))
    leaves = Segments(begin.astype(np.int64), end.astype(np.int64), depth.astype(np.int32))
    for one in both:
        one.assign_leaves(leaves, np.arange(len(ends), dtype=np.int32))
    for output in range(n_outputs):
        for one in both:
            one.choose_output(output)
        pairs = zip(engine.leaf_sums(len(ends)), reference.leaf_sums(len(ends)), strict=True)
        for name, (values, wanted) in zip(("gradients", "hessians"), pairs, strict=True):
            assert_same_bits(values, wanted, f"leaf_sums: {name} of output {output}")
    _assert_same_trees(both, binned, rules, high_precision, draw is not None)


def _assert_same_trees(
    engines: tuple[Engine, Engine], binned: BinnedData, rules: SplitRules, high_precision: bool, some_rows: bool
) -> None:
    """Compare a tree of all outputs, which an engine may grow and finish by itself, with one that is grown in rounds.

    some_rows  there are rows that do not take part
    """
    limits, rate = GrowthLimits(N_LEAVES, NO_LIMIT, False), 0.3
    growers = [OutputGrower(one, binned, rules, limits, 2 * N_LEAVES) for one in engines]
    structures = [grower.grow(high_precision, rate) for grower in growers]
    for output in range(len(structures[0].root.quantizations)):
        pairs = zip(growers, structures, strict=True)
        grown = [grower.tree(structure, output, rate, None) for grower, structure in pairs]
        for engine, tree in zip(engines, grown, strict=True):
            if some_rows:
                engine.find_other_leaves(tree.binned)
            engine.add_leaf_values(output, tree.value_for_engine)
        found, expected = (one.tree for one in grown)
        for field in fields(Tree):
            wanted = getattr(expected, field.name)
            if isinstance(wanted, np.ndarray):
                assert_same_bits(getattr(found, field.name), wanted, f"grow_shared: {field.name} of output {output}")
    found_scores, wanted_scores = (engine.scores() for engine in engines)
    assert_same_bits(found_scores, wanted_scores, "add_leaf_values: scores")


def _chosen(is_right: NDArray[np.bool_], halves: list[Segments]) -> Segments:
    """Return the right half of each node where `is_right`, bool (n_nodes,), else the left one."""
    left, right = halves
    return Segments(np.where(is_right, right.begin, left.begin), np.where(is_right, right.end, left.end), left.depth)

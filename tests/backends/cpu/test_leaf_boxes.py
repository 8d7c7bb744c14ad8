"""Leaves that bound each other, compiled: the order that a tree keeps up from split to split is that of its boxes."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.backends.cpu.growth.operations import CALL
from hornbeam.backends.cpu.growth.rows.sides import Sides
from hornbeam.backends.cpu.growth.splits.contexts import Marks
from hornbeam.backends.cpu.growth.trees.contexts import AROUND
from hornbeam.backends.cpu.growth.trees.leaf_boxes import Boxes, bound_leaves, bound_sides
from hornbeam.core.dtypes import CONTEXT, NODE
from hornbeam.trees.contexts.leaf_boxes import LeafBoxes, as_bits
from hornbeam.trees.splitting import SideBounds

N_LEAVES = 24


class Tree:
    """A tree that is split at random, its leaves bounded by the kernel and by the definition.

    n_bins      values of each feature
    n_numeric   of them, the first
    use_missing as the parameter; where it is False, missing values go where zeros go, in bin 1 of each feature
    has_sides   both sides of a split have bounds of their own
    """

    def __init__(self, rng, n_bins, n_numeric, use_missing, has_sides=False):
        self.rng, self.n_bins, self.n_numeric, self.use_missing = rng, n_bins, n_numeric, use_missing
        n_features, most = len(n_bins), 2 * N_LEAVES - 1
        sign = rng.integers(-1, 2, n_features).astype(np.int8)
        sign[n_numeric:] = 0
        self.has_missing = (rng.random(n_numeric) < 0.5) & use_missing
        self.boxes = LeafBoxes(sign, np.array(n_bins, np.int32), use_missing)
        self.nodes, self.contexts = np.zeros((1, most), NODE), np.zeros((1, most), CONTEXT)
        self.nodes["left"], self.nodes["parent"] = -1, -1
        self.nodes["slot"][0] = np.where(rng.random(most) < 0.8, 0, -1)
        self.contexts["lower"], self.contexts["upper"] = -np.inf, np.inf
        self.around = np.zeros((1, most), AROUND)
        n_words = -(-max(n_bins) // 32)
        self.sets = np.zeros((most, n_words), np.uint32)
        self.calls, self.n_nodes = np.zeros(1, CALL), 1
        self.left_codes = {}  # of every node that is split
        self.made = Boxes(
            np.full((1, N_LEAVES, N_LEAVES), 77, np.int8), np.full((1, N_LEAVES), -7), np.full((1, most), -7),
            np.full((1, N_LEAVES), -7), np.zeros((1, 3, n_words), np.uint32), self.has_missing, use_missing,
            np.full(1, -7), has_sides,
        )  # fmt: skip
        self.sides = Sides(np.array(n_bins, np.int64), n_numeric, self.sets)
        offsets = SideBounds.offsets_of(np.array(n_bins, np.int32), n_numeric)
        self.marks = Marks(
            np.arange(n_features, dtype=np.int32), sign, np.ones(n_features), np.full((1, 1), 0xFFFFFFFF, np.uint32),
            sides=np.full((1, 4, int(offsets[-1])), 77.0), side_offsets=offsets,
        )  # fmt: skip
        self.bound(-1)

    def bound(self, number):
        """Run the kernel for a node that was split; returns the leaves that it says have moved."""
        self.calls["number"] = number
        room = np.zeros(8, np.int64)
        bound_leaves(0, room, self.calls, self.nodes, self.sides, self.marks, self.made, self.contexts, self.around)
        return self.made.moved[0, : self.calls["n_moved"][0]].tolist()

    def codes(self, leaf, feature):
        """Return the bins of a feature that can come to a leaf, with n_bins for the missing one."""
        found = set(range(self.n_bins[feature] + self.use_missing))
        while leaf > 0:
            above = int(self.nodes["parent"][0, leaf])
            if self.nodes["split"]["feature"][0, above] == feature:
                left = self.left_codes[above]
                found = found & left if leaf == self.nodes["left"][0, above] else found - left
            leaf = above
        return found

    def split(self, number, feature):
        """Split a leaf at random; returns the leaves that have moved as the kernel and as the definition say.

        None: nothing would be left on one side.
        """
        rng, nodes, first = self.rng, self.nodes[0], self.n_nodes
        n, left_set = self.n_bins[feature], None
        node, codes = nodes[number], self.codes(number, feature)
        bin_, missing_left, more_left = int(rng.integers(n)), bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        goes_left = missing_left
        if feature < self.n_numeric and not self.has_missing[feature]:
            goes_left = more_left if self.use_missing else bin_ >= 1
        left = set(range(bin_ + 1)) | ({n} if goes_left and self.use_missing else set())
        if feature >= self.n_numeric:
            left = set(rng.permutation(n)[: rng.integers(1, n + 1)].tolist())
        if not codes & left or not codes - left:
            return None
        self.left_codes[number] = left
        if feature >= self.n_numeric:
            bin_, self.sets[number] = number, 0
            for level in left:
                self.sets[number, level >> 5] |= np.uint32(1 << (level & 31))
            left_set = as_bits(self.sets[number])
        node["split"]["feature"], node["split"]["bin"], node["split"]["missing_left"] = feature, bin_, missing_left
        node["left"] = first
        nodes["parent"][first : first + 2] = number
        nodes["begin"][first : first + 2], nodes["end"][first : first + 2] = 0, (5, 3) if more_left else (3, 5)
        self.n_nodes += 2
        # the output of a child stays between its parent's bounds
        bounds = self.contexts["lower"][0, number], self.contexts["upper"][0, number]
        for child in (first, first + 1):
            self.contexts["output"][0, child] = np.clip(rng.integers(-5, 6), *bounds)
        before = {leaf: self.bounds_of(leaf) for leaf in self.boxes.leaves if leaf != number}
        touched = self.boxes.split(number, first, feature, bin_, goes_left, left_set)
        outputs = self.contexts["output"][0].tolist()
        moved = [leaf for leaf in touched if self.made.has_sides or self.boxes.bounds(leaf, outputs) != before[leaf]]
        return self.bound(number), [leaf for leaf in moved if nodes["slot"][leaf] >= 0]

    def side_bounds_of(self, leaf):
        """Return what the kernel says of both sides of all splits of a leaf, by feature."""
        self.calls["number"], self.calls["first"], self.calls["last"] = leaf, 0, len(self.n_bins)
        room, marks = np.zeros(8, np.int64), self.marks
        bound_sides(0, room, self.calls, self.nodes, self.sides, marks, self.made, self.contexts)
        return np.split(marks.sides[self.calls["side_bounds"][0]], marks.side_offsets[1 : self.n_numeric], axis=1)

    def bounds_of(self, leaf):
        """Return what the kernel has written."""
        context, around = self.contexts[0, leaf], self.around[0, leaf]
        if leaf > 0:
            assert (around["lower"], around["upper"]) == (context["lower"], context["upper"])
        return float(context["lower"]), float(context["upper"])


@pytest.mark.parametrize("use_missing", [True, False], ids=["missing", "zeros"])
@pytest.mark.parametrize("kinds", ["numbers", "categories"])
@pytest.mark.parametrize("seed", range(8))
def test_compiled_bounds_are_those_of_the_boxes(seed, kinds, use_missing):
    rng = np.random.default_rng(seed)
    n_bins = [6, 4, 9] if kinds == "numbers" else [7, 5, 4, 32, 40][: 4 + seed % 2]
    tree = Tree(rng, n_bins, 3, use_missing)
    n_ordered = 0
    for _ in range(300):
        if len(tree.boxes.leaves) == N_LEAVES:
            break
        leaf, feature = int(rng.choice(tree.boxes.leaves)), int(rng.integers(len(n_bins)))
        done = tree.split(leaf, feature)
        if done is None:
            continue
        moved, expected = done
        assert sorted(moved) == sorted(expected)
        outputs = tree.contexts["output"][0].tolist()
        for other in tree.boxes.leaves:
            assert tree.bounds_of(other) == tree.boxes.bounds(other, outputs)
            n_ordered += tree.bounds_of(other) != (-np.inf, np.inf)
    assert len(tree.boxes.leaves) > 5
    if tree.marks.sign.any():
        assert n_ordered > 0


@pytest.mark.parametrize("use_missing", [True, False], ids=["missing", "zeros"])
@pytest.mark.parametrize("kinds", ["numbers", "categories"])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_bounds_of_sides_are_those_of_the_boxes(seed, kinds, use_missing):
    rng = np.random.default_rng(seed)
    tree = Tree(rng, [6, 4, 9] if kinds == "numbers" else [7, 5, 4, 32], 3, use_missing, has_sides=True)
    tree.marks.sign[:2] = 1, -1
    tree.boxes = LeafBoxes(tree.marks.sign, np.array(tree.n_bins, np.int32), use_missing)
    n_parted = 0
    for _ in range(100):
        if len(tree.boxes.leaves) == N_LEAVES:
            break
        done = tree.split(int(rng.choice(tree.boxes.leaves)), int(rng.integers(len(tree.n_bins))))
        if done is None:
            continue
        assert sorted(done[0]) == sorted(done[1])
        outputs = tree.contexts["output"][0].tolist()
        for leaf in tree.boxes.leaves:
            expected = tree.boxes.side_bounds(leaf, outputs)
            for feature, found in enumerate(tree.side_bounds_of(leaf)):
                lower, upper = tree.bounds_of(leaf)
                whole = np.repeat([[lower], [upper], [lower], [upper]], tree.n_bins[feature], axis=1)
                splits = slice(tree.n_bins[feature] - (not use_missing))  # after the last bin there are missing values
                assert np.array_equal(found[:, splits], expected.get(feature, whole)[:, splits])
                n_parted += not np.array_equal(found[:, splits], whole[:, splits])
    assert n_parted > 0

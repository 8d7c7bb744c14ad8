"""Checks of what has a worker's rows of growing trees against its definition, distributed/tree_rows.TreeRows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_messages import read_message
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.search import sections
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.trees.bagging import Bag
from hornbeam.trees.records import BinnedTree, Segments
from hornbeam.trees.splitting import no_splits
from hornbeam.trees.tree import bits_to_codes, code_bits

N_WORKERS = 3
"""Workers whose sections the messages are of."""


def root_segment(n_rows: int) -> Segments:
    """Return a root of so many rows."""
    return Segments(np.array([0]), np.array([n_rows]), np.array([0], np.int32))


def some_gradients(n_rows: int, kind: str, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return random gradients, and hessians that are random too, or "ones"."""
    return rng.normal(size=n_rows), np.ones(n_rows) if kind == "ones" else rng.random(n_rows)


def some_bag(binned: BinnedData, rng: np.random.Generator) -> Bag:
    """Return a bag of rows as they are, and of rows that weigh more."""
    inside = rng.random(binned.n_rows) < 0.7
    bag = Bag.from_parts(np.where(inside, rng.integers(0, 2, binned.n_rows), 2).astype(np.uint8), 1.5)
    assert bag is not None
    return bag


def assert_same_rows(
    binned: BinnedData, defined: TreeRows, other: TreeRows, how: Quantization, rng: np.random.Generator
) -> None:
    """Grow a tree of random splits, three deep, on both: sums by bin, leaves, and sums of leaves must be the same.

    defined, other  whose sections are those of N_WORKERS, and who have rounded the same gradients
    """
    assert defined.root == other.root
    nodes = root_segment(defined.root.n_rows)
    for depth in range(3):
        sums = defined.histograms(defined.local(nodes), how.n_sums)
        assert np.array_equal(sums, sums_of_messages(binned, defined, nodes, how.n_sums))
        assert np.array_equal(sums, sums_of_messages(binned, other, nodes, how.n_sums))
        splits, sets = random_splits(binned, len(nodes.begin), rng)
        n_left = [left_rows(binned, *each, sets) for each in zip(sums, splits, strict=True)]
        for rows in (defined, other):
            rows.partition(nodes, splits, sets, np.array(n_left))
        middle = nodes.begin + n_left
        begin, end = np.stack([nodes.begin, middle], 1).ravel(), np.stack([middle, nodes.end], 1).ravel()
        kept = begin < end
        nodes = Segments(begin[kept], end[kept], np.full(kept.sum(), depth + 1, np.int32))
    leaves = np.arange(len(nodes.begin), dtype=np.int32)
    none = np.empty(0, np.int32)
    tree = BinnedTree(none, none, np.empty(0, np.bool_), none, none, np.zeros(1))
    for rows in (defined, other):
        rows.assign(nodes, leaves)
        rows.find_others(tree)
    assert np.array_equal(defined.leaf, other.leaf)
    one, two = (rows.leaf_integers((20, 30), len(leaves)) for rows in (defined, other))
    assert np.array_equal(one, two)


def random_splits(
    binned: BinnedData, n_nodes: int, rng: np.random.Generator
) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
    """Return splits of some nodes, and the sets of those that are categorical."""
    splits, sets = no_splits(n_nodes), np.zeros((n_nodes, binned.set_words), np.uint32)
    for node in range(n_nodes):
        feature = int(rng.integers(0, binned.n_used))
        n_values, is_number = int(binned.n_value_bins[feature]), feature < binned.n_numeric
        splits["feature"][node] = feature
        splits["bin"][node] = rng.integers(0, n_values) if is_number else node
        splits["missing_left"][node] = rng.random() < 0.5 and is_number
        levels = np.flatnonzero(rng.random(n_values) < 0.5)
        sets[node] = 0 if is_number else code_bits(levels, binned.set_words)
    return splits, sets


def sums_of_messages(binned: BinnedData, rows: TreeRows, nodes: Segments, n_sums: int) -> NDArray[np.int64]:
    """Return the histograms of nodes, from the messages to all workers."""
    messages = rows.messages(rows.local(nodes), n_sums, bytearray)
    widths = [int(binned.offsets[last] - binned.offsets[first]) for first, last in sections(binned, N_WORKERS)]
    words = [np.frombuffer(message, np.int64) for message in messages]
    read = [read_message(each, len(nodes.begin), n, n_sums) for each, n in zip(words, widths, strict=True)]
    return np.concatenate(read, axis=1)


def left_rows(binned: BinnedData, sums: NDArray[np.int64], split: Any, sets: NDArray[np.uint32] | None) -> int:
    """Count the rows of a node that go left, from its histogram: the last sum counts rows."""
    feature = split["feature"]
    rows = sums[binned.offsets[feature] : binned.offsets[feature + 1], -1]
    if feature >= binned.n_numeric:
        assert sets is not None
        return int(rows[bits_to_codes(sets[split["bin"]])].sum())
    return int(rows[: split["bin"] + 1].sum() + (rows[-1] if split["missing_left"] else 0))

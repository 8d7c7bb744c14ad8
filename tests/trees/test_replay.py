"""The compiled replay of growth: the same nodes, in the same order, as frontier.one_at_a_time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.backends.cpu.growth.replay import replay
from hornbeam.core.dtypes import NODE
from hornbeam.trees.frontier import NEVER, GrowthLimits, one_at_a_time


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """Return a table of nodes with many equal gains, some of them expanded."""
    gains = st.sampled_from([NEVER, 1.0, 1.5, 2.0, 3.0])
    nodes = [(draw(gains), 0, -1)]  # gain, depth, parent
    left = [-1]
    for _ in range(draw(st.integers(0, 40))):
        open_ = [node for node, child in enumerate(left) if child < 0 and nodes[node][0] > NEVER]
        if not open_:
            break
        parent = draw(st.sampled_from(open_))
        left[parent] = len(nodes)
        nodes += [(draw(gains), nodes[parent][1] + 1, parent) for _ in range(2)]
        left += [-1, -1]
    table = np.zeros(len(nodes), NODE)
    table["split"]["gain"], table["depth"], table["parent"] = zip(*nodes, strict=True)
    table["left"] = left
    return table


@settings(deadline=None)
@given(tables(), st.integers(2, 30), st.booleans())
def test_replay_equals_one_at_a_time(table: np.ndarray, n_leaves: int, depthwise: bool) -> None:
    limits = GrowthLimits(n_leaves, 1 << 30, depthwise)
    order, leaf_of = replay(table, limits)
    gain, left, depth = (column.tolist() for column in (table["split"]["gain"], table["left"], table["depth"]))
    assert order.tolist() == one_at_a_time(gain, left, depth, limits)
    split = {node for node in order.tolist() if left[node] >= 0}
    expected = [0] * len(table)
    for number, node in enumerate(order.tolist()):
        if node in split:
            expected[left[node]], expected[left[node] + 1] = expected[node], number + 1
    for node, parent in enumerate(table["parent"].tolist()):
        if parent >= 0 and parent not in split:
            expected[node] = expected[parent]
    assert leaf_of.tolist() == expected


def test_a_node_made_first_is_split_first_among_equals() -> None:
    table = np.zeros(3, NODE)
    table["split"]["gain"] = 2.0, 1.0, 1.0
    table["left"], table["parent"] = (1, -1, -1), (-1, 0, 0)
    order, _ = replay(table, GrowthLimits(3, 1 << 30, False))
    assert order.tolist() == [0, 1]


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_lone_root_is_leaf_0(depthwise: bool) -> None:
    table = np.zeros(1, NODE)
    table["split"]["gain"], table["left"], table["parent"] = NEVER, -1, -1
    order, leaf_of = replay(table, GrowthLimits(31, 1 << 30, depthwise))
    assert order.tolist() == []
    assert leaf_of.tolist() == [0]

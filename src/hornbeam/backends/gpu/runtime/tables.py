"""Node tables: what the host tells a kernel about the nodes of a round, one array, one copy.

Work is cut into tiles or chunks of rows, node after node; `first` of a node is the number of its first piece, and one
more entry closes the list. A group finds its node by bisection.

    rows of node 0   [ tile 0 )[ tile 1 )[ 2)
    rows of node 1   [ tile 3 )[ 4)                     first = 0, 3, 5
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.records import Segments

LARGEST_CHUNK = 32_768
SMALLEST_CHUNK = 512
CHUNKS_A_GROUP = 16


def node_table(nodes: Segments, piece: int, *columns: NDArray[Any]) -> NDArray[np.uint32]:
    """Return uint32 (4 + len(columns), n_nodes + 1): first piece, begin, end, depth, then the columns (n_nodes,)."""
    n_nodes = len(nodes.begin)
    table = np.zeros((4 + len(columns), n_nodes + 1), np.uint32)
    np.cumsum((nodes.end - nodes.begin + (piece - 1)) // piece, out=table[0, 1:])
    rows: tuple[NDArray[Any], ...] = (nodes.begin, nodes.end, nodes.depth, *columns)
    for row, column in enumerate(rows, 1):
        table[row, :n_nodes] = column
    return table


def chunk_rows(n_rows: int, groups: int) -> int:
    """Return the rows of a chunk, so that each group gets about CHUNKS_A_GROUP and none has much more than others.

    A group sums its chunks of one node in one go, so small chunks cost nothing.
    """
    even = -(-n_rows // (CHUNKS_A_GROUP * groups * SMALLEST_CHUNK)) * SMALLEST_CHUNK
    return min(max(even, SMALLEST_CHUNK), LARGEST_CHUNK)


def groups_a_pass(resident: int, n_passes: int) -> int:
    """Return how many groups share the rows of one pass, so that all passes fill the device evenly.

    resident  groups that run at once on the device
    n_passes  passes over the rows: tiles, or parts of tiles
    """
    if n_passes <= resident:
        return resident // n_passes
    return 1

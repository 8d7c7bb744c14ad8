"""Dividing this worker's rows of many nodes by a team of threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.dense.partition import ask, move
from hornbeam.backends.cpu.growth.rows.pieces import cut
from hornbeam.backends.cpu.growth.rows.sides import left_bins
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, meet, run_parts
from hornbeam.trees.records import Segments


@inner_kernel
def ask_piece(piece, rows, pieces, splits, sides, table):
    """Ask the rows of a piece; returns how many go left."""
    node = pieces.node[piece]
    goes_left = table[: left_bins(splits[node], sides, table)]
    feature, begin, end = np.int64(splits[node].feature), pieces.begin[piece], pieces.end[piece]
    return ask(rows, feature, pieces.depth[piece], goes_left, begin, end)


@kernel
def divide_kernel(t, crew, rows, pieces, splits, sides, tables, n_left):
    """Divide nodes; each thread of a team (host/team.py) asks and moves the rows of some pieces.

    rows    see DenseRows
    pieces  see Pieces
    splits  SPLIT (n_nodes,)               in
    sides   see Sides
    tables  uint8 (n_threads, most bins)   scratch
    n_left  int64 (n_pieces,)              out   rows of each piece that went left
    """
    call_helpers(t, crew, (rows, pieces, splits, sides, tables, n_left))
    n_parts = len(tables)
    for part in range(t, n_parts, crew.size):  # pieces of one node are placed by how many go left in each
        for piece in range(pieces.bounds[part], pieces.bounds[part + 1]):
            if pieces.first[pieces.node[piece] + 1] - pieces.first[pieces.node[piece]] > 1:
                n_left[piece] = ask_piece(piece, rows, pieces, splits, sides, tables[t])
    if n_parts > 1 and not meet(crew):
        return
    for part in range(t, n_parts, crew.size):
        for piece in range(pieces.bounds[part], pieces.bounds[part + 1]):
            node, begin, end = pieces.node[piece], pieces.begin[piece], pieces.end[piece]
            first, last = pieces.first[node], pieces.first[node + 1]
            if last - first == 1:
                n_left[piece] = ask_piece(piece, rows, pieces, splits, sides, tables[t])
            before = np.int64(0)
            for other in range(first, piece):
                before += n_left[other]
            place, end_of_node = pieces.begin[first], pieces.end[last - 1]
            move(rows, pieces.depth[piece], begin, end, place + before, end_of_node - 1 - (begin - place - before))


def divide(
    growth: DenseGrowth, n_leaves: int, nodes: Segments, splits: NDArray[np.void], sets: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Move the rows of nodes to the places of their children; returns how many went left, int64 (n_nodes,).

    n_leaves  of the tree, at most
    sets      uint32 (n_sets, n_words)  in   of categorical splits, by the number in the place of their bin
    """
    growth.turn_columns()
    sides = growth.sides._replace(sets=sets)
    pieces = cut(nodes, growth.n_team, growth.tuning.divided_rows_per_thread, growth.tuning)
    n_threads, most_bins = len(pieces.bounds) - 1, int(sides.n_value_bins.max(initial=0)) + 1
    n_left, tables = np.zeros(len(pieces.node), np.int64), np.empty((n_threads, most_bins), np.uint8)
    run_parts(divide_kernel, n_threads, growth.rows_in(n_leaves), pieces, splits, sides, tables, n_left)
    return np.add.reduceat(n_left, pieces.first[:-1])

"""Cutting the rows of many nodes into pieces, and dealing the pieces to threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.trees.records import Segments

SMALLEST_PIECE = 16_384
"""Rows; a node is only cut where a piece outweighs what its extra histogram or counting pass costs."""

PIECES_PER_THREAD = 4
"""More pieces balance better, fewer save histograms to add up."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Runs of rows, each of one node; the pieces of a node are neighbours.

    node        int64 (n_pieces,)       position of the node in the batch
    begin, end  int64 (n_pieces,)
    depth       int64 (n_pieces,)
    first       int64 (n_nodes + 1,)    first piece of each node
    bounds      list of n_threads + 1   thread t takes the pieces bounds[t]:bounds[t + 1]
    """

    node: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int64]
    first: NDArray[np.int64]
    bounds: list[int]


def cut(nodes: Segments, n_threads: int, rows_per_thread: int) -> Pieces:
    """Cut nodes into pieces of about equal size and deal them to at most n_threads threads.

    A thread gets at least rows_per_thread rows, so that little work stays on one thread.
    """
    n_rows = nodes.end - nodes.begin
    total = int(n_rows.sum())
    n_threads = max(1, min(n_threads, total // max(rows_per_thread, 1)))
    if n_threads == 1:
        every = np.arange(len(n_rows) + 1)
        return Pieces(every[:-1], nodes.begin, nodes.end, nodes.depth.astype(np.int64), every, [0, len(n_rows)])
    largest = max(SMALLEST_PIECE, total // (PIECES_PER_THREAD * n_threads) + 1)
    n_pieces = np.maximum(1, -(-n_rows // largest))
    first = np.concatenate([[0], np.cumsum(n_pieces)])
    node = np.repeat(np.arange(len(n_rows)), n_pieces)
    place = np.arange(first[-1]) - first[node]
    begin = nodes.begin[node] + n_rows[node] * place // n_pieces[node]
    end = nodes.begin[node] + n_rows[node] * (place + 1) // n_pieces[node]
    done = np.cumsum(end - begin)
    shares = total * np.arange(1, n_threads) / n_threads
    bounds = [0, *np.searchsorted(done, shares, side="left").tolist(), int(first[-1])]
    return Pieces(node, begin, end, nodes.depth[node].astype(np.int64), first, bounds)

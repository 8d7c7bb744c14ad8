"""Cutting the rows of many nodes into pieces, and dealing the pieces to threads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.trees.records import Segments


class Pieces(NamedTuple):
    """Runs of rows, each of one node; the pieces of a node are neighbours.

    node        int64 (n_pieces,)       position of the node in the batch
    begin, end  int64 (n_pieces,)
    depth       int64 (n_pieces,)
    first       int64 (n_nodes + 1,)    first piece of each node
    bounds      int64 (n_threads + 1,)  thread t takes the pieces bounds[t]:bounds[t + 1]
    """

    node: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int64]
    first: NDArray[np.int64]
    bounds: NDArray[np.int64]


def whole_nodes(nodes: Segments) -> Pieces:
    """Leave every node in one piece, for one thread."""
    every = np.arange(len(nodes.begin) + 1)
    return Pieces(every[:-1], nodes.begin, nodes.end, nodes.depth.astype(np.int64), every, every[[0, -1]])


def cut(nodes: Segments, n_threads: int, rows_per_thread: int, tuning: Tuning) -> Pieces:
    """Cut nodes into pieces of about equal size and deal them to at most n_threads threads.

    A thread gets at least rows_per_thread rows, so that little work stays on one thread.
    """
    n_rows = nodes.end - nodes.begin
    total = int(n_rows.sum())
    n_threads = max(1, min(n_threads, total // max(rows_per_thread, 1)))
    if n_threads == 1:
        return whole_nodes(nodes)
    largest = max(tuning.smallest_piece, total // (tuning.pieces_per_thread * n_threads) + 1)
    n_pieces = np.maximum(1, -(-n_rows // largest))
    first = np.concatenate([[0], np.cumsum(n_pieces)])
    node = np.repeat(np.arange(len(n_rows)), n_pieces)
    place = np.arange(first[-1]) - first[node]
    begin = nodes.begin[node] + n_rows[node] * place // n_pieces[node]
    end = nodes.begin[node] + n_rows[node] * (place + 1) // n_pieces[node]
    done = np.cumsum(end - begin)
    shares = total * np.arange(1, n_threads) / n_threads
    bounds = np.concatenate([[0], np.searchsorted(done, shares, side="left"), first[-1:]])
    return Pieces(node, begin, end, nodes.depth[node].astype(np.int64), first, bounds)

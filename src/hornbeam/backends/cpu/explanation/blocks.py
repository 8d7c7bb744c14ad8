"""Blocks of rows, shared out among threads as they go."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.trees.forest import Reader

Work = Callable[[NDArray[np.float64], int, int], None]
"""work(block, start, stop): rows start to stop, counted from the first of those asked for; block is float64
(stop - start, n_features)."""


def run_blocks(begin: Callable[[], Work], reader: Reader, rows: range, n_block: int, n_threads: int) -> None:
    """Do some rows of a table in blocks of at most n_block.

    begin  called once by each thread, returns what it calls for its blocks
    """
    n_block = max(1, min(n_block, -(-len(rows) // n_threads)))  # little work is shared out too
    starts = iter(range(0, len(rows), n_block))
    turn = Lock()

    def task(_thread: int) -> None:
        work = begin()
        while True:
            with turn:
                start = next(starts, -1)
            if start < 0:
                return
            stop = min(start + n_block, len(rows))
            work(reader.read(rows.start + start, rows.start + stop), start, stop)

    run_threads(task, max(1, min(n_threads, -(-len(rows) // n_block))))

"""Which rows of a data set are whose.

A data set comes in parts, numbered in the order of their rows; a worker has some of them, in ascending order. Rows are
numbered through all parts, and everything that depends on the number of a row (bags, samples, folds) uses that number:

    part      0          1     2             3
    worker    0          1     0             1
    rows      0 . . . 3  4 5   6 . . . . 11  12 . 14
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError
from hornbeam.distributed.collective import Collective


@dataclass(frozen=True, eq=False)
class RowMap:
    """The rows of every worker.

    ranges  of each worker: (first row, last row + 1) of each of its parts
    rank    this worker
    """

    ranges: list[list[tuple[int, int]]]
    rank: int

    @classmethod
    def gather(cls, collective: Collective, parts: Sequence[tuple[int, int]], what: str) -> RowMap:
        """Make the map of all workers: rows are numbered in the order of the parts.

        parts  (number of the part, rows) of each part of this worker
        what   name of the data set, for errors
        """
        mine = np.array(parts, np.int64).reshape(-1, 2)
        received = collective.all_gather(mine.tobytes(), f"rows of {what}")
        of_worker = [np.frombuffer(message, np.int64).reshape(-1, 2) for message in received]
        whole = np.concatenate(of_worker)
        order = np.argsort(whole[:, 0], kind="stable")
        if len(np.unique(whole[:, 0])) < len(whole):
            raise DataError(f"{what}: two parts have one number; number the parts in the order of their rows")
        ends = np.cumsum(whole[order, 1])
        last_of = dict(zip(whole[order, 0].tolist(), ends.tolist(), strict=True))
        ranges = [
            [(last_of[number] - n_rows, last_of[number]) for number, n_rows in sorted(map(tuple, rows.tolist()))]
            for rows in of_worker
        ]
        return cls(ranges, collective.rank)

    @property
    def n_rows(self) -> int:
        """Rows of all workers."""
        return max((last for ranges in self.ranges for _, last in ranges), default=0)

    @property
    def own(self) -> NDArray[np.int64]:
        """Numbers of this worker's rows, ascending, int64 (n_own,)."""
        return self.of(self.rank)

    def of(self, rank: int) -> NDArray[np.int64]:
        """Return the numbers of a worker's rows, ascending, int64 (n,)."""
        return np.concatenate([np.empty(0, np.int64), *(np.arange(*pair) for pair in self.ranges[rank])])

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return this worker's entries of an array whose last axis is the rows of all: (..., n_own)."""
        ranges = self.ranges[self.rank]
        if len(ranges) == 1:
            return values[..., slice(*ranges[0])]
        return np.concatenate([values[..., :0], *(values[..., slice(*pair)] for pair in ranges)], axis=-1)

    def gather_values(self, collective: Collective, values: NDArray[np.float64], what: str) -> NDArray[np.float64]:
        """Return the values of all rows, float64 (n, n_rows), from those of each worker, float64 (n, n_own)."""
        received = collective.all_gather(np.ascontiguousarray(values).tobytes(), what)
        whole = np.empty((len(values), self.n_rows))
        for rank, message in enumerate(received):
            part, done = np.frombuffer(message, np.float64).reshape(len(values), -1), 0
            for first, last in self.ranges[rank]:
                whole[:, first:last] = part[:, done : done + last - first]
                done += last - first
        return whole

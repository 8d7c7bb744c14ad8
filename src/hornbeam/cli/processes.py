"""Commands under mpiexec: each process has some rows of the data, and all of them train one model."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from hornbeam.data.sources.arrow import is_arrow_table
from hornbeam.data.sources.frame import as_frame
from hornbeam.model.booster import Booster

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Variables by which MPICH, Intel MPI and Open MPI tell a process how many there are."""


def n_processes() -> int:
    """Return the number of processes that mpiexec has started; 1: it has not."""
    found = [os.environ.get(name, "") for name in SIZES]
    return max((int(text) for text in found if text.isdecimal()), default=1)


def is_first() -> bool:
    """Say whether this process writes the model and speaks for all."""
    if n_processes() == 1:
        return True
    import hornbeam.mpi as hbm

    return hbm.rank() == 0


def trainer() -> Callable[..., Booster]:
    """Return `train` of one process, or of all."""
    import hornbeam as hb

    if n_processes() == 1:
        return hb.train
    import hornbeam.mpi as hbm

    return hbm.train


def own_rows(table: Any, fields: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return this process's part of a table, and of its labels, weights and ids of queries; no query is cut."""
    import hornbeam.mpi as hbm

    label = fields.get("label")
    if label is None:
        return table, fields
    n_rows, ids = len(label), fields.get("qid")
    first, last = (_cut(n_rows * rank // hbm.size(), ids) for rank in (hbm.rank(), hbm.rank() + 1))
    return _rows(table, first, last), {
        name: None if values is None else values[first:last] for name, values in fields.items()
    }


def _cut(row: int, ids: Any) -> int:
    """Return a row from which on another process has the rows: this one, or the first of the next query."""
    if ids is None or row == 0 or row == len(ids):
        return row
    others = np.flatnonzero(np.asarray(ids)[row:] != ids[row - 1])
    return row + int(others[0]) if len(others) else len(ids)


def _rows(table: Any, first: int, last: int) -> Any:
    """Return the rows first:last of a table."""
    if is_arrow_table(table):
        return table.slice(first, last - first)
    frame = as_frame(table)
    return table[first:last] if frame is None else frame[first:last].to_native()

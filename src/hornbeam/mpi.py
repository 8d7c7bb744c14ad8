"""Hornbeam on the processes of mpiexec: the model of one machine, bit for bit.

    # mpiexec -n 4 python script.py
    import hornbeam.mpi as hbm

    rank, size = hbm.rank(), hbm.size()
    first, last = len(X) * rank // size, len(X) * (rank + 1) // size
    train_set = hbm.Dataset(X[first:last], label=y[first:last])
    booster = hbm.train({"objective": "binary"}, train_set, 100)
    if rank == 0:
        booster.save("model.json")

Every process gives its part of the rows, and gets the model. With one process, also without mpiexec, the same script
trains as `hornbeam.train` does. Rows are in the order of the ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from hornbeam.distributed.collective import Collective
from hornbeam.distributed.dataset import Part, PartDataset
from hornbeam.distributed.host_memory import join_hosts
from hornbeam.distributed.mpi import MpiCollective
from hornbeam.distributed.training import train as train_on_worker
from hornbeam.model.booster import Booster

__all__ = ["Dataset", "rank", "size", "train"]


@cache
def _world() -> Collective:
    """Return this process's end of the group of all processes."""
    return join_hosts(MpiCollective())


@contextmanager
def _telling_others() -> Iterator[Collective]:
    """Let the other processes know when this one fails."""
    world = _world()
    try:
        yield world
    except BaseException as error:
        world.abort(f"{type(error).__name__}: {error}")
        _world.cache_clear()  # a new group for what comes after
        raise


def rank() -> int:
    """Return the number of this process, from 0 on."""
    return _world().rank


def size() -> int:
    """Return the number of processes."""
    return _world().size


def Dataset(data: Any, label: Any = None, *, reference: PartDataset | None = None, **options: Any) -> PartDataset:  # noqa: N802
    """Make a data set of the rows that each process gives; all processes call it at the same time.

    Parameters
    ----------
    data, label
        The part of this process, as for `hornbeam.Dataset`; it may have no rows.
    reference
        Training set whose bins a validation set takes.
    options
        Other arguments of `hornbeam.Dataset`.
    """
    with _telling_others() as world:
        part = Part.make(world.rank, data, label=label, **options)
        name = "train_set" if reference is None else "validation set"
        return PartDataset(world, [] if part is None else [part], reference, name)


def train(
    params: Mapping[str, Any] | None,
    train_set: PartDataset,
    num_boost_round: int | None = None,
    valid_sets: Mapping[str, PartDataset] | Sequence[PartDataset] | None = None,
    **options: Any,
) -> Booster:
    """Train a model with all processes; arguments are those of `hornbeam.train`, and so is the result on each of them.

    When a process fails, the others raise CollectiveError with its reason.
    """
    with _telling_others():
        return train_on_worker(params, train_set, num_boost_round, valid_sets, **options)

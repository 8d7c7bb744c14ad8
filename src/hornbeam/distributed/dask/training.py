"""`train` on a Dask cluster: what the client does, and what each worker does."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import hornbeam
from hornbeam.core.errors import CollectiveError, DataError, HornbeamError, ParameterError
from hornbeam.core.log import warn
from hornbeam.distributed.collective import DEFAULT_TIMEOUT, Collective
from hornbeam.distributed.dask.dataset import LOOK_SECONDS, DaskDataset
from hornbeam.distributed.dask.mailbox import (
    STATES,
    DaskCollective,
    close_mailbox,
    forget_state,
    kept_state,
    open_mailbox,
    task_key,
)
from hornbeam.distributed.dask.packages import require_dask
from hornbeam.distributed.dataset import Part, PartDataset
from hornbeam.distributed.host_memory import join_hosts
from hornbeam.distributed.threads import first_cause
from hornbeam.distributed.training import train as train_on_worker
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params, whole_number
from hornbeam.training.checkpoints import KeptState, iterations_in

TURN = "hornbeam-train"
"""Name of the semaphore that a training holds: two at once would wait for each other on workers of one thread."""

STOP_SECONDS = 60.0
"""After the first error the client waits no longer than this for the other workers to stop."""


class LostWorkerError(CollectiveError):
    """A worker of the cluster went away during a training."""


def train(
    client: Any,
    params: Mapping[str, Any] | Params | None,
    train_set: DaskDataset,
    num_boost_round: int | None = None,
    valid_sets: Mapping[str, DaskDataset] | Sequence[DaskDataset] | None = None,
    valid_names: Sequence[str] | None = None,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    retries: int = 0,
    **options: Any,
) -> Booster:
    """Train a model on the workers that hold the data: the model of one machine, bit for bit.

    Parameters
    ----------
    client
        `distributed.Client` of the cluster.
    params, num_boost_round, valid_sets, valid_names
        As for `hornbeam.train`, with `hornbeam.dask.Dataset`. The training set itself may be among valid_sets. Each
        worker uses as many threads as Dask gave it, unless `num_threads` says otherwise.
    timeout
        Seconds that a worker waits for the others in one operation.
    retries
        How often to go on without a worker that is lost. Dask makes its partitions anew elsewhere, and training goes
        on from the last state, which every worker keeps after each `checkpoint_freq` iterations (10).
    options
        `feval`, `init_model`, `callbacks`, `checkpoint` and `checkpoint_freq` of `hornbeam.train`. Functions and
        callbacks are called on every worker, with all rows, and must decide alike on all of them. A checkpoint is a
        file that all workers see.

    Returns
    -------
    Booster
        The model. Trainings on one cluster run one after the other.
    """
    require_dask()
    checked = _check(client, params, train_set, valid_sets)
    sets: dict[str, DaskDataset] = {"train_set": train_set, **_named(valid_sets, valid_names)}
    elastic = Elastic(client, options) if retries > 0 and options.get("checkpoint") is None else None
    try:
        for attempt in range(retries + 1):
            try:
                return _train_once(client, checked, sets, num_boost_round, timeout, options, elastic)
            except LostWorkerError as error:
                if attempt == retries:
                    raise
                done = 0 if elastic is None else elastic.fetch()
                text = f"going on after {done} iterations" if done else "starting again"
                warn(f"{error}; {text} on the workers that are left", checked.verbosity)
    finally:
        if elastic is not None:
            elastic.forget()
    raise AssertionError("the last attempt returns or raises")


class Elastic:
    """The state of a training that outlives workers: every worker keeps it, and any that is left has it.

    training  name of the training, on the workers
    freq      iterations from one state to the next
    state     the last one that the client has fetched; None: there is none
    """

    def __init__(self, client: Any, options: Mapping[str, Any]) -> None:
        self._client, self.training = client, uuid.uuid4().hex
        self.freq = whole_number(options.get("checkpoint_freq", 10), "checkpoint_freq", low=1)
        self.state: bytes | None = None

    def fetch(self) -> int:
        """Take the latest state of the workers that are left; returns its number of iterations."""
        found = self._client.run(kept_state, self.training, on_error="ignore").values()
        states = [state for state in (self.state, *found) if state is not None]
        by_length = {iterations_in(state): state for state in states}
        if not by_length:
            return 0
        longest = max(by_length)
        self.state = by_length[longest]
        return longest

    def forget(self) -> None:
        """Let the workers forget the state."""
        with suppress(OSError, TimeoutError):
            self._client.run(forget_state, self.training, on_error="ignore")

    def for_worker(self) -> tuple[str, int, bytes | None]:
        """Return what a worker has to know."""
        return self.training, self.freq, self.state


def _check(client: Any, params: Any, train_set: Any, valid_sets: Any) -> Params:
    """Check the arguments before anything is computed."""
    if getattr(client, "asynchronous", False):
        raise ParameterError("client is asynchronous; pass a Client that was made with asynchronous=False")
    if not isinstance(train_set, DaskDataset):
        raise DataError(f"train_set must be a hornbeam.dask.Dataset, not {type(train_set).__name__}")
    every = valid_sets.values() if isinstance(valid_sets, Mapping) else valid_sets or []
    for one in every:
        if not isinstance(one, DaskDataset):
            raise DataError(f"valid_sets has a {type(one).__name__}; pass objects of hornbeam.dask.Dataset")
    return params if isinstance(params, Params) else Params.from_dict(params)


def _named(valid_sets: Any, names: Sequence[str] | None) -> dict[str, DaskDataset]:
    """Return validation sets by name."""
    if isinstance(valid_sets, Mapping):
        return dict(valid_sets)
    every = list(valid_sets or [])
    if names is not None and len(names) != len(every):
        raise ParameterError(f"valid_names has {len(names)} names for {len(every)} valid_sets; give one each")
    named = dict(zip(names or [f"valid_{i}" for i in range(len(every))], every, strict=True))
    if len(named) < len(every):
        raise ParameterError(f"valid_names {list(names or ())} are not unique; give every set a name of its own")
    return named


def _train_once(
    client: Any,
    params: Params,
    sets: Mapping[str, DaskDataset],
    n_rounds: int | None,
    timeout: float,
    options: Mapping[str, Any],
    elastic: Elastic | None,
) -> Booster:
    """Make the partitions, and train on the workers that hold them."""
    from distributed import Semaphore

    train_set = sets["train_set"]
    futures = {name: each.compute() for name, each in sets.items() if name == "train_set" or each is not train_set}
    holders = client.who_has([future for every in futures.values() for future in every])
    first = {key: sorted(workers)[0] for key, workers in holders.items() if workers}
    addresses = sorted(set(first.values()))
    if not addresses:
        raise LostWorkerError("no worker holds a partition any more")
    work: list[dict[str, Any]] = [{} for _ in addresses]
    for name, every in futures.items():
        for rank, address in enumerate(addresses):
            numbers = [i for i, future in enumerate(every) if first.get(future.key) == address]
            work[rank][name] = {"numbers": numbers, "parts": [every[i] for i in numbers]}
    described = {name: each.options for name, each in sets.items()}
    same = [name for name, each in sets.items() if name != "train_set" and each is train_set]
    kept = None if elastic is None else elastic.for_worker()
    ways = train_set.is_xgboosts, train_set.is_estimators
    group, ranks = uuid.uuid4().hex, {address: rank for rank, address in enumerate(addresses)}
    with client.as_current(), Semaphore(max_leases=1, name=TURN):  # a client that goes away loses it after some seconds
        reason: str | None = "the client has ended the training"
        try:
            _open(client, group, ranks, None if kept is None else kept[0])
            tasks = [
                client.submit(
                    train_in_task, group, addresses, timeout, params, work[rank], described, same, n_rounds,
                    dict(options), kept, ways, workers=[address], allow_other_workers=False, pure=False, retries=0,
                    key=task_key(group, rank),
                )
                for address, rank in ranks.items()
            ]  # fmt: skip
            found = _collect(client, tasks, ranks)
            reason = None
            return found
        finally:
            left = [address for address in addresses if address in client.nthreads()]
            if left:
                client.run(close_mailbox, group, ranks, reason, workers=left, on_error="ignore")


def _open(client: Any, group: str, ranks: dict[str, int], training: str | None) -> None:
    """Prepare the workers; all must have this version of Hornbeam."""
    found = client.run(open_mailbox, group, ranks, training, workers=list(ranks), on_error="return")
    for address, version in found.items():
        if isinstance(version, ImportError):
            raise HornbeamError(f"worker {address} has no Hornbeam ({version}); install it on every worker")
        if isinstance(version, BaseException):
            raise LostWorkerError(f"worker {address} cannot be prepared: {version}")
        if version != hornbeam.__version__:
            raise HornbeamError(
                f"worker {address} has Hornbeam {version}, and the client {hornbeam.__version__}; install one version "
                "everywhere"
            )


def _collect(client: Any, tasks: list[Any], ranks: Mapping[str, int]) -> Booster:
    """Wait for the workers; returns the model, or raises what went wrong first."""
    from distributed import wait

    try:
        waiting, stop_at = list(tasks), math.inf
        while waiting and time.monotonic() < stop_at:
            with suppress(TimeoutError):
                wait(waiting, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
            waiting = [task for task in tasks if not task.done()]
            if len(waiting) < len(tasks) and stop_at == math.inf and any(task.status == "error" for task in tasks):
                stop_at = time.monotonic() + STOP_SECONDS  # the others were told to stop
            here = client.nthreads() if waiting else ranks
            gone = [address for address in ranks if address not in here]
            if gone:
                raise LostWorkerError(f"worker {ranks[gone[0]]} ({gone[0]}) was lost during the training")
        errors = [task.exception() for task in tasks if task.status in ("error", "lost", "cancelled")]
        if errors:
            raise first_cause(errors)
        booster: Booster = tasks[0].result()
        return booster
    except BaseException:
        client.cancel(tasks)
        raise


def train_in_task(
    group: str,
    addresses: list[str],
    timeout: float,
    params: Params,
    sets: Mapping[str, Mapping[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
    same: Sequence[str],
    n_rounds: int | None,
    options: Mapping[str, Any],
    kept: tuple[str, int, bytes | None] | None,
    ways: tuple[bool, bool],
) -> Booster | None:
    """Train on one worker; returns the model on the first one.

    sets       numbers and partitions of this worker's parts, by name of the data set
    described  options of the data sets
    same       names under which the training set is evaluated
    kept       name of the training, how often to keep its state, and the state to go on from; None: keep nothing
    ways       whether the training has XGBoost's ways, and whether those of an estimator
    """
    from distributed import get_worker

    worker = get_worker()
    collective: Collective = DaskCollective(group, worker, addresses, timeout)
    if "num_threads" not in params.given:
        params = params.replace(num_threads=min(worker.state.nthreads, os.cpu_count() or 1))
    try:
        collective = join_hosts(collective)
        data: dict[str, PartDataset] = {}
        for name, own in sets.items():
            pairs = zip(own["numbers"], own["parts"], strict=True)
            parts = [Part.make(number, **fields, **described[name]) for number, fields in pairs]
            there = [part for part in parts if part is not None]
            data[name] = PartDataset(collective, there, data.get("train_set"), name)
        train_set = data.pop("train_set")
        train_set.is_xgboosts, train_set.is_estimators = ways
        valid = {**dict.fromkeys(same, train_set), **data}
        ordered = {name: valid[name] for name in described if name != "train_set"}
        more = dict(options)
        if kept is not None:
            training, freq, state = kept
            more["checkpoint"] = KeptState(freq, state, lambda data: STATES.update({training: data}))
        model = train_on_worker(params, train_set, n_rounds, ordered, **more)
        return model if collective.rank == 0 else None
    except BaseException as error:
        collective.abort(f"{type(error).__name__}: {error}")
        raise
    finally:
        collective.close()

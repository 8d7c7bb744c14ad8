"""`train` on one worker of several."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from hornbeam.backends.demand import Demand
from hornbeam.backends.engines import make_engine
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.dataset import PartDataset
from hornbeam.distributed.devices import join_devices, make_local_engine
from hornbeam.distributed.engine import DistributedEngine
from hornbeam.distributed.voting import VotingEngine
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params
from hornbeam.training.callbacks import EarlyStopping, LogEvaluation
from hornbeam.training.checkpoints import Checkpoints, KeptState
from hornbeam.training.training import train_with
from hornbeam.trees.engine import Engine


def train(
    params: Mapping[str, Any] | Params | None,
    train_set: PartDataset,
    num_boost_round: int | None = None,
    valid_sets: Mapping[str, PartDataset] | Sequence[PartDataset] | None = None,
    **options: Any,
) -> Booster:
    """Train a model with the other workers; all of them call this with the same arguments.

    Arguments are those of `hornbeam.train`, and so is the result, on every worker: the model of one worker with all
    rows, bit for bit. The data sets are made by the group of workers that trains. The first worker reads and writes the
    file of `checkpoint`; the others go on from what it has read.
    """
    if not isinstance(train_set, PartDataset):
        raise DataError(f"train_set must be a PartDataset, not {type(train_set).__name__}")
    if options.get("keep_training_booster"):
        raise ParameterError("keep_training_booster: workers train in one call together; go on with init_model=booster")
    collective = train_set.collective
    checked = params if isinstance(params, Params) else Params.from_dict(params)
    refuse_methods(checked)
    if collective.rank > 0:
        checked = checked.replace(verbosity=-1)  # the first worker speaks for all
    given = [train_set, *_sets(valid_sets)]
    if collective.rank > 0:  # nor does it log what the first one logs
        calls = [call for call in options.get("callbacks") or () if not isinstance(call, LogEvaluation)]
        options["callbacks"] = list(map(_quiet, calls))

    def engine_maker(binned: BinnedData, params: Params, demand: Demand | None) -> Engine:
        if collective.is_alone and params.tree_learner != "voting":
            return make_engine(binned, params, demand)
        maps = {id(each.binned): each.rows for each in given if isinstance(each, PartDataset)}
        local = make_local_engine(collective, binned, train_set.rows.n_rows, params, demand)
        shared = join_devices(collective, local, stack)
        compiled = params.device != "reference"
        threads, is_shared = resolve_threads(params.num_threads), demand is not None and demand.n_histograms > 1
        worker = shared, local, binned, train_set.rows, maps, compiled, threads, is_shared
        if params.tree_learner == "voting":
            return VotingEngine(*worker, top_k=params.top_k)
        return DistributedEngine(*worker)

    with ExitStack() as stack:
        checkpoint = options.get("checkpoint")
        if checkpoint is not None and not isinstance(checkpoint, Checkpoints):
            opened = _open_checkpoint(collective, checkpoint, options.get("checkpoint_freq", 10))
            options["checkpoint"] = stack.enter_context(closing(opened))
        return train_with(engine_maker, checked, train_set, num_boost_round, valid_sets, **options)


def _quiet(callback: Any) -> Any:
    """Return a callback that does the same and says nothing."""
    if not isinstance(callback, EarlyStopping):
        return callback
    made = copy.copy(callback)
    made.verbose = False
    return made


def refuse_methods(params: Params) -> None:
    """Raise for a way to find thresholds that workers cannot share, and for trees that they cannot vote on."""
    tree_method = params.tree_method
    if params.tree_learner == "voting" and params.multi_strategy == "multi_output_tree":
        raise ParameterError(
            "tree_learner='voting' with multi_strategy='multi_output_tree': workers vote on the splits of one output; "
            "leave out one of them"
        )
    if tree_method != "hist":
        raise ParameterError(
            f"tree_method={tree_method!r} on workers: each has some rows, and the ranks of values are those of all; "
            "leave it out ('hist'), or train in one process"
        )


def _open_checkpoint(collective: Collective, path: Any, freq: int) -> Checkpoints:
    """Return the checkpoints of this worker: the first one has the file, and the others its content."""
    if collective.rank == 0:
        file = Checkpoints(path, freq)
        content = file.path.read_bytes() if file.saved is not None else b""
        collective.broadcast(content, 0, "checkpoint")
        return file
    content = bytes(collective.broadcast(b"", 0, "checkpoint"))
    return KeptState(freq, content or None, lambda _: None)


def _sets(valid_sets: Any) -> list[Any]:
    """Return the data sets among what was given as valid_sets."""
    if valid_sets is None:
        return []
    if isinstance(valid_sets, PartDataset):
        return [valid_sets]
    entries = valid_sets.values() if isinstance(valid_sets, Mapping) else valid_sets
    return [entry[0] if isinstance(entry, tuple) else entry for entry in entries]

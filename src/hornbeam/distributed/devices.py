"""Which device each worker takes, where the parameters name none, and which devices talk to each other."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack

from hornbeam.backends.costs import TrainingWork
from hornbeam.backends.demand import Demand
from hornbeam.backends.devices import choose_device, gpus_of_kind
from hornbeam.backends.engines import make_engine
from hornbeam.backends.reference.engine import ReferenceEngine
from hornbeam.core.errors import DeviceError
from hornbeam.core.log import inform
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Collective
from hornbeam.params.params import Params
from hornbeam.trees.engine import Engine

HOSTS = ("cpu", "reference")
"""Devices that are no GPUs."""


def make_local_engine(collective: Collective, binned: BinnedData, params: Params, demand: Demand | None) -> Engine:
    """Make the engine of this worker's rows; all workers call this at the same time."""
    has_rows, device = binned.n_rows > 0, params.device
    if device not in HOSTS and ":" not in device:
        device = deal_device(collective, _kind(binned, params) if has_rows else "cpu")
    if not has_rows:
        return ReferenceEngine(binned)
    try:
        return make_engine(binned, params.replace(device=device), demand)
    except DeviceError as error:
        if params.device != "auto":
            raise
        inform(f"training on the CPU: {error}", params.verbosity)
        return make_engine(binned, params.replace(device="cpu"), demand)


def _kind(binned: BinnedData, params: Params) -> str:
    """Return a device of the kind that a worker trains on; no GPU is woken."""
    if params.device in ("gpu", "auto"):
        return choose_device(params.device, TrainingWork.of(binned.n_rows, binned.n_used, params))
    return params.device


def deal_device(collective: Collective, device: str) -> str:
    """Return the device of this worker; all workers call this at the same time.

    device  "cpu", or one of the kind that the worker trains on: "cuda", "opencl:0"

    Of the GPUs of this kind that it sees, each worker takes the one that the fewest workers before it have taken, the
    first one of equals. So worker r takes number r modulo their number where all see the same GPUs in the same order,
    and its first where each has its own (CUDA_VISIBLE_DEVICES, as dask-cuda sets it).
    """
    seen = {} if device in HOSTS else gpus_of_kind(device)
    every = [json.loads(bytes(message)) for message in collective.all_gather(json.dumps(list(seen)).encode(), "GPUs")]
    taken: Counter[str] = Counter()
    for rank, names in enumerate(every):
        if names:
            best = min(names, key=lambda name: taken[name])
            taken[best] += 1
            if rank == collective.rank:
                return seen[best]
    return device  # no GPU is seen


def join_devices(collective: Collective, local: Engine, params: Params, stack: ExitStack) -> Collective:
    """Return a group whose devices add up histograms, until the stack is closed, or the given one where they cannot.

    local  engine of this worker's rows
    """
    if params.device in HOSTS or collective.size == 1:
        return collective
    from hornbeam.distributed.nccl import NcclCollective, joinable_runtime

    runtime = joinable_runtime(collective, local)
    return collective if runtime is None else stack.enter_context(NcclCollective(collective, runtime))

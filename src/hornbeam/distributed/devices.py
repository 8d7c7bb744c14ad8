"""Which device each worker takes, which talk to each other, what has a worker's rows and what searches splits."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

from hornbeam.backends.costs import TrainingWork
from hornbeam.backends.demand import PLAIN_DEMAND, Demand
from hornbeam.backends.devices import KINDS, choose_device, gpus_of_kind
from hornbeam.backends.engines import make_engine
from hornbeam.backends.reference.engine import ReferenceEngine
from hornbeam.core.errors import DeviceError
from hornbeam.core.log import inform
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.search import Search, SectionSearch
from hornbeam.distributed.tree_rows import CompiledRows, TreeRows
from hornbeam.params.params import Params
from hornbeam.trees.engine import Engine


def make_local_engine(
    collective: Collective, binned: BinnedData, n_rows: int, params: Params, demand: Demand | None
) -> Engine:
    """Make the engine of this worker's rows; all workers call this at the same time.

    n_rows  of all workers: what the training keeps of labels, weights and queries is a demand for these
    """
    has_rows = binned.n_rows > 0
    device = deal_device(collective, _device(binned, params) if has_rows else "cpu")
    if not has_rows:
        return ReferenceEngine(binned)
    whole = demand or PLAIN_DEMAND
    given, renewal = (-(-n * binned.n_rows // n_rows) for n in (whole.given_bytes, whole.renewal_weight_bytes))
    demand = replace(whole, on_workers=True, given_bytes=given, renewal_weight_bytes=renewal)
    try:
        return make_engine(binned, params.replace(device=device), demand)
    except DeviceError as error:
        if params.device != "auto":
            raise
        inform(f"training on the CPU: {error}", params.verbosity)
        return make_engine(binned, params.replace(device="cpu"), demand)


def _device(binned: BinnedData, params: Params) -> str:
    """Return what this worker trains on: "cpu", "cuda:1", or the kind of the GPU that it will take, "cuda"."""
    if params.device not in ("gpu", "auto"):
        return params.device
    return choose_device(params.device, TrainingWork.of(binned.n_rows, binned.n_used, params)).partition(":")[0]


def deal_device(collective: Collective, device: str) -> str:
    """Return the device of this worker; all workers call this at the same time.

    device  what it asks for: a kind of GPU, "cuda" or "opencl", or anything else, which it gets

    Of the GPUs of this kind that it sees, each worker takes the one that the fewest workers before it have taken, the
    first one of equals. So worker r takes number r modulo their number where all see the same GPUs in the same order,
    and its first where each has its own (CUDA_VISIBLE_DEVICES, as dask-cuda sets it).
    """
    seen = gpus_of_kind(device) if device in KINDS else {}
    message = json.dumps(list(seen)).encode()
    every = [json.loads(bytes(names)) for names in collective.all_gather(message, "GPUs of workers")]
    taken: Counter[str] = Counter()
    for rank, names in enumerate(every):
        if names:
            best = min(names, key=lambda name: taken[name])
            taken[best] += 1
            if rank == collective.rank:
                return seen[best]
    return device  # it sees none


def join_devices(collective: Collective, local: Engine, stack: ExitStack) -> Collective:
    """Return a group whose devices add up histograms, until the stack is closed, or the given one where they cannot.

    local  engine of this worker's rows

    They can where every worker has a CUDA device that no other has. All workers call this at the same time.
    """
    if collective.size == 1:
        return collective
    name = ""
    if local.has_own_memory:
        from hornbeam.distributed.nccl import NcclCollective, device_name

        name = device_name(local)
    names = [bytes(each) for each in collective.all_gather(name.encode(), "devices that could talk")]
    if b"" in names or len(set(names)) < len(names):
        return collective
    runtime = local.workspace.runtime  # type: ignore[attr-defined]  # that of a GpuEngine
    return stack.enter_context(NcclCollective(collective, runtime))


def rows_of(
    local: Engine,
    binned: BinnedData,
    of_workers: list[tuple[int, int]],
    compiled: bool,
    n_threads: int,
    is_shared: bool,
) -> TreeRows:
    """Return what has the rows of growing trees; of_workers: used features of each; others as for DistributedEngine."""
    if not compiled or binned.n_rows == 0:
        return TreeRows(binned, of_workers)
    if local.has_own_memory and not is_shared:
        from hornbeam.backends.gpu.engine import GpuEngine
        from hornbeam.distributed.device_rows import DeviceRows

        if isinstance(local, GpuEngine) and local.can_share_trees:
            return DeviceRows(binned, of_workers, local)
    return CompiledRows(binned, of_workers, n_threads)


def search_of(
    local: Engine,
    rows: TreeRows,
    collective: Collective,
    binned: BinnedData,
    section: tuple[int, int],
    compiled: bool,
    n_threads: int,
) -> Search:
    """Return what searches a worker's section: its GPU, where histograms do not leave the devices, or the host.

    rows  what `rows_of` has returned; others as for DistributedEngine
    """
    if local.has_own_memory:
        from hornbeam.backends.gpu.engine import GpuEngine
        from hornbeam.distributed.device_rows import DeviceRows
        from hornbeam.distributed.device_search import DeviceSearch
        from hornbeam.distributed.nccl import NcclCollective

        if isinstance(collective, NcclCollective) and isinstance(rows, DeviceRows) and isinstance(local, GpuEngine):
            return DeviceSearch(local, binned, *section)
    return SectionSearch(binned, *section, compiled, n_threads)

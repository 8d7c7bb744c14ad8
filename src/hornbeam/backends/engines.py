"""The engine that trains on a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hornbeam.backends import devices
from hornbeam.backends.costs import TrainingWork
from hornbeam.backends.demand import PLAIN_DEMAND, Demand
from hornbeam.core.errors import DeviceError
from hornbeam.core.host_memory import check_host_memory
from hornbeam.core.log import inform
from hornbeam.data.binning import BinnedData
from hornbeam.data.quantiles import joined_sizes, named_sizes
from hornbeam.params.params import Params
from hornbeam.trees.engine import Engine

EngineMaker = Callable[[BinnedData, Params, Demand | None], Engine]
"""`make_engine`, or what stands in for it."""


GrowthMaker = Callable[..., Any]
"""What CpuEngine takes as `make_growth`."""


def make_engine(binned: BinnedData, params: Params, demand: Demand | None = None) -> Engine:
    """Make an engine for a binned training set on the device that the parameters ask for.

    demand  what the training will keep besides; None: only what every training does
    """
    work = TrainingWork.of(binned.n_rows, binned.n_used, params, binned.on_device is not None)
    device = devices.choose_device(params.device, work)
    if params.device in ("auto", "gpu") and device != "cpu" and binned.on_device is not None:
        device = binned.on_device.device
    if device == "reference":
        from hornbeam.backends.reference.engine import ReferenceEngine

        if params.tree_method == "approx":
            from hornbeam.backends.reference.approx import ApproxReferenceEngine

            return ApproxReferenceEngine(binned, joined_sizes(binned, params))
        return ReferenceEngine(binned)  # that of a bin for every distinct value is exact
    if device != "cpu":
        from hornbeam.backends.gpu.engine import GpuEngine
        from hornbeam.backends.gpu.runtime import devices as gpus

        try:
            runtime, min_data, limit = gpus.open_runtime(device), params.min_data_in_leaf, params.device_memory_limit
            if params.tree_method != "hist":
                from hornbeam.backends.gpu.ranked import approx, exact

                if params.tree_method == "approx":
                    sizes = joined_sizes(binned, params)
                    return approx.ApproxEngine(runtime, binned, sizes, min_data, demand or PLAIN_DEMAND, limit)
                return exact.ExactEngine(runtime, binned, named_sizes(binned), min_data, demand or PLAIN_DEMAND, limit)
            may_stay = params.device != "auto"  # which takes the CPU then
            engine = GpuEngine(runtime, binned, min_data, demand or PLAIN_DEMAND, limit, may_stay)
            if engine.host_bin_bytes > 0:
                what = f"{runtime.facts.name} has no memory for {engine.host_bin_bytes / 2**20:,.0f} MB of bins"
                inform(f"{what}: they stay in host memory, and are read from there", params.verbosity)
            return engine
        except DeviceError as error:
            if params.device != "auto":
                raise
            inform(f"training on the CPU: {error}", params.verbosity)
    from hornbeam.backends.cpu.engine import CpuEngine

    return CpuEngine(binned, params.num_threads, make_growth=_ranked_growth(binned, params))


def _ranked_growth(binned: BinnedData, params: Params) -> GrowthMaker | None:
    """Return what grows trees on ranks on the CPU, if there is memory for it; None: they are no ranks."""
    if params.tree_method == "hist":
        return None
    from hornbeam.backends.cpu.growth.ranked.approx import ApproxGrowth
    from hornbeam.backends.cpu.growth.ranked.exact import ExactGrowth

    kind = ApproxGrowth if params.tree_method == "approx" else ExactGrowth
    check_host_memory(
        binned.n_rows * kind.bytes_a_row(binned), f"trees by tree_method={params.tree_method!r}",
        "fewer rows or features, or tree_method='hist'",
    )  # fmt: skip
    return partial(ApproxGrowth, sizes=joined_sizes(binned, params)) if kind is ApproxGrowth else ExactGrowth

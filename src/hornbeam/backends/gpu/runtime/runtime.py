"""What the engine asks of a runtime: memory, copies, compiled kernels, launches. CUDA and OpenCL provide it.

Work is asynchronous and in order: a launch or an upload returns at once, a download waits for everything before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.log import current_verbosity, inform

Buffer = Any
"""Memory on a device, as its runtime holds it."""

WORTH_SAYING = 1.0
"""Seconds of compilation after which users are told what is going on."""

CACHED = 0.1
"""Seconds up to which a kernel file was read from a cache on disk, and not compiled."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the engine's choices depend on; none of it can be seen in a model."""

    name: str
    is_gpu: bool
    compute_units: int
    max_threads: int  # of a group
    local_bytes: int  # of a group
    memory_bytes: int  # of the device
    max_buffer_bytes: int


@dataclass(frozen=True, slots=True)
class Variant:
    """One compilation of a source file: every field is a name that it sees, and the whole is the key of the cache.

    threads    of a group
    bin_bits   4, 8, 16 or 32, see kernels/shared/bins.h
    tile_words  of a row in a tile: 8, 4, 3, 2 or 1
    columns    whether bins of one feature are read from columns, else from tiles
    in_order   whether rows keep their order, see kernels/growth/partition.cl
    bundled    whether columns are bundles of features, see kernels/shared/bins.h
    context    whether nodes have one, see kernels/growth/split_bundles.cl, split.cl and leaf_numbers.cl
    wide       records of 64 bits, see kernels/growth/quantize.cl; rows with weights, see kernels/growth/renewal.cl
    stats      2: gradient and hessian; 3: and rows
    n_bins     of a feature, padded
    words      of a tile that a group takes at once; 0: no local memory, see kernels/growth/histogram.cl
    copies     of the counters of a group, see kernels/growth/histogram.cl
    resident   groups that should share a compute unit (CUDA: limits the registers)
    each       rows of a thread, see kernels/growth/partition.cl and kernels/data/sort.cl
    leaves     most leaves whose sums fit in local memory; 0: none
    capacity   most nodes of a tree that the device keeps, see kernels/growth/select.cl
    value_bytes  of a raw value: 4 or 8, see kernels/prediction/predict.cl and kernels/data/encode.cl;
                 of a key, kernels/data/sort.cl; of a code, kernels/data/stored.cl;
                 of a label or hessian: 1 or 8, kernels/losses/row_gradients.h
    documents  most documents of a query that fit in local memory, see kernels/losses/ranking.cl; 0: none
    objective  formula of kernels/losses/losses.h; 0: none
    metric     formula of kernels/losses/metrics.cl; 0: none
    categorical  there are categorical features, see kernels/growth/partition.cl
    sort_size    levels that are sorted in local memory, see kernels/growth/split_categorical.cl; 0: in global memory
    keep         numbers that a thread keeps in local memory, see kernels/prediction/explain.cl; 0: in global memory
    interactions  pairs of features are summed, see kernels/prediction/explain.cl
    payload      keys have a number with them, see kernels/data/sort.cl
    outputs      all histograms of a node are summed, see kernels/growth/histogram.cl
    """

    source: str
    threads: int
    bin_bits: int = 8
    tile_words: int = 8
    columns: bool = False
    in_order: bool = False
    bundled: bool = False
    context: bool = False
    wide: bool = False
    stats: int = 2
    n_bins: int = 0
    words: int = 8
    copies: int = 1
    resident: int = 1
    each: int = 8
    leaves: int = 0
    capacity: int = 0
    value_bytes: int = 8
    documents: int = 0
    objective: int = 0
    categorical: bool = False
    sort_size: int = 0
    metric: int = 0
    keep: int = 0
    interactions: bool = False
    payload: bool = True
    outputs: bool = False

    def values(self) -> dict[str, int]:
        """Return the names that kernels see, and their values."""
        names = [field.name for field in fields(self) if field.name != "source"]
        return {name.upper(): int(getattr(self, name)) for name in names}

    def defines(self) -> list[str]:
        """Return the same as flags of a compiler."""
        return [f"-D{name}={value}" for name, value in self.values().items()]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel: the runtime's handle, threads of a group, and local memory to be given at launch."""

    handle: Any
    threads: int
    local_bytes: int = 0


class ArrayBridge(Protocol):
    """How a library of arrays (CuPy) and the launches of a runtime share one device."""

    xp: ModuleType
    device: str
    """As in the parameter `device`: "cuda:0", ..."""

    def scope(self) -> AbstractContextManager[None]:
        """Make the device current; work on arrays comes after the launches before, and before those that follow."""

    def after_launches(self) -> None:
        """Let work on arrays come after what has been launched so far."""

    def before_launches(self) -> None:
        """Let launches come after the work on arrays so far."""

    def array_of(self, buffer: Buffer, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of a buffer's memory, from its first byte on; it keeps the memory alive."""


class Runtime(Protocol):
    """One device through one programming interface."""

    facts: DeviceFacts
    device_name: str
    """ "cuda:0", ...; "opencl" for any device of OpenCL."""

    @property
    def arrays(self) -> ArrayBridge | None:
        """The library of arrays that shares this device's memory; None: there is none."""

    def allocate(self, n_bytes: int) -> Buffer:
        """Return memory, uninitialised; DeviceError when there is none."""

    def allocate_on_host(self, n_bytes: int) -> Buffer:
        """Return memory of the host that kernels read and write over the bus; it does not move to the device."""

    def free(self, buffer: Buffer) -> None:
        """Give memory back."""

    def trim(self) -> None:
        """Give memory that no buffer has any more back to the device, where the runtime keeps it.

        Whoever makes buffers anew does this first: else small ones would lie in what larger ones left, and keep it all.
        """

    def free_bytes(self) -> int | None:
        """Return the memory that nobody holds; None where the device does not tell."""

    def upload(self, buffer: Buffer, array: NDArray[Any], offset: int = 0) -> None:
        """Copy a C-contiguous array to the device, from byte `offset` of the buffer on."""

    def download(self, buffer: Buffer, out: NDArray[Any], offset: int = 0) -> None:
        """Copy from byte `offset` of the buffer on into a C-contiguous array, and wait."""

    def download_later(self, buffer: Buffer, out: NDArray[Any], offset: int = 0) -> Callable[[], None]:
        """Start the same; what is returned waits for this copy, and for nothing that was asked for after it."""

    def zero(self, buffer: Buffer, n_bytes: int) -> None:
        """Clear the first bytes (a multiple of 4)."""

    def kernel(self, name: str, variant: Variant, local_bytes: int = 0) -> Kernel:
        """Return a kernel of a source file, compiled at first use; DeviceError with the compiler's log.

        local_bytes  what its BIG_LOCAL array takes
        """

    def compile_soon(self, variants: Iterable[Variant]) -> None:
        """Begin to compile what will be needed, where a device's compiler can do several files at once."""

    def launch(self, kernel: Kernel, groups: int, *arguments: Any) -> None:
        """Run a kernel; arguments are buffers and NumPy scalars of the parameters' types."""

    def repeatable(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return what does these launches, and nothing else, whenever it is called: recorded, where that is faster.

        The arguments are those of the first time, and so are the buffers: they must not be freed meanwhile.
        """

    def synchronize(self) -> None:
        """Wait for everything."""

    def close(self) -> None:
        """Give back what is cached between trainings."""


HEADERS = {
    "bounds.cl": ("order.h", "values.h"),
    "choose.cl": ("candidates.h",),
    "columns.cl": ("fixed_point.h", "order.h", "values.h"),
    "contexts.cl": ("outputs.h", "candidates.h", "gains.h"),
    "encode.cl": ("bins.h", "order.h", "values.h"),
    "gradients.cl": ("numerics.h", "losses.h", "row_gradients.h"),
    "histogram.cl": ("bins.h", "tables.h", "chunks.h"),
    "join.cl": ("bins.h", "ranks.h", "scan.h"),
    "layout.cl": ("bins.h",),
    "leaf_numbers.cl": ("scan.h",),
    "leaves.cl": ("tables.h", "outputs.h", "numerics.h", "losses.h", "row_gradients.h"),
    "lists.cl": ("tables.h", "scan.h", "outputs.h", "candidates.h", "gains.h"),
    "load_outputs.cl": ("tables.h",),
    "logcosh_leaves.cl": ("fixed_point.h", "tables.h", "order.h", "numerics.h"),
    "metrics.cl": ("numerics.h", "fixed_point.h", "survival.h"),
    "order_metrics.cl": ("fixed_point.h", "order.h"),
    "partition.cl": ("bins.h", "tables.h", "scan.h"),
    "plan.cl": ("scan.h", "chunks.h"),
    "explain.cl": ("values.h", "goes_left.h"),
    "predict.cl": ("values.h", "goes_left.h"),
    "rank_rows.cl": ("ranks.h",),
    "quantize.cl": ("fixed_point.h", "numerics.h", "losses.h", "row_gradients.h"),
    "query_metrics.cl": ("fixed_point.h", "ranked_list.h"),
    "ranking.cl": ("numerics.h", "ranked_list.h"),
    "renewal.cl": ("fixed_point.h", "tables.h", "order.h", "scan.h"),
    "route.cl": ("bins.h",),
    "select.cl": ("scan.h", "candidates.h"),
    "sort.cl": ("scan.h", "values.h"),
    "split.cl": ("scan.h", "runs.h", "outputs.h", "candidates.h"),
    "split_bundles.cl": ("bins.h", "scan.h", "outputs.h", "candidates.h", "gains.h"),
    "split_categorical.cl": ("outputs.h", "candidates.h", "gains.h"),
    "split_general.cl": ("scan.h", "runs.h", "outputs.h", "candidates.h", "gains.h"),
    "split_outputs.cl": ("fixed_point.h", "scan.h", "outputs.h", "candidates.h"),
    "stored.cl": ("bins.h",),
    "survival.cl": ("numerics.h", "fixed_point.h", "survival.h"),
}
"""Further headers of kernel files."""


@cache
def _kernel_files() -> dict[str, Any]:
    """Return the files of kernels/ by name; no two folders of it have files of one name."""
    folders = (folder for folder in (files("hornbeam.backends.gpu") / "kernels").iterdir() if folder.is_dir())
    return {file.name: file for folder in folders for file in folder.iterdir()}


@cache
def source_text(prelude: str, source: str) -> str:
    """Return a kernel file behind prelude, record types and random numbers; lines in errors are those of the files."""
    names = (prelude, "dtypes.h", "random.h", *HEADERS.get(source, ()), source)
    return "\n".join(f'#line 1 "{name}"\n{_kernel_files()[name].read_text(encoding="utf-8")}' for name in names)


_compiled: dict[str, float] = {}
_told: set[str] = set()


def timed_compilation(compile_: Callable[[], Any], device: str) -> Any:
    """Compile a kernel file, and say so as soon as those of a device have taken a while, all together."""
    spent, verbosity = _compiled.get(device, 0.0), current_verbosity()
    timer = threading.Timer(max(0.0, WORTH_SAYING - spent), _tell, (device, verbosity))
    timer.daemon = True
    start = time.perf_counter()
    if device not in _told:
        timer.start()
    try:
        return compile_()
    finally:
        timer.cancel()
        seconds = time.perf_counter() - start
        _compiled[device] = spent + (seconds if seconds > CACHED else 0.0)
        if _compiled[device] > WORTH_SAYING:
            _tell(device, verbosity)


def _tell(device: str, verbosity: int) -> None:
    """Say it, once for a device."""
    if verbosity >= 1 and device not in _told:
        _told.add(device)
        inform(f"compiling GPU kernels for {device}: this happens once on a machine and takes some seconds", verbosity)


def u32(value: int) -> np.uint32:
    """Return a kernel argument of type u32."""
    return np.uint32(value)


def u64(value: int) -> np.uint64:
    """Return a kernel argument of type u64."""
    return np.uint64(value)

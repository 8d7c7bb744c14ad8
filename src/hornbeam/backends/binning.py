"""Binning on the device that suits: where the data are, where the training will be, or the CPU. The bins are the same.

`device="reference"` bins with NumPy alone. A stream is binned batch by batch, by the CPU, into a file or into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from traceback import clear_frames
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends import devices
from hornbeam.backends.costs import TrainingWork
from hornbeam.backends.demand import TRAINING_BYTES
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DeviceError, ParameterError
from hornbeam.core.host_memory import check_host_memory, give_back
from hornbeam.data.binning import BinMapper, BinnedData, BinParams, Bins, bin_by
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.streams.table import StreamTable
from hornbeam.params.params import Params

CELLS_TO_BIN_ON_A_GPU = 1 << 20
"""Values from which on a table in host memory is binned by the GPU that trains: fewer take the CPU milliseconds."""


def bin_table(table: TableReader, bin_params: BinParams, params: Params | None) -> BinnedData:
    """Find the bins of a table and code it.

    params  of the training that the bins are for; None: not known yet
    """
    if isinstance(table, StreamTable):
        return _bin_stream(table, bin_params, params)
    if bin_params.by_rank:
        check_host_memory(
            4 * table.n_rows * table.n_features, f"the ranks of {table.n_rows:,} rows x {table.n_features:,} features",
            "fewer rows or features, or tree_method='hist'",
        )  # fmt: skip
    if _is_reference(params):
        from hornbeam.backends.reference import binning as reference

        return reference.bin_table(table, bin_params)
    from hornbeam.backends.cpu.binning.table import bin_table as bin_on_cpu
    from hornbeam.backends.cpu.host.expected import expected

    expected.see(table.n_rows)
    n_threads = resolve_threads(0 if params is None else params.num_threads)
    binned: BinnedData | None = None
    if not bin_params.by_rank:  # ranks are found in host memory
        binned = _on_gpu(
            table, params, None, lambda gpu, device: gpu.bin_on_device(device, table, bin_params, n_threads)
        )
    return bin_on_cpu(table, bin_params, n_threads, may_store=True) if binned is None else binned


def encode_table(
    table: TableReader, mapper: BinMapper, bin_params: BinParams, params: Params | None, reference: BinnedData
) -> Bins:
    """Code a table with the bins of another one.

    reference  that other one
    """
    if isinstance(table, StreamTable):
        return _encode_stream(table, mapper, params)[0]
    if _is_reference(params):
        from hornbeam.backends.reference import binning

        return binning.encode_table(table, mapper)
    from hornbeam.backends.cpu.binning.table import encode_table as encode_on_cpu

    bins: Bins | None = None
    if not bin_params.by_rank:
        bins = _on_gpu(table, params, reference, lambda gpu, device: gpu.encode_on_device(device, table, mapper)[0])
    if bins is None:
        n_threads = resolve_threads(0 if params is None else params.num_threads)
        bins = encode_on_cpu(table, mapper, bin_params, n_threads)[0]
    return bins


def _is_reference(params: Params | None) -> bool:
    return params is not None and params.device == "reference"


def _bin_stream(table: StreamTable, bin_params: BinParams, params: Params | None) -> BinnedData:
    """Find the bins of a stream from its sample, and code its batches."""
    if bin_params.by_rank:
        raise ParameterError(
            f"tree_method={bin_params.tree_method!r} keeps the rank of every value in memory, and a stream is for data "
            "that are larger; use tree_method='hist', or make the Dataset of a table in memory"
        )
    sample = table.sampled(bin_params)
    if _is_reference(params):
        from hornbeam.backends.reference.binning import find_bounds as find_in_numpy

        bounds = find_in_numpy(sample, sample.read(0, sample.n_rows), bin_params)
    else:
        from hornbeam.backends.cpu.binning.table import find_bounds

        bounds = find_bounds(sample, bin_params, resolve_threads(0 if params is None else params.num_threads))
    table.forget_sample()
    return bin_by(
        bounds,
        bin_params,
        table.find_missing,
        lambda mapper: _encode_stream(table, mapper, params),
        n_levels=table.n_levels,
    )


def _encode_stream(table: StreamTable, mapper: BinMapper, params: Params | None) -> tuple[Bins, NDArray[np.bool_]]:
    """Code the batches of a stream, one after the other.

    Returns the bins, and whether each used feature has missing values, bool (n_used,).
    """
    n_threads = resolve_threads(0 if params is None else params.num_threads)
    missing = np.zeros(len(mapper.used), np.bool_)

    def encode(reader: TableReader) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        if _is_reference(params):
            from hornbeam.backends.reference.binning import encode_values

            return encode_values(reader.read(0, reader.n_rows), mapper)
        from hornbeam.backends.cpu.binning.dense import encode as encode_block

        return encode_block(reader, mapper, n_threads)

    def write(reader: TableReader) -> NDArray[np.bool_]:
        block, in_block = encode(reader)
        bins.write_bins(block)
        return in_block

    with table.destination(len(mapper.used), mapper.bin_dtype) as bins:
        for in_block in (write(reader) for _, reader in table.pieces()):
            missing |= in_block
        found = bins.finish()
    give_back()  # the memory of batches is for the trees now
    return found, missing


def _on_gpu(
    table: TableReader, params: Params | None, reference: BinnedData | None, work: Callable[[Any, str], Any]
) -> Any:
    """Return work(backends.gpu.data.binning, device) if the data shall be binned on a device, else None."""
    device = device_to_bin_on(table, params, reference)
    if device is None:
        return None
    from hornbeam.backends.gpu.data import binning as gpu

    try:
        return work(gpu, device)
    except DeviceError as error:
        clear_frames(error.__traceback__)  # else what they hold of the device waits for garbage collection
        if table.device is None or params is None or params.device == "auto":
            return None  # if that is the end of the device, the engine says so, and what would help
        raise


def device_to_bin_on(table: TableReader, params: Params | None, reference: BinnedData | None) -> str | None:
    """Return the device that the data are on, or if they are many and in host memory, the GPU that will train.

    reference  the data whose bins are taken, or None; None is returned where the CPU shall bin
    """
    if params is not None and params.device in ("cpu", "reference"):
        return None
    if table.device is not None:
        return table.device
    if params is None or table.levels is not None or table.sparse is not None:
        return None
    n_cells, limit = table.n_rows * table.n_features, params.device_memory_limit * 2**20
    least = n_cells * (1 if params.max_bin <= 255 else 2) + table.n_rows * TRAINING_BYTES
    if n_cells < CELLS_TO_BIN_ON_A_GPU or 0.0 < limit < least:
        return None
    if reference is not None and reference.on_device is None:
        return None  # its bins are bundled, say
    device = devices.choose_device(params.device, TrainingWork.of(table.n_rows, table.n_features, params))
    return None if device == "cpu" else device

"""NCCL through CuPy: CUDA devices that add up buffers among themselves, a rank each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.backends.gpu.runtime.runtime import Buffer
from hornbeam.data.cuda_errors import cupy_errors

if TYPE_CHECKING:
    from hornbeam.backends.gpu.runtime.cuda import CudaRuntime


def is_available() -> bool:
    """Say whether CuPy is there, and has found NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", False))


def make_id() -> bytes:
    """Return a name for a group, which one rank makes for all."""
    from cupy.cuda import nccl

    found = nccl.get_unique_id()
    return found if isinstance(found, bytes) else np.array(found, np.int8).tobytes()


def _in_time(join: Callable[[], Any], seconds: float, device: str) -> Any:
    """Return what a function returns that would wait for ever; it is left alone where it takes longer."""
    done: futures.Future[Any] = futures.Future()

    def run() -> None:
        try:
            done.set_result(join())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, name="hornbeam-joins-devices", daemon=True).start()
    with cupy_errors(device, "joining other devices by NCCL"):
        try:
            return done.result(seconds)
        except futures.TimeoutError:  # which is Python's own from 3.11 on
            raise TimeoutError(f"{device} waited for other devices") from None


class DeviceGroup:
    """One device's end of a group; all ranks make theirs at the same time.

    group_id  what `make_id` returned on one of them
    seconds   to wait for the others; TimeoutError after that
    """

    def __init__(self, runtime: CudaRuntime, rank: int, size: int, group_id: bytes, seconds: float) -> None:
        from cupy.cuda import nccl

        self._nccl, self._runtime = nccl, runtime
        numbers = tuple(np.frombuffer(group_id, np.int8).tolist())

        def join() -> Any:
            with runtime.device:
                try:
                    return nccl.NcclCommunicator(size, group_id, rank)
                except TypeError:  # CuPy before 14 takes a tuple of numbers
                    return nccl.NcclCommunicator(size, numbers, rank)

        self._communicator = _in_time(join, seconds, runtime.facts.name)

    def reduce_scatter(self, values: Buffer, out: Buffer, n: int, dtype: Any) -> None:
        """Add up the buffers of all ranks, each of which gets its share; this returns before it is done.

        values  int32 or int64 (size, n)  in   of this rank
        out     the same type (n,)        out  sum over the ranks of values[rank]
        """
        kind = self._nccl.NCCL_INT32 if np.dtype(dtype).itemsize == 4 else self._nccl.NCCL_INT64
        self._runtime.enqueue(
            lambda stream: self._communicator.reduceScatter(
                values.data.ptr, out.data.ptr, n, kind, self._nccl.NCCL_SUM, stream
            )
        )

    def wait(self, seconds: float) -> bool:
        """Wait for what was asked for, but no longer than that; returns whether it is done."""
        return self._runtime.wait(seconds)

    def close(self) -> None:
        """Leave the group."""
        with self._runtime.device:
            self._communicator.destroy()

    def abort(self) -> None:
        """Leave the group while others may wait for this rank, or it for them."""
        with self._runtime.device:
            self._communicator.abort()

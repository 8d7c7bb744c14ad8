"""Workers with a CUDA device each: histograms go from device to device by NCCL, all else as before.

Which devices these are is agreed on by the group's own messages (threads, Dask, MPI), and so is, before every operation
of the devices, that all workers have come to it: a worker that fails, is late or has lost step is noticed there, as
ever, and no device waits for one that will not come.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.runtime import nccl
from hornbeam.core.errors import CollectiveError
from hornbeam.distributed.collective import Buffer, Collective, Received, lost
from hornbeam.trees.engine import Engine

SWITCH = "HORNBEAM_NCCL"
"""Variable of the environment: 0 leaves histograms to the host."""


class NcclCollective(Collective):
    """One worker's end of a group that has devices; all workers make theirs at the same time.

    host     the worker's end of the group without devices, which all other messages go through
    runtime  CudaRuntime of a device that no other worker has
    """

    def __init__(self, host: Collective, runtime: Any) -> None:
        super().__init__(host.rank, host.size, host.timeout)
        self._host, self.traffic = host, host.traffic
        group_id = host.broadcast(nccl.make_id() if host.rank == 0 else b"", 0, "group of devices")
        try:
            self._devices = nccl.DeviceGroup(runtime, host.rank, host.size, bytes(group_id), host.timeout)
        except TimeoutError:
            raise self._lost("group of devices") from None

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to ask: a device adds up even where it is the only one."""
        return False

    def _lost(self, what: str) -> CollectiveError:
        others = [rank for rank in range(self.size) if rank != self.rank]
        return lost(self.rank, others, what, self.timeout)

    def _exchange(self, messages: Sequence[Buffer | None], tag: int, what: str) -> list[Received]:
        return self._host._exchange(messages, tag, what)

    def exchange(self, messages: Sequence[Buffer], what: str) -> list[Buffer]:
        """Leave it to the host."""
        return self._host.exchange(messages, what)

    def room(self, n_bytes: int) -> memoryview:
        """Leave it to the host."""
        return self._host.room(n_bytes)

    def abort(self, reason: str) -> None:
        """Let the operations of all workers fail."""
        self._host.abort(reason)

    def reduce_on_devices(self, values: Any, out: Any, n: int, is_narrow: bool) -> None:
        """Add up the buffers of all workers' devices, of which each gets its share, and wait.

        values  int32 or int64 (n_workers, n)  in   is_narrow: int32
        out     the same type (n,)             out

        All workers have just exchanged something, and nothing has gone wrong since: none is missing.
        """
        begun = time.perf_counter()
        dtype = np.dtype(np.int32 if is_narrow else np.int64)
        self._devices.reduce_scatter(values, out, n, dtype)
        if not self._devices.wait(self.timeout):
            self._devices.abort()  # else whoever frees the device would wait on
            raise self._lost("histograms on devices")
        self.traffic.operations += 1
        self.traffic.bytes_sent += (self.size - 1) * n * dtype.itemsize
        self.traffic.seconds += time.perf_counter() - begun

    def __enter__(self) -> NcclCollective:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._devices.close()
        else:
            self._devices.abort()


def device_name(local: Engine) -> str:
    """Return what names an engine's CUDA device on all machines; "": it has none, or there is no NCCL for it."""
    if not isinstance(local, GpuEngine) or not local.can_share_trees or os.environ.get(SWITCH) == "0":
        return ""
    name = getattr(local.workspace.runtime, "identity", "")
    return str(name) if name and nccl.is_available() else ""

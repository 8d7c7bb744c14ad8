"""Processes that mpiexec has started, as workers: messages go through mpi4py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hornbeam.core.errors import CollectiveError, HornbeamError
from hornbeam.distributed.collective import ABORT_TAG, DEFAULT_TIMEOUT, Buffer, Collective, Received, lost

LOOK_SECONDS = 0.0002
"""A worker that waits looks this often, after a first look without a pause."""

ABORT_SECONDS = 60.0
"""A worker that gives up waits no longer than this for the others to hear it."""

PATIENCE = 0.002
"""Seconds of looking without a pause: messages of a few bytes take some microseconds."""


class MpiCollective(Collective):
    """The end of one process.

    communicator  mpi4py communicator of the workers; None: all processes of mpiexec
    """

    def __init__(self, communicator: Any = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise HornbeamError(
                f"training by MPI needs {error.name} and an MPI library: pip install 'hornbeam[mpi]' mpich"
            ) from None
        world = MPI.COMM_WORLD if communicator is None else communicator
        self._communicator = world.Dup()  # messages of ours meet no others
        self._mpi = MPI
        super().__init__(world.Get_rank(), world.Get_size(), timeout)

    def _exchange(self, messages: Sequence[Buffer | None], tag: int, what: str) -> list[Received]:
        """Tell tag and sizes, to all, then send the messages."""
        heads = np.array(
            [(tag, 0 if message is None else memoryview(message).nbytes) for message in messages], np.int64
        )
        coming = np.empty((self.size, 2), np.int64)
        self._wait(self._communicator.Ialltoall(heads, coming), what)
        received: list[Buffer] = [bytearray(size) for size in coming[:, 1].tolist()]
        requests = []
        for other, message in enumerate(messages):
            if other == self.rank:
                received[other] = b"" if message is None else message
            elif message is not None:
                requests.append(self._communicator.Irecv([received[other], self._mpi.BYTE], other))
                requests.append(self._communicator.Isend([message, self._mpi.BYTE], other))
        for request in requests:
            self._wait(request, what)
        return list(zip(coming[:, 0].tolist(), received, strict=True))

    def _wait(self, request: Any, what: str) -> None:
        """Wait for a request, but not for ever."""
        begun = time.perf_counter()
        while not request.Test():
            waited = time.perf_counter() - begun
            if waited > self.timeout:
                others = [rank for rank in range(self.size) if rank != self.rank]
                raise lost(self.rank, others, what, self.timeout)
            if waited > PATIENCE:
                time.sleep(LOOK_SECONDS)

    def abort(self, reason: str) -> None:
        """Answer the others, who are at their next operation or give up too, that this worker gives up."""
        if self.size == 1 or self.is_over:
            return
        self.is_over, self.timeout = True, min(self.timeout, ABORT_SECONDS)
        with suppress(CollectiveError):
            self._exchange([reason.encode()] * self.size, ABORT_TAG, "the end of the training")

"""Collectives: the few things that workers say to each other.

A collective is one worker's end of a group of `size` workers, numbered 0, 1, ... (`rank`). All of them call the same
operations in the same order. A transport provides one of them, `_exchange`: every worker has a message for every other
one. The rest is made of it:

    exchange        a message to each worker, one from each
    all_gather      the bytes of every worker, on every worker
    broadcast       the bytes of one worker, on every worker
    reduce_scatter  sums of integers; each worker gets its section of them
    all_reduce      sums of integers, on every worker

Sums are of integers, so that their order cannot be seen. Every wait has a limit. Every message bears the name of its
operation: workers that have lost step with each other get an error, never each other's numbers. A message is anything
that has bytes (`Buffer`), and is not copied where the transport need not: its sender leaves it as it is until it has
ended the next operation, and its receiver has read it when it begins the next one.
"""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import CollectiveError

DEFAULT_TIMEOUT = 600.0
"""Seconds that a worker waits for the others in one operation: the others may be reading their data meanwhile."""

SMALL_BYTES = 4096
"""Arrays up to this size are added up from an all_gather, in one step, rather than in sections, in two."""

Buffer = bytes | bytearray | memoryview
"""The bytes of a message."""

Received = tuple[int, Buffer]
"""Tag and bytes of a message."""

ABORT_TAG = -1
"""Tag of a message that says why its sender gives up, in the place of the one that is waited for."""


@dataclass(slots=True)
class Traffic:
    """What one worker has sent.

    operations  that were called
    bytes_sent  to other workers
    seconds     spent in operations, waiting included
    """

    operations: int = 0
    bytes_sent: int = 0
    seconds: float = 0.0


class Collective(ABC):
    """One worker's end of a group.

    rank     number of this worker
    size     number of workers
    timeout  seconds to wait for the others in one operation
    traffic  what was sent so far
    is_over  whether a worker has given up
    """

    def __init__(self, rank: int, size: int, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.traffic = Traffic()
        self.is_over = False
        self._rooms = np.empty(0, np.uint8), np.empty(0, np.uint8)

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to ask: the worker trains as one process does."""
        return self.size == 1

    @abstractmethod
    def _exchange(self, messages: Sequence[Buffer | None], tag: int, what: str) -> list[Received]:
        """Send message i to worker i, and return tag and message that each worker has sent here; see `exchange`.

        messages  None: nothing goes to a worker, and nothing comes from it; it knows of that
        tag       of the operation, 0 <= tag < 2**32
        """

    @abstractmethod
    def abort(self, reason: str) -> None:
        """Let the operations of all workers fail, those that they wait in included: this one cannot go on."""

    def look(self, what: str) -> None:  # noqa: B027 - most hear of it in operations alone
        """Raise where this end has heard, beside an operation, that the group was aborted."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Free what this end holds; no operation follows."""

    def room(self, n_bytes: int) -> memoryview:
        """Return memory for the messages of the next operation; workers of one host read them there."""
        first, second = self._rooms
        self._rooms = second, first if len(first) >= n_bytes else np.empty(n_bytes * 5 // 4, np.uint8)
        return self._rooms[1].data[:n_bytes]

    def exchange(self, messages: Sequence[Buffer], what: str) -> list[Buffer]:
        """Send message i to worker i, and return what each worker has sent here, by its number.

        what  name of the operation, for errors
        """
        begun = time.perf_counter()
        tag = zlib.crc32(what.encode())
        received = [(tag, messages[0])] if self.size == 1 else self._exchange(messages, tag, what)
        for sender, (given, message) in enumerate(received):
            if given == ABORT_TAG:
                self.is_over = True
                raise failed(self.rank, sender, what, bytes(message).decode())
        for sender, (given, _) in enumerate(received):
            if given != tag:
                raise CollectiveError(
                    f"worker {self.rank} is at {what!r} and worker {sender} at something else: workers must get the "
                    "same parameters, and callbacks must decide alike on all of them"
                )
        self.traffic.operations += 1
        self.traffic.bytes_sent += sum(memoryview(m).nbytes for i, m in enumerate(messages) if i != self.rank)
        self.traffic.seconds += time.perf_counter() - begun
        return [message for _, message in received]

    def all_gather(self, message: Buffer, what: str) -> list[Buffer]:
        """Return the message of every worker."""
        return self.exchange([message] * self.size, what)

    def broadcast(self, message: Buffer, root: int, what: str) -> Buffer:
        """Return the message of worker `root`; what the others pass is not looked at."""
        return self.exchange([message if self.rank == root else b""] * self.size, what)[root]

    def gather_array(self, values: NDArray[Any], what: str) -> NDArray[Any]:
        """Return the array of every worker, all of one shape and type, as (n_workers, *shape)."""
        values = np.ascontiguousarray(values)
        received = self.all_gather(values.tobytes(), what)
        return np.frombuffer(b"".join(received), values.dtype).reshape(self.size, *values.shape)

    def sums_and_largest(self, sums: Sequence[int], largest: Sequence[Any], what: str) -> tuple[list[int], list[Any]]:
        """Return sums over all workers, and the largest of floats, in the shape they have; in one operation.

        largest  none is below 0, so that they have the order of their bits
        """
        bits = np.array(largest, np.float64).view(np.int64)
        every = self.gather_array(np.concatenate([np.array(sums, np.int64), bits.ravel()]), what)
        most = every[:, len(sums) :].max(axis=0).view(np.float64)
        return every[:, : len(sums)].sum(axis=0).tolist(), most.reshape(bits.shape).tolist()

    def reduce_scatter(self, values: NDArray[Any], sections: Sequence[slice], what: str) -> NDArray[Any]:
        """Return the sum over all workers of this worker's section of the last axis but one.

        values    integers (n, m, k)  in
        sections  of the m entries, one a worker; they may be empty
        """
        own = values[:, sections[self.rank]]
        total = own if len(sections) == 1 else own.copy()
        room, to_others, done = self.room(values.nbytes - own.nbytes), list[Buffer](), 0
        for rank, section in enumerate(sections):
            part = values[:, section if rank != self.rank else slice(0)]
            to_others.append(room[done : done + part.nbytes])
            np.frombuffer(to_others[-1], values.dtype).reshape(part.shape)[...] = part
            done += part.nbytes
        for sender, message in enumerate(self.exchange(to_others, what)):
            if sender != self.rank:
                total += np.frombuffer(message, values.dtype).reshape(total.shape)
        return total

    def all_reduce(self, values: NDArray[Any], what: str) -> None:
        """Replace integers by their sums over all workers.

        values  integers, C order  in, out
        """
        if values.nbytes <= SMALL_BYTES or self.size == 1:
            values[...] = self.gather_array(values, what).sum(axis=0, dtype=values.dtype)
            return
        flat = values.reshape(1, -1, 1)
        bounds = [flat.shape[1] * i // self.size for i in range(self.size + 1)]
        sections = [slice(*pair) for pair in pairwise(bounds)]
        own = self.reduce_scatter(flat, sections, f"{what}, sums")
        received = self.all_gather(own.tobytes(), what)
        values[...] = np.frombuffer(b"".join(received), values.dtype).reshape(values.shape)


def lost(rank: int, others: Sequence[int], what: str, seconds: float) -> CollectiveError:
    """Return the error of a worker that has waited too long."""
    named = ", ".join(map(str, others))
    return CollectiveError(
        f"worker {rank} waited {seconds:g} s in {what!r} for worker{'s' * (len(others) > 1)} {named}, which failed or "
        "took longer than the limit (timeout=)"
    )


def failed(rank: int, other: int, what: str, reason: str) -> CollectiveError:
    """Return the error of a worker whose group was aborted by another one."""
    return CollectiveError(f"worker {rank} stopped in {what!r}, because worker {other} failed: {reason}")

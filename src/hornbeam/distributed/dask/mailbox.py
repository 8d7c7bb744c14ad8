"""Workers of a Dask cluster as a group: messages go over the connections that Dask itself has between its workers.

A handler is entered on every worker of a training, as Dask's peer-to-peer shuffle enters its own. So there is no port
to open, and TLS is used where the cluster uses it. Messages lie in a mailbox until the training, which runs in a task
on another thread, fetches them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from hornbeam.core.errors import CollectiveError
from hornbeam.distributed.collective import Buffer, Collective, Received, failed, lost

RECEIVE, ABORT = "hornbeam_receive", "hornbeam_abort"
"""Names of the handlers."""


class Mailbox:
    """The messages for one worker of one group.

    messages  with their tags, by (number of the operation, sender)
    aborted   worker that gave up, and why; None: none did
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: dict[tuple[int, int], tuple[int, Buffer]] = {}
        self.aborted: tuple[int, str] | None = None

    def put(self, number: int, sender: int, tag: int, message: Buffer) -> None:
        """Lay a message in."""
        with self.changed:
            self.messages[number, sender] = tag, message
            self.changed.notify_all()

    def wake(self) -> None:
        """Let whoever waits look again."""
        with self.changed:
            self.changed.notify_all()

    def abort(self, sender: int, reason: str) -> None:
        """Let whoever waits stop."""
        with self.changed:
            if self.aborted is None:
                self.aborted = sender, reason
            self.changed.notify_all()


MAILBOXES: dict[tuple[str, int], Mailbox] = {}
"""By group and number of the worker: workers may be threads of one process."""


STATES: dict[str, bytes] = {}
"""The last state of each training that this process has kept, for another attempt."""


LOOK_SECONDS = 0.2
"""A worker that waits looks this often whether the client is still there."""


def task_key(group: str, rank: int) -> str:
    """Return how Dask calls the task of a worker."""
    return f"hornbeam-train-{group}-{rank}"


def kept_state(training: str) -> bytes | None:
    """Return what this process has kept of a training."""
    return STATES.get(training)


def forget_state(training: str) -> None:
    """Forget it."""
    STATES.pop(training, None)


async def receive(group: str, rank: int, number: int, sender: int, tag: int, message: Any) -> None:
    """Take a message from another worker; that of a group that has ended here is for nobody."""
    mailbox = MAILBOXES.get((group, rank))
    if mailbox is not None:
        mailbox.put(number, sender, tag, message)


async def take_abort(group: str, rank: int, sender: int, reason: str) -> None:
    """Take the news that a worker gave up."""
    mailbox = MAILBOXES.get((group, rank))
    if mailbox is not None:
        mailbox.abort(sender, reason)


def open_mailbox(group: str, ranks: dict[str, int], training: str | None, dask_worker: Any) -> str:
    """Prepare a Dask worker for a training; returns the version of Hornbeam there.

    training  name under which its state is kept; those of others, whose clients are gone, are forgotten
    """
    import hornbeam

    for other in [name for name in STATES if name != training]:
        forget_state(other)
    dask_worker.handlers[RECEIVE], dask_worker.handlers[ABORT] = receive, take_abort
    MAILBOXES[group, ranks[dask_worker.address]] = Mailbox()
    return hornbeam.__version__


def close_mailbox(group: str, ranks: dict[str, int], reason: str | None, dask_worker: Any) -> None:
    """Forget a training; where there is a reason, let it stop."""
    mailbox = MAILBOXES.pop((group, ranks[dask_worker.address]), None)
    if mailbox is not None and reason is not None:
        mailbox.abort(-1, reason)


class DaskCollective(Collective):
    """The end of one Dask worker.

    worker     distributed.Worker that the task runs on
    addresses  of all workers, by number
    """

    def __init__(self, group: str, worker: Any, addresses: list[str], timeout: float) -> None:
        super().__init__(addresses.index(worker.address), len(addresses), timeout)
        self._group, self._worker, self._addresses = group, worker, addresses
        self._mailbox = MAILBOXES[group, self.rank]
        self._n_done = 0
        self._sending: list[Future[None]] = []

    def _begin(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Let the event loop of the Dask worker do something."""
        return asyncio.run_coroutine_threadsafe(work, self._worker.loop.asyncio_loop)

    def _exchange(self, messages: Sequence[Buffer | None], tag: int, what: str) -> list[Received]:
        """Send all messages at once, and wait for those of the others; a worker that is gone holds up nobody.

        That the others have got theirs is not waited for, and they do not answer: who could not be reached is told in
        this operation or in a later one, and the client sees a worker that is gone.
        """
        number, mailbox = self._n_done, self._mailbox
        self._n_done += 1
        mailbox.put(number, self.rank, tag, messages[self.rank] or b"")
        self._sending = [each for each in self._sending if not each.done() or each.exception() is not None]
        self._sending.append(self._begin(self._send(number, messages, tag, what)))
        self._sending[-1].add_done_callback(lambda _: mailbox.wake())
        keys = [(number, sender) for sender, each in enumerate(messages) if each is not None or sender == self.rank]
        with mailbox.changed:

            def is_over() -> bool:
                has_failed = any(each.done() and each.exception() is not None for each in self._sending)
                return mailbox.aborted is not None or has_failed or all(key in mailbox.messages for key in keys)

            stop_at = time.monotonic() + self.timeout
            while not mailbox.changed.wait_for(is_over, min(LOOK_SECONDS, max(stop_at - time.monotonic(), 0.0))):
                self.look(what)
                if time.monotonic() >= stop_at:
                    raise lost(self.rank, [key[1] for key in keys if key not in mailbox.messages], what, self.timeout)
            self.look(what)
            for each in self._sending:
                if each.done():
                    each.result()  # raises where a worker cannot be reached
            found = {key[1]: mailbox.messages.pop(key) for key in keys}
        return [found.get(sender, (tag, b"")) for sender in range(self.size)]

    def look(self, what: str) -> None:
        """Raise where a worker gave up, or the client did, or is gone: then Dask has cancelled the task."""
        if self._mailbox.aborted is not None:
            other, reason = self._mailbox.aborted
            raise failed(self.rank, other, what, reason) if other >= 0 else self._ended(what, reason)
        task = self._worker.state.tasks.get(task_key(self._group, self.rank))
        if task is None or task.state == "cancelled":
            raise self._ended(what, "the client is gone, or has cancelled the training")

    def _ended(self, what: str, reason: str) -> CollectiveError:
        return CollectiveError(f"worker {self.rank} stopped in {what!r}: {reason}")

    def close(self) -> None:
        """Take no more messages."""
        MAILBOXES.pop((self._group, self.rank), None)

    async def _send(self, number: int, messages: Sequence[Buffer | None], tag: int, what: str) -> None:
        from distributed.protocol import to_serialize

        async def send(rank: int) -> None:
            call = self._worker.rpc(self._addresses[rank]).hornbeam_receive
            try:
                await call(
                    group=self._group, rank=rank, number=number, sender=self.rank, tag=tag,
                    message=to_serialize(messages[rank]), reply=False,
                )  # fmt: skip
            except OSError as error:
                raise CollectiveError(
                    f"worker {self.rank} cannot reach worker {rank} ({self._addresses[rank]}) in {what!r}: {error}"
                ) from None

        others = (rank for rank, message in enumerate(messages) if rank != self.rank and message is not None)
        await asyncio.gather(*(send(rank) for rank in others))

    def abort(self, reason: str) -> None:
        """Tell the others, as far as they can be reached, without waiting for it."""

        async def tell() -> None:
            calls = [
                self._worker.rpc(address).hornbeam_abort(group=self._group, rank=rank, sender=self.rank, reason=reason)
                for rank, address in enumerate(self._addresses)
                if rank != self.rank
            ]
            await asyncio.gather(*calls, return_exceptions=True)

        self._begin(tell())

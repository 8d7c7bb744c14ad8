"""Workers as threads of one process: for tests, and for several GPUs of one machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from hornbeam.core.errors import CollectiveError
from hornbeam.distributed.collective import DEFAULT_TIMEOUT, Buffer, Collective, Received, failed, lost

Result = TypeVar("Result")


class Board:
    """Where messages lie until they are fetched.

    messages  with their tags, by (number of the operation, sender, receiver)
    aborted   worker that gave up, and why; None: none did
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: dict[tuple[int, int, int], tuple[int, Buffer]] = {}
        self.aborted: tuple[int, str] | None = None


class ThreadCollective(Collective):
    """The end of one thread."""

    def __init__(self, rank: int, size: int, board: Board, timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(rank, size, timeout)
        self._board = board
        self._n_done = 0

    def _exchange(self, messages: Sequence[Buffer | None], tag: int, what: str) -> list[Received]:
        """Lay messages on the board, and wait for those of the others."""
        board, number = self._board, self._n_done
        self._n_done += 1
        keys = [(number, sender, self.rank) for sender, message in enumerate(messages) if message is not None]
        with board.changed:
            for receiver, message in enumerate(messages):
                if message is not None:
                    board.messages[number, self.rank, receiver] = tag, message
            board.changed.notify_all()

            def is_over() -> bool:
                return board.aborted is not None or all(key in board.messages for key in keys)

            if not board.changed.wait_for(is_over, self.timeout):
                raise lost(self.rank, [key[1] for key in keys if key not in board.messages], what, self.timeout)
            self.look(what)
            found = {key[1]: board.messages.pop(key) for key in keys}
        return [found.get(sender, (tag, b"")) for sender in range(self.size)]

    def look(self, what: str) -> None:
        """Raise where a worker gave up."""
        if self._board.aborted is not None:
            raise failed(self.rank, self._board.aborted[0], what, self._board.aborted[1])

    def abort(self, reason: str) -> None:
        """Wake the others."""
        with self._board.changed:
            if self._board.aborted is None:
                self._board.aborted = self.rank, reason
            self._board.changed.notify_all()


def run_workers(n_workers: int, work: Callable[[Collective], Result], timeout: float = DEFAULT_TIMEOUT) -> list[Result]:
    """Call `work` in a thread a worker, each with its end of a group, and return the results.

    When a worker fails the others stop too, and its error is raised.
    """
    board, results, errors = Board(), dict[int, Result](), dict[int, BaseException]()

    def run(rank: int) -> None:
        collective = ThreadCollective(rank, n_workers, board, timeout)
        try:
            results[rank] = work(collective)
        except BaseException as error:
            errors[rank] = error
            collective.abort(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(rank,), name=f"hornbeam-worker-{rank}") for rank in range(n_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise first_cause(list(errors.values()))
    return [results[rank] for rank in range(n_workers)]


def first_cause(errors: list[BaseException]) -> BaseException:
    """Return the error that the others followed from: the first that is not one of a group being aborted."""
    return next((error for error in errors if not isinstance(error, CollectiveError)), errors[0])

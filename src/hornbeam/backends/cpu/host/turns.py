"""Locks that processes share: whose turn it is to compile something."""

from __future__ import annotations

import os
import time


class Turn:
    """A lock in a file, which goes with the process that has it. Where there can be none, everybody has a turn."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self, patience: float) -> bool:
        """Wait for the lock, so many seconds at most; False: another process has it still."""
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return True
        end = time.monotonic() + patience
        while not _lock(descriptor):
            if time.monotonic() >= end:
                os.close(descriptor)
                return False
            time.sleep(0.02)
        self._descriptor = descriptor
        return True

    def give(self) -> None:
        """Let the next process have the lock: closing the file releases it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int) -> bool:
    """Try to lock a file; True also where files cannot be locked."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True

"""A lock on a name in a folder: one holder at a time, in this process or another, and none after a crash.

The lock is one of the operating system's, on a file beside, so it ends with the process that holds it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import IO, Any

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # Windows
    fcntl = None


class FileLock:
    """Holds a lock file from `take` to `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def take(self) -> bool:
        """Take the lock; returns False if somebody else holds it. OSError: the file cannot be made."""
        while True:
            file = self.path.open("ab")
            if not _lock(file):
                file.close()
                return False
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    self._file = file
                    return True
            file.close()  # its last holder has taken the file away meanwhile

    def release(self) -> None:
        """Give the lock back, and take the file away."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self._file.close()
            self._file = None


def _lock(file: IO[bytes]) -> bool:
    """Lock a file without waiting; returns whether that went well."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            msvcrt: Any = importlib.import_module("msvcrt")
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True

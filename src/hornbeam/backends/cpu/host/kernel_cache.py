"""Kernels that Numba has compiled, on disk: a cache that may fail, and never fails a training.

Numba's own cache raises where its folder cannot be written, where the disk is full and where a file is damaged; it does
not notice that a kernel in another file has changed, which is part of the compiled code too; and two processes that
save at once may mix up their files. Here

- every failure to read is a miss, and every failure to write is told once in a process, with the folder and what helps;
- files belong to a hash of all kernel sources (sources.py), and are checked before they are used;
- a process that compiles a kernel holds a lock, and the others wait for what it saves, so that processes which start
  together compile a kernel once.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

from hornbeam.backends.cpu.host.sources import source_hash
from hornbeam.backends.cpu.host.turns import Turn
from hornbeam.core.log import warn

DIGEST_BYTES = 16

PATIENCE = 120.0
"""Seconds to wait for another process to compile a kernel; then this one does."""

A_LOOK = 0.2
"""Seconds between two looks for what that process has saved; it may go on to compile the kernel for other types."""

REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written, or install a wheel with compiled kernels"

_told: set[str] = set()


def _tell(problem: str) -> None:
    """Warn, once in a process, that compiled kernels are not kept."""
    if not _told:
        _told.add(problem)
        warn(f"compiled kernels are not kept for the next process: {problem}; {REMEDY}")


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The files of a kernel; each starts with a digest, and says what it belongs to."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        pair = super().load(key)
        return pair[1] if pair is not None and pair[0] == key else None

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(_digest(content) + content)

    def _load_data(self, name: str) -> Any:
        import pickle

        whole = Path(self._data_path(name)).read_bytes()
        content = whole[DIGEST_BYTES:]
        if _digest(content) != whole[:DIGEST_BYTES]:
            raise ValueError(f"{name} is damaged")
        return pickle.loads(content)  # noqa: S301 - written by this class


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The cache of one kernel."""

    def __init__(self, py_func: Any) -> None:
        try:
            super().__init__(py_func)
        except (OSError, RuntimeError) as error:  # no folder can be written
            folder = config.CACHE_DIR or str(Path(py_func.__code__.co_filename).parent)
            _tell(f"no folder for them can be written ({folder}: {error})")
            self._cache_path, self._turn, self._cache_file = folder, None, None
            self.disable()
            return
        base = self._impl.filename_base
        self._cache_file = _CheckedFiles(self._cache_path, base, source_hash())
        self._turn = Turn(os.path.join(self._cache_path, f"{base}.lock"))  # noqa: PTH118 - strings, as Numba's

    @property
    def is_kept(self) -> bool:
        """Whether other processes will find what is compiled here."""
        return bool(self._enabled)

    def has_turn(self) -> bool:
        """Take the turn to compile the kernel now, or to read it; False: another process is compiling it."""
        return self._turn is None or self._turn.take(0.0)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a compiled kernel, None if there is none; then the caller compiles it, and is waited for."""
        if not self._enabled:
            return None
        result = self._try_to_load(sig, target_context)
        end = time.monotonic() + PATIENCE
        while result is None and self._turn is not None:
            has_turn = self._turn.take(A_LOOK)
            result = self._try_to_load(sig, target_context)
            if result is not None:
                self._turn.give()
            elif has_turn or time.monotonic() > end:
                break
        return result

    def _try_to_load(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever a damaged file may lead to
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel if that is possible."""
        if not self._enabled:
            return
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:  # the index is damaged
                self.flush()
                super().save_overload(sig, data)
        except Exception as error:
            _tell(f"{self._cache_path}: {getattr(error, 'strerror', None) or error}")
            self.disable()
        finally:
            if self._turn is not None:
                self._turn.give()

    def flush(self) -> None:
        """Forget what is kept."""
        if self._cache_file is not None:
            super().flush()

"""Compiled kernel files of one device, each compiled at first use, or in the background before that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from hornbeam.backends.gpu.runtime.runtime import Variant, timed_compilation
from hornbeam.core.cpus import available_cpus

MOST_THREADS = 8
"""Files that are compiled at once: the 14 of a training take NVRTC 13 on an H200's host 5.1 s in turn, 1.6 s with 4
threads, 1.4 s with 8 and 1.2 s with 16."""


class Programs:
    """The programs of a device by variant.

    build   compiles one; it is called from any thread
    device  for messages
    """

    def __init__(self, build: Callable[[Variant], Any], device: str) -> None:
        self._build, self._device = build, device
        self._ready: dict[Variant, Any] = {}
        self._soon: dict[Variant, Future[Any]] = {}

    def begin(self, variants: Iterable[Variant]) -> None:
        """Compile files in the background, the first ones first; whoever needs one waits for it in `get`."""
        new = [variant for variant in dict.fromkeys(variants) if variant not in self._ready | self._soon]
        if not new:
            return
        with_threads = ThreadPoolExecutor(min(MOST_THREADS, available_cpus(), len(new)), "hornbeam-compile")
        self._soon.update((variant, with_threads.submit(self._build, variant)) for variant in new)
        with_threads.shutdown(wait=False)  # its threads end with the last file

    def get(self, variant: Variant) -> Any:
        """Return a program, or raise what the compiler says."""
        if variant not in self._ready:
            self._ready[variant] = timed_compilation(lambda: self._compiled(variant), self._device)
        return self._ready[variant]

    def _compiled(self, variant: Variant) -> Any:
        """Wait for a file that was begun; what failed in the background fails again where it is needed."""
        begun = self._soon.pop(variant, None)
        return self._build(variant) if begun is None or begun.exception() is not None else begun.result()

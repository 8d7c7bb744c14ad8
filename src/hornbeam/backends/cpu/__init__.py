"""The CPU backend: Numba kernels, compiled at first use and cached on disk.

The first compilation on a machine says so in one line; Numba's own events tell when a kernel is really compiled and
not read from the cache.
"""

from __future__ import annotations

from typing import Any

from numba.core import event

from hornbeam.core.log import current_verbosity, inform


class _CompilationNotice(event.Listener):  # type: ignore[misc]
    """Says once in a process that kernels are being compiled."""

    said = False

    def on_start(self, compilation: Any) -> None:
        if not self.said and compilation.data["dispatcher"].py_func.__module__.startswith("hornbeam."):
            self.said = current_verbosity() >= 1
            inform("compiling CPU kernels: this happens once on a machine and takes some seconds")

    def on_end(self, compilation: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _CompilationNotice())

"""Kernels that only kernels call are not finished: it halves the time that Numba takes.

Numba optimises every function and turns it into machine code, and does both again with everything that links it in. Of
an inner kernel only the second is used. Its code is left as it was written here, until the kernel that Python calls is
optimised with it; the outcome is as fast, and the library of compiled kernels is made the same way (kernels/export.py).

This takes more of Numba than its public face. Where another version has not what is needed, kernels are compiled as
Numba does it.
"""

from __future__ import annotations

from typing import Any

from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target

NEEDED = ("_optimize_functions", "_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
"""Methods of Numba's that are replaced or called here."""


class _NoEnvironment:
    """A code generator for code that is never run by itself, so that there is nothing to be told to it."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing."""


class _Unfinished(JITCodeLibrary):  # type: ignore[misc]
    """The code of an inner kernel, as it was written."""

    @property
    def codegen(self) -> Any:
        """The code generator."""
        return _NoEnvironment(self._codegen)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return something that is not none: it is never called."""
        return 1


class _Watch(event.Listener):  # type: ignore[misc]
    """Knows whether what is being compiled is an inner kernel."""

    def __init__(self) -> None:
        self.inner: list[bool] = []

    def on_start(self, compilation: Any) -> None:
        dispatcher = compilation.data["dispatcher"]
        module = getattr(dispatcher.py_func, "__module__", None) or ""
        is_inner = bool(dispatcher.targetoptions.get("no_cpython_wrapper")) and module.startswith("hornbeam.")
        self.inner.append(is_inner)

    def on_end(self, compilation: Any) -> None:
        if self.inner:
            self.inner.pop()


def leave_unfinished() -> bool:
    """Let Numba leave inner kernels unfinished from now on; False: this version of it cannot."""
    if not all(hasattr(JITCodeLibrary, name) for name in NEEDED):
        return False
    watch = _Watch()
    codegen = cpu_target.target_context.codegen()
    create = codegen.create_library

    def create_library(name: str, **options: Any) -> Any:
        is_inner = bool(watch.inner) and watch.inner[-1]
        return _Unfinished(codegen, name, **options) if is_inner else create(name, **options)

    unserialize = codegen.unserialize_library

    def unserialize_library(serialized: Any) -> Any:
        watch.inner.append(False)  # what comes from the cache is finished, also where an inner kernel asked for it
        try:
            return unserialize(serialized)
        finally:
            watch.inner.pop()

    codegen.create_library = create_library
    codegen.unserialize_library = unserialize_library
    event.register("numba:compile", watch)
    return True

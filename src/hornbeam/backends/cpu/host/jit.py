"""Kernels that Numba compiles: all of them in a source checkout, in a wheel those that its library has not.

Numba is imported here, in instructions.py and in kernel_cache.py, and these are imported when a kernel is compiled.
"""

from __future__ import annotations

import gc
from typing import Any

from hornbeam.backends.cpu.host import kernels
from hornbeam.core.errors import DeviceError
from hornbeam.core.log import current_verbosity, inform

try:
    from numba import njit
    from numba.core import event, types
    from numba.core.typing.templates import infer, infer_global, make_intrinsic_template
except ImportError as error:
    raise DeviceError(
        "this installation of Hornbeam has no compiled CPU kernels for this machine or this work, and Numba, which "
        f"would compile them, is not there ({error}): pip install 'hornbeam[jit]'"
    ) from error

from hornbeam.backends.cpu.host import instructions
from hornbeam.backends.cpu.host.kernel_cache import KernelCache
from hornbeam.backends.cpu.host.library import the_library
from hornbeam.backends.cpu.host.unfinished import leave_unfinished
from hornbeam.backends.cpu.host.warming import start_helpers


class CompilationNotice(event.Listener):  # type: ignore[misc]
    """Says once in a process that kernels are being compiled, and not read from the cache, and gets help.

    Meanwhile no garbage is collected: the compiler makes many objects that stay, and looking through them again and
    again takes a tenth of the time.
    """

    said = False
    helpers: Any = None
    n_open = 0  # compilations of kernels of ours, one within the other
    collects = False  # what collected garbage before the outermost of them

    def on_start(self, compilation: Any) -> None:
        """Speak if the function is a kernel of ours."""
        dispatcher = compilation.data["dispatcher"]
        if not _is_kernel(dispatcher):
            return
        if self.n_open == 0:
            self.collects = gc.isenabled()
            gc.disable()
        self.n_open += 1
        if not self.said:
            self.said = current_verbosity() >= 1
            inform("compiling CPU kernels: this happens once on a machine and takes some seconds")
        cache = getattr(dispatcher, "_cache", None)
        if self.helpers is None and isinstance(cache, KernelCache) and cache.is_kept and the_library() is None:
            self.helpers = start_helpers(cache.cache_path)

    def on_end(self, compilation: Any) -> None:
        """Say nothing."""
        if _is_kernel(compilation.data["dispatcher"]):
            self.n_open -= 1
            if self.n_open == 0 and self.collects:
                gc.enable()


def _is_kernel(dispatcher: Any) -> bool:
    """Whether a function is a kernel of ours; functions made by exec may have no module."""
    return (getattr(dispatcher.py_func, "__module__", None) or "").startswith(kernels.PACKAGE)


_n_told = [0]


def tell_numba() -> None:
    """Tell Numba of the instructions that have been made since the last time."""
    for stub in kernels.instructions[_n_told[0] :]:
        template = make_intrinsic_template(stub, getattr(instructions, stub.__name__), stub.__name__)
        infer(template)
        infer_global(stub, types.Function(template))
    _n_told[0] = len(kernels.instructions)


def make_dispatcher(kernel: kernels.Kernel) -> Any:
    """Make the object of Numba that compiles a kernel for the types that it is called with."""
    dispatcher = njit(**kernel.options)(kernel.py_func)
    is_finished = not (INNER_UNFINISHED and kernel.options.get("no_cpython_wrapper"))
    if kernel.is_cached and is_finished and hasattr(dispatcher, "_cache"):
        dispatcher._cache = KernelCache(kernel.py_func)
    return dispatcher


instructions.provide_system_calls()
tell_numba()
kernels.when_more.append(tell_numba)
event.register("numba:compile", CompilationNotice())
INNER_UNFINISHED = leave_unfinished()
"""Whether inner kernels are compiled as part of others alone; then there is nothing of them to keep."""

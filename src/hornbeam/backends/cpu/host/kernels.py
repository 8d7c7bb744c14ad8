"""How functions become kernels, and how arrays are handed to them.

    kernel                  called from Python; the interpreter lock is released
    inner_kernel            called by compiled code alone: what would let Python call it takes time to compile
    joined_kernel           the same, and the compiler puts it where it is called
    inlined                 the same, before types are known: for a few lines, as those that return an array
    allocating_kernel       a kernel that makes arrays, and counts who uses them
    allocating_inner_kernel an inner one; it returns no array

All but the allocating ones use the arrays that they are given, which who called them has as long as they run. To count
arrays takes code in every kernel that is compiled, and threads that count the same array wait for each other. Numba
refuses a kernel that makes an array, or returns one, and does not say that it does.

A kernel that Python calls comes from the shared library that was compiled when Hornbeam was built (library.py); where
there is none for such arguments, Numba compiles it (jit.py). Neither is loaded before a kernel is called.

Where one name must stand for several kernels, one for each kind of data, there is host/operations.py. `instruction`
makes a name for what only the compiler can do; instructions.py says what that is.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from hornbeam.core.lazy import lazy

OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
INNER = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

PACKAGE = "hornbeam.backends.cpu."
"""Kernels are named by what comes after this."""


def _loaded(name: str) -> Any:
    """Import "library" or "jit", which stand above this module, by name, when the first kernel is called."""
    return importlib.import_module(f"hornbeam.backends.cpu.host.{name}")


class Kernel:
    """A function that runs compiled.

    name        module and name, as the list of signatures has it
    py_func     the function itself
    options     for Numba
    is_cached   whether what Numba compiles is kept on disk
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any], is_cached: bool) -> None:
        functools.update_wrapper(self, function)
        self.name = f"{function.__module__}.{function.__qualname__}".removeprefix(PACKAGE)
        self.py_func = function
        self.options = options
        self.is_cached = is_cached
        self._run: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        run = self._run or self._prepare()
        return run(*arguments)

    def _prepare(self) -> Callable[..., Any]:
        """Decide where the kernel comes from, when it is called for the first time."""
        run: Callable[..., Any] = _loaded("library").ahead(self) or self.dispatcher
        self._run = run
        return run

    @property
    def is_at_hand(self) -> bool:
        """Whether a call need not load Numba: the kernel comes from the library, or Numba is loaded."""
        return self._run is not None or "numba" in sys.modules or _loaded("library").the_library() is not None

    @property
    def is_ready(self) -> bool:
        """Whether a call need not compile it: it comes from the library, or was compiled before."""
        run = self._run or self._prepare()
        return run is not self.__dict__.get("dispatcher") or bool(run.overloads)

    def compile_for(self, *arguments: Any) -> None:
        """Compile it for some arguments, or read it from the disk, without running it."""
        self.dispatcher.compile(tuple(self.dispatcher.typeof_pyval(argument) for argument in arguments))

    @lazy
    def dispatcher(self) -> Any:
        """The function as Numba compiles it."""
        return _loaded("jit").make_dispatcher(self)

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks of a name in the code that it compiles."""
        return self.dispatcher._numba_type_

    @property
    def targetoptions(self) -> Mapping[str, Any]:
        """What Numba asks of a function before it puts its lines where it is called."""
        return self.options

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


def _decorator(options: Mapping[str, Any], is_cached: bool = True) -> Callable[[Callable[..., Any]], Kernel]:
    return lambda function: Kernel(function, options, is_cached)


kernel = _decorator(OPTIONS)
inner_kernel = _decorator(INNER)
allocating_kernel = _decorator({**OPTIONS, "_nrt": True})
allocating_inner_kernel = _decorator({**INNER, "_nrt": True})
joined_kernel = _decorator({**OPTIONS, "forceinline": True})
inlined = _decorator({"nogil": True, "inline": "always"}, is_cached=False)

instructions: list[Callable[..., Any]] = []
"""Names that stand for instructions; jit.py tells Numba."""


when_more: list[Callable[[], None]] = []
"""What is done when there is more to tell: once Numba is here it must know before the next kernel is compiled."""


def instruction(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Make a name for something that only the compiler can do: a function of that name in instructions.py says what."""
    instructions.append(stub)
    _tell()
    return stub


def _tell() -> None:
    for tell in when_more:
        tell()

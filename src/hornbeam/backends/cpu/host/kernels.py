"""How functions become kernels, and how arrays are handed to them.

    kernel         called from Python; the interpreter lock is released
    inner_kernel   called by compiled code alone: what would let Python call it takes time to compile
    joined_kernel  the same, and the compiler puts it where it is called: a call counts every array as in use
    inlined        for numbers alone: its lines stand where it is called. With arrays the compiler would count them as
                   in use at each step of a loop, and no more so, which takes ten times as long as the rest

`kernels_by_kind` lets one name stand for several kernels, one for each kind of data: compiled code that calls it gets
the one for the type of an argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

OPTIONS = {"nogil": True, "error_model": "numpy"}
INNER = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

kernel = njit(**OPTIONS, cache=True)
inner_kernel = njit(**INNER, cache=True)
joined_kernel = njit(**OPTIONS, cache=True, forceinline=True)
inlined = njit(nogil=True, inline="always")


def is_compiled(kernel: Any) -> bool:
    """Say whether a kernel was compiled, or read from the disk, in this process."""
    return bool(kernel.overloads)


def compile_for(kernel: Any, *arguments: Any) -> None:
    """Compile a kernel for some arguments, or read it from the disk, without running it."""
    kernel.compile(tuple(kernel.typeof_pyval(argument) for argument in arguments))


def borrow(builder: Any, kind: Any, value: Any) -> Any:
    """Return a value whose arrays are counted as in use by nobody; tuples are gone through."""
    if isinstance(kind, types.Array):
        return builder.insert_value(value, cgutils.get_null_value(value.type.elements[0]), 0)
    if isinstance(kind, types.BaseTuple):
        for place, item in enumerate(kind):
            own = borrow(builder, item, builder.extract_value(value, place))
            value = builder.insert_value(value, own, place)
    return value


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing_context, value):  # type: ignore[no-untyped-def]
    """Return an argument whose arrays are not counted: who called the kernel has them, as long as it runs.

    Numba counts an array as in use whenever it is taken from a tuple. Threads that count the same arrays wait for each
    other, and a thread alone takes 80 nanoseconds a step of a loop.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return borrow(builder, signature.args[0], arguments[0])

    return value(value), generate


def kernels_by_kind(stub: Callable[..., Any], by: str, kernels: Mapping[type, Callable[..., Any]]) -> None:
    """Let compiled code that calls `stub` call the kernel for the class of its argument `by`, a NamedTuple.

    kernels  plain functions with the arguments of the stub, by class
    """
    place = list(inspect.signature(stub).parameters).index(by)

    def choose(*arguments: Any) -> Callable[..., Any] | None:
        return kernels.get(getattr(arguments[place], "instance_class", type(None)))

    choose.__signature__ = inspect.signature(stub)  # type: ignore[attr-defined]
    overload(stub, jit_options=INNER, strict=False)(choose)

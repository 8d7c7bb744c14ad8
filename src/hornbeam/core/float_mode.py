"""The floating point mode of a thread: models depend on its being the default.

Other libraries set modes that outlive their calls: flush-to-zero (anything linked with -ffast-math, PyTorch's
set_flush_denormal), or another direction of rounding. A thread has the mode of the one that started it. So whoever
computes what a model depends on does it in `default_mode`, which puts the thread's own mode back afterwards; it looks
with a few operations whether there is anything to do.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from hornbeam.core.errors import HornbeamError

ENVIRONMENT_BYTES = 256
"""Room for C's fenv_t, of which no system needs more than a few dozen bytes."""

_numbers = [5e-324, 1.0, 1e-20, 2.0**-1074 * 3.0]
"""Not constants, which a compiler would fold."""


def is_default() -> bool:
    """Say whether this thread keeps subnormal numbers and rounds to nearest."""
    smallest, one, little, third = _numbers
    keeps = smallest * one != 0.0 and third - smallest == smallest + smallest
    return keeps and one + little == one and one - little == one and -one - little == -one


_AS_IT_IS = nullcontext()


def default_mode() -> AbstractContextManager[None]:
    """Compute in the default mode, and put the thread's own mode back at the end.

    Raises HornbeamError where the mode is another one and cannot be set here.
    """
    return _AS_IT_IS if is_default() else _changed_mode()


@contextmanager
def _changed_mode() -> Iterator[None]:
    library = _math_library()
    before = ctypes.create_string_buffer(ENVIRONMENT_BYTES)
    if library is None or library.fegetenv(before) != 0 or library.fesetenv(_default_environment()) != 0:
        raise _other_mode()
    try:
        if not is_default():
            raise _other_mode()
        yield
    finally:
        library.fesetenv(before)


def _math_library() -> ctypes.CDLL | None:
    """Return C's library of floating point environments; None: it is not found."""
    if sys.platform == "win32":
        return None
    try:
        library = ctypes.CDLL(ctypes.util.find_library("m") or None)
        library.fegetenv, library.fesetenv  # noqa: B018  (whether they are there)
    except (OSError, AttributeError):
        return None
    library.fesetenv.argtypes = [ctypes.c_void_p]
    library.fegetenv.argtypes = [ctypes.c_void_p]
    return library


def _default_environment() -> ctypes.c_void_p:
    """Return FE_DFL_ENV: a pointer that stands for the default, or to it."""
    if sys.platform == "darwin":
        return ctypes.cast(ctypes.c_char.in_dll(ctypes.CDLL(None), "_FE_DFL_ENV"), ctypes.c_void_p)
    return ctypes.c_void_p(-1)  # glibc and musl


def _other_mode() -> HornbeamError:
    return HornbeamError(
        "this thread flushes small numbers to zero, or does not round to nearest, as some library has set it, and "
        "models would differ; put it back (torch.set_flush_denormal(False), fesetround(FE_TONEAREST)), or use another "
        "thread"
    )

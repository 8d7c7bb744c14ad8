"""Waking a CUDA device while Python still imports CuPy: each takes tenths of a second, and neither needs the other."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading

from hornbeam.backends.gpu.runtime.forks import why_no_driver

DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def wake_cuda(number: int) -> threading.Thread | None:
    """Begin to make the context of a device, which CuPy then finds; return the thread that does, None: none is needed.

    It is the context that CUDA's runtime makes at the first call which needs one. What fails here fails there again,
    with an error.
    """
    is_late = "cupy" in sys.modules or importlib.util.find_spec("cupy") is None
    if is_late or why_no_driver() is not None:
        return None
    thread = threading.Thread(target=_make_context, args=(number,), name="hornbeam-wakes-cuda", daemon=True)
    thread.start()
    return thread


def _make_context(number: int) -> None:
    try:
        driver = ctypes.CDLL(DRIVER)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), number) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    except (OSError, AttributeError):  # no driver, or none that we know
        return

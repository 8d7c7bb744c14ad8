"""CuPy's errors as Hornbeam's: what was done on which device, what went wrong, and what would help.

CuPy need not be there: its errors are known by the package that they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hornbeam.core.errors import DeviceError, DeviceMemoryError

OUT_OF_MEMORY = 2
"""cudaErrorMemoryAllocation, and CUDA_ERROR_OUT_OF_MEMORY of the driver."""

FATAL = frozenset((700, *range(709, 720)))
"""An illegal address, an illegal instruction, a failed launch and their like: the process has lost the device."""


def device_error(error: Exception, device: str, what: str) -> DeviceError | None:
    """Return what to raise instead of an error of CuPy's; None: it is somebody else's.

    device  its name
    what    was done: "copying to the device"
    """
    if type(error).__module__.partition(".")[0] not in ("cupy", "cupy_backends"):
        return None
    status = getattr(error, "status", 0)
    if isinstance(error, MemoryError) or status == OUT_OF_MEMORY:
        return DeviceMemoryError(
            f"{device} ran out of memory while {what} ({error}); fewer rows, fewer bins (max_bin=15 packs two bins a "
            "byte), a smaller histogram_pool_size, less memory held by other programs and arrays, or device='cpu' help"
        )
    remedy = "start the process anew to use the device again" if status in FATAL else "device='cpu' does without it"
    return DeviceError(f"{device} failed while {what}: {error}; {remedy}")


@contextmanager
def cupy_errors(device: str, what: str) -> Iterator[None]:
    """Raise DeviceError or DeviceMemoryError where CuPy raises its own errors; see `device_error`."""
    try:
        yield
    except Exception as error:
        ours = device_error(error, device, what)
        if ours is None:
            raise
        raise ours from error

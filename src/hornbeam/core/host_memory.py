"""How much memory of the host is free, as far as the system tells; what is refused for want of it, and given back."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from hornbeam.core.errors import DeviceMemoryError

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Return the bytes that a process may still take; None where the system does not tell."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    try:  # of a container
        most, held = ((GROUP / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        return min(free, max(0, int(most) - int(held)))
    except (OSError, ValueError):  # there is none, or it has no limit
        return free


def check_host_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise DeviceMemoryError before something is made that does not fit into the memory of the host."""
    free = free_bytes()
    if free is not None and n_bytes > free:
        raise DeviceMemoryError(
            f"{what} take {n_bytes / 2**20:,.0f} MB of memory, and {free / 2**20:,.0f} MB are free: {remedy} help"
        )


def give_back() -> None:
    """Give the system what was freed, and what Arrow and the C library keep for later."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)

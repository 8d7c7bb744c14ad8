"""Drivers of GPUs and `fork`: what they keep in a process does not work in its children, where calls may never return.

So a child that was forked after a driver had been asked for anything has no GPUs. This imports no driver.
"""

from __future__ import annotations

import os

from hornbeam.core.errors import DeviceError

FORKED = (
    "this process was forked from one that had used the drivers of GPUs, which do not work in such a child; start "
    "processes by multiprocessing's 'spawn' or 'forkserver' (joblib's do so by themselves), or use device='cpu'"
)

_asked = False
_lost = False


def _forget_drivers() -> None:
    global _asked, _lost
    _asked, _lost = False, _lost or _asked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_drivers)


def why_no_driver() -> str | None:
    """Return why drivers must not be asked for anything in this process; None: they are about to be."""
    global _asked
    if _lost:
        return FORKED
    _asked = True
    return None


def check_drivers() -> None:
    """Raise where drivers must not be asked for anything."""
    reason = why_no_driver()
    if reason is not None:
        raise DeviceError(reason)

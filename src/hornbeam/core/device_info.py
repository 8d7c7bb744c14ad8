"""A device, as users see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device: how to name it, whether it can be used, and what it is or why it cannot.

    compute_units  of a GPU, by which "auto" chooses; 0: it is none
    """

    name: str
    usable: bool
    description: str
    compute_units: int = 0

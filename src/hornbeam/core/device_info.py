"""A device, as users see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device.

    Attributes
    ----------
    name
        Value of the parameter `device`: "cpu", "cuda:0", ...
    usable
        Whether it can be used.
    description
        What it is, or why it cannot be used.
    compute_units
        Compute units of a GPU, by which "auto" chooses; 0: it is no GPU.
    """

    name: str
    usable: bool
    description: str
    compute_units: int = 0

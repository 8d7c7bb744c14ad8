"""Packages of Hornbeam that an installation may be without."""

from __future__ import annotations

from importlib.util import find_spec

from hornbeam.core.errors import HornbeamError


def require(name: str) -> None:
    """Raise unless the package `hornbeam.<name>` is there."""
    if find_spec(f"hornbeam.{name}") is None:
        raise HornbeamError(f"this version of Hornbeam has no package hornbeam.{name}; install a newer one")

"""Packages that are not installed with Hornbeam: imported when they are used, with an error that says what to do."""

from __future__ import annotations

import importlib
from typing import Any

from hornbeam.core.errors import MissingPackageError


def require(module: str) -> Any:
    """Import a module of a companion's package, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"hornbeam.companions.{package} needs {package}: pip install 'hornbeam[companions]' ({error})"
        ) from error

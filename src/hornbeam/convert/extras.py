"""Libraries that are imported when they are needed, and what to do where they are not there."""

from __future__ import annotations

import importlib
from typing import Any

from hornbeam.core.errors import ConversionError


def extra(module: str, purpose: str, name: str) -> Any:
    """Import a library, or raise ConversionError that says what to install.

    purpose  what it is for: "ONNX models"
    name     the extra that has it
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConversionError(
            f"{purpose} need the package {module!r}, which cannot be imported ({error}); pip install 'hornbeam[{name}]'"
        ) from None

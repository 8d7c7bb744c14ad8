"""Hornbeam's own file within one that another library reads: sealed, so that an edit of the rest is noticed."""

from __future__ import annotations

import hashlib

from hornbeam.core.errors import ConversionError
from hornbeam.core.log import inform, warn


def seal_of(rest: bytes) -> str:
    """Return the seal of all that the other library reads, its SHA-256."""
    return hashlib.sha256(rest).hexdigest()


def is_whole(rest: bytes, seal: object, library: str) -> bool:
    """Say whether the rest is what the seal was made of; a warning names the library, which is read then."""
    if seal_of(rest) == seal:
        return True
    warn(f"the model file was edited after Hornbeam had written it: it is read as one of {library}")
    return False


def say_alone(library: str, error: ConversionError) -> None:
    """Say that a library cannot have a model, so that the file is Hornbeam's alone."""
    inform(f"Hornbeam alone reads the file of this model, {library} does not: {error}")

"""Text of files, unpacked by the end of the name: by pyarrow, or without it by Python, which knows fewer ways."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from hornbeam.core.errors import DataError

OPENERS: dict[str, Callable[[str], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
"""What unpacks without pyarrow, by the end of a name."""

BY_ARROW = (".zst", ".lz4")
"""Ends of names of what pyarrow alone unpacks."""


def has_pyarrow() -> bool:
    """Say whether pyarrow can be imported."""
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError:
        return False
    return True


def opened_text(source: str | BinaryIO) -> Any:
    """Return a stream of the bytes of a text, which may be compressed.

    source  path, or a stream, which is read to its end
    """
    content = source if isinstance(source, str) else io.BytesIO(source.read())
    if has_pyarrow():
        import pyarrow as pa

        return pa.input_stream(content)
    if not isinstance(content, str):
        return content
    end = Path(content).suffix.lower()
    if end in BY_ARROW:
        raise DataError(f"reading {source!r} takes pyarrow: pip install 'hornbeam[files]', or unpack the file")
    return OPENERS[end](content) if end in OPENERS else Path(content).open("rb")


def unreadable() -> tuple[type[Exception], ...]:
    """Return the exceptions that say that a file is damaged or cannot be read."""
    own = (OSError, UnicodeError, EOFError, zlib.error)
    if not has_pyarrow():
        return own
    import pyarrow as pa

    return (pa.ArrowException, *own)

"""Messages to the user, through the logger "hornbeam".

A program that configures logging gets them its way; otherwise they go to standard error, as a line each.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

logger = logging.getLogger("hornbeam")


class _FallbackHandler(logging.Handler):
    """Writes to standard error while the program has configured no logging."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            sys.stderr.write(f"[hornbeam] {record.getMessage()}\n")


if not logger.handlers:
    logger.addHandler(_FallbackHandler())
    logger.setLevel(logging.INFO)


def warn(message: str, verbosity: int | None = None) -> None:
    """Log a warning, unless verbosity is below 0; None: that of the training under way."""
    if (current_verbosity() if verbosity is None else verbosity) >= 0:
        logger.warning(message)


def inform(message: str, verbosity: int | None = None) -> None:
    """Log information, unless verbosity is below 1; None: that of the training under way."""
    if (current_verbosity() if verbosity is None else verbosity) >= 1:
        logger.info(message)


_verbosity: ContextVar[int] = ContextVar("verbosity", default=1)


def current_verbosity() -> int:
    """Return the verbosity of the training under way, 1 where there is none."""
    return _verbosity.get()


@contextmanager
def speaking(verbosity: int) -> Iterator[None]:
    """Let what knows no parameters, the compilation of kernels, speak as a training wants it to."""
    before = _verbosity.set(verbosity)
    try:
        yield
    finally:
        _verbosity.reset(before)

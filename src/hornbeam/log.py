"""Messages to the user, through the logger "hornbeam".

A program that configures logging gets them its way; otherwise they go to standard error, as a line each.
"""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("hornbeam")


class _FallbackHandler(logging.Handler):
    """Writes to standard error while the program has configured no logging."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            sys.stderr.write(f"[hornbeam] {record.getMessage()}\n")


if not logger.handlers:
    logger.addHandler(_FallbackHandler())
    logger.setLevel(logging.INFO)


def warn(message: str, verbosity: int = 1) -> None:
    """Log a warning, unless verbosity is below 0."""
    if verbosity >= 0:
        logger.warning(message)


def inform(message: str, verbosity: int = 1) -> None:
    """Log information, unless verbosity is below 1."""
    if verbosity >= 1:
        logger.info(message)

"""Messages to the user, through the logger "hornbeam".

A program that configures logging gets them its way; otherwise they go to standard error, as a line each.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hornbeam.core.errors import ParameterError

logger = logging.getLogger("hornbeam")


class _FallbackHandler(logging.Handler):
    """Writes to standard error while the program has configured no logging."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            sys.stderr.write(f"[hornbeam] {record.getMessage()}\n")


class _ForwardingHandler(logging.Handler):
    """Hands messages to an object of the user's own."""

    def __init__(self, target: Any, info: str, warning: str) -> None:
        super().__init__()
        self.target, self.info, self.warning = target, info, warning

    def emit(self, record: logging.LogRecord) -> None:
        name = self.warning if record.levelno >= logging.WARNING else self.info
        getattr(self.target, name)(record.getMessage())


def register_logger(logger: Any, info_method_name: str = "info", warning_method_name: str = "warning") -> None:
    """Send all messages to an object with methods for information and warnings, as LightGBM's function does.

    Parameters
    ----------
    logger
        The object; a `logging.Logger`, say.
    info_method_name, warning_method_name
        Names of its methods, which take a text.
    """
    for name in (info_method_name, warning_method_name):
        if not callable(getattr(logger, name, None)):
            raise ParameterError(f"register_logger: {type(logger).__name__} has no method {name!r}")
    own = logging.getLogger("hornbeam")
    for handler in [one for one in own.handlers if isinstance(one, (_FallbackHandler, _ForwardingHandler))]:
        own.removeHandler(handler)
    own.addHandler(_ForwardingHandler(logger, info_method_name, warning_method_name))
    own.propagate = False


if not logger.handlers:
    logger.addHandler(_FallbackHandler())
    logger.setLevel(logging.INFO)


def warn(message: str, verbosity: int | None = None) -> None:
    """Log a warning, unless verbosity is below 0; None: that of the training under way."""
    if _said(verbosity) >= 0:
        logger.warning(message)


def inform(message: str, verbosity: int | None = None) -> None:
    """Log information, unless verbosity is below 1; None: that of the training under way."""
    if _said(verbosity) >= 1:
        logger.info(message)


_verbosity: ContextVar[int] = ContextVar("verbosity", default=1)
_most: int | None = None


def most_verbose(verbosity: int | None) -> None:
    """Set what no message goes beyond, whatever a training wants; None: nothing is held back."""
    global _most
    _most = verbosity


def _said(verbosity: int | None) -> int:
    """Return the verbosity of a message: that of the training under way if it has none of its own."""
    wanted = current_verbosity() if verbosity is None else verbosity
    return wanted if _most is None else min(wanted, _most)


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

"""How commands end: exit codes, and one line on standard error that says what is wrong and how to go on.

0    fine
1    models differ, or this machine does not pass
2    bad input: arguments, parameters, files
130  Ctrl-C
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from hornbeam.core.errors import HornbeamError

DIFFERS, BAD_INPUT, INTERRUPTED = 1, 2, 130

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What the parser of arguments raises; its class has moved from one library to another."""


class Interrupted(Exception):  # noqa: N818  (no error)
    """Ctrl-C ended a training; the message says what is left of it."""


class Commands(TyperGroup):
    """The group of all commands, which turns exceptions into a line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and leave the process."""
        if not extra.get("standalone_mode", True):
            return super().main(*args, **extra)
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except (HornbeamError, ImportError) as error:
            code = fail(str(error))
        except UsageError as error:
            path = getattr(getattr(error, "ctx", None), "command_path", "hornbeam")
            code = fail(f"{error.format_message()} Try '{path} --help'.")  # type: ignore[attr-defined]
        except SystemExit as ended:  # 1: the reader of a pipe went away, which is no difference between models
            code = 0 if ended.code == 1 else ended.code
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
            code = 0
        except OSError as error:
            file = "" if error.filename is None else f"{error.filename!r}: "
            code = fail(f"{file}{error.strerror or error}")
        except Interrupted as interrupted:
            code = fail(str(interrupted), INTERRUPTED)
        except (KeyboardInterrupt, typer.Abort):
            code = fail("interrupted", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def fail(message: str, code: int = BAD_INPUT) -> int:
    """Write a line to standard error, and return the exit code."""
    sys.stderr.write(f"hornbeam: {' '.join(message.split())}\n")
    return code

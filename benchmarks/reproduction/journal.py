"""Raw results: a JSON file that is written after each step, so that a run goes on where the last one stopped."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hornbeam.core.errors import HornbeamError


class OutOfTimeError(Exception):
    """The minutes of a run are over; what is left is for the next one."""


class Journal:
    """Results by key, such as "train/higgs/hornbeam/cpu/k255".

    steps    result of each step that was done: a dictionary; one that failed has the entry "failed"
    skipped  why steps were not done, by key: a library that is not there, say
    setting  what the results are of: the size, and the folder of data or None
    """

    def __init__(self, path: Path, setting: dict[str, Any], minutes: float = 0.0, retry: bool = False) -> None:
        self.path = path
        self.steps: dict[str, dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}
        self.about: dict[str, Any] = {}
        self.commands: list[str] = []
        self.setting = setting
        self.retry = retry
        self._running: str | None = None
        self._end = time.monotonic() + 60 * minutes if minutes > 0 else None
        self._bar: tuple[Progress, Any] | None = None
        if path.exists():
            self._read()

    def _read(self) -> None:
        held = json.loads(self.path.read_text(encoding="utf-8"))
        if self.setting and held["setting"] != self.setting:
            raise SystemExit(
                f"{self.path} holds results of {held['setting']}, not of {self.setting}: name another folder by --out"
            )
        self.steps, self.skipped, self.about = held["steps"], held["skipped"], held["about"]
        self.setting, self.commands = held["setting"], held["commands"]
        if held.get("running"):  # the process died: done again, the step might end it again
            self.steps[held["running"]] = {"failed": "the run ended during this step; --retry does it again"}

    def write(self) -> None:
        """Write the file; one that is there is replaced at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            "about": self.about, "setting": self.setting, "commands": self.commands, "steps": self.steps,
            "skipped": self.skipped, "running": self._running,
        }  # fmt: skip
        beside = self.path.with_suffix(".json.part")
        beside.write_text(json.dumps(held, indent=1), encoding="utf-8")
        beside.replace(self.path)

    def is_done(self, key: str) -> bool:
        """Say whether a step is in the file; one that failed counts unless it is to be retried."""
        return key in self.steps and not (self.retry and "failed" in self.steps[key])

    def skip(self, key: str, reason: str) -> None:
        """Note why a step is not done, and say so once for each reason."""
        if reason not in self.skipped.values():
            self.say(f"{key}: {reason}")
        self.skipped[key] = reason
        self._advance()

    def step(self, key: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Do a step unless it was done; returns its result, or None where it failed."""
        if self.is_done(key):
            self._advance()
            return self.result(key)
        self.check_time()
        self._describe(key)
        start = time.monotonic()
        self._running = key
        self.write()
        try:
            found = work()
        except (KeyboardInterrupt, SystemExit, OutOfTimeError):
            self._running = None
            self.write()
            raise
        except Exception as error:  # a library that fails is a result too: the others go on
            found = {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
            if not isinstance(error, HornbeamError) and isinstance(error, (TypeError, AttributeError, NameError)):
                Console(stderr=True).print_exception()
        if hasattr(os, "getloadavg"):
            found["load"] = round(os.getloadavg()[0], 2)
        found["took"] = round(time.monotonic() - start, 2)
        self.steps[key], self._running = found, None
        self.skipped.pop(key, None)
        self.write()
        shown = found.get("failed") or found.get("summary", "")
        self.say(f"{key}: {shown} ({found['took']:.1f} s)")
        self._advance()
        return self.result(key)

    def result(self, key: str) -> dict[str, Any] | None:
        """Return the result of a step; None: not done, or it failed."""
        found = self.steps.get(key)
        return None if found is None or "failed" in found else found

    def check_time(self) -> None:
        """Raise where the minutes are over."""
        if self._end is not None and time.monotonic() > self._end:
            raise OutOfTimeError

    @contextmanager
    def progress(self, total: int) -> Iterator[None]:
        """Show a bar while steps are done."""
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        )  # fmt: skip
        with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
            self._bar = bar, bar.add_task("", total=total)
            try:
                yield
            finally:
                self._bar = None

    def say(self, line: str) -> None:
        """Print a line, above the bar."""
        if self._bar is not None and not self._bar[0].disable:
            self._bar[0].console.print(line, highlight=False, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _describe(self, text: str) -> None:
        if self._bar is not None:
            self._bar[0].update(self._bar[1], description=text)

    def _advance(self) -> None:
        if self._bar is not None:
            self._bar[0].advance(self._bar[1])

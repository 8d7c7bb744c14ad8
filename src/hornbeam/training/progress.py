"""`progress`: a bar that shows how far a training is, in terminals (rich) and in notebooks (IPython alone).

In a notebook the bar is one output that is replaced again and again. rich would need ipywidgets for that; a notebook
has IPython, and IPython can replace an output by its `display_id`.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Protocol

from hornbeam.training.callbacks import CallbackEnv

REDRAW_S = 0.1
"""Seconds from one drawing in a notebook to the next, at least: each is a message to the browser."""


class Bar(Protocol):
    """A bar on some screen."""

    def show(self, done: int, metrics: str) -> None:
        """Show that iterations are done; metrics: the latest ones, empty where there is none."""

    def close(self) -> None:
        """Leave the bar as it stands."""


class Progress:
    """A progress bar with the latest metrics, in terminals and notebooks; silent where output goes to a file."""

    order = 40

    def __init__(self) -> None:
        self._bar: Bar | None = None

    def __call__(self, env: CallbackEnv) -> None:
        """Advance the bar by one iteration."""
        if self._bar is None:
            self._bar = _open_bar(env.end_iteration - env.begin_iteration)
        if self._bar is not None:
            texts = [f"{result.dataset} {result.metric} {result.value:.5g}" for result in env.evaluation_result_list]
            self._bar.show(env.iteration - env.begin_iteration + 1, "  ".join(texts))

    def close(self) -> None:
        """Leave the bar as it stands; `train` calls this however training ends."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_bar": None}  # a screen cannot be sent elsewhere


def progress() -> Progress:
    """Show a progress bar while training, in terminals and notebooks."""
    return Progress()


def _open_bar(total: int) -> Bar | None:
    """Return a bar for the screen that there is, None where there is none."""
    if in_notebook():
        return NotebookBar(total)
    from rich.console import Console

    console = Console(stderr=True)
    return TerminalBar(total, console) if console.is_terminal else None


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook (Jupyter, Colab, VS Code): its shell has a kernel."""
    ipython = sys.modules.get("IPython")  # a kernel has imported it
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class TerminalBar:
    """A bar in a terminal, drawn by rich."""

    def __init__(self, total: int, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("boosting"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}", markup=False),
            console=console,
        )
        self._bar.start()
        self._task = self._bar.add_task("boosting", total=total, metrics="")

    def show(self, done: int, metrics: str) -> None:
        """Draw the bar; the metrics shown stay where there are no new ones."""
        fields: dict[str, Any] = {"metrics": metrics} if metrics else {}
        self._bar.update(self._task, completed=done, **fields)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()


class NotebookBar:
    """A bar in the output of a notebook's cell, drawn by the browser; text where there is no browser."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._metrics = total, 0, ""
        self._begin = self._drawn = time.monotonic()
        self._handle: Any = None
        self._is_current = False

    def show(self, done: int, metrics: str) -> None:
        """Draw the bar, unless it was drawn a moment ago; the metrics shown stay where there are no new ones."""
        self._done, self._metrics, self._is_current = done, metrics or self._metrics, False
        if self._handle is None or time.monotonic() - self._drawn >= REDRAW_S:
            self._draw()

    def close(self) -> None:
        """Draw what was not drawn yet."""
        if not self._is_current:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(self._mimebundle(), raw=True, display_id=True)
        else:
            self._handle.update(self._mimebundle(), raw=True)
        self._drawn, self._is_current = time.monotonic(), True

    def _mimebundle(self) -> dict[str, str]:
        """Return the bar as HTML, and as text for a front end that has no HTML."""
        passed = time.monotonic() - self._begin
        words = [f"{self._done}/{self._total}"]
        if 0 < self._done < self._total:
            words.append(f"{_clock(passed / self._done * (self._total - self._done))} left")
        else:
            words.append(_clock(passed))
        if self._metrics:
            words.append(self._metrics)
        text = "  ".join(words)
        bar = f'<progress value="{self._done}" max="{self._total}" style="width:20em"></progress>'
        return {
            "text/plain": f"boosting {text}",
            "text/html": f"<div>boosting {bar} <code>{html.escape(text)}</code></div>",
        }


def _clock(seconds: float) -> str:
    """Return a time as 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"

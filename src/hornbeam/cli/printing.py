"""What commands print: tables of rich in a terminal, plain lines where output goes to a file, JSON if asked for."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hornbeam.core.log import logger


def print_json(value: Any) -> None:
    """Write a value as JSON; what JSON has not, NaN and infinite numbers, as null."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return a value of types that JSON has."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Write names and values, a line each."""
    if not sys.stdout.isatty():
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:{width}}  {_text(value)}")
        return
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, _text(value))
    _console().print(grid)


def print_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write rows under the names of their columns; separated by tabs where output goes to a file."""
    if not sys.stdout.isatty():
        print("\t".join(names))
        for row in rows:
            print("\t".join(_text(value) for value in row))
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(names):
        column = [row[place] for row in rows]
        is_number = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in column)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    _console().print(table)


def print_gap() -> None:
    """Leave a line free before a table; in a terminal tables have their margin."""
    if not sys.stdout.isatty():
        print()


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def be_quiet(quiet: bool) -> None:
    """Let the log speak of warnings alone where quiet is asked for."""
    logger.setLevel(logging.WARNING if quiet else logging.INFO)

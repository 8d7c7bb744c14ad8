"""Lists of words in lines of source code."""

from __future__ import annotations

from collections.abc import Iterable

WIDTH = 118


def lines_of(words: Iterable[object], indent: str) -> list[str]:
    """Return lines of words, each followed by a comma; a word longer than a line has a line to itself."""
    lines, line = [], indent
    for word in words:
        if len(line) + len(str(word)) + 2 > WIDTH and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += f"{word}, "
    return [*lines, line.rstrip()]

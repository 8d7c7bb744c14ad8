"""HTML and SVG from Python, safe by construction: every text is escaped, and only `Markup` is not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

VOID = frozenset(("br", "hr", "img", "input", "meta"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = Any
"""None, text (which is escaped), numbers, Markup, or a list of these."""


def el(name: str, *content: Content, **attributes: Any) -> Markup:
    """Make an element.

    Attributes: a trailing underscore is dropped (class_), others become hyphens (data_row -> data-row); None and False
    leave one out, and True leaves its value out.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{escape(_attribute(value))}"')
    opened = f"<{' '.join(parts)}>"
    return Markup(opened) if name in VOID else Markup(f"{opened}{joined(content)}</{name}>")


def joined(content: Content) -> Markup:
    """Put content together."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(content))
    if isinstance(content, Iterable):
        return Markup("".join(joined(part) for part in content))
    return Markup(escape(str(content)))


def _attribute(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def as_json(value: Any) -> Markup:
    """Return a value as JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def table(head: Iterable[Content], rows: Iterable[Iterable[Content]], *, numbers_from: int = 1) -> Markup:
    """Make a table that scrolls sideways where it is too wide; columns from `numbers_from` on are set to the right."""
    names = list(head)

    def cell(kind: str, place: int, content: Content) -> Markup:
        return el(kind, content, class_="num" if place >= numbers_from else None)

    top = el("tr", [cell("th", place, name) for place, name in enumerate(names)])
    body = [el("tr", [cell("td", place, content) for place, content in enumerate(row)]) for row in rows]
    return el("div", el("table", el("thead", top), el("tbody", body)), class_="scroll", tabindex="0")


def card(title: str | None, *content: Content, wide: bool = False, note: str | None = None) -> Markup:
    """Make a card with a heading."""
    heading = None if title is None else el("h3", title)
    told = None if note is None else el("p", note, class_="note")
    return el("div", heading, content, told, class_="card wide" if wide else "card")


def absent(text: str) -> Markup:
    """Say what is not shown, and why."""
    return el("p", text, class_="absent")

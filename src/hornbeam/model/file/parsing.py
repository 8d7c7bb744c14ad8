"""Bytes -> JSON document, tree by tree, so that memory stays near the size of the file.

Python's objects take several times the room of their text: a list of empty lists twenty times. So trees are parsed and
handed on one after the other, and a text that could be no model is refused before it is parsed:

    a tree      ends at the next "}", for it holds no other object, and has at most `TREE_CHARACTERS`
    the rest    names, levels, parameters; where there are many, they are longer than a few characters on average
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hornbeam.core.errors import ModelFormatError
from hornbeam.model.file.tree_checks import fail, show

ROOT = "model"
"""How error messages call the outermost JSON object."""

TREE_CHARACTERS = 64_000_000
"""Longest text of a tree: 65,536 leaves with 14 numbers of 25 characters, and large sets of levels, have less."""

FEWEST_CHARACTERS = 100
"""Shortest text of a tree: its keys alone have more."""

FEW_ENTRIES = 1 << 20
"""Entries of a text that may be of any kind: 16 for each leaf of the largest tree, 64 MB."""

BYTES_A_ENTRY = 64
"""Memory of a short string, a number or an empty list, and of its place in a list."""

MOST_TIMES = 8
"""Memory of a parsed text, in its own length."""

_TREES = re.compile(r'"trees"\s*:\s*\[')
_NEXT = re.compile(r"\s*([{,\]])")


def parse_model(data: bytes) -> tuple[Any, Iterator[Any]]:
    """Parse the text of a model file.

    Returns the document with an empty list of trees, and the trees, each parsed when it is asked for. Of a text whose
    trees are not found, all of the document and no trees.
    """
    text = _decode(data, ROOT)
    places = [match.end() for match in _TREES.finditer(text)]
    if len(places) != 1:
        return _parse(text, ROOT), iter(())
    spans, end = _spans_of_trees(text, places[0])
    document = _parse(text[: places[0]] + text[end:], ROOT)
    return document, (_parse(text[a:b], f"trees[{number}]") for number, (a, b) in enumerate(spans))


def _spans_of_trees(text: str, at: int) -> tuple[list[tuple[int, int]], int]:
    """Return where each tree begins and ends, and where the list of trees does, from what follows its bracket."""
    spans: list[tuple[int, int]] = []
    expects_tree = True
    while True:
        place, match = f"trees[{len(spans)}]", _NEXT.match(text, at)
        if match is None:
            fail(place, "is not a JSON object; the file is damaged or cut short")
        sign, begin = match.group(1), match.start(1)
        if sign == "]":
            if spans and expects_tree:
                fail("trees", "a comma is followed by no tree; the file is damaged")
            return spans, begin
        if (sign == "{") != expects_tree:
            fail(place, "trees are not divided by commas; the file is damaged")
        at = begin + 1
        if sign == "{":
            at = text.find("}", begin) + 1
            if at == 0:
                fail(place, "the file is cut short")
            if not FEWEST_CHARACTERS <= at - begin <= TREE_CHARACTERS:
                allowed = f"{FEWEST_CHARACTERS} to {TREE_CHARACTERS}"
                fail(
                    place,
                    f"has {at - begin} characters, a tree has {allowed}: a key is missing, or the file is damaged",
                )
            spans.append((begin, at))
        expects_tree = sign == ","


def parse_document(data: bytes, place: str = ROOT) -> Any:
    """Parse JSON strictly: no duplicate keys, no NaN or Infinity, no depth that exhausts the stack."""
    return _parse(_decode(data, place), place)


def _decode(data: bytes, place: str) -> str:
    if not data.strip():
        fail(place, "the file is empty")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        fail(place, f"the file is damaged or not a {place}: byte {error.start} is not UTF-8 text")


def _parse(text: str, place: str) -> Any:
    n_entries = text.count(",") + text.count("[") + text.count("{")
    if n_entries > FEW_ENTRIES and n_entries * BYTES_A_ENTRY > MOST_TIMES * len(text):
        fail(place, f"the file is damaged or hostile: {n_entries} entries in {len(text)} characters")
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        fail(place, f"the file is damaged, cut short or not a {place}: {error}")
    except RecursionError:
        fail(place, f"the file is damaged or not a {place}: its JSON is nested too deeply")
    except ModelFormatError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        fail(place, f"the file is damaged: {error}")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, or fail if a key occurs twice."""
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                fail(ROOT, f"the key {show(key)} occurs twice in one JSON object")
            seen.add(key)
    return document


def _no_constant(text: str) -> Any:
    fail(ROOT, f"{text} is not a number that a model file may hold")

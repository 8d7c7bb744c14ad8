"""Bytes of a LightGBM model file -> its sections; and the numbers in them.

tree                            "tree", then a header of lines "key=value"
version=v4
...

Tree=0                          one section a tree, of lines "key=value", each value a list of numbers
num_leaves=3
...

end of trees

feature_importances:            not read: they follow from the trees
...

parameters:                     lines "[name: value]"
...
end of parameters

pandas_categorical:[["a", "b"]]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.json_text import parse_text
from hornbeam.model.file.tree_checks import fail, show

ROOT = "LightGBM model"
"""What messages call the file."""

END_OF_TREES = "end of trees"

MOST_KEYS = 1000
"""Keys of a section; files have up to 25 a tree, and 150 parameters."""


@dataclass
class Sections:
    """The text of a model file by section.

    header              values by key; those of lines without "=" are empty
    trees               values by key, of each tree
    parameters          values by name
    pandas_categorical  what is written there, None if nothing is
    """

    header: dict[str, str] = field(default_factory=dict)
    trees: list[dict[str, str]] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    pandas_categorical: Any = None


def is_lightgbm(data: bytes) -> bool:
    """Say whether a file is LightGBM's text: its first line is "tree", the second one its version."""
    lines = data[:1000].split(b"\n", 2)
    return len(lines) > 2 and lines[0].strip() == b"tree" and lines[1].startswith(b"version=")


def split_sections(data: bytes) -> Sections:
    """Divide the text of a model file, or fail."""
    try:
        lines = [line.removesuffix("\r") for line in data.decode("utf-8").split("\n")]
    except UnicodeDecodeError as error:
        fail(ROOT, f"the file is damaged: byte {error.start} is not UTF-8 text")
    found = Sections()
    current: dict[str, str] = found.header
    number = 1  # lines[0] is "tree"
    while number < len(lines) and lines[number] != END_OF_TREES:
        line = lines[number]
        if line.startswith("Tree="):
            if line != f"Tree={len(found.trees)}":
                fail(ROOT, f"line {number + 1} is {show(line)}, where Tree={len(found.trees)} is due")
            current = {}
            found.trees.append(current)
        elif line:
            key, _, value = line.partition("=")
            if key in current:
                fail(ROOT, f"{show(key)} in line {number + 1} occurs twice in its section")
            if len(current) == MOST_KEYS:
                fail(ROOT, f"the section of line {number + 1} has more than {MOST_KEYS} keys: the file is damaged")
            current[key] = value
        number += 1
    if number == len(lines):
        fail(ROOT, f'the file is cut short: there is no line "{END_OF_TREES}"')
    in_parameters = False
    for line in lines[number:]:
        if line == "parameters:":
            in_parameters = True
        elif line == "end of parameters":
            in_parameters = False
        elif line.startswith("pandas_categorical:"):
            found.pandas_categorical = parse_text(line.partition(":")[2].encode(), "pandas_categorical")
        elif in_parameters and line.startswith("[") and line.endswith("]"):
            name, _, value = line[1:-1].partition(":")
            found.parameters[name] = value.strip()
            if len(found.parameters) > MOST_KEYS:
                fail(ROOT, f"there are more than {MOST_KEYS} parameters: the file is damaged")
    return found


def entry(section: dict[str, str], key: str, place: str) -> str:
    """Return a value, or fail if its key is not there."""
    if key not in section:
        fail(place, f"{key} is missing: the file is damaged or cut short")
    return section[key]


def integer(section: dict[str, str], key: str, place: str, low: int, high: int) -> int:
    """Return one integer from low to high."""
    text = entry(section, key, place)
    numbers = _integers(text, f"{place}, {key}", 1)
    if not low <= numbers[0] <= high:
        fail(f"{place}, {key}", f"{show(text)} is not an integer from {low} to {high}")
    return int(numbers[0])


def integers(section: dict[str, str], key: str, place: str, length: int, dtype: Any = np.int64) -> NDArray[Any]:
    """Return integers, `dtype` (length,)."""
    where = f"{place}, {key}"
    numbers = _integers(entry(section, key, place), where, length)
    limits = np.iinfo(dtype)
    if numbers and (min(numbers) < limits.min or max(numbers) > limits.max):
        fail(where, f"has a number that is not in {limits.min}..{limits.max}")
    return np.array(numbers, dtype)


def floats(
    section: dict[str, str], key: str, place: str, length: int, may_be_infinite: bool = False
) -> NDArray[np.float64]:
    """Return numbers, float64 (length,); finite, unless they may be infinite."""
    where = f"{place}, {key}"
    words = _words(entry(section, key, place), where, length)
    try:
        numbers = np.array([float(word) for word in words], np.float64)
    except ValueError:
        fail(where, "has an entry that is no number")
    good = ~np.isnan(numbers) if may_be_infinite else np.isfinite(numbers)
    if not good.all():
        fail(where, f"has the entry {numbers[int(np.argmin(good))]}, which is no value it may have")
    return numbers


def number_of(text: str, where: str) -> float:
    """Return one finite number."""
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        fail(where, f"{show(text)} is not a finite number")
    return value


def _integers(text: str, where: str, length: int) -> list[int]:
    words = _words(text, where, length)
    try:
        return [int(word) for word in words]
    except ValueError:  # also for thousands of digits
        fail(where, "has an entry that is no integer")


def _words(text: str, where: str, length: int) -> list[str]:
    """Return the words of a value, which must be so many."""
    if "_" in text:  # which Python allows in numbers
        fail(where, "has an entry that is no number")
    # not more than `length` words take memory, however long the text is
    words = text.split(None, length)
    if len(words) != length:
        fail(where, f"has {'more' if len(words) > length else len(words)} entries, must have {length}")
    return words

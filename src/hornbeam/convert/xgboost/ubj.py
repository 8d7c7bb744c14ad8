"""Universal Binary JSON, as far as XGBoost uses it.

A value is a marker byte and what it says, numbers big-endian:

    Z T F       null, true, false
    i U I l L   integers of 8 (signed, unsigned), 16, 32 and 64 bits
    d D         float32, float64
    C           a character, read as an integer
    S           a string: its length, an integer with marker, and UTF-8
    [           values up to "]"; or "#", the number of values, the values; or "$", a marker, "#", the number, and
                numbers without markers: a typed array, which is a NumPy array here
    {           keys (strings without the marker S) and values up to "}"; "#" as in arrays

XGBoost writes lengths as L and typed arrays of i, I, l, L, U, d and D.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from hornbeam.convert.json_text import check_containers
from hornbeam.model.file.tree_checks import fail

PLACE = "UBJ"

NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
"""Markers of numbers, and their NumPy dtypes."""

MARKERS = {np.dtype(dtype).newbyteorder("="): marker for marker, dtype in NUMBERS.items()}

CONSTANTS = {b"Z": None, b"T": True, b"F": False}

MAX_DEPTH = 60
"""Arrays and objects within one another; XGBoost's files have eight or so."""


def is_ubj(data: bytes) -> bool:
    """Say whether bytes begin as an object in UBJ: in JSON text, a quote or white space follows the brace."""
    return data[:1] == b"{" and data[1:2] in (*NUMBERS, b"#", b"$")


def decode(data: bytes) -> Any:
    """Return what the bytes say, typed arrays as NumPy arrays of native byte order; fail if they are damaged."""
    decoder = _Decoder(data)
    value = decoder.value(decoder.take(1), 0)
    if decoder.place != len(data):
        fail(PLACE, f"{len(data) - decoder.place} bytes follow the end")
    return value


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0
        self.n_containers = 0

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.place:
            fail(PLACE, "the file is cut short or damaged")
        self.place += n
        return self.data[self.place - n : self.place]

    def peek(self) -> bytes:
        return self.data[self.place : self.place + 1]

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > MAX_DEPTH:
            fail(PLACE, "values are nested too deeply: the file is damaged")
        if marker in NUMBERS:
            return np.frombuffer(self.take(np.dtype(NUMBERS[marker]).itemsize), NUMBERS[marker])[0].item()
        if marker == b"S":
            return self.string()
        if marker in (b"[", b"{"):
            self.n_containers += 1
            check_containers(self.n_containers, len(self.data), PLACE)
            return self.array(depth) if marker == b"[" else self.object(depth)
        if marker == b"C":
            return self.take(1)[0]
        if marker not in CONSTANTS:
            fail(PLACE, f"byte {self.place - 1} is {marker!r}, which begins no value: the file is damaged")
        return CONSTANTS[marker]

    def length(self) -> int:
        marker = self.take(1)
        number = self.value(marker, 0) if marker in NUMBERS and marker not in (b"d", b"D") else -1
        if number < 0:
            fail(PLACE, f"there is no length before byte {self.place}: the file is damaged")
        return int(number)

    def string(self) -> str:
        content = self.take(self.length())
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            fail(PLACE, f"the string before byte {self.place} is not UTF-8 text")

    def array(self, depth: int) -> Any:
        if self.peek() == b"$":
            self.take(1)
            marker = self.take(1)
            if marker not in NUMBERS or self.take(1) != b"#":
                fail(PLACE, f"the array at byte {self.place} has no type or no length: the file is damaged")
            dtype = np.dtype(NUMBERS[marker])
            count = self.length()
            return np.frombuffer(self.take(count * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if self.peek() == b"#":
            self.take(1)
            count = self.length()
            if count > len(self.data) - self.place:  # a value takes a byte at least
                fail(PLACE, "the file is cut short or damaged")
            return [self.value(self.take(1), depth + 1) for _ in range(count)]
        values = []
        while (marker := self.take(1)) != b"]":
            values.append(self.value(marker, depth + 1))
        return values

    def object(self, depth: int) -> dict[str, Any]:
        count = None
        if self.peek() == b"#":
            self.take(1)
            count = self.length()
        found: dict[str, Any] = {}
        while count != len(found) if count is not None else self.peek() != b"}":
            key = self.string()
            if key in found:
                fail(PLACE, f"the key {key[:40]!r} occurs twice in one object")
            found[key] = self.value(self.take(1), depth + 1)
        if count is None:
            self.take(1)
        return found


def encode(value: Any) -> bytes:
    """Return a document as bytes, as XGBoost would write it: lengths as L, NumPy arrays as typed arrays."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, dict):
        parts.append(b"{")
        for key, own in value.items():
            parts.append(_text(key))
            _write(own, parts)
        parts.append(b"}")
    elif isinstance(value, np.ndarray):
        marker = MARKERS[value.dtype]
        parts += [b"[$", marker, b"#", _length(len(value)), value.astype(NUMBERS[marker]).tobytes()]
    elif isinstance(value, list):
        parts += [b"[#", _length(len(value))]
        for own in value:
            _write(own, parts)
    elif isinstance(value, str):
        parts += [b"S", _text(value)]
    elif isinstance(value, int):
        parts.append(_length(value))
    else:
        raise TypeError(f"{type(value).__name__} is not in the documents that are written")


def _length(n: int) -> bytes:
    return b"L" + struct.pack(">q", n)


def _text(text: str) -> bytes:
    content = text.encode("utf-8")
    return _length(len(content)) + content

"""The types of a kernel's arguments as text: how the library and the list of signatures name what was compiled.

    f8[2C]           an array: kind and bytes of an item, dimensions, order; C, F, or A for any; f8[2C-] is read-only
    SPLIT[1C]        an array of records, by the name of their type in core/dtypes.py; others with their module's name
    i8 f8 b1 u4      numbers; those of Python are i8, f8 and b1
    None             None
    (f8,i8)          a tuple
    host.team:Crew(i8,i8[1C],i8[1C])    a NamedTuple, by its module and class

Arguments of a signature are written with commas between them. `examples` turns a text into values of these types, from
which the compiler takes the types that a call would have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from hornbeam.backends.cpu.host.kernels import PACKAGE
from hornbeam.core import dtypes

_record_names: dict[np.dtype[Any], str] = {}

_TOKEN = re.compile(
    r"(?P<array>(?P<item>[\w.:]+)\[(?P<n>\d)(?P<order>[CFA])(?P<fixed>-?)\])|(?P<tuple>[\w.:]*)\(|(?P<one>\w+)"
)


class Kind(NamedTuple):
    """A type that a text names.

    item   of an array: kind and bytes, or name of a record; of a number: kind and bytes; of a tuple: its class, or ""
    parts  of a tuple, otherwise None
    n      dimensions of an array; -1: it is none
    """

    item: str
    parts: tuple[Kind, ...] | None = None
    n: int = -1
    order: str = ""
    fixed: bool = False

    def takes(self, other: Kind) -> bool:
        """Say whether what was compiled for this type works for another: any order, and reading alone, ask for less."""
        if self.parts is not None and other.parts is not None:
            return (
                self.item == other.item
                and len(self.parts) == len(other.parts)
                and all(own.takes(their) for own, their in zip(self.parts, other.parts, strict=True))
            )
        return (
            (self.item, self.n) == (other.item, other.n)
            and self.order in ("A", other.order)
            and (self.fixed or not other.fixed)
            and self.parts is other.parts
        )


def signature_of(arguments: tuple[Any, ...]) -> str:
    """Return the types of some arguments; raises TypeError for those that no kernel takes."""
    return ",".join(map(_describe, arguments))


def _describe(value: Any) -> str:
    kind = type(value)
    if kind is np.ndarray:
        flags = value.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return f"{item_name(value.dtype)}[{value.ndim}{order}{'' if flags.writeable else '-'}]"
    if value is None:
        return "None"
    if kind is bool:
        return "b1"
    if kind is int:
        return "i8" if value < 2**63 else "u8"
    if kind is float:
        return "f8"
    if isinstance(value, tuple):
        name = "" if kind is tuple else f"{kind.__module__.removeprefix(PACKAGE)}:{kind.__qualname__}"
        return f"{name}({signature_of(value)})"
    if isinstance(value, np.generic) and value.dtype.kind in "iufb":
        return item_name(value.dtype)
    raise TypeError(f"no kernel takes a {kind.__name__}")


def item_name(dtype: np.dtype[Any]) -> str:
    """Return the name of an array's items."""
    if dtype.kind in "iufb" and dtype.isnative:
        return f"{dtype.kind}{dtype.itemsize}"
    name = _record_names.get(dtype) or _find_name(dtype)
    if name is None:
        raise TypeError(f"no kernel takes items of type {dtype}")
    return name


def _find_name(dtype: np.dtype[Any]) -> str | None:
    """Look for a name of records of this type among the constants of core/dtypes.py and of the CPU backend."""
    ours = sorted((name for name in sys.modules if name.startswith(PACKAGE)), key=lambda name: (-name.count("."), name))
    for module in [dtypes, *(sys.modules[name] for name in ours)]:  # those that only import it stand higher
        for name, value in vars(module).items():
            if isinstance(value, np.dtype) and value == dtype:
                prefix = "" if module is dtypes else f"{module.__name__.removeprefix(PACKAGE)}:"
                return _record_names.setdefault(dtype, prefix + name)
    return None


@cache
def kinds_of(signature: str) -> tuple[Kind, ...]:
    """Read a signature."""
    kinds, end = _read(signature, 0)
    if end != len(signature):
        raise ValueError(f"{signature!r} ends at {end}")
    return kinds


def _read(text: str, place: int) -> tuple[tuple[Kind, ...], int]:
    kinds: list[Kind] = []
    while place < len(text) and text[place] != ")":
        if text[place] == ",":
            place += 1
            continue
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"{text!r} has no type at {place}")
        place = match.end()
        if match["array"]:
            kinds.append(Kind(match["item"], None, int(match["n"]), match["order"], bool(match["fixed"])))
        elif match["one"]:
            kinds.append(Kind(match["one"]))
        else:
            parts, place = _read(text, place)
            kinds.append(Kind(match["tuple"], parts))
            place += 1  # the bracket
    return tuple(kinds), place


def examples(kinds: tuple[Kind, ...]) -> Iterator[Any]:
    """Make a value of each type."""
    for kind in kinds:
        if kind.parts is not None:
            values = tuple(examples(kind.parts))
            yield class_of(kind.item)(*values) if kind.item else values
        elif kind.n >= 0:
            array = np.zeros((4,) * kind.n, dtype_of(kind.item), order="F" if kind.order == "F" else "C")
            array = array[(slice(None, None, 2),) * kind.n] if kind.order == "A" else array
            array.flags.writeable = not kind.fixed
            yield array
        else:
            yield None if kind.item == "None" else dtype_of(kind.item).type(0)


def dtype_of(item: str) -> np.dtype[Any]:
    """Return the type of an item by its name."""
    if ":" in item:
        return np.dtype(class_of(item))
    return np.dtype(getattr(dtypes, item)) if item.isupper() else np.dtype(item)


def class_of(name: str) -> Any:
    """Return the class of a NamedTuple, or a type of records, by its name."""
    module, _, cls = name.partition(":")
    full = module if module.startswith("hornbeam.") else PACKAGE + module
    return getattr(sys.modules.get(full) or import_module(full), cls)

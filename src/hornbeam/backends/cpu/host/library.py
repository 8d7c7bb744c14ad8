"""The shared library of kernels that were compiled when Hornbeam was built: finding it, and calling its kernels.

The library lies beside this package in a wheel, and in a source checkout after `make kernels`. It is used if it was
made for this kind of machine and from these very sources; otherwise Numba compiles the kernels (jit.py). The setting
HORNBEAM_KERNELS of the environment says so otherwise: "jit" for Numba, "ahead" for the library or an error, or the name
of a level ("x86-64-v2") for that one.

A call looks at the types of its arguments, and at their values. Both are done by a function of the library (support.c),
which compares the types with those that it was called with before, and by Python, in `_Caller.settle`, for types that
it sees for the first time. A kernel that was compiled for arrays of any order takes ordered ones too: see Kind.takes.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hornbeam.backends.cpu.host.kernels import PACKAGE, Kernel
from hornbeam.backends.cpu.host.signatures import Kind, class_of, dtype_of, kinds_of, signature_of
from hornbeam.backends.cpu.host.sources import hash_of
from hornbeam.core.errors import DeviceError
from hornbeam.core.log import warn

FOLDER = Path(__file__).parents[1] / "library"
MANIFEST = "kernels.json"
SETTING = "HORNBEAM_KERNELS"

FORMAT = 2
"""How library and manifest are made, and what is in support.c; one more with every change of it."""

MOST_WORDS, MOST_KEY, MOST_SCALARS = 1024, 4096, 16
"""As in support.c: words of the arguments' values, bytes that say their types, and types of NumPy's numbers."""

MOST_RESULTS = 64
"""Words of a kernel's results, its number before them."""

MOST_KNOWN = 64
"""Types of arguments that the library remembers for a kernel; others are looked up by Python each time."""

NOT_HERE, BY_NUMBA = -1, -2
"""What hornbeam_call returns for types that it has not seen, and (as an entry that is none) for kernels of Numba's."""

SCALARS = {
    np.int64: "l", np.uint64: "L", np.int32: "i", np.uint32: "I", np.int16: "h", np.uint16: "H", np.int8: "b",
    np.uint8: "B", np.float64: "d", np.float32: "f", np.bool_: "?",
}  # fmt: skip

missed: dict[tuple[str, str], None] = {}
"""Kernels and signatures that were called and are not in the library in use, in this order."""

_Results = ctypes.c_int64 * MOST_RESULTS


class Library:
    """A library that was loaded, with those of lower levels, which have the kernels that it has not.

    level    what it was compiled for: "x86-64-v3", "aarch64"
    kernels  (signature, types of the result, symbol) of each kernel's entries, by the kernel's name
    quick    whether arguments are read by the library itself; otherwise by Python
    """

    def __init__(self, files: dict[str, Path], kernels: dict[str, list[tuple[str, str, str]]]) -> None:
        """Load files of levels, the lowest one first."""
        self.level = list(files)[-1]
        self.kernels = kernels
        self._libraries = [ctypes.CDLL(str(path)) for path in reversed(files.values())]
        held = ctypes.PyDLL(str(files[self.level]))
        self.call = held.hornbeam_call
        self.call.argtypes, self.call.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int64
        self.pack = held.hornbeam_pack
        self.pack.argtypes, self.pack.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int64
        self.learn = held.hornbeam_learn
        self.learn.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
        self.release = held.hornbeam_release
        self.release.argtypes, self.release.restype = [ctypes.c_void_p], None
        held.hornbeam_layout(_layout())
        self.quick = self._reads_arguments()

    def entry(self, symbol: str) -> Any:
        """Return an entry as a function of the places of words and results."""
        function = next(library for library in self._libraries if hasattr(library, symbol))[symbol]
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int32
        return function

    def _reads_arguments(self) -> bool:
        """Say whether the library reads the same values as Python does, from arguments of all kinds."""
        table = np.arange(24.0).reshape(4, 6)
        record = np.zeros(3, dtype_of("SPLIT"))
        tables = table, table[::2, ::3], np.asfortranarray(table)
        values = (1, -(2**40), 2.5, True, False, None, *tables, record, (1, (2.0,)))
        numbers = tuple(cls(3) for cls in SCALARS)
        words = (ctypes.c_int64 * MOST_WORDS)()
        lengths = self.pack((*values, *numbers), words, ctypes.create_string_buffer(MOST_KEY))
        expected = _words((*values, *numbers))
        return bool(lengths >= 0 and lengths & 0xFFFFFFFF == len(expected) and words[: len(expected)] == expected)


def _layout() -> ctypes.Array[ctypes.c_int64]:
    """Return what support.c must know of Python, a word each."""
    api = ctypes.pythonapi
    functions = (
        api.PyLong_AsLongLong, api.PyErr_Occurred, api.PyErr_Clear, api.PyType_GetFlags, api.PyEval_SaveThread,
        api.PyEval_RestoreThread,
    )  # fmt: skip
    words = [object.__basicsize__, tuple.__basicsize__]
    words += [id(value) for value in (tuple, np.ndarray, int, float, None, True, False)]
    words += [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    for cls, code in SCALARS.items():
        words += [id(cls), ord(code)]
    words += [0, 0] * (MOST_SCALARS - len(SCALARS))
    return (ctypes.c_int64 * len(words))(*words)


def _words(arguments: tuple[Any, ...]) -> list[int]:
    """Return the values of arguments as kernels take them: what support.c does, in Python."""
    words: list[int] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            words += [value.ctypes.data, *value.shape, *value.strides]
        elif isinstance(value, tuple):
            words += _words(value)
        elif isinstance(value, (float, np.floating)):
            words += struct.unpack("q", struct.pack("d", float(value)))
        elif value is not None:
            number = int(value)
            words.append(number if number < 2**63 else number - 2**64)
    return words


def ahead(kernel: Kernel) -> Callable[..., Any] | None:
    """Return a function that calls a kernel of the library; None: there is no library, or it is no kernel of ours."""
    library = the_library()
    is_ours = kernel.__module__.startswith(PACKAGE)
    return _Caller(kernel, library).run if library is not None and is_ours else None


class _Caller:
    """Calls one kernel of the library, whichever entry of it the arguments ask for."""

    def __init__(self, kernel: Kernel, library: Library) -> None:
        self._kernel = kernel
        self._library = library
        self._entries = library.kernels.get(kernel.name, [])
        self._results = [kinds_of(result) for _, result, _ in self._entries]
        self._known = ctypes.c_void_p()  # the list of what the library has seen
        self._n_known = 0
        self._kept: list[Any] = []  # objects whose places are in that list
        self.run = self._make_run()

    def _make_run(self) -> Callable[..., Any]:
        settle, call, known = self._settle, self._library.call, ctypes.addressof(self._known)
        if not self._library.quick:
            return lambda *arguments: settle(arguments, NOT_HERE)

        def run(*arguments: Any) -> Any:
            status = call(arguments, known, None)
            return settle(arguments, status) if status else None

        def run_for_results(*arguments: Any) -> Any:
            results = _Results()
            status = call(arguments, known, results)
            return settle(arguments, status) if status else self._values(results)

        return run_for_results if any(kinds != kinds_of("None") for kinds in self._results) else run

    def _values(self, results: Any) -> Any:
        """Turn the words of a kernel's results into values."""
        (value,), _ = _unpack(self._results[results[0]], results, 1, self._library.release)
        return value

    def _settle(self, arguments: tuple[Any, ...], status: int) -> Any:
        """Do what is left to do of a call that did not end with results."""
        if status > 0:
            raise MemoryError(f"the CPU kernel {self._kernel.name} found no memory for its work")
        if status == BY_NUMBA:
            return self._kernel.dispatcher(*arguments)
        number = self._find(arguments)
        if number is None:
            self._remember(arguments, None)
            return self._kernel.dispatcher(*arguments)
        entry = self._library.entry(self._entries[number][2])
        self._remember(arguments, number)
        values, results = _words(arguments), _Results(number)
        words = (ctypes.c_int64 * max(1, len(values)))(*values)
        status = entry(words, ctypes.byref(results, 8))
        return self._settle(arguments, status) if status else self._values(results)

    def _find(self, arguments: tuple[Any, ...]) -> int | None:
        """Return the number of the entry for some arguments, among those of this kernel."""
        try:
            signature = signature_of(arguments)
        except TypeError as error:
            missed[(self._kernel.name, str(error))] = None
            return None
        compiled = [own for own, _, _ in self._entries]
        if signature in compiled:
            return compiled.index(signature)
        wanted = Kind("", kinds_of(signature))
        for number, own in enumerate(compiled):
            if Kind("", kinds_of(own)).takes(wanted):
                return number
        missed[(self._kernel.name, signature)] = None
        return None

    def _remember(self, arguments: tuple[Any, ...], number: int | None) -> None:
        """Let the library know which entry such arguments take; None: they are for Numba."""
        if self._n_known >= MOST_KNOWN or not self._library.quick:
            return
        key = ctypes.create_string_buffer(MOST_KEY)
        lengths = self._library.pack(arguments, (ctypes.c_int64 * MOST_WORDS)(), key)
        if lengths < 0:
            return
        self._n_known += 1
        _keep(arguments, self._kept)
        entry = None
        if number is not None:
            entry = ctypes.cast(self._library.entry(self._entries[number][2]), ctypes.c_void_p)
        self._library.learn(ctypes.addressof(self._known), key.raw, lengths >> 32, entry, number or 0)


def _keep(arguments: tuple[Any, ...], kept: list[Any]) -> None:
    """Collect the objects whose places say what type an argument has."""
    for value in arguments:
        if isinstance(value, np.ndarray):
            kept.append(value.dtype)
        elif isinstance(value, tuple):
            kept.append(type(value))
            _keep(value, kept)


def _unpack(kinds: tuple[Kind, ...], words: Any, place: int, release: Any) -> tuple[list[Any], int]:
    """Turn words from a place on into values of these types; returns them and the place after them."""
    values: list[Any] = []
    for kind in kinds:
        if kind.parts is not None:
            parts, place = _unpack(kind.parts, words, place, release)
            values.append(class_of(kind.item)(*parts) if kind.item else tuple(parts))
        elif kind.n >= 0:
            data, shape = words[place], tuple(words[place + 1 : place + 1 + kind.n])
            strides = tuple(words[place + 1 + kind.n : place + 1 + 2 * kind.n])
            place += 2 + 2 * kind.n
            values.append(_copy(data, shape, strides, dtype_of(kind.item)))
            release(words[place - 1])
        elif kind.item == "None":
            values.append(None)
        else:
            word = words[place]
            place += 1
            if kind.item[0] == "f":
                values.append(struct.unpack("d", struct.pack("q", word))[0])
            elif kind.item == "b1":
                values.append(bool(word))
            else:
                values.append(word + 2**64 if kind.item == "u8" and word < 0 else word)
    return values, place


def _copy(data: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a copy of an array in memory that is not Python's."""
    if 0 in shape:
        return np.empty(shape, dtype)
    n_bytes = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + dtype.itemsize
    raw = (ctypes.c_char * n_bytes).from_address(data)
    return np.ndarray(shape, dtype, memoryview(raw), strides=strides).copy()


class _UnusableError(Exception):
    """Why the library is not used."""


@cache
def the_library() -> Library | None:
    """Return the library of this installation; None where there is none that can be used."""
    wanted = os.environ.get(SETTING, "")
    if wanted == "jit":
        return None
    try:
        return _load(wanted)
    except _UnusableError as reason:
        if wanted:
            raise DeviceError(f"{SETTING}={wanted!r}, but {reason}") from reason
        if (FOLDER / MANIFEST).exists():
            warn(f"the library of compiled CPU kernels is not used: {reason}; Numba compiles the kernels instead")
        return None


def _load(wanted: str) -> Library:
    try:
        manifest = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))
    except OSError as error:
        raise _UnusableError(f"there is none in {FOLDER} (`make kernels` builds it in a source checkout)") from error
    if manifest["format"] != FORMAT:
        raise _UnusableError(f"it has format {manifest['format']}, not {FORMAT} (`make kernels` builds it anew)")
    if (manifest["system"], manifest["machine"]) != (sys.platform, platform.machine().lower()):
        raise _UnusableError(f"it was built for {manifest['system']} on {manifest['machine']}")
    if hash_of(manifest["files"]) not in ("", manifest["sources"]):
        raise _UnusableError("it does not belong to the kernels' sources beside it (`make kernels` builds it anew)")
    files = {level: FOLDER / name for level, name in manifest["levels"].items()}
    levels = list(files)
    try:
        if wanted not in ("", "ahead"):
            if wanted not in levels:
                raise _UnusableError(f"there are {', '.join(levels)}, 'ahead' and 'jit'")
            usable = levels[: levels.index(wanted) + 1]
        else:
            most = ctypes.CDLL(str(files[levels[0]])).hornbeam_cpu_level()
            usable = [level for level in levels if int(level.partition("-v")[2] or 0) <= most]
        if not usable:
            raise _UnusableError(f"it needs a CPU of level {levels[0]}, and this one has level {most}")
        return Library({level: files[level] for level in usable}, manifest["kernels"])
    except OSError as error:
        raise _UnusableError(f"it cannot be loaded ({error})") from error


def describe() -> str:
    """Say where kernels come from, for hornbeam.devices()."""
    library = the_library()
    if library is not None:
        return f"kernels compiled ahead ({library.level})"
    try:
        has_numba = find_spec("numba") is not None
    except ImportError:
        has_numba = False
    if has_numba:
        return "kernels compiled by Numba at first use"
    return "no compiled kernels, and no Numba to compile them: pip install 'hornbeam[jit]'"

"""Which files the kernels are made of, and the hash by which compiled ones are known to belong to them.

Compiled code holds what its source says, what the kernels it calls say, and the values of the constants and record
types that it names. So a change anywhere in the CPU backend but in what loads and compiles kernels, or in a module from
which one of these files takes a constant, makes another hash; a change elsewhere does not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[3]
"""The folder of the package `hornbeam`."""

CPU = PACKAGE / "backends" / "cpu"

MACHINERY = {
    "expected.py", "jit.py", "kernel_cache.py", "library.py", "signatures.py", "sources.py", "threads.py", "turns.py",
    "unfinished.py", "warming.py",
}  # fmt: skip
"""Files of `host` of which compiled code holds nothing."""

_IMPORT = re.compile(r"^ *from hornbeam\.([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
_CONSTANT = re.compile(r"\b[A-Z][A-Z0-9_]+\b")


@cache
def source_hash() -> str:
    """Return the hash of all kernel sources, 32 hexadecimal digits."""
    return hash_of(source_names())


def hash_of(names: Iterable[str]) -> str:
    """Return the hash of some files, named from the package's folder; "" where they cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        for name in names:
            content = (PACKAGE / name).read_bytes().replace(b"\r\n", b"\n")
            digest.update(name.encode() + b"\0" + content + b"\0")
    except OSError:
        return ""
    return digest.hexdigest()


def source_names() -> list[str]:
    """Return the names of the files that kernels are made of, in order."""
    files = {path for path in CPU.rglob("*.py") if path.parent.name != "host" or path.name not in MACHINERY}
    open_files = sorted(files)
    while open_files:
        for module, names in _IMPORT.findall(open_files.pop().read_text(encoding="utf-8")):
            stem = PACKAGE.joinpath(*module.split("."))
            for other in (stem.with_suffix(".py"), stem / "__init__.py") if _CONSTANT.search(names) else ():
                if other not in files and other.is_file():
                    files.add(other)
                    open_files.append(other)
    return sorted(path.relative_to(PACKAGE).as_posix() for path in files)

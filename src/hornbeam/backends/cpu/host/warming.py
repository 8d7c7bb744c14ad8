"""The list of signatures that kernels are called with, and compiling them before they are called.

signatures.txt has a line for each: the kernel's name, a space, and the types of its arguments (signatures.py). The
library is built from it, and the tests hold it complete: docs/dev/kernels.md.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from hornbeam.backends.cpu.host.kernels import PACKAGE, Kernel

LIST = Path(__file__).parents[1] / "signatures.txt"


def listed_signatures() -> list[tuple[str, str]]:
    """Return kernels' names and signatures, in the order of the list."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [(name, signature) for name, _, signature in (line.partition(" ") for line in lines if line)]


def kernel_named(name: str) -> Kernel:
    """Return a kernel by the name that the list has for it."""
    module, _, function = name.rpartition(".")
    kernel = getattr(import_module(PACKAGE + module), function)
    assert isinstance(kernel, Kernel)
    return kernel


@cache
def import_kernels() -> None:
    """Import the whole CPU backend, so that every choice among kernels is known (kernels.kernels_by_kind)."""
    package = import_module(PACKAGE.removesuffix("."))
    for module in pkgutil.walk_packages(package.__path__, PACKAGE):
        if module.name not in (f"{PACKAGE}host.jit", f"{PACKAGE}host.instructions", f"{PACKAGE}host.kernel_cache"):
            import_module(module.name)

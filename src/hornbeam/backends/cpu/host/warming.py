"""The list of signatures that kernels are called with, and compiling them before they are called.

signatures.txt has a line for each: the kernel's name, a space, and the types of its arguments (signatures.py). The
library is built from it, and the tests hold it complete: docs/dev/kernels.md.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

from hornbeam.backends.cpu.host.expected import expected
from hornbeam.backends.cpu.host.kernels import PACKAGE, Kernel
from hornbeam.backends.cpu.host.library import the_library
from hornbeam.backends.cpu.host.signatures import examples, kinds_of
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.core.cpus import available_cpus
from hornbeam.core.errors import DeviceError

_helping: list[bool] = []  # not empty in a process that compiles for others: it starts none itself

LIST = Path(__file__).parents[1] / "signatures.txt"


def listed_signatures() -> list[tuple[str, str]]:
    """Return kernels' names and signatures, in the order of the list."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [(name, signature) for name, _, signature in (line.partition(" ") for line in lines if line)]


def add_to_list(more: Iterable[tuple[str, str]]) -> None:
    """Enter kernels and signatures into the list, which is sorted."""
    lines = {f"{name} {signature}" for name, signature in (*listed_signatures(), *more)}
    LIST.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def kernel_named(name: str) -> Kernel:
    """Return a kernel by the name that the list has for it."""
    module, _, function = name.rpartition(".")
    kernel = getattr(import_module(PACKAGE + module), function)
    assert isinstance(kernel, Kernel)
    return kernel


@cache
def all_kernels() -> list[Kernel]:
    """Import the whole CPU backend, so that every choice among kernels is known; return its kernels."""
    package = import_module(PACKAGE.removesuffix("."))
    kernels: dict[str, Kernel] = {}
    for module in pkgutil.walk_packages(package.__path__, PACKAGE):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Kernel):
                kernels[value.name] = value
    return list(kernels.values())


def compile_entry(name: str, signature: str) -> None:
    """Let Numba compile a kernel for a signature, or read it from its cache."""
    dispatcher = kernel_named(name).dispatcher
    dispatcher.compile(tuple(dispatcher.typeof_pyval(value) for value in examples(kinds_of(signature))))


def share_out(entries: list[tuple[str, str]], n_parts: int) -> list[list[tuple[str, str]]]:
    """Share out entries of the list in runs of about equal work. Long signatures take longest.

    Neighbours in the list call the same inner kernels, which are compiled once in a part.
    """
    parts: list[list[tuple[str, str]]] = [[] for _ in range(n_parts)]
    lengths = [len(signature) for _, signature in sorted(entries)]
    total, before = sum(lengths), 0
    for entry, length in zip(sorted(entries), lengths, strict=True):
        parts[min((before + length // 2) * n_parts // max(total, 1), n_parts - 1)].append(entry)
        before += length
    return parts


def warmup(processes: int | None = None) -> None:
    """Compile every CPU kernel that Hornbeam uses, in parallel processes, and keep them in Numba's cache.

    For images of containers, and wherever a first training must be quick. With kernels compiled ahead (see
    `hornbeam.devices()`) there is nothing to do.

    processes  how many; None: one for each CPU that may be used
    """
    if the_library() is not None:
        return
    n_parts = available_cpus() if processes is None else max(1, int(processes))
    command = [sys.executable, "-m", __name__]
    workers = [subprocess.Popen([*command, str(part), str(n_parts)]) for part in range(n_parts)]  # noqa: S603
    statuses = [worker.wait() for worker in workers]
    if any(statuses):
        raise DeviceError("the CPU kernels could not be compiled; what the processes wrote says why")


AT_ONCE = (
    "growth.dense.tree.search_in_tree",
    "growth.trees.outputs.grow_output",
    "growth.trees.driver.grow_one_at_a_time",
    "growth.dense.tree.sum_in_tree",
)
LATER = ("prediction.walk.add_trees_kernel", "growth.replay.replay_kernel", "growth.rows.rounding.round_kernel")
HELPED = (*AT_ONCE, *LATER)
"""Large kernels that a training on dense data without categories needs last, and those of predictions and of large
trainings, which are compiled when a CPU has nothing else to do: a small training may run meanwhile, on all of them. One
other process has as much to do with them as this one with the rest; several take them in turn."""

MOST_HELPERS = 3

LOW_PRIORITY = 10
"""By how much a process is nicer that gives way to others."""

RARE = ("DenseRows(u2", "PackedSets(")
"""What is in the signatures of other trainings."""

LARGE_ROWS = 65_536
"""Rows from which on sums of binary gradients take 64 bits (running_sums.py)."""

SMALL_ALONE = ("growth.trees.outputs.grow_output", Tuning.rows_at_once_by_team)
"""A kernel that no training on more rows needs."""


def common_entries(n_rows: int) -> list[tuple[str, str]]:
    """Return those kernels' entries for a common training on so many rows, the first needed first."""
    unlike = (*RARE, "Planes(i4" if n_rows > LARGE_ROWS else "Planes(i8")
    entries = [entry for entry in listed_signatures() if not any(word in entry[1] for word in unlike)]
    kernel, most_rows = SMALL_ALONE
    needed = [name for name in HELPED if name != kernel or n_rows <= most_rows]
    return [entry for name in needed for entry in entries if entry[0] == name]


def start_helpers(folder: str) -> list[subprocess.Popen[bytes]]:
    """Let other processes compile the large kernels of a common training while this one compiles what it needs first.

    There are the same few for all processes that share a cache, whose folder is given; none where there is no second
    CPU, or no Python to start. This process waits where it needs what another one is compiling (kernel_cache.py).
    """
    n_helpers = min(MOST_HELPERS, available_cpus() - 1)
    if _helping or not Path(sys.executable or "").name.startswith("python"):
        return []
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = []
    for part in range(n_helpers):
        call = f"help_out({folder!r}, {part}, {n_helpers}, {expected.n_rows})"
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import help_out; {call}"
        try:
            started.append(subprocess.Popen([sys.executable, "-c", code], **quiet))  # type: ignore[call-overload]  # noqa: S603
        except OSError:
            break
    return started


def help_out(folder: str, part: int, n_parts: int, n_rows: int) -> None:
    """Compile a part of what start_helpers says, for a training on so many rows, unless another process does."""
    from hornbeam.backends.cpu.host.turns import Turn

    turn = Turn(str(Path(folder) / f"hornbeam-helper-{part}.lock"))
    if turn.take(patience=0.0):
        entries = common_entries(n_rows)[part::n_parts]
        _compile([entry for entry in entries if entry[0] in AT_ONCE], waits=False)
        _give_way()
        _compile([entry for entry in entries if entry[0] in LATER], waits=False)
        turn.give()


def _compile(entries: list[tuple[str, str]], waits: bool = True) -> None:
    """Compile some entries, and wait for those that another process compiles, or pass them by."""
    _helping.append(True)
    all_kernels()
    for name, signature in entries:
        if waits or kernel_named(name).dispatcher._cache.has_turn():
            compile_entry(name, signature)


def _give_way() -> None:
    """Run from now on when nobody else wants the CPU; where there is no such rank, at a low priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        if hasattr(os, "nice"):
            os.nice(LOW_PRIORITY)


if __name__ == "__main__":
    _compile(share_out(listed_signatures(), int(sys.argv[2]))[int(sys.argv[1])])

"""Build the shared library of compiled CPU kernels.

    python kernels/build.py [--output FOLDER] [--exported FOLDER] [--jobs N] [--lowest-level] [--all-kernels]
                            [--if-possible]

    signatures.txt -- export.py, by Numba --> LLVM's code -- emit.py, a level each --> object -- C compiler --> library

It needs Numba and a C compiler: $CC, cc, gcc or clang; else, and on Windows, the package ziglang.
docs/dev/kernels.md says more.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import multiprocessing
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from emit import FUSED, LEVELS, Level, emit  # noqa: E402
from export import export, symbol_of  # noqa: E402

from hornbeam.backends.cpu.host.library import FOLDER, FORMAT, MANIFEST  # noqa: E402
from hornbeam.backends.cpu.host.sources import hash_of, source_hash, source_names  # noqa: E402
from hornbeam.backends.cpu.host.warming import listed_signatures, share_out  # noqa: E402

MACHINE = platform.machine().lower()
MOST_PARTS = 4
"""Parts of the list, which are compiled side by side; each has its own copy of what many kernels call."""
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def say(text: str) -> None:
    """Print to standard error: standard output may be a build tool's."""
    print(text, file=sys.stderr, flush=True)


def export_part(entries: list[tuple[str, str]], path: Path) -> None:
    """Export some entries to a file, in a process of its own."""
    gc.disable()  # nearly all that is made stays, and looking through it again and again takes a tenth of the time
    exported = export(entries, say if os.environ.get("VERBOSE") else lambda _: None)
    path.write_bytes(exported.bitcode)
    results = [[*entry, result] for entry, result in exported.results.items()]
    path.with_suffix(".json").write_text(json.dumps({"sources": source_hash(), "results": results}), encoding="utf-8")


def parts_in(folder: Path) -> tuple[dict[Path, set[str]], dict[tuple[str, str], str]]:
    """Return what was exported from these sources before, and the entries' results; what is of others is removed.

    Of each part there are the symbols that no part before it has.
    """
    parts: dict[Path, set[str]] = {}
    results: dict[tuple[str, str], str] = {}
    for path in sorted(folder.glob("*.json")):
        part = json.loads(path.read_text(encoding="utf-8"))
        if part["sources"] == source_hash():
            own = {(name, signature): result for name, signature, result in part["results"]}
            parts[path.with_suffix(".bc")] = {symbol_of(*entry) for entry in own if entry not in results}
            results |= own
        else:
            path.unlink()
            path.with_suffix(".bc").unlink(missing_ok=True)
    return parts, results


def compiler() -> list[str]:
    """Return the command of the C compiler."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang") if sys.platform != "win32" else ():
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"]


def can_link() -> bool:
    """Say whether there is a C compiler."""
    command = compiler()
    return bool(shutil.which(command[0])) and ("ziglang" not in command or bool(importlib.util.find_spec("ziglang")))


def object_of(path: Path, symbols: set[str], level: Level) -> bytes:
    """Return the object file of a part for a level."""
    return emit(path.read_bytes(), symbols, level, is_looked_through=disassembler() is not None)


def link(objects: list[bytes], target: Path, start: float) -> None:
    """Make a library of object files."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"kernels-{i}.o" for i in range(len(objects))]
        for file, code in zip(files, objects, strict=True):
            file.write_bytes(code)
        elf = ["-s", "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-lm"]
        options = {"win32": [], "darwin": ["-Wl,-dead_strip", "-Wl,-x"]}.get(sys.platform, elf)
        position = [] if sys.platform == "win32" else ["-fPIC", "-fvisibility=hidden"]
        command = [*compiler(), "-O2", "-ffp-contract=off", "-shared", *position, "-o", str(target), *map(str, files)]
        subprocess.run([*command, str(HERE / "support.c"), *options], check=True)
    look_through(target)
    say(f"{target.name}: {target.stat().st_size >> 10} KB, {time.perf_counter() - start:.0f} s")


def disassembler() -> str | None:
    """Return the path of a tool that disassembles libraries; None: there is none."""
    return shutil.which("objdump") or shutil.which("llvm-objdump")


def look_through(target: Path) -> None:
    """Disassemble a library, where there is a tool for that, and refuse it if it multiplies and adds at once."""
    tool = disassembler()
    if tool is None:
        say("no objdump: only the assembly before linking was looked through for fused instructions")
        return
    listing = subprocess.run(
        [tool, "-d", "--no-show-raw-insn", str(target)], check=True, capture_output=True, text=True
    ).stdout  # fmt: skip
    instructions = re.sub(r"^\s*[0-9a-f]+:", " ", listing, flags=re.MULTILINE)
    fused = sorted(set(FUSED.findall(instructions)))
    if fused:
        raise SystemExit(f"{target.name}: instructions that multiply and add at once: {', '.join(fused)}")


def is_current(output: Path, entries: list[tuple[str, str]], levels: list[Level]) -> bool:
    """Say whether a folder has the libraries of some levels already, with all entries, built from these sources."""
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    there = {(name, kernel[0]) for name, kernels in manifest["kernels"].items() for kernel in kernels}
    return (
        manifest["format"] == FORMAT
        and manifest["sources"] == source_hash()
        and there.issuperset(entries)
        and all((output / manifest["levels"].get(level.name, "none")).exists() for level in levels)
    )


def build(output: Path, exported: Path, jobs: int, lowest_alone: bool = False, all_kernels: bool = False) -> None:
    """Build the libraries of all levels of this machine, or of the lowest one alone, and their manifest.

    all_kernels  whether a level has kernels that are no quicker than those of the level below, too
    """
    start = time.perf_counter()
    entries = sorted(listed_signatures())
    levels = LEVELS[MACHINE][: 1 if lowest_alone else None]
    if all_kernels:
        levels = [level._replace(modules=("",)) for level in levels]
    elif is_current(output, entries, levels):
        say("the library of kernels is that of these sources already")
        return
    objects: dict[Path, tuple[list[Future[bytes]], float]] = {}
    names = {level.name: f"kernels-{level.name}{SUFFIX}" for level in levels}
    exported.mkdir(parents=True, exist_ok=True)
    _, before = parts_in(exported)
    new = [entry for entry in entries if entry not in before]
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        stamp = time.time_ns()
        runs = [run for run in share_out(new, min(jobs, MOST_PARTS)) if run]
        shares = [(run, exported / f"{stamp}-{i}.bc") for i, run in enumerate(runs)]
        list(pool.map(export_part, *zip(*shares, strict=True)) if shares else ())
        say(f"{len(new)} of {len(entries)} kernels exported: {time.perf_counter() - start:.0f} s")
        parts, results = parts_in(exported)
        for level in levels:
            wanted = {symbol_of(*entry) for entry in entries if entry[0].startswith(level.modules)}
            codes = [pool.submit(object_of, path, symbols & wanted, level) for path, symbols in parts.items()]
            objects[output / names[level.name]] = codes, time.perf_counter()
        for target, (codes, begun) in objects.items():
            link([code.result() for code in codes], target, begun)
    kernels: dict[str, list[tuple[str, str, str]]] = {}
    for name, signature in entries:
        entry = signature, results[name, signature], symbol_of(name, signature)
        kernels.setdefault(name, []).append(entry)
    files = source_names()
    manifest = {
        "format": FORMAT, "system": sys.platform, "machine": MACHINE, "sources": hash_of(files), "files": files,
        "levels": names, "kernels": kernels,
    }  # fmt: skip
    (output / MANIFEST).write_text(json.dumps(manifest, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=FOLDER)
    parser.add_argument("--exported", type=Path, default=HERE.parent / "build" / "kernels", help="LLVM's code, kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lowest-level", action="store_true", help="for the lowest level of CPUs alone")
    parser.add_argument("--all-kernels", action="store_true", help="each level has all kernels (benchmarks/levels.py)")
    parser.add_argument("--if-possible", action="store_true", help="do nothing where there is no C compiler")
    given = parser.parse_args()
    if given.if_possible and not (can_link() and MACHINE in LEVELS):
        say(
            "no library of kernels: there is no C compiler, or no level for this machine; Numba compiles them when used"
        )
        sys.exit(0)
    build(given.output, given.exported, given.jobs, given.lowest_level, given.all_kernels)

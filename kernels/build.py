"""Build the shared library of compiled CPU kernels.

    python kernels/build.py [--output FOLDER] [--exported FOLDER] [--jobs N] [--lowest-level]

    signatures.txt -- export.py, by Numba --> LLVM's code -- emit.py, a level each --> object -- C compiler --> library

It needs Numba and a C compiler: $CC, cc, gcc or clang; else, and on Windows, the package ziglang.
docs/dev/kernels.md says more.
"""

from __future__ import annotations

import argparse
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
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from emit import FUSED, LEVELS, Level, emit  # noqa: E402
from export import export, symbol_of  # noqa: E402

from hornbeam.backends.cpu.host.library import FOLDER, FORMAT, MANIFEST  # noqa: E402
from hornbeam.backends.cpu.host.sources import hash_of, source_hash, source_names  # noqa: E402
from hornbeam.backends.cpu.host.warming import listed_signatures  # noqa: E402

MACHINE = platform.machine().lower()
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def say(text: str) -> None:
    """Print to standard error: standard output may be a build tool's."""
    print(text, file=sys.stderr, flush=True)


def export_part(entries: list[tuple[str, str]], path: Path) -> None:
    """Export some entries to a file, in a process of its own."""
    exported = export(entries, say if os.environ.get("VERBOSE") else lambda _: None)
    path.write_bytes(exported.bitcode)
    results = [[*entry, result] for entry, result in exported.results.items()]
    path.with_suffix(".json").write_text(json.dumps({"sources": source_hash(), "results": results}), encoding="utf-8")


def parts_in(folder: Path) -> tuple[list[Path], dict[tuple[str, str], str]]:
    """Return what was exported from these sources before, and the entries' results; what is of others is removed."""
    paths, results = [], {}
    for path in sorted(folder.glob("*.json")):
        part = json.loads(path.read_text(encoding="utf-8"))
        if part["sources"] == source_hash():
            paths.append(path.with_suffix(".bc"))
            results |= {(name, signature): result for name, signature, result in part["results"]}
        else:
            path.unlink()
            path.with_suffix(".bc").unlink(missing_ok=True)
    return paths, results


def compiler() -> list[str]:
    """Return the command of the C compiler."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang") if sys.platform != "win32" else ():
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"]


def link(parts: list[bytes], symbols: set[str], level: Level, target: Path) -> None:
    """Make the library of a level."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "kernels.o"
        code.write_bytes(emit(parts, symbols, level))
        elf = ["-s", "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-lm"]
        options = {"win32": [], "darwin": ["-Wl,-dead_strip", "-Wl,-x"]}.get(sys.platform, elf)
        position = [] if sys.platform == "win32" else ["-fPIC", "-fvisibility=hidden"]
        command = [*compiler(), "-O2", "-ffp-contract=off", "-shared", *position, "-o", str(target), str(code)]
        subprocess.run([*command, str(HERE / "support.c"), *options], check=True)
    look_through(target)
    say(f"{target.name}: {target.stat().st_size >> 10} KB, {time.perf_counter() - start:.0f} s")


def look_through(target: Path) -> None:
    """Disassemble a library, where there is a tool for that, and refuse it if it multiplies and adds at once."""
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
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


def build(output: Path, exported: Path, jobs: int, lowest_alone: bool = False) -> None:
    """Build the libraries of all levels of this machine, or of the lowest one alone, and their manifest."""
    start = time.perf_counter()
    entries = sorted(listed_signatures())
    levels = LEVELS[MACHINE][: 1 if lowest_alone else None]
    names = {level.name: f"kernels-{level.name}{SUFFIX}" for level in levels}
    exported.mkdir(parents=True, exist_ok=True)
    _, before = parts_in(exported)
    new = [entry for entry in entries if entry not in before]
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        stamp = time.time_ns()
        shares = [(new[i::jobs], exported / f"{stamp}-{i}.bc") for i in range(min(jobs, len(new)))]
        list(pool.map(export_part, *zip(*shares, strict=True)) if shares else ())
        say(f"{len(new)} of {len(entries)} kernels exported: {time.perf_counter() - start:.0f} s")
        paths, results = parts_in(exported)
        parts = [path.read_bytes() for path in paths]
        symbols, targets = {symbol_of(*entry) for entry in entries}, [output / names[level.name] for level in levels]
        list(pool.map(link, [parts] * len(levels), [symbols] * len(levels), levels, targets))
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
    given = parser.parse_args()
    build(given.output, given.exported, given.jobs, given.lowest_level)

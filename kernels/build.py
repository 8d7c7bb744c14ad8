"""Build the shared library of compiled CPU kernels.

    python kernels/build.py [--output FOLDER] [--jobs N]

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
from export import Exported, export  # noqa: E402

from hornbeam.backends.cpu.host.library import FOLDER, MANIFEST  # noqa: E402
from hornbeam.backends.cpu.host.sources import hash_of, source_names  # noqa: E402
from hornbeam.backends.cpu.host.warming import listed_signatures  # noqa: E402

MACHINE = platform.machine().lower()
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def say(text: str) -> None:
    """Print to standard error: standard output may be a build tool's."""
    print(text, file=sys.stderr, flush=True)


def export_part(entries: list[tuple[int, str, str]]) -> Exported:
    """Export some entries, in a process of its own."""
    return export(entries, say if os.environ.get("VERBOSE") else lambda _: None)


def compiler() -> list[str]:
    """Return the command of the C compiler."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang") if sys.platform != "win32" else ():
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"]


def link(parts: list[bytes], level: Level, target: Path) -> None:
    """Make the library of a level."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "kernels.o"
        code.write_bytes(emit(parts, level))
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


def build(output: Path, jobs: int) -> None:
    """Build the libraries of all levels of this machine, and their manifest."""
    start = time.perf_counter()
    entries = [(number, *one) for number, one in enumerate(sorted(listed_signatures()))]
    levels = LEVELS[MACHINE]
    names = {level.name: f"kernels-{level.name}{SUFFIX}" for level in levels}
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        exported = list(pool.map(export_part, [entries[i::jobs] for i in range(jobs)]))
        say(f"{len(entries)} kernels exported: {time.perf_counter() - start:.0f} s")
        parts = [part.bitcode for part in exported]
        list(pool.map(link, [parts] * len(levels), levels, [output / names[level.name] for level in levels]))
    results = {number: result for part in exported for number, result in part.results.items()}
    kernels: dict[str, list[tuple[str, str]]] = {}
    for number, name, signature in entries:
        kernels.setdefault(name, []).append((signature, results[number]))
    files = source_names()
    manifest = {
        "system": sys.platform, "machine": MACHINE, "sources": hash_of(files), "files": files, "levels": names,
        "kernels": kernels,
    }  # fmt: skip
    (output / MANIFEST).write_text(json.dumps(manifest, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=FOLDER)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    build(given.output, given.jobs)

"""Compiled kernels on disk: whatever is wrong with the folder, a kernel runs, and one line says what helps."""

from __future__ import annotations

import errno
import gc
import logging
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from hornbeam.backends.cpu.host import jit, kernel_cache  # noqa: E402
from hornbeam.backends.cpu.host.kernels import OPTIONS, Kernel  # noqa: E402


def twice(values):
    for i in range(len(values)):
        values[i] *= 2.0


def run_anew() -> Kernel:
    """Compile or read the kernel as a new process would, run it, and return it."""
    made = Kernel(twice, OPTIONS, is_cached=True)
    values = np.arange(3.0)
    made.dispatcher(values)
    assert values.tolist() == [0.0, 2.0, 4.0]
    return made


def hits(made: Kernel) -> int:
    return sum(made.dispatcher.stats.cache_hits.values())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_told", set())
    return tmp_path / "cache"


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*{suffix}"))


def test_a_kernel_is_read_by_the_next_process(folder):
    assert hits(run_anew()) == 0
    assert len(files(folder, ".nbc")) == 1
    assert hits(run_anew()) == 1


@pytest.mark.parametrize("place", ["file", "proc"])
def test_an_unwritable_folder_is_named_once_with_the_remedy(folder, place, monkeypatch, caplog):
    where = folder if place == "file" else Path("/proc/none/such")
    if place == "file":
        folder.write_text("a file in place of the folder")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(where))
    for locator in ("InTreeCacheLocator", "UserWideCacheLocator"):  # a read-only root, and no home
        monkeypatch.setattr(getattr(numba.core.caching, locator), "from_function", lambda *_: None)
    with caplog.at_level(logging.WARNING, "hornbeam"):
        assert hits(run_anew()) == 0
        assert hits(run_anew()) == 0
    (line,) = [record.getMessage() for record in caplog.records]
    assert str(where) in line and "NUMBA_CACHE_DIR" in line and "\n" not in line


def test_a_full_disk_is_told_once(folder, monkeypatch, caplog):
    def full(self, name, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kernel_cache._CheckedFiles, "_save_data", full)
    with caplog.at_level(logging.WARNING, "hornbeam"):
        run_anew()
        run_anew()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "No space left on device" in line and str(folder) in line and "NUMBA_CACHE_DIR" in line


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "flipped"])
def test_a_damaged_file_is_compiled_anew_and_mended(folder, suffix, damage):
    run_anew()
    (path,) = files(folder, suffix)
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "empty": b"",
        "truncated": whole[:middle],
        "garbage": b"\x80\x04garbage" * 40,
        "flipped": whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :],
    }
    path.write_bytes(damaged[damage])
    run_anew()
    assert hits(run_anew()) == 1


def test_files_of_another_signature_are_not_taken_for_this_one(folder):
    made = run_anew()
    made.dispatcher(np.arange(3))
    first, second = files(folder, ".nbc")
    shutil.copy(second, first)  # as two processes that save at once may leave it
    assert hits(run_anew()) == 0


def test_a_change_in_any_kernel_source_is_noticed(folder, monkeypatch):
    run_anew()
    monkeypatch.setattr(kernel_cache, "source_hash", lambda: "another")
    assert hits(run_anew()) == 0


def test_who_compiles_is_waited_for_and_what_it_saves_is_taken(folder, monkeypatch):
    saved = []
    made = run_anew()
    signature = made.dispatcher.signatures[0]
    compiled = made.dispatcher.overloads[signature]
    shutil.rmtree(folder)

    def save_meanwhile(turn, patience):
        saved.append(turn.path)
        kernel_cache.KernelCache(twice).save_overload(signature, compiled)

    monkeypatch.setattr(kernel_cache.Turn, "take", save_meanwhile)
    assert hits(run_anew()) == 1
    assert len(saved) == 1


def test_a_lock_is_released_when_the_kernel_is_saved(folder):
    run_anew()
    turn = kernel_cache.KernelCache(twice)._turn
    assert turn.take(0.0)
    assert turn._descriptor is not None
    turn.give()


def test_a_function_without_a_module_compiles(folder):
    names: dict[str, object] = {}
    exec("def plain(x):\n    return x + 1\n", names)
    del names["plain"].__module__
    assert getattr(names["plain"], "__module__", None) is None
    jit.CompilationNotice().on_start(
        type("Event", (), {"data": {"dispatcher": type("D", (), {"py_func": names["plain"]})}})
    )
    assert numba.njit(names["plain"])(1) == 2


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_kernels_are_compiled_and_then_as_before(collects):
    def kernel():
        pass

    kernel.__module__ = "hornbeam.backends.cpu.somewhere"
    compilation = type("Event", (), {"data": {"dispatcher": type("D", (), {"py_func": kernel})}})
    notice, before = jit.CompilationNotice(), gc.isenabled()
    notice.helpers = []
    try:
        (gc.enable if collects else gc.disable)()
        notice.on_start(compilation)
        notice.on_start(compilation)  # one that it calls
        notice.on_end(compilation)
        assert not gc.isenabled()
        notice.on_end(compilation)
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


TOGETHER = """
import sys
import numpy as np
from hornbeam.backends.cpu.host.jit import event
from hornbeam.backends.cpu.losses.pointwise import focal_kernel

class Count(event.Listener):
    n = 0
    def on_start(self, compilation): self.n += compilation.data["dispatcher"].py_func.__name__ == "focal_kernel"
    def on_end(self, compilation): pass

count = Count()
event.register("numba:compile", count)
print("ready", flush=True)
sys.stdin.readline()
values = np.full(3, 0.5)
focal_kernel(2.0, 0.25, values, values, np.empty(3), np.empty(3))
print(count.n)
"""


def test_processes_that_start_together_compile_a_kernel_once(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "HORNBEAM_KERNELS": "jit"}
    with ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", TOGETHER], env=environment, **pipes))
            for _ in range(3)
        ]
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        outcomes = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, outcomes
    assert sum(int(out) for out, _ in outcomes) == 1

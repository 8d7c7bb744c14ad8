"""Kernels compiled ahead: the library is used if it belongs here, gives Numba's bits, and says what it has not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.host import library, signatures, sources, warming
from hornbeam.backends.cpu.host.expected import Expected
from hornbeam.backends.cpu.host.team import ALONE
from hornbeam.backends.cpu.losses.evaluation import fixed_sum_kernel, largest_bits_kernel, ranks_among_kernel
from hornbeam.core.dtypes import NODE, SPLIT
from hornbeam.core.errors import DeviceError

needs_library = pytest.mark.skipif(
    not (library.FOLDER / library.MANIFEST).exists() or library.the_library() is None, reason="needs `make kernels`"
)

REFUSED = """
import importlib.abc, sys

class Refused(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refused())
import numpy as np
import hornbeam as hb
X = np.random.default_rng(0).standard_normal((300, 4))
"""


def run_without_numba(code: str, **settings: str) -> subprocess.CompletedProcess[str]:

    return subprocess.run(
        [sys.executable, "-c", REFUSED + code], capture_output=True, text=True, env={**os.environ, **settings}
    )


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the library that may be spoilt."""
    shutil.copytree(library.FOLDER, tmp_path / "library")
    monkeypatch.setattr(library, "FOLDER", tmp_path / "library")
    return tmp_path / "library"


# ---- signatures ----


class Pair(NamedTuple):
    one: int
    two: float


def test_a_signature_names_values_of_the_same_types():
    table = np.zeros((4, 6))
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    values = (
        1, 2.0, True, None, np.float32(1), np.uint8(1), np.bool_(True), 2**63, table, table.T, table[::2, ::2], fixed,
        np.zeros(2, SPLIT), np.zeros((1, 2), NODE), (1, (2.0, None)), ALONE, np.zeros((2, 2), np.uint16),
    )  # fmt: skip
    text = signatures.signature_of(values)
    assert text.startswith("i8,f8,b1,None,f4,u1,b1,u8,f8[2C],f8[2F],f8[2A],f8[1C-],SPLIT[1C],NODE[2C],(i8,(f8,None)),")
    examples = tuple(signatures.examples(signatures.kinds_of(text)))
    assert signatures.signature_of(examples) == text
    assert type(examples[15]) is type(ALONE)


@pytest.mark.parametrize("value", ["text", np.zeros(2, ">f8"), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")]), [1]])
def test_what_no_kernel_takes_has_no_signature(value):
    with pytest.raises(TypeError, match="no kernel takes"):
        signatures.signature_of((value,))


@pytest.mark.parametrize(
    ("compiled", "called", "works"),
    [
        ("f8[2A]", "f8[2C]", True),
        ("f8[2A]", "f8[2F]", True),
        ("f8[2C]", "f8[2A]", False),
        ("f8[2C]", "f8[2F]", False),
        ("f8[1C-]", "f8[1C]", True),
        ("f8[1C]", "f8[1C-]", False),
        ("f8[1C]", "f4[1C]", False),
        ("i8", "f8", False),
        ("i8", "i8[1C]", False),
        ("(i8,f8[1A])", "(i8,f8[1C])", True),
        ("(i8)", "(i8,i8)", False),
        ("host.team:Crew(i8,i8[1C],i8[1C])", "(i8,i8[1C],i8[1C])", False),
        ("None", "i8", False),
    ],
)
def test_a_kernel_takes_arguments_that_ask_for_less(compiled, called, works):
    assert signatures.kinds_of(compiled)[0].takes(signatures.kinds_of(called)[0]) is works


def test_the_list_is_sorted_and_each_line_names_a_kernel():
    lines = warming.LIST.read_text().splitlines()
    assert lines == sorted(set(lines))
    for name, signature in warming.listed_signatures():
        kernel = warming.kernel_named(name)
        n_arguments = kernel.py_func.__code__.co_argcount
        assert len(signatures.kinds_of(signature)) == n_arguments, name


# ---- sources ----


def test_the_hash_covers_kernels_and_the_constants_they_take():
    names = sources.source_names()
    assert {"backends/cpu/growth/trees/driver.py", "core/dtypes.py", "core/numerics.py"} <= set(names)
    assert {"training/train.py", "backends/cpu/host/library.py"}.isdisjoint(names)
    assert sources.hash_of(names) == sources.source_hash() != sources.hash_of(names[1:])


# ---- the library ----


@needs_library
def test_arguments_are_read_by_the_library_as_by_python():
    assert library.the_library().quick
    values = np.array([3.0, -7.0, 1.0])
    assert largest_bits_kernel(values) == np.array([7.0]).view(np.int64)[0]
    assert fixed_sum_kernel(values, np.float64(2.0)) == -6
    below, not_above = ranks_among_kernel(np.array([1.0, 2.0]), np.array([0.0, 2.0, 2.0]))
    assert (below.tolist(), not_above.tolist()) == ([1, 1], [1, 3])


@pytest.fixture(scope="module")
def models_of_levels():
    """What each level of the library trains, in a process of its own."""
    manifest = json.loads((library.FOLDER / library.MANIFEST).read_text())
    code = "print(hb.train({'verbosity': -1}, hb.Dataset(X, label=X[:, 0]), 5).fingerprint())"
    return {run_without_numba(code, HORNBEAM_KERNELS=level).stdout for level in manifest["levels"]}


@needs_library
@pytest.mark.parametrize("quick", [True, False])
def test_every_level_gives_the_same_model(quick, models_of_levels, copy, monkeypatch):
    assert len(models_of_levels) == 1 and models_of_levels != {""}
    with monkeypatch.context() as patch:
        patch.setattr(library.Library, "_reads_arguments", lambda self: quick)
        assert library._load("ahead").quick is quick


@needs_library
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_level_has_the_kernels_that_it_lacks_from_the_one_below(copy):
    source = Path(__file__).parents[3] / "kernels" / "support.c"  # what every level has; here no kernel beside it
    subprocess.run(["cc", "-shared", "-fPIC", "-o", copy / "above.so", source, "-lm"], check=True)
    manifest = json.loads((copy / library.MANIFEST).read_text())
    manifest["levels"]["above"] = "above.so"
    (copy / library.MANIFEST).write_text(json.dumps(manifest))
    both = library._load("above")
    assert both.level == "above"
    assert library._Caller(fixed_sum_kernel, both).run(np.array([3.0, -7.0, 1.0]), np.float64(2.0)) == -6
    assert not any(
        hasattr(both._libraries[0], entry[2]) for entry in both.kernels["losses.evaluation.fixed_sum_kernel"]
    )


@needs_library
def test_numba_is_not_imported_where_the_library_has_the_kernels():
    code = "hb.train({'verbosity': -1}, hb.Dataset(X, label=X[:, 0]), 5).predict(X)\nprint(hb.devices()[0].description)"
    run = run_without_numba(code)
    assert run.returncode == 0, run.stderr
    assert "compiled ahead" in run.stdout


def test_without_library_and_numba_an_error_says_what_to_install():
    run = run_without_numba(
        "print(hb.devices()[0].description)\nhb.train({'verbosity': -1}, hb.Dataset(X, label=X[:, 0]), 5)",
        HORNBEAM_KERNELS="jit",
    )
    assert run.returncode != 0
    assert "DeviceError" in run.stderr and "pip install 'hornbeam[jit]'" in run.stderr
    assert "pip install 'hornbeam[jit]'" in run.stdout


@needs_library
def test_a_library_of_other_sources_is_not_used_and_says_so(copy):
    manifest = json.loads((copy / library.MANIFEST).read_text())
    manifest["sources"] = "0" * 32
    (copy / library.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(library._UnusableError, match="does not belong to the kernels' sources"):
        library._load("")


@needs_library
def test_a_library_of_another_machine_or_a_damaged_one_is_not_used(copy):
    manifest = json.loads((copy / library.MANIFEST).read_text())
    for name in manifest["levels"].values():
        (copy / name).write_bytes(b"not a library")
    with pytest.raises(library._UnusableError, match="cannot be loaded"):
        library._load("")
    manifest["format"] = 0
    (copy / library.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(library._UnusableError, match="has format 0"):
        library._load("")
    manifest |= {"format": library.FORMAT, "machine": "pdp-11"}
    (copy / library.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(library._UnusableError, match=r"built for .* on pdp-11"):
        library._load("")


@needs_library
def test_an_unknown_level_is_an_error(monkeypatch):
    monkeypatch.setenv(library.SETTING, "x86-64-v9")
    with pytest.raises(DeviceError, match="HORNBEAM_KERNELS='x86-64-v9', but there are"):
        library.the_library.__wrapped__()


def test_devices_say_where_kernels_come_from():
    cpu = next(info for info in hb.devices() if info.name == "cpu")
    assert "kernels compiled" in cpu.description


# ---- warming ----


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_parts_of_the_list_are_runs_of_neighbours_that_take_equally_long(n_parts):
    entries = warming.listed_signatures()
    parts = warming.share_out(entries[::-1], n_parts)
    assert [entry for part in parts for entry in part] == sorted(entries)
    loads = [sum(len(signature) for _, signature in part) for part in parts]
    assert max(loads) <= 1.1 * min(loads)


def test_few_entries_leave_parts_empty():
    assert warming.share_out([("a", "i8")], 3) == [[], [("a", "i8")], []]
    assert warming.share_out([], 2) == [[], []]


@needs_library
def test_warmup_starts_nothing_where_kernels_are_compiled_ahead(monkeypatch):
    monkeypatch.setattr(warming.subprocess, "Popen", lambda *_: pytest.fail("a process was started"))
    hb.warmup()


def test_warmup_runs_a_process_for_each_part_and_tells_of_failures(monkeypatch):
    started = []

    class Process:
        def __init__(self, command):
            started.append(command[-2:])

        def wait(self):
            return 1 if len(started) > 2 else 0

    monkeypatch.setattr(warming, "the_library", lambda: None)
    monkeypatch.setattr(warming.subprocess, "Popen", Process)
    hb.warmup(2)
    assert started == [["0", "2"], ["1", "2"]]
    with pytest.raises(DeviceError, match="could not be compiled"):
        hb.warmup(1)


def test_the_helper_compiles_each_of_its_kernels_once_and_for_the_rows_that_there_are():
    small, large = warming.common_entries(1_000), warming.common_entries(1_000_000)
    assert [name for name, _ in small] == list(warming.HELPED)
    assert [name for name, _ in large] == [name for name in warming.HELPED if name != warming.SMALL_ALONE[0]]
    assert len(set(large) - set(small)) == 2  # sums of 64 bits, and their search


COMMON_TRAININGS = """
import numpy as np

import hornbeam as hb
from hornbeam.backends.cpu.host.kernels import Kernel

called, prepare = set(), Kernel._prepare
Kernel._prepare = lambda self: called.add(self.name) or prepare(self)
for n_rows in (2_000, 140_000):
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    data = hb.Dataset(X, label=(X[:, 0] > 0).astype(float))
    hb.train({"objective": "binary", "num_leaves": 4, "device": "cpu", "verbosity": -1}, data, 2).predict(X)
print(*called)
"""


def test_helpers_compile_what_common_trainings_need():
    told = subprocess.run([sys.executable, "-c", COMMON_TRAININGS], check=True, capture_output=True, text=True).stdout
    assert set(warming.HELPED) <= set(told.split())


def test_a_helper_starts_no_helper_and_needs_another_cpu_and_python(monkeypatch, tmp_path):
    monkeypatch.setattr(warming.subprocess, "Popen", lambda command, **_: command[-1])
    monkeypatch.setattr(warming, "expected", Expected())
    warming.expected.see(140_000)
    warming.expected.see(1_000)
    for n_cpus, n_helpers in ((1, 0), (2, 1), (4, 3), (64, warming.MOST_HELPERS)):
        monkeypatch.setattr(warming, "available_cpus", lambda n=n_cpus: n)
        started = warming.start_helpers(str(tmp_path))
        assert len(started) == n_helpers
        assert all(code.endswith(f", {part}, {n_helpers}, 140000)") for part, code in enumerate(started))
    with monkeypatch.context() as patch:
        patch.setattr(warming, "_helping", [True])
        assert warming.start_helpers(str(tmp_path)) == []
    monkeypatch.setattr(sys, "executable", "/usr/bin/spreadsheet")
    assert warming.start_helpers(str(tmp_path)) == []


def test_helpers_of_all_processes_that_share_a_cache_compile_each_kernel_once(monkeypatch, tmp_path):
    compiled, given_way = [], []
    monkeypatch.setattr(warming, "_compile", lambda entries, waits: compiled.extend(entries))
    monkeypatch.setattr(warming, "_give_way", lambda: given_way.append([name for name, _ in compiled]))
    for part in range(3):
        warming.help_out(str(tmp_path), part, 3, 1_000)
    assert sorted(compiled) == sorted(warming.common_entries(1_000))
    assert len(given_way) == 3 and set(given_way[0]) <= set(warming.AT_ONCE)
    from hornbeam.backends.cpu.host.turns import Turn

    turn = Turn(str(tmp_path / "hornbeam-helper-1.lock"))
    assert turn.take(patience=0.0)
    warming.help_out(str(tmp_path), 1, 3, 1_000)
    assert len(compiled) == len(warming.HELPED)


def test_a_helper_passes_by_what_another_process_compiles(monkeypatch):
    from hornbeam.backends.cpu.host.turns import Turn

    compiled, entries = [], warming.common_entries(1_000)
    caches = {name: warming.kernel_named(name).dispatcher._cache for name, _ in entries}
    monkeypatch.setattr(warming, "_helping", [])
    monkeypatch.setattr(warming, "compile_entry", lambda name, _: (compiled.append(name), caches[name]._turn.give()))
    elsewhere = Turn(caches[warming.HELPED[2]]._turn.path)
    assert elsewhere.take(patience=0.0)
    warming._compile(entries, waits=False)
    assert compiled == [name for name in warming.HELPED if name != warming.HELPED[2]]
    elsewhere.give()
    compiled.clear()
    warming._compile(entries, waits=False)
    assert compiled == list(warming.HELPED)


def test_who_gives_way_has_a_lower_rank():
    code = "import os; from hornbeam.backends.cpu.host.warming import _give_way; _give_way(); "
    code += "print(os.nice(0) >= 10 or os.sched_getscheduler(0) == os.SCHED_IDLE)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "True\n"

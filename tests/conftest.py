"""What all tests share: every device that this machine offers, and settings of Hypothesis."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hornbeam.backends.gpu.data import layout
from hornbeam.testing.checks import usable_devices

# The first call of a kernel compiles it, and a machine may be busy, so no example may be judged by its time. Under CI
# the examples are the same in every run; at home Hypothesis looks for new ones.
settings.register_profile(
    "hornbeam", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("hornbeam")


def _has_pocl_alone() -> bool:
    """Say whether all OpenCL there is runs on the CPU, by PoCL."""
    try:
        import pyopencl

        return all(platform.name == "Portable Computing Language" for platform in pyopencl.get_platforms())
    except Exception:  # there is none
        return False


# Threads of the peers that wait for each other shall sleep: several tests run side by side, and spinning threads take
# the CPU from those that they wait for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Tests run side by side, on as many processes as there are CPUs: each has one thread, unless it asks for more. PoCL has
# all of its threads in every second process, where groups of a kernel run side by side.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if WORKER:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if WORKER.endswith(("0", "2", "4", "6", "8")):
    for variable in ("POCL_CPU_MAX_CU_COUNT", "POCL_MAX_PTHREAD_COUNT"):  # that of PoCL 6, and before
        os.environ.setdefault(variable, "1")

# PoCL takes a fifth of the time to compile kernels as they are written, and these take four times as long to run. So
# those alone are optimised that run thousands of times in a run of the tests: the kernels of most rounds, in the
# variants that NARROW_WORDS and FEW_BINS leave (below). `make test-large` lets PoCL optimise all of them.
OPTIMISED = {
    "histogram.cl": {"n_bins": [256], "tile_words": [4, 8], "words": [4, 8], "wide": [False], "outputs": [False]},
    "split.cl": {"n_bins": [256, 65536], "tile_words": [4, 8], "threads": [128], "context": [False]},
    "plan.cl": {"words": [4], "threads": [512]},
    "sort.cl": {"value_bytes": [8]},
    "renewal.cl": {"wide": [False], "threads": [256]},
}
"""By kernel file, the values of Variant's fields."""


def _is_optimised(variant: Any, is_old: bool) -> bool:
    """Say whether PoCL shall optimise a variant of a kernel file.

    split_categorical.cl crashes as PoCL 5 writes it for AVX-512 without optimising.
    """
    if variant.source == "split_categorical.cl":
        return not is_old
    usual = OPTIMISED.get(variant.source, {"source": []})
    return all(getattr(variant, name) in values for name, values in usual.items())


def _compile_quickly() -> None:
    """Let PoCL optimise some kernels alone, and PoCL 3 read the declarations that they need in place of all."""
    import pyopencl

    from hornbeam.backends.gpu.runtime import opencl

    build, source_text = opencl.OpenCLRuntime._build, opencl.source_text
    is_old = all("PoCL 3." in platform.version for platform in pyopencl.get_platforms())
    if is_old:
        declarations = Path(__file__).with_name("backends").joinpath("pocl_builtins.h").read_text(encoding="utf-8")
        opencl.source_text = lambda prelude, source: declarations + source_text(prelude, source)  # type: ignore[assignment]

    def build_each_as_it_is_used(self: Any, variant: Any) -> Any:
        # not by the environment: PoCL reads that in threads of its own, and one that changes meanwhile ends the process
        options = self._options
        self._options = [
            *options,
            *(["-D_OPENCL_H_"] if is_old else []),  # what keeps the header from being read twice
            *([] if _is_optimised(variant, is_old) else ["-cl-opt-disable"]),
        ]
        try:
            return build(self, variant)
        finally:
            self._options = options

    opencl.OpenCLRuntime._build = build_each_as_it_is_used  # type: ignore[method-assign]


if _has_pocl_alone() and "PYOPENCL_BUILD_OPTIONS" not in os.environ:
    _compile_quickly()


# With a library of compiled kernels (`make kernels`) a run of the tests fails if they call a kernel with arguments for
# which the library has none: a user without Numba could not do that. `--add-signatures` enters them into the list from
# which the library is built (docs/dev/kernels.md).


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--add-signatures", action="store_true", help="enter kernels that the library lacks into its list")
    parser.addoption("--minutes", type=float, default=0.0, help="skip what has not begun after so many; 0: nothing")
    parser.addoption("--every-device", action="store_true", help="run on OpenCL too what no kernel of its own needs")


ON_OPENCL = (
    "backends", "testing", "explain", "test_fingerprints.py", "test_sparse_categories.py", "test_sweep.py",
    "test_device_rows.py", "test_device_workers.py",
)  # fmt: skip
"""Folders and files of tests that run on OpenCL in every run: all of its kernels do. Others repeat on a CPU's OpenCL,
which compiles each kernel for seconds, what is about the host; they run there with --every-device."""


@pytest.fixture(autouse=True)
def _devices_of_the_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests that train on all devices leave out OpenCL, where tests with a device as a parameter do."""
    module = request.module
    if hasattr(module, "usable_devices") and not _is_on_opencl(request.node):
        devices = [device for device in usable_devices() if not device.startswith("opencl")]
        monkeypatch.setattr(module, "usable_devices", lambda: devices)


@pytest.fixture(autouse=True)
def _no_figures_are_left() -> Iterator[None]:
    """Close what a test has drawn: matplotlib counts open figures, and warns of many."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def _is_on_opencl(item: pytest.Item) -> bool:
    """Say whether a test runs on OpenCL."""
    return item.config.getoption("--every-device") or any(part in item.path.parts for part in ON_OPENCL)


_begun = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what --minutes leaves no time for."""
    minutes = item.config.getoption("--minutes")
    if minutes and time.monotonic() - _begun > 60 * minutes:
        pytest.skip("the time of --minutes is over")


def _turn(item: pytest.Item) -> int:
    """Golden models come first where time is short, and the single operations of backends last."""
    return 0 if item.path.name == "test_fingerprints.py" else 2 if "backends" in item.path.parts else 1


def _is_of_itself(item: pytest.Item) -> bool:
    """Say whether a test would compare the reference with itself."""
    device = getattr(item, "callspec", None) and item.callspec.params.get("device")  # type: ignore[attr-defined]
    return device == "reference" and "the_reference" in item.nodeid.partition("[")[0]


def _covering(items: list[pytest.Item], size: int) -> set[pytest.Item]:
    """Choose items of one test so that every value of every parameter (size 1) or every pair of values (2) is run.

    The next one is always that which brings most that is new; among equals that whose values were taken least.
    """
    values = {
        item: [(name, id(value)) for name, value in sorted(item.callspec.params.items(), key=itemgetter(0))]  # type: ignore[attr-defined]
        for item in items
    }
    parts = {item: set(combinations(own, min(size, len(own)))) for item, own in values.items()}
    missing = set().union(*parts.values())
    taken: Counter[tuple[str, int]] = Counter()
    chosen = set()
    while missing:
        best = max(items, key=lambda item: (len(parts[item] & missing), -sum(taken[value] for value in values[item])))
        chosen.add(best)
        missing -= parts[best]
        taken.update(values[best])
    return chosen


def _sample(items: list[pytest.Item]) -> None:
    """Mark as large what is not chosen of the tests that are marked as sampled."""
    products: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and hasattr(item, "callspec"):
            products.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for product in products.values():
        mark = product[0].get_closest_marker("sampled")
        chosen = _covering(product, mark.kwargs.get("size", 1) if mark else 1)
        for item in product:
            if item not in chosen:
                item.add_marker(pytest.mark.large)


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests where time is short, leave out what --every-device asks for, and sample products of parameters.

    `-k opencl` finds tests that train on all devices, too.
    """
    for item in items:
        if hasattr(getattr(item, "module", None), "usable_devices"):
            item.extra_keyword_matches.add("opencl")
    if config.getoption("--minutes"):
        items.sort(key=_turn)
    left_out = [
        item
        for item in items
        if _is_of_itself(item) or ("opencl" in item.nodeid.partition("[")[2] and not _is_on_opencl(item))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    _sample(items)


# Nearly all that pytest makes while it reads the tests stays: looking through it for garbage takes a fifth of the time.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave modules and tests out of the collection of garbage, which tests ask for: with them it takes 0.3 seconds."""
    gc.enable()
    gc.collect()
    gc.freeze()


_missed: set[tuple[str, str]] = set()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect what a worker of pytest-xdist has found."""
    _missed.update(map(tuple, getattr(node, "workeroutput", {}).get("missed", ())))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    library = sys.modules.get("hornbeam.backends.cpu.host.library")
    missed = list(library.missed) if library else []
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["missed"] = missed
        return
    _missed.update(missed)
    if not _missed:
        return
    print(
        "\nkernels that are not in the library:", *(f"    {name} {types}" for name, types in sorted(_missed)), sep="\n"
    )
    if session.config.getoption("--add-signatures"):
        from hornbeam.backends.cpu.host.warming import add_to_list

        add_to_list(_missed)
    elif session.exitstatus == 0:
        session.exitstatus = 1


# Every width of a tile and every number of bins has kernels of its own, which take most of the tests' time to compile.
# One narrow width must do, and one number of bins more than a few, but where these are tested (`every_size` in
# backends/conftest.py) and in `make test-large`.
layout.NARROW_WORDS = (4,)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--every-device"):
        layout.FEW_BINS = (16,)


@pytest.fixture(scope="session", params=usable_devices())  # the scope that Hypothesis allows
def device(request: pytest.FixtureRequest) -> str:
    """Every usable device in turn: a new backend joins the tests by being listed in hornbeam.devices()."""
    return str(request.param)


@pytest.fixture
def tune() -> Iterator[Callable[..., None]]:
    """Return a function that tunes the CPU backend otherwise (backends/cpu/tuning.py), until the test ends."""
    from hornbeam.backends.cpu.tuning import tuned

    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(tuned(**changes))


@pytest.fixture
def fine_work(tune: Callable[..., None]) -> None:
    """Cut all work on sparse data as finely as possible."""
    tune(
        listed_rows_per_thread=20,
        routed_sparse_rows_per_thread=10,
        rounded_rows_per_thread=20,
        searched_bins_per_thread=1,
        subtracted_bins_per_thread=1,
        converted_values=37,
        thread_work_ns=1,
        waking_ns=1,
        few_rows=0,
    )


@pytest.fixture
def sparse_teams(tune: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Return a function that lets teams of a size grow all trees on sparse data; it returns a list of their sizes."""
    from hornbeam.backends.cpu.growth import growth
    from hornbeam.backends.cpu.growth.sparse.growth import SparseGrowth

    tune(thread_work_ns=1, waking_ns=1, meeting_ns=0, few_rows=0, lists_team=0)
    grow, team = growth.Growth.grow, growth.team

    def checked(self: Any, *arguments: Any) -> Any:
        grown = grow(self, *arguments)
        if isinstance(self, SparseGrowth):
            assert not self._counters.any()  # they are clear for the next tree
            assert not self.rows.stays.any()
        return grown

    monkeypatch.setattr(growth.Growth, "grow", checked)

    def grow_with(size: int) -> list[int]:
        sizes: list[int] = []
        tune(team_cpus=size)
        monkeypatch.setattr(growth, "team", lambda n_threads: sizes.append(n_threads) or team(n_threads))
        return sizes

    return grow_with


@pytest.fixture(autouse=True)
def no_stand_in_stays() -> Iterator[None]:
    """Forget a cuda.py that was imported with something in CuPy's place: else later tests would find a CUDA device."""
    yield
    if "cupy" not in sys.modules and sys.modules.pop("hornbeam.backends.gpu.runtime.cuda", None) is not None:
        vars(sys.modules["hornbeam.backends.gpu.runtime"]).pop("cuda", None)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Function that puts stand_in_cupy.py in CuPy's place and returns its driver, which must not be misused."""
    pytest.importorskip("pyopencl")
    place = importlib.util.spec_from_file_location(
        "stand_in_cupy", Path(__file__).with_name("backends") / "stand_in_cupy.py"
    )
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    drivers = []

    def install(**how: int) -> Any:
        drivers.append(module.install(monkeypatch, **how))
        return drivers[-1]

    yield install
    assert [driver.misuse for driver in drivers] == [[]] * len(drivers)


@pytest.fixture
def cuda(stand_in: Callable[..., Any]) -> Any:
    """The driver of a stand-in for CuPy with one device."""
    return stand_in()

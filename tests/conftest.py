"""What all tests share: every device that this machine offers, and settings of Hypothesis."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from hornbeam.backends.gpu.data import layout
from hornbeam.testing.checks import usable_devices

# The first call of a kernel compiles it, so no example may be judged by its time. Under CI the examples are the same in
# every run; at home Hypothesis looks for new ones.
settings.register_profile("hornbeam", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("hornbeam")


# Every width of a tile has kernels of its own, which take most of the tests' time to compile. One narrow width must do,
# but where the widths are tested (backends/gpu/test_engine.py).
layout.NARROW_WORDS = (4,)


@pytest.fixture(scope="session", params=usable_devices())  # the scope that Hypothesis allows
def device(request: pytest.FixtureRequest) -> str:
    """Every usable device in turn: a new backend joins the tests by being listed in hornbeam.devices()."""
    return str(request.param)


@pytest.fixture
def fine_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut all work on stored bins as finely as possible."""
    from hornbeam.backends.cpu.binning import sparse as sparse_binning
    from hornbeam.backends.cpu.growth import quantize, stored_histogram, stored_partition, stored_rows, stored_split

    monkeypatch.setattr(stored_histogram, "SHARED_ROWS", 50)
    monkeypatch.setattr(stored_histogram, "BINS_PER_THREAD", 1)
    monkeypatch.setattr(stored_partition, "ROWS_PER_THREAD", 20)
    monkeypatch.setattr(stored_rows, "ROUTED_ROWS_PER_THREAD", 10)
    monkeypatch.setattr(stored_split, "BINS_PER_THREAD", 1)
    monkeypatch.setattr(quantize, "ROWS_PER_THREAD", 20)
    monkeypatch.setattr(sparse_binning, "BLOCK_VALUES", 37)


@pytest.fixture
def stored_teams(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Return a function that lets teams of a size grow all trees on stored bins; it returns a list of their sizes."""
    from hornbeam.backends.cpu.growth import stored_tree
    from hornbeam.backends.cpu.host import team as cpu_team

    for name in ("THREAD_WORK", "WAKING_COST"):
        monkeypatch.setattr(cpu_team, name, 1)
    for name in ("MEETING_COST", "FEW_ROWS", "LISTS_TEAM"):
        monkeypatch.setattr(stored_tree, name, 0)
    plain, grow = stored_tree.team, stored_tree.StoredTree.grow

    def checked(tree: Any, *args: Any) -> Any:
        grown = grow(tree, *args)
        assert not tree.builder.thread_counters.any()  # they are clear for the next tree
        assert not tree._room[5].any()
        return grown

    monkeypatch.setattr(stored_tree.StoredTree, "grow", checked)

    def grow_with(size: int) -> list[int]:
        sizes: list[int] = []
        monkeypatch.setattr(cpu_team, "TEAM_CPUS", size)
        monkeypatch.setattr(stored_tree, "team", lambda n_threads: sizes.append(n_threads) or plain(n_threads))
        return sizes

    return grow_with


@pytest.fixture(autouse=True)
def no_stand_in_stays() -> Iterator[None]:
    """Forget a cuda.py that was imported with something in CuPy's place: else later tests would find a CUDA device."""
    yield
    if "cupy" not in sys.modules and sys.modules.pop("hornbeam.backends.gpu.runtime.cuda", None) is not None:
        vars(sys.modules["hornbeam.backends.gpu.runtime"]).pop("cuda", None)

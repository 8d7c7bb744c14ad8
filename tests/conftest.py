"""What all tests share: every device that this machine offers, and settings of Hypothesis."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from hornbeam.backends.gpu import layout
from hornbeam.testing.checks import usable_devices

# The first call of a kernel compiles it, so no example may be judged by its time. Under CI the examples are the same in
# every run; at home Hypothesis looks for new ones.
settings.register_profile("hornbeam", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("hornbeam")


# Every width of a tile has kernels of its own, which take most of the tests' time to compile. One narrow width must do,
# but where the widths are tested (test_gpu_engine.py).
layout.NARROW_WORDS = (4,)


@pytest.fixture(scope="session", params=usable_devices())  # the scope that Hypothesis allows
def device(request: pytest.FixtureRequest) -> str:
    """Every usable device in turn: a new backend joins the tests by being listed in hornbeam.devices()."""
    return str(request.param)


@pytest.fixture
def fine_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut all work on stored bins as finely as possible."""
    from hornbeam.backends.cpu import (
        quantize,
        sparse_binning,
        stored_histogram,
        stored_partition,
        stored_rows,
        stored_split,
    )

    monkeypatch.setattr(stored_histogram, "SHARED_ROWS", 50)
    monkeypatch.setattr(stored_histogram, "BINS_PER_THREAD", 1)
    monkeypatch.setattr(stored_partition, "ROWS_PER_THREAD", 20)
    monkeypatch.setattr(stored_rows, "ROUTED_ROWS_PER_THREAD", 10)
    monkeypatch.setattr(stored_split, "BINS_PER_THREAD", 1)
    monkeypatch.setattr(quantize, "ROWS_PER_THREAD", 20)
    monkeypatch.setattr(sparse_binning, "BLOCK_VALUES", 37)


@pytest.fixture(autouse=True)
def no_stand_in_stays() -> Iterator[None]:
    """Forget a cuda.py that was imported with something in CuPy's place: else later tests would find a CUDA device."""
    yield
    if "cupy" not in sys.modules and sys.modules.pop("hornbeam.backends.gpu.cuda", None) is not None:
        vars(sys.modules["hornbeam.backends.gpu"]).pop("cuda", None)

"""Training on a GPU whose memory does not hold the bins: they are in host memory, and kernels read them over the bus.

    python benchmarks/host_bins.py --rows 20_000_000                     # 28 features, CUDA, beside XGBoost
    python benchmarks/host_bins.py --device opencl --rows 200_000        # anywhere, with PoCL

Bins are on the device, or in host memory: there the limit is what the rest of a training takes, and a quarter of the
bins. `link` is the rate at which the device copies page-locked memory, and `passes` says what an iteration that copies
all bins in every round of growth would take at that rate: 18 rounds for a tree of 255 leaves, 8 for one of depth 8.
Rows are made; an iteration is the median of those after the second.

XGBoost's line is its external memory, asked to keep all pages in host memory (`cache_host_ratio=1`). Nothing limits the
memory that it takes: an iteration that is quicker than the link shows that the device had its pages.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from importlib.util import find_spec
from typing import Any

import numpy as np

import hornbeam as hb
from hornbeam.backends.gpu.data.layout import Layout

BATCH, FEATURES, ROW_BYTES, FIXED_BYTES = 1 << 20, 28, 46, 64 << 20
"""Rows of a batch; bytes of a row that a training takes besides bins, and of all else, about."""

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "255 leaves": ({"num_leaves": 255}, {"grow_policy": "lossguide", "max_leaves": 255, "max_depth": 0}, 18),
    "depth 8": (
        {"num_leaves": 256, "grow_policy": "depthwise", "max_depth": 8},
        {"grow_policy": "depthwise", "max_depth": 8},
        8,
    ),
}
"""Parameters of Hornbeam and of XGBoost, and rounds of growth."""


def make_batch(number: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a batch of rows and their labels."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((n_rows, FEATURES), np.float32)
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(n_rows, np.float32) > 0.0).astype(np.float32)


def batches_of(n_rows: int) -> list[int]:
    """Return the rows of each batch."""
    return [min(BATCH, n_rows - first) for first in range(0, n_rows, BATCH)]


def link_rate() -> float:
    """Return the bytes a second that are copied from page-locked memory, the best of some copies."""
    import cupy

    size = 1 << 30
    pinned, target = cupy.cuda.alloc_pinned_memory(size), cupy.empty(size, np.uint8)
    host, taken = np.frombuffer(pinned, np.uint8, size), []
    for _ in range(5):
        begun = time.perf_counter()
        target.set(host)
        cupy.cuda.Device().synchronize()
        taken.append(time.perf_counter() - begun)
    return size / min(taken)


def milliseconds(clock: list[float]) -> float:
    """Return the median of what lies between the ticks of a clock, the first left out."""
    return 1e3 * statistics.median(np.diff(clock)[1:])


def hornbeam_lines(given: argparse.Namespace, rate: float) -> None:
    """Train with and without limits, and print."""
    parts = [make_batch(*each) for each in enumerate(batches_of(given.rows))]
    data = hb.Dataset(np.concatenate([X for X, _ in parts]), label=np.concatenate([y for _, y in parts]))
    data.construct(hb.Params.from_dict({"device": "cpu"}))  # in host memory, for all lines
    layout = Layout.of(data.binned)
    rest = given.rows * ROW_BYTES + FIXED_BYTES
    limits = {
        "on the device": -1.0,
        "in host memory": (rest + layout.tile_bytes / 4) / 2**20,
    }
    for kind, (params, _, rounds) in KINDS.items():
        fingerprints = set()
        for name, limit in limits.items():
            clock: list[float] = []
            own = {"objective": "binary", "device": given.device, "verbosity": -1, "device_memory_limit": limit}
            tick = lambda _, clock=clock: clock.append(time.perf_counter())  # noqa: E731
            booster = hb.train({**own, **params}, data, given.rounds, callbacks=[tick])
            fingerprints.add(booster.fingerprint())
            print(f"{kind:12} hornbeam, bins {name:26} {milliseconds(clock):9.1f} ms", flush=True)
        passes = 1e3 * rounds * layout.tile_bytes / rate if rate > 0.0 else float("nan")
        name = f"{rounds} passes over {layout.tile_bytes / 2**20:,.0f} MB by the link"
        print(f"{kind:12} {name:41} {passes:9.1f} ms")
        print(f"{kind:12} one model: {len(fingerprints) == 1}", flush=True)


def xgboost_lines(given: argparse.Namespace) -> None:
    """Train XGBoost by its external memory, and print."""
    import cupy
    import xgboost

    class Batches(xgboost.DataIter):
        def __init__(self) -> None:
            self.number, self.sizes = 0, batches_of(given.rows)
            super().__init__(cache_prefix=f"{tempfile.mkdtemp()}/pages", on_host=True)

        def next(self, input_data: Any) -> bool:
            if self.number == len(self.sizes):
                return False
            X, y = make_batch(self.number, self.sizes[self.number])
            input_data(data=cupy.asarray(X), label=cupy.asarray(y))
            self.number += 1
            return True

        def reset(self) -> None:
            self.number = 0

    class Clock(xgboost.callback.TrainingCallback):
        def __init__(self) -> None:
            self.ticks: list[float] = []

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self.ticks.append(time.perf_counter())
            return False

    data = xgboost.ExtMemQuantileDMatrix(Batches(), max_bin=256, cache_host_ratio=1.0)
    for kind, (_, params, _) in KINDS.items():
        clock = Clock()
        shared = {"objective": "binary:logistic", "tree_method": "hist", "device": "cuda"}
        xgboost.train({**shared, **params}, data, given.rounds, callbacks=[clock])
        name = f"xgboost {xgboost.__version__}, external memory"
        print(f"{kind:12} {name:41} {milliseconds(clock.ticks):9.1f} ms", flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    is_cuda = given.device.startswith("cuda")
    rate = link_rate() if is_cuda else 0.0
    print(f"{given.rows:,} x {FEATURES}, {given.device}; link {rate / 1e9:.1f} GB/s")
    hornbeam_lines(given, rate)
    if is_cuda and find_spec("xgboost") is not None:
        xgboost_lines(given)


if __name__ == "__main__":
    main()

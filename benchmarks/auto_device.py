"""What device="auto" expects and what happens: seconds on the CPU and on a GPU for trainings of many sizes.

    python benchmarks/auto_device.py --device cuda
    python benchmarks/auto_device.py --device opencl --rows 2000 --features 10 --iterations 3     # anywhere, with PoCL

A training of 100 trees is expected from one of some trees: what it takes besides the trees, and a hundred times what a
tree takes. The start of a device is that of a new process with all kernels compiled: its first training of two small
trees. In brackets what `backends/costs.py` expects. `wrong` is a line where auto takes the slower device and loses
more than a second, or a half.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from typing import Any

import numpy as np

import hornbeam as hb
from hornbeam.backends.costs import TrainingWork
from hornbeam.backends.devices import choose_device
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.testing.data import make_higgs_like

N_TREES = 100
START = """
import sys, time, numpy as np, hornbeam as hb
X = np.random.default_rng(0).normal(size=(1000, 5))
start = time.perf_counter()
hb.train({"device": sys.argv[1], "verbosity": -1}, hb.Dataset(X, X[:, 0]), 2)
print(time.perf_counter() - start)
"""


def start_seconds(device: str) -> float:
    """Return how long the first training of a new process takes, the fastest of three."""
    command = [sys.executable, "-c", START, device]
    return min(float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(3))


def train_seconds(X: Any, y: Any, params: dict[str, Any], n_trees: int) -> float:
    """Return how long a training takes from NumPy arrays on, for N_TREES trees."""
    hb.train(params, hb.Dataset(X, y), 2)
    times = []
    for count in (1, 1 + n_trees):
        start = time.perf_counter()
        hb.train(params, hb.Dataset(X, y), count)
        times.append(time.perf_counter() - start)
    return times[0] + (times[1] - times[0]) / n_trees * (N_TREES - 1)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help='"cuda", "opencl:1", ...')
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 20_000, 200_000, 2_000_000])
    parser.add_argument("--features", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--leaves", type=int, nargs="+", default=[31, 255])
    parser.add_argument("--iterations", type=int, default=10)
    given = parser.parse_args()
    units = open_runtime(choose_device(given.device)).facts.compute_units
    start = {device: start_seconds(device) for device in ("cpu", given.device)}
    print(f"start: cpu {start['cpu']:.2f} s, {given.device} {start[given.device]:.2f} s, {units} compute units")
    print(f"{'rows':>9s} {'features':>8s} {'leaves':>6s} {'cpu s':>16s} {given.device + ' s':>16s}")
    for n_rows, n_features, n_leaves in itertools.product(given.rows, given.features, given.leaves):
        X, y = make_higgs_like(n_rows, n_features, seed=1)
        X = np.asarray(X, np.float32)
        seconds = {}
        for device in start:
            params = {"objective": "binary", "num_leaves": n_leaves, "device": device, "verbosity": -1}
            seconds[device] = start[device] + train_seconds(X, y, params, given.iterations)
        params = hb.Params.from_dict({"num_leaves": n_leaves, "num_iterations": N_TREES})
        work = TrainingWork.of(n_rows, n_features, params)
        expected = {"cpu": work.cpu_seconds(), given.device: work.gpu_seconds(units)}
        chosen, fastest = min(expected, key=expected.__getitem__), min(seconds, key=seconds.__getitem__)
        lost = seconds[chosen] - seconds[fastest]
        wrong = "wrong" if lost > min(1.0, 0.5 * seconds[fastest]) else ""
        columns = "".join(f"{seconds[device]:8.2f} ({expected[device]:5.2f})" for device in seconds)
        print(f"{n_rows:9d} {n_features:8d} {n_leaves:6d} {columns}  {chosen} {wrong}", flush=True)


if __name__ == "__main__":
    main()

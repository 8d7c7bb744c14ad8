"""Stages of a tree on a GPU: how long their kernels run, beside what their bytes and counters would take.

    python benchmarks/stages_gpu.py --shape higgs mslr yahoo bosch epsilon
    python benchmarks/stages_gpu.py --shape higgs --device opencl --rows 20000 --iterations 2     # anywhere, with PoCL

Trees of train_gpu.py. Every kernel is timed by itself: by two events on the stream under CUDA, which add one or two
microseconds a launch, and by the clock between two waits elsewhere. Nothing is recorded and replayed meanwhile, so
that the time of a whole iteration is in train_gpu.py and not here.

What a stage must do at least is counted from the finished trees, without nodes that were expanded in vain: rows are
moved once for each split above them; the rows of every smaller child, and those of the root, are summed; the search
after a split reads the histograms of the parent and of the smaller child and writes that of the larger one.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from train_gpu import SHAPES, make, to_host

import hornbeam as hb
from hornbeam.backends.devices import choose_device
from hornbeam.backends.gpu.runtime.devices import open_runtime

STAGES = {
    "histogram_kernel": "histograms",
    "split_kernel": "split search, subtraction",
    "choose_kernel": "split search, subtraction",
    "partition_kernel": "partition",
    "select_kernel": "choosing the nodes of a round",
    "plan_kernel": "planning, zeroing",
    "zero_kernel": "planning, zeroing",
}
"""Stage by kernel; all others are the last one."""

ONCE = ("tile_kernel", "column_kernel", "fill_kernel")
"""Kernels that lay the bins out when a training begins."""

LAST_STAGE = "leaves, scores, gradients, rounding"

SUM_BYTES = 16
"""Of a bin in a histogram: two sums of 64 bits."""

MOVED_BYTES = 17
"""Of a row that is moved: its number and its record in and out, and its bin."""

LAST_BYTES = 57
"""Of a row from the leaves to the rounded gradients."""


@contextmanager
def timed_kernels(runtime: Any) -> Iterator[Callable[[], dict[str, list[float]]]]:
    """Time every launch; what is yielded returns the milliseconds of each kernel's launches."""
    from hornbeam.backends.gpu.workspace.workspace import Workspace

    kind = type(runtime)
    launch, repeatable = kind.launch, Workspace.repeatable
    on_cuda = kind.__name__ == "CudaRuntime"
    events: list[tuple[str, Any, Any]] = []

    def timed(self: Any, kernel: Any, groups: int, *arguments: Any) -> None:
        if on_cuda:
            import cupy

            before, after = cupy.cuda.Event(), cupy.cuda.Event()
            before.record(self.stream)
            launch(self, kernel, groups, *arguments)
            after.record(self.stream)
            events.append((kernel.handle.name, before, after))
        else:
            self.synchronize()
            start = time.perf_counter()
            launch(self, kernel, groups, *arguments)
            self.synchronize()
            events.append((kernel.handle.function_name, start, time.perf_counter()))

    def elapsed() -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        runtime.synchronize()
        for name, before, after in events:
            if on_cuda:
                import cupy

                found[name].append(cupy.cuda.get_elapsed_time(before, after))
            else:
                found[name].append((after - before) * 1e3)
        return found

    setattr(kind, "launch", timed)  # noqa: B010
    setattr(Workspace, "repeatable", lambda self, name, key, launches: launches)  # noqa: B010
    try:
        yield elapsed
    finally:
        setattr(kind, "launch", launch)  # noqa: B010
        setattr(Workspace, "repeatable", repeatable)  # noqa: B010


def least_work(model: hb.Booster, n_rows: int) -> tuple[float, float, float]:
    """Return what a tree must do on average: rows moved, rows summed, splits."""
    moved = summed = splits = 0
    for tree in model.trees:
        counts = np.concatenate([tree.split_count, tree.leaf_count[::-1]])  # leaf ~n is the n-th from the end
        moved += int(tree.split_count.sum())
        summed += n_rows + int(np.minimum(counts[tree.left], counts[tree.right]).sum())
        splits += tree.n_splits
    return moved / len(model.trees), summed / len(model.trees), splits / len(model.trees)


def kernel_times(
    data: hb.Dataset, params: dict[str, Any], iterations: int
) -> tuple[hb.Booster, dict[str, list[float]]]:
    """Train twice and return the second model with the milliseconds of each kernel's launches."""
    hb.train(params, data, iterations)
    with timed_kernels(open_runtime(choose_device(params["device"]))) as elapsed:
        model = hb.train(params, data, iterations)
        return model, elapsed()


def stages_of(times: dict[str, list[float]], iterations: int) -> dict[str, float]:
    """Return the milliseconds of each stage of a tree."""
    spent: dict[str, float] = defaultdict(float)
    for name in times.keys() - set(ONCE):
        spent[STAGES.get(name, LAST_STAGE)] += sum(times[name]) / iterations
    return spent


def measure(shape: str, given: argparse.Namespace) -> None:
    """Train on a shape and print its table."""
    n_rows, n_features = given.rows or SHAPES[shape][0], SHAPES[shape][1]
    X, y = make(shape, n_rows)
    if given.device != "cuda":
        X, y = to_host(X), to_host(y)
    params: dict[str, Any] = {
        "objective": "binary", "num_leaves": 255, "learning_rate": 0.1, "min_data_in_leaf": 1, "max_bin": given.bins,
        "device": given.device, "metric": "none", "verbosity": -1,
    }  # fmt: skip
    data = hb.Dataset(X, y).construct(hb.Params.from_dict(params))
    model, times = kernel_times(data, params, given.iterations)
    spent = stages_of(times, given.iterations)
    moved, summed, splits = least_work(model, n_rows)
    per_ms = given.bandwidth * 1e9
    least = {
        "histograms": summed * n_features / (given.updates * 1e9),
        "split search, subtraction": splits * 3 * n_features * (given.bins + 1) * SUM_BYTES / per_ms,
        "partition": moved * MOVED_BYTES / per_ms,
        LAST_STAGE: n_rows * LAST_BYTES / per_ms,
    }
    n_rounds = len(times["select_kernel"]) / given.iterations
    print(f"{shape}, {n_rows} x {n_features}, {given.bins} bins: {n_rounds:.1f} rounds a tree, each row moved "
          f"{moved / n_rows:.1f} times and summed {summed / n_rows:.1f} times")  # fmt: skip
    print(f"  {'stage':36s} {'ms':>7s} {'least':>7s}")
    for stage in dict.fromkeys([*STAGES.values(), LAST_STAGE]):
        print(f"  {stage:36s} {spent[stage]:7.2f} {least.get(stage, 0.0):7.2f}")
    print(f"  {'all':36s} {sum(spent.values()):7.2f} {sum(least.values()):7.2f}", flush=True)
    if given.kernels:
        for name, launches in sorted(times.items(), key=lambda item: -sum(item[1])):
            a_tree = len(launches) / given.iterations
            print(f"    {name:28s} {sum(launches) / given.iterations:8.3f} ms, {a_tree:6.1f} launches a tree")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help='"cuda", "opencl:1", ...')
    parser.add_argument("--shape", choices=[name for name in SHAPES if name != "expo"], nargs="+", default=["higgs"])
    parser.add_argument("--rows", type=int, help="instead of the shape's")
    parser.add_argument("--bins", type=int, default=255)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--kernels", action="store_true", help="a line for each kernel too")
    parser.add_argument("--updates", type=float, default=2.1, help="trillions of counters a second (histogram_gpu.py)")
    parser.add_argument("--bandwidth", type=float, default=4.0, help="of the device's memory, TB a second")
    given = parser.parse_args()
    for shape in given.shape:
        measure(shape, given)


if __name__ == "__main__":
    main()

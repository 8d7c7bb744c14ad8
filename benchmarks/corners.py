"""Corners where a library's fixed costs show, beside the fastest peers: tiny data, many classes, single rows.

    python benchmarks/corners.py                         # every corner, beside LightGBM and hessboost where installed
    python benchmarks/corners.py --threads 2 --corner tiny classes
    python benchmarks/corners.py --corner columns --device cuda   # needs XGBoost with CUDA and CuPy

A corner is one task that each library does in turn, several times; its figure is the smallest time. Printed are
milliseconds (of an iteration, where the task is a training), and ours / the fastest peer: below 1 we are faster.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hornbeam as hb

Task = Callable[[], float]
"""Does the work, and returns its milliseconds: the smallest so far."""

X_AND_Y = tuple[NDArray[np.float64], NDArray[np.float64]]

QUIET = {"verbosity": -1, "force_row_wise": True}


def table(n_rows: int, n_features: int, n_classes: int = 0) -> X_AND_Y:
    """Make features and a label: numbers, or classes where there are some."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, n_features))
    score = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    if n_classes:
        ranks = np.argsort(np.argsort(score))
        return X, (ranks * n_classes // n_rows).astype(np.float64)
    return X, score


def training(run: Callable[[int], object], iterations: int) -> Task:
    """Return a task whose figure is that of one iteration: a long training less a short one."""
    best = {max(1, iterations // 10): np.inf, iterations: np.inf}

    def task() -> float:
        for count in best:
            begin = time.perf_counter()
            run(count)
            best[count] = min(best[count], time.perf_counter() - begin)
        (few, short), (many, long) = best.items()
        return 1e3 * (long - short) / (many - few)

    return task


def once(run: Callable[[], object], repeats: int = 1) -> Task:
    """Return a task whose figure is that of one call."""

    best = np.inf

    def task() -> float:
        nonlocal best
        begin = time.perf_counter()
        for _ in range(repeats):
            run()
        best = min(best, 1e3 * (time.perf_counter() - begin) / repeats)
        return best

    return task


def has(module: str) -> bool:
    """Say whether a peer is installed."""
    return importlib.util.find_spec(module) is not None


def trainings(data: X_AND_Y, params: dict[str, Any], threads: int, iterations: int) -> dict[str, Task]:
    """Return trainings with the same data and parameters, of Hornbeam and LightGBM."""
    X, y = data
    ours = {"num_threads": threads, "verbosity": -1, "device": "cpu", **params}
    dataset = hb.Dataset(X, y).construct(hb.Params.from_dict(ours))
    tasks = {"hornbeam": training(lambda count: hb.train(ours, dataset, count), iterations)}
    if has("lightgbm"):
        import lightgbm

        theirs = {"num_threads": threads, **QUIET, **params}
        set_ = lightgbm.Dataset(X, y, params=theirs, free_raw_data=False).construct()
        tasks["lightgbm"] = training(lambda count: lightgbm.train(theirs, set_, count), iterations)
    return tasks


def by_depth(data: X_AND_Y, depth: int, threads: int, iterations: int) -> dict[str, Task]:
    """Return trainings that grow by depth, of Hornbeam and hessboost."""
    X, y = data
    ours = {"objective": "binary", "grow_policy": "depthwise", "max_depth": depth, "num_leaves": 1 << depth,
            "num_threads": threads, "verbosity": -1, "device": "cpu", "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 1.0, "lambda_l2": 1.0}  # fmt: skip
    y = (y > 0).astype(np.float64)
    dataset = hb.Dataset(X, y).construct(hb.Params.from_dict(ours))
    tasks = {"hornbeam": training(lambda count: hb.train(ours, dataset, count), iterations)}
    if has("hessboost"):
        import hessboost

        theirs = {"objective": "binary:logistic", "max_depth": depth, "eta": 0.1, "max_bin": 255, "nthread": threads,
                  "min_child_weight": 1.0}  # fmt: skip
        matrix = hessboost.DMatrix(X, label=y)
        tasks["hessboost"] = training(lambda count: hessboost.train(theirs, matrix, count), iterations)
    return tasks


def one_row(threads: int) -> dict[str, Task]:
    """Return predictions of one row by 300 trees of 255 leaves."""
    X, y = table(50_000, 20)
    params = {"num_leaves": 255, "num_threads": threads, "verbosity": -1}
    row = X[:1].copy()
    model = hb.train({**params, "device": "cpu"}, hb.Dataset(X, y), 300)
    model.predict(row)
    tasks = {"hornbeam": once(lambda: model.predict(row, num_threads=threads), 300)}
    if has("lightgbm"):
        import lightgbm

        peer = lightgbm.train(params, lightgbm.Dataset(X, y), 300)
        tasks["lightgbm"] = once(lambda: peer.predict(row, num_threads=threads), 300)
    return tasks


def dart_goes_on(threads: int) -> dict[str, Task]:
    """Return trainings of one DART iteration after 300, from the model of these."""
    X, y = table(20_000, 20)
    params = {"boosting": "dart", "num_leaves": 31, "num_threads": threads, "verbosity": -1}
    ours = {**params, "device": "cpu"}
    dataset = hb.Dataset(X, y).construct(hb.Params.from_dict(ours))
    begun = hb.train(ours, dataset, 300)
    tasks = {"hornbeam": once(lambda: hb.train(ours, hb.Dataset(X, y), 1, init_model=begun))}
    if has("lightgbm"):
        import lightgbm

        theirs = lightgbm.train(params, lightgbm.Dataset(X, y, free_raw_data=False), 300)
        tasks["lightgbm"] = once(
            lambda: lightgbm.train(params, lightgbm.Dataset(X, y, free_raw_data=False), 1, init_model=theirs)
        )
    return tasks


def wide_dataset(device: str) -> dict[str, Task]:
    """Return what bins 400,000 x 2,000 numbers that are in the memory of the host or, with CUDA, of the GPU."""
    X = np.random.default_rng(7).normal(size=(400_000, 2_000)).astype(np.float32)
    y = X[:, 0].astype(np.float64)
    values: Any = X
    if device.startswith("cuda"):
        import cupy

        values = cupy.asarray(X)
    ours = hb.Params.from_dict({"device": device})
    tasks = {"hornbeam": once(lambda: hb.Dataset(values, y).construct(ours))}
    tasks["hornbeam, from the host"] = once(lambda: hb.Dataset(X, y).construct(ours))
    if has("xgboost"):
        import xgboost

        tasks["xgboost"] = once(lambda: xgboost.QuantileDMatrix(values, y, max_bin=255))
    return tasks


def corners(threads: int, device: str) -> dict[str, Callable[[], Iterator[tuple[str, dict[str, Task]]]]]:
    """Return every corner: its lines, each with a task for each library."""
    by_node = {"feature_fraction_bynode": 0.5}
    up = {"monotone_constraints": [1] + 19 * [0], "monotone_constraints_method": "intermediate"}
    several = {"monotone_constraints": [1, 1, -1, 1] + 16 * [0], "monotone_constraints_method": "advanced"}

    def lines(*found: tuple[str, Callable[[], dict[str, Task]]]) -> Callable[[], Iterator[tuple[str, dict[str, Task]]]]:
        return lambda: ((name, make()) for name, make in found)

    many = {"objective": "multiclass", "num_class": 1000, "num_leaves": 7, "min_data_in_leaf": 5}
    return {
        "tiny": lines(
            ("90 x 4", lambda: trainings(table(90, 4), {}, threads, 1000)),
            ("569 x 30", lambda: trainings(table(569, 30), {}, threads, 500)),
            ("3 classes, 150 x 4",
             lambda: trainings(table(150, 4, 3), {"objective": "multiclass", "num_class": 3}, threads, 500)),
        ),
        "bynode": lines(
            ("569 x 30, by node", lambda: trainings(table(569, 30), by_node, threads, 500)),
            ("100k x 20", lambda: trainings(table(100_000, 20), {}, threads, 100)),
            ("100k x 20, by node", lambda: trainings(table(100_000, 20), by_node, threads, 100)),
        ),
        "monotone": lines(
            ("100k x 20, intermediate", lambda: trainings(table(100_000, 20), up, threads, 60)),
            ("20k x 20, intermediate", lambda: trainings(table(20_000, 20), up, threads, 60)),
            ("100k x 20, advanced", lambda: trainings(table(100_000, 20), several, threads, 60)),
            ("20k x 20, advanced", lambda: trainings(table(20_000, 20), several, threads, 60)),
            ("20k x 20, advanced, 63 leaves",
             lambda: trainings(table(20_000, 20), {**several, "num_leaves": 63}, threads, 60)),
            ("3,000 x 20, advanced", lambda: trainings(table(3_000, 20), several, threads, 60)),
        ),
        "classes": lines(("20k x 10, 1,000 classes", lambda: trainings(table(20_000, 10, 1000), many, threads, 6))),
        "row": lines(("one row, 300 trees", lambda: one_row(threads))),
        "dart": lines(("DART goes on", lambda: dart_goes_on(threads))),
        "depth": lines(
            ("20k x 20, depth 6", lambda: by_depth(table(20_000, 20), 6, threads, 100)),
            ("100k x 28, depth 6", lambda: by_depth(table(100_000, 28), 6, threads, 60)),
            ("100k x 28, depth 8", lambda: by_depth(table(100_000, 28), 8, threads, 60)),
            ("1M x 28, depth 6", lambda: by_depth(table(1_000_000, 28), 6, threads, 20)),
            ("1M x 28, depth 8", lambda: by_depth(table(1_000_000, 28), 8, threads, 20)),
        ),
        "columns": lines(("bins of 400k x 2000", lambda: wide_dataset(device))),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="of the corner `columns`")
    parser.add_argument("--corner", nargs="+", choices=sorted(corners(1, "cpu")), help="all but `columns` if not said")
    arguments = parser.parse_args()
    chosen = corners(arguments.threads, arguments.device)
    for corner in arguments.corner or [name for name in chosen if name != "columns"]:
        for name, tasks in chosen[corner]():
            for _ in range(arguments.repeats):
                best = {library: task() for library, task in tasks.items()}
            peers = [value for library, value in best.items() if not library.startswith("hornbeam")]
            ratio = f"{best['hornbeam'] / min(peers):6.2f}" if peers else "     -"
            print(
                f"{name:28}{ratio}   " + ", ".join(f"{library} {value:.3f}" for library, value in best.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()

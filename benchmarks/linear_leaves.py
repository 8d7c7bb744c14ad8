"""Training and prediction with linear leaves beside LightGBM, in one run.

    python benchmarks/linear_leaves.py [--rows N] [--features N] [--rounds N] [--leaves N] [--threads N] [--repeat N]
                                       [--missing SHARE] [--dtype float32] [--device cuda]

The data are made: a smooth target with interactions. Both libraries get the same table, number of trees, leaves and
threads; binning is not timed. "constant" is Hornbeam without linear leaves. Times are the best of a few repetitions,
which take turns, so that a busy machine slows all of them down; CPU time, of all threads together, is less sensitive to
that. The error is that of rows that were not trained on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

import hornbeam as hb
from hornbeam.testing.peers import peer_params


def make_data(options: argparse.Namespace, n_rows: int, seed: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return a table and a smooth target."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, options.features)).astype(options.dtype)
    y = 3.0 * X[:, 0] * (X[:, 1] > 0) + X[:, 2] ** 2 + np.sin(2.0 * X[:, 3]) * X[:, 4] + X[:, 5:].sum(axis=1) * 0.3
    X[rng.random(X.shape) < options.missing] = np.nan
    return X, y + 0.5 * rng.standard_normal(n_rows)


def clocks() -> NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--leaves", type=int, default=63)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--missing", type=float, default=0.0, help="share of values that are missing")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--device", default="cpu", help="where Hornbeam's trees grow; LightGBM's grow on the CPU")
    options = parser.parse_args()
    X, y = make_data(options, options.rows, 0)
    X_test, y_test = make_data(options, options.rows // 4, 1)
    params = {
        "objective": "regression", "num_leaves": options.leaves, "learning_rate": 0.1, "num_threads": options.threads,
        "linear_tree": True, "linear_lambda": 0.01, "verbosity": -1, "metric": "none", "device": "cpu",
    }  # fmt: skip
    constant = {name: value for name, value in params.items() if not name.startswith("linear")}
    theirs = peer_params(params, "lightgbm")
    params["device"] = constant["device"] = options.device
    ours = hb.Dataset(X, y).construct()
    other = lgb.Dataset(X, y, params=theirs).construct()
    libraries: dict[str, Callable[[int], Any]] = {
        "hornbeam": lambda rounds: hb.train(params, ours, rounds),
        "constant": lambda rounds: hb.train(constant, ours, rounds),
        "lightgbm": lambda rounds: lgb.train(theirs, other, rounds),
    }
    for train in libraries.values():
        train(2).predict(X_test[:100])  # compiles the kernels
    best: dict[str, NDArray[np.float64]] = {}
    errors: dict[str, float] = {}
    for _ in range(options.repeat):
        for name, train in libraries.items():
            begin = clocks()
            booster = train(options.rounds)
            trained = clocks()
            predicted = booster.predict(X_test, num_threads=options.threads)
            times = np.concatenate([trained - begin, clocks() - trained])
            best[name] = np.minimum(best.get(name, times), times)
            errors[name] = float(np.sqrt(np.mean((predicted - y_test) ** 2)))
    print(f"{options.rows:,} x {options.features} {options.dtype}, {options.leaves} leaves, {options.threads} threads")
    for name, (wall, cpu, predicting, _) in best.items():
        per_tree = 1e3 / options.rounds
        print(
            f"{name:10s} {wall * per_tree:8.1f} ms a tree {cpu * per_tree:8.1f} ms of CPU time   "
            f"predicting {predicting * 1e3:8.1f} ms   rmse {errors[name]:.4f}"
        )
    ratio = best["lightgbm"] / best["hornbeam"]
    print(f"lightgbm / hornbeam: {ratio[0]:.2f} (CPU {ratio[1]:.2f}), predicting {ratio[2]:.2f} (CPU {ratio[3]:.2f})")


if __name__ == "__main__":
    main()

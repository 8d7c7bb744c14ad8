"""Trees that all outputs share, beside XGBoost's: time and loss of the same training, one after the other in turns.

    python benchmarks/vector_leaves.py                       # 100,000 x 28, 2 threads
    python benchmarks/vector_leaves.py --rows 20000 --rounds 10 --repeats 3

Both grow depth by depth to the same depth, from 256 bins, with the same rate and penalties. Data are binned before the
clock starts, a callback reads it after every round, and milliseconds of a round are the mean of the rounds after the
first two, so that what happens once does not count. The ratio is that of medians: XGBoost's by Hornbeam's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

import hornbeam as hb

DEPTH = 6
WARM = 2
"""Rounds before those that are timed."""
SHARED = {"multi_strategy": "multi_output_tree", "max_depth": DEPTH, "eta": 0.3, "lambda": 1.0, "min_child_weight": 1.0}
KINDS = {
    "columns": ("reg:squarederror", "regression"),
    "labels": ("binary:logistic", "binary"),
    "classes": ("multi:softprob", "multiclass"),
}


class AfterRounds(xgb.callback.TrainingCallback):  # type: ignore[misc]
    """XGBoost's form of a callback that is called after every round."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._call = call

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Call, and go on."""
        self._call()
        return False


def make_rows(n_rows: int, n_features: int, n_outputs: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return features and noisy scores of the outputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    weights = rng.normal(size=(n_features, n_outputs)) / np.sqrt(n_features)
    places = np.arange(n_outputs) % n_features
    return X, X @ weights + np.sin(2.0 * X[:, places]) + 0.3 * rng.normal(size=(n_rows, n_outputs))


def labels_of(kind: str, scores: NDArray[np.float64]) -> NDArray[Any]:
    """Return the labels of a kind of problem."""
    if kind == "classes":
        return np.argmax(scores, axis=1)
    return scores if kind == "columns" else (scores > 0.0).astype(np.float64)


def loss_of(kind: str, label: NDArray[Any], predicted: NDArray[np.float64]) -> float:
    """Return the root of the mean square, or the log loss."""
    if kind == "columns":
        return float(np.sqrt(np.mean((predicted - label) ** 2)))
    if kind == "classes":
        return float(-np.log(predicted[np.arange(len(label)), label]).mean())
    return float(-np.mean(label * np.log(predicted) + (1.0 - label) * np.log(1.0 - predicted)))


def measure(kind: str, given: argparse.Namespace, n_outputs: int) -> str:
    """Train both in turns, and return a line of the table."""
    X, scores = make_rows(given.rows * 5 // 4, given.features, n_outputs)
    label, name = labels_of(kind, scores), KINDS[kind]
    X, X_test, label, label_test = X[: given.rows], X[given.rows :], label[: given.rows], label[given.rows :]
    classes = {"num_class": n_outputs} if kind == "classes" else {}
    theirs = {**SHARED, **classes, "objective": name[0], "tree_method": "hist", "nthread": given.threads}
    theirs["device"] = given.device
    ours = {**SHARED, **classes, "objective": name[1], "num_threads": given.threads, "verbosity": -1}
    ours["device"] = given.device
    ours |= {"grow_policy": "depthwise", "num_leaves": 2**DEPTH, "min_data_in_leaf": 1}
    their_data, our_data = xgb.QuantileDMatrix(X, label, max_bin=256), hb.Dataset(X, label)
    trained = {
        "hornbeam": lambda n, clock: hb.train(ours, our_data, n, callbacks=[lambda _: clock()]),
        "xgboost": lambda n, clock: xgb.train(theirs, their_data, n, callbacks=[AfterRounds(clock)]),
    }
    found: dict[str, list[float]] = {library: [] for library in trained}
    models: dict[str, Any] = {}
    for repeat in range(given.repeats + 1):
        for library, train in trained.items():
            times: list[float] = []
            models[library] = train(WARM + given.rounds, lambda times=times: times.append(time.perf_counter()))
            if repeat > 0:  # the first compiles
                found[library].append(1e3 * (times[-1] - times[WARM - 1]) / given.rounds)
    own = loss_of(kind, label_test, models["hornbeam"].predict(X_test))
    other = loss_of(kind, label_test, models["xgboost"].predict(xgb.DMatrix(X_test)))
    a, b = (statistics.median(found[library]) for library in ("hornbeam", "xgboost"))
    return f"{kind:8s} {n_outputs:7d} {a:11.2f} {b:11.2f} {b / a:6.2f} {own:14.5f} {other:13.5f}"


def print_setting(given: argparse.Namespace) -> None:
    """Print what a comparison of rounds on made data is of."""
    print(
        f"{given.rows:,} x {given.features}, {given.rounds} rounds of depth {DEPTH}, {given.device}, "
        f"{given.threads} threads"
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--outputs", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    given = parser.parse_args()
    print_setting(given)
    print("kind     outputs hornbeam ms  xgboost ms  ratio  hornbeam loss  xgboost loss")
    for n_outputs in given.outputs:
        for kind in KINDS:
            print(measure(kind, given, n_outputs), flush=True)


if __name__ == "__main__":
    main()

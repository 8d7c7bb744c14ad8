"""Contributions and interactions beside LightGBM and XGBoost: the same trees on the same rows, in one run.

Each peer trains trees of the wanted shape on a sample; its trees are copied into a model of Hornbeam, and the results
are compared before anything is timed. Peers take far fewer rows, and what is compared is the time of a row; every
library has the same number of threads. With --device cuda (or opencl) Hornbeam and XGBoost run on the GPU.

    python benchmarks/explain.py
    python benchmarks/explain.py --rows 1000000 --peer-rows 100000 --device cuda --peer xgb
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from predict import make_rows

from hornbeam.core.cpus import resolve_threads
from hornbeam.model.booster import Booster
from hornbeam.testing.peer_trees import booster_of, lightgbm_trees, xgboost_trees

COMPARED = 50
"""Rows whose results are compared."""


class LightGBM:
    """LightGBM's trees and contributions; it has no interactions, and none on a GPU."""

    name, cover, has_interactions = "LightGBM", "count", False

    def __init__(self, arguments: argparse.Namespace, X: NDArray[Any], y: NDArray[Any], n_threads: int) -> None:
        import lightgbm

        params = {
            "objective": "binary",
            "num_leaves": arguments.leaves,
            "min_data_in_leaf": 100,
            "learning_rate": 0.05,
            "num_threads": n_threads,
            "verbosity": -1,
        }
        self.n_threads = n_threads
        self.booster = lightgbm.train(params, lightgbm.Dataset(X, y), arguments.trees)
        self.trees = lightgbm_trees(self.booster)

    def prepare(self, X: NDArray[Any]) -> Any:
        return X

    def contributions(self, data: Any) -> NDArray[Any]:
        return np.asarray(self.booster.predict(data, pred_contrib=True, num_threads=self.n_threads))


class XGBoost:
    """XGBoost's."""

    name, cover, has_interactions = "XGBoost", "weight", True

    def __init__(self, arguments: argparse.Namespace, X: NDArray[Any], y: NDArray[Any], n_threads: int) -> None:
        import xgboost

        params = {
            "objective": "binary:logistic",
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": arguments.leaves,
            "max_depth": 0,
            "min_child_weight": 25,
            "learning_rate": 0.05,
            "nthread": n_threads,
            "device": "cuda" if arguments.device.startswith("cuda") else "cpu",
        }
        self.library = xgboost
        self.booster = xgboost.train(params, xgboost.DMatrix(X, y), arguments.trees)
        self.trees = xgboost_trees(self.booster)

    def prepare(self, X: NDArray[Any]) -> Any:
        return self.library.DMatrix(X)

    def contributions(self, data: Any) -> NDArray[Any]:
        return np.asarray(self.booster.predict(data, pred_contribs=True))

    def interactions(self, data: Any) -> NDArray[Any]:
        return np.asarray(self.booster.predict(data, pred_interactions=True))


PEERS = {"lgb": LightGBM, "xgb": XGBoost}


def in_turns(repeats: int, actions: list[Callable[[], object]]) -> list[float]:
    """Return the shortest time of each action, in seconds; they take turns."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for action, own in zip(actions, times, strict=True):
            begin = time.perf_counter()
            action()
            own.append(time.perf_counter() - begin)
    return [min(own) for own in times]


def compare(
    peer: Any, ours: Booster, X: NDArray[Any], arguments: argparse.Namespace, n_threads: int, what: str
) -> None:
    """Check the results of both libraries against each other, time them, and print."""
    few = what == "interactions"
    n_rows = max(1, arguments.rows // (16 if few else 1))
    n_peer_rows = max(1, arguments.peer_rows // (16 if few else 1))
    theirs: Callable[[Any], Any] = getattr(peer, what)

    def explain(rows: NDArray[Any]) -> Any:
        task = ours._explained(ours.checked_table(rows), (0, None), n_threads, arguments.device, peer.cover)
        return ours._predict_explained(task, rows, few)

    expected, found = theirs(peer.prepare(X[:COMPARED])), explain(X[:COMPARED])
    part = (..., slice(-1), slice(-1)) if few else (..., slice(-1))  # the bias has each library's own start in it
    difference = float(np.abs(expected[part] - found[part]).max() / np.abs(found[part]).max())
    data = peer.prepare(X[:n_peer_rows])
    theirs(data)
    explain(X[:n_rows])
    times = in_turns(arguments.repeats, [lambda: explain(X[:n_rows]), lambda: theirs(data)])
    ours_us, theirs_us = times[0] / n_rows * 1e6, times[1] / n_peer_rows * 1e6
    print(
        f"{what:13} {peer.name:9} {theirs_us:10.2f} us a row ({n_peer_rows} rows)   Hornbeam {ours_us:8.2f} us a row "
        f"({n_rows} rows)   {theirs_us / ours_us:7.1f} times as fast; largest difference {difference:.1e}"
    )


def main() -> None:
    """Train, copy, compare, time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096, help="that Hornbeam explains; interactions: a 16th")
    parser.add_argument("--peer-rows", type=int, default=256, help="that the peers explain; interactions: a 16th")
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--training-rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peer", nargs="*", choices=list(PEERS), default=list(PEERS))
    arguments = parser.parse_args()
    n_threads = resolve_threads(arguments.threads)
    X, y = make_rows(max(arguments.training_rows, arguments.rows), arguments.features, 0.0, seed=0)
    print(f"{arguments.trees} trees of {arguments.leaves} leaves, {arguments.features} features, {n_threads} thread(s)")
    for name in arguments.peer:
        peer = PEERS[name](arguments, X[: arguments.training_rows], y[: arguments.training_rows], n_threads)
        ours = booster_of(peer.trees, arguments.features)
        depths = [tree.depth() for tree in peer.trees]
        print(f"trees of {peer.name}: depth {np.mean(depths):.1f} on average, at most {max(depths)}")
        for what in ("contributions", "interactions")[: 1 + peer.has_interactions]:
            compare(peer, ours, X, arguments, n_threads, what)


if __name__ == "__main__":
    main()

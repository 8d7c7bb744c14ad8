"""Prediction beside LightGBM: the same trees on the same rows.

LightGBM trains a small forest of the wanted shape on a sample; its trees are copied into Hornbeam's arrays, so both
walk the same paths, and the predictions are compared before anything is timed.

    python benchmarks/predict.py --rows 1000000 --trees 500 --leaves 255
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.core.cpus import resolve_threads
from hornbeam.testing.peer_trees import lightgbm_trees
from hornbeam.trees.forest import Forest


def make_rows(n_rows: int, n_features: int, missing: float, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Make float32 rows, some cells missing, and two classes that take every leaf of every tree to tell apart."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, n_features), np.float32)
    directions = np.random.default_rng(0).standard_normal((n_features, 12), np.float32) * 3 / np.sqrt(n_features)
    target = np.sin(rows @ directions).sum(axis=1) + rng.standard_normal(n_rows, np.float32) > 0
    if missing > 0:
        rows[rng.random(rows.shape, np.float32) < missing] = np.nan
    return rows, target


def best_of(repeats: int, action: Callable[[], object]) -> float:
    """Return the shortest of several wall-clock times, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Train, copy, compare, time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--training-rows", type=int, default=100_000)
    parser.add_argument("--missing", type=float, default=0.0, help="share of missing cells")
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true", help="do not time LightGBM")
    arguments = parser.parse_args()
    n_threads = resolve_threads(arguments.threads)

    sample, target = make_rows(arguments.training_rows, arguments.features, arguments.missing, seed=0)
    parameters = {
        "objective": "binary",
        "num_leaves": arguments.leaves,
        "min_data_in_leaf": 100,  # without it later trees cut off a few odd rows, and the others have short paths
        "learning_rate": 0.05,
        "num_threads": n_threads,
        "verbosity": -1,
    }
    begin = time.perf_counter()
    peer = lgb.train(parameters, lgb.Dataset(sample, target), arguments.trees)
    print(f"LightGBM trained {arguments.trees} trees in {time.perf_counter() - begin:.1f} s")
    forest = Forest(lightgbm_trees(peer))
    depth = np.mean([tree.depth() for tree in forest.trees])
    print(f"{sum(tree.n_leaves for tree in forest.trees)} leaves, mean depth of a tree {depth:.1f}")

    rows, _ = make_rows(arguments.rows, arguments.features, arguments.missing, seed=1)
    few = rows[:1000]
    begin = time.perf_counter()
    ours = predict_raw(forest, few, n_threads=n_threads)[0]
    print(f"first prediction, kernels compiled or loaded and the forest packed: {time.perf_counter() - begin:.2f} s")
    difference = np.abs(ours - peer.predict(few, raw_score=True)).max()
    same_leaves = np.array_equal(predict_leaf(forest, few, n_threads=n_threads), peer.predict(few, pred_leaf=True))
    print(f"largest difference of a score {difference:.1e}, leaves the same: {same_leaves}")
    if difference > 1e-9 or not same_leaves:
        raise SystemExit("the two libraries disagree")

    our_time = best_of(arguments.repeats, lambda: predict_raw(forest, rows, n_threads=n_threads))
    print(
        f"Hornbeam {our_time:8.3f} s  {arguments.rows * arguments.trees / our_time / 1e6:8.1f} M (row, tree) a second"
    )
    if not arguments.no_peer:
        peer_time = best_of(arguments.repeats, lambda: peer.predict(rows, raw_score=True, num_threads=n_threads))
        print(f"LightGBM {peer_time:8.3f} s  {peer_time / our_time:.1f} times Hornbeam's time")


if __name__ == "__main__":
    main()

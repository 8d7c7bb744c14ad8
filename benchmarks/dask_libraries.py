"""Training on a Dask cluster beside LightGBM's and XGBoost's trainers for Dask, on the same workers in one run.

    python benchmarks/dask_libraries.py --rows 2000000 --features 28 --leaves 255 --workers 4 --threads 4

The cluster is a LocalCluster of processes; a partition lies on each worker. Seconds of a tree are the difference of
trainings of two lengths, by the number of trees between them, so that binning and the start of a training cancel out.
The first line is Hornbeam in one process with the threads of all workers. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from scaling import make_data

import hornbeam as hb
import hornbeam.dask as hbd


def one_process(given: argparse.Namespace, parts: list[tuple[np.ndarray, np.ndarray]]) -> Callable[[int], Any]:
    data = hb.Dataset(np.concatenate([X for X, _ in parts]), label=np.concatenate([y for _, y in parts]))
    params = {"objective": "binary", "num_leaves": given.leaves, "device": "cpu", "verbosity": -1}
    return lambda n: hb.train({**params, "num_threads": given.threads * given.workers}, data, n).fingerprint()


def hornbeam(given: argparse.Namespace, client: Client, X: da.Array, y: da.Array) -> Callable[[int], Any]:
    params = {"objective": "binary", "num_leaves": given.leaves, "device": given.device, "verbosity": -1}
    params["num_threads"] = given.threads
    data = hbd.Dataset(client, X, label=y)
    return lambda n: hbd.train(client, params, data, n).fingerprint()


def lightgbm(given: argparse.Namespace, client: Client, X: da.Array, y: da.Array) -> Callable[[int], Any]:
    import lightgbm

    def run(n: int) -> None:
        model = lightgbm.DaskLGBMClassifier(
            client=client, n_estimators=n, num_leaves=given.leaves, n_jobs=given.threads, verbosity=-1,
            tree_learner="data",
        )  # fmt: skip
        model.fit(X, y)

    return run


def xgboost(given: argparse.Namespace, client: Client, X: da.Array, y: da.Array) -> Callable[[int], Any]:
    import xgboost.dask

    params = {"objective": "binary:logistic", "max_leaves": given.leaves, "max_depth": 0, "grow_policy": "lossguide"}
    params |= {"tree_method": "hist", "nthread": given.threads, "verbosity": 0}
    data = xgboost.dask.DaskQuantileDMatrix(client, X, y)
    return lambda n: xgboost.dask.train(client, params, data, num_boost_round=n) and None


def seconds_a_tree(run: Callable[[int], Any], rounds: int, repeats: int) -> tuple[float, Any]:
    """Return the median over repetitions, and what a run returns."""
    run(1)
    found, result = [], None
    for _ in range(repeats):
        took = []
        for n_rounds in (1, 1 + rounds):
            begun = time.perf_counter()
            result = run(n_rounds)
            took.append(time.perf_counter() - begun)
        found.append((took[1] - took[0]) / rounds)
    return statistics.median(found), result


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=63)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--device", default="cpu", help="of Hornbeam's workers")
    given = parser.parse_args()
    share = given.rows // given.workers
    parts = [make_data(share, given.features, part) for part in range(given.workers)]
    head = f"{share * given.workers:,} x {given.features}, {given.leaves} leaves"
    print(f"{head}, {given.workers} workers x {given.threads} threads, {given.rounds} trees, {given.repeats} times")
    print("trainer               s/tree  by Hornbeam's workers")
    one, expected = seconds_a_tree(one_process(given, parts), given.rounds, given.repeats)
    with (
        LocalCluster(n_workers=given.workers, threads_per_worker=given.threads, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        placed = [client.scatter(part, workers=[worker]) for part, worker in zip(parts, workers, strict=True)]

        def gather(number: int, shape: tuple[int, ...], dtype: Any) -> da.Array:
            pieces = [client.submit(lambda part, number=number: part[number], each) for each in placed]
            return da.concatenate([da.from_delayed(piece, shape, dtype) for piece in pieces])

        X = gather(0, (share, given.features), np.float32).persist()
        y = gather(1, (share,), np.float64).persist()
        wait([X, y])
        ours, fingerprint = seconds_a_tree(hornbeam(given, client, X, y), given.rounds, given.repeats)
        print(f"hornbeam, one process {one:6.3f} {one / ours:6.2f}")
        print(f"hornbeam, workers     {ours:6.3f} {1.0:6.2f}  same model: {fingerprint == expected}", flush=True)
        for name, peer in (("lightgbm", lightgbm), ("xgboost", xgboost)):
            if find_spec(name) is None:
                print(f"{name} is not installed")
                continue
            theirs, _ = seconds_a_tree(peer(given, client, X, y), given.rounds, given.repeats)
            print(f"{name:21} {theirs:6.3f} {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()

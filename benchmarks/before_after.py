"""Two versions of Hornbeam beside each other: what an iteration takes with each, and whether the models are the same.

    git worktree add ../before v0.1.0
    python benchmarks/before_after.py --before ../before/src --threads 1 2 16
    python benchmarks/before_after.py --before ../before/src --device cuda --jobs higgs epsilon yahoo

Both train in processes of their own, in turn, several times. The time of an iteration is the smallest of all trainings,
so that what else the machine does matters little; printed is the mean over the iterations, and before / after: above 1
is faster now. With one thread it is the thread's CPU time. Data are made by NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Job = tuple[Any, NDArray[np.float64], dict[str, Any], int]
"""Data, label, parameters, iterations."""


def _plain(n_rows: int, n_features: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((n_rows, n_features), np.float32)
    score = data[:, 0] + data[:, 1] * data[:, 2] + 0.5 * np.sin(3 * data[:, 3])
    return data, (score + rng.standard_normal(n_rows) > 0).astype(np.float64)


def _shape(n_rows: int, n_features: int, iterations: int, **params: Any) -> Callable[[], Job]:
    return lambda: (*_plain(n_rows, n_features), params, iterations)


def _categorical() -> Job:
    data, label = _plain(100_000, 28)
    data[:, 20:] = np.floor(np.abs(data[:, 20:]) * 20) % 40
    return data, label, {"categorical_feature": list(range(20, 28))}, 8


def _sparse() -> Job:
    import scipy.sparse

    data = scipy.sparse.random(50_000, 500, 0.02, format="csr", random_state=0)
    label = np.asarray(data[:, :20].sum(axis=1)).ravel() > 0.2
    return data, label.astype(np.float64), {}, 8


JOBS: dict[str, Callable[[], Job]] = {
    "569": _shape(569, 30, 100),
    "20k": _shape(20_000, 28, 40),
    "200k": _shape(200_000, 28, 8, num_leaves=63),
    "200k-255": _shape(200_000, 28, 8, num_leaves=255),
    "1M": _shape(1_000_000, 28, 5, num_leaves=255),
    "depth": _shape(200_000, 28, 8, grow_policy="depthwise", max_depth=6, num_leaves=64),
    "bagging": _shape(200_000, 28, 8, bagging_fraction=0.5, bagging_freq=1, feature_fraction=0.7),
    "monotone": _shape(100_000, 28, 8, monotone_constraints=[1] + [0] * 27),
    "bynode": _shape(100_000, 28, 8, feature_fraction_bynode=0.5),
    "wide": _shape(20_000, 500, 8),
    "categorical": _categorical,
    "sparse": _sparse,
    "10M": _shape(10_000_000, 28, 5, num_leaves=255),
    "10M-l2": _shape(10_000_000, 28, 5, num_leaves=255, objective="regression"),
    "higgs": _shape(10_000_000, 28, 20, num_leaves=255),
    "epsilon": _shape(400_000, 2000, 20, num_leaves=255),
    "yahoo": _shape(473_134, 700, 20, num_leaves=255),
    "mslr": _shape(2_270_296, 137, 20, num_leaves=255),
}
ON_CPU = (
    "569",
    "20k",
    "200k",
    "200k-255",
    "1M",
    "depth",
    "bagging",
    "monotone",
    "bynode",
    "wide",
    "categorical",
    "sparse",
)


def work(names: list[str], device: str, threads: list[int], trainings: int) -> None:
    """Train with the version that is imported; print a line of JSON for each job and number of threads."""
    import hornbeam as hb

    for name in names:
        data, label, params, iterations = JOBS[name]()
        categorical = params.pop("categorical_feature", "auto")
        train_set = hb.Dataset(data, label=label, categorical_feature=categorical)
        for n_threads in threads:
            clock = time.process_time if n_threads == 1 and device == "cpu" else time.perf_counter
            settings = {"objective": "binary", "verbosity": -1, "device": device, "num_threads": n_threads, **params}
            best, booster = np.full(iterations, np.inf), None
            for _ in range(trainings):
                times: list[float] = []
                booster = hb.train(
                    settings,
                    train_set,
                    iterations + 1,
                    callbacks=[lambda _, times=times, clock=clock: times.append(clock())],
                )
                best = np.minimum(best, np.diff(times))
            assert booster is not None
            line = {"job": name, "threads": n_threads, "best": best.tolist(), "model": booster.fingerprint()}
            print(json.dumps(line), flush=True)


def measure(source: str, options: list[str]) -> dict[tuple[str, int], dict[str, Any]]:
    """Let another process work with the version at `source`."""
    command = [sys.executable, __file__, "--work", *options]
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(line["job"], line["threads"]): line for line in lines}


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", help="src folder of the other version")
    parser.add_argument("--after", default=str(Path(__file__).parents[1] / "src"))
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=ON_CPU)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--trainings", type=int, default=2, help="of each job in each round")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.jobs, given.device, given.threads, given.trainings)
        return
    options = ["--jobs", *given.jobs, "--threads", *map(str, given.threads), "--device", given.device]
    options += ["--trainings", str(given.trainings)]
    best: dict[str, dict[tuple[str, int], Any]] = {"before": {}, "after": {}}
    models: dict[tuple[str, int], set[str]] = {}
    for _ in range(given.rounds):
        for version, source in (("before", given.before), ("after", given.after)):
            for key, line in measure(source, options).items():
                best[version][key] = np.minimum(best[version].get(key, np.inf), line["best"])
                models.setdefault(key, set()).add(line["model"])
    print(f"{'job':<12}{'threads':>8}{'before ms':>11}{'after ms':>10}{'ratio':>7}  model")
    for key in best["after"]:
        before, after = (float(best[version][key].mean()) * 1e3 for version in ("before", "after"))
        same = "same" if len(models[key]) == 1 else "differs"
        print(f"{key[0]:<12}{key[1]:>8}{before:>11.2f}{after:>10.2f}{before / after:>7.2f}  {same}")


if __name__ == "__main__":
    main()

"""Kernels compiled ahead for each level of CPUs: the time of every kernel in trainings of many kinds, level by level.

    python kernels/build.py --all-kernels && python benchmarks/levels.py

A library of a higher level has only the kernels that are quicker for it (kernels/emit.py); with --all-kernels each has
all of them. The levels take turns in one process, with one thread; a kernel's time is the least of all turns of a
training, summed over the trainings. It is the time by the clock: let the machine be quiet.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

import hornbeam as hb
from hornbeam.backends.cpu.host import library
from hornbeam.backends.cpu.host.kernels import Kernel

QUIET = {"verbosity": -1, "num_threads": 1}


def make_jobs(n_rows: int) -> dict[str, Callable[[], Any]]:
    """Return trainings and predictions by name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 20)).astype(np.float32)
    score = (X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3]).astype(float)
    binary, classes, count = (score > 0.0).astype(float), np.digitize(score, [-1.0, 0.0, 1.0]), np.abs(score) + 0.1
    levels = X.copy()
    levels[:, :6] = np.floor(np.abs(levels[:, :6]) * 40.0)
    zeros = scipy.sparse.random(n_rows, 300, 0.02, format="csr", random_state=1, dtype=np.float32)
    queries = [100] * (n_rows // 100)
    model = hb.train({**QUIET, "objective": "binary"}, hb.Dataset(X, label=binary), 30)

    def train(label: Any, n_rounds: int = 4, table: Any = X, group: Any = None, **params: Any) -> Callable[[], Any]:
        named = {name: params.pop(name) for name in list(params) if name == "categorical_feature"}

        def run() -> None:
            data = hb.Dataset(table, label=label, group=group, **named)
            hb.train({**QUIET, **params}, data, n_rounds, [data] if "metric" in params else None)

        return run

    return {
        "binary": train(binary, objective="binary", metric="auc,binary_logloss"),
        "255 leaves": train(binary, objective="binary", num_leaves=255),
        "l1": train(score, objective="l1", metric="l1,l2,mape"),
        "quantile": train(score, objective="quantile"),
        "poisson": train(count, objective="poisson"),
        "tweedie": train(count, objective="tweedie"),
        "gamma": train(count, objective="gamma"),
        "huber": train(score, objective="huber"),
        "goss": train(binary, objective="binary", data_sample_strategy="goss"),
        "bagging": train(binary, objective="binary", bagging_fraction=0.5, bagging_freq=1),
        "monotone": train(binary, objective="binary", monotone_constraints=[1] + [0] * 19),
        "smooth": train(binary, objective="binary", path_smooth=1.0),
        "by node": train(binary, objective="binary", feature_fraction_bynode=0.5),
        "classes": train(classes, 3, objective="multiclass", num_class=4, metric="multi_logloss"),
        "shared": train(classes, 3, objective="multiclass", num_class=4, multi_strategy="multi_output_tree"),
        "ranking": train(classes, 3, group=queries, objective="lambdarank", metric="ndcg"),
        "categories": train(binary, table=levels, objective="binary", categorical_feature=list(range(6))),
        "sparse": train(binary, table=zeros, objective="binary"),
        "linear": train(score, 3, linear_tree=True),
        "exact": train(binary, 2, objective="binary", tree_method="exact", grow_policy="depthwise", max_depth=6),
        "approx": train(binary, 2, objective="binary", tree_method="approx"),
        "predict": lambda: model.predict(X, num_threads=1),
        "contributions": lambda: model.predict(X[:1000], pred_contrib=True, num_threads=1),
    }


def main() -> None:
    """Measure, and print a table of the kernels that take longest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    levels = list(json.loads((library.FOLDER / library.MANIFEST).read_text(encoding="utf-8"))["levels"])
    libraries = {level: library._load(level) for level in levels}
    spent: dict[str, float] = {}
    call = Kernel.__call__

    def timed(self: Kernel, *arguments: Any) -> Any:
        begun = time.perf_counter()
        result = call(self, *arguments)
        spent[self.name] = spent.get(self.name, 0.0) + time.perf_counter() - begun
        return result

    def choose(level: str) -> None:
        library.the_library = lambda: libraries[level]  # type: ignore[assignment]
        for kernel in gc.get_objects():
            if isinstance(kernel, Kernel):
                kernel._run = None

    Kernel.__call__ = timed  # type: ignore[method-assign]
    jobs = make_jobs(given.rows)
    least: dict[tuple[str, str, str], float] = {}
    for _ in range(given.turns):
        for level in levels:
            choose(level)
            for job, run in jobs.items():
                spent.clear()
                run()
                for name, seconds in spent.items():
                    key = job, name, level
                    least[key] = min(least.get(key, seconds), seconds)
    for column, title in ((0, "training"), (1, "kernel")):
        total: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(levels, 0.0))
        for key, seconds in least.items():
            total[key[column]][key[2]] += 1e3 * seconds
        print(f"{title:<48}" + "".join(f"{level + ' ms':>14}" for level in levels) + "  first / last")
        for name, by_level in sorted(total.items(), key=lambda item: -item[1][levels[0]]):
            figures = list(by_level.values())
            print(f"{name:<48}" + "".join(f"{each:>14.2f}" for each in figures) + f"{figures[0] / figures[-1]:>14.2f}")
        print()


if __name__ == "__main__":
    main()

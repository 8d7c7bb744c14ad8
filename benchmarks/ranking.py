"""Learning to rank beside LightGBM and XGBoost: the same data, the same parameters, one run.

    python benchmarks/ranking.py                            # 200k x 137 in queries of about 120 documents
    python benchmarks/ranking.py --queries 500 --size 1000 --threads 2 --device cuda
    python benchmarks/ranking.py --objective pairwise --peers xgboost

The shape is that of the MS-LTR data (137 features, 120 documents a query, labels 0 to 4, half of them 0); the data are
made. Every library is warmed up, then they take turns, so that a busy machine slows all of them; times are the median
of the turns, and only ratios of one run mean anything. `iteration` is that of a training on data that are already
binned; `gradient` is how much of it goes when trees have two leaves and features two bins, which leaves little but the
objective. NDCG@10 is that on as many queries again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
from libraries import Data, Library, LightGBM, XGBoost

from hornbeam.data.queries import boundaries_of
from hornbeam.metrics.ranked_lists import NormalizedGain
from hornbeam.testing.data import make_ranking

LIBRARIES: dict[str, type[Library]] = {"hornbeam": Library, "lightgbm": LightGBM, "xgboost": XGBoost}


def time_in_turns(
    libraries: dict[str, Library], data: Data, iterations: int, turns: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return milliseconds an iteration and the last models."""
    seconds: dict[str, list[float]] = {name: [] for name in libraries}
    models = {}
    built = {name: library.build(data) for name, library in libraries.items()}
    for name, library in libraries.items():
        library.train(built[name], 2)
    for _ in range(turns):
        for name, library in libraries.items():
            begin = time.perf_counter()
            models[name] = library.train(built[name], iterations)
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) / iterations * 1e3 for name, times in seconds.items()}, models


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1667)
    parser.add_argument("--size", type=float, default=120.0, help="mean documents of a query")
    parser.add_argument("--features", type=int, default=137)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--objective", default="lambdarank", choices=["lambdarank", "rank_xendcg", "pairwise"])
    parser.add_argument("--peers", nargs="*", choices=["lightgbm", "xgboost"], default=["lightgbm", "xgboost"])
    options = parser.parse_args()
    data, test = (Data(*make_ranking(options.queries, options.features, options.size, seed=seed)) for seed in (0, 1))
    assert test.sizes is not None
    params: dict[str, Any] = {
        "objective": options.objective,
        "num_leaves": options.leaves,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 1.0,
        "num_threads": options.threads,
        "device": options.device,
        "metric": "none",
        "verbosity": -1,
    }
    print(
        f"{options.objective}, {len(data.y):,} x {options.features}, {options.queries:,} queries, {options.leaves} "
        f"leaves, {options.threads} thread(s), {options.device}"
    )
    chosen = {name: LIBRARIES[name] for name in ("hornbeam", *options.peers)}
    libraries = {name: library(params) for name, library in chosen.items()}
    whole, models = time_in_turns(libraries, data, options.iterations, options.turns)
    flat = Data(np.ascontiguousarray(data.X[:, :1] > 0.0, np.float32), data.y, data.sizes)
    small = {name: library(params | {"num_leaves": 2}) for name, library in chosen.items()}
    gradient, _ = time_in_turns(small, flat, options.iterations, options.turns)
    boundaries = boundaries_of(test.sizes)
    print(f"{'':10}{'iteration':>12}{'gradient':>12}{'NDCG@10':>10}")
    for name, milliseconds in whole.items():
        scores = libraries[name].predict(models[name], test.X, test)
        ndcg = NormalizedGain((10,)).at_ranks(test.y, scores, None, boundaries)[0]
        print(f"{name:10}{milliseconds:9.1f} ms{gradient[name]:9.1f} ms{ndcg:10.5f}")


if __name__ == "__main__":
    main()

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
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hornbeam as hb
from hornbeam.metrics.queries import NormalizedGain
from hornbeam.queries import boundaries_of
from hornbeam.testing.data import make_ranking
from hornbeam.testing.peers import peer_params

Arrays = tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]
Trainer = Callable[[int], Any]
"""Trains for some iterations and returns the model."""


def hornbeam_trainer(params: dict[str, Any], data: Arrays) -> Trainer:
    """Bin for Hornbeam."""
    dataset = hb.Dataset(data[0], data[1], group=data[2]).construct(hb.Params.from_dict(params))
    return lambda iterations: hb.train(params, dataset, iterations)


def lightgbm_trainer(params: dict[str, Any], data: Arrays) -> Trainer:
    """Bin for LightGBM."""
    import lightgbm

    theirs = peer_params({name: value for name, value in params.items() if name != "device"}, "lightgbm")
    dataset = lightgbm.Dataset(data[0], data[1], group=data[2], params=theirs).construct()
    return lambda iterations: lightgbm.train(theirs, dataset, iterations)


def xgboost_trainer(params: dict[str, Any], data: Arrays) -> Trainer:
    """Bin for XGBoost, which knows no number of rows in a leaf."""
    import xgboost

    theirs = peer_params({**params, "min_data_in_leaf": 1}, "xgboost")
    qid = np.repeat(np.arange(len(data[2])), data[2])
    dataset = xgboost.QuantileDMatrix(
        data[0], data[1], qid=qid, max_bin=theirs["max_bin"], nthread=theirs.get("nthread")
    )
    return lambda iterations: xgboost.train(theirs, dataset, iterations)


TRAINERS = {"hornbeam": hornbeam_trainer, "lightgbm": lightgbm_trainer, "xgboost": xgboost_trainer}


def predict(name: str, model: Any, X: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return raw scores."""
    return np.asarray(model.inplace_predict(X) if name == "xgboost" else model.predict(X), np.float64)


def time_in_turns(trainers: dict[str, Trainer], iterations: int, turns: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return milliseconds an iteration and the last models."""
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    models = {}
    for trainer in trainers.values():
        trainer(2)
    for _ in range(turns):
        for name, trainer in trainers.items():
            begin = time.perf_counter()
            models[name] = trainer(iterations)
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
    data = make_ranking(options.queries, options.features, options.size, seed=0)
    test = make_ranking(options.queries, options.features, options.size, seed=1)
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
        f"{options.objective}, {len(data[1]):,} x {options.features}, {options.queries:,} queries, {options.leaves} "
        f"leaves, {options.threads} thread(s), {options.device}"
    )
    chosen = {name: TRAINERS[name] for name in ("hornbeam", *options.peers)}
    trainers = {name: make(params, data) for name, make in chosen.items()}
    whole, models = time_in_turns(trainers, options.iterations, options.turns)
    flat = (np.ascontiguousarray(data[0][:, :1] > 0.0, np.float32), *data[1:])
    small = {name: make(params | {"num_leaves": 2}, flat) for name, make in chosen.items()}
    gradient, _ = time_in_turns(small, options.iterations, options.turns)
    boundaries = boundaries_of(test[2])
    print(f"{'':10}{'iteration':>12}{'gradient':>12}{'NDCG@10':>10}")
    for name, milliseconds in whole.items():
        scores = predict(name, models[name], test[0])
        ndcg = NormalizedGain((10,)).at_ranks(test[1], scores, None, boundaries)[0]
        print(f"{name:10}{milliseconds:9.1f} ms{gradient[name]:9.1f} ms{ndcg:10.5f}")


if __name__ == "__main__":
    main()

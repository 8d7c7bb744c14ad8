"""Errors of linear leaves beside LightGBM's at equal parameters, on real data.

    python benchmarks/linear_quality.py DATASETS_FOLDER [--only california casp] [--rounds N] [--threads N]

Five folds of each set (quality_data.py), RMSE or log loss of the rows that were not trained on, and the mean over folds
as a multiple of LightGBM's. "constants" is Hornbeam without linear leaves, "without bounds" the same model whose
functions go on beyond the values of their training rows, as LightGBM's do. "leaves below" are those of LightGBM's that
have fewer rows than min_data_in_leaf, in per cent: it estimates rows from hessians.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from quality_data import FOLDS, Problem, load_adult, load_california, load_casp, load_diamonds, load_higgs

import hornbeam as hb
from hornbeam.testing.peers import peer_params

SETS = {
    "california": load_california,
    "casp": load_casp,
    "diamonds": load_diamonds,
    "adult": load_adult,
    "higgs": load_higgs,
}


def error(problem: Problem, label: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """Return the RMSE, or the log loss of raw scores."""
    if problem.objective == "regression":
        return float(np.sqrt(np.mean((scores - label) ** 2)))
    return float(np.mean(np.logaddexp(0.0, scores) - label * scores))


def without_bounds(booster: hb.Booster) -> hb.Booster:
    """Return the same functions as a model of format version 2, which has no bounds."""
    document = json.loads(booster.to_bytes())
    del document["fingerprint"]
    document["version"] = 2
    for tree in document["trees"]:
        tree.pop("leaf_low", None), tree.pop("leaf_high", None)
    return hb.Booster(json.dumps(document).encode())


def share_below(leaves: NDArray[np.integer], least: int) -> float:
    """Return the share of leaves with fewer rows; leaves: (n_rows, n_trees)."""
    counts = np.concatenate([np.bincount(tree) for tree in leaves.T.astype(np.int64)])
    return float(np.mean(counts[counts > 0] < least))


def errors(problem: Problem, params: dict[str, Any], rounds: int) -> NDArray[np.float64]:
    """Return the errors of LightGBM, constants, without bounds and with, and the share of small leaves, by fold."""
    constant = {name: value for name, value in params.items() if not name.startswith("linear")}
    theirs, found = peer_params(params, "lightgbm"), []
    for train, test in problem.splits[:FOLDS]:
        X, y, X_test = problem.X[train], problem.y[train], problem.X[test]
        ours = hb.train(params, hb.Dataset(X, y), rounds)
        peer = lgb.train(theirs, lgb.Dataset(X, y, params=theirs), rounds)
        models = peer, hb.train(constant, hb.Dataset(X, y), rounds), without_bounds(ours), ours
        own = [error(problem, problem.y[test], model.predict(X_test, raw_score=True)) for model in models]
        found.append([*own, share_below(peer.predict(X, pred_leaf=True), params["min_data_in_leaf"])])
    return np.array(found)


def main() -> None:
    """Run and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    options.shuffles, options.full = 1, False
    print(
        "| data | min_data_in_leaf | linear_lambda | LightGBM | constants | without bounds | Hornbeam | leaves below |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for problem in (one for name in options.only for one in SETS[name](options.folder, options)):
        for least in (20, 200):
            for ridge in (0.01, 10.0):
                params = {
                    "objective": problem.objective, "num_leaves": 31, "learning_rate": 0.1, "min_data_in_leaf": least,
                    "linear_tree": True, "linear_lambda": ridge, "num_threads": options.threads, "verbosity": -1,
                }  # fmt: skip
                peer, *ours, small = errors(problem, params, options.rounds).mean(axis=0)
                ratios = " | ".join(f"{one / peer:.3f}" for one in ours)
                line = f"{problem.name} | {least} | {ridge:g} | {peer:.5g} | {ratios} | {100 * small:.0f}%"
                print(f"| {line} |", flush=True)


if __name__ == "__main__":
    main()

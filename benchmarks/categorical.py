"""Training with categorical features beside LightGBM, XGBoost and (where it is installed) CatBoost, in one run.

    python benchmarks/categorical.py [--rows N] [--rounds N] [--leaves N] [--threads N] [--repeat N] [--only lightgbm]
                                     [--data FOLDER --set adult]

The data are made: a number of numeric features, and categorical ones of few, of some hundred and of some thousand
levels, each level with an effect of its own; or adult or flights from a folder, as in quality.py. "with sets" is
Hornbeam without target encoding, so it splits features of any number of levels as LightGBM does. Every library gets
pandas categories and the same number of trees, leaves and threads; binning is not timed. Times are the best of a few
repetitions, which take turns, so that a busy machine slows all of them down; CPU time, of all threads together, is less
sensitive to that. AUC is that of rows that were not trained on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from numpy.typing import NDArray
from quality_data import Problem, load_adult_categories, load_flights_categories
from sklearn.metrics import roc_auc_score

import hornbeam as hb
from hornbeam.testing.peers import peer_params

try:
    import catboost
except ImportError:
    catboost = None

N_NUMERIC = 10
N_LEVELS = (3, 3, 12, 25, 50, 200, 400, 3000)

LOADERS = {"adult": load_adult_categories, "flights": load_flights_categories}

Timed = tuple[float, float, NDArray[np.float64]]
"""Seconds, CPU seconds, predictions."""


def clocks() -> NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


def make_data(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Return a frame of numbers and categories, and labels 0 and 1."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(1)
    columns: dict[str, Any] = {}
    score = np.zeros(n_rows)
    for feature in range(N_NUMERIC):
        columns[f"x{feature}"] = rng.normal(size=n_rows)
        score += 0.3 * np.sin(2.0 * columns[f"x{feature}"]) * (feature % 3 == 0)
    for feature, n_levels in enumerate(N_LEVELS):
        level = (n_levels * rng.random(n_rows) ** 2).astype(np.int64)
        score += effects.normal(size=n_levels)[level] * 0.5
        columns[f"c{feature}"] = pd.Categorical.from_codes(level, [f"level {i}" for i in range(n_levels)])
    return pd.DataFrame(columns), (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score))).astype(np.float64)


def as_categories(problem: Problem) -> pd.DataFrame:
    """Return the features of a problem as a frame with category columns."""
    frame = pd.DataFrame(problem.X, columns=[f"x{feature}" for feature in range(problem.X.shape[1])])
    for feature in problem.categorical:
        codes = problem.X[:, feature]
        levels = [f"level {i}" for i in range(int(np.nanmax(codes)) + 1)]
        frame[f"x{feature}"] = pd.Categorical.from_codes(np.where(np.isnan(codes), -1, codes).astype(int), levels)
    return frame


def categorical_names(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if isinstance(frame[name].dtype, pd.CategoricalDtype)]


def as_strings(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame as CatBoost takes it, for which a missing category is one more."""
    return frame.astype(dict.fromkeys(categorical_names(frame), str))


def timed_hornbeam(params: dict[str, Any], rounds: int, data: Any, X_test: pd.DataFrame) -> Timed:
    begin = clocks()
    booster = hb.train(params, data, rounds)
    seconds = clocks() - begin
    return seconds[0], seconds[1], booster.predict(X_test)


def timed_lightgbm(params: dict[str, Any], rounds: int, data: Any, X_test: pd.DataFrame) -> Timed:
    begin = clocks()
    booster = lgb.train(peer_params(params, "lightgbm"), data, rounds)
    seconds = clocks() - begin
    return seconds[0], seconds[1], booster.predict(X_test)


def timed_xgboost(params: dict[str, Any], rounds: int, data: Any, X_test: pd.DataFrame) -> Timed:
    theirs = peer_params({**params, "min_data_in_leaf": 1}, "xgboost")
    begin = clocks()
    booster = xgb.train(theirs, data, rounds)
    seconds = clocks() - begin
    return seconds[0], seconds[1], booster.inplace_predict(X_test)


def timed_catboost(params: dict[str, Any], rounds: int, data: Any, X_test: pd.DataFrame) -> Timed:
    model = catboost.CatBoostClassifier(
        iterations=rounds, learning_rate=params["learning_rate"], grow_policy="Lossguide",
        max_leaves=params["num_leaves"], thread_count=params["num_threads"] or -1, verbose=False,
    )  # fmt: skip
    begin = clocks()
    model.fit(data)
    seconds = clocks() - begin
    return seconds[0], seconds[1], model.predict_proba(as_strings(X_test))[:, 1]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--leaves", type=int, default=63)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="peers to run; all that are installed otherwise")
    parser.add_argument("--data", type=Path, help="folder of data sets, see quality.py")
    parser.add_argument("--set", choices=LOADERS, default="adult", help="which of them")
    options = parser.parse_args()
    if options.data is not None:
        problem = next(iter(LOADERS[options.set](options.data, argparse.Namespace(shuffles=1))))
        train, test = problem.splits[0]
        frame = as_categories(problem)
        X, y, X_test, y_test = frame.iloc[train], problem.y[train], frame.iloc[test], problem.y[test]
        title = f"{options.set}, {len(X):,} x {X.shape[1]}"
    else:
        X, y = make_data(options.rows)
        X_test, y_test = make_data(options.rows // 4, seed=1)
        title = f"{options.rows:,} rows, {N_NUMERIC} numbers, {len(N_LEVELS)} categories of {N_LEVELS} levels"
    params = {
        "objective": "binary", "num_leaves": options.leaves, "learning_rate": 0.1, "num_threads": options.threads,
        "verbosity": -1, "metric": "none",
    }  # fmt: skip
    names = categorical_names(X)
    libraries: dict[str, tuple[Callable[..., Timed], Any]] = {
        "hornbeam": (timed_hornbeam, hb.Dataset(X, y).construct()),
        "with sets": (timed_hornbeam, hb.Dataset(X, y, target_encoding_levels=-1).construct()),
        "lightgbm": (timed_lightgbm, lgb.Dataset(X, y, params=peer_params(params, "lightgbm")).construct()),
        "xgboost": (timed_xgboost, xgb.QuantileDMatrix(X, y, max_bin=255, enable_categorical=True)),
    }
    if catboost is not None:
        libraries["catboost"] = (timed_catboost, catboost.Pool(as_strings(X), y, cat_features=names))
    if options.only:
        chosen = ("hornbeam", "with sets", *options.only)
        libraries = {name: library for name, library in libraries.items() if name in chosen}
    timed_hornbeam(params, 2, libraries["hornbeam"][1], X_test)  # compiles the kernels
    best: dict[str, tuple[float, float]] = {}
    auc: dict[str, float] = {}
    for _ in range(options.repeat):
        for name, (run, data) in libraries.items():
            *times, predicted = run(params, options.rounds, data, X_test)
            before = best.get(name, (np.inf, np.inf))
            best[name] = min(before[0], times[0]), min(before[1], times[1])
            auc[name] = float(roc_auc_score(y_test, predicted))
    print(f"{title}, {options.leaves} leaves")
    for name, times in best.items():
        wall, cpu = (seconds / options.rounds * 1e3 for seconds in times)
        print(f"{name:10s} {wall:8.1f} ms a tree {cpu:8.1f} ms of CPU time   auc {auc[name]:.4f}")


if __name__ == "__main__":
    main()

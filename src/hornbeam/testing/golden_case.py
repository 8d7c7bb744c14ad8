"""What a golden model is trained on: data from a hash of row and column and from + - * / alone, and a case's parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.hashing import hash_rows
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.objectives.device_functions import on_device
from hornbeam.testing.labels import labels_for
from hornbeam.training.training import train


def uniform(n_rows: int, column: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1), float64 (n_rows,), from a hash of row and column."""
    rows = np.arange(n_rows, dtype=np.uint64) + np.uint64(column << 32)
    return (hash_rows(rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def golden_table(n_rows: int, n_features: int, missing: bool = False, zeros: float = 0.0) -> NDArray[np.float64]:
    """Return features, float64 (n_rows, n_features): smooth ones, skewed ones and ones of few values, in turn.

    zeros  share of values that are 0 instead
    """
    table = np.empty((n_rows, n_features))
    for column in range(n_features):
        u = uniform(n_rows, column)
        table[:, column] = (4.0 * u - 2.0, 1.0 / (u + 0.01), np.floor(7.0 * u))[column % 3]
        if zeros > 0.0:
            table[uniform(n_rows, 5000 + column) < zeros, column] = 0.0
        if missing and column % 2 == 0:
            table[uniform(n_rows, 1000 + column) < 0.2, column] = np.nan
    return table


def golden_score(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a signal with an interaction, a step and some noise, float64 (n_rows,); NaN counts as 1."""
    x = np.where(np.isnan(table), 1.0, table)
    noise = uniform(len(x), 2000) + uniform(len(x), 2001) - 1.0
    score: NDArray[np.float64] = x[:, 0] * x[:, 2] + (x[:, 1] > 5.0) * 3.0 - x[:, 3] + noise
    return score


def pseudo_huber(scores: NDArray[np.float64], dataset: Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return gradients of a smooth absolute error; square roots are exact everywhere."""
    difference = scores - np.asarray(dataset.label)
    root = np.sqrt(1.0 + difference * difference)
    return difference / root, 1.0 / (root * root * root)


@on_device
def squared_by_output(scores: Any, data: Any) -> tuple[Any, Any]:
    """Return gradients of squared errors on the device that trains; output k learns k + 1 times the label."""
    gradient = scores * 1.0
    for k in range(scores.shape[1]):
        gradient[:, k] = scores[:, k] - data.label * (k + 1.0)
    return gradient, data.xp.full_like(scores, 2.0)


FORCED = {
    "feature": 3,
    "threshold": 0.1,
    "left": {"feature": 1, "threshold": 9.0, "left": {"feature": 4, "threshold": 2.0}},
    "right": {"feature": 5, "threshold": 2.5, "right": {"feature": 3, "threshold": 1e9}},
}
"""Splits that trees begin with; nothing lies above the last threshold."""


@dataclass(frozen=True)
class GoldenCase:
    """One training: data by their description, parameters and number of rounds.

    `levels` are the categorical columns, and how many levels each has: integers from 0 on, the lower the more frequent.
    `exclusive` are variables that follow the other columns, with a column for each of their levels: small counts in the
    column of a row's level, and zeros in the others.
    """

    params: dict[str, Any]
    n_rows: int = 1500
    n_features: int = 6
    n_rounds: int = 6
    missing: bool = False
    weighted: bool = False
    heavy_tail: bool = False
    rare: float = 0.0  # share of rows that are of the last class, or that have a count
    levels: dict[int, int] = field(default_factory=dict)
    zeros: float = 0.0
    tied: bool = False  # values are integers, of which the lower are in many rows and the higher in few
    exclusive: tuple[int, ...] = ()
    init_score: bool = False
    positions: bool = False  # rows of a query were shown at the positions 0 to 9
    censored: bool = False  # times of all kinds between bounds; labels of survival:cox: some times are equal
    targets: int = 1  # columns of the labels
    group: tuple[int, ...] = ()  # sizes of the queries, repeated as often as needed
    callables: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def dataset(self, form: Callable[[NDArray[np.float64]], Any] = np.asarray) -> Dataset:
        """Make the training set; `form` turns the table into another kind of table."""
        table = golden_table(self.n_rows, self.n_features, self.missing, self.zeros)
        for column in range(self.n_features if self.tied else 0):
            table[:, column] = np.floor(1.0 / (uniform(self.n_rows, 9700 + column) + 0.01))
        score = golden_score(table)
        for column, n_levels in self.levels.items():
            u = uniform(self.n_rows, 5000 + column)
            level = np.floor(n_levels * u * u)
            score = score + 4.0 * np.where(np.floor(level / 3.0) * 3.0 == level, level / n_levels, 1.0)
            table[:, column] = np.where(uniform(self.n_rows, 6000 + column) < 0.1, np.nan, level)
        for variable, n_levels in enumerate(self.exclusive):
            u, place = uniform(self.n_rows, 8000 + variable), np.arange(n_levels)
            level = np.floor(n_levels * u * u)
            count = 1.0 + np.floor(3.0 * uniform(self.n_rows, 8500 + variable))
            score = score + 9.0 * count * ((level == 1.0) + 0.0 - (level == 4.0) + (level == 30.0))
            table = np.hstack([table, np.where(level[:, None] == place, count[:, None], 0.0)])
        if self.group:
            most = 1.0 if self.params["objective"] == "rank_map" else 4.0
            label = np.clip(np.floor(score / 3.0) + 1.0, 0.0, most)
        else:
            label = labels_for(self.params.get("objective", "regression"), score, self.params.get("num_class", 1))
        if self.rare > 0.0:
            cut = np.sort(score)[int(self.n_rows * (1.0 - self.rare))]
            others = np.minimum(label, self.params["num_class"] - 2.0) if "num_class" in self.params else 0.0
            label = np.where(score >= cut, max(1.0, self.params.get("num_class", 1) - 1.0), others)
        if self.heavy_tail:
            label = np.where(uniform(self.n_rows, 3000) < 0.002, score * 1e6, score)
        if self.targets > 1:
            others = [golden_score(np.roll(table, k, axis=1)) for k in range(1, self.targets)]
            label = np.column_stack(
                [label, *(labels_for(self.params.get("objective", "regression"), own, 1) for own in others)]
            )
        weight = 0.5 + uniform(self.n_rows, 4000) if self.weighted else None
        start = 2.0 * uniform(self.n_rows, 7000) if self.init_score else None
        if start is not None and self.targets > 1:
            start = start[:, None] * (1.0 + np.arange(self.targets))
        named = list(self.levels) if self.levels else "auto"
        lower, upper = self.bounds(label) if self.censored else (None, None)
        if self.censored and self.params["objective"] == "survival:cox":
            label, lower, upper = np.floor(label * 4.0) / 4.0, None, None
        return Dataset(
            form(table),
            label=label,
            weight=weight,
            group=self.query_sizes(),
            init_score=start,
            categorical_features=named,
            label_lower_bound=lower,
            label_upper_bound=upper,
            position=np.floor(10.0 * uniform(self.n_rows, 9500)) if self.positions else None,
        )

    def bounds(self, time: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of times: observed, right-censored, left-censored and in between, each float64 (n_rows,)."""
        kind = np.floor(4.0 * uniform(self.n_rows, 9000))
        lower = np.where(kind == 2.0, 0.0, time)
        upper = np.where(kind == 0.0, time, np.where(kind == 1.0, np.inf, time * 1.5))
        return lower, upper

    def query_sizes(self) -> NDArray[np.int64] | None:
        """Return the sizes of the queries, int64 (n_queries,), the last one cut to the rows there are; or None."""
        if not self.group:
            return None
        ends = np.cumsum(np.resize(np.array(self.group), self.n_rows))
        return np.diff(np.append(ends[ends < self.n_rows], self.n_rows), prepend=0)

    def train(self, **machine: Any) -> Booster:
        """Train on a device: `machine` are parameters that must not change the model."""
        return train({**self.params, **self.callables, **machine, "verbosity": -1}, self.dataset(), self.n_rounds)

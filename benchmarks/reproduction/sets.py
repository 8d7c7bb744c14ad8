"""The paper's six data sets (its Table 1): made in their shapes, or read from the real files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from libraries import Data
from numpy.typing import NDArray
from train_gpu import make, make_scored, to_host

from reproduction.files import LOADERS

TEST_ROWS = {"small": 5_000, "full": 100_000}
"""Rows to test on where data are made; no more than are trained on."""

GRADES = (0.52, 0.84, 0.97, 0.99)
"""Shares of labels up to 0, 1, 2 and 3 in made rankings, about those of MS-LTR."""


@dataclass(frozen=True)
class PaperSet:
    """One of the six.

    key            name in train_gpu.SHAPES
    title          the paper's
    n_rows         rows to train on
    n_features     as the paper counts them
    small          rows with `--rows small`
    objective      "binary" or "lambdarank"
    query_size     rows of a query where data are made
    learning_rate  the paper's
    """

    key: str
    title: str
    n_rows: int
    n_features: int
    small: int
    objective: str = "binary"
    query_size: int = 0
    learning_rate: float = 0.1

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the paper's Table 4; the last one is shown where there is room for one."""
        return ("auc",) if self.objective == "binary" else ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")

    def rows(self, size: str) -> int:
        """Return the rows to train on."""
        return self.n_rows if size == "full" else self.small


SETS = {
    one.key: one
    for one in (
        PaperSet("higgs", "Higgs", 10_000_000, 28, 50_000),
        PaperSet("mslr", "MS-LTR", 2_270_296, 137, 12_000, "lambdarank", 120),
        PaperSet("yahoo", "Yahoo-LTR", 473_134, 700, 4_000, "lambdarank", 24),
        PaperSet("epsilon", "epsilon", 400_000, 2000, 2_000),
        PaperSet("expo", "Expo", 10_000_000, 700, 30_000),
        PaperSet("bosch", "Bosch", 1_000_000, 968, 3_000, learning_rate=0.015),
    )
}
"""In the order of the paper's tables."""


@dataclass
class Split:
    """Rows to train on and to test on, and where they come from."""

    train: Data
    test: Data
    source: str

    def facts(self) -> dict[str, Any]:
        """Return what the table of statistics shows."""
        X = self.train.X
        n_rows, n_features = X.shape
        values = X.data if hasattr(X, "indptr") else np.asarray(X[:: max(1, n_rows // 2000)])
        zeros = 1.0 - X.nnz / (n_rows * n_features) if hasattr(X, "indptr") else float(np.mean(values == 0))
        return {
            "source": self.source,
            "rows": n_rows,
            "features": n_features,
            "test_rows": self.test.X.shape[0],
            "queries": None if self.train.sizes is None else len(self.train.sizes),
            "zeros": zeros,
            "missing": float(np.mean(np.isnan(values))),
            "mean_label": float(np.mean(self.train.y)),
            "summary": f"{n_rows:,} x {n_features:,} ({self.source})",
        }


def load(one: PaperSet, size: str, folder: Path | None) -> Split:
    """Return a set: from files of the folder where it has them, else made."""
    if folder is not None and (found := LOADERS[one.key](folder)) is not None:
        train, test = found
        if size == "small":
            train, test = head(train, one.small), head(test, TEST_ROWS["small"])
        return Split(train, test, "files")
    n_train = one.rows(size)
    n_test = min(TEST_ROWS[size], n_train)
    if one.objective == "lambdarank":
        return _make_ranking(one, n_train, n_test)
    X, y = map(to_host, make(one.key, n_train + n_test))
    y = y.astype(np.float64)
    return Split(Data(X[:n_train], y[:n_train]), Data(X[n_train:], y[n_train:]), "made")


def _make_ranking(one: PaperSet, n_train: int, n_test: int) -> Split:
    """Make queries of equal size; the grade of a row is that of its score with noise among those of all rows."""
    n_train, n_test = (-(-n // one.query_size) * one.query_size for n in (n_train, n_test))
    X, score, _ = make_scored(one.key, n_train + n_test)
    X = to_host(X)
    noisy = to_host(score) + np.random.default_rng(5).logistic(size=len(score))
    y = np.searchsorted(np.quantile(noisy, GRADES), noisy).astype(np.float64)
    sizes = [np.full(n // one.query_size, one.query_size, np.int64) for n in (n_train, n_test)]
    return Split(Data(X[:n_train], y[:n_train], sizes[0]), Data(X[n_train:], y[n_train:], sizes[1]), "made")


def head(data: Data, n_rows: int) -> Data:
    """Return the first rows, of whole queries where there are queries."""
    if data.sizes is None:
        return Data(data.X[:n_rows], data.y[:n_rows], None, data.categorical)
    ends: NDArray[np.int64] = np.cumsum(data.sizes)
    n_queries = max(1, int(np.searchsorted(ends, n_rows, "right")))
    end = int(ends[n_queries - 1])
    return Data(data.X[:end], data.y[:end], data.sizes[:n_queries], data.categorical)

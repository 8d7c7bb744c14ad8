"""Categorical, sparse, ranking and multiclass workloads beside the peers: the same data and parameters, one run.

    python benchmarks/workloads.py                                           # on the CPU, beside all peers installed
    python benchmarks/workloads.py --device cuda --size gpu --peer xgb lgb --iterations 30
    python benchmarks/workloads.py --workload multiclass --leaves 31 --threads 1 --peer lgb xgb cat sk
    python benchmarks/workloads.py --device opencl --size tiny --peer xgb    # anywhere, with PoCL

Data are made. Libraries take turns; an iteration's time is a difference of two trainings (see libraries.py), so that
binning and uploads are not in it. `processor` is the time of all the process's threads, which says more than the clock
on a busy CPU (with --threads 1). Quality is that on rows, or queries, that were not trained on, so that speed is seen
beside it. LightGBM runs on the device that --lightgbm-device names, since its wheel on PyPI has no CUDA; XGBoost and
CatBoost run on the GPU with --device cuda, else on the CPU; scikit-learn always runs on the CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import sparse
from libraries import PEERS, Data, Library, in_turns, show
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from hornbeam.core.errors import ParameterError
from hornbeam.data.queries import boundaries_of
from hornbeam.metrics.ranked_lists import NormalizedGain
from hornbeam.testing.data import make_categorical, make_multiclass, make_ranking

N_CLASSES = 7
QUERY_SIZE = 120.0
LEVELS = (10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000)
SPARSE_COLUMNS = 2_000

MODULES = {"lgb": "lightgbm", "xgb": "xgboost", "cat": "catboost", "sk": "sklearn"}


@dataclass
class Workload:
    """Data to train on and to test on, and how they are measured."""

    train: Data
    test: Data
    params: dict[str, Any]
    what: str


def split(data: Data, n_train: int) -> tuple[Data, Data]:
    """Part rows into those to train on and those to test on; rows of queries are parted by query."""
    if data.sizes is None:
        first, sizes = n_train, (None, None)
    else:
        n_queries = int(np.searchsorted(np.cumsum(data.sizes), n_train, "right"))
        first, sizes = int(data.sizes[:n_queries].sum()), (data.sizes[:n_queries], data.sizes[n_queries:])
    return (
        Data(data.X[:first], data.y[:first], sizes[0], data.categorical),
        Data(data.X[first:], data.y[first:], sizes[1], data.categorical),
    )


def categorical(n_train: int, n_test: int) -> Workload:
    """20 numbers and 12 categorical features of 10 to 1,000 levels."""
    X, y, positions = make_categorical(n_train + n_test, 20, LEVELS)
    data = Data(X, y, categorical=positions)
    return Workload(*split(data, n_train), {"objective": "binary"}, "20 numbers, 12 categories of 10 to 1,000 levels")


def csr(values: str) -> Callable[[int, int], Workload]:
    """2,000 columns, of which 20 are stored in a row."""

    def make(n_train: int, n_test: int) -> Workload:
        shape = sparse.Shape(n_train + n_test, SPARSE_COLUMNS, 0.01, values)
        train, test = split(Data(*sparse.make(shape)), n_train)
        return Workload(train, test, {"objective": "binary"}, f"{SPARSE_COLUMNS:,} columns, 1% stored, {values}")

    return make


def sparse_categorical(n_train: int, n_test: int) -> Workload:
    """Counts as in `counts`, and 12 categorical columns, whose level 0 is not stored; a label follows one of both."""
    n_rows = n_train + n_test
    counts, of_counts = sparse.make(sparse.Shape(n_rows, SPARSE_COLUMNS, 0.01, "count"))
    levels, of_levels, _ = make_categorical(n_rows, 1, LEVELS)
    X = scipy.sparse.hstack([counts, scipy.sparse.csr_matrix(levels[:, 1:])], "csr", np.float32)
    y = np.where(np.random.default_rng(0).random(n_rows) < 0.5, of_counts, of_levels)
    data = Data(X, y, categorical=tuple(range(SPARSE_COLUMNS, X.shape[1])))
    what = f"{SPARSE_COLUMNS:,} columns, 1% stored, count, and 12 categories of 10 to 1,000 levels"
    return Workload(*split(data, n_train), {"objective": "binary"}, what)


def ranking(n_train: int, n_test: int) -> Workload:
    """The shape of MS-LTR: 137 features, queries of about 120 documents, labels 0 to 4."""
    data = Data(*make_ranking(round((n_train + n_test) / QUERY_SIZE), 137, QUERY_SIZE))
    train, test = split(data, n_train)
    assert train.sizes is not None
    return Workload(train, test, {"objective": "lambdarank"}, f"137 numbers, {len(train.sizes):,} queries")


def multiclass(n_train: int, n_test: int) -> Workload:
    """The shape of covertype: 54 features, 7 classes."""
    data = Data(*make_multiclass(n_train + n_test, N_CLASSES, 54))
    params = {"objective": "multiclass", "num_class": N_CLASSES}
    return Workload(*split(data, n_train), params, f"54 numbers, {N_CLASSES} classes, a tree a class")


MAKERS: dict[str, Callable[[int, int], Workload]] = {
    "categorical": categorical,
    "counts": csr("count"),
    "onehot": csr("onehot"),
    "sparse_categorical": sparse_categorical,
    "ranking": ranking,
    "multiclass": multiclass,
}
TRAIN_ROWS = {
    "gpu": dict(zip(MAKERS, (5_000_000, 1_000_000, 1_000_000, 1_000_000, 2_270_296, 1_000_000), strict=True)),
    "cpu": dict(zip(MAKERS, (200_000, 200_000, 200_000, 200_000, 60_000, 100_000), strict=True)),
    "tiny": dict.fromkeys(MAKERS, 3_000),
}
TEST_ROWS = {"gpu": 200_000, "cpu": 50_000, "tiny": 1_000}


def quality(workload: Workload, predicted: NDArray[np.float64]) -> dict[str, float]:
    """Measure predictions of the test rows; one implementation for all libraries."""
    y, sizes = workload.test.y, workload.test.sizes
    if sizes is not None:
        ranks = (1, 10)
        values = NormalizedGain(ranks).at_ranks(y.astype(np.float64), predicted, None, boundaries_of(sizes))
        return {f"NDCG@{rank}": float(value) for rank, value in zip(ranks, values, strict=True)}
    if predicted.ndim == 2:
        shares = predicted / predicted.sum(axis=1, keepdims=True)  # float32 rows do not add up to 1
        loss = float(log_loss(y, shares, labels=np.arange(N_CLASSES)))
        return {"log loss": loss, "error": float(np.mean(np.argmax(predicted, axis=1) != y))}
    return {"AUC": float(roc_auc_score(y, predicted)), "log loss": float(log_loss(y, predicted))}


def measure(name: str, options: argparse.Namespace) -> None:
    """Time all libraries on one workload, and print a table."""
    n_train = options.rows or TRAIN_ROWS[options.size][name]
    workload = MAKERS[name](n_train, TEST_ROWS[options.size])
    params = workload.params | {
        "num_leaves": options.leaves,
        "learning_rate": 0.1,
        # what all libraries but CatBoost and scikit-learn know
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 1.0,
        "max_bin": options.bins,
        "num_threads": options.threads,
        "device": options.device,
        "metric": "none",
        "verbosity": -1,
    }
    libraries: dict[str, Library] = {"hornbeam": Library(params)}
    left_out = []
    for peer in options.peer:
        if importlib.util.find_spec(MODULES[peer]) is None:
            left_out.append(f"{MODULES[peer]} is not installed")
            continue
        try:
            extra = {"device_type": options.lightgbm_device} if peer == "lgb" else {}
            library = PEERS[peer](params, **extra)
            library.build(split(workload.train, min(n_train, 1_000))[0])
            libraries[library.name] = library
        except ParameterError as error:
            left_out.append(str(error))
    found = in_turns(libraries, workload.train, options.short, options.iterations, options.turns)
    n_rows, n_features = workload.train.X.shape
    print(
        f"\n{name}: {n_rows:,} x {n_features:,} ({workload.what}), {options.leaves} leaves, {options.bins} bins, "
        f"device {options.device}, {options.threads or 'all'} threads, {options.turns} turns of {options.iterations} "
        f"iterations after {options.short}\n"
    )
    base = found["hornbeam"]
    rows: list[list[str]] = []
    for key, times in found.items():
        library = libraries[key]
        values = quality(workload, library.predict(times.model, workload.test.X, workload.test))
        if not rows:
            head = ["library", "build s", "ms an iteration", "fastest", "processor", "times Hornbeam's", *values]
            rows.append(head)
        rows.append(
            [
                f"{key} {library.version}" + (f" ({options.lightgbm_device})" if key == "lightgbm" else ""),
                f"{times.build:.2f}",
                f"{times.median:.2f}",
                f"{times.fastest:.2f}",
                f"{statistics.median(times.processor) * 1e3:.1f}",
                f"{times.median / base.median:.2f}",
                *(f"{value:.5f}" for value in values.values()),
            ]
        )
    show(rows)
    for reason in left_out:
        print(f"\nLeft out: {reason}")
    print(f"\nHornbeam's model: {base.model.fingerprint()[:16]}", flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=list(MAKERS), default=list(MAKERS))
    parser.add_argument("--device", default="cpu", help='"cpu", "cuda", "opencl:1", ...')
    parser.add_argument("--size", choices=list(TRAIN_ROWS), default="cpu", help="rows of all workloads")
    parser.add_argument("--rows", type=int, help="to train on, instead of the size's")
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--bins", type=int, default=255)
    parser.add_argument("--short", type=int, default=3, help="iterations of the short training")
    parser.add_argument("--iterations", type=int, default=10, help="how many more the long one has")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--peer", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--lightgbm-device", choices=["cpu", "gpu", "cuda"], default="cpu")
    options = parser.parse_args()
    if options.short < 1 or options.iterations < 1:
        parser.error(f"--short {options.short} --iterations {options.iterations}: give 1 or more")
    for name in options.workload:
        measure(name, options)


if __name__ == "__main__":
    main()

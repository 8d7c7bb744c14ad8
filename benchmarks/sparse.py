"""Trainings on sparse data beside LightGBM and XGBoost: the same CSR matrix, the same parameters, one run.

    python benchmarks/sparse.py                       # zeros: 200k x 2,000, 99% zeros; counts; onehot: 20 x 100 levels
    python benchmarks/sparse.py --shape onehot --leaves 63 --iterations 20 --peers lightgbm
    python benchmarks/sparse.py --shape huge --memory # 1M x 10,000, 99% zeros, ours alone, with the peak of memory

Libraries take turns, so that a busy machine slows all of them; seconds of different runs do not compare, the ratios of
one run do. `ms/iteration` is that of a training on data that are binned already; the time of the processor, all threads
together, stands beside it and says more on a busy machine (with --threads 1).
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import hornbeam as hb
from hornbeam.testing.peers import peer_params


class Shape(NamedTuple):
    """Rows, columns, share of values that are not zero, and what the values are."""

    rows: int
    columns: int
    density: float
    values: str


SHAPES = {
    "zeros": Shape(200_000, 2_000, 0.01, "normal"),
    "counts": Shape(200_000, 2_000, 0.01, "count"),
    "onehot": Shape(200_000, 20 * 100, 0.01, "onehot"),
    "huge": Shape(1_000_000, 10_000, 0.01, "normal"),
}


def make(shape: Shape, seed: int = 0) -> tuple[Any, NDArray[np.float32]]:
    """Return a CSR matrix of float32 and binary labels that depend on the first columns."""
    rng = np.random.default_rng(seed)
    per_row = round(shape.columns * shape.density)
    n = shape.rows * per_row
    indices = np.empty((shape.rows, per_row), np.int32)
    if shape.values == "onehot":
        levels = shape.columns // per_row
        level = (levels * rng.random((shape.rows, per_row)) ** 2).astype(np.int32)  # some levels are frequent
        indices[:] = level + np.arange(per_row, dtype=np.int32) * levels
    else:
        width = shape.columns // per_row  # one value in each stretch of columns: sorted, no duplicates
        for first in range(0, shape.rows, 100_000):
            part = indices[first : first + 100_000]
            part[:] = rng.integers(0, width, part.shape, np.int32) + np.arange(per_row, dtype=np.int32) * width
    values = np.ones(n, np.float32)
    if shape.values == "normal":
        values = rng.standard_normal(n, np.float32)
    elif shape.values == "count":
        values = rng.geometric(0.5, n).astype(np.float32)
    indptr = np.arange(0, n + 1, per_row, dtype=np.int64 if n > 2**31 else np.int32)
    X = scipy.sparse.csr_matrix((values, indices.reshape(-1), indptr), (shape.rows, shape.columns))
    weight = np.zeros(shape.columns, np.float32)
    weight[::7] = rng.normal(size=len(weight[::7]))
    score = X @ weight
    y = (score + 0.5 * rng.normal(size=shape.rows) > np.median(score)).astype(np.float32)
    return X, y


def build(library: str, params: dict[str, Any], X: Any, y: NDArray[np.float32]) -> Any:
    """Bin the data."""
    if library == "lightgbm":
        import lightgbm

        return lightgbm.Dataset(X, y, params=peer_params(params, "lightgbm"), free_raw_data=False).construct()
    if library == "xgboost":
        import xgboost

        return xgboost.QuantileDMatrix(X, y, max_bin=params["max_bin"])
    return hb.Dataset(X, y).construct(hb.Params.from_dict(params))


def train(library: str, params: dict[str, Any], data: Any, iterations: int) -> Any:
    """Train a model."""
    if library == "lightgbm":
        import lightgbm

        return lightgbm.train(peer_params(params, "lightgbm"), data, iterations)
    if library == "xgboost":
        import xgboost

        return xgboost.train(peer_params({**params, "min_data_in_leaf": 1}, "xgboost"), data, iterations)
    return hb.train(params, data, iterations)


def main(arguments: list[str] | None = None) -> int:
    """Print a table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["zeros", "counts", "onehot"])
    parser.add_argument("--peers", nargs="*", choices=["lightgbm", "xgboost"], default=["lightgbm", "xgboost"])
    parser.add_argument("--rows", type=int, help="instead of the shape's")
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--memory", action="store_true", help="ours alone, once, with the peak of memory")
    options = parser.parse_args(arguments)
    params = {
        "objective": "binary", "num_leaves": options.leaves, "max_bin": 255, "num_threads": options.threads,
        "device": "cpu", "verbosity": -1,
    }  # fmt: skip
    libraries = ["hornbeam"] if options.memory else ["hornbeam", *options.peers]
    for name in options.shape:
        shape = SHAPES[name]._replace(**({"rows": options.rows} if options.rows else {}))
        X, y = make(shape)
        print(f"{name}: {shape.rows:,} x {shape.columns:,}, {X.nnz:,} values, {options.leaves} leaves")
        if options.memory:
            print(f"  input {(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20:,.0f} MB")
        data, binning = {}, {}
        for library in libraries:
            start = time.perf_counter()
            data[library] = build(library, params, X, y)
            binning[library] = time.perf_counter() - start
        seconds: dict[str, list[float]] = {library: [] for library in libraries}
        busy: dict[str, list[float]] = {library: [] for library in libraries}
        models = {}
        for repeat in range(1 if options.memory else options.repeats + 1):  # the first is to warm up
            for library in libraries:
                start, start_busy = time.perf_counter(), time.process_time()
                models[library] = train(library, params, data[library], options.iterations if repeat else 2)
                if repeat or options.memory:
                    n_iterations = options.iterations if repeat else 2
                    seconds[library].append((time.perf_counter() - start) / n_iterations)
                    busy[library].append((time.process_time() - start_busy) / n_iterations)
        for library in libraries:
            wall, cpu = (1000.0 * statistics.median(times[library]) for times in (seconds, busy))
            print(f"  {library:10s} binning {binning[library]:6.2f} s   {wall:9.1f} ms/iteration, processor {cpu:9.1f}")
        stored = data["hornbeam"].binned.stored
        if stored is not None:
            bundled, entries = int((stored.first_code > 0).sum()), int((stored.column < 0).sum())
            print(f"  stored: {stored.n_columns} columns for {bundled} bundled features, {entries} of entries")
        print(f"  peak of memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MB, all together")
    return 0


if __name__ == "__main__":
    sys.exit(main())

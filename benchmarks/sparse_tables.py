"""Trainings on sparse data beside LightGBM and XGBoost: the same CSR matrix, the same parameters, one run.

    python benchmarks/sparse_tables.py                 # zeros: 200k x 2,000, 99% zeros; counts; onehot: 20 x 100 levels
    python benchmarks/sparse_tables.py --shape onehot --leaves 63 --iterations 20 --peers lightgbm
    python benchmarks/sparse_tables.py --shape huge --memory   # 1M x 10,000, ours alone, with the peak of memory

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
from libraries import Data, Library, LightGBM, XGBoost
from numpy.typing import NDArray


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


LIBRARIES: dict[str, type[Library]] = {"hornbeam": Library, "lightgbm": LightGBM, "xgboost": XGBoost}


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
    names = ["hornbeam"] if options.memory else ["hornbeam", *options.peers]
    libraries = {name: LIBRARIES[name](params) for name in names}
    for shape_name in options.shape:
        shape = SHAPES[shape_name]._replace(**({"rows": options.rows} if options.rows else {}))
        X, y = make(shape)
        print(f"{shape_name}: {shape.rows:,} x {shape.columns:,}, {X.nnz:,} values, {options.leaves} leaves")
        if options.memory:
            print(f"  input {(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20:,.0f} MB")
        built, binning = {}, {}
        for name, library in libraries.items():
            start = time.perf_counter()
            built[name] = library.build(Data(X, y))
            binning[name] = time.perf_counter() - start
        seconds: dict[str, list[float]] = {name: [] for name in libraries}
        busy: dict[str, list[float]] = {name: [] for name in libraries}
        for repeat in range(1 if options.memory else options.repeats + 1):  # the first is to warm up
            for name, library in libraries.items():
                n_iterations = options.iterations if repeat else 2
                start, start_busy = time.perf_counter(), time.process_time()
                library.train(built[name], n_iterations)
                if repeat or options.memory:
                    seconds[name].append((time.perf_counter() - start) / n_iterations)
                    busy[name].append((time.process_time() - start_busy) / n_iterations)
        for name in libraries:
            wall, cpu = (1000.0 * statistics.median(times[name]) for times in (seconds, busy))
            print(f"  {name:10s} binning {binning[name]:6.2f} s   {wall:9.1f} ms/iteration, processor {cpu:9.1f}")
        stored = built["hornbeam"].binned.stored
        if stored is not None:
            bundled, entries = int((stored.first_code > 0).sum()), int((stored.column < 0).sum())
            print(f"  stored: {stored.n_columns} columns for {bundled} bundled features, {entries} of entries")
        print(f"  peak of memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MB, all together")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whole trainings on a GPU, on data shaped like the paper's six sets: ms an iteration, and AUC.

    python benchmarks/train_gpu.py --shape higgs --device cuda --iterations 60 --peer xgb
    python benchmarks/train_gpu.py --shape mslr --seeds 7 8 9 10 11 12 --peer xgb   # is a difference in AUC chance?
    python benchmarks/train_gpu.py --shape epsilon --bins 63
    python benchmarks/train_gpu.py --shape higgs --peer xgb --constraint none monotone interaction bynode smooth
    python benchmarks/train_gpu.py --shape higgs --device opencl --rows 20000 --iterations 3     # anywhere, with PoCL

255 leaves leaf-wise, learning rate 0.1, min_data_in_leaf=1, binary. The time of an iteration is from its beginning to
the beginning of the next one: the median of all iterations of some trainings, after one to warm up. XGBoost
(lossguide) is timed in the same process, from the end of an iteration to the end of the next. The AUC is that of rows
that were not trained on. With `--resident` Hornbeam gets arrays on the device, as XGBoost does, and `whole` is from
these to the finished model. What the kernels take is in stages_gpu.py.
With several `--seeds` all is done on several data sets, and the mean difference in AUC is printed with its error: a
last bit of a gradient can decide a split, and one set says little. Data are made by CuPy where it is installed, else by
NumPy; the random numbers differ between the two. Those of `expo` are a sparse matrix (CSR), made by NumPy.
With `--constraint` trees grow under constraints, XGBoost's too where it has such: several names are several trainings.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hornbeam as hb

SHAPES = {
    "higgs": (10_000_000, 28),
    "epsilon": (400_000, 2000),
    "mslr": (2_270_296, 137),
    "yahoo": (473_134, 700),
    "bosch": (1_000_000, 968),
    "expo": (11_000_000, 700),
}
EXPO_LEVELS = (12, 31, 7, 22, 313, 313)
"""One-hot coded variables of the flights of the Data Expo 2009: month, day of the month and of the week, carrier,
origin, destination. Departure and distance are numbers. Carriers and airports are of very different sizes."""
CONSTRAINTS = ("none", "monotone", "interaction", "bynode", "bylevel", "smooth", "extra", "everything")
"""What trees may be grown under. Smoothing and random thresholds are not among XGBoost's parameters."""
WARM_UP = 10
REPEATS = 4


def array_module() -> Any:
    """Return CuPy where it works, else NumPy."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:
        return np
    return cupy


def make_expo(n_rows: int, seed: int = 7) -> tuple[Any, NDArray[np.float32]]:
    """Return X float32 (n_rows, 700), CSR with 8 values a row, and y float32 (n_rows,)."""
    import scipy.sparse

    rng = np.random.default_rng(seed)
    n_variables = len(EXPO_LEVELS)
    indices = np.empty((n_rows, n_variables + 2), np.int32)
    values = np.ones((n_rows, n_variables + 2), np.float32)
    score = np.full(n_rows, -1.0, np.float32)
    first = 0
    for variable, n_levels in enumerate(EXPO_LEVELS):
        share = np.ones(n_levels) if n_levels in (7, 12, 31) else 1.0 / np.arange(2, n_levels + 2) ** 1.2
        bounds = np.cumsum(share / share.sum()).astype(np.float32)
        level = np.minimum(np.searchsorted(bounds, rng.random(n_rows, np.float32)), n_levels - 1)
        indices[:, variable] = first + level
        score += (0.5 * rng.normal(size=n_levels)).astype(np.float32)[level]
        first += n_levels
    indices[:, n_variables:] = first, first + 1
    departure, distance = rng.random(n_rows, np.float32), rng.random(n_rows, np.float32)
    values[:, n_variables] = np.floor(1440 * departure) + 1
    values[:, n_variables + 1] = np.floor(2600 * distance**2) + 30
    score += 2 * departure + np.sin(6 * distance) * (departure > 0.5)
    y = (rng.random(n_rows, np.float32) < 1 / (1 + np.exp(-score))).astype(np.float32)
    starts = np.arange(0, indices.size + 1, n_variables + 2, dtype=np.int64)
    X = scipy.sparse.csr_matrix((values.reshape(-1), indices.reshape(-1), starts), (n_rows, first + 2))
    return X, y


def make(shape: str, n_rows: int, seed: int = 7) -> tuple[Any, Any]:
    """Return X float32 (n_rows, n_features) and y float32 (n_rows,), on the GPU where there is one."""
    if shape == "expo":
        return make_expo(n_rows, seed)
    X, score, rng = make_scored(shape, n_rows, seed)
    xp = array_module()
    y = (rng.random(n_rows, dtype=xp.float32) < 1 / (1 + xp.exp(-score))).astype(xp.float32)
    return X, y


def make_scored(shape: str, n_rows: int, seed: int = 7) -> tuple[Any, Any, Any]:
    """Return X and the scores that labels are drawn by, float32 (n_rows,), and the generator of random numbers."""
    xp = array_module()
    n_features = SHAPES[shape][1]
    rng = xp.random.default_rng(seed)
    X, score = xp.empty((n_rows, n_features), xp.float32), xp.empty(n_rows, xp.float32)
    weights = np.random.default_rng(1).normal(size=n_features) / np.sqrt(n_features)
    w = xp.asarray(weights, dtype=xp.float32)
    step = max(1, 200_000_000 // n_features)
    for first in range(0, n_rows, step):
        size = min(n_rows - first, step)
        x = rng.standard_normal((size, n_features), dtype=xp.float32)
        if shape in ("mslr", "yahoo"):
            x = xp.where(rng.random((size, n_features), dtype=xp.float32) < 0.5, 0, xp.round(x * 20) / 20)
        score[first : first + size] = (
            x[:, 0] * x[:, 1] + xp.sin(2 * x[:, 2]) + xp.abs(x[:, 3]) - 0.8 + x[:, 4] * (x[:, 5] > 0) + 1.5 * (x @ w)
        )
        if shape == "bosch":
            x[rng.random((size, n_features), dtype=xp.float32) < 0.81] = xp.nan
        X[first : first + size] = x
    return X, score, rng


def to_host(array: Any) -> Any:
    """Return a NumPy array, or a sparse matrix as it is."""
    return array if hasattr(array, "indptr") else np.asarray(array.get() if hasattr(array, "get") else array)


def auc(y: NDArray[np.float32], score: NDArray[np.float64]) -> float:
    """Return the area under the ROC curve; ties in score are broken by position."""
    sorted_y = y[np.argsort(score, kind="stable")]
    n_positive = int(sorted_y.sum())
    n_negative = len(y) - n_positive
    ranks = int((np.flatnonzero(sorted_y > 0) + 1).sum())
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


@contextmanager
def stamped_iterations() -> Iterator[list[float]]:
    """Note when each of Hornbeam's iterations begins; a callback would make the host wait for what it may do later."""
    from hornbeam.training.run import TrainingRun

    stamps: list[float] = []
    original = TrainingRun.boost_once

    def stamped(run: Any, *arguments: Any) -> Any:
        stamps.append(time.perf_counter())
        return original(run, *arguments)

    setattr(TrainingRun, "boost_once", stamped)  # noqa: B010
    try:
        yield stamps
    finally:
        setattr(TrainingRun, "boost_once", original)  # noqa: B010


def constraint_params(name: str, n_features: int) -> dict[str, Any]:
    """Return the parameters of a constraint, by names that XGBoost has too; those that it has not are `OURS_ALONE`.

    Predictions must not fall with feature 4, nor rise with feature 1. Interactions are allowed within the first half of
    the features, and within the second.
    """
    signs, middle = [0] * n_features, n_features // 2
    signs[4], signs[1] = 1, -1
    choices: dict[str, dict[str, Any]] = {
        "none": {},
        "monotone": {"monotone_constraints": signs},
        "interaction": {"interaction_constraints": [list(range(middle)), list(range(middle, n_features))]},
        "bynode": {"colsample_bynode": 0.5},
        "bylevel": {"colsample_bylevel": 0.5},
        "smooth": {"path_smooth": 10.0},
        "extra": {"extra_trees": True},
    }
    if name != "everything":
        return choices[name]
    return {key: value for choice in choices.values() for key, value in choice.items()}


OURS_ALONE = ("path_smooth", "extra_trees")


def report(
    library: str,
    device: str,
    build: float,
    whole: list[float],
    each: list[float],
    score: float,
    options: argparse.Namespace,
) -> None:
    """Print a line: seconds of building and of whole trainings, seconds of all their iterations."""
    print(
        f"{library:8s} {device:8s} {options.shape:8s} {options.constraint:11s} rows={options.n_rows} "
        f"bins={options.bins} build={build:.3f} s "
        f"whole={statistics.median(whole):.2f} s ({options.iterations} iterations) "
        f"iteration={statistics.median(each) * 1e3:.2f} ms (fastest {min(each) * 1e3:.2f}) auc={score:.5f}",
        flush=True,
    )


def logistic(scores: Any, data: Any) -> tuple[Any, Any]:
    """Return the gradients of `binary`, as an objective function."""
    p = 1.0 / (1.0 + np.exp(-scores))  # CuPy's arrays take NumPy's functions
    return p - data.label, p * (1.0 - p)


@hb.on_device
def logistic_on_device(scores: Any, data: Any) -> tuple[Any, Any]:
    """Return the same, from arrays of the device."""
    return logistic(scores, data)


def predicted(model: hb.Booster, X: Any) -> NDArray[np.float64]:
    """Return Hornbeam's predictions of the test rows."""
    return np.asarray(model.predict(to_host(X)), np.float64)


def train_hornbeam(X: Any, y: Any, test: tuple[Any, Any], options: argparse.Namespace) -> float:
    """Train, print a line and return the AUC."""
    params: dict[str, Any] = {
        "objective": {"binary": "binary", "function": logistic, "device": logistic_on_device}[options.objective],
        "num_leaves": options.leaves,
        "learning_rate": 0.1,
        "min_data_in_leaf": options.min_data,
        "max_bin": options.bins,
        "device": options.device,
        "precision": options.precision,
        "metric": "none",
        "verbosity": 1,
    }
    if options.depthwise:
        params |= {"grow_policy": "depthwise", "max_depth": options.depthwise, "num_leaves": 2**options.depthwise}
    params |= constraint_params(options.constraint, X.shape[1])
    if "path_smooth" in params:
        params["min_data_in_leaf"] = max(2, options.min_data)
    start = time.perf_counter()
    data = hb.Dataset(X, y).construct(hb.Params.from_dict(params))
    build = time.perf_counter() - start
    start = time.perf_counter()
    hb.train(params, data, 1)
    first = time.perf_counter() - start
    hb.train(params, data, WARM_UP)
    each: list[float] = []
    whole: list[float] = []
    for _ in range(options.repeats):
        with stamped_iterations() as stamps:
            start = time.perf_counter()
            if options.resident:
                data = hb.Dataset(X, y).construct(hb.Params.from_dict(params))
                build = time.perf_counter() - start
            model = hb.train(params, data, options.iterations)
            whole.append(time.perf_counter() - start)
        each += np.diff(stamps).tolist()
    score = auc(to_host(test[1]), predicted(model, test[0]))
    report("hornbeam", options.device, build, whole, each, score, options)
    print(f"  first iteration ever {first:.2f} s, fingerprint {model.fingerprint()[:16]}", flush=True)
    return score


def train_xgboost(X: Any, y: Any, test: tuple[Any, Any], options: argparse.Namespace) -> float | None:
    """Train XGBoost on the same data, where they are, print a line and return the AUC; None: it has no such trees."""
    import xgboost

    params: dict[str, Any] = {
        "device": "cuda" if array_module() is not np else "cpu",
        "tree_method": "hist",
        "objective": "binary:logistic",
        "learning_rate": 0.1,
        "max_bin": options.bins + 1,
        "min_child_weight": 1e-3,
        "reg_lambda": 0,
    }
    if options.depthwise:
        params |= {"grow_policy": "depthwise", "max_depth": options.depthwise}
    else:
        params |= {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": options.leaves}
    own = constraint_params(options.constraint, X.shape[1])
    if set(own).intersection(OURS_ALONE):
        return None
    if "monotone_constraints" in own:
        own["monotone_constraints"] = tuple(own["monotone_constraints"])
    params |= {key: str(value) if key.endswith("_constraints") else value for key, value in own.items()}
    start = time.perf_counter()
    data = xgboost.QuantileDMatrix(X, y, max_bin=options.bins + 1)
    build = time.perf_counter() - start
    xgboost.train(params, data, WARM_UP)

    class Stopwatch(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            stamps.append(time.perf_counter())
            return False

    stamps: list[float] = []
    start = time.perf_counter()
    model = xgboost.train(params, data, options.iterations, callbacks=[Stopwatch()])
    model.save_raw()
    whole = time.perf_counter() - start
    scores = np.asarray(model.predict(xgboost.DMatrix(test[0])), np.float64)
    each = np.diff(stamps).tolist()
    score = auc(to_host(test[1]), scores)
    report("xgboost", params["device"], build, [whole], each, score, options)
    return score


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help='"cuda", "opencl:1", "cpu", ...')
    parser.add_argument("--shape", choices=list(SHAPES), nargs="+", default=["higgs"])
    parser.add_argument("--rows", type=int, help="instead of the shape's")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--bins", type=int, default=255)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--min-data", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="trainings of Hornbeam that are timed")
    parser.add_argument("--depthwise", type=int, default=0, metavar="DEPTH", help="grow level by level")
    parser.add_argument("--resident", action="store_true", help="Hornbeam trains from arrays on the device")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7], help="of the data; a whole run each")
    parser.add_argument("--test-rows", type=int, default=200_000, help="that the AUC is of; no more than trained on")
    parser.add_argument(
        "--objective", choices=["binary", "function", "device"], default="binary",
        help='ours, the same as a function of NumPy arrays, or as one of arrays of the device ("hb.on_device")',
    )  # fmt: skip
    parser.add_argument("--precision", choices=["auto", "high"], default="auto")
    parser.add_argument("--constraint", choices=CONSTRAINTS, nargs="+", default=["none"], help="trees grow under it")
    parser.add_argument("--peer", choices=["xgb"])
    options = parser.parse_args()
    for shape, constraint in itertools.product(options.shape, options.constraint):
        options.shape, options.constraint = shape, constraint
        options.n_rows = options.rows or SHAPES[shape][0]
        if shape == "expo" and options.resident:
            parser.error("--resident: the data of expo are a sparse matrix in host memory")
        differences = []
        for seed in options.seeds:
            X, y = make(shape, options.n_rows + min(options.test_rows, options.n_rows), seed)
            (X, test_X), (y, test_y) = ((part[: options.n_rows], part[options.n_rows :]) for part in (X, y))
            theirs = train_xgboost(X, y, (test_X, test_y), options) if options.peer == "xgb" else None
            if not options.resident:
                X, y, test_X, test_y = map(to_host, (X, y, test_X, test_y))
            ours = train_hornbeam(X, y, (test_X, test_y), options)
            if theirs is not None:
                differences.append(ours - theirs)
            del X, y, test_X, test_y
        if len(differences) > 1:
            error = statistics.stdev(differences) / len(differences) ** 0.5
            print(
                f"{shape}: AUC of hornbeam - xgboost {statistics.fmean(differences):+.5f} +- {error:.5f} over "
                f"{len(differences)} seeds, {min(differences):+.5f} to {max(differences):+.5f}"
            )


if __name__ == "__main__":
    main()

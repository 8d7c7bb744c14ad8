r"""Verify that a device gives the same model, bit for bit.

    python -m hornbeam.testing.verify --device cuda

holds a device against the golden fingerprints (made by `reference`, shipped in golden.json), against `reference`
operation by operation, its metrics against the host's, and it against `cpu` on whole trainings that are large enough to
keep a GPU's groups busy, in several threads at once too, on predictions and explanations, and (CUDA) on arrays that are
on the device already, for data and for functions of the user's own. Workers that share it must end with golden models.
Prints a table; the exit status is not 0 if
anything differs.
Under a sanitizer, which takes time and memory for every group of threads, `--compute-units 2` launches few of them, and
`--part 1/8` to `--part 8/8` run side by side, quickest with NVIDIA's MPS:

    compute-sanitizer --tool racecheck python -m hornbeam.testing.verify --device cuda --rows 2000 --compute-units 2 \
        --part 1/8

Oclgrind, a simulator of OpenCL devices, finds races and steps past an end without a GPU; it has time for a few rows:

    oclgrind --data-races python -m hornbeam.testing.verify --device opencl:0 --golden-rows 40
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from hornbeam.backends.devices import choose_device
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.core.errors import HornbeamError
from hornbeam.data.sources.opening import open_table
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import METRICS
from hornbeam.objectives import OBJECTIVES, RANKING, SURVIVAL
from hornbeam.params.params import BY_NAME
from hornbeam.testing.checks import PLAIN_RULES, assert_same_bits, assert_same_operations, binned_data, engine_on
from hornbeam.testing.column_checks import column_checks
from hornbeam.testing.data import (
    make_binned,
    make_higgs_like,
    make_multiclass,
    make_ranking,
    make_regression_heavy_tailed,
    make_with_missing,
)
from hornbeam.testing.explanation_checks import assert_same_explanations
from hornbeam.testing.function_checks import function_checks, stream_checks
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import GoldenCase
from hornbeam.testing.labels import labels_for, params_for
from hornbeam.testing.metric_checks import assert_same_metrics
from hornbeam.testing.trees import random_tree
from hornbeam.testing.workers import train_on_workers
from hornbeam.training.training import train
from hornbeam.trees.forest import Forest

FEWEST_ROWS = 400
"""Of `--rows`: some checks take a small part of them."""

ON_WORKERS = (
    "binary", "regression, heavy tail", "bagging", "goss", "multiclass", "binary, categories, weights",
    "lambdarank, bagging by query", "mape, weights, missing",
)  # fmt: skip
"""Golden cases that are trained by workers too."""

Check = Callable[[], str]
"""Returns "" if all is well, else what differs."""


def golden_checks(device: str) -> Iterator[tuple[str, Check]]:
    """Yield the golden cases."""
    expected = expected_fingerprints()
    for name, case in CASES.items():

        def check(name: str = name, case: Any = case) -> str:
            found = case.train(device=device).fingerprint()
            return "" if found == expected[name] else f"fingerprint {found[:12]}, expected {expected[name][:12]}"

        yield f"golden: {name}", check


def small_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield the golden cases on a few rows, beside `cpu`: two trees with several leaves each."""
    for name, case in CASES.items():
        params = {"num_leaves": 6, **case.params, "min_data_in_leaf": 2}
        small = replace(case, params=params, n_rows=n_rows, n_rounds=2)

        def check(small: GoldenCase = small) -> str:
            found, expected = (small.train(device=where).fingerprint() for where in (device, "cpu"))
            return "" if found == expected else "another model than on cpu"

        yield f"golden, {n_rows} rows: {name}", check


def operation_checks(device: str) -> Iterator[tuple[str, Check]]:
    """Yield comparisons with `reference`, operation by operation."""
    for n_rows, n_features, n_bins, missing, high in (
        (3000, 28, 255, 0.0, False),
        (3000, 40, 63, 0.3, False),
        (70_001, 5, 255, 0.1, False),
        (2000, 3, 1000, 0.2, False),
        (3000, 33, 15, 0.2, True),
    ):

        def check(
            n_rows: int = n_rows,
            n_features: int = n_features,
            n_bins: int = n_bins,
            missing: float = missing,
            high: bool = high,
        ) -> str:
            sample = make_binned(n_rows, n_features, n_bins, missing, seed=1)
            binned = binned_data(sample)
            valid = binned_data(sample._replace(bins=sample.bins[: n_rows // 3]))
            engine = engine_on(device, binned)
            gradient, hessian = sample.gradient[None], sample.hessian[None]
            assert_same_operations(
                binned, gradient, hessian, engine, rules=PLAIN_RULES, high_precision=high, valid=valid
            )
            return ""

        precision = "31 bits" if high else "16 bits"
        yield f"operations: {n_rows} x {n_features}, {n_bins} bins, {missing:.0%} missing, {precision}", check


def metric_checks(device: str, n_training_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield comparisons of every metric with the host's, those that sort on more rows."""
    some, many = min(100_003, 5 * n_training_rows + 3), min(600_001, 30 * n_training_rows + 1)
    for name in METRICS:
        for n_rows in (1, many if name in ("auc", "average_precision") else some):

            def check(name: str = name, n_rows: int = n_rows) -> str:
                assert_same_metrics(device, n_rows, names=(name,))
                return ""

            yield f"metric: {name}, {n_rows} row(s)", check


def training_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield whole trainings beside `cpu`."""
    higgs = make_higgs_like(n_rows, 28, seed=2)
    missing = make_with_missing(n_rows // 4, 137, seed=3)
    classes = make_multiclass(n_rows // 8, 5, 20, seed=4)
    heavy = make_regression_heavy_tailed(n_rows // 4, seed=5)
    little = len(missing[0]) * 250 / 2**20 + 16.0  # not enough for bins by feature and for all histograms
    least = n_rows * 54 / 2**20 + 3.5  # not enough for the bins of many rows
    leafwise: dict[str, Any] = {"objective": "binary", "num_leaves": 255}
    signal = higgs[0][:, 0].astype(np.float64) * 3.0 + higgs[1]
    every_objective: list[tuple[str, tuple[Any, Any], dict[str, Any]]] = [
        (name, (higgs[0], labels_for(name, signal)), {**params_for(name), "num_leaves": 63})
        for name in (*OBJECTIVES, *SURVIVAL)
    ]
    for name, (X, y, *_), params in (
        ("binary, 255 leaves", higgs, {**leafwise, "min_data_in_leaf": 1}),
        ("binary, rows counted", higgs, leafwise),
        ("binary, 63 bins, depth-wise", higgs, {**leafwise, "grow_policy": "depthwise", "max_depth": 8, "max_bin": 63}),
        ("binary, missing, 5 tiles", missing, leafwise),
        ("binary, small pool", missing, {**leafwise, "histogram_pool_size": 8.0}),
        ("binary, little memory", missing, {**leafwise, "device_memory_limit": little}),
        ("binary, bins in host memory", higgs, {**leafwise, "device_memory_limit": least}),
        ("binary, 15 bins", missing, {**leafwise, "max_bin": 15}),
        ("binary, 15 bins, bagging", higgs, {**leafwise, "max_bin": 15, "bagging_freq": 1, "bagging_fraction": 0.5}),
        ("5 classes", classes, {"objective": "multiclass", "num_class": 5}),
        ("regression, heavy tail", heavy, {"num_leaves": 63}),
        ("regression, high precision", higgs, {"num_leaves": 63, "precision": "high"}),
        *every_objective,
    ):

        def check(X: Any = X, y: Any = y, params: dict[str, Any] = params) -> str:
            found = {}
            for where in (device, "cpu"):
                dataset = Dataset(X, label=y)
                valid = Dataset(X[: len(X) // 10], label=y[: len(y) // 10], reference=dataset)
                booster = train({**params, "device": where, "verbosity": -1}, dataset, 4, {"valid": valid})
                found[where] = booster.fingerprint(), booster.eval_history
            return "" if found[device] == found["cpu"] else f"{found[device]}, on cpu {found['cpu']}"

        yield f"training: {name}, {len(X)} x {X.shape[1]}", check


def ranking_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield trainings on queries of every size class, and one long query, beside `cpu`."""
    parts = [
        make_ranking(max(1, n_rows // 4 // size), 20, float(size), seed=size) for size in (20, 150, 700, n_rows // 4)
    ]
    X, y, sizes = (np.concatenate([part[i] for part in parts]) for i in range(3))
    for objective in RANKING:

        def check(objective: str = objective) -> str:
            found = {}
            for where in (device, "cpu"):
                params = {"objective": objective, "device": where, "num_leaves": 63, "verbosity": -1}
                dataset = Dataset(X, label=y, group=sizes)
                booster = train({**params, "metric": "ndcg,map,mrr"}, dataset, 4, {"training": dataset})
                found[where] = booster.fingerprint(), booster.eval_history
            return "" if found[device] == found["cpu"] else f"{found[device]}, on cpu {found['cpu']}"

        yield f"training: {objective}, {len(X)} x {X.shape[1]}, {len(sizes)} queries", check


def thread_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield trainings in several threads at once, on one device, beside the same ones on `cpu`."""
    X, y = make_higgs_like(n_rows, 28, seed=9)
    kinds: tuple[dict[str, Any], ...] = (
        {"num_leaves": 255, "min_data_in_leaf": 1},
        {"num_leaves": 31, "bagging_freq": 1, "bagging_fraction": 0.5},
        {"objective": "multiclass", "num_class": 2, "num_leaves": 63},
    )

    def fingerprint(where: str, params: dict[str, Any]) -> str:
        given = {"objective": "binary", **params, "device": where, "verbosity": -1}
        return train(given, Dataset(X, label=y), 10).fingerprint()

    def check() -> str:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda number: fingerprint(device, kinds[number % 3]), range(12)))
        expected = [fingerprint("cpu", params) for params in kinds]
        wrong = [number for number, model in enumerate(found) if model != expected[number % 3]]
        return "" if not wrong else f"trainings {wrong} of 12 differ from those of the cpu"

    yield f"threads: 12 trainings in 4 threads, {len(X)} x {X.shape[1]}", check


def worker_checks(device: str) -> Iterator[tuple[str, Check]]:
    """Yield golden cases on two workers that share the device, and have their rows in its memory."""
    expected = expected_fingerprints()
    for name in ON_WORKERS:

        def check(name: str = name) -> str:
            found = {model.fingerprint() for model in train_on_workers(CASES[name], 2, device=device)}
            return "" if found == {expected[name]} else "another model than in one process"

        yield f"two workers: {name}", check


def prediction_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield scores and leaves of random forests beside `cpu`; arithmetic of float32 may take small numbers for zero."""
    X = make_with_missing(n_rows, 28, seed=6)[0]
    rng = np.random.default_rng(7)
    X[rng.random(X.shape) < 0.1] = 1e-40
    for n_outputs, dtype in ((1, np.float32), (5, np.float64)):

        def check(n_outputs: int = n_outputs, dtype: Any = dtype) -> str:
            trees = [random_tree(rng, n_leaves, X.shape[1]) for n_leaves in (255,) * 20 + (1, 4000) * 5]
            forest, reader = Forest(trees, n_outputs), open_table(X.astype(dtype))
            init = rng.standard_normal(n_outputs)
            raw = predict_raw(forest, reader, init, device=device)
            leaves = predict_leaf(forest, reader, device=device)
            assert_same_bits(raw, predict_raw(forest, reader, init), "raw scores")
            assert_same_bits(leaves, predict_leaf(forest, reader), "leaves")
            return ""

        yield f"prediction: {np.dtype(dtype).name}, {n_outputs} output(s), {len(X)} x {X.shape[1]}", check


def explanation_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield contributions, interactions and values against background rows of random forests beside `cpu`."""
    X = make_with_missing(n_rows, 28, seed=8)[0]
    for n_outputs, dtype in ((1, np.float32), (3, np.float64)):

        def check(n_outputs: int = n_outputs, dtype: Any = dtype) -> str:
            rng = np.random.default_rng(9)
            trees = [random_tree(rng, n_leaves, X.shape[1]) for n_leaves in (63,) * 6 + (1, 255) * 3]
            assert_same_explanations(Forest(trees, n_outputs), X.astype(dtype), device)
            return ""

        yield f"explanation: {np.dtype(dtype).name}, {n_outputs} output(s), {len(X)} x {X.shape[1]}", check


def array_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield what is done with arrays on a CUDA device beside the same in host memory on `cpu`: data, and functions."""
    if device.partition(":")[0] != "cuda":
        return
    yield from function_checks(device, n_rows)
    yield from stream_checks(device, n_rows)
    yield from column_checks(device, n_rows)
    X, y, *_ = make_with_missing(n_rows, 137, seed=8)
    kinds = ((np.float32, 255, 137), (np.float64, 1000, 137), (np.float32, 63, 137), (np.float32, 65_535, 3))
    for dtype, max_bin, n_features in kinds:

        def check(dtype: Any = dtype, max_bin: int = max_bin, n_features: int = n_features) -> str:
            import cupy

            found = []
            for where, wrap in ((device, cupy.asarray), ("cpu", np.asarray)):
                data = wrap(np.ascontiguousarray(X[:, :n_features], dtype))
                dataset = Dataset(data, label=wrap(y))
                valid = Dataset(data[: n_rows // 10], label=wrap(y[: n_rows // 10]), reference=dataset)
                params = {"objective": "binary", "num_leaves": 255, "max_bin": max_bin, "verbosity": -1}
                params["min_data_in_bin"] = 1 if max_bin > 1000 else 3
                booster = train({**params, "device": where}, dataset, 4, {"valid": valid})
                model_of = booster.fingerprint(), booster.eval_history
                outcome = (booster.predict(data), booster.predict(data, pred_leaf=True))
                found.append((*model_of, *(cupy.asnumpy(each) for each in outcome)))
            (*model, predictions, leaves), (*expected, expected_predictions, expected_leaves) = found
            assert_same_bits(predictions, expected_predictions, "predictions")
            assert_same_bits(leaves, expected_leaves, "leaves")
            return "" if model == expected else f"{model}, on cpu {expected}"

        yield f"arrays on the device: {np.dtype(dtype).name}, {max_bin} bins, {len(X)} x {n_features}", check


def part_of_all(text: str) -> slice:
    """Return which checks "K/N" names: every N-th from the K-th on."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form K/N with 1 <= K <= N, such as 1/8")
    return slice(int(number) - 1, None, int(count))


def main(arguments: list[str] | None = None) -> int:
    """Run all checks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hornbeam.testing.verify", description=__doc__)
    parser.add_argument("--device", required=True, help="device to verify, as in the parameter `device`, but not auto")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the largest training")
    parser.add_argument(
        "--golden-rows", type=int, metavar="N", help="hold the golden cases on N rows against cpu, and do nothing else"
    )
    parser.add_argument("--only", default="", help="run the checks whose name contains this")
    parser.add_argument("--part", type=part_of_all, default="1/1", help="K/N: run every N-th check from the K-th on")
    parser.add_argument(
        "--compute-units", type=int, metavar="N",
        help="launch as many groups as for a GPU of N units: what sanitizers take goes by groups",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    if given.golden_rows is not None and given.golden_rows < 1:
        parser.error("--golden-rows: N is 1 or more")
    if given.rows < FEWEST_ROWS:
        parser.error(f"--rows {given.rows}: the checks take {FEWEST_ROWS} or more")
    if given.device == "auto":  # which is the CPU for sizes like these: it would be held against itself
        parser.error("--device auto verifies whatever is chosen; name the device, one of hornbeam.devices()")
    try:
        given.device = choose_device(BY_NAME["device"].check(given.device))
    except HornbeamError as error:
        parser.error(str(error))
    if given.compute_units is None:
        return run_checks(given)
    if given.device in ("cpu", "reference") or given.compute_units < 1:
        parser.error("--compute-units is for GPUs, and N is 1 or more")
    runtime = open_runtime(given.device)
    facts = runtime.facts
    runtime.facts = replace(facts, compute_units=given.compute_units)
    try:
        return run_checks(given)
    finally:
        runtime.facts = facts


def run_checks(given: argparse.Namespace) -> int:
    """Run the checks that the arguments name; returns the exit status."""
    checks: list[tuple[str, Check]]
    if given.golden_rows is not None:
        checks = list(small_checks(given.device, given.golden_rows))
    else:
        checks = [
            *golden_checks(given.device),
            *operation_checks(given.device),
            *metric_checks(given.device, given.rows),
            *training_checks(given.device, given.rows),
            *ranking_checks(given.device, given.rows),
            *thread_checks(given.device, given.rows // 4),
            *worker_checks(given.device),
            *prediction_checks(given.device, given.rows // 10),
            *explanation_checks(given.device, given.rows // 20),
            *array_checks(given.device, given.rows // 4),
        ]
    named = [(name, check) for name, check in checks if given.only in name]
    if not named:
        sys.stderr.write(f"no check of {len(checks)} has {given.only!r} in its name, so nothing is verified\n")
        return 1
    checks, failed = named[given.part], 0
    with np.errstate(all="ignore"):
        for name, check in checks:
            start = time.perf_counter()
            try:
                difference = check()
            except Exception as error:  # a check that cannot run has not shown that the device is right
                difference = f"{type(error).__name__}: {error}"
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
            failed += bool(difference)
            seconds = time.perf_counter() - start
            sys.stdout.write(f"{'DIFFERS' if difference else 'same':8s}{seconds:7.2f} s  {name}  {difference}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(checks) - failed} of {len(checks)} checks passed on {given.device}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

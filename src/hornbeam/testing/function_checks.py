"""Checks of functions that work on arrays of a CUDA device (`hornbeam.on_device`) beside NumPy's on `cpu`.

The functions use + - * / and square roots, one array operation after the other, and largest values: all of it is exact
in CuPy as in NumPy, so that models and evaluations are compared with `==`.
"""

from __future__ import annotations

import gc
import importlib.util
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hornbeam.backends import devices
from hornbeam.backends.gpu.runtime import devices as gpus
from hornbeam.core.errors import DataError
from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives.device_functions import on_device
from hornbeam.testing.data import make_with_missing
from hornbeam.testing.labels import labels_for, params_for
from hornbeam.training.callbacks import early_stopping
from hornbeam.training.cross_validation import cv
from hornbeam.training.training import train

Check = Callable[[], str]

SAMPLING: dict[str, dict[str, Any]] = {
    "all rows": {},
    "bagging": {"bagging_freq": 1, "bagging_fraction": 0.5},
    "GOSS": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "DART": {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    "random forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
}


def smooth(scores: Any, data: Any) -> tuple[Any, Any]:
    """Return gradients of a smooth absolute error, times the weights."""
    difference = scores - data.label
    root = np.sqrt(1.0 + difference * difference)
    return difference / root * data.weight, 1.0 / (root * root * root) * data.weight


def by_class(scores: Any, data: Any) -> tuple[Any, Any]:
    """Return gradients of the squared error of each class's score."""
    gradient = scores * 1.0
    for k in range(scores.shape[1]):
        gradient[:, k] = scores[:, k] - (data.label == k) * 1.0
    scores[...] = 7.0  # which must not be seen: they are a copy
    return gradient, scores * 0.0 + 0.5


def in_other_types(scores: Any, data: Any) -> tuple[Any, Any]:
    """Return every other element of longer arrays, of float32 and of integers."""
    difference = (scores - data.label).repeat(2)
    return difference.astype(np.float32)[::2], (difference * 0.0 + 3.0).astype(np.int32)[::2]


def largest(predictions: Any, data: Any) -> list[tuple[str, Any, bool]]:
    """Return the largest prediction, and the largest error or the largest label."""
    other = abs(predictions - data.label).max() if predictions.ndim == 1 else data.label.max()
    return [("prediction", predictions.max(), True), ("error", other, False)]


@on_device
def weighted_later(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Return gradients of the squared error, as an estimator's objective."""
    return y_pred - y_true, y_pred * 0.0 + 1.0


@on_device
def classes_weighted_later(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Return gradients of the squared error of each class's score, as a classifier's objective."""
    gradient = y_pred * 1.0
    for k in range(y_pred.shape[1]):
        gradient[:, k] = y_pred[:, k] - (y_true == k) * 1.0
    return gradient, y_pred * 0.0 + 0.5


@on_device
def worst(y_true: Any, y_pred: Any, weight: Any) -> tuple[str, Any, bool]:
    """Return the largest weighted error, or of classes the largest score, as an estimator's metric."""
    errors = abs(y_pred - y_true) if y_pred.ndim == 1 else y_pred[:, 0]
    return "worst", (errors * (1.0 if weight is None else weight)).max(), False


def _with(scores: Any, rows: Any, value: float) -> Any:
    """Return zeros, and another value in some rows."""
    made = scores * 0.0
    made[rows] = value
    return made


BAD_RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "no pair": lambda scores, data: [scores],
    "wrong shape": lambda scores, data: (scores[1:], scores),
    "wrong dimensions": lambda scores, data: (scores, scores.reshape(-1, 1)),
    "NaN": lambda scores, data: (_with(scores, data.label == data.label.max(), np.nan), scores * 0.0 + 1.0),
    "infinite": lambda scores, data: (scores, _with(scores, data.label == data.label.min(), np.inf)),
    "negative": lambda scores, data: (scores, scores * 0.0 + (data.label - data.label.max())),
    "complex": lambda scores, data: (scores * 1j, scores),
    "strings": lambda scores, data: (["a"] * len(scores), scores),
}
"""Functions whose results are refused."""


class Seen:
    """A function that notes what it is given, and does what another does."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self.arrays: list[Any] = []
        self.labels: list[Any] = []

    def __call__(self, scores: Any, data: Any) -> Any:
        """Note, and call."""
        self.arrays.append(scores)
        self.labels.append(data.label)
        return self.function(scores, data)

    def problem(self, kind: type) -> str:
        """Return what is wrong with what was given, if it should have been arrays of this kind; "": nothing."""
        if not self.arrays:
            return f"{self.function.__name__} was not called"
        wrong = [array for array in (*self.arrays, *self.labels) if not isinstance(array, kind)]
        if wrong:
            return f"{self.function.__name__} was given {type(wrong[0]).__name__}"
        return "" if len({id(label) for label in self.labels}) <= 2 else "labels were copied again"


def compare(
    device: str, data: Callable[[], dict[str, Dataset]], params: dict[str, Any], objective: Any, all_ways: bool = False
) -> str:
    """Train with marked functions on the device, and with the same ones, not marked, on `cpu`; "" if models are equal.

    data       makes "train" and validation sets
    objective  a function, or the name of one of ours
    all_ways   compare with functions on the device that are not marked, and with marked ones on `cpu`, too
    """
    import cupy

    found = {}
    ways = [(device, True), (device, False), ("cpu", True)] if all_ways else [(device, True)]
    for where, mark in (*ways, ("cpu", False)):
        functions = [Seen(objective if callable(objective) else smooth), Seen(largest)]
        passed: list[Any] = [on_device(function) if mark else function for function in functions]
        sets = data()
        given = {**params, "objective": passed[0] if callable(objective) else objective, "device": where}
        booster = train({"verbosity": -1, "metric": "none", **given}, sets["train"], 4, sets, feval=passed[1])
        found[where, mark] = booster.fingerprint(), booster.eval_history
        kind = cupy.ndarray if where == device and mark else np.ndarray
        for function in functions[0 if callable(objective) else 1 :]:
            problem = function.problem(kind)
            if problem:
                return f"{problem}, on {where}"
    different = [name for name, result in found.items() if result != found["cpu", False]]
    return f"{different} differ from cpu with NumPy: {found}" if different else ""


@contextmanager
def copies_of(device: str) -> Iterator[list[int]]:
    """Note the bytes of every copy between the host and a device."""
    runtime: Any = gpus.open_runtime(devices.choose_device(device))
    sizes: list[int] = []

    def noting(copy: Callable[..., Any]) -> Callable[..., Any]:
        def noted(buffer: Any, array: Any, offset: int = 0) -> Any:
            sizes.append(array.nbytes)
            return copy(buffer, array, offset)

        return noted

    names = ("upload", "download", "download_later")
    for name in names:
        setattr(runtime, name, noting(getattr(runtime, name)))
    try:
        yield sizes
    finally:
        for name in names:
            delattr(runtime, name)


def refusal(function: Callable[[Any, Any], Any], dataset: Dataset, device: str) -> str:
    """Return how the results of a function are refused."""
    try:
        train({"objective": function, "device": device, "verbosity": -1}, dataset, 1)
    except DataError as error:
        return str(error)
    return "nothing was refused"


def function_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield trainings with functions on the device beside `cpu`."""
    X, y, *_ = make_with_missing(n_rows, 20, seed=9)
    X = X[:, :20]
    signal = np.nan_to_num(X[:, 0]).astype(np.float64) + y
    weight = 1.0 + np.arange(n_rows) % 3

    def sets(label: Any = signal, start: bool = False) -> dict[str, Dataset]:
        init = np.linspace(-1.0, 1.0, n_rows) if start else None
        dataset = Dataset(X, label=label, weight=weight, init_score=init)
        few = slice(0, n_rows // 3)
        return {
            "train": dataset,
            "valid": Dataset(
                X[few], label=label[few], weight=weight[few], init_score=init if init is None else init[few]
            ),
        }

    def classes() -> dict[str, Dataset]:
        return sets(np.floor(np.clip(signal, 0.0, 2.0)))

    for name, params in SAMPLING.items():

        def one_output(params: dict[str, Any] = params) -> str:
            return compare(device, sets, params, smooth, all_ways=not params)

        def three_outputs(params: dict[str, Any] = params) -> str:
            return compare(device, classes, {**params, "num_class": 3}, by_class, all_ways=not params)

        yield f"functions on the device: {name}", one_output
        yield f"functions on the device: {name}, 3 outputs", three_outputs

    yield (
        "functions on the device: initial scores",
        lambda: compare(device, lambda: sets(start=True), {"metric": "l2"}, smooth),
    )
    yield "functions on the device: other types and strides", lambda: compare(device, sets, {}, in_other_types)
    for objective in ("binary", "poisson", "multiclass", "regression"):
        for name in ("all rows", "random forest"):

            def with_link(objective: str = objective, name: str = name) -> str:
                params = {**SAMPLING[name], **params_for(objective)}
                params |= {"reg_sqrt": True} if objective == "regression" else {}
                label = labels_for(objective, signal * 3.0, params.get("num_class", 1))
                return compare(device, lambda: sets(label), params, objective)

            yield f"functions on the device: metric of {objective}, {name}", with_link
    yield "functions on the device: nothing goes through the host", lambda: _check_copies(device, sets)
    yield "functions on the device: bad results", lambda: _check_refusals(device, sets()["train"])
    yield "functions on the device: cv with early stopping", lambda: _check_cv(device, sets)
    if importlib.util.find_spec("sklearn") is not None:
        yield "functions on the device: estimators", lambda: _check_estimators(device, X, signal, weight)


def stream_checks(device: str, n_rows: int) -> Iterator[tuple[str, Check]]:
    """Yield what only a real CUDA device has: trainings from a stream of the user's own, and memory that comes back."""
    X, y, *_ = make_with_missing(n_rows, 20, seed=9)

    def memory() -> str:
        runtime: Any = gpus.open_runtime(devices.choose_device(device))
        held = []
        for _ in range(3):
            dataset = Dataset(X, label=y, weight=y + 1.0)
            params = {"objective": on_device(Seen(smooth)), "device": device, "verbosity": -1}
            train(params, dataset, 2, {"training": dataset}, feval=on_device(lambda p, data: ("p", p.max(), True)))
            del dataset, params
            gc.collect()
            held.append(runtime.held_bytes()[0])
        return "" if held[1] == held[2] else f"bytes held after trainings: {held}"

    yield "functions on the device: memory comes back", memory

    def check(non_blocking: bool) -> str:
        import cupy

        def late(array: Any) -> Any:
            """Return zeros that a device computes for a while."""
            zeros = array * 0.0
            for _ in range(0 if isinstance(array, np.ndarray) else 200):
                zeros = zeros * 0.5 + array * 0.0
            return zeros

        def objective_with(hessian: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
            return lambda scores, data: (late(scores) + scores - data.label, late(scores) + hessian)

        params = {"num_leaves": 31, "verbosity": -1}
        plain, dataset = objective_with(np.ones(n_rows)), Dataset(X, label=y)
        expected = train({**params, "objective": plain, "device": "cpu"}, dataset, 5).fingerprint()
        with cupy.cuda.Stream(non_blocking=non_blocking):
            dataset = Dataset(X, label=y).construct()
            marked = on_device(objective_with(late(cupy.ones(n_rows)) + 1.0))  # not there yet when training begins
            found = train({**params, "objective": marked, "device": device}, dataset, 5)
        return "" if found.fingerprint() == expected else f"{found.fingerprint()}, on cpu {expected}"

    for non_blocking in (False, True):
        name = f"functions on the device: {'non-blocking' if non_blocking else 'blocking'} stream of one's own"
        yield name, lambda non_blocking=non_blocking: check(non_blocking)  # type: ignore[misc]


def _check_copies(device: str, sets: Callable[[], dict[str, Dataset]]) -> str:
    """Check that neither scores nor gradients nor labels are copied between host and device after two iterations."""
    data = sets()
    with copies_of(device) as sizes:

        def begin_to_count(env: Any) -> None:
            if env.iteration == 1:
                sizes.clear()

        train(
            {"objective": on_device(Seen(smooth)), "device": device, "num_leaves": 3, "verbosity": -1},
            data["train"],
            6,
            {"valid": data["valid"], "training": data["train"]},
            feval=on_device(Seen(largest)),
            callbacks=[begin_to_count],
        )
    n_rows = data["valid"].n_rows
    return "" if max(sizes) < 8 * n_rows else f"{max(sizes)} bytes were copied at once, {n_rows} rows"


def _check_refusals(device: str, dataset: Dataset) -> str:
    """Check that results that are refused are refused in the words of the host."""
    for name, function in BAD_RESULTS.items():
        expected = refusal(function, dataset, "cpu")
        found = refusal(on_device(Seen(function)), dataset, device)
        if found != expected or "custom objective" not in found:
            return f"{name}: {found!r}, on cpu {expected!r}"
    return ""


def _check_cv(device: str, sets: Callable[[], dict[str, Dataset]]) -> str:
    found = []
    for where, mark in ((device, True), ("cpu", False)):
        objective, metric = Seen(smooth), Seen(largest)
        params = {"objective": on_device(objective) if mark else objective, "device": where, "verbosity": -1}
        found.append(
            cv(
                params,
                sets()["train"],
                8,
                nfold=3,
                feval=on_device(metric) if mark else metric,
                callbacks=[early_stopping(2)],
            )
        )
    return "" if found[0] == found[1] else f"{found[0]}, on cpu {found[1]}"


def _check_estimators(device: str, X: Any, y: Any, weight: Any) -> str:
    from sklearn.base import clone

    from hornbeam.sklearn import HornbeamClassifier, HornbeamRegressor

    for kind, objective, target in (
        (HornbeamRegressor, weighted_later, y),
        (HornbeamClassifier, classes_weighted_later, np.floor(np.clip(y, 0.0, 2.0))),
    ):
        found = []
        for where in (device, "cpu"):
            model: Any = kind(objective=objective, n_estimators=3, device=where, verbosity=-1)
            model = pickle.loads(pickle.dumps(clone(model)))  # noqa: S301  (our own)
            pair = X[:99], target[:99]
            model.fit(X, target, weight, eval_set=[pair], eval_sample_weight=[weight[:99]], eval_metric=worst)
            found.append((model.booster_.fingerprint(), model.evals_result_))
        if found[0] != found[1]:
            return f"{kind.__name__}: {found[0]}, on cpu {found[1]}"
    return ""

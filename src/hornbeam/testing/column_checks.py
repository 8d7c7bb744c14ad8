"""Checks of labels, weights, initial scores and estimators with arrays on a CUDA device, for verify.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from hornbeam.data.columns import DeviceColumn
from hornbeam.data.device_arrays import host_array
from hornbeam.dataset.dataset import Dataset
from hornbeam.testing.checks import assert_same_bits
from hornbeam.testing.data import make_higgs_like
from hornbeam.training.training import train

CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("float32", "binary", {"metric": "auc,binary_logloss"}),
    ("float64", "binary", {"boosting": "dart"}),
    ("uint8", "binary", {"bagging_freq": 1, "bagging_fraction": 0.5}),
    ("bool", "binary", {"scale_pos_weight": 2.0}),
    ("int64", "regression", {"metric": "l2,r2"}),
    ("float32", "regression_l1", {}),
    ("float64", "poisson", {}),
    ("int32", "multiclass", {"num_class": 2}),
    ("float16", "cross_entropy", {}),
)
"""Types of labels, objectives, and further parameters."""


def column_checks(device: str, n_rows: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield trainings with everything on the device beside the same in host memory on `cpu`."""
    X, y = make_higgs_like(n_rows, 28, seed=11)
    weight = np.linspace(0.5, 2.0, n_rows, dtype=np.float32)
    for library in ("cupy", "torch"):
        if find_spec(library) is None:
            continue
        for dtype, objective, more in CASES:

            def check(library: str = library, dtype: str = dtype, objective: str = objective, more: Any = more) -> str:
                found, copied = [], []
                for where, wrap in ((device, _wrapper(library, device)), ("cpu", np.asarray)):
                    start = None if objective == "multiclass" else wrap(weight - 1.0)
                    data = Dataset(wrap(X), wrap(y.astype(dtype)), weight=wrap(weight), init_score=start)
                    valid = Dataset(wrap(X[:999]), wrap(y[:999].astype(dtype)), weight=wrap(weight[:999]))
                    params = {"objective": objective, "num_leaves": 63, "device": where, "verbosity": -1, **more}
                    booster = train(params, data, 4, {"valid": valid})
                    found.append((booster.fingerprint(), booster.eval_history))
                    copied += [name for name in ("label", "weight", "init_score") if was_copied(data, name)]
                if objective == "binary" and not {"boosting", "scale_pos_weight"} & set(more) and copied:
                    return f"copied to the host: {copied}"
                return "" if found[0] == found[1] else f"{found[0]}, on cpu {found[1]}"

            named = ", ".join([f"{dtype} labels", objective, *more])
            yield f"columns on the device: {library}, {named}, {n_rows} x 28", check
        name = f"columns on the device: {library}, float32 weights below 2^-126, {n_rows} x 28"
        yield name, partial(_check_small_weights, device, library, X, y)
        if find_spec("sklearn") is not None:
            name = f"estimators on the device: {library}, {n_rows} x 28"
            yield name, partial(_check_estimators, device, library, X, y, weight)


def _check_small_weights(device: str, library: str, X: Any, y: Any) -> str:
    """Numbers that arithmetic of float32 may take for zero are numbers like others."""
    weight = np.linspace(1e-40, 9e-39, len(y)).astype(np.float32)
    weight[::2] = 2e-38  # the largest of all weights must be a number of full precision
    params = {"num_leaves": 7, "min_sum_hessian_in_leaf": 0.0, "verbosity": -1}
    found = []
    for where, wrap in ((device, _wrapper(library, device)), ("cpu", np.asarray)):
        found.append(train({**params, "device": where}, Dataset(wrap(X), wrap(y), weight=wrap(weight)), 2))
    if found[1].num_trees() == 0:
        return "no split on cpu"
    return "" if found[0].fingerprint() == found[1].fingerprint() else "another model than on cpu"


def was_copied(dataset: Dataset, name: str) -> bool:
    """Say whether a column that is on a device has been copied to the host."""
    column = dataset.given(name)
    return isinstance(column, DeviceColumn) and "host" in vars(column)


def _wrapper(library: str, device: str) -> Callable[[Any], Any]:
    """Return what brings NumPy arrays to the device."""
    if library == "torch":
        torch = import_module("torch")
        return lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device)
    import cupy

    return cupy.asarray  # type: ignore[no-any-return]


def _check_estimators(device: str, library: str, X: Any, y: Any, weight: Any) -> str:
    from hornbeam.sklearn import HornbeamClassifier, HornbeamRegressor

    wrap = _wrapper(library, device)
    for kind, target in ((HornbeamRegressor, y), (HornbeamClassifier, y), (HornbeamClassifier, y * 3.0 - 1.0)):
        params: dict[str, Any] = {"n_estimators": 4, "num_leaves": 31, "verbosity": -1}
        here = kind(device=device, **params).fit(wrap(X), wrap(target), sample_weight=wrap(weight))
        there = kind(device="cpu", **params).fit(X, target, sample_weight=weight)
        if here.booster_.fingerprint() != there.booster_.fingerprint():
            return f"{kind.__name__}: another model than on cpu"
        for name in ("predict", "predict_proba")[: 1 if kind is HornbeamRegressor else 2]:
            result = getattr(here, name)(wrap(X))
            if type(result) is not type(wrap(X)):
                return f"{kind.__name__}.{name} returned {type(result).__name__}"
            assert_same_bits(host_array(result), getattr(there, name)(X), f"{kind.__name__}.{name}")
        if here.score(wrap(X), wrap(target)) != there.score(X, target):
            return f"{kind.__name__}.score differs"
    return ""

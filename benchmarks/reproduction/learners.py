"""The paper's algorithms behind one face: Histogram with k bins, Exact and Sketching, ours and the peers'.

Parameters are the paper's: 255 leaves for Histogram, depth 8 for Exact and Sketching, at least one row in a leaf,
learning rate 0.1 (Bosch 0.015), and `min_sum_hessian_in_leaf` 100, which is in the authors' published settings. Small
data have 31 leaves, depth 5 and a sum of 1.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from libraries import Data, Library, LightGBM, XGBoost, by_depth
from numpy.typing import NDArray

import hornbeam as hb
from reproduction.printed import EXACT, K15, K63, K255, SKETCHING
from reproduction.sets import PaperSet

LEAVES = {"small": 31, "full": 255}
DEPTH = {"small": 5, "full": 8}
LEAST_HESSIAN = {"small": 1.0, "full": 100.0}


@dataclass(frozen=True)
class Method:
    """One of the paper's algorithms: histograms of so many bins, or another way to find splits."""

    title: str
    bins: int
    tree_method: str = "hist"


METHODS = {
    K255: Method("Histogram, k = 255", 255),
    K63: Method("Histogram, k = 63", 63),
    K15: Method("Histogram, k = 15", 15),
    EXACT: Method("Exact", 255, "exact"),
    SKETCHING: Method("Sketching", 255, "approx"),
}

LIBRARIES = {"hornbeam": "Hornbeam", "lightgbm": "LightGBM", "xgboost": "XGBoost"}
"""By the name of the module."""

DEVICES = ("gpu", "cpu")

THEIR_METHODS = {"hornbeam": tuple(METHODS), "lightgbm": (K255, K63, K15), "xgboost": (K255, EXACT, SKETCHING)}
"""What is measured of each library."""


@cache
def gpu() -> str | None:
    """Return the name of the GPU to train on, "cuda" before OpenCL; None: there is none."""
    usable = [one for one in hb.devices() if one.usable]
    for one in usable:
        if one.name.startswith("cuda"):
            return one.name
    for one in usable:
        if one.name.startswith("opencl"):
            from hornbeam.backends.devices import choose_device
            from hornbeam.backends.gpu.runtime.devices import open_runtime

            if open_runtime(choose_device(one.name)).facts.is_gpu:
                return one.name
    return None


def reason_against(library: str, device: str, method: str) -> str | None:
    """Return why a column of the tables cannot be measured here; None: it can."""
    if method not in THEIR_METHODS[library]:
        return f"{LIBRARIES[library]} is not measured with {METHODS[method].title}"
    if importlib.util.find_spec(library) is None:
        return f"not there: {LIBRARIES[library]} is not installed"
    if device == "gpu":
        name = gpu()
        if name is None:
            return "not there: this machine has no GPU"
        if library == "xgboost" and not name.startswith("cuda"):
            return "not there: XGBoost needs CUDA"
        if library == "xgboost" and method == EXACT:
            return "not there: XGBoost has no Exact on a GPU any more"
    return None


def parameters(one: PaperSet, method: str, size: str, device: str) -> dict[str, Any]:
    """Return our parameters of a training."""
    how = METHODS[method]
    params: dict[str, Any] = {
        "objective": one.objective,
        "learning_rate": one.learning_rate,
        "num_leaves": LEAVES[size],
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": LEAST_HESSIAN[size],
        "lambda_l2": 0.0,
        "max_bin": how.bins,
        "metric": "none",
        "verbosity": -1,
        "device": "cpu" if device == "cpu" else gpu(),
    }
    return params if how.tree_method == "hist" else by_depth(params, how.tree_method, DEPTH[size])


def make_learner(library: str, one: PaperSet, method: str, size: str, device: str) -> Library:
    """Return a library with its parameters for a training."""
    params = parameters(one, method, size, device)
    if library == "lightgbm":
        # its GPU is OpenCL's, the paper's code; a byte a bin, as the authors recommend
        return LightGBM(params, **({} if device == "cpu" else {"device_type": "gpu", "gpu_use_dp": False}))
    return XGBoost(params) if library == "xgboost" else Library(params)


def predict(library: str, learner: Library, model: Any, data: Data, iterations: int) -> NDArray[np.float64]:
    """Return scores of rows by the first so many trees."""
    if library == "xgboost":
        import xgboost

        return np.asarray(model.predict(xgboost.DMatrix(data.X), iteration_range=(0, iterations)), np.float64)
    return np.asarray(model.predict(data.X, num_iteration=iterations), np.float64)

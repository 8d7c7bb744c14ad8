"""Hornbeam and its peers behind one face, and the stopwatch: what the benchmarks of whole trainings share.

Every library gets the same data and the same parameters (hornbeam.testing.peers) and is imported only when it is asked
for. An iteration's time is the difference between a long and a short training, divided by the difference in
iterations: binning that a library does in `fit`, uploads and setting up drop out, for all of them alike.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hornbeam as hb
from hornbeam.core.errors import ParameterError
from hornbeam.objectives import get_objective
from hornbeam.params.params import BY_NAME
from hornbeam.testing.peers import peer_params

DEFAULT_HESSIAN = BY_NAME["min_sum_hessian_in_leaf"].plain


@dataclass
class Data:
    """What is trained on.

    X            float32 (n_rows, n_features), dense or a CSR matrix; categories are their codes, 0 and up
    y            float64 (n_rows,)
    sizes        int64   (n_queries,) or None; rows of a query are neighbours
    categorical  positions of the categorical features
    """

    X: Any
    y: NDArray[Any]
    sizes: NDArray[np.int64] | None = None
    categorical: tuple[int, ...] = ()

    @property
    def query(self) -> NDArray[np.int64] | None:
        """Number of each row's query."""
        return None if self.sizes is None else np.repeat(np.arange(len(self.sizes)), self.sizes)


class Library:
    """Hornbeam; the peers below do the same things."""

    name = "hornbeam"
    same_numbers = False  # as `peer_params` has it

    def __init__(self, params: Mapping[str, Any], **extra: Any) -> None:
        self.params = self.translate(dict(params)) | extra

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the library's names for our parameters."""
        return params

    def build(self, data: Data) -> Any:
        """Bin the data, as far as the library can do that apart from training."""
        categorical = list(data.categorical) or "auto"
        dataset = hb.Dataset(data.X, data.y, group=data.sizes, categorical_features=categorical)
        return dataset.construct(hb.Params.from_dict(self.params))

    def train(self, built: Any, iterations: int) -> Any:
        """Return a finished model."""
        return hb.train(self.params, built, iterations)

    def predict(self, model: Any, X: Any, data: Data) -> NDArray[np.float64]:
        """Return probabilities, or scores where the objective ranks."""
        return np.asarray(model.predict(X), np.float64)

    @property
    def version(self) -> str:
        """The library's."""
        return str(sys.modules[self.name].__version__)


class LightGBM(Library):
    """LightGBM with its full floats."""

    name = "lightgbm"

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        return peer_params(params | {"device": "cpu"}, "lightgbm")  # its wheels differ: `device_type` is an extra

    def build(self, data: Data) -> Any:
        import lightgbm

        categorical = list(data.categorical) or "auto"
        dataset = lightgbm.Dataset(
            data.X, data.y, group=data.sizes, categorical_feature=categorical, params=self.params, free_raw_data=False
        )
        return dataset.construct()

    def train(self, built: Any, iterations: int) -> Any:
        import lightgbm

        return lightgbm.train(self.params, built, iterations)


def by_depth(params: Mapping[str, Any], tree_method: str, depth: int) -> dict[str, Any]:
    """Return parameters of trees that grow by depth, with another tree method than histograms: "exact", "approx"."""
    shape = {"grow_policy": "depthwise", "max_depth": depth, "num_leaves": 2**depth}
    return {**params, **shape, "tree_method": tree_method}


class XGBoost(Library):
    """XGBoost; it knows no number of rows in a leaf."""

    name = "xgboost"

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        device = params.get("device", "cpu")
        if params.get("objective") != "regression":  # where hessians are 1 and their sum counts rows
            params = params | {"min_data_in_leaf": 1}
        ours = params | {"device": device if device.startswith("cuda") else "cpu"}
        theirs = peer_params(ours, "xgboost", self.same_numbers)
        if theirs["tree_method"] == "exact":  # which knows nothing of these
            return {
                name: value for name, value in theirs.items() if name not in ("max_bin", "max_leaves", "grow_policy")
            }
        return theirs if theirs["tree_method"] == "hist" else theirs | {"max_leaves": 0}

    def _on_device(self, X: Any) -> Any:
        """Return dense data as an array of the GPU where that is where training is."""
        if not self.params["device"].startswith("cuda") or not isinstance(X, np.ndarray):
            return X
        import cupy

        return cupy.asarray(X)

    def _types(self, data: Data) -> list[str] | None:
        n_features = data.X.shape[1]
        return ["c" if f in data.categorical else "q" for f in range(n_features)] if data.categorical else None

    def build(self, data: Data) -> Any:
        import xgboost

        given: dict[str, Any] = {"qid": data.query, "nthread": self.params["nthread"]}
        given |= {"feature_types": self._types(data), "enable_categorical": bool(data.categorical)}
        if self.params["tree_method"] != "hist":  # it needs the values
            return xgboost.DMatrix(self._on_device(data.X), data.y, **given)
        return xgboost.QuantileDMatrix(self._on_device(data.X), data.y, max_bin=self.params["max_bin"], **given)

    def train(self, built: Any, iterations: int) -> Any:
        import xgboost

        model = xgboost.train(self.params, built, iterations)
        model.save_raw()  # waits for a GPU
        return model

    def predict(self, model: Any, X: Any, data: Data) -> NDArray[np.float64]:
        import xgboost

        types = self._types(data)
        matrix = xgboost.DMatrix(self._on_device(X), feature_types=types, enable_categorical=types is not None)
        return np.asarray(model.predict(matrix), np.float64)


class CatBoost(Library):
    """CatBoost, best-first growth, one step a leaf; it knows no sum of hessians in a leaf.

    It starts some objectives from the average and the others from zero. To those, on a CPU, our start is given as a
    baseline, and added to its predictions again.
    """

    name = "catboost"

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        self.objective = get_objective(hb.Params.from_dict(params))
        device = params.get("device", "cpu")
        if params.get("objective") != "regression":
            params = params | {"min_sum_hessian_in_leaf": DEFAULT_HESSIAN}
        ours = params | {"device": device if device.startswith("cuda") else "cpu"}
        return peer_params(ours, "catboost", self.same_numbers)

    def _frame(self, X: Any, data: Data) -> Any:
        if not data.categorical:
            return X
        import pandas as pd

        frame = pd.DataFrame(X)
        for feature in data.categorical:  # it takes integers, and no missing one
            frame[feature] = frame[feature].fillna(-1).astype(np.int32)
        return frame

    def build(self, data: Data) -> Any:
        import catboost

        categorical = list(data.categorical) or None
        start = self._start(data)
        return catboost.Pool(
            self._frame(data.X, data),
            data.y,
            cat_features=categorical,
            group_id=data.query,
            baseline=np.tile(start, (len(data.y), 1)) if start.any() else None,
        )

    def _start(self, data: Data) -> NDArray[np.float64]:
        """Return what must be added to the predictions: float64 (n_outputs,)."""
        if "boost_from_average" in self.params or self.params["task_type"] == "GPU":
            return np.zeros(self.objective.n_outputs)
        return self.objective.init_scores(data.y, None)

    def train(self, built: Any, iterations: int) -> Any:
        import catboost

        return catboost.CatBoost(self.params | {"iterations": iterations}).fit(built)

    def predict(self, model: Any, X: Any, data: Data) -> NDArray[np.float64]:
        raw = np.asarray(model.predict(self._frame(X, data), prediction_type="RawFormulaVal"), np.float64)
        raw = raw.reshape(len(raw), -1) + self._start(data)
        predicted = self.objective.transform(np.ascontiguousarray(raw.T)).T
        return predicted if predicted.shape[1] > 1 else predicted[:, 0]


class ScikitLearn(Library):
    """HistGradientBoostingClassifier, which cannot keep binned data."""

    name = "sklearn"

    def translate(self, params: dict[str, Any]) -> dict[str, Any]:
        self.threads = int(params.get("num_threads", 0))
        ours = params | {"num_threads": 0, "min_sum_hessian_in_leaf": DEFAULT_HESSIAN, "device": "cpu"}
        return peer_params(ours, "sklearn")

    def build(self, data: Data) -> Any:
        if not isinstance(data.X, np.ndarray):
            raise ParameterError("scikit-learn trains on dense data alone")
        if any(data.X[:, f].max() >= self.params["max_bins"] for f in data.categorical):
            raise ParameterError("scikit-learn takes categorical features of no more levels than bins")
        return data

    def train(self, built: Any, iterations: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        params = self.params | {"max_iter": iterations, "categorical_features": list(built.categorical) or None}
        with threadpool_limits(self.threads) if self.threads > 0 else contextlib.nullcontext():
            return HistGradientBoostingClassifier(**params).fit(built.X, built.y)

    def predict(self, model: Any, X: Any, data: Data) -> NDArray[np.float64]:
        predicted = model.predict_proba(X)
        return np.asarray(predicted if predicted.shape[1] > 2 else predicted[:, 1], np.float64)


PEERS: dict[str, type[Library]] = {"lgb": LightGBM, "xgb": XGBoost, "cat": CatBoost, "sk": ScikitLearn}


@dataclass
class Times:
    """Of one library: seconds to bin, and of an iteration on the clock and of the processors, one value a turn."""

    build: float = 0.0
    iteration: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    model: Any = None

    @property
    def median(self) -> float:
        """Median milliseconds of an iteration."""
        return statistics.median(self.iteration) * 1e3

    @property
    def fastest(self) -> float:
        """Fewest milliseconds of an iteration."""
        return min(self.iteration) * 1e3


def seconds(library: Library, built: Any, iterations: int) -> tuple[float, float, Any]:
    """Train once: seconds on the clock, seconds of all processors, the model."""
    wall, busy = time.perf_counter(), time.process_time()
    model = library.train(built, iterations)
    return time.perf_counter() - wall, time.process_time() - busy, model


def in_turns(libraries: Mapping[str, Library], data: Data, short: int, iterations: int, turns: int) -> dict[str, Times]:
    """Time trainings of all libraries, which take turns so that a busy machine slows all of them.

    Each is warmed up first (`short` iterations); then a turn is a training of `short` and one of `short + iterations`.
    """
    found = {name: Times() for name in libraries}
    built = {}
    for name, library in libraries.items():
        begin = time.perf_counter()
        built[name] = library.build(data)
        found[name].build = time.perf_counter() - begin
        library.train(built[name], short)
    names = list(libraries)
    for turn in range(turns):
        first = turn % len(names)
        for name in names[first:] + names[:first]:  # nobody always runs after the same neighbour
            gc.collect()
            times = found[name]
            wall, busy, _ = seconds(libraries[name], built[name], short)
            whole_wall, whole_busy, times.model = seconds(libraries[name], built[name], short + iterations)
            times.iteration.append((whole_wall - wall) / iterations)
            times.processor.append((whole_busy - busy) / iterations)
            print(f"  {name} {times.iteration[-1] * 1e3:.2f} ms", file=sys.stderr, flush=True)
    return found


def show(rows: list[list[str]]) -> None:
    """Print a Markdown table, the first row as its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|", flush=True)

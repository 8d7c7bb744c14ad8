"""Models of every kind, made of random trees, and the predictors of other libraries."""

from __future__ import annotations

import ctypes
import math
import subprocess
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.convert.outgoing import Outgoing
from hornbeam.data.levels import Levels
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file import ModelData
from hornbeam.testing.trees import random_tree, with_categorical_splits

THRESHOLDS = [0.0, -0.0, 0.1, -0.1, 1.0, 0.30000000000000004, 2.5, -2.5, 1e-300, 1e300, -1e300, 16777217.0, math.inf]
FLOAT32 = [float(np.float32(own)) for own in (0.0, 0.1, -0.1, 1.0, 0.3, 2.5, -2.5, 1e-40, 1e38, -1e38, 16777216.0)]

INTEGERS = Levels((3, 0, 17, 5, 40, 1))
WITH_MISSING = Levels((2, 0, None, 9))
STRINGS = Levels(("red", "blue", 'a "quoted", \\ word??/', "grün", "", "x\ny"))
FLAGS = Levels((True, False))
ENCODED = EncodedLevels((4, 0, 11), numbers=np.array([0.25, -1.5, 0.1]), missing=0.75, other=0.0)
ENCODED_STRINGS = EncodedLevels(("a", "b", "é"), numbers=np.array([0.1, 1.0, -0.1]), missing=2.5, other=0.3)


def make_model(
    objective: dict[str, Any],
    levels: list[Any],
    n_outputs: int = 1,
    n_iterations: int = 5,
    thresholds: Any = THRESHOLDS,
    params: dict[str, Any] | None = None,
    init: float = 0.3,
    best_iteration: int = 0,
    n_leaves: int = 14,
    seed: int = 0,
) -> ModelData:
    """Return a model of random trees; `levels` has an entry a feature, None for one of numbers."""
    rng = np.random.default_rng(seed)
    coded = {i: len(own) for i, own in enumerate(levels) if own is not None and own.is_coded}
    trees = []
    for number in range(n_iterations * n_outputs):
        tree = random_tree(rng, 1 if number == 2 else n_leaves, len(levels), thresholds)
        trees.append(with_categorical_splits(rng, tree, coded))
    return ModelData(
        feature_names=[f"column{i}" for i in range(len(levels))],
        n_outputs=n_outputs,
        objective=objective,
        params={"objective": objective["name"], **(params or {})},
        init_scores=[init + i for i in range(n_outputs)],
        best_iteration=best_iteration,
        trees=trees,
        levels=levels if any(own is not None for own in levels) else None,
    )


NUMBERS = [None, None, None]

MODELS = {
    "numbers": lambda: make_model({"name": "regression"}, NUMBERS),
    "float32": lambda: make_model({"name": "regression"}, NUMBERS, thresholds=FLOAT32),
    "binary": lambda: make_model({"name": "binary", "sigmoid": 1.0}, NUMBERS, thresholds=FLOAT32, seed=1),
    "slope": lambda: make_model({"name": "binary", "sigmoid": 0.7}, NUMBERS, params={"sigmoid": 0.7}, seed=2),
    "square": lambda: make_model({"name": "regression", "reg_sqrt": True}, NUMBERS, params={"reg_sqrt": True}, seed=3),
    "step": lambda: make_model({"name": "hinge"}, NUMBERS, thresholds=FLOAT32, seed=20),
    "softplus": lambda: make_model({"name": "cross_entropy_lambda"}, NUMBERS, thresholds=FLOAT32, seed=21),
    "poisson": lambda: make_model({"name": "poisson"}, NUMBERS, thresholds=FLOAT32, seed=4),
    "classes": lambda: make_model(
        {"name": "multiclass", "num_class": 3}, NUMBERS, 3, 4, FLOAT32, params={"num_class": 3}, seed=5
    ),
    "one_vs_all": lambda: make_model(
        {"name": "multiclassova", "num_class": 3, "sigmoid": 1.0}, NUMBERS, 3, 4, params={"num_class": 3}, seed=6
    ),
    "function": lambda: make_model(
        {"name": "custom", "num_class": 2}, NUMBERS, 2, 5, FLOAT32, params={"num_class": 2}, seed=17
    ),
    "columns": lambda: make_model({"name": "poisson", "n_targets": 3}, NUMBERS, 3, 4, FLOAT32, seed=18),
    "labels": lambda: make_model({"name": "binary", "sigmoid": 1.0, "n_targets": 2}, NUMBERS, 2, 4, FLOAT32, seed=19),
    "best": lambda: make_model({"name": "regression"}, NUMBERS, thresholds=FLOAT32, best_iteration=3, seed=7),
    "empty": lambda: make_model({"name": "regression"}, NUMBERS, n_iterations=0, seed=8),
    "deep": lambda: make_chain(),
    "integers": lambda: make_model({"name": "regression"}, [INTEGERS, None, FLAGS], thresholds=FLOAT32, seed=9),
    "missing_level": lambda: make_model({"name": "regression"}, [WITH_MISSING, None], thresholds=FLOAT32, seed=10),
    "strings": lambda: make_model({"name": "regression"}, [None, STRINGS, INTEGERS], thresholds=FLOAT32, seed=11),
    "encoded": lambda: make_model({"name": "regression"}, [ENCODED, None, ENCODED_STRINGS], seed=12),
    "zeros": lambda: make_model(
        {"name": "regression"}, [None, INTEGERS, None], params={"zero_as_missing": True}, thresholds=FLOAT32, seed=13
    ),
    "forest": lambda: make_model({"name": "regression"}, NUMBERS, params={"boosting": "rf"}, init=0.0, seed=14),
    "forest_classes": lambda: make_model(
        {"name": "multiclass", "num_class": 3}, NUMBERS, 3, 4, params={"num_class": 3, "boosting": "rf"}, seed=16
    ),
    "forest_start": lambda: make_model(
        {"name": "regression"}, NUMBERS, n_iterations=6, params={"boosting": "rf"}, init=0.9440796903874367, seed=15
    ),
}


def make_chain(n_splits: int = 150) -> ModelData:
    """Return a model of one tree as deep as it has splits, and one of a single leaf."""
    rng = np.random.default_rng(0)
    chain = random_tree(rng, n_splits + 1, 2, np.arange(-40, 41) / 4)
    numbers = np.arange(n_splits, dtype=np.int32)
    right = np.where(numbers + 1 < n_splits, numbers + 1, ~n_splits).astype(np.int32)
    chain = replace(chain, left=~numbers, right=right, threshold=np.sort(chain.threshold))
    return ModelData(
        ["a", "b"], 1, {"name": "regression"}, {"objective": "regression"}, [0.5], 0, [chain, random_tree(rng, 1, 2)]
    )


@pytest.fixture(params=MODELS, scope="session")
def any_model(request: pytest.FixtureRequest) -> tuple[str, ModelData]:
    """Every model in turn, with its name."""
    return request.param, MODELS[request.param]()


@pytest.fixture(scope="session")
def models() -> dict[str, Any]:
    """Functions that make the models, by name."""
    return MODELS


def to_table(model: ModelData, rows: np.ndarray) -> Any:
    """Return the rows as Hornbeam takes them: a frame with strings where levels are strings."""
    columns = Outgoing(model).columns
    if not any(column.has_strings for column in columns):
        return rows
    import pandas as pd

    made = {}
    for i, column in enumerate(columns):
        if column.has_strings:
            words = [own for own in column.levels.values if own is not None]
            made[column.name] = pd.Series([_word(words, number) for number in rows[:, i].tolist()], dtype=object)
        else:
            made[column.name] = rows[:, i]
    return pd.DataFrame(made)


def _word(words: list[str], number: float) -> str | None:
    if number != number:
        return None
    return words[int(number)] if 0 <= number < len(words) else f"unseen {number}"


@pytest.fixture(scope="session")
def table_of() -> Any:
    return to_table


def for_strings(model: ModelData, rows: np.ndarray) -> np.ndarray:
    """Return rows without negative categories where levels are strings: a string has no negative number."""
    made = rows.copy()
    for i, column in enumerate(Outgoing(model).columns):
        if column.has_strings:
            made[:, i] = np.where(made[:, i] < 0, len(column.levels.values) + 3, made[:, i])
    return made


@pytest.fixture(scope="session")
def rows_of() -> Any:
    """Function (model, dtype, infinities) -> rows at the edges of the model's splits."""
    from hornbeam.testing.edge_rows import edge_rows

    return lambda model, dtype=np.float64, infinities=True: for_strings(model, edge_rows(model, dtype, infinities))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Function (C source) -> library with predict, predict_raw and level, compiled without a single warning."""
    folder: Path = tmp_path_factory.mktemp("c")
    numbers = count()

    def build(source: bytes, *flags: str) -> Any:
        number = next(numbers)
        file, library = folder / f"model{number}.c", folder / f"model{number}.so"
        file.write_bytes(source)
        command = ["cc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC", *flags]
        done = subprocess.run([*command, "-o", str(library), str(file)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return ctypes.CDLL(str(library))

    return build


def score_rows(function: Any, rows: np.ndarray, n_outputs: int) -> np.ndarray:
    """Call a function of a C library for every row."""
    pointer = ctypes.POINTER(ctypes.c_double)
    rows, result = np.ascontiguousarray(rows), np.empty((len(rows), n_outputs))
    for row, out in zip(rows, result, strict=True):
        function(row.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
    return result


@pytest.fixture(scope="session")
def call_c() -> Any:
    return score_rows


@pytest.fixture(scope="session")
def expected() -> Any:
    """Function (model, table) -> raw scores and predictions of Hornbeam, each (n_rows, n_outputs)."""

    def predict(model: ModelData, table: Any) -> tuple[np.ndarray, np.ndarray]:
        booster = hb.Booster(model)
        shape = (-1, model.n_outputs)
        return booster.predict(table, raw_score=True).reshape(shape), booster.predict(table).reshape(shape)

    return predict

"""Linear leaves in files of LightGBM, there and back, and in formats that have none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hornbeam as hb

lightgbm = pytest.importorskip("lightgbm")

PARAMS = {"linear_tree": True, "num_leaves": 7, "min_data_in_leaf": 5, "verbosity": -1}
TASKS = {
    "regression": {"objective": "regression", "linear_lambda": 0.1},
    "binary": {"objective": "binary", "learning_rate": 0.3},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "forest": {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
}


def problem(task: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 5)).astype(np.float32).astype(np.float64)
    y = 3.0 * X[:, 0] * (X[:, 1] > 0) + X[:, 2] ** 2
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.digitize(y, [0.5] if task == "binary" else [-0.5, 1.5]) if task in ("binary", "multiclass") else y


def predictions(model, X: np.ndarray, task: str) -> np.ndarray:
    """Return raw scores; those of a forest are sums in LightGBM, so that its predictions are compared."""
    return model.predict(X, raw_score=task != "forest")


@pytest.mark.parametrize("task", TASKS)
def test_lightgbm_predicts_what_hornbeam_does(task, tmp_path):
    X, y = problem(task)
    booster = hb.train({**PARAMS, **TASKS[task]}, hb.Dataset(X, label=y), 5)
    path = tmp_path / "model.txt"
    with pytest.raises(hb.ConversionError, match=r"linear leaves whose values have bounds.*approximate=True"):
        booster.save(path, format="lightgbm")
    booster.save(path, format="lightgbm", approximate=True)
    theirs, again = predictions(lightgbm.Booster(model_file=str(path)), X, task), hb.load(path)
    assert again.params["linear_tree"] is True
    np.testing.assert_allclose(predictions(again, X, task), theirs, rtol=1e-12)
    is_same = np.isclose(predictions(booster, X, task), theirs, rtol=1e-12, atol=0.0)
    assert is_same.mean() > 0.8 if task == "forest" else is_same.all()  # rows in no bag may be beyond the bounds


@pytest.mark.parametrize("task", TASKS)
def test_models_of_lightgbm_are_read(task, tmp_path):
    X, y = problem(task)
    theirs = lightgbm.train({**PARAMS, **TASKS[task]}, lightgbm.Dataset(X, label=y), 5)
    path = tmp_path / "model.txt"
    theirs.save_model(path)
    ours, expected = hb.load(path), predictions(theirs, X, task)
    assert any(tree.linear is not None for tree in ours.trees)
    np.testing.assert_allclose(predictions(ours, X, task), expected, rtol=1e-12)
    ours.save(tmp_path / "ours.txt", format="lightgbm")
    assert np.array_equal(predictions(lightgbm.Booster(model_file=str(tmp_path / "ours.txt")), X, task), expected)


def test_a_part_of_a_model_that_begins_with_linear_leaves_is_written_with_its_start(tmp_path):
    X, y = problem("regression")
    part = hb.train({**PARAMS, **TASKS["regression"]}, hb.Dataset(X, label=y + 10.0), 4)[2:]
    assert part.trees[0].linear is not None
    part.save(tmp_path / "model.txt", format="lightgbm", approximate=True)
    theirs = lightgbm.Booster(model_file=str(tmp_path / "model.txt"))
    np.testing.assert_allclose(theirs.predict(X), part.predict(X), rtol=1e-12)


def test_dump_and_table_of_nodes_have_the_fields_of_lightgbm():
    X, y = problem("regression")
    booster = hb.train({**PARAMS, **TASKS["regression"]}, hb.Dataset(X, label=y), 3)
    theirs = lightgbm.train({**PARAMS, **TASKS["regression"]}, lightgbm.Dataset(X, label=y), 3)

    def leaf_of(dumped):
        node = dumped["tree_info"][1]["tree_structure"]
        while "split_index" in node:
            node = node["left_child"]
        return node

    ours, other = leaf_of(booster.dump_model()), leaf_of(theirs.dump_model())
    assert ours.keys() == other.keys() | {"leaf_low", "leaf_high"}
    linear = booster.trees[1].linear
    assert linear is not None
    leaf = ours["leaf_index"]
    assert (ours["leaf_features"], ours["leaf_coeff"]) == tuple(each[leaf] for each in linear.lists())
    assert ours["leaf_const"] == linear.const[leaf]
    assert (ours["leaf_low"], ours["leaf_high"]) == (linear.low[leaf], linear.high[leaf])
    assert list(booster.trees_to_dataframe().columns) == list(theirs.trees_to_dataframe().columns)


@pytest.mark.parametrize("format", ["xgboost-json", "onnx", "c", "python"])
def test_formats_without_linear_leaves_refuse_them(format, tmp_path):
    X, y = problem("regression")
    booster = hb.train({**PARAMS, **TASKS["regression"]}, hb.Dataset(X, label=y), 3)
    for approximate in (False, True):
        with pytest.raises(hb.ConversionError, match="linear leaves"):
            booster.save(tmp_path / "model", format=format, approximate=approximate)
    assert list(Path(tmp_path).iterdir()) == []


def test_zeros_that_are_missing_beside_linear_leaves_are_not_written(tmp_path):
    X, y = problem("regression")
    params = {**PARAMS, **TASKS["regression"], "zero_as_missing": True}
    booster = hb.train(params, hb.Dataset(X, label=y), 3)
    with pytest.raises(hb.ConversionError, match="zero_as_missing"):
        booster.save(tmp_path / "model.txt", format="lightgbm")


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        (r"num_features=\d+", "num_features=-1", "num_features"),
        (r"leaf_features=\d", "leaf_features=9", "features"),
        (r"leaf_coeff=\S+", "leaf_coeff=x", "leaf_coeff"),
        (r"leaf_const=\S+ ", "leaf_const=", "leaf_const"),
    ],
)
def test_damaged_linear_leaves_are_named(pattern, text, message, tmp_path):
    X, y = problem("regression")
    theirs = lightgbm.train({**PARAMS, **TASKS["regression"]}, lightgbm.Dataset(X, label=y), 2).model_to_string()
    first, second = theirs.split("Tree=1")
    damaged = re.sub(pattern, text, second, count=1)
    assert damaged != second
    path = tmp_path / "model.txt"
    path.write_text(f"{first}Tree=1{damaged}")
    with pytest.raises(hb.ModelFormatError, match=message):
        hb.load(path)

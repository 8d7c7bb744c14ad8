"""Estimators with arrays on a CUDA device, with a stand-in for CuPy (pretend_cupy.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyopencl")
pytest.importorskip("sklearn")

from hornbeam import HornbeamClassifier, HornbeamRanker, HornbeamRegressor
from hornbeam.core.errors import DataError
from hornbeam.testing.checks import assert_same_bits, usable_devices

_place = importlib.util.spec_from_file_location("pretend_cupy", Path(__file__).with_name("pretend_cupy.py"))
pretend_cupy = importlib.util.module_from_spec(_place)
_place.loader.exec_module(pretend_cupy)
Array = pretend_cupy.Array

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

PARAMS = {"n_estimators": 3, "num_leaves": 5, "verbosity": -1, "device": "cuda"}
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 4)).astype(np.float32)
SCORE = X[:, 0] + 0.3 * rng.standard_normal(400)
WEIGHT = rng.random(400) + 0.1


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    module = pretend_cupy.install_device(monkeypatch)
    Array.copies.clear()
    return module


def fit_both(kind, y, **more):
    """Fit with everything on the device and with everything on the host."""
    fit = {name: more.pop(name) for name in ("sample_weight", "group") if name in more}
    found = []
    for wrap in (Array, np.asarray):
        model = kind(**PARAMS, **more)
        given = {name: wrap(np.asarray(value)) for name, value in fit.items()}
        own = {} if kind is HornbeamRanker else {"eval_set": [(wrap(X[:99].copy()), wrap(y[:99].copy()))]}
        found.append(model.fit(wrap(X), wrap(y), **given, **own))
    assert found[0].booster_.fingerprint() == found[1].booster_.fingerprint()
    assert found[0].evals_result_ == found[1].evals_result_
    assert found[0].n_features_in_ == 4
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_regressor_gives_results_back_where_the_input_was(weighted):
    on_device, on_host = fit_both(HornbeamRegressor, SCORE, **({"sample_weight": WEIGHT} if weighted else {}))
    assert max(Array.copies, default=0) <= X.nbytes  # bins are found from samples, which are all rows here
    result = on_device.predict(Array(X))
    assert isinstance(result, Array)
    assert_same_bits(result.get(), on_host.predict(X), "predict")
    assert on_device.score(Array(X), Array(SCORE), Array(WEIGHT)) == on_host.score(X, SCORE, WEIGHT)


@pytest.mark.parametrize(
    ("y", "more"),
    [
        ((SCORE > 0.2).astype(np.float32), {}),
        ((SCORE > 0.2), {}),
        (np.where(SCORE > 0.2, 7, -3), {}),
        (np.digitize(SCORE, [-0.5, 0.5]).astype(np.int8), {}),
        (np.digitize(SCORE, [-0.5, 0.5]) * 10, {"objective": "multiclassova"}),
        (np.zeros(400, np.int32), {}),
        ((SCORE > 0.2).astype(np.int64), {"class_weight": "balanced", "sample_weight": WEIGHT}),
    ],
)
def test_classifier_gives_results_back_where_the_input_was(y, more):
    on_device, on_host = fit_both(HornbeamClassifier, y, **more)
    assert on_device.classes_.tolist() == on_host.classes_.tolist()
    assert on_device.classes_.dtype == on_host.classes_.dtype
    for name in ("predict_proba", "predict"):
        result, expected = getattr(on_device, name)(Array(X)), getattr(on_host, name)(X)
        assert isinstance(result, Array)
        assert_same_bits(result.get(), expected, name)
    assert isinstance(on_device.predict(Array(X), raw_score=True), Array)
    assert on_device.score(Array(X), Array(y)) == on_host.score(X, y)


def test_classes_of_strings_come_back_in_host_memory():
    y = np.where(SCORE > 0.2, "yes", "no")
    model = HornbeamClassifier(**PARAMS).fit(Array(X), y)
    assert model.predict(Array(X)).tolist() == model.predict(X).tolist()


def test_ranker_takes_arrays_on_the_device():
    y = np.clip(np.round(SCORE) + 1, 0, 3)
    on_device, on_host = fit_both(HornbeamRanker, y, group=[100] * 4)
    assert_same_bits(on_device.predict(Array(X)).get(), on_host.predict(X), "predict")
    assert on_device.score(Array(X), Array(y), group=[100] * 4) == on_host.score(X, y, group=[100] * 4)


def test_labels_on_the_device_go_with_data_on_the_host():
    y = (SCORE > 0.2).astype(np.float32)
    mixed = HornbeamClassifier(**PARAMS).fit(X, Array(y), sample_weight=WEIGHT)
    plain = HornbeamClassifier(**PARAMS).fit(X, y, sample_weight=WEIGHT)
    assert mixed.booster_.fingerprint() == plain.booster_.fingerprint()


@pytest.mark.parametrize("kind", [HornbeamRegressor, HornbeamClassifier])
def test_labels_of_several_columns_are_those_of_host_memory(kind):
    label = np.stack([SCORE, 1.0 - 2.0 * SCORE], axis=1)
    if kind is HornbeamClassifier:
        label = (label > 0.2).astype(int)
    models = [kind(**PARAMS).fit(wrap(X), wrap(label)).booster_.fingerprint() for wrap in (Array, np.asarray)]
    assert models[0] == models[1]


def test_rows_of_no_weight_are_left_out():
    weight = np.where(np.arange(400) % 3, WEIGHT, 0.0)
    fit_both(HornbeamRegressor, SCORE, sample_weight=weight)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": Array(np.zeros(4))}, "2 dimensions"),
        ({"y": Array(np.zeros((400, 2, 2)))}, "dimension"),
        ({"y": Array(np.zeros(0))}, "y is empty"),
        ({"y": Array(np.full(400, np.nan))}, r"y\[0\] is nan"),
        ({"y": Array(SCORE)}, "no classes"),
        ({"sample_weight": Array(-WEIGHT)}, "weights must be >= 0"),
        ({"eval_set": [(Array(X), Array(np.full(400, 5)))]}, r"there are classes that fit has not seen \(5\)"),
    ],
)
def test_wrong_arrays_are_named(change, match):
    given = {"X": Array(X), "y": Array((SCORE > 0.2).astype(int)), **change}
    with pytest.raises(DataError, match=match):
        HornbeamClassifier(**PARAMS).fit(**given)
    with pytest.raises(ValueError, match="features"):
        HornbeamRegressor(**PARAMS).fit(Array(X), Array(SCORE)).predict(Array(X[:, :3]))

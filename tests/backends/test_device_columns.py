"""Labels, weights and initial scores on a CUDA device, with a stand-in for CuPy (pretend_cupy.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyopencl")

from hornbeam.backends.columns import find_facts
from hornbeam.backends.demand import Demand
from hornbeam.backends.gpu.data.columns import DeviceSums
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.errors import DataError
from hornbeam.data.columns import DeviceColumn
from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives import get_objective
from hornbeam.objectives.device_functions import on_device
from hornbeam.objectives.label_sums import HostSums
from hornbeam.params.params import Params
from hornbeam.testing.checks import assert_same_bits, usable_devices
from hornbeam.training.training import train

_place = importlib.util.spec_from_file_location("pretend_cupy", Path(__file__).with_name("pretend_cupy.py"))
pretend_cupy = importlib.util.module_from_spec(_place)
_place.loader.exec_module(pretend_cupy)
Array = pretend_cupy.Array

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

N_ROWS = 500
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@pytest.fixture
def cupy(monkeypatch):
    """Let trainings on "cuda" run on the stand-in, and count what comes to the host from now on."""
    module = pretend_cupy.install_device(monkeypatch)
    Array.copies.clear()
    return module


def make_data(objective: str = "regression") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N_ROWS, 4)).astype(np.float32)
    score = X[:, 0] + 0.5 * rng.standard_normal(N_ROWS)
    y = {
        "binary": (score > 0.3).astype(float),
        "classes": np.digitize(score, [-0.5, 0.5]).astype(float),
        "unit": np.round(1.0 / (1.0 + np.exp(-score)), 3),
        "positive": np.exp(score),
        "real": score,
        "levels": np.clip(np.round(score) + 1.0, 0.0, 4.0),
    }[objective]
    return X, y, rng.random(N_ROWS).astype(np.float32)


def make_numbers(dtype: str) -> np.ndarray:
    values = np.random.default_rng(0).normal(size=3 * N_ROWS) * 30.0
    values[::7] = 1.0
    return np.clip(values, 0.0 if dtype[0] in "u?" else -100.0, 100.0).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_facts_and_sums_are_those_of_the_host(cupy, dtype):
    given = make_numbers(dtype)[::3]
    weight = np.random.default_rng(1).random(N_ROWS).astype(np.float32)
    data = Dataset(np.zeros((N_ROWS, 1)), Array(given), weight=Array(weight))
    label, on_device, host = data.column("label", "cuda:0"), data.column("weight", "cuda:0"), given.astype(np.float64)
    assert not Array.copies and isinstance(label, DeviceColumn)
    facts = label.facts
    assert (facts.n, facts.all_finite, facts.all_whole) == (N_ROWS, True, bool((host == np.floor(host)).all()))
    assert (facts.smallest, facts.largest) == (host.min(), host.max())
    assert (facts.n_nonzero, facts.n_positive) == (np.count_nonzero(host), np.count_nonzero(host > 0.0))
    for weights, own in ((None, None), (on_device, weight.astype(np.float64))):
        found, expected = DeviceSums(label, weights), HostSums(host, own)
        assert found.mean() == expected.mean()
        assert found.mean_of_class(1) == expected.mean_of_class(1)
        if own is not None:
            assert found.share_of_class(1) == expected.share_of_class(1)
    assert_same_bits(data.label, host, "label")
    assert data.label is data.label


def test_facts_tell_what_is_not_finite(cupy):
    for value in (np.nan, np.inf, -np.inf):
        facts = DeviceColumn(Array(np.array([0.5, value, -2.0, 0.0])), find_facts).facts
        assert not facts.all_finite and (facts.smallest, facts.largest, facts.n_nonzero) == (-2.0, 0.5, 2)


PLAIN = {
    "regression": "real",
    "binary": "binary",
    "cross_entropy": "unit",
    "focal": "binary",
    "poisson": "positive",
    "gamma": "positive",
    "huber": "real",
    "pseudohuber": "real",
    "multiclass": "classes",
    "multiclassova": "classes",
}
METRICS = {"binary": "auc,binary_logloss,average_precision", "classes": "multi_logloss,multi_error"}


def train_both(objective: str, labels: str, *, weighted: bool, dtype: type, **more) -> list[int]:
    """Train with labels on the device and on the host; returns the sizes of what came to the host meanwhile."""
    X, y, w = make_data(labels)
    group = [N_ROWS // 5] * 5 if labels == "levels" else None
    params = {"objective": objective, "num_leaves": 5, "device": "cuda", "verbosity": -1, **more}
    params |= {"metric": METRICS[labels]} if labels in METRICS else {}
    params |= {"num_class": 3} if labels == "classes" else {}
    found, copies = [], []
    for wrap in (Array, np.asarray):
        Array.copies.clear()
        weight, part = (wrap(w), wrap(w[::2])) if weighted else (None, None)
        data = Dataset(X, wrap(y.astype(dtype)), weight=weight, group=group)
        valid = Dataset(X[::2].copy(), wrap(y[::2].astype(dtype)), weight=part, reference=data)
        booster = train(params, data, 3, None if group else {"valid": valid, "training": data})
        found.append((booster.fingerprint(), booster.eval_history))
        copies.append(list(Array.copies))
    assert found[0] == found[1]
    return copies[0]


@pytest.mark.sampled
@pytest.mark.parametrize("objective", PLAIN)
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_of_a_plain_training_comes_to_the_host(cupy, objective, weighted):
    assert train_both(objective, PLAIN[objective], weighted=weighted, dtype=np.float32) == []


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.int64, np.bool_])
def test_model_is_the_same_whatever_type_the_labels_have(cupy, dtype):
    assert train_both("binary", "binary", weighted=False, dtype=dtype) == []


@pytest.mark.parametrize(
    ("objective", "labels", "more"),
    [
        ("regression_l1", "real", {}),
        ("mape", "real", {}),
        ("quantile", "real", {}),
        ("logcosh", "real", {}),
        ("expectile", "real", {}),
        ("regression", "real", {"reg_sqrt": True}),
        ("binary", "binary", {"scale_pos_weight": 2.0}),
        ("multiclassova", "classes", {"is_unbalance": True}),
        ("binary", "binary", {"bagging_freq": 1, "pos_bagging_fraction": 0.5}),
        ("regression", "real", {"boosting": "dart"}),
        ("binary", "binary", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
        ("binary", "binary", {"data_sample_strategy": "goss", "learning_rate": 1.0}),
        ("lambdarank", "levels", {}),
        ("regression", "real", {"boost_from_average": False}),
    ],
)
def test_model_is_that_of_host_labels_in_every_mode(cupy, objective, labels, more):
    train_both(objective, labels, weighted=objective != "lambdarank", dtype=np.float32, **more)


@pytest.mark.sampled
@pytest.mark.parametrize("shape", ["(n,)", "(n, k)", "(k, n)", "flat"])
@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_initial_scores_stay_on_the_device(cupy, shape, boosting):
    X, y, _ = make_data("real" if shape == "(n,)" else "classes")
    rng = np.random.default_rng(3)
    start = rng.standard_normal((N_ROWS, 3)).astype(np.float32)
    given = {"(n,)": start[:, 0], "(n, k)": start, "(k, n)": start.T, "flat": start.T.reshape(-1)}[shape]
    params = {"objective": "regression", "num_leaves": 5, "device": "cuda", "boosting": boosting, "verbosity": -1}
    params |= {} if shape == "(n,)" else {"objective": "multiclass", "num_class": 3}
    found = []
    for wrap in (Array, np.asarray):
        Array.copies.clear()
        data = Dataset(X, wrap(y), init_score=wrap(given))
        valid = Dataset(X[:100], wrap(y[:100]), init_score=wrap(start[:100, : 1 if shape == "(n,)" else 3]))
        booster = train(params, data, 3, {"valid": valid})
        found.append((booster.fingerprint(), booster.eval_history))
        assert boosting == "dart" or not Array.copies
    assert found[0] == found[1]


def test_float64_and_bytes_are_read_where_they_are(cupy, monkeypatch):
    X, y, w = make_data("binary")
    seen = {}
    close = Workspace.close

    def watched(self):
        seen.update({name: self.buffer(name) for name in ("label", "weight")}, bytes=self.peak_bytes)
        close(self)

    monkeypatch.setattr(Workspace, "close", watched)
    params = {"objective": "binary", "num_leaves": 5, "device": "cuda", "verbosity": -1}
    label, weight = Array(y.astype(np.uint8)), Array(w.astype(np.float64))
    data = Dataset(X, label, weight=weight)
    train(params, data, 2)
    assert seen["label"] is label and seen["weight"] is weight  # the same memory, and no byte of it taken anew
    assert data.column("label", "cuda:0").array is label
    own, given = Params.from_dict(params), (data.given("label"), data.given("weight"))
    assert Demand.of(own, data.binned, get_objective(own), None, *given).given_bytes == 0
    floats = Dataset(X, Array(y.astype(np.float32)))
    assert Demand.of(own, floats.binned, get_objective(own), None, floats.given("label")).given_bytes == N_ROWS


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("label", [0.0, np.nan, 1.0], r"label\[1\] is nan"),
        ("label", [0.0, 1.0, -1e39], r"label\[2\] is -1e\+39; magnitudes"),
        ("label", [[[0.0, 1.0]]] * 3, "label must have one dimension"),
        ("label", [0.0, 1.0], "label has 2 values and data 3 rows"),
        ("label", [0j, 1j, 2j], "label has dtype complex128"),
        ("weight", [1.0, -1.0, 1.0], r"weight\[1\] is -1.0; weights must be >= 0"),
        ("weight", [0.0, 0.0, 0.0], "weight is zero in every row"),
        ("weight", [1.0, np.inf, 1.0], r"weight\[1\] is inf"),
        ("init_score", [0.0, np.nan, 1.0], r"init_score\[\(0, 1\)\] is nan"),
        ("init_score", [0.0, 1.0], r"init_score has shape \(2,\)"),
    ],
)
def test_what_is_wrong_is_said_as_of_host_arrays(cupy, name, value, match):
    for wrap in (np.array, lambda given: Array(np.array(given))):
        with pytest.raises(DataError, match=match):
            Dataset(np.zeros((3, 1)), **{name: wrap(value)})


@pytest.mark.parametrize(
    ("objective", "label", "match"),
    [
        ("binary", [0.0, 1.0, 2.0], r"takes labels 0 and 1, but label\[2\] is 2.0"),
        ("cross_entropy", [0.0, 0.5, 1.5], r"outside \[0, 1\], but label\[2\]"),
        ("poisson", [0.0, -1.0, 1.0], r"< 0, but label\[1\]"),
        ("gamma", [1.0, 0.0, 1.0], r"<= 0, but label\[1\]"),
        ("multiclass", [0.0, 1.0, 1.5], r"whole labels 0 to 2, but label\[2\]"),
        ("multiclass", [0.0, 3.0, 1.0], r"whole labels 0 to 2, but label\[1\]"),
        ("lambdarank", [0.0, 1.0, 1.5], "label"),
        ("poisson", [0.0, 0.0, 0.0], "every label"),
    ],
)
def test_domains_are_checked_on_the_device(cupy, objective, label, match):
    params = {"objective": objective, "device": "cuda", "verbosity": -1}
    params |= {"num_class": 3} if objective == "multiclass" else {}
    for wrap in (np.asarray, Array):
        data = Dataset(np.zeros((3, 1)), wrap(np.array(label)), group=[3] if objective == "lambdarank" else None)
        with pytest.raises(DataError, match=match):
            train(params, data, 1)


def test_weights_of_queries_may_be_on_the_device(cupy):
    data = Dataset(np.zeros((5, 1)), group=[2, 3], weight=Array(np.array([1.0, 2.0])))
    assert data.weight.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0]


@pytest.mark.skipif("cuda:0" in usable_devices(), reason="CuPy itself is here: see verify")
def test_functions_on_the_device_see_the_labels_where_they_are(cupy):
    X, y, w = make_data("real")
    given = Array(y), Array(w.astype(np.float64)), Array(np.zeros(N_ROWS, np.float32))
    seen = []

    @on_device
    def squared(scores, data):
        seen.append((data.label, data.weight, data.init_score))
        return scores - data.label, data.xp.ones_like(scores)

    params = {"objective": squared, "num_leaves": 5, "device": "cuda", "verbosity": -1}
    data = Dataset(X, given[0], weight=given[1], init_score=given[2])
    found = train(params, data, 2)
    assert not Array.copies
    label, weight, init_score = seen[0]
    assert label.host.base is y and np.shares_memory(weight.host, given[1].host)  # the very memory
    assert init_score.dtype == np.float64 and init_score.shape == (1, N_ROWS)
    on_host = Dataset(X, y, weight=w, init_score=np.zeros(N_ROWS))
    assert found.fingerprint() == train({**params, "device": "cpu"}, on_host, 2).fingerprint()


def test_training_goes_on_from_a_model_without_the_host(cupy):
    X, y, _ = make_data("binary")
    params = {"objective": "binary", "num_leaves": 5, "device": "cuda", "bin_construct_sample_cnt": 100}
    params |= {"min_data_in_bin": 1, "verbosity": -1}
    found = []
    for wrap in (Array, np.asarray):
        data = Dataset(wrap(X), wrap(y))
        valid = Dataset(wrap(X[::2].copy()), wrap(y[::2]), reference=data)
        first = train(params, data, 2)
        Array.copies.clear()
        booster = train(params, data, 2, {"valid": valid}, init_model=first)
        assert not Array.copies
        found.append((booster.fingerprint(), booster.eval_history))
        assert booster.fingerprint() == train(params, data, 4).fingerprint()
    assert found[0] == found[1]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("encoded", [False, True])
def test_only_categorical_columns_travel_in_binning(cupy, dtype, encoded):
    X, y, _ = make_data("binary")
    X = np.round(X * 8.0).astype(dtype)
    X[:, 1] = np.arange(N_ROWS) % 30 - 1
    X[:, 3] = np.where(X[:, 0] > 3, 2, np.arange(N_ROWS) % 3)
    params = {"objective": "binary", "num_leaves": 9, "device": "cuda", "bin_construct_sample_cnt": 100}
    params |= {"target_encoding_levels": 5 if encoded else -1, "min_data_per_group": 5, "verbosity": -1}
    found = []
    for wrap in (Array, np.asarray):
        Array.copies.clear()
        data = Dataset(wrap(X), wrap(y), categorical_features=[1, 3])
        valid = Dataset(wrap(X[::2].copy()), wrap(y[::2]), reference=data)
        booster = train(params, data, 4, {"valid": valid})
        found.append((booster.fingerprint(), booster.eval_history))
        if wrap is Array:
            assert data.binned.on_device is not None and valid.binned.on_device is not None
            assert max(Array.copies) <= max(X[:, 1].nbytes, y.nbytes if encoded else 0, X[:100].nbytes)
    assert found[0] == found[1]

"""Prediction on GPUs: the same bits as on the CPU, for every kind of output."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyopencl")

from hornbeam import Dataset, train
from hornbeam.backends.gpu import predict as gpu
from hornbeam.backends.gpu.predict import forest_on
from hornbeam.backends.gpu.runtime import opencl
from hornbeam.backends.gpu.runtime.device_table import DeviceTable
from hornbeam.backends.prediction import predict_leaf, predict_raw
from hornbeam.core.errors import DataError, DeviceError, ParameterError
from hornbeam.data.sources.opening import open_table
from hornbeam.objectives import get_objective
from hornbeam.params.params import Params
from hornbeam.testing.checks import assert_same_bits, usable_devices
from hornbeam.testing.data import make_higgs_like
from hornbeam.testing.trees import random_tree
from hornbeam.trees.forest import ArrayReader, Forest

GPUS = [name for name in usable_devices() if name.split(":")[0] in ("cuda", "opencl")]
SPECIAL = np.array([-np.inf, -1.0, -0.0, 0.0, 0.25, 1e-40, 1.0, 3e38, np.inf, np.nan])
THRESHOLDS = np.append(np.arange(-8, 9) / 4, [-np.inf, np.inf, -0.0, 5e-324, 1e-40, 0.1])

pytestmark = pytest.mark.skipif(not GPUS, reason="no usable GPU, real or emulated")


def make_rows(seed: int, n_rows: int, n_features: int, dtype=np.float64) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.round(rng.standard_normal((n_rows, n_features)) * 4) / 4
    odd = rng.random(rows.shape) < 0.2
    rows[odd] = rng.choice(SPECIAL, int(odd.sum()))
    return rows.astype(dtype)


def make_forest(seed: int, n_leaves: list[int], n_features: int, n_outputs: int = 1) -> Forest:
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, n, n_features, THRESHOLDS) for n in n_leaves for _ in range(n_outputs)]
    return Forest(trees, n_outputs)


def assert_same_predictions(forest, data, device, **chosen) -> None:
    init = np.linspace(0.1, 0.9, forest.n_outputs)
    raw = predict_raw(forest, data, init, device=device, **chosen)
    assert_same_bits(raw, predict_raw(forest, data, init, **chosen), "raw scores")
    leaves = predict_leaf(forest, data, device=device, **chosen)
    assert leaves.dtype == np.int32
    assert_same_bits(leaves, predict_leaf(forest, data, **chosen), "leaves")


@pytest.mark.sampled
@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 257, 5000])
def test_scores_and_leaves_equal_those_of_the_cpu(device, dtype, n_outputs, n_rows):
    forest = make_forest(n_rows, [1, 2, 31, 255, 3], 7, n_outputs)
    assert_same_predictions(forest, open_table(make_rows(1, n_rows, 7, dtype)), device)


@pytest.mark.parametrize("device", GPUS)
def test_any_reader_order_and_dtype(device):
    forest = make_forest(2, [9, 20], 4)
    rows = make_rows(2, 300, 4)
    assert_same_predictions(forest, ArrayReader(rows), device)
    assert_same_predictions(forest, rows[::2, ::-1], device)
    assert_same_predictions(forest, open_table(np.asfortranarray(rows)), device)
    assert_same_predictions(forest, open_table(np.arange(40, dtype=np.int8).reshape(10, 4)), device)


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize(("start", "count"), [(0, None), (1, 2), (3, 9), (5, 1), (0, 0)])
def test_iterations_are_chosen(device, start, count):
    forest = make_forest(3, [5, 8, 13, 21], 3, 2)
    assert_same_predictions(forest, make_rows(3, 100, 3), device, start_iteration=start, num_iteration=count)


@pytest.mark.parametrize("device", GPUS)
def test_lone_leaves_empty_forests_and_no_rows(device):
    assert_same_predictions(make_forest(4, [1, 1], 2), make_rows(4, 20, 2), device)
    assert_same_predictions(Forest([], 2), make_rows(4, 20, 2), device)
    assert_same_predictions(make_forest(4, [4], 2), np.empty((0, 2)), device)


@pytest.mark.parametrize("device", GPUS)
def test_input_goes_to_the_device_in_blocks(device, monkeypatch):
    forest = make_forest(5, [30, 31], 5, 2)
    rows = make_rows(5, 2003, 5)
    monkeypatch.setattr(gpu, "BLOCK_BYTES", 8 * 5 * 100)
    assert_same_predictions(forest, open_table(rows), device)
    assert_same_predictions(forest, open_table(rows.astype(np.float32)), device)


@pytest.mark.parametrize("device", GPUS)
def test_a_chain_and_the_largest_tree(device):
    rng = np.random.default_rng(6)
    tree = random_tree(rng, 3000, 1, np.arange(3000.0))
    tree.left[:] = ~np.arange(2999)
    tree.right[:-1] = np.arange(1, 2999)
    tree.right[-1] = ~2999
    tree.threshold[:] = np.arange(2999.0)
    assert_same_predictions(Forest([tree]), rng.integers(0, 3000, (100, 1)).astype(np.float64), device)
    large = random_tree(rng, 65_535, 3, rng.standard_normal(100_000))
    assert_same_predictions(Forest([large]), rng.standard_normal((500, 3)), device)


@pytest.mark.parametrize("device", GPUS)
def test_forest_stays_on_the_device(device):
    forest = make_forest(7, [4], 2)
    predict_raw(forest, make_rows(7, 5, 2), device=device)
    held = forest_on(device, forest)
    predict_leaf(forest, make_rows(7, 5, 2), device=device)
    assert forest_on(device, forest) is held


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_booster_predicts_the_same_on_a_gpu(device, objective):
    X = make_rows(8, 400, 3, np.float32)
    y = np.arange(400) % 3 if objective == "multiclass" else np.arange(400) % 2
    params = {"objective": objective, "device": "cpu", "num_leaves": 7, "verbosity": -1}
    booster = train({**params, "num_class": 3} if objective == "multiclass" else params, Dataset(X, label=y), 4)
    for kind in ({}, {"raw_score": True}, {"pred_leaf": True}, {"start_iteration": 1, "num_iteration": 2}):
        assert_same_bits(booster.predict(X, device=device, **kind), booster.predict(X, **kind), str(kind))


@pytest.mark.sampled
@pytest.mark.parametrize("strides", ["C", "F", "every other"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_on_the_device_may_have_any_strides(strides, dtype):
    """What happens to CuPy arrays, with memory of an OpenCL device."""
    runtime = opencl.open_device(0)
    rows = make_rows(9, 120, 4, dtype)
    whole = np.zeros((240, 8), dtype)
    whole[::2, ::2] = rows
    table = {
        "C": DeviceTable.upload(runtime, rows),
        "F": DeviceTable(DeviceTable.upload(runtime, rows.T.copy()).buffer, rows.dtype, 120, 4, 1, 120),
        "every other": DeviceTable(DeviceTable.upload(runtime, whole).buffer, rows.dtype, 120, 4, 16, 2),
    }[strides]
    forest = make_forest(9, [40, 9], 4)
    expected = predict_leaf(forest, rows)
    leaves = np.empty((120, 2), np.int32)
    room = runtime.allocate(leaves.nbytes)
    gpu.forest_on("opencl:0", forest).find_leaves(table, 0, 2, room)
    runtime.download(room, leaves)
    assert_same_bits(leaves, expected, "leaves")


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "binary", "sigmoid": 1.7},
        {"objective": "multiclass", "num_class": 5},
        {"objective": "regression"},
    ],
    ids=["binary", "multiclass", "regression"],
)
def test_transformed_on_the_device_equals_the_objective(params):
    runtime = opencl.open_device(0)
    objective = get_objective(Params.from_dict(params))
    scores = np.random.default_rng(0).standard_normal((objective.n_outputs, 1000)) * 20
    scores[:, :3] = [800.0, -800.0, 0.0]
    buffer = runtime.allocate(scores.nbytes)
    runtime.upload(buffer, scores.copy())
    gpu.transform(runtime, objective, buffer, *scores.shape)
    found = np.empty_like(scores)
    runtime.download(buffer, found)
    assert_same_bits(found, objective.transform(scores), "predictions")


def test_wrong_arguments_are_named():
    forest = make_forest(0, [50], 3)
    with pytest.raises(DataError, match="2 columns"):
        predict_raw(forest, np.zeros((4, 2)), device="opencl")
    with pytest.raises(ValueError, match="init_scores"):
        predict_raw(forest, np.zeros((4, 3)), [0.0, 1.0], device="opencl")
    with pytest.raises(DeviceError, match="opencl:99"):
        predict_leaf(forest, np.zeros((4, 3)), device="opencl:99")


def test_devices_of_prediction_have_the_names_that_those_of_training_have():
    rows, labels = make_higgs_like(200, 6, seed=2)
    booster = train({"num_leaves": 5, "verbosity": -1, "device": "cpu"}, Dataset(rows, label=labels), 2)
    assert_same_bits(booster.predict(rows, device="gpu"), booster.predict(rows), "predictions")
    for wrong in ("OpenCL", "opencl:x", "cpu:0", 0, ""):
        with pytest.raises(ParameterError, match="must be 'auto', 'cpu', 'gpu', 'cuda'"):
            booster.predict(rows, device=wrong)

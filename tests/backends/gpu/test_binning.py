"""Binning on GPUs: the same codes, mappers and models as for data in host memory."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("pyopencl")

from hornbeam.backends import binning as binning_choice
from hornbeam.backends import devices
from hornbeam.backends.cpu.binning.table import bin_table
from hornbeam.backends.gpu.data import binning as gpu
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.runtime import devices as gpus
from hornbeam.backends.gpu.runtime import opencl
from hornbeam.backends.gpu.runtime.device_table import DeviceTable
from hornbeam.backends.gpu.runtime.order import order_keys, values_of_keys
from hornbeam.backends.gpu.workspace import bin_upload
from hornbeam.core.errors import DeviceError
from hornbeam.data import stored_bins as bundling
from hornbeam.data.bin_bounds import find_upper_bounds, rows_below
from hornbeam.data.binning import BinnedData, BinParams
from hornbeam.data.sources.opening import open_table
from hornbeam.dataset.dataset import Dataset
from hornbeam.params.params import Params
from hornbeam.testing.checks import PLAIN_RULES, assert_same_bits, assert_same_operations, usable_devices
from hornbeam.training.training import train

DEVICE = "opencl:0"
SPECIAL = np.array([-np.inf, -0.0, 0.0, 1e-40, 5e-324, 0.1, 3e38, np.inf, np.nan])

pytestmark = pytest.mark.skipif(DEVICE not in usable_devices(), reason="no usable OpenCL device")


def make_table(n_rows: int, n_features: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    """Columns of many values and of few, constants, missing values in some, in all and in one row only."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n_rows, n_features)) * 10.0 ** rng.integers(-3, 4, n_features)
    for column in range(0, n_features, 4):
        table[:, column] = np.round(table[:, column] % 5)
    odd = rng.random(table.shape) < 0.1 * (np.arange(n_features) % 3 == 1)
    table[odd] = rng.choice(SPECIAL, int(odd.sum()))
    if n_features > 8:
        table[:, 3] = 7.0
        table[:, 5] = np.nan
        table[:, 6] = 2.0
        table[n_rows // 2, 6] = np.nan
        table[:, 7] = np.nan
        table[n_rows // 3, 7] = 1.0
        table[-1, 8] = np.nan
    return table.astype(dtype)


def blocks_of(table: np.ndarray, step: int = 1 << 30) -> gpu.Blocks:
    """The table in the memory of the OpenCL device, as CuPy arrays are in that of a CUDA device."""
    runtime = opencl.open_device(0)

    def blocks():
        for first in range(0, len(table), step):
            yield first, DeviceTable.upload(runtime, np.ascontiguousarray(table[first : first + step]))

    return blocks


def bin_both(table: np.ndarray, step: int = 1 << 30, **params) -> tuple[BinnedData, BinnedData]:
    reader = open_table(table)
    found = gpu.bin_blocks(DEVICE, reader, blocks_of(table, step), BinParams(**params))
    return found, bin_table(reader, BinParams(**params), 2)


def assert_same_binned(found: BinnedData, expected: BinnedData) -> None:
    assert found.n_rows == expected.n_rows
    for a, b in zip(found.mapper.upper_bounds, expected.mapper.upper_bounds, strict=True):
        assert_same_bits(a, b, "bounds")
    assert (found.mapper.has_missing == expected.mapper.has_missing).all()
    assert found.bins.dtype == expected.bins.dtype
    assert_same_bits(found.bins, expected.bins, "bins")


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 9, 32, 33, 70])
@pytest.mark.parametrize("max_bin", [2, 15, 63, 255, 1000])
def test_codes_equal_those_of_the_cpu(dtype, n_features, max_bin):
    found, expected = bin_both(make_table(1500, n_features, dtype), max_bin=max_bin)
    assert_same_binned(found, expected)
    assert found.bins.ctypes.data % 64 == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_those_of_the_definition(dtype):
    table = make_table(3000, 20, dtype, seed=1)
    found, _ = bin_both(table, bin_construct_sample_cnt=500)
    for position, feature in enumerate(found.used.tolist()):
        assert_same_bits(
            found.bins[:, position].astype(np.int64), found.mapper.codes(feature, table[:, feature]), f"{feature}"
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("max_bin", "min_data_in_bin"), [(2, 1), (7, 3), (40, 1), (40, 90), (1000, 3)])
def test_bounds_are_those_of_the_definition(dtype, max_bin, min_data_in_bin):
    """Of columns of some frequent values, of many values, of one more or less than there are bins, of neighbours."""
    rng = np.random.default_rng(max_bin)
    n = 700
    columns = [rng.zipf(a, n) * rng.choice([-1.0, 1.0], n) for a in (1.05, 1.3, 2.0, 4.0)]
    columns += [np.where(rng.random(n) < p, rng.choice(SPECIAL, n), rng.normal(size=n)) for p in (0.1, 0.5, 0.9, 1.0)]
    columns += [np.round(rng.normal(size=n) * scale) for scale in (0.5, 2, 20, 100)]
    columns += [rng.integers(0, max_bin + more, n) for more in (-1, 0, 1, 2)]
    columns += [np.sort(rng.choice([0, 1, 5], n)), np.full(n, 3.0), 1.0 + np.arange(n) * 2.0**-52]
    table = np.stack(columns, axis=1).astype(dtype)
    params = BinParams(max_bin=max_bin, min_data_in_bin=min_data_in_bin)
    found = gpu.find_bounds(DEVICE, open_table(table), blocks_of(table, 300), params)
    for feature, bounds in enumerate(found):
        assert_same_bits(bounds, find_upper_bounds(table[:, feature], max_bin, min_data_in_bin), f"column {feature}")


def test_missing_values_that_do_not_count():
    assert_same_binned(*bin_both(make_table(500, 12, seed=2), use_missing=False))


@pytest.mark.parametrize("step", [1, 7, 100, 499])
def test_tables_in_blocks(step):
    assert_same_binned(*bin_both(make_table(500, 12, seed=3), step=step))


def test_a_sample_that_misses_missing_values():
    table = make_table(5000, 12, seed=4)
    assert_same_binned(*bin_both(table, bin_construct_sample_cnt=50))


def test_no_feature_is_used():
    found, expected = bin_both(np.ones((50, 3), np.float32))
    assert found.n_used == expected.n_used == 0
    assert_same_binned(found, expected)


def test_any_strides():
    table = make_table(300, 10, seed=5)
    runtime = opencl.open_device(0)
    columns = DeviceTable(DeviceTable.upload(runtime, table.T.copy()).buffer, table.dtype, 300, 10, 1, 300)
    reader = open_table(table)
    found = gpu.bin_blocks(DEVICE, reader, lambda: iter([(0, columns)]), BinParams())
    assert_same_binned(found, bin_table(reader, BinParams(), 1))


@pytest.mark.parametrize("max_bin", [15, 63, 1000])
def test_engine_takes_the_bins_where_they_are(max_bin):
    """Also those of a validation set; nothing goes through the host."""
    table = make_table(600, 34, seed=6)
    found, expected = bin_both(table, max_bin=max_bin)
    reader = open_table(table[:300])
    valid = gpu.encode(DEVICE, reader, blocks_of(table[:300]), found.mapper)[0]
    engine = GpuEngine(opencl.open_device(0), found, min_data_in_leaf=1)
    gradient = np.random.default_rng(0).standard_normal((1, 600))
    number = engine.add_valid(BinnedData(found.mapper, valid), np.zeros((1, 300)))
    assert number == 0 and found._bins is None
    assert_same_operations(expected, gradient, np.ones_like(gradient), engine, rules=PLAIN_RULES)
    assert_same_bits(found.bins, expected.bins, "bins after the engine is gone")


def test_training_on_device_bins_gives_the_same_model(monkeypatch):
    table, step = make_table(900, 35, seed=7), 300
    label = (np.nan_to_num(table[:, 2], posinf=0, neginf=0) > 0).astype(float)
    expected = None
    for on_device in (False, True):
        dataset, valid = Dataset(table, label=label), Dataset(table[:200], label=label[:200])
        if on_device:
            dataset._bin_params = BinParams()
            dataset._binned = gpu.bin_blocks(DEVICE, dataset.reader, blocks_of(table, step), BinParams())
        valid.set_reference(dataset)
        if on_device:
            bins = gpu.encode(DEVICE, valid.reader, blocks_of(table[:200]), dataset.mapper)[0]
            valid._bin_params, valid._binned = BinParams(), BinnedData(dataset.mapper, bins)
        params = {"objective": "binary", "device": "opencl", "num_leaves": 15, "verbosity": -1}
        for _ in range(2):  # the bins outlive an engine
            booster = train(params, dataset, 3, {"valid": valid})
            result = booster.fingerprint(), booster.eval_history
            expected = expected or result
            assert result == expected
    assert dataset.binned._bins is None and valid.binned._bins is None


def test_bins_on_a_device_are_copied_for_the_cpu_and_for_pickles():
    table = make_table(400, 10, seed=8)
    found, expected = bin_both(table)
    restored = pickle.loads(pickle.dumps(found))
    assert restored.on_device is None
    assert_same_binned(restored, expected)


@pytest.mark.parametrize("limit", [0, 1, 2**50, 2**60, 2**64 - 2**11])
def test_rows_below_a_hash_equal_the_definition(limit):
    from hornbeam.backends.cpu.binning.dense import rows_below as fast

    for a, b in zip(fast(70_000, np.uint64(limit)), rows_below(70_000, np.uint64(limit)), strict=True):
        assert_same_bits(a, b, "rows below")


@pytest.mark.parametrize("choice", [{}, {"enable_bundle": False}, {"is_enable_sparse": False}, {"max_bin": 600}])
def test_stored_bins_are_spelled_out_on_the_device(monkeypatch, choice):
    monkeypatch.setattr(bundling, "PLAIN_CELLS", 0)
    monkeypatch.setattr(bin_upload, "BLOCK_BYTES", 7_000)  # several blocks
    rng = np.random.default_rng(1)
    X = np.where(rng.random((1_501, 30)) < 0.1, rng.normal(size=(1_501, 30)), 0.0)
    X[:, :12] = np.arange(12) == rng.integers(0, 12, 1_501)[:, None]
    X[:, 29] = rng.normal(size=1_501)
    plain = Dataset(X, **choice).construct().binned
    stored = Dataset(sparse.csr_matrix(X), **choice).construct().binned
    assert stored.stored is not None
    runtime, found = opencl.open_device(0), []
    for binned in (plain, stored):
        engine = GpuEngine(runtime, binned, min_data_in_leaf=1)
        engine.add_valid(binned, np.zeros((1, binned.n_rows)))
        names = ("tiles", "columns", "bins of validation set 0")
        engine._bins.make_columns()
        layout = Layout.of(binned)
        sizes = (layout.tile_bytes, layout.column_bytes, layout.tile_bytes)
        parts = tuple(np.empty(size, np.uint8) for size in sizes)
        for name, part in zip(names, parts, strict=True):
            runtime.download(engine.workspace.buffer(name), part)
        engine.close()
        found.append(parts)
    for expected, spelled in zip(*found, strict=True):
        assert (spelled == expected).all()
    assert (found[1][0] == found[1][2]).all()
    columns = found[1][1].view(plain.bins.dtype).reshape(plain.n_used, plain.n_rows)
    assert (plain.bins[:, : plain.n_used] == columns.T).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_in_host_memory_are_binned_by_the_gpu_that_trains(monkeypatch, dtype):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    monkeypatch.setattr(gpu, "HOST_BLOCK_BYTES", 40_000)  # several blocks
    table = make_table(3000, 11, dtype)
    y = np.arange(3000) % 7
    found = {}
    for device in (DEVICE, "cpu"):
        train_set = Dataset(table, label=y, max_bin=63)
        valid = Dataset(table[:500], label=y[:500], reference=train_set)
        booster = train({"device": device, "verbosity": -1, "num_leaves": 15}, train_set, 3, {"valid": valid})
        found[device] = booster.fingerprint(), booster.eval_history
        for data in (train_set, valid):
            assert (data.binned.on_device is not None) == (device == DEVICE)
            expected = bin_table(open_table(table), BinParams(max_bin=63), 2).bins
            assert_same_bits(data.binned.bins, expected[: data.n_rows], "bins")
    assert found[DEVICE] == found["cpu"]


def test_mostly_zeros_in_host_memory_are_stored_as_ever(monkeypatch):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    monkeypatch.setattr(bundling, "PLAIN_CELLS", 0)
    table = np.zeros((2000, 40))
    table[np.arange(2000), np.arange(2000) % 40] = 1.0
    data = Dataset(table, label=np.arange(2000) % 3).construct(Params.from_dict({"device": DEVICE}))
    assert data.binned.on_device is None
    assert data.binned.stored is not None


def test_data_that_the_gpu_cannot_bin_are_binned_by_the_cpu(monkeypatch):
    def no_memory(*given):
        raise DeviceError("no memory")

    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    monkeypatch.setattr(gpu, "encode", no_memory)
    data = Dataset(make_table(500, 4), label=np.arange(500)).construct(Params.from_dict({"device": DEVICE}))
    assert data.binned.on_device is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keys_are_in_the_order_of_the_values(dtype):
    values = np.sort(np.concatenate([SPECIAL[:-1], -SPECIAL[3:7], np.random.default_rng(0).normal(size=50)])).astype(
        dtype
    )
    keys = order_keys(values)
    assert (np.diff(values) == 0).tolist() == (keys[1:] == keys[:-1]).tolist()
    assert (keys[1:] >= keys[:-1]).all()
    if dtype == np.float64:
        assert (values_of_keys(keys) == values).all()


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_bins_leave_the_device_with_their_dataset(monkeypatch, boosting):
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    gc.collect()
    gc.disable()
    try:
        data = Dataset(make_table(500, 4), label=np.arange(500))
        booster = train({"device": DEVICE, "verbosity": -1, "boosting": boosting}, data, 2)
        bins = weakref.ref(data.binned.on_device)
        assert bins() is not None
        del data
        assert bins() is None  # the model does not keep them, nor does anything wait for garbage collection
    finally:
        gc.enable()
    assert len(booster.trees) == 2


def test_memory_that_others_left_is_given_back_before_anything_is_allocated(monkeypatch):
    """A small buffer in the place of a large one would keep all of it."""
    runtime, calls = gpus.open_runtime(devices.choose_device(DEVICE)), []
    kind = type(runtime)
    for name, call in (("trim", kind.trim), ("allocate", kind.allocate)):

        def noted(self, *given, name=name, call=call):
            calls.append(name)
            return call(self, *given)

        monkeypatch.setattr(kind, name, noted)
    monkeypatch.setattr(binning_choice, "CELLS_TO_BIN_ON_A_GPU", 0)
    data = Dataset(make_table(500, 4), label=np.arange(500)).construct(Params.from_dict({"device": DEVICE}))
    assert data.binned.on_device is not None
    assert calls[:2] == ["trim", "allocate"]
    calls.clear()
    train({"device": DEVICE, "verbosity": -1}, data, 1)
    assert calls[:2] == ["trim", "allocate"]

"""Device memory: counted before it is taken, limited, given back; and what is left out for it leaves no trace."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from types import FunctionType, ModuleType

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import hornbeam as hb
from hornbeam.backends import devices
from hornbeam.backends.demand import Demand
from hornbeam.backends.engines import make_engine
from hornbeam.backends.gpu import engine as gpu_engine
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth.memory import WIDE_RECORDS, check_memory, estimate, slot_bytes, table_bytes
from hornbeam.backends.gpu.runtime import opencl
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.errors import DeviceError
from hornbeam.core.host_memory import free_bytes
from hornbeam.params.params import Params
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.data import make_higgs_like
from hornbeam.training.run import TrainingRun
from hornbeam.training.state import TrainingState

pytestmark = pytest.mark.skipif("opencl:0" not in usable_devices(), reason="no usable OpenCL device")

MEGABYTE = 2.0**20
PARAMS = {"objective": "binary", "num_leaves": 15, "min_data_in_leaf": 5, "verbosity": -1}
BAGGED = {"bagging_freq": 1, "bagging_fraction": 0.6, "pos_bagging_fraction": 0.9}


def make_sets(n_rows: int, n_features: int, **given) -> tuple[hb.Dataset, hb.Dataset]:
    X, y = make_higgs_like(n_rows, n_features, seed=2)
    X[::7, 3] = np.nan
    train = hb.Dataset(X, label=y, **given)
    return train, hb.Dataset(X[:100], label=y[:100], reference=train)


@pytest.fixture
def closed(monkeypatch):
    """The workspaces of the trainings of a test: (its peak, whether there were columns, largest pool)."""
    seen = []
    close, room = Workspace.close, Workspace.room
    pools: dict[int, int] = {}

    def watched_room(self, name, n_bytes):
        if name == "histograms":
            pools[id(self)] = n_bytes
        return room(self, name, n_bytes)

    def watched_close(self):
        seen.append((self.peak_bytes, "columns" in self._held, pools.get(id(self), 0)))
        close(self)
        assert self.held_bytes == 0

    monkeypatch.setattr(Workspace, "room", watched_room)
    monkeypatch.setattr(Workspace, "close", watched_close)
    return seen


@pytest.mark.parametrize("max_bin", [15, 63])
def test_model_does_not_depend_on_the_memory_there_is(closed, max_bin):
    params = {**PARAMS, **BAGGED, "max_bin": max_bin}
    found = []
    for device in ({"device": "cpu"}, {"device": "opencl"}, {"device": "opencl", "device_memory_limit": 0.0}):
        train, valid = make_sets(2001, 37)
        if "device_memory_limit" in device:  # what is needed, and no more: no columns, and few histograms
            needed = sum(estimate(Layout.of(train.construct(hb.Params.from_dict(params)).binned), DEMAND).values())
            device["device_memory_limit"] = (needed + 100_000) / MEGABYTE
        booster = hb.train({**params, **device}, train, 4, {"valid": valid})
        found.append((booster.fingerprint(), booster.eval_history))
    assert found[0] == found[1] == found[2]
    (_, columns, pool), (_, no_columns, small_pool) = closed
    assert columns and not no_columns
    assert small_pool < pool


GROUPS = [[first % 40, first % 37] for first in range(600)]
DEMAND = Demand(n_leaves=15, given_bytes=3 * 8 * 2001, sampled=True)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"objective": "regression"},
        {"objective": "multiclass", "num_class": 3},
        {"objective": "multiclass", "num_class": 3, "multi_strategy": "multi_output_tree"},
        BAGGED,
        {"precision": "high"},
        {"objective": "quantile"},
        {"interaction_constraints": GROUPS, "path_smooth": 1.0, "feature_fraction_bynode": 0.5},
    ],
    ids=[
        "binary",
        "regression",
        "multiclass",
        "shared trees",
        "bagging",
        "high precision",
        "renewed leaves",
        "contexts",
    ],
)
def test_estimate_is_what_is_allocated(closed, params):
    params = {**PARAMS, **params, "max_bin": 63, "device": "opencl"}
    train, _ = make_sets(8000, 40, weight=np.random.default_rng(0).random(8000))
    hb.train(params, train, 2)
    layout = Layout.of(train.binned)
    many, renewed = params["objective"] == "multiclass", params["objective"] == "quantile"
    sampled, label = "bagging_freq" in params, 1 if params["objective"] == "binary" else 8
    demand = Demand(
        n_outputs=3 if many else 1,
        n_histograms=4 if "multi_strategy" in params else 1,
        n_leaves=15,
        given_bytes=8000 * (label + 8 + (8 if sampled or renewed else 0)),
        sampled=sampled,
        stores_gradients=many or sampled,
        high_precision="precision" in params,
        renewed=renewed,
        renewal_weighted=renewed,
        in_context="path_smooth" in params,
        n_groups=len(GROUPS) if "path_smooth" in params else 0,
    )
    wanted = estimate(layout, demand)
    wanted.pop(WIDE_RECORDS, None)  # 16 bits are enough here
    peak, columns, pool = closed[-1]
    found = peak - layout.column_bytes - pool + 2 * demand.n_histograms * slot_bytes(layout, 3)
    assert columns
    assert sum(wanted.values()) - table_bytes(layout, 15) <= found <= sum(wanted.values())


def test_estimate_has_what_ranking_takes_by_row(closed, monkeypatch):
    X, y = np.random.default_rng(0).random((200_000, 3), np.float32), np.tile([0.0, 1.0, 2.0, 0.0], 50_000)
    train = hb.Dataset(X, label=y, group=np.full(5000, 40))
    params = {**PARAMS, "objective": "rank_xendcg", "max_bin": 15, "num_leaves": 4}
    needed = needed_by(train, None, params, monkeypatch)
    peak, columns, pool = closed[-1]
    layout = Layout.of(train.binned)
    assert columns
    assert peak - layout.column_bytes - pool <= MEGABYTE * needed


def heavy_tailed(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Data on which trees turn to 31 bits by themselves."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n_rows, 5)).astype(np.float32)
    y = X[:, 0] + rng.standard_normal(n_rows)
    y[::100_000] *= 1e5
    return X, y


HEAVY = {"objective": "regression", "num_leaves": 4, "max_bin": 15, "min_data_in_leaf": 1, "verbosity": -1}


def needed_by(train: hb.Dataset, valid: hb.Dataset | None, params: dict, monkeypatch, on_host: bool = False) -> float:
    """Return the megabytes that a training is counted to need; on_host: where its bins are in host memory."""
    counted = []
    with monkeypatch.context() as patch:
        patch.setattr(gpu_engine, "fit_memory", lambda *given: counted.append(given) or given[0])
        hb.train({**params, "device": "opencl"}, train, 1, {} if valid is None else {"valid": valid})
    (layout, demand, stats, *_), *_ = counted
    return sum(estimate(replace(layout, on_host=on_host), demand, stats).values()) / MEGABYTE


def test_what_was_counted_is_enough_for_trees_that_turn_to_31_bits(monkeypatch):
    X, y = heavy_tailed(110_000)
    train = hb.Dataset(X, label=y)
    valid = hb.Dataset(X[:50_000], label=y[:50_000], reference=train)
    needed, least = (needed_by(train, valid, HEAVY, monkeypatch, on_host) for on_host in (False, True))
    wide, allocations = [], []
    allocate, quantize = opencl.OpenCLRuntime.allocate, GpuEngine.quantize

    def watched_allocate(self, n_bytes):
        allocations.append(n_bytes)
        return allocate(self, n_bytes)

    def watched_quantize(self, *given):
        found = quantize(self, *given)
        wide.append(found.wide)
        return found

    monkeypatch.setattr(opencl.OpenCLRuntime, "allocate", watched_allocate)
    monkeypatch.setattr(GpuEngine, "quantize", watched_quantize)
    limited = {**HEAVY, "device": "opencl", "device_memory_limit": needed * (1 + 1e-9)}
    booster = hb.train(limited, train, 2, {"valid": valid})
    assert any(wide)
    assert booster.fingerprint() == hb.train({**HEAVY, "device": "cpu"}, train, 2).fingerprint()
    allocations.clear()
    with pytest.raises(DeviceError, match="31 bits"):
        hb.train({**limited, "device_memory_limit": least - 0.1}, train, 2, {"valid": valid})
    assert allocations == []


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "regression_l1"},
        {"data_sample_strategy": "goss", "learning_rate": 0.9, "metric": ["l2", "l1"]},
        {"boosting": "dart"},
    ],
    ids=["renewed leaves", "GOSS after two trees", "validation sets after the first tree"],
)
def test_what_was_counted_is_enough_for_what_comes_later(params, monkeypatch):
    """Histograms and metrics must leave room for what is made only after the first tree has begun."""
    X, y = heavy_tailed(120_000)
    train = hb.Dataset(X, label=y, weight=np.abs(X[:, 1]) + 0.1)
    valid = hb.Dataset(X[:100_000], label=y[:100_000], reference=train)
    params = {**HEAVY, "max_bin": 255, **params}
    needed = needed_by(train, valid, params, monkeypatch)
    expected = hb.train({**params, "device": "cpu"}, train, 3, {"valid": valid})
    limited = {**params, "device": "opencl", "device_memory_limit": needed + 0.5}
    found = hb.train(limited, train, 3, {"valid": valid})
    assert found.fingerprint() == expected.fingerprint()
    assert found.eval_history == expected.eval_history


@pytest.mark.parametrize("n_rows", [500, 5_000, 9_000, 40_000])
def test_what_was_counted_is_enough_for_any_number_of_rows(n_rows, monkeypatch):
    """Small buffers are made larger than asked."""
    X, y = heavy_tailed(n_rows)
    train = hb.Dataset(X, label=y)
    valid = hb.Dataset(X[: n_rows // 4], label=y[: n_rows // 4], reference=train)
    params = {**HEAVY, "num_leaves": 15}
    needed = needed_by(train, valid, params, monkeypatch)
    limited = {**params, "device": "opencl", "device_memory_limit": needed * (1 + 1e-9)}
    found = hb.train(limited, train, 2, {"valid": valid})
    assert found.fingerprint() == hb.train({**params, "device": "cpu"}, train, 2).fingerprint()


@pytest.mark.parametrize("megabytes", [0.5, 2.0])
def test_histogram_pool_keeps_to_its_limit(closed, megabytes):
    train, _ = make_sets(1000, 40)
    hb.train({**PARAMS, "num_leaves": 63, "device": "opencl", "histogram_pool_size": megabytes}, train, 1)
    pool = closed[-1][2]
    assert pool <= max(megabytes * MEGABYTE, 2 * slot_bytes(Layout.of(train.binned), 3))
    assert 1.5 * pool + slot_bytes(Layout.of(train.binned), 3) > megabytes * MEGABYTE  # 2 sums of 3, it may be


@pytest.mark.parametrize("features", [6, 40], ids=["rows of few bytes", "several tiles"])
@pytest.mark.parametrize("more", [{}, {"boosting": "dart"}, {"bagging_fraction": 0.5, "bagging_freq": 1}], ids=str)
def test_bins_stay_in_host_memory_where_the_device_has_none_for_them(closed, monkeypatch, caplog, features, more):
    X, y = make_higgs_like(6000, features, seed=2)
    train = hb.Dataset(X, label=y)
    valid = hb.Dataset(X[:2000], label=y[:2000], reference=train)
    params = {**PARAMS, **more, "metric": ["auc"], "verbosity": 1}
    needed = needed_by(train, valid, params, monkeypatch)
    expected = hb.train({**params, "device": "cpu"}, train, 3, {"valid": valid})
    layout = Layout.of(train.binned)
    limit = needed - layout.tile_bytes / 2 / MEGABYTE
    found = hb.train({**params, "device": "opencl", "device_memory_limit": limit}, train, 3, {"valid": valid})
    assert found.fingerprint() == expected.fingerprint()
    assert found.eval_history == expected.eval_history
    assert [record for record in caplog.records if "MB of bins: they stay in host memory" in record.message]
    peak, has_columns, _ = closed[-1]
    assert peak <= limit * MEGABYTE
    assert has_columns == (2 * layout.column_bytes <= free_bytes())  # in host memory, too


def test_a_device_that_was_not_asked_for_is_left_where_bins_do_not_fit(monkeypatch):
    train, _ = make_sets(1000, 40)
    params = hb.Params.from_dict({**PARAMS, "device": "auto", "device_memory_limit": 1.0})
    monkeypatch.setattr(devices, "choose_device", lambda *_: "opencl:0")
    assert make_engine(train.construct(params).binned, params).device_name == "cpu"


def test_too_little_memory_is_refused_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(opencl.OpenCLRuntime, "allocate", lambda *_: pytest.fail("memory was taken"))
    train, _ = make_sets(1000, 40)
    with pytest.raises(DeviceError, match="1,000 rows x 40 features need") as caught:
        hb.train({**PARAMS, "max_bin": 63, "device": "opencl", "device_memory_limit": 1.5}, train, 1)
    for part in ("1.50 MB", "even with all bins in host memory", "gradients", "histogram_pool_size", "device='cpu'"):
        assert part in str(caught.value)
    figures = [float(number) for number in re.findall(r"([\d.]+) MB for (?!them)", str(caught.value))]
    total = float(re.search(r"need ([\d.]+) MB", str(caught.value))[1])
    assert sum(figures) == pytest.approx(total, abs=0.05)


@pytest.mark.parametrize(("n_bins", "hint"), [(15, "fewer features"), (63, "max_bin=15"), (300, "max_bin=255")])
def test_error_says_what_would_help(n_bins, hint):
    layout, facts = Layout.of_sizes(10**6, np.full(50, n_bins, np.int32)), opencl.open_device(0).facts
    needed = sum(estimate(layout, Demand()).values())
    check_memory(layout, Demand(), 3, facts, needed)
    with pytest.raises(DeviceError, match=hint):
        check_memory(layout, Demand(), 3, facts, needed - 1)


def test_validation_sets_that_do_not_fit_are_refused_before_anything_is_allocated(monkeypatch):
    X, y = make_higgs_like(1000, 40, seed=2)
    train = hb.Dataset(X, label=y)
    layout = Layout.of(train.construct(hb.Params.from_dict(PARAMS)).binned)
    limit = (sum(estimate(layout, Demand(n_leaves=15, given_bytes=8000)).values()) + 100_000) / MEGABYTE
    valid = hb.Dataset(np.repeat(X, 50, axis=0), label=np.repeat(y, 50), reference=train)
    monkeypatch.setattr(opencl.OpenCLRuntime, "allocate", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(DeviceError, match=r"0\.38 MB for validation sets"):  # 50,000 scores; bins are in host memory
        hb.train({**PARAMS, "device": "opencl", "device_memory_limit": limit}, train, 1, {"valid": valid})


@pytest.mark.parametrize("last", [1, 2, 5, 9, 14, 20, 26])
def test_out_of_memory_in_the_middle_frees_everything(monkeypatch, last):
    """The device gives so many buffers and no more."""
    held: set[int] = set()
    allocate, free = opencl.OpenCLRuntime.allocate, opencl.OpenCLRuntime.free
    count = [0]

    def watched_allocate(self, n_bytes):
        count[0] += 1
        if count[0] > last:
            raise DeviceError("no more memory")
        buffer = allocate(self, n_bytes)
        held.add(id(buffer))
        return buffer

    def watched_free(self, buffer):
        held.remove(id(buffer))
        free(self, buffer)

    monkeypatch.setattr(opencl.OpenCLRuntime, "allocate", watched_allocate)
    monkeypatch.setattr(opencl.OpenCLRuntime, "free", watched_free)
    train, valid = make_sets(500, 6)
    with pytest.raises(DeviceError, match="no more memory"):
        hb.train({**PARAMS, "device": "opencl"}, train, 2, {"valid": valid})
    assert held == set()


def test_metrics_go_to_the_host_where_memory_is_short(monkeypatch):
    X, y = make_higgs_like(1000, 6, seed=2)
    found = []
    for device in ("cpu", "opencl"):
        train = hb.Dataset(X, label=y)
        valid = hb.Dataset(np.repeat(X, 200, axis=0), label=np.repeat(y, 200), reference=train)
        params = {**PARAMS, "metric": ["binary_logloss", "auc"], "device": device}
        if device == "opencl":  # room for bins (16 bytes a row) and scores of the validation set, not for losses
            needed = estimate(Layout.of(train.construct(hb.Params.from_dict(params)).binned), Demand(n_leaves=15))
            params["device_memory_limit"] = (sum(needed.values()) + 200_000 * (32 + 8) + 300_000) / MEGABYTE
        found.append(hb.train(params, train, 2, {"valid": valid}).eval_history)
    assert found[0] == found[1]


def buffers_known_to(start: object) -> list[object]:
    """Return the device buffers that can be reached from an object, through attributes, containers and closures."""
    import pyopencl as cl

    seen, found, waiting = {id(start)}, [], [start]
    while waiting:
        known = waiting.pop()
        if isinstance(known, cl.Buffer):
            found.append(known)
        if isinstance(known, (ModuleType, type)):
            continue
        inner = [known.__closure__] if isinstance(known, FunctionType) else gc.get_referents(known)
        for other in inner:
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
    return found


@pytest.mark.parametrize(
    "params",
    [
        {"metric": ["auc", "binary_logloss"]},
        BAGGED,
        {"objective": "quantile"},
        {"objective": "multiclass", "num_class": 2},
        {"objective": "lambdarank", "metric": "ndcg"},
        {"extra_trees": True, "max_bin": 600},
    ],
    ids=["metrics", "bagging", "renewed leaves", "classes", "ranking", "contexts"],
)
def test_closed_engine_knows_no_buffer(params):
    """With CUDA memory is free when nobody knows it, and engines are part of cycles, which may live for long."""
    X, y = make_higgs_like(500, 6, seed=2)
    train = hb.Dataset(X, label=y, group=np.full(50, 10))
    valid = hb.Dataset(X[:100], label=y[:100], group=np.full(10, 10), reference=train)
    sets = {"valid": valid}
    state = TrainingState(Params.from_dict({**PARAMS, **params, "device": "opencl"}), train, None, valid_sets=sets)
    run = TrainingRun(state, sets)
    for _ in range(4):
        run.boost_once(0.1)
        run.evaluate([])
    assert len(buffers_known_to(state.engine)) > 10
    state.engine.close()
    assert buffers_known_to(run) == []

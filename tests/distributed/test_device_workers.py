"""Workers whose trees grow in the memory of GPUs: their models against those of one process.

`opencl` is any device of OpenCL, PoCL on a CPU included; `cuda` runs where there is one. What needs several CUDA
devices runs on a stand-in for CuPy, over OpenCL.
"""

from __future__ import annotations

import threading
from concurrent import futures
from dataclasses import replace
from functools import cache
from unittest.mock import Mock

import pytest

import hornbeam as hb
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.core.errors import CollectiveError, DeviceError
from hornbeam.distributed import Part, PartDataset, devices, run_workers, train
from hornbeam.distributed.nccl import NcclCollective
from hornbeam.distributed.search import SectionSearch
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import golden_score, golden_table
from hornbeam.testing.workers import (
    cases_of_workers,
    cut,
    expected_of_short,
    parts_of_worker,
    short_case,
    train_on_workers,
    uneven_bounds,
)

GPUS = [name for name in ("opencl:0", "cuda:0") if name in usable_devices()]

needs_opencl = pytest.mark.skipif("opencl:0" not in GPUS, reason="no usable OpenCL device")

# --- models of one process ------------------------------------------------------------------------------------------

SPREAD = {
    "binary": 1,
    "regression, heavy tail": 3,
    "multiclass": 2,
    "goss": 3,
    "lambdarank, bagging by query": 3,
    "binary, categories, weights": 2,
    "mape, weights, missing": 3,
    "custom objective": 2,
    "dart": 2,
    "multiclassova, shared trees, bagging, depthwise": 3,
}
"""Golden cases, and how many workers train some rounds of them here; with three the last one has no rows.
`test_every_golden_case` has all, of all rounds.
"""


@pytest.mark.parametrize("name", SPREAD)
def test_model_is_that_of_one_process(gpu, name):
    models = train_on_workers(short_case(name), SPREAD[name], device=gpu, num_threads=1)
    assert [model.fingerprint() for model in models] == [expected_of_short(name)] * SPREAD[name]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "n_workers"), [("regression", 3), ("binary, categories, weights", 2)])
def test_workers_that_vote_choose_among_the_same_splits(gpu, name, n_workers):
    """Where all features are chosen the model is that of one process; where few are, that of workers on the CPU."""
    voting = {"tree_learner": "voting", "num_threads": 1}
    case = replace(CASES[name], n_rounds=3)  # two rounds of some cases are alike, however few are chosen
    expected = case.train(device="cpu", num_threads=1).fingerprint()
    models = train_on_workers(case, n_workers, device=gpu, top_k=500, **voting)
    assert {model.fingerprint() for model in models} == {expected}
    few = [train_on_workers(case, n_workers, device=on, top_k=1, **voting) for on in (gpu, "cpu", "reference")]
    assert len({model.fingerprint() for models in few for model in models}) == 1
    assert few[0][0].fingerprint() != expected


@pytest.mark.large
@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("name", cases_of_workers())
def test_every_golden_case(gpu, name, n_workers):
    models = train_on_workers(CASES[name], n_workers, device=gpu, num_threads=1)
    assert {model.fingerprint() for model in models} == {expected_fingerprints()[name]}


PARAMS = {"objective": "binary", "num_leaves": 15, "min_data_in_leaf": 3, "verbosity": -1, "num_threads": 1}


@pytest.fixture(scope="module")
def problem():
    table = golden_table(600, 5, missing=True)
    return hb.Dataset(table, label=(golden_score(table) > 1.0).astype(float))


def on_workers(problem, n_workers, device, bounds=(150, 300, 450), before=None, **params):
    """Train on workers; returns the models of all of them.

    before  is called with a worker's collective, and returns what it takes in its place
    """
    pieces = cut(problem, list(bounds))

    def work(collective):
        taken = collective if before is None else before(collective)
        data = PartDataset(taken, [part for i, part in enumerate(pieces) if i % n_workers == collective.rank])
        return train({**PARAMS, "device": device, **params}, data, 4)

    return run_workers(n_workers, work, timeout=60)


@cache
def in_one_process(problem, **params):
    data = hb.Dataset(problem.data, label=problem.label)
    return hb.train({**PARAMS, "device": "cpu", **params}, data, 4).fingerprint()


def fingerprints(models):
    return {model.fingerprint() for model in models}


def test_rows_stay_on_the_device(gpu, problem, monkeypatch):
    """Neither gradients nor scores nor leaves of rows come down, also where trees see bags."""
    expected = in_one_process(problem, bagging_fraction=0.7, bagging_freq=1)

    def forbidden(*_):
        raise AssertionError("rows leave the device")

    for name in ("read_gradients", "scores", "row_leaves", "chosen_rows", "add_row_values"):
        monkeypatch.setattr(GpuEngine, name, forbidden)
    models = on_workers(problem, 2, gpu, bagging_fraction=0.7, bagging_freq=1)
    assert fingerprints(models) == {expected}


def test_labels_go_to_the_device_once(gpu, problem, monkeypatch):
    runtime, sizes = open_runtime(gpu), []
    upload = runtime.upload

    def noted(buffer, array, *at):
        sizes.append(array.nbytes)
        upload(buffer, array, *at)

    monkeypatch.setattr(runtime, "upload", noted)
    n_uploads = []
    for n_rounds in (1, 5):
        sizes.clear()
        params = {**PARAMS, "device": gpu}
        run_workers(1, lambda each, n=n_rounds: train(params, PartDataset(each, cut(problem, [])), n))  # noqa: B023
        n_uploads.append(sizes.count(problem.n_rows))  # labels 0 and 1 are bytes
    assert n_uploads == [1, 1]


def test_more_workers_than_rows(gpu):
    table = golden_table(6, 4)
    data = hb.Dataset(table, label=golden_score(table))
    params = {"objective": "regression", "min_data_in_leaf": 1, "min_data_in_bin": 1, "verbosity": -1}

    def work(collective):
        own = slice(collective.rank, collective.rank + 1)
        parts = [Part.make(collective.rank, table[own], label=data.label[own])] if collective.rank < 6 else []
        return train({**params, "device": gpu}, PartDataset(collective, parts), 3).fingerprint()

    assert set(run_workers(8, work)) == {hb.train({**params, "device": "cpu"}, data, 3).fingerprint()}


def test_devices_of_workers_may_differ(gpu, problem):
    pieces = cut(problem, [150, 300, 450])

    def work(collective):
        data = PartDataset(collective, parts_of_worker(pieces, collective.rank, 2))
        return train({**PARAMS, "device": (gpu, "cpu")[collective.rank]}, data, 4)

    assert fingerprints(run_workers(2, work, timeout=60)) == {in_one_process(problem)}


def test_one_worker_trains_as_one_process_does(gpu, problem, monkeypatch):
    monkeypatch.setattr("hornbeam.distributed.training.DistributedEngine", Mock(side_effect=AssertionError("asks")))
    for device in (gpu, "cpu", "reference"):
        assert fingerprints(on_workers(problem, 1, device)) == {in_one_process(problem)}


# --- which device a worker takes ------------------------------------------------------------------------------------


def deal(seen_by_rank, device="cuda", monkeypatch=None):
    """Return the devices that workers take who see these GPUs, by name of the GPU."""

    def gpus_of_kind(_):
        rank = int(threading.current_thread().name.rpartition("-")[2])
        return {gpu: f"cuda:{number}" for number, gpu in enumerate(seen_by_rank[rank])}

    monkeypatch.setattr(devices, "gpus_of_kind", gpus_of_kind)
    return run_workers(len(seen_by_rank), lambda collective: devices.deal_device(collective, device))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (["ab"] * 5, [0, 1, 0, 1, 0]),  # all see the same
        (["abc", "bca", "cab"], [0, 0, 0]),  # as dask-cuda shows them
        (["a", "b"], [0, 0]),  # one each
        (["ab", "cd", "ab", "cd"], [0, 0, 1, 1]),  # two machines
        (["ab", "a", "ab"], [0, 0, 1]),
    ],
)
def test_workers_share_gpus_evenly(monkeypatch, seen, expected):
    assert deal(seen, monkeypatch=monkeypatch) == [f"cuda:{number}" for number in expected]


def test_a_worker_that_sees_no_gpu_keeps_what_it_asked_for(monkeypatch):
    assert deal(["", "a"], monkeypatch=monkeypatch) == ["cuda", "cuda:0"]
    assert deal(["a", "a"], device="cpu", monkeypatch=monkeypatch) == ["cpu", "cpu"]


# --- several CUDA devices -------------------------------------------------------------------------------------------


def engines_of(monkeypatch):
    """Return a list that gets the name of every engine's device."""
    names, make = [], devices.make_engine

    def noted(*given):
        names.append(make(*given))
        return names[-1]

    monkeypatch.setattr(devices, "make_engine", noted)
    return names


@needs_opencl
@pytest.mark.parametrize("kind", [{}, {"objective": "regression"}, {"bagging_fraction": 0.5, "bagging_freq": 1}])
def test_devices_of_their_own_add_up_by_nccl(stand_in, problem, monkeypatch, kind):
    driver, engines = stand_in(n_devices=2), engines_of(monkeypatch)
    models = on_workers(problem, 2, "cuda", **kind)
    assert fingerprints(models) == {in_one_process(problem, **kind)}
    assert sorted(engine.device_name for engine in engines) == ["cuda:0", "cuda:1"]
    assert [group.n_reduced > 0 for group in driver.groups.values()] == [True]


OF_THEIR_OWN = {
    "binary, categories, weights": 2,
    "regression, features by tree": 3,
    "binary, features by level and node": 2,
    "regression, monotone, intermediate, categories": 2,
    "regression, forced splits": 3,
    "goss, multiclass": 2,
    "regression, 1000 bins": 2,
}
"""Golden cases, and how many devices train some rounds of them; `test_every_golden_case_on_devices_of_their_own` has
all.
"""


def assert_model_on_devices(stand_in, case, n_workers, expected):
    """Train a case on workers with a device each: they add up by NCCL, if all have rows and trees one output."""
    driver = stand_in(n_devices=n_workers)
    dataset = case.dataset()
    parts = cut(dataset, uneven_bounds(dataset.n_rows, n_workers))
    params = {**case.params, **case.callables, "verbosity": -1, "device": "cuda", "num_threads": 1}

    of_workers = [parts[rank::n_workers] for rank in range(n_workers)]

    def work(collective):
        return train(params, PartDataset(collective, of_workers[collective.rank]), case.n_rounds)

    assert fingerprints(run_workers(n_workers, work, timeout=60)) == {expected}
    adds_up = "multi_strategy" not in case.params and all(of_workers)
    assert any(group.n_reduced > 0 for group in driver.groups.values()) == adds_up


@needs_opencl
@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_model_on_devices_of_their_own_is_that_of_one_process(stand_in, name):
    assert_model_on_devices(stand_in, short_case(name), OF_THEIR_OWN[name], expected_of_short(name))


@needs_opencl
@pytest.mark.large
@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize("name", cases_of_workers())
def test_every_golden_case_on_devices_of_their_own(stand_in, name, n_workers):
    assert_model_on_devices(stand_in, CASES[name], n_workers, expected_fingerprints()[name])


@needs_opencl
def test_devices_search_where_histograms_stay(stand_in, problem, monkeypatch):
    stand_in(n_devices=2)
    monkeypatch.setattr(SectionSearch, "find", Mock(side_effect=AssertionError("the host searches")))
    assert fingerprints(on_workers(problem, 2, "cuda")) == {in_one_process(problem)}


@needs_opencl
@pytest.mark.parametrize("n_bytes", [1, 60_000])
def test_sums_that_do_not_fit_at_once_are_added_up_in_turn(stand_in, problem, monkeypatch, n_bytes):
    monkeypatch.setattr("hornbeam.backends.gpu.workers.trees.POOL_BYTES", n_bytes)
    driver = stand_in(n_devices=2)
    assert fingerprints(on_workers(problem, 2, "cuda")) == {in_one_process(problem)}
    n_in_turn = [group.n_reduced for group in driver.groups.values()]
    monkeypatch.undo()
    driver = stand_in(n_devices=2)
    on_workers(problem, 2, "cuda")
    assert n_in_turn[0] > max(group.n_reduced for group in driver.groups.values())


@needs_opencl
def test_more_devices_than_features(stand_in):
    stand_in(n_devices=3)
    table = golden_table(300, 2)
    narrow = hb.Dataset(table, label=(golden_score(golden_table(300, 5)) > 1.0).astype(float))
    assert fingerprints(on_workers(narrow, 3, "cuda", bounds=(100, 200))) == {in_one_process(narrow)}


@needs_opencl
@pytest.mark.parametrize("params", [{}, {"grow_policy": "depthwise", "max_depth": 5}])
def test_devices_with_room_for_different_numbers_of_histograms_agree(stand_in, problem, monkeypatch, params):
    stand_in(n_devices=2)
    monkeypatch.setattr(GpuEngine, "_fit_slots", lambda self, n: min(n, 5 if self.device_name == "cuda:1" else 9))
    assert fingerprints(on_workers(problem, 2, "cuda", **params)) == {in_one_process(problem, **params)}


@needs_opencl
@pytest.mark.parametrize(
    ("n_devices", "n_workers", "device", "switch"),
    [(2, 3, "cuda", "1"), (1, 2, "cuda", "1"), (2, 2, "cuda:1", "1"), (2, 2, "cuda", "0")],
)
def test_host_memory_is_used_where_devices_are_shared_or_nccl_is_off(
    stand_in, problem, monkeypatch, n_devices, n_workers, device, switch
):
    monkeypatch.setenv("HORNBEAM_NCCL", switch)
    driver = stand_in(n_devices=n_devices)
    assert fingerprints(on_workers(problem, n_workers, device)) == {in_one_process(problem)}
    assert driver.groups == {}


@needs_opencl
def test_a_worker_without_rows_leaves_histograms_to_the_host(stand_in, problem):
    driver = stand_in(n_devices=3)
    assert fingerprints(on_workers(problem, 3, "cuda", bounds=[300])) == {in_one_process(problem)}
    assert driver.groups == {}


@needs_opencl
def test_sums_of_64_bits_are_added_up_on_devices(stand_in, problem):
    stand_in(n_devices=2)
    params = {"precision": "high"}
    assert fingerprints(on_workers(problem, 2, "cuda", **params)) == {in_one_process(problem, **params)}


@needs_opencl
def test_a_failure_of_one_device_stops_all_workers(stand_in, problem):
    driver = stand_in(n_devices=2)
    driver.fail("malloc", driver.out_of_memory("no more"), skip=60)
    with pytest.raises(DeviceError, match="no more"):
        on_workers(problem, 2, "cuda")


@needs_opencl
def test_devices_that_do_not_answer_in_time_are_an_error(stand_in, problem, monkeypatch):
    stand_in(n_devices=2)
    monkeypatch.setattr("hornbeam.backends.gpu.runtime.nccl.DeviceGroup.wait", lambda self, seconds: False)
    with pytest.raises(CollectiveError, match="waited 60 s in 'histograms on devices'"):
        on_workers(problem, 2, "cuda")


@needs_opencl
def test_devices_that_do_not_join_in_time_are_an_error(stand_in, problem, monkeypatch):
    stand_in(n_devices=2)
    monkeypatch.setattr("concurrent.futures.Future.result", Mock(side_effect=futures.TimeoutError))
    with pytest.raises(CollectiveError, match="waited 60 s in 'group of devices'"):
        on_workers(problem, 2, "cuda")


@needs_opencl
def test_a_device_that_cannot_join_is_an_error_with_the_reason(stand_in, problem):
    driver = stand_in(n_devices=2)
    driver.fail("nccl", driver.runtime_error(2, "NCCL_ERROR_SYSTEM_ERROR: unhandled system error"))
    with pytest.raises(DeviceError, match="joining other devices by NCCL"):
        on_workers(problem, 2, "cuda")


def with_nccl(collective):
    return NcclCollective(collective, open_runtime("cuda:0"))


@needs_opencl
def test_one_rank_adds_up_by_nccl_on_the_stand_in(stand_in, problem):
    driver = stand_in()
    assert fingerprints(on_workers(problem, 1, "cuda", before=with_nccl)) == {in_one_process(problem)}
    assert [group.n_reduced > 0 for group in driver.groups.values()] == [True]


def test_one_rank_adds_up_by_nccl(problem):
    pytest.importorskip("cupy")
    from hornbeam.backends.gpu.runtime import nccl

    if "cuda:0" not in GPUS or not nccl.is_available():
        pytest.skip("no CUDA device, or CuPy has no NCCL")
    for params in ({}, {"objective": "regression", "precision": "high"}, {"bagging_fraction": 0.5, "bagging_freq": 1}):
        models = on_workers(problem, 1, "cuda:0", before=with_nccl, **params)
        assert fingerprints(models) == {in_one_process(problem, **params)}

"""A stream ends with the model of the same rows in memory, for any cut of the rows, with a file of bins or without."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import psutil
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.tuning import in_use, tuned
from hornbeam.core.errors import DataError
from hornbeam.params.params import Params
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import golden_score, golden_table, uniform

CUTS = {
    "regression": 1000,
    "regression, heavy tail": 65_536,
    "regression, 1000 bins": 1000,
    "binary, missing, weights": 1000,
    "multiclass": 317,
    "bagging": 1000,
    "goss": 1000,
    "dart": 1000,
    "random forest": 64,
    "lambdarank, bagging by query": 100,
    "rank_xendcg": 1000,
    "custom objective": 1000,
    "binary, categories, weights": 100,
    "regression, target encoding": 100,
    "lambdarank, target encoding": 1000,
    "regression, bins from a sample": 100,
    "regression, bins by feature": 1000,
    "regression, initial scores": 1000,
    "binary, features by level and node": 1000,
    "binary, sparse": 1000,
    "quantile, low": 100,
    "mape, weights, missing": 1000,
}
"""Golden cases and the rows of their batches here; `test_every_golden_case` has all of them."""


def cut(whole, rows):
    """Return a function that yields the rows of a Dataset in memory, with all that belongs to them, in batches."""
    ids = None if whole.group is None else np.repeat(np.arange(len(whole.group)), whole.group)
    scores = whole.get_init_score()

    def batches():
        for first in range(0, whole.n_rows, rows):
            part = slice(first, first + rows)
            fields = {"label": whole.label, "weight": whole.weight, "qid": ids, "init_score": scores}
            table = whole.data.iloc[part] if hasattr(whole.data, "iloc") else whole.data[part]
            yield {"data": table, **{name: None if own is None else own[part] for name, own in fields.items()}}

    return batches


def train_case(name, rows, cache, bins_by=None, **machine):
    """Train a golden case on a stream; `bins_by` is the device that makes its bins, if it is another."""
    case = CASES[name]
    whole = case.dataset()
    named = list(case.levels) if case.levels else "auto"
    data = hb.Dataset(hb.Stream(cut(whole, rows)), categorical_features=named, cache=cache)
    params = {**case.params, **case.callables, **machine, "verbosity": -1}
    if bins_by is not None:
        data.construct(Params.from_dict({**params, "device": bins_by}))
    return hb.train(params, data, case.n_rounds)


@pytest.mark.parametrize("name", CUTS)
def test_model_is_that_of_rows_in_memory(name, tmp_path):
    model = train_case(name, CUTS[name], tmp_path, bins_by="reference", device="cpu")
    assert model.fingerprint() == expected_fingerprints()[name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["binary, missing, weights", "binary, categories, weights", "goss"])
def test_engines_read_the_mapped_file(name, engine, tmp_path):
    assert train_case(name, 700, tmp_path, device=engine).fingerprint() == expected_fingerprints()[name]


@pytest.mark.large
@pytest.mark.parametrize("device", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("rows", [1000, 65_536, None], ids=str)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "linear_tree" not in case.params])
def test_every_golden_case(name, rows, device, tmp_path):
    if device == "opencl":
        pytest.importorskip("pyopencl")
    model = train_case(name, rows or 10**9, tmp_path if rows else None, device=device)
    assert model.fingerprint() == expected_fingerprints()[name]


@pytest.mark.parametrize("limit", ["most_cells", "most_mapped_cells"])
def test_bins_in_a_file_are_copied_by_a_limit_of_their_own(problem, limit, tmp_path):
    """Whoever keeps bins in a file has no memory to have them twice."""
    sets = {"most_cells": in_memory(problem), "most_mapped_cells": streamed(problem, cache=tmp_path / "kept")}
    params, may_copy = Params.from_dict({"device": "cpu"}), {}
    for kind, data in sets.items():
        binned = data.construct(params).binned
        for cells in (10, 1 << 20):
            with tuned(**{limit: cells}):
                may_copy[kind, cells] = DenseGrowth(binned, 1, 1, in_use()).may_copy
    assert may_copy == {(kind, cells): cells > 10 or kind != limit for kind in sets for cells in (10, 1 << 20)}


@pytest.fixture(scope="module")
def problem():
    """Return features with a column of levels, labels, and what trainings get."""
    table = golden_table(900, 5, missing=True)
    table[:, 4] = np.floor(5.0 * uniform(900, 77))
    return table, (golden_score(table) + table[:, 4] > 1.5).astype(float)


def in_memory(problem, rows=slice(None), **options):
    return hb.Dataset(problem[0][rows], label=problem[1][rows], categorical_features=[4], **options)


def streamed(problem, rows=slice(None), n=200, **options):
    whole = in_memory(problem, rows)
    return hb.Dataset(hb.Stream(cut(whole, n)), categorical_features=[4], **options)


PARAMS = {"objective": "binary", "num_leaves": 7, "verbosity": -1, "device": "reference"}
FIRST, LAST = slice(0, 600), slice(600, 900)


@pytest.mark.parametrize("kinds", ["both streams", "training in memory", "validation in memory"])
def test_validation_and_early_stopping_are_those_in_memory(problem, kinds, tmp_path):
    params = {**PARAMS, "metric": ["binary_logloss", "auc"], "learning_rate": 0.5, "early_stopping_round": 2}

    def train(is_stream, valid_is_stream):
        data = streamed(problem, FIRST, cache=tmp_path) if is_stream else in_memory(problem, FIRST)
        valid = streamed(problem, LAST, cache=tmp_path) if valid_is_stream else in_memory(problem, LAST)
        return hb.train(params, data, 30, valid_sets={"training": data, "valid": valid})

    one = train(False, False)
    other = train(kinds != "training in memory", kinds != "validation in memory")
    assert other.eval_history == one.eval_history
    assert (other.best_iteration, other.fingerprint()) == (one.best_iteration, one.fingerprint())
    assert 0 < one.best_iteration < 30


def test_reference_gives_its_bins_to_a_stream(problem, tmp_path):
    whole = in_memory(problem, FIRST)
    expected = in_memory(problem, LAST, reference=whole).construct()
    own = streamed(problem, LAST, reference=whole, cache=tmp_path)
    assert np.array_equal(own.binned.bins, expected.binned.bins)
    assert own.binned.mapper is whole.binned.mapper
    assert np.array_equal(streamed(problem, LAST, reference=streamed(problem, FIRST)).binned.bins, own.binned.bins)


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_training_goes_on_from_a_model_as_in_memory(problem, boosting, tmp_path):
    params = {**PARAMS, "boosting": boosting}
    start = hb.train(PARAMS, in_memory(problem), 3)
    expected = hb.train(params, in_memory(problem), 3, init_model=start)
    model = hb.train(params, streamed(problem, cache=tmp_path), 3, init_model=start)
    assert model.fingerprint() == expected.fingerprint()


def test_checkpoint_of_a_stream_goes_on(problem, tmp_path):
    state, data = tmp_path / "state", streamed(problem, cache=tmp_path)

    def stop(env):
        if env.iteration == 2:
            raise KeyboardInterrupt

    hb.train(PARAMS, data, 6, callbacks=[stop], checkpoint=state)
    model = hb.train(PARAMS, streamed(problem, n=77, cache=tmp_path), 6, checkpoint=state)
    assert model.fingerprint() == hb.train(PARAMS, in_memory(problem), 6).fingerprint()


def test_features_are_named_categorical_by_training_alone(problem):
    params = {**PARAMS, "categorical_feature": [4], "bin_construct_sample_cnt": 450, "max_bin": 20}
    whole = hb.Dataset(problem[0], label=problem[1])
    data = hb.Dataset(hb.Stream(cut(whole, 130)), bin_construct_sample_cnt=None)
    assert hb.train(params, data, 4).fingerprint() == hb.train(params, whole, 4).fingerprint()


@pytest.mark.parametrize("params", [{"zero_as_missing": True}, {"use_missing": False}], ids=str)
def test_features_of_one_value_are_used_as_in_memory(problem, params):
    table = problem[0].copy()
    table[:, 0] = np.where(uniform(900, 5) < 0.5, np.nan, 3.0)  # a value, and missing ones
    table[:, 2] = 0.0
    table[:, 3] = np.nan
    table[7, 3] = 1.0
    whole = hb.Dataset(table, label=problem[1], categorical_features=[4], bin_construct_sample_cnt=300, **params)
    data = hb.Dataset(hb.Stream(cut(whole, 250)), categorical_features=[4], bin_construct_sample_cnt=300, params=params)
    assert np.array_equal(data.mapper.used, whole.mapper.used)
    assert np.array_equal(data.mapper.has_missing, whole.mapper.has_missing)
    assert np.array_equal(data.binned.bins, whole.binned.bins)


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_methods_that_need_all_values_at_once_are_refused(problem, method):
    def batches():
        yield {"data": problem[0], "label": problem[1]}

    with pytest.raises(hb.ParameterError, match=f"tree_method='{method}'"):
        hb.train({"tree_method": method, "verbosity": -1}, hb.Dataset(hb.Stream(batches)), 1)


def test_labels_may_be_given_beside_a_stream(problem):
    table, label = problem
    data = hb.Dataset(hb.Stream(table, chunk_rows=100), label=label, categorical_features=[4])
    assert hb.train(PARAMS, data, 3).fingerprint() == hb.train(PARAMS, in_memory(problem), 3).fingerprint()
    with pytest.raises(DataError, match="label= is given to the Dataset, and comes with the stream too"):
        hb.Dataset(hb.Stream(cut(in_memory(problem), 100)), label=label)


# --- files that are kept ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(problem, tmp_path_factory):
    """Return the path of a file of bins, and the fingerprint of a training on it."""
    path = tmp_path_factory.mktemp("kept") / "train.bins"
    data = streamed(problem, cache=path.parent)
    assert data.save_binary(path) is data
    assert [file.name for file in path.parent.iterdir()] == ["train.bins"]
    fingerprint = hb.train(PARAMS, data, 4).fingerprint()
    assert fingerprint == hb.train(PARAMS, in_memory(problem), 4).fingerprint()
    return path, fingerprint


def test_kept_file_trains_to_the_same_model(kept, problem):
    path, fingerprint = kept
    data = hb.Dataset(path)
    assert (data.n_rows, data.n_features, data.categorical_features) == (900, 5, [4])
    assert np.array_equal(data.label, problem[1])
    assert hb.train(PARAMS, data, 4).fingerprint() == fingerprint


def test_kept_file_is_a_validation_set(problem, kept, tmp_path):
    data = hb.Dataset(kept[0])
    streamed(problem, LAST, reference=data, cache=tmp_path).save_binary(tmp_path / "valid.bins")
    valid = hb.Dataset(tmp_path / "valid.bins")
    model = hb.train({**PARAMS, "metric": "auc"}, data, 4, valid_sets={"valid": valid})
    expected = in_memory(problem, LAST, reference=(whole := in_memory(problem)))
    other = hb.train({**PARAMS, "metric": "auc"}, whole, 4, valid_sets={"valid": expected})
    assert model.eval_history == other.eval_history
    with pytest.raises(DataError, match="has other bins than the reference Dataset"):
        hb.Dataset(tmp_path / "valid.bins", reference=in_memory(problem, FIRST)).construct()


def test_kept_file_says_what_it_has_not(kept, problem):
    data = hb.Dataset(kept[0])
    start = hb.train(PARAMS, in_memory(problem), 1)
    with pytest.raises(DataError, match="a file of bins holds no values of features"):
        hb.train(PARAMS, data, 2, init_model=start)
    with pytest.raises(DataError, match="a file of bins holds no values of features"):
        data.subset([1, 2, 3])
    with pytest.raises(DataError, match=r"max_bin=99 in the training parameters, but the (file|Dataset) is"):
        hb.train({**PARAMS, "max_bin": 99}, hb.Dataset(kept[0]), 1)


def test_processes_share_a_kept_file(kept):
    path, fingerprint = kept
    program = (
        "import sys, json, hornbeam as hb\n"
        "data = hb.Dataset(sys.argv[1])\n"
        "print(hb.train(json.loads(sys.argv[2]), data, 4).fingerprint())"
    )
    path.chmod(0o444)
    arguments = [sys.executable, "-c", program, str(path), json.dumps(PARAMS)]
    processes = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == [fingerprint] * 2
    other = pickle.loads(pickle.dumps(hb.Dataset(path).construct()))
    assert hb.train(PARAMS, other, 4).fingerprint() == fingerprint


def test_dataset_of_a_file_without_a_name_is_not_pickled(problem, tmp_path):
    data = hb.Dataset(hb.Stream(problem[0]), label=problem[1], cache=tmp_path).construct()
    with pytest.raises(DataError, match="keep them by save_binary"):
        pickle.dumps(data)


@pytest.mark.parametrize("place", ["magic", "bins", "label", "directory", "end"])
def test_damage_is_an_error_when_the_file_is_opened(kept, tmp_path, place):
    content = bytearray(kept[0].read_bytes())
    ones = content.index(np.array([1.0, 0.0, 1.0]).tobytes())
    content[{"magic": 3, "bins": 4096 + 77, "label": ones + 7, "directory": -60, "end": -3}[place]] ^= 4
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|cannot be read|no table"):
        hb.Dataset(tmp_path / "damaged")


@pytest.mark.parametrize("left", [16, 4095, 4096, 10_000, -1])
def test_file_that_was_cut_off_is_an_error(kept, tmp_path, left):
    (tmp_path / "cut").write_bytes(kept[0].read_bytes()[:left])
    with pytest.raises(DataError, match="damaged: it is no whole file of bins"):
        hb.Dataset(tmp_path / "cut")
    assert str(tmp_path / "cut") not in {file.path for file in psutil.Process().open_files()}


def test_file_that_is_cut_off_later_is_an_error_before_training(kept, tmp_path):
    path = tmp_path / "later"
    path.write_bytes(kept[0].read_bytes())
    data = hb.Dataset(path).construct()
    with path.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(DataError, match="was cut off while it is in use"):
        hb.train(PARAMS, data, 1)


FULL = """
import resource, sys, numpy as np, hornbeam as hb
table = np.arange(60000.0).reshape(-1, 4)
for case in sys.argv[1:]:
    keep, limit, folder = case.split(":")
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), -1))  # a write beyond it fails, as on a full disk
    data = hb.Dataset(hb.Stream(table, chunk_rows=1000), label=table[:, 0], cache=None if keep == "keep" else folder)
    try:
        data.construct(hb.Params.from_dict({"device": "reference"}))
        data.save_binary(folder + "/kept")
    except hb.DataError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of file sizes")
def test_full_disk_leaves_nothing(tmp_path):
    folders = {(keep, limit): tmp_path / f"{keep}{limit}" for keep in ("", "keep") for limit in (2000, 50_000)}
    for folder in folders.values():
        folder.mkdir()
    cases = [f"{keep}:{limit}:{folder}" for (keep, limit), folder in folders.items()]
    done = subprocess.run([sys.executable, "-c", FULL, *cases], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("the bins do not fit") == len(cases)
    assert done.stdout.count("nothing was left there") == len(cases)
    assert [file for folder in folders.values() for file in folder.iterdir()] == []


def test_too_little_room_is_an_error_before_bins_are_written(problem, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 100})())
    with pytest.raises(DataError, match="0 MB are needed and 0 MB are free"):
        streamed(problem, cache=tmp_path).construct()
    assert list(tmp_path.iterdir()) == []


def test_stream_that_fails_while_bins_are_written_leaves_nothing(problem, tmp_path):
    calls = []

    def batches():
        calls.append(1)
        for first in range(0, 900, 100):
            if len(calls) > 1 and first == 500:
                raise RuntimeError("the network is gone")
            yield problem[0][first : first + 100], problem[1][first : first + 100]

    data = hb.Dataset(hb.Stream(batches), cache=tmp_path / "new" / "folder")
    with pytest.raises(RuntimeError, match="the network is gone"):
        data.construct()
    assert list((tmp_path / "new" / "folder").iterdir()) == []

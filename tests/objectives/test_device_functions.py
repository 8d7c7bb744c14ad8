"""Functions that are marked by hb.on_device: the mark itself, and what they see where arrays are NumPy's."""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.objectives.device_functions import DeviceData, is_on_device
from hornbeam.testing.golden_case import uniform

X = np.column_stack([uniform(300, column) for column in range(4)])
Y = X[:, 0] * 3.0 + X[:, 1]
WEIGHT = 1.0 + np.arange(300) % 2
SMALL = {"num_leaves": 5, "verbosity": -1}


@hb.on_device
def squared(scores, data):
    return scores - data.label, data.xp.ones_like(scores)


def plain(scores, dataset):
    return scores - dataset.label, np.ones_like(scores)


class Loss:
    __slots__ = ("power",)

    def __init__(self, power=1.0):
        self.power = power

    def bound(self, scores, data):
        return squared(scores, data)

    @hb.on_device
    def decorated(self, scores, data):
        return squared(scores, data)


class Called:
    @hb.on_device
    def __call__(self, scores, data):
        return squared(scores, data)


class Slots:
    __slots__ = ()

    def __call__(self, scores, data):
        return squared(scores, data)


def make_functions():
    """Everything that can be called, marked."""
    return {
        "decorated": squared,
        "marked where it is passed": hb.on_device(lambda scores, data: squared(scores, data)),
        "partial of a marked one": functools.partial(squared),
        "marked partial": hb.on_device(functools.partial(plain)),
        "bound method": hb.on_device(Loss().bound),
        "decorated method": Loss().decorated,
        "decorated __call__": Called(),
        "instance without attributes": hb.on_device(Slots()),
        "wrapped": functools.wraps(squared)(lambda *given: squared(*given)),
    }


def train(objective, **given):
    return hb.train({**SMALL, "objective": objective}, hb.Dataset(X, label=Y, weight=WEIGHT), 4, **given)


def test_an_unmarked_function_stays_unmarked():
    for function in (plain, Loss().bound, functools.partial(plain), Slots(), max, "binary", None):
        assert not is_on_device(function)


@pytest.mark.parametrize("name", make_functions())
def test_whatever_is_marked_trains_the_model_of_the_plain_function(name):
    function = make_functions()[name]
    assert is_on_device(function)
    assert train(function).fingerprint() == train(plain).fingerprint()


@pytest.mark.parametrize(
    "name", [name for name in make_functions() if name not in ("wrapped", "marked where it is passed")]
)
def test_the_mark_survives_pickle_and_copies(name):
    function = make_functions()[name]
    for made in (pickle.loads(pickle.dumps(function)), copy.deepcopy(function), copy.copy(function)):
        assert is_on_device(made)
        assert train(made).fingerprint() == train(plain).fingerprint()
    assert pickle.loads(pickle.dumps(squared)) is squared


@pytest.mark.parametrize("given", [3, None, "squared", Loss])
def test_only_functions_can_be_marked(given):
    with pytest.raises(hb.ParameterError, match="on_device takes a function"):
        hb.on_device(given)


def test_a_marked_function_sees_the_dataset_as_numpy_arrays(device):
    dataset = hb.Dataset(X, label=Y, weight=WEIGHT, init_score=Y * 0.5, group=[100, 200])
    if device.startswith("cuda"):
        pytest.skip("arrays are CuPy's")
    seen = []

    @hb.on_device
    def objective(scores, data):
        seen.append((scores.copy(), data))
        scores[:] = np.nan  # a copy
        return seen[0][0] - data.label, [1] * 300

    @hb.on_device
    def metric(predictions, data):
        seen.append((predictions, data))
        return "error", np.abs(predictions - data.label).max(), False

    params = {**SMALL, "objective": objective, "device": device}
    booster = hb.train(params, dataset, 2, {"training": dataset}, feval=metric)
    assert booster.eval_history["training"]["error"]
    for scores, data in seen:
        assert type(scores) is np.ndarray and scores.shape == (300,)
        assert data.xp is np and data.dataset is dataset
        for name in ("label", "weight", "init_score", "group", "query_boundaries", "feature_names", "n_rows"):
            assert getattr(data, name) is getattr(dataset, name)
        for name in ("label", "weight"):
            assert getattr(data, f"get_{name}")() is data.get_field(name) is getattr(dataset, name)
        assert data.get_group() is dataset.group and data.get_field("group") is dataset.query_boundaries
        assert (data.get_init_score() == Y * 0.5).all() and (data.get_field("init_score") == Y * 0.5).all()
        assert data.array([1.0, 2.0]).tolist() == [1.0, 2.0]
        with pytest.raises(hb.DataError, match="field 'nonsense'"):
            data.get_field("nonsense")
        with pytest.raises(AttributeError, match="nonsense"):
            data.nonsense  # noqa: B018


def test_what_is_not_there_is_none():
    data = DeviceData(hb.Dataset(X))
    assert (data.label, data.weight, data.init_score, data.group, data.query_boundaries) == (None,) * 5
    assert copy.copy(data).n_rows == 300 and data.get_init_score() is None
    several = DeviceData(hb.Dataset(X, init_score=X[:, :2]))
    assert (several.get_init_score() == X[:, :2]).all()


def test_a_checkpoint_goes_on_and_refit_calls_the_function(tmp_path):
    def stop(env):
        if env.iteration == 2:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(squared, callbacks=[stop], checkpoint=tmp_path / "run", checkpoint_freq=1)
    booster = train(squared, checkpoint=tmp_path / "run")
    assert booster.fingerprint() == train(plain).fingerprint()
    new = [booster.refit(X, Y + 1.0, objective=function).fingerprint() for function in (squared, plain)]
    assert new[0] == new[1] != booster.fingerprint()


def test_a_function_may_use_its_arrays_again():
    """The engine has copies: what the function writes next time does not change what it returned before."""
    gradient, hessian = np.empty(300), np.ones(300)

    def thrifty(scores, dataset):
        np.subtract(scores, dataset.label, out=gradient)
        return gradient, hessian

    def spoil(env):
        gradient[:] = np.nan

    assert train(thrifty, callbacks=[spoil]).fingerprint() == train(plain).fingerprint()
    spoil.before_iteration = True
    assert train(thrifty, callbacks=[spoil]).fingerprint() == train(plain).fingerprint()

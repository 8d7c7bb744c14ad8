"""Floating point modes that other libraries set change no model, and are put back."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import struct
import sys

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import HornbeamError
from hornbeam.core.float_mode import default_mode, is_default

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="modes are set through glibc's fenv_t")

LAYOUT = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""Where the control word lies in fenv_t, and its bits that flush to zero."""

ROUND_UP = {"x86_64": 0x800, "aarch64": 0x400000}


@pytest.fixture(params=["flush to zero", "round up"])
def other_mode(request):
    library, machine = ctypes.CDLL(ctypes.util.find_library("m")), platform.machine()
    if machine not in LAYOUT:
        pytest.skip(f"modes of {machine} are not known here")
    before = ctypes.create_string_buffer(256)
    assert library.fegetenv(before) == 0
    if request.param == "round up":
        assert library.fesetround(ROUND_UP[machine]) == 0
    else:
        offset, bits = LAYOUT[machine]
        changed = ctypes.create_string_buffer(before.raw, 256)
        (word,) = struct.unpack_from("<I", changed, offset)
        struct.pack_into("<I", changed, offset, word | bits)
        assert library.fesetenv(changed) == 0
    try:
        assert not is_default()
        yield
    finally:
        library.fesetenv(before)


X = np.random.default_rng(0).standard_normal((300, 4)) * 1e-3
X[::3, 1] *= 2.0**-1060  # subnormal
y = (X[:, 0] > 0.0) * 1.0


def results():
    params = {"objective": "binary", "verbosity": -1, "num_threads": 2, "learning_rate": 0.3, "metric": "auc"}
    train = hb.Dataset(X, label=y)
    model = hb.train(params, train, 5, {"train": train})
    return model.fingerprint(), model.eval_history, model.predict(X).tolist(), model.refit(X, y).fingerprint()


EXPECTED = results()


def test_models_are_those_of_the_default_mode(other_mode):
    assert results() == EXPECTED


def test_the_mode_is_put_back(other_mode):
    with default_mode():
        assert is_default()
    assert not is_default()
    with pytest.raises(KeyError), default_mode():
        raise KeyError
    assert not is_default()


def test_a_mode_that_a_callback_sets_in_the_middle_changes_nothing():
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    if platform.machine() not in ROUND_UP:
        pytest.skip("the mode is not known here")
    params = {"objective": "binary", "verbosity": -1}

    def train(callbacks):
        return hb.train(params, hb.Dataset(X, label=y), 6, callbacks=callbacks).fingerprint()

    try:
        set_mode = [lambda env: library.fesetround(ROUND_UP[platform.machine()])]
        assert train(set_mode) == train([])
    finally:
        library.fesetround(0)


def test_a_mode_that_cannot_be_set_is_an_error(other_mode, monkeypatch):
    monkeypatch.setattr("hornbeam.core.float_mode._math_library", lambda: None)
    with pytest.raises(HornbeamError, match="another thread"), default_mode():
        pytest.fail("it must not begin")

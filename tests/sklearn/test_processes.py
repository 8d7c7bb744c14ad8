"""Fits side by side in threads and processes, and in a forked child, give the model of a plain fit."""

from __future__ import annotations

import multiprocessing
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from hornbeam.sklearn import HornbeamClassifier

X = np.random.default_rng(0).normal(size=(2000, 6))
Y = X[:, 0] + X[:, 1] ** 2 > 0.5
MODEL = HornbeamClassifier(n_estimators=5, num_leaves=7, verbosity=-1, n_jobs=2)


def fit() -> str:
    return clone(MODEL).fit(X, Y).booster_.fingerprint()


def fit_into(queue) -> None:
    queue.put(fit())


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_parallel_fits_give_the_same_model(backend):
    # a method of the library, not a function of this file: processes need not import the tests
    tasks = [joblib.delayed(clone(MODEL).fit)(X, Y) for _ in range(4)]
    found = joblib.Parallel(n_jobs=2, backend=backend)(tasks)
    assert {model.booster_.fingerprint() for model in found} == {fit()}


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="forking is not safe there")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fit_in_a_forked_child_after_a_fit_in_the_parent():
    expected = fit()  # starts the threads that the child will not have
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=fit_into, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == expected
    finally:
        child.join(10)
        child.kill()

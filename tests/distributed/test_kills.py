"""Workers of a real Dask cluster that are killed with -9 at a random moment: before, during or after the training."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import hornbeam as hb

pytest.importorskip("distributed")

import dask.array as da
from distributed import Client, LocalCluster

import hornbeam.dask as hbd

PARAMS = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 7}
ROUNDS, MOST_SECONDS = 12, 60.0
X = np.random.default_rng(5).normal(size=(1200, 4))
Y = (X[:, 0] * X[:, 1] > 0.0).astype(float)


@pytest.fixture
def client():
    """A cluster for each kill: a nanny does not always bring back a worker that was killed before."""
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def one():
    return hb.train(PARAMS, hb.Dataset(X, label=Y), ROUNDS).fingerprint()


@pytest.mark.large
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(20))
def test_model_is_the_same_whenever_a_worker_is_killed(client, one, seed):
    rng = np.random.default_rng(seed)
    victim = sorted(client.run(os.getpid).values())[rng.integers(3)]
    data = hbd.Dataset(client, da.from_array(X, (100, 4)), label=da.from_array(Y, 100))
    timer = threading.Timer(rng.uniform(0.0, 4.0), os.kill, (victim, signal.SIGKILL))
    begun = time.monotonic()
    timer.start()
    booster = hbd.train(client, PARAMS, data, ROUNDS, retries=2, checkpoint_freq=1)
    assert time.monotonic() - begun < MOST_SECONDS
    timer.join()
    assert booster.fingerprint() == one
    assert not any(key.startswith("hornbeam-train") for keys in client.processing().values() for key in keys)

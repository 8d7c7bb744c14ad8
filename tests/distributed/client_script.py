"""What test_clients.py interrupts and kills: a client whose training would take very long.

It finds in its globals what test_clients.py gives it.
"""

from __future__ import annotations

import time
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client

import hornbeam.dask as hbd

X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] > 0.0).astype(float)
GIVEN: dict[str, Any] = globals()["given"]


def wait(env):
    """Take some time; one worker takes longer, so that the others wait for it."""
    from distributed import get_worker

    worker = get_worker()
    worker.iterations_done = env.iteration + 1
    time.sleep(0.01 if str(worker.name) == "0" else 0.1)


dask.config.set({"distributed.scheduler.locks": GIVEN["locks"]})
with Client(GIVEN["address"], security=GIVEN["security"]) as client:
    data = hbd.Dataset(client, da.from_array(X, (100, 3)), label=da.from_array(Y, 100))
    params = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 4}
    hbd.train(client, params, data, 100_000, callbacks=[wait], retries=GIVEN["retries"], checkpoint_freq=1)

"""What test_clients.py interrupts and kills: a client whose training would take very long."""

from __future__ import annotations

import sys
import time

import dask.array as da
import numpy as np
from distributed import Client

import hornbeam.dask as hbd

X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] > 0.0).astype(float)


def wait(env):
    """Take some time; one worker takes longer, so that the others wait for it."""
    from distributed import get_worker

    time.sleep(0.02 if str(get_worker().name) == "0" else 0.2)


if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        data = hbd.Dataset(client, da.from_array(X, (100, 3)), label=da.from_array(Y, 100))
        params = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 4}
        retries = int(sys.argv[2])
        hbd.train(client, params, data, 100_000, callbacks=[wait], retries=retries, checkpoint_freq=1)

"""Clients of a real Dask cluster that are interrupted, or killed, in the middle of a training."""

from __future__ import annotations

import os
import runpy
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import hornbeam as hb

pytest.importorskip("distributed")

import dask
import dask.array as da

import hornbeam.dask as hbd
from hornbeam.distributed.dask import mailbox
from hornbeam.distributed.host_memory import this_host

SCRIPT = Path(__file__).with_name("client_script.py")
PARAMS = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 7}
X = np.random.default_rng(0).normal(size=(600, 4))
Y = (X[:, 0] * X[:, 1] > 0.0).astype(float)
MOST_SECONDS = 60.0


def held():
    """Return what trainings hold in this process: mailboxes, states, and segments of shared memory."""
    import contextlib
    import gc

    gc.collect()
    found = []
    for path in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").exists() else []:
        with contextlib.suppress(OSError):
            found.append(str(path.readlink()))
    n_segments = sum(each.startswith("/memfd:hornbeam") for each in found)
    return len(mailbox.MAILBOXES), len(mailbox.STATES), n_segments


def iterations_done(dask_worker):
    return getattr(dask_worker, "iterations_done", 0)


def forget_iterations(dask_worker):
    dask_worker.iterations_done = 0


def wait_for(condition):
    """Wait until something is so."""
    stop_at = time.monotonic() + MOST_SECONDS
    while not condition():
        assert time.monotonic() < stop_at
        time.sleep(0.02)


@pytest.mark.sampled
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_workers_stop_when_their_client_does_and_train_for_others(cluster, client, processes, ending, retries):
    given = {"address": cluster.scheduler_address, "security": cluster.security, "retries": retries}
    given["locks"] = dask.config.get("distributed.scheduler.locks")
    client.run(forget_iterations)
    other = processes.Process(target=runpy.run_path, args=(str(SCRIPT), {"given": given}, "__main__"))
    other.start()
    n_segments = 2 if this_host() else 0

    def is_training():
        assert other.is_alive()
        begun = all(n > 2 for n in client.run(iterations_done).values())
        return begun and all(boxes == 1 and n >= n_segments for boxes, _, n in client.run(held).values())

    try:
        wait_for(is_training)
        os.kill(other.pid, ending)
        other.join(MOST_SECONDS)
        assert other.exitcode not in (0, None)
    finally:
        other.kill()
    wait_for(lambda: not any(key for keys in client.processing().values() for key in keys))
    wait_for(lambda: all(boxes == n == 0 for boxes, _, n in client.run(held).values()))
    data = hbd.Dataset(client, da.from_array(X, (150, 4)), label=da.from_array(Y, 150))
    booster = hbd.train(client, PARAMS, data, 3)
    assert booster.fingerprint() == hb.train(PARAMS, hb.Dataset(X, label=Y), 3).fingerprint()
    assert set(client.run(held).values()) == {(0, 0, 0)}

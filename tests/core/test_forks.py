"""A child that is forked while another thread trains can train and predict itself, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hornbeam.core.lazy import lazy
from hornbeam.core.locks import Lock

FORKS = """
import os, signal, sys, threading, time, warnings
import numpy as np
import hornbeam as hb

warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads is forked
X = np.random.default_rng(0).standard_normal((400, 6))
y = X[:, 0] + (X[:, 1] > 0)
params = {"verbosity": -1, "num_threads": 2, "device": "cpu", "num_leaves": 7}


def train():
    model = hb.train(params, hb.Dataset(X, label=y), 3)
    return model.fingerprint(), float(model.predict(X).sum())


expected = train()
stop = threading.Event()


def keep_training():
    while not stop.is_set():
        train()


thread = threading.Thread(target=keep_training, daemon=True)
thread.start()
hung = wrong = 0
for _ in range(int(sys.argv[1])):
    time.sleep(0.003)
    child = os.fork()
    if child == 0:
        os._exit(0 if train() == expected else 3)
    end = time.monotonic() + 60.0
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            wrong += os.waitstatus_to_exitcode(status) != 0
            break
        if time.monotonic() > end:
            hung += 1
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.002)
stop.set()
thread.join()
print(hung, wrong)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_children_forked_while_a_thread_trains_do_not_hang():
    ran = subprocess.run([sys.executable, "-c", FORKS, "40"], capture_output=True, text=True)
    assert ran.stdout.split() == ["0", "0"], ran.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_lock_that_the_parent_holds_is_open_in_the_child():
    code = (
        "import os\nfrom hornbeam.core.locks import Lock\nlock = Lock()\n"
        "with lock:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with lock:\n"
        "            os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["7"], ran.stderr


def test_a_lock_excludes():
    lock, entered = Lock(), []
    with lock:
        entered.append(lock._lock.acquire(blocking=False))
    assert entered == [False]


def test_a_lazy_attribute_is_computed_once_and_may_be_replaced():
    class Holder:
        calls = 0

        @lazy
        def value(self) -> int:
            """Some number."""
            self.calls += 1
            return 7

    holder = Holder()
    assert (holder.value, holder.value, holder.calls) == (7, 7, 1)
    holder.value = 8
    assert holder.value == 8
    assert Holder.value.__doc__ == "Some number."

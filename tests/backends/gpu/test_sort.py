"""The sort on a device is NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.backends.gpu.workspace.sort import DeviceSort
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.testing.checks import usable_devices

GPUS = [device for device in usable_devices() if device not in ("reference", "cpu")]


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize(
    ("n", "kind"),
    [
        *((n, kind) for n in (1, 2, 2047, 2048, 2049, 40_000) for kind in ("random", "few", "equal")),
        (65_536, "random"),  # the most tiles of 2,048 whose digits are scanned by a thread each
        (65_537, "random"),
        (530_000, "few"),  # more tiles than threads
    ],
)
def test_keys_and_payloads_are_sorted_and_stable(device, n, kind):
    rng = np.random.default_rng(n)
    keys = rng.integers(0, 2**64, n, np.uint64, endpoint=False)
    if kind != "random":
        keys = rng.choice(keys[: 5 if kind == "few" else 1], n)
    keys[rng.integers(0, n, n // 10)] = 2**64 - 1  # what stands behind the last key of a tile looks like this
    workspace = Workspace(open_runtime(device), n)
    try:
        sort = DeviceSort(workspace)
        buffers = sort.room(n)
        for buffer, array in zip(buffers, (keys, np.arange(n, dtype=np.uint32)), strict=True):
            workspace.runtime.upload(buffer, array)
        sort.sort(n)
        found, payload = np.empty(n, np.uint64), np.empty(n, np.uint32)
        workspace.runtime.download(buffers[0], found)
        workspace.runtime.download(buffers[1], payload)
    finally:
        workspace.close()
    order = np.argsort(keys, kind="stable")
    assert (payload == order).all()
    assert (found == keys[order]).all()

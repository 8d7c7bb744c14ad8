"""Leaves renewed on a device: more leaves than are searched at once, and more tiles than groups."""

from __future__ import annotations

import numpy as np
import pytest

from hornbeam.backends.gpu.growth import renewal
from hornbeam.testing.checks import assert_same_bits, binned_data, engine_on, usable_devices
from hornbeam.testing.data import make_binned
from hornbeam.trees.records import Segments

GPUS = [device for device in usable_devices() if device not in ("reference", "cpu")]


@pytest.mark.sampled
@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("n_rows", "n_leaves"), [(1, 1), (60_000, 2), (3000, 40)])
def test_renewed_leaves_equal_the_cpus(device, n_rows, n_leaves, weighted, monkeypatch):
    monkeypatch.setattr(renewal, "LEAVES_AT_ONCE", 7)
    rng = np.random.default_rng(n_rows)
    scores = rng.normal(size=(1, n_rows)) * rng.choice([1e-300, 1.0, 1e200], n_rows)
    label = np.round(rng.normal(size=n_rows), 2)
    weight = rng.choice([0.0, 1e-9, 0.3, 1e9], n_rows) if weighted else None
    ends = np.sort(np.append(rng.integers(0, n_rows, n_leaves - 1), n_rows))  # some leaves have no rows
    nodes = Segments(np.append(0, ends[:-1]), ends, np.zeros(n_leaves, np.int32))
    found = []
    for name in (device, "cpu"):
        engine = engine_on(name, binned_data(make_binned(n_rows, 2, 5)))
        engine.set_scores(scores)
        engine.set_gradients(np.ones((1, n_rows)), np.ones((1, n_rows)))
        engine.quantize(0, False)
        engine.begin_tree(2)
        engine.assign_leaves(nodes, np.arange(n_leaves, dtype=np.int32)[::-1].copy())
        rules = (0.5, False), (0.01, False), (0.9, False), (0.5, True)
        found.append(np.array([engine.renew_leaves(0, alpha, label, weight, n_leaves, to) for alpha, to in rules]))
        engine.close()
    assert_same_bits(*found, "renewed leaves")

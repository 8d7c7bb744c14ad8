"""Trees with categorical features on a GPU: grown without the host, and the same however far the device comes."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth import categorical as categorical_module
from hornbeam.backends.gpu.growth import growth as growth_module

PARAMS = {
    "objective": "binary", "num_leaves": 31, "min_data_in_leaf": 3, "min_data_per_group": 5, "cat_smooth": 2.0,
    "categorical_feature": [0, 2], "verbosity": -1,
}  # fmt: skip


def made(n_rows=900):
    """Two numbers between categorical features of 40 and of 3 levels."""
    rng = np.random.default_rng(3)
    level, few = rng.integers(0, 40, n_rows), rng.integers(0, 3, n_rows)
    x = rng.normal(size=(n_rows, 2))
    score = rng.normal(size=40)[level] + x[:, 0] * (few - 1) + x[:, 1]
    return np.column_stack([level, x[:, 0], few, x[:, 1]]), (score + rng.normal(size=n_rows) > 0).astype(float)


def trained(device, **changes):
    X, y = made()
    return hb.train({**PARAMS, **changes, "device": device}, hb.Dataset(X, label=y), 2)


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_model_does_not_depend_on_how_far_the_device_grows_ahead(gpu, monkeypatch, policy):
    expected = trained("reference", grow_policy=policy).fingerprint()
    for capacity in (1, 9) if policy == "leafwise" else (40, growth_module.CAPACITY):
        monkeypatch.setattr(growth_module, "CAPACITY", capacity)  # the device stops there, and the host goes on
        assert trained(gpu, grow_policy=policy).fingerprint() == expected


def test_model_does_not_depend_on_room_for_sets(gpu, monkeypatch):
    expected = trained("reference").fingerprint()
    for name in ("SETS_BYTES", "FIRST_SETS"):
        with monkeypatch.context() as patch:
            patch.setattr(categorical_module, name, 1)
            assert trained(gpu).fingerprint() == expected


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_device_finishes_trees_without_the_host(gpu, monkeypatch, policy):
    rounds = []
    expand = GpuEngine.expand
    monkeypatch.setattr(GpuEngine, "expand", lambda self, *given: rounds.append(1) or expand(self, *given))
    booster = trained(gpu, grow_policy=policy)
    assert booster.trees[-1].n_leaves == 31
    assert any(tree.left_codes is not None for tree in booster.trees)
    assert rounds == []

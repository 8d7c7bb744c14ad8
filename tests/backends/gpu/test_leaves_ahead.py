"""Leaves of trees that a GPU grows by itself: rows learn them, and the values follow, before the host sees the tree."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth import growth as growth_module
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.testing.checks import PLAIN_RULES
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.grower import TreeGrower

BIG = 1 << 30


def equal_gains(seed: int, n_rows: int = 600, n_levels: int = 40):
    """Return data of whole numbers and chance, in which many nodes have the same gain to the last bit."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_levels, size=(n_rows, 2)).astype(float), rng.integers(0, 2, n_rows).astype(float)


def train(device: str, X, y, rounds=3, **params):
    settings = {
        "objective": "regression",
        "boost_from_average": False,
        "min_data_in_leaf": 1,
        "learning_rate": 0.5,
        "verbosity": -1,
        **params,
    }
    return hb.train({**settings, "device": device}, hb.Dataset(X, label=y), rounds)


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
@pytest.mark.parametrize(("seed", "n_leaves"), [(1, 2), (1, 40), (1, 100), (5, 100), (8, 100)])
def test_equal_gains_are_split_in_the_order_in_which_they_were_made(gpu, assigned, policy, seed, n_leaves):
    X, y = equal_gains(seed)
    params = {"num_leaves": n_leaves, "grow_policy": policy}
    found = train(gpu, X, y, **params)
    assert set(assigned) == {"device"}
    assert found.fingerprint() == train("reference", X, y, **params).fingerprint()


def test_renewed_leaves_are_those_of_the_definition(gpu, assigned):
    """Of trees whose leaves have other values than Newton steps, too, the host assigns none."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(900, 4))
    y = X[:, 0] * X[:, 1] + rng.standard_cauchy(900)
    for params in ({"objective": "l1"}, {"objective": "quantile", "alpha": 0.7}, {"objective": "logcosh"}):
        found = train(gpu, X, y, **params, num_leaves=20, max_delta_step=0.7)
        assert (
            found.fingerprint() == train("reference", X, y, **params, num_leaves=20, max_delta_step=0.7).fingerprint()
        )
    assert set(assigned) == {"device"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bagging_fraction": 0.6, "bagging_freq": 1},
        {"precision": "high"},
        {"monotone_constraints": [0, 1, 1, 0, 0], "path_smooth": 1.0, "min_data_in_leaf": 2},
        {"objective": "l1", "max_delta_step": 0.4},
        {"objective": "mape", "bagging_fraction": 0.6, "bagging_freq": 1},
        {"objective": "quantile", "alpha": 0.2, "data_sample_strategy": "goss", "learning_rate": 1.0},
        {"objective": "logcosh", "path_smooth": 1.0, "min_data_in_leaf": 2},
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
    ],
)
def test_leaves_of_the_device_are_those_that_the_host_would_assign(gpu, monkeypatch, options):
    """Every row's leaf, the values and the sums, with `==`, and a tree whose rounds end before it is finished."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 5))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(size=800)
    monkeypatch.setattr(growth_module, "FIRST_ROUNDS_AHEAD", 3)
    monkeypatch.setattr(growth_module, "MORE_ROUNDS", 2)
    params = {"num_leaves": 40, **options}
    on_device = train(gpu, X, y, 2, **params)
    grow_ahead = GpuEngine.grow_ahead

    def without_leaves(self, root, rules, limits, learning_rate=None, *given):
        return grow_ahead(self, root, rules, limits, None, *given)

    monkeypatch.setattr(GpuEngine, "grow_ahead", without_leaves)
    assert on_device.fingerprint() == train(gpu, X, y, 2, **params).fingerprint()


def test_tree_that_does_not_fit_is_left_to_the_host(gpu, assigned):
    """With few slots the device cannot evaluate all of the best nodes; then its leaves are void."""
    X, y = equal_gains(2)
    params = {"num_leaves": 40, "histogram_pool_size": 0.01}
    found = train(gpu, X, y, **params)
    assert "host" in assigned
    assert found.fingerprint() == train("reference", X, y, **params).fingerprint()


def test_rows_and_values_of_a_grown_tree_agree(gpu):
    """What add_leaf_values adds to a row is the value of the leaf that prediction finds for it."""
    X, y = equal_gains(3)
    binned = hb.Dataset(X).construct().binned
    engine = GpuEngine(open_runtime(gpu), binned, min_data_in_leaf=1)
    engine.set_scores(np.zeros((1, len(y))))
    engine.set_gradients(y.mean() - y[None], np.ones((1, len(y))))
    grower = TreeGrower(engine, binned, PLAIN_RULES, GrowthLimits(25, BIG, False), 60)
    grown = grower.grow(engine.quantize(0, False), 0.1)
    engine.add_leaf_values(0, grown.value_for_engine)
    scores = engine.scores()[0]
    engine.set_scores(np.zeros((1, len(y))))
    engine.add_tree(-1, 0, grown.binned)
    assert grown.n_splits == 24
    assert np.array_equal(scores, engine.scores()[0])
    assert grown.tree.leaf_count.sum() == len(y)
    engine.close()

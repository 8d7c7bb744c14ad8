"""Metrics on a device have the bits of the host's, and training brings no scores to the host for them."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.gpu.metrics import LINKS, LOSSES
from hornbeam.metrics import METRICS
from hornbeam.metrics.base import MeanLoss
from hornbeam.objectives import OBJECTIVES
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.metric_checks import assert_same_metrics

GPUS = [device for device in usable_devices() if device not in ("reference", "cpu")]

ON_THE_HOST = {"auc", "average_precision", "auc_mu", "ndcg", "map", "mrr"}
"""Metrics without a kernel."""


def test_every_mean_loss_and_every_link_has_a_kernel():
    assert {name for name, kind in METRICS.items() if issubclass(kind, MeanLoss)} == set(LOSSES)
    assert {kind.link for kind in OBJECTIVES.values()} <= set(LINKS)


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("n_rows", [1, 5003])
@pytest.mark.parametrize("name", sorted(METRICS))
def test_metric_has_the_bits_of_the_host(device, name, n_rows):
    left = assert_same_metrics(device, n_rows, names=(name,))
    assert bool(left) == (name in ON_THE_HOST)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_engines_in_host_memory_leave_metrics_to_the_host(device):
    assert assert_same_metrics(device, 5, names=("l2", "auc")) == ["l2", "auc"]


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_no_scores_come_to_the_host_for_metrics(device, boosting, monkeypatch):
    from hornbeam.backends.gpu.engine import GpuEngine

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    train_set = hb.Dataset(X, label=(X[:, 0] > 0).astype(float))
    valid = hb.Dataset(X[:100], label=(X[:100, 0] > 0.1).astype(float), reference=train_set)
    params = {
        "objective": "binary", "metric": ["binary_logloss", "binary_error", "l1"], "boosting": boosting,
        "bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1,
    }  # fmt: skip

    def history(device):
        model = hb.train(
            {**params, "device": device}, train_set, 4, {"training": train_set, "valid": valid},
            callbacks=[] if boosting == "dart" else [hb.early_stopping(3)],
        )  # fmt: skip
        return model.fingerprint(), model.eval_history

    expected = history("cpu")

    def refuse(*_):
        raise AssertionError("scores were brought to the host")

    monkeypatch.setattr(GpuEngine, "scores", refuse)
    monkeypatch.setattr(GpuEngine, "valid_scores", refuse)
    assert history(device) == expected

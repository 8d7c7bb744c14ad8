"""Metrics on a device have the bits of the host's, and training brings no scores to the host for them."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.gpu.metrics.metrics import LINKS, LOSSES
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.backends.gpu.workspace import workspace
from hornbeam.metrics import METRICS
from hornbeam.metrics.base import MeanLoss
from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.objectives import OBJECTIVES
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.metric_checks import assert_same_metrics

GPUS = [device for device in usable_devices() if device not in ("reference", "cpu")]


ON_HOST = ("cox-nloglik", "concordance", "pre")
"""Metrics that the host computes from scores that it asks the device for: of the order of times, and counts."""


def test_every_mean_loss_and_every_link_has_a_kernel():
    assert {name for name, kind in METRICS.items() if issubclass(kind, MeanLoss)} == set(LOSSES)
    assert {kind.link for kind in OBJECTIVES.values()} <= set(LINKS)


LISTED = {name for name, kind in METRICS.items() if issubclass(kind, QueryMetric)}
"""Metrics of queries: a third of all rows are one query, and more than 1,024 have a kernel of their own."""


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize(
    ("name", "n_rows"), [(name, n) for name in sorted(METRICS) for n in (1, 3203 if name in LISTED else 1003)]
)
def test_metric_has_the_bits_of_the_host(device, name, n_rows, monkeypatch):
    monkeypatch.setattr(workspace, "GROUPS_A_UNIT", 1)  # so few groups that each takes rows more than once
    assert assert_same_metrics(device, n_rows, names=(name,)) == ([name] if name in ON_HOST else [])


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_engines_in_host_memory_leave_metrics_to_the_host(device):
    assert assert_same_metrics(device, 5, names=("l2", "auc")) == ["l2", "auc"]


BINARY = {"objective": "binary", "metric": ["binary_logloss", "auc", "average_precision", "l1"]}
TRAININGS = {
    "gbdt": BINARY,
    "dart": {**BINARY, "boosting": "dart"},
    "forest": {**BINARY, "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    "renewed leaves": {"objective": "quantile", "metric": "quantile,r2", "alpha": 0.3, "data_sample_strategy": "goss"},
    "classes": {"objective": "multiclass", "num_class": 3, "metric": ["auc_mu", "multi_logloss"]},
    "queries": {"objective": "lambdarank", "metric": "ndcg,map,mrr"},
}


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("training", TRAININGS)
def test_nothing_of_the_size_of_the_data_travels_after_the_first_iteration(device, training, monkeypatch):
    n_rows, params = 4000, {**TRAININGS[training], "num_leaves": 4, "verbosity": -1}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    group = [40] * (n_rows // 40) if training == "queries" else None
    train_set = hb.Dataset(X, label=(X[:, 0] + X[:, 1] > 0).astype(float), group=group)
    valid = hb.Dataset(
        X, label=(X[:, 0] > 0.1).astype(float), weight=rng.random(n_rows), group=group, reference=train_set
    )

    def history(device):
        callbacks = [lambda env: uploads.clear() if env.iteration == 0 else None]
        callbacks += [] if training == "dart" else [hb.early_stopping(3)]
        sets = {"training": train_set, "valid": valid}
        model = hb.train({**params, "device": device}, train_set, 4, sets, callbacks=callbacks)
        return model.fingerprint(), model.eval_history

    uploads: list[int] = []  # after the first iteration: bins, labels and weights are there then
    downloads: list[int] = []
    expected = history("cpu")
    runtime = type(open_runtime(device))

    def listen(name, sizes):
        call = getattr(runtime, name)

        def listening(self, buffer, array, offset=0):
            sizes.append(array.nbytes)
            return call(self, buffer, array, offset)

        monkeypatch.setattr(runtime, name, listening)

    listen("download", downloads)
    listen("download_later", downloads)
    listen("upload", uploads)
    assert history(device) == expected
    assert 0 < max(downloads) < n_rows
    assert 0 < max(uploads) < n_rows

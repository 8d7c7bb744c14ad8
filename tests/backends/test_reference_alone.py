"""`device="reference"` is NumPy alone: it bins, trains, evaluates and predicts where Numba cannot be imported."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import hornbeam as hb

WITHOUT_NUMBA = """
import importlib.abc, json, sys


class Refused(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ImportError(f"{name} is refused")


sys.meta_path.insert(0, Refused())
"""

TRAIN = """
import numpy as np
import hornbeam as hb

CASES = {
    "classes": {"objective": "binary", "metric": ["auc", "average_precision", "binary_logloss", "r2"]},
    "percentiles": {"objective": "regression_l1", "metric": ["l1", "mape"], "bagging_fraction": 0.7, "bagging_freq": 1},
    "softmax": {"objective": "multiclass", "num_class": 2, "metric": ["multi_logloss", "auc_mu"], "extra_trees": True},
    "lists": {"objective": "lambdarank", "metric": ["ndcg", "map", "mrr"]},
    "encoded": {"target_encoding_levels": 2, "data_sample_strategy": "goss", "learning_rate": 1.0},
    "dart": {"boosting": "dart", "drop_rate": 0.5, "monotone_constraints": [1, 0, 0, 0]},
    "linear": {"linear_tree": True, "linear_lambda": 0.1, "bagging_fraction": 0.7, "bagging_freq": 1},
    "forest": {"boosting": "rf", "bagging_fraction": 0.7, "bagging_freq": 1, "metric": ["l2"]},
}


def results(name, device):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4))
    X[:, 3], X[::9, 1] = rng.integers(0, 6, 240), np.nan
    params = {**CASES[name], "device": device, "verbosity": -1, "num_leaves": 7, "min_data_per_group": 5}
    groups = {"group": [20] * 8} if name == "lists" else {}
    train = hb.Dataset(X[:160], label=1.0 * (X[:160, 0] > 0.0), categorical_feature=[3], **groups)
    groups = {"group": [20] * 4} if name == "lists" else {}
    valid = hb.Dataset(X[160:], label=1.0 * (X[160:, 0] > 0.0), reference=train, **groups)
    model = hb.train(params, train, 3, {"valid": valid})
    model = hb.train(params, train, 2, {"valid": valid}, init_model=model)
    return model.fingerprint(), model.eval_history, model.predict(X, device=device).tolist()
"""

exec(TRAIN)


@pytest.fixture(scope="module")
def of_the_reference():
    """Results of all cases, by name, of one process that cannot import Numba."""
    script = f"{WITHOUT_NUMBA}\n{TRAIN}\nprint(json.dumps({{name: results(name, 'reference') for name in CASES}}))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", CASES)  # noqa: F821
def test_reference_needs_no_numba(name, of_the_reference):
    assert of_the_reference[name] == json.loads(json.dumps(results(name, "cpu")))  # noqa: F821


def test_sparse_data_are_binned_by_the_definition():
    sparse = pytest.importorskip("scipy.sparse")
    X = np.where(np.random.default_rng(1).random((300, 5)) < 0.8, 0.0, 1.5)
    label = X.sum(axis=1)
    models = [
        hb.train({"device": device, "verbosity": -1}, hb.Dataset(sparse.csr_matrix(X), label=label), 3)
        for device in ("reference", "cpu")
    ]
    assert models[0].fingerprint() == models[1].fingerprint()

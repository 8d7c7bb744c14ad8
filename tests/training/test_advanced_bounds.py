"""monotone_constraints_method="advanced": bounds of each child's own box, by brute force and beside other methods."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.workers import train_on_workers
from hornbeam.trees.contexts.leaf_boxes import LeafBoxes

QUIET = {"verbosity": -1, "monotone_constraints_method": "advanced"}


def problem(seed, missing=0.0, n_rows=500):
    """Return a table, labels that break the constraints here and there, and the constraints."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 4))
    y = x[:, 0] + np.sin(3.0 * x[:, 0]) + 2.0 * x[:, 0] * x[:, 1] * (x[:, 2] > 0.0) - x[:, 3] * (x[:, 1] > 0.3)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y + 0.3 * rng.normal(size=n_rows), [1, 0, 0, -1]


def train(x, y, sign, n_rounds=8, **params):
    return hb.train({**QUIET, "monotone_constraints": sign, **params}, hb.Dataset(x, label=y), n_rounds)


@pytest.mark.parametrize("missing", [False, True])
def test_side_bounds_are_those_of_the_children(missing):
    """Bounds of a split are those of the boxes that it would make; where boxes share missing values, no wider."""
    assert sum(count_side_bounds(seed, missing) for seed in (3, 6)) > 100


def count_side_bounds(seed, missing):
    """Split boxes at random, check all bounds of all splits, and return how many are not those of the leaf.

    A split of a feature that boxes were split by before changes no array in place: a shallow copy is enough.
    """
    rng = np.random.default_rng(seed)
    n_bins, sign = np.array([6, 9, 4, 7], np.int32), np.array([1, 0, -1, 0], np.int8)
    boxes, outputs, n_seen = LeafBoxes(sign, n_bins), [0.0], 0
    for _ in range(12):
        leaf = int(rng.choice(boxes.leaves))
        feature = int(rng.integers(4))
        boxes.split(leaf, len(outputs), feature, int(rng.integers(n_bins[feature])), bool(rng.random() < 0.5))
        outputs += rng.normal(size=2).tolist()
        if not missing:
            boxes._missing[:] = False
        for leaf in boxes.leaves:
            whole = boxes.bounds(leaf, outputs)
            for feature, table in boxes.side_bounds(leaf, outputs).items():
                column = boxes._column[feature]
                place = boxes.leaves.index(leaf)
                low, high = int(boxes._low[place, column]), int(boxes._high[place, column])
                for bin_ in range(low, high):
                    for goes_left in (False, True):
                        parts, left = copy.copy(boxes), len(outputs)
                        parts.split(leaf, left, feature, bin_, goes_left)
                        for side in (0, 1):
                            own = parts.bounds(left + side, [*outputs, math.nan, math.nan], {left + 1 - side})
                            found = tuple(table[2 * side : 2 * side + 2, bin_].tolist())
                            assert own[0] <= found[0] <= whole[0] and own[1] >= found[1] >= whole[1]
                            if not missing:
                                assert found == own
                            n_seen += found != whole
    return n_seen


@pytest.mark.parametrize("params", [{}, {"path_smooth": 3.0, "max_depth": 5}, {"extra_trees": True, "max_bin": 15}])
@pytest.mark.parametrize("seed", range(3))
def test_models_are_monotone(seed, params):
    x, y, sign = problem(seed, missing=0.1 if seed else 0.0)
    booster = train(x, y, sign, **params)
    rows = np.random.default_rng(seed + 50).normal(size=(300, 4))
    rows[np.random.default_rng(seed).random(rows.shape) < 0.1] = np.nan
    for feature in (0, 3):
        values = np.sort(np.concatenate([np.linspace(-4.0, 4.0, 60), *(t.threshold for t in booster.trees)]))
        tables = np.repeat(rows[:, None], len(values), axis=1)
        tables[:, :, feature] = values
        raw = booster.predict(tables.reshape(-1, 4), raw_score=True).reshape(len(rows), -1)
        assert (np.diff(raw, axis=1) * sign[feature] >= 0.0).all()


def test_fit_is_better_than_that_of_intermediate_and_as_good_as_lightgbms():
    lightgbm = pytest.importorskip("lightgbm")
    methods = ("basic", "intermediate", "advanced")
    ours, theirs = {method: [] for method in methods}, []
    for seed in range(3):
        x, y, sign = problem(seed, n_rows=1000)
        params = {"num_leaves": 31, "lambda_l2": 0.0}
        for method in methods:
            booster = train(x, y, sign, 8, monotone_constraints_method=method, **params)
            ours[method].append(np.mean((booster.predict(x) - y) ** 2))
        given = {**QUIET, **params, "objective": "regression", "monotone_constraints": sign}
        theirs.append(np.mean((lightgbm.train(given, lightgbm.Dataset(x, y), 8).predict(x) - y) ** 2))
    means = [np.mean(ours[method]) for method in methods]
    assert means[2] < means[1] < means[0], means
    assert means[2] < np.mean(theirs) * 1.01, (means[2], np.mean(theirs))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "kind",
    [
        "plain", "missing, bagging", "missing as zeros", "categories", "sparse", "costs, depthwise", "binary, few rows",
        "limited outputs, extra trees",
    ],
)  # fmt: skip
def test_model_is_that_of_the_reference_on_every_device(device, kind):
    x, y, sign = problem(7, missing=0.1 if "missing" in kind else 0.0)
    params, data = {**QUIET, "monotone_constraints": sign, "num_leaves": 15}, {}
    if "bagging" in kind:
        params |= {"bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.8, "path_smooth": 1.0}
    if kind == "categories":
        x[:, 1] = np.floor(4.0 * np.abs(x[:, 1]))
        data, params = {"categorical_features": [1]}, {**params, "min_data_per_group": 5}
    if kind == "sparse":
        sparse = pytest.importorskip("scipy.sparse")
        rest = np.where(np.random.default_rng(0).random((500, 25)) < 0.05, 1.0, 0.0)
        x, params["monotone_constraints"] = sparse.csr_matrix(np.hstack([x, rest])), [*sign, *([1, 0, 0, 0, -1] * 5)]
    if "costs" in kind:
        params |= {"cegb_penalty_feature_coupled": [5.0, 1.0, 30.0, 2.0], "grow_policy": "depthwise"}
    if "zeros" in kind:
        params |= {"use_missing": False, "lambda_l1": 0.5}
    if "binary" in kind:
        y, params = (y > np.median(y)).astype(float), {**params, "objective": "binary", "min_data_in_leaf": 1}
    if "limited" in kind:
        params |= {"max_delta_step": 0.4, "extra_trees": True, "min_sum_hessian_in_leaf": 4.0}
    models = [
        hb.train({**params, "device": one}, hb.Dataset(x, label=y, **data), 3).fingerprint()
        for one in (device, "reference")
    ]
    assert models[0] == models[1]


@pytest.mark.sampled
@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("name", [name for name in CASES if "advanced" in name])
def test_workers_end_with_the_model_of_one_process(name, engine):
    for model in train_on_workers(CASES[name], 3, device=engine):
        assert model.fingerprint() == expected_fingerprints()[name]


def test_refit_on_the_same_data_keeps_the_values():
    x, y, sign = problem(3)
    booster = train(x, y, sign, 1, learning_rate=1.0)
    again = booster.refit(x, y, decay_rate=0.0)
    assert np.allclose(again.trees[0].leaf_value, booster.trees[0].leaf_value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tree_method", ["exact", "approx"])
def test_ranks_have_no_such_bounds(tree_method):
    x, y, sign = problem(0)
    with pytest.raises(hb.ParameterError, match=r"advanced.*tree_method.*intermediate"):
        train(x, y, sign, 1, tree_method=tree_method)

"""The contract: same data, same parameters, same model, bit for bit, whatever trains it."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices
from hornbeam.testing.data import make_higgs_like, make_multiclass, make_regression_heavy_tailed, make_with_missing
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import pseudo_huber

FAST = [name for name in usable_devices() if name != "reference"]
"""Models of `reference` are those of the others, which other tests show; here it would take most of the time."""

GOLDEN = expected_fingerprints()
QUIET = {"verbosity": -1}


def regression_data(n_rows=400, missing=False, weighted=False, seed=0):
    X, _ = make_with_missing(n_rows, 8, seed=seed) if missing else make_higgs_like(n_rows, 8, seed=seed)
    rng = np.random.default_rng(seed)
    y = np.where(np.isnan(X[:, 0]), 2.0, X[:, 0]) * 3.0 + X[:, 7] ** 2 + rng.normal(size=n_rows)
    return X, y, rng.random(n_rows) + 0.1 if weighted else None


def binary_data(n_rows=400, missing=False, weighted=False, seed=0):
    X, y = make_with_missing(n_rows, 8, seed=seed) if missing else make_higgs_like(n_rows, 8, seed=seed)
    return X, y, np.random.default_rng(seed).random(n_rows) + 0.1 if weighted else None


def multiclass_data(n_rows=400, missing=False, weighted=False, seed=0):
    X, y = make_multiclass(n_rows, 3, 8, seed=seed)
    if missing:
        X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    return X, y, np.random.default_rng(seed).random(n_rows) + 0.1 if weighted else None


def heavy_data(n_rows=400, missing=False, weighted=False, seed=0):
    X, y, _ = make_regression_heavy_tailed(n_rows, seed=seed)
    return X, y, None


MAKERS = {"regression": regression_data, "binary": binary_data, "multiclass": multiclass_data}
MULTI = {"objective": "multiclass", "num_class": 3}


def maker(make, **options):
    def make_dataset():
        X, y, weight = make(**options)
        return hb.Dataset(X, label=y, weight=weight)

    return make_dataset


COMBINATIONS = {
    "regression": ({}, maker(regression_data)),
    "regression, weights": ({}, maker(regression_data, weighted=True)),
    "regression, missing": ({"num_leaves": 63}, maker(regression_data, missing=True)),
    "regression, missing, not used": ({"use_missing": False}, maker(regression_data, missing=True)),
    "heavy tail": ({"min_data_in_leaf": 5}, maker(heavy_data)),
    "binary": ({"objective": "binary"}, maker(binary_data)),
    "binary, weights, missing": ({"objective": "binary"}, maker(binary_data, weighted=True, missing=True)),
    "multiclass": (MULTI, maker(multiclass_data)),
    "multiclass, weights, missing": (MULTI, maker(multiclass_data, weighted=True, missing=True)),
    "max_bin 15": ({"objective": "binary", "max_bin": 15}, maker(binary_data, missing=True)),
    "max_bin 63": ({"objective": "binary", "max_bin": 63}, maker(binary_data)),
    "max_bin 1000": ({"max_bin": 1000, "min_data_in_bin": 1, "num_leaves": 8}, maker(regression_data, n_rows=1500)),
    "l1 and l2": ({"objective": "binary", "lambda_l1": 1.0, "lambda_l2": 3.0}, maker(binary_data)),
    "depthwise": ({"grow_policy": "depthwise", "objective": "binary"}, maker(binary_data, missing=True)),
    "max_depth": ({"max_depth": 3}, maker(regression_data)),
    "min_data 1": (
        {"min_data_in_leaf": 1, "objective": "binary", "num_leaves": 127},
        maker(binary_data, weighted=True),
    ),
    "min_hessian": ({"min_sum_hessian_in_leaf": 10.0, "objective": "binary"}, maker(binary_data)),
    "max_delta_step": ({"max_delta_step": 0.3, "objective": "binary"}, maker(binary_data)),
    "min_gain": ({"min_gain_to_split": 20.0}, maker(regression_data)),
    "high precision": ({"precision": "high", "objective": "binary"}, maker(binary_data)),
    "not from average": ({"boost_from_average": False, "objective": "binary", "sigmoid": 0.7}, maker(binary_data)),
    "custom objective": ({"objective": pseudo_huber}, maker(regression_data)),
    "two leaves": ({"num_leaves": 2}, maker(regression_data)),
}


@pytest.fixture
def many_threads(tune):
    """Let threads share even little work."""
    tune(
        updates_per_thread=1,
        summed_rows_per_thread=1,
        assigned_rows_per_thread=1,
        routed_rows_per_thread=1,
        divided_rows_per_thread=1,
        rounded_rows_per_thread=1,
        searched_bins_per_thread=1,
        smallest_piece=50,
        ordered_smallest_bytes=0,
    )


@pytest.mark.parametrize(("params", "make_dataset"), COMBINATIONS.values(), ids=COMBINATIONS.keys())
@pytest.mark.usefixtures("many_threads")
def test_model_is_identical_on_every_device_and_for_any_thread_count(params, make_dataset):
    booster = assert_same_model(params, make_dataset, usable_devices(), 2)
    assert sum(tree.n_splits for tree in booster.trees) > 0


@pytest.mark.parametrize("name", CASES)
def test_golden_fingerprints_are_reproduced(device, name):
    assert CASES[name].train(device=device).fingerprint() == GOLDEN[name]


def test_golden_file_has_every_case():
    assert sorted(GOLDEN) == sorted(CASES)
    assert len(set(GOLDEN.values())) == len(GOLDEN)


@pytest.mark.parametrize("objective", MAKERS)
def test_evaluations_are_identical_on_every_device(objective):
    params = {"objective": objective, **({"num_class": 3} if objective == "multiclass" else {})}
    metrics = {
        "regression": ["l1", "l2", "rmse", "r2"],
        "binary": ["auc", "binary_logloss", "average_precision", "binary_error"],
        "multiclass": ["multi_logloss", "multi_error"],
    }[objective]
    make = MAKERS[objective]

    def valid_sets():
        return {"a": maker(make, seed=1, weighted=True)(), "b": maker(make, seed=2, missing=True, n_rows=333)()}

    booster = assert_same_model(
        {**params, "metric": metrics, "early_stopping_round": 2, "learning_rate": 0.5},
        maker(make, missing=True),
        usable_devices(),
        5,
        thread_counts=(1, 3),
        valid_sets=valid_sets,
    )
    assert set(booster.eval_history) == {"a", "b"}
    assert booster.best_iteration > 0


# --- what must not be seen in the model -----------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("size", [1e-9, 0.05, 0.2, 0.8, 1.0, 2.0, 50.0])
@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_model_is_identical_for_any_histogram_pool(device, size, policy):
    params = {**QUIET, "objective": "binary", "grow_policy": policy, "device": device}
    make = maker(binary_data, missing=True)
    expected = hb.train(params, make(), 3).fingerprint()
    assert hb.train({**params, "histogram_pool_size": size}, make(), 3).fingerprint() == expected


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("objective", MAKERS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_permuted_rows_give_the_same_model(device, objective, weighted):
    X, y, weight = MAKERS[objective](missing=True, weighted=weighted)
    params = {
        **QUIET,
        "device": device,
        "objective": objective,
        **({"num_class": 3} if objective == "multiclass" else {}),
    }
    expected = hb.train(params, hb.Dataset(X, label=y, weight=weight), 3).fingerprint()
    order = np.random.default_rng(5).permutation(len(y))
    permuted = hb.Dataset(X[order], label=y[order], weight=None if weight is None else weight[order])
    assert hb.train(params, permuted, 3).fingerprint() == expected


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("objective", MAKERS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_four_and_four_rounds_equal_eight(device, objective, weighted, tmp_path):
    params = {**QUIET, "device": device, "objective": objective, "num_leaves": 9}
    params |= {"num_class": 3} if objective == "multiclass" else {}
    make = maker(MAKERS[objective], missing=True, weighted=weighted)

    def valid_sets():
        return {"valid": maker(MAKERS[objective], missing=True, weighted=weighted, seed=3)()}

    whole = hb.train(params, make(), 8, valid_sets())
    half = hb.train(params, make(), 4, valid_sets())
    rest = hb.train(params, make(), 4, valid_sets(), init_model=half)
    assert rest.fingerprint() == whole.fingerprint()
    assert half.num_trees() == 4 * half.n_outputs  # the start is left as it was
    history = whole.eval_history["valid"]
    for metric, values in rest.eval_history["valid"].items():
        assert half.eval_history["valid"][metric] + values == history[metric]
    half.save(tmp_path / "half.json")
    assert hb.train(params, make(), 4, init_model=tmp_path / "half.json").fingerprint() == whole.fingerprint()


def test_four_and_four_rounds_equal_eight_with_init_score(device):
    X, y, _ = regression_data()
    params = {**QUIET, "device": device}
    start = np.sin(np.arange(len(y)))

    def make():
        return hb.Dataset(X, label=y, init_score=start)

    half = hb.train(params, make(), 4)
    assert hb.train(params, make(), 4, init_model=half).fingerprint() == hb.train(params, make(), 8).fingerprint()


@pytest.mark.sampled
@pytest.mark.parametrize("device", FAST)
@pytest.mark.parametrize("objective", MAKERS)
def test_saved_and_loaded_model_is_the_same(device, objective, tmp_path):
    params = {
        **QUIET,
        "device": device,
        "objective": objective,
        **({"num_class": 3} if objective == "multiclass" else {}),
    }
    X, y, _ = MAKERS[objective](missing=True)
    booster = hb.train(params, hb.Dataset(X, label=y), 3)
    booster.save(tmp_path / "model.json")
    loaded = hb.load(tmp_path / "model.json")
    assert loaded.fingerprint() == booster.fingerprint()
    assert loaded.predict(X).tobytes() == booster.predict(X).tobytes()


@pytest.mark.parametrize(("n_rows", "exact"), [(400, True), (3000, False)])
def test_duplicated_rows_equal_doubled_weights(device, n_rows, exact):
    """Up to 511 rows leaf sums keep 52 bits in either case and predictions are equal; beyond, all but the last bits."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (n_rows, 5)).astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + rng.normal(size=n_rows)
    params = {**QUIET, "device": device, "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_leaves": 15}
    twice = hb.train(params, hb.Dataset(np.repeat(X, 2, axis=0), label=np.repeat(y, 2)), 6)
    heavy = hb.train(params, hb.Dataset(X, label=y, weight=np.full(n_rows, 2.0)), 6)
    if exact:
        assert twice.predict(X).tolist() == heavy.predict(X).tolist()
    assert np.allclose(twice.predict(X), heavy.predict(X), rtol=1e-9, atol=1e-9)
    for a, b in zip(twice.trees, heavy.trees, strict=True):
        assert a.feature.tolist() == b.feature.tolist()
        assert a.threshold.tolist() == b.threshold.tolist()
        assert a.leaf_count.tolist() == (2 * b.leaf_count).tolist()


# --- routing --------------------------------------------------------------------------------------------------------


def leaf_values_of_training(params, X, y):
    """Train, and return the Booster with the raw scores that training itself accumulated."""
    train_set = hb.Dataset(X, label=y)
    scores = []

    def metric(predictions, dataset):
        scores.append(np.array(predictions))
        return "none", 0.0, True

    booster = hb.train({**params, "metric": "none"}, train_set, 5, {"training": train_set}, feval=metric)
    if not scores:  # nothing to split
        scores.append(np.broadcast_to(booster.init_scores, len(y)).copy())
    return booster, scores[-1]


SPECIAL = st.sampled_from(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e308, -1e308, 0.1, 2.0, 3.0]
)


@given(
    values=st.lists(st.tuples(SPECIAL, SPECIAL, st.floats(allow_nan=True, width=64)), min_size=4, max_size=60),
    use_missing=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=15)
def test_training_rows_meet_their_training_leaf_in_prediction(device, values, use_missing, seed):
    X = np.array(values)
    y = np.random.default_rng(seed).normal(size=len(X))
    params = {**QUIET, "device": device, "min_data_in_leaf": 1, "min_data_in_bin": 1, "use_missing": use_missing}
    booster, scores = leaf_values_of_training(params, X, y)
    assert booster.predict(X, raw_score=True).tobytes() == scores.tobytes()
    leaves_ = booster.predict(X, pred_leaf=True)
    for number, tree in enumerate(booster.trees):
        assert np.bincount(leaves_[:, number], minlength=tree.n_leaves).tolist() == tree.leaf_count.tolist()


def test_missing_values_that_count_as_zero_are_routed_as_in_training(device):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    X[:80, 0] = np.nan
    y = np.where(np.isnan(X[:, 0]), 0.0, X[:, 0]) * 3.0 + (np.abs(np.nan_to_num(X[:, 0])) < 0.2) * 10.0
    booster, scores = leaf_values_of_training({**QUIET, "device": device, "use_missing": False}, X, y)
    assert booster.predict(X, raw_score=True).tobytes() == scores.tobytes()
    assert booster.predict(np.nan_to_num(X)).tobytes() == booster.predict(X).tobytes()


def test_validation_rows_are_routed_in_training_as_in_prediction(device):
    """Rows with NaN where training saw none, with infinities and with values beyond the range of training."""
    X, y, _ = regression_data()
    rng = np.random.default_rng(1)
    other = X[:300] * 3.0
    other[rng.random(other.shape) < 0.2] = np.nan
    other[rng.random(other.shape) < 0.05] = np.inf
    other[rng.random(other.shape) < 0.05] = -np.inf
    seen = []

    def metric(predictions, dataset):
        seen.append(np.array(predictions))
        return "none", 0.0, True

    params = {**QUIET, "device": device, "metric": "none"}
    booster = hb.train(params, hb.Dataset(X, label=y), 5, hb.Dataset(other, label=y[:300]), feval=metric)
    assert booster.predict(other).tobytes() == seen[-1].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_equal_to_a_threshold_go_left(device, dtype):
    X = np.repeat([[1.0], [2.0]], 40, axis=0).astype(dtype)
    y = np.repeat([0.0, 1.0], 40)
    booster = hb.train({**QUIET, "device": device}, hb.Dataset(X, label=y), 1)
    (threshold,) = booster.trees[0].threshold.tolist()
    left = int(~booster.trees[0].left[0])
    above = np.nextafter(threshold, np.inf)
    assert booster.predict(np.array([[threshold], [above]]), pred_leaf=True).tolist() == [[left], [1 - left]]


# --- threads and processes ------------------------------------------------------------------------------------------


def train_fingerprint(_=None) -> str:
    params = {**QUIET, "objective": "binary", "num_threads": 2, "device": "cpu"}
    return hb.train(params, maker(binary_data, n_rows=20_000)(), 3).fingerprint()


def test_concurrent_trainings_give_the_model_of_one_alone():
    alone = train_fingerprint()
    found = []
    threads = [threading.Thread(target=lambda: found.append(train_fingerprint())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_gives_the_same_model():
    alone = train_fingerprint()  # starts the parent's pool of threads, which the child has not got
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(train_fingerprint, [0]).get(timeout=120) == [alone]

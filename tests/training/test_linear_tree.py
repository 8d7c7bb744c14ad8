"""Trainings with linear leaves: one model everywhere, the scores of prediction, and what they do not go with."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.data import stored_bins
from hornbeam.distributed import PartDataset, run_workers
from hornbeam.distributed import train as train_workers
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.workers import cut, parts_of_worker, uneven_bounds

QUIET = {"verbosity": -1}
LINEAR = {"objective": "regression", "linear_tree": True, "num_leaves": 7, "min_data_in_leaf": 5, **QUIET}


def table(n_rows=600, n_features=5, missing=0.03, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32).astype(np.float64)
    y = 3.0 * X[:, 0] * (X[:, 1] > 0) + X[:, 2] ** 2 + np.sin(X[:, 3]) + 0.1 * rng.standard_normal(n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def label_for(objective, y):
    if objective == "binary":
        return (y > 0.5).astype(float)
    if objective == "multiclass":
        return np.digitize(y, [-0.5, 1.5]).astype(float)
    return y


CASES = {
    "regression": {},
    "binary, bagging, ridge": {"objective": "binary", "bagging_freq": 1, "bagging_fraction": 0.6, "linear_lambda": 0.1},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "random forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    "trees side by side": {"num_parallel_tree": 2, "bagging_freq": 1, "bagging_fraction": 0.6},
    "path_smooth": {"path_smooth": 2.0},
    "features by tree, depth-wise": {"feature_fraction": 0.6, "grow_policy": "depthwise"},
    "exact": {"tree_method": "exact"},
}


def datasets(params, n_train=400, dtype=np.float64):
    X, y = table()
    X, y = X.astype(dtype), label_for(params.get("objective"), y)
    weight = np.random.default_rng(1).random(len(y)) + 0.5
    train = hb.Dataset(X[:n_train], label=y[:n_train], weight=weight[:n_train])
    return train, hb.Dataset(X[n_train:], label=y[n_train:], reference=train)


@pytest.mark.parametrize("name", CASES)
def test_model_and_scores_are_the_same_on_every_device(name):
    params = {**LINEAR, **CASES[name]}
    expected = None
    for device in usable_devices():
        if "tree_method" in params and device == "reference":
            continue
        train, valid = datasets(params)
        booster = hb.train({**params, "device": device}, train, 4, {"valid": valid, "training": train})
        assert any(tree.linear is not None for tree in booster.trees)
        if expected is None:
            expected = booster.fingerprint(), booster.eval_history, booster.predict(valid.data, raw_score=True)
        assert booster.fingerprint() == expected[0]
        assert booster.eval_history == expected[1]
        assert np.array_equal(booster.predict(valid.data, raw_score=True, device=device), expected[2])


@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize("name", ["regression", "binary, bagging, ridge", "goss"])
def test_workers_end_with_the_model_of_one_process(name, n_workers):
    params = {**LINEAR, **CASES[name]}
    train, valid = datasets(params)
    expected = hb.train(params, train, 4, {"valid": valid})
    of_train, of_valid = (cut(data, uneven_bounds(data.n_rows, n_workers)) for data in datasets(params))

    def work(collective):
        mine = PartDataset(collective, parts_of_worker(of_train, collective.rank, n_workers))
        other = PartDataset(collective, parts_of_worker(of_valid, collective.rank, n_workers), mine, "valid")
        return train_workers({**params, "device": "cpu"}, mine, 4, {"valid": other})

    for model in run_workers(n_workers, work, timeout=120.0):
        assert model.fingerprint() == expected.fingerprint()
        assert model.eval_history == expected.eval_history


def test_threads_dtype_order_and_kind_of_table_cannot_be_seen():
    import pandas as pd

    X, y = table(5000)
    X32 = X.astype(np.float32)
    tables = [X, X32, np.asfortranarray(X), pd.DataFrame(X32, columns=[f"Column_{i}" for i in range(5)])]
    made = {
        hb.train({**LINEAR, "num_threads": n}, hb.Dataset(each, label=y), 4).fingerprint()
        for each in tables
        for n in (1, 2)
    }
    assert len(made) == 1


def test_validation_scores_and_staged_predictions_are_those_of_predict():
    train, valid = datasets(LINEAR)
    booster = hb.train({**LINEAR, "metric": "l2"}, train, 5, {"valid": valid, "training": train})
    for data, name in ((valid, "valid"), (train, "training")):
        weight = np.ones(data.n_rows) if data.weight is None else data.weight
        stages = [np.average((made - data.label) ** 2, weights=weight) for made in booster.staged_predict(data.data)]
        np.testing.assert_allclose(booster.eval_history[name]["l2"], stages, rtol=1e-12)
    rows = np.array([booster.predict(row[None], raw_score=True)[0] for row in valid.data])
    assert np.array_equal(rows, booster.predict(valid.data, raw_score=True))


def test_the_first_iteration_is_constant_and_the_functions_have_the_learning_rate():
    X, y = table(missing=0.0)
    slow, fast = (
        hb.train({**LINEAR, "learning_rate": rate, "boost_from_average": True}, hb.Dataset(X, label=y), 1)
        for rate in (0.1, 0.2)
    )
    assert slow.trees[0].linear is None and fast.trees[0].linear is None
    forest = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
    assert hb.train({**LINEAR, **forest}, hb.Dataset(X, label=y), 1).trees[0].linear is not None


def test_going_on_from_a_model_file_checkpoint_or_rollback_gives_the_model_of_one_go(tmp_path):
    whole = hb.train(LINEAR, datasets(LINEAR)[0], 6).fingerprint()
    half = hb.train(LINEAR, datasets(LINEAR)[0], 3)
    half.save_model(tmp_path / "half.json")
    for start in (half, tmp_path / "half.json", hb.Booster(half.to_bytes())):
        assert hb.train(LINEAR, datasets(LINEAR)[0], 3, init_model=start).fingerprint() == whole
    path = tmp_path / "run.ckpt"
    hb.train(LINEAR, datasets(LINEAR)[0], 4, checkpoint=path, checkpoint_freq=2)
    assert hb.train(LINEAR, datasets(LINEAR)[0], 6, checkpoint=path).fingerprint() == whole
    live = hb.train(LINEAR, datasets(LINEAR)[0], 6, keep_training_booster=True)
    live.rollback_one_iter()
    live.update()
    assert live.fingerprint() == whole


def test_a_file_holds_functions_and_bounds_and_has_version_3_with_them_alone(tmp_path):
    import json
    import pickle

    train, valid = datasets(LINEAR)
    booster = hb.train(LINEAR, train, 3)
    document = json.loads(booster.to_bytes())
    assert document["version"] == 3
    for key in ("leaf_coeff", "leaf_low", "leaf_high"):
        assert key not in document["trees"][0] and key in document["trees"][1]
    constant = hb.train({**LINEAR, "linear_tree": False}, train, 3)
    assert json.loads(constant.to_bytes())["version"] == 1
    booster.save(tmp_path / "model.json")
    for again in (hb.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(booster))):
        assert again.fingerprint() == booster.fingerprint()
        assert np.array_equal(again.predict(valid.data), booster.predict(valid.data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree.pop("leaf_const"), "leaf_const.*missing"),
        (lambda tree: tree["leaf_const"].pop(), "leaf_const: has"),
        (lambda tree: tree["leaf_features"].__setitem__(0, [99]), r"leaf_features\[0\].*99"),
        (lambda tree: tree["leaf_features"].__setitem__(0, [2, 1]), "not ascending"),
        (lambda tree: tree["leaf_coeff"].__setitem__(0, [1.0] * 9), r"leaf_coeff\[0\]"),
        (lambda tree: tree["leaf_coeff"].__setitem__(0, None), r"leaf_coeff\[0\]"),
        (lambda tree: tree.pop("leaf_low"), "leaf_low.*missing"),
        (lambda tree: tree["leaf_high"].pop(), "leaf_high: has"),
        (lambda tree: tree["leaf_high"].__setitem__(0, "inf"), "leaf_high"),
        (lambda tree: tree["leaf_low"].__setitem__(2, 1e9), r"leaf_low\[2\].*above leaf_high"),
    ],
)
def test_a_damaged_file_says_where(change, message):
    import json

    document = json.loads(hb.train(LINEAR, datasets(LINEAR)[0], 2).to_bytes())
    del document["fingerprint"]
    change(document["trees"][1])
    with pytest.raises(hb.ModelFormatError, match=message):
        hb.Booster(json.dumps(document).encode())


def test_linear_leaves_in_a_file_of_version_1_are_refused():
    import json

    document = json.loads(hb.train(LINEAR, datasets(LINEAR)[0], 2).to_bytes())
    del document["fingerprint"]
    for version in (1, 2):
        document["version"] = version
        with pytest.raises(hb.ModelFormatError, match="bounds, which come with version 3"):
            hb.Booster(json.dumps(document).encode())
    for tree in document["trees"][1:]:
        del tree["leaf_low"], tree["leaf_high"]
    document["version"] = 1
    with pytest.raises(hb.ModelFormatError, match="version 2"):
        hb.Booster(json.dumps(document).encode())


def naive_scores(booster, X):
    """Return raw scores from the text of the model alone, one row and one tree after the other."""
    import json

    document = json.loads(booster.to_bytes())
    scores = []
    for row in X:
        score = document["init_scores"][0]
        for tree in document["trees"]:
            node = 0 if tree["feature"] else -1
            while node >= 0:
                x = row[tree["feature"][node]]
                left = tree["missing_left"][node] if np.isnan(x) else x <= float(tree["threshold"][node])
                node = tree["left" if left else "right"][node]
            leaf = ~node
            numbers = [row[column] for column in tree.get("leaf_features", [[]] * (leaf + 1))[leaf]]
            if "leaf_const" not in tree or not all(abs(x) <= 1e38 for x in numbers):
                score += tree["leaf_value"][leaf]
                continue
            value = tree["leaf_const"][leaf]
            for factor, x in zip(tree["leaf_coeff"][leaf], numbers, strict=True):
                value += factor * x
            if "leaf_low" in tree:
                value = min(max(value, tree["leaf_low"][leaf]), tree["leaf_high"][leaf])
            score += value
        scores.append(score)
    return np.array(scores)


def test_rows_far_outside_get_values_that_training_rows_have_and_files_of_version_2_have_no_bounds():
    import json

    train, valid = datasets(LINEAR)
    booster = hb.train(LINEAR, train, 6)
    rng = np.random.default_rng(3)
    far = np.where(rng.random(valid.data.shape) < 0.3, 10.0 ** rng.integers(1, 40, valid.data.shape), valid.data)
    assert np.array_equal(booster.predict(far, raw_score=True), naive_scores(booster, far))
    low, high = booster.lower_bound(), booster.upper_bound()
    inside = booster.predict(train.data, raw_score=True)
    for found in (booster.predict(far, raw_score=True), inside):
        assert low <= found.min() and found.max() <= high

    document = json.loads(booster.to_bytes())
    del document["fingerprint"]
    for tree in document["trees"][1:]:
        del tree["leaf_low"], tree["leaf_high"]
    document["version"] = 2
    free = hb.Booster(json.dumps(document).encode())
    assert json.loads(free.to_bytes())["version"] == 2
    assert np.array_equal(free.predict(train.data, raw_score=True), inside)
    outside = free.predict(far, raw_score=True)
    assert np.array_equal(outside, naive_scores(free, far))
    assert np.abs(outside).max() > 1e6 > max(abs(low), abs(high))
    with pytest.raises(hb.ParameterError, match="without bounds"):
        free.lower_bound()


def test_categorical_features_split_and_are_no_numbers():
    import pandas as pd

    X, y = table()
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["level"] = pd.Categorical(np.random.default_rng(0).choice(list("uvwxyz"), len(y)))
    y = y + 5.0 * frame["level"].cat.codes.to_numpy()
    for encoded in (-1, 0):
        params = {**LINEAR, "target_encoding_levels": encoded, "num_leaves": 15}
        boosters = [
            hb.train({**params, "device": device}, hb.Dataset(frame, label=y), 4) for device in ("cpu", "reference")
        ]
        assert boosters[0].fingerprint() == boosters[1].fingerprint()
        used = {int(one) for tree in boosters[0].trees for one in tree.feature}
        linear = {int(one) for tree in boosters[0].trees if tree.linear is not None for one in tree.linear.feature}
        assert 3 in used and linear and 3 not in linear


def test_smooth_targets_are_learned_better_than_by_constants():
    X, y = table(2000, missing=0.0)
    params = {**LINEAR, "num_leaves": 31}
    errors = {}
    for linear in (False, True):
        booster = hb.train({**params, "linear_tree": linear}, hb.Dataset(X[:1500], label=y[:1500]), 30)
        errors[linear] = np.mean((booster.predict(X[1500:]) - y[1500:]) ** 2)
    assert errors[True] < 0.8 * errors[False]


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_errors_are_those_of_lightgbm(missing):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table(4000, missing=missing)
    params = {"objective": "regression", "linear_tree": True, "linear_lambda": 0.01, "num_leaves": 15, **QUIET}
    ours = hb.train(params, hb.Dataset(X[:3000], label=y[:3000]), 60).predict(X[3000:])
    theirs = lightgbm.train(params, lightgbm.Dataset(X[:3000], label=y[:3000]), 60).predict(X[3000:])
    mine, other = (np.sqrt(np.mean((made - y[3000:]) ** 2)) for made in (ours, theirs))
    assert mine < 1.03 * other


def test_estimators_and_cv_take_the_parameter():
    X, y = table()
    model = hb.HornbeamRegressor(linear_tree=True, n_estimators=5, num_leaves=7, verbosity=-1).fit(X, y)
    assert any(tree.linear is not None for tree in model.booster_.trees)
    assert np.array_equal(model.predict(X), model.booster_.predict(X))
    found = hb.cv({**LINEAR, "metric": "l2"}, hb.Dataset(X, label=y), 5, nfold=3, stratified=False)
    constant = hb.cv(
        {**LINEAR, "linear_tree": False, "metric": "l2"}, hb.Dataset(X, label=y), 5, nfold=3, stratified=False
    )
    assert found.keys() == constant.keys() and found != constant


def test_zeros_that_are_missing_take_no_part():
    X, y = table(missing=0.0)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = 0.0
    marked = np.where(X == 0.0, np.nan, X)
    zeros = hb.train({**LINEAR, "zero_as_missing": True}, hb.Dataset(X, label=y), 4)
    nans = hb.train(LINEAR, hb.Dataset(marked, label=y), 4)
    assert np.array_equal(zeros.predict(X), nans.predict(marked))


def sparse_problem():
    """Return a table of many zeros, with missing values, and labels."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((1500, 60))
    X[:, 3:][rng.random((1500, 57)) < 0.99] = 0.0
    X[:, :3][rng.random((1500, 3)) < 0.7] = 0.0
    y = X[:, 0] * 2.0 + X[:, 1] ** 2 + X[:, 2:].sum(axis=1) + 0.1 * rng.standard_normal(1500)
    X[rng.random(X.shape) < 0.002] = np.nan
    return X, y


@pytest.mark.parametrize("more", [{}, {"bagging_freq": 1, "bagging_fraction": 0.6}, {"zero_as_missing": True}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sparse_table_has_the_model_of_the_dense_one(more, dtype, monkeypatch):
    from scipy import sparse

    X, y = sparse_problem()
    monkeypatch.setattr(stored_bins, "PLAIN_CELLS", 0)  # small tables would be stored as dense ones
    X, params, results = X.astype(dtype), {**LINEAR, **more}, []
    for kind in (np.asarray, sparse.csr_array, sparse.csc_matrix):
        for device in ("cpu", "reference"):
            train = hb.Dataset(kind(X), label=y)
            valid = hb.Dataset(kind(X[:500]), label=y[:500], reference=train)
            booster = hb.train({**params, "device": device}, train, 4, {"valid": valid})
            results.append((booster.fingerprint(), booster.eval_history))
            assert device == "reference" or "zero_as_missing" in more or train.binned.stored is not None
    assert any(tree.linear is not None for tree in booster.trees)
    assert all(each == results[0] for each in results)


def test_sparse_and_dense_parts_of_workers_have_the_model_of_one_process():
    from scipy import sparse

    from hornbeam.distributed import Part

    X, y = sparse_problem()
    params = {**LINEAR, "device": "cpu", "num_threads": 1}
    expected = hb.train(params, hb.Dataset(X, label=y), 3).fingerprint()
    kinds = sparse.csr_array, np.asarray, sparse.csr_array
    pieces = [(slice(0, 400), kinds[0]), (slice(400, 1250), kinds[1]), (slice(1250, 1500), kinds[2])]

    def work(collective):
        parts = [
            Part.make(number, data=kind(X[rows]), label=y[rows])
            for number, (rows, kind) in enumerate(pieces)
            if number % 2 == collective.rank
        ]
        return train_workers(params, PartDataset(collective, parts), 3)

    assert {model.fingerprint() for model in run_workers(2, work, timeout=120.0)} == {expected}


def test_a_sparse_table_is_predicted_for_as_a_dense_one():
    from scipy import sparse

    X, y = table(missing=0.0)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    booster = hb.train(LINEAR, hb.Dataset(X, label=y), 4)
    assert np.array_equal(booster.predict(sparse.csr_array(X)), booster.predict(X))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"objective": "regression_l1"}, ["linear_tree", "regression_l1"]),
        ({"objective": "quantile"}, ["linear_tree", "quantile"]),
        ({"objective": "mape"}, ["linear_tree", "mape"]),
        ({"objective": "logcosh"}, ["linear_tree", "logcosh"]),
        ({"monotone_constraints": [1, 0, 0, 0, 0]}, ["linear_tree", "monotone_constraints"]),
        ({"boosting": "dart"}, ["linear_tree", "dart"]),
        ({"multi_strategy": "multi_output_tree"}, ["linear_tree", "multi_output_tree"]),
        ({"linear_lambda": -1.0}, ["linear_lambda"]),
    ],
)
def test_what_does_not_go_together_is_an_error_before_training(more, words):
    with pytest.raises(hb.ParameterError) as raised:
        hb.train({**LINEAR, **more}, datasets(LINEAR)[0], 2)
    assert all(word in str(raised.value) for word in words)


def test_dart_does_not_go_on_from_linear_leaves():
    start = hb.train(LINEAR, datasets(LINEAR)[0], 2)
    with pytest.raises(hb.ParameterError, match="linear leaves"):
        hb.train({**LINEAR, "linear_tree": False, "boosting": "dart"}, datasets(LINEAR)[0], 2, init_model=start)


def test_data_without_numbers_at_hand_are_refused():
    X, y = table(missing=0.0)
    stream = hb.Stream(lambda: iter([(X, y)]))
    with pytest.raises(hb.DataError, match=r"linear_tree.*stream"):
        hb.train(LINEAR, hb.Dataset(stream), 2)
    train = hb.Dataset(X, label=y)
    with pytest.raises(hb.DataError, match=r"linear_tree.*valid_sets\['v'\]"):
        hb.train(LINEAR, train, 2, {"v": hb.Dataset(stream, reference=train)})


def test_what_is_not_there_for_linear_leaves_says_so():
    train, valid = datasets(LINEAR)
    booster = hb.train(LINEAR, train, 3)
    X = valid.data
    for call in (
        lambda: booster.predict(X, pred_contrib=True),
        lambda: booster.refit(X, valid.label),
        lambda: booster.set_leaf_output(1, 0, 1.0),
    ):
        with pytest.raises(hb.ParameterError, match="linear leaves"):
            call()
    importance = hb.explain.permutation_importance(booster, X, valid.label, repeats=2)
    assert importance.mean.max() > 0.0

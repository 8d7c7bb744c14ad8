"""Categorical features end to end: one model on every device and from every container, and sound predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices

QUIET = {"verbosity": -1}
LOOSE = {"cat_smooth": 2.0, "min_data_per_group": 5, "cat_l2": 1.0}


def make_frame(n_rows=700, n_levels=30, seed=0, missing=0.1):
    """A number, a categorical feature of many levels (strings), one of three, and a target that depends on all."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(100).normal(size=n_levels) * 2.0
    level, few = (rng.random(n_rows) ** 2 * n_levels).astype(int), rng.integers(0, 3, n_rows)
    x = rng.normal(size=n_rows)
    score = effects[level] + x + 1.5 * (few == 1)
    names = np.array([f"level {i}" for i in range(n_levels)], object)[level]
    names[rng.random(n_rows) < missing] = None
    frame = pd.DataFrame({"many": names, "x": x, "few": np.array(["a", "b", "c"])[few]})
    return frame, score + rng.normal(size=n_rows) * 0.3


def target(score, objective):
    if objective == "binary":
        return (score > np.median(score)).astype(np.float64)
    if objective == "multiclass":
        return np.digitize(score, np.quantile(score, [0.3, 0.7])).astype(np.float64)
    return score


def maker(objective="regression", **options):
    def make():
        frame, score = make_frame(**options)
        return hb.Dataset(frame, label=target(score, objective))

    return make


COMBINATIONS = {
    "regression": {},
    "binary": {"objective": "binary"},
    "binary, loose": {"objective": "binary", **LOOSE},
    "multiclass": {"objective": "multiclass", "num_class": 3, **LOOSE},
    "one-hot": {"max_cat_to_onehot": 50},
    "min_data 1": {"objective": "binary", "min_data_in_leaf": 1, **LOOSE},
    "depthwise": {"objective": "binary", "grow_policy": "depthwise", **LOOSE},
    "max_depth, l1, l2": {"max_depth": 4, "lambda_l1": 1.0, "lambda_l2": 2.0, **LOOSE},
    "max_delta_step": {"objective": "binary", "max_delta_step": 0.3, **LOOSE},
    "high precision": {"precision": "high", **LOOSE},
    "bagging": {"objective": "binary", "bagging_fraction": 0.6, "bagging_freq": 1, **LOOSE},
    "small pool": {"objective": "binary", "histogram_pool_size": 0.01, **LOOSE},
    "feature_fraction": {"objective": "binary", "feature_fraction_bynode": 0.6, **LOOSE},
    "extra trees": {"extra_trees": True, **LOOSE},
    "path_smooth": {"objective": "binary", "path_smooth": 3.0, **LOOSE},
    "monotone": {"monotone_constraints": [0, 1, 0], **LOOSE},
    "target encoding": {"objective": "binary", "target_encoding_levels": 10, **LOOSE},
}


@pytest.mark.parametrize("params", COMBINATIONS.values(), ids=COMBINATIONS.keys())
def test_model_is_identical_on_every_device_and_for_any_thread_count(params):
    make = maker(params.get("objective", "regression"))
    booster = assert_same_model(params, make, usable_devices(), 3, thread_counts=(1, 3))
    assert booster.feature_importance()[[0, 2]].sum() > 0
    assert any(tree.left_codes is not None for tree in booster.trees)


def containers(frame):
    pl = pytest.importorskip("polars")
    strings = [name if isinstance(name, str) else None for name in frame["many"]]
    shuffled = sorted({name for name in strings if name is not None}, reverse=True)
    categories = frame.assign(many=pd.Categorical(strings, categories=[*shuffled, "never"]), few=frame["few"])
    lazy = pl.DataFrame({"many": strings, "x": frame["x"].to_numpy(), "few": frame["few"].tolist()})
    return {
        "strings": frame,
        "categories": categories,
        "polars": lazy,
        "polars categories": lazy.with_columns(pl.col("many").cast(pl.Categorical), pl.col("few").cast(pl.Categorical)),
        "arrow": lazy.to_arrow(),
        "arrow dictionary": pa.table(
            {
                "many": pa.array(strings).dictionary_encode(),
                "x": pa.array(frame["x"].to_numpy()),
                "few": pa.array(frame["few"].tolist()).dictionary_encode(),
            }
        ),
    }


def test_every_container_gives_the_same_model_and_predictions():
    frame, score = make_frame()
    tables = containers(frame)
    boosters = {name: hb.train({**QUIET, **LOOSE}, hb.Dataset(table, label=score), 4) for name, table in tables.items()}
    assert len({booster.fingerprint() for booster in boosters.values()}) == 1
    expected = boosters["strings"].predict(frame)
    other, _ = make_frame(seed=5, n_levels=40)  # some levels are new
    expected_other = boosters["strings"].predict(other)
    for name, table in tables.items():
        assert boosters["strings"].predict(table).tolist() == expected.tolist(), name
    for name, table in containers(other).items():
        assert boosters["strings"].predict(table).tolist() == expected_other.tolist(), name


def test_integers_give_the_same_model_from_arrays_and_frames():
    rng = np.random.default_rng(0)
    table = np.stack([rng.integers(-1, 20, 600), rng.integers(0, 100, 600)], axis=1)
    y = np.sin(table[:, 0] * 5.0) + table[:, 1] / 100.0
    params = {**QUIET, **LOOSE, "categorical_feature": [0]}
    frame = pd.DataFrame(table, columns=["Column_0", "Column_1"])
    nullable = frame.assign(Column_0=pd.array([None if v < 0 else v for v in table[:, 0]], "Int64"))
    made = [hb.train(params, hb.Dataset(data, label=y), 3) for data in (table, table.astype(float), frame, nullable)]
    assert len({booster.fingerprint() for booster in made}) == 1
    assert made[0].feature_importance()[0] > 0


def test_unseen_missing_and_rare_levels_go_right(device):
    frame, score = make_frame()
    booster = hb.train({**QUIET, **LOOSE, "device": device}, hb.Dataset(frame, label=score), 4)
    rows = frame.iloc[:1].copy()
    results = []
    for value in ("unheard of", None):
        rows["many"], rows["few"] = [value], [value]
        results.append(booster.predict(rows, device=device)[0])
    assert results[0] == results[1]
    codes = np.array([[np.nan, frame["x"].iloc[0], np.nan]])
    for tree, leaf in zip(booster.trees, booster.predict(rows, pred_leaf=True)[0], strict=True):
        node = 0
        while node >= 0:
            left = bool(tree.goes_left(node, codes[:, tree.feature[node]])[0])
            assert not (left and tree.left_codes is not None and tree.left_codes[node] is not None)
            node = int(tree.left[node] if left else tree.right[node])
        assert ~node == leaf


@pytest.mark.parametrize("use_missing", [True, False])
def test_training_rows_meet_their_training_leaf_in_prediction(device, use_missing):
    frame, score = make_frame(n_levels=200)  # many of them rare
    train_set = hb.Dataset(frame, label=score)
    valid_frame, valid_score = make_frame(seed=3, n_levels=250)
    seen = {}

    def metric(predictions, dataset):
        seen["train" if dataset is train_set else "valid"] = np.array(predictions)
        return "none", 0.0, True

    params = {**QUIET, **LOOSE, "metric": "none", "device": device, "use_missing": use_missing}
    valid = hb.Dataset(valid_frame, label=valid_score)
    booster = hb.train(params, train_set, 4, {"train": train_set, "valid": valid}, feval=metric)
    for where in (device, "cpu", "reference"):
        assert booster.predict(frame, device=where).tobytes() == seen["train"].tobytes()
        assert booster.predict(valid_frame, device=where).tobytes() == seen["valid"].tobytes()
    leaves = booster.predict(frame, pred_leaf=True)
    for number, tree in enumerate(booster.trees):
        assert np.bincount(leaves[:, number], minlength=tree.n_leaves).tolist() == tree.leaf_count.tolist()


def test_permuted_rows_give_the_same_model(device):
    frame, score = make_frame()
    order = np.random.default_rng(1).permutation(len(score))
    params = {**QUIET, **LOOSE, "device": device}
    expected = hb.train(params, hb.Dataset(frame, label=score), 3).fingerprint()
    permuted = hb.Dataset(frame.iloc[order], label=score[order])
    assert hb.train(params, permuted, 3).fingerprint() == expected


def test_three_and_three_rounds_equal_six(device, tmp_path):
    make = maker()
    params = {**QUIET, **LOOSE, "device": device}
    whole = hb.train(params, make(), 6)
    half = hb.train(params, make(), 3)
    half.save(tmp_path / "half.json")
    assert hb.load(tmp_path / "half.json").fingerprint() == half.fingerprint()
    assert hb.train(params, make(), 3, init_model=tmp_path / "half.json").fingerprint() == whole.fingerprint()


def test_training_on_with_other_levels(device):
    first, score = make_frame(n_levels=20)
    second, other = make_frame(n_levels=35, seed=7)
    params = {**QUIET, **LOOSE, "device": device}
    start = hb.train(params, hb.Dataset(first, label=score), 3)
    more = hb.train(params, hb.Dataset(second, label=other), 3, init_model=start)
    n_before = len(start.levels[0])
    assert more.levels[0].values[:n_before] == start.levels[0].values
    assert len(more.levels[0]) > n_before
    assert more.predict(first, num_iteration=3).tolist() == start.predict(first).tolist()
    again = hb.Booster.from_bytes(more.to_bytes())
    assert again.predict(second).tobytes() == more.predict(second).tobytes()
    # what training saw is what prediction finds, by level
    seen = []
    train_set = hb.Dataset(second, label=other)
    hb.train(
        {**params, "metric": "none"}, train_set, 3, {"train": train_set}, init_model=start,
        feval=lambda predictions, _: (seen.append(np.array(predictions)), ("none", 0.0, True))[1],
    )  # fmt: skip
    assert seen[-1].tobytes() == more.predict(second).tobytes()
    numbers = hb.Dataset(second.assign(many=1.0, few=2.0), label=other)
    with pytest.raises(hb.DataError, match="categorical in init_model"):
        hb.train(params, numbers, 1, init_model=start)


def test_a_hundred_thousand_levels(device):
    n_levels, each = 100_000, 3
    level = np.repeat(np.arange(n_levels), each)
    y = np.where(np.arange(n_levels) % 97 == 0, 3.0, 0.0)[level]
    params = {**QUIET, **LOOSE, "device": device, "num_leaves": 2, "min_data_in_leaf": 3, "max_cat_threshold": 2000}
    params["target_encoding_levels"] = -1
    booster = hb.train(params, hb.Dataset(level[:, None], label=y, categorical_features=[0]), 1)
    predicted = booster.predict(np.arange(n_levels)[:, None])
    high = np.flatnonzero(predicted > predicted.min())
    assert len(high) > 100
    assert (high % 97 == 0).all()
    assert booster.predict(np.array([[n_levels + 5]]))[0] == booster.predict(np.array([[np.nan]]))[0]


def test_levels_that_carry_the_signal_are_found(device):
    """Every second level is high: one split of many against many separates what no threshold on codes could."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 20, 4000)
    y = (level % 2) * 10.0 + rng.normal(size=4000) * 0.1
    data = hb.Dataset(level[:, None], label=y, categorical_features=[0])
    booster = hb.train({**QUIET, "device": device, "num_leaves": 2, "learning_rate": 1.0, "cat_l2": 0.0}, data, 1)
    (codes,) = booster.trees[0].left_codes
    inside = {booster.levels[0].values[code] % 2 for code in codes}
    assert len(inside) == 1
    assert len(codes) == 10


def test_monotone_constraints_on_categories_are_refused():
    with pytest.raises((hb.ParameterError, hb.DataError), match="categorical"):
        hb.train({**QUIET, "monotone_constraints": [1, 0, 0]}, maker()(), 1)


def test_cross_validation_keeps_levels():
    frame, score = make_frame()
    found = hb.cv(
        {**QUIET, **LOOSE}, hb.Dataset(frame, label=score), 3, nfold=3, stratified=False, return_cvbooster=True
    )
    assert found["valid l2-mean"][-1] < found["valid l2-mean"][0]
    for booster in found["cvbooster"].boosters:
        assert all(isinstance(value, str) for value in booster.levels[0].values)
        assert np.isfinite(booster.predict(frame)).all()
    numbers = np.random.default_rng(0).integers(0, 9, (300, 2))
    params = {**QUIET, **LOOSE, "categorical_feature": [1]}
    hb.cv(params, hb.Dataset(numbers, label=(numbers[:, 1] % 2).astype(float)), 2, nfold=3, stratified=False)


def test_estimators_take_frames_with_strings_and_categories():
    frame, score = make_frame()
    label = np.where(score > 0, "high", "low")
    model = hb.HornbeamClassifier(n_estimators=5, verbosity=-1, **LOOSE)
    model.fit(frame, label, eval_set=[(frame, label)])
    as_categories = frame.astype({"many": "category", "few": "category"})
    again = hb.HornbeamClassifier(n_estimators=5, verbosity=-1, **LOOSE).fit(as_categories, label)
    assert again.booster_.fingerprint() == model.booster_.fingerprint()
    assert (model.predict(as_categories) == model.predict(frame)).all()
    assert model.feature_importances_[[0, 2]].sum() > 0
    table = np.random.default_rng(0).integers(0, 9, (300, 2))
    named = hb.HornbeamRegressor(n_estimators=3, categorical_features=[1], verbosity=-1, **LOOSE)
    assert named.fit(table, table[:, 1] % 2).booster_.levels[1] is not None
    weight = np.ones(len(label))
    weight[:50] = 0.0
    model.fit(frame, label, sample_weight=weight)
    assert model.booster_.levels[0] is not None

"""Splits that every tree begins with: their places, their sums and gains by hand, what leaves them out, bad files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.hashing import hash_number, number_of_hash
from hornbeam.core.random_choices import key_for
from hornbeam.params.forced_splits import parse_forced_splits
from hornbeam.params.params import Params
from hornbeam.testing.checks import usable_devices
from hornbeam.trees.splitting import bits_of_threshold, random_threshold

RNG = np.random.default_rng(0)
X = np.floor(RNG.normal(size=(400, 5)) * 3.0)
Y = X[:, 0] - 0.5 * X[:, 1] * (X[:, 3] > 0) + RNG.normal(size=400)
WITH_MISSING = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
FORCED = {
    "feature": 3,
    "threshold": 0.5,
    "left": {"feature": 1, "threshold": -1.5, "right": {"feature": 0, "threshold": 0.0}},
    "right": {"feature": 1, "threshold": 0.2},
}
PLAIN = {"verbosity": -1, "device": "cpu", "min_data_in_leaf": 5, "num_leaves": 12, "min_data_in_bin": 1}


def train(table=X, label=Y, n_rounds=3, weight=None, **params):
    return hb.train({**PLAIN, **params}, hb.Dataset(table, label=label, weight=weight), n_rounds)


def root_of(model, tree):
    return model.dump_model()["tree_info"][tree]["tree_structure"]


def goes_left(node, table):
    """Return which rows go left at a dumped node."""
    values = table[:, node["split_feature"]]
    return np.where(np.isnan(values), node["default_left"], values <= node["threshold"])


def assert_begins(node, forced, table):
    """Check that a dumped tree begins with splits: each sends the same values left as its threshold does."""
    assert node["split_feature"] == forced["feature"]
    values = table[:, forced["feature"]]
    values = values[~np.isnan(values)]
    assert ((values <= node["threshold"]) == (values <= forced["threshold"])).all()
    for side in ("left", "right"):
        if side in forced:
            assert_begins(node[f"{side}_child"], forced[side], table)


def count(forced):
    return 1 + sum(count(forced[side]) for side in ("left", "right") if side in forced)


# --- the splits of a tree -------------------------------------------------------------------------------------------

SETTINGS = {
    "plain": {},
    "missing": {"table": WITH_MISSING},
    "weights": {"weight": RNG.integers(1, 4, 400).astype(float)},
    "depthwise": {"grow_policy": "depthwise", "num_leaves": 6},
    "as many leaves as it takes": {"num_leaves": count(FORCED) + 1},
    "bagging": {"bagging_fraction": 0.7, "bagging_freq": 1},
    "few features": {"feature_fraction": 0.2, "feature_fraction_bynode": 0.5, "feature_fraction_bylevel": 0.5},
    "no contribution": {"feature_contri": [1.0, 0.0, 1.0, 0.0, 1.0]},
    "groups": {"interaction_constraints": [[0, 1, 3], [2, 4]]},
    "extra trees": {"extra_trees": True},
    "monotone": {"monotone_constraints": [1, 0, 0, 0, 0], "monotone_penalty": 2.0},
    "intermediate": {"monotone_constraints": [1, 0, 0, 0, 0], "monotone_constraints_method": "intermediate"},
    "intermediate, depthwise": {
        "monotone_constraints": [1, 0, 0, 0, 0],
        "monotone_constraints_method": "intermediate",
        "grow_policy": "depthwise",
        "num_leaves": 6,
    },
    "exact": {"tree_method": "exact"},
    "few histograms": {"histogram_pool_size": 0.001},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "multiclass": {"label": np.clip(np.floor(Y) % 3, 0, 2), "objective": "multiclass", "num_class": 3},
    "renewed": {"objective": "l1"},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_every_tree_begins_with_the_splits(name, device):
    given = SETTINGS[name]
    model = train(**given, device=device, forcedsplits_filename=FORCED)
    table = given.get("table", X)
    for tree in range(len(model.trees)):
        assert_begins(root_of(model, tree), FORCED, table)
        assert model.trees[tree].feature[: count(FORCED)].tolist() == [3, 1, 1, 0]  # level by level, left to right
    if name not in ("as many leaves as it takes",):
        assert max(len(tree.feature) for tree in model.trees) > count(FORCED)  # and growth goes on


@pytest.mark.parametrize("name", SETTINGS)
def test_model_is_identical_on_every_device_and_for_any_thread_count(name):
    prints = {train(**SETTINGS[name], device=device, fs=FORCED).fingerprint() for device in usable_devices()}
    prints |= {train(**SETTINGS[name], num_threads=n, fs=FORCED).fingerprint() for n in (1, 2, 3)}
    assert len(prints) == 1


def leaves(node, rows, table):
    """Yield every leaf of a dumped tree with the rows that reach it, by its thresholds alone."""
    if "leaf_value" in node:
        yield node, rows
        return
    left = goes_left(node, table)
    yield from leaves(node["left_child"], rows & left, table)
    yield from leaves(node["right_child"], rows & ~left, table)


@pytest.mark.parametrize("name", ["plain", "missing", "weights"])
def test_leaves_have_the_mean_of_what_their_rows_have_left(name):
    given = SETTINGS[name]
    table, weight = given.get("table", X), given.get("weight", np.ones(400))
    model = train(**given, forcedsplits_filename=FORCED, learning_rate=0.3)
    score = np.full(400, np.average(Y, weights=weight))
    for tree in range(3):
        seen = np.zeros(400, int)
        step = np.zeros(400)
        for leaf, rows in leaves(root_of(model, tree), np.ones(400, bool), table):
            step[rows] = 0.3 * np.average((Y - score)[rows], weights=weight[rows])
            seen += rows
            assert leaf["leaf_count"] == rows.sum() >= 5
            value = leaf["leaf_value"] - (np.average(Y, weights=weight) if tree == 0 else 0.0)
            assert value == pytest.approx(step[rows][0], abs=1e-9)
        assert (seen == 1).all()
        score += step
    np.testing.assert_allclose(model.predict(table), score, atol=1e-9)


def score_of(residual):
    return residual.sum() ** 2 / len(residual) if len(residual) else 0.0


def test_gains_and_the_side_of_missing_values_are_the_best_of_the_threshold():
    model = train(WITH_MISSING, forcedsplits_filename=FORCED, precision="high", n_rounds=1)
    residual = Y - Y.mean()

    def check(node, forced, rows):
        values = WITH_MISSING[:, forced["feature"]]
        below = rows & (values <= forced["threshold"])
        missing = rows & np.isnan(values)
        gains = [
            score_of(residual[left]) + score_of(residual[rows & ~left]) - score_of(residual[rows])
            for left in (below | missing, below)
        ]
        assert node["split_gain"] == pytest.approx(max(gains), rel=1e-6)
        assert node["default_left"] == (gains[0] >= gains[1])
        left = rows & goes_left(node, WITH_MISSING)
        for side, part in (("left", left), ("right", rows & ~left)):
            if side in forced:
                check(node[f"{side}_child"], forced[side], part)

    check(root_of(model, 0), FORCED, np.ones(400, bool))


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_forcing_what_growth_chooses_anyway_changes_no_prediction(policy):
    plain = train(n_rounds=1, grow_policy=policy)
    root = root_of(plain, 0)

    def top(node, depth):
        split = {"feature": node["split_feature"], "threshold": node["threshold"]}
        for side in ("left", "right"):
            if depth > 1 and "split_feature" in node[f"{side}_child"]:
                split[side] = top(node[f"{side}_child"], depth - 1)
        return split

    forced = train(n_rounds=1, grow_policy=policy, fs=top(root, 3))
    assert forced.predict(X).tolist() == plain.predict(X).tolist()
    assert sorted(forced.trees[0].gain.tolist()) == sorted(plain.trees[0].gain.tolist())


def test_a_threshold_goes_to_the_upper_bound_of_its_bin():
    table = RNG.random((500, 2))
    label = table[:, 0] + 0.1 * RNG.normal(size=500)
    data = hb.Dataset(table, label=label, params={"max_bin": 8})
    model = hb.train({**PLAIN, "max_bin": 8, "fs": {"feature": 0, "threshold": 0.4}}, data, 1)
    bounds = data.mapper.upper_bounds[0]
    assert model.trees[0].threshold[0] == bounds[bounds >= 0.4][0]
    exact = {"max_bin": 8, "forcedbins_filename": [[0, [0.4]]], "fs": {"feature": 0, "threshold": 0.4}}
    assert train(table, label, 1, **exact).trees[0].threshold[0] == 0.4


# --- what leaves them out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("left", "params"),
    [
        ({"feature": 2, "threshold": 1e6}, {}),  # no row lies above
        ({"feature": 2, "threshold": -1e6}, {}),  # none lies below
        ({"feature": 2, "threshold": float(np.sort(X[:, 2])[-3]) - 0.5}, {"min_data_in_leaf": 20}),
        ({"feature": 2, "threshold": float(np.sort(X[:, 2])[-3]) - 0.5}, {"min_sum_hessian_in_leaf": 20.0}),
        ({"feature": 2, "threshold": 0.0}, {"min_gain_to_split": 40.0}),
        ({"feature": 0, "threshold": 0.0}, {"monotone_constraints": [-1, 0, 0, 0, 0]}),
    ],
)
def test_a_split_that_is_not_allowed_is_left_out_with_all_below_it_alone(device, left, params):
    below = {"left": {"feature": 4, "threshold": 0.0}, "right": {"feature": 4, "threshold": 0.0}}
    forced = {**FORCED, "threshold": 0.5, "left": {**left, **below}}
    label = Y + 4.0 * (X[:, 3] > 0)  # so that the other splits gain enough
    free = train(label=label, device=device, fs={"feature": 3, "threshold": 0.5, "right": FORCED["right"]}, **params)
    model = train(label=label, device=device, forcedsplits_filename=forced, **params)
    assert model.trees[0].feature[:2].tolist() == [3, 1]
    assert model.predict(X).tolist() == free.predict(X).tolist()


@pytest.mark.parametrize(
    ("params", "made"), [({"num_leaves": 2}, 1), ({"num_leaves": 3}, 2), ({"max_depth": 1}, 1), ({"max_depth": 2}, 3)]
)
@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_leaves_and_depth_are_limited(params, made, policy):
    model = train(**params, grow_policy=policy, forcedsplits_filename=FORCED)
    for tree in model.trees:
        assert tree.feature.tolist() == [3, 1, 1, 0][:made]


def test_what_is_left_out_is_said_once(caplog):
    with caplog.at_level("WARNING", "hornbeam"):
        train(forcedsplits_filename={"feature": 3, "threshold": 1e9}, verbosity=0)
    said = [record.getMessage() for record in caplog.records if "forcedsplits_filename" in record.getMessage()]
    assert len(said) == 1
    assert "0 of 1" in said[0]
    caplog.clear()
    with caplog.at_level("WARNING", "hornbeam"):
        train(forcedsplits_filename=FORCED, verbosity=0)
    assert not caplog.records


# --- LightGBM -------------------------------------------------------------------------------------------------------


def shifted(forced, by):
    below = {side: shifted(forced[side], by) for side in ("left", "right") if side in forced}
    return {"feature": forced["feature"], "threshold": forced["threshold"] + by, **below}


@pytest.mark.parametrize("name", ["plain", "weights", "few leaves"])
def test_trees_begin_as_those_of_lightgbm(name, tmp_path):
    lgb = pytest.importorskip("lightgbm")
    path, table, forced = tmp_path / "splits.json", X + 20.0, shifted(FORCED, 20.0)  # LightGBM has a bin for zero alone
    path.write_text(json.dumps(forced))
    params = {**PLAIN, "forcedsplits_filename": str(path), "num_leaves": 6 if name == "few leaves" else 12}
    weight = SETTINGS["weights"]["weight"] if name == "weights" else None
    theirs = lgb.train({**params, "num_threads": 1}, lgb.Dataset(table, Y, weight=weight), 3)
    ours = hb.train(params, hb.Dataset(table, Y, weight=weight), 3)
    for tree in range(3):
        dumped = theirs.dump_model()["tree_info"][tree]["tree_structure"]
        assert_begins(dumped, forced, table)
        assert_begins(root_of(ours, tree), forced, table)
        if tree == 0:  # in later trees LightGBM counts the root's score as 0 when a split of it is forced
            assert dumped["split_gain"] == pytest.approx(root_of(ours, tree)["split_gain"], rel=0.001)
    np.testing.assert_allclose(ours.predict(table), theirs.predict(table), atol=1e-6)


def test_lightgbm_leaves_out_a_split_of_little_gain_too(tmp_path):
    lgb = pytest.importorskip("lightgbm")
    params = {**PLAIN, "forcedsplits_filename": str(tmp_path / "splits.json"), "min_gain_to_split": 50.0}
    (tmp_path / "splits.json").write_text('{"feature": 4, "threshold": 0.0, "left": {"feature": 3, "threshold": 0.0}}')
    theirs = lgb.train({**params, "num_threads": 1}, lgb.Dataset(X, Y), 1).dump_model()["tree_info"][0]
    ours = root_of(hb.train(params, hb.Dataset(X, Y), 1), 0)
    assert theirs["tree_structure"]["split_feature"] == ours["split_feature"] == 0


# --- how splits are written -----------------------------------------------------------------------------------------


def test_every_form_gives_the_same_model_and_the_model_keeps_the_splits(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(FORCED, indent=2))
    named = {"threshold": 0.5, "feature": "Column_3", "left": {}, "right": None}
    forms = [
        FORCED,
        path,
        str(path),
        json.dumps(FORCED),
        {**FORCED, "feature": np.int64(3), "threshold": np.float32(0.5)},
    ]
    models = [train(forced_splits=form) for form in forms]
    assert len({model.fingerprint() for model in models}) == 1
    path.unlink()
    again = hb.Booster(model_str=models[1].model_to_string())
    assert again.fingerprint() == models[0].fingerprint()
    names = [f"Column_{number}" for number in range(5)]
    by_name = hb.train({**PLAIN, "fs": named}, hb.Dataset(X, Y, feature_names=names), 2)
    by_number = hb.train({**PLAIN, "fs": {"feature": 3, "threshold": 0.5}}, hb.Dataset(X, Y), 2)
    assert by_name.predict(X).tolist() == by_number.predict(X).tolist()


@pytest.mark.parametrize("alias", ["fs", "forced_splits_filename", "forced_splits_file", "forced_splits"])
def test_aliases_of_lightgbm(alias):
    assert Params.from_dict({alias: FORCED}).forcedsplits_filename == parse_forced_splits(FORCED)


@pytest.mark.parametrize("value", [None, "", {}, "{}"])
def test_nothing_is_none(value):
    assert parse_forced_splits(value) is None


def nested(depth):
    found = {"feature": 0, "threshold": 0.0}
    for _ in range(depth):
        found = {"feature": 0, "threshold": 0.0, "left": found}
    return found


def cyclic():
    found = {"feature": 0, "threshold": 0.0}
    found["left"] = found["right"] = found
    return found


def doubled():
    found = {"feature": 0, "threshold": 0.0}
    for _ in range(60):
        found = {"feature": 0, "threshold": 0.0, "left": found, "right": found}
    return found


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no such file", "cannot be read"),
        ("{", "cannot be read"),
        ('{"feature": 0, "threshold": 1.5', "cannot be read"),
        ([1, 2], "the root is a list"),
        (7, "the root is a int"),
        ({"threshold": 1.0}, "the root has no 'feature'"),
        ({"feature": 0}, "the root has no 'threshold'"),
        ({"feature": 0, "threshold": 1.0, "left": {"feature": 1}}, "left has no 'threshold'"),
        ({"feature": 0, "threshold": 1.0, "left": [3]}, "left is a list"),
        ({"feature": 0, "threshold": 1.0, "middle": {}}, "the root has 'middle'"),
        ({"feature": -1, "threshold": 1.0}, "feature of the root is -1"),
        ({"feature": 1.5, "threshold": 1.0}, "feature of the root is 1.5"),
        ({"feature": True, "threshold": 1.0}, "feature of the root is True"),
        ({"feature": 0, "threshold": "1.0"}, "threshold of the root is '1.0'"),
        ({"feature": 0, "threshold": None}, "threshold of the root is None"),
        ({"feature": 0, "threshold": False}, "threshold of the root is False"),
        ({"feature": 0, "threshold": math.nan}, "finite number"),
        ('{"feature": 0, "threshold": Infinity}', "finite number"),
        ({"feature": 0, "threshold": 10**400}, "finite number"),
        (nested(150), "100 splits deep"),
        (nested(5000), "100 splits deep"),
        ('{"feature": 0, "threshold": 0, "left": ' * 100_000, "100 splits deep|cannot be read"),
        (cyclic(), "holds itself"),
        (doubled(), "more than 10000 splits"),
    ],
    ids=range(24),
)
def test_bad_splits_are_refused(value, words):
    with pytest.raises(hb.ParameterError, match=f"(?s)forcedsplits_filename=.*({words})"):
        Params.from_dict({"forcedsplits_filename": value})


def test_a_file_that_is_no_text_and_a_folder_are_refused(tmp_path):
    (tmp_path / "splits.json").write_bytes(b"\xff\xfe\x00{")
    for path in (tmp_path, tmp_path / "splits.json"):
        with pytest.raises(hb.ParameterError, match="cannot be read"):
            Params.from_dict({"forcedsplits_filename": path})


@pytest.mark.parametrize(
    ("split", "params", "words"),
    [
        ({"feature": 5}, {}, "names feature 5; they are numbered 0 to 4"),
        ({"feature": "prize"}, {}, "names feature 'prize', which the data do not have"),
        ({"feature": 2}, {"categorical_feature": [2]}, "a categorical feature"),
        ({"feature": 2}, {"categorical_feature": [2], "target_encoding_levels": 0}, "a categorical feature"),
        ({"feature": 4}, {}, "has one bin in these data"),
        ({"feature": 0}, {"tree_method": "approx"}, "tree_method='approx'"),
        ({"feature": 0, "left": {"feature": 9, "threshold": 0.0}}, {}, "names feature 9"),
    ],
)
def test_features_that_cannot_be_split_are_refused_before_training(split, params, words):
    table = np.column_stack([np.abs(X[:, :4]), np.ones(len(X))])
    with pytest.raises(hb.ParameterError, match=words):
        train(table, forcedsplits_filename={"threshold": 0.5, **split}, **params)


# --- the one candidate ----------------------------------------------------------------------------------------------


def test_a_key_is_found_for_every_threshold():
    for number in (0, 1, 12345, 2**63, 2**64 - 1):
        assert number_of_hash(hash_number(number)) == number
    for n_values in (1, 2, 3, 7, 255, 256, 65_535, 1_000_003):
        for has_missing in (False, True):
            n_choices = n_values if has_missing else n_values - 1
            for bin_ in {0, 1, n_choices // 2, n_choices - 1} & set(range(n_choices)):
                for feature in (0, 3, 1999):
                    key = key_for(bits_of_threshold(bin_, n_values, has_missing), feature)
                    assert random_threshold(np.uint64(key), feature, n_values, has_missing) == bin_

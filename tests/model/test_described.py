"""Trees and numbers of a model as LightGBM's methods return them."""

import json

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.model.formats import write_as

lightgbm = pytest.importorskip("lightgbm")

RANDOM = np.random.default_rng(3)
N = 400
X = pd.DataFrame({
    "a": RANDOM.normal(size=N),
    "b": np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.normal(size=N)),
    "c": pd.Categorical(np.array(["red", "blue", "green", "grey"])[RANDOM.integers(0, 4, N)]),
    "d": RANDOM.integers(0, 9, N),
})  # fmt: skip
Y = X["a"].to_numpy() + np.nan_to_num(X["b"].to_numpy(), nan=1.0) + 2.0 * (X["c"] == "green") + (X["d"] % 3)
LABELS = {"regression": Y, "binary": (Y > 2).astype(float), "multiclass": (Y > 1).astype(int) + (Y > 3)}
SMALL = {"num_leaves": 6, "verbosity": -1, "device": "reference", "min_data_per_group": 5, "cat_smooth": 0.0}


def train(objective, n=4, **more):
    params = {**SMALL, "objective": objective, **({"num_class": 3} if objective == "multiclass" else {}), **more}
    return hb.train(params, hb.Dataset(X, label=LABELS[objective], categorical_features=["c", "d"]), n)


@pytest.fixture(scope="module", params=["regression", "binary", "multiclass", "rf"])
def models(request):
    if request.param == "rf":
        ours = train("regression", boosting="rf", bagging_freq=1, bagging_fraction=0.6)
    else:
        ours = train(request.param)
    return ours, lightgbm.Booster(model_str=_as_lightgbm(ours))


def _as_lightgbm(booster):
    return write_as(booster.to_model(), "lightgbm", True).decode()


def close(one, other, path=""):
    """Compare nested dictionaries; numbers to six digits, in which LightGBM writes some of them."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            close(one[key], other[key], f"{path}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            close(left, right, f"{path}/{place}")
    elif isinstance(one, float) or isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-9), path
    else:
        assert one == other, path


def _without_starts(dumped):
    """Take out the values of inner nodes: the text has no start in them."""

    def strip(node):
        node.pop("internal_value", None)
        for child in ("left_child", "right_child"):
            if child in node:
                strip(node[child])

    for tree in dumped["tree_info"]:
        strip(tree["tree_structure"])
    return dumped


def test_a_dump_is_what_lightgbm_dumps_of_the_same_model(models):
    ours, theirs = models
    mine, other = _without_starts(ours.dump_model()), _without_starts(theirs.dump_model())
    for name in ("feature_importances", "feature_infos", "pandas_categorical"):
        mine.pop(name), other.pop(name)
    for tree in (*mine["tree_info"], *other["tree_info"]):
        _forget_default_of_sets(tree["tree_structure"])
    close(mine, other)


def _forget_default_of_sets(node):
    if node.get("decision_type") == "==":
        node.pop("missing_type")
    for child in ("left_child", "right_child"):
        if child in node:
            _forget_default_of_sets(node[child])


def test_parts_and_importances_of_a_dump(models):
    ours, theirs = models
    for choice in ({"num_iteration": 2}, {"num_iteration": 1, "start_iteration": 2}, {"num_iteration": -1}):
        mine, other = ours.dump_model(**choice), theirs.dump_model(**choice)
        assert len(mine["tree_info"]) == len(other["tree_info"])
    assert ours.dump_model()["feature_importances"] == {
        name: count for name, count in zip(ours.feature_names, ours.feature_importance(), strict=True) if count
    }
    gains = ours.dump_model(importance_type="gain")["feature_importances"]
    assert sum(gains.values()) == pytest.approx(ours.feature_importance("gain").sum())
    seen = []
    ours.dump_model(object_hook=lambda made: seen.append(len(made)) or made)
    assert len(seen) == 1 + sum(2 * tree.n_leaves for tree in ours.trees)  # nodes, trees, and the model
    json.dumps(ours.dump_model(), allow_nan=False)


def _leaf_of(node, row):
    while "split_index" in node:
        value = row[node["split_feature"]]
        if node["decision_type"] == "==":
            left = str(value) in node["threshold"].split("||")
        else:
            left = node["default_left"] if np.isnan(value) else value <= node["threshold"]
        node = node["left_child" if left else "right_child"]
    return node["leaf_value"]


def test_leaves_of_a_dump_add_up_to_raw_scores():
    model = train("regression")
    dumped = model.dump_model()
    codes = {name: code for code, name in enumerate(dumped["pandas_categorical"][0])}
    rows = [(a, b, codes[c], d) for a, b, c, d in X.itertuples(index=False)]
    sums = [sum(_leaf_of(tree["tree_structure"], row) for tree in dumped["tree_info"]) for row in rows[:50]]
    np.testing.assert_allclose(sums, model.predict(X[:50], raw_score=True), rtol=1e-12)


def test_places_of_strings_in_a_dump_are_the_codes_of_pandas():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice(list("fbadce"), 300)), "x": rng.normal(size=300)})
    frame.loc[::9, "c"] = np.nan
    label = 2.0 * frame["c"].isin(["a", "d"]) + 0.3 * frame["x"]
    found = []
    for library in (hb, lightgbm):
        params = {"objective": "regression", "verbosity": -1, "num_threads": 1, "min_data_per_group": 5}
        model = library.train(params, library.Dataset(frame, label), 4)
        dumped = model.dump_model()
        rows = frame.assign(c=frame["c"].cat.codes).to_numpy(float)[frame["c"].notna()]
        rows = [[int(code), x] for code, x in rows[:60]]
        sums = [sum(_leaf_of(tree["tree_structure"], row) for tree in dumped["tree_info"]) for row in rows]
        np.testing.assert_allclose(sums, model.predict(frame[frame["c"].notna()][:60]), rtol=1e-9)
        assert dumped["pandas_categorical"] == [list("abcdef")]
        found.append((set(dumped["feature_infos"]), model.pandas_categorical))
    assert found[0] == found[1] == ({"c", "x"}, [list("abcdef")])


def test_the_table_of_nodes_is_lightgbms(models):
    ours, theirs = models
    mine, other = ours.trees_to_dataframe(), theirs.trees_to_dataframe()
    assert list(mine.columns) == list(other.columns)
    for column in ("tree_index", "node_depth", "node_index", "left_child", "right_child", "parent_index", "count"):
        pd.testing.assert_series_equal(mine[column], other[column], check_dtype=False)
    leaves = mine["left_child"].isna()
    np.testing.assert_allclose(mine["value"][leaves], other["value"][leaves], rtol=1e-9)
    np.testing.assert_allclose(mine["split_gain"].astype(float), other["split_gain"], rtol=1e-5)
    assert mine["split_feature"].fillna("").tolist() == other["split_feature"].fillna("").tolist()


def test_the_table_of_nodes_ends_at_the_best_iteration():
    noise = np.random.default_rng(1).normal(size=len(X))
    numbers = X[["a", "b", "d"]]
    data = hb.Dataset(numbers, label=Y)
    valid = hb.Dataset(numbers, label=noise, reference=data)
    model = hb.train({**SMALL, "objective": "regression"}, data, 50, [valid], callbacks=[hb.early_stopping(3)])
    assert 0 < model.best_iteration < model.n_iterations
    assert model.trees_to_dataframe()["tree_index"].nunique() == len(model.dump_model()["tree_info"])
    assert len(model.dump_model()["tree_info"]) == model.best_iteration


def test_split_values_are_counted_as_lightgbm_counts_them(models):
    ours, theirs = models
    for choice in ({}, {"bins": 3}, {"bins": "auto"}):
        for mine, other in zip(
            ours.get_split_value_histogram("a", **choice), theirs.get_split_value_histogram("a", **choice), strict=True
        ):
            np.testing.assert_allclose(mine, other)
    pd.testing.assert_frame_equal(
        ours.get_split_value_histogram(0, bins=4, xgboost_style=True),
        theirs.get_split_value_histogram(0, bins=4, xgboost_style=True),
    )
    for wrong in ("no", 4, -1, 1.5):
        with pytest.raises(hb.ParameterError, match="feature"):
            ours.get_split_value_histogram(wrong)


def test_sets_of_levels_have_no_histogram():
    with pytest.raises(hb.ParameterError, match="'c' is categorical"):
        train("regression").get_split_value_histogram("c")


def test_bounds_hold_every_score(models):
    ours, theirs = models
    raw = ours.predict(X, raw_score=True)
    assert ours.lower_bound() <= raw.min() and raw.max() <= ours.upper_bound()
    if ours.n_outputs == 1 and not ours.averages_trees:
        assert ours.lower_bound() == pytest.approx(theirs.lower_bound())
        assert ours.upper_bound() == pytest.approx(theirs.upper_bound())


def test_a_booster_becomes_the_model_of_a_text(models):
    ours, theirs = models
    other = train("regression", 1)
    assert other.model_from_string(ours.model_to_string()) is other
    assert other.fingerprint() == ours.fingerprint()
    assert other.model_from_string(theirs.model_to_string()).num_trees() == ours.num_trees()
    assert (ours.num_boosted_rounds(), ours.num_features()) == (4, 4)


def test_a_model_without_trees_has_a_dump_and_no_table():
    empty = hb.Booster({**SMALL, "objective": "regression"}, hb.Dataset(X[["a"]], label=Y))
    (tree,) = empty.dump_model()["tree_info"]
    assert tree["tree_structure"]["leaf_value"] == empty.predict(X[["a"]])[0]
    with pytest.raises(hb.ParameterError, match="no trees"):
        empty.trees_to_dataframe()

"""Trees under constraints and with random features: the same on every device, and what each parameter promises."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.checks import assert_same_model, usable_devices
from hornbeam.trees.contexts.feature_shares import choose_share, share_of
from hornbeam.trees.contexts.tree_contexts import monotone_factor

QUIET = {"verbosity": -1}
N_FEATURES = 8


def table(n_rows=600, missing=0.0, seed=0, n_features=N_FEATURES):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1] = np.floor(X[:, 1] * 2.0)
    y = 2.0 * X[:, 0] - 1.5 * X[:, 1] + X[:, 0] * X[:, 2] + np.sin(3.0 * X[:, 3]) + rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def dataset(objective="regression", **options):
    X, y = table(**options)
    if objective == "binary":
        y = (y > 0.0).astype(np.float64)
    elif objective == "multiclass":
        y = np.digitize(y, [-1.5, 1.5]).astype(np.float64)
    return hb.Dataset(X, label=y)


SIGNS = [1, -1, 0, 0, 1, 0, 0, -1]
GROUPS = [[0, 1, 2], [2, 3], [4, 5, 6, 7, 0]]
CASES = {
    "by tree": {"feature_fraction": 0.4},
    "by level": {"feature_fraction_bylevel": 0.5},
    "by node": {"feature_fraction_bynode": 0.4},
    "by tree, level and node": {"colsample_bytree": 0.8, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    "extra trees": {"extra_trees": True},
    "extra trees by tree": {"extra_trees": True, "feature_fraction": 0.6, "num_leaves": 31},
    "monotone": {"monotone_constraints": SIGNS},
    "monotone, penalty": {"monotone_constraints": SIGNS, "monotone_penalty": 1.7},
    "monotone, by node": {"monotone_constraints": SIGNS, "feature_fraction_bynode": 0.5, "lambda_l1": 0.5},
    "monotone, intermediate": {"monotone_constraints": SIGNS, "monotone_constraints_method": "intermediate"},
    "intermediate, depthwise, smooth": {
        "monotone_constraints": SIGNS,
        "mc_method": "intermediate",
        "grow_policy": "depthwise",
        "path_smooth": 3.0,
        "max_depth": 5,
    },
    "interactions": {"interaction_constraints": GROUPS},
    "interactions by node": {"interaction_constraints": GROUPS, "feature_fraction_bynode": 0.5},
    "contributions": {"feature_contri": [1.0, 0.5, 0.2, 1.0, 1.0, 0.0, 2.0, 1.0]},
    "smooth": {"path_smooth": 12.0},
    "smooth, clipped": {"path_smooth": 2.0, "max_delta_step": 0.5, "min_data_in_leaf": 2},
    "depthwise": {"grow_policy": "depthwise", "max_depth": 4, "monotone_constraints": SIGNS, "path_smooth": 4.0},
    "everything": {
        "monotone_constraints": SIGNS,
        "interaction_constraints": GROUPS,
        "path_smooth": 3.0,
        "feature_contri": [1.0, 0.9] * 4,
        "feature_fraction": 0.9,
        "feature_fraction_bynode": 0.8,
        "extra_trees": True,
        "min_gain_to_split": 0.01,
        "lambda_l2": 1.0,
    },
}


@pytest.fixture
def many_threads(tune):
    """Let threads share even little work."""
    tune(
        copied_rows_per_thread=1,
        updates_per_thread=1,
        divided_rows_per_thread=1,
        searched_bins_per_thread=1,
        context_bins_per_thread=1,
        smallest_piece=50,
        ordered_smallest_bytes=0,
    )


@pytest.mark.sampled
@pytest.mark.parametrize("objective", ["regression", "binary"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("many_threads")
def test_model_is_identical_on_every_device_and_for_any_thread_count(name, objective):
    params = {"num_leaves": 15, "objective": objective, **CASES[name]}
    booster = assert_same_model(
        params, lambda: dataset(objective, missing=0.1), usable_devices(), 3, thread_counts=(1, 3)
    )
    assert sum(tree.n_splits for tree in booster.trees) > 0


@pytest.mark.parametrize("name", ["everything", "by tree, level and node", "monotone, intermediate"])
def test_model_is_identical_for_several_outputs_and_few_histograms(name):
    params = {"objective": "multiclass", "num_class": 3, "num_leaves": 15, **CASES[name]}
    whole = assert_same_model(params, lambda: dataset("multiclass"), usable_devices(), 2, thread_counts=(2,))
    few = hb.train({**QUIET, **params, "histogram_pool_size": 1e-9}, dataset("multiclass"), 2)
    assert few.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize("name", CASES)
def test_four_and_four_rounds_are_eight(name):
    params = {**QUIET, "num_leaves": 7, **CASES[name]}
    whole = hb.train(params, dataset(), 4)
    part = hb.train(params, dataset(), 2)
    assert hb.train(params, dataset(), 2, init_model=part).fingerprint() == whole.fingerprint()


# --- what each parameter promises -----------------------------------------------------------------------------------


def paths(tree):
    """Return the features on the way to every split and leaf, a set for each split with its own feature."""
    found = {}

    def walk(node, above):
        if node >= 0:
            here = above | {int(tree.feature[node])}
            found[node] = here
            walk(int(tree.left[node]), here)
            walk(int(tree.right[node]), here)

    if tree.n_splits:
        walk(0, frozenset())
    return found


def assert_monotone(booster, signs, X, n_points=40):
    """Move one constrained feature at a time over a grid, everything else as in the data: not a bit the wrong way."""
    for feature, sign in enumerate(signs):
        if sign == 0:
            continue
        values = X[:, feature][~np.isnan(X[:, feature])]
        grid = np.linspace(values.min() - 0.1, values.max() + 0.1, n_points)
        rows = np.repeat(X[:60], n_points, axis=0)
        rows[:, feature] = np.tile(grid, len(X[:60]))
        steps = np.diff(booster.predict(rows, raw_score=True).reshape(-1, n_points), axis=1)
        assert (sign * steps >= 0.0).all(), f"feature {feature}"


def next_to_no_hessian(predictions, data):
    """Return gradients of which those of every tenth row have next to no hessian."""
    light = np.arange(len(predictions)) % 10 == 0
    return predictions - data.label, np.where(light, 1e-12, 0.25)


@pytest.mark.parametrize("name", ["plain", "monotone", "smooth", "everything"])
def test_no_leaf_steps_further_than_the_lightest_that_may_be(name):
    X, y = table(2000)
    X[::10, 0] = 9.0  # light rows are easily told from the others
    params = {**QUIET, "objective": next_to_no_hessian, "min_sum_hessian_in_leaf": 1e-3, "learning_rate": 1.0}
    params |= CASES.get(name, {})
    made = lambda: hb.Dataset(X, label=y)  # noqa: E731
    assert_same_model(params, made, usable_devices(), 2)
    tree = hb.train(params, made(), 1).trees[0]
    if name == "plain":
        assert tree.leaf_weight.min() < 1e-9  # rounded, as the search sees them, hessians of such rows are not 0
    assert np.abs(tree.leaf_value).max() <= np.abs(y).sum() / 1e-3


MONOTONE = {
    "plain": {},
    "penalty": {"monotone_penalty": 2.0},
    "smooth": {"path_smooth": 5.0},
    "l1, l2": {"lambda_l1": 1.0, "lambda_l2": 2.0},
    "extra trees": {"extra_trees": True},
    "depthwise": {"grow_policy": "depthwise"},
    "clipped": {"max_delta_step": 0.3},
    "few rows": {"min_data_in_leaf": 2, "num_leaves": 63},
    "intermediate": {"mc_method": "intermediate"},
    "intermediate, smooth": {"mc_method": "intermediate", "path_smooth": 5.0, "min_data_in_leaf": 2},
    "intermediate, by node": {"mc_method": "intermediate", "feature_fraction_bynode": 0.5, "extra_trees": True},
}


@pytest.mark.sampled
@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "missing"])
@pytest.mark.parametrize("objective", ["regression", "binary"])
@pytest.mark.parametrize("name", MONOTONE)
def test_predictions_are_monotone(name, objective, missing):
    params = {**QUIET, "objective": objective, "monotone_constraints": SIGNS, **MONOTONE[name]}
    booster = hb.train(params, dataset(objective, missing=missing), 15)
    assert_monotone(booster, SIGNS, table(missing=missing)[0])
    used = {int(feature) for tree in booster.trees for feature in tree.feature}
    assert used & {0, 1, 7}  # constrained features are not simply left out


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", ["basic", "intermediate"])
def test_predictions_are_monotone_in_every_category_and_where_other_features_are_missing(method, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 4))
    X[:, 2], X[:, 3] = rng.integers(0, 6, 500), rng.integers(0, 9, 500)
    y = X[:, 0] - X[:, 1] + np.array([0.0, 3.0, -2.0, 1.0, 5.0, -4.0])[X[:, 2].astype(int)] * (1.0 + (X[:, 3] > 4))
    y += 0.5 * rng.normal(size=500)
    params = {**QUIET, "monotone_constraints": [1, -1, 0, 0], "mc_method": method, "min_data_in_leaf": 5}
    params |= {"min_data_per_group": 5, "cat_smooth": 1.0, "device": "cpu"}
    booster = hb.train(params, hb.Dataset(X, label=y, categorical_features=[2]), 5)
    grid = np.unique(np.concatenate([np.nextafter(X[:, :2], -np.inf), X[:, :2]]))[::4]
    others = np.array([(a, b, c) for a in (-1.0, 0.0, 1.0, np.nan) for b in (*range(7), np.nan) for c in (3, np.nan)])
    for feature, sign in ((0, 1), (1, -1)):
        rows = np.repeat(np.insert(others, feature, 0.0, axis=1), len(grid), axis=0)
        rows[:, feature] = np.tile(grid, len(others))
        steps = np.diff(booster.predict(rows).reshape(-1, len(grid)), axis=1)
        assert (sign * steps >= 0.0).all()
        assert (steps != 0.0).any()


def test_without_constraints_predictions_are_not_monotone():
    booster = hb.train({**QUIET}, dataset(), 15)
    with pytest.raises(AssertionError, match="feature"):
        assert_monotone(booster, SIGNS, table()[0])


def test_intermediate_gives_up_less_than_basic():
    X, y = table(1500)
    losses = {
        method: np.mean(
            (
                hb.train(
                    {**QUIET, "monotone_constraints": SIGNS, "mc_method": method}, hb.Dataset(X, label=y), 20
                ).predict(X)
                - y
            )
            ** 2
        )
        for method in ("basic", "intermediate")
    }
    assert losses["intermediate"] < losses["basic"]


def test_method_without_constraints_changes_nothing():
    plain = hb.train({**QUIET, "monotone_constraints": [0] * 8}, dataset(), 3)
    other = hb.train({**QUIET, "monotone_constraints": [0] * 8, "mc_method": "intermediate"}, dataset(), 3)
    assert [tree.leaf_value.tolist() for tree in other.trees] == [tree.leaf_value.tolist() for tree in plain.trees]


def test_wrong_sign_keeps_a_feature_out():
    X, _ = table()
    booster = hb.train({**QUIET, "monotone_constraints": [-1] + [0] * 7}, hb.Dataset(X, label=X[:, 0]), 5)
    assert all(0 not in tree.feature for tree in booster.trees)


@cache
def free_ways():
    free = hb.train({**QUIET, "num_leaves": 63}, dataset(), 10)
    return [way for tree in free.trees for way in paths(tree).values()]


@pytest.mark.parametrize("groups", [GROUPS, [[f] for f in range(8)], [[0, 1], [1, 2], list(range(2, 8))]], ids=str)
def test_no_path_leaves_its_groups(groups):
    booster = hb.train({**QUIET, "interaction_constraints": groups, "num_leaves": 63}, dataset(), 10)
    seen = [way for tree in booster.trees for way in paths(tree).values()]
    assert seen
    assert all(any(way <= set(group) for group in groups) for way in seen)
    assert not all(any(way <= set(group) for group in groups) for way in free_ways())


@pytest.mark.parametrize("fraction", [0.01, 0.25, 0.5, 0.8])
def test_a_tree_uses_no_more_than_its_share_of_features(fraction):
    booster = hb.train({**QUIET, "feature_fraction": fraction, "num_leaves": 127, "min_data_in_leaf": 2}, dataset(), 12)
    used = [set(tree.feature.tolist()) for tree in booster.trees]
    most = share_of(N_FEATURES, fraction)
    assert max(map(len, used)) == most  # 127 leaves use every feature that they may
    assert len(set().union(*used)) > most  # trees differ


def test_a_depth_uses_no_more_than_its_share_of_features():
    booster = hb.train({**QUIET, "feature_fraction_bylevel": 0.25, "num_leaves": 63}, dataset(), 8)
    by_depth = {}
    for number, tree in enumerate(booster.trees):
        depth = {0: 0}
        for node in range(tree.n_splits):
            by_depth.setdefault((number, depth[node]), set()).add(int(tree.feature[node]))
            for child in (tree.left[node], tree.right[node]):
                depth[int(child)] = depth[node] + 1
    assert max(map(len, by_depth.values())) == 2
    assert len({frozenset(seen) for seen in by_depth.values()}) > 3


def test_sampling_every_feature_changes_nothing():
    plain = hb.train({**QUIET}, dataset(), 4)
    for name in ("feature_fraction", "feature_fraction_bylevel", "feature_fraction_bynode"):
        assert hb.train({**QUIET, name: 1.0}, dataset(), 4).fingerprint() == plain.fingerprint()
    nearly = hb.train(
        {**QUIET, "feature_fraction_bynode": 0.99}, dataset(), 4
    )  # 8 of 8, but through the general search
    same = [(a.gain.tolist(), a.leaf_value.tolist()) for a in nearly.trees]
    assert same == [(a.gain.tolist(), a.leaf_value.tolist()) for a in plain.trees]


@pytest.mark.parametrize(
    ("params", "seed"),
    [
        ({"feature_fraction": 0.5}, "feature_fraction_seed"),
        ({"feature_fraction_bynode": 0.5}, "feature_fraction_seed"),
        ({"feature_fraction_bylevel": 0.5}, "feature_fraction_seed"),
        ({"extra_trees": True}, "extra_seed"),
        ({"extra_trees": True}, "seed"),
        ({"feature_fraction": 0.5}, "seed"),
    ],
)
def test_seeds_decide_and_repeat(params, seed):
    def trees(value):
        booster = hb.train({**QUIET, **params, seed: value}, dataset(), 3)
        return [(tree.feature.tolist(), tree.threshold.tolist()) for tree in booster.trees]

    assert trees(11) == trees(11)
    assert trees(11) != trees(12)


def test_extra_trees_are_rougher_than_searched_ones():
    def gain(**params):
        booster = hb.train({**QUIET, "num_leaves": 2, **params}, dataset(), 1)
        return booster.trees[0].gain[0]

    best = gain()
    found = [gain(extra_trees=True, extra_seed=seed) for seed in range(10)]
    assert all(value <= best for value in found)
    assert len(set(found)) > 5


def test_smoothing_pulls_leaves_to_their_parents():
    """The more smoothing, the closer the children of the root are to it; rows that count for much pull less."""

    def spread(smooth):
        booster = hb.train({**QUIET, "num_leaves": 2, "path_smooth": smooth, "learning_rate": 1.0}, dataset(), 1)
        return float(np.ptp(booster.trees[0].leaf_value))

    spreads = [spread(smooth) for smooth in (0.0, 10.0, 100.0, 1e4, 1e9)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 1e-4 * spreads[0]


def test_contributions_decide_between_features():
    X, y = table()
    twins = np.column_stack([X[:, 0], X[:, 0] + 0.0])
    for contribution, expected in (([1.0, 0.9], {0}), ([0.9, 1.0], {1}), ([0.0, 1.0], {1})):
        booster = hb.train({**QUIET, "feature_contri": contribution}, hb.Dataset(twins, label=y), 3)
        assert {int(feature) for tree in booster.trees for feature in tree.feature} == expected


@pytest.mark.parametrize("penalty", [1.0, 2.0, 3.5])
def test_monotone_penalty_keeps_constrained_splits_from_the_root(penalty):
    params = {**QUIET, "monotone_constraints": [1] + [0] * 7, "monotone_penalty": penalty, "num_leaves": 31}
    booster = hb.train(params, dataset(), 5)
    depths = []
    for tree in booster.trees:
        depth = {0: 0}
        for node in range(tree.n_splits):
            if tree.feature[node] == 0:
                depths.append(depth[node])
            for child in (tree.left[node], tree.right[node]):
                depth[int(child)] = depth[node] + 1
    assert min(depths, default=99) >= int(penalty)


def test_monotone_factor_follows_lightgbm():
    assert monotone_factor(0, 0.0) == 1.0
    assert monotone_factor(0, 0.5) == 0.5
    assert monotone_factor(2, 0.5) == 1.0 - 0.5 / 4.0
    assert monotone_factor(1, 2.0) == 0.0
    assert monotone_factor(2, 2.0) == 1.0 - 2.0**-1
    assert monotone_factor(3, 2.5) == pytest.approx(1.0 - 2.0 ** (2.5 - 1.0 - 3.0), rel=1e-15)


@pytest.mark.parametrize(
    ("n", "fraction", "count"), [(8, 0.5, 4), (9, 0.5, 5), (3, 0.01, 1), (7, 0.99, 7), (1, 0.5, 1)]
)
def test_share_is_the_nearest_whole_number_and_one_at_least(n, fraction, count):
    assert share_of(n, fraction) == count
    chosen = choose_share(12345, np.arange(n), fraction)
    assert len(set(chosen.tolist())) == count
    assert chosen.tolist() == sorted(chosen.tolist())


def test_every_feature_is_chosen_as_often_as_any_other():
    times = np.zeros(10)
    for key in range(2000):
        times[choose_share(key, np.arange(10), 0.3)] += 1
    assert abs(times - 600).max() < 100  # five standard deviations


def test_estimators_take_the_parameters():
    pytest.importorskip("sklearn")
    X, y = table()
    model = hb.HornbeamRegressor(
        n_estimators=3, colsample_bytree=0.5, monotone_constraints=SIGNS, interaction_constraints=GROUPS, verbosity=-1
    ).fit(X, y)
    params = {"feature_fraction": 0.5, "monotone_constraints": SIGNS, "interaction_constraints": GROUPS}
    assert model.booster_.fingerprint() == hb.train({**QUIET, **params}, hb.Dataset(X, label=y), 3).fingerprint()

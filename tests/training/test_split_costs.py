"""Prices of splits (LightGBM's cegb_*): by their definition, row by row, and beside LightGBM."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import ParameterError
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.workers import train_on_workers

rng = np.random.default_rng(0)
X = np.round(rng.normal(size=(400, 5)) * 4.0)
Y = X[:, 0] + 0.2 * X[:, 1] * X[:, 2] + 2.0 * np.sin(X[:, 3]) + 0.3 * rng.normal(size=400)

PLAIN = {"num_leaves": 8, "min_data_in_leaf": 5, "lambda_l2": 0.0, "min_sum_hessian_in_leaf": 0.0}
EXACT = {**PLAIN, "precision": "high", "min_data_in_bin": 1, "verbosity": -1}
COUPLED = [40.0, 300.0, 9.0, 60.0, 5.0]
LAZY = [0.4, 0.1, 0.3, 1.0, 0.05]

PRICES = {
    "split": {"cegb_penalty_split": 0.3},
    "coupled": {"cegb_penalty_feature_coupled": COUPLED},
    "lazy": {"cegb_penalty_feature_lazy": LAZY},
    "all": {
        "cegb_penalty_split": 0.05,
        "cegb_penalty_feature_coupled": COUPLED,
        "cegb_penalty_feature_lazy": LAZY,
        "cegb_tradeoff": 0.6,
    },
    "all, contributions": {
        "cegb_penalty_split": 0.05,
        "cegb_penalty_feature_coupled": COUPLED,
        "cegb_penalty_feature_lazy": LAZY,
        "feature_contri": [1.0, 0.5, 2.0, 1.0, 0.0],
    },
}


def train(n_rounds=3, x=X, y=Y, **params):
    return hb.train({**EXACT, **params}, hb.Dataset(x, label=y), n_rounds)


def best_gain(column, gradient, min_rows):
    """Return the gain of the best split of some rows by one column; all hessians are 1."""
    best = -np.inf
    for value in np.unique(column)[:-1]:
        left, right = gradient[column <= value], gradient[column > value]
        if min(len(left), len(right)) >= min_rows:
            score = left.sum() ** 2 / len(left) + right.sum() ** 2 / len(right)
            best = max(best, score - gradient.sum() ** 2 / len(gradient))
    return best


def assert_defined(booster, params):
    """Check every split of a model of squared errors: it has the highest gain, less its price, of all leaves."""
    tradeoff = params.get("cegb_tradeoff", 1.0)
    coupled, lazy = (params.get(f"cegb_penalty_feature_{kind}", [0.0] * 5) for kind in ("coupled", "lazy"))
    factor = params.get("feature_contri", [1.0] * 5)
    is_used, seen = np.zeros(5, bool), np.zeros(X.shape, bool)
    scores = np.full(len(Y), booster.init_scores[0])
    for tree in booster.trees:
        gradient, leaves, value = scores - Y, {0: np.arange(len(Y))}, np.zeros(len(Y))
        for number in range(tree.n_splits):
            paid = {}
            for leaf, rows in leaves.items():
                for feature in range(5):
                    price = params.get("cegb_penalty_split", 0.0) * len(rows)
                    price += 0.0 if is_used[feature] else coupled[feature]
                    price += lazy[feature] * np.count_nonzero(~seen[rows, feature])
                    gain = best_gain(X[rows, feature], gradient[rows], PLAIN["min_data_in_leaf"])
                    paid[leaf, feature] = gain * factor[feature] - tradeoff * price if factor[feature] > 0 else -np.inf
            feature, rows = int(tree.feature[number]), leaves.pop(number)
            assert paid[number, feature] == pytest.approx(max(paid.values()), rel=1e-6)
            assert tree.gain[number] == pytest.approx(paid[number, feature], rel=1e-5)
            is_used[feature] = True
            seen[rows, feature] = True
            goes_left = X[rows, feature] <= tree.threshold[number]
            for child, some in ((tree.left[number], rows[goes_left]), (tree.right[number], rows[~goes_left])):
                leaves[int(child)] = some  # leaves of the finished tree could have been split, too
                if child < 0:
                    value[some] = tree.leaf_value[~child]
        scores = scores + value


@pytest.mark.parametrize("name", PRICES)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_every_split_is_the_best_by_the_definition(name, device):
    booster = train(**PRICES[name], device=device)
    assert sum(tree.n_splits for tree in booster.trees) > 5
    assert_defined(booster, PRICES[name])


@pytest.mark.parametrize("params", [{}, {"bagging_fraction": 0.6, "bagging_freq": 1}, {"tree_method": "exact"}])
def test_model_is_that_of_the_reference_on_every_device(device, params):
    given = {**PRICES["all"], **params, "grow_policy": "depthwise" if params else "leafwise"}
    assert train(**given, device=device).fingerprint() == train(**given, device="reference").fingerprint()


@pytest.mark.parametrize("name", [name for name in CASES if "costs" in name and "exact" not in name])
def test_workers_end_with_the_model_of_one_process(name):
    for model in train_on_workers(CASES[name], 3, device="cpu"):
        assert model.fingerprint() == expected_fingerprints()[name]


def splits_of(peer):
    """Return (feature, gain) of every split of a model of LightGBM, tree by tree in the order of the splits."""

    def walk(node):
        if "split_index" in node:
            yield node["split_index"], node["split_feature"], node["split_gain"]
            yield from walk(node["left_child"])
            yield from walk(node["right_child"])

    return [sorted(walk(tree["tree_structure"])) for tree in peer.dump_model()["tree_info"]]


@pytest.mark.parametrize(
    ("prices", "n_leaves"),
    [
        ({"cegb_penalty_split": 0.3}, 8),
        ({"cegb_penalty_feature_lazy": LAZY}, 8),
        ({"cegb_penalty_split": 0.1, "cegb_penalty_feature_lazy": LAZY, "cegb_tradeoff": 0.5}, 8),
        ({"cegb_penalty_feature_coupled": COUPLED}, 2),  # with more leaves LightGBM adds the price to other gains
    ],
)
def test_splits_are_those_of_lightgbm(prices, n_leaves):
    lightgbm = pytest.importorskip("lightgbm")
    params = {**PLAIN, **prices, "num_leaves": n_leaves, "min_data_in_bin": 1, "verbosity": -1}
    peer = lightgbm.train({**params, "objective": "regression"}, lightgbm.Dataset(X, Y), 20)
    booster = hb.train({**params, "precision": "high"}, hb.Dataset(X, label=Y), 20)
    n_splits = 0
    for tree, theirs in zip(booster.trees, splits_of(peer), strict=False):
        assert [feature for _, feature, _ in theirs] == tree.feature.tolist()
        assert np.allclose([gain for *_, gain in theirs], tree.gain, rtol=1e-3, atol=0.01)
        n_splits += len(theirs)
    assert n_splits >= 20
    losses = [np.mean((model.predict(X) - Y) ** 2) for model in (booster, peer)]
    assert losses[0] == pytest.approx(losses[1], rel=0.003)


def test_features_and_loss_with_coupled_prices_are_near_those_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    rows = np.random.default_rng(3)
    x = np.round(rows.normal(size=(4000, 8)) * 10.0)
    y = x[:, 0] + 0.7 * x[:, 1] + 5.0 * np.sin(x[:, 2] / 5.0) + 0.2 * x[:, 3] + rows.normal(size=4000)
    coupled = {"cegb_penalty_feature_coupled": [500.0, 400.0, 500.0, 1e6, 200.0, 200.0, 200.0, 200.0]}
    params = {**PLAIN, **coupled, "num_leaves": 31, "min_data_in_bin": 1, "verbosity": -1}
    peer = lightgbm.train({**params, "objective": "regression"}, lightgbm.Dataset(x, y), 60)
    booster = hb.train(params, hb.Dataset(x, label=y), 60)
    used = [np.flatnonzero(model.feature_importance()).tolist() for model in (booster, peer)]
    assert used[0] == used[1] == [0, 1, 2]
    losses = [np.mean((model.predict(x) - y) ** 2) for model in (booster, peer)]
    assert losses[0] <= losses[1] * 1.003


def test_what_a_model_has_used_is_paid_for_when_training_goes_on():
    whole = train(6, **PRICES["coupled"])
    half = train(3, **PRICES["coupled"])
    rest = hb.train({**EXACT, **PRICES["coupled"]}, hb.Dataset(X, label=Y), 3, init_model=half)
    assert rest.fingerprint() == whole.fingerprint()


def test_nothing_is_split_where_no_gain_pays_its_price():
    assert train(1, cegb_penalty_split=1e6).trees == []
    free, plain = train(1, cegb_penalty_split=1e6, cegb_tradeoff=0.0), train(1)
    assert (free.predict(X) == plain.predict(X)).all()


def test_prices_by_name_are_those_by_number():
    named = {"cegb_penalty_feature_coupled": {f"Column_{i}": price for i, price in enumerate(COUPLED)}}
    assert_defined(train(**named), {"cegb_penalty_feature_coupled": COUPLED})


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"cegb_penalty_split": -1.0}, "cegb_penalty_split"),
        ({"cegb_tradeoff": -0.5}, "cegb_tradeoff"),
        ({"cegb_penalty_feature_coupled": [1.0, 2.0]}, "cegb_penalty_feature_coupled has 2 entries and the data 5"),
        ({"cegb_penalty_feature_lazy": [-1.0] * 5}, "cegb_penalty_feature_lazy.*number >= 0"),
        ({"cegb_penalty_feature_lazy": {"weight": 1.0}}, "cegb_penalty_feature_lazy names feature 'weight'"),
        ({"cegb_penalty_feature_lazy": [float("nan")] * 5}, "cegb_penalty_feature_lazy"),
    ],
)
def test_bad_prices_are_refused(params, words):
    with pytest.raises(ParameterError, match=words):
        train(**params)


def test_prices_of_rows_do_not_go_on_from_a_model():
    start = train(2, **PRICES["lazy"])
    with pytest.raises(ParameterError, match="cegb_penalty_feature_lazy cannot go on"):
        hb.train({**EXACT, **PRICES["lazy"]}, hb.Dataset(X, label=Y), 2, init_model=start)

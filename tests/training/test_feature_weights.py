"""Weights of the features in random choices of them: the choice itself, trainings, and every way to give weights."""

import pickle

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.distributed.dataset import PartDataset
from hornbeam.distributed.threads import run_workers
from hornbeam.distributed.training import train as train_on_worker
from hornbeam.testing.workers import cut, parts_of_worker
from hornbeam.trees.contexts.feature_shares import choose_share

QUIET = {"verbosity": -1, "num_leaves": 7}
WEIGHTS = [1.0, 0.0, 5.0, 0.2, 3.0]
FRACTIONS = {"feature_fraction": 0.8, "feature_fraction_bylevel": 0.7, "feature_fraction_bynode": 0.6}
NAMES = list("abcde")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 5))
    return X, X.sum(axis=1) + rng.normal(size=400)


@pytest.fixture(scope="module")
def weighted(rows):
    return hb.train({**QUIET, **FRACTIONS, "feature_weights": WEIGHTS}, hb.Dataset(*rows), 4).fingerprint()


# --- the choice -----------------------------------------------------------------------------------------------------

WEIGHT = np.array([1.0, 2.0, 0.0, 4.0, 0.5, 2.5])
N_KEYS = 5000


def counts(k):
    """Return how often each feature is chosen where k of them are, by many keys."""
    times, features = np.zeros(len(WEIGHT)), np.arange(len(WEIGHT))
    for key in range(N_KEYS):
        chosen = choose_share(key * 7919, features, k / len(features), WEIGHT)
        assert len(chosen) == k == len(set(chosen.tolist()))
        times[chosen] += 1
    return times


def inclusion(weight, k):
    """Return the chance that each feature is among k drawn one after the other, by all ways to draw them."""
    found = np.zeros(len(weight))

    def draw(left, chance, taken):
        if len(taken) == k:
            found[taken] += chance
            return
        total = sum(weight[i] for i in left)
        for i in left:
            if weight[i] > 0.0:
                draw([j for j in left if j != i], chance * weight[i] / total, [*taken, i])

    draw(list(range(len(weight))), 1.0, [])
    return found


def test_the_first_feature_is_chosen_by_weight():
    times, expected = counts(1), N_KEYS * WEIGHT / WEIGHT.sum()
    assert times[2] == 0
    there = expected > 0
    assert (((times - expected) ** 2)[there] / expected[there]).sum() < 18.5  # chi-square of 4 degrees, 0.001


@pytest.mark.parametrize("k", [2, 3])
def test_more_are_chosen_without_replacement(k):
    chance = inclusion(WEIGHT, k)
    spread = np.sqrt(N_KEYS * chance * (1.0 - chance)) + 1e-9
    assert (np.abs(counts(k) - N_KEYS * chance) < 4.5 * spread).all()


def test_features_of_weight_0_come_last_and_then_by_chance():
    features = np.arange(6)
    weight = np.array([0.0, 1.0, 0.0, 1e-300, 0.0, 0.0])
    seen = np.zeros(6)
    for key in range(300):
        assert choose_share(key, features, 2 / 6, weight).tolist() == [1, 3]
        seen[choose_share(key, features, 3 / 6, weight)] += 1
    assert (seen[[1, 3]] == 300).all()
    assert (seen[[0, 2, 4, 5]] > 40).all()


def test_equal_weights_are_no_other_rule_by_scale():
    features = np.arange(40)
    for key in range(50):
        one, other = (choose_share(key, features, 0.3, np.full(40, weight)) for weight in (1.0, 8.0))
        assert one.tolist() == other.tolist()
        parts = choose_share(key, features[::2], 0.3, np.ones(40))
        assert set(parts.tolist()) <= set(features[::2].tolist())


# --- trainings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRACTIONS)
def test_the_model_is_the_same_on_every_device(name, rows, device):
    params = {**QUIET, name: 0.5, "feature_weights": WEIGHTS, "interaction_constraints": [[0, 1, 2, 3], [2, 3, 4]]}
    one, other = (
        hb.train({**params, "device": where}, hb.Dataset(*rows), 3).fingerprint() for where in ("reference", device)
    )
    assert one == other
    assert one != hb.train({**params, "feature_weights": None}, hb.Dataset(*rows), 3).fingerprint()


@pytest.mark.parametrize("name", FRACTIONS)
def test_a_feature_of_weight_0_is_used_by_no_tree_and_a_heavy_one_by_most(name, rows):
    X, _ = rows
    y = X[:, 1] * 5 + np.random.default_rng(0).normal(size=400)
    model = hb.train({**QUIET, name: 0.4, "feature_weights": [1, 0, 1, 1000, 1]}, hb.Dataset(X, y), 30)
    splits = model.feature_importance("split")
    assert splits[1] == 0
    assert splits[3] > 0.3 * splits.sum()


def test_a_schedule_of_the_fraction_takes_the_weights(rows):
    X, y = rows
    params = {**QUIET, "feature_weights": [0, 0, 0, 0, 1]}
    model = hb.train(params, hb.Dataset(X, y), 4, callbacks=[hb.reset_parameter(feature_fraction=[1.0, 0.2, 0.2, 0.2])])
    used = [set(tree.feature.tolist()) for tree in model[1:].trees]
    assert used == [{4}] * 3


def test_forms_of_the_parameter_mean_the_same(rows, weighted):
    X, y = rows
    expected = train_by_data(rows, WEIGHTS).predict(X)
    forms = [tuple(WEIGHTS), np.array(WEIGHTS), "1,0,5,0.2,3", {"b": 0, "c": 5, "d": 0.2, "e": 3}]
    for form in [*forms, '{"b": 0, "c": 5, "d": 0.2, "e": 3}']:
        by_parameter = hb.train(
            {**QUIET, **FRACTIONS, "feature_weights": form}, hb.Dataset(X, y, feature_names=NAMES), 4
        )
        by_data = hb.Dataset(X, y, feature_names=NAMES, feature_weights=form)
        assert by_data.feature_weights.tolist() == WEIGHTS
        assert np.array_equal(by_parameter.predict(X), expected)
    pd = pytest.importorskip("pandas")
    series = hb.train({**QUIET, **FRACTIONS, "feature_weights": pd.Series(WEIGHTS)}, hb.Dataset(X, y), 4)
    assert series.fingerprint() == weighted == train_by_data(rows, pd.Series(WEIGHTS)).fingerprint()


def train_by_data(rows, weights, params=None, n_rounds=4):
    return hb.train({**QUIET, **FRACTIONS, **(params or {})}, hb.Dataset(*rows, feature_weights=weights), n_rounds)


def test_xgboost_chooses_in_the_same_proportions():
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(1)
    X, n_trees = rng.normal(size=(300, 6)), 400
    y, weight = rng.normal(size=300), [8.0, 1.0, 1.0, 4.0, 1.0, 1.0]
    params = {"max_depth": 1, "eta": 0.01, "colsample_bytree": 0.34, "min_child_weight": 0, "lambda": 0}
    theirs = xgb.train(params, xgb.DMatrix(X, y, feature_weights=weight), n_trees).get_score()
    ours = hb.train({**params, "verbosity": -1}, hb.DMatrix(X, y, feature_weights=weight), n_trees).get_score()
    for own in (0, 3):
        found, expected = (score.get(f"f{own}", 0) / n_trees for score in (ours, theirs))
        assert abs(found - expected) < 0.13, (ours, theirs)
    plain = hb.train({**params, "verbosity": -1}, hb.DMatrix(X, y), n_trees).get_score()
    assert ours["f0"] > 1.5 * plain.get("f0", 0)


# --- workers --------------------------------------------------------------------------------------------------------


def on_workers(dataset, params, n_workers=3):
    parts = cut(dataset, [1, 150, 290])

    def work(collective):
        mine = PartDataset(collective, parts_of_worker(parts, collective.rank, n_workers))
        return train_on_worker(params, mine, 3).fingerprint()

    (fingerprint,) = set(run_workers(n_workers, work, timeout=120.0))
    return fingerprint


@pytest.mark.parametrize("where", ["cpu", "reference"])
def test_workers_give_the_same_model(where, rows):
    params = {**QUIET, **FRACTIONS, "device": where}
    one = hb.train({**params, "feature_weights": WEIGHTS}, hb.Dataset(*rows), 3).fingerprint()
    assert on_workers(hb.Dataset(*rows), {**params, "feature_weights": WEIGHTS}) == one
    assert on_workers(hb.Dataset(*rows, feature_weights=WEIGHTS), params) == one


def test_workers_that_vote_on_all_features_give_the_same_model(rows):
    params = {**QUIET, **FRACTIONS, "feature_weights": WEIGHTS}
    one = hb.train(params, hb.Dataset(*rows), 3)
    assert on_workers(hb.Dataset(*rows), {**params, "tree_learner": "voting", "top_k": 5}) == one.fingerprint()


# --- the data have them ---------------------------------------------------------------------------------------------


def test_data_with_weights_are_the_parameter(rows, weighted, tmp_path):
    X, y = rows
    params = {**QUIET, **FRACTIONS}
    whole = hb.Dataset(X, y, feature_weights=WEIGHTS)
    later = hb.Dataset(X, y).set_field("feature_weights", WEIGHTS)
    assert hb.train(params, whole, 4).fingerprint() == weighted == hb.train(params, later, 4).fingerprint()
    assert hb.train({**params, "feature_weights": WEIGHTS}, whole, 4).fingerprint() == weighted
    assert hb.train(params, whole, 4).params["feature_weights"] == tuple(WEIGHTS)
    hb.Dataset(X, y, feature_weights=WEIGHTS).save_binary(tmp_path / "data.bin")
    for kept in (hb.Dataset(tmp_path / "data.bin"), pickle.loads(pickle.dumps(whole)), whole.subset(np.arange(400))):
        assert kept.feature_weights.tolist() == WEIGHTS
        assert hb.train(params, kept, 4).fingerprint() == weighted
    stream = hb.Stream(lambda: ({"data": X[i : i + 100], "label": y[i : i + 100]} for i in range(0, 400, 100)))
    streamed = hb.Dataset(stream, feature_weights=WEIGHTS)
    assert hb.train(params, streamed, 4).fingerprint() == weighted
    streamed.save_binary(tmp_path / "bins.bin")
    assert hb.train(params, hb.Dataset(tmp_path / "bins.bin"), 4).fingerprint() == weighted
    with pytest.raises(hb.DataError, match="set feature_weights afterwards"):
        hb.Dataset(X, y, feature_weights=WEIGHTS).add_features_from(hb.Dataset(X))


def test_folds_have_the_weights(rows):
    params = {**QUIET, **FRACTIONS, "metric": "l2"}
    asked = hb.cv({**params, "feature_weights": WEIGHTS}, hb.Dataset(*rows), 3, nfold=3)
    assert hb.cv(params, hb.Dataset(*rows, feature_weights=WEIGHTS), 3, nfold=3) == asked
    assert hb.cv(params, hb.Dataset(*rows), 3, nfold=3) != asked


def test_dmatrix_takes_them_as_xgboosts_does(rows):
    X, y = rows
    params = {"colsample_bytree": 0.5, "verbosity": 0, "num_boost_round": 4}
    expected = hb.train({**params, "feature_weights": WEIGHTS}, hb.DMatrix(X, y)).fingerprint()
    given, later = hb.DMatrix(X, y, feature_weights=np.array(WEIGHTS)), hb.DMatrix(X, y)
    later.set_info(feature_weights=WEIGHTS)
    old = hb.QuantileDMatrix(X, y)
    old.set_float_info("feature_weights", WEIGHTS)
    for data in (given, later, old):
        assert hb.train(params, data).fingerprint() == expected
        assert data.get_float_info("feature_weights").tolist() == WEIGHTS
        assert data.slice(np.arange(9)).feature_weights.tolist() == WEIGHTS
    live = hb.Booster(params, given)
    for _ in range(4):
        live.update()
    assert live.trees[3].threshold.tolist() == hb.train(params, given).trees[3].threshold.tolist()
    given.set_info(feature_weights=None)
    assert given.get_float_info("feature_weights").shape == (0,)


class Batches(hb.DataIter):
    def __init__(self, X, y, **more):
        super().__init__()
        self.X, self.y, self.more, self.is_done = X, y, more, False

    def next(self, input_data):
        if self.is_done:
            return False
        input_data(data=self.X, label=self.y, **self.more)
        self.is_done = True
        return True

    def reset(self):
        self.is_done = False


@pytest.mark.parametrize("kind", [hb.QuantileDMatrix, hb.ExtMemQuantileDMatrix])
def test_batches_have_them_where_the_iterator_goes(kind, rows):
    params = {"colsample_bytree": 0.5, "verbosity": 0}
    made = kind(Batches(*rows), feature_weights=WEIGHTS)
    expected = hb.train({**params, "feature_weights": WEIGHTS}, hb.DMatrix(*rows), 2)
    assert hb.train(params, made, 2).fingerprint() == expected.fingerprint()
    with pytest.raises(hb.DataError, match="no batch of a DataIter"):
        hb.train(params, kind(Batches(*rows, feature_weights=WEIGHTS)), 2)


@pytest.mark.parametrize("kind", [hb.XGBRegressor, hb.HornbeamRegressor])
def test_estimators_take_them_in_both_places(kind, rows):
    X, y = rows
    fixed = {"n_estimators": 4, "verbosity": -1 if kind is hb.HornbeamRegressor else 0, "colsample_bytree": 0.5}
    one = kind(**fixed, feature_weights=np.array(WEIGHTS)).fit(X, y)
    other = kind(**fixed).fit(X, y, feature_weights=WEIGHTS)
    both = kind(**fixed, feature_weights=WEIGHTS).fit(X, y, feature_weights=np.array(WEIGHTS), eval_set=[(X, y)])
    assert len({model.booster_.fingerprint() for model in (one, other, both)}) == 1
    assert kind(**fixed).fit(X, y).booster_.fingerprint() != one.booster_.fingerprint()
    with pytest.raises(hb.ParameterError, match=r"feature_weights=\(1\.0, .* but the Dataset has feature_weights=\[2"):
        kind(**fixed, feature_weights=WEIGHTS).fit(X, y, feature_weights=[2, 2, 2, 2, 2])
    no_weight = np.append(np.zeros(3), np.ones(397))  # these rows are left out
    kept = kind(**fixed).fit(X, y, no_weight, feature_weights=WEIGHTS).booster_.params
    assert kept["feature_weights"] == tuple(WEIGHTS)


def test_a_ranker_takes_them(rows):
    X, y = rows
    label, fixed = np.digitize(y, [-1, 1]), {"n_estimators": 3, "verbosity": -1, "colsample_bytree": 0.5}
    one = hb.HornbeamRanker(**fixed).fit(X, label, group=[100] * 4, feature_weights=WEIGHTS)
    other = hb.HornbeamRanker(**fixed, feature_weights=WEIGHTS).fit(X, label, group=[100] * 4)
    assert one.booster_.fingerprint() == other.booster_.fingerprint()


# --- what is wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", [[1, -1, 1, 1, 1], [0] * 5, [1, np.nan, 1, 1, 1], [np.inf] * 5, ["a"] * 5, [[1, 2]], 3.0, {"a": -1}],
    ids=str,
)  # fmt: skip
def test_bad_weights_are_refused(weights, rows):
    with pytest.raises(hb.ParameterError, match=r"feature_weights=.*a number >= 0 for each feature, one above 0"):
        hb.train({**QUIET, "feature_weights": weights}, hb.Dataset(*rows), 1)
    with pytest.raises(hb.DataError, match=r"feature_weights=.*a number >= 0 for each feature, one above 0"):
        hb.Dataset(*rows, feature_weights=weights)


def test_weights_that_do_not_suit_the_data_are_refused(rows):
    for weights, match in (
        ([1.0, 2.0], "feature_weights has 2 entries and the data 5"),
        ({"z": 1.0}, "feature_weights names feature 'z'"),
        (dict.fromkeys(NAMES, 0), "feature_weights is 0 for every feature"),
    ):
        with pytest.raises(hb.ParameterError, match=match):
            hb.train({**QUIET, "feature_weights": weights}, hb.Dataset(*rows, feature_names=NAMES), 1)
        with pytest.raises(hb.ParameterError, match=match):
            hb.Dataset(*rows, feature_names=NAMES, feature_weights=weights)
    with pytest.raises(hb.ParameterError, match="in the training parameters, but the Dataset has feature_weights"):
        train_by_data(rows, WEIGHTS, {"feature_weights": [1, 1, 1, 1, 1]})

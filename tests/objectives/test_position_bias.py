"""Ranking by clicks: the biases of positions are learned, and what is learned of the documents gets better."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.metrics import get_metric
from hornbeam.objectives import LambdarankObjective
from hornbeam.objectives.position_bias import PositionBias

N_QUERIES, SIZE = 150, 10
PARAMS = {"objective": "lambdarank", "num_leaves": 7, "max_bin": 63, "verbosity": -1, "num_threads": 1}
PARAMS |= {"min_data_in_leaf": 20, "learning_rate": 0.1}


def make_clicks(seed):
    """Return features, true relevance, clicks that grow rare with the position, and positions by a poor ranking."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_QUERIES * SIZE, 5))
    worth = X[:, 0] + X[:, 1] * X[:, 2]
    relevant = (worth > 0.7).astype(np.float64)
    shown = (X[:, 4] + 0.5 * rng.normal(size=len(X))).reshape(N_QUERIES, SIZE)
    position = np.argsort(np.argsort(-shown, axis=1), axis=1).reshape(-1)
    clicked = relevant * (rng.random(len(X)) < 1.0 / (1.0 + position))
    return X, relevant, clicked, position


@pytest.fixture(scope="module")
def clicks():
    return make_clicks(0)


def gain_of(model_predict):
    """Return the NDCG of true relevance on other queries."""
    X, relevant, _, _ = make_clicks(1)
    data = hb.Dataset(X, relevant, group=[SIZE] * N_QUERIES)
    predicted = np.asarray(model_predict(X), np.float64)
    return get_metric("ndcg@5").evaluate(data, predicted[None], LambdarankObjective())[0][1]


def test_biases_take_the_step_of_the_formula():
    rng = np.random.default_rng(2)
    position, g, h = rng.integers(0, 4, 300).astype(np.float64), rng.normal(size=300), rng.random(300)
    found = PositionBias(position, 0.3, 0.2)
    found.bias = np.array([0.1, -0.2, 0.0, 0.4])
    before = found.bias.copy()
    assert np.allclose(found.adjusted(g[None])[0], g + before[position.astype(int)])
    found.step(g, h)
    for number in range(4):
        rows = position == number
        first = -g[rows].sum() - before[number] * 0.3 * rows.sum()
        second = -h[rows].sum() - 0.3 * rows.sum()
        assert found.bias[number] == pytest.approx(before[number] + 0.2 * first / (abs(second) + 0.001), rel=1e-12)


def test_positions_make_rankings_better_and_as_good_as_lightgbms():
    """Trainings of few clicks differ by a hundredth, so that four of them are compared."""
    lightgbm = pytest.importorskip("lightgbm")
    gains = []
    for seed in range(10, 14):
        X, _, clicked, position = make_clicks(seed)
        fields = {"label": clicked, "group": [SIZE] * N_QUERIES}
        plain = hb.train(PARAMS, hb.Dataset(X, **fields), 40)
        ours = hb.train(PARAMS, hb.Dataset(X, **fields, position=position), 40)
        theirs = lightgbm.train(PARAMS, lightgbm.Dataset(X, **fields, position=position), 40)
        gains.append([gain_of(model.predict) for model in (plain, ours, theirs)])
    plain, ours, theirs = np.mean(gains, axis=0)
    assert ours > plain + 0.03
    assert ours >= theirs * 0.997


def test_positions_come_by_every_way(clicks, tmp_path):
    X, _, clicked, position = clicks
    group, params = [SIZE] * N_QUERIES, {**PARAMS, "device": "reference", "num_leaves": 4}
    data = hb.Dataset(X, clicked, group=group, position=position)
    expected = hb.train(params, data, 2).fingerprint()
    data.save_binary(tmp_path / "data.npz")
    again = hb.Dataset(tmp_path / "data.npz")
    assert (again.get_position() == position).all() and (again.get_field("position") == position).all()
    later = hb.Dataset(X, clicked, group=group).set_position(position)
    assert [hb.train(params, one, 2).fingerprint() for one in (again, later)] == [expected, expected]
    assert hb.train(params, hb.Dataset(X, clicked, group=group), 2).fingerprint() != expected
    assert (data.subset(np.arange(20)).get_position() == position[:20]).all()


@pytest.mark.parametrize(
    ("position", "message"),
    [([0.5] * 40, r"position\[0\] is 0.5"), ([-1] * 40, "whole numbers"), ([0] * 3, "has 3 values and data 40 rows")],
)
def test_positions_are_whole_numbers(position, message):
    with pytest.raises(hb.DataError, match=message):
        hb.Dataset(np.zeros((40, 1)), position=position)


def test_what_does_not_go_with_positions_is_an_error(clicks):
    X, _, clicked, position = clicks
    data = hb.Dataset(X, clicked, group=[SIZE] * N_QUERIES, position=position)
    for objective in ("rank_xendcg", "binary"):
        with pytest.raises(hb.DataError, match=f"objective '{objective}' does not look at"):
            hb.train({**PARAMS, "objective": objective}, data, 1)
    with pytest.raises(hb.ParameterError, match="use boosting='gbdt'"):
        hb.train({**PARAMS, "boosting": "dart"}, data, 1)
    first = hb.train(PARAMS, data, 1)
    with pytest.raises(hb.ParameterError, match="train in one go"):
        hb.train(PARAMS, data, 1, init_model=first)

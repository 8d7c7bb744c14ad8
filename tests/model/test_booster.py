"""Booster: what it predicts, which iterations it uses, how it is kept."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import hornbeam as hb
from hornbeam.core.numerics import sigmoid
from hornbeam.data.sources.frame import FEW_ROWS
from hornbeam.testing.data import make_higgs_like, make_multiclass

X, Y = make_higgs_like(400, 6)
X3, Y3 = make_multiclass(400, 3, 6)
QUIET = {"verbosity": -1, "num_leaves": 7}


@pytest.fixture(scope="module")
def binary() -> hb.Booster:
    return hb.train({**QUIET, "objective": "binary"}, hb.Dataset(X, label=Y), 6)


@pytest.fixture(scope="module")
def multiclass() -> hb.Booster:
    return hb.train({**QUIET, "objective": "multiclass", "num_class": 3}, hb.Dataset(X3, label=Y3), 5)


def value_of(tree: hb.Tree, row: np.ndarray) -> float:
    """Follow one row down a tree, as the documentation says."""
    if tree.n_splits == 0:
        return float(tree.leaf_value[0])
    node = 0
    while node >= 0:
        value = float(row[tree.feature[node]])
        left = bool(tree.missing_left[node]) if np.isnan(value) else value <= tree.threshold[node]
        node = int(tree.left[node] if left else tree.right[node])
    return float(tree.leaf_value[~node])


def test_raw_score_is_the_initial_score_plus_every_tree_in_order(binary):
    for row, score in zip(X[:50], binary.predict(X[:50], raw_score=True), strict=True):
        expected = float(binary.init_scores[0])
        for tree in binary.trees:
            expected += value_of(tree, row)
        assert score == expected


def test_prediction_is_the_link_of_the_raw_score(binary):
    assert binary.predict(X).tobytes() == sigmoid(binary.predict(X, raw_score=True)).tobytes()


def test_shapes_of_predictions(binary, multiclass):
    assert binary.predict(X).shape == (400,)
    assert binary.predict(X, pred_leaf=True).shape == (400, 6)
    assert multiclass.predict(X3).shape == (400, 3)
    assert multiclass.predict(X3, raw_score=True).shape == (400, 3)
    assert multiclass.predict(X3, pred_leaf=True).shape == (400, 15)
    assert multiclass.predict(X3).sum(axis=1) == pytest.approx(1.0)
    assert multiclass.predict(X3[:1]).shape == (1, 3)


def test_leaves_hold_the_rows_that_training_counted(multiclass):
    leaves = multiclass.predict(X3, pred_leaf=True)
    for number, tree in enumerate(multiclass.trees):
        assert np.bincount(leaves[:, number], minlength=tree.n_leaves).tolist() == tree.leaf_count.tolist()


def test_num_iteration_takes_the_first_iterations(multiclass):
    for n in (1, 3, 5, 9):
        part = multiclass.predict(X3, raw_score=True, num_iteration=n)
        short = hb.train(
            {**QUIET, "objective": "multiclass", "num_class": 3}, hb.Dataset(X3, label=Y3), min(n, 5)
        ).predict(X3, raw_score=True)
        assert part.tobytes() == short.tobytes()
    for n in (0, -1, None):
        assert multiclass.predict(X3, num_iteration=n).tobytes() == multiclass.predict(X3).tobytes()


def test_start_iteration_leaves_out_the_first_iterations(multiclass):
    leaves = multiclass.predict(X3, pred_leaf=True)
    assert (
        multiclass.predict(X3, pred_leaf=True, start_iteration=2, num_iteration=2).tolist() == leaves[:, 6:12].tolist()
    )
    assert not multiclass.predict(X3, raw_score=True, start_iteration=5).any()
    start = multiclass.init_scores.tolist()
    assert multiclass.predict(X3, raw_score=True, iteration_range=(5, 6)).tolist() == [start] * 400


@pytest.mark.parametrize("asked", [{"raw_score": True}, {}, {"pred_contrib": True}])
def test_later_iterations_predict_what_lightgbm_says_they_do(multiclass, asked):
    peer = pytest.importorskip("lightgbm")
    theirs = peer.Booster(model_str=multiclass.model_to_string())
    for first, count in ((0, 2), (2, 2), (1, None), (5, None)):
        given = {"start_iteration": first, "num_iteration": count, **asked}
        np.testing.assert_allclose(multiclass.predict(X3, **given), theirs.predict(X3, **given), atol=1e-12)
    whole = multiclass.predict(X3, raw_score=True)
    first, rest = (
        multiclass.predict(X3, raw_score=True, **one) for one in ({"num_iteration": 2}, {"start_iteration": 2})
    )
    np.testing.assert_allclose(first + rest, whole, rtol=0, atol=1e-12)


def test_best_iteration_is_what_predict_uses(binary):
    stopped = copy.deepcopy(binary)
    stopped.best_iteration = 2
    assert stopped.predict(X).tobytes() == binary.predict(X, num_iteration=2).tobytes()
    assert stopped.predict(X, num_iteration=-1).tobytes() == binary.predict(X).tobytes()
    assert stopped.predict(X, num_iteration=4).tobytes() == binary.predict(X, num_iteration=4).tobytes()
    assert stopped.predict(X, pred_leaf=True).shape == (400, 2)
    assert stopped.predict(X, pred_leaf=True, start_iteration=1).shape == (400, 1)
    assert stopped.predict(X, pred_leaf=True, start_iteration=2).shape == (400, 0)


def test_any_table_of_the_same_numbers_gets_the_same_prediction(binary):
    expected = binary.predict(X).tobytes()
    names = [f"Column_{i}" for i in range(6)]
    for table in (
        X.astype(np.float64),
        np.asfortranarray(X),
        X.tolist(),
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        pd.DataFrame(X, columns=list("abcdef")),  # the model was trained without names
    ):
        assert binary.predict(table).tobytes() == expected


@pytest.mark.parametrize("num_threads", [0, 1, 2, 5])
def test_number_of_threads_does_not_change_predictions(binary, num_threads):
    assert binary.predict(X, num_threads=num_threads).tobytes() == binary.predict(X).tobytes()


def test_one_row_at_a_time_equals_all_rows_at_once(binary):
    together = binary.predict(X[:20])
    assert [binary.predict(row[None])[0] for row in X[:20]] == together.tolist()


def test_importance_counts_splits_and_sums_gains(multiclass):
    splits, gains = np.zeros(6, int), np.zeros(6)
    for tree in multiclass.trees:
        for feature, gain in zip(tree.feature, tree.gain, strict=True):
            splits[feature] += 1
            gains[feature] += gain
    assert multiclass.feature_importance().tolist() == splits.tolist()
    assert multiclass.feature_importance("gain").tolist() == gains.tolist()
    first = multiclass.feature_importance("split", iteration=1)
    assert first.sum() == sum(tree.n_splits for tree in multiclass.trees[:3])


def test_numbers_describe_the_model(multiclass):
    assert multiclass.num_trees() == 15
    assert multiclass.n_iterations == 5
    assert multiclass.num_feature() == multiclass.n_features == 6
    assert multiclass.feature_name() == [f"Column_{i}" for i in range(6)]
    assert "5 iterations" in repr(multiclass)


def test_pickle_and_copies_keep_everything(binary):
    model = hb.train({**QUIET, "objective": "binary"}, hb.Dataset(X, label=Y), 3, {"v": hb.Dataset(X, label=Y)})
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert twin.fingerprint() == model.fingerprint()
        assert twin.eval_history == model.eval_history
        assert twin.predict(X).tobytes() == model.predict(X).tobytes()


def test_parameters_of_a_model_tell_what_was_given():
    X, y = make_higgs_like(200, 6)
    given = {"objective": "binary", "metric": ["auc"], "sub_row": 0.5, "bagging_freq": 1, "num_leaves": 31}
    booster = hb.train(given, hb.Dataset(X, label=y), 3)
    params = booster.params
    kept = {"objective": "binary", "bagging_fraction": 0.5, "bagging_freq": 1}
    assert params == dict(params) == {**kept, "metric": params["metric"], "num_leaves": 31, "num_iterations": 3}
    assert set(params) == set(params.keys()) and len(params) == 6
    assert all(name in params for name in ("metric", "metrics", "num_iterations", "n_estimators", "sub_row"))
    assert "learning_rate" not in params and "no parameter" not in params
    expected = {
        "objective": "binary", "num_iterations": 3, "n_estimators": 3, "sub_row": 0.5, "subsample": 0.5,
        "num_leaves": 31, "learning_rate": 0.1,
    }  # fmt: skip
    assert {name: params[name] for name in expected} == {name: params.get(name) for name in expected} == expected
    assert list(params["metric"]) == ["auc"] and params.get("no parameter", 5) == 5
    with pytest.raises(KeyError):
        _ = params["no parameter"]
    loaded = hb.Booster(booster.to_bytes()).params
    assert loaded == kept and loaded["objective"] == "binary" and loaded.get("metric") is None
    assert pickle.loads(pickle.dumps(booster)).params["num_iterations"] == 3
    assert pickle.loads(pickle.dumps(booster)).fingerprint() == booster.fingerprint()
    custom = hb.train({"objective": lambda s, d: (s - d.label, s * 0 + 1)}, hb.Dataset(X, label=y), 1)
    assert pickle.loads(pickle.dumps(custom.params)) == custom.params


def test_bytes_make_the_same_model(multiclass):
    twin = hb.Booster.from_bytes(multiclass.to_bytes())
    assert twin.to_bytes() == multiclass.to_bytes()
    assert len(twin.fingerprint()) == 64
    assert twin.predict(X3).tobytes() == multiclass.predict(X3).tobytes()


def test_predictions_of_a_growing_model_are_never_stale():
    seen = []

    def look(env):
        seen.append(env.model.predict(X, raw_score=True))

    model = hb.train({**QUIET}, hb.Dataset(X, label=Y), 4, callbacks=[look])
    for n, scores in enumerate(seen, 1):
        assert scores.tobytes() == model.predict(X, raw_score=True, num_iteration=n).tobytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"raw_score": True, "pred_leaf": True}, "raw_score and pred_leaf"),
        ({"start_iteration": -1}, "start_iteration=-1"),
    ],
)
def test_contradictory_arguments_are_refused(binary, arguments, message):
    with pytest.raises(hb.ParameterError, match=message):
        binary.predict(X, **arguments)


def test_unknown_importance_is_refused(binary):
    with pytest.raises(hb.ParameterError, match="importance_type='much'"):
        binary.feature_importance("much")


def test_frames_of_few_rows_and_of_many_predict_the_same():
    table = pd.DataFrame(X).add_prefix("c").assign(whole=np.arange(len(X)), flag=np.arange(len(X)) % 3 == 0)
    table["small"] = table["c0"].astype(np.float32)
    booster = hb.train({"verbosity": -1, "num_leaves": 7}, hb.Dataset(table, label=np.arange(len(X)) % 5), 5)
    whole = pd.concat([table] * (FEW_ROWS // len(table) + 1), ignore_index=True)
    assert len(whole) > FEW_ROWS >= len(table)
    assert booster.predict(table).tolist() == booster.predict(whole)[: len(table)].tolist()
    assert booster.predict(table[:1]).tolist() == booster.predict(table)[:1].tolist()
    nullable = table.astype({"whole": "Int64"})
    assert booster.predict(nullable).tolist() == booster.predict(table).tolist()
    with pytest.raises(hb.DataError, match="feature 0 of data is 'small'"):
        booster.predict(table[["small", *table.columns[:-1]]])
    with pytest.raises(hb.DataError, match="not numbers"):
        booster.predict(table.assign(c0="x"))


@pytest.mark.parametrize("options", [{}, {"raw_score": True}, {"start_iteration": 1, "num_iteration": 3}])
@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_rows_of_an_array_are_predicted_alike_however_they_lie_in_memory(options, zero_as_missing):
    data = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, 0.0, X)
    data[::11, 2] = np.nan
    params = {**QUIET, "objective": "binary", "zero_as_missing": zero_as_missing}
    model = hb.train(params, hb.Dataset(data, label=Y), 6)
    rows = data[:40]
    expected = model.predict(rows.tolist(), **options)
    fixed = rows.copy()
    fixed.flags.writeable = False
    for same in (rows, np.asfortranarray(rows), fixed, np.repeat(rows, 2, axis=0)[::2], rows.astype(object)):
        np.testing.assert_array_equal(model.predict(same, **options), expected)
    alone = [model.predict(rows[i : i + 1], num_threads=2, **options) for i in range(len(rows))]
    np.testing.assert_array_equal(np.concatenate(alone), expected)


def test_an_array_that_does_not_suit_the_model_is_an_error(binary):
    for wrong in (X[:1, :5], np.c_[X, X][:1], X[0], X[:0, :5], np.ma.masked_array(X[:1], X[:1] > 0)):
        with pytest.raises(hb.DataError):
            binary.predict(wrong)

"""Target encoding: the rule, that no row sees its own label, and what becomes of it in a model."""

from __future__ import annotations

import json
import logging
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.data.levels import code_numbers
from hornbeam.data.target_encoding import FOLDS, EncodedLevels, deal_folds, encode_training

QUIET = {"verbosity": -1, "num_threads": 1}
SMALL = {**QUIET, "target_encoding_levels": 20, "min_data_in_leaf": 5, "num_leaves": 8}


def make_table(n_rows=600, n_levels=60, seed=0, missing=0.05):
    """Return (n_rows, 3): levels, numbers, few levels; and scores."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(99).normal(size=n_levels)
    level = rng.integers(0, n_levels, n_rows)
    few = rng.integers(0, 3, n_rows)
    x = rng.normal(size=n_rows)
    score = effects[level] + 0.5 * x + (few == 1) + 0.3 * rng.normal(size=n_rows)
    codes = np.where(rng.random(n_rows) < missing, np.nan, level)
    return np.column_stack([codes, x, few]), score


def make_dataset(table, score, **arguments):
    return hb.Dataset(table, label=score, categorical_features=[0, 2], **arguments)


def naive(level, label, weight, fold, smooth):
    """Return the value of every training row, and of every level, in exact arithmetic; -1 is missing."""
    n = len(level)
    w = [Fraction(1)] * n if weight is None else [Fraction(v) for v in weight.tolist()]
    y = [Fraction(v) for v in label.tolist()]
    prior = sum(a * b for a, b in zip(w, y, strict=True)) / sum(w)

    def mean(rows):
        total = sum(w[i] for i in rows)
        labels = sum(w[i] * y[i] for i in rows)
        return (labels + Fraction(smooth) * prior) / (total + Fraction(smooth)) if total else prior

    of_row = [mean([j for j in range(n) if level[j] == level[i] and fold[j] != fold[i]]) for i in range(n)]
    rows_of = {v: [j for j in range(n) if level[j] == v] for v in sorted(set(level.tolist()))}
    of_level = {v: mean(rows) for v, rows in rows_of.items() if len(rows) > 1 or v < 0}
    return np.array([float(v) for v in of_row]), {v: float(m) for v, m in of_level.items()}, float(prior)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_values_are_what_the_rule_says(data):
    n = data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    level = rng.integers(-1, data.draw(st.integers(1, 12)), n)
    label = data.draw(st.sampled_from([rng.normal(size=n) * 1e3, (rng.random(n) < 0.3).astype(float), np.zeros(n)]))
    weight = data.draw(st.sampled_from([None, rng.integers(0, 3, n) + 0.25, np.append(1.0, np.zeros(n - 1))]))
    smooth = data.draw(st.sampled_from([0.0, 1.0, 10.0]))
    fold = deal_folds(n, None)
    levels, values = encode_training(code_numbers(level, "f"), label, weight, fold, smooth)
    of_row, of_level, prior = naive(level, label, weight, fold, smooth)
    close = {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(values, of_row, **close)
    assert set(levels.values) == {v for v in of_level if v >= 0}
    np.testing.assert_allclose(levels.numbers, [of_level[v] for v in levels.values], **close)
    np.testing.assert_allclose([levels.missing, levels.other], [of_level.get(-1, prior), prior], **close)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_row_never_sees_the_labels_of_its_fold(seed, weighted):
    """Two labels of a fold change, and the sum of all stays, and so the prior: no value of the fold may change."""
    rng = np.random.default_rng(seed)
    level, label = rng.integers(-1, 15, 300), rng.integers(-9, 9, 300).astype(float)
    weight = rng.integers(1, 4, 300).astype(float) if weighted else None
    fold = deal_folds(300, None)
    column = code_numbers(level, "f")
    _, before = encode_training(column, label, weight, fold, 10.0)
    chosen = np.flatnonzero(fold == rng.integers(FOLDS))
    one, two = chosen[0], next(row for row in chosen if level[row] != level[chosen[0]])
    shift = np.ones(300) if weight is None else weight
    changed = label.copy()
    changed[one] += 6.0 * shift[two]
    changed[two] -= 6.0 * shift[one]
    _, after = encode_training(column, changed, weight, fold, 10.0)
    assert after[chosen].tolist() == before[chosen].tolist()
    assert after.tolist() != before.tolist()


def test_a_level_of_one_row_has_the_prior_everywhere():
    table, score = make_table()
    table[7, 0] = 1234.0
    data = make_dataset(table, score).construct(hb.Params.from_dict(SMALL))
    levels = data.levels[0]
    assert 1234 not in levels.code_of
    assert data.reader.read(7, 8)[0, 0] == levels.other
    assert levels.encode(code_numbers(np.array([1234.0, 9999.0]), "f"), "f").tolist() == [levels.other] * 2
    assert levels.other == pytest.approx(score.mean())


def test_names_of_rows_are_no_feature():
    rng = np.random.default_rng(0)
    table = np.column_stack([np.arange(300), rng.normal(size=300)])
    data = hb.Dataset(table, label=table[:, 1], categorical_features=[0])
    booster = hb.train(SMALL, data, 3)
    assert len(booster.levels[0]) == 0
    assert data.binned.used.tolist() == [1]
    again = hb.Booster.from_bytes(booster.to_bytes())
    assert again.predict(table).tolist() == booster.predict(table).tolist()


def test_sums_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    level, label, weight = rng.integers(0, 30, 2000), rng.normal(size=2000) ** 5, rng.random(2000)
    fold = deal_folds(2000, None)
    expected, values = encode_training(code_numbers(level, "f"), label, weight, fold, 10.0)
    order = rng.permutation(2000)
    permuted, moved = encode_training(code_numbers(level[order], "f"), label[order], weight[order], fold[order], 10.0)
    assert permuted.agrees(expected)
    assert moved.tolist() == values[order].tolist()


def test_folds_are_about_as_large_and_queries_stay_together():
    sizes = np.bincount(deal_folds(10_000, None), minlength=FOLDS)
    assert len(sizes) == FOLDS and abs(sizes - 2000).max() < 250
    fold = deal_folds(12, np.array([0, 5, 6, 12]))
    assert len(set(fold[:5])) == 1 and len(set(fold[6:])) == 1


def test_prediction_reads_the_table_of_all_training_rows():
    table, score = make_table()
    booster = hb.train(SMALL, make_dataset(table, score), 5)
    levels = booster.levels[0]
    prior = score.mean()
    for value, number in zip(levels.values, levels.numbers, strict=True):
        rows = table[:, 0] == value
        assert number == pytest.approx((score[rows].sum() + 10.0 * prior) / (rows.sum() + 10.0))
    absent = np.isnan(table[:, 0])
    assert levels.missing == pytest.approx((score[absent].sum() + 10.0 * prior) / (absent.sum() + 10.0))
    # a model of the numbers themselves predicts the same
    by_hand = table.copy()
    by_hand[:, 0] = [levels.missing if np.isnan(v) else levels.numbers[levels.code_of[int(v)]] for v in table[:, 0]]
    plain = hb.Booster.from_bytes(booster.to_bytes())
    plain.levels = [None, None, plain.levels[2]]
    assert plain.predict(by_hand).tolist() == booster.predict(table).tolist()
    unseen = table.copy()
    unseen[:, 0], by_hand[:, 0] = 777.0, levels.other
    assert plain.predict(by_hand).tolist() == booster.predict(unseen).tolist()


def test_a_threshold_decides_and_counts_levels_of_training_rows():
    table, score = make_table(n_levels=60, missing=0.1)
    for most, encoded in ((60, []), (59, [0]), (3, [0]), (0, [0, 2]), (-1, [])):
        data = make_dataset(table, score, target_encoding_levels=most).construct()
        assert data.encoded_features == encoded
        assert data.categorical_features == [0, 2]
    assert make_dataset(table, score).construct().encoded_features == []  # 1000 by default
    assert hb.Dataset(table, categorical_features=[0, 2], target_encoding_levels=0).construct().encoded_features == []


def test_saved_loaded_pickled_and_cut_models_predict_the_same(tmp_path):
    table, score = make_table()
    booster = hb.train(SMALL, make_dataset(table, score), 6)
    assert isinstance(booster.levels[0], EncodedLevels)
    expected = booster.predict(table)
    booster.save(tmp_path / "model.json")
    loaded = hb.load(tmp_path / "model.json")
    for other in (loaded, pickle.loads(pickle.dumps(booster)), hb.merge([booster[:2], loaded[2:]])):
        assert other.fingerprint() == booster.fingerprint()
        assert other.predict(table).tobytes() == expected.tobytes()
    leaves = booster.predict(table, pred_leaf=True)
    values = sum(tree.leaf_value[leaves[:, number]] for number, tree in enumerate(booster.trees))
    assert np.allclose(booster.init_scores[0] + values, expected)
    other = hb.train(SMALL, make_dataset(table, score + (table[:, 1] > 0)), 2)
    other.init_scores = booster.init_scores
    with pytest.raises(hb.ParameterError, match="target encodings"):
        hb.merge([booster, other])


def test_a_damaged_encoding_is_refused():
    table, score = make_table()
    whole = json.loads(hb.train(SMALL, make_dataset(table, score), 1).to_bytes())

    def read(change):
        document = json.loads(json.dumps(whole))
        change(document)
        return hb.Booster.from_bytes(json.dumps(document).encode())

    assert read(lambda document: None).n_features == 3
    for change in (
        lambda document: document["encodings"][0]["numbers"].pop(),
        lambda document: document["encodings"][0].pop("other"),
        lambda document: document["encodings"][0].update(missing="a lot"),
        lambda document: document["encodings"].pop(),
        lambda document: document.update(encodings=[None, None, None]),
        lambda document: document.update(encodings=[None, document["encodings"][0], None]),
        lambda document: document.pop("encodings"),  # splits have no sets of codes then
        lambda document: document.pop("levels"),
    ):
        with pytest.raises(hb.ModelFormatError):
            read(change)


def test_every_container_gives_the_same_model_and_predictions():
    table, score = make_table()
    names = [None if np.isnan(v) else f"N{int(v)}" for v in table[:, 0]]
    few = [("low", "middle", "high")[int(v)] for v in table[:, 2]]
    frame = pd.DataFrame({"tail": names, "x": table[:, 1], "few": few})
    tables = {
        "strings": frame,
        "categories": frame.assign(tail=pd.Categorical(names, categories=[*sorted({*names} - {None}), "never"])),
        "polars": pl.DataFrame({"tail": names, "x": table[:, 1], "few": few}),
        "objects": frame.to_numpy(object),
    }
    made = {}
    for name, own in tables.items():
        named = {"feature_names": ["tail", "x", "few"], "categorical_features": ["tail", "few"]}
        made[name] = hb.train(SMALL, hb.Dataset(own, label=score, **named), 4)
    assert len({booster.fingerprint() for booster in made.values()}) == 1
    expected = made["strings"].predict(frame).tolist()
    for own in tables.values():
        assert made["strings"].predict(own).tolist() == expected
    with pytest.raises(hb.DataError, match="integers"):
        made["strings"].predict(table)


def test_validation_sets_take_the_training_table():
    table, score = make_table()
    other, other_score = make_table(seed=4, n_levels=60)
    seen = {}

    def metric(predictions, dataset):
        seen[dataset.n_rows] = np.array(predictions)
        return "none", 0.0, True

    valid = hb.Dataset(other[:100], label=other_score[:100])
    booster = hb.train({**SMALL, "metric": "none"}, make_dataset(table, score), 4, {"valid": valid}, feval=metric)
    assert seen[100].tobytes() == booster.predict(other[:100]).tobytes()
    assert valid.levels[0].agrees(booster.levels[0])


def test_cross_validation_encodes_from_training_rows_alone():
    """Labels of the validation rows are changed in one fold: its model may not notice."""
    table, score = make_table()
    folds = [(np.arange(200, 600), np.arange(200)), (np.arange(400), np.arange(400, 600))]
    data = make_dataset(table, score)
    data.construct(hb.Params.from_dict(SMALL))  # the whole table's encoding must not come through
    changed = score.copy()
    changed[:200] = -50.0
    found = [
        hb.cv(SMALL, own, 3, folds, return_cvbooster=True)["cvbooster"].boosters
        for own in (data, make_dataset(table, changed))
    ]
    assert found[0][0].fingerprint() == found[1][0].fingerprint()
    assert found[0][1].fingerprint() != found[1][1].fingerprint()
    alone = hb.train(SMALL, make_dataset(table[200:], score[200:]), 3)
    assert alone.fingerprint() == found[0][0].fingerprint()


def test_noise_is_not_learned_from_labels_of_the_same_row():
    """The label is chance, levels have four rows each: training must not find what is not there."""
    rng = np.random.default_rng(0)
    level, label = np.repeat(np.arange(500), 4), (rng.random(2000) < 0.5).astype(float)
    data = hb.Dataset(level[:, None], label=label, categorical_features=[0])
    params = {**QUIET, "objective": "binary", "num_leaves": 4, "min_data_in_leaf": 100, "target_encoding_levels": 100}
    seen = []
    hb.train(
        {**params, "metric": "none"}, data, 5, {"train": data},
        feval=lambda predictions, _: (seen.append(np.array(predictions)), ("none", 0.0, True))[1],
    )  # fmt: skip
    assert abs(np.corrcoef(seen[-1], label)[0, 1]) < 0.2
    leaking = np.array([label[level == v].mean() for v in level])
    assert np.corrcoef(leaking, label)[0, 1] > 0.4


def test_three_and_three_rounds_equal_six_and_checkpoints_too(tmp_path):
    table, score = make_table()
    whole = hb.train(SMALL, make_dataset(table, score), 6)
    half = hb.train(SMALL, make_dataset(table, score), 3)
    half.save(tmp_path / "half.json")
    on = hb.train(SMALL, make_dataset(table, score), 3, init_model=tmp_path / "half.json")
    assert on.fingerprint() == whole.fingerprint()
    hb.train(SMALL, make_dataset(table, score), 2, checkpoint=tmp_path / "run.ckpt")
    resumed = hb.train(SMALL, make_dataset(table, score), 6, checkpoint=tmp_path / "run.ckpt")
    assert resumed.fingerprint() == whole.fingerprint()


def test_training_on_with_other_rows_keeps_the_table():
    table, score = make_table()
    more, more_score = make_table(seed=5)
    start = hb.train(SMALL, make_dataset(table, score), 3)
    data = make_dataset(more, more_score)
    seen = []
    booster = hb.train(
        {**SMALL, "metric": "none"}, data, 3, {"train": data}, init_model=start,
        feval=lambda predictions, _: (seen.append(np.array(predictions)), ("none", 0.0, True))[1],
    )  # fmt: skip
    assert booster.levels[0].agrees(start.levels[0])
    assert booster.predict(table, num_iteration=3).tolist() == start.predict(table).tolist()
    assert seen[-1].tobytes() == booster.predict(more).tobytes()  # new labels are not in the table: nothing to hide
    few = more[:, 0] < 15  # fewer levels than the threshold: the model decides all the same
    on = hb.train(SMALL, make_dataset(more[few], more_score[few]), 1, init_model=start)
    assert on.levels[0].agrees(start.levels[0])
    sets = hb.train({**SMALL, "target_encoding_levels": -1}, make_dataset(table, score), 2)
    assert not isinstance(hb.train(SMALL, make_dataset(more, more_score), 1, init_model=sets).levels[0], EncodedLevels)
    binned = make_dataset(more, more_score).construct(hb.Params.from_dict(SMALL))
    with pytest.raises(hb.DataError, match="not binned yet"):
        hb.train(SMALL, binned, 1, init_model=start)
    with pytest.raises(hb.ParameterError, match=r"target_encoding_smooth=10\.0, now it is 3\.0"):
        hb.train({**SMALL, "target_encoding_smooth": 3.0}, make_dataset(table, score), 1, init_model=start)


def test_refit_keeps_the_table():
    table, score = make_table()
    booster = hb.train(SMALL, make_dataset(table, score), 3)
    more, more_score = make_table(seed=5)
    fresh = booster.refit(more, more_score)
    assert fresh.levels[0].agrees(booster.levels[0])
    assert fresh.predict(more, pred_leaf=True).tolist() == booster.predict(more, pred_leaf=True).tolist()


def test_classes_keep_their_sets(caplog):
    table, score = make_table()
    label = np.digitize(score, [-0.5, 0.5]).astype(float)
    params = {**SMALL, "objective": "multiclass", "num_class": 3}
    with caplog.at_level(logging.WARNING, logger="hornbeam"):
        booster = hb.train({**params, "verbosity": 0}, make_dataset(table, label), 2)
        hb.cv({**params, "verbosity": 0}, make_dataset(table, label), 1, nfold=3)
    assert caplog.text.count("target_encoding_levels has no effect") == 2  # once a call
    assert not isinstance(booster.levels[0], EncodedLevels)
    without = hb.train({**params, "target_encoding_levels": -1}, make_dataset(table, label), 2)
    assert [tree.leaf_value.tolist() for tree in without.trees] == [tree.leaf_value.tolist() for tree in booster.trees]
    binned = make_dataset(table, label, target_encoding_levels=20).construct()  # before it is known what labels are
    with pytest.raises(hb.DataError, match="classes have no mean"):
        hb.train({**params, "target_encoding_levels": 20}, binned, 1)


def test_monotone_constraints_on_encoded_features_are_refused():
    table, score = make_table()
    with pytest.raises(hb.ParameterError, match="categorical"):
        hb.train({**SMALL, "monotone_constraints": [1, 0, 0]}, make_dataset(table, score), 1)


@pytest.mark.parametrize("given", [{"target_encoding_levels": -2}, {"target_encoding_smooth": -1.0}])
def test_bad_parameters_are_refused(given):
    table, score = make_table()
    with pytest.raises(hb.ParameterError, match=next(iter(given))):
        hb.train({**QUIET, **given}, make_dataset(table, score), 1)
    with pytest.raises(hb.ParameterError, match=next(iter(given))):
        make_dataset(table, score, **given)


def test_parameters_must_agree_with_the_binning():
    table, score = make_table()
    data = make_dataset(table, score, target_encoding_levels=20).construct()
    with pytest.raises(hb.DataError, match="target_encoding_levels"):
        hb.train({**QUIET, "target_encoding_levels": -1}, data, 1)


def test_estimators_take_the_parameters():
    table, score = make_table()
    model = hb.HornbeamRegressor(n_estimators=3, target_encoding_levels=20, categorical_features=[0, 2])
    model.fit(table, score)
    assert isinstance(model.booster_.levels[0], EncodedLevels)


@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
def test_features_that_become_numbers_are_named_once(call, caplog):
    table, score = make_table()
    with caplog.at_level(logging.INFO, logger="hornbeam"):
        call({**SMALL, "verbosity": 1}, make_dataset(table, score), 1)
    found = [record.getMessage() for record in caplog.records if "target encoding: " in record.getMessage()]
    assert len(found) == 1
    assert "levels in 2 rows or more) became mean labels" in found[0]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="hornbeam"):
        call({**SMALL, "verbosity": 1, "target_encoding_levels": -1}, make_dataset(table, score), 1)
        call({**SMALL, "verbosity": 0}, make_dataset(table, score), 1)
    assert "target encoding: " not in caplog.text


def test_a_column_whose_levels_are_all_different_is_said_to_tell_nothing(caplog):
    frame = pd.DataFrame({"id": [f"row {i}" for i in range(40)], "a": np.arange(40.0)})
    with caplog.at_level("INFO", logger="hornbeam"):
        hb.train({"target_encoding_levels": 5}, hb.Dataset(frame, label=np.arange(40.0)), 1)
    assert "'id' (no level in 2 rows: it tells nothing" in caplog.text

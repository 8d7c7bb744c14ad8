"""Parameters of bagging and GOSS: contradictions raise before training, and what has no effect warns once."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.params.params import Params
from hornbeam.params.random_parts import samples_rows
from hornbeam.training.row_sampling import RowSampler


def data(n_rows=200, **more):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    return hb.Dataset(X, label=(X[:, 0] > 0).astype(float), **more)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"data_sample_strategy": "goss", "bagging_fraction": 0.5, "bagging_freq": 1}, "GOSS chooses the rows itself"),
        ({"data_sample_strategy": "goss", "top_rate": 0.7, "other_rate": 0.5}, "together they must be 1 or less"),
        ({"pos_bagging_fraction": 0.5, "bagging_freq": 1}, "needs objective='binary'"),
        ({"bagging_fraction": 0.0}, "bagging_fraction=0.0"),
        ({"bagging_fraction": 1.5}, "bagging_fraction=1.5"),
        ({"top_rate": 0.0}, "top_rate=0.0"),
        (
            {"objective": "binary", "pos_bagging_fraction": 0.5, "bagging_freq": 1, "bagging_by_query": True},
            "a query has rows of both labels",
        ),
        ({"data_sample_strategy": "mvs"}, "'bagging', 'goss'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
def test_contradictions_raise_before_training(params, message, call):
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        call({**params, "verbosity": -1}, data(), 1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"subsample": 0.5}, "bagging_freq (subsample_freq) is 0"),
        ({"bagging_freq": 2}, "bagging_freq has no effect"),
        ({"other_rate": 0.3}, "other_rate has no effect"),
        ({"objective": "lambdarank", "bagging_by_query": True}, "bagging_by_query has no effect"),
        (
            {"objective": "binary", "bagging_fraction": 0.5, "pos_bagging_fraction": 0.5, "bagging_freq": 1},
            "bagging_fraction has no effect beside pos_bagging_fraction",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("call", [hb.train, hb.cv], ids=["train", "cv"])
def test_parameters_without_effect_warn_once(params, message, call, caplog):
    with caplog.at_level(logging.WARNING, logger="hornbeam"):
        call({**params, "verbosity": 0}, data(group=[5] * 40 if "bagging_by_query" in params else None), 2)
    assert len([record for record in caplog.records if message in record.getMessage()]) == 1


def test_estimators_take_the_names_of_scikit_learn(caplog):
    pytest.importorskip("sklearn")
    X, y = data().data, data().label
    model = hb.HornbeamRegressor(n_estimators=3, subsample=0.5, subsample_freq=1, verbosity=-1).fit(X, y)
    expected = hb.train({"bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1}, data(), 3)
    assert model.booster_.fingerprint() == expected.fingerprint()
    goss = hb.HornbeamClassifier(n_estimators=3, data_sample_strategy="goss", learning_rate=1.0, verbosity=-1).fit(X, y)
    assert int(goss.booster_.trees[-1].leaf_count.sum()) < len(y)
    with caplog.at_level(logging.WARNING, logger="hornbeam"):
        hb.HornbeamRegressor(n_estimators=1, subsample=0.5, verbosity=0).fit(X, y)
    assert "bagging_freq (subsample_freq) is 0" in caplog.text


def test_bagging_by_query_needs_queries():
    params = {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1}
    with pytest.raises(DataError, match="pass group= or qid="):
        hb.train(params, data(), 1)


def test_bagging_by_query_keeps_queries_whole(device):
    """Queries are told apart by a feature, so that every leaf of a deep tree holds rows of one query."""
    query = np.repeat(np.arange(30), 8)
    dataset = hb.Dataset(query[:, None].astype(float), label=query % 7.0, group=[8] * 30)
    params = {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1, "min_data_in_leaf": 1}
    params |= {"min_data_in_bin": 1, "verbosity": -1, "device": device, "num_leaves": 60}
    counts = [tree.leaf_count for tree in hb.train(params, dataset, 4).trees]
    assert all((count % 8 == 0).all() for count in counts)
    assert len({int(count.sum()) for count in counts}) > 1


def test_goss_numbers_are_those_of_lightgbm():
    params = Params.from_dict({"data_sample_strategy": "goss", "learning_rate": 0.1})
    sampler = RowSampler(params, data(1000))
    assert samples_rows(params)
    assert sampler._goss(9, 0.1) is None
    rule = sampler._goss(10, 0.1)
    assert (rule.n_top, rule.factor) == (200, 8.0)
    assert abs(rule.limit * 2.0**-53 - 0.125) < 1e-9


def test_goss_on_few_rows_keeps_at_least_one_of_each():
    params = Params.from_dict({"data_sample_strategy": "goss"})
    rule = RowSampler(params, data(4))._goss(100, 0.1)
    assert (rule.n_top, rule.factor) == (1, 3.0)
    assert RowSampler(params, data(1))._goss(100, 0.1) is None

"""Query groups: how they are given, what is refused, and what depends on them (folds, weights)."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.data.queries import discounts, ideal_dcg, query_weights
from hornbeam.testing.data import make_ranking

X = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    "given",
    [
        {"group": [3, 1, 2]},
        {"group": np.array([3.0, 1.0, 2.0])},
        {"qid": [7, 7, 7, 2, 5, 5]},
        {"qid": ["b", "b", "b", "c", "a", "a"]},
        {"qid": np.array([[7], [7], [7], [2], [5], [5]])},
    ],
)
def test_queries_may_be_given_by_size_or_by_id(given):
    dataset = hb.Dataset(X, **given)
    assert dataset.group.tolist() == [3, 1, 2]
    assert dataset.query_boundaries.tolist() == [0, 3, 4, 6]
    assert dataset.query_boundaries.dtype == np.int64


def test_ones_are_queries_of_one_row():
    assert hb.Dataset(X, group=np.ones(6)).query_boundaries.tolist() == list(range(7))
    assert hb.Dataset(X).query_boundaries is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": [3, 1, 1]}, "add up to 5, and data has 6 rows"),
        ({"group": [3, 4]}, "add up to 7"),
        ({"group": [3, -1, 4]}, r"group\[1\] is -1, no size"),
        ({"group": [3, 0, 3]}, r"group\[1\] is 0, an empty query"),
        ({"group": [1.5, 4.5]}, r"group\[0\] is 1.5, no size"),
        ({"group": [np.nan, 6.0]}, r"group\[0\] is nan"),
        ({"group": []}, "add up to 0"),
        ({"group": [[3, 3], [0, 0]]}, "shape"),
        ({"group": ["a", "b"]}, "dtype"),
        ({"qid": [1, 1, 2, 2, 1, 3]}, r"qid\[4\] is 1, a query that ended some rows above"),
        ({"group": [2] * 6}, "add up to 12, and data has 6 rows; one query id a row is passed as qid="),
        ({"group": np.repeat([1, 2, 3], [1, 2, 3])}, "add up to 14, .* passed as qid="),
        ({"group": [7, 7, 7, 2, 5, 5]}, r"group\[0\] is 7, no size .* passed as qid="),
        ({"group": ["b", "b", "b", "c", "a", "a"]}, "dtype .* passed as qid="),
        ({"qid": [1, 1, 2]}, "one query id a row"),
        ({"qid": [1.0, 1.0, np.nan, 2.0, 2.0, 2.0]}, r"qid\[2\] is NaN"),
        ({"qid": np.array(["a", "a", None, "b", "b", "b"], object)}, r"qid\[2\] is None"),
        ({"qid": np.array(["a", "a", 3, "b", "b", "b"], object)}, "cannot be compared"),
        ({"qid": [1] * 6, "group": [6]}, "pass one of them"),
    ],
)
def test_wrong_queries_are_refused(given, message):
    with pytest.raises(hb.DataError, match=message):
        hb.Dataset(X, **given)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg", "pairwise"])
def test_ranking_without_queries_or_with_wrong_labels_is_refused_before_training(objective):
    params = {"objective": objective, "verbosity": -1}
    with pytest.raises(hb.DataError, match="pass group= "):
        hb.train(params, hb.Dataset(X, np.zeros(6)), 1)
    with pytest.raises(hb.DataError, match="needs labels"):
        hb.train(params, hb.Dataset(X, group=[6]), 1)
    for wrong in (-1.0, 0.5, 31.0):
        with pytest.raises(hb.DataError, match=rf"whole labels from 0 to 30, but label\[5\] is {wrong}"):
            hb.train(params, hb.Dataset(X, [0, 0, 0, 0, 0, wrong], group=[6]), 1)
    train = hb.Dataset(X, np.zeros(6), group=[6])
    with pytest.raises(hb.DataError, match=r"metric 'ndcg' needs to know which rows of valid_sets\['v'\]"):
        hb.train(params, train, 1, {"v": hb.Dataset(X, np.zeros(6), reference=train)})


def test_label_gain_bounds_the_labels():
    train = hb.Dataset(X, [0, 1, 2, 3, 0, 0], group=[6])
    with pytest.raises(hb.DataError, match=r"from 0 to 2, but label\[3\] is 3.0"):
        hb.train({"objective": "lambdarank", "label_gain": [0, 1, 3], "verbosity": -1}, train, 1)
    with pytest.raises(hb.DataError, match=r"metric 'ndcg' takes whole labels from 0 to 2"):
        hb.train({"metric": "ndcg", "label_gain": [0, 1, 3], "verbosity": -1}, train, 1, {"training": train})


@pytest.mark.parametrize("value", [[], [1.0], [3.0, 1.0], [-1.0, 1.0], [0.0, np.inf], 3.0, ["a", "b"], [0.0, True]])
def test_wrong_label_gain_is_refused(value):
    with pytest.raises(hb.ParameterError, match="label_gain"):
        hb.Params.from_dict({"label_gain": value})


@pytest.mark.parametrize("value", [[3, 1], (1, 3), "1,3", "[1, 3]", " 3, 1 "], ids=str)
def test_eval_at_comes_as_a_list_or_a_string(value):
    assert hb.Params.from_dict({"eval_at": value}).eval_at == (1, 3)


@pytest.mark.parametrize("value", [0, [], [1, 0], 1.5, ["3"], [True], "", "1,x", "0,1", "1.5"])
def test_wrong_eval_at_is_refused(value):
    with pytest.raises(hb.ParameterError, match="eval_at"):
        hb.Params.from_dict({"eval_at": value})


def test_eval_at_is_sorted_and_has_aliases():
    assert hb.Params.from_dict({"ndcg_eval_at": [5, 1, 5]}).eval_at == (1, 5)
    assert hb.Params.from_dict({"map_at": 10}).eval_at == (10,)


def test_a_weight_a_query_is_a_weight_a_row():
    sizes = [3, 1, 2]
    by_query = hb.Dataset(X, weight=[0.5, 2.0, 1.0], group=sizes)
    assert by_query.weight.tolist() == [0.5, 0.5, 0.5, 2.0, 1.0, 1.0]
    assert query_weights(by_query.query_boundaries, by_query.weight).tolist() == [0.5, 2.0, 1.0]
    with pytest.raises(hb.DataError, match="weight"):
        hb.Dataset(X, weight=[0.5, 2.0], group=sizes)


def test_discounts_and_ideal_dcg_are_those_of_the_formula():
    np.testing.assert_allclose(discounts(10_000), 1.0 / np.log2(np.arange(10_000) + 2.0), rtol=1e-14)
    label = np.array([1.0, 0.0, 2.0, 0.0, 3.0])
    found = ideal_dcg(label, np.array([0, 3, 4, 5]), 2.0 ** np.arange(4) - 1.0, 2)
    np.testing.assert_allclose(found, [3.0 + 1.0 / np.log2(3.0), 0.0, 7.0])


def test_cv_keeps_queries_whole():
    features, label, sizes = make_ranking(40, seed=3)
    train = hb.Dataset(features, label, group=sizes)
    params = {"objective": "lambdarank", "verbosity": -1, "min_data_in_leaf": 5, "eval_at": [3]}
    found = hb.cv(params, train, 3, nfold=4, return_cvbooster=True)
    assert len(found["valid ndcg@3-mean"]) == 3
    assert len(found["cvbooster"].boosters) == 4
    with pytest.raises(hb.DataError, match="folds cut query"):
        hb.cv(params, train, 2, folds=[(np.arange(1, len(label)), np.arange(1))])
    from sklearn.model_selection import GroupKFold

    assert "valid ndcg@3-mean" in hb.cv(params, train, 2, folds=GroupKFold(3))


def test_parameters_of_ranking_are_noted_where_nothing_looks_at_them():
    ranking = {"lambdarank_truncation_level": 7, "lambdarank_norm": False, "label_gain": [0, 1, 2], "objective_seed": 1}
    assert hb.Params.from_dict({**ranking, "objective": "lambdarank"}).unused() == []
    assert set(hb.Params.from_dict({**ranking, "objective": "rank_xendcg"}).unused()) == {
        "lambdarank_truncation_level",
        "lambdarank_norm",
    }
    assert set(hb.Params.from_dict(ranking).unused()) == set(ranking)
    assert "label_gain" not in hb.Params.from_dict({**ranking, "metric": "ndcg@10"}).unused()
    assert hb.Params.from_dict(ranking).model_dict() == {}


def test_sparse_features_are_ranked_as_dense_ones():
    scipy = pytest.importorskip("scipy.sparse")
    features, label, sizes = make_ranking(30, seed=8)
    features[np.abs(features) < 0.7] = 0.0
    params = {"objective": "lambdarank", "verbosity": -1, "min_data_in_leaf": 5}
    found = [
        hb.train(params, hb.Dataset(form, label, group=sizes), 3).fingerprint()
        for form in (features, scipy.csr_matrix(features))
    ]
    assert found[0] == found[1]

"""ndcg, map and mrr: their values, their conventions, and the compiled twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.losses.arithmetic import CompiledArithmetic
from hornbeam.data.queries import boundaries_of
from hornbeam.metrics import get_metric, get_metrics
from hornbeam.metrics.arithmetic import NUMPY
from hornbeam.metrics.ranked_lists import WHOLE_LIST, MeanAveragePrecision, NormalizedGain, Precision, ReciprocalRank
from hornbeam.objectives import RegressionObjective
from hornbeam.testing.data import make_ranking

KINDS = (NormalizedGain, MeanAveragePrecision, ReciprocalRank, Precision)
RANKS = (1, 2, 3, 10, 40, 1000, WHOLE_LIST)


def sample(seed=0, sizes=(1, 2, 30, 1, 7, 200, 25, 24, 23)):
    rng = np.random.default_rng(seed)
    sizes = np.array(sizes)
    n_rows = int(sizes.sum())
    label = np.maximum(0, rng.integers(-3, 5, n_rows)).astype(np.float64)
    scores = np.round(rng.normal(size=n_rows), 1)  # with ties
    return label, scores, rng.exponential(size=n_rows), boundaries_of(sizes)


@pytest.mark.parametrize("minus", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_equal_the_definition_for_any_thread_count(kind, weighted, minus, tune):
    tune(metric_queries_per_thread=1)
    for seed in range(3):
        label, scores, weight, boundaries = sample(seed)
        metric = kind(RANKS, None, minus)
        expected = metric.at_ranks(label, scores, weight if weighted else None, boundaries)
        for n_threads in (1, 2, 5):
            found = metric.at_ranks(
                label, scores, weight if weighted else None, boundaries, CompiledArithmetic(n_threads)
            )
            assert found == expected


@pytest.mark.parametrize("at", [1, 3, 10, 500])
def test_ndcg_equals_scikit_learn_where_scores_differ(at):
    from sklearn.metrics import ndcg_score

    label, scores, _, boundaries = sample(1)
    scores = scores + np.random.default_rng(4).random(len(scores)) * 1e-3
    values = []
    for start, stop in pairwise(boundaries):
        gain = 2.0 ** label[start:stop] - 1.0
        alone = stop - start == 1 or not gain.any()
        values.append(1.0 if alone else ndcg_score([gain], [scores[start:stop]], k=at))
    assert NormalizedGain((at,)).at_ranks(label, scores, None, boundaries)[0] == pytest.approx(np.mean(values))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "name", ["ndcg@3-", "map@4-", "ndcg@30-", "map@30-", "ndcg@5", "map@5", "pre@1", "pre@5", "pre@50"]
)
def test_metrics_of_lists_are_xgboosts(name, weighted):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 20, 40)
    n_rows = int(sizes.sum())
    label = (rng.random(n_rows) < 0.15).astype(np.float64)  # some queries have no relevant document
    scores = rng.permutation(n_rows) / 8.0
    has_ones = weighted and name == "ndcg@5"  # XGBoost does not weigh the 1 of a query without a relevant document
    of_query = rng.exponential(size=len(sizes)).astype(np.float32) if weighted and not has_ones else None
    data = xgboost.DMatrix(np.zeros((n_rows, 1)), label, base_margin=scores, group=sizes, weight=of_query)
    peer = xgboost.train({"objective": "rank:pairwise", "eval_metric": name, "base_score": 0.0}, data, 0)
    expected = peer.eval(data).split("eval-")[1].split(":")
    metric = get_metric(name)
    weight = None if of_query is None else np.repeat(of_query, sizes).astype(np.float64)
    found = metric.at_ranks(label, scores, weight, boundaries_of(sizes))
    assert metric.names == [expected[0]]
    assert found[0] == pytest.approx(float(expected[1]), rel=1e-6)


def test_precision_vectorised_is_its_definition_query_by_query():
    label, scores, _, boundaries = sample(2)
    label = np.minimum(label, 1.0)
    metric = Precision(RANKS)
    values = metric._values(label, scores, boundaries, NUMPY)
    np.testing.assert_array_equal(values, NUMPY.list_values(metric, label, scores, boundaries))


def test_precision_and_minus_evaluate_a_training_by_xgboosts_names():
    X, y, group = make_ranking(20, 10, seed=0)
    data = hb.DMatrix(X, np.minimum(y, 1), group=group)
    found = {}
    params = {"objective": "rank:ndcg", "eval_metric": ["pre@3", "ndcg@3-", "map-", "ndcg@3", "ndcg@5-"], "nthread": 1}
    hb.train(params, data, 2, evals=[(data, "train")], evals_result=found, verbose_eval=False)
    assert sorted(found["train"]) == ["map-", "ndcg@3", "ndcg@3-", "ndcg@5-", "pre@3"]
    with pytest.raises(hb.DataError, match="labels 0 and 1"):
        hb.train(params, hb.DMatrix(X, y, group=group), 2, evals=[(hb.DMatrix(X, y, group=group), "train")])


def test_map_and_mrr_by_hand():
    label = np.array([0.0, 2.0, 0.0, 1.0, 0.0, 0.0])
    scores = np.array([4.0, 3.0, 2.0, 1.0, 9.0, 8.0])
    boundaries = np.array([0, 4, 6])
    found = MeanAveragePrecision((1, 2, 4)).at_ranks(label, scores, None, boundaries)
    assert found == [(0.0 + 1) / 2, (0.5 / 2 + 1) / 2, ((0.5 + 0.5) / 2 + 1) / 2]
    assert ReciprocalRank((1, WHOLE_LIST)).at_ranks(label, scores, None, boundaries) == [(0.0 + 1) / 2, (0.5 + 1) / 2]


def test_equal_scores_stand_in_row_order_and_empty_queries_count_as_one():
    boundaries = np.array([0, 2, 4])
    metric = NormalizedGain((1,))
    assert metric.at_ranks(np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(4), None, boundaries) == [1.0]
    assert metric.at_ranks(np.array([0.0, 1.0, 0.0, 0.0]), np.zeros(4), None, boundaries) == [0.5]


def test_queries_are_weighted_by_their_mean_weight():
    label, scores = np.array([0.0, 1.0, 1.0, 0.0]), np.array([2.0, 1.0, 2.0, 1.0])
    found = NormalizedGain((1,)).at_ranks(label, scores, np.array([1.0, 2.0, 4.0, 5.0]), np.array([0, 2, 4]))
    assert found == [4.5 / 6.0]


def test_nan_scores_give_nan():
    assert np.isnan(NormalizedGain((1,)).at_ranks(np.zeros(2), np.array([0.0, np.nan]), None, np.array([0, 2]))).all()


def test_names_and_ranks():
    params = hb.Params.from_dict({"metric": "ndcg,mrr,map@7,mrr@3,ndcg@10", "eval_at": [2, 4]})
    found = {metric.name: metric.names for metric in get_metrics(params, RegressionObjective())}
    assert found == {"ndcg": ["ndcg@2", "ndcg@4", "ndcg@10"], "mrr": ["mrr@3", "mrr"], "map": ["map@7"]}
    assert get_metric("mean_average_precision").name == "map"
    for wrong in ("ndcg@0", "ndcg@", "ndcg@x", "ndcg@-1", "ndcg@1.5"):
        with pytest.raises(hb.ParameterError, match="the rank after @"):
            get_metric(wrong)
    for wrong in ("auc@3", "ndgc", "ndgc@3"):
        with pytest.raises(hb.ParameterError, match="is not known"):
            get_metric(wrong)


def test_training_evaluates_every_rank_and_stops_early_on_any():
    X, y, sizes = make_ranking(60, seed=1)
    X_valid, y_valid, valid_sizes = make_ranking(30, seed=2)
    train = hb.Dataset(X, y, group=sizes)
    valid = hb.Dataset(X_valid, y_valid, group=valid_sizes, reference=train)
    params = {"objective": "lambdarank", "metric": ["ndcg", "map", "mrr"], "eval_at": [1, 5], "verbosity": -1}
    booster = hb.train(params, train, 60, {"valid": valid}, callbacks=[hb.early_stopping(3)])
    history = booster.eval_history["valid"]
    assert list(history) == ["ndcg@1", "ndcg@5", "map@1", "map@5", "mrr"]
    assert 0 < booster.best_iteration <= len(history["mrr"]) < 60
    boundaries = valid.query_boundaries
    again = NormalizedGain((5,)).at_ranks(y_valid, booster.predict(X_valid), None, boundaries)
    assert again[0] == history["ndcg@5"][booster.best_iteration - 1]


def test_metrics_agree_with_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, sizes = make_ranking(50, seed=5)
    rng = np.random.default_rng(0)
    scores, weight = rng.normal(size=len(y)), rng.exponential(size=len(y))
    params = {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": [1, 3, 20], "verbose": -1}
    data = lightgbm.Dataset(X, y, group=sizes, weight=weight, init_score=scores, params=params)
    theirs = [value for _, _, value, _ in lightgbm.Booster(params, data).eval_train()]
    boundaries = boundaries_of(sizes)
    ours = [v for kind in KINDS[:2] for v in kind((1, 3, 20)).at_ranks(y, scores, weight, boundaries)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)

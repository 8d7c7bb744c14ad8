"""Ranking gradients: the definition against the formula written out, the CPU against the definition, and LightGBM."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.losses import ranking
from hornbeam.core.random_choices import uniform
from hornbeam.objectives import LambdarankObjective, PairwiseObjective, XendcgObjective, get_objective
from hornbeam.objectives.ranking import STRIPES, striped_sum
from hornbeam.testing.checks import assert_same_bits, engine_on, gradients_of
from hornbeam.testing.data import make_ranking

OBJECTIVES = {
    "lambdarank": LambdarankObjective(),
    "lambdarank, plain": LambdarankObjective(sigmoid=0.7, truncation_level=5, norm=False),
    "lambdarank, all pairs": LambdarankObjective(truncation_level=10**6, sigmoid=2.0),
    "lambdarank, gains": LambdarankObjective(label_gain=(0.0, 0.5, 0.5, 100.0, 1e6)),
    "pairwise": PairwiseObjective(),
    "pairwise, plain": PairwiseObjective(norm=False, truncation_level=3),
    "rank_xendcg": XendcgObjective(3, 11),
}

SCORES = {
    "zero": lambda rng, n: np.zeros(n),
    "normal": lambda rng, n: rng.normal(size=n),
    "ties": lambda rng, n: np.round(rng.normal(size=n), 1),  # differences of 0.1 and multiples of 0.01
    "hundredths": lambda rng, n: np.round(0.05 * rng.normal(size=n), 2),
    "far apart": lambda rng, n: 40.0 * rng.normal(size=n),
    "huge": lambda rng, n: 1e200 * rng.normal(size=n),
}


def make_queries(sizes, seed=0):
    rng = np.random.default_rng(seed)
    n_rows = int(np.sum(sizes))
    label = np.minimum(rng.geometric(0.5, n_rows) - 1, 4).astype(np.float64)
    return hb.Dataset(rng.normal(size=(n_rows, 2)), label, weight=rng.exponential(size=n_rows), group=sizes), rng


def on_cpu(objective, scores, weight, n_threads):
    gradient, hessian = np.full_like(scores, np.nan), np.full_like(scores, np.nan)
    ranking.compute_ranking_gradients(objective, scores, weight, gradient, hessian, n_threads)
    return gradient, hessian


def lambdas_written_out(scores, label, sigmoid, truncation, norm, gains, by_ndcg):
    """The formula of LightGBM's lambdarank, pair by pair, with the platform's exp and log."""
    n = len(scores)
    order = sorted(range(n), key=lambda i: -scores[i])
    discount = [1.0 / math.log2(2.0 + rank) for rank in range(n)]
    ideal = sum(gains[int(y)] * d for y, d in zip(sorted(label, reverse=True)[:truncation], discount, strict=False))
    gradient, hessian, total = np.zeros(n), np.zeros(n), 0.0
    for i in range(min(n - 1, truncation)):
        for j in range(i + 1, n):
            if label[order[i]] == label[order[j]]:
                continue
            high, low = (i, j) if label[order[i]] > label[order[j]] else (j, i)
            a, b = order[high], order[low]
            difference = scores[a] - scores[b]
            delta = 1.0
            if by_ndcg:
                delta = (gains[int(label[a])] - gains[int(label[b])]) * abs(discount[high] - discount[low])
                delta = delta / ideal if ideal > 0.0 else 0.0
            if norm and scores[order[0]] != scores[order[-1]]:
                delta /= 0.01 + abs(difference)
            p = 1.0 / (1.0 + math.exp(min(700.0, sigmoid * difference)))
            gradient[a] -= sigmoid * p * delta
            gradient[b] += sigmoid * p * delta
            hessian[a] += sigmoid * sigmoid * p * (1.0 - p) * delta
            hessian[b] += sigmoid * sigmoid * p * (1.0 - p) * delta
            total += 2.0 * sigmoid * p * delta
    factor = math.log2(1.0 + total) / total if norm and total > 0.0 else 1.0
    return gradient * factor, hessian * factor


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["zero", "normal", "ties", "far apart"])
@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "rank_xendcg"])
def test_lambdas_are_those_of_the_formula(name, kind):
    objective = OBJECTIVES[name]
    dataset, rng = make_queries([1, 2, 9, 40, 3])
    scores = SCORES[kind](rng, dataset.n_rows)
    found = objective.bind(dataset).gradients(scores[None], dataset.label, None)
    for start, stop in zip(dataset.query_boundaries[:-1], dataset.query_boundaries[1:], strict=True):
        expected = lambdas_written_out(
            scores[start:stop], dataset.label[start:stop], objective.sigmoid, objective.truncation_level,
            objective.norm, objective.gains, objective.by_ndcg,
        )  # fmt: skip
        for values, wanted in zip(found, expected, strict=True):
            # fixed point: 50 bits of the largest lambda that the query could have
            np.testing.assert_allclose(values[0, start:stop], wanted, rtol=1e-9, atol=1e-11)


def test_xendcg_is_that_of_the_formula():
    objective = OBJECTIVES["rank_xendcg"]
    dataset, rng = make_queries([1, 2, 9, 40])
    bound = objective.bind(dataset)
    bound.begin_iteration(4)
    scores = rng.normal(size=dataset.n_rows)
    gradient, hessian = (values[0] for values in bound.gradients(scores[None], dataset.label, None))
    random = uniform(bound.key, np.arange(dataset.n_rows))
    assert gradient[0] == hessian[0] == 0.0  # a query of one document
    for start, stop in zip(dataset.query_boundaries[1:-1], dataset.query_boundaries[2:], strict=True):
        rows = slice(start, stop)
        rho = np.exp(scores[rows]) / np.exp(scores[rows]).sum()
        phi = 2.0 ** dataset.label[rows] - random[rows]
        first = -phi / phi.sum() + rho
        each = first / (1.0 - rho)
        second = rho * (each.sum() - each)
        each = second / (1.0 - rho)
        third = rho * (each.sum() - each)
        np.testing.assert_allclose(gradient[rows], first + second + third, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(hessian[rows], rho * (1.0 - rho), rtol=1e-10)


def test_random_numbers_of_xendcg_depend_on_seeds_iteration_and_row():
    keys = set()
    for seeds in ((0, 5), (1, 5), (0, 6)):
        objective = XendcgObjective(*seeds)
        for iteration in range(3):
            objective.begin_iteration(iteration)
            keys.add(objective.key)
    assert len(keys) == 9


@pytest.mark.sampled
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_cpu_equals_the_definition_for_any_thread_count(name, kind, tune):
    tune(ranking_pairs_per_thread=1)
    dataset, rng = make_queries([1, 2, 3, 25, 1, 63, 64, 65, 130, 300, 1])
    bound = OBJECTIVES[name].bind(dataset)
    scores = SCORES[kind](rng, dataset.n_rows)[None]
    for weight in (None, dataset.weight):
        expected = bound.gradients(scores, dataset.label, weight)
        assert np.isfinite(expected[0]).all() and np.isfinite(expected[1]).all() and (expected[1] >= 0.0).all()
        for n_threads in (1, 2, 7):
            for found, wanted in zip(on_cpu(bound, scores, weight, n_threads), expected, strict=True):
                assert_same_bits(found, wanted, name)


@cache
def definitions(name):
    """Return a data set, and of each kind of scores the weights, the scores and their gradients."""
    dataset, rng = make_queries([1, 2, 3, 25, 1, 70, 64, 65, 300, 1100, 1], seed=2)
    bound, cases = OBJECTIVES[name].bind(dataset), []
    for kind, weight in (("normal", None), ("ties", dataset.weight), ("zero", None), ("huge", None)):
        scores = SCORES[kind](rng, dataset.n_rows)[None]
        cases.append((kind, weight, scores, bound.gradients(scores, dataset.label, weight)))
    return dataset, cases


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_device_equals_the_definition(device, name):
    dataset, cases = definitions(name)
    bound = OBJECTIVES[name].bind(dataset)
    engine = engine_on(device, dataset.binned)
    for kind, weight, scores, expected in cases:
        engine.set_scores(scores)
        engine.compute_gradients(bound, dataset.label, weight)
        for found, wanted in zip(gradients_of(engine), expected, strict=True):
            assert_same_bits(found, wanted, f"{name}, {kind}")


@pytest.mark.parametrize("name", ["lambdarank", "pairwise", "rank_xendcg"])
def test_a_query_of_10000_documents(device, name):
    dataset, rng = make_queries([3, 10_000, 1, 20], seed=3)
    bound = OBJECTIVES[name].bind(dataset)
    scores = rng.normal(size=(1, dataset.n_rows))
    engine = engine_on(device, dataset.binned)
    engine.set_scores(scores)
    engine.compute_gradients(bound, dataset.label, None)
    for found, wanted in zip(gradients_of(engine), bound.gradients(scores, dataset.label, None), strict=True):
        assert_same_bits(found, wanted, name)


def test_gradients_of_a_query_add_up_to_zero():
    dataset, rng = make_queries([50, 80])
    for name in ("lambdarank", "pairwise, plain"):
        gradient = OBJECTIVES[name].bind(dataset).gradients(rng.normal(size=(1, 130)), dataset.label, None)[0][0]
        assert abs(gradient[:50].sum()) < 1e-12 and abs(gradient[50:].sum()) < 1e-9
        assert np.abs(gradient).max() > 0.01


def test_queries_of_one_label_have_no_gradient():
    dataset = hb.Dataset(np.zeros((6, 1)), [2, 2, 2, 0, 0, 0], group=[3, 3])
    gradient, hessian = LambdarankObjective().bind(dataset).gradients(np.arange(6.0)[None], dataset.label, None)
    assert not gradient.any() and not hessian.any()


@pytest.mark.parametrize("n", [1, STRIPES - 1, STRIPES, STRIPES + 1, 1000])
def test_striped_sum_equals_its_twin(n):
    values = np.random.default_rng(n).normal(size=n) * 1e10
    compiled = ranking.striped_sum_.dispatcher  # Numba's: the library has it inside of other kernels alone
    assert striped_sum(values) == compiled(values, np.empty(STRIPES))
    assert striped_sum(values) == pytest.approx(math.fsum(values), abs=1e-3)


def test_too_steep_a_sigmoid_is_refused():
    dataset, _ = make_queries([5])
    with pytest.raises(hb.ParameterError, match="sigmoid"):
        LambdarankObjective(sigmoid=1e200).bind(dataset)


@pytest.mark.parametrize("extra", [{}, {"lambdarank_norm": False, "sigmoid": 2.0, "lambdarank_truncation_level": 7}])
def test_leaf_values_of_lightgbm_follow_from_our_gradients(extra):
    lightgbm = pytest.importorskip("lightgbm")
    X, y, sizes = make_ranking(60, seed=4)
    weight = np.random.default_rng(0).exponential(size=len(y))
    params = {"objective": "lambdarank", "learning_rate": 0.3, "num_leaves": 15, "verbosity": -1, "num_threads": 1}
    theirs = lightgbm.train({**params, **extra}, lightgbm.Dataset(X, y, group=sizes, weight=weight), 4)
    ours = get_objective(hb.Params.from_dict({**params, **extra}))
    bound = ours.bind(hb.Dataset(X, y, group=sizes))
    leaves = theirs.predict(X, pred_leaf=True)
    for iteration in range(4):
        scores = theirs.predict(X, raw_score=True, num_iteration=iteration) if iteration else np.zeros(len(y))
        gradient, hessian = bound.gradients(scores[None], y, weight)
        leaf = leaves[:, iteration]
        expected = -0.3 * np.bincount(leaf, gradient[0]) / np.bincount(leaf, hessian[0])
        found = [theirs.get_leaf_output(iteration, number) for number in range(len(expected))]
        np.testing.assert_allclose(found, expected, atol=2e-5)  # LightGBM takes the sigmoid from a table


def test_training_reaches_the_ndcg_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, sizes = make_ranking(300, seed=6)
    X_test, y_test, test_sizes = make_ranking(300, seed=7)
    params = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [5, 10], "num_leaves": 15, "verbosity": -1}
    train = hb.Dataset(X, y, group=sizes)
    valid = hb.Dataset(X_test, y_test, group=test_sizes, reference=train)
    ours = hb.train(params, train, 20, {"valid": valid}).eval_history["valid"]
    their_train = lightgbm.Dataset(X, y, group=sizes)
    their_valid = lightgbm.Dataset(X_test, y_test, group=test_sizes, reference=their_train)
    theirs: dict = {}
    lightgbm.train(params, their_train, 20, [their_valid], callbacks=[lightgbm.record_evaluation(theirs)])
    for name in ("ndcg@5", "ndcg@10"):
        assert ours[name][-1] == pytest.approx(theirs["valid_0"][name][-1], abs=0.01)
        assert ours[name][-1] > ours[name][0] > 0.5

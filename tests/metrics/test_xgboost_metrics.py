"""Metrics by XGBoost's names: which of them a training on a DMatrix evaluates, and with what values."""

import re

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.testing.data import make_targets
from hornbeam.testing.peer_names import AS_A_DATASET

xgboost = pytest.importorskip("xgboost")

RANDOM = np.random.default_rng(6)
X, NUMBER, LABEL, CLASSES = make_targets()
SMALL = {"num_leaves": 5, "verbosity": -1, "device": "reference", **AS_A_DATASET}
OF_LISTS = {"objective": "rank:ndcg"}


def test_metrics_bear_xgboosts_names():
    for objective, target in (("reg:squarederror", NUMBER), ("binary:logistic", LABEL), ("multi:softprob", CLASSES)):
        names = []
        for library in (xgboost, hb):
            data, record = library.DMatrix(X, target), {}
            params = {"objective": objective, **({"num_class": 3} if objective[0] == "m" else {})}
            params.update(SMALL if library is hb else {})
            library.train(params, data, 2, evals=[(data, "t")], evals_result=record, verbose_eval=False)
            names.append({name: list(metrics) for name, metrics in record.items()})
        assert names[0] == names[1]


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "reg:gamma"}, {"objective": "reg:tweedie"}, {"objective": "count:poisson"}, {},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.3}, {"objective": "reg:logistic"}, OF_LISTS,
        {**OF_LISTS, "eval_metric": ["ndcg@5", "ndcg"]}, {**OF_LISTS, "eval_metric": "ndcg@3"},
        {**OF_LISTS, "lambdarank_num_pair_per_sample": 8}, {"objective": "rank:pairwise"},
        {**OF_LISTS, "lambdarank_pair_method": "mean"}, {"objective": "rank:map"},
    ],
    ids=str,
)  # fmt: skip
def test_evaluations_bear_xgboosts_names(params):
    names = []
    label = (NUMBER > 0.5).astype(float) if "rank" in params.get("objective", "") else LABEL * 0.5 + 0.25
    for library in (xgboost, hb):
        data, record = library.DMatrix(X, label, group=[40] * 10), {}
        quiet = {"nthread": 1, "verbosity": 0 if library is xgboost else -1}
        library.train({**params, **quiet}, data, 1, evals=[(data, "t")], evals_result=record, verbose_eval=False)
        names.append(list(record["t"]))
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("metric", "objective"), [("tweedie-nloglik@1.3", "reg:tweedie"), ("mphe", "reg:pseudohubererror")]
)
def test_metrics_of_amounts_have_xgboosts_names_and_values(device, metric, objective):
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.random.default_rng(1).poisson(np.exp(X[:, 0])).astype(float)
    params = {"objective": objective, "eval_metric": metric, "max_depth": 3, "verbosity": 0}
    data, found = hb.DMatrix(X, label=y), {}
    booster = hb.train(
        {**params, "device": device}, data, 5, evals=[(data, "own")], evals_result=found, verbose_eval=False
    )
    theirs = xgboost.DMatrix(X, label=y, base_margin=booster.predict(data, output_margin=True))
    nothing = xgboost.Booster({**params, "base_score": 1.0}, [theirs])
    text = nothing.eval(theirs)
    assert list(found["own"]) == [metric]
    assert found["own"][metric][-1] == pytest.approx(float(text.rpartition(":")[2]), rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_auc_of_several_classes_is_xgboosts(weighted):
    weight = RANDOM.random(400) + 0.5 if weighted else None
    train = hb.DMatrix(X, CLASSES, weight=weight)
    model = hb.train(
        {**SMALL, "objective": "multi:softprob", "num_class": 3, "eval_metric": ["auc", "aucpr"]}, train, 3,
        evals=[(train, "train")],
    )  # fmt: skip
    raw = model.predict(X, raw_score=True)
    theirs = xgboost.DMatrix(X, CLASSES, weight=weight, base_margin=raw)
    params = {"objective": "multi:softprob", "num_class": 3, "eval_metric": "auc", "max_depth": 1}
    record = {}
    xgboost.train({**params, "eta": 0.0}, theirs, 1, evals=[(theirs, "t")], evals_result=record, verbose_eval=False)
    assert model.eval_history["train"]["auc"][-1] == pytest.approx(record["t"]["auc"][-1], abs=1e-5)
    assert 0.3 < model.eval_history["train"]["aucpr"][-1] <= 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_at_a_threshold(device, weighted, tmp_path):
    x = np.random.default_rng(0).normal(size=(300, 4))
    y = (x[:, 0] + np.random.default_rng(1).normal(size=300) > 0.5).astype(float)
    weight = np.random.default_rng(2).random(300) if weighted else np.ones(300)
    data, found = hb.DMatrix(x, label=y, weight=weight if weighted else None), {}
    params = {"objective": "binary:logistic", "max_depth": 3, "verbosity": 0, "device": device}
    params["eval_metric"] = ["error@0.3", "error", "error@0.5", "error@0.3000001", "error@1"]
    booster = hb.train(params, data, 4, evals=[(data, "own")], evals_result=found, verbose_eval=False)
    p = booster.predict(data)
    assert list(found["own"]) == ["error@0.3", "error", "error@0.3000001", "error@1"]  # 0.5 is the one without a number
    for name, threshold in (("error@0.3", 0.3), ("error", 0.5)):
        expected = weight[(p > threshold) != (y > 0)].sum() / weight.sum()
        assert found["own"][name][-1] == pytest.approx(expected, rel=1e-12)
    assert found["own"]["error@0.3"] != found["own"]["error"]
    assert booster.eval(data).split("\t")[1].startswith("eval-error@0.3:")
    theirs = xgboost.Booster()
    booster.save(tmp_path / "model.json", format="xgboost-json")
    theirs.load_model(tmp_path / "model.json")
    theirs.set_param({"eval_metric": "error@0.3"})
    line = theirs.eval(xgboost.DMatrix(x, label=y, weight=weight))
    assert float(line.rpartition(":")[2]) == pytest.approx(found["own"]["error@0.3"][-1], abs=0.01)


def test_gains_of_labels_may_be_linear():
    labels = RANDOM.integers(0, 4, 400)
    ranked = {**SMALL, "objective": "rank:ndcg", "metric": "ndcg@5"}
    data = hb.DMatrix(X, labels, group=[40] * 10)
    linear = hb.train({**ranked, "ndcg_exp_gain": False}, data, 2, evals=[(data, "t")])
    spelled = hb.train({**ranked, "label_gain": list(range(32))}, data, 2, evals=[(data, "t")])
    assert linear.fingerprint() == spelled.fingerprint() and linear.eval_history == spelled.eval_history
    plain = hb.train(ranked, data, 2)
    assert hb.train({**ranked, "ndcg_exp_gain": True}, data, 2).fingerprint() == plain.fingerprint()
    with pytest.raises(hb.ParameterError, match="beside label_gain"):
        hb.train({**ranked, "ndcg_exp_gain": False, "label_gain": [0, 1, 2, 3]}, data, 2)
    with pytest.raises(hb.ParameterError, match="True or False"):
        hb.train({**ranked, "ndcg_exp_gain": 2}, data, 2)


def test_ndcg_without_a_rank_is_that_of_whole_lists():
    values = []
    for library in (xgboost, hb):
        data, record = library.DMatrix(X, CLASSES, group=[40] * 10, base_margin=NUMBER), {}
        params = {"objective": "rank:ndcg", "eval_metric": "ndcg", "eta": 1e-9, "nthread": 1}
        model = library.train(params, data, 1, evals=[(data, "t")], evals_result=record, verbose_eval=False)
        name, value = re.fullmatch(r"\[0\]\te-(.+):(.+)", model.eval(data, "e")).groups()
        assert name == "ndcg" and float(value) == pytest.approx(record["t"]["ndcg"][0], rel=1e-5)
        values.append(record["t"]["ndcg"][0])
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_lists_are_judged_as_a_whole_on_every_device(device):
    data, record = hb.DMatrix(X, CLASSES, group=[40] * 10), {}
    params = {"objective": "rank:ndcg", "eval_metric": ["ndcg@3", "ndcg", "map"], "device": device, "verbosity": -1}
    hb.train(params, data, 2, evals=[(data, "t")], evals_result=record, verbose_eval=False)
    ranks = {**params, "eval_metric": ["ndcg@3", "ndcg@40", "map@40"]}
    named = hb.train(ranks, data, 2, evals=[(data, "t")], verbose_eval=False).eval_history["t"]
    assert [record["t"][name] for name in ("ndcg@3", "ndcg", "map")] == list(named.values())

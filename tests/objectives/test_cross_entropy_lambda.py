"""LightGBM's cross_entropy_lambda: weights are exponents, predictions log(1 + exp(score)); exact for any score."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core import numerics
from hornbeam.core.errors import ConversionError, DataError, ParameterError
from hornbeam.distributed import PartDataset, run_workers, train
from hornbeam.metrics import get_metric
from hornbeam.objectives import CrossEntropyLambdaObjective, CrossEntropyObjective
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.workers import cut, parts_of_worker
from hornbeam.views.plots.models import judge
from hornbeam.views.report.intervals import figures

rng = np.random.default_rng(0)
X = rng.normal(size=(800, 4))
SIGNAL = X[:, 0] + X[:, 1] ** 2
Y = np.clip(1.0 / (1.0 + np.exp(-SIGNAL)) + 0.1 * rng.normal(size=800), 0.0, 1.0)
WEIGHT = rng.exponential(size=800) + 0.05
QUIET = {"verbosity": -1, "objective": "cross_entropy_lambda", "learning_rate": 0.2, "num_leaves": 7}


def loss(scores, label, weight):
    """The definition, in float64."""
    x = weight * np.logaddexp(0.0, scores)
    return -label * np.log(-np.expm1(-x)) + (1.0 - label) * x


def exactly(score, label, weight):
    """LightGBM's formulas of gradient and hessian, with 80 digits."""
    with decimal.localcontext() as context:
        context.prec = 80
        y, w, e = Decimal(label), Decimal(weight), Decimal(score).exp()
        c = (w * (1 + e).ln()).exp()
        z, d = 1 - 1 / c, c - 1
        gradient = (1 - y / z) * w / (1 + 1 / e)
        hessian = w * e / (1 + e) ** 2 * (1 + y * c / (d * d) * (1 + w * e - c))
        return float(gradient), float(hessian)


def test_without_weights_derivatives_are_those_of_cross_entropy():
    scores = rng.normal(size=(1, 800)) * 10.0
    ours, plain = (kind().gradients(scores, Y, None) for kind in (CrossEntropyLambdaObjective, CrossEntropyObjective))
    assert all(one.tobytes() == other.tobytes() for one, other in zip(ours, plain, strict=True))
    ones = CrossEntropyLambdaObjective().gradients(scores, Y, np.ones(800))
    assert all(np.allclose(one, other, rtol=0.0, atol=1e-15) for one, other in zip(ones, plain, strict=True))


def test_derivatives_are_slope_and_curvature_of_the_loss():
    scores, step = rng.normal(size=800) * 2.0, 1e-4
    gradient, hessian = (part[0] for part in CrossEntropyLambdaObjective().gradients(scores[None], Y, WEIGHT))
    low, mid, high = (loss(scores + by, Y, WEIGHT) for by in (-step, 0.0, step))
    assert np.allclose(gradient, (high - low) / (2.0 * step), rtol=1e-5, atol=1e-6)
    assert np.allclose(hessian, (high - 2.0 * mid + low) / step**2, rtol=1e-4, atol=1e-5)
    assert (hessian > 0.0).all()


def test_derivatives_are_exact_for_any_score():
    for _ in range(400):
        score, weight = float(rng.uniform(-60.0, 60.0)), float(10.0 ** rng.uniform(-3.0, 1.3))
        label = float(rng.choice([0.0, 1.0, rng.random()]))
        found = CrossEntropyLambdaObjective().gradients(np.array([[score]]), np.array([label]), np.array([weight]))
        assert np.ravel(found) == pytest.approx(exactly(score, label, weight), rel=0.0, abs=1e-15 * max(1.0, weight))
    scores = np.array([[-1e300, -1e4, -708.0, 708.0, 1e4, 1e300] * 3])
    label, weight = np.repeat([0.0, 0.5, 1.0], 6), np.tile([1e-30, 1.0, 1e30], 6)
    gradient, hessian = CrossEntropyLambdaObjective().gradients(scores, label, weight)
    assert np.isfinite(gradient).all() and np.isfinite(hessian).all() and (hessian >= 0.0).all()


def test_softplus_and_its_inverse():
    x = np.concatenate([np.linspace(-700.0, 700.0, 5001), rng.normal(size=2000) * 10.0])
    assert np.max(np.abs(numerics.softplus(x) / np.logaddexp(0.0, x) - 1.0)) < 1e-14
    y = 10.0 ** np.linspace(-14.0, 2.8, 500)
    assert numerics.softplus(numerics.softplus_inverse(y)) == pytest.approx(y, rel=1e-13)


def test_start_predicts_the_mean():
    for weight in (None, WEIGHT):
        model = hb.train(QUIET, hb.Dataset(X, label=Y, weight=weight), 1)
        assert np.logaddexp(0.0, model.init_scores) == pytest.approx(np.average(Y, weights=weight), rel=1e-12)
    assert np.isfinite(CrossEntropyLambdaObjective().init_scores(np.zeros(3), None)[0])
    based = hb.train({**QUIET, "base_score": 0.7}, hb.Dataset(X, label=Y), 1)
    assert np.logaddexp(0.0, based.init_scores) == pytest.approx(0.7, rel=1e-12)
    with pytest.raises(ParameterError, match=r"base_score=0\.0: must be above 0"):
        hb.train({**QUIET, "base_score": 0.0}, hb.Dataset(X, label=Y), 1)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_models_of_all_devices_are_one(weighted):
    models, values, predictions = [], [], []
    for device in usable_devices():
        data = hb.Dataset(X, label=Y, weight=WEIGHT if weighted else None)
        found: dict[str, dict[str, list[float]]] = {}
        model = hb.train({**QUIET, "device": device}, data, 8, {"own": data}, callbacks=[hb.record_evaluation(found)])
        models.append(model.fingerprint())
        values.append(found["own"]["cross_entropy_lambda"])
        predictions.append(model.predict(X, device=device).tobytes())
    assert len(set(models)) == 1 and len(set(predictions)) == 1 and all(value == values[0] for value in values)
    raw = model.predict(X, raw_score=True)
    expected = loss(raw, Y, WEIGHT if weighted else 1.0).mean()
    assert values[0][-1] == pytest.approx(expected, rel=1e-9) and values[0][-1] < values[0][0]
    assert model.predict(X) == pytest.approx(np.logaddexp(0.0, raw), rel=1e-13)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_models_and_values_are_near_those_of_lightgbm(weighted, tmp_path):
    peer = pytest.importorskip("lightgbm")
    values, models = [], []
    for library in (hb, peer):
        data = library.Dataset(X, Y, weight=WEIGHT if weighted else None)
        found: dict[str, dict[str, list[float]]] = {}
        model = library.train(
            {**QUIET, "num_threads": 1}, data, 20, valid_sets=[data], callbacks=[library.record_evaluation(found)]
        )
        (history,) = found["training"].values()
        values.append(history)
        models.append(model)
    assert list(found["training"]) == ["cross_entropy_lambda"]
    assert values[0] == pytest.approx(values[1], rel=0.005)
    assert np.corrcoef(models[0].predict(X), models[1].predict(X))[0, 1] > 0.97
    models[0].save(tmp_path / "model.txt", format="lightgbm")
    assert peer.Booster(model_file=tmp_path / "model.txt").predict(X) == pytest.approx(models[0].predict(X), rel=1e-13)
    again = hb.load(tmp_path / "model.txt")
    assert (again.predict(X) == models[0].predict(X)).all() and again.objective == CrossEntropyLambdaObjective()
    with pytest.raises(ConversionError, match="log"):
        models[0].save(tmp_path / "none.json", format="xgboost-json", approximate=True)
    assert not (tmp_path / "none.json").exists()


def test_columns_of_labels_are_models_of_their_own():
    labels = np.column_stack((Y, 1.0 - Y))
    for device in usable_devices():
        params = {**QUIET, "device": device}
        both = hb.train(params, hb.Dataset(X, label=labels, weight=WEIGHT), 3, {"own": hb.Dataset(X, label=labels)})
        for k in range(2):
            own = hb.train(params, hb.Dataset(X, label=labels[:, k], weight=WEIGHT), 3)
            assert (both.predict(X)[:, k] == own.predict(X)).all()


def test_rows_without_weight_are_refused():
    weight = np.where(np.arange(800) == 7, 0.0, 1.0)
    for data in (hb.Dataset(X, label=Y, weight=weight), hb.Dataset(X, label=np.column_stack((Y, Y)), weight=weight)):
        with pytest.raises(DataError, match=r"'cross_entropy_lambda' takes positive weights, but weight\[7\] is 0.0"):
            hb.train(QUIET, data, 1)
    own = {"objective": "cross_entropy", "metric": "xentlambda", "verbosity": -1}
    with pytest.raises(DataError, match=r"metric 'cross_entropy_lambda' on .* takes positive weights"):
        hb.train(own, hb.Dataset(X, label=Y), 1, {"own": hb.Dataset(X, label=Y, weight=weight)})
    with pytest.raises(DataError, match="takes no label outside"):
        hb.train(QUIET, hb.Dataset(X, label=Y + 1.0), 1)


def test_weights_are_counts_of_trials():
    """A row of weight n that does not hold counts as n rows of weight 1: none of n trials did."""
    metric, objective = get_metric("xentlambda"), CrossEntropyLambdaObjective()
    raw, none = rng.normal(size=(1, 50)), np.zeros(50)
    times = rng.integers(1, 6, 50)
    repeated = metric(np.zeros(times.sum()), np.repeat(raw, times, axis=1), None, objective)
    assert metric(none, raw, times.astype(float), objective) * 50 == pytest.approx(repeated * times.sum(), rel=1e-12)
    gradient, hessian = (part[0] for part in objective.gradients(raw, none, times.astype(float)))
    once = objective.gradients(raw, none, None)
    assert gradient == pytest.approx(once[0][0] * times, rel=1e-13)
    assert hessian == pytest.approx(once[1][0] * times, rel=1e-13)


def test_workers_and_reports_find_the_value_of_one_process():
    data = hb.Dataset(X, label=Y, weight=WEIGHT)
    params, pieces = {**QUIET, "device": "reference"}, cut(data, [100, 500])

    def work(collective):
        own = PartDataset(collective, parts_of_worker(pieces, collective.rank, 2))
        return train(params, own, 3, {"own": own})

    one = hb.train(params, hb.Dataset(X, label=Y, weight=WEIGHT), 3, {"own": data})
    for model in run_workers(2, work, timeout=60):
        assert model.eval_history == one.eval_history and model.fingerprint() == one.fingerprint()
    (figure,) = figures(judge(one, data), [get_metric("xentlambda")], 50)
    assert figure.value == one.eval_history["own"]["cross_entropy_lambda"][-1]
    assert figure.low < figure.value < figure.high

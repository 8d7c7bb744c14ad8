"""Survival: derivatives are those of the losses, kernels agree, bad bounds are refused, models match XGBoost's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import hornbeam as hb
from hornbeam.backends.cpu.losses.gradients import compute_gradients
from hornbeam.core import numerics
from hornbeam.core.running_sums import running_sums
from hornbeam.objectives import AftObjective, CoxObjective
from hornbeam.objectives.aft import NO_BOUND, log_bounds
from hornbeam.testing.peer_names import AS_A_DATASET

SCIPY = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}


def make_times(n_rows, seed=0):
    """Return features, times, and lower and upper bounds of every kind of censoring."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    time = np.exp(X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.4 * rng.normal(size=n_rows))
    kind = rng.integers(0, 4, n_rows)
    lower = np.where(kind == 1, 0.0, np.where(kind == 2, time * 0.7, time * (1.0 - 0.3 * (kind == 3))))
    upper = np.where(kind == 0, time, np.where(kind == 2, np.inf, time * 1.4))
    return X, time, lower, upper


@pytest.fixture(scope="module")
def bounded():
    X, _, lower, upper = make_times(1500)
    return hb.Dataset(X, label_lower_bound=lower, label_upper_bound=upper)


@pytest.fixture(scope="module")
def censored():
    """Times of which some are equal, and a third is censored."""
    X, time, _, _ = make_times(1500, seed=1)
    label = np.round(time, 1) + 0.1
    rng = np.random.default_rng(2)
    return hb.Dataset(X, np.where(rng.random(1500) < 0.3, -label, label))


# --- numerics -------------------------------------------------------------------------------------------------------


def test_mills_ratio_is_the_tail_by_the_density():
    t = np.concatenate([np.linspace(0.0, 8.0, 400), np.geomspace(8.0, 37.0, 40)])
    assert np.allclose(numerics.mills_ratio(t), stats.norm.sf(t) / stats.norm.pdf(t), rtol=1e-13)
    assert numerics.mills_ratio(np.array([1e4]))[0] * 1e4 == pytest.approx(1.0, rel=2e-8)


def test_bernoulli_ratio_is_smooth_at_its_seams():
    x = np.concatenate([[1e-300, 1e-9], np.linspace(0.2, 0.3, 101), np.geomspace(0.3, 699.0, 50)])
    assert np.allclose(numerics.bernoulli_ratio(x), x / np.expm1(x), rtol=1e-14)
    assert numerics.bernoulli_ratio(np.array([0.0, 701.0, 1e308])).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4096, 4097, 70_000])
def test_running_sums_have_the_order_of_blocks(n):
    values = np.random.default_rng(n).normal(size=n)

    def by_hand(values):
        blocks = [values[i : i + 64] for i in range(0, len(values), 64)]
        within = []
        for block in blocks:
            total, sums = block[0], [block[0]]
            for value in block[1:]:
                total = total + value
                sums.append(total)
            within.append(sums)
        if len(blocks) > 1:
            before = by_hand([sums[-1] for sums in within])
            within[1:] = [[start + one for one in sums] for start, sums in zip(before, within[1:], strict=False)]
        return [one for sums in within for one in sums]

    assert running_sums(values).tolist() == by_hand(values.tolist())


# --- accelerated failure time ---------------------------------------------------------------------------------------


def plain_loss(distribution, scale, bounds, score):
    """The loss by SciPy."""
    low, high = ((bound - score) / scale for bound in bounds)
    own = SCIPY[distribution]
    with np.errstate(all="ignore"):
        between = np.where(low > 0.0, own.sf(low) - own.sf(high), own.cdf(high) - own.cdf(low))
        return np.where(bounds[0] == bounds[1], -own.logpdf(low), -np.log(between))


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("distribution", SCIPY)
def test_aft_derivatives_are_those_of_the_loss(bounded, distribution, scale):
    objective = AftObjective(distribution, scale).bind(bounded)
    bounds = log_bounds(bounded)
    score = np.random.default_rng(0).normal(size=(1, 1500)) * 0.5
    gradient, hessian = objective.gradients(score, bounds, None)
    step = 1e-4
    losses = [plain_loss(distribution, scale, bounds, score[0] + change) for change in (-step, 0.0, step)]
    with np.errstate(invalid="ignore"):
        first, second = (losses[2] - losses[0]) / (2 * step), (losses[2] - 2 * losses[1] + losses[0]) / step**2
    plain = (np.abs(first) < 14.0) & (second < 14.0) & (second > 1e-4)  # neither is clipped
    assert plain.mean() > 0.5
    assert np.allclose(gradient[0][plain], first[plain], rtol=1e-4, atol=1e-4)
    assert np.allclose(hessian[0][plain], second[plain], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("distribution", SCIPY)
def test_aft_derivatives_are_finite_far_out(bounded, distribution):
    objective = AftObjective(distribution, 0.01).bind(bounded)
    for score in (-700.0, -50.0, 50.0, 700.0):
        gradient, hessian = objective.gradients(np.full((1, 1500), score), log_bounds(bounded), None)
        assert np.isfinite(gradient).all() and np.abs(gradient).max() <= 15.0
        assert hessian.min() >= 1e-16 and hessian.max() <= 15.0


def test_a_narrow_interval_is_an_observed_time():
    bounds = np.array([[0.3, 0.3], [0.3, 0.3 + 1e-9]])
    for distribution in SCIPY:
        gradient, hessian = AftObjective(distribution).gradients(np.full((1, 2), -0.4), bounds, None)
        assert gradient[0, 0] == pytest.approx(gradient[0, 1], rel=1e-8)
        assert hessian[0, 0] == pytest.approx(hessian[0, 1], rel=1e-7)


def test_a_row_without_bounds_says_nothing():
    bounds = np.array([[-NO_BOUND], [NO_BOUND]])
    for distribution in SCIPY:
        gradient, hessian = AftObjective(distribution).gradients(np.full((1, 1), 0.7), bounds, None)
        assert abs(gradient[0, 0]) < 1e-12 and hessian[0, 0] <= 1e-12


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", [*SCIPY, "cox"])
def test_cpu_kernels_have_the_bits_of_the_definition(bounded, censored, name, weighted):
    data = censored if name == "cox" else bounded
    objective = (CoxObjective() if name == "cox" else AftObjective(name, 0.3)).bind(data)
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(1, 1500)) * rng.choice([1.0, 40.0], 1500)
    label = data.label if name == "cox" else log_bounds(data)
    weight = rng.choice([0.0, 0.3, 2.0], 1500) if weighted else None
    expected = objective.gradients(scores, label, weight)
    for n_threads in (1, 3):
        found = np.empty_like(scores), np.empty_like(scores)
        compute_gradients(objective, scores, label, weight, *found, n_threads)
        assert (found[0] == expected[0]).all() and (found[1] == expected[1]).all()


# --- proportional hazards -------------------------------------------------------------------------------------------


def brute_cox(label, score, weight):
    """Gradient and hessian by sums over all pairs of rows."""
    time, risk = np.abs(label), weight * np.exp(score)
    at_risk = np.array([risk[time >= one].sum() for one in time])
    share = np.where(label > 0.0, weight / at_risk, 0.0)
    until = np.array([[share[time <= one].sum(), (share / at_risk)[time <= one].sum()] for one in time])
    return risk * until[:, 0] - weight * (label > 0.0), risk * until[:, 0] - risk**2 * until[:, 1]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_cox_derivatives_are_sums_over_risk_sets(censored, weighted):
    rng = np.random.default_rng(5)
    score, weight = rng.normal(size=1500), 0.5 + rng.random(1500) if weighted else None
    gradient, hessian = CoxObjective().bind(censored).gradients(score[None], censored.label, weight)
    expected = brute_cox(censored.label, score, np.ones(1500) if weight is None else weight)
    assert np.allclose(gradient[0], expected[0], rtol=1e-10, atol=1e-10)
    assert np.allclose(hessian[0], expected[1], rtol=1e-9, atol=1e-9)
    assert abs(gradient.sum()) < 1e-9  # scores may all move together


def test_weights_of_cox_are_repeated_rows(censored):
    rng = np.random.default_rng(6)
    score, times = rng.normal(size=1500), rng.integers(1, 4, 1500)
    weighted = CoxObjective().bind(censored).gradients(score[None], censored.label, times.astype(np.float64))[0][0]
    repeated = hb.Dataset(np.zeros((times.sum(), 1)), np.repeat(censored.label, times))
    rows = CoxObjective().bind(repeated).gradients(np.repeat(score, times)[None], repeated.label, None)[0][0]
    assert np.allclose(np.add.reduceat(rows, np.cumsum(times) - times), weighted, rtol=1e-9, atol=1e-9)


def test_cox_does_not_overflow(censored):
    score = np.linspace(-600.0, 600.0, 1500)[None]
    gradient, hessian = CoxObjective().bind(censored).gradients(score, censored.label, None)
    assert np.isfinite(gradient).all() and np.isfinite(hessian).all() and hessian.min() >= 0.0


# --- data -----------------------------------------------------------------------------------------------------------

SMALL = {"objective": "survival:aft", "num_leaves": 7, "verbosity": -1, "device": "reference", "max_bin": 31}


def test_bounds_come_by_every_way(tmp_path):
    X, _, lower, upper = make_times(200)
    given = {**SMALL, **AS_A_DATASET}
    expected = hb.train(given, hb.Dataset(X, label_lower_bound=lower, label_upper_bound=upper), 2).fingerprint()
    by_setting = hb.DMatrix(X)
    by_setting.set_float_info("label_lower_bound", lower)
    by_setting.set_float_info("label_upper_bound", upper)
    assert (by_setting.get_float_info("label_upper_bound") == upper).all()
    by_info = hb.DMatrix(X)
    by_info.set_info(label_lower_bound=lower, label_upper_bound=upper)
    saved = hb.DMatrix(X, label_lower_bound=lower, label_upper_bound=upper).save_binary(tmp_path / "data.npz")
    made = (by_setting, by_info, saved, hb.Dataset(tmp_path / "data.npz"), saved.subset(np.arange(200)))
    assert [hb.train(given, data, 2).fingerprint() for data in made] == [expected] * len(made)


def test_labels_are_observed_times():
    X, time, _, _ = make_times(200)
    both = hb.Dataset(X, label_lower_bound=time, label_upper_bound=time)
    assert hb.train(SMALL, both, 2).fingerprint() == hb.train(SMALL, hb.Dataset(X, time), 2).fingerprint()


def test_predictions_are_times_and_risks(censored):
    X, time, _, _ = make_times(300, seed=3)
    for name in ("survival:aft", "survival:cox"):
        model = hb.train({**SMALL, "objective": name}, hb.Dataset(X, time), 3)
        assert np.allclose(model.predict(X), np.exp(model.predict(X, raw_score=True)), rtol=1e-14)
        again = hb.Booster(model_str=model.model_to_string())
        assert (again.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"label": [1.0, -2.0, 3.0]}, r"takes no label <= 0, but label\[1\] is -2.0; .*label_lower_bound"),
        ({"label_lower_bound": [1.0, 2.0, 3.0]}, "go together"),
        ({"label_lower_bound": [1.0, 2.0, 3.0], "label_upper_bound": [1.0, 1.5, 3.0]}, r"\[1\] is 2.0 and .* above"),
        ({"label_lower_bound": [1.0, -2.0, 3.0]}, r"label_lower_bound\[1\] is -2.0; it must be 0 or more"),
        ({"label_lower_bound": [1.0, np.inf, 3.0]}, r"label_lower_bound\[1\] is inf"),
        ({"label_upper_bound": [1.0, np.nan, 3.0]}, r"label_upper_bound\[1\] is nan; it must be positive"),
        ({"label_upper_bound": [1.0, 0.0, 3.0]}, r"label_upper_bound\[1\] is 0.0; it must be positive"),
        ({"label_upper_bound": [1.0, 2.0]}, "has 2 values and data 3 rows"),
        ({}, "needs labels"),
    ],
)
def test_bounds_that_are_none_are_errors(fields, message):
    with pytest.raises(hb.DataError, match=message):
        hb.train(SMALL, hb.Dataset(np.zeros((3, 1)), **fields), 1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"aft_loss_distribution": "weibull"}, "one of 'normal', 'logistic', 'extreme'"),
        ({"aft_loss_distribution_scale": 0.0}, "aft_loss_distribution_scale=0.0"),
    ],
)
def test_parameters_of_times_are_checked(params, message):
    with pytest.raises(hb.ParameterError, match=message):
        hb.train({**SMALL, **params}, hb.Dataset(np.zeros((3, 1)), [1.0, 2.0, 3.0]), 1)


def test_cox_without_events_is_an_error():
    with pytest.raises(hb.DataError, match="no label is positive"):
        hb.train({**SMALL, "objective": "survival:cox"}, hb.Dataset(np.zeros((3, 1)), [-1.0, -2.0, 0.0]), 1)


# --- beside XGBoost -------------------------------------------------------------------------------------------------

EQUAL = {"nthread": 1, "learning_rate": 0.1, "max_depth": 4, "num_leaves": 16, "min_child_weight": 1.0, "max_bin": 63}
OURS = {
    "num_threads": 1,
    "grow_policy": "depthwise",
    "lambda_l2": 1.0,
    "min_data_in_leaf": 1,
    "verbosity": -1,
    "min_data_in_bin": 1,
}


def loss_on_other_rows(library, more, name, seed):
    """Train from a start of zero, so that it is the trees that are compared; return the last loss on other rows."""
    sets = []
    for one in (seed, seed + 1):
        X, time, lower, upper = make_times(2000, one)
        label = np.where(np.random.default_rng(one).random(2000) < 0.3, -time, time)
        fields = {"label": label} if name == "cox" else {"label_lower_bound": lower, "label_upper_bound": upper}
        sets.append(library.DMatrix(X, base_margin=np.zeros(2000), **fields))
    aft = {"objective": "survival:aft", "aft_loss_distribution": name}
    params = {**EQUAL, **({"objective": "survival:cox"} if name == "cox" else aft), **more}
    found = {}
    library.train(params, sets[0], 30, evals=[(sets[1], "valid")], evals_result=found, verbose_eval=False)
    return next(iter(found["valid"].values()))[-1]


@pytest.mark.parametrize("name", [*SCIPY, "cox"])
def test_models_are_as_good_as_xgboosts(name):
    """At equal parameters, on average: one sample differs from the next by half a percent."""
    xgb = pytest.importorskip("xgboost")
    theirs = {"tree_method": "hist", "verbosity": 0, "nthread": 1}
    ratios = [
        loss_on_other_rows(hb, OURS, name, seed) / loss_on_other_rows(xgb, theirs, name, seed)
        for seed in (10, 12, 14, 16)
    ]
    assert np.mean(ratios) <= 1.003

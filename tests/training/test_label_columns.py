"""Labels of several columns: a model of all is the models of each, and metrics are means over all numbers."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.explain.permutation import permutation_importance

PARAMS = {"num_leaves": 7, "max_bin": 31, "verbosity": -1, "num_threads": 1, "learning_rate": 0.3}
N_COLUMNS = 3


def make_rows(n_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    Y = np.stack([2 * X[:, 0] + X[:, 1], np.abs(X[:, 2]), X[:, 3] * X[:, 4]], axis=1)
    return X, Y + 0.1 * rng.normal(size=Y.shape)


@pytest.fixture(scope="module")
def rows():
    return make_rows()


LABELS = {
    "regression": lambda Y: Y,
    "regression_l1": lambda Y: Y,
    "quantile": lambda Y: Y,
    "mape": lambda Y: Y + 5,
    "logcosh": lambda Y: Y,
    "poisson": np.abs,
    "binary": lambda Y: Y > 0.3,
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("objective", LABELS)
def test_outputs_are_those_of_a_model_for_each_column(rows, objective, weighted):
    X, Y = rows[0], LABELS[objective](rows[1])
    weight = 0.5 + np.random.default_rng(1).random(len(Y)) if weighted else None
    params = {**PARAMS, "objective": objective, "lambda_l2": 1.0, "min_sum_hessian_in_leaf": 0.1}
    params |= {"is_unbalance": True} if objective == "binary" else {}
    several = hb.train(params, hb.Dataset(X, Y, weight=weight), 3)
    assert several.predict(X).shape == Y.shape
    assert (several.init_scores != several.init_scores[0]).any()
    for column in range(N_COLUMNS):
        alone = hb.train(params, hb.Dataset(X, Y[:, column], weight=weight), 3)
        assert (several.predict(X)[:, column] == alone.predict(X)).all()


@pytest.mark.parametrize("objective", ["regression", "quantile", "binary"])
def test_every_device_makes_the_model_of_the_reference(rows, objective, device):
    X, Y = rows[0][:300], LABELS[objective](rows[1][:300])
    models = []
    for where in ("reference", device):
        data = hb.Dataset(X, Y, weight=1.0 + np.arange(len(X)) % 3)
        valid = hb.Dataset(X[:50], Y[:50], reference=data)
        params = {**PARAMS, "objective": objective, "device": where, "is_unbalance": objective == "binary"}
        models.append(hb.train(params, data, 3, {"valid": valid, "train": data}))
    assert models[0].fingerprint() == models[1].fingerprint()
    assert models[0].eval_history == models[1].eval_history


@pytest.mark.parametrize(
    ("metric", "of_numbers"),
    [
        ("l2", lambda y, p: (p - y) ** 2),
        ("l1", lambda y, p: np.abs(p - y)),
        ("rmse", lambda y, p: (p - y) ** 2),
    ],
)
def test_metrics_are_means_over_all_numbers(rows, metric, of_numbers):
    X, Y = rows
    weight = 1.0 + np.arange(len(X)) % 3
    data = hb.Dataset(X, Y, weight=weight)
    model = hb.train({**PARAMS, "metric": metric}, data, 2, {"train": data})
    found = (of_numbers(Y, model.predict(X)) * weight[:, None]).sum() / (N_COLUMNS * weight.sum())
    expected = np.sqrt(found) if metric == "rmse" else found
    assert model.eval_history["train"][metric][-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("objective", "names"), [("binary", ("logloss", "error")), ("regression", ("rmse", "mae"))])
def test_metrics_are_xgboosts(rows, objective, names):
    xgb = pytest.importorskip("xgboost")
    X, Y = rows[0], LABELS[objective](rows[1]).astype(float)
    weight = 1.0 + np.arange(len(X)) % 3
    theirs = xgb.DMatrix(X, Y, weight=weight)
    raw = np.random.default_rng(2).normal(size=Y.shape)
    name = {"binary": "binary:logistic", "regression": "reg:squarederror"}[objective]
    theirs.set_base_margin(raw)
    ours: dict = {}
    trained = hb.DMatrix(X, Y, weight=weight, base_margin=raw)
    hb.train({**PARAMS, "objective": name, "metric": list(names), "learning_rate": 1e-30}, trained, 1,
             [(trained, "x")], evals_result=ours, verbose_eval=False)  # fmt: skip
    booster = xgb.train({"objective": name, "eval_metric": list(names), "eta": 1e-30, "nthread": 1}, theirs, 1)
    text = booster.eval_set([(theirs, "x")])
    found = dict(pair.split(":") for pair in text.split("\t")[1:])
    for metric in names:
        assert ours["x"][metric][0] == pytest.approx(float(found[f"x-{metric}"]), rel=1e-5)


def test_model_comes_back_from_a_file_and_goes_on(rows, tmp_path):
    X, Y = rows
    params = {**PARAMS, "objective": "binary"}
    whole = hb.train(params, hb.Dataset(X, Y > 0), 4)
    whole[:2].save(tmp_path / "model.json")
    again = hb.load(tmp_path / "model.json")
    assert again.objective == whole.objective
    assert (again.predict(X) == whole.predict(X, num_iteration=2)).all()
    assert hb.train(params, hb.Dataset(X, Y > 0), 2, init_model=again).fingerprint() == whole.fingerprint()
    with pytest.raises(hb.ParameterError, match="n_targets"):
        hb.train(params, hb.Dataset(X, Y[:, :2] > 0), 2, init_model=again)
    text = (tmp_path / "model.json").read_text()
    for wrong in ("1", '"3"', "3.0", "true"):
        (tmp_path / "wrong.json").write_text(text.replace('"n_targets":3', f'"n_targets":{wrong}'))
        with pytest.raises(hb.ModelFormatError):
            hb.load(tmp_path / "wrong.json")


@pytest.mark.parametrize("changes", [{}, {"objective": "regression_l1"}], ids=["newton", "renewed"])
@pytest.mark.parametrize("boosting", ["dart", "rf"])
def test_other_modes_are_those_of_each_column(rows, boosting, changes):
    X, Y = rows
    params = {**PARAMS, "boosting": boosting, "bagging_freq": 1, "bagging_fraction": 0.7, "drop_rate": 0.5, **changes}
    several = hb.train(params, hb.Dataset(X, Y), 4)
    assert several.fingerprint() == hb.train({**params, "device": "reference"}, hb.Dataset(X, Y), 4).fingerprint()
    alone = hb.train(params, hb.Dataset(X, Y[:, 1]), 4).predict(X)
    assert np.abs(several.predict(X)[:, 1] - alone).max() < 1e-9  # DART's grid is that of all outputs


def test_initial_scores_and_refit_are_those_of_each_column(rows):
    X, Y = rows
    start = np.random.default_rng(3).normal(size=Y.shape)
    several = hb.train(PARAMS, hb.Dataset(X, Y, init_score=start), 3)
    for objective in ("regression", "regression_l1"):
        params = {**PARAMS, "objective": objective}
        model = hb.train(params, hb.Dataset(X, Y), 3).refit(X[:200], Y[:200], decay_rate=0.5)
        for column in range(N_COLUMNS):
            one = hb.train(params, hb.Dataset(X, Y[:, column]), 3).refit(X[:200], Y[:200, column], decay_rate=0.5)
            assert (model.predict(X)[:, column] == one.predict(X)).all()
    alone = hb.train(PARAMS, hb.Dataset(X, Y[:, 0], init_score=start[:, 0]), 3)
    assert (several.predict(X)[:, 0] == alone.predict(X)).all()
    with pytest.raises(hb.DataError, match="init_score has 2 outputs"):
        hb.train(PARAMS, hb.Dataset(X, Y, init_score=start[:, :2]), 1)


def test_functions_see_all_columns(rows):
    X, Y = rows

    def squares(scores, data):
        assert scores.shape == data.get_label().shape == Y.shape
        return scores - data.get_label(), np.ones_like(scores)

    def worst(predictions, data):
        return "worst", np.abs(predictions - data.get_label()).max(), False

    data = hb.Dataset(X, Y)
    own = hb.train({**PARAMS, "objective": squares, "metric": "l2"}, data, 3, {"train": data}, feval=worst)
    named = hb.train({**PARAMS, "boost_from_average": False, "metric": "l2"}, hb.Dataset(X, Y), 3)
    assert (own.predict(X) == named.predict(X)).all()
    assert own.eval_history["train"]["worst"][-1] == np.abs(own.predict(X) - Y).max()
    assert own.eval_history["train"]["l2"][-1] == pytest.approx(((own.predict(X) - Y) ** 2).mean())
    with pytest.raises(hb.ParameterError, match="num_class=2, but label has 3 columns"):
        hb.train({**PARAMS, "objective": squares, "num_class": 2}, hb.Dataset(X, Y), 1)


def test_ways_of_giving_the_data_make_one_model(rows, tmp_path):
    pd = pytest.importorskip("pandas")
    X, Y = rows
    expected = hb.train(PARAMS, hb.Dataset(X, Y), 2).fingerprint()
    data = hb.Dataset(X, Y)
    data.save_binary(tmp_path / "data.bin")
    halves = hb.Stream(lambda: ({"data": X[i : i + 250], "label": Y[i : i + 250]} for i in (0, 250)))
    ways = {
        "frame": hb.Dataset(X, pd.DataFrame(Y, columns=list("abc"))),
        "lists": hb.Dataset(X, Y.tolist()),
        "order": hb.Dataset(X, np.asfortranarray(Y)),
        "set_label": hb.Dataset(X).set_label(Y),
        "file": hb.Dataset(tmp_path / "data.bin"),
        "stream": hb.Dataset(halves),
        "subset": hb.Dataset(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)).subset(np.arange(0, 1000, 2)),
    }
    for name, way in ways.items():
        assert way.get_label().shape == Y.shape, name
        assert hb.train(PARAMS, way, 2).fingerprint() == expected, name


def test_folds_keep_rows_of_labels_whole(rows):
    X, Y = rows
    for labels, objective in ((Y, "regression"), (Y > 0, "binary")):
        history = hb.cv({**PARAMS, "objective": objective}, hb.Dataset(X, labels), 3, nfold=3)
        means = next(values for name, values in history.items() if name.endswith("-mean"))
        assert len(means) == 3
        assert means[-1] < means[0]


def test_bad_labels(rows):
    X, Y = rows
    wrong = Y.copy()
    wrong[7, 2] = np.nan
    with pytest.raises(hb.DataError, match=r"label\[\(7, 2\)\] is nan"):
        hb.Dataset(X, wrong)
    wrong[7, 2] = 1e300
    with pytest.raises(hb.DataError, match=r"label\[7, 2\] is 1e\+300"):
        hb.Dataset(X, wrong)
    with pytest.raises(hb.DataError, match="label has 499 rows and data 500"):
        hb.Dataset(X, Y[1:])
    with pytest.raises(hb.DataError, match="one dimension"):
        hb.Dataset(X, Y[:, :, None])
    with pytest.raises(hb.DataError, match="label"):
        hb.Dataset(X, [[1.0, 2.0]] * 499 + [[1.0]])
    with pytest.raises(hb.DataError, match=r"column 0 of label: .*label\[0\]"):
        hb.train({**PARAMS, "objective": "binary"}, hb.Dataset(X, Y), 1)
    data = hb.Dataset(X, Y)
    with pytest.raises(hb.DataError, match=r"column\(s\)"):
        hb.train(PARAMS, data, 1, {"valid": hb.Dataset(X, Y[:, :2], reference=data)})
    with pytest.raises(hb.DataError, match=r"column\(s\)"):
        hb.train(PARAMS, data, 1, {"valid": hb.Dataset(X, Y[:, 0], reference=data)})
    one = hb.Dataset(X, Y[:, 0])
    with pytest.raises(hb.DataError, match="one label a row"):
        hb.train(PARAMS, one, 1, {"valid": hb.Dataset(X, Y, reference=one)})


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "multiclass", "num_class": 3},
        {"objective": "multiclassova", "num_class": 3},
        {"objective": "lambdarank"},
        {"objective": "survival:cox"},
        {"objective": "survival:aft"},
        {"objective": "quantile", "alpha": [0.1, 0.9]},
        {"metric": "auc"},
        {"metric": "multi_logloss"},
        {"metric": "ndcg"},
        {"metric": "r2"},
        {"metric": "aft-nloglik"},
        {"objective": "binary", "bagging_freq": 1, "pos_bagging_fraction": 0.5},
    ],
    ids=str,
)
def test_what_takes_one_label_says_so_before_training(rows, changes):
    X, Y = np.abs(rows[0]), np.floor(np.abs(rows[1])).clip(0, 2)
    Y = Y > 0 if changes.get("objective") == "binary" else Y
    with pytest.raises((hb.DataError, hb.ParameterError), match="column"):
        hb.train({**PARAMS, **changes}, hb.Dataset(X, Y, group=[250, 250]), 1)


def test_what_is_drawn_of_one_output_says_so(rows):
    X, Y = rows
    model = hb.train(PARAMS, hb.Dataset(X, Y), 1)
    with pytest.raises(hb.ParameterError, match="columns"):
        hb.plot_residuals(model, X, Y)


@pytest.mark.parametrize("objective", ["regression", "binary", "poisson"])
def test_formats_predict_the_same(rows, objective, tmp_path):
    X, Y = rows[0], LABELS[objective](rows[1]).astype(float)
    model = hb.train({**PARAMS, "objective": objective}, hb.Dataset(X, Y), 3)
    for name in ("xgboost-json", "xgboost-ubj"):
        path = tmp_path / name
        model.save(path, format=name, approximate=True)
        again = hb.load(path)
        assert again.objective.to_dict() == model.objective.to_dict()
        assert np.abs(again.predict(X) - model.predict(X)).max() < 1e-5
    xgb = pytest.importorskip("xgboost")
    theirs = xgb.Booster(model_file=tmp_path / "xgboost-ubj").predict(xgb.DMatrix(X))
    assert np.abs(theirs - model.predict(X)).max() < 1e-5
    if objective == "poisson":
        with pytest.raises(hb.ConversionError, match="several outputs"):
            model.save(tmp_path / "model.txt", format="lightgbm", approximate=True)
        return
    model.save(tmp_path / "model.txt", format="lightgbm", approximate=True)
    assert np.abs(hb.load(tmp_path / "model.txt").predict(X) - model.predict(X)).max() < 1e-12


def test_importances_of_permutation_look_at_all_columns(rows):
    X, Y = rows
    model = hb.train(PARAMS, hb.Dataset(X, Y), 5)
    found = permutation_importance(model, X, Y)
    assert (found.mean > 0).all()

"""Models that LightGBM and XGBoost have trained predict what they predict there, and are models like all others."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError, ModelFormatError
from hornbeam.data.sources.reader import ZERO
from hornbeam.testing.checks import usable_devices
from hornbeam.testing.edge_rows import edge_rows

lgb = pytest.importorskip("lightgbm")
xgb = pytest.importorskip("xgboost")

IS_OLD = tuple(map(int, xgb.__version__.split(".")[:2])) < (3, 1)
N_ROWS = 400
QUIET = {"verbosity": -1, "num_leaves": 8, "min_data_in_leaf": 5, "num_threads": 1, "min_data_per_group": 1}


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    """Numbers with zeros and missing values, and a column of categories."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 4))
    X[rng.random(X.shape) < 0.2] = 0.0
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:, 3] = rng.integers(0, 30, N_ROWS)
    X[rng.random(N_ROWS) < 0.1, 3] = np.nan
    return X


@pytest.fixture(scope="module")
def y(X: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(N_ROWS)
    known = np.nan_to_num(X)
    return known[:, 0] - 2.0 * (known[:, 1] > 0.3) + np.isnan(X[:, 2]) + np.sin(known[:, 3]) + 0.1 * noise


def labels_for(objective: str, y: np.ndarray) -> np.ndarray:
    if objective.startswith(("multi", "softmax")):
        return np.digitize(y, [-1.0, 1.0]).astype(float)
    if objective.startswith(("binary", "cross", "reg:logistic")):
        return (y > 0).astype(float)
    if objective in ("lambdarank", "rank_xendcg", "rank:ndcg", "rank:pairwise"):
        return np.digitize(y, [-1.0, 1.0]).astype(float)
    return np.exp(y / 4.0)


LIGHTGBM = {
    "plain": {"objective": "regression"},
    "no_missing": {"objective": "regression", "use_missing": False},
    "zero_as_missing": {"objective": "regression", "zero_as_missing": True},
    "l1": {"objective": "regression_l1"},
    "huber": {"objective": "huber"},
    "fair": {"objective": "fair"},
    "poisson": {"objective": "poisson"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "mape": {"objective": "mape"},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie"},
    "sqrt": {"objective": "regression", "reg_sqrt": True},
    "binary": {"objective": "binary", "sigmoid": 0.8, "is_unbalance": True},
    "cross_entropy": {"objective": "cross_entropy"},
    "cross_entropy_lambda": {"objective": "cross_entropy_lambda"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "multiclassova": {"objective": "multiclassova", "num_class": 3},
    "lambdarank": {"objective": "lambdarank"},
    "forest": {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    "dart": {"objective": "regression", "boosting": "dart"},
    "monotone": {"objective": "regression", "monotone_constraints": [1, -1, 0, 0], "lambda_l1": 0.1},
}


def train_lightgbm(name: str, X: np.ndarray, y: np.ndarray, rounds: int = 6) -> object:
    params = {**QUIET, **LIGHTGBM[name]}
    group = [20] * (N_ROWS // 20) if name == "lambdarank" else None
    data = lgb.Dataset(X, labels_for(params["objective"], y), group=group, categorical_feature=[3])
    return lgb.train(params, data, rounds)


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm_model_predicts_the_same_bits(name, X, y):
    theirs = train_lightgbm(name, X, y)
    ours = hb.Booster(model_str=theirs.model_to_string())
    rows = np.concatenate([X, edge_rows(ours.to_model())])
    if name != "zero_as_missing":
        rows = np.where(np.abs(rows) <= ZERO, 0.0, rows)  # as LightGBM reads them
    raw = theirs.predict(rows, raw_score=True)
    if name == "forest":
        assert np.array_equal(ours.predict(rows), theirs.predict(rows))
    else:
        assert np.array_equal(ours.predict(rows, raw_score=True), raw)
    assert np.allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-13)
    assert ours.objective.name == LIGHTGBM[name]["objective"]
    leaves = theirs.predict(rows, pred_leaf=True).reshape(len(rows), -1)
    if name != "zero_as_missing":
        assert np.array_equal(ours.predict(rows, pred_leaf=True), leaves)


def test_lightgbm_names_of_pandas_categories_are_read(X, y):
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["word"] = pd.Categorical([f"w{int(v)}" if v == v else None for v in X[:, 3]])
    frame["number"] = pd.Categorical(np.nan_to_num(X[:, 3]).astype(int) * 10)
    theirs = lgb.train(QUIET, lgb.Dataset(frame, y), 6)
    ours = hb.Booster(model_str=theirs.model_to_string())
    assert np.array_equal(ours.predict(frame), theirs.predict(frame))
    assert set(ours.levels[3].values) == set(frame["word"].cat.categories)
    assert ours.feature_names == list(frame)
    shuffled = frame.assign(word=frame["word"].astype(object), number=frame["number"].astype(int))
    assert np.array_equal(ours.predict(shuffled), theirs.predict(frame))


def test_lightgbm_lists_that_may_belong_to_several_columns_are_refused(X, y):
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["word"] = pd.Categorical([f"w{int(v)}" if v == v else None for v in X[:, 3]])
    frame["number"] = np.nan_to_num(X[:, 3]).astype(int)
    theirs = lgb.train(QUIET, lgb.Dataset(frame, y, categorical_feature=["word", "number"]), 6)
    with pytest.raises(ModelFormatError, match="does not say whether list 0 belongs to feature 2; train with every"):
        hb.Booster(model_str=theirs.model_to_string())


XGBOOST = {
    "plain": {"objective": "reg:squarederror"},
    "exact": {"objective": "reg:squarederror", "tree_method": "approx"},
    "l1": {"objective": "reg:absoluteerror"},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.3},
    "logistic": {"objective": "reg:logistic"},
    "binary": {"objective": "binary:logistic", "scale_pos_weight": 2.0},
    "logitraw": {"objective": "binary:logitraw"},
    "hinge": {"objective": "binary:hinge"},
    "poisson": {"objective": "count:poisson"},
    "gamma": {"objective": "reg:gamma"},
    "tweedie": {"objective": "reg:tweedie", "tweedie_variance_power": 1.3},
    "softprob": {"objective": "multi:softprob", "num_class": 3},
    "ndcg": {"objective": "rank:ndcg"},
    "pseudohuber": {"objective": "reg:pseudohubererror"},
    "dart": {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.5},
    "forest": {"objective": "reg:squarederror", "num_parallel_tree": 3, "subsample": 0.5},
    "onehot": {"objective": "reg:squarederror", "max_cat_to_onehot": 100},
    "lossguide": {"objective": "reg:squarederror", "grow_policy": "lossguide", "max_leaves": 9, "gamma": 0.05},
    "start": {"objective": "binary:logistic", "base_score": 0.9},
}


def their_matrix(rows: np.ndarray, **more: object) -> object:
    return xgb.DMatrix(rows, feature_types=["q", "q", "q", "c"], enable_categorical=True, **more)


def train_xgboost(name: str, X: np.ndarray, y: np.ndarray, rounds: int = 6) -> object:
    params = {"max_depth": 4, "max_cat_to_onehot": 4, "nthread": 1, **XGBOOST[name]}
    qid = np.repeat(np.arange(N_ROWS // 20), 20) if name == "ndcg" else None
    return xgb.train(params, their_matrix(X, label=labels_for(params["objective"], y), qid=qid), rounds)


def in_float32(booster: hb.Booster, rows: np.ndarray) -> np.ndarray:
    """Return what a library gets that adds the trees in float32 in their order."""
    leaves = booster.predict(rows, pred_leaf=True)
    scores = np.tile(booster.init_scores.astype(np.float32), (len(leaves), 1))
    for number, tree in enumerate(booster.trees):
        scores[:, number % booster.n_outputs] += tree.leaf_value.astype(np.float32)[leaves[:, number]]
    return scores


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost_model_comes_to_the_same_leaves_and_scores(name, kind, X, y):
    theirs = train_xgboost(name, X, y)
    ours = hb.Booster.from_bytes(bytes(theirs.save_raw(kind)))
    rows = np.concatenate([X, edge_rows(ours.to_model(), infinities=False)])  # which are not float32 numbers
    with np.errstate(over="ignore"):
        rows = rows[~np.isinf(rows.astype(np.float32)).any(axis=1)]
    margins = theirs.predict(their_matrix(rows), output_margin=True).reshape(len(rows), -1)
    scores = ours.predict(rows, raw_score=True).reshape(margins.shape)
    # added in another order, or multiplied in float32; starts that are logarithms differ by a bit before XGBoost 3
    if name not in ("dart", "forest") and not (IS_OLD and name in ("poisson", "gamma", "tweedie")):
        assert np.array_equal(in_float32(ours, rows), margins)
    assert np.allclose(scores, margins, rtol=1e-5, atol=1e-5)
    predicted = theirs.predict(their_matrix(rows)).reshape(margins.shape)
    assert np.allclose(ours.predict(rows).reshape(margins.shape), predicted, rtol=1e-5, atol=1e-6)
    theirs_leaf = theirs.predict(their_matrix(rows), pred_leaf=True).reshape(len(rows), -1)
    ours_leaf = ours.predict(rows, pred_leaf=True)
    for a, b in zip(theirs_leaf.T, ours_leaf.T, strict=True):
        assert len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.skipif(IS_OLD, reason="files have names of categories since XGBoost 3.1")
def test_xgboost_names_of_pandas_categories_are_read(X, y):
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["word"] = pd.Categorical([f"w{int(v)}" if v == v else None for v in X[:, 3]])
    frame["number"] = pd.Categorical(np.nan_to_num(X[:, 3]).astype(int) * 10)
    data = xgb.DMatrix(frame, y, enable_categorical=True)
    theirs = xgb.train({"max_depth": 4, "max_cat_to_onehot": 4}, data, 6)
    ours = hb.Booster.from_bytes(bytes(theirs.save_raw("ubj")))
    assert np.array_equal(in_float32(ours, frame)[:, 0], theirs.predict(data))
    plain = frame.assign(word=frame["word"].astype(object), number=frame["number"].astype(int))
    assert np.array_equal(ours.predict(plain), ours.predict(frame))


def test_xgboost_best_iteration_is_kept(X, y):
    data = their_matrix(X, label=y)
    theirs = xgb.train({"max_depth": 6, "eta": 0.9}, data, 30, evals=[(their_matrix(X[:50], label=-y[:50]), "v")],
                       early_stopping_rounds=2, verbose_eval=False)  # fmt: skip
    ours = hb.Booster.from_bytes(bytes(theirs.save_raw("json")))
    assert ours.best_iteration == theirs.best_iteration + 1 < ours.n_iterations


@pytest.fixture(params=["lightgbm", "xgboost"])
def imported(request, X, y):
    if request.param == "lightgbm":
        return hb.Booster(model_str=train_lightgbm("binary", X, y).model_to_string())
    return hb.Booster.from_bytes(bytes(train_xgboost("binary", X, y).save_raw("ubj")))


@pytest.mark.parametrize("device", usable_devices())
def test_imported_model_predicts_the_same_bits_on_every_device(device, imported, X):
    rows = np.concatenate([X, edge_rows(imported.to_model(), n_random=50)])
    assert np.array_equal(imported.predict(rows, device=device), imported.predict(rows))


def test_imported_model_is_saved_as_one_of_hornbeam(imported, X, tmp_path):
    imported.save(tmp_path / "model.json")
    again = hb.load(tmp_path / "model.json", fingerprint=imported.fingerprint())
    assert np.array_equal(again.predict(X), imported.predict(X))
    assert again.fingerprint() == imported.fingerprint()


def test_imported_model_can_be_sliced_refitted_and_trained_on(imported, X, y):
    label = (y > 0).astype(float)
    assert np.array_equal(imported[:3].predict(X), imported.predict(X, num_iteration=3))
    refitted = imported.refit(X, label, decay_rate=0.5)
    assert not np.array_equal(refitted.predict(X), imported.predict(X))
    assert np.array_equal(refitted.predict(X, pred_leaf=True), imported.predict(X, pred_leaf=True))
    assert imported.refit(X, label, decay_rate=1.0).predict(X).tolist() == imported.predict(X).tolist()
    data = hb.Dataset(X, label, categorical_features=[3])
    params = {"objective": "binary", "sigmoid": imported.objective.sigmoid, "num_leaves": 4}
    more = hb.train(params, data, 2, init_model=imported)
    assert more.n_iterations == imported.n_iterations + 2
    assert np.isfinite(more.predict(X)).all()


def test_imported_model_refuses_other_columns(imported, X):
    with pytest.raises(DataError, match="data has 3 features, but the model was trained on 4"):
        imported.predict(X[:, :3])


def test_imported_names_are_compared_with_those_of_the_data(X, y):
    data = lgb.Dataset(X, y, feature_name=["p", "q", "r", "s"], categorical_feature=[3])
    ours = hb.Booster(model_str=lgb.train(QUIET, data, 2).model_to_string())
    with pytest.raises(DataError, match="feature 0 of data is 'q', but the model was trained on 'p' there"):
        ours.predict(pd.DataFrame(X, columns=["q", "p", "r", "s"]))


def test_expected_fingerprint_of_a_foreign_file_is_checked(X, y, tmp_path):
    path = tmp_path / "model.txt"
    train_lightgbm("plain", X, y).save_model(path)
    made = hb.load(path)
    assert hb.load(path, fingerprint=made.fingerprint()).fingerprint() == made.fingerprint()
    with pytest.raises(ModelFormatError, match=r"model.txt: fingerprint: this is another model"):
        hb.load(path, fingerprint="0" * 64)


def test_format_is_recognised_by_content_not_by_name(X, y, tmp_path):
    theirs = train_xgboost("plain", X, y)
    (tmp_path / "a.txt").write_bytes(bytes(theirs.save_raw("ubj")))
    (tmp_path / "b.ubj").write_bytes(json.dumps(json.loads(theirs.save_raw("json")), indent=1).encode())
    assert hb.load(tmp_path / "a.txt").fingerprint() == hb.load(tmp_path / "b.ubj").fingerprint()
    named = hb.train({"num_leaves": 4}, hb.Dataset(X[:, :2], y, feature_names=["learner", "version=v4"]), 1)
    named.save(tmp_path / "c")
    assert hb.load(tmp_path / "c").fingerprint() == named.fingerprint()


def test_report_on_an_imported_model_says_what_its_file_does_not(tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 3))
    peer = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, X[:, 0]), 2)
    peer.save_model(str(tmp_path / "model.json"))
    hb.load(tmp_path / "model.json").report(tmp_path / "report.html", (X, X[:, 0]), sample_rows=20, bootstrap=0)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "read from a file of another library" in text and "hb.train(" not in text  # it would be another model
    assert '"u":"hessian"' in text.replace(" ", "")  # sizes of branches; files of XGBoost have no counts of rows


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "multi:softprob"])
def test_vector_leaves_become_a_tree_for_each_output(objective, kind, tmp_path):
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    Y = np.nan_to_num(X[:, :3]) + 0.3 * rng.normal(size=(300, 3))
    label = {"reg:squarederror": Y, "binary:logistic": Y > 0, "multi:softprob": np.argmax(Y, axis=1)}[objective]
    params = {"objective": objective, "multi_strategy": "multi_output_tree", "tree_method": "hist", "max_depth": 3}
    params |= {"num_class": 3} if objective == "multi:softprob" else {}
    theirs = xgb.train(params, xgb.DMatrix(X, label), 4)
    path = tmp_path / f"model.{kind}"
    theirs.save_model(path)
    model = hb.load(path)
    assert len(model.trees) == 12
    assert (model.trees[0].threshold == model.trees[2].threshold).all()
    assert np.allclose(model.predict(X), theirs.predict(xgb.DMatrix(X)), atol=1e-5)

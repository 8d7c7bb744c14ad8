"""The estimators: same model as `train`, labels, weights, early stopping, and the tools of scikit-learn around them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csc_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hornbeam as hb
from hornbeam.sklearn import HornbeamClassifier, HornbeamRegressor

QUIET = {"n_estimators": 8, "num_leaves": 7, "verbosity": -1}


def table(n_rows: int = 300) -> np.ndarray:
    X = np.random.default_rng(3).normal(size=(n_rows, 5))
    X[::7, 1] = np.nan
    return X


X = table()
NUMBER = X[:, 0] * 2 + np.abs(X[:, 2])
CODES2 = (X[:, 0] + 0.3 * X[:, 3] > 0).astype(int)
CODES3 = CODES2 + (X[:, 2] > 0.5)
WEIGHT = np.random.default_rng(4).uniform(0.5, 2.0, len(X))


def fingerprint(model) -> str:
    return model.booster_.fingerprint()


# --- the same model as train ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "y", "objective"),
    [
        (HornbeamRegressor(**QUIET), NUMBER, {"objective": "regression"}),
        (HornbeamClassifier(**QUIET), CODES2, {"objective": "binary"}),
        (HornbeamClassifier(**QUIET), CODES3, {"objective": "multiclass", "num_class": 3}),
    ],
)
def test_model_is_the_one_that_train_makes(model, y, objective):
    expected = hb.train({**objective, **QUIET}, hb.Dataset(X, y, weight=WEIGHT))
    assert fingerprint(model.fit(X, y, sample_weight=WEIGHT)) == expected.fingerprint()
    probability = model.predict(X) if isinstance(model, HornbeamRegressor) else model.predict_proba(X)
    predicted = expected.predict(X)
    assert (probability == (np.column_stack([1 - predicted, predicted]) if y is CODES2 else predicted)).all()
    assert (model.predict(X, raw_score=True) == expected.predict(X, raw_score=True)).all()
    assert (model.predict(X, pred_leaf=True) == expected.predict(X, pred_leaf=True)).all()
    assert (
        model.predict(X, raw_score=True, num_iteration=3) == expected.predict(X, raw_score=True, num_iteration=3)
    ).all()


def test_float32_and_frames_give_the_model_of_the_array():
    single = X.astype(np.float32)
    names = list("abcde")
    expected = hb.train(QUIET, hb.Dataset(single, NUMBER, feature_names=names)).fingerprint()
    frame = pd.DataFrame(single, columns=names)
    for data in (frame, pl.DataFrame(frame.to_dict("list"), schema=dict.fromkeys(names, pl.Float32)), pa.table(frame)):
        model = HornbeamRegressor(**QUIET).fit(data, NUMBER)
        assert fingerprint(model) == expected
        assert model.booster_.feature_names == names and model.n_features_in_ == 5
        assert (model.predict(data) == model.booster_.predict(single)).all()
        with pytest.raises(ValueError, match="feature"):
            model.predict(frame[names[::-1]])


def test_names_of_a_frame_are_learned_and_compared():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = HornbeamRegressor(**QUIET).fit(frame, NUMBER)
    assert model.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_frame_with_numbers_as_names_is_an_array():
    model = HornbeamRegressor(**QUIET).fit(pd.DataFrame(X), NUMBER)
    assert not hasattr(model, "feature_names_in_")
    assert (model.predict(pd.DataFrame(X)) == HornbeamRegressor(**QUIET).fit(X, NUMBER).predict(X)).all()


@pytest.mark.parametrize("kind", [HornbeamRegressor, HornbeamClassifier])
def test_names_of_several_kinds_are_texts(kind):
    names = [0, "a", 2.5, ("b", 1), "c"]
    frame = pd.DataFrame(X, columns=pd.Index(names, dtype=object))
    model = kind(**QUIET).fit(frame, CODES2, eval_set=[(frame[:50], CODES2[:50])])
    texts = [str(name) for name in names]
    assert model.feature_names_in_.tolist() == model.feature_name_ == texts == hb.Dataset(frame).feature_names
    assert frame.columns.tolist() == names
    assert fingerprint(model) == fingerprint(kind(**QUIET).fit(frame.set_axis(texts, axis=1), CODES2))
    assert (model.predict(frame) == model.predict(frame.set_axis(texts, axis=1))).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_fit_does_not_copy_floats(monkeypatch):
    seen = []
    real = hb.Dataset.__init__
    monkeypatch.setattr(
        hb.Dataset, "__init__", lambda self, data, *a, **k: (seen.append(data), real(self, data, *a, **k))[1]
    )
    for dtype in (np.float32, np.float64):
        for order in "CF":
            data = np.array(X, dtype, order=order)
            HornbeamRegressor(**QUIET).fit(data, NUMBER)
            assert np.shares_memory(seen[-1], data)


@pytest.mark.parametrize("form", [csr_matrix, csc_array])
def test_sparse_input(form):
    dense = np.where(np.abs(X) < 1.0, 0.0, X)
    table, weight = form(dense), np.arange(len(X)) % 4
    options = {**QUIET, "zero_as_missing": True}
    for number in (None, weight):
        expected = HornbeamRegressor(**options).fit(dense, NUMBER, sample_weight=number)
        found = HornbeamRegressor(**options).fit(table, NUMBER, sample_weight=number, eval_set=[(table, NUMBER)])
        assert found.booster_.fingerprint() == expected.booster_.fingerprint()
        assert (found.predict(table) == expected.predict(dense)).all()
        assert (found.predict(table, pred_leaf=True) == expected.predict(dense, pred_leaf=True)).all()


# --- labels and weights ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [CODES2, CODES3])
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes", "maybe"]),
        np.array(["no", "yes", "maybe"], object),
        np.array([-5, 7, 1000]),
        np.array([3, 2, 1], np.uint8),
        np.array([1.0, 2.0, 3.0]),
    ],
)
def test_labels_of_any_kind_come_back(codes, labels):
    y = labels[codes]
    model = HornbeamClassifier(**QUIET).fit(X, y)
    order = np.argsort(labels[: codes.max() + 1])
    assert (model.classes_ == np.unique(y)).all() and model.n_classes_ == len(order)
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.85
    same = HornbeamClassifier(**QUIET).fit(X, np.argsort(order)[codes])
    assert fingerprint(same) == fingerprint(model)
    assert (model.classes_[same.predict(X)] == model.predict(X)).all()


def test_labels_may_be_booleans_a_series_or_categories():
    expected = HornbeamClassifier(**QUIET).fit(X, CODES2)
    for y in (
        CODES2 > 0,
        pd.Series(CODES2),
        pd.Series(CODES2).map({0: "a", 1: "b"}).astype("category"),
        CODES2.tolist(),
    ):
        model = HornbeamClassifier(**QUIET).fit(X, y)
        assert fingerprint(model) == fingerprint(expected)
        assert (model.predict(X) == np.asarray(y)).mean() > 0.85


def test_single_class_is_predicted():
    model = HornbeamClassifier(**QUIET).fit(X, ["only"] * len(X))
    assert (model.predict(X) == "only").all()
    assert (model.predict_proba(X) == np.ones((len(X), 1))).all()


def test_continuous_target_is_no_class():
    with pytest.raises(ValueError, match="Unknown label type"):
        HornbeamClassifier(**QUIET).fit(X, NUMBER)


@pytest.mark.parametrize("codes", [CODES2, CODES3])
def test_class_weight_equals_sample_weight(codes):
    y = np.array(["x", "y", "z"])[codes]
    weights = {"x": 2.0, "y": 0.5}
    by_row = np.array([2.0, 0.5, 1.0])[codes]
    given = HornbeamClassifier(**QUIET, class_weight=weights)
    assert fingerprint(given.fit(X, y)) == fingerprint(HornbeamClassifier(**QUIET).fit(X, y, sample_weight=by_row))
    both = HornbeamClassifier(**QUIET).fit(X, y, sample_weight=by_row * WEIGHT)
    assert fingerprint(given.fit(X, y, sample_weight=WEIGHT)) == fingerprint(both)
    counts = np.bincount(codes)
    balanced = HornbeamClassifier(**QUIET, class_weight="balanced")
    expected = HornbeamClassifier(**QUIET).fit(X, y, sample_weight=(len(y) / (len(counts) * counts))[codes])
    assert fingerprint(balanced.fit(X, y)) == fingerprint(expected)
    assert fingerprint(balanced.fit(X, y, sample_weight=np.ones(len(y)))) == fingerprint(expected)


def test_regressor_refuses_class_weight():
    with pytest.raises(hb.ParameterError, match="class_weight"):
        HornbeamRegressor(**QUIET, class_weight="balanced").fit(X, NUMBER)


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame])
def test_row_of_weight_zero_is_absent(wrap):
    weight = np.where(np.arange(len(X)) % 3 == 0, 0.0, WEIGHT)
    kept, start = weight > 0, NUMBER / 2
    model = HornbeamRegressor(**QUIET).fit(wrap(X), NUMBER, sample_weight=weight, init_score=start)
    expected = hb.train(
        {"objective": "regression", **QUIET},
        hb.Dataset(wrap(X[kept]), NUMBER[kept], weight=weight[kept], init_score=start[kept]),
    )
    assert fingerprint(model) == expected.fingerprint()


# --- parameters -----------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_train():
    model = HornbeamRegressor(verbosity=-1)
    assert model._train_params() == hb.Params(verbosity=-1)


def test_other_parameters_are_kept_by_get_params_clone_and_repr():
    model = HornbeamClassifier(**QUIET, min_data_in_bin=5, boost_from_average=False)
    assert model.get_params()["min_data_in_bin"] == 5
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert "min_data_in_bin=5" in repr(copy)
    assert copy.fit(X, CODES2).booster_.params["min_data_in_bin"] == 5
    assert copy.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("alias", "name", "value"),
    [
        ("num_iterations", "n_estimators", 3),
        ("eta", "learning_rate", 0.3),
        ("min_data_in_leaf", "min_child_samples", 40),
        ("lambda_l2", "reg_lambda", 2.0),
        ("seed", "random_state", 5),
        ("max_leaves", "num_leaves", 4),
        ("loss", "objective", "mse"),
    ],
)
def test_set_params_takes_aliases(alias, name, value):
    expected = HornbeamRegressor(verbosity=-1).set_params(**{name: value}).fit(X, NUMBER)
    model = HornbeamRegressor(verbosity=-1).set_params(**{alias: value})
    assert model.get_params()[alias] == value
    assert fingerprint(model.fit(X, NUMBER)) == fingerprint(expected)


def test_of_two_names_of_one_parameter_that_disagree_the_canonical_one_counts(caplog):
    assert HornbeamRegressor(n_estimators=5, num_iterations=6).fit(X, NUMBER).n_iter_ == 6
    assert "two names of one parameter" in caplog.text


def test_unknown_parameter_is_an_error_in_fit():
    model = HornbeamRegressor(num_leafs=5).set_params(colour="red")
    with pytest.raises(hb.ParameterError, match="unknown parameter"):
        model.fit(X, NUMBER)
    with pytest.raises(hb.ParameterError, match="num_leaves"):
        HornbeamRegressor(num_leafs=5).fit(X, NUMBER)


@pytest.mark.parametrize("n_jobs", [None, -1, -2, 1, 2])
def test_n_jobs_does_not_change_the_model(n_jobs):
    expected = HornbeamRegressor(**QUIET).fit(X, NUMBER)
    assert fingerprint(HornbeamRegressor(**QUIET, n_jobs=n_jobs).fit(X, NUMBER)) == fingerprint(expected)


@pytest.mark.parametrize("state", [7, np.int64(7), np.random.RandomState(0), np.random.default_rng(0)])
def test_random_state_may_be_a_number_or_a_generator(state):
    seed = HornbeamRegressor(**QUIET, random_state=state).fit(X, NUMBER).booster_.params["seed"]
    assert seed == 7 if isinstance(state, (int, np.integer)) else seed >= 0


def test_objective_must_fit_the_classes():
    with pytest.raises(hb.ParameterError, match="multiclass or multiclassova for 3 classes"):
        HornbeamClassifier(**QUIET, objective="focal").fit(X, CODES3)
    with pytest.raises(hb.ParameterError, match="num_class=5"):
        HornbeamClassifier(**QUIET, num_class=5).fit(X, CODES3)
    softmax = HornbeamClassifier(**QUIET, objective="softmax").fit(X, CODES2)
    assert softmax.predict_proba(X).shape == (len(X), 2) and softmax.score(X, CODES2) > 0.85


# --- functions of the user ------------------------------------------------------------------------------------------


def squared(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_true)


def squared_weighted(y_true, y_pred, weight):
    return (y_pred - y_true) * weight, weight.copy()


def test_objective_function_equals_the_built_in_objective():
    built_in = HornbeamRegressor(**QUIET, boost_from_average=False)
    for weight in (None, WEIGHT):
        expected = built_in.fit(X, NUMBER, sample_weight=weight).predict(X)
        assert (HornbeamRegressor(**QUIET, objective=squared).fit(X, NUMBER, weight).predict(X) == expected).all()
    weighted = HornbeamRegressor(**QUIET, objective=squared_weighted).fit(X, NUMBER, WEIGHT)
    assert (weighted.predict(X) == expected).all()
    assert (pickle.loads(pickle.dumps(weighted)).predict(X) == expected).all()


def test_objective_function_of_a_classifier_gives_raw_scores():
    def softmax(y_true, y_pred):
        p = np.exp(y_pred) / np.exp(y_pred).sum(axis=1, keepdims=True)
        return p - np.eye(3)[y_true.astype(int)], p * (1 - p)

    model = HornbeamClassifier(**QUIET, objective=softmax).fit(X, CODES3)
    assert (model.predict_proba(X) == model.predict(X, raw_score=True)).all()
    assert (model.predict(X).argmax(axis=1) == CODES3).mean() > 0.85


def test_function_with_wrong_arguments_is_refused():
    with pytest.raises(hb.ParameterError, match="takes 1 arguments"):
        HornbeamRegressor(**QUIET, objective=lambda y_true: y_true).fit(X, NUMBER)


# --- evaluation and early stopping ----------------------------------------------------------------------------------


def test_eval_set_is_evaluated_by_name_with_weights_and_functions():
    def largest_error(y_true, y_pred, weight):
        return "largest", float(np.max(np.abs(y_true - y_pred) * weight)), False

    model = HornbeamRegressor(**QUIET).fit(
        X,
        NUMBER,
        sample_weight=WEIGHT,
        eval_set=[(X, NUMBER), (X[:50], NUMBER[:50])],
        eval_names=["all", "some"],
        eval_sample_weight=[None, WEIGHT[:50]],
        eval_metric=["mae", largest_error],
    )
    assert list(model.evals_result_) == ["all", "some"]
    assert list(model.evals_result_["some"]) == ["l1", "l2", "largest"]
    assert all(len(values) == model.n_iter_ == 8 for values in model.evals_result_["some"].values())
    expected = np.average(np.abs(NUMBER[:50] - model.predict(X[:50])), weights=WEIGHT[:50])
    assert model.evals_result_["some"]["l1"][-1] == pytest.approx(expected, rel=1e-12)
    assert model.best_iteration_ == 0


@pytest.mark.parametrize(
    "more", [{"eval_sample_weight": [WEIGHT, None]}, {"eval_init_score": [np.ones(len(X)), None]}, {}]
)
def test_the_training_data_are_called_so_with_other_weights_too_and_do_not_stop_training(more):
    some = X[:50], NUMBER[:50]
    given = {"eval_set": [(X, NUMBER), some], "callbacks": [hb.early_stopping(2, verbose=False)]}
    model = HornbeamRegressor(**QUIET, learning_rate=0.9).fit(X, NUMBER, **given, **more)
    alone = HornbeamRegressor(**QUIET, learning_rate=0.9).fit(X, NUMBER, **{**given, "eval_set": [some]})
    assert list(model.evals_result_) == ["training", "valid_1"]
    assert model.best_iteration_ == alone.best_iteration_
    assert model.evals_result_["valid_1"] == alone.evals_result_["valid_0"]
    if "eval_sample_weight" in more:
        start = np.average((NUMBER - model.predict(X, num_iteration=1)) ** 2, weights=WEIGHT)
        assert model.evals_result_["training"]["l2"][0] == pytest.approx(start, rel=1e-12)
    sets = {"eval_set": [(X, NUMBER), (X, NUMBER)], "eval_sample_weight": [WEIGHT, None]}
    twice = HornbeamRegressor(**QUIET).fit(X, NUMBER, **sets)
    assert list(twice.evals_result_) == ["training", "valid_1"]


@pytest.mark.parametrize("kind", [HornbeamRegressor, HornbeamClassifier, hb.XGBClassifier])
@pytest.mark.parametrize("name", ["booster_", "classes_", "n_classes_", "n_features_in_", "feature_names_in_"])
def test_what_fit_sets_is_not_there_before(kind, name):
    assert not hasattr(kind(), name)
    with pytest.raises(hb.compat.LGBMNotFittedError, match=f"{name}: call fit"):
        getattr(kind(), name)


def test_training_on_continues_the_model():
    whole = HornbeamClassifier(**QUIET).fit(X, CODES3)
    half = HornbeamClassifier(**{**QUIET, "n_estimators": 4}).fit(X, CODES3)
    for start in (half, half.booster_):
        rest = clone(half).fit(X, CODES3, init_model=start)
        assert fingerprint(rest) == fingerprint(whole) and rest.n_iter_ == 8


def test_training_on_needs_the_same_classes():
    options = {**QUIET, "n_estimators": 2}
    start = HornbeamClassifier(**options).fit(X, np.array(["a", "b"])[CODES2])
    for names in (["b", "c"], ["a", "c"], ["b", "b"], [0, 1]):
        for model in (clone(start), start):
            with pytest.raises(hb.DataError, match=r"trained on classes \['a', 'b'\], y has classes.*same classes"):
                model.fit(X, np.array(names)[CODES2], init_model=start)
            start.fit(X, np.array(["a", "b"])[CODES2])
    assert start.fit(X, np.array(["a", "b"])[CODES2], xgb_model=start).n_iter_ == 4
    many = HornbeamClassifier(**options).fit(X, np.arange(len(X)) % 7)
    with pytest.raises(hb.DataError, match=r"7 classes \[0, 1, 2, 3, 4\]\.\.\., y has classes \[0, 1, 2\]"):
        clone(many).fit(X, CODES3, init_model=many)


# --- scikit-learn around it -----------------------------------------------------------------------------------------


def test_nothing_is_there_before_fit():
    model = HornbeamClassifier()
    with pytest.raises(NotFittedError):
        model.predict(X)
    for name in ("best_iteration_", "evals_result_", "n_iter_", "feature_importances_", "booster_", "classes_"):
        assert not hasattr(model, name)


def test_importances_are_raw_splits_and_gains():
    model = HornbeamRegressor(**QUIET).fit(X, NUMBER)
    assert model.feature_importances_.sum() == sum(tree.n_splits for tree in model.booster_.trees)
    gains = model.set_params(importance_type="gain").feature_importances_
    assert gains.argmax() == 0 and (gains == model.booster_.feature_importance("gain")).all()


@pytest.mark.parametrize(("kind", "y"), [(HornbeamClassifier, CODES3), (HornbeamRegressor, NUMBER)])
def test_pickle_keeps_the_model(kind, y):
    model = kind(**QUIET, min_data_in_bin=4).fit(X, y, eval_set=[(X, y)])
    copy = pickle.loads(pickle.dumps(model))
    assert fingerprint(copy) == fingerprint(model)
    assert copy.get_params() == model.get_params() and copy.evals_result_ == model.evals_result_
    assert (copy.predict(X) == model.predict(X)).all()


def test_grid_search_over_own_and_other_parameters():
    grid = {"num_leaves": [3, 7], "num_iterations": [2, 6]}
    search = GridSearchCV(HornbeamClassifier(verbosity=-1), grid, cv=3).fit(X, np.array(["a", "b", "c"])[CODES3])
    assert search.best_estimator_.n_iter_ == search.best_params_["num_iterations"]
    assert search.best_score_ > 0.7


def test_pipeline_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), HornbeamRegressor(**{**QUIET, "n_estimators": 30}))
    pipeline.fit(X, NUMBER, hornbeamregressor__sample_weight=WEIGHT)
    assert pipeline.score(X, NUMBER) > 0.9
    pipeline.set_params(hornbeamregressor__eta=0.05)
    assert cross_val_score(pipeline, X, NUMBER, cv=3).min() > 0.3


@pytest.mark.parametrize("other", [{"scale_pos_weight": 2.0}, {"is_unbalance": True}], ids=str)
def test_two_weights_of_classes_are_refused(other):
    table, label = np.arange(40.0)[:, None], np.arange(40) % 2
    with pytest.raises(hb.ParameterError, match="both weigh the classes"):
        HornbeamClassifier(class_weight="balanced", verbosity=-1, n_estimators=1, **other).fit(table, label)

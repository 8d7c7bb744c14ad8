"""Functions, arguments and attributes as users of LightGBM and XGBoost call them."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.params.peer_arguments import PREDICT

RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(200, 4))
Y = (X[:, 0] + 0.5 * RANDOM.normal(size=200) > 0).astype(float)
PLAIN = {"objective": "binary", "num_leaves": 5, "verbosity": -1}


@pytest.fixture(scope="module")
def booster():
    return hb.train(PLAIN, hb.Dataset(X, label=Y), 3)


def logistic(scores, dataset):
    chance = 1.0 / (1.0 + np.exp(-scores))
    return chance - dataset.get_label(), chance * (1.0 - chance)


# --- what is taken --------------------------------------------------------------------------------------------------


def test_names_of_arguments_of_a_dataset():
    names = ["a", "b", "c", "d"]
    ours = hb.Dataset(X > 0, label=Y, init_score=X[:, 1], feature_names=names, categorical_features=[2], max_bin=7)
    theirs = hb.Dataset(
        X > 0, label=Y, base_margin=X[:, 1], feature_name=names, categorical_feature=["c"], params={"max_bin": 7},
        free_raw_data=False, missing=np.nan, enable_categorical=True,
    )  # fmt: skip
    assert hb.train(PLAIN, ours, 2).fingerprint() == hb.train(PLAIN, theirs, 2).fingerprint()
    assert theirs.feature_name == theirs.get_feature_name() == names
    with pytest.raises(hb.ParameterError, match=r"feature_name= and feature_names=.*give one"):
        hb.Dataset(X, feature_names=names, feature_name=names)


def test_parameters_of_a_dataset_come_as_a_dict():
    assert hb.Dataset(X, params={"max_bins": 15, "num_leaves": 3, "verbosity": -1}).bin_params.max_bin == 15
    by_dict = hb.Dataset(X > 0, params={"categorical_feature": "0,2"})
    assert by_dict.categorical_features == [0, 2]
    with pytest.raises(hb.DataError, match=r"max_bin=7, but params has max_bin=9"):
        hb.Dataset(X, max_bin=7, params={"max_bin": 9})


def test_fields_can_be_asked_for_and_set():
    data = hb.Dataset(X)
    assert (data.get_label(), data.get_weight(), data.get_group(), data.get_init_score()) == (None,) * 4
    data.set_label(Y).set_group([50, 150]).set_weight([1.0, 2.0]).set_init_score(X[:, 0])
    made = hb.Dataset(X, label=Y, group=[50, 150], weight=[1.0, 2.0], init_score=X[:, 0])
    for field in ("label", "weight", "group", "init_score"):
        np.testing.assert_array_equal(data.get_field(field), made.get_field(field))
    again = hb.Dataset(X)
    for field in ("label", "group", "weight", "init_score"):
        again.set_field(field, data.get_group() if field == "group" else data.get_field(field))
    prints = {hb.train(PLAIN, one, 2).fingerprint() for one in (data, made, again)}
    assert len(prints) == 1
    assert (data.num_data(), data.num_feature(), data.get_data() is X) == (200, 4, True)
    assert hb.Dataset(X, init_score=X[:, :2]).get_init_score().shape == (200, 2)
    for call in (
        lambda: data.set_label(Y[:5]),
        lambda: data.set_weight(-Y - 1),
        lambda: data.get_field("wait"),
        lambda: data.set_field("wait", Y),
    ):
        with pytest.raises(hb.DataError, match=r"label|weight|field"):
            call()


def test_queries_are_set_by_size_and_got_by_their_boundaries():
    lightgbm = pytest.importorskip("lightgbm")
    for library in (lightgbm, hb):
        data = library.Dataset(X, label=Y).construct()
        assert data.get_field("group") is None
        data.set_field("group", [50, 150])
        assert data.get_field("group").tolist() == [0, 50, 200]
        assert data.get_group().tolist() == [50, 150]


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("constructed", [True, False])
@pytest.mark.parametrize("field", ["weight", "group", "init_score"])
def test_fields_that_are_set_to_none_are_taken_away(field, constructed, by_name):
    values = {"weight": Y + 1.0, "group": [50, 150], "init_score": X[:, 0]}
    data = hb.Dataset(X, label=Y, **{field: values[field]})
    if constructed:
        data.construct()
    set_field = getattr(data, f"set_{field}")
    assert (data.set_field(field, None) if by_name else set_field(None)) is data
    assert data.get_field(field) is None and getattr(data, f"get_{field}")() is None and data.query_boundaries is None
    np.testing.assert_array_equal(data.label, Y)
    assert hb.train(PLAIN, data, 2).fingerprint() == hb.train(PLAIN, hb.Dataset(X, label=Y), 2).fingerprint()


def test_labels_that_are_set_to_none_are_missed_in_training():
    with pytest.raises(hb.DataError, match="label"):
        hb.train(PLAIN, hb.Dataset(X, label=Y).set_label(None), 2)


def test_labels_of_a_target_encoded_dataset_stay():
    levels = pd.DataFrame({"a": np.arange(200) % 50})
    data = hb.Dataset(levels, label=Y, categorical_features=["a"], target_encoding_levels=3, min_data_in_bin=1)
    with pytest.raises(hb.DataError, match="make a new one"):
        data.construct().set_label(1 - Y)


def test_validation_sets_and_parts_of_a_dataset():
    data = hb.Dataset(X, label=Y, weight=Y + 1)
    by_place = hb.Dataset(X[:50], Y[:50], data)
    assert by_place.reference is data and data.create_valid(X[:50], Y[:50]).reference is data
    part = data.subset([5, 3, 9])
    np.testing.assert_array_equal(part.weight, data.weight[[5, 3, 9]])
    with pytest.raises(hb.DataError, match="used_indices must hold row numbers"):
        data.subset([200])


@pytest.mark.parametrize("binned", [True, False])
def test_parameters_of_validation_sets_and_parts_agree_with_those_of_the_dataset(binned):
    params = {"max_bin": 7, "num_leaves": 3, "verbosity": -1}
    data = hb.Dataset(X, label=Y, params=params)
    if binned:
        data.construct()
    for same in (None, {}, params, {"num_leaves": 9, "verbosity": -1}):
        assert data.create_valid(X[:50], Y[:50], params=same).bin_params.max_bin == 7
        assert data.subset([5, 3, 9], params=same).bin_params.max_bin == 7
    assert data.subset([5, 3, 9], params={"min_data_in_bin": 1}).bin_params.min_data_in_bin == 1
    with pytest.raises(hb.DataError, match="max_bin=9 together with reference"):
        data.create_valid(X[:50], Y[:50], params={"max_bin": 9})
    with pytest.raises(hb.DataError, match="max_bin=7, but params has max_bin=9"):
        data.subset([5, 3, 9], params={"max_bin": 9})
    assert data.create_valid(X[:50], Y[:50], position=None).n_rows == 50
    assert (data.create_valid(X[:50], Y[:50], position=np.arange(50)).get_position() == np.arange(50)).all()


def test_validation_sets_come_as_pairs_and_names_by_position(booster):
    data, other = hb.Dataset(X, label=Y), hb.Dataset(X[:50], label=Y[:50])
    params = {**PLAIN, "metric": "auc"}
    for arguments in (
        {"evals": [(data, "train"), (other, "eval")]},
        {"valid_sets": [(data, "train"), (other, "eval")]},
    ):
        assert list(hb.train(params, data, 3, **arguments).eval_history) == ["train", "eval"]
    assert list(hb.train(params, data, 3, [(other, "eval")]).eval_history) == ["eval"]
    assert list(hb.train(params, data, 3, [other], ["mine"]).eval_history) == ["mine"]
    more = hb.train(PLAIN, data, 3, xgb_model=booster)
    assert more.fingerprint() == hb.train(PLAIN, data, 3, init_model=booster).fingerprint()
    assert hb.train(params=PLAIN, dtrain=data, num_boost_round=3).fingerprint() == booster.fingerprint()
    assert hb.cv(PLAIN, dtrain=data, num_boost_round=2) == hb.cv(PLAIN, data, 2)
    with pytest.raises(hb.ParameterError, match="give names once"):
        hb.train(params, data, 3, [(other, "eval")], ["mine"])


def test_objective_and_metric_functions_ask_for_labels():
    def error(predictions, dataset):
        return "error", float(np.mean(dataset.get_label() != (predictions > 0))), False

    data = hb.Dataset(X, label=Y)
    model = hb.train({**PLAIN, "objective": logistic}, data, 3, [data], custom_metric=error)
    assert model.eval_history["training"]["error"][-1] < 0.3


def test_a_model_is_saved_and_loaded_by_lightgbms_names(tmp_path, booster):
    assert booster.save_model(tmp_path / "m") is booster
    for found in (
        hb.Booster(model_file=tmp_path / "m"),
        hb.Booster(model_str=booster.model_to_string()),
        pickle.loads(pickle.dumps(booster)),
    ):
        assert found.fingerprint() == booster.fingerprint()
    booster.save_model(tmp_path / "two", num_iteration=2)
    assert hb.load(tmp_path / "two").fingerprint() == booster[:2].fingerprint()
    assert hb.Booster(model_str=booster.model_to_string(2)).current_iteration() == 2
    booster.save_model(tmp_path / "last", num_iteration=2, start_iteration=1, importance_type="gain")
    part = hb.load(tmp_path / "last")
    np.testing.assert_array_equal(part.predict(X), booster.predict(X, start_iteration=1, num_iteration=2))
    assert not part.init_scores.any() and part.n_iterations == 2
    for choice in ({"start_iteration": 1}, {"start_iteration": 1, "num_iteration": -1}, {"start_iteration": 2}):
        part = hb.Booster(model_str=booster.model_to_string(**choice))
        np.testing.assert_array_equal(part.predict(X), booster.predict(X, **choice))
    with pytest.raises(hb.ParameterError, match="start_iteration=-1"):
        booster.save_model(tmp_path / "none", start_iteration=-1)
    with pytest.raises(hb.ParameterError, match="one of model_file and model_str"):
        hb.Booster(model_file="a", model_str="b")


def test_iterations_that_are_saved_end_at_the_best_one_as_predictions_do():
    params = {**PLAIN, "learning_rate": 0.9, "early_stopping_round": 2}
    model = hb.train(params, hb.Dataset(X[:100], label=Y[:100]), 50, [hb.Dataset(X[100:], label=Y[100:])])
    assert 1 < model.best_iteration < model.n_iterations
    part = hb.Booster(model_str=model.model_to_string(start_iteration=1))
    np.testing.assert_array_equal(part.predict(X), model.predict(X, start_iteration=1))
    assert part.n_iterations == model.best_iteration - 1
    assert hb.Booster(model_str=model.model_to_string()).fingerprint() == model.fingerprint()


def test_predictions_and_refits_by_the_peers_names(booster):
    raw = booster.predict(X, raw_score=True)
    np.testing.assert_array_equal(
        booster.predict(X, output_margin=True, pred_contrib=False, validate_features=True), raw
    )
    assert booster.refit(X, Y, 0.5).fingerprint() == booster.refit(X, Y, decay_rate=0.5).fingerprint()
    np.testing.assert_array_equal(booster.predict(hb.Dataset(X)), booster.predict(X))


ALIASES = [(name, ours) for name, ours in PREDICT.items() if isinstance(ours, str)]


@pytest.mark.parametrize(("name", "ours"), ALIASES)
@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova"])
def test_estimators_predict_alike_by_either_name(objective, name, ours):
    labels = Y if objective == "binary" else RANDOM.integers(0, 3, 200)
    small = {"n_estimators": 2, "num_leaves": 5, "verbosity": -1}
    classifier = hb.HornbeamClassifier(objective=objective, **small).fit(X, labels)
    for predict in (
        classifier.predict,
        classifier.predict_proba,
        hb.HornbeamRegressor(objective="poisson", **small).fit(X, Y).predict,
        hb.HornbeamRanker(**small).fit(X, Y, group=[50, 150]).predict,
    ):
        yes, no = (1, 0) if ours == "num_threads" else (True, False)
        np.testing.assert_array_equal(predict(X, **{name: yes}), predict(X, **{ours: yes}))
        np.testing.assert_array_equal(predict(X, **{name: no}), predict(X))
        with pytest.raises(hb.ParameterError, match="two names of one argument"):
            predict(X, **{name: yes, ours: yes})
    np.testing.assert_array_equal(
        classifier.predict(X, output_margin=True), classifier.booster_.predict(X, raw_score=True)
    )


def test_validation_sets_come_as_tables_and_targets():
    model = hb.HornbeamClassifier(n_estimators=3, verbose=-1)
    expected = model.fit(X, Y, eval_set=[(X[:90], Y[:90]), (X, Y)]).evals_result_
    assert set(expected) == {"valid_0", "training"}
    assert model.fit(X, Y, eval_X=(X[:90], X), eval_y=(Y[:90], Y)).evals_result_ == expected
    assert model.fit(X, Y, eval_X=X[:90], eval_y=Y[:90]).evals_result_ == {"valid_0": expected["valid_0"]}
    ranker = hb.HornbeamRanker(n_estimators=2, verbose=-1)
    ranked = ranker.fit(X, Y, group=[50, 150], eval_X=X[:90], eval_y=Y[:90], eval_group=[[90]]).evals_result_
    assert ranked == ranker.fit(X, Y, group=[50, 150], eval_set=[(X[:90], Y[:90])], eval_group=[[90]]).evals_result_
    for wrong in (
        {"eval_X": X},
        {"eval_y": Y},
        {"eval_X": (X, X), "eval_y": (Y,)},
        {"eval_X": X, "eval_y": Y, "eval_set": [(X, Y)]},
    ):
        with pytest.raises(hb.DataError, match="eval_X and eval_y"):
            model.fit(X, Y, **wrong)


def test_estimators_take_what_the_peers_take():
    frame = pd.DataFrame({"a": X[:, 0], "b": RANDOM.integers(0, 5, 200)})
    by_fit = hb.HornbeamClassifier(n_estimators=3, verbose=-1).fit(frame, Y, categorical_feature=["b"])
    by_name = hb.HornbeamClassifier(n_estimators=3, categorical_feature=["b"], verbose=-1).fit(frame, Y)
    assert by_fit.booster_.fingerprint() == by_name.booster_.fingerprint()
    assert by_fit.booster_.levels[1] is not None
    named = hb.HornbeamRegressor(n_estimators=2).fit(
        X, Y, feature_name=list("abcd"), base_margin=X[:, 0], verbose=False
    )
    assert (named.feature_name_, named.n_features_, named.n_estimators_) == (list("abcd"), 4, 2)
    assert named.objective_ == "regression"
    words = np.array([["red", 1.0], ["blue", 2.0]] * 100, object)
    model = hb.HornbeamRegressor(n_estimators=2, min_child_samples=1).fit(words, Y, categorical_feature=[0])
    assert model.predict(words).shape == (200,)


def test_softmax_of_xgboost_is_what_a_classifier_predicts():
    labels = np.array(["a", "b", "c"])[RANDOM.integers(0, 3, 200)]
    ours, theirs = (
        hb.HornbeamClassifier(n_estimators=2, objective=objective).fit(X, labels)
        for objective in ("multiclass", "multi:softmax")
    )
    assert theirs.booster_.fingerprint() == ours.booster_.fingerprint()
    with pytest.raises(hb.ParameterError, match="returns classes anyway"):
        hb.HornbeamClassifier(n_estimators=2, predict_classes=True).fit(X, labels)


def test_validation_sets_have_class_weights():
    labels = np.where(Y > 0, "yes", "no")
    few = np.r_[0:200][(labels == "yes") | (np.arange(200) % 4 == 0)]
    fitted = hb.HornbeamClassifier(n_estimators=2).fit(
        X, labels, eval_set=[(X[few], labels[few])] * 3, eval_class_weight=["balanced", {"yes": 2.0, "no": 1.0}, None]
    )
    by_hand = hb.HornbeamClassifier(n_estimators=2).fit(
        X, labels, eval_set=[(X[few], labels[few])], eval_sample_weight=[np.where(labels[few] == "yes", 2.0, 1.0)]
    )
    values = [fitted.evals_result_[f"valid_{i}"]["binary_logloss"][-1] for i in range(3)]
    assert len(set(values)) == 3
    assert values[1] == by_hand.evals_result_["valid_0"]["binary_logloss"][-1]
    with pytest.raises(hb.ParameterError, match="has no classes"):
        hb.HornbeamRegressor(n_estimators=2).fit(X, Y, eval_set=[(X[few], Y[few])], eval_class_weight=["balanced"])


def test_signatures_stay_those_of_the_functions():
    assert "valid_sets" in inspect.signature(hb.train).parameters
    assert "evals" not in inspect.signature(hb.train).parameters
    fit = inspect.signature(hb.HornbeamClassifier.fit).parameters
    assert "eval_set" in fit and "verbose" not in fit


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"learning_rates": [0.1]}, ["reset_parameter"]),
        ({"categorical_feature": [1]}, ["Dataset"]),
    ],
)
def test_arguments_of_train_that_say_what_to_type(arguments, words):
    with pytest.raises(hb.ParameterError) as raised:
        hb.train(PLAIN, hb.Dataset(X, label=Y), 2, **arguments)
    for word in (next(iter(arguments)), *words):
        assert word in str(raised.value)


def test_arguments_that_ask_for_nothing_are_taken():
    data = hb.Dataset(X, label=Y)
    idle = {
        "verbose_eval": False,
        "early_stopping_rounds": None,
        "keep_training_booster": False,
        "feature_name": "auto",
    }
    assert hb.train(PLAIN, data, 2, **idle).n_iterations == 2
    assert hb.cv(PLAIN, data, 2, nfold=2, verbose_eval=None, as_pandas=False)
    booster = hb.train(PLAIN, data, 2)
    assert (booster.predict(X, iteration_range=(0, 0)) == booster.predict(X)).all()
    with pytest.raises(TypeError, match="no_such"):
        hb.train(PLAIN, data, 2, no_such=1)


def test_other_functions_say_what_to_type(booster):
    data = hb.Dataset(X, label=Y)
    for call, word in (
        (lambda: hb.cv(PLAIN, data, 2, as_pandas=True), "pandas.DataFrame"),
        (lambda: hb.Dataset(X, missing=-1.0), "NaN"),
        (lambda: hb.HornbeamClassifier(feature_types="c").fit(X, Y), "categorical_feature"),
        (lambda: hb.HornbeamClassifier(importance_type="much").fit(X, Y).feature_importances_, "'split' (XGBoost"),
        (lambda: hb.HornbeamClassifier().fit(X, Y, early_stopping_rounds=3), "constructor"),
    ):
        with pytest.raises(hb.ParameterError) as raised:
            call()
        assert word in str(raised.value)


def test_attributes_that_are_not_there_name_those_that_are(booster):
    for thing, name, word in (
        (booster, "num_class", "n_outputs"),
        (hb.HornbeamClassifier(), "coef_", "feature_importances_"),
        (hb, "DeviceQuantileDMatrix", "QuantileDMatrix"),
        (hb, "HornbeamRFRegressor", "XGBRFRegressor"),
    ):
        with pytest.raises(AttributeError, match=word):
            getattr(thing, name)
        assert not hasattr(thing, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = booster.nothing


def test_predict_takes_what_scripts_pass_along(booster):
    X = np.random.default_rng(0).normal(size=(9, booster.n_features))
    assert np.array_equal(booster.predict(X, n_jobs=1, verbose=-1), booster.predict(X))
    wide = np.column_stack([X, X])
    assert np.array_equal(booster.predict(wide, predict_disable_shape_check=True), booster.predict(X))


def test_contributions_that_may_be_approximate_are_exact(booster, caplog):
    model = hb.HornbeamRegressor(n_estimators=3).fit(X, Y)
    for one, exact in ((booster, booster.predict(X, pred_contrib=True)), (model, model.predict(X, pred_contrib=True))):
        caplog.clear()
        assert np.array_equal(one.predict(X, pred_contrib=True, approx_contribs=True), exact)
        assert [record.message.partition(": ")[0] for record in caplog.records] == ["approx_contribs=True"]
        caplog.clear()
        one.predict(X, pred_contrib=True, approx_contribs=False)
        assert not caplog.records


def test_the_held_out_part_of_cv_has_xgboosts_name_too():
    X = np.random.default_rng(0).normal(size=(300, 3))
    data = hb.DMatrix(X, label=(X[:, 0] > 0.0).astype(float))
    params = {"objective": "binary:logistic", "eval_metric": "error", "max_depth": 2, "verbosity": -1}
    stopping = hb.callback.EarlyStopping(rounds=2, metric_name="error", data_name="test")
    assert len(hb.cv(params, data, 30, callbacks=[stopping])["test-error-mean"]) < 30

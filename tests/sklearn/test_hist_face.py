"""Estimators as users of scikit-learn's HistGradientBoosting call them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, mean_pinball_loss

import hornbeam as hb
from hornbeam import HornbeamClassifier, HornbeamRegressor

RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(400, 4))
NUMBER = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * RANDOM.normal(size=400)
LABEL = np.where(NUMBER > 0, "yes", "no")
CLASSES = np.array(["a", "b", "c"])[np.clip(np.floor(NUMBER + 1.5), 0, 2).astype(int)]
SMALL = {"max_leaf_nodes": 5, "verbosity": -1, "device": "reference"}


def prints(model):
    return model.booster_.fingerprint()


# --- decisions and stages -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["two", "three", "ova"])
def classifier(request):
    target = LABEL if request.param == "two" else CLASSES
    kind = {"objective": "multiclassova"} if request.param == "ova" else {}
    return HornbeamClassifier(max_iter=4, **SMALL, **kind).fit(X, target)


def test_decisions_are_raw_scores_of_scikit_learns_shape(classifier):
    theirs = HistGradientBoostingClassifier(max_iter=2).fit(X, LABEL if classifier.n_classes_ == 2 else CLASSES)
    decision = classifier.decision_function(X)
    assert decision.shape == theirs.decision_function(X).shape
    np.testing.assert_array_equal(decision, classifier.predict(X, raw_score=True))
    chosen = (decision > 0).astype(int) if decision.ndim == 1 else decision.argmax(axis=1)
    np.testing.assert_array_equal(classifier.classes_[chosen], classifier.predict(X))


def test_a_decision_of_two_classes_is_one_number_a_row():
    model = HornbeamClassifier(max_iter=3, objective="multiclass", **SMALL).fit(X, LABEL)
    decision = model.decision_function(X)
    assert decision.shape == (400,)
    np.testing.assert_array_equal(model.classes_[(decision > 0).astype(int)], model.predict(X))


def test_stages_are_the_predictions_with_fewer_iterations(classifier):
    stages = [list(stage(X)) for stage in (
        classifier.staged_predict, classifier.staged_predict_proba, classifier.staged_decision_function,
    )]  # fmt: skip
    assert [len(stage) for stage in stages] == [4, 4, 4]
    for number in range(1, 5):
        chances = classifier.predict_proba(X, num_iteration=number)
        np.testing.assert_array_equal(stages[0][number - 1], classifier.predict(X, num_iteration=number))
        np.testing.assert_array_equal(stages[1][number - 1], chances)
    np.testing.assert_array_equal(stages[2][-1], classifier.decision_function(X))


@pytest.mark.parametrize("more", [{}, {"boosting_type": "rf", "subsample_freq": 1, "subsample": 0.5}])
def test_stages_of_a_regressor(more):
    model = HornbeamRegressor(max_iter=3, **SMALL, **more).fit(X, NUMBER)
    for number, stage in enumerate(model.staged_predict(X), 1):
        np.testing.assert_array_equal(stage, model.predict(X, num_iteration=number))
    assert number == 3
    theirs = HistGradientBoostingRegressor(max_iter=3).fit(X, NUMBER)
    assert [stage.shape for stage in model.staged_predict(X)] == [stage.shape for stage in theirs.staged_predict(X)]


# --- early stopping -------------------------------------------------------------------------------------------------


def test_rows_are_held_out_and_end_the_training():
    stopping = {"early_stopping": True, "n_iter_no_change": 3, "validation_fraction": 0.25, "random_state": 1}
    noise = RANDOM.normal(size=400)
    for kind, peer in ((HornbeamRegressor, HistGradientBoostingRegressor),):
        ours, theirs = (
            kind(max_iter=200, **SMALL, **stopping).fit(X, noise),
            peer(max_iter=200, **stopping).fit(X, noise),
        )
        assert ours.do_early_stopping_ and theirs.do_early_stopping_
        assert 4 <= ours.n_iter_ < 30 and theirs.n_iter_ < 30
        assert ours.n_iter_ == ours.best_iteration_
        for model in (ours, theirs):
            assert len(model.validation_score_) == len(model.train_score_) == model.n_iter_ + 1
        # the loss of the peer is half of the square; its rows are others
        np.testing.assert_allclose(ours.train_score_[0], 2 * theirs.train_score_[0], rtol=0.2)
    again = HornbeamRegressor(max_iter=200, **SMALL, **stopping).fit(X, noise)
    assert prints(again) == prints(ours)


def test_training_ends_by_scikit_learns_rule():
    model = HornbeamRegressor(max_iter=100, early_stopping=True, n_iter_no_change=4, tol=0.01, **SMALL).fit(X, NUMBER)
    scores = model.validation_score_.tolist()[1:]
    for length in range(1, len(scores) + 1):
        seen = scores[:length]
        stops = length > 4 and not any(score > seen[-5] + 0.01 for score in seen[-4:])
        assert stops == (length == len(scores))


def test_classes_are_held_out_in_their_shares():
    target = np.where(np.arange(400) % 20 == 0, "rare", "common")
    model = HornbeamClassifier(
        max_iter=3, early_stopping=True, validation_fraction=40, scoring=None, **SMALL
    ).fit(X, target, sample_weight=np.ones(400))  # fmt: skip
    assert model.booster_.trees[0].split_count[0] == 360
    assert (model.validation_score_[1:] >= 0.9).all()  # two of forty rows are of the rare class


@pytest.mark.parametrize("scoring", ["accuracy", None, lambda model, X, y: accuracy_score(y, model.predict(X))])
def test_any_score_may_decide(scoring):
    model = HornbeamClassifier(max_iter=60, early_stopping=True, scoring=scoring, n_iter_no_change=2, **SMALL)
    model.fit(X, LABEL)
    assert model.n_iter_ < 60
    held_out = 40
    assert np.allclose(model.validation_score_ * held_out, np.rint(model.validation_score_ * held_out))


def test_the_training_rows_may_decide():
    model = HornbeamRegressor(max_iter=5, early_stopping=True, validation_fraction=None, **SMALL).fit(X, NUMBER)
    plain = HornbeamRegressor(max_iter=5, **SMALL).fit(X, NUMBER)
    assert model.n_iter_ == 5
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_allclose(-model.validation_score_[-1], np.mean((model.predict(X) - NUMBER) ** 2))
    np.testing.assert_allclose(model.validation_score_, model.train_score_)


def test_few_rows_are_not_held_out_unless_asked_for():
    plain = HornbeamRegressor(max_iter=4, **SMALL).fit(X, NUMBER)
    for choice in ({"early_stopping": "auto"}, {"early_stopping": False}, {"tol": 0.1}, {"validation_fraction": 0.2}):
        model = HornbeamRegressor(max_iter=4, **SMALL, **choice).fit(X, NUMBER)
        assert prints(model) == prints(plain) and not model.do_early_stopping_ and len(model.validation_score_) == 0
    many, target = np.repeat(X, 26, axis=0)[:10_001], np.repeat(NUMBER, 26)[:10_001]
    assert HornbeamRegressor(max_iter=1, early_stopping="auto", **SMALL).fit(many, target).do_early_stopping_


def test_validation_rows_may_be_given():
    part, target = X[:300], NUMBER[:300]
    model = HornbeamRegressor(max_iter=80, early_stopping=True, n_iter_no_change=2, **SMALL)
    model.fit(part, target, X_val=X[300:], y_val=NUMBER[300:], sample_weight_val=np.ones(100))
    assert model.booster_.trees[0].split_count[0] == 300 and model.n_iter_ < 80
    score = -np.mean((model.predict(X[300:]) - NUMBER[300:]) ** 2)
    assert model.validation_score_[-1] == pytest.approx(score)
    with pytest.raises(hb.DataError, match="eval_X and eval_y"):
        model.fit(part, target, X_val=X[300:])


def test_lightgbms_early_stopping_is_a_number():
    model = HornbeamRegressor(max_iter=100, early_stopping=3, **SMALL)
    with pytest.raises(hb.ParameterError, match="eval_set"):
        model.fit(X, NUMBER)
    fitted = model.fit(X[:300], NUMBER[:300], eval_set=[(X[300:], NUMBER[300:])])
    assert fitted.best_iteration_ < fitted.n_iter_


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        ({"tol": -1.0}, "tol"),
        ({"n_iter_no_change": 0}, "n_iter_no_change"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"scoring": "no_such"}, "scoring"),
        ({"warm_start": "yes"}, "warm_start"),
    ],
)
def test_choices_that_cannot_be_are_refused(choice, word):
    with pytest.raises(hb.ParameterError, match=word):
        HornbeamRegressor(early_stopping=True, **SMALL, **choice).fit(X, NUMBER)


def test_rows_are_not_held_out_of_files(tmp_path):
    path = tmp_path / "train.csv"
    pd.DataFrame({"y": NUMBER, "a": X[:, 0]}).to_csv(path, index=False)
    with pytest.raises(hb.DataError, match="X_val"):
        HornbeamRegressor(early_stopping=True, **SMALL).fit(str(path), "y")


# --- other parameters -----------------------------------------------------------------------------------------------


def test_a_warm_start_goes_on_to_the_number_of_iterations():
    model = HornbeamRegressor(max_iter=2, warm_start=True, **SMALL).fit(X, NUMBER)
    model.set_params(max_iter=5).fit(X, NUMBER)
    whole = HornbeamRegressor(max_iter=5, **SMALL).fit(X, NUMBER)
    assert model.n_iter_ == 5 and prints(model) == prints(whole)
    with pytest.raises(hb.ParameterError, match="5 iterations"):
        model.set_params(max_iter=3).fit(X, NUMBER)
    assert model.set_params(max_iter=3, warm_start=False).fit(X, NUMBER).n_iter_ == 3


def test_quantiles_are_called_so():
    ours = HornbeamRegressor(loss="quantile", quantile=0.9, max_iter=3, **SMALL).fit(X, NUMBER)
    assert prints(ours) == prints(HornbeamRegressor(loss="quantile", alpha=0.9, max_iter=3, **SMALL).fit(X, NUMBER))


def test_no_limit_of_leaves_is_none():
    choice = {"max_leaf_nodes": None, "max_depth": 6, "min_samples_leaf": 1, "max_iter": 1, "device": "reference"}
    ours = HornbeamRegressor(verbosity=-1, **choice).fit(X, NUMBER)
    assert ours.booster_.trees[0].n_leaves > 31


def test_categories_are_named_by_masks_and_by_types():
    table = np.column_stack([X[:, 0], RANDOM.integers(0, 4, 400), X[:, 1]])
    by_place = HornbeamRegressor(max_iter=2, categorical_features=[1], **SMALL).fit(table, NUMBER)
    for mask in ([False, True, False], np.array([False, True, False])):
        by_mask = HornbeamRegressor(max_iter=2, categorical_features=mask, **SMALL).fit(table, NUMBER)
        assert prints(by_mask) == prints(by_place)
    frame = pd.DataFrame({"a": X[:, 0], "c": pd.Categorical(RANDOM.integers(0, 3, 400))})
    by_type = HornbeamRegressor(max_iter=2, categorical_features="from_dtype", **SMALL).fit(frame, NUMBER)
    assert prints(by_type) == prints(HornbeamRegressor(max_iter=2, **SMALL).fit(frame, NUMBER))
    with pytest.raises(hb.DataError, match="a mask of 2 entries"):
        HornbeamRegressor(max_iter=2, categorical_features=[False, True], **SMALL).fit(table, NUMBER)
    data = hb.Dataset(table, NUMBER, categorical_features=[False, True, False])
    assert data.categorical_features == [1]
    assert hb.Dataset(frame, NUMBER, categorical_features="from_dtype").categorical_features == [1]


# --- parameters and attributes ---------------------------------------------------------------------------------------


def test_parameters_are_attributes_by_any_of_their_names():
    model = HornbeamClassifier(max_iter=7, gamma=0.1, tree_method="exact", eval_metric=["auc"])
    assert (model.max_iter, model.gamma, model.tree_method, model.eval_metric) == (7, 0.1, "exact", ["auc"])
    assert (model.num_iterations, model.max_leaf_nodes, model.lambda_l1) == (7, 31, 0.0)
    assert model.set_params(max_iter=9).max_iter == 9
    assert HornbeamClassifier(n_estimators=5).max_iter == 5
    assert HornbeamClassifier(n_iter_no_change=4).n_iter_no_change == 4
    assert not hasattr(model, "n_iter_no_change")
    theirs = HistGradientBoostingClassifier()
    for name in ("warm_start", "scoring", "tol", "validation_fraction"):
        assert getattr(HornbeamClassifier(), name) == getattr(theirs, name)
    assert HornbeamClassifier(tol=0.1).tol == 0.1
    with pytest.raises(AttributeError, match="no attribute 'max_itre'"):
        _ = model.max_itre
    assert not hasattr(model, "booster_")


def test_class_weights_go_with_rows_held_out():
    model = HornbeamClassifier(max_iter=3, class_weight="balanced", early_stopping=True, **SMALL).fit(X, LABEL)
    assert len(model.validation_score_) == model.n_iter_ + 1


@pytest.mark.parametrize("scoring", ["loss", "roc_auc"])
def test_scores_of_training_and_validation_begin_before_the_first_iteration(scoring):
    keep = {"early_stopping": True, "n_iter_no_change": 50, "scoring": scoring, "random_state": 0, **SMALL}
    model = HornbeamClassifier(max_iter=3, warm_start=True, **keep).fit(X, LABEL)
    first = model.validation_score_
    assert first.shape == model.train_score_.shape == (4,)
    if scoring == "roc_auc":
        assert first[0] == model.train_score_[0] == 0.5
    else:
        share = np.mean(LABEL == "yes")  # which is kept among the rows held out
        entropy = share * np.log(share) + (1 - share) * np.log(1 - share)
        np.testing.assert_allclose([first[0], model.train_score_[0]], entropy, rtol=0.02)
    model.set_params(max_iter=5).fit(X, LABEL)
    assert model.validation_score_.shape == model.train_score_.shape == (6,)
    np.testing.assert_array_equal(model.validation_score_[:4], first)
    assert model.train_score_[-1] > model.train_score_[0]


def test_fitted_attributes_are_those_of_the_peer():
    theirs = HistGradientBoostingClassifier(max_iter=2, categorical_features=[1]).fit(np.abs(X).round(), CLASSES)
    ours = HornbeamClassifier(max_iter=2, categorical_features=[1], **SMALL).fit(np.abs(X).round(), CLASSES)
    assert ours.n_trees_per_iteration_ == theirs.n_trees_per_iteration_ == 3
    assert ours.is_categorical_.tolist() == theirs.is_categorical_.tolist()
    assert HornbeamRegressor(max_iter=2, **SMALL).fit(X, NUMBER).is_categorical_ is None


def test_leaves_and_parameters_are_there_by_xgboosts_names():
    model = HornbeamRegressor(max_iter=3, **SMALL)
    assert not model.fitted_
    model.fit(X, NUMBER)
    assert model.fitted_
    assert np.array_equal(model.apply(X), model.predict(X, pred_leaf=True))
    assert model.apply(X, iteration_range=(0, 2)).shape == (400, 2)
    assert hb.train(model.get_xgb_params(), hb.Dataset(X, NUMBER), 3).fingerprint() == model.booster_.fingerprint()
    splits = model.feature_importances_
    assert np.array_equal(model.set_params(importance_type="weight").feature_importances_, splits)


def test_contributions_of_a_classifier_come_in_xgboosts_shape():
    model = HornbeamClassifier(max_iter=2, **SMALL).fit(X, CLASSES)
    flat = model.predict(X, pred_contrib=True)
    assert np.array_equal(model.predict(X, pred_contribs=True), flat.reshape(400, 3, 5))


def test_parameters_are_set_as_attributes_by_any_name():
    model = HornbeamRegressor(max_iter=3, warm_start=True, **SMALL).fit(X, NUMBER)
    model.max_iter = 5
    assert model.fit(X, NUMBER).n_iter_ == 5
    model.l2_regularization = 2.0
    assert model.get_params()["l2_regularization"] == 2.0
    assert clone(model).l2_regularization == 2.0
    model.note = "mine"  # no parameter
    assert "note" not in model.get_params()


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_scores_of_a_quantile_are_of_that_quantile(level):
    choices = {"loss": "quantile", "quantile": level, "early_stopping": True, "n_iter_no_change": 50, "max_iter": 5}
    model = HornbeamRegressor(**choices, **SMALL).fit(X, NUMBER, X_val=X, y_val=NUMBER)
    stages = [np.full(len(X), model.booster_.init_scores[0]), *model.staged_predict(X)]
    expected = [-mean_pinball_loss(NUMBER, stage, alpha=level) for stage in stages]
    assert model.train_score_ == pytest.approx(expected) and model.validation_score_ == pytest.approx(expected)

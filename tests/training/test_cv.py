"""cv: the same training on several folds."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.model_selection import KFold

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like, make_multiclass

X, Y = make_higgs_like(300, 6)
BINARY = {"objective": "binary", "num_leaves": 7, "verbosity": -1}


def data(**options) -> hb.Dataset:
    return hb.Dataset(X, label=Y, **options)


def test_results_are_means_and_deviations_over_the_folds():
    folds = list(KFold(3).split(X))
    found = hb.cv(BINARY, data(), 4, folds, metrics=["auc", "binary_logloss"])
    boosters = []
    for train_rows, valid_rows in folds:
        train_set = hb.Dataset(X[train_rows], label=Y[train_rows])
        valid_set = hb.Dataset(X[valid_rows], label=Y[valid_rows])
        params = {**BINARY, "metric": ["auc", "binary_logloss"]}
        boosters.append(hb.train(params, train_set, 4, {"valid": valid_set}))
    assert set(found) == {f"valid {m}-{s}" for m in ("auc", "binary_logloss") for s in ("mean", "stdv")}
    for metric in ("auc", "binary_logloss"):
        values = np.array([booster.eval_history["valid"][metric] for booster in boosters])
        assert found[f"valid {metric}-mean"] == pytest.approx(values.mean(axis=0).tolist(), rel=1e-12)
        assert found[f"valid {metric}-stdv"] == pytest.approx(values.std(axis=0).tolist(), rel=1e-9)


def test_boosters_of_the_folds_are_those_of_train():
    folds = list(KFold(3).split(X))
    boosters = hb.cv(BINARY, data(), 3, folds, return_cvbooster=True)["cvbooster"].boosters
    for (train_rows, _), booster in zip(folds, boosters, strict=True):
        alone = hb.train(BINARY, hb.Dataset(X[train_rows], label=Y[train_rows]), 3)
        assert booster.fingerprint() == alone.fingerprint()


def test_weights_and_init_scores_go_with_their_rows():
    weight, start = np.linspace(0.5, 2.0, 300), np.sin(np.arange(300.0))
    folds = [(np.arange(200), np.arange(200, 300))]
    (booster,) = hb.cv(BINARY, data(weight=weight, init_score=start), 3, folds, return_cvbooster=True)[
        "cvbooster"
    ].boosters
    alone = hb.train(BINARY, hb.Dataset(X[:200], label=Y[:200], weight=weight[:200], init_score=start[:200]), 3)
    assert booster.fingerprint() == alone.fingerprint()


def test_data_parameters_of_the_dataset_go_with_the_folds():
    folds = [(np.arange(200), np.arange(200, 300))]
    (booster,) = hb.cv(BINARY, data(max_bin=7), 3, folds, return_cvbooster=True)["cvbooster"].boosters
    alone = hb.train(BINARY, hb.Dataset(X[:200], label=Y[:200], max_bin=7), 3)
    assert booster.fingerprint() == alone.fingerprint()


def test_folds_may_be_masks_or_a_splitter():
    mask = np.arange(300) < 100
    by_mask = hb.cv(BINARY, data(), 3, [(~mask, mask)])
    by_number = hb.cv(BINARY, data(), 3, [(np.arange(100, 300), np.arange(100))])
    assert by_mask == by_number
    assert hb.cv(BINARY, data(), 3, KFold(3)) == hb.cv(BINARY, data(), 3, list(KFold(3).split(X)))


def test_seed_names_the_folds():
    assert hb.cv(BINARY, data(), 3, seed=1) == hb.cv(BINARY, data(), 3, seed=1)
    assert hb.cv(BINARY, data(), 3, seed=1) != hb.cv(BINARY, data(), 3, seed=2)
    assert hb.cv(BINARY, data(), 3) == hb.cv(BINARY, data(), 3, seed=0)


def valid_labels(params, label, **options) -> list[np.ndarray]:
    seen = []

    def metric(predictions, dataset):
        seen.append(dataset.label)
        return "zero", 0.0, True

    hb.cv({**params, "metric": "none"}, hb.Dataset(X, label=label), 1, feval=metric, **options)
    return seen


@pytest.mark.parametrize("shuffle", [True, False])
def test_folds_cover_every_row_once(shuffle):
    parts = valid_labels({"verbosity": -1}, np.arange(300.0), nfold=7, shuffle=shuffle)
    assert len(parts) == 7
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    assert {len(part) for part in parts} <= {42, 43}


def test_stratified_folds_keep_the_share_of_each_class():
    label = (np.arange(300) < 30).astype(float)
    assert {part.sum() for part in valid_labels(BINARY, label, nfold=5)} == {6.0}
    assert {len(part) for part in valid_labels(BINARY, label, nfold=5)} == {60}


def squared(scores, dataset):
    return scores - dataset.get_label(), np.ones_like(scores)


def test_whole_numbers_are_classes_to_an_objective_function():
    label = np.repeat([0.0, 1.0, 2.0], [240, 57, 3])  # of a class of fewer rows than folds, too
    for part in valid_labels({"objective": squared, "verbosity": -1}, label, nfold=5):
        of_two, of_three = (int((part == own).sum()) for own in (1.0, 2.0))
        assert (len(part), (part == 0.0).sum()) == (60, 48) and of_two in (11, 12) and of_three in (0, 1)


@pytest.mark.parametrize("label", [np.arange(300.0), np.repeat([0.0, 0.5], 150)], ids=["too many", "not whole"])
def test_other_labels_are_no_classes_to_an_objective_function(label):
    params = {"objective": squared, "verbosity": -1}
    found, plain = (valid_labels(params, label, stratified=stratified) for stratified in (True, False))
    assert [part.tolist() for part in found] == [part.tolist() for part in plain]


def test_callbacks_see_means_and_deviations_as_in_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    records, fields = [], []
    for library in (lightgbm, hb):
        seen: list = []
        record: dict = {}

        def see(env, seen=seen):
            for name, metric, mean, higher_is_better, stdv in env.evaluation_result_list:
                seen.append((name, metric, mean, higher_is_better, stdv))

        params = {**BINARY, "metric": ["auc", "binary_logloss"]}
        train_set = library.Dataset(X, label=Y)
        found = library.cv(params, train_set, 3, callbacks=[see, library.record_evaluation(record)])
        for metric in ("auc", "binary_logloss"):
            for place, what in ((2, "mean"), (4, "stdv")):
                values = [entry[place] for entry in seen if entry[1] == metric]
                assert values == found[f"valid {metric}-{what}"] == record["valid"][f"{metric}-{what}"]
        records.append({name: {key: len(values) for key, values in own.items()} for name, own in record.items()})
        fields.append([(*entry[:2], entry[3]) for entry in seen])
    assert records[0] == records[1] and sorted(fields[0]) == sorted(fields[1])


def test_models_of_the_folds_are_asked_together(tmp_path):
    params = {**BINARY, "early_stopping_round": 3, "learning_rate": 0.9}
    models = hb.cv(params, data(), 60, nfold=3, return_cvbooster=True)["cvbooster"]
    gains = [booster.feature_importance("gain").tolist() for booster in models.boosters]
    assert [own.tolist() for own in models.feature_importance(importance_type="gain")] == gains
    assert models.num_trees() == [booster.num_trees() for booster in models.boosters]
    models.save_model(tmp_path / "folds.json")
    for again in (
        hb.CVBooster(model_file=tmp_path / "folds.json"),
        hb.CVBooster(model_str=models.model_to_string()),
        hb.CVBooster(model_str=models.model_to_string(2, importance_type="gain")),
        pickle.loads(pickle.dumps(models)),
        copy.deepcopy(models),
        copy.copy(models),
    ):
        whole = again.num_trees() == models.num_trees()
        expected = models.fingerprint() if whole else [booster[:2].fingerprint() for booster in models.boosters]
        assert again.fingerprint() == expected and again.best_iteration == models.best_iteration > 0
    with pytest.raises(AttributeError, match=r"'CVBooster' object has no attribute 'nothing'$"):
        models.nothing()
    with pytest.raises(hb.ParameterError, match="no training data"):
        models.update()
    with pytest.raises(hb.ModelFormatError, match="models of cv"):
        hb.CVBooster(model_str="{}")
    with pytest.raises(hb.ParameterError, match="one of boosters, model_file and model_str"):
        hb.CVBooster(models.boosters, model_str="{}")


def test_early_stopping_cuts_the_results_at_the_best_mean():
    params = {**BINARY, "learning_rate": 0.9, "early_stopping_round": 3}
    found = hb.cv(params, data(), 60, return_cvbooster=True)
    means = found["valid binary_logloss-mean"]
    full = hb.cv({**params, "early_stopping_round": 0}, data(), 30)["valid binary_logloss-mean"]
    assert means == full[: len(means)]
    assert means[-1] == min(full[: len(means) + 3])
    booster = found["cvbooster"]
    assert booster.best_iteration == len(means)
    assert [part.shape for part in booster.predict(X)] == [(300,)] * 5
    assert (
        booster.boosters[0].predict(X).tobytes() == booster.boosters[0].predict(X, num_iteration=len(means)).tobytes()
    )


def test_training_metrics_are_shown_but_do_not_steer():
    params = {**BINARY, "learning_rate": 0.9, "early_stopping_round": 3}
    plain = hb.cv(params, data(), 60)
    found = hb.cv(params, data(), 60, eval_train_metric=True)
    assert found["train binary_logloss-mean"][-1] < found["valid binary_logloss-mean"][-1]
    assert found["valid binary_logloss-mean"] == plain["valid binary_logloss-mean"]


def test_training_rows_never_stop_the_folds():
    calls = []

    def metric(predictions, dataset):  # ever worse on the training rows, ever better on the others
        calls.append(1)
        return "made up", float(-len(calls) if dataset.n_rows == 240 else len(calls)), True

    params = {**BINARY, "metric": "none", "early_stopping_round": 2}
    found = hb.cv(params, data(), 7, feval=metric, eval_train_metric=True)
    assert len(found["valid made up-mean"]) == 7


def test_schedules_and_functions_work_in_folds():
    found = hb.cv(
        BINARY,
        data(),
        2,
        feval=lambda predictions, dataset: ("size", len(predictions), True),
        callbacks=[hb.reset_parameter(learning_rate=[0.5, 0.25])],
        return_cvbooster=True,
    )
    assert found["valid size-mean"] == [60.0, 60.0]
    assert [tree.shrinkage for tree in found["cvbooster"].boosters[0].trees] == [0.5, 0.25]


def test_multiclass_and_regression_have_folds_too():
    X3, y3 = make_multiclass(300, 3, 6)
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_leaves": 4}
    assert len(hb.cv(params, hb.Dataset(X3, label=y3), 2)["valid multi_logloss-mean"]) == 2
    assert len(hb.cv({"verbosity": -1}, hb.Dataset(X3, label=y3), 2)["valid l2-mean"]) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"nfold": 1}, hb.ParameterError, "nfold"),
        ({"nfold": 301}, hb.ParameterError, "nfold"),
        ({"nfold": 2.5}, hb.ParameterError, "nfold"),
        ({"num_boost_round": 0}, hb.ParameterError, "num_boost_round"),
        ({"folds": [([0, 1], [300])]}, hb.DataError, "folds"),
        ({"folds": [([0, 1], [])]}, hb.DataError, "folds"),
        ({"folds": []}, hb.DataError, "folds is empty"),
        ({"folds": [([0.5], [1])]}, hb.DataError, "folds"),
    ],
    ids=str,
)
def test_impossible_folds_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        hb.cv(BINARY, data(), **{"num_boost_round": 2, **arguments})


@pytest.mark.parametrize(
    "params",
    [
        {"bagging_fraction": 0.6, "bagging_freq": 1},
        {"boosting": "dart", "drop_rate": 0.5},
        {"monotone_constraints": [1, 0, 0, 0, 0]},
        {"objective": "lambdarank", "metric": "ndcg@3"},
    ],
    ids=["bagging", "dart", "monotone", "ranking"],
)
def test_boosters_of_folds_are_those_of_train_in_other_modes(params):
    rng = np.random.default_rng(3)
    table = rng.normal(size=(240, 5))
    ranking = "objective" in params
    y = np.digitize(table[:, 0], [-0.5, 0.5]).astype(float) if ranking else table[:, 0] + 0.1 * rng.normal(size=240)
    sizes = np.full(24, 10)
    common = {"device": "cpu", "num_threads": 1, "verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 5, **params}
    test = np.arange(0, 80)
    fold = (np.arange(80, 240), test)
    found = hb.cv(
        common, hb.Dataset(table, label=y, group=sizes if ranking else None), 4, folds=[fold], return_cvbooster=True
    )
    alone = hb.Dataset(table[80:], label=y[80:], group=sizes[8:] if ranking else None)
    assert found["cvbooster"].boosters[0].fingerprint() == hb.train(common, alone, 4).fingerprint()
    values = next(value for name, value in found.items() if name.endswith("-mean"))
    assert len(values) == 4 and np.isfinite(values).all()

"""cv: what it shares with train (metric_freq, init_model, checkpoints), and which rows make the folds."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.random_choices import Purpose, random_bits, random_key
from hornbeam.testing.data import make_higgs_like

X, Y = make_higgs_like(240, 6)
BINARY = {"objective": "binary", "num_leaves": 5, "min_data_in_leaf": 10, "verbosity": -1, "device": "cpu"}
ROWS = np.arange(240)
FOLDS = [(np.flatnonzero(ROWS % 3 - k), np.arange(k, 240, 3)) for k in range(3)]


def data() -> hb.Dataset:
    return hb.Dataset(X, label=Y)


def parts_of(found) -> tuple[dict, list[str]]:
    """Return the history of a cv, and the fingerprints of its Boosters."""
    found = dict(found)
    return found, [booster.fingerprint() for booster in found.pop("cvbooster").boosters]


def labels_of_folds(params, label, **options) -> list[np.ndarray]:
    seen = []

    def metric(predictions, dataset):
        seen.append(dataset.label)
        return "zero", 0.0, True

    given = {"num_leaves": 3, "verbosity": -1, "device": "cpu", **params, "metric": "none"}
    hb.cv(given, hb.Dataset(X, label=label), 1, feval=metric, **options)
    return seen


@pytest.mark.parametrize(
    "params",
    [{"objective": "multiclassova", "num_class": 3}, {"objective": "focal"}, {"objective": "cross_entropy"}],
    ids=lambda params: params["objective"],
)
def test_stratified_folds_keep_the_share_of_each_class_for_every_objective_of_classes(params):
    label = (ROWS < 30).astype(float)
    if "num_class" in params:
        label[30:60] = 2.0
    for part in labels_of_folds(params, label, nfold=5):
        assert np.bincount(part.astype(int)).tolist() == ([36, 6, 6] if "num_class" in params else [42, 6])


def test_probabilities_are_no_classes():
    label = np.linspace(0.0, 1.0, 240)
    plain = labels_of_folds({"objective": "cross_entropy"}, label, stratified=False)
    for one, other in zip(labels_of_folds({"objective": "cross_entropy"}, label), plain, strict=True):
        assert one.tolist() == other.tolist()


def test_folds_are_dealt_by_hash():
    parts = labels_of_folds({}, ROWS.astype(float), nfold=3, seed=7)
    order = np.argsort(random_bits(random_key(7, Purpose.FOLDS, 0), ROWS), kind="stable")
    assert [part.tolist() for part in parts] == [np.sort(order[80 * k : 80 * (k + 1)]).tolist() for k in range(3)]


def test_folds_are_evaluated_as_often_as_metric_freq_says():
    every = hb.cv(BINARY, data(), 8, FOLDS)["valid binary_logloss-mean"]
    seen = []
    found = hb.cv(
        {**BINARY, "metric_freq": 3}, data(), 8, FOLDS,
        callbacks=[lambda env: seen.append(bool(env.evaluation_result_list))],
    )  # fmt: skip
    assert found["valid binary_logloss-mean"] == [every[2], every[5], every[7]]
    assert seen == [False, False, True, False, False, True, False, True]


def test_early_stopping_cuts_the_results_where_not_every_iteration_is_evaluated():
    params = {**BINARY, "learning_rate": 0.9, "metric_freq": 2, "early_stopping_round": 4}
    found = hb.cv(params, data(), 60, FOLDS, return_cvbooster=True)
    every = hb.cv({**BINARY, "learning_rate": 0.9}, data(), 30, FOLDS)["valid binary_logloss-mean"]
    best = found["cvbooster"].best_iteration
    assert best % 2 == 0
    assert found["valid binary_logloss-mean"] == every[1:best:2]


def test_init_model_is_trained_on_in_every_fold():
    start = hb.train(BINARY, hb.Dataset(X, label=Y), 2)
    found = hb.cv(BINARY, data(), 3, FOLDS, init_model=start, return_cvbooster=True)
    assert len(found["valid binary_logloss-mean"]) == 3
    for (rows, _), booster in zip(FOLDS, found["cvbooster"].boosters, strict=True):
        alone = hb.train(BINARY, hb.Dataset(X[rows], label=Y[rows]), 3, init_model=start)
        assert booster.fingerprint() == alone.fingerprint()


@pytest.mark.parametrize("mode", [{}, {"boosting": "dart", "drop_rate": 0.5}], ids=["gbdt", "dart"])
def test_interrupted_cv_goes_on_from_its_checkpoints(tmp_path, mode):
    params, seen = {**BINARY, **mode}, []
    whole = parts_of(hb.cv(params, data(), 7, FOLDS, return_cvbooster=True))

    def interrupt(env):
        if env.iteration == 4:
            raise KeyboardInterrupt

    file = tmp_path / "run.ckpt"
    with pytest.raises(KeyboardInterrupt):
        hb.cv(params, data(), 7, FOLDS, checkpoint=file, checkpoint_freq=3, callbacks=[interrupt])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run.ckpt.fold{k}" for k in range(3)]
    (tmp_path / "run.ckpt.fold1").unlink()  # this fold begins anew, and the others wait for it
    found = hb.cv(
        params, data(), 7, FOLDS, checkpoint=file, return_cvbooster=True,
        callbacks=[lambda env: seen.append(env.iteration)],
    )  # fmt: skip
    assert parts_of(found) == whole
    assert seen == list(range(7))
    again = hb.cv(params, data(), 7, FOLDS, checkpoint=file, return_cvbooster=True)
    assert parts_of(again) == whole


def test_early_stopping_is_the_same_from_checkpoints(tmp_path):
    params = {**BINARY, "learning_rate": 0.9, "early_stopping_round": 3}
    whole = hb.cv(params, data(), 40, FOLDS, return_cvbooster=True)
    file = tmp_path / "run.ckpt"
    hb.cv({**params, "early_stopping_round": 0}, data(), 3, FOLDS, checkpoint=file, checkpoint_freq=2)
    for _ in range(2):
        found = hb.cv(params, data(), 40, FOLDS, checkpoint=file, return_cvbooster=True)
        assert found["cvbooster"].best_iteration == whole["cvbooster"].best_iteration
        assert parts_of(found) == parts_of(whole)


def test_checkpoints_of_other_folds_are_refused(tmp_path):
    hb.cv(BINARY, data(), 2, FOLDS, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(hb.DataError, match="is of another training"):
        hb.cv(BINARY, data(), 2, FOLDS[::-1], checkpoint=tmp_path / "run.ckpt")

"""Any number of workers and any cut of the rows, empty parts included, end with the model of one process."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.cpu.tuning import tuned
from hornbeam.distributed import Part, PartDataset, run_workers, train
from hornbeam.testing.golden import CASES, expected_fingerprints
from hornbeam.testing.golden_case import golden_score, golden_table
from hornbeam.testing.workers import (
    cases_of_workers,
    cut,
    expected_of_short,
    parts_of_worker,
    short_case,
    train_on_workers,
)

SPREAD = {
    "regression": 2,
    "regression, heavy tail": 3,
    "multiclass": 2,
    "bagging": 7,
    "goss": 3,
    "dart": 2,
    "random forest": 2,
    "lambdarank, bagging by query": 3,
    "custom objective": 2,
    "binary, features by level and node": 3,
    "regression, monotone, intermediate, categories": 2,
    "binary, linear leaves, weights, missing, bagging": 3,
    "multiclass, forced splits, dart, categories": 2,
    "binary, categories, weights": 7,
    "regression, target encoding": 3,
    "regression, extra trees": 1,
    "regression, bins from a sample": 7,
    "regression, bins by feature": 3,
    "regression, initial scores": 3,
    "mape, weights, missing": 3,
    "logcosh, weights, missing": 3,
    "survival:aft, extreme, weights": 3,
    "cross_entropy_lambda, weights, missing": 3,
    "hinge, beyond the margin": 2,
    "quantiles, weights, bagging": 2,
    "regression, 3 columns of labels": 3,
    "trees side by side": 2,
    "survival:cox, equal times, weights": 2,
    "multiclassova, shared trees, bagging, depthwise": 3,
    "binary, 5 columns of labels, shared trees, goss": 2,
    "quantiles, shared trees": 3,
}
"""Golden cases, how many workers train some rounds of them here; `test_every_golden_case` has all, of all rounds."""


@pytest.mark.parametrize("name", SPREAD)
def test_model_is_that_of_one_process(name):
    models = train_on_workers(short_case(name), SPREAD[name], device="reference")
    assert [model.fingerprint() for model in models] == [expected_of_short(name)] * SPREAD[name]


SHARED = [name for name, case in CASES.items() if case.params.get("multi_strategy") == "multi_output_tree"]


@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize("name", SHARED)
def test_trees_that_all_outputs_share_are_those_of_one_process_by_kernels_too(name, n_workers):
    models = train_on_workers(CASES[name], n_workers, device="cpu", num_threads=1)
    assert [model.fingerprint() for model in models] == [expected_fingerprints()[name]] * n_workers


@pytest.mark.parametrize("levels", [0, 99], ids=["travel", "stay"])
@pytest.mark.parametrize("name", ["bagging", "binary, categories, weights", *SHARED[:2]])
def test_bins_travel_with_their_rows_or_stay(name, levels):
    with tuned(ordered_smallest_bytes=0, travelling_levels=levels):
        models = train_on_workers(CASES[name], 2, device="cpu", num_threads=1)
    assert [model.fingerprint() for model in models] == [expected_fingerprints()[name]] * 2


@pytest.mark.large
@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
@pytest.mark.parametrize("name", cases_of_workers())
def test_every_golden_case(name, n_workers):
    models = train_on_workers(CASES[name], n_workers, device="reference")
    assert {model.fingerprint() for model in models} == {expected_fingerprints()[name]}


@pytest.fixture(scope="module")
def problem():
    table = golden_table(900, 5, missing=True)
    label = (golden_score(table) > 1.0).astype(float)
    return hb.Dataset(table[:600], label=label[:600]), hb.Dataset(table[600:], label=label[600:])


def in_full(params):
    return {"device": "reference", "verbosity": -1, "num_leaves": 7, **params}


def on_workers(problem, params, n_workers, n_rounds, callbacks, **options):
    """Train on workers; returns the models of all of them.

    callbacks  function that makes them
    """
    pieces = cut(problem[0], [100, 100, 350]), cut(problem[1], [7, 30, 280])

    def work(collective):
        mine = [parts_of_worker(parts, collective.rank, n_workers) for parts in pieces]
        data = PartDataset(collective, mine[0])
        valid = PartDataset(collective, mine[1], reference=data, name="valid")
        sets = {"training": data, "valid": valid}
        return train(in_full(params), data, n_rounds, sets, callbacks=callbacks(), **options)

    return run_workers(n_workers, work, timeout=60)


def in_one_process(problem, params, n_rounds, callbacks=list, **options):
    whole = [hb.Dataset(each.data, label=each.label) for each in problem]
    whole[1].set_reference(whole[0])
    sets = {"training": whole[0], "valid": whole[1]}
    return hb.train(in_full(params), whole[0], n_rounds, sets, callbacks=callbacks(), **options)


def both(problem, params, n_workers, n_rounds=8, callbacks=list, **options):
    """Train in one process, then on workers; returns the one model and those of the workers."""
    one = in_one_process(problem, params, n_rounds, callbacks, **options)
    return one, on_workers(problem, params, n_workers, n_rounds, callbacks, **options)


@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_metrics_and_early_stopping_are_those_of_one_process(problem, boosting):
    params = {
        "objective": "binary",
        "metric": ["binary_logloss", "auc", "average_precision", "binary_error", "error@0.3"],
    }
    params |= {"boosting": boosting, "feature_fraction": 0.8, "learning_rate": 0.4}
    one, several = both(problem, params, 3, callbacks=lambda: [hb.early_stopping(2)] * (boosting != "dart"))
    for model in several:
        assert model.eval_history == one.eval_history
        assert model.best_iteration == one.best_iteration
        assert model.fingerprint() == one.fingerprint()


def test_training_goes_on_from_a_model_as_in_one_process(problem):
    start = in_one_process(problem, {"objective": "binary"}, 4)
    one, several = both(problem, {"objective": "binary"}, 2, 3, init_model=start)
    assert one.n_iterations == 7
    assert {model.fingerprint() for model in several} == {one.fingerprint()}
    assert several[0].eval_history == one.eval_history


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_a_checkpoint_goes_on_with_other_workers_and_with_one_process(problem, tmp_path, boosting):
    params = {"objective": "binary", "metric": "auc", "boosting": boosting}
    whole = in_one_process(problem, params, 6)
    file = tmp_path / "state"

    def stop_after(n_iterations):
        def stop(env):
            if env.iteration + 1 == n_iterations:
                raise RuntimeError("power cut")

        return lambda: [stop]

    def cut_short(n_workers, n_iterations):
        with pytest.raises(RuntimeError, match="power cut"):
            on_workers(problem, params, n_workers, 6, stop_after(n_iterations), checkpoint=file, checkpoint_freq=2)

    cut_short(3, 3)
    cut_short(2, 5)
    several = on_workers(problem, params, 2, 6, list, checkpoint=file)
    assert {model.fingerprint() for model in several} == {whole.fingerprint()}
    assert several[1].eval_history == whole.eval_history
    again = in_one_process(problem, params, 6, checkpoint=file)  # the file of workers is that of one process
    assert again.fingerprint() == whole.fingerprint()


def test_functions_of_the_user_see_all_rows(problem):
    def share_of_large(predictions, dataset):
        assert len(predictions) == len(dataset.label) == dataset.n_rows
        return "share", float(np.mean(predictions > 0.4)), True

    one, several = both(problem, {"objective": "binary", "metric": "none"}, 2, 3, feval=share_of_large)
    assert [model.eval_history for model in several] == [one.eval_history] * 2


def test_levels_are_those_of_all_workers():
    rng = np.random.default_rng(4)
    names = np.array(["red", "green", "blue", "grey", "pink"])[np.minimum(rng.geometric(0.4, 400) - 1, 4)]
    table = np.stack([names, rng.integers(0, 50, 400).astype(str)], axis=1).astype(object)
    label = (names == "blue") * 2.0 + rng.random(400)
    params = {"device": "reference", "verbosity": -1, "min_data_per_group": 5, "min_data_in_leaf": 3}

    def data(rows):
        return {"data": table[rows], "label": label[rows], "categorical_features": [0, 1]}

    one = hb.train(params, hb.Dataset(**data(slice(None))), 4)
    order = np.argsort(names, kind="stable")  # the second worker sees no level of the first
    table, label = table[order], label[order]
    sorted_one = hb.train(params, hb.Dataset(**data(slice(None))), 4)

    def work(collective):
        rows = (slice(0, 150), slice(150, 400))[collective.rank]
        return train(params, PartDataset(collective, [Part.make(collective.rank, **data(rows))]), 4)

    several = run_workers(2, work, timeout=60)
    assert {model.fingerprint() for model in several} == {sorted_one.fingerprint()}
    assert one.levels[0].values == several[0].levels[0].values

"""Numbers that are no integers in a categorical feature, beyond one table in memory: cut as they are there."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb
from hornbeam.distributed import Part, PartDataset, run_workers
from hornbeam.distributed import train as train_on_worker

RANDOM = np.random.default_rng(5)
N_ROWS = 400
LEVEL = RANDOM.integers(0, 9, N_ROWS).astype(np.float64)
Y = np.where(LEVEL % 3 == 1, 2.0, 0.0) + RANDOM.normal(size=N_ROWS)
X = np.column_stack([LEVEL + 0.9 * RANDOM.random(N_ROWS), RANDOM.normal(size=N_ROWS)])
WHOLE = np.column_stack([np.trunc(X[:, 0]), X[:, 1]])
PARAMS = {
    "objective": "regression", "metric": "l2", "num_leaves": 7, "device": "reference", "verbosity": -1,
    "min_data_per_group": 5,
}  # fmt: skip


def dataset(table, **options):
    return hb.Dataset(table, label=Y, categorical_features=[0], **options)


def part_of(collective, table, **options):
    first, last = (N_ROWS * (collective.rank + more) // collective.size for more in (0, 1))
    return Part.make(collective.rank, table[first:last], label=Y[first:last], **options)


@pytest.mark.parametrize("encoding", [{}, {"target_encoding_levels": 0}])
@pytest.mark.parametrize("n_cut", [N_ROWS, 100])
def test_workers_cut_as_one_process_though_one_of_them_has_integers(n_cut, encoding):
    table = np.concatenate([X[:n_cut], WHOLE[n_cut:]])
    params = {**PARAMS, **encoding}

    def work(collective):
        return train_on_worker(
            params, PartDataset(collective, [part_of(collective, table, categorical_features=[0])]), 3
        )

    expected = hb.train(params, dataset(table), 3)
    assert [model.fingerprint() for model in run_workers(2, work)] == [expected.fingerprint()] * 2
    assert np.array_equal(expected.predict(X), expected.predict(WHOLE))


@pytest.mark.parametrize("encoding", [{}, {"target_encoding_levels": 0}])
def test_streams_cut_as_tables_in_memory(encoding):
    cuts = range(0, N_ROWS, 100)
    stream = hb.Stream(lambda: ({"data": X[i : i + 100], "label": Y[i : i + 100]} for i in cuts))
    params = {**PARAMS, **encoding}
    found = hb.train(params, hb.Dataset(stream, categorical_features=[0]), 3)
    assert found.fingerprint() == hb.train(params, dataset(X), 3).fingerprint()
    assert np.array_equal(found.predict(stream), found.predict(WHOLE))


def test_a_validation_set_of_a_training_on_integers_is_read_as_predict_reads_it():
    train_set = dataset(WHOLE)
    model = hb.train(PARAMS, train_set, 3, {"v": hb.Dataset(X, label=Y, reference=train_set)})
    assert model.eval_history["v"]["l2"][-1] == pytest.approx(np.mean((model.predict(X) - Y) ** 2))


def test_a_fold_may_lack_the_only_number_that_is_no_integer():
    table = WHOLE.copy()
    table[3, 0] += 0.5
    assert len(hb.cv(PARAMS, dataset(table), 2, nfold=3)["valid l2-mean"]) == 2


def test_infinities_are_unseen_levels_of_a_model_that_cuts():
    model = hb.train(PARAMS, dataset(X), 3)
    infinite, unseen = X.copy(), X.copy()
    infinite[0, 0], unseen[0, 0] = np.inf, 77.0
    assert np.array_equal(model.predict(infinite), model.predict(unseen))


@pytest.mark.parametrize("encoding", [{}, {"target_encoding_levels": 0}])
@pytest.mark.parametrize("tables", [(WHOLE, X), (X, WHOLE)])
def test_a_model_that_is_trained_on_cuts_as_one_of_its_data_did(tables, encoding):
    params = {**PARAMS, **encoding}
    start = hb.train(params, dataset(tables[0]), 2)
    train_set = dataset(tables[1])
    model = hb.train(params, train_set, 2, {"v": hb.Dataset(X, label=Y, reference=train_set)}, init_model=start)
    assert np.array_equal(model.predict(X), model.predict(WHOLE))
    assert model.eval_history["v"]["l2"][-1] == pytest.approx(np.mean((model.predict(X) - Y) ** 2))


def test_models_of_which_one_cuts_are_not_merged():
    cut, plain = hb.train(PARAMS, dataset(X), 4), hb.train(PARAMS, dataset(WHOLE), 4)
    with pytest.raises(hb.HornbeamError, match="levels of the categorical features"):
        hb.merge([cut[:2], plain[2:]])


def test_boolean_levels_are_not_cut():
    model = hb.train(PARAMS, dataset(pd.DataFrame({"c": LEVEL > 4, "x": X[:, 1]})), 2)
    document = json.loads(model.to_bytes())
    document.pop("fingerprint", None)
    document["cut_features"] = [0]
    with pytest.raises(hb.ModelFormatError, match="cut_features"):
        hb.Booster.from_bytes(json.dumps(document).encode())

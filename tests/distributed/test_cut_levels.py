"""Numbers that are no integers in a categorical feature: workers and streams cut them as one process does."""

from __future__ import annotations

import numpy as np
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

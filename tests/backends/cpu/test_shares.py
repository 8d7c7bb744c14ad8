"""How columns are shared out among the threads of a team: all of them, each once, whatever sums are rounded to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.backends.cpu.growth.growth import even_cuts


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=60), st.integers(1, 64))
def test_every_column_is_in_one_part(cost, n_parts):
    cuts = even_cuts(np.array(cost), n_parts)
    assert cuts[0] == 0 and cuts[-1] == len(cost) and len(cuts) == n_parts + 1
    assert (np.diff(cuts) >= 0).all()


def test_parts_cost_about_as_much_as_each_other():
    cost = np.random.default_rng(0).random(1000)
    cuts = even_cuts(cost, 7)
    parts = [cost[first:last].sum() for first, last in pairwise(cuts)]
    assert np.ptp(parts) < 2.0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_team_of_any_size_trains_the_model_of_one_thread(is_sparse, tune):
    rng = np.random.default_rng(1)
    tune(thread_work_ns=1, waking_ns=1, meeting_ns=0, few_rows=0)
    for n_features in (3, 11, 30):
        table = np.floor(rng.normal(size=(569, n_features)) * rng.integers(2, 90, n_features))
        if is_sparse:
            sparse = pytest.importorskip("scipy.sparse")
            table = sparse.csr_matrix(np.where(rng.random(table.shape) < 0.8, 0.0, table))
        label = np.asarray(table[:, [0]].sum(axis=1)).ravel() + rng.normal(size=569)
        found = set()
        for team_cpus in (1, 3, 7, 13, 15):
            tune(team_cpus=team_cpus)
            params = {"num_leaves": 15, "verbosity": -1, "num_threads": team_cpus, "min_data_in_bin": 1}
            found.add(hb.train(params, hb.Dataset(table, label=label), 2).fingerprint())
        assert len(found) == 1

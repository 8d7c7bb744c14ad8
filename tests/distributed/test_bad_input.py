"""What is wrong with parts and parameters is said on every worker, before training."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.distributed import Part, PartDataset, run_workers, train

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] + 1.0
PARAMS = {"device": "reference", "verbosity": -1, "num_leaves": 3}


def fit(*pieces, params=PARAMS, **options):
    """Train with a worker for each piece, which is what Part.make takes; returns the errors of all workers."""

    def work(collective):
        part = Part.make(collective.rank, **pieces[collective.rank])
        data = PartDataset(collective, [] if part is None else [part])
        return train(params, data, 2, **options)

    return run_workers(len(pieces), work, timeout=30)


def piece(rows, **others):
    return {"data": X[rows], "label": Y[rows], **others}


FIRST, LAST = slice(0, 20), slice(20, 60)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"data": X[LAST, :2], "label": Y[LAST]}, "part 1 has other number of columns than part 0: 2 and 3"),
        ({"data": X[LAST]}, "part 1 has other labels than part 0: False and True"),
        (piece(LAST, weight=np.ones(40)), "part 1 has other weights"),
        (piece(LAST, max_bin=15), "part 1 has other data parameters"),
        (piece(LAST, feature_names=["a", "b", "c"]), "part 1 has other names of columns"),
        (piece(LAST, categorical_features=[1]), "part 1 has other categorical_features"),
        (piece(LAST, init_score=np.zeros(40)), "part 1 has other outputs of init_score"),
        (piece(LAST, group=[40]), "part 1 has other queries"),
    ],
)
def test_parts_must_be_alike(other, text):
    with pytest.raises(DataError, match=text):
        fit(piece(FIRST), other)


def test_a_query_must_not_be_cut():
    query = np.repeat([5, 6, 7], 20)
    pieces = [piece(rows, qid=query[rows]) for rows in (slice(0, 30), slice(30, 60))]
    with pytest.raises(DataError, match=r"query .*6.* is cut: it ends part 0 and begins part 1"):
        fit(*pieces, params={**PARAMS, "objective": "lambdarank"})


def test_levels_must_be_of_one_kind():
    whole = np.abs(X[:, :1]).round()
    tables = whole[FIRST].astype(int), whole[LAST] > 0
    pieces = [
        {"data": table, "label": Y[rows], "categorical_features": [0]}
        for table, rows in zip(tables, (FIRST, LAST), strict=True)
    ]
    with pytest.raises(DataError, match=r"levels of several kinds in its parts \(bool, int\)"):
        fit(*pieces)


def test_columns_must_be_of_one_type():
    strings = np.array([["a"], ["b"]] * 20, object)
    with pytest.raises(DataError, match="part 1 has other columns of strings or categories than part 0"):
        fit(
            {"data": X[FIRST, :1].round(), "label": Y[FIRST], "categorical_features": [0]},
            {"data": strings, "label": Y[LAST], "categorical_features": [0]},
        )


def test_a_label_outside_of_the_domain_is_named_by_its_row_among_all():
    label = np.where(np.arange(60) == 41, 0.5, 1.0)
    with pytest.raises(DataError, match=r"label\[41\] is 0\.5"):
        fit(
            *({"data": X[rows], "label": label[rows]} for rows in (FIRST, LAST)),
            params={**PARAMS, "objective": "binary"},
        )


def test_no_rows_anywhere_is_an_error():
    with pytest.raises(DataError, match="no rows on any worker"):
        fit({"data": X[:0], "label": Y[:0]}, {"data": X[:0], "label": Y[:0]})


def test_a_worker_without_rows_takes_part():
    models = fit(piece(slice(0, 60)), {"data": X[:0], "label": Y[:0]})
    one = hb.train(PARAMS, hb.Dataset(X, label=Y), 2)
    assert {model.fingerprint() for model in models} == {one.fingerprint()}


def test_weights_of_a_part_may_all_be_zero():
    weight = np.where(np.arange(60) < 20, 0.0, 1.0)
    models = fit(*(piece(rows, weight=weight[rows]) for rows in (FIRST, LAST)))
    one = hb.train(PARAMS, hb.Dataset(X, label=Y, weight=weight), 2)
    assert {model.fingerprint() for model in models} == {one.fingerprint()}


def test_a_checkpoint_that_cannot_be_written_is_an_error_everywhere(tmp_path):
    with pytest.raises(ParameterError, match="must be a file in a folder that exists"):
        fit(piece(FIRST), piece(LAST), checkpoint=tmp_path / "nowhere" / "state")


def test_workers_keep_no_training_to_go_on_with():
    with pytest.raises(ParameterError, match="init_model"):
        fit(piece(FIRST), piece(LAST), keep_training_booster=True)


def test_data_of_one_process_are_refused():
    with pytest.raises(DataError, match="train_set must be a PartDataset, not Dataset"):
        train(PARAMS, hb.Dataset(X, label=Y))


def test_a_callback_that_decides_otherwise_on_one_worker_ends_in_an_error():
    def work(collective):
        def stop(env):
            if collective.rank == 1 and env.iteration == 1:
                raise RuntimeError("enough")

        data = PartDataset(collective, [Part.make(collective.rank, **piece((FIRST, LAST)[collective.rank]))])
        return train(PARAMS, data, 5, callbacks=[stop])

    with pytest.raises(RuntimeError, match="enough"):
        run_workers(2, work, timeout=30)

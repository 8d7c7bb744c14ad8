"""Numbers that are no integers in a categorical feature: training takes their whole parts, and so does the model."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import hornbeam as hb
from hornbeam.core.errors import DataError
from hornbeam.data.levels import Levels, code_numbers, extended_levels
from hornbeam.data.target_encoding import EncodedLevels

RANDOM = np.random.default_rng(5)
N_ROWS = 400
PARAMS = {
    "objective": "regression", "metric": "l2", "num_leaves": 7, "device": "reference", "verbosity": -1,
    "min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 1,
}  # fmt: skip


def make_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose first feature is categorical, and labels that follow its whole parts."""
    level = RANDOM.integers(0, 9, N_ROWS).astype(np.float64)
    number = RANDOM.normal(size=N_ROWS)
    label = np.where(level % 3 == 1, 2.0, 0.0) + number
    level += 0.9 * RANDOM.random(N_ROWS)
    level[::29], level[7:10] = np.nan, [-0.5, -1.5, -3.0]
    return np.column_stack([level, number]), label


X, Y = make_rows()
WHOLE = np.column_stack([np.trunc(X[:, 0]), X[:, 1]])


def made_of(table, **options):
    return hb.Dataset(table, label=Y, categorical_features=[0], **options)


def trained_on(table, n=4, **more):
    return hb.train({**PARAMS, **more}, made_of(table), n)


@pytest.fixture(scope="module")
def model():
    return trained_on(X)


@pytest.fixture(scope="module")
def of_integers():
    return trained_on(WHOLE)


def trees_of(booster):
    return json.loads(booster.to_bytes())["trees"]


def test_trees_are_those_of_the_whole_parts(model, of_integers):
    assert trees_of(model) == trees_of(of_integers)
    assert model.levels[0].values == of_integers.levels[0].values
    assert (model.levels[0].is_cut, of_integers.levels[0].is_cut) == (True, False)
    assert np.array_equal(model.predict(WHOLE), of_integers.predict(WHOLE))


@pytest.mark.parametrize("kind", ["value", "pred_leaf", "pred_contrib"])
def test_predictions_are_those_of_the_whole_parts(model, kind):
    options = {} if kind == "value" else {kind: True}
    assert np.array_equal(model.predict(X, **options), model.predict(WHOLE, **options))


def test_lightgbm_cuts_in_the_same_way(model):
    peer = pytest.importorskip("lightgbm")
    params = {name: value for name, value in PARAMS.items() if name != "device"}
    theirs = {
        name: peer.train(params, peer.Dataset(table, label=Y, categorical_feature=[0]), 4)
        for name, table in (("cut", X), ("whole", WHOLE))
    }
    assert np.array_equal(theirs["cut"].predict(X), theirs["whole"].predict(WHOLE))
    assert np.array_equal(theirs["cut"].predict(X), theirs["cut"].predict(WHOLE))
    losses = [np.mean((booster.predict(X) - Y) ** 2) for booster in (model, theirs["cut"])]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_cutting_goes_towards_zero_and_leaves_what_is_missing():
    column = code_numbers(np.array([0.2, 1.9, -0.9, -1.1, -3.0, np.nan, 2.0]), "c", "cut")
    whole = code_numbers(np.array([0.0, 1.0, 0.0, -1.0, -3.0, np.nan, 2.0]), "c")
    assert column.values == whole.values == [0, 1, 2]
    assert column.codes.tolist() == whole.codes.tolist()
    assert (column.is_cut, whole.is_cut) == (True, False)


def test_integers_are_never_said_to_be_cut():
    for numbers in (np.array([1, 2, -1]), np.array([1.0, np.nan, -2.0]), np.array([True, False]), np.array([np.nan])):
        assert not code_numbers(numbers, "c", "cut").is_cut


def test_all_of_a_column_may_be_cut_to_missing_values():
    column = code_numbers(np.array([-1.5, np.nan]), "c", "cut")
    assert column.is_cut and column.values == [] and (column.codes < 0).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_refused_in_training(value):
    for wrong in ([0.0, value], [0.5, value]):
        with pytest.raises(DataError, match="inf, which is no integer"):
            hb.Dataset(np.array(wrong)[:, None], categorical_features=[0]).construct()


FRAMES = {
    "array": np.asarray,
    "float32": lambda table: table.astype(np.float32),
    "list": lambda table: table.tolist(),
    "arrays": lambda table: [table[:150], table[150:]],
    "pandas": lambda table: pd.DataFrame(table),
    "pandas nullable": lambda table: pd.DataFrame(table).astype("Float64"),
    "polars": lambda table: pl.DataFrame(table, schema=["0", "1"]),
    "polars nulls": lambda table: pl.DataFrame(table, schema=["0", "1"]).with_columns(pl.col("0").fill_nan(None)),
    "polars lazy": lambda table: pl.DataFrame(table, schema=["0", "1"]).lazy(),
    "arrow": lambda table: pa.table({"0": table[:, 0], "1": table[:, 1]}),
    "sparse": scipy.sparse.csr_array,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_table_is_cut_alike(kind):
    table, whole = FRAMES[kind](X), FRAMES[kind](WHOLE)
    made = trained_on(table)
    assert made.levels[0].is_cut
    assert trees_of(made) == trees_of(trained_on(whole))
    assert np.array_equal(made.predict(table), made.predict(whole))


def test_batches_of_rows_and_text_files_are_cut(model, tmp_path):
    class Batches(hb.Sequence):
        batch_size = 70

        def __len__(self):
            return len(X)

        def __getitem__(self, index):
            return X[index]

    assert trained_on(Batches()).fingerprint() == model.fingerprint()
    np.savetxt(tmp_path / "rows.csv", np.column_stack([Y, X]), delimiter=",", fmt="%.17g")
    data = hb.Dataset(str(tmp_path / "rows.csv"), params={"label_column": 0}, categorical_features=[0])
    assert trees_of(hb.train(PARAMS, data, 4)) == trees_of(model)


def test_one_number_is_enough(of_integers):
    table = WHOLE.copy()
    table[1, 0] += 0.5
    made = trained_on(table)
    assert made.levels[0].is_cut and trees_of(made) == trees_of(of_integers)
    assert np.array_equal(made.predict(X), of_integers.predict(WHOLE))


def test_training_says_so_once_for_each_feature(caplog):
    table = pd.DataFrame(np.column_stack([X, X[:, 0], WHOLE[:, 0]]), columns=list("abcd"))
    data = hb.Dataset(table, label=Y, categorical_features=["a", "c", "d"])
    valid = hb.Dataset(table[:50], label=Y[:50], reference=data)
    booster = hb.train({**PARAMS, "verbosity": 0}, data, 2, {"valid": valid})
    booster.predict(table)
    for name, n_times in (("a", 1), ("b", 0), ("c", 1), ("d", 0)):
        said = f"categorical feature '{name}' holds numbers that are no integers: they are cut to whole ones"
        assert caplog.text.count(said) == n_times


def test_a_model_of_integers_counts_them_as_unseen_levels_with_a_warning(of_integers, caplog):
    unseen = np.where(X[:, 0] != WHOLE[:, 0], np.where(np.isnan(X[:, 0]), np.nan, 77.0), X[:, 0])
    expected = of_integers.predict(np.column_stack([unseen, X[:, 1]]))
    assert caplog.text == ""
    assert np.array_equal(of_integers.predict(X), expected)
    assert caplog.text.count("which is no integer: it counts as an unseen level") == 1


@pytest.mark.parametrize("kind", ["array", "pandas", "sparse"])
def test_one_dataset_is_read_as_each_model_reads_it(kind, model, of_integers):
    for order in ((model, of_integers), (of_integers, model)):
        data = hb.Dataset(FRAMES[kind](X))
        for booster in order:
            assert np.array_equal(booster.predict(data), booster.predict(X))
    data = made_of(FRAMES[kind](X), free_raw_data=False)
    of_integers.predict(data)
    assert trees_of(hb.train(PARAMS, data, 4)) == trees_of(model)
    assert np.array_equal(of_integers.predict(data), of_integers.predict(X))


@pytest.mark.parametrize("table", [X, WHOLE], ids=["cut", "whole"])
def test_validation_sets_are_cut_as_their_training_set(table):
    data = made_of(X)
    valid = hb.Dataset(table[:150], label=Y[:150], reference=data)
    booster = hb.train(PARAMS, data, 4, {"valid": valid})
    expected = np.mean((booster.predict(WHOLE[:150]) - Y[:150]) ** 2)
    assert booster.eval_history["valid"]["l2"][-1] == pytest.approx(expected, rel=1e-12)


def test_cross_validation_is_that_of_the_whole_parts():
    found = [hb.cv(PARAMS, made_of(table), 3, nfold=3) for table in (X, WHOLE)]
    assert found[0] == found[1]


@pytest.mark.parametrize("first", [X, WHOLE], ids=["cut", "whole"])
@pytest.mark.parametrize("then", [X, WHOLE], ids=["cut", "whole"])
def test_training_goes_on_and_cuts_where_either_part_did(first, then):
    data = made_of(then)
    booster = hb.train(PARAMS, data, 2, {"training": data}, init_model=trained_on(first, 2))
    assert booster.levels[0].is_cut == (first is X or then is X)
    assert trees_of(booster) == trees_of(trained_on(X, 4))
    scores = booster.predict(then)
    assert booster.eval_history["training"]["l2"][-1] == pytest.approx(np.mean((scores - Y) ** 2), rel=1e-12)


def test_a_training_in_two_parts_is_that_in_one():
    made = hb.train(PARAMS, made_of(X), 2, init_model=trained_on(X, 2))
    assert made.fingerprint() == trained_on(X, 4).fingerprint()


def test_extended_levels_are_cut_where_either_are():
    plain, cut = Levels((1, 2)), Levels((2, 3), is_cut=True)
    assert extended_levels([plain], [cut], ["x"])[0].is_cut
    assert extended_levels([cut], [plain], ["x"])[0].is_cut
    assert extended_levels([cut], [cut], ["x"])[0] is cut


def test_target_encodings_are_of_the_whole_parts():
    cut, whole = (trained_on(table, target_encoding_levels=0) for table in (X, WHOLE))
    assert isinstance(cut.levels[0], EncodedLevels) and cut.levels[0].is_cut
    assert cut.levels[0].numbers.tolist() == whole.levels[0].numbers.tolist()
    assert np.array_equal(cut.predict(X), whole.predict(WHOLE))


COPIES = {
    "file": lambda booster: hb.Booster.from_bytes(booster.to_bytes()),
    "pickle": lambda booster: pickle.loads(pickle.dumps(booster)),
    "copy": copy.deepcopy,
    "text": lambda booster: hb.Booster(model_str=booster.model_to_string()),
    "slice": lambda booster: booster[:],
    "refit": lambda booster: booster.refit(X, Y),
    "merge": lambda booster: hb.merge([booster[:2], booster[2:]]),
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("encoded", [False, True], ids=["codes", "numbers"])
def test_copies_of_a_model_cut_too(kind, encoded):
    booster = trained_on(X, **({"target_encoding_levels": 0} if encoded else {}))
    other = COPIES[kind](booster)
    assert other.levels[0].is_cut
    assert np.array_equal(other.predict(X), other.predict(WHOLE))


@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("encoded", [False, True], ids=["codes", "numbers"])
def test_a_dataset_that_is_saved_is_cut_when_it_is_read(binned, encoded, tmp_path):
    more = {"target_encoding_levels": 0} if encoded else {}
    data = made_of(X, params=more)
    if binned:
        data.construct()
    data.save_binary(tmp_path / "rows.bin")
    made = hb.train({**PARAMS, **more}, hb.Dataset(tmp_path / "rows.bin"), 4)
    assert made.fingerprint() == trained_on(X, **more).fingerprint()


def test_parts_of_a_dataset_and_single_iterations_are_cut(model):
    part = hb.train(PARAMS, made_of(X).subset(np.arange(200)), 2)
    assert part.levels[0].is_cut and np.array_equal(part.predict(X), part.predict(WHOLE))
    live = hb.Booster(PARAMS, made_of(X))
    for _ in range(4):
        live.update()
    assert live.fingerprint() == model.fingerprint()


def test_a_training_that_was_ended_goes_on_from_its_checkpoint(model, tmp_path):
    hb.train(PARAMS, made_of(X), 2, checkpoint=tmp_path / "state", checkpoint_freq=1)
    whole = hb.train(PARAMS, made_of(X), 4, checkpoint=tmp_path / "state", checkpoint_freq=1)
    assert whole.fingerprint() == model.fingerprint()


@pytest.mark.parametrize("kind", ["HornbeamRegressor", "XGBRegressor"])
def test_estimators_cut_what_they_fit_and_predict(kind):
    more = {"feature_types": ["c", "q"]} if kind == "XGBRegressor" else {"categorical_feature": [0]}
    estimator = getattr(hb, kind)(n_estimators=3, device="reference", verbosity=-1, **more)
    estimator.fit(X, Y, eval_set=[(X[:100], Y[:100]), (WHOLE[:100], Y[:100])], verbose=False)
    assert estimator.booster_.levels[0].is_cut
    assert np.array_equal(estimator.predict(X), estimator.predict(WHOLE))
    first, second = estimator.evals_result_.values()
    assert first == second


def test_every_device_makes_one_model(device, model):
    made = trained_on(X, device=device)
    assert made.fingerprint() == model.fingerprint()
    assert np.array_equal(made.predict(X), model.predict(X))


def test_a_validation_set_of_a_training_on_integers_is_read_as_predict_reads_it():
    train_set = made_of(WHOLE)
    model = hb.train(PARAMS, train_set, 3, {"v": hb.Dataset(X, label=Y, reference=train_set)})
    assert model.eval_history["v"]["l2"][-1] == pytest.approx(np.mean((model.predict(X) - Y) ** 2))


def test_a_fold_may_lack_the_only_number_that_is_no_integer():
    table = WHOLE.copy()
    table[3, 0] += 0.5
    assert len(hb.cv(PARAMS, made_of(table), 2, nfold=3)["valid l2-mean"]) == 2


def test_infinities_are_unseen_levels_of_a_model_that_cuts():
    model = hb.train(PARAMS, made_of(X), 3)
    infinite, unseen = X.copy(), X.copy()
    infinite[0, 0], unseen[0, 0] = np.inf, 77.0
    assert np.array_equal(model.predict(infinite), model.predict(unseen))


@pytest.mark.parametrize("encoding", [{}, {"target_encoding_levels": 0}])
@pytest.mark.parametrize("tables", [(WHOLE, X), (X, WHOLE)])
def test_a_model_that_is_trained_on_cuts_as_one_of_its_data_did(tables, encoding):
    params = {**PARAMS, **encoding}
    start = hb.train(params, made_of(tables[0]), 2)
    train_set = made_of(tables[1])
    model = hb.train(params, train_set, 2, {"v": hb.Dataset(X, label=Y, reference=train_set)}, init_model=start)
    assert np.array_equal(model.predict(X), model.predict(WHOLE))
    assert model.eval_history["v"]["l2"][-1] == pytest.approx(np.mean((model.predict(X) - Y) ** 2))


def test_models_of_which_one_cuts_are_not_merged():
    cut, plain = hb.train(PARAMS, made_of(X), 4), hb.train(PARAMS, made_of(WHOLE), 4)
    with pytest.raises(hb.HornbeamError, match="levels of the categorical features"):
        hb.merge([cut[:2], plain[2:]])


def test_boolean_levels_are_not_cut():
    model = hb.train(PARAMS, made_of(pd.DataFrame({"c": X[:, 0] > 4, "x": X[:, 1]})), 2)
    document = json.loads(model.to_bytes())
    document.pop("fingerprint", None)
    document["cut_features"] = [0]
    with pytest.raises(hb.ModelFormatError, match="cut_features"):
        hb.Booster.from_bytes(json.dumps(document).encode())

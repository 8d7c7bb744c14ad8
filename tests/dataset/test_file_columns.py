"""Columns of files that the parameters of a training name, as in LightGBM's scripts."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(RNG.normal(size=(300, 4)), columns=list("abcd"))
FRAME.insert(2, "y", FRAME["a"] + FRAME["b"] ** 2)
FRAME["w"] = 1 + RNG.random(300)
COLUMNS = {"header": True, "label_column": "name:y", "weight_column": "name:w"}
SMALL = {"verbosity": -1, "num_leaves": 7, "num_iterations": 3}
SAID = {**SMALL, **COLUMNS}


@pytest.fixture
def files(tmp_path):
    """Files of rows to train on, and to evaluate."""
    train, valid = tmp_path / "train.csv", tmp_path / "valid.csv"
    FRAME.to_csv(train, index=False)
    FRAME[200:].to_csv(valid, index=False)
    return str(train), str(valid)


@pytest.fixture(scope="module")
def expected():
    """The model of the frame, and its evaluations."""
    table = FRAME.drop(columns=["y", "w"])
    data = hb.Dataset(table, FRAME["y"], weight=FRAME["w"])
    valid = hb.Dataset(table[200:], FRAME["y"][200:], data, FRAME["w"][200:])
    model = hb.train(SMALL, data, valid_sets=[valid])
    return model.fingerprint(), model.eval_history


@pytest.mark.parametrize("shape", [list, dict, "pairs", "alone"])
def test_a_training_says_what_the_columns_are(files, expected, shape):
    data = hb.Dataset(files[0])
    valid = hb.Dataset(files[1], reference=data)
    shapes = {list: [valid], dict: {"valid_0": valid}, "pairs": [(valid, "valid_0")], "alone": valid}
    model = hb.train(SAID, data, valid_sets=shapes[shape])
    assert (model.fingerprint(), model.eval_history) == expected
    assert data.feature_names == list("abcd")
    assert hb.train(SAID, data).fingerprint() == expected[0]  # again, on what is read and binned now


def test_data_that_were_read_so_stay(files, expected):
    data = hb.Dataset(files[0], params=COLUMNS).construct()
    bins = data.binned
    assert hb.train(SAID, data).fingerprint() == expected[0]
    assert data.binned is bins


def test_cv_and_live_boosters_take_them_too(files, expected):
    folds = [(np.arange(200), np.arange(200, 300))]
    found = hb.cv(SAID, hb.Dataset(files[0]), folds=folds)
    assert found == hb.cv(SMALL, hb.Dataset(files[0], params=COLUMNS), folds=folds)
    booster = hb.Booster(SAID, hb.Dataset(files[0]))
    for _ in range(3):
        booster.update()
    assert booster.fingerprint() == expected[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: hb.Dataset(path, params={**COLUMNS, "label_column": "name:a"}), "was read by .*'name:a'"),
        (lambda path: hb.Dataset(path).construct(), "is binned already"),
        (lambda path: hb.Dataset(path).set_init_score(FRAME["a"]), "fields that were set since"),
        (lambda path: hb.Dataset(path, label=FRAME["b"]), "label= beside the parameter label_column"),
    ],
)
def test_what_would_be_lost_is_an_error(files, make, message):
    data = make(files[0])
    before = vars(data).copy()
    with pytest.raises(hb.DataError, match=message):
        hb.train(SAID, data)
    assert vars(data).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(data).items())


def test_tables_have_no_columns_to_name():
    with pytest.raises(hb.ParameterError, match="train takes a Dataset, which reads files"):
        hb.train(SAID, hb.Dataset(FRAME[["a", "b"]], FRAME["y"]))

"""Bad input is refused with what was given, what is allowed and what to do; small input just works."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import hornbeam as hb

NAN, INF = np.nan, np.inf
X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(float)
QUIET = {"verbosity": -1}


def refused(error: type[Exception], *words: str):
    """Expect an error whose message holds every word: the argument, the value and the remedy."""
    return pytest.raises(error, match="".join(f"(?=[\\s\\S]*{word})" for word in words))


def train(params=None, label=Y, table=X, rounds=2, **arguments) -> hb.Booster:
    return hb.train({**QUIET, **(params or {})}, hb.Dataset(table, label=label, **arguments), rounds)


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [np.empty((0, 3)), np.empty((3, 0)), [], [[]], pd.DataFrame(), np.empty((0, 0))])
def test_empty_data(table):
    with refused(hb.DataError, "data", "empty", "needed"):
        hb.Dataset(table)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"label": [NAN, *Y[1:]]}, [r"label\[0\] is nan", "not allowed", "drop"]),
        ({"label": [*Y[:-1], -INF]}, [r"label\[59\] is -inf", "not allowed", "drop"]),
        ({"label": [*Y[:-1], 1e39]}, [r"label\[59\] is 1e\+39", "rescale"]),
        ({"label": Y, "weight": [NAN, *Y[1:]]}, [r"weight\[0\] is nan", "drop"]),
        ({"label": Y, "weight": [INF, *Y[1:]]}, [r"weight\[0\] is inf", "drop"]),
        ({"label": Y, "weight": [-0.5, *Y[1:]]}, [r"weight\[0\] is -0.5", ">= 0", "drop"]),
        ({"label": Y, "weight": np.zeros(60)}, ["weight is zero", "leave weight out"]),
        ({"label": Y, "weight": [1e39, *Y[1:]]}, [r"weight\[0\], the largest, is 1e\+39", "between", "multiply"]),
        ({"label": Y, "weight": np.full(60, 1e-320)}, ["weight", "the largest", "between", "multiply"]),
        ({"label": Y, "init_score": [-1e39, *Y[1:]]}, ["init_score of row 0 is -1e\\+39", "raw scores"]),
        ({"label": Y[:50]}, ["label has 50 values", "60 rows", "one number a row"]),
        ({"label": Y, "weight": Y[:50]}, ["weight has 50 values", "60 rows", "one number a row"]),
        ({"label": Y, "init_score": Y[:50]}, ["init_score", r"\(50,\)", "60 rows", "pass"]),
        ({"label": Y, "group": [30, 29]}, ["group", "59", "60 rows", "pass"]),
        ({"label": Y, "feature_names": ["a"]}, ["feature_names has 1", "3 features", "pass"]),
        ({"label": ["yes"] * 60}, ["label", "code them as numbers"]),
        ({"label": Y, "categorical_features": ["q"]}, ["categorical_features", "no feature", "features are"]),
    ],
)
def test_unusable_arguments_of_a_dataset(arguments, words):
    with refused(hb.DataError, *words):
        hb.Dataset(X, **arguments)


@pytest.mark.parametrize(
    ("params", "label", "words"),
    [
        ({"objective": "binary"}, Y * 2, ["binary", r"label\[\d+\] is 2.0", "0 and 1|0 or 1"]),
        ({"objective": "binary"}, Y - 0.5, ["binary", r"label\[0\] is"]),
        (
            {"objective": "multiclass", "num_class": 3},
            Y * 3,
            ["multiclass", "num_class=3", "is 3.0", "raise num_class"],
        ),
        ({"objective": "multiclass", "num_class": 3}, Y - 1, ["multiclass", "is -1.0", "recode"]),
        ({"objective": "multiclass", "num_class": 3}, Y + 0.5, ["multiclass", "whole labels", "recode"]),
        ({"objective": "regression"}, None, ["regression", "needs labels", "pass label"]),
        ({"objective": "binary"}, None, ["binary", "needs labels", "pass label"]),
    ],
)
def test_labels_outside_the_domain_of_the_objective(params, label, words):
    with refused(hb.DataError, *words):
        train(params, label)
    with refused(hb.DataError, *words):
        valid = hb.Dataset(X, label=label)
        good = np.arange(60) % 2
        hb.train({**QUIET, **params}, hb.Dataset(X, label=good), 2, {"v": valid})


def test_train_set_that_is_no_dataset():
    with refused(hb.DataError, "train_set", "ndarray", "wrap"):
        hb.train(QUIET, X, 2)
    with refused(hb.DataError, "valid_sets", "'v'", "ndarray"):
        hb.train(QUIET, hb.Dataset(X, label=Y), 2, {"v": X})


def test_init_score_of_other_outputs():
    with refused(hb.DataError, "init_score", "1 outputs", "3", "pass"):
        train({"objective": "multiclass", "num_class": 3}, Y, init_score=np.zeros(60))


def test_validation_set_that_does_not_match():
    good = hb.Dataset(X, label=Y)
    with refused(hb.DataError, "valid_sets", "'v'", "2 features", "train_set 3", "same columns"):
        hb.train(QUIET, good, 2, {"v": hb.Dataset(X[:, :2], label=Y)})
    with refused(hb.DataError, "valid_sets", "'v'", "binned by itself", "reference"):
        hb.train(QUIET, good, 2, {"v": hb.Dataset(X, label=Y).construct()})
    used = hb.Dataset(X, label=Y)
    hb.train(QUIET, hb.Dataset(X, label=Y), 2, {"v": used})
    with refused(hb.DataError, "valid_sets", "'v'", "bins of another training set", "make one", "reference=train_set"):
        hb.train(QUIET, good, 2, {"v": used})
    with refused(hb.DataError, "needs labels", "pass label="):
        hb.train(QUIET, good, 2, {"v": hb.Dataset(X)})
    with refused(hb.ParameterError, "valid_names", "2 names", "1"):
        hb.train(QUIET, good, 2, [hb.Dataset(X, label=Y)], valid_names=["a", "b"])
    for sets in ([(X, Y)], {0: hb.Dataset(X, label=Y)}):
        with refused(hb.DataError, "name of a validation set", "string", "Dataset"):
            hb.train(QUIET, good, 2, sets)


@pytest.mark.parametrize("which", [{"num_iteration": 2.5}, {"start_iteration": -1}, {"start_iteration": "1"}])
def test_iterations_that_are_no_numbers_of_iterations(which):
    with refused(hb.ParameterError, next(iter(which)), "integer"):
        train({}, Y).predict(X, **which)


def test_validation_set_with_other_column_names():
    train_set = hb.Dataset(pd.DataFrame(X, columns=["a", "b", "c"]), label=Y)
    for made in ({}, {"reference": train_set}):
        with refused(hb.DataError, "'c'", "'a'", "same columns"):
            valid = hb.Dataset(pd.DataFrame(X, columns=["c", "b", "a"]), label=Y, **made)
            hb.train(QUIET, train_set, 2, {"v": valid})


def test_names_that_no_user_gave_are_not_compared():
    """Those of pandas.DataFrame(array) and polars.DataFrame(array) say nothing of what the columns hold."""
    named = [list("abc"), ["0", "1", "2"], ["Column_0", "Column_1", "Column_2"], ["column_0", "column_1", "column_2"]]
    for ours in named:
        train_set = hb.Dataset(pd.DataFrame(X, columns=ours), label=Y)
        for others in named[1:]:
            frame = pd.DataFrame(X, columns=others)
            model = hb.train(QUIET, train_set, 1, {"v": hb.Dataset(frame, label=Y, reference=train_set)})
            assert model.feature_names == ours
            assert (model.predict(frame) == model.predict(X)).all()
    for others in (["1", "0", "2"], ["1", "2", "3"]):
        with refused(hb.DataError, "'1'", "'a'", "same columns"):
            train(table=pd.DataFrame(X, columns=list("abc"))).predict(pd.DataFrame(X, columns=others))


# --- prediction -----------------------------------------------------------------------------------------------------


def test_wrong_columns_at_prediction():
    model = train(table=pd.DataFrame(X, columns=["a", "b", "c"]))
    with refused(hb.DataError, "2 features", "trained on 3", "same columns"):
        model.predict(X[:, :2])
    with refused(hb.DataError, "4 features", "trained on 3", "same columns"):
        model.predict(np.ones((5, 4)))
    with refused(hb.DataError, "feature 0", "'b'", "'a'", "same order"):
        model.predict(pd.DataFrame(X, columns=["b", "a", "c"]))
    assert model.predict(X).shape == (60,)  # numbers without names are taken in order


@pytest.mark.parametrize(
    "table", [np.ones(3), np.empty((0, 4)), np.array([["a", "b", "c"]]), None, "abc", np.ones((1, 1, 3))]
)
def test_unusable_tables_at_prediction(table):
    with pytest.raises(hb.DataError, match="data"):
        train().predict(table)


# --- parameters -----------------------------------------------------------------------------------------------------


def test_unknown_parameter_suggests_the_nearest():
    with refused(hb.ParameterError, "num_leafs", "did you mean", "num_leaves|num_leaf"):
        train({"num_leafs": 7})


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"num_leaves": 1}, ["num_leaves=1", "2 to 65535"]),
        ({"learning_rate": 0.0}, ["learning_rate=0.0", "> 0"]),
        ({"learning_rate": NAN}, ["learning_rate=nan", "finite"]),
        ({"max_bin": 70_000}, ["max_bin=70000", "65535"]),
        ({"objective": "binari"}, ["objective='binari'", "did you mean 'binary'"]),
        ({"objective": "multiclass"}, ["num_class=1", "multiclass", "set num_class"]),
        ({"objective": "binary", "num_class": 3}, ["num_class=3", "binary", "multiclass"]),
        ({"metric": "aux"}, ["aux", "auc"]),
        ({"objective": "regression", "metric": "multi_logloss"}, ["multi_logloss"]),
        ({"grow_policy": "widthwise"}, ["grow_policy='widthwise'", "leafwise", "depthwise"]),
        ({"device": "tpu"}, ["device='tpu'", "cpu"]),
        ({"num_threads": -3}, ["num_threads=-3"]),
        ({"min_data_in_leaf": 2.5}, ["min_data_in_leaf=2.5", "integer"]),
        ({"lambda_l2": "1,5"}, ["lambda_l2='1,5'", "number"]),
    ],
)
def test_parameters_out_of_range(params, words):
    with refused(hb.ParameterError, *words):
        train(params)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "opencl", "opencl:0"])
def test_missing_device_lists_what_is_usable(device):
    if device.split(":")[0] in [info.name.split(":")[0] for info in hb.devices() if info.usable]:
        pytest.skip(f"{device} is here")
    with refused(hb.DeviceError, f"device='{device}'", "not available", "'cpu'", "'reference'", "'auto'"):
        train({"device": device})


def test_every_device_says_what_it_is_or_why_it_is_not_here():
    listed = {info.name.split(":")[0]: info for info in hb.devices()}
    assert {"cpu", "reference", "cuda", "opencl"} <= set(listed)
    assert all(info.description for info in listed.values())
    assert listed["cpu"].usable and listed["reference"].usable


def test_data_parameters_that_disagree():
    with refused(hb.DataError, "max_bin=15", "max_bin=63", "make them equal"):
        train({"max_bin": 15}, max_bin=63)
    with refused(hb.DataError, "max_bin=15", "max_bin=63", "make them equal"):
        hb.train(hb.Params(max_bin=15), hb.Dataset(np.arange(60.0)[:, None], label=np.arange(60.0), max_bin=63), 1)


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (lambda scores, data: (np.ones(60), np.full(60, NAN)), ["hessian", "finite|nan"]),
        (lambda scores, data: (np.full(60, INF), np.ones(60)), ["gradient", "finite|inf|nan"]),
        (lambda scores, data: (scores, scores - 1.0), ["hessian", ">= 0|negative"]),
        (lambda scores, data: (scores[:5], scores[:5]), ["shape", "60"]),
        (lambda scores, data: scores, ["gradient", "hessian"]),
        (lambda scores, data: None, ["gradient", "hessian"]),
    ],
)
def test_objective_functions_that_return_nonsense(objective, words):
    with refused(hb.HornbeamError, *words):
        train({"objective": objective})


def test_custom_objective_without_a_function():
    with refused(hb.HornbeamError, "custom", "function|callable"):
        train({"objective": "custom"})


# --- model files ----------------------------------------------------------------------------------------------------


def test_unwritable_path(tmp_path):
    model = train()
    for path in (tmp_path / "no" / "folder" / "model.json", tmp_path):
        with refused(OSError, "cannot write the model", "folder that exists"):
            model.save(path)


def test_damaged_model_files(tmp_path):
    path = tmp_path / "model.json"
    train().save(path)
    good = path.read_bytes()
    document = json.loads(good)
    document["trees"][0]["left"][0] = 10**6
    for content, words in (
        (b"", ["empty"]),
        (good[: len(good) // 2], ["cut short|damaged"]),
        (b"PK\x03\x04\xff", ["archive"]),
        (b"\xff\xfe\x00\x01", ["UTF-8|not a"]),
        (b"{}", ["not a Hornbeam model"]),
        (json.dumps({**json.loads(good), "version": 99}).encode(), ["version", "newer", "upgrade"]),
        (json.dumps(document).encode(), [r"trees\[0\]", "left"]),
    ):
        path.write_bytes(content)
        with refused(hb.ModelFormatError, "model.json", *words):
            hb.load(path)
        with pytest.raises(hb.ModelFormatError):
            hb.train(QUIET, hb.Dataset(X, label=Y), 1, init_model=path)
    with pytest.raises(FileNotFoundError):
        hb.load(tmp_path / "none.json")


# --- small and plain input works ------------------------------------------------------------------------------------


OBJECTIVES = {
    "regression": {},
    "binary": {"objective": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
}
PLAIN = {
    "one row": (np.ones((1, 2)), [1]),
    "two rows": (np.array([[0.0], [1.0]]), [0, 1]),
    "one column": (X[:, :1], Y),
    "one class": (X, np.ones(60)),
    "class zero": (X, np.zeros(60)),
    "constant columns": (np.ones((60, 3)), Y),
    "one constant column": (np.column_stack([X, np.ones(60)]), Y),
    "all-NaN column": (np.column_stack([X, np.full(60, NAN)]), Y),
    "all NaN": (np.full((60, 2), NAN), Y),
    "NaN or one value": (np.where(Y > 0, 1.0, NAN)[:, None], Y),
    "infinities": (np.where(X > 1, INF, np.where(X < -1, -INF, X)), Y),
    "huge and tiny": (X * [1e300, 1e-300, 5e-324], Y),
    "booleans": (X > 0, Y),
}


@pytest.mark.parametrize("params", OBJECTIVES.values(), ids=OBJECTIVES.keys())
@pytest.mark.parametrize(("table", "label"), PLAIN.values(), ids=PLAIN.keys())
@pytest.mark.parametrize("min_data", [1, 20])
def test_plain_input_trains_and_predicts_finite_values(device, params, table, label, min_data):
    params = {**params, "min_data_in_leaf": min_data, "device": device}
    model = train(params, label, table, rounds=3)
    for rows in (table, np.full((2, table.shape[1]), NAN), np.full((2, table.shape[1]), INF)):
        assert np.isfinite(model.predict(rows)).all()
        assert np.isfinite(model.predict(rows, raw_score=True)).all()
    assert hb.Booster.from_bytes(model.to_bytes()).fingerprint() == model.fingerprint()


def test_labels_of_any_allowed_size_give_finite_values(device):
    for scale in (1e38, 1e-38, 1e-100):
        model = train({"device": device, "min_data_in_leaf": 1}, X[:, 0] / np.abs(X[:, 0]).max() * scale, rounds=5)
        assert np.isfinite(model.predict(X)).all()
        assert model.trees[0].n_splits > 0
    assert np.isfinite(train({"device": device}, X[:, 0] * 1e-300).predict(X)).all()  # whose squares are zero


def test_weights_of_any_allowed_size_give_the_same_splits(device):
    def splits(factor):
        data = hb.Dataset(X, label=X[:, 0], weight=np.linspace(0.5, 1.0, 60) * factor)
        model = hb.train({"device": device, "min_sum_hessian_in_leaf": 0.0, "verbosity": -1}, data, 3)
        return [(tree.feature.tolist(), tree.threshold.tolist()) for tree in model.trees]

    assert splits(2.0**-126) == splits(1.0) == splits(2.0**126)
    assert len(splits(1.0)[0][0]) > 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda predictions, data: ("gini", "high", True), ["'high'", "'gini'", "one number"]),
        (lambda predictions, data: ("gini", predictions, True), ["'gini'", "one number"]),
        (lambda predictions, data: [("gini", 1.0, True), ("gini", 2.0, True)], ["two metrics", "'gini'", "another"]),
        (lambda predictions, data: ("l2", 1.0, False), ["two metrics", "'l2'", "leave out"]),
    ],
)
def test_metric_functions_that_return_nonsense(function, words):
    data = hb.Dataset(X, label=X[:, 0])
    with refused(hb.ParameterError, *words):
        hb.train({"verbosity": -1}, data, 2, {"train": data}, feval=function)


@pytest.mark.parametrize(
    ("metric", "wrong", "message"),
    [
        ("gamma", 0.0, "no label <= 0"),
        ("gamma_deviance", -1.0, "no label <= 0"),
        ("poisson", -1.0, "no label < 0"),
        ("tweedie", -1.0, "no label < 0"),
        ("tweedie_deviance", -1.0, "no label < 0"),
        ("cross_entropy", 1.5, r"no label outside \[0, 1\]"),
        ("kullback_leibler", -0.5, r"no label outside \[0, 1\]"),
    ],
)
def test_labels_that_a_metric_has_no_meaning_for_are_refused(metric, wrong, message):
    table, label = np.arange(40.0)[:, None], np.linspace(0.25, 0.75, 40)
    params = {"metric": metric, "verbosity": -1, "device": "cpu", "num_leaves": 3}
    train = hb.Dataset(table, label=label)
    hb.train(params, train, 1, hb.Dataset(table, label=label))
    label = label.copy()
    label[7] = wrong
    with pytest.raises(hb.DataError, match=f"metric '{metric}' takes {message}, but in .*label.7. is {wrong}"):
        hb.train(params, hb.Dataset(table, label=label), 1, hb.Dataset(table, label=label))

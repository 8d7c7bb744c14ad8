"""Constraints as users write them: every form, its canonical value, and what is refused before training."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import ParameterError
from hornbeam.params.constraints import parse_interactions, parse_monotone, resolve_groups, resolve_per_feature
from hornbeam.params.params import Params

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + RNG.normal(size=60)
NAMES = ["age", "price", "a b,c"]


def train(**params):
    return hb.train({"verbosity": -1, **params}, hb.Dataset(X, label=Y, feature_names=NAMES), 2)


@pytest.mark.parametrize(
    "value", [[1, 0, -1], (1, 0, -1), "(1,0,-1)", "1,0,-1", "[1, 0, -1]", " (1, 0, -1,) ", np.array([1, 0, -1])]
)
def test_monotone_constraints_in_order_have_one_form(value):
    params = Params.from_dict({"monotone_constraints": value})
    assert params.monotone_constraints == (1, 0, -1)
    assert resolve_per_feature(params.monotone_constraints, 0.0, NAMES, "x").tolist() == [1.0, 0.0, -1.0]


@pytest.mark.parametrize("value", [{"price": -1, "age": 1}, '{"age": 1, "price": -1}', {"age": 1.0, "price": -1.0}])
def test_monotone_constraints_by_name_have_one_form(value):
    canonical = Params.from_dict({"mc": value}).monotone_constraints
    assert canonical == '{"age": 1, "price": -1}'
    assert resolve_per_feature(canonical, 0.0, NAMES, "x").tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("value", [None, [], (), "", "()", {}])
def test_no_constraints_are_none(value):
    assert parse_monotone(value) is None


@pytest.mark.parametrize(
    "value", [[2], [0.5], ["1"], [True], "1,x", "(1,0", 3, {1: 1}, {"a": 2}, [[1]], np.ones((2, 2)), "1;2", [np.nan]]
)
def test_bad_signs_are_refused(value):
    with pytest.raises(ParameterError, match=r"(?s)monotone_constraints.*-1, 0 and 1"):
        Params.from_dict({"monotone_constraints": value})


@pytest.mark.parametrize("value", [[-0.1], [np.inf], ["a"], [True], {"a": -1.0}, "x", 1.0])
def test_bad_contributions_are_refused(value):
    with pytest.raises(ParameterError, match=r"feature_contri.*>= 0"):
        Params.from_dict({"fc": value})


@pytest.mark.parametrize(
    "value",
    [
        [[0, 1], [2]],
        ((1, 0), (2,)),
        [{0, 1}, {2}],
        "[0,1],[2]",
        "[[0, 1], [2]]",
        " [ [1,0], [2] ] ",
        [np.array([0, 1]), [np.int64(2)]],
    ],
)
def test_interaction_groups_have_one_form(value):
    assert json.loads(Params.from_dict({"interaction_constraints": value}).interaction_constraints) == [[0, 1], [2]]


def test_interaction_groups_take_names_and_numbers():
    canonical = parse_interactions([["price", 0], ["a b,c"]])
    assert [group.tolist() for group in resolve_groups(canonical, NAMES)] == [[True, True, False], [False, False, True]]
    assert parse_interactions('[["price", 0], ["a b,c"]]') == canonical


@pytest.mark.parametrize(
    ("name", "groups"), [("no_interactions", [[0], [1], [2]]), ("pairwise", [[0, 1], [0, 2], [1, 2]])]
)
def test_scikit_learns_names_of_groups_are_the_groups(name, groups):
    assert [np.flatnonzero(group).tolist() for group in resolve_groups(name, NAMES)] == groups
    named, spelled = (train(interaction_cst=value, num_leaves=8, min_data_in_leaf=1) for value in (name, groups))
    assert np.array_equal(named.predict(X), spelled.predict(X))
    assert hb.Booster(model_str=named.model_to_string()).fingerprint() == named.fingerprint()


def test_features_that_scikit_learns_groups_leave_out_are_one_group_more(caplog):
    """As in its documentation: [{0, 1}] is [{0, 1}, {2, 3, 4}]; by the other name they stand alone."""
    table = np.random.default_rng(1).normal(size=(400, 5))
    target = table[:, 0] * table[:, 1] + table[:, 2] * table[:, 3]

    def groups(**params):
        found = resolve_groups(Params.from_dict(params).interaction_constraints, list("abcde"))
        return [np.flatnonzero(group).tolist() for group in found]

    def trained(**params):
        return hb.train({"verbosity": -1, "min_data_in_leaf": 5, **params}, hb.Dataset(table, target), 20)

    one_more = [[0, 1], [2, 3, 4]]
    implied = trained(interaction_cst=[{0, 1}])
    assert np.array_equal(implied.predict(table), trained(interaction_constraints=one_more).predict(table))
    estimator = hb.HornbeamRegressor(interaction_cst=[{0, 1}], n_estimators=20, min_child_samples=5, verbosity=-1)
    assert np.array_equal(estimator.fit(table, target).predict(table), implied.predict(table))
    assert hb.Booster(model_str=implied.model_to_string()).fingerprint() == implied.fingerprint()
    assert "in no group" not in caplog.text
    for given in ([[0, 1], "rest"], '[0,1],"rest"', one_more):
        assert groups(interaction_constraints=given) == groups(interaction_cst=[{0, 1}]) == one_more
    assert groups(interaction_cst=[]) == [[0, 1, 2, 3, 4]] and groups(interaction_cst=one_more) == one_more
    assert groups(interaction_constraints=[[0, 1]]) == [[0, 1], [2], [3], [4]]
    assert "with scikit-learn's interaction_cst" in caplog.text


@pytest.mark.parametrize(
    "value", ["0,1", [0, 1], [[]], [["a"], "b"], {"a": [1]}, [[1.5]], [[True]], "[0,1", 5, [[None]]]
)
def test_bad_groups_are_refused(value):
    with pytest.raises(ParameterError, match=r"interaction_constraints.*groups of features"):
        Params.from_dict({"interaction_constraints": value})


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"monotone_constraints": [1, 0]}, "monotone_constraints has 2 entries and the data 3"),
        ({"monotone_constraints": {"weight": 1}}, "monotone_constraints names feature 'weight'.*'age'"),
        ({"feature_contri": [1.0] * 4}, "feature_contri has 4 entries and the data 3"),
        ({"feature_contri": {"": 1.0}}, "feature_contri names feature ''"),
        ({"interaction_constraints": [[0, 1], [3]]}, "feature 3, and the data have features 0 to 2"),
        ({"interaction_constraints": [[0, -1], [2]]}, "feature -1"),
        ({"interaction_constraints": [["age", "prize"], [2]]}, "names feature 'prize'"),
        ({"path_smooth": 1.0, "min_data_in_leaf": 1}, "path_smooth=1.0 needs min_data_in_leaf of 2"),
        ({"path_smooth": -1.0}, "path_smooth=-1.0"),
        ({"monotone_constraints_method": "best"}, "monotone_constraints_method='best'.*'intermediate'"),
        ({"monotone_penalty": -0.5}, "monotone_penalty"),
        ({"feature_fraction": 0.0}, "feature_fraction"),
        ({"colsample_bynode": 1.5}, "feature_fraction_bynode"),
        ({"colsample_bylevel": -0.5}, "feature_fraction_bylevel"),
        ({"feature_fraction_seed": -1}, "feature_fraction_seed"),
        ({"extra_trees": 1}, "extra_trees"),
    ],
)
def test_contradictions_are_refused_before_training(params, words):
    with pytest.raises(ParameterError, match=words):
        train(**params)


def test_every_form_of_a_constraint_gives_the_same_model():
    models = [
        train(monotone_constraints=value, interaction_constraints=groups).fingerprint()
        for value, groups in [
            ([1, -1, 0], [[0, 1], [2]]),
            ("(1,-1,0)", "[0,1],[2]"),
            (np.array([1, -1, 0]), [(1, 0), (2,)]),
        ]
    ]
    assert len(set(models)) == 1
    by_name = train(monotone_constraints={"age": 1, "price": -1}, interaction_constraints=[["age", "price"], [2]])
    in_order = train(monotone_constraints=[1, -1, 0], interaction_constraints=[[0, 1], [2]])
    assert by_name.predict(X).tolist() == in_order.predict(X).tolist()


def test_constraints_survive_saving(tmp_path):
    model = train(monotone_constraints={"age": 1}, interaction_constraints=[["age", 1], [2]], fc=[1.0, 0.5, 1.0])
    model.save(tmp_path / "model.json")
    assert hb.load(tmp_path / "model.json").fingerprint() == model.fingerprint()
    assert hb.load(tmp_path / "model.json").params["feature_contri"] == [1.0, 0.5, 1.0]

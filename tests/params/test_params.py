"""Parameters: names, aliases, ranges and the errors that guide the user."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam.core.errors import HornbeamError, ParameterError
from hornbeam.params.docs import to_markdown
from hornbeam.params.params import BY_NAME, GROUPS, PARAMETERS, Params

ROOT = Path(__file__).parents[2]

EXAMPLES = {
    "linear_tree": True,
    "boosting": "dart",
    "categorical_feature": ("a", 3),
    "objective": "binary",
    "num_class": 1,
    "precision": "high",
    "grow_policy": "depthwise",
    "metric": ("auc", "l2"),
    "device": "cuda:1",
    "tree_learner": "voting",
    "use_missing": False,
    "zero_as_missing": True,
    "is_enable_sparse": False,
    "enable_bundle": False,
    "boost_from_average": False,
    "base_score": 0.25,
    "first_metric_only": True,
    "extra_trees": True,
    "monotone_constraints": (1, 0, -1),
    "monotone_constraints_method": "intermediate",
    "interaction_constraints": '[[0, 1], ["a"]]',
    "forcedsplits_filename": '{"feature": 0, "threshold": 0.5}',
    "feature_contri": (1.0, 0.5),
    "feature_weights": (1.0, 0.5),
    "lambdarank_norm": False,
    "eval_at": (3, 10),
    "label_gain": (0.0, 2.0, 3.0),
    "reg_sqrt": True,
    "is_unbalance": True,
    "tweedie_variance_power": 1.25,
}
"""A value of every parameter that is no number (numbers are drawn below), num_class aside not the default."""

ALIASES = [(row, alias) for row in PARAMETERS for alias in row.aliases]
FLOATS = [row for row in PARAMETERS if row.type == "float"]
INTS = [row for row in PARAMETERS if row.type in ("int", "threads")]


def example(name):
    if name in EXAMPLES:
        return EXAMPLES[name]
    return 7 if BY_NAME[name].type in ("int", "threads") else 0.75


def values():
    """Some parameters with valid values, by canonical name."""
    optional = {
        "objective": st.sampled_from(["regression", "mse", "binary", "log_loss", "reg:squarederror"]),
        "metric": st.one_of(st.none(), st.lists(st.sampled_from(["auc", "l2", "rmse"]), min_size=1), st.just("none")),
        "num_leaves": st.integers(2, 65_535),
        "max_depth": st.integers(-5, 50),
        "learning_rate": st.floats(1e-300, 1e300),
        "lambda_l2": st.one_of(st.floats(0.0, 1e300), st.integers(0, 10)),
        "max_delta_step": st.floats(-10.0, 10.0),
        "max_bin": st.integers(2, 65_535),
        "seed": st.integers(0, 2**63 - 1),
        "num_threads": st.integers(-1, 64),
        "device": st.sampled_from(["auto", "cpu", "cuda", "cuda:12", "opencl:0", "reference"]),
        "use_missing": st.booleans(),
        "early_stopping_round": st.integers(-3, 30),
        "histogram_pool_size": st.floats(-10.0, 1e4),
        "monotone_constraints": st.one_of(
            st.lists(st.sampled_from([-1, 0, 1])), st.dictionaries(st.text(), st.sampled_from([-1, 1]))
        ),
        "feature_contri": st.one_of(
            st.lists(st.floats(0.0, 9.0)), st.dictionaries(st.text(), st.floats(0.0, 9.0), max_size=3)
        ),
        "feature_weights": st.one_of(
            st.lists(st.floats(0.5, 9.0)), st.dictionaries(st.text(), st.floats(0.0, 9.0), max_size=3)
        ),
        "interaction_constraints": st.lists(st.lists(st.one_of(st.integers(0, 9), st.text()), min_size=1), max_size=3),
    }
    return st.fixed_dictionaries({}, optional=optional)


# ---- the table


def test_every_name_and_alias_is_unique():
    names = [name for row in PARAMETERS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names)) == len(BY_NAME)


def test_every_parameter_is_documented_in_a_known_group():
    assert all(row.doc.endswith(".") and row.group in GROUPS for row in PARAMETERS)


def test_defaults_are_canonical():
    assert Params.from_dict({}) == Params()
    assert all(row.check(row.default) == row.default for row in PARAMETERS)


def test_every_alias_of_lightgbm_is_known():
    lightgbm = pytest.importorskip("lightgbm")
    theirs = lightgbm.basic._ConfigAliases
    for row in PARAMETERS:
        name = {"device": "device_type"}.get(row.name, row.name)
        missing = theirs.get(name) - {row.name, *row.aliases}
        assert not missing, f"{row.name} lacks {missing}"


def test_documentation_is_up_to_date():
    assert (ROOT / "docs/parameters.md").read_text(encoding="utf-8") == to_markdown(), "run `make docs`"


def test_module_prints_the_documentation():
    command = [sys.executable, "-W", "ignore", "-m", "hornbeam.params"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "", "PYTHONUTF8": "1"}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, encoding="utf-8")
    assert printed.stdout == to_markdown()


# ---- values


@settings(max_examples=40)
@given(values())
def test_parsing_is_idempotent(given_values):
    params = Params.from_dict(given_values)
    assert Params.from_dict(params.to_dict()) == params
    assert params.replace() == params
    assert pickle.loads(pickle.dumps(params)) == params
    assert hash(params) == hash(Params.from_dict(given_values))


@settings(max_examples=40)
@given(values())
def test_model_dict_is_json_sorted_and_rebuilds_what_is_saved(given_values):
    params = Params.from_dict(given_values)
    saved = params.model_dict()
    assert list(saved) == sorted(saved)
    restored = Params.from_dict(json.loads(json.dumps(saved)))
    assert restored.model_dict() == saved
    for row in PARAMETERS:
        if row.in_model and row.plain is not None:  # None and the plain number are one: what was chosen is another
            assert restored.number(row.name) == params.number(row.name)
        elif row.in_model:
            assert getattr(restored, row.name) == getattr(params, row.name)
        else:
            assert row.name not in saved


@given(values(), st.sampled_from([row.name for row in PARAMETERS if not row.in_model]))
def test_what_is_not_in_the_model_leaves_model_dict_alone(given_values, name):
    params = Params.from_dict(given_values)
    assert params.replace(**{name: example(name)}).model_dict() == params.model_dict()


@pytest.mark.parametrize(("row", "alias"), ALIASES, ids=[alias for _, alias in ALIASES])
def test_alias_means_the_parameter(row, alias):
    value = example(row.name)
    others = {"num_class": {"objective": "multiclass"}, "alpha": {"objective": "quantile"}}.get(row.name, {})
    value = 3 if row.name == "num_class" else value
    assert Params.from_dict({alias: value, **others}) == Params.from_dict({row.name: value, **others})
    assert getattr(Params.from_dict({alias: value, **others}), row.name) == value


@pytest.mark.parametrize("row", [*FLOATS, *INTS], ids=lambda row: row.name)
def test_text_of_a_number_is_the_number(row):
    """LightGBM and XGBoost take such texts, which configuration files and command lines have."""
    value = example(row.name)
    others = {"num_class": {"objective": "multiclass"}}.get(row.name, {})
    value = 3 if row.name == "num_class" else value
    assert Params.from_dict({row.name: f" {value}", **others}) == Params.from_dict({row.name: value, **others})


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "0.1x", True, 1j, [1.0], 10**400, np.float32("nan")])
def test_float_parameter_rejects_what_is_no_finite_number(row, value):
    with pytest.raises(ParameterError, match=row.name):
        Params.from_dict({row.name: value})


@pytest.mark.parametrize("row", INTS, ids=lambda row: row.name)
@pytest.mark.parametrize("value", [1.0, "3.0", "", True, np.True_, np.float64(3.0), math.nan])
def test_int_parameter_rejects_what_is_no_integer(row, value):
    with pytest.raises(ParameterError, match=row.name):
        Params.from_dict({row.name: value})


@pytest.mark.parametrize("value", [0, 1, "yes", 1.0])
def test_bool_parameter_rejects_what_is_no_bool(value):
    with pytest.raises(ParameterError, match="use_missing"):
        Params.from_dict({"use_missing": value})


def test_numpy_scalars_become_python_values():
    params = Params.from_dict(
        {"num_leaves": np.int16(7), "lambda_l2": np.float32(0.5), "use_missing": np.False_, "objective": np.str_("mse")}
    )
    assert [type(v) for v in (params.num_leaves, params.lambda_l2, params.use_missing, params.objective)] == [
        int,
        float,
        bool,
        str,
    ]
    assert type(Params(lambda_l1=3).lambda_l1) is float


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("num_leaves", [2, 65_535], [1, 0, -1, 65_536]),
        ("max_bin", [2, 65_535], [1, 65_536]),
        ("learning_rate", [1e-300, 5.0], [0.0, -0.1]),
        ("sigmoid", [1e-3], [0.0, -1.0]),
        ("path_smooth", [0.0, 1e-30, 2.0], [-1.0, 5e-324]),
        ("lambda_l1", [0.0], [-1e-9]),
        ("min_data_in_leaf", [0], [-1]),
        ("min_data_in_bin", [1], [0]),
        ("num_iterations", [0], [-1]),
        ("seed", [0, 2**63 - 1], [-1, 2**63]),
        ("num_threads", [-1, 0, 5], [-2]),
        ("metric_freq", [1], [0]),
    ],
)
def test_range_ends_where_documented(name, good, bad):
    for value in good:
        Params.from_dict({name: value})
    for value in bad:
        with pytest.raises(ParameterError, match=rf"{name}=.*must be"):
            Params.from_dict({name: value})


@pytest.mark.parametrize(
    ("name", "spellings", "value"),
    [
        ("max_depth", [-1, 0, -7], -1),
        ("histogram_pool_size", [-1, 0, -3.5, -0.0], -1.0),
        ("early_stopping_round", [0, -1], 0),
        ("max_delta_step", [0, -1.0, -0.0], 0.0),
        ("num_threads", [0, -1], 0),
        ("lambda_l2", [0, -0.0], 0.0),
        ("grow_policy", ["leafwise", "lossguide"], "leafwise"),
        ("objective", ["binary", "binary:logistic", "log_loss"], "binary"),
        ("metric", ["auc,l2", ["auc", "l2"], ("auc", "l2", "auc"), "auc, l2"], ("auc", "l2")),
    ],
)
def test_one_meaning_has_one_value(name, spellings, value):
    for spelling in spellings:
        canonical = getattr(Params.from_dict({name: spelling}), name)
        assert repr(canonical) == repr(value)


@pytest.mark.parametrize("device", ["gpu:0", "cuda:", "cuda:-1", "CPU", "cpu:0", "opencl:x", "", 0])
def test_unknown_device_is_an_error(device):
    with pytest.raises(ParameterError, match=r"device=.*hornbeam\.devices"):
        Params.from_dict({"device": device})


@pytest.mark.parametrize("metric", [[1], len, 3])
def test_malformed_metric_is_an_error(metric):
    with pytest.raises(ParameterError, match="metric="):
        Params.from_dict({"metric": metric})


def test_single_metric_keeps_its_form():
    assert Params.from_dict({"metric": "none"}).metric == "none"
    assert Params.from_dict({"metric": ["auc"]}).metric == ("auc",)
    assert Params.from_dict({}).metric is None


# ---- names


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ParameterError, match="'num_leafs'; did you mean 'num_leaf' or 'num_leaves'"):
        Params.from_dict({"num_leafs": 3})
    with pytest.raises(ParameterError, match="'Learning_Rate'; did you mean 'learning_rate'"):
        Params.from_dict({"Learning_Rate": 0.1})
    with pytest.raises(ParameterError, match=r"'xyzzy'; docs/parameters\.md"):
        Params.from_dict({"xyzzy": 3})
    with pytest.raises(ParameterError, match="unknown parameter 3"):
        Params.from_dict({3: 3})


def test_unknown_choice_suggests_the_nearest():
    with pytest.raises(ParameterError, match="use 'gbtree'"):
        Params.from_dict({"booster": "gblinear"})
    with pytest.raises(ParameterError, match="'leafwise', 'depthwise'"):
        Params.from_dict({"grow_policy": "best"})


def test_two_names_with_one_value_agree():
    assert Params.from_dict({"lambda": 1, "reg_lambda": 1.0, "lambda_l2": np.float32(1)}).lambda_l2 == 1.0
    assert Params.from_dict({"objective": "mse", "loss": "squared_error"}).objective == "regression"


def test_of_two_names_with_different_values_the_canonical_one_counts(caplog):
    assert Params.from_dict({"eta": 0.1, "learning_rate": 0.2}).learning_rate == 0.2
    assert "eta=0.1 and learning_rate=0.2 are two names of one parameter (learning_rate)" in caplog.text
    caplog.clear()
    for quiet in ("verbosity", "verbose"):
        assert Params.from_dict({"eta": 0.1, "shrinkage_rate": 0.2, quiet: -1}).learning_rate == 0.1
    assert not caplog.text


def test_override_wins_over_any_alias_and_none_is_no_override():
    given_values = {"n_estimators": 10}
    assert Params.from_dict(given_values, num_boost_round=20).num_iterations == 20
    assert Params.from_dict(given_values, num_iterations=None).num_iterations == 10
    assert given_values == {"n_estimators": 10}


def test_params_must_be_a_mapping():
    with pytest.raises(ParameterError, match="list"):
        Params.from_dict([("eta", 0.1)])
    assert Params.from_dict(None) == Params()


# ---- parameters that depend on each other


def test_number_of_classes_must_suit_the_objective():
    with pytest.raises(ParameterError, match="2 or more"):
        Params.from_dict({"objective": "multiclass"})
    with pytest.raises(ParameterError, match="one output"):
        Params.from_dict({"objective": "binary", "num_class": 2})
    assert Params.from_dict({"objective": "softmax", "num_class": 2}).num_class == 2


def test_objective_function_is_kept_and_saved_as_custom():
    def objective(scores, dataset):
        return scores, scores

    params = Params.from_dict({"objective": objective, "num_class": 3})
    assert params.objective is objective
    assert params.model_dict() == {"num_class": 3, "objective": "custom"}
    assert Params.from_dict(params.model_dict()).objective == "custom"


def test_params_are_frozen_and_checked_however_made():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Params().num_leaves = 3
    with pytest.raises(ParameterError, match="num_leaves"):
        Params(num_leaves=1)
    with pytest.raises(ParameterError, match="num_leaves"):
        Params().replace(max_leaves=1)
    assert Params().replace(eta=0.5).learning_rate == 0.5


def test_parameter_error_is_a_value_error():
    assert issubclass(ParameterError, ValueError)
    assert issubclass(ParameterError, HornbeamError)

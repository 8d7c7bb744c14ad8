"""Parameters from arguments, TOML and LightGBM's configuration files are one."""

from __future__ import annotations

from pathlib import Path

import pytest

import hornbeam as hb
from hornbeam.cli.parameters import read_parameters, typed
from hornbeam.core.errors import DataError, ParameterError

LIGHTGBM = """
# a configuration of LightGBM
task = train
objective = binary   # a comment
data = train.csv
valid_data = valid.csv
label_column = name:y
ignore_column = name:id,w
num_trees = 5
num_leaves = 7
output_model = conf.json
is_enable_sparse = true
two_round = false
"""

TOML = """
objective = "binary"
num_iterations = 5
data = "train.csv"
label_column = "y"
ignore_column = ["id", "w"]
output_model = "toml.json"

[params]
num_leaves = 7
metric = ["auc", "binary_logloss"]
"""


def test_three_ways_to_one_model(run):
    words = ("train", "train.csv", "-l", "y", "--ignore", "id,w", "-o", "words.json")
    run(*words, "objective=binary", "num_iterations=5", "num_leaves=7")
    Path("train.conf").write_text(LIGHTGBM)
    Path("train.toml").write_text(TOML)
    run("train", "--config", "train.conf")
    run("train", "-c", "train.toml")
    models = [hb.load(f"{name}.json") for name in ("words", "conf", "toml")]
    assert len({model.fingerprint() for model in models}) == 1


def test_arguments_win_over_a_file(run):
    Path("train.conf").write_text(LIGHTGBM)
    run("train", "--config", "train.conf", "num_iterations=3", "-o", "short.json")
    assert hb.load("short.json").n_iterations == 3
    run("train", "train.csv", "num_iterations=2", "--config", "train.conf", "-o", "short.json")
    assert hb.load("short.json").n_iterations == 2
    run("cv", "--config", "train.conf", "-k", "2", "num_iterations=2")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num_leaves", "7", 7),
        ("learning_rate", "1e-2", 0.01),
        ("use_missing", "false", False),
        ("use_missing", "1", True),
        ("metric", "auc,l2", "auc,l2"),
        ("label_gain", "0,1,3.5", [0, 1, 3.5]),
        ("lambda_l2", "none", None),
        ("num_leaves", "many", "many"),
        ("two_round", "True", True),
        ("device", "cpu", "cpu"),
    ],
)
def test_texts_become_values_by_the_type_of_the_parameter(name, text, value):
    assert typed(name, text) == value
    assert type(typed(name, text)) is type(value)


def test_lists_reach_the_parameters():
    pairs = ["monotone_constraints=1,0,-1", "interaction_constraints=[0,1],[2]", "eval_at=1,3", "label_gain=0,1,3"]
    params, places = read_parameters(None, [*pairs, "label_column=name:y", "header=true"])
    assert params.monotone_constraints is not None and params.interaction_constraints is not None
    assert params.eval_at == (1, 3) and params.label_gain == (0.0, 1.0, 3.0)
    assert places == {"label_column": "name:y", "header": "true"}


def test_bad_parameters_are_named(tmp_path):
    (tmp_path / "a.conf").write_text("num_leaves 7\n")
    (tmp_path / "a.toml").write_text("num_leaves = \n")
    (tmp_path / "b.toml").write_text("[trees]\nnum_leaves = 7\n")
    for config, pairs, kind, message in [
        (None, ["num_leaves"], ParameterError, "KEY=VALUE"),
        (None, ["num_leaves=many"], ParameterError, "must be an integer"),
        (None, ["num_leavs=7"], ParameterError, "did you mean 'num_leaves'"),
        (None, ["task=predict"], ParameterError, "a command is a task"),
        (tmp_path / "a.conf", [], ParameterError, "line 1"),
        (tmp_path / "a.toml", [], ParameterError, "no TOML"),
        (tmp_path / "b.toml", [], ParameterError, r"\[trees\]"),
        (tmp_path / "none.toml", [], DataError, "cannot be read"),
    ]:
        with pytest.raises(kind, match=message):
            read_parameters(None if config is None else str(config), pairs)

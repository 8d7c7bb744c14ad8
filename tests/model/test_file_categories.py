"""Model files with categorical features: levels and sets of codes there and back, and damage noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hornbeam.backends.prediction import predict_raw
from hornbeam.core.errors import ModelFormatError
from hornbeam.data.levels import Levels
from hornbeam.model.booster import Booster
from hornbeam.model.file import ModelData, model_from_bytes, model_to_bytes
from hornbeam.testing.trees import random_tree, with_categorical_splits
from hornbeam.trees.forest import Forest

LEVELS: list[Levels | None] = [
    None,
    Levels(("red", "größe", "", 'a " and \\', "\ud800")),
    Levels((7, 0, 2**63 - 1, 3)),
    Levels((True, False)),
]
N_LEVELS = {feature: len(own) for feature, own in enumerate(LEVELS) if own is not None}


def make_model() -> ModelData:
    rng = np.random.default_rng(3)
    trees = [with_categorical_splits(rng, random_tree(rng, n, 4), N_LEVELS) for n in (9, 1, 6)]
    return ModelData(
        feature_names=["a", "b", "c", "d"],
        n_outputs=1,
        objective={"name": "regression"},
        params={},
        init_scores=[0.5],
        trees=trees,
        levels=LEVELS,
    )


def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(model_to_bytes(make_model()))
    return made


def categorical_split() -> int:
    """Return a split of tree 0 that has a set."""
    return next(i for i, own in enumerate(document()["trees"][0]["left_codes"]) if own is not None)


def test_a_model_survives_the_way_there_and_back():
    data = model_to_bytes(make_model())
    model = model_from_bytes(data)
    assert model_to_bytes(model) == data
    assert [own and own.values for own in model.levels] == [own and own.values for own in LEVELS]
    for tree, twin in zip(make_model().trees, model.trees, strict=True):
        assert (tree.left_codes is None) == (twin.left_codes is None)
        for one, other in zip(tree.left_codes or (), twin.left_codes or (), strict=True):
            assert (one is None) == (other is None)
            assert one is None or (one.dtype == other.dtype and one.tolist() == other.tolist())


def test_a_booster_keeps_its_levels():
    booster = Booster(make_model())
    again = Booster.from_bytes(booster.to_bytes())
    assert again.fingerprint() == booster.fingerprint()

    frame = pd.DataFrame({"a": [0.5, 1.0], "b": ["red", "unheard"], "c": [7, 0], "d": [True, False]})
    assert (again.predict(frame) == booster.predict(frame)).all()
    codes = np.array([[0.5, 0.0, 0.0, 0.0], [1.0, np.nan, 1.0, 1.0]])
    assert (booster.predict(frame) == predict_raw(booster.forest, codes, [0.5])[0]).all()


def test_models_and_trees_without_categories_have_no_such_keys():
    rng = np.random.default_rng(0)
    plain = ModelData(["a"], 1, {"name": "regression"}, {}, [0.0], trees=[random_tree(rng, 4, 1)])
    made = json.loads(model_to_bytes(plain))
    assert "levels" not in made
    assert "left_codes" not in made["trees"][0]
    assert "left_codes" not in document()["trees"][1]
    assert "cut_features" not in document()


def test_features_that_are_cut_are_named_in_the_file():
    levels = [own and replace(own, is_cut=place == 2) for place, own in enumerate(LEVELS)]
    data = model_to_bytes(replace(make_model(), levels=levels))
    assert json.loads(data)["cut_features"] == [2]
    model = model_from_bytes(data)
    assert [own is not None and own.is_cut for own in model.levels] == [False, False, True, False]
    assert model_to_bytes(model) == data
    whole, numbers = ({"a": [0.5], "b": ["red"], "c": [value], "d": [True]} for value in (3.0, 3.9))
    booster = Booster(model)
    assert booster.predict(pd.DataFrame(numbers)) == booster.predict(pd.DataFrame(whole))
    assert booster.fingerprint() != Booster(make_model()).fingerprint()


WRONG: list[tuple[list[Any], Any, str]] = [
    (["levels"], None, r"^levels: None is not a JSON array"),
    (["levels"], [None] * 3, r"^levels: has 3 entries"),
    (["levels"], [None] * 4, r"^levels: no feature is categorical"),
    (["levels", 1], {}, r"^levels\[1\]: a JSON object"),
    (["levels", 1, 1], 3, r"^levels\[1\]\[1\]: 3 is not a string"),
    (["levels", 1, 1], "red", r"^levels\[1\]: a level occurs twice"),
    (["levels", 2, 1], True, r"^levels\[2\]\[1\]: True is not an integer"),
    (["levels", 2, 1], -1, r"^levels\[2\]: a level is not in"),
    (["levels", 2, 1], 2**63, r"^levels\[2\]: a level is not in"),
    (["levels", 2, 0], 1.0, r"^levels\[2\]"),
    (["levels", 1], None, r"^trees\[0\].left_codes\[\d+\]: .* is not null"),
    (["levels", 0], ["x"], r"^trees\[\d\].left_codes"),
    (["trees", 0, "left_codes"], None, r"^trees\[0\].left_codes: None is not a JSON array"),
    (["trees", 0, "left_codes"], [], r"^trees\[0\].left_codes: has 0 entries, must have 8"),
    (["trees", 0, "left_codes", "set"], None, r"^trees\[0\].left_codes\[\d+\]: None is not a JSON array"),
    (["trees", 0, "left_codes", "set"], [], r"^trees\[0\].left_codes\[\d+\]: is empty"),
    (["trees", 0, "left_codes", "set"], [0, 0], r"^trees\[0\].left_codes\[\d+\]: codes are not ascending"),
    (["trees", 0, "left_codes", "set"], [1, 0], r"^trees\[0\].left_codes\[\d+\]: codes are not ascending"),
    (["trees", 0, "left_codes", "set"], [-1], r"^trees\[0\].left_codes\[\d+\]: -1 is not in"),
    (["trees", 0, "left_codes", "set"], [9], r"^trees\[0\].left_codes\[\d+\]: 9 is not in"),
    (["trees", 0, "left_codes", "set"], [0.0], r"^trees\[0\].left_codes\[\d+\]\[0\]: 0.0 is not an integer"),
    (["trees", 1, "left_codes"], [], r"^trees\[1\].left_codes: no split has a categorical feature"),
    (["cut_features"], None, r"^cut_features: None is not a JSON array"),
    (["cut_features"], {"2": 1}, r"^cut_features: a JSON object"),
    (["cut_features"], [], r"^cut_features: must be places of categorical features"),
    (["cut_features"], [2.0], r"^cut_features\[0\]: 2.0 is not an integer"),
    (["cut_features"], [True], r"^cut_features\[0\]: True is not an integer"),
    (["cut_features"], ["c"], r"^cut_features\[0\]: 'c' is not an integer"),
    (["cut_features"], [2, 2], r"^cut_features: must be places of categorical features, ascending"),
    (["cut_features"], [-1], r"^cut_features: must be places"),
    (["cut_features"], [4], r"^cut_features: must be places"),
    (["cut_features"], [10**30], r"^cut_features"),
    (["cut_features"], [0], r"^cut_features: feature 0 has no levels that are integers"),
    (["cut_features"], [1, 2], r"^cut_features: feature 1 has no levels that are integers"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_wrong_values_are_refused_with_their_place(path, value, message):
    made = document()
    target: Any = made
    path = [categorical_split() if key == "set" else key for key in path]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(ModelFormatError, match=message):
        model_from_bytes(json.dumps(made).encode())


def test_features_of_a_model_without_levels_cannot_be_cut():
    tree = random_tree(np.random.default_rng(0), 4, 1)
    made = json.loads(model_to_bytes(ModelData(["a"], 1, {"name": "regression"}, {}, [0.0], trees=[tree])))
    made["cut_features"] = [0]
    with pytest.raises(ModelFormatError, match="cut_features: must be places of categorical features"):
        model_from_bytes(json.dumps(made).encode())


def test_missing_sets_are_refused():
    made = document()
    del made["trees"][0]["left_codes"]
    with pytest.raises(ModelFormatError, match=r'^trees\[0\]: the key "left_codes" is missing'):
        model_from_bytes(json.dumps(made).encode())


PLACES = [
    path
    for tree in (0, 2)
    for path in (
        ["levels"],
        ["cut_features"],
        *(["levels", feature] for feature in range(4)),
        *(["levels", feature, 1] for feature in range(1, 4)),
        ["trees", tree, "left_codes"],
        *(["trees", tree, "left_codes", split] for split in range(5)),
        *(["trees", tree, "feature", split] for split in range(5)),
    )
]

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 6) | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_changed_values_never_cause_another_error(data):
    made = document()
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(PLACES))
        target: Any = made
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = data.draw(values)
        except (KeyError, IndexError, TypeError):
            pass
    try:
        model = model_from_bytes(json.dumps(made).encode())
    except ModelFormatError:
        return
    canonical = model_to_bytes(model)
    assert model_to_bytes(model_from_bytes(canonical)) == canonical
    rows = np.random.default_rng(0).integers(-1, 6, (20, 4)).astype(np.float64)
    forest = Forest(model.trees, 1)
    assert (predict_raw(forest, rows) == predict_raw(forest, rows, device="reference")).all()

"""Foreign files that are damaged, unknown or hostile: one line that says what, never another error, bounded memory."""

from __future__ import annotations

import contextlib
import json
import random
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.convert import FORMATS
from hornbeam.convert.lightgbm import writing as lightgbm
from hornbeam.convert.xgboost import writing as xgboost
from hornbeam.convert.xgboost.ubj import decode, encode
from hornbeam.core.errors import ModelFormatError

N_FUZZED = 400

WORDS = [b"nan", b"-1", b"1e999", b"99999999999999999999", b"", b" ", b"0", b"2147483648", b"1_0", b"\xff", b"[", b"{",
         b"}", b"]", b"null", b'"x"', b"-0.0", b"3", b"0x1", b"inf", b"=", b"\n", b"Tree=0", b"true"]  # fmt: skip

WRITERS = {"lightgbm": lightgbm.write, "json": xgboost.write_json, "ubj": xgboost.write_ubj}


@pytest.fixture(params=WRITERS)
def content(request: pytest.FixtureRequest, models: dict[str, Any]) -> bytes:
    """A small file of each format, with numbers, categories and missing values as a level."""
    return WRITERS[request.param](models["missing_level"](), True)


def read(data: bytes) -> hb.Booster | None:
    """Return the model of a damaged file that is one all the same; None where ModelFormatError says what is wrong."""
    try:
        return hb.Booster.from_bytes(data)
    except ModelFormatError as error:
        message = str(error)
    assert "\n" not in message and 10 < len(message) < 1000
    return None


def test_damaged_files_are_clear_errors_or_models(content):
    rng = random.Random(0)
    rows = np.array([[0.0, 1.0], [np.nan, np.nan], [3.0, -5.0]])
    n_models = 0
    for _ in range(N_FUZZED):
        data = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            place, length = rng.randrange(len(data)), rng.randint(0, 12)
            kind = rng.randrange(4)
            if kind == 0:
                data[place] = rng.randrange(256)
            elif kind == 1:
                data[place : place + length] = rng.choice(WORDS)
            elif kind == 2:
                data[place : place + length * 5] = b""
            else:
                data[place:place] = data[place : place + length * 5]
        made = read(bytes(data))
        if made is not None:
            n_models += 1
            with contextlib.suppress(hb.DataError):  # the levels are strings now, say
                made.predict(rows[:, : made.n_features] if made.n_features <= 2 else np.zeros((1, made.n_features)))
    assert n_models < N_FUZZED


def test_files_that_are_cut_short_are_errors(content):
    end = content.index(b"end of trees") if content.startswith(b"tree") else len(content)
    for length in [*range(60), *np.linspace(60, end - 1, 60).astype(int).tolist()]:
        with pytest.raises(ModelFormatError):
            hb.Booster.from_bytes(content[:length])


def numbers_in(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything in a document."""
    found = [path] if path else []
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, own in pairs:
        found += numbers_in(own, (*path, key))
    return found


def test_every_value_of_a_document_is_checked(models):
    document = json.loads(xgboost.write_json(models["missing_level"](), True))
    document["learner"]["gradient_booster"]["model"]["trees"] = document["learner"]["gradient_booster"]["model"][
        "trees"
    ][:1]
    document["learner"]["gradient_booster"]["model"]["tree_info"] = [0]
    document["learner"]["gradient_booster"]["model"]["gbtree_model_param"]["num_trees"] = "1"
    text = json.dumps(document)
    assert read(text.encode()) is not None
    rng = random.Random(1)
    for path in numbers_in(document):
        for value in rng.sample([None, -1, 10**30, 1.5, "x", [], {}, True, float("nan"), [None], "9" * 30], 3):
            damaged = json.loads(text)
            holder = damaged
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            read(json.dumps(damaged).encode())


def replaced(content: bytes, pattern: str, text: str) -> bytes:
    made, n = re.subn(pattern.encode(), text.encode(), content, count=1)
    assert n == 1
    return made


LIGHTGBM_PROBLEMS = {
    "version": (r"version=v4", "version=v9", "version: 'v9' is not known; v2, v3, v4 are read"),
    "linear": (r"is_linear=0", "is_linear=1", "num_features is missing"),
    "objective": ("objective=regression", "objective=mystery", "is not an objective of Hornbeam"),
    "feature": (r"split_feature=\d", "split_feature=7", "splits feature 7, of 2 features"),
    "leaves": (r"num_leaves=\d+", "num_leaves=3", "has more entries, must have 2"),
    "classes": ("num_class=1", "num_class=2000000000", "must have a multiple|does not go with the objective"),
    "names": ("feature_names=column0 column1", "feature_names=column0", "has 1 names, must have 2"),
    "same names": ("feature_names=column0 column1", "feature_names=a a", "has a name twice"),
    "number": (r"shrinkage=0.1", "shrinkage=fast", "'fast' is not a finite number"),
    "decision": (r"decision_type=\d+", "decision_type=99", "has an entry that is none"),
    "set": (r"cat_boundaries=0 1", "cat_boundaries=1 0", "are not ascending from 0"),
    "trees": (r"Tree=1", "Tree=5", "line .* is 'Tree=5', where Tree=1 is due"),
    "sizes": (r"tree_sizes=\d+ ", "tree_sizes=", "announces 4 trees, and there are 5"),
    "categorical": (r"pandas_categorical:null", "pandas_categorical:{", "pandas_categorical: the file is damaged"),
}


@pytest.mark.parametrize("problem", LIGHTGBM_PROBLEMS)
def test_problem_of_a_lightgbm_file_is_named(problem, models):
    pattern, text, message = LIGHTGBM_PROBLEMS[problem]
    content = lightgbm.write(models["missing_level"](), True)
    if problem == "classes":
        content = content.replace(b"num_tree_per_iteration=1\n", b"")
    with pytest.raises(ModelFormatError, match=message):
        hb.Booster.from_bytes(replaced(content, pattern, text))


def gblinear(learner: dict[str, Any]) -> None:
    learner["gradient_booster"] = {"name": "gblinear", "model": {"weights": [1.0]}}


def vector_leaves(learner: dict[str, Any]) -> None:
    learner["gradient_booster"]["model"]["trees"][0]["tree_param"]["size_leaf_vector"] = "3"


def loop(learner: dict[str, Any]) -> None:
    learner["gradient_booster"]["model"]["trees"][0]["left_children"][1] = 0


def huge_category(learner: dict[str, Any]) -> None:
    learner["gradient_booster"]["model"]["trees"][0]["categories"][0] = 2**30


def unknown_objective(learner: dict[str, Any]) -> None:
    learner["objective"]["name"] = "reg:mystery"


def many_features(learner: dict[str, Any]) -> None:
    learner["learner_model_param"]["num_feature"] = "2000000000"
    learner["feature_names"] = learner["feature_types"] = []


def names(learner: dict[str, Any]) -> None:
    learner["feature_names"] = ["a", "b", "c"]


def start(learner: dict[str, Any]) -> None:
    learner["learner_model_param"]["base_score"] = "[1,2,3]"


XGBOOST_PROBLEMS = {
    gblinear: "'gblinear' is a linear model, which Hornbeam does not have; train with booster='gbtree'",
    vector_leaves: r"leaves hold vectors of 3 numbers, and the model has 1 output\(s\)",
    loop: "has child 0, which is no node or the child of another one",
    huge_category: "has a category that is not in 0..",
    unknown_objective: "'reg:mystery' is not an objective that is known; known are",
    many_features: "2000000000 features have no names",
    names: "feature_names: has 3 entries, must have 2",
    start: "base_score: has 3 numbers, must have 1",
}


@pytest.mark.parametrize("damage", XGBOOST_PROBLEMS, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_problem_of_an_xgboost_file_is_named(damage, kind, models):
    document = decode(xgboost.write_ubj(models["missing_level"](), True))
    damage(document["learner"])
    text = json.dumps(document, default=np.ndarray.tolist).encode()
    data = text if kind == "json" else encode(plain(document))
    with pytest.raises(ModelFormatError, match=XGBOOST_PROBLEMS[damage]):
        hb.Booster.from_bytes(data)


def plain(value: Any) -> Any:
    """Return a document without numbers that the encoder does not know."""
    if isinstance(value, dict):
        return {key: plain(own) for key, own in value.items()}
    if isinstance(value, list):
        return [plain(own) for own in value]
    return np.array([value]) if isinstance(value, float) else value


def test_unknown_version_of_xgboost_is_named(models):
    document = json.loads(xgboost.write_json(models["float32"](), False))
    document["version"] = [9, 0, 0]
    with pytest.raises(ModelFormatError, match=r"version: \[9, 0, 0\] is not known; files of XGBoost 1 to 3 are read"):
        hb.Booster.from_bytes(json.dumps(document).encode())


OTHER_FILES = {
    "old xgboost": (b"binf" + bytes(100), "XGBoost's old binary format"),
    "catboost": (b"CBM1" + bytes(100), "CatBoost"),
    "pickle": (b"\x80\x04\x95" + bytes(100), "pickle"),
    "treelite": (None, "not a model|damaged"),
    "empty": (b"", "the file is empty"),
    "text": (b"hello", "damaged, cut short or not a model"),
    "json": (b'{"a": 1}', "this is not a Hornbeam model"),
    "zip": (b"PK\x03\x04" + bytes(100), "archive"),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_file_of_another_kind_is_named(kind, tmp_path, models):
    data, message = OTHER_FILES[kind]
    path = tmp_path / "model.bin"
    path.write_bytes(data if data is not None else FORMATS["treelite"].write(models["numbers"](), False))
    with pytest.raises(ModelFormatError, match=f"model.bin: .*({message})"):
        hb.load(path)


HOSTILE = {
    "json lists": b'{"learner":[' + b"[]," * 700_000 + b"[]]}",
    "json objects": b'{"learner":[' + b"{}," * 700_000 + b"{}]}",
    "json depth": b'{"learner":' + b"[" * 100_000,
    "ubj lists": b"{L" + (1).to_bytes(8, "big") + b"a[" + b"[]" * 100_000 + b"]}",
    "ubj length": b"{L" + (1).to_bytes(8, "big") + b"a[#L" + (2**60).to_bytes(8, "big"),
    "ubj typed": b"{L" + (1).to_bytes(8, "big") + b"a[$D#L" + (2**60).to_bytes(8, "big"),
    "ubj count": b"{L" + (1).to_bytes(8, "big") + b"a{#L" + (2**60).to_bytes(8, "big"),
    "ubj depth": b"{L" + (1).to_bytes(8, "big") + b"a" + b"[" * 100_000,
    "lightgbm keys": b"tree\nversion=v4\n" + b"".join(b"%d\n" % i for i in range(300_000)) + b"end of trees\n",
    "lightgbm numbers": b"tree\nversion=v4\nmax_feature_idx=" + b"1 " * 1_000_000 + b"\nend of trees\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_memory_of_a_hostile_file_is_bounded(kind):
    data = HOSTILE[kind]
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError):
            hb.Booster.from_bytes(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(data) + 4_000_000


def test_nothing_of_a_foreign_file_is_run(models, tmp_path):
    content = lightgbm.write(models["float32"](), False)
    marker = tmp_path / "ran"
    evil = f"__import__('pathlib').Path({str(marker)!r}).touch()".encode()
    with pytest.raises(ModelFormatError):
        hb.Booster.from_bytes(content.replace(b"shrinkage=0.1", b"shrinkage=" + evil, 1))
    assert not marker.exists()

"""Model files: one model, one sequence of bytes; damage is always noticed."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hornbeam.backends.prediction import predict_raw
from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.model.file import (
    ModelData,
    fingerprint,
    model_from_bytes,
    model_to_bytes,
    read_model,
    write_atomically,
)
from hornbeam.testing.trees import random_tree
from hornbeam.trees.forest import Forest


def make_model(n_leaves: tuple[int, ...] = (5, 3, 1, 4)) -> ModelData:
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, n, 3) for n in n_leaves]
    trees[0].threshold[:2] = np.inf, -np.inf
    trees[0].leaf_value[0] = -0.0
    return ModelData(
        feature_names=["age", "größe", 'quote " and \\ and \n'],
        n_outputs=1,
        objective={"name": "binary", "sigmoid": 1.0},
        params={"learning_rate": 0.25, "num_leaves": 5, "objective": "binary"},
        init_scores=[-0.125],
        best_iteration=2,
        trees=trees,
    )


def document_of(model: ModelData) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(model_to_bytes(model))
    return document


def as_bytes(document: object) -> bytes:
    return json.dumps(document).encode()


def assert_same_model(one: ModelData, other: ModelData) -> None:
    assert vars(one).keys() == vars(other).keys()
    for name, value in vars(one).items():
        if name != "trees":
            assert getattr(other, name) == value
    assert len(one.trees) == len(other.trees)
    for tree, twin in zip(one.trees, other.trees, strict=True):
        for name, value in vars(tree).items():
            if name in ("shrinkage", "left_codes", "linear"):
                assert getattr(twin, name) == value
            else:
                array = getattr(twin, name)
                assert array.dtype == value.dtype
                assert array.tobytes() == value.tobytes()  # tells -0.0 from 0.0


# Writing


def test_a_model_survives_the_way_there_and_back() -> None:
    model = make_model()
    data = model_to_bytes(model)
    loaded = model_from_bytes(data)
    assert_same_model(model, loaded)
    assert model_to_bytes(loaded) == data


def test_bytes_are_canonical_json() -> None:
    data = model_to_bytes(make_model())
    assert data.isascii()
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 1
    document = json.loads(data)
    assert json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n" == data
    assert document["trees"][0]["threshold"][:2] == ["inf", "-inf"]
    assert document["format"] == "hornbeam-model"
    assert document["version"] == 1


def test_fingerprint_is_the_hash_of_the_file_without_it() -> None:
    model = make_model()
    seal = fingerprint(model)
    data = model_to_bytes(model)
    assert json.loads(data)["fingerprint"] == seal
    rest = data.replace(f'"fingerprint":"{seal}",'.encode(), b"")
    assert hashlib.sha256(rest).hexdigest() == seal
    assert list(json.loads(data)) == sorted(json.loads(data))


@pytest.mark.parametrize("n_trees", [0, 1])
def test_models_of_no_tree_and_of_lone_leaves(n_trees: int) -> None:
    model = make_model()
    model.trees = [random_tree(np.random.default_rng(0), 1, 3)] * n_trees
    model.best_iteration = 0
    data = model_to_bytes(model)
    assert_same_model(model, model_from_bytes(data))


def test_multiclass_model() -> None:
    model = make_model()
    model.n_outputs, model.init_scores, model.best_iteration = 2, [0.5, -0.5], 1
    model.objective = {"name": "multiclass", "num_class": 2}
    model.params = {"num_class": 2, "objective": "multiclass"}
    assert_same_model(model, model_from_bytes(model_to_bytes(model)))


def test_custom_objective() -> None:
    model = make_model()
    model.objective = {"name": "custom", "num_class": 1}
    model.params = {"objective": "custom"}
    assert_same_model(model, model_from_bytes(model_to_bytes(model)))


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=5, max_size=5))
def test_any_finite_float_keeps_its_bits(values: list[float]) -> None:
    model = make_model()
    model.trees[0].leaf_value[:] = values
    loaded = model_from_bytes(model_to_bytes(model))
    assert loaded.trees[0].leaf_value.tobytes() == np.array(values).tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_leaf_that_is_not_finite_is_not_written(value: float) -> None:
    model = make_model()
    model.trees[0].leaf_value[0] = value
    with pytest.raises(ParameterError, match=r"iteration 0 .* infinite: .* learning_rate"):
        model_to_bytes(model)


# Files


def test_read_model_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    write_atomically(path, model_to_bytes(make_model()))
    assert_same_model(make_model(), read_model(path))
    write_atomically(path, b"[]")
    with pytest.raises(ModelFormatError, match=r"model\.json: model: this is not a Hornbeam model"):
        read_model(path)
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "absent.json")


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    write_atomically(tmp_path / "model.json", b"one")
    write_atomically(str(tmp_path / "model.json"), b"two")
    assert (tmp_path / "model.json").read_bytes() == b"two"
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


def test_the_longest_file_name(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("m" * 250 + ".json"), b"one")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_old_file_is_intact_after_a_failure(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    write_atomically(path, b"old")

    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), full_disk)
    with pytest.raises(OSError, match="cannot write the model"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


def test_old_file_is_intact_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    write_atomically(path, b"old")
    program = (
        "import os, sys\n"
        "from hornbeam.model.file import write_atomically\n"
        "os.fsync = lambda descriptor: os._exit(9)\n"
        "write_atomically(sys.argv[1], b'new')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False, env=environment).returncode == 9
    assert path.read_bytes() == b"old"


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write the model.*absent"):
        write_atomically(tmp_path / "absent" / "model.json", b"")
    with pytest.raises(IsADirectoryError, match="cannot write the model"):
        write_atomically(tmp_path, b"")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="cannot write the model"):
        write_atomically(tmp_path / "file" / "model.json", b"")


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "new", b"")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    write_atomically(tmp_path / "new", b"again")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "model.json")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "model.json").read_bytes() == b"new"


# Damaged and hostile files


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"\xef\xbb\xbf{}", "damaged"),
        (b"null", "not a Hornbeam model"),
        (b"[]", "not a Hornbeam model"),
        (b"{}", "not a Hornbeam model"),
        (b'{"format":"other"}', "not a Hornbeam model"),
        (b"tree\nversion=v4\n", "damaged"),
        (b'{"a":1,"a":1}', "occurs twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "-Infinity"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"[" + b"9" * 10_000 + b"]", "damaged|not a Hornbeam model"),
        (b"\x80\x04K\x01.", "UTF-8"),
    ],
)
def test_what_is_no_model_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        model_from_bytes(data)


def test_every_truncation_is_noticed() -> None:
    data = model_to_bytes(make_model((3, 1))).rstrip()
    for length in range(len(data)):
        with pytest.raises(ModelFormatError):
            model_from_bytes(data[:length])


def test_a_newer_version_says_so() -> None:
    document = {"format": "hornbeam-model", "version": 4, "unheard of": []}
    with pytest.raises(ModelFormatError, match=r"version: .*version 4.*newer Hornbeam.*upgrade"):
        model_from_bytes(as_bytes(document))


WRONG: list[tuple[list[Any], Any, str]] = [
    (["version"], 0, r"^version: 0 is not a format version"),
    (["version"], True, r"^version: True"),
    (["version"], 1.0, r"^version: 1.0"),
    (["version"], 10**400, r"^version: .*huge"),
    (["n_outputs"], 0, r"^n_outputs: 0 is not in"),
    (["n_outputs"], True, r"^n_outputs: True is not an integer"),
    (["n_outputs"], 2, r"^n_outputs: 2 does not go with the objective"),
    (["best_iteration"], 5, r"^best_iteration: 5 is not in 0..4"),
    (["best_iteration"], -1, r"^best_iteration: -1"),
    (["feature_names"], [], r"^feature_names: is empty"),
    (["feature_names", 1], "age", r"^feature_names\[1\]: 'age' is used twice"),
    (["feature_names", 1], "", r"^feature_names\[1\]: '' is empty"),
    (["feature_names", 2], 7, r"^feature_names\[2\]: 7 is not a string"),
    (["init_scores"], [], r"^init_scores: has 0 entries, must have 1"),
    (["init_scores", 0], 1, r"^init_scores\[0\]: 1 is not a float"),
    (["objective"], "binary", r"^objective: 'binary' is not a JSON object"),
    (["objective", "name"], "unheard", r"^objective: name: 'unheard' is not an objective"),
    (["objective", "sigmoid"], -1.0, r"^objective: sigmoid"),
    (["objective", "sigmoid"], [], r"^objective: sigmoid"),
    (["params"], [], r"^params: a JSON array of 0"),
    (["params", "learning_rate"], -1.0, r"^params: .*learning_rate"),
    (["params", "learning_rate"], 1, r"^params.learning_rate: 1 is not how"),
    (["params", "learning_rate"], {}, r"^params: .*learning_rate"),
    (["params", "eta"], 0.1, r"^params: 'eta' is not a parameter"),
    (["params", "device"], "cpu", r"^params: 'device' is not a parameter"),
    (["trees"], {}, r"^trees: a JSON object of 0 is not a JSON array"),
    (["trees", 1], [], r"^trees\[1\]: is not a JSON object"),
    (["trees", 1, "extra"], [], r"^trees\[1\]: unknown key 'extra'"),
    (["extra"], 1, r"^model: unknown key 'extra'"),
    (["trees", 0, "shrinkage"], 1, r"^trees\[0\].shrinkage: 1 is not a finite float"),
    (["trees", 0, "feature"], None, r"^trees\[0\].feature: None"),
    (["trees", 0, "feature", 1], 3, r"^trees\[0\].feature\[1\]: 3 is not in 0..2"),
    (["trees", 0, "feature", 1], -1, r"^trees\[0\].feature\[1\]: -1"),
    (["trees", 0, "feature", 1], False, r"^trees\[0\].feature\[1\]: False is not an integer"),
    (["trees", 0, "feature", 1], 2**40, r"^trees\[0\].feature\[1\]: .* is not in"),
    (["trees", 0, "feature", 1], 1.0, r"^trees\[0\].feature\[1\]: 1.0 is not an integer"),
    (["trees", 0, "gain"], [], r"^trees\[0\].gain: has 0 entries, must have 4"),
    (["trees", 0, "gain", 2], "inf", r"^trees\[0\].gain\[2\]: 'inf' is not a float"),
    (["trees", 0, "threshold", 2], "nan", r"^trees\[0\].threshold\[2\]: 'nan' is not a float"),
    (["trees", 0, "threshold", 2], 3, r"^trees\[0\].threshold\[2\]: 3 is not a float"),
    (["trees", 0, "threshold"], "inf", r"^trees\[0\].threshold: 'inf' is not a JSON array"),
    (["trees", 0, "missing_left", 3], 1, r"^trees\[0\].missing_left\[3\]: 1 is not true or false"),
    (["trees", 0, "left", 0], 0, r"^trees\[0\].left\[0\]: 0 is not a child"),
    (["trees", 0, "right", 3], 2, r"^trees\[0\].right\[3\]: 2 is not a child"),
    (["trees", 0, "right", 3], 4, r"^trees\[0\].right\[3\]: 4 is not in -5..3"),
    (["trees", 0, "right", 3], -6, r"^trees\[0\].right\[3\]: -6 is not in -5..3"),
    (["trees", 0, "leaf_count", 0], -1, r"^trees\[0\].leaf_count\[0\]: -1"),
    (["trees", 0, "split_count", 0], 2**63, r"^trees\[0\].split_count\[0\]: 9223372036854775808 is not in"),
    (["trees", 2, "leaf_value"], [], r"^trees\[2\].leaf_value: has 0 entries, must have 1"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_wrong_values_are_refused_with_their_place(path: list[Any], value: Any, message: str) -> None:
    document = document_of(make_model())
    target: Any = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(ModelFormatError, match=message):
        model_from_bytes(as_bytes(document))


def test_a_missing_key_is_named() -> None:
    for key in document_of(make_model()):
        document = document_of(make_model())
        if key == "fingerprint":  # files of version 0.1 have none
            continue
        del document[key]
        with pytest.raises(ModelFormatError, match=key):
            model_from_bytes(as_bytes(document))


def test_numbers_that_overflow_are_refused() -> None:
    for name in ("threshold", "leaf_value"):
        for number in (b"1e999", b"-1e999"):
            document = document_of(make_model())
            document["trees"][1][name][0] = 12.75
            data = as_bytes(document)
            assert data.count(b"12.75") == 1
            with pytest.raises(ModelFormatError, match=rf"^trees\[1\].{name}\[0\]: -?inf is not a finite number"):
                model_from_bytes(data.replace(b"12.75", number))


def test_shared_and_unreachable_nodes_are_refused() -> None:
    document = document_of(make_model())
    tree = document["trees"][0]
    leaves = [(name, i) for name in ("left", "right") for i in range(4) if tree[name][i] < 0]
    for name, i in leaves:
        for other, j in leaves:
            if (name, i) != (other, j):
                damaged = copy.deepcopy(document)
                damaged["trees"][0][name][i] = tree[other][j]
                with pytest.raises(ModelFormatError, match="already is the child"):
                    model_from_bytes(as_bytes(damaged))


def test_a_tree_with_too_many_leaves_is_refused() -> None:
    document = document_of(make_model())
    document["trees"][0]["feature"] = [0] * 65_535
    with pytest.raises(ModelFormatError, match=r"trees\[0\].feature: has 65535 splits"):
        model_from_bytes(as_bytes(document))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the paths to everything in a JSON document."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from places(value[i], (*path, i))


SMALL = make_model()
SMALL_BYTES = model_to_bytes(SMALL)
SMALL_PLACES = list(places(document_of(SMALL)))[1:]
ROWS = np.random.default_rng(0).standard_normal((20, 3))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-6, 6)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["inf", "-inf", "nan", "binary", "custom", 2**63, 10**30, 1e308, -0.0]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def assert_refused_or_sound(data: bytes) -> None:
    """Whatever the bytes: ModelFormatError, or a model that predicts and whose canonical bytes are stable."""
    try:
        model = model_from_bytes(data)
    except ModelFormatError:
        return
    canonical = model_to_bytes(model)
    assert model_to_bytes(model_from_bytes(canonical)) == canonical
    rows = np.zeros((20, model.n_features))
    rows[:, : min(3, model.n_features)] = ROWS[:, : model.n_features]
    forest = Forest(model.trees, model.n_outputs)
    fast = predict_raw(forest, rows, model.init_scores)
    assert np.array_equal(fast, predict_raw(forest, rows, model.init_scores, device="reference"), equal_nan=True)


FUZZ = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(FUZZ, max_examples=100)
@given(st.data())
def test_changed_values_never_cause_another_error(data: st.DataObject) -> None:
    document = document_of(SMALL)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(SMALL_PLACES))
        target: Any = document
        try:
            for key in path[:-1]:
                target = target[key]
            if data.draw(st.booleans()):
                target[path[-1]] = data.draw(json_values)
            else:
                del target[path[-1]]
        except (KeyError, IndexError, TypeError):  # the first change removed the place of the second
            pass
    assert_refused_or_sound(as_bytes(document))


@FUZZ
@given(
    position=st.integers(0, len(SMALL_BYTES) - 1),
    removed=st.integers(0, 3),
    inserted=st.binary(max_size=3) | st.sampled_from([b"0", b"9", b"-", b"e9", b".", b",", b"]", b"}", b'"', b"inf"]),
)
def test_changed_bytes_never_cause_another_error(position: int, removed: int, inserted: bytes) -> None:
    assert_refused_or_sound(SMALL_BYTES[:position] + inserted + SMALL_BYTES[position + removed :])


@FUZZ
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatError):
        model_from_bytes(data)

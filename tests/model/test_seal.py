"""Model files say when they were damaged, edited, or are not the model that is expected."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hornbeam as hb

FILES = Path(__file__).parent / "files"


def small_model() -> hb.Booster:
    X = np.random.default_rng(0).standard_normal((80, 3))
    return hb.train({"verbosity": -1, "num_leaves": 4, "device": "reference"}, hb.Dataset(X, label=X[:, 0]), 2)


MODEL = small_model()
DATA = MODEL.to_bytes()


@settings(max_examples=300)
@given(place=st.integers(0, len(DATA) - 1), byte=st.integers(0, 255), kind=st.sampled_from(["set", "insert", "delete"]))
def test_a_file_with_any_other_byte_is_refused_or_is_the_same_model(place, byte, kind):
    changed = bytearray(DATA)
    if kind == "set":
        changed[place] = byte
    elif kind == "insert":
        changed.insert(place, byte)
    else:
        del changed[place]
    try:
        model = hb.Booster.from_bytes(bytes(changed))
    except hb.ModelFormatError:
        return
    assert model.fingerprint() == MODEL.fingerprint()


def test_an_edited_number_is_told(tmp_path):
    document = json.loads(DATA)
    document["trees"][0]["leaf_value"][0] += 1.0
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(hb.ModelFormatError, match=r"fingerprint: the file says .* damaged or edited"):
        hb.load(tmp_path / "model.json")


def test_the_caller_may_know_the_fingerprint(tmp_path):
    path = tmp_path / "model.json"
    MODEL.save(path)
    assert hb.load(path, fingerprint=MODEL.fingerprint()).fingerprint() == MODEL.fingerprint()
    with pytest.raises(hb.ModelFormatError, match="another model"):
        hb.load(path, fingerprint="0" * 64)
    for wrong in ("abc", 5, MODEL.fingerprint().upper()):
        with pytest.raises(hb.ParameterError, match="64 hexadecimal"):
            hb.load(path, fingerprint=wrong)


def test_a_file_that_was_formatted_anew_is_read_with_a_warning(tmp_path, caplog):
    (tmp_path / "model.json").write_text(json.dumps(json.loads(DATA), indent=2))
    with caplog.at_level(logging.WARNING, "hornbeam"):
        assert hb.load(tmp_path / "model.json").fingerprint() == MODEL.fingerprint()
    assert ["not in the form" in record.message for record in caplog.records] == [True]


def test_a_file_of_version_0_1_is_read_without_a_word(caplog):
    with caplog.at_level(logging.INFO, "hornbeam"):
        model = hb.load(FILES / "hornbeam_0_1_0.json")
    assert caplog.records == []
    assert model.fingerprint() == "a550e79448e2e64c5fc9d724b0414e204ccb53a6ef35326b8cbf363d6b3a9c11"
    again = hb.Booster.from_bytes(model.to_bytes())
    assert again.fingerprint() == model.fingerprint() and again.levels[2].values == ("x", "z", "w", "y")


def test_parameters_of_another_objective_are_refused():
    document = json.loads(DATA)
    del document["fingerprint"]
    for params in ({"objective": "binary"}, {"objective": "custom"}, {"objective": "multiclass", "num_class": 3}):
        document["params"] = {**json.loads(DATA)["params"], **params}
        with pytest.raises(hb.ModelFormatError, match="params: they are those of another objective"):
            hb.Booster.from_bytes(json.dumps(document).encode())


HOSTILE = {
    "empty lists in a tree": ('{"trees":[{"feature":[', "[],", "[]]}]}"),
    "empty objects": ('{"trees":[', "{},", "{}]}"),
    "short strings": ('{"feature_names":[', '"ab",', '"ab"],"trees":[]}'),
    "numbers": ('{"trees":[{"gain":[', "1e1,", "1e1]}]}"),
    "numbers in no tree": ('{"init_scores":[', "1e1,", '1e1],"trees":[]}'),
    "nesting": ("", "[", ""),
    "two lists of trees": ('{"trees":[],"a":{"trees":[', "[],", "[]]}}"),
}


READING = """
import os, resource, sys, hornbeam as hb
hb.load, hb.ModelFormatError  # import what they take
unit = 1 if sys.platform == "darwin" else 1024
for path in sys.argv[1:]:
    child = os.fork()  # each file is read by a process of its own, which counts its own memory
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            hb.load(path)
        except hb.ModelFormatError as error:
            assert len(str(error)) < 1000
        else:
            sys.exit("it was read")
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(path)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource is of Unix")
def test_a_hostile_file_takes_less_than_ten_times_its_size(tmp_path):
    """Python's objects take up to twenty times the room of such texts."""
    size = 8_000_000
    for kind, (begin, again, end) in HOSTILE.items():
        (tmp_path / kind).write_text(begin + again * (size // len(again)) + end)
    arguments = [sys.executable, "-c", READING, *(str(tmp_path / kind) for kind in HOSTILE)]
    ran = subprocess.run(arguments, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    taken = dict(zip(HOSTILE, map(int, ran.stdout.split()), strict=True))
    assert [kind for kind, n_bytes in taken.items() if n_bytes >= 10 * size] == [], taken


def test_paths_that_cannot_be_are_our_errors(tmp_path):
    with pytest.raises(hb.ParameterError, match="no file has such a path"):
        hb.load("model\0.json")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for act in (hb.load, MODEL.save):
        with pytest.raises((hb.ParameterError, OSError), match="loop"):
            act(loop)
    with pytest.raises(hb.ParameterError, match="no file has such a path"):
        MODEL.save("model\0.json")

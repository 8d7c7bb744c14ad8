"""File -> bytes -> model. Everything is checked before it is used; nothing in a file is ever executed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import warn
from hornbeam.data.levels import LARGEST_INTEGER, Levels
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file.model_data import FORMAT_NAME, FORMAT_VERSION, ModelData, version_of
from hornbeam.model.file.parsing import ROOT, parse_model
from hornbeam.model.file.tree_checks import check_floats, check_int, check_keys, check_list, check_tree, fail, show
from hornbeam.model.file.writing import check_path, content_of, sha256, without_seal
from hornbeam.objectives import get_objective, objective_from_dict
from hornbeam.params.params import PARAMETERS, Params

KEYS = (
    "best_iteration",
    "feature_names",
    "format",
    "init_scores",
    "n_outputs",
    "objective",
    "params",
    "trees",
    "version",
)

OPTIONAL_KEYS = ("column_names", "cut_features", "encodings", "fingerprint", "levels", "stops_at_best")

ENCODING_KEYS = ("missing", "numbers", "other")


def read_model(path: str | os.PathLike[str], fingerprint: str | None = None) -> ModelData:
    """Read a file of Hornbeam's format; ModelFormatError names the file and the place of what is wrong.

    fingerprint  what the model must have; None: any
    """
    data = read_bytes(path)
    try:
        return model_from_bytes(data, fingerprint)
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file."""
    check_path(path)
    try:
        return Path(path).read_bytes()
    except (ValueError, RuntimeError) as error:  # a NUL in the path; a loop of symbolic links, in old Pythons
        raise ParameterError(f"path={os.fspath(path)!r}: no file has such a path ({error})") from None


def model_from_bytes(data: bytes, fingerprint: str | None = None) -> ModelData:
    """Rebuild a model from its bytes, or raise ModelFormatError; arguments as in `read_model`."""
    with default_mode():  # in another one, Python's conversion of text to numbers goes wrong
        document, trees = parse_model(data)
        seal = document.get("fingerprint") if type(document) is dict else None
        model = model_from_document(document, trees)
        check_seal(data, model, seal, fingerprint)
    return model


def check_seal(data: bytes, model: ModelData, seal: str | None, expected: str | None) -> None:
    """Raise ModelFormatError unless a model is the one that was written, and the one that is expected.

    seal      the fingerprint that stands in the file; None: it has none, as those of version 0.1
    expected  the fingerprint that the caller knows; None: none
    """
    content = data if seal is None else without_seal(data, seal)
    is_canonical = sha256(content) in (seal, expected)  # then there is nothing else to compare with
    if not is_canonical:
        written = content_of(model)
        is_canonical = written == content
        content = written
    found = sha256(content)
    if seal is not None and found != seal:
        fail(
            "fingerprint",
            f"the file says {seal[:16]}..., and its content has {found[:16]}...: it was damaged or edited; take "
            "another copy of it",
        )
    _compare(found, expected)
    if not is_canonical:
        warn("the model file is not in the form that Hornbeam writes, so it was edited or formatted by something else")


def check_expected(model: ModelData, expected: str | None) -> None:
    """Raise ModelFormatError unless a model is the one that is expected; arguments as in `check_seal`."""
    if expected is not None:
        _compare(sha256(content_of(model)), expected)


def _compare(found: str, expected: str | None) -> None:
    if expected is not None and found != expected:
        fail("fingerprint", f"this is another model: its fingerprint is {found}, not {expected}")


def model_from_document(document: Any, trees: Iterable[Any] = ()) -> ModelData:
    """Rebuild a model from the parsed JSON of its file, or raise ModelFormatError.

    trees  those that are not in the document
    """
    if type(document) is not dict or document.get("format") != FORMAT_NAME:
        fail(ROOT, f'this is not a Hornbeam model: it is no JSON object with "format":"{FORMAT_NAME}"')
    version = document.get("version")
    if type(version) is not int or version < 1:
        fail("version", f"{show(version)} is not a format version")
    if version > FORMAT_VERSION:
        fail(
            "version",
            f"the file has format version {show(version)}, this Hornbeam reads up to {FORMAT_VERSION}: "
            "it was written by a newer Hornbeam; upgrade to read it",
        )
    document = check_keys(document, KEYS, ROOT, OPTIONAL_KEYS)
    seal = document.get("fingerprint", "0" * 64)
    if type(seal) is not str or re.fullmatch("[0-9a-f]{64}", seal) is None:
        fail("fingerprint", f"{show(seal)} is not 64 hexadecimal digits")
    feature_names = _check_names(document["feature_names"])
    column_names = None
    if "column_names" in document:
        column_names = _check_names(document["column_names"], "column_names")
        if len(column_names) != len(feature_names) or column_names == feature_names:
            fail("column_names", "must be other names than those of the features, one for each")
    levels = _check_levels(document["levels"], len(feature_names)) if "levels" in document else None
    if "encodings" in document:
        levels = _check_encodings(document["encodings"], levels)
    if "cut_features" in document:
        levels = _check_cut_features(document["cut_features"], levels)
    n_levels = [len(own) if own is not None and own.is_coded else None for own in levels or [None] * len(feature_names)]
    objective = document["objective"]
    n_outputs = check_int(document["n_outputs"], "n_outputs", 1, 2**31 - 1)
    _check_objective(objective, n_outputs)
    init_scores = check_floats(document["init_scores"], "init_scores", n_outputs).tolist()
    _check_params(document["params"], objective)
    every = chain(check_list(document["trees"], dict, "trees"), trees)
    made = [check_tree(tree, n_levels, f"trees[{i}]") for i, tree in enumerate(every)]
    needed = max((version_of(tree) for tree in made), default=version)
    if version < needed:
        what = "linear leaves" + (" with bounds" if needed == FORMAT_VERSION else "")
        fail("version", f"is {version}, and a tree has {what}, which come with version {needed}")
    per_iteration = n_outputs * int(document["params"].get("num_parallel_tree", 1))
    if len(made) % per_iteration:
        fail("trees", f"has {len(made)} trees, must have a multiple of the {per_iteration} of an iteration")
    best_iteration = check_int(document["best_iteration"], "best_iteration", 0, len(made) // per_iteration)
    stops_at_best = document.get("stops_at_best", True)
    if type(stops_at_best) is not bool:
        fail("stops_at_best", f"{show(stops_at_best)} is not true or false")
    return ModelData(
        feature_names=feature_names,
        n_outputs=n_outputs,
        objective=objective,
        params=document["params"],
        init_scores=init_scores,
        best_iteration=best_iteration,
        trees=made,
        levels=levels,
        column_names=column_names,
        stops_at_best=stops_at_best,
    )


def _check_names(value: object, place: str = "feature_names") -> list[str]:
    names = check_list(value, str, place)
    if not names:
        fail(place, "is empty, a model has at least one feature")
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name or name in seen:
            fail(f"{place}[{i}]", f"{show(name)} is {'used twice' if name else 'empty'}")
        seen.add(name)
    return names


def _check_levels(value: object, n_features: int) -> list[Levels | None]:
    """Return the levels of each feature; at least one feature is categorical, or the key is not there."""
    if type(value) is not list:
        fail("levels", f"{show(value)} is not a JSON array")
    if len(value) != n_features:
        fail("levels", f"has {len(value)} entries, must have one for each of the {n_features} features")
    if all(own is None for own in value):
        fail("levels", "no feature is categorical, so this key must not be there")
    found: list[Levels | None] = []
    for feature, own in enumerate(value):
        place = f"levels[{feature}]"
        if own is None:
            found.append(None)
            continue
        if type(own) is not list:
            fail(place, f"{show(own)} is not a JSON array")
        known = [level for level in own if level is not None]  # null is the level of missing values
        kind = type(known[0]) if known else str
        check_list(known, kind if kind in (str, int, bool) else str, place)
        if len(set(known)) < len(known) or len(own) > len(known) + 1:
            fail(place, "a level occurs twice")
        if kind is int and (min(known) < 0 or max(known) > LARGEST_INTEGER):
            fail(place, f"a level is not in 0..{LARGEST_INTEGER}")
        found.append(Levels(tuple(own)))
    return found


def _check_encodings(value: object, levels: list[Levels | None] | None) -> list[Levels | None]:
    """Return levels with the numbers they are read as; at least one feature has them, or the key is not there."""
    if type(value) is not list:
        fail("encodings", f"{show(value)} is not a JSON array")
    if levels is None or len(value) != len(levels):
        fail("encodings", "must have one entry for each feature, and none where no feature is categorical")
    if all(own is None for own in value):
        fail("encodings", "no feature is read as numbers, so this key must not be there")
    found: list[Levels | None] = []
    for feature, (own, of_feature) in enumerate(zip(value, levels, strict=True)):
        place = f"encodings[{feature}]"
        if own is None:
            found.append(of_feature)
            continue
        if of_feature is None:
            fail(place, "this feature is not categorical")
        if None in of_feature.values:
            fail(place, "null is among the levels of this feature, and its encoding has a number for missing values")
        entries = check_keys(own, ENCODING_KEYS, place)
        numbers = check_floats(entries["numbers"], f"{place}.numbers", len(of_feature))
        missing, other = check_floats([entries["missing"], entries["other"]], place).tolist()
        found.append(EncodedLevels(of_feature.values, numbers, missing, other))
    return found


def _check_cut_features(value: object, levels: list[Levels | None] | None) -> list[Levels | None]:
    """Return levels of which some cut numbers to whole ones: at least one feature's, or the key is not there."""
    features = check_list(value, int, "cut_features")
    found = list(levels or [])
    if not features or features != sorted(set(features)) or features[0] < 0 or features[-1] >= len(found):
        fail("cut_features", "must be places of categorical features, ascending, at least one")
    for feature in features:
        own = found[feature]
        if own is None or type(own.example) not in (int, type(None)):
            fail("cut_features", f"feature {feature} has no levels that are integers")
        found[feature] = replace(own, is_cut=True)
    return found


def _check_objective(value: object, n_outputs: int) -> None:
    if type(value) is not dict:
        fail("objective", f"{show(value)} is not a JSON object")
    try:
        objective = objective_from_dict(value)
    except ModelFormatError as error:
        raise ModelFormatError(f"objective: {error}") from None
    if objective.n_outputs != n_outputs:
        fail("n_outputs", f"{n_outputs} does not go with the objective, which has {objective.n_outputs}")


def _check_params(value: object, objective: dict[str, Any]) -> None:
    """Fail unless these are parameters that `Params.model_dict` may have written, with this objective."""
    if type(value) is not dict:
        fail("params", f"{show(value)} is not a JSON object")
    names = {parameter.name for parameter in PARAMETERS if parameter.in_model}
    for name in value:
        if name not in names:
            fail("params", f"{show(name)} is not a parameter that a model keeps")
    given = {name: entry for name, entry in value.items() if (name, entry) != ("objective", "custom")}
    try:
        params = Params.from_dict(given)
    except ParameterError as error:
        fail("params", str(error))
    for name, entry in given.items():
        read = getattr(params, name)
        if type(read) is tuple:
            read = list(read)
        if type(read) is not type(entry) or read != entry:
            fail(f"params.{name}", f"{show(entry)} is not how this value is written, which is {show(read)}")
    name = value.get("objective")
    expected = {} if name == "custom" else get_objective(params, objective.get("n_targets", 1)).to_dict()
    if objective.get("name") != "custom" if name == "custom" else objective != expected:
        fail("params", f"they are those of another objective than the model's, {show(objective.get('name'))}")

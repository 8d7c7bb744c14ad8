"""File -> bytes -> model. Everything is checked before it is used; nothing in a file is ever executed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.data.levels import LARGEST_INTEGER, Levels
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.file.model_data import FORMAT_NAME, FORMAT_VERSION, ModelData
from hornbeam.model.file.tree_checks import check_floats, check_int, check_keys, check_list, check_tree, fail, show
from hornbeam.objectives import objective_from_dict
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

OPTIONAL_KEYS = ("encodings", "levels")

ENCODING_KEYS = ("missing", "numbers", "other")

ROOT = "model"
"""How error messages call the outermost JSON object."""


def read_model(path: str | os.PathLike[str]) -> ModelData:
    """Read a model file; ModelFormatError names the file and the place of what is wrong."""
    data = Path(path).read_bytes()
    try:
        return model_from_bytes(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None


def model_from_bytes(data: bytes) -> ModelData:
    """Rebuild a model from its bytes, or raise ModelFormatError."""
    return model_from_document(parse_document(data))


def model_from_document(document: Any) -> ModelData:
    """Rebuild a model from the parsed JSON of its file, or raise ModelFormatError."""
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
    feature_names = _check_names(document["feature_names"])
    levels = _check_levels(document["levels"], len(feature_names)) if "levels" in document else None
    if "encodings" in document:
        levels = _check_encodings(document["encodings"], levels)
    n_levels = [len(own) if own is not None and own.is_coded else None for own in levels or [None] * len(feature_names)]
    objective = document["objective"]
    n_outputs = check_int(document["n_outputs"], "n_outputs", 1, 2**31 - 1)
    _check_objective(objective, n_outputs)
    init_scores = check_floats(document["init_scores"], "init_scores", n_outputs).tolist()
    _check_params(document["params"])
    trees = check_list(document["trees"], dict, "trees")
    if len(trees) % n_outputs:
        fail("trees", f"has {len(trees)} trees, must have a multiple of the {n_outputs} outputs")
    best_iteration = check_int(document["best_iteration"], "best_iteration", 0, len(trees) // n_outputs)
    return ModelData(
        feature_names=feature_names,
        n_outputs=n_outputs,
        objective=objective,
        params=document["params"],
        init_scores=init_scores,
        best_iteration=best_iteration,
        trees=[check_tree(tree, n_levels, f"trees[{i}]") for i, tree in enumerate(trees)],
        levels=levels,
        version=version,
    )


def parse_document(data: bytes, place: str = ROOT) -> Any:
    """Parse JSON strictly: no duplicate keys, no NaN or Infinity, no depth that exhausts the stack."""
    if not data.strip():
        fail(place, "the file is empty")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        fail(place, f"the file is damaged or not a {place}: byte {error.start} is not UTF-8 text")
    except json.JSONDecodeError as error:
        fail(place, f"the file is damaged, cut short or not a {place}: {error}")
    except RecursionError:
        fail(place, f"the file is damaged or not a {place}: its JSON is nested too deeply")
    except ModelFormatError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        fail(place, f"the file is damaged: {error}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                fail(ROOT, f"the key {show(key)} occurs twice in one JSON object")
            seen.add(key)
    return document


def _no_constant(text: str) -> Any:
    fail(ROOT, f"{text} is not a number that a model file may hold")


def _check_names(value: object) -> list[str]:
    names = check_list(value, str, "feature_names")
    if not names:
        fail("feature_names", "is empty, a model has at least one feature")
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name or name in seen:
            fail(f"feature_names[{i}]", f"{show(name)} is {'used twice' if name else 'empty'}")
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


def _check_objective(value: object, n_outputs: int) -> None:
    if type(value) is not dict:
        fail("objective", f"{show(value)} is not a JSON object")
    try:
        objective = objective_from_dict(value)
    except ModelFormatError as error:
        raise ModelFormatError(f"objective: {error}") from None
    if objective.n_outputs != n_outputs:
        fail("n_outputs", f"{n_outputs} does not go with the objective, which has {objective.n_outputs}")


def _check_params(value: object) -> None:
    """Fail unless these are parameters that `Params.model_dict` may have written."""
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

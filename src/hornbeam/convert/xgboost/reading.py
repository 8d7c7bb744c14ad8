"""XGBoost's document -> model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hornbeam.convert.foreign import ForeignModel, ForeignTree, to_hornbeam
from hornbeam.convert.xgboost import carrying
from hornbeam.convert.xgboost.categories import CATEGORICAL, read_names
from hornbeam.convert.xgboost.document import ROOT, child, entries, finite, inner, integers, parse_json, strings, whole
from hornbeam.convert.xgboost.objectives import read_objective, read_start
from hornbeam.convert.xgboost.trees import leaf_size, read_trees
from hornbeam.convert.xgboost.ubj import decode
from hornbeam.model.file import ModelData
from hornbeam.model.file.tree_checks import fail, show
from hornbeam.objectives import MAX_CLASSES

NEWEST = 3
"""Major version of XGBoost up to which files are known."""

MOST_FEATURES = 2**31 - 1

MOST_UNNAMED = 1_000_000
"""Features without names are given some, which takes 100 MB for so many: a number in a file cannot make it more."""

MADE_UP = "Column_{}"


def read_json(data: bytes) -> ModelData:
    """Rebuild a model from JSON text, or raise ModelFormatError."""
    return _read(parse_json(data), data, "json")


def read_ubj(data: bytes) -> ModelData:
    """Rebuild a model from UBJ, or raise ModelFormatError."""
    return _read(decode(data), data, "ubj")


def _read(document: Any, data: bytes, kind: str) -> ModelData:
    """Rebuild the model that a document carries as it is, or else that of XGBoost."""
    carried = carrying.read(document, data, kind)
    model = read_document(document) if carried is None else carried
    return replace(model, attributes=_attributes(inner(document, "learner", ROOT)))


def read_document(document: Any) -> ModelData:
    """Rebuild a model from a document, or raise ModelFormatError."""
    learner = inner(document, "learner", ROOT)
    _check_version(document)
    params = inner(learner, "learner_model_param", ROOT)
    n_outputs = max(
        whole(params, "num_class", ROOT, 0, MAX_CLASSES, default=0),
        whole(params, "num_target", ROOT, 1, MAX_CLASSES, default=1),
    )
    n_features = whole(params, "num_feature", ROOT, 1, MOST_FEATURES)
    names = strings(learner, "feature_names", ROOT) if "feature_names" in learner else []
    types = strings(learner, "feature_types", ROOT) if "feature_types" in learner else []
    for what, listed in (("feature_names", names), ("feature_types", types)):
        if listed and len(listed) != n_features:
            fail(f"{ROOT}, {what}", f"has {len(listed)} entries, must have {n_features}")
    if names and (len(set(names)) < n_features or not all(names)):
        fail(f"{ROOT}, feature_names", "has an empty name, or a name twice")
    if not names and n_features > MOST_UNNAMED:
        fail(f"{ROOT}, num_feature", f"{n_features} features have no names; up to {MOST_UNNAMED} may be without")
    objective, model_params, start = read_objective(learner, n_outputs)
    booster = _tree_booster(learner)
    model, weights = _model_and_weights(booster)
    trees = entries(model, "trees", ROOT)
    if whole(inner(model, "gbtree_model_param", ROOT), "num_trees", ROOT, 0, 2**31) != len(trees):
        fail(ROOT, f"has {len(trees)} trees, and num_trees is another number: the file is damaged")
    sizes = {leaf_size(tree, f"{ROOT}, tree {i}") for i, tree in enumerate(trees)} or {1}
    if not sizes <= {1, n_outputs} or len(sizes) > 1:
        fail(ROOT, f"leaves hold vectors of {max(sizes)} numbers, and the model has {n_outputs} output(s)")
    in_order = integers(model, "tree_info", ROOT, len(trees))
    order = list(range(len(trees))) if sizes != {1} else _by_iteration(in_order, n_outputs)
    read: list[ForeignTree] = []
    places: list[str] = []
    for i in order:
        place, weight = f"{ROOT}, tree {i}", float(weights[i]) if weights is not None else 1.0
        read += read_trees(trees[i], n_features, weight, place)
        places += [place] * (len(read) - len(places))
    vocabulary = read_names(model, n_features)
    if types:  # a categorical feature that no split looks at may hold anything
        used = {int(feature) for tree in read for feature in np.unique(tree.feature)}
        unused = [kind == CATEGORICAL and i not in used for i, kind in enumerate(types)]
        vocabulary = [() if own is None and free else own for own, free in zip(vocabulary, unused, strict=True)]
    n_iterations = len(read) // n_outputs
    made = to_hornbeam(
        ForeignModel(
            feature_names=names or [MADE_UP.format(i) for i in range(n_features)],
            n_outputs=n_outputs,
            objective=objective,
            params=model_params,
            init_scores=read_start(child(params, "base_score", ROOT), n_outputs, start),
            trees=read,
            vocabulary=vocabulary,
            best_iteration=_best_iteration(learner, n_iterations, model),
            places=places,
        )
    )
    return replace(made, stops_at_best=False)  # its Booster predicts by all trees


def _check_version(document: dict[str, Any]) -> None:
    version = integers(document, "version", ROOT) if "version" in document else np.array([1])
    if len(version) == 0 or not 0 <= version[0] <= NEWEST:
        fail(f"{ROOT}, version", f"{version[:3].tolist()} is not known; files of XGBoost 1 to {NEWEST} are read")


def _tree_booster(learner: dict[str, Any]) -> dict[str, Any]:
    booster = inner(learner, "gradient_booster", ROOT)
    name = child(booster, "name", ROOT)
    if name == "gblinear":
        fail(ROOT, "booster='gblinear' is a linear model, which Hornbeam does not have; train with booster='gbtree'")
    if name not in ("gbtree", "dart"):
        fail(f"{ROOT}, gradient_booster.name", f"{show(name)} is not known; 'gbtree' and 'dart' are read")
    return booster


def _model_and_weights(booster: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the object that has the trees, and their factors where trees were dropped (DART), else None."""
    inside = inner(booster, "gbtree", ROOT) if "gbtree" in booster else booster
    model = inner(inside, "model", ROOT)
    for holder in (booster, model):
        if "weight_drop" in holder:
            n_trees = len(entries(model, "trees", ROOT))
            return model, finite(holder, "weight_drop", ROOT, n_trees)
    return model, None


def _by_iteration(groups: Any, n_outputs: int) -> list[int]:
    """Return the trees in Hornbeam's order: output 0, 1, ..., 0, 1, ...

    XGBoost's order within an iteration is output 0, 0, ..., 1, 1, ... where num_parallel_tree is more than 1.
    """
    of_output = [np.flatnonzero(groups == output).tolist() for output in range(n_outputs)]
    if sum(map(len, of_output)) < len(groups) or len(set(map(len, of_output))) > 1:
        fail(f"{ROOT}, tree_info", f"does not deal the trees evenly to the {n_outputs} outputs")
    return [tree for trees in zip(*of_output, strict=True) for tree in trees]


def _attributes(learner: dict[str, Any]) -> dict[str, str]:
    """Return the texts that XGBoost keeps beside a model, without the best iteration, which the model itself has."""
    found = learner.get("attributes")
    pairs = found.items() if type(found) is dict else ()
    return {name: text for name, text in pairs if type(text) is str and name != "best_iteration"}


def _best_iteration(learner: dict[str, Any], n_iterations: int, model: dict[str, Any]) -> int:
    """Return what early stopping found best, which is an attribute in text; 0 if there is none."""
    attributes = learner.get("attributes")
    text = attributes.get("best_iteration") if type(attributes) is dict else None
    if type(text) is not str or not (text.isascii() and text.isdecimal() and len(text) < 10):
        return 0
    parallel = whole(inner(model, "gbtree_model_param", ROOT), "num_parallel_tree", ROOT, 0, 2**31, default=1)
    best = (int(text) + 1) * max(parallel, 1)
    return best if best <= n_iterations else 0

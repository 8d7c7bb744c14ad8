"""Models out of models: some iterations of one, or several one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hornbeam.core.errors import ParameterError
from hornbeam.data.target_encoding import EncodedLevels
from hornbeam.model.booster import Booster
from hornbeam.model.file.tree_checks import show


def _levels(booster: Booster) -> Any:
    if booster.levels is None:
        return None
    return [None if own is None else (own.values, own.is_cut) for own in booster.levels]


def _encodings(booster: Booster) -> Any:
    encoded = [own if isinstance(own, EncodedLevels) else None for own in booster.levels or []]
    return [None if own is None else (own.numbers.tolist(), own.missing, own.other) for own in encoded]


AGREEMENT: dict[str, Callable[[Booster], Any]] = {
    "feature names": lambda booster: booster.feature_names,
    "levels of the categorical features": _levels,
    "target encodings": _encodings,
    "objective": lambda booster: booster.objective.to_dict(),
    "number of outputs": lambda booster: booster.n_outputs,
    "kind (a forest's trees are averaged, those of others added)": lambda booster: (
        "rf" if booster.averages_trees else "gbdt or dart"
    ),
    "num_parallel_tree": lambda booster: booster.params.get("num_parallel_tree", 1),
    "init_scores": lambda booster: booster.init_scores.tolist(),
    "zero_as_missing": lambda booster: booster.params.get("zero_as_missing", False),
    "use_missing": lambda booster: booster.params.get("use_missing", True),
}
"""What models that are merged must have in common, in the order in which it is looked at."""


def merge(models: Sequence[Booster]) -> Booster:
    """Put models together: the trees of all, one after the other.

    The raw score is init_scores plus the values of all trees (a forest: plus their mean), so models that were trained
    each on its own, from the same start, add up to more than each of them; a model that was cut in pieces is whole
    again: `merge([booster[:k], booster[k:]])`.

    Parameters
    ----------
    models
        One or more Boosters with the same features, levels, objective, init_scores and kind. Parameters are those of
        the first; a best iteration is forgotten.

    Raises
    ------
    ParameterError
        Names the first thing in which the models differ.
    """
    parts = list(models)
    if not parts:
        raise ParameterError("merge got no models; pass one or more")
    for place, part in enumerate(parts):
        if not isinstance(part, Booster):
            raise ParameterError(f"models[{place}] is a {type(part).__name__}; pass Boosters (hornbeam.load reads one)")
        for what, of in AGREEMENT.items():
            first, own = of(parts[0]), of(part)
            if first != own:
                raise ParameterError(
                    f"models[0] and models[{place}] differ in their {what}: {_part(first)} and {_part(own)}; models "
                    "that are merged must agree in that"
                )
    trees = [tree for part in parts for tree in part.trees]
    made = Booster(replace(parts[0].to_model(), trees=trees, best_iteration=0))
    made.num_threads = parts[0].num_threads
    return made


def _part(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else show(value)

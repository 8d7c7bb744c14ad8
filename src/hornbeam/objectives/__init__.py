"""Objectives: what a model is trained to minimise. One file a family; see `base.Objective` for the contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hornbeam.errors import ModelFormatError
from hornbeam.objectives.base import Objective
from hornbeam.objectives.binary import BinaryObjective
from hornbeam.objectives.custom import CustomObjective
from hornbeam.objectives.multiclass import MulticlassObjective
from hornbeam.objectives.ranking import (
    LambdarankObjective,
    PairwiseObjective,
    RankingObjective,
    XendcgObjective,
)
from hornbeam.objectives.regression import RegressionObjective

if TYPE_CHECKING:
    from hornbeam.params import Params

__all__ = [
    "BinaryObjective",
    "CustomObjective",
    "LambdarankObjective",
    "MulticlassObjective",
    "Objective",
    "PairwiseObjective",
    "RankingObjective",
    "RegressionObjective",
    "XendcgObjective",
    "get_objective",
    "objective_from_dict",
]

RANKING: dict[str, type[RankingObjective]] = {
    kind.name: kind for kind in (LambdarankObjective, XendcgObjective, PairwiseObjective)
}
"""Objectives of rows that are grouped into queries, by name."""

NAMES = ("regression", "binary", "multiclass", *RANKING)

MAX_CLASSES = 1_000_000
"""Bound on num_class in a model file, against sizes that cannot be meant."""


def get_objective(params: Params) -> Objective:
    """Build the objective that the parameters name; `Params` has checked that objective and num_class go together."""
    if params.objective == "regression":
        return RegressionObjective(params.boost_from_average)
    if params.objective == "binary":
        return BinaryObjective(params.sigmoid, params.boost_from_average)
    if params.objective == "multiclass":
        return MulticlassObjective(params.num_class, params.boost_from_average)
    if params.objective in ("lambdarank", "pairwise"):
        kind = LambdarankObjective if params.objective == "lambdarank" else PairwiseObjective
        return kind(params.sigmoid, params.lambdarank_truncation_level, params.lambdarank_norm, params.label_gain)
    if params.objective == "rank_xendcg":
        return XendcgObjective(params.seed, params.objective_seed, params.label_gain)
    return CustomObjective(params.objective if callable(params.objective) else None, params.num_class)


def objective_from_dict(state: Mapping[str, Any]) -> Objective:
    """Rebuild an objective from `Objective.to_dict`, as far as prediction needs it.

    Raises ModelFormatError for anything `to_dict` cannot have written.
    """
    name = state.get("name")
    if not isinstance(name, str) or name not in (*NAMES, "custom"):
        raise ModelFormatError(f"name: {name!r} is not an objective; known are {', '.join(NAMES)} and custom")
    expected = {"binary": {"name", "sigmoid"}}.get(name, {"name", "num_class"})
    if name == "regression" or name in RANKING:
        expected = {"name"}
    if set(state) != expected:
        raise ModelFormatError(
            f"objective {name!r} has the keys {sorted(expected)}, but found {sorted(map(str, state))}"
        )
    if name == "regression":
        return RegressionObjective()
    if name in RANKING:
        return RANKING[name]()
    if name == "binary":
        sigmoid = state["sigmoid"]
        if type(sigmoid) is not float or not (0.0 < sigmoid < math.inf):
            raise ModelFormatError(f"sigmoid: {sigmoid!r} is not a positive, finite float")
        return BinaryObjective(sigmoid)
    num_class = state["num_class"]
    smallest = 1 if name == "custom" else 2
    if type(num_class) is not int or not smallest <= num_class <= MAX_CLASSES:
        raise ModelFormatError(f"num_class: {num_class!r} is not a whole number from {smallest} to {MAX_CLASSES}")
    return CustomObjective(None, num_class) if name == "custom" else MulticlassObjective(num_class)

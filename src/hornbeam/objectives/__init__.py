"""Objectives: what a model is trained to minimise. One file a family; see `base.Objective` for the contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hornbeam.core.errors import ModelFormatError
from hornbeam.objectives.aft import AftObjective
from hornbeam.objectives.base import Objective
from hornbeam.objectives.binary import BinaryObjective, CrossEntropyObjective
from hornbeam.objectives.cox import CoxObjective
from hornbeam.objectives.cross_entropy_lambda import CrossEntropyLambdaObjective
from hornbeam.objectives.custom import CustomObjective
from hornbeam.objectives.focal import FocalObjective
from hornbeam.objectives.hinge import HingeObjective
from hornbeam.objectives.log_link import GammaObjective, PoissonObjective, TweedieObjective
from hornbeam.objectives.multiclass import MulticlassObjective
from hornbeam.objectives.one_vs_all import OneVsAllObjective
from hornbeam.objectives.pointwise import PointwiseObjective
from hornbeam.objectives.quantiles import QuantileListObjective
from hornbeam.objectives.ranking import (
    LambdarankObjective,
    MapObjective,
    PairwiseObjective,
    RankingObjective,
    XendcgObjective,
)
from hornbeam.objectives.regression import RegressionObjective, SquaredLogErrorObjective
from hornbeam.objectives.robust import (
    AbsoluteErrorObjective,
    ExpectileObjective,
    FairObjective,
    HuberObjective,
    LogCoshObjective,
    PercentageErrorObjective,
    PseudoHuberObjective,
    QuantileObjective,
)
from hornbeam.objectives.targets import TargetsObjective
from hornbeam.params.objective_names import FunctionBeside
from hornbeam.params.params import Params

__all__ = [
    "OBJECTIVES",
    "AbsoluteErrorObjective",
    "AftObjective",
    "BinaryObjective",
    "CoxObjective",
    "CrossEntropyLambdaObjective",
    "CrossEntropyObjective",
    "CustomObjective",
    "ExpectileObjective",
    "FairObjective",
    "FocalObjective",
    "GammaObjective",
    "HingeObjective",
    "HuberObjective",
    "LambdarankObjective",
    "LogCoshObjective",
    "MapObjective",
    "MulticlassObjective",
    "Objective",
    "OneVsAllObjective",
    "PairwiseObjective",
    "PercentageErrorObjective",
    "PointwiseObjective",
    "PoissonObjective",
    "PseudoHuberObjective",
    "QuantileListObjective",
    "QuantileObjective",
    "RankingObjective",
    "RegressionObjective",
    "SquaredLogErrorObjective",
    "TargetsObjective",
    "TweedieObjective",
    "XendcgObjective",
    "get_objective",
    "objective_from_dict",
]

OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind
    for kind in (
        RegressionObjective,
        AbsoluteErrorObjective,
        HuberObjective,
        FairObjective,
        PseudoHuberObjective,
        SquaredLogErrorObjective,
        PoissonObjective,
        QuantileObjective,
        PercentageErrorObjective,
        GammaObjective,
        TweedieObjective,
        LogCoshObjective,
        ExpectileObjective,
        BinaryObjective,
        CrossEntropyObjective,
        CrossEntropyLambdaObjective,
        FocalObjective,
        HingeObjective,
        MulticlassObjective,
        OneVsAllObjective,
    )
}
"""Every objective of single rows by name, in the order of the documentation; the tests go through this table."""

RANKING: dict[str, type[RankingObjective]] = {
    kind.name: kind for kind in (LambdarankObjective, XendcgObjective, PairwiseObjective, MapObjective)
}
"""Objectives of rows that are grouped into queries, by name."""

SURVIVAL: dict[str, type[Objective]] = {AftObjective.name: AftObjective, CoxObjective.name: CoxObjective}
"""Objectives of times that may be censored, by name."""

ALL_OBJECTIVES: dict[str, type[Objective]] = {**OBJECTIVES, **RANKING, **SURVIVAL}

MAX_CLASSES = 1_000_000
"""Bound on num_class in a model file, against sizes that cannot be meant."""

_STATE = {
    "binary": {"sigmoid"},
    "multiclass": {"num_class"},
    "multiclassova": {"num_class", "sigmoid"},
    "custom": {"num_class"},
}
"""What a model file keeps of an objective besides its name: see `Objective.to_dict`."""


def get_objective(params: Params, n_targets: int = 1) -> Objective:
    """Build the objective that the parameters name; `Params` has checked that they go together.

    n_targets  columns of the labels
    """
    if isinstance(params.alpha, tuple):
        objective: Objective = QuantileListObjective.from_params(params)
    elif isinstance(params.objective, str) and params.objective in ALL_OBJECTIVES:
        objective = ALL_OBJECTIVES[params.objective].from_params(params)
    else:
        made = CustomObjective.from_params(params, n_targets)
        if isinstance(params.objective, FunctionBeside):
            made.function = params.objective.function
            made.named = get_objective(params.replace(objective=params.objective.named), n_targets)
        return made
    return objective if n_targets == 1 else TargetsObjective.of(objective, n_targets)


def objective_from_dict(state: Mapping[str, Any]) -> Objective:
    """Rebuild an objective from `Objective.to_dict`, as far as prediction needs it.

    Raises ModelFormatError for anything `to_dict` cannot have written.
    """
    if "n_targets" in state:
        n_targets = state["n_targets"]
        part = objective_from_dict({key: value for key, value in state.items() if key != "n_targets"})
        if part.formula is None:
            raise ModelFormatError(f"n_targets: {n_targets!r} does not go with objective {part.name!r}")
        if type(n_targets) is not int or not 2 <= n_targets <= MAX_CLASSES:
            raise ModelFormatError(f"n_targets: {n_targets!r} is not a whole number from 2 to {MAX_CLASSES}")
        return TargetsObjective([part] * n_targets)
    name = state.get("name")
    if not isinstance(name, str) or name not in (*ALL_OBJECTIVES, "custom"):
        raise ModelFormatError(f"name: {name!r} is not an objective; known are {', '.join(ALL_OBJECTIVES)} and custom")
    expected = {"name", *_STATE.get(name, ())}
    optional = {
        "regression": {"reg_sqrt"},
        "quantile": {"n_quantiles"},
        "multiclass": {"predicts_classes"},
        "binary": {"predicts_scores"},
    }.get(name, set())
    if not expected <= set(state) <= expected | optional:
        raise ModelFormatError(
            f"objective {name!r} has the keys {sorted(expected)}, but found {sorted(map(str, state))}"
        )
    if name == "regression":
        if state.get("reg_sqrt", True) is not True:
            raise ModelFormatError(f"reg_sqrt: {state['reg_sqrt']!r} is not True; it is left out where it is not set")
        return RegressionObjective(reg_sqrt="reg_sqrt" in state)
    if "n_quantiles" in state:
        n_quantiles = state["n_quantiles"]
        if type(n_quantiles) is not int or not 2 <= n_quantiles <= MAX_CLASSES:
            raise ModelFormatError(f"n_quantiles: {n_quantiles!r} is not a whole number from 2 to {MAX_CLASSES}")
        return QuantileListObjective((0.5,) * n_quantiles)  # prediction asks for their number alone
    sigmoid = state.get("sigmoid", 1.0)
    if type(sigmoid) is not float or not (0.0 < sigmoid < math.inf):
        raise ModelFormatError(f"sigmoid: {sigmoid!r} is not a positive, finite float")
    smallest = 1 if name == "custom" else 2
    num_class = state.get("num_class", smallest)
    if type(num_class) is not int or not smallest <= num_class <= MAX_CLASSES:
        raise ModelFormatError(f"num_class: {num_class!r} is not a whole number from {smallest} to {MAX_CLASSES}")
    for way in ("predicts_classes", "predicts_scores"):
        if state.get(way, True) is not True:
            raise ModelFormatError(f"{way}: {state[way]!r} is not True; it is left out then")
    if name == "binary":
        return BinaryObjective(sigmoid, predicts_scores="predicts_scores" in state)
    if name == "multiclass":
        return MulticlassObjective(num_class, predicts_classes="predicts_classes" in state)
    if name == "multiclassova":
        return OneVsAllObjective(num_class, sigmoid)
    return CustomObjective(None, num_class) if name == "custom" else ALL_OBJECTIVES[name]()

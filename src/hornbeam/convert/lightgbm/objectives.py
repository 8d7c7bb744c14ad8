"""Objectives of LightGBM: "binary sigmoid:1" and the parameters beside it, both ways."""

from __future__ import annotations

from typing import Any

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.lightgbm.text import ROOT, number_of
from hornbeam.core.errors import ModelFormatError, ParameterError
from hornbeam.core.log import inform
from hornbeam.model.file.tree_checks import fail, show
from hornbeam.objectives import MAX_CLASSES, Objective, objective_from_dict
from hornbeam.params.objective_names import USED_BY
from hornbeam.params.params import BY_NAME, Params

SAME_NAME = (
    "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie", "binary",
    "cross_entropy", "cross_entropy_lambda", "multiclass", "multiclassova", "lambdarank", "rank_xendcg",
)  # fmt: skip
"""Objectives that have one name in both libraries."""

STAND_INS = {
    "pseudohuber": "regression", "squared_log_error": "regression", "logcosh": "regression",
    "expectile": "regression", "focal": "binary", "pairwise": "lambdarank", "rank_map": "lambdarank",
    "survival:aft": "poisson", "survival:cox": "poisson",
}  # fmt: skip
"""Objectives that LightGBM does not have, and others of the same link."""

CARRIED = (
    "learning_rate", "lambda_l1", "lambda_l2", "max_delta_step", "path_smooth", "min_data_in_leaf", "cat_l2",
    "max_cat_to_onehot", "monotone_constraints", "monotone_constraints_method", "boost_from_average",
    "linear_tree", "linear_lambda",
)  # fmt: skip
"""Parameters that a model keeps besides those of its objective: what `refit` looks at."""


def read_objective(text: str | None, n_outputs: int) -> dict[str, Any]:
    """Return `Objective.to_dict` of an objective as the file writes it; None: LightGBM was given a function."""
    name, *words = (text or "custom").split() or ["custom"]
    options = dict(word.partition(":")[::2] for word in words)
    state: dict[str, Any] = {"name": name}
    if name == "custom":
        state["num_class"] = n_outputs
    elif name not in SAME_NAME:
        fail(
            f"{ROOT}, objective",
            f"{show(name)} is not an objective of Hornbeam; known are {', '.join(SAME_NAME)}",
        )
    if name == "regression" and "sqrt" in options:
        state["reg_sqrt"] = True
    if name in ("binary", "multiclassova"):
        state["sigmoid"] = number_of(options.get("sigmoid", "1"), f"{ROOT}, objective, sigmoid")
    if name in ("multiclass", "multiclassova"):
        text = options.get("num_class", "")
        known = text.isascii() and text.isdecimal() and len(text) < 9
        state["num_class"] = int(text) if known else fail(f"{ROOT}, objective", f"{show(text)} is no number of classes")
    try:
        expected = objective_from_dict(state).n_outputs if n_outputs <= MAX_CLASSES else 0
    except ModelFormatError as error:
        fail(f"{ROOT}, objective", str(error))
    if expected != n_outputs:
        fail(f"{ROOT}, num_tree_per_iteration", f"{n_outputs} does not go with the objective, which has {expected}")
    return state


def read_params(objective: dict[str, Any], given: dict[str, str], averages: bool) -> dict[str, Any]:
    """Return the parameters of a model (`Params.model_dict`) from those that LightGBM has written.

    What has another range here is left out, with a line of information: no prediction depends on it.
    """
    name = objective["name"]
    fixed: dict[str, Any] = {key: value for key, value in objective.items() if key != "name"}
    fixed["objective"] = name
    if averages:
        fixed["boosting"] = "rf"
    wanted = [*CARRIED, *(parameter for parameter, users in USED_BY.items() if name in users)]
    if name in ("regression_l1", "quantile", "mape"):  # leaf values are percentiles here, without bounds
        wanted = [parameter for parameter in wanted if not parameter.startswith("monotone")]
    taken, left_out = dict(fixed), []
    for parameter in wanted:
        if parameter in fixed or not given.get(parameter):
            continue
        try:
            value = _value(parameter, given[parameter])
            model_params({**taken, parameter: value})
            taken[parameter] = value
        except (ParameterError, ValueError):
            left_out.append(f"{parameter}={given[parameter][:40]}")
    if left_out:
        inform(f"parameters of the LightGBM model that are not kept: {', '.join(left_out)}")
    return model_params(taken)


def model_params(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that a model file keeps, as its reader expects them."""
    apart = {}
    if values.get("objective") == "custom":  # which stands for a function: there is no such objective to train with
        apart = {name: values[name] for name in ("objective", "num_class") if values.get(name, 1) != 1}
    others = {name: value for name, value in values.items() if not apart or name not in ("objective", "num_class")}
    kept = {**Params.from_dict(others).model_dict(), **apart}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(kept.items())}


def _value(parameter: str, text: str) -> Any:
    row = BY_NAME[parameter]
    if row.type == "bool":
        return bool(int(text))
    if row.type in ("float", "alpha", "int"):
        return int(text) if row.type == "int" else float(text)
    if row.type == "gains":
        return [float(word) for word in text.split(",")]
    return row.check(text)


def write_objective(objective: Objective, exactness: Exactness) -> str | None:
    """Return the objective as the file writes it; None: there is none, the scores are the predictions."""
    name = objective.name
    if objective.link == "step":
        exactness.refuse(
            f"predictions of objective {name!r}, 1 where the score is above 0", "use another format, or train 'binary'"
        )
    if name in STAND_INS:
        exactness.approximates(
            f"the objective {name!r}, which LightGBM does not have",
            f"{STAND_INS[name]!r} is written, whose predictions are the same; training on would take another loss",
        )
        name = STAND_INS[name]
    state = objective.to_dict()
    if "n_quantiles" in state:
        exactness.approximates(
            "a list of quantiles, which LightGBM does not have",
            "no objective is written, and the scores are the quantiles; training on would take an objective function",
        )
        return None
    if objective.n_targets > 1:
        if objective.link not in ("identity", "sigmoid"):
            exactness.refuse(
                f"several outputs of objective {name!r}, which LightGBM does not have", "use another format"
            )
        exactness.approximates(
            "labels of several columns, which LightGBM does not have",
            "predictions are the same; training on would take another objective",
        )
        if objective.link == "identity":
            return None
        return f"multiclassova num_class:{objective.n_outputs} sigmoid:{float(state.get('sigmoid', 1.0))!r}"
    if name == "custom":
        return None
    if name == "regression" and "reg_sqrt" in state:
        return "regression sqrt"
    words = [name]
    if name in ("multiclass", "multiclassova"):
        words.append(f"num_class:{objective.n_outputs}")
    if name in ("binary", "multiclassova"):
        words.append(f"sigmoid:{float(state.get('sigmoid', 1.0))!r}")
    return " ".join(words)


def write_params(params: dict[str, Any], objective_name: str | None) -> list[str]:
    """Return the lines of the section `parameters`: what a model keeps and LightGBM knows by the same name."""
    skipped = ("objective", "precision", "grow_policy", "target_encoding_levels", "target_encoding_smooth",
               "feature_fraction_bylevel", "interaction_constraints", "focal_gamma", "focal_alpha",
               "aft_loss_distribution", "aft_loss_distribution_scale")  # fmt: skip
    lines = [f"[objective: {(objective_name or 'custom').split()[0]}]"]
    for name, value in sorted(params.items()):
        if name in skipped or value is None or isinstance(value, dict):
            continue
        if isinstance(value, (list, tuple)):
            text = ",".join(repr(one) for one in value)
        else:
            text = str(int(value)) if isinstance(value, bool) else str(value)
        lines.append(f"[{name}: {text}]")
    return lines

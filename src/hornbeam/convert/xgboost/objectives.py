"""Objectives of XGBoost, both ways: names, parameters, and `base_score`, where scores start.

`base_score` is a prediction: the score is what the link makes of it, computed in float32. Models that are written start
from score 0 and have the start in their first trees, which is more exact (log odds lose digits as probabilities near
one) and the same for all versions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.convert.exactness import Exactness
from hornbeam.convert.outgoing import Outgoing
from hornbeam.convert.xgboost.document import ROOT, child, inner, number, parse_number
from hornbeam.core.errors import ParameterError
from hornbeam.core.log import inform
from hornbeam.model.file.tree_checks import fail, show
from hornbeam.params.params import Params

IDENTITY, LOGIT, LOG = "identity", "logit", "log"

SMALLEST_BASE = np.float32(1e-6)
"""XGBoost keeps probabilities this far from 0 and 1."""


class Known(NamedTuple):
    """An objective that is read.

    name    Hornbeam's
    start   what makes a score of base_score
    params  Hornbeam's parameters by where XGBoost has them: (object, key)
    """

    name: str
    start: str
    params: dict[str, tuple[str, str]]


KNOWN = {
    "reg:squarederror": Known("regression", IDENTITY, {}),
    "reg:linear": Known("regression", IDENTITY, {}),
    "reg:absoluteerror": Known("regression_l1", IDENTITY, {}),
    "reg:quantileerror": Known("quantile", IDENTITY, {"alpha": ("quantile_loss_param", "quantile_alpha")}),
    "reg:expectileerror": Known("expectile", IDENTITY, {"alpha": ("expectile_loss_param", "expectile_alpha")}),
    "reg:pseudohubererror": Known("pseudohuber", IDENTITY, {"huber_slope": ("pseudo_huber_param", "huber_slope")}),
    "reg:squaredlogerror": Known("squared_log_error", IDENTITY, {}),
    "reg:logistic": Known("cross_entropy", LOGIT, {}),
    "binary:logistic": Known("binary", LOGIT, {"scale_pos_weight": ("reg_loss_param", "scale_pos_weight")}),
    "binary:logitraw": Known("binary", IDENTITY, {"scale_pos_weight": ("reg_loss_param", "scale_pos_weight")}),
    "binary:hinge": Known("hinge", IDENTITY, {}),
    "count:poisson": Known("poisson", LOG, {"poisson_max_delta_step": ("poisson_regression_param", "max_delta_step")}),
    "reg:gamma": Known("gamma", LOG, {}),
    "reg:tweedie": Known(
        "tweedie", LOG, {"tweedie_variance_power": ("tweedie_regression_param", "tweedie_variance_power")}
    ),
    "multi:softprob": Known("multiclass", IDENTITY, {}),
    "multi:softmax": Known("multiclass", IDENTITY, {}),
    "survival:aft": Known(
        "survival:aft", LOG, {"aft_loss_distribution_scale": ("aft_loss_param", "aft_loss_distribution_scale")}
    ),
    "survival:cox": Known("survival:cox", LOG, {}),
    "rank:ndcg": Known("lambdarank", IDENTITY, {}),
    "rank:pairwise": Known("pairwise", IDENTITY, {}),
    "rank:map": Known("rank_map", IDENTITY, {}),
}

POINTWISE = ("regression", "regression_l1", "binary", "cross_entropy", "poisson", "gamma", "tweedie", "quantile",
             "expectile", "pseudohuber", "squared_log_error", "hinge")  # fmt: skip
"""Objectives of one number a row and output: those of labels of several columns."""


def read_objective(learner: dict[str, Any], n_outputs: int) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return `Objective.to_dict`, `Params.model_dict`, and what makes a score of base_score."""
    place = f"{ROOT}, objective"
    document = inner(learner, "objective", ROOT)
    name = child(document, "name", place)
    if type(name) is not str:
        fail(f"{place}.name", f"{show(name)} is not a string")
    known = KNOWN.get(name)
    if known is None:
        fail(place, f"{show(name)} is not an objective that is known; known are {', '.join(KNOWN)}")
    takes_many = known.name == "multiclass"
    if known.name == "quantile" and n_outputs > 1:
        alphas = _quantiles(document, place)
        if len(alphas) == n_outputs:
            state: dict[str, Any] = {"name": "quantile", "n_quantiles": n_outputs}
            return state, _model_params(state, {"alpha": alphas}), known.start
    several = not takes_many and n_outputs > 1 and known.name in POINTWISE and name != "binary:logitraw"
    if takes_many != (n_outputs > 1) and not several:
        if known.start != IDENTITY or takes_many:
            fail(place, f"{name!r} with {n_outputs} outputs is not offered here; train a model for each")
        inform(
            f"{name!r} with {n_outputs} outputs is not an objective of Hornbeam: the model predicts scores, and to "
            "refit it or train on it takes an objective function"
        )
        state = {"name": "custom", "num_class": n_outputs}
        return state, _model_params(state, {}), known.start
    state = {"name": known.name}
    if known.name in ("binary", "multiclassova"):
        state["sigmoid"] = 1.0
    if takes_many:
        state["num_class"] = n_outputs
    elif several:
        state["n_targets"] = n_outputs
    found: dict[str, Any] = {own: _parameter(document, *where, place) for own, where in known.params.items()}
    if name == "multi:softmax":
        state["predicts_classes"] = found["predict_classes"] = True
    if name == "binary:logitraw":
        state["predicts_scores"] = found["predict_scores"] = True
    if known.name == "survival:aft" and "aft_loss_param" in document:
        found["aft_loss_distribution"] = inner(document, "aft_loss_param", place).get("aft_loss_distribution")
    return state, _model_params(state, {own: value for own, value in found.items() if value is not None}), known.start


def _quantiles(document: dict[str, Any], place: str) -> list[float]:
    """Return the list of quantiles of an objective, which may be empty."""
    group = "quantile_loss_param"
    text = inner(document, group, place).get("quantile_alpha") if group in document else ""
    words = text.strip("[]() ").split(",") if type(text) is str else []
    return [parse_number(word.strip(), f"{place}.{group}") for word in words if word.strip()]


def _parameter(document: dict[str, Any], group: str, key: str, place: str) -> float | None:
    """Return a parameter of the objective; None where the file does not have it."""
    if group not in document:
        return None
    params = inner(document, group, place)
    if type(params.get(key)) is str:  # a list of one
        params = {key: params[key].strip("[]() ")}
    return number(params, key, f"{place}.{group}", 0.0) if params.get(key) is not None else None


def _model_params(objective: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    name = objective["name"]
    shared = {"num_class": objective["num_class"]} if "num_class" in objective else {}
    if name == "custom":
        return {"objective": "custom", **(shared if shared["num_class"] > 1 else {})}
    try:
        return Params.from_dict({"objective": name, **shared, **found}).model_dict()
    except ParameterError as error:
        inform(f"parameters of the XGBoost model that are not kept: {error}")
        return Params.from_dict({"objective": name, **shared}).model_dict()


def read_start(value: Any, n_outputs: int, start: str) -> list[float]:
    """Return the scores that a model starts from: `base_score`, one number or one an output, as XGBoost reads it."""
    place = f"{ROOT}, learner_model_param.base_score"
    if type(value) is str:
        words: list[Any] = [word for word in value.strip("[]() ").replace(",", " ").split() if word]
    else:
        words = [value]
    if len(words) not in (1, n_outputs):
        fail(place, f"has {len(words)} numbers, must have 1 or {n_outputs}")
    with np.errstate(over="ignore", under="ignore"):
        base = np.array([parse_number(word, place) for word in words], np.float64).astype(np.float32)
    scores = _scores(base, start)
    if not np.isfinite(scores).all():
        fail(place, f"{show(value)} is no prediction of this objective")
    return [float(score) for score in np.broadcast_to(scores, n_outputs)]


def _scores(base: NDArray[np.float32], start: str) -> NDArray[np.float32]:
    """Return scores, rounded where XGBoost rounds."""
    one = np.float32(1)
    with np.errstate(all="ignore"):
        if start == LOGIT:
            bounded = np.minimum(np.maximum(base, SMALLEST_BASE), one - SMALLEST_BASE)
            return -np.log((one / bounded - one).astype(np.float64)).astype(np.float32)
        return np.log(base.astype(np.float64)).astype(np.float32) if start == LOG else base


class Written(NamedTuple):
    """An objective as it is written.

    document    the object `objective`
    base_score  the prediction whose score is 0
    num_class   0 unless it has classes
    num_target  1 unless it has several outputs that are no classes
    scale       factor on all scores
    """

    document: dict[str, Any]
    base_score: str
    num_class: int = 0
    num_target: int = 1
    scale: float = 1.0


STAND_INS = {
    "huber": "reg:squarederror", "fair": "reg:squarederror", "mape": "reg:squarederror", "logcosh": "reg:squarederror",
    "expectile": "reg:squarederror", "focal": "binary:logistic", "multiclassova": "binary:logistic",
    "rank_xendcg": "rank:ndcg",
}  # fmt: skip
"""Objectives that XGBoost 3.2 does not have, and others of the same link."""

NAMES = {
    "regression": "reg:squarederror", "regression_l1": "reg:absoluteerror", "quantile": "reg:quantileerror",
    "cross_entropy": "reg:logistic", "binary": "binary:logistic", "hinge": "binary:hinge",
    "poisson": "count:poisson", "gamma": "reg:gamma", "tweedie": "reg:tweedie", "pseudohuber": "reg:pseudohubererror",
    "squared_log_error": "reg:squaredlogerror", "multiclass": "multi:softprob",
    "lambdarank": "rank:ndcg", "pairwise": "rank:pairwise",
    "survival:aft": "survival:aft", "survival:cox": "survival:cox", "rank_map": "rank:map",
    "custom": "reg:squarederror",
}  # fmt: skip
"""XGBoost's name of an objective; it writes that of squared errors where it was given a function."""


def write_objective(out: Outgoing, exactness: Exactness) -> Written:
    """Return the objective as the file has it, or raise ConversionError."""
    objective, params = out.objective, out.params
    name, n_outputs, scale = objective.name, objective.n_outputs, out.slope
    if objective.link == "square":
        exactness.refuse("reg_sqrt: predictions are squares of scores", "use another format, or train without reg_sqrt")
    if objective.link == "softplus":
        exactness.refuse(f"predictions of objective {name!r}, log(1 + exp(score))", "use another format")
    if name in STAND_INS:
        exactness.approximates(
            f"the objective {name!r}, which XGBoost does not have",
            f"{STAND_INS[name]!r} is written, whose predictions are the same; training on would take another loss",
        )
    if scale != 1.0:
        exactness.approximates(
            f"sigmoid={scale}: XGBoost's has slope 1",
            f"all scores are multiplied by {scale}, which leaves the predictions as they are",
        )
    own = "multi:softmax" if objective.predicts_classes else NAMES.get(name) or STAND_INS[name]
    own = "binary:logitraw" if objective.predicts_scores else own
    document: dict[str, Any] = {"name": own}
    if own in ("reg:squarederror", "reg:squaredlogerror", "reg:logistic", "reg:gamma") or own.startswith("binary:log"):
        weight = params.get("scale_pos_weight", 1.0) if own.startswith("binary:") else 1.0
        document["reg_loss_param"] = {"scale_pos_weight": repr(float(weight))}
    elif own == "reg:quantileerror":
        alphas = ", ".join(map(repr, np.atleast_1d(params.get("alpha", 0.9)).tolist()))
        document["quantile_loss_param"] = {"quantile_alpha": f"[{alphas}]"}
    elif own == "reg:pseudohubererror":
        document["pseudo_huber_param"] = {"huber_slope": repr(params.get("huber_slope", 1.0))}
    elif own == "count:poisson":
        document["poisson_regression_param"] = {"max_delta_step": repr(params.get("poisson_max_delta_step", 0.7))}
    elif own == "reg:tweedie":
        power = repr(params.get("tweedie_variance_power", 1.5))
        document["tweedie_regression_param"] = {"tweedie_variance_power": power}
    elif own == "survival:aft":
        document["aft_loss_param"] = {
            "aft_loss_distribution": params.get("aft_loss_distribution", "normal"),
            "aft_loss_distribution_scale": repr(params.get("aft_loss_distribution_scale", 1.0)),
        }
    elif own in ("multi:softprob", "multi:softmax"):
        document["softmax_multiclass_param"] = {"num_class": str(n_outputs)}
    elif own.startswith("rank:"):
        document["lambdarank_param"] = {"lambdarank_pair_method": "topk"}
    base = {"sigmoid": "5E-1", "exp": "1E0"}.get("" if objective.predicts_scores else objective.link, "0E0")
    if own in ("multi:softprob", "multi:softmax"):
        return Written(document, base, num_class=n_outputs)
    return Written(document, base, num_target=n_outputs, scale=scale)

"""Training parameters: names, aliases, defaults, ranges and documentation, in one table.

The table is the class `Params` itself: every field carries its `Parameter`. Names and defaults are LightGBM's; the
names that XGBoost and scikit-learn users type are aliases. Nothing is dropped in silence: an unknown name, a value out
of range and two names of one parameter that disagree are errors.

`python -m hornbeam.params` prints docs/parameters.md.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hornbeam.constraints import parse_contributions, parse_interactions, parse_monotone
from hornbeam.dtypes import MAX_BIN, MAX_LEAVES
from hornbeam.errors import ParameterError
from hornbeam.peer_parameters import idle_names, without_peer_parameters

DEVICE = re.compile(r"auto|gpu|cpu|reference|(cuda|opencl)(:\d+)?")

GROUPS = ("Objective", "Boosting", "Sampling", "Tree", "Constraints", "Binning", "Evaluation", "Machine")
"""Sections of docs/parameters.md, in order."""


@dataclass(frozen=True)
class Parameter:
    """One row of the table.

    `choices` maps every accepted spelling to its canonical value. `none_below` turns every value below it into the
    default, for parameters where any such value means "off", so that one meaning has one canonical value. `instead`
    says what to do instead of values that a peer offers.
    """

    name: str
    type: str
    default: Any
    doc: str
    group: str
    aliases: tuple[str, ...] = ()
    choices: Mapping[str, str] | None = None
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    none_below: float | None = None
    in_model: bool = True
    instead: Mapping[Any, str] = dataclasses.field(default_factory=dict)

    def check(self, value: Any) -> Any:
        """Return the canonical form of a value, or raise `ParameterError`."""
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value in self.instead:
            raise ParameterError(f"{self.name}={value!r} is not available here; {self.instead[value]}")
        return _CHECKS[self.type](self, value)

    def error(self, value: Any, allowed: str) -> ParameterError:
        """Make the error for a value that is not allowed."""
        return ParameterError(f"{self.name}={value!r}: must be {allowed} (default {self.default!r})")

    def range_text(self) -> str:
        """Describe the allowed numbers: `2 to 65535`, `> 0.0`; empty when there is no limit."""
        if self.none_below is not None or (math.isinf(self.low) and math.isinf(self.high)):
            return ""
        if math.isinf(self.high):
            return f"{'>' if self.low_open else '>='} {self.low}"
        if self.high_open:
            return f"{'>' if self.low_open else '>='} {self.low} and < {self.high}"
        return f"> {self.low} and <= {self.high}" if self.low_open else f"{self.low} to {self.high}"


def _check_number(parameter: Parameter, value: Any, kind: str) -> Any:
    if parameter.none_below is not None and value < parameter.none_below:
        return parameter.default
    too_low = value <= parameter.low if parameter.low_open else value < parameter.low
    too_high = value >= parameter.high if parameter.high_open else value > parameter.high
    if too_low or too_high:
        raise parameter.error(value, f"{kind} {parameter.range_text()}")
    return value


def _check_int(parameter: Parameter, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise parameter.error(value, f"an integer {parameter.range_text()}".rstrip())
    return int(_check_number(parameter, int(value), "an integer"))


def _check_float(parameter: Parameter, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise parameter.error(value, f"a number {parameter.range_text()}".rstrip())
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise parameter.error(value, f"a finite number {parameter.range_text()}".rstrip())
    return float(_check_number(parameter, number, "a number")) + 0.0  # + 0.0 turns -0.0 into 0.0: one zero, one model


def _check_bool(parameter: Parameter, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):  # as in LightGBM's configuration files
        return value.lower() == "true"
    if not isinstance(value, (bool, np.bool_)):
        raise parameter.error(value, "True or False")
    return bool(value)


def _check_choice(parameter: Parameter, value: Any) -> str:
    choices = parameter.choices or {}
    if not isinstance(value, str) or value not in choices:
        allowed = "one of " + ", ".join(repr(choice) for choice in dict.fromkeys(choices.values()))
        raise parameter.error(value, allowed + _did_you_mean(value, choices))
    return choices[value]


def _check_objective(parameter: Parameter, value: Any) -> str | Callable[..., Any]:
    return value if callable(value) else _check_choice(parameter, value)


def _check_metric(parameter: Parameter, value: Any) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    given = value.split(",") if isinstance(value, str) else value
    if isinstance(given, (set, frozenset)):
        given = sorted(given, key=str)  # the order of a set differs from one run to the next
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        raise parameter.error(value, "a metric's name, a list of names or None; pass a function to train() as feval")
    names = tuple(dict.fromkeys(str(name).strip() for name in given))
    if not names or "" in names:
        raise parameter.error(value, "one name or more; None means the objective's own metric, 'none' no metric")
    return names[0] if isinstance(value, str) and len(names) == 1 else names


def _check_ranks(parameter: Parameter, value: Any) -> tuple[int, ...]:
    given = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 1]
    if wrong or len(given) == 0:
        raise parameter.error(value, "an integer of at least 1, or a list of such")
    return tuple(sorted({int(one) for one in given}))


def _check_gains(parameter: Parameter, value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    given = list(value) if isinstance(value, (list, tuple, np.ndarray)) else []
    numbers = [one for one in given if isinstance(one, (int, float, np.number)) and not isinstance(one, bool)]
    if len(numbers) < len(given) or len(given) < 2 or not all(math.isfinite(one) for one in numbers):
        raise parameter.error(value, "a list of two or more finite numbers, the gain of label 0, 1, ..., or None")
    gains = tuple(float(one) + 0.0 for one in numbers)
    if gains[0] < 0.0 or any(low > high for low, high in pairwise(gains)):
        raise parameter.error(value, "a list of gains >= 0 that never fall: a higher label is never worth less")
    return gains


def _check_device(parameter: Parameter, value: Any) -> str:
    if not isinstance(value, str) or DEVICE.fullmatch(value) is None:
        allowed = "'auto', 'cpu', 'gpu', 'cuda', 'cuda:1', 'opencl', 'opencl:0' or 'reference'"
        raise parameter.error(value, allowed + "; hornbeam.devices() lists what this machine offers")
    return str(value)


def _check_threads(parameter: Parameter, value: Any) -> int:
    # scikit-learn's n_jobs=-1 is our 0
    return 0 if _check_int(parameter, value) == -1 else int(value)


def _check_columns(parameter: Parameter, value: Any) -> str | tuple[int | str, ...]:
    if isinstance(value, str):
        if value == "auto":
            return value
        names = value.removeprefix("name:").split(",")
        value = names if value.startswith("name:") else [int(n) if n.strip().isdecimal() else n for n in names]
    given = [value] if isinstance(value, (int, np.integer)) else value
    if not isinstance(given, (list, tuple, set, frozenset, np.ndarray)):
        raise parameter.error(value, "'auto', or names and positions of columns")
    if any(isinstance(entry, bool) or not isinstance(entry, (int, np.integer, str)) for entry in given):
        raise parameter.error(value, "'auto', or names and positions of columns")
    return tuple(entry.strip() if isinstance(entry, str) else int(entry) for entry in given)


def _parsed(parse: Callable[[Any], Any]) -> Callable[[Parameter, Any], Any]:
    """Make a check of a parser whose ValueError says what is allowed."""

    def check(parameter: Parameter, value: Any) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise parameter.error(value, str(error)) from None

    return check


_CHECKS: dict[str, Callable[[Parameter, Any], Any]] = {
    "int": _check_int,
    "float": _check_float,
    "bool": _check_bool,
    "choice": _check_choice,
    "objective": _check_objective,
    "metric": _check_metric,
    "device": _check_device,
    "threads": _check_threads,
    "columns": _check_columns,
    "signs": _parsed(parse_monotone),
    "factors": _parsed(parse_contributions),
    "groups": _parsed(parse_interactions),
    "ranks": _check_ranks,
    "gains": _check_gains,
}


def _parameter(type: str, default: Any, group: str, doc: str, **details: Any) -> Any:
    """Make a dataclass field that carries its row of the table (the field's name is filled in below)."""
    row = Parameter("", type, default, doc, group, **details)
    return dataclasses.field(default=default, metadata={"parameter": row})


_OBJECTIVES = {
    spelling: name
    for name, spellings in {
        "regression": (
            "regression_l2", "l2", "mean_squared_error", "mse", "l2_root", "root_mean_squared_error", "rmse",
            "reg:squarederror", "reg:linear", "squared_error",
        ),
        "regression_l1": ("l1", "mean_absolute_error", "mae", "reg:absoluteerror", "absolute_error"),
        "huber": (),
        "fair": (),
        "poisson": ("count:poisson",),
        "quantile": ("reg:quantileerror",),
        "mape": ("mean_absolute_percentage_error",),
        "gamma": ("reg:gamma",),
        "tweedie": ("reg:tweedie",),
        "logcosh": ("log_cosh",),
        "expectile": ("reg:expectileerror",),
        "binary": ("binary:logistic", "log_loss"),
        "cross_entropy": ("xentropy", "reg:logistic"),
        "focal": ("binary_focal", "focal_loss"),
        "multiclass": ("softmax", "multi:softprob"),
        "multiclassova": ("multiclass_ova", "ova", "ovr"),
        "lambdarank": ("rank:ndcg",),
        "rank_xendcg": ("xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart"),
        "pairwise": ("rank:pairwise", "ranknet"),
        "custom": (),
    }.items()
    for spelling in (name, *spellings)
}  # fmt: skip

_NO_OBJECTIVES = {
    "reg:pseudohubererror": "use 'huber' (alpha is its slope) or 'logcosh'",
    "reg:squaredlogerror": "train 'regression' on log(1 + label)",
    "multi:softmax": "use 'multi:softprob' and take the class of the highest probability",
    "binary:logitraw": "use 'binary' and predict(raw_score=True)",
    "binary:hinge": "use 'binary'",
    "cross_entropy_lambda": "use 'cross_entropy' with weights",
    "xentlambda": "use 'cross_entropy' with weights",
    "rank:map": "use 'lambdarank' ('rank:ndcg'), and metric='map'",
    "survival:cox": "pass an objective function",
    "survival:aft": "pass an objective function",
}
"""Objectives of the peers that are not here, and what to do instead."""

USED_BY: dict[str, frozenset[str]] = {
    "alpha": frozenset(("huber", "quantile", "expectile")),
    "fair_c": frozenset(("fair",)),
    "poisson_max_delta_step": frozenset(("poisson",)),
    "tweedie_variance_power": frozenset(("tweedie", "tweedie_deviance", "tweedie-nloglik")),
    "reg_sqrt": frozenset(("regression",)),
    "focal_gamma": frozenset(("focal",)),
    "focal_alpha": frozenset(("focal",)),
    "sigmoid": frozenset(("binary", "multiclassova", "lambdarank", "pairwise")),
    "scale_pos_weight": frozenset(("binary", "multiclassova")),
    "is_unbalance": frozenset(("binary", "multiclassova")),
    "lambdarank_truncation_level": frozenset({"lambdarank", "pairwise"}),
    "lambdarank_norm": frozenset({"lambdarank", "pairwise"}),
    "label_gain": frozenset({"lambdarank", "pairwise", "rank_xendcg", "ndcg", "map", "mrr"}),
    "objective_seed": frozenset({"rank_xendcg"}),
}
"""Parameters that only some objectives and metrics look at, by their canonical names."""


RENEWED = ("regression_l1", "quantile", "mape")
"""Objectives whose leaf values are percentiles of residuals (Objective.renewal_percentile)."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """The validated parameters of a training; attributes bear the canonical names.

    Make it with `Params.from_dict`, which knows the aliases. Fields are checked and brought to canonical form however
    the object is made.
    """

    objective: str | Callable[..., Any] = _parameter(
        "objective",
        "regression",
        "Objective",
        "What to learn. Numbers: `regression` (squared error), `regression_l1` (absolute error), `huber`, `fair`, "
        "`quantile`, `mape`, `logcosh`, `expectile`. Counts and amounts, predicted as exp(score): `poisson`, `gamma`, "
        "`tweedie`. Classes: `binary` (log loss, labels 0 and 1), `cross_entropy` (labels from 0 to 1), `focal`, "
        "`multiclass` (softmax, labels 0 to `num_class` - 1), `multiclassova` (each class against the others). "
        "Ranking (a Dataset with `group` or `qid`, labels 0, 1, ... by relevance): `lambdarank`, `rank_xendcg`, "
        "`pairwise`. Or a function `(scores, dataset) -> (gradient, hessian)`, marked by `hornbeam.on_device` if it "
        "shall work on arrays of a GPU; a saved model that was trained with a function says `custom`.",
        aliases=("objective_type", "app", "application", "loss"),
        choices=_OBJECTIVES,
        instead=_NO_OBJECTIVES,
    )
    num_class: int = _parameter(
        "int",
        1,
        "Objective",
        "Number of classes of `multiclass` and `multiclassova` (2 or more), or of outputs of an objective function; 1 "
        "otherwise.",
        aliases=("num_classes", "n_classes"),
        low=1,
    )
    boost_from_average: bool = _parameter(
        "bool", True, "Objective", "Start from the best constant (mean, log-odds, class priors) instead of zero."
    )
    sigmoid: float = _parameter(
        "float",
        1.0,
        "Objective",
        "Slope of the sigmoid of `binary`, `multiclassova`, `lambdarank` and `pairwise`.",
        low=0.0,
        low_open=True,
    )
    lambdarank_truncation_level: int = _parameter(
        "int",
        30,
        "Objective",
        "`lambdarank` and `pairwise`: pairs have at least one document among this many first ranks.",
        aliases=("lambdarank_num_pair_per_sample",),
        low=1,
        high=2**31 - 1,
    )
    lambdarank_norm: bool = _parameter(
        "bool",
        True,
        "Objective",
        "`lambdarank` and `pairwise`: weigh pairs by the distance of their scores, and queries alike.",
        aliases=("lambdarank_normalization",),
    )
    label_gain: tuple[float, ...] | None = _parameter(
        "gains",
        None,
        "Objective",
        "Ranking: gain of a document by its label, a list; None: 2^label - 1 for labels 0 to 30.",
    )
    objective_seed: int = _parameter(
        "int",
        5,
        "Objective",
        "Key of the random numbers of `rank_xendcg`, together with `seed`.",
        low=0,
        high=2**63 - 1,
    )
    alpha: float = _parameter(
        "float",
        0.9,
        "Objective",
        "Where `huber` turns from squares to absolute values; the quantile of `quantile` and the level of `expectile` "
        "(below 1). An error where neither objective nor metric looks at it: XGBoost's `alpha` is `lambda_l1` here.",
        aliases=("quantile_alpha", "expectile_alpha"),
        low=0.0,
        low_open=True,
    )
    fair_c: float = _parameter(
        "float", 1.0, "Objective", "Where `fair` turns from squares to absolute values.", low=0.0, low_open=True
    )
    poisson_max_delta_step: float = _parameter(
        "float",
        0.7,
        "Objective",
        "Hessians of `poisson` are multiplied by exp of this, which keeps its steps small.",
        low=0.0,
        low_open=True,
        high=100.0,
    )
    tweedie_variance_power: float = _parameter(
        "float",
        1.5,
        "Objective",
        "The variance of `tweedie` is the mean to this power: 1 is Poisson, near 2 is gamma.",
        low=1.0,
        high=2.0,
        high_open=True,
    )
    reg_sqrt: bool = _parameter(
        "bool", False, "Objective", "`regression` fits sign(label) * sqrt(|label|) and predicts the square."
    )
    scale_pos_weight: float = _parameter(
        "float",
        1.0,
        "Objective",
        "Factor on the weights of positive rows, in `binary` and `multiclassova`.",
        low=0.0,
        low_open=True,
    )
    is_unbalance: bool = _parameter(
        "bool",
        False,
        "Objective",
        "Weigh the rarer class up to the rows of the other one, in `binary` and `multiclassova`; not together with "
        "`scale_pos_weight`.",
        aliases=("unbalance", "unbalanced_sets"),
    )
    focal_gamma: float = _parameter(
        "float", 2.0, "Objective", "How little `focal` counts rows that are classified well; 0: as others.", low=0.0
    )
    focal_alpha: float = _parameter(
        "float",
        0.25,
        "Objective",
        "Weight of label 1 in `focal`; label 0 has 1 - this.",
        low=0.0,
        low_open=True,
        high=1.0,
        high_open=True,
    )

    boosting: str = _parameter(
        "choice",
        "gbdt",
        "Boosting",
        "How trees add up. `gbdt`: gradient boosting. `dart`: boosting that drops some trees while it grows the next. "
        "`rf`: random forest, the mean of trees on samples. `goss` stands for `gbdt` with "
        '`data_sample_strategy="goss"`.',
        aliases=("boosting_type", "boost", "booster"),
        choices={
            "gbdt": "gbdt",
            "gbrt": "gbdt",
            "gbtree": "gbdt",
            "goss": "goss",
            "dart": "dart",
            "rf": "rf",
            "random_forest": "rf",
        },
        instead={"gblinear": "there is no linear booster; use 'gbtree'"},
    )
    num_iterations: int = _parameter(
        "int",
        100,
        "Boosting",
        "Number of boosting rounds; `multiclass` grows `num_class` trees a round. Not saved: the trees can be counted.",
        aliases=(
            "num_iteration",
            "n_iter",
            "num_tree",
            "num_trees",
            "num_round",
            "num_rounds",
            "nrounds",
            "num_boost_round",
            "n_estimators",
            "max_iter",
        ),
        low=0,
        in_model=False,
    )
    learning_rate: float = _parameter(
        "float",
        0.1,
        "Boosting",
        "Factor on the output of every tree; 1 with `rf`, whatever is given.",
        aliases=("eta", "shrinkage_rate"),
        low=0.0,
        low_open=True,
    )
    seed: int = _parameter(
        "int",
        0,
        "Boosting",
        "Key of every random choice. The same seed gives the same model on every device.",
        aliases=("random_seed", "random_state"),
        low=0,
        high=2**63 - 1,
    )
    precision: str = _parameter(
        "choice",
        "auto",
        "Boosting",
        "`auto`: gradients keep 16 bits, 31 where the data need them (a rule on the data alone). `high`: always 31.",
        choices={"auto": "auto", "high": "high"},
    )

    drop_rate: float = _parameter(
        "float",
        0.1,
        "Boosting",
        "`dart`: chance of a tree to be dropped; by weight, unless `uniform_drop`.",
        aliases=("rate_drop",),
        low=0.0,
        high=1.0,
    )
    max_drop: int = _parameter(
        "int", 50, "Boosting", "`dart`: most iterations that are dropped at once; 0 or less: no limit."
    )
    skip_drop: float = _parameter(
        "float", 0.5, "Boosting", "`dart`: chance that an iteration drops nothing.", low=0.0, high=1.0
    )
    uniform_drop: bool = _parameter("bool", False, "Boosting", "`dart`: every tree has the same chance to be dropped.")
    xgboost_dart_mode: bool = _parameter("bool", False, "Boosting", "`dart`: weights as in XGBoost.")
    drop_seed: int = _parameter(
        "int", 4, "Boosting", "Key of what `dart` drops, besides `seed`.", low=0, high=2**63 - 1
    )

    data_sample_strategy: str = _parameter(
        "choice",
        "bagging",
        "Sampling",
        "How the rows of a tree are chosen. `bagging`: by chance, see `bagging_fraction`. `goss`: those with the "
        "largest gradients, and a sample of the others that stands for all of them.",
        choices={"bagging": "bagging", "goss": "goss"},
    )
    bagging_fraction: float = _parameter(
        "float",
        1.0,
        "Sampling",
        "Share of the rows that a tree sees; needs `bagging_freq` > 0. Every row is drawn by itself, so the number of "
        "rows varies a little.",
        aliases=("sub_row", "subsample", "bagging"),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    bagging_freq: int = _parameter(
        "int",
        0,
        "Sampling",
        "Rows are drawn anew every so many rounds; 0 or less: no bagging.",
        aliases=("subsample_freq",),
        none_below=1,
    )
    pos_bagging_fraction: float = _parameter(
        "float",
        1.0,
        "Sampling",
        "Share of the rows of label 1 that a tree of `binary` sees; with `neg_bagging_fraction`, in place of "
        "`bagging_fraction`.",
        aliases=("pos_sub_row", "pos_subsample", "pos_bagging"),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    neg_bagging_fraction: float = _parameter(
        "float",
        1.0,
        "Sampling",
        "Share of the rows of label 0 that a tree of `binary` sees.",
        aliases=("neg_sub_row", "neg_subsample", "neg_bagging"),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    bagging_by_query: bool = _parameter(
        "bool",
        False,
        "Sampling",
        "Draw whole queries instead of rows; needs a Dataset with `group` or `qid`.",
    )
    bagging_seed: int = _parameter(
        "int",
        3,
        "Sampling",
        "Key of bagging and GOSS, besides `seed`.",
        aliases=("bagging_fraction_seed",),
        low=0,
        high=2**63 - 1,
    )
    top_rate: float = _parameter(
        "float",
        0.2,
        "Sampling",
        "Share of the rows that GOSS keeps for their large gradients.",
        low=0.0,
        high=1.0,
        low_open=True,
    )
    other_rate: float = _parameter(
        "float",
        0.1,
        "Sampling",
        "Share of the rows that GOSS draws among the others.",
        low=0.0,
        high=1.0,
        low_open=True,
    )

    num_leaves: int = _parameter(
        "int",
        31,
        "Tree",
        "Most leaves of a tree.",
        aliases=("num_leaf", "max_leaf", "max_leaves", "max_leaf_nodes"),
        instead={0: "it must be 2 or more; where XGBoost has no limit, set 2 to the power of max_depth"},
        low=2,
        high=MAX_LEAVES,
    )
    max_depth: int = _parameter(
        "int", -1, "Tree", "Most splits from the root to a leaf; 0 or less: no limit.", none_below=1
    )
    grow_policy: str = _parameter(
        "choice",
        "leafwise",
        "Tree",
        "`leafwise` (also `lossguide`): split the leaf with the highest gain next. `depthwise`: level by level.",
        choices={"leafwise": "leafwise", "lossguide": "leafwise", "depthwise": "depthwise"},
    )
    min_data_in_leaf: int = _parameter(
        "int",
        20,
        "Tree",
        "Fewest rows of a leaf, counted exactly.",
        aliases=("min_data", "min_data_per_leaf", "min_child_samples", "min_samples_leaf"),
        low=0,
    )
    min_sum_hessian_in_leaf: float = _parameter(
        "float",
        1e-3,
        "Tree",
        "Smallest sum of hessians of a leaf.",
        aliases=("min_sum_hessian", "min_sum_hessian_per_leaf", "min_hessian", "min_child_weight"),
        low=0.0,
    )
    lambda_l1: float = _parameter(
        "float",
        0.0,
        "Tree",
        "L1 penalty on leaf values.",
        aliases=("reg_alpha", "l1_regularization"),
        low=0.0,
    )
    lambda_l2: float = _parameter(
        "float",
        0.0,
        "Tree",
        "L2 penalty on leaf values.",
        aliases=("reg_lambda", "lambda", "l2_regularization"),
        low=0.0,
    )
    min_gain_to_split: float = _parameter(
        "float",
        0.0,
        "Tree",
        "A split must gain more than this.",
        aliases=("min_split_gain", "min_split_loss", "gamma"),
        low=0.0,
    )
    max_delta_step: float = _parameter(
        "float",
        0.0,
        "Tree",
        "Largest magnitude of a leaf value, before the learning rate; 0 or less: no limit.",
        aliases=("max_tree_output", "max_leaf_output"),
        none_below=0.0,
    )
    feature_fraction: float = _parameter(
        "float",
        1.0,
        "Tree",
        "Share of the features that each tree may use, chosen by a hash of `feature_fraction_seed`, iteration and "
        "feature: the nearest whole number of them, one at least. Training takes less time.",
        aliases=("sub_feature", "colsample_bytree"),
        low=0.0,
        low_open=True,
        high=1.0,
    )
    feature_fraction_bylevel: float = _parameter(
        "float",
        1.0,
        "Tree",
        "Share of the tree's features that each depth of the tree may use.",
        aliases=("colsample_bylevel",),
        low=0.0,
        low_open=True,
        high=1.0,
    )
    feature_fraction_bynode: float = _parameter(
        "float",
        1.0,
        "Tree",
        "Share of the features left by tree, depth and interaction constraints that each node may use.",
        aliases=("sub_feature_bynode", "colsample_bynode", "max_features"),
        low=0.0,
        low_open=True,
        high=1.0,
    )
    feature_fraction_seed: int = _parameter(
        "int", 2, "Tree", "Key of the choice of features, together with `seed`.", low=0, high=2**63 - 1
    )
    extra_trees: bool = _parameter(
        "bool",
        False,
        "Tree",
        "Extremely randomised trees: one random threshold for every node and feature.",
        aliases=("extra_tree",),
    )
    extra_seed: int = _parameter(
        "int", 6, "Tree", "Key of the thresholds of `extra_trees`, together with `seed`.", low=0, high=2**63 - 1
    )
    path_smooth: float = _parameter(
        "float",
        0.0,
        "Tree",
        "Pull the output of a node with n rows to its parent's: own share n / (n + path_smooth). Needs "
        "`min_data_in_leaf` of 2 or more; 0: off.",
        low=0.0,
    )

    monotone_constraints: str | tuple[int, ...] | None = _parameter(
        "signs",
        None,
        "Constraints",
        "For each feature 1: predictions must not fall when it rises, -1: must not rise, 0: free. A list, a string "
        '(`"(1,0,-1)"`), or a dict by feature name. Missing values are outside the order.',
        aliases=("mc", "monotone_constraint", "monotonic_cst"),
    )
    monotone_constraints_method: str = _parameter(
        "choice",
        "basic",
        "Constraints",
        "`basic`: the children of a constrained split keep to their side of the middle of their outputs, for good. "
        "`intermediate`: a leaf keeps between the outputs of the leaves that it must not pass, as they are when it is "
        "split: slower, and less is given up. LightGBM's `advanced` is not offered.",
        aliases=("monotone_constraining_method", "mc_method"),
        choices={"basic": "basic", "intermediate": "intermediate"},
        instead={"advanced": "use 'intermediate', which is the nearest"},
    )
    monotone_penalty: float = _parameter(
        "float",
        0.0,
        "Constraints",
        "Penalty p on constrained splits near the root: they are forbidden at depths below floor(p), and their gain is "
        "multiplied by 1 - 2^(p - 1 - depth) (1 - p / 2^depth for p <= 1) below.",
        aliases=("monotone_splits_penalty", "ms_penalty", "mc_penalty"),
        low=0.0,
    )
    interaction_constraints: str | None = _parameter(
        "groups",
        None,
        "Constraints",
        "Groups of features that may be used together on the way from the root to a leaf: lists of names or numbers, "
        'or a string (`"[0,1,2],[2,3]"`). Every feature must be in a group.',
        aliases=("interaction_cst",),
    )
    feature_contri: str | tuple[float, ...] | None = _parameter(
        "factors",
        None,
        "Constraints",
        "Factor on the gain of each feature, 0: never used. A list, a string, or a dict by feature name.",
        aliases=("feature_contrib", "fc", "fp", "feature_penalty"),
    )

    max_cat_to_onehot: int = _parameter(
        "int",
        4,
        "Tree",
        "A categorical feature of at most this many levels is split one level against the rest.",
        low=1,
    )
    max_cat_threshold: int = _parameter(
        "int", 32, "Tree", "Most levels of a categorical feature that a split sends left.", low=1
    )
    cat_smooth: float = _parameter(
        "float",
        10.0,
        "Tree",
        "Levels are ordered by gradient / (hessian + `cat_smooth`), and in a node those of fewer rows than this "
        "(estimated from hessians) stay on the right side.",
        low=0.0,
    )
    cat_l2: float = _parameter(
        "float", 10.0, "Tree", "L2 penalty, on top of `lambda_l2`, on splits of many levels against many.", low=0.0
    )
    min_data_per_group: int = _parameter(
        "int",
        100,
        "Tree",
        "Fewest rows (estimated from hessians) by which two candidate splits of many levels against many differ, and "
        "that the right side of one has.",
        low=1,
    )

    categorical_feature: str | tuple[int | str, ...] = _parameter(
        "columns",
        "auto",
        "Binning",
        "Columns whose values are levels without an order: names, positions, or both (a list; `0,2`; `name:a,b`). "
        "`auto`: those of the Dataset, by default the columns of strings and categories of a frame. Not saved: the "
        "levels are in the model.",
        aliases=("cat_feature", "categorical_column", "cat_column", "categorical_features"),
        in_model=False,
    )
    target_encoding_levels: int = _parameter(
        "int",
        1000,
        "Binning",
        "A categorical feature of more levels than this is replaced by a number, the mean label of its level; that of "
        "a training row comes from the labels of other rows. -1: never; 0: every categorical feature. Without effect "
        "where labels are classes (`num_class` > 1).",
        low=-1,
    )
    target_encoding_smooth: float = _parameter(
        "float",
        10.0,
        "Binning",
        "So many rows with the mean label of all are added to every level before its mean is taken.",
        low=0.0,
        high=1e9,
    )
    max_bin: int = _parameter(
        "int",
        255,
        "Binning",
        "Most bins of a feature; missing values have a bin of their own besides. Above 255, bins take 16 bits. A "
        "categorical feature has more where it takes more levels to cover 99 % of the rows.",
        aliases=("max_bins",),
        low=2,
        high=MAX_BIN,
    )
    min_data_in_bin: int = _parameter("int", 3, "Binning", "Fewest sampled rows of a bin.", low=1)
    bin_construct_sample_cnt: int = _parameter(
        "int",
        200_000,
        "Binning",
        "Rows from which bins are found, chosen by a hash of the row number.",
        aliases=("subsample_for_bin",),
        low=1,
    )
    use_missing: bool = _parameter(
        "bool", True, "Binning", "Learn at every split where missing values (NaN) go. False: NaN counts as 0."
    )
    zero_as_missing: bool = _parameter(
        "bool",
        False,
        "Binning",
        "Zeros (magnitudes up to 1e-35, and what a sparse matrix does not hold) are missing values, as NaN is, in "
        "training and in prediction; the level 0 of a categorical feature stays a level. Without effect where "
        "`use_missing` is False.",
    )
    is_enable_sparse: bool = _parameter(
        "bool",
        True,
        "Binning",
        "Store sparse features by their entries that are not zero; False: a bin for every row. The model is the same.",
        aliases=("is_sparse", "enable_sparse", "sparse"),
        in_model=False,
    )
    sparse_threshold: float = _parameter(
        "float",
        0.8,
        "Binning",
        "A feature, or a bundle of features, is sparse when at least this share of its rows is zero. The model is the "
        "same.",
        low=0.0,
        low_open=True,
        high=1.0,
        in_model=False,
    )
    enable_bundle: bool = _parameter(
        "bool",
        True,
        "Binning",
        "Store sparse features that are never other than zero in the same row together, in one column (exclusive "
        "feature bundling). The model is the same.",
        aliases=("is_enable_bundle", "bundle"),
        in_model=False,
    )

    metric: str | tuple[str, ...] | None = _parameter(
        "metric",
        None,
        "Evaluation",
        "What to measure on the validation sets: a name, several (a list, or separated by commas), `none` for nothing; "
        "None: the objective's own metric.",
        aliases=("metrics", "metric_types", "eval_metric"),
        in_model=False,
    )
    eval_at: tuple[int, ...] = _parameter(
        "ranks",
        (1, 2, 3, 4, 5),
        "Evaluation",
        "Ranks at which `ndcg` and `map` are measured: `ndcg` stands for `ndcg@1`, `ndcg@2`, ... A metric that names "
        "its rank itself (`ndcg@10`) does not look here.",
        aliases=("ndcg_eval_at", "ndcg_at", "map_eval_at", "map_at"),
        in_model=False,
    )
    metric_freq: int = _parameter(
        "int",
        1,
        "Evaluation",
        "Rounds from one evaluation to the next.",
        aliases=("output_freq",),
        low=1,
        in_model=False,
    )
    early_stopping_round: int = _parameter(
        "int",
        0,
        "Evaluation",
        "Stop when no validation metric got better for this many rounds; 0 or less: never.",
        aliases=("early_stopping_rounds", "early_stopping", "n_iter_no_change"),
        none_below=0,
        in_model=False,
    )
    early_stopping_min_delta: float = _parameter(
        "float", 0.0, "Evaluation", "A metric got better when it gained more than this.", low=0.0, in_model=False
    )
    first_metric_only: bool = _parameter(
        "bool", False, "Evaluation", "Only the first metric decides on early stopping.", in_model=False
    )

    device: str = _parameter(
        "device",
        "auto",
        "Machine",
        "Where to train: `cpu`, `cuda`, `cuda:1`, `opencl`, `opencl:0`, `gpu` (the first usable CUDA device, else the "
        "first of OpenCL) or `reference`; `auto`: the CPU, or a GPU where that is expected to be done first. The model "
        "is the same.",
        aliases=("device_type",),
        in_model=False,
    )
    num_threads: int = _parameter(
        "threads",
        0,
        "Machine",
        "Threads on the CPU; 0 or -1: all that the process may use. The model is the same.",
        aliases=("num_thread", "nthread", "nthreads", "n_jobs"),
        low=-1,
        in_model=False,
    )
    histogram_pool_size: float = _parameter(
        "float",
        -1.0,
        "Machine",
        "Megabytes for histograms of earlier nodes; 0 or less: up to 2048, and 1024 for data that are stored sparsely. "
        "The model is the same.",
        aliases=("hist_pool_size",),
        none_below=math.ulp(0.0),  # zero too leaves it to us
        in_model=False,
    )
    device_memory_limit: float = _parameter(
        "float",
        -1.0,
        "Machine",
        "Megabytes of a GPU's memory that a training may take; 0 or less: all there is. Where it is short, what only "
        "makes training faster is left out: a second layout of the bins, and histograms of earlier nodes. The model "
        "is the same.",
        none_below=math.ulp(0.0),
        in_model=False,
    )
    verbosity: int = _parameter(
        "int",
        1,
        "Machine",
        "Below 0: errors only; 0: warnings too; 1: information too; above: details.",
        aliases=("verbose",),
        in_model=False,
    )

    given: ClassVar[frozenset[str]] = frozenset()
    """Names that `from_dict` was given, whatever their value."""
    idle: ClassVar[tuple[str, ...]] = ()
    """Names of the peers' parameters that `from_dict` was given and that change nothing here."""

    def __post_init__(self) -> None:
        """Check every field and bring it to its canonical form."""
        for parameter in PARAMETERS:
            object.__setattr__(self, parameter.name, parameter.check(getattr(self, parameter.name)))
        if self.boosting == "goss":
            object.__setattr__(self, "boosting", "gbdt")
            object.__setattr__(self, "data_sample_strategy", "goss")
        if self.objective in ("multiclass", "multiclassova"):
            if self.num_class < 2:
                raise ParameterError(
                    f"num_class={self.num_class}: objective={self.objective!r} needs the number of classes, "
                    "2 or more; set num_class"
                )
        elif isinstance(self.objective, str) and self.objective != "custom" and self.num_class != 1:
            raise ParameterError(
                f"num_class={self.num_class}: objective={self.objective!r} has one output; leave num_class at 1, "
                "or use objective='multiclass'"
            )
        if self.path_smooth > 0.0 and self.min_data_in_leaf < 2:
            raise ParameterError(
                f"path_smooth={self.path_smooth} needs min_data_in_leaf of 2 or more, and it is "
                f"{self.min_data_in_leaf}; raise it, or set path_smooth=0"
            )
        if self.is_unbalance and self.scale_pos_weight != 1.0:
            raise ParameterError(
                f"is_unbalance=True and scale_pos_weight={self.scale_pos_weight!r} both weigh the positive class; "
                "give one of them"
            )
        if self.objective in ("quantile", "expectile") and self.alpha >= 1.0:
            raise ParameterError(f"alpha={self.alpha!r}: must be below 1 for objective={self.objective!r}")
        if self.objective in RENEWED and self.monotone_constraints is not None:
            raise ParameterError(
                f"monotone_constraints with objective={self.objective!r}: leaf values are percentiles, without "
                "bounds; leave the constraints out, or use objective='huber'"
            )
        if self.alpha != BY_NAME["alpha"].default:
            self.refuse_idle_alpha()

    def refuse_idle_alpha(self) -> None:
        """Raise where nothing looks at alpha, which then was meant as XGBoost's."""
        if not self.is_used("alpha"):
            raise ParameterError(
                f"alpha={self.alpha!r}: objective={self.objective!r} does not use it (only "
                f"{', '.join(sorted(USED_BY['alpha']))} do); for the L1 penalty on leaf values set lambda_l1, alias "
                "reg_alpha"
            )

    def is_used(self, name: str) -> bool:
        """Say whether the objective or a metric looks at a parameter of the table USED_BY."""
        metrics = (self.metric,) if isinstance(self.metric, str) else self.metric or ()
        users = (self.objective, *(metric.partition("@")[0] for metric in metrics))
        return any(user in USED_BY[name] for user in users)

    def unused(self) -> list[str]:
        """Return the parameters that are not at their default, but that neither objective nor metric looks at."""
        return [name for name in USED_BY if getattr(self, name) != BY_NAME[name].default and not self.is_used(name)]

    @classmethod
    def from_dict(cls, params: Mapping[str, Any] | None = None, **overrides: Any) -> Params:
        """Make parameters from names and aliases.

        Parameters
        ----------
        params
            Parameter values by name or alias; missing ones, and those that are None, take their default. Those of the
            peers that change nothing here are taken too, see peer_parameters.py.
        **overrides
            Values that win over those in `params`, whatever alias either uses. None means: not given.

        Raises
        ------
        ParameterError
            For an unknown name, a value that is not allowed, or two names of one parameter with different values.
        """
        if params is not None and not isinstance(params, Mapping):
            raise ParameterError(f"params must be a dict of parameter names and values, not {type(params).__name__}")
        given = canonical_names(params or {})
        given.update(canonical_names({name: value for name, value in overrides.items() if value is not None}))
        refuse_two_strategies(given)
        made = cls(**given)
        object.__setattr__(made, "given", frozenset(given))
        object.__setattr__(made, "idle", idle_names({**(params or {}), **overrides}))
        if "alpha" in given and "lambda_l1" not in given:  # whoever gives both, means both
            made.refuse_idle_alpha()
        return made

    def replace(self, **changes: Any) -> Params:
        """Return a copy with some values (by name or alias) changed, checked again."""
        changed = canonical_names(changes)
        made = dataclasses.replace(self, **changed)
        object.__setattr__(made, "given", self.given | frozenset(changed))
        object.__setattr__(made, "idle", self.idle)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return every parameter by canonical name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in PARAMETERS}

    def model_dict(self) -> dict[str, Any]:
        """Return what is saved with a model: values that may change the model and differ from the default, sorted.

        An objective function is saved as `"custom"`. What only other objectives look at cannot change the model.
        """
        values = {
            p.name: getattr(self, p.name)
            for p in sorted(PARAMETERS, key=lambda p: p.name)
            if p.in_model and (p.name not in USED_BY or self.objective in USED_BY[p.name])
        }
        if callable(values["objective"]):
            values["objective"] = "custom"
        return {name: value for name, value in values.items() if value != BY_NAME[name].default}


PARAMETERS: tuple[Parameter, ...] = tuple(
    dataclasses.replace(field.metadata["parameter"], name=field.name) for field in dataclasses.fields(Params)
)
"""The table, in the order of the documentation."""

BY_NAME: dict[str, Parameter] = {name: row for row in PARAMETERS for name in (row.name, *row.aliases)}
"""Every name and alias."""


def _did_you_mean(name: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6) if isinstance(name, str) else []
    return "; did you mean " + " or ".join(repr(match) for match in near) + "?" if near else ""


def canonical_names(params: Mapping[Any, Any]) -> dict[str, Any]:
    """Return checked values by canonical name; raise for unknown names and for aliases that disagree.

    What is None is not given.
    """
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in without_peer_parameters(params).items():
        row = BY_NAME.get(name) if isinstance(name, str) else None
        if row is None:
            hint = _did_you_mean(name, BY_NAME) or "; docs/parameters.md lists all names"
            raise ParameterError(f"unknown parameter {name!r}{hint}")
        if value is None:
            if row.default is None:  # where None is a value like others
                values.setdefault(row.name, None)
            continue
        value = row.check(value)
        if values.get(row.name) is not None and values[row.name] != value:
            raise ParameterError(
                f"{spelled[row.name]}={values[row.name]!r} and {name}={value!r} are two names of one parameter "
                f"({row.name}) with different values; give one of them"
            )
        values[row.name], spelled[row.name] = value, name
    return values


def refuse_two_strategies(given: Mapping[str, Any]) -> None:
    """Raise where `boosting` and `data_sample_strategy`, both given, say different things; names are canonical."""
    if given.get("boosting") == "goss" and given.get("data_sample_strategy") == "bagging":
        raise ParameterError(
            "boosting='goss' and data_sample_strategy='bagging' are two ways to choose rows; boosting='goss' is short "
            "for boosting='gbdt' with data_sample_strategy='goss': give one of them"
        )


def whole_number(value: object, name: str, low: int, high: int | None = None) -> int:
    """Check an argument that must be an integer from low to high, and return it."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low or value > (high or value):
        allowed = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise ParameterError(f"{name}={value!r}: must be an integer {allowed}")
    return int(value)


_TYPE_TEXT = {
    "choice": "str",
    "objective": "str or function",
    "metric": "str, list or None",
    "device": "str",
    "threads": "int",
    "columns": "str or list",
    "signs": "list, str, dict or None",
    "factors": "list, str, dict or None",
    "groups": "list of lists, str or None",
    "ranks": "int or list of int",
    "gains": "list of float or None",
}


def to_markdown() -> str:
    """Return the text of docs/parameters.md."""
    lines = [
        "# Parameters",
        "",
        "<!-- Written by `make docs` from src/hornbeam/params.py; change it there. -->",
        "",
        "Names and defaults are LightGBM's. The aliases are the names that LightGBM, XGBoost and scikit-learn use. An",
        "unknown name, a value out of range and two names of one parameter that disagree raise `ParameterError`.",
        'Strings are not numbers (`"0.1"`), and `True` is not an integer. None means: not given.',
        "[migration.md](migration.md) says what becomes of the parameters of LightGBM and XGBoost that are not here.",
        "",
        "*Saved* says whether the parameter is part of the model (and so of its fingerprint) when it differs from the",
        "default. What is not saved cannot change a tree.",
        "",
    ]
    for group in GROUPS:
        lines += [f"## {group}", ""]
        for row in (row for row in PARAMETERS if row.group == group):
            facts = [_TYPE_TEXT.get(row.type, row.type), f"default `{row.default!r}`"]
            facts += [f"`{row.range_text()}`"] if row.range_text() else []
            facts += ["saved" if row.in_model else "not saved"]
            lines += [f"### `{row.name}`", "", ", ".join(facts), "", row.doc, ""]
            if row.aliases:
                lines += ["Aliases: " + ", ".join(f"`{alias}`" for alias in row.aliases), ""]
            synonyms: dict[str, list[str]] = {}
            for spelling, value in (row.choices or {}).items():
                if spelling != value:
                    synonyms.setdefault(value, []).append(spelling)
            for value, spellings in synonyms.items():
                lines += [f"- `{value}` may be spelled " + ", ".join(f"`{spelling}`" for spelling in spellings)]
            lines += [""] if synonyms else []
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(to_markdown(), end="")

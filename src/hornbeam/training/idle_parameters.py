"""Parameters that have no effect in the chosen mode: one table, and one warning for each of them.

Looked at once in `train` and `cv`, when data, metrics and device are known. A parameter at its default is never named.
What contradicts itself is no matter of this file: it raises (params.py, boosting.py, row_sampling.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hornbeam.core.log import inform, warn
from hornbeam.metrics.auc_mu import AucMu
from hornbeam.metrics.classes import MultiError
from hornbeam.metrics.ranked_lists import QueryMetric
from hornbeam.objectives import RANKING, CustomObjective
from hornbeam.params.params import BY_NAME, USED_BY, Params
from hornbeam.params.random_parts import BAGGING_FRACTIONS, FEATURE_FRACTIONS, samples_rows
from hornbeam.training.state import TrainingState
from hornbeam.training.xgboost_arguments import FILLED_IN
from hornbeam.trees.contexts.feature_costs import PENALTIES


class Situation:
    """What the rules of the table look at.

    evaluates  whether there is a data set to evaluate, and a metric or a metric function to do it with
    """

    state: TrainingState
    evaluates: bool

    def __init__(self, state: TrainingState, evaluates: bool) -> None:
        self.state: TrainingState = state
        self.params: Params = state.params
        self.evaluates: bool = evaluates

    @property
    def fractions(self) -> list[str]:
        """Names of the fractions of rows that are below 1."""
        return [name for name in BAGGING_FRACTIONS if getattr(self.params, name) < 1.0]

    @property
    def bags(self) -> bool:
        """Whether rows are drawn by bagging."""
        return self.params.data_sample_strategy == "bagging" and samples_rows(self.params)

    @property
    def has_level_sets(self) -> bool:
        """Whether a categorical feature is split by sets of its levels."""
        data = self.state.train_set
        return len(data.categorical_features) > len(data.encoded_features)

    @property
    def query_metrics(self) -> list[QueryMetric]:
        """Metrics of ranked lists that are evaluated."""
        return [metric for metric in self.state.metrics if isinstance(metric, QueryMetric)] if self.evaluates else []


Rule = Callable[[Situation], "str | None"]
"""Says why a parameter has no effect, in words that follow "has no effect"; None: it has one."""


def _where(is_idle: Callable[[Situation], Any], why: str) -> Rule:
    return lambda situation: why if is_idle(situation) else None


def _unused_by_objective(name: str) -> Rule:
    def why(situation: Situation) -> str | None:
        if situation.params.is_used(name):
            return None
        return f"here: objective {situation.state.objective.name!r} does not use it"

    return why


def _dart(name: str) -> Rule:
    def why(situation: Situation) -> str | None:
        params = situation.params
        if params.boosting != "dart":
            return "without boosting='dart'"
        if params.skip_drop >= 1.0 and name != "skip_drop":
            return "with skip_drop=1: no tree is ever dropped"
        if params.drop_rate <= 0.0 and name != "drop_rate":
            return "with drop_rate=0: no tree is ever dropped"
        return None

    return why


def _bagging_fraction(situation: Situation) -> str | None:
    if situation.params.bagging_freq == 0:
        return "while bagging_freq (subsample_freq) is 0; set it to 1 to draw rows"
    by_label = [name for name in situation.fractions if name != "bagging_fraction"]
    return f"beside {' and '.join(by_label)}" if by_label else None


def _target_encoding_levels(situation: Situation) -> str | None:
    if not situation.state.train_set.categorical_features:
        return "without categorical features"
    has_mean = situation.params.num_class == 1 and situation.state.train_set.n_targets == 1
    if not has_mean and situation.params.target_encoding_levels >= 0:
        return "with num_class > 1 and with labels of several columns: they have no mean"
    return None


def _boost_from_average(situation: Situation) -> str | None:
    if situation.params.objective in RANKING or isinstance(situation.state.objective, CustomObjective):
        return f"with objective {situation.state.objective.name!r}, which starts from 0"
    if situation.params.base_score is not None:
        return "beside base_score, from which training starts"
    train_set = situation.state.train_set
    has_scores = train_set.init_score is not None and not train_set.is_xgboosts
    return "beside init_score, from which training starts" if has_scores else None


def _base_score(situation: Situation) -> str | None:
    train_set = situation.state.train_set
    if train_set.is_xgboosts:
        return None  # rows without a margin start there
    return "beside init_score, from which training starts" if train_set.init_score is not None else None


def _label_gain(situation: Situation) -> str | None:
    if situation.params.objective not in ("pairwise", "rank_xendcg", "rank_map") or situation.query_metrics:
        return _unused_by_objective("label_gain")(situation)
    name = situation.state.objective.name
    return f"here: objective {name!r} does not use it, and no metric of ranked lists is evaluated"


def _first_ranks(situation: Situation) -> str | None:
    if situation.params.lambdarank_sampled_pairs > 0:
        return "with lambdarank_sampled_pairs: pairs are of all ranks"
    return _unused_by_objective("lambdarank_truncation_level")(situation)


def _bias_norm(situation: Situation) -> str | None:
    return _unused_by_objective("lambdarank_bias_norm")(situation) or (
        None if situation.params.lambdarank_unbiased else "without lambdarank_unbiased"
    )


def _objective_seed(situation: Situation) -> str | None:
    params = situation.params
    if params.objective == "rank_xendcg" or (params.is_used("objective_seed") and params.lambdarank_sampled_pairs > 0):
        return None
    return _unused_by_objective("objective_seed")(situation) or "without lambdarank_sampled_pairs"


def _eval_at(situation: Situation) -> str | None:
    at = set(situation.params.eval_at)
    if any(metric.default_at is None and at <= set(metric.at) for metric in situation.query_metrics):
        return None
    return "where no metric of ranked lists is evaluated at the ranks that it names"


_NO_CATEGORIES = _where(
    lambda s: not s.has_level_sets,
    "without a categorical feature that is split by sets of levels (those of more levels than target_encoding_levels "
    "are not)",
)
_NO_SIGNS = _where(lambda s: not s.state.plan.features.sign.any(), "without monotone_constraints")
_NO_TRADEOFF = _where(lambda s: s.params.cegb_tradeoff == 0.0, "with cegb_tradeoff=0")
_NO_FRACTION = _where(
    lambda s: min(getattr(s.params, name) for name in FEATURE_FRACTIONS) >= 1.0, "without a feature_fraction below 1"
)
_NO_GOSS = _where(lambda s: s.params.data_sample_strategy != "goss", "without data_sample_strategy='goss'")
_EXACT = _where(
    lambda s: s.params.tree_method == "exact" and not s.has_level_sets,
    "with tree_method='exact': every distinct value is a threshold",
)
_BY_RANK = _where(
    lambda s: s.params.tree_method != "hist" and not s.has_level_sets,
    "with tree_method='exact' or 'approx': every distinct value of all rows is known",
)
_NO_EARLY_STOPPING = _where(
    lambda s: s.params.early_stopping_round <= 0,
    "without early_stopping_round (the callback early_stopping has arguments of its own)",
)

IDLE: dict[str, Rule] = {
    **{name: _unused_by_objective(name) for name in USED_BY},
    "label_gain": _label_gain,
    "lambdarank_truncation_level": _first_ranks,
    "lambdarank_bias_norm": _bias_norm,
    "objective_seed": _objective_seed,
    "boost_from_average": _boost_from_average,
    "base_score": _base_score,
    "learning_rate": _where(lambda s: s.params.boosting == "rf", "with boosting='rf': trees are averaged"),
    **{
        name: _dart(name)
        for name in ("drop_rate", "max_drop", "skip_drop", "uniform_drop", "one_drop", "xgboost_dart_mode", "drop_seed")
    },
    "xgboost_dart_forest": _where(
        lambda s: s.params.boosting != "dart" or not s.params.xgboost_dart_mode,
        "without boosting='dart' and xgboost_dart_mode",
    ),
    "bagging_fraction": _bagging_fraction,
    "pos_bagging_fraction": _where(lambda s: s.params.bagging_freq == 0, "while bagging_freq (subsample_freq) is 0"),
    "neg_bagging_fraction": _where(lambda s: s.params.bagging_freq == 0, "while bagging_freq (subsample_freq) is 0"),
    "bagging_freq": _where(lambda s: not s.fractions, "while bagging_fraction (subsample) is 1"),
    "bagging_by_query": _where(lambda s: not s.bags, "without bagging"),
    "bagging_seed": _where(lambda s: not samples_rows(s.params), "without bagging or GOSS"),
    "top_rate": _NO_GOSS,
    "other_rate": _NO_GOSS,
    "feature_fraction_seed": _NO_FRACTION,
    "feature_weights": _NO_FRACTION,
    "linear_lambda": _where(lambda s: not s.params.linear_tree, "without linear_tree"),
    "extra_seed": _where(lambda s: not s.params.extra_trees, "without extra_trees"),
    "monotone_constraints_method": _NO_SIGNS,
    "monotone_penalty": _NO_SIGNS,
    "cegb_tradeoff": _where(
        lambda s: not any(getattr(s.params, name) for name in PENALTIES), "without a cegb_penalty_... above 0"
    ),
    **dict.fromkeys(PENALTIES, _NO_TRADEOFF),
    "max_cat_to_onehot": _NO_CATEGORIES,
    "max_cat_threshold": _NO_CATEGORIES,
    "cat_smooth": _NO_CATEGORIES,
    "cat_l2": _NO_CATEGORIES,
    "min_data_per_group": _NO_CATEGORIES,
    "target_encoding_levels": _target_encoding_levels,
    "target_encoding_smooth": _where(
        lambda s: not s.state.train_set.encoded_features, "where no categorical feature is target-encoded"
    ),
    "max_bin": _EXACT,
    "max_bin_by_feature": _EXACT,
    "min_data_in_bin": _BY_RANK,
    "bin_construct_sample_cnt": _BY_RANK,
    "zero_as_missing": _where(lambda s: not s.params.use_missing, "with use_missing=False"),
    "first_metric_only": _NO_EARLY_STOPPING,
    "early_stopping_min_delta": _NO_EARLY_STOPPING,
    "eval_at": _eval_at,
    "multi_error_top_k": _where(
        lambda s: not any(isinstance(metric, MultiError) for metric in s.state.metrics), "without metric='multi_error'"
    ),
    "auc_mu_weights": _where(
        lambda s: not any(isinstance(metric, AucMu) for metric in s.state.metrics), "without metric='auc_mu'"
    ),
    "top_k": _where(lambda s: s.params.tree_learner != "voting", "without tree_learner='voting'"),
    "metric_freq": _where(lambda s: not s.evaluates, "where nothing is evaluated"),
    "device_memory_limit": _where(lambda s: not s.state.engine.has_own_memory, "on a CPU: it is a limit of GPU memory"),
}
"""Every parameter that some mode does not look at."""


def warn_of_idle(state: TrainingState, has_functions: bool) -> None:
    """Warn of every parameter that is not at its default and has no effect, and name those of the peers.

    state          its validation sets are entered
    has_functions  whether there are metric functions
    """
    warn_of_situation(Situation(state, bool(state.evaluated) and (has_functions or bool(state.metrics))))


def warn_of_situation(situation: Situation) -> None:
    """Warn of what has no effect in a situation, and name the parameters of the peers."""
    params = situation.params
    filled_in = FILLED_IN if situation.state.train_set.is_xgboosts else {}
    for name, rule in IDLE.items():
        value, default = getattr(params, name), BY_NAME[name].default
        if value != default and value != filled_in.get(name, default):
            why = rule(situation)
            if why is not None:
                warn(f"{name} has no effect {why}", params.verbosity)
    if params.idle:
        inform(f"without effect here: {', '.join(params.idle)} (see docs/migration.md)", params.verbosity)

"""What the parameters say about random choices: which parts of an iteration are drawn, and which draws contradict."""

from __future__ import annotations

from hornbeam.core.errors import ParameterError
from hornbeam.params.params import Params

FEATURE_FRACTIONS = ("feature_fraction", "feature_fraction_bylevel", "feature_fraction_bynode")
BAGGING_FRACTIONS = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")


def check_row_sampling(params: Params) -> None:
    """Refuse parameters that contradict each other."""
    fractions = {name: getattr(params, name) for name in BAGGING_FRACTIONS if getattr(params, name) < 1.0}
    by_label = [name for name in fractions if name != "bagging_fraction"]
    if params.data_sample_strategy == "goss":
        if fractions and params.bagging_freq > 0:
            raise ParameterError(
                f"data_sample_strategy='goss' with {_listed(fractions)}: GOSS chooses the rows itself; set "
                "bagging_freq=0, or data_sample_strategy='bagging'"
            )
        if params.top_rate + params.other_rate > 1.0:
            raise ParameterError(
                f"top_rate={params.top_rate} and other_rate={params.other_rate}: together they must be 1 or less"
            )
    if by_label and params.objective != "binary":
        raise ParameterError(
            f"{_listed({name: fractions[name] for name in by_label})}: needs objective='binary', not "
            f"{params.objective!r}; set bagging_fraction"
        )
    if by_label and params.bagging_by_query:
        raise ParameterError(
            f"bagging_by_query=True with {_listed({name: fractions[name] for name in by_label})}: a query has rows of "
            "both labels; set bagging_fraction"
        )


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def samples_rows(params: Params) -> bool:
    """Say whether trees see fewer rows than there are."""
    fractions = [getattr(params, name) for name in BAGGING_FRACTIONS]
    return params.data_sample_strategy == "goss" or (params.bagging_freq > 0 and min(fractions) < 1.0)


def draws_for_trees(params: Params) -> bool:
    """Say whether two trees of the same gradients may differ: rows, features or thresholds are drawn."""
    return samples_rows(params) or params.extra_trees or min(getattr(params, name) for name in FEATURE_FRACTIONS) < 1.0


def draws_anew(params: Params) -> bool:
    """Say whether anything of an iteration is drawn, so that it may learn something where the last one did not."""
    return draws_for_trees(params) or params.boosting == "dart" or params.objective == "rank_xendcg"

"""`XGBClassifier`, `XGBRegressor`, `XGBRanker` and forests: the estimators with the defaults and ways of XGBoost's.

    parameters              those that are not given have XGBoost's defaults; `subsample` draws rows for every tree
    early_stopping_rounds   watches the last metric on the last set
    feature_importances_    mean gains, or what `importance_type` names, that add up to 1
    evals_result_, tables   bear XGBoost's names

They train on a `DMatrix`, and everything else is that of the estimators that they are made of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.sources.series_tables import as_column, is_series
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.dmatrix import DMatrix
from hornbeam.model.xgboost_face import names_of
from hornbeam.params.params import BY_NAME, Params
from hornbeam.params.peer_parameters import VARIANTS
from hornbeam.sklearn.arguments import UserFunction
from hornbeam.sklearn.base import HornbeamModel
from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.ranker import HornbeamRanker
from hornbeam.training.xgboost_arguments import MULTICLASS_FACTOR, EvaluationMonitor, as_xgboost_means

__all__ = ["XGBClassifier", "XGBRFClassifier", "XGBRFRegressor", "XGBRanker", "XGBRegressor"]

NAMES = (
    "objective", "base_score", "booster", "colsample_bylevel", "colsample_bynode", "colsample_bytree", "device",
    "eval_metric", "gamma", "grow_policy", "interaction_constraints", "learning_rate", "max_bin", "max_cat_threshold",
    "max_cat_to_onehot", "max_delta_step", "max_depth", "max_leaves", "min_child_weight", "monotone_constraints",
    "multi_strategy", "n_jobs", "num_parallel_tree", "random_state", "reg_alpha", "reg_lambda", "scale_pos_weight",
    "subsample", "tree_method", "verbosity",
)  # fmt: skip
"""Parameters that `get_xgb_params` of XGBoost's estimators has, whether they are given or not."""

OF_FIT = ("n_estimators", "early_stopping_rounds", "importance_type")
"""What is no parameter of `train`."""

OF_ESTIMATORS = {
    **dict.fromkeys(NAMES), "callbacks": None, "enable_categorical": None, "feature_types": None,
    "feature_weights": None, "missing": np.nan, "sampling_method": None, "validate_parameters": None,
}  # fmt: skip
"""Those that `get_params` has besides, as they are where they are not given."""


class XGBoostModel(HornbeamModel):
    """What makes an estimator one of XGBoost's; None: XGBoost's default."""

    def __init__(
        self,
        *,
        max_depth: int | None = None,
        num_leaves: int | None = None,
        learning_rate: float | None = None,
        min_child_weight: float | None = None,
        min_child_samples: int | None = None,
        subsample_freq: int | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        max_bin: int | None = None,
        grow_policy: str | None = None,
        importance_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        given: dict[str, Any] = {
            "max_depth": max_depth,
            "num_leaves": num_leaves,
            "learning_rate": learning_rate,
            "min_child_weight": min_child_weight,
            "min_child_samples": min_child_samples,
            "subsample_freq": subsample_freq,
            "reg_alpha": reg_alpha,
            "reg_lambda": reg_lambda,
            "max_bin": max_bin,
            "grow_policy": grow_policy,
            "importance_type": importance_type,
        }
        super().__init__(**given, **kwargs)

    def _completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a training as XGBoost means them."""
        return as_xgboost_means(values)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, those of XGBoost's that are not given too."""
        return {**OF_ESTIMATORS, **super().get_params(deep=deep)}

    _beside_functions, _weighs_by_name = "rmse", True

    def _names_of_sets(self, names: Any, are_training: Sequence[bool]) -> Any:
        """Return the names of validation sets; None: XGBoost's, of the training data too."""
        return [f"validation_{number}" for number in range(len(are_training))] if names is None else names

    def _log_of(self, verbose: bool | int | None) -> EvaluationMonitor | None:
        """Return the callback that prints evaluations, each one where nothing else is asked for."""
        period = 1 if verbose is None else int(verbose)
        return EvaluationMonitor(period=period) if period > 0 else None

    def _make_data(self, table: Any, label: Any, init_score: Any = None, **others: Any) -> Dataset:
        """Return the data as a DMatrix."""
        data = DMatrix(table, label, base_margin=init_score, ref=others.pop("reference", None), **others)
        data.is_estimators = True
        types = self._other_params.get("feature_types")
        if types is not None:
            data.types = list(map(str, types))
        return data

    def _check_table(self, X: Any, reset: bool) -> Any:
        """Check features; a Series is the column of a model of one feature."""
        is_column = not reset and is_series(X) and getattr(self, "n_features_in_", 0) == 1
        names = getattr(self, "feature_names_in_", [None])
        return super()._check_table(as_column(X, names[0]) if is_column else X, reset)

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters that `train` takes, by XGBoost's names where it has such; None: its default."""
        found = {name: value for name, value in super().get_xgb_params().items() if name not in OF_FIT}
        values = {BY_NAME[name].name: value for name, value in found.items()}
        made = {name: values.pop(BY_NAME[name].name, None) for name in NAMES}
        made["booster"] = None if made["booster"] == "gbdt" else made["booster"]
        if made["objective"] == "binary:logistic" and len(getattr(self, "classes_", ())) > 2:
            made["objective"] = "multi:softprob"
        more = {name: value for name, value in found.items() if BY_NAME[name].name in values}
        return {**made, **{name: value for name, value in more.items() if value != BY_NAME[name].default}}

    @property
    def feature_types(self) -> Any:
        """What was given as `feature_types`, or None."""
        return self._other_params.get("feature_types")

    def get_num_boosting_rounds(self) -> int:
        """Return the number of iterations asked for."""
        return int(self._train_params().num_iterations)

    @property
    def intercept_(self) -> NDArray[np.float32]:
        """What training started from, `base_score`, float32 (1,) or (n_outputs,); of classes raw scores."""
        learner = json.loads(self._fitted.save_config())["learner"]
        return np.array(json.loads(learner["learner_model_param"]["base_score"]), np.float32)

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """What a feature's splits gain on average, or `importance_type` of it, as a share of all, float32."""
        booster, kind = self._fitted, self.importance_type or "gain"
        scores, names = booster.get_score(importance_type=kind), names_of("", booster.feature_names)
        found = np.array([scores.get(name, 0.0) for name in names], np.float64)
        return (found / (found.sum() or 1.0)).astype(np.float32)


class XGBoostClasses(HornbeamClassifier):
    """What XGBoost does with classes."""

    def _with_objective(self, values: dict[str, Any]) -> dict[str, Any]:
        """Complete parameters as the target asks for, with XGBoost's hessians and what its Booster predicts."""
        made = super()._with_objective(values)
        if made["objective"] == "multiclass":
            made.setdefault("multiclass_hessian_factor", MULTICLASS_FACTOR)
        name, way = VARIANTS.get(str(self.objective), ("", ""))
        return {**made, way: True} if name == made["objective"] else made


class XGBoostForest(XGBoostModel):
    """A random forest as XGBoost grows it: `n_estimators` trees side by side, in one iteration."""

    def __init__(
        self,
        *,
        learning_rate: float = 1.0,
        subsample: float = 0.8,
        colsample_bynode: float = 0.8,
        reg_lambda: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        self.colsample_bynode = colsample_bynode
        super().__init__(learning_rate=learning_rate, subsample=subsample, reg_lambda=reg_lambda, **kwargs)

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters that `train` takes for the one iteration of a forest."""
        return {**super().get_xgb_params(), "num_parallel_tree": self.n_estimators}

    def _completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of one iteration of many trees."""
        n_trees = values.pop("n_estimators", 100)
        return super()._completed({**values, "num_iterations": 1, "num_parallel_tree": n_trees})


class XGBClassifier(XGBoostModel, XGBoostClasses):
    """`HornbeamClassifier` as XGBoost's users know it; of more than two classes the objective is "multi:softprob"."""

    def __init__(self, *, objective: str | UserFunction | None = "binary:logistic", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

    _links_functions = True

    def _with_metrics(self, params: Params, names: list[str]) -> Params:
        """Beside an objective function of several classes, count the errors."""
        several = params.metric is None and callable(params.objective) and params.num_class > 1
        return super()._with_metrics(params.replace(metric="multi_error") if several else params, names)


class XGBRegressor(XGBoostModel, HornbeamRegressor):
    """`HornbeamRegressor` as XGBoost's users know it."""

    def __init__(self, *, objective: str | UserFunction | None = "reg:squarederror", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

    def _completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Let training with an objective function begin at 0.5, as XGBoost's does."""
        begins = callable(values.get("objective")) and values.get("base_score") is None
        return super()._completed({**values, "base_score": 0.5} if begins else values)


class XGBRanker(XGBoostModel, HornbeamRanker):
    """`HornbeamRanker` as XGBoost's users know it."""

    def __init__(self, *, objective: str | UserFunction | None = "rank:ndcg", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)


class XGBRFClassifier(XGBoostForest, XGBoostClasses):
    """A random forest of XGBoost's kind for classes."""

    def __init__(self, *, objective: str | UserFunction | None = "binary:logistic", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)


class XGBRFRegressor(XGBoostForest, HornbeamRegressor):
    """A random forest of XGBoost's kind for numbers."""

    def __init__(self, *, objective: str | UserFunction | None = "reg:squarederror", **kwargs: Any) -> None:
        super().__init__(objective=objective, **kwargs)

"""What the estimators share: parameters, checks of the data as scikit-learn makes them, training, prediction.

Constructor parameters bear the names that users of LightGBM's estimators know; any other Hornbeam parameter is taken
as a keyword too. Training is `hornbeam.train` on `hornbeam.Dataset`, so the model is the same, to the fingerprint.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np
from narwhals.dependencies import is_into_dataframe
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight, assert_all_finite

from hornbeam.core.errors import ParameterError
from hornbeam.data.device_arrays import device_of, host_array, is_tensor
from hornbeam.data.sources.labelled import load_labelled
from hornbeam.data.sources.loading import load_table
from hornbeam.data.sources.markers import without_marker
from hornbeam.data.sources.objects import holds_objects
from hornbeam.data.sources.opening import open_table
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.params.params import BY_NAME, Params, canonical_names, refuse_two_strategies
from hornbeam.params.peer_arguments import ESTIMATOR_ATTRIBUTES, FIT, PREDICT, takes_peer_arguments
from hornbeam.params.peer_parameters import idle_names
from hornbeam.sklearn import held_out
from hornbeam.sklearn.arguments import (
    NamesEvaluations,
    UserFunction,
    adapt_objective,
    eval_pairs,
    in_order,
    named_categories,
    one_each,
    seed_of,
    split_metrics,
    threads_of,
)
from hornbeam.sklearn.device_targets import read_target
from hornbeam.sklearn.explained import ExplainedEstimator
from hornbeam.sklearn.fit_tasks import FitTask, TakesFitCallbacks, is_fit_task, takes_verbose
from hornbeam.sklearn.fitted_attributes import FittedAttributes
from hornbeam.sklearn.named_parameters import NamedParameters, without_default_twins, without_other_names
from hornbeam.sklearn.tables import (
    data_errors,
    has_rows_of_no_weight,
    refuse_strings,
    wanted_columns,
    with_uniform_names,
    without_rows_of_no_weight,
)
from hornbeam.sklearn.tags import Tagged
from hornbeam.sklearn.target_columns import has_columns, read_columns
from hornbeam.training.callbacks import Callback
from hornbeam.training.init_model import check_classes
from hornbeam.training.training import train

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn before 1.6: a method of BaseEstimator
    validate_data = None

CLASSES_OF_XGBOOST = {"multi:softmax": "multiclass", "binary:logitraw": "binary"}
"""Objectives of XGBoost whose predictions are others, where those of a classifier are classes."""

FloatArray = NDArray[np.float64]
SelfModel = TypeVar("SelfModel", bound="HornbeamModel")


class HornbeamModel(
    FittedAttributes, ExplainedEstimator, NamesEvaluations, TakesFitCallbacks, Tagged, BaseEstimator, NamedParameters
):
    """What the estimators share; use `HornbeamClassifier`, `HornbeamRegressor` or `HornbeamRanker`.

    Parameters
    ----------
    boosting_type, num_leaves, max_depth, learning_rate, n_estimators, subsample_for_bin, min_split_gain,
    min_child_weight, min_child_samples, subsample, subsample_freq, reg_alpha, reg_lambda, colsample_bytree, max_bin,
    grow_policy, max_delta_step, early_stopping_rounds, device, precision, histogram_pool_size, verbosity
        Parameters of the training; docs/parameters.md has them under these names or aliases.
    objective
        Name, or function(y_true, y_pred) -> (gradient, hessian) of raw scores, which may take the weights as a third
        argument and the sizes of queries as a fourth, or by the name `sample_weight`; weights are applied to what any
        other function returns.
        Marked by `hornbeam.on_device` it works on arrays of the device that trains. None: "regression" for the
        regressor, "binary" or "multiclass" for the classifier, by the number of classes. The classifier also takes
        "multiclassova", and for two classes "focal", "cross_entropy" and "hinge", whose probabilities are 0 and 1.
    class_weight
        Classifier only. Weights by class label, or "balanced": inversely proportional to the weight of a class in the
        training data. They multiply `sample_weight`.
    random_state
        Seed; None: 0. A RandomState or Generator is asked for a seed at every fit.
    n_jobs
        Threads; None or -1: all that the process may use; -2: all but one, and so on.
    importance_type
        "split", "gain" or "cover": what `feature_importances_` returns; None: "split".
    **kwargs
        Any other Hornbeam parameter, by name or alias. It replaces the constructor parameter that it is another name
        of, unless that one has been changed too. Unknown names raise ParameterError in `fit`.

    Attributes
    ----------
    booster_
        The trained hornbeam.Booster.
    n_features_in_, feature_names_in_
        Number of features, and their names if X was a frame with strings as names (among others: as texts).
    classes_, n_classes_
        Classifier only: sorted labels, and their number.
    """

    _other_params: Mapping[str, Any] = MappingProxyType({})
    _instead = ESTIMATOR_ATTRIBUTES
    _takes_columns = False
    __metadata_request__fit: ClassVar[dict[str, Any]] = dict.fromkeys(("X_val", "y_val", "sample_weight_val"))

    def __init__(
        self,
        *,
        boosting_type: str = "gbdt",
        num_leaves: int = 31,
        max_depth: int = -1,
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        subsample_for_bin: int = 200_000,
        objective: str | UserFunction | None = None,
        class_weight: dict[Any, float] | str | None = None,
        min_split_gain: float = 0.0,
        min_child_weight: float | None = None,
        min_child_samples: int = 20,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        reg_alpha: float = 0.0,
        reg_lambda: float | None = None,
        colsample_bytree: float = 1.0,
        max_bin: int = 255,
        grow_policy: str = "leafwise",
        max_delta_step: float | None = None,
        early_stopping_rounds: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        importance_type: str | None = "split",
        device: str = "auto",
        precision: str = "auto",
        histogram_pool_size: float = -1.0,
        verbosity: int | None = 1,
        **kwargs: Any,
    ) -> None:
        self.boosting_type = boosting_type
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.n_estimators = n_estimators
        self.subsample_for_bin = subsample_for_bin
        self.objective = objective
        self.class_weight = class_weight
        self.min_split_gain = min_split_gain
        self.min_child_weight = min_child_weight
        self.min_child_samples = min_child_samples
        self.subsample = subsample
        self.subsample_freq = subsample_freq
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.colsample_bytree = colsample_bytree
        self.max_bin = max_bin
        self.grow_policy = grow_policy
        self.max_delta_step = max_delta_step
        self.early_stopping_rounds = early_stopping_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.importance_type = importance_type
        self.device = device
        self.precision = precision
        self.histogram_pool_size = histogram_pool_size
        self.verbosity = verbosity
        if kwargs:
            self._other_params = {**self._other_params, **kwargs}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the parameters of the constructor, and of those above it that it hands keywords on to."""
        names: set[str] = set()
        for kind in cls.__mro__:
            if "__init__" not in vars(kind):
                continue
            parameters = inspect.signature(vars(kind)["__init__"]).parameters.values()
            names.update(p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD)
            if kind is HornbeamModel or not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
        return sorted(names)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, those given as further keywords too.

        Where such a keyword is another name of one that has its default, that one is left out: no value is there twice.
        """
        own, given = super().get_params(deep=deep), self._other_params
        return {**without_default_twins(own, given, HornbeamModel.__init__), **given}

    def set_params(self: SelfModel, **params: Any) -> SelfModel:
        """Set parameters by name or alias; names are checked in `fit`."""
        own = set(self._get_param_names())
        others = {name: value for name, value in params.items() if name not in own}
        self._other_params = without_other_names(self._other_params, params)
        super().set_params(**{name: value for name, value in params.items() if name in own})
        self._other_params = {**self._other_params, **others}
        return self

    def _train_params(self) -> Params:
        """Return the checked parameters of a training."""
        defaults = {name: p.default for name, p in inspect.signature(HornbeamModel.__init__).parameters.items()}
        values = held_out.without_fit_parameters(self._other_params)
        renamed = {BY_NAME[name].name for name in values if name in BY_NAME}
        for name in sorted({*HornbeamModel._get_param_names(), *self._get_param_names()}):
            value = getattr(self, name)
            if name not in BY_NAME or value is None or (BY_NAME[name].name in renamed and value == defaults.get(name)):
                continue
            if name == "random_state":
                value = seed_of(value)
            elif name == "n_jobs":
                value = threads_of(value)
            values[name] = value
        if values.get("objective") in CLASSES_OF_XGBOOST and isinstance(self, ClassifierMixin):
            values["objective"] = CLASSES_OF_XGBOOST[values["objective"]]
        given = canonical_names(self._completed(values))
        refuse_two_strategies(given)
        params = Params(**self._with_objective(given))
        object.__setattr__(params, "idle", idle_names(held_out.without_fit_parameters(self._other_params)))
        if "alpha" in renamed and "alpha" in given:
            params.refuse_idle_alpha()
        return params

    def _with_objective(self, values: dict[str, Any]) -> dict[str, Any]:
        """Complete canonical parameters by objective and num_class, as the target learned in `fit` asks for."""
        objective = values.get("objective", "regression")
        return {**values, "objective": adapt_objective(objective) if callable(objective) else objective}

    def _check_table(self, X: Any, reset: bool) -> Any:
        """Check features as scikit-learn does, and note or compare their number and names; frames stay frames."""
        if not reset:
            X = load_table(X, "X", wanted_columns(self))
        X = without_marker(X, self._other_params.get("missing"))
        new = validate_data is not None
        checks: dict[str, Any]
        on_device = device_of(X, "X") is not None
        if on_device:
            open_table(X, "X")  # has two dimensions of real numbers
        elif is_into_dataframe(X):
            X = with_uniform_names(X)
        if on_device or is_into_dataframe(X):
            checks = {"skip_check_array": True} if new else {"cast_to_ndarray": False}
        else:
            if holds_objects(X) and not self._names_categories():
                refuse_strings(X)
            checks = {
                "dtype": None if holds_objects(X) and self._names_categories() else "numeric",
                "accept_sparse": True,
                "accept_large_sparse": True,
                "ensure_all_finite" if new else "force_all_finite": False,
            }
        with data_errors():
            if new:
                return validate_data(self, X, reset=reset, **checks)
            return self._validate_data(X, reset=reset, **checks)

    def _names_categories(self) -> bool:
        """Say whether categorical features are named, which may be columns of strings."""
        return getattr(self, "_has_categories", False) or any(
            BY_NAME[name].name == "categorical_feature" for name in self._other_params if name in BY_NAME
        )

    def _check_target(self, y: Any) -> Any:
        """Check that there is one target a row, or a row of them; one on a CUDA device stays there, as CuPy's."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
        if self._takes_columns and has_columns(y):
            return read_columns(y)
        if device_of(y, "y") is not None:
            return read_target(y)
        y = column_or_1d(host_array(y, "y") if is_tensor(y) else y, warn=True)
        assert_all_finite(y, input_name="y")
        return np.asarray(y)

    def _learn_target(self, y: Any) -> Any:
        """Return the labels for training, where the target is; a classifier learns its classes."""
        return self._code_target(y)

    def _code_target(self, y: Any) -> Any:
        """Return the labels of a validation set."""
        return y if device_of(y, "y") is not None else np.asarray(y, np.float64)

    def _row_weights(
        self, label: FloatArray, weight: FloatArray | None, class_weight: dict[Any, float] | str | None
    ) -> FloatArray | None:
        """Return weights with class weights multiplied in."""
        if class_weight is not None:
            raise ParameterError(f"class_weight={class_weight!r}: {type(self).__name__} has no classes; leave it None")
        return weight

    @takes_verbose
    @takes_peer_arguments(FIT)
    def fit(
        self: SelfModel,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        init_score: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | tuple[Any, Any] | None = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_class_weight: Sequence[dict[Any, float] | str | None] | None = None,
        eval_init_score: Sequence[Any] | None = None,
        eval_metric: str | UserFunction | Sequence[str | UserFunction] | None = None,
        feature_name: Sequence[str] | str = "auto",
        categorical_feature: Sequence[Any] | str = "auto",
        callbacks: Sequence[Callback] | None = None,
        init_model: HornbeamModel | Booster | str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_freq: int = 10,
        *,
        eval_X: Any = None,
        eval_y: Any = None,
        feature_weights: Any = None,
    ) -> SelfModel:
        """Train the model.

        Parameters
        ----------
        X
            Features (n_rows, n_features): array of real numbers, not copied; pandas, polars or pyarrow table; or sparse
            matrix or array of SciPy. NaN is a missing value. Or what a table is read from, as for hornbeam.Dataset.
        y
            Target (n_rows,): numbers, or class labels of any kind for the classifier; or the name of a column of X.
            (n_rows, n_targets): several targets at once; for the classifier 0 and 1, where any number of labels may
            hold in a row.
        sample_weight
            (n_rows,) weights >= 0. A row of weight 0 counts as absent, whole weights nearly as repeated rows (a row is
            still one row to `min_child_samples` and to the bins).
        init_score
            Raw scores to start from: (n_rows,), or (n_rows, n_classes). `predict` does not add them.
        eval_set
            Pairs (X, y) to evaluate after every iteration.
        eval_X, eval_y
            The same as a table and its target, or a tuple of each.
        eval_names, eval_sample_weight, eval_init_score
            One entry for each pair of `eval_set`.
        eval_class_weight
            Classifier only: weights by class label or "balanced", or None, for each pair of `eval_set`.
        feature_name, categorical_feature, feature_weights
            As `feature_names`, `categorical_features` and `feature_weights` of hornbeam.Dataset.
        eval_metric
            Metrics besides the objective's own (or those of the parameter `metric`): names, and functions
            (y_true, y_pred) -> (name, value, higher_is_better), which may take the weights as a third argument and
            the sizes of queries as a fourth. The classifier's labels come as 0, 1, ...; for it "logloss" and "error" in
            all their names (`binary_logloss`, `multi_error`, ...) are those of as many classes as there are, in the
            parameter `metric` too.
        callbacks, checkpoint, checkpoint_freq
            As in `hornbeam.train`: a checkpoint is a file from which a training that was cut short goes on.
        init_model
            Fitted estimator, Booster or model file to train on. A classifier must have learned the classes of y.
        """
        pairs = eval_pairs(eval_set, eval_X, eval_y)
        given = held_out.FitData(X, y, sample_weight, init_score, pairs, eval_sample_weight, eval_init_score)
        data, stopping = held_out.hold_out(self, given)
        metrics, calls = held_out.joined_functions(self._other_params, eval_metric, callbacks)
        calls = calls if stopping is None else [*(calls or []), stopping]
        before = held_out.scores_so_far(self)
        self._fit(
            data, eval_names, metrics, calls, init_model, (checkpoint, checkpoint_freq),
            eval_class_weight=eval_class_weight, feature_name=feature_name, feature_weights=feature_weights,
            **named_categories(categorical_feature),
        )  # fmt: skip
        self.do_early_stopping_ = stopping is not None or self._train_params().early_stopping_round > 0
        self.train_score_, self.validation_score_ = held_out.scores_of_fit(self, data, stopping, before)
        return self

    @is_fit_task
    def _fit(
        self: SelfModel,
        data: held_out.FitData,
        eval_names: Any,
        eval_metric: Any,
        callbacks: Any,
        init_model: Any,
        checkpoint: tuple[str | os.PathLike[str] | None, int],
        queries: Mapping[str, Any] = MappingProxyType({}),
        eval_queries: Sequence[Mapping[str, Any]] | None = None,
        eval_class_weight: Sequence[dict[Any, float] | str | None] | None = None,
        feature_name: Sequence[str] | str = "auto",
        feature_weights: Any = None,
        **changes: Any,
    ) -> SelfModel:
        """Train the model; arguments as in `fit`.

        checkpoint    file and frequency
        queries       `group` or `qid` of the training set, for ranking; eval_queries: of each validation set
        changes       parameters that are given to `fit`
        """
        X, y, pairs = data.X, data.y, data.pairs
        self._has_categories = "categorical_feature" in changes
        table, fields = load_labelled(
            X, {"label": y, "weight": data.sample_weight, "init_score": data.init_score, **queries}
        )  # fmt: skip
        queries = {name: fields[name] for name in queries}
        weight, init_score = fields["weight"], fields["init_score"]
        table = self._check_table(table, reset=True)
        target = self._check_target(fields["label"])
        check_consistent_length(table, target)
        known = getattr(init_model, "classes_", None)  # init_model may be this estimator, which learns anew now
        label = self._learn_target(target)
        check_classes(known, getattr(self, "classes_", None))
        if weight is not None and device_of(weight, "sample_weight") is None and not queries:  # Dataset checks those
            rows = label if device_of(label, "y") is None else np.empty((len(label), 0))
            weight = _check_sample_weight(weight, rows, dtype=np.float64)
        params = self._train_params().replace(**changes)
        if init_model is None and held_out.wants_warm_start(self._other_params) and hasattr(self, "booster_"):
            init_model, params = self, held_out.rounds_to_go(params, self.booster_)
        names, functions = split_metrics(eval_metric, self._weighs_by_name)
        params = self._with_metrics(params, names)
        if params.early_stopping_round > 0 and not pairs:
            raise ParameterError(
                f"early_stopping_rounds={params.early_stopping_round} without a validation set; pass eval_set=[(X, y)]"
            )
        if self.class_weight is not None:  # made on the host
            given = None if weight is None else host_array(weight, "sample_weight").astype(np.float64)
            weight = self._row_weights(host_array(label, "y"), given, self.class_weight)
        more = {"feature_names": feature_name, "feature_weights": feature_weights, **queries}
        train_set = self._make_data(table, label, weight=weight, init_score=init_score, **more)
        if not queries and has_rows_of_no_weight(train_set):
            train_set = without_rows_of_no_weight(train_set)
        weights = one_each(data.eval_sample_weight, "eval_sample_weight", len(pairs))
        class_weights = one_each(eval_class_weight, "eval_class_weight", len(pairs))
        scores = one_each(data.eval_init_score, "eval_init_score", len(pairs))
        pair_queries = [{}] * len(pairs) if eval_queries is None else eval_queries
        are_training = [pair[0] is X and pair[1] is y for pair in pairs]
        valid_sets = [
            train_set
            if is_training
            and class_weight is None
            and (pair_weight is None or pair_weight is data.sample_weight)
            and (pair_score is None or pair_score is init_score)
            else self._valid_set(pair, pair_weight, class_weight, pair_score, train_set, own)
            for pair, is_training, pair_weight, class_weight, pair_score, own in zip(
                pairs, are_training, weights, class_weights, scores, pair_queries, strict=True
            )
        ]
        task = FitTask(self, params.num_iterations, X, y, data.sample_weight)
        self.booster_ = train(
            params,
            train_set,
            valid_sets=valid_sets,
            valid_names=self._names_of_sets(eval_names, are_training),
            feval=functions,
            init_model=init_model.booster_ if isinstance(init_model, HornbeamModel) else init_model,
            callbacks=task.joined_to(callbacks),
            checkpoint=checkpoint[0],
            checkpoint_freq=checkpoint[1],
        )
        task.end()
        if self.booster_.interrupted:  # it has the iterations so far; a search that fits this estimator stops
            raise KeyboardInterrupt
        return self

    def _valid_set(
        self,
        pair: tuple[Any, Any],
        weight: Any,
        class_weight: dict[Any, float] | str | None,
        init_score: Any,
        train_set: Dataset,
        queries: Mapping[str, Any],
    ) -> Dataset:
        given, wanted = {"label": pair[1], "weight": weight, "init_score": init_score, **queries}, wanted_columns(self)
        table, fields = load_labelled(pair[0], given, features=wanted.features, n_features=wanted.n_features)
        weight, init_score, queries = fields["weight"], fields["init_score"], {name: fields[name] for name in queries}
        table = self._check_table(table, reset=False)
        label = self._code_target(self._check_target(fields["label"]))
        check_consistent_length(table, label)
        if class_weight is not None:
            weight = None if weight is None else host_array(weight, "eval_sample_weight").astype(np.float64)
            weight = self._row_weights(host_array(label, "y"), weight, class_weight)
        return self._make_data(table, label, weight=weight, init_score=init_score, reference=train_set, **queries)

    @takes_peer_arguments(PREDICT)
    def predict(self, X: Any, *places: Any, **choices: Any) -> NDArray[Any]:
        """Predict the target of every row.

        Keywords are those of `Booster.predict`; by place they come in LightGBM's order (`arguments.ORDER`).
        """
        booster, choices = self._predicting, in_order(places, choices)
        result: NDArray[Any] = booster.predict(self._check_table(X, reset=False), **choices)
        return result

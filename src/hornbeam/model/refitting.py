"""`Booster.refit`: the splits of a model, with leaf values from new data.

Sums over the rows of a leaf are those of training: of integers, which have no order. The value that the new data give
is the one that training would have given this leaf; refit_outputs.py has what path smoothing and monotone constraints
mean for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.columns import first_scores
from hornbeam.backends.gradients import compute_gradients
from hornbeam.backends.prediction import predict_leaf
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.core.log import inform
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.file.model_data import ModelData
from hornbeam.model.refit_outputs import TreeShape, keep_order, outputs_in_context
from hornbeam.objectives import CustomObjective, Objective, get_objective
from hornbeam.objectives.logcosh_leaves import leaf_minima
from hornbeam.objectives.percentiles import leaf_percentiles
from hornbeam.objectives.targets import of_output
from hornbeam.params.constraints import resolve_per_feature
from hornbeam.params.params import BY_NAME, Params, canonical_names
from hornbeam.params.peer_parameters import idle_names
from hornbeam.trees.forest import Forest
from hornbeam.trees.splitting import SplitRules, finished_weight, leaf_output
from hornbeam.trees.tree import Tree, refuse_linear

FloatArray = NDArray[np.float64]


OF_GROWTH = frozenset((
    "learning_rate", "seed", "drop_rate", "max_drop", "skip_drop", "uniform_drop", "one_drop", "drop_seed",
    "xgboost_dart_mode", "xgboost_dart_forest", "data_sample_strategy", "bagging_fraction", "bagging_freq",
    "pos_bagging_fraction", "neg_bagging_fraction", "bagging_by_query", "bagging_seed", "top_rate", "other_rate",
    "num_leaves", "max_depth", "grow_policy", "multi_strategy", "min_data_in_leaf", "min_sum_hessian_in_leaf",
    "min_gain_to_split", "feature_fraction", "feature_fraction_bylevel", "feature_fraction_bynode", "feature_weights",
    "feature_fraction_seed", "extra_trees", "extra_seed", "max_cat_threshold", "cat_smooth", "min_data_per_group",
    "interaction_constraints", "feature_contri", "cegb_tradeoff", "cegb_penalty_split", "cegb_penalty_feature_coupled",
    "cegb_penalty_feature_lazy", "forcedsplits_filename", "forcedbins_filename", "tree_method", "max_bin",
    "max_bin_by_feature", "min_data_in_bin", "bin_construct_sample_cnt",
))  # fmt: skip
"""Parameters of a model that its splits depend on, and not its leaf values: what a refit does not look at."""


def check_params(kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse parameters of a refit that would change its leaf values, and name those that change nothing.

    kept   those of the model
    given  by any of their names
    """
    found = canonical_names(given)
    for name, value in found.items():
        row = BY_NAME[name]
        if row.in_model and name not in OF_GROWTH and value not in (kept.get(name, row.default), None):
            raise ParameterError(
                f"{name}={value!r}: a refit has the parameters of the training, {name}="
                f"{kept.get(name, row.default)!r} here; leave it out, or train anew"
            )
    idle = [name for name in found if name in OF_GROWTH or not BY_NAME[name].in_model]
    idle = [name for name in (*idle, *idle_names(given)) if name != "verbosity"]
    if idle:
        inform(f"without effect in a refit: {', '.join(idle)}", found.get("verbosity"))


class NewData:
    """Labels and weights of the new rows, and their gradients at any scores."""

    def __init__(self, objective: Objective, dataset: Dataset) -> None:
        objective.check_labels(dataset.label)
        self.dataset = dataset
        self.objective = objective.bind(dataset)
        self.label, self.weight = dataset.label, dataset.weight
        self.counts = np.ones(dataset.n_rows, np.bool_) if self.weight is None else self.weight > 0.0
        """Which rows are there: those of weight 0 are as if they were left out."""
        self.renewal_weight: FloatArray | None = None
        if self.label is not None:
            self.label, self.weight = self.objective.prepare(self.label, self.weight)
            if self.objective.renewal_percentile is not None:
                self.renewal_weight = self.objective.renewal_weights(self.label, self.weight)

    def gradients(self, scores: FloatArray, iteration: int, n_threads: int) -> tuple[FloatArray, FloatArray]:
        """Return gradients and hessians, each float64 (n_outputs, n_rows); scores are in C order."""
        self.objective.begin_iteration(iteration)
        if isinstance(self.objective, CustomObjective):
            return self.objective.evaluate(scores, self.dataset)
        assert self.label is not None
        return compute_gradients(self.objective, scores, self.label, self.weight, n_threads)


def refit(
    model: ModelData,
    forest: Forest,
    dataset: Dataset,
    decay_rate: object,
    objective: Callable[..., Any] | None,
    n_threads: int,
    update_by: Params | None = None,
) -> ModelData:
    """Return a new model; see `Booster.refit`.

    forest     of the model
    dataset    new rows; its reader reads the columns as the model does
    update_by  parameters that take the place of the model's, for an update as XGBoost has it: scores start where they
               did, and a leaf of less than min_sum_hessian_in_leaf gets 0
    """
    is_number = isinstance(decay_rate, (int, float, np.integer, np.floating)) and not isinstance(decay_rate, bool)
    decay = float(decay_rate) if is_number else np.nan  # type: ignore[arg-type]
    if not 0.0 <= decay <= 1.0:
        raise ParameterError(f"decay_rate={decay_rate!r}: must be a number from 0 to 1")
    refuse_linear(model.trees, "refit", "train anew on the new data, or train without linear_tree")
    params = _params_of(model, objective) if update_by is None else update_by
    new = NewData(get_objective(params, dataset.n_targets), dataset)
    old_begin, averages = np.array(model.init_scores, np.float64), params.boosting == "rf"
    begin, start = old_begin, dataset.init_score
    if start is None and update_by is None:
        begin = decay * begin + (1.0 - decay) * first_scores(new.objective, dataset, "cpu", params.base_score)
    scores = np.empty((model.n_outputs, dataset.n_rows))
    scores[:] = begin[:, None]
    if start is not None:
        if averages or start.shape != scores.shape:
            raise DataError(
                "boosting='rf' averages trees and has no place for init_score; leave it out"
                if averages
                else f"init_score has {len(start)} outputs, but the model has {model.n_outputs}"
            )
        scores = start.copy() if update_by is not None else scores + start  # XGBoost's margins hold the start
    trees = list(model.trees)
    sign = resolve_per_feature(params.monotone_constraints, 0.0, model.feature_names, "monotone_constraints").astype(
        np.int8
    )
    for iteration in range(model.n_iterations):
        if iteration == 0 or not averages:  # the trees of a forest are fitted at the start, all of them
            gradient, hessian = new.gradients(scores, iteration, n_threads)
        leaves = predict_leaf(forest, dataset.reader, iteration, 1, n_threads)
        before = scores.copy() if model.trees_per_iteration > model.n_outputs else scores  # trees side by side
        for place in range(model.trees_per_iteration):
            number, output = iteration * model.trees_per_iteration + place, place % model.n_outputs
            tree, leaf = model.trees[number], leaves[:, place].astype(np.int64)
            in_context = params.monotone_constraints is not None or params.path_smooth > 0.0
            shape = TreeShape(tree, sign, params.use_missing) if in_context else None
            fresh = _leaf_values(
                new,
                output,
                gradient[output],
                hessian[output],
                before[output],
                leaf,
                tree,
                params,
                _more_l2(model, tree, params),
                shape,
            )
            shrinkage = tree.shrinkage if update_by is None else params.learning_rate
            mixed = decay * tree.leaf_value + (1.0 - decay) * (fresh * shrinkage)
            reached = np.bincount(leaf[new.counts], minlength=tree.n_leaves) > 0
            if update_by is not None:
                sums = exact_leaf_sums(hessian[output], leaf, tree.n_leaves)
                mixed = np.where(reached & (sums >= params.number("min_sum_hessian_in_leaf")), mixed, 0.0)
                reached[:] = True
            on_start = iteration == 0 or averages  # with the start, a leaf without rows stays as it was
            moved = begin[output] - old_begin[output] if on_start else 0.0
            values = np.where(reached, mixed, tree.leaf_value - moved)
            if shape is not None and any(shape.sign):
                values = keep_order(values, reached, shape.order())
            values = values + 0.0
            trees[number] = tree.with_leaf_values(values)
            if not averages:
                scores[output] += values[leaf]
    return replace(model, init_scores=begin.tolist(), trees=trees)


def _params_of(model: ModelData, objective: Callable[..., Any] | None) -> Params:
    """Return the parameters that the model was trained with."""
    given = dict(model.params)
    if given.get("objective") == "custom":
        if objective is None:
            raise ParameterError(
                "the model was trained with an objective function, which a model does not hold; pass it: "
                "refit(..., objective=function)"
            )
        given["objective"] = objective
    elif objective is not None:
        raise ParameterError(
            f"objective: the model was trained with {model.objective['name']!r}, which refit uses; leave it out"
        )
    return Params.from_dict(given)


def _more_l2(model: ModelData, tree: Tree, params: Params) -> FloatArray:
    """Return what is added to lambda_l2 in the outputs of the children of every split, float64 (n_splits,)."""
    more, levels = np.zeros(tree.n_splits), model.levels or []
    for split, codes in enumerate(tree.left_codes or ()):
        own = levels[int(tree.feature[split])] if codes is not None else None
        if own is not None and len(own) > params.max_cat_to_onehot:
            more[split] = params.cat_l2
    return more


def _leaf_values(
    new: NewData,
    output: int,
    gradient: FloatArray,
    hessian: FloatArray,
    scores: FloatArray,
    leaf: NDArray[np.int64],
    tree: Tree,
    params: Params,
    more_l2: FloatArray,
    shape: TreeShape | None,
) -> FloatArray:
    """Return what training would give the leaves of one tree, before shrinkage, float64 (n_leaves,).

    gradient, hessian, scores  float64 (n_rows,)    in
    leaf                       int64 (n_rows,)      in
    more_l2                    float64 (n_splits,)  in
    shape                      of the tree, where outputs depend on other nodes; or None
    """
    percentile, n_leaves, rules = new.objective.percentile_of(output), tree.n_leaves, SplitRules.from_params(params)
    if percentile is not None and new.label is not None:
        most = params.number("max_delta_step") or np.inf
        label, weight = (of_output(values, output) for values in (new.label, new.renewal_weight))
        rows = label - scores, weight, leaf, n_leaves  # type: ignore[operator]  # there are labels
        found = leaf_minima(*rows) if new.objective.renews_to_logcosh else leaf_percentiles(*rows, percentile)
        return np.minimum(np.maximum(found, -most), most)
    weight = finished_weight(exact_leaf_sums(hessian, leaf, n_leaves), rules)
    sums = exact_leaf_sums(gradient, leaf, n_leaves), weight
    if shape is not None:
        method = params.monotone_constraints_method if any(shape.sign) else "basic"
        high = params.precision == "high"
        return outputs_in_context(
            tree, shape, leaf, new.counts, gradient, hessian, sums, rules, more_l2, method, high
        )  # fmt: skip
    above = np.zeros(n_leaves)
    for children in (tree.left, tree.right):
        ends = np.flatnonzero(children < 0)
        above[~children[ends]] = more_l2[ends]
    return leaf_output(*sums, rules, above)


def exact_leaf_sums(values: FloatArray, leaf: NDArray[np.int64], n_leaves: int) -> FloatArray:
    """Return the sum of each leaf's values, float64 (n_leaves,): that of `Engine.leaf_sums`.

    values  float64 (n_rows,)  in
    leaf    int64 (n_rows,)    in
    """
    exponent = exact_exponent(float(np.max(np.abs(values))), len(values))
    total = np.zeros(n_leaves, np.int64)
    np.add.at(total, leaf, np.rint(values * 2.0**exponent).astype(np.int64))
    return total.astype(np.float64) * 2.0**-exponent

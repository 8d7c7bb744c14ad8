"""What a split is worth, and which one is best: the definitions that every backend follows.

With G and H the sums of gradients and hessians of a node (Zhang et al. 2017, equation 4; LightGBM's regularisation):

    T(G)      = sign(G) max(|G| - lambda_l1, 0)
    output    = -T(G) / (H + lambda_l2), clipped to +-max_delta_step when that is positive
    score     = T(G)^2 / (H + lambda_l2), or -(2 T(G) o + (H + lambda_l2) o^2) for a clipped output o
    gain      = (score(left) + score(right)) - score(parent)

Every operation is float64, in this order, never contracted. Ties: higher gain, then lower feature, then lower bin,
then missing-left.

A node may bring a context (`NodeContext`): then outputs are pulled to its own one (path smoothing), kept between its
bounds (monotone constraints), features are left out (sampling, interaction constraints), their gains pay a price
(`feature_costs`) and are multiplied (contributions, monotone penalty), or each has one random threshold (extra trees).
`candidate_gains` is the one place where a candidate's gain is defined, whatever kind of feature it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.core.random_choices import random_bits
from hornbeam.params.params import Params

ROUNDING_NOISE = 2.0**-40
"""A gain below this share of the children's score is rounding noise, not a gain."""


@dataclass(frozen=True, slots=True)
class CategoricalRules:
    """The parameters of categorical splits, see categorical_splits.py."""

    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 32
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    min_data_per_group: int = 100

    @classmethod
    def from_params(cls, params: Params) -> CategoricalRules:
        """Take the rules from the training parameters."""
        return cls(
            max_cat_to_onehot=params.max_cat_to_onehot,
            max_cat_threshold=params.max_cat_threshold,
            cat_smooth=params.cat_smooth,
            cat_l2=params.cat_l2,
            min_data_per_group=params.min_data_per_group,
        )


@dataclass(frozen=True, slots=True)
class SplitRules:
    """The parameters that a split must honour."""

    lambda_l1: float
    lambda_l2: float
    max_delta_step: float
    min_gain_to_split: float
    min_data_in_leaf: int
    min_sum_hessian_in_leaf: float
    path_smooth: float = 0.0
    """Rows that the output of the parent counts for; 0: no smoothing."""
    monotone: bool = False
    """Outputs are kept between the bounds of the node, and features may have a sign."""
    extra_trees: bool = False
    """One random threshold a node and feature."""
    categorical: CategoricalRules = CategoricalRules()

    @classmethod
    def from_params(cls, params: Params) -> SplitRules:
        """Take the rules from the training parameters; a leaf has at least one row."""
        return cls(
            lambda_l1=params.lambda_l1,
            lambda_l2=params.number("lambda_l2"),
            max_delta_step=params.number("max_delta_step"),
            min_gain_to_split=params.min_gain_to_split,
            min_data_in_leaf=max(1, params.min_data_in_leaf),
            min_sum_hessian_in_leaf=params.number("min_sum_hessian_in_leaf"),
            path_smooth=params.path_smooth,
            monotone=params.monotone_constraints is not None,
            extra_trees=params.extra_trees,
            categorical=CategoricalRules.from_params(params),
        )

    @property
    def scores_outputs(self) -> bool:
        """Whether outputs are more than -T(G) / (H + lambda_l2), so that scores must be those of given outputs."""
        return self.max_delta_step > 0.0 or self.outputs_in_context

    @property
    def outputs_in_context(self) -> bool:
        """Whether the output of a leaf depends on the nodes above it, and not on its sums alone."""
        return self.path_smooth > 0.0 or self.monotone


@dataclass(frozen=True, eq=False, slots=True)
class FeatureRules:
    """What a training run says about each used feature.

    sign          int8 (n_used,)     1: outputs must not fall with the feature, -1: must not rise, 0: free
    contribution  float64 (n_used,)  factor on its gains, >= 0
    """

    sign: NDArray[np.int8]
    contribution: NDArray[np.float64]

    @classmethod
    def plain(cls, n_used: int) -> FeatureRules:
        """Return rules that change nothing."""
        return cls(np.zeros(n_used, np.int8), np.ones(n_used))


@dataclass(frozen=True, eq=False, slots=True)
class SideBounds:
    """Bounds of the children's outputs of some nodes, by feature and bin of the split (leaf_boxes.py).

    table    float64 (n_nodes, 4, n_bins)  lower and upper bound of the left child, then of the right one
    offsets  int64 (n_used + 1,)           feature f has the columns offsets[f]:offsets[f + 1]; a categorical one none
    """

    table: NDArray[np.float64]
    offsets: NDArray[np.int64]

    @staticmethod
    def offsets_of(n_value_bins: NDArray[np.int32], n_numeric: int) -> NDArray[np.int64]:
        """Return the offsets of features, of which the first n_numeric are numbers."""
        n_bins = np.where(np.arange(len(n_value_bins)) < n_numeric, n_value_bins, 0)
        return np.append(0, np.cumsum(n_bins, dtype=np.int64))

    def __getitem__(self, index: NDArray[np.intp]) -> SideBounds:
        return SideBounds(self.table[index], self.offsets)

    def of(self, node: int, feature: int) -> NDArray[np.float64]:
        """Return those of a node and a feature, float64 (4, n_value_bins)."""
        return self.table[node, :, self.offsets[feature] : self.offsets[feature + 1]]


@dataclass(frozen=True, eq=False, slots=True)
class NodeContext:
    """What the split search must know of some nodes besides their sums.

    lower, upper     float64 (n_nodes,)          bounds of the children's outputs; -inf and inf: none
    parent_output    float64 (n_nodes,)          output of the node itself: the parent of what is looked for
    score            float64 (n_nodes,)          of the node, which the children's scores must exceed (`node_score`)
    monotone_factor  float64 (n_nodes,)          factor on the gains of features with a sign
    key              uint64  (n_nodes,)          of the node's random choices
    mask             uint32  (n_nodes, n_words)  bit f % 32 of word f // 32: feature f may be used
    features         what holds for all nodes
    cost             float64 (n_nodes, n_used)   what the children's scores must exceed besides (feature_costs.py)
    sides            bounds that depend on the split, in place of lower and upper for features that are numbers
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    parent_output: NDArray[np.float64]
    score: NDArray[np.float64]
    monotone_factor: NDArray[np.float64]
    key: NDArray[np.uint64]
    mask: NDArray[np.uint32]
    features: FeatureRules
    cost: NDArray[np.float64] | None = None
    sides: SideBounds | None = None

    def take(self, index: NDArray[np.intp]) -> NodeContext:
        """Return some of the nodes."""
        names = [f.name for f in fields(self) if f.name != "features" and getattr(self, f.name) is not None]
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def allows(self, node: int, feature: int) -> bool:
        """Say whether a node may be split by a feature."""
        return bool(self.mask[node, feature // 32] >> np.uint32(feature % 32) & np.uint32(1))

    def bar(self, node: int, feature: int) -> float:
        """Return the score that children by a feature must exceed: that of the node, and what the feature costs."""
        score = float(self.score[node])
        return score if self.cost is None else score + float(self.cost[node, feature])

    @property
    def cost_table(self) -> NDArray[np.float64]:
        """The costs, float64 (n_nodes, n_used); without columns where there are none."""
        return np.empty((len(self.score), 0)) if self.cost is None else self.cost

    def factor(self, node: int, feature: int) -> float:
        """Return the factor on a feature's gains in a node."""
        contribution = float(self.features.contribution[feature])
        return contribution * float(self.monotone_factor[node]) if self.features.sign[feature] != 0 else contribution


def pack_mask(allowed: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the words of NodeContext.mask, uint32 (n_nodes, n_words), from bool (n_nodes, n_used)."""
    n_words = max(1, -(-allowed.shape[1] // 32))
    padded = np.zeros((len(allowed), 32 * n_words), np.uint8)
    padded[:, : allowed.shape[1]] = allowed
    return np.packbits(padded, axis=1, bitorder="little").view("<u4").astype(np.uint32)


def random_threshold(key: np.uint64, feature: int, n_values: int, has_missing: bool) -> int:
    """Return the one bin after which extra trees may split: each that leaves something on both sides alike.

    Missing values, where there are some, can stand alone on the right, so the last value bin counts then.
    """
    n_choices = max(1, int(n_values) if has_missing else int(n_values) - 1)
    bits = int(random_bits(int(key), np.array([feature]))[0])
    return ((bits >> 32) * n_choices) >> 32


def bits_of_threshold(bin: int, n_values: int, has_missing: bool) -> int:
    """Return random bits of which `random_threshold` makes a given bin, one of its choices."""
    n_choices = max(1, n_values if has_missing else n_values - 1)
    return -((-bin << 32) // n_choices) << 32


def can_split(n_rows: int, hessian: int, depth: int, rules: SplitRules, max_depth: int) -> bool:
    """Say whether a node could have two children at all; hessian is its fixed-point sum."""
    return n_rows >= 2 * rules.min_data_in_leaf and hessian > 1 and depth < max_depth


def soft_threshold(gradient: NDArray[np.float64], lambda_l1: float) -> NDArray[np.float64]:
    """Return sign(G) max(|G| - lambda_l1, 0), and no negative zero."""
    if lambda_l1 == 0.0:
        return gradient + 0.0
    return np.where(
        gradient > lambda_l1, gradient - lambda_l1, np.where(gradient < -lambda_l1, gradient + lambda_l1, 0.0)
    )


def leaf_output(
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    rules: SplitRules,
    more_l2: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Return the output of nodes with these sums, before shrinkage; 0 where H + lambda_l2 is 0.

    gradient, hessian  float64 (n,)  in
    more_l2            added to lambda_l2, see categorical.l2_of_children
    """
    gradient = np.asarray(gradient, np.float64)
    weight = np.asarray(hessian, np.float64) + (rules.lambda_l2 + more_l2)
    safe = np.where(weight > 0.0, weight, 1.0)
    with np.errstate(over="ignore"):  # a weight next to nothing
        output = np.where(weight > 0.0, -soft_threshold(gradient, rules.lambda_l1) / safe, 0.0)
    if rules.max_delta_step > 0.0:
        output = np.minimum(np.maximum(output, -rules.max_delta_step), rules.max_delta_step)
    return output + 0.0  # no negative zero


def finished_weight(hessian: NDArray[np.float64], rules: SplitRules) -> NDArray[np.float64]:
    """Return the hessian sums that the values of a finished tree's leaves come from.

    hessian  float64 (n,)  in  sums of full precision

    The search sees rounded hessians, none of which is 0, so that many rows next to no hessian may look heavy enough for
    a leaf. It steps as far then as the lightest leaf that may be, not as far as a division by next to nothing would.
    """
    return np.maximum(hessian, rules.min_sum_hessian_in_leaf)


def leaf_score(gradient: NDArray[np.float64], hessian: NDArray[np.float64], rules: SplitRules) -> NDArray[np.float64]:
    """Return the part of the loss that leaves with these sums remove (twice the reduction).

    gradient, hessian  float64 (n,)  in
    """
    shrunk = soft_threshold(np.asarray(gradient, np.float64), rules.lambda_l1)
    weight = np.asarray(hessian, np.float64) + rules.lambda_l2
    safe = np.where(weight > 0.0, weight, 1.0)
    if rules.max_delta_step > 0.0:
        output = leaf_output(gradient, hessian, rules)
        return np.where(weight > 0.0, -(2.0 * shrunk * output + weight * output * output), 0.0)
    with np.errstate(over="ignore"):
        return np.where(weight > 0.0, shrunk * shrunk / safe, 0.0)


def node_output(
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    rows: NDArray[np.int64],
    parent_output: NDArray[np.float64] | float,
    lower: NDArray[np.float64] | float,
    upper: NDArray[np.float64] | float,
    rules: SplitRules,
    more_l2: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Return outputs of nodes in context, before shrinkage: pulled to the parent's, then kept between bounds.

    gradient, hessian  float64 (n,)  in
    rows               int64 (n,)    in
    parent_output      output of the parent of each node
    lower, upper       bounds
    more_l2            added to lambda_l2, see categorical.l2_of_children
    """
    output = leaf_output(gradient, hessian, rules, more_l2)
    if rules.path_smooth > 0.0:
        share = np.asarray(rows, np.float64) / rules.path_smooth
        output = output * share / (share + 1.0) + parent_output / (share + 1.0)
    if rules.monotone:
        output = np.where(output > lower, output, lower)
        output = np.where(output < upper, output, upper)
    return output + 0.0


def given_score(
    gradient: NDArray[np.float64], hessian: NDArray[np.float64], output: NDArray[np.float64], rules: SplitRules
) -> NDArray[np.float64]:
    """Return the part of the loss that leaves with these sums and outputs remove (twice the reduction)."""
    shrunk = soft_threshold(np.asarray(gradient, np.float64), rules.lambda_l1)
    weight = np.asarray(hessian, np.float64) + rules.lambda_l2
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(weight > 0.0, -(2.0 * shrunk * output + weight * output * output), 0.0)


def node_score(
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    rows: NDArray[np.int64],
    parent_output: NDArray[np.float64],
    rules: SplitRules,
) -> NDArray[np.float64]:
    """Return the score that the children of a node must exceed: that of the node, bounds aside.

    parent_output  float64 (n,)  in  NodeContext.parent_output: the output of the node itself
    """
    if rules.path_smooth > 0.0:
        output = node_output(gradient, hessian, rows, parent_output, -np.inf, np.inf, rules)
        return given_score(gradient, hessian, output, rules)
    return leaf_score(gradient, hessian, rules)


def candidate_gains(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rows: NDArray[np.int64],
    right_rows: NDArray[np.int64],
    parent: float | NDArray[np.float64],
    units: NDArray[np.float64],
    rules: SplitRules,
    context: NodeContext | None = None,
    node: int = 0,
    feature: int = 0,
    sides: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the gains of candidate splits of one node, -inf where one is not allowed; in a context by one feature.

    left, right            int64 (..., 2)  in  fixed-point sums of the sides
    left_rows, right_rows  int64 (...)     in
    parent                 score of the node, or of each candidate's
    units                  float64 (2,)    in  gradient unit, hessian unit
    context, node          the node's context is entry `node`
    feature                position among the used features
    sides                  float64 (4, n, 1)  in  bounds of each candidate, see SideBounds; None: the node's
    """
    floats = [(side[..., 0] * units[0], side[..., 1] * units[1]) for side in (left, right)]
    allowed = np.ones(left_rows.shape, bool)
    factor = 1.0
    if context is not None and rules.scores_outputs:
        output, lower, upper = context.parent_output[node], [context.lower[node]] * 2, [context.upper[node]] * 2
        if sides is not None:
            lower, upper = [sides[0], sides[2]], [sides[1], sides[3]]
        outputs = [
            node_output(*floats[i], rows, output, lower[i], upper[i], rules)
            for i, rows in enumerate((left_rows, right_rows))
        ]
        scores = given_score(*floats[0], outputs[0], rules) + given_score(*floats[1], outputs[1], rules)
        sign = context.features.sign[feature]
        if sign != 0:
            allowed &= outputs[0] <= outputs[1] if sign > 0 else outputs[0] >= outputs[1]
    else:
        scores = leaf_score(*floats[0], rules) + leaf_score(*floats[1], rules)
    gain = scores - parent
    allowed &= (gain > rules.min_gain_to_split) & (gain > scores * ROUNDING_NOISE)
    for sums, rows in ((left, left_rows), (right, right_rows)):
        allowed &= rows >= rules.min_data_in_leaf
        allowed &= sums[..., 1] > 0
        allowed &= sums[..., 1] * units[1] >= rules.min_sum_hessian_in_leaf
    if context is not None:
        factor = context.factor(node, feature)
    if factor != 1.0:  # what a split gains above the least that it must gain
        gain = rules.min_gain_to_split + (gain - rules.min_gain_to_split) * factor
        allowed &= gain > rules.min_gain_to_split
    return np.where(allowed, gain, -np.inf)


def no_splits(shape: int | tuple[()]) -> NDArray[np.void]:
    """Return records of dtypes.SPLIT that say that a node has no split."""
    none = np.zeros(shape, SPLIT)
    none["gain"], none["feature"], none["bin"] = -np.inf, -1, -1
    return none


def keep_better(splits: NDArray[np.void], others: NDArray[np.void]) -> None:
    """Put the better of two splits of each node into `splits`: by other features each, of equals the lower one's."""
    is_lower = others["feature"].astype(np.uint32) < splits["feature"].astype(np.uint32)  # none is the highest
    wins = (others["gain"] > splits["gain"]) | ((others["gain"] == splits["gain"]) & is_lower)
    splits[wins] = others[wins]


def best_split(
    histogram: NDArray[np.int64],
    counts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
    quantization: Quantization,
    rules: SplitRules,
    context: NodeContext | None = None,
    node: int = 0,
    features: NDArray[np.int32] | None = None,
) -> NDArray[np.void]:
    """Find the best split of one node, naively: the gains of all thresholds, and the highest.

    histogram    int64 (n_total_bins, 2)   in  fixed-point sums of gradients and hessians
    counts       int64 (n_total_bins,)     in  rows
    offsets      int64 (n_used + 1,)       in  the bins of feature f are offsets[f]:offsets[f + 1], the missing bin last
    has_missing  bool  (n_used,)           in
    context      the node's context is its entry `node`; None: nothing but the rules
    features     int32 (n,)                in  what the tree may use, ascending; None: all
    Returns one record of dtypes.SPLIT.
    """
    best = no_splits(())
    units = np.array([quantization.gradient_unit, quantization.hessian_unit])
    used = np.arange(len(has_missing)) if features is None else features
    if context is not None:
        used = used[[context.allows(node, feature) for feature in used.tolist()]]
    first, end = offsets[used], offsets[used + 1]
    n_thresholds = end - first - 1  # every bin of a feature but the last one
    begin = np.cumsum(n_thresholds) - n_thresholds
    own = np.repeat(np.arange(len(used)), n_thresholds)  # the feature of each threshold, by its place in `used`
    if len(own) == 0:
        return best
    bins = np.arange(len(own)) - begin[own]
    table = np.column_stack([histogram, counts])[: offsets[-1]]
    before = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(table, axis=0)])  # sums of all bins before each
    total = (before[end] - before[first])[own]
    left = before[first[own] + bins + 1] - before[first[own]]
    missing = np.where(has_missing[used, None], table[end - 1], 0)[own]
    # missing left, missing right: ties are broken in this order; without missing values both are the same
    left = np.stack([left + missing, left], axis=1) if has_missing[used].any() else left[:, None]
    right = total[:, None] - left

    def gains(some: slice, parent: float | NDArray[np.float64], *in_context: Any) -> NDArray[np.float64]:
        sums, rows = (left[some, :, :2], right[some, :, :2]), (left[some, :, 2], right[some, :, 2])
        return candidate_gains(*sums, *rows, parent, units, rules, *in_context)

    if context is None:
        scores = leaf_score(total[:, 0] * units[0], total[:, 1] * units[1], rules)
        gain = gains(slice(None), scores[:, None])
    else:
        gain = np.empty(left.shape[:2])
        for feature, start, n in zip(used.tolist(), begin.tolist(), n_thresholds.tolist(), strict=True):
            some = slice(start, start + n)
            sides = None if context.sides is None else context.sides.of(node, feature)[:, :, None]
            gain[some] = gains(some, context.bar(node, feature), context, node, feature, sides)
            if rules.extra_trees:
                chosen = random_threshold(context.key[node], feature, n, bool(has_missing[feature]))
                gain[some][np.arange(n) != chosen] = -np.inf
    threshold, side = divmod(int(np.argmax(gain)), gain.shape[1])  # the first of equals
    if gain[threshold, side] > -np.inf:
        best["gain"], best["feature"], best["bin"] = gain[threshold, side], used[own[threshold]], bins[threshold]
        best["missing_left"] = side == 0
        best["left_gradient"], best["left_hessian"], _ = left[threshold, side]
    return best

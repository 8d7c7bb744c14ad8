"""How a tree grows, and what it may not do."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam.core.dtypes import MAX_LEAVES
from hornbeam.params.rows.row import parameter


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # Params has these
class TreeRows:
    """Rows of the groups Tree, Constraints."""

    num_leaves: int = parameter(
        "int",
        31,
        "Tree",
        "Largest number of leaves of a tree.",
        aliases=("num_leaf", "max_leaf", "max_leaves", "max_leaf_nodes"),
        instead={0: "it must be 2 or more; where XGBoost has no limit, set 2 to the power of max_depth"},
        low=2,
        high=MAX_LEAVES,
    )
    max_depth: int = parameter(
        "int",
        -1,
        "Tree",
        "Largest number of splits from the root to a leaf; 0 or less: no limit.",
        none_below=1,
        high=2**31 - 1,
    )
    grow_policy: str = parameter(
        "choice",
        "leafwise",
        "Tree",
        "`leafwise` (also `lossguide`): split the leaf with the highest gain next. `depthwise`: level by level.",
        choices={"leafwise": "leafwise", "lossguide": "leafwise", "depthwise": "depthwise"},
    )
    multi_strategy: str = parameter(
        "choice",
        "one_output_per_tree",
        "Tree",
        "Trees of a model with several outputs (classes, columns of labels, quantiles). `one_output_per_tree`: every "
        "output has trees of its own. `multi_output_tree`: an iteration has one structure for all outputs, with a "
        "value of each in every leaf; its splits have the highest sum of gains over the outputs. Such trees take "
        "numbers alone, without constraints and without random choices by node.",
        choices={"one_output_per_tree": "one_output_per_tree", "multi_output_tree": "multi_output_tree"},
    )
    min_data_in_leaf: int = parameter(
        "int",
        20,
        "Tree",
        "Smallest number of rows of a leaf, counted exactly.",
        aliases=("min_data", "min_data_per_leaf", "min_child_samples", "min_samples_leaf"),
        low=0,
    )
    min_sum_hessian_in_leaf: float | None = parameter(
        "float",
        None,
        "Tree",
        "Smallest sum of hessians of a leaf. None: 0.001, but 1 where classes or events are rare (less than 5% of the "
        "rows; `binary`, `cross_entropy`, `multiclass`, `multiclassova`, `poisson`).",
        plain=1e-3,
        aliases=("min_sum_hessian", "min_sum_hessian_per_leaf", "min_hessian", "min_child_weight"),
        low=0.0,
    )
    lambda_l1: float = parameter(
        "float",
        0.0,
        "Tree",
        "L1 penalty on leaf values.",
        aliases=("reg_alpha", "l1_regularization"),
        low=0.0,
    )
    lambda_l2: float | None = parameter(
        "float",
        None,
        "Tree",
        "L2 penalty on leaf values. None: 0, but 2 where classes or events are rare (see `min_sum_hessian_in_leaf`).",
        plain=0.0,
        aliases=("reg_lambda", "lambda", "l2_regularization"),
        low=0.0,
    )
    min_gain_to_split: float = parameter(
        "float",
        0.0,
        "Tree",
        "Smallest gain of a split: it must gain more than this.",
        aliases=("min_split_gain", "min_split_loss", "gamma"),
        low=0.0,
    )
    max_delta_step: float | None = parameter(
        "float",
        None,
        "Tree",
        "Largest magnitude of a leaf value, before the learning rate; 0 or less: no limit. None: no limit, but 2 for "
        "`gamma`, whose Newton steps go astray where labels are much smaller than their mean.",
        plain=0.0,
        aliases=("max_tree_output", "max_leaf_output"),
        none_below=0.0,
    )
    feature_fraction: float = parameter(
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
    feature_fraction_bylevel: float = parameter(
        "float",
        1.0,
        "Tree",
        "Share of the tree's features that each depth of the tree may use.",
        aliases=("colsample_bylevel",),
        low=0.0,
        low_open=True,
        high=1.0,
    )
    feature_fraction_bynode: float = parameter(
        "float",
        1.0,
        "Tree",
        "Share of the features left by tree, depth and interaction constraints that each node may use.",
        aliases=("sub_feature_bynode", "colsample_bynode", "max_features"),
        low=0.0,
        low_open=True,
        high=1.0,
    )
    feature_weights: str | tuple[float, ...] | None = parameter(
        "weights",
        None,
        "Tree",
        "Weight of each feature where the fractions above choose features: one after the other is drawn from those "
        "left, with a chance in proportion to its weight; those of weight 0 when no others are left. A list, a string, "
        "or a dict by feature name (1 for the others). Data may have it too: `Dataset(feature_weights=)`. By level or "
        "node the host leads the growth of every device, which takes time.",
    )
    feature_fraction_seed: int = parameter(
        "int", 2, "Tree", "Key of the choice of features, together with `seed`.", low=0, high=2**63 - 1
    )
    extra_trees: bool = parameter(
        "bool",
        False,
        "Tree",
        "Extremely randomised trees: one random threshold for every node and feature.",
        aliases=("extra_tree",),
    )
    extra_seed: int = parameter(
        "int", 6, "Tree", "Key of the thresholds of `extra_trees`, together with `seed`.", low=0, high=2**63 - 1
    )
    path_smooth: float = parameter(
        "float",
        0.0,
        "Tree",
        "Pull the output of a node with n rows to its parent's: own share n / (n + path_smooth). Needs "
        "`min_data_in_leaf` of 2 or more; 0: off.",
        low=0.0,
    )
    linear_tree: bool = parameter(
        "bool",
        False,
        "Tree",
        "Leaves are linear functions of the numbers on their path, fitted by ridge regression after the tree is grown; "
        "those of the first iteration stay constants. Their values are kept between those of the leaf's own training "
        "rows. Rows with a missing or infinite number among these get the "
        "constant of the leaf. Better where labels follow features smoothly; the table is kept in memory as numbers.",
        aliases=("linear_trees",),
    )
    linear_lambda: float = parameter(
        "float",
        0.0,
        "Tree",
        "`linear_tree`: penalty on the squares of the coefficients, not of the constant.",
        low=0.0,
    )

    max_cat_to_onehot: int = parameter(
        "int",
        4,
        "Tree",
        "A categorical feature of at most this many levels is split one level against the rest.",
        low=1,
    )
    max_cat_threshold: int = parameter(
        "int", 32, "Tree", "Largest number of levels of a categorical feature that a split sends left.", low=1
    )
    cat_smooth: float = parameter(
        "float",
        10.0,
        "Tree",
        "Levels are ordered by gradient / (hessian + `cat_smooth`), and in a node those of fewer rows than this "
        "(estimated from hessians) stay on the right side.",
        low=0.0,
    )
    cat_l2: float = parameter(
        "float", 10.0, "Tree", "L2 penalty, on top of `lambda_l2`, on splits of many levels against many.", low=0.0
    )
    min_data_per_group: int = parameter(
        "int",
        100,
        "Tree",
        "Smallest number of rows (estimated from hessians) by which two candidate splits of many levels against many "
        "differ, and that the right side of a split has.",
        low=1,
    )

    monotone_constraints: str | tuple[int, ...] | None = parameter(
        "signs",
        None,
        "Constraints",
        "For each feature 1: predictions must not fall when it rises, -1: must not rise, 0: free. A list, a string "
        '(`"(1,0,-1)"`), or a dict by feature name. Missing values are outside the order.',
        aliases=("mc", "monotone_constraint", "monotonic_cst"),
    )
    monotone_constraints_method: str = parameter(
        "choice",
        "basic",
        "Constraints",
        "`basic`: the children of a constrained split keep to their side of the middle of their outputs, for good. "
        "`intermediate`: a leaf keeps between the outputs of the leaves that it must not pass, as they are when it is "
        "split: slower, and less is given up. `advanced`: the same for each child of a split, which only leaves next "
        "to its own part bound: slowest, and the least is given up.",
        aliases=("monotone_constraining_method", "mc_method"),
        choices={"basic": "basic", "intermediate": "intermediate", "advanced": "advanced"},
    )
    monotone_penalty: float = parameter(
        "float",
        0.0,
        "Constraints",
        "Penalty p on constrained splits near the root: they are forbidden at depths below floor(p), and their gain is "
        "multiplied by 1 - 2^(p - 1 - depth) (1 - p / 2^depth for p <= 1) below.",
        aliases=("monotone_splits_penalty", "ms_penalty", "mc_penalty"),
        low=0.0,
    )
    interaction_constraints: str | None = parameter(
        "groups",
        None,
        "Constraints",
        "Groups of features that may be used together on the way from the root to a leaf: lists of names or numbers, "
        'or a string (`"[0,1,2],[2,3]"`); `"no_interactions"` and `"pairwise"`: all groups of one feature, or of two. '
        'A feature in no group stands alone; `[["a", "b"], "rest"]`, or scikit-learn\'s name of the parameter, makes '
        "one group of all such.",
        aliases=("interaction_cst",),
    )
    feature_contri: str | tuple[float, ...] | None = parameter(
        "factors",
        None,
        "Constraints",
        "Factor on the gain of each feature, 0: never used. A list, a string, or a dict by feature name.",
        aliases=("feature_contrib", "fc", "fp", "feature_penalty"),
    )
    cegb_tradeoff: float = parameter(
        "float",
        1.0,
        "Constraints",
        "Factor on the prices of splits, `cegb_penalty_...`: what a gain has to pay before it counts.",
        low=0.0,
    )
    cegb_penalty_split: float = parameter(
        "float",
        0.0,
        "Constraints",
        "Price of a split for each row of the node.",
        low=0.0,
    )
    cegb_penalty_feature_coupled: str | tuple[float, ...] | None = parameter(
        "factors",
        None,
        "Constraints",
        "Price of the first split of the model by each feature; later ones are free of it. A list, a string, or a dict "
        "by feature name. Until all features are paid for a tree grows one split at a time, which is slower.",
    )
    cegb_penalty_feature_lazy: str | tuple[float, ...] | None = parameter(
        "factors",
        None,
        "Constraints",
        "Price of a split by each feature for each row of the node that no split by it has seen, in this tree or one "
        "before. A list, a string, or a dict by feature name. The host counts these rows for every device, which takes "
        "time, and a bit of memory for each row and feature.",
    )
    forcedsplits_filename: str | None = parameter(
        "splits",
        None,
        "Constraints",
        "Splits that every tree begins with, before it grows as usual: a JSON file as LightGBM reads it, or a dict, "
        '`{"feature": 0, "threshold": 1.5, "left": {...}, "right": {...}}`; features by number or name, left and right '
        "may be left out. The threshold is moved to the upper bound of its bin. A split that the other parameters "
        "forbid, or that gains nothing, is left out with all below it. A model keeps the splits, not the name of the "
        "file.",
        aliases=("fs", "forced_splits_filename", "forced_splits_file", "forced_splits"),
    )

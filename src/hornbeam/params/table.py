"""The table of parameters: names, aliases, defaults, ranges and documentation.

The table is the class `ParameterTable`: every field carries its `Parameter`. Names and defaults are LightGBM's; the
names that XGBoost and scikit-learn users type are aliases. params.py makes training parameters of it, and
parameter_docs.py docs/parameters.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hornbeam.core.dtypes import MAX_BIN, MAX_LEAVES
from hornbeam.params.checks import Parameter
from hornbeam.params.objective_names import NOT_HERE, SPELLINGS

GROUPS = ("Objective", "Boosting", "Sampling", "Tree", "Constraints", "Binning", "Evaluation", "Machine")
"""Sections of docs/parameters.md, in order."""


def _parameter(type: str, default: Any, group: str, doc: str, **details: Any) -> Any:
    """Make a dataclass field that carries its row of the table (the field's name is filled in below)."""
    row = Parameter("", type, default, doc, group, **details)
    return dataclasses.field(default=default, metadata={"parameter": row})


@dataclass(frozen=True, kw_only=True)
class ParameterTable:
    """The fields of `Params`, each with its row."""

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
        choices=SPELLINGS,
        instead=NOT_HERE,
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
    min_sum_hessian_in_leaf: float | None = _parameter(
        "float",
        None,
        "Tree",
        "Smallest sum of hessians of a leaf. None: 0.001, but 1 where classes or events are rare (less than 5% of the "
        "rows; `binary`, `cross_entropy`, `multiclass`, `multiclassova`, `poisson`).",
        plain=1e-3,
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
    lambda_l2: float | None = _parameter(
        "float",
        None,
        "Tree",
        "L2 penalty on leaf values. None: 0, but 2 where classes or events are rare (see `min_sum_hessian_in_leaf`).",
        plain=0.0,
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
    max_delta_step: float | None = _parameter(
        "float",
        None,
        "Tree",
        "Largest magnitude of a leaf value, before the learning rate; 0 or less: no limit. None: no limit, but 2 for "
        "`gamma`, whose Newton steps go astray where labels are much smaller than their mean.",
        plain=0.0,
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
        "Ranks at which `ndcg` and `map` are measured: `ndcg` stands for `ndcg@1`, `ndcg@2`, ... A list, or a string "
        '(`"1,3"`). A metric that names its rank itself (`ndcg@10`) does not look here.',
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


PARAMETERS: tuple[Parameter, ...] = tuple(
    dataclasses.replace(field.metadata["parameter"], name=field.name) for field in dataclasses.fields(ParameterTable)
)
"""The table, in the order of the documentation."""

BY_NAME: dict[str, Parameter] = {name: row for row in PARAMETERS for name in (row.name, *row.aliases)}
"""Every name and alias."""

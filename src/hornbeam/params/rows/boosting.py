"""How many trees, how they are put together, and which rows each of them sees."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam.params.rows.row import parameter


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # Params has these
class BoostingRows:
    """Rows of the groups Boosting, Sampling."""

    boosting: str = parameter(
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
    num_iterations: int = parameter(
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
    num_parallel_tree: int = parameter(
        "int",
        1,
        "Boosting",
        "Trees of each output that an iteration grows side by side, from the same gradients, each on rows and features "
        "of its own draw; each counts `learning_rate` / `num_parallel_tree` (boosted random forests, as XGBoost). "
        "`bagging_freq` counts these trees. With `gbdt`, and not for objectives whose leaves are percentiles.",
        low=1,
        high=100_000,
    )
    learning_rate: float = parameter(
        "float",
        0.1,
        "Boosting",
        "Factor on the output of every tree. `rf` always has 1.",
        aliases=("eta", "shrinkage_rate"),
        low=0.0,
        low_open=True,
    )
    seed: int = parameter(
        "int",
        0,
        "Boosting",
        "Key of every random choice. The same seed gives the same model on every device.",
        aliases=("random_seed", "random_state"),
        low=0,
        high=2**63 - 1,
    )
    precision: str = parameter(
        "choice",
        "auto",
        "Boosting",
        "`auto`: gradients keep 16 bits, 31 where the data need them (a rule on the data alone). `high`: always 31.",
        choices={"auto": "auto", "high": "high"},
    )

    drop_rate: float = parameter(
        "float",
        0.1,
        "Boosting",
        "`dart`: chance of a tree to be dropped, in proportion to its weight unless `uniform_drop` is set.",
        aliases=("rate_drop",),
        low=0.0,
        high=1.0,
    )
    max_drop: int = parameter(
        "int", 50, "Boosting", "`dart`: largest number of iterations that are dropped at once; 0 or less: no limit."
    )
    skip_drop: float = parameter(
        "float", 0.5, "Boosting", "`dart`: chance that an iteration drops nothing.", low=0.0, high=1.0
    )
    uniform_drop: bool = parameter("bool", False, "Boosting", "`dart`: every tree has the same chance to be dropped.")
    one_drop: bool = parameter(
        "bool",
        False,
        "Boosting",
        "`dart`: an iteration in which chance drops nothing drops one earlier iteration, unless `skip_drop` passes it "
        "over.",
    )
    xgboost_dart_mode: bool = parameter("bool", False, "Boosting", "`dart`: weights as in XGBoost.")
    xgboost_dart_forest: bool = parameter(
        "bool",
        False,
        "Boosting",
        "`dart` with `xgboost_dart_mode`: an iteration weighs as much as all those that it drops together, which keep "
        '1 / (1 + learning_rate) of their weight (XGBoost\'s `normalize_type="forest"`).',
    )
    drop_seed: int = parameter("int", 4, "Boosting", "Key of what `dart` drops, besides `seed`.", low=0, high=2**63 - 1)

    data_sample_strategy: str = parameter(
        "choice",
        "bagging",
        "Sampling",
        "How the rows of a tree are chosen. `bagging`: by chance, see `bagging_fraction`. `goss`: those with the "
        "largest gradients, and a sample of the others that stands for all of them.",
        choices={"bagging": "bagging", "goss": "goss"},
    )
    bagging_fraction: float = parameter(
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
    bagging_freq: int = parameter(
        "int",
        0,
        "Sampling",
        "Number of rounds from one drawing of rows to the next; 0 or less: no bagging.",
        aliases=("subsample_freq",),
        none_below=1,
    )
    pos_bagging_fraction: float = parameter(
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
    neg_bagging_fraction: float = parameter(
        "float",
        1.0,
        "Sampling",
        "Share of the rows of label 0 that a tree of `binary` sees.",
        aliases=("neg_sub_row", "neg_subsample", "neg_bagging"),
        low=0.0,
        high=1.0,
        low_open=True,
    )
    bagging_by_query: bool = parameter(
        "bool",
        False,
        "Sampling",
        "Draw whole queries instead of rows; needs a Dataset with `group` or `qid`.",
    )
    bagging_seed: int = parameter(
        "int",
        3,
        "Sampling",
        "Key of bagging and GOSS, besides `seed`.",
        aliases=("bagging_fraction_seed",),
        low=0,
        high=2**63 - 1,
    )
    top_rate: float = parameter(
        "float",
        0.2,
        "Sampling",
        "Share of the rows that GOSS keeps for their large gradients.",
        low=0.0,
        high=1.0,
        low_open=True,
    )
    other_rate: float = parameter(
        "float",
        0.1,
        "Sampling",
        "Share of the rows that GOSS draws among the others.",
        low=0.0,
        high=1.0,
        low_open=True,
    )

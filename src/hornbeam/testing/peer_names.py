"""Names that peers have for our objectives and metrics, and parameters that they have not got."""

from __future__ import annotations

from hornbeam.objectives import OBJECTIVES, RANKING

XGBOOST_METRICS = {
    "l1": "mae",
    "rmse": "rmse",
    "mape": "mape",
    "quantile": "quantile",
    "poisson": "poisson-nloglik",
    "gamma": "gamma-nloglik",
    "gamma_deviance": "gamma-deviance",
    "binary_logloss": "logloss",
    "binary_error": "error",
    "auc": "auc",
    "average_precision": "aucpr",
    "multi_logloss": "mlogloss",
    "multi_error": "merror",
    "ndcg": "ndcg",
    "map": "map",
}


AS_A_DATASET = {
    "learning_rate": 0.2, "max_depth": 5, "max_bin": 63, "grow_policy": "leafwise", "lambda_l2": 0.0,
    "min_data_in_leaf": 20, "min_sum_hessian_in_leaf": 1e-3, "min_data_in_bin": 3,
}  # fmt: skip
"""Everything whose default is another one for a DMatrix, so that it trains as a Dataset does."""

CATEGORICAL = ("max_cat_to_onehot", "max_cat_threshold", "cat_smooth", "cat_l2", "min_data_per_group")
"""What only LightGBM has besides us."""
TARGET_ENCODING = ("target_encoding_levels", "target_encoding_smooth")
"""What no peer has in this form."""
HORNBEAM_ALONE = (
    "early_stopping_round",
    "early_stopping_min_delta",
    "first_metric_only",
    "metric_freq",
    "histogram_pool_size",
    "device_memory_limit",
    "label_gain",
    "objective_seed",
    *CATEGORICAL,
    *TARGET_ENCODING,
)
"""What XGBoost and CatBoost have in no form that a parameter could be translated to."""
SAMPLING = (
    "boosting",
    "data_sample_strategy",
    "bagging_fraction",
    "bagging_freq",
    "pos_bagging_fraction",
    "neg_bagging_fraction",
    "bagging_by_query",
)
"""What no peer but LightGBM does as we do."""

LIGHTGBM_LACKS = ("pseudohuber", "squared_log_error", "logcosh", "expectile", "focal", "pairwise", "rank_map", "hinge")
PEER_OBJECTIVES: dict[str, dict[str, str]] = {
    "lightgbm": {name: name for name in (*OBJECTIVES, *RANKING) if name not in LIGHTGBM_LACKS},
    "xgboost": {
        "regression": "reg:squarederror",
        "regression_l1": "reg:absoluteerror",
        "quantile": "reg:quantileerror",
        "poisson": "count:poisson",
        "gamma": "reg:gamma",
        "tweedie": "reg:tweedie",
        "binary": "binary:logistic",
        "cross_entropy": "reg:logistic",
        "hinge": "binary:hinge",
        "multiclass": "multi:softprob",
        "lambdarank": "rank:ndcg",
        "pairwise": "rank:pairwise",
        "rank_map": "rank:map",
    },
    "catboost": {
        "regression": "RMSE",
        "regression_l1": "MAE",
        "quantile": "Quantile",
        "mape": "MAPE",
        "huber": "Huber",
        "logcosh": "LogCosh",
        "expectile": "Expectile",
        "poisson": "Poisson",
        "tweedie": "Tweedie",
        "binary": "Logloss",
        "focal": "Focal",
        "cross_entropy": "CrossEntropy",
        "multiclass": "MultiClass",
        "multiclassova": "MultiClassOneVsAll",
        "lambdarank": "LambdaMart",
        "pairwise": "PairLogit",
    },
    "sklearn": {
        "regression": "squared_error",
        "regression_l1": "absolute_error",
        "quantile": "quantile",
        "poisson": "poisson",
        "gamma": "gamma",
        "binary": "log_loss",
        "multiclass": "log_loss",
    },
}
"""What they are called there."""

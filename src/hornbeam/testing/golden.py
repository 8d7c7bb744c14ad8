"""Golden fingerprints: models that every device and every release of one format must reproduce, bit for bit.

    python -m hornbeam.testing.golden --write    write golden.json anew, from the device "reference"
    python -m hornbeam.testing.verify            compare a device with it

The data come from a hash of row and column and from + - * / alone, so that they are the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from hornbeam.objectives import OBJECTIVES
from hornbeam.testing.golden_case import (
    FORCED,
    GoldenCase,
    pseudo_huber,
    squared_by_output,
)
from hornbeam.testing.labels import params_for

GOLDEN_FILE = Path(__file__).with_name("golden.json")
"""Where the fingerprints are kept; shipped, so that any machine can be held against them."""


QUERIES = (1, 40, 7, 2, 90)

CASES: dict[str, GoldenCase] = {
    "regression": GoldenCase({}),
    "regression, weights, regularised": GoldenCase(
        {"lambda_l1": 0.5, "lambda_l2": 3.0, "min_gain_to_split": 0.1, "min_sum_hessian_in_leaf": 5.0}, weighted=True
    ),
    "regression, heavy tail": GoldenCase({"min_data_in_leaf": 5}, heavy_tail=True),
    "regression, high precision": GoldenCase({"precision": "high", "learning_rate": 0.3}),
    "regression, few rows": GoldenCase({"min_data_in_leaf": 1, "min_data_in_bin": 1}, n_rows=40),
    "regression, 1000 bins": GoldenCase({"max_bin": 1000, "min_data_in_leaf": 3}, n_rows=4000, n_features=4),
    "binary": GoldenCase({"objective": "binary"}),
    "binary, missing, weights": GoldenCase({"objective": "binary", "num_leaves": 63}, missing=True, weighted=True),
    "binary, depthwise": GoldenCase({"objective": "binary", "grow_policy": "depthwise", "max_depth": 4}, missing=True),
    "binary, 15 bins, max_delta_step": GoldenCase({"objective": "binary", "max_bin": 15, "max_delta_step": 0.4}),
    "multiclass": GoldenCase({"objective": "multiclass", "num_class": 4}, missing=True, n_rounds=3),
    "multiclass, classes": GoldenCase(
        {"objective": "multiclass", "num_class": 3, "predict_classes": True}, n_rows=500, n_rounds=2
    ),
    "multiclass, hessians of XGBoost's": GoldenCase(
        {"objective": "multiclass", "num_class": 3, "multiclass_hessian_factor": 2.0}, n_rows=500, n_rounds=2
    ),
    "binary, scores": GoldenCase({"objective": "binary", "predict_scores": True}, n_rows=500, n_rounds=2),
    "binary, sparse": GoldenCase({"objective": "binary", "num_leaves": 15}, zeros=0.9, missing=True, n_features=9),
    "binary, rare class": GoldenCase({"objective": "binary"}, rare=0.02, missing=True),
    "multiclass, rare class": GoldenCase({"objective": "multiclass", "num_class": 3}, rare=0.02, n_rounds=3),
    "poisson, rare events": GoldenCase({"objective": "poisson"}, rare=0.03, n_rounds=3, weighted=True),
    "binary, rare class, steps as in LightGBM": GoldenCase(
        {"objective": "binary", "lambda_l2": 0.0, "min_sum_hessian_in_leaf": 0.001}, rare=0.02
    ),
    "regression, sparse, zero as missing": GoldenCase({"zero_as_missing": True}, zeros=0.9, n_features=9),
    "regression, sparse, categories": GoldenCase(
        {"max_cat_to_onehot": 6, "min_data_per_group": 20, "target_encoding_levels": 30},
        zeros=0.9,
        levels={1: 20, 4: 5, 7: 60},
        exclusive=(30,),
        n_features=9,
        n_rows=700,
        n_rounds=3,
    ),
    "regression, exclusive columns": GoldenCase(  # so many cells that they are stored otherwise (stored_bins.py)
        {"num_leaves": 9, "min_data_in_leaf": 5}, exclusive=(260, 270), n_rows=4200, n_features=5, n_rounds=1
    ),
    "bagging": GoldenCase({"bagging_fraction": 0.6, "bagging_freq": 2, "seed": 7}, missing=True),
    "bagging, classes": GoldenCase(
        {"objective": "binary", "pos_bagging_fraction": 0.8, "neg_bagging_fraction": 0.4, "bagging_freq": 1},
        weighted=True,
    ),
    "dart": GoldenCase({"boosting": "dart", "drop_rate": 0.4, "skip_drop": 0.2}, missing=True, n_rounds=12),
    "dart, as in XGBoost": GoldenCase(
        {
            "boosting": "dart",
            "objective": "binary",
            "drop_rate": 0.4,
            "skip_drop": 0.2,
            "xgboost_dart_mode": True,
            "uniform_drop": True,
            "max_drop": 3,
        },
        n_rounds=12,
        weighted=True,
    ),
    "random forest": GoldenCase({"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}, missing=True),
    "random forest, multiclass": GoldenCase(
        {"boosting": "rf", "objective": "multiclass", "num_class": 4, "bagging_fraction": 0.6, "bagging_freq": 1},
        n_rounds=3,
    ),
    "goss": GoldenCase({"data_sample_strategy": "goss", "learning_rate": 0.5}, missing=True),
    "goss, multiclass": GoldenCase(
        {"objective": "multiclass", "num_class": 4, "data_sample_strategy": "goss", "learning_rate": 1.0}, n_rounds=3
    ),
    "regression, features by tree": GoldenCase({"feature_fraction": 0.5}, missing=True, n_features=9),
    "binary, features by level and node": GoldenCase(
        {"objective": "binary", "feature_fraction": 0.8, "colsample_bylevel": 0.7, "feature_fraction_bynode": 0.5},
        n_features=9,
    ),
    "binary, weights of features": GoldenCase(
        {
            "objective": "binary",
            "feature_fraction": 0.8,
            "feature_fraction_bylevel": 0.7,
            "feature_fraction_bynode": 0.5,
        }
        | {"feature_weights": [1.0, 0.0, 3.0, 0.5, 20.0, 1.0, 0.1, 2.0, 1.0]},
        n_rows=700,
        n_rounds=3,
        n_features=9,
        missing=True,
    ),
    "regression, weights of features by tree": GoldenCase(
        {"feature_fraction": 0.5, "feature_weights": [1.0, 0.0, 3.0, 0.5, 20.0, 1.0, 0.1, 2.0, 1.0]},
        n_rows=700,
        n_rounds=3,
        n_features=9,
    ),
    "regression, extra trees": GoldenCase({"extra_trees": True, "seed": 5}, missing=True),
    "regression, monotone": GoldenCase({"monotone_constraints": [0, 1, 0, -1, 1, 0], "monotone_penalty": 1.3}),
    "binary, monotone, missing, smooth": GoldenCase(
        {"objective": "binary", "monotone_constraints": [1, 0, -1, 0, 0, 0], "path_smooth": 3.0}, missing=True
    ),
    "regression, monotone, intermediate": GoldenCase(
        {"monotone_constraints": [0, 1, 0, -1, 1, 0], "monotone_constraints_method": "intermediate"}, missing=True
    ),
    "regression, monotone, intermediate, categories": GoldenCase(
        {"monotone_constraints": [1, 0, -1, -1, 0, 0], "monotone_constraints_method": "intermediate"}
        | {"min_data_per_group": 5, "cat_smooth": 1.0},
        levels={1: 6, 4: 30},
        missing=True,
    ),
    "regression, monotone, advanced": GoldenCase(
        {"monotone_constraints": [0, 1, 0, -1, 1, 0], "monotone_constraints_method": "advanced"},
        n_rows=700,
        n_rounds=3,
        missing=True,
    ),
    "binary, monotone, advanced, categories": GoldenCase(
        {"objective": "binary", "monotone_constraints": [1, 0, -1, -1, 0, 0], "monotone_penalty": 0.5}
        | {"monotone_constraints_method": "advanced", "min_data_per_group": 5, "cat_smooth": 1.0, "path_smooth": 2.0},
        levels={1: 6, 4: 30},
        n_rows=700,
        n_rounds=3,
    ),
    "regression, interactions": GoldenCase({"interaction_constraints": [[0, 2], [1, 3, 4], [0, 5]]}),
    "binary, contributions, smooth": GoldenCase(
        {"objective": "binary", "feature_contri": [1.0, 0.5, 0.7, 1.0, 0.0, 1.2], "path_smooth": 20.0}, weighted=True
    ),
    "regression, costs of splits": GoldenCase(
        {"cegb_penalty_split": 0.02, "cegb_penalty_feature_coupled": [30.0, 5.0, 0.0, 80.0, 2.0, 400.0]}
        | {"cegb_tradeoff": 0.8},
        n_rows=700,
        n_rounds=3,
        missing=True,
        weighted=True,
    ),
    "binary, costs of rows, bagging, categories": GoldenCase(
        {"objective": "binary", "cegb_penalty_feature_lazy": [0.01, 0.03, 0.0, 0.05, 0.02, 0.02], "num_leaves": 15}
        | {"cegb_penalty_feature_coupled": [1.0, 0.0, 4.0, 0.0, 3.0, 0.0], "bagging_fraction": 0.7, "bagging_freq": 1}
        | {"feature_contri": [1.0, 0.5, 0.7, 1.0, 1.0, 1.2], "monotone_constraints": [1, 0, 0, 0, 0, 0]},
        levels={1: 3, 4: 30},
        n_rows=700,
        n_rounds=3,
    ),
    "lambdarank": GoldenCase({"objective": "lambdarank"}, group=QUERIES),
    "lambdarank, bagging by query": GoldenCase(
        {"objective": "lambdarank", "bagging_by_query": True, "bagging_fraction": 0.6, "bagging_freq": 2}, group=QUERIES
    ),
    "lambdarank, weights, gains": GoldenCase(
        {"objective": "lambdarank", "label_gain": [0.0, 1.0, 2.0, 5.0, 9.0], "lambdarank_norm": False, "sigmoid": 2.0}
        | {"lambdarank_truncation_level": 3},
        group=QUERIES,
        weighted=True,
    ),
    "lambdarank, positions": GoldenCase(
        {"objective": "lambdarank", "lambdarank_position_bias_regularization": 0.2, "learning_rate": 0.3},
        group=QUERIES,
        n_rows=700,
        n_rounds=4,
        positions=True,
        weighted=True,
    ),
    "lambdarank, sampled pairs": GoldenCase(
        {"objective": "lambdarank", "lambdarank_sampled_pairs": 3, "objective_seed": 7, "sigmoid": 1.5},
        group=QUERIES,
        n_rows=700,
        n_rounds=3,
        weighted=True,
    ),
    "pairwise, unbiased": GoldenCase(
        {"objective": "pairwise", "lambdarank_unbiased": True, "lambdarank_bias_norm": 0.4}
        | {"lambdarank_truncation_level": 6},
        group=QUERIES,
        n_rows=700,
        n_rounds=4,
        missing=True,
    ),
    "rank_map, sampled pairs, unbiased": GoldenCase(
        {"objective": "rank_map", "lambdarank_sampled_pairs": 2, "lambdarank_unbiased": True, "lambdarank_norm": False},
        group=QUERIES,
        n_rows=700,
        n_rounds=4,
    ),
    "rank_map": GoldenCase({"objective": "rank_map"}, group=QUERIES, n_rounds=3, missing=True),
    "rank_map, weights, long queries": GoldenCase(
        {"objective": "rank_map", "sigmoid": 2.0, "lambdarank_truncation_level": 7, "lambdarank_norm": False},
        group=(1200, 40),
        n_rounds=2,
        weighted=True,
    ),
    "pairwise": GoldenCase({"objective": "pairwise"}, group=(1200, 40), missing=True),
    "rank_xendcg": GoldenCase({"objective": "rank_xendcg", "seed": 3}, group=QUERIES),
    "custom objective": GoldenCase({}, n_features=9, callables={"objective": pseudo_huber}),
    "custom objective on the device": GoldenCase(
        {"num_class": 2}, n_rows=700, n_rounds=3, callables={"objective": squared_by_output}
    ),
    "regression, categories": GoldenCase({"min_data_per_group": 20}, levels={1: 3, 4: 60}),
    "binary, categories, weights": GoldenCase(
        {"objective": "binary", "cat_smooth": 3.0, "min_data_per_group": 5, "max_cat_threshold": 64, "cat_l2": 1.0},
        levels={0: 4, 2: 300, 3: 12},
        weighted=True,
    ),
    "regression, target encoding": GoldenCase(
        {"target_encoding_levels": 50, "target_encoding_smooth": 2.5}, levels={1: 3, 4: 200}, weighted=True
    ),
    "binary, target encoding, zero as missing": GoldenCase(
        {"objective": "binary", "target_encoding_levels": 0, "target_encoding_smooth": 0.0, "zero_as_missing": True},
        levels={0: 4, 2: 300},
        n_rows=700,
        n_rounds=3,
    ),
    "lambdarank, target encoding": GoldenCase(
        {"objective": "lambdarank", "target_encoding_levels": 20},
        group=QUERIES,
        levels={2: 100},
        n_rows=700,
        n_rounds=3,
    ),
    "trees side by side": GoldenCase(
        {"num_parallel_tree": 3, "bagging_fraction": 0.6, "bagging_freq": 1}, n_rows=700, n_rounds=3, missing=True
    ),
    "trees side by side, features by tree": GoldenCase(
        {"objective": "binary", "num_parallel_tree": 4, "feature_fraction": 0.5}, n_rows=700, n_rounds=2, weighted=True
    ),
    "trees side by side, multiclass": GoldenCase(
        {"objective": "multiclass", "num_class": 3, "num_parallel_tree": 2, "extra_trees": True}, n_rows=500, n_rounds=2
    ),
    "survival:aft": GoldenCase({"objective": "survival:aft"}, n_rows=700, n_rounds=3, censored=True, missing=True),
    "survival:aft, observed times, logistic": GoldenCase(
        {"objective": "survival:aft", "aft_loss_distribution": "logistic"}, n_rows=700, n_rounds=3
    ),
    "survival:aft, extreme, weights": GoldenCase(
        {"objective": "survival:aft", "aft_loss_distribution": "extreme", "aft_loss_distribution_scale": 0.4},
        n_rows=700,
        n_rounds=3,
        censored=True,
        weighted=True,
    ),
    "survival:cox": GoldenCase({"objective": "survival:cox"}, n_rows=700, n_rounds=3, missing=True),
    "survival:cox, equal times, weights": GoldenCase(
        {"objective": "survival:cox"}, n_rows=5000, n_rounds=2, censored=True, weighted=True
    ),
    "regression, reg_sqrt": GoldenCase({"reg_sqrt": True}, n_rounds=3),
    "quantile, low": GoldenCase({"objective": "quantile", "alpha": 0.05}, n_rounds=3),
    "quantiles": GoldenCase({"objective": "quantile", "alpha": [0.1, 0.5, 0.9]}, n_rows=700, n_rounds=3, missing=True),
    "quantiles, weights, bagging": GoldenCase(
        {"objective": "quantile", "alpha": [0.8, 0.3], "bagging_fraction": 0.7, "bagging_freq": 1},
        n_rows=500,
        n_rounds=2,
        weighted=True,
    ),
    "regression, 3 columns of labels": GoldenCase({}, n_rows=700, n_rounds=3, targets=3, missing=True),
    "regression_l1, 2 columns of labels, weights": GoldenCase(
        {"objective": "regression_l1", "num_leaves": 15}, n_rows=500, n_rounds=2, targets=2, weighted=True
    ),
    "binary, 3 columns of labels": GoldenCase(
        {"objective": "binary", "is_unbalance": True, "bagging_fraction": 0.7, "bagging_freq": 1},
        n_rows=700,
        n_rounds=3,
        targets=3,
        weighted=True,
    ),
    "multiclass, shared trees": GoldenCase(
        {"objective": "multiclass", "num_class": 4, "multi_strategy": "multi_output_tree"},
        n_rows=700,
        n_rounds=3,
        missing=True,
    ),
    "multiclassova, shared trees, bagging, depthwise": GoldenCase(
        {"objective": "multiclassova", "num_class": 3, "multi_strategy": "multi_output_tree", "max_depth": 4}
        | {"grow_policy": "depthwise", "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l1": 0.3},
        n_rows=700,
        n_rounds=3,
        weighted=True,
    ),
    "regression, 3 columns of labels, shared trees": GoldenCase(
        {"multi_strategy": "multi_output_tree", "feature_fraction": 0.7},
        n_rows=700,
        n_rounds=3,
        targets=3,
        missing=True,
    ),
    "binary, 5 columns of labels, shared trees, goss": GoldenCase(
        {"objective": "binary", "multi_strategy": "multi_output_tree", "max_delta_step": 0.7}
        | {"data_sample_strategy": "goss", "learning_rate": 0.5},
        n_rows=700,
        n_rounds=3,
        targets=5,
        weighted=True,
    ),
    "quantiles, shared trees": GoldenCase(
        {"objective": "quantile", "alpha": [0.1, 0.5, 0.9], "multi_strategy": "multi_output_tree"},
        n_rows=700,
        n_rounds=2,
        missing=True,
    ),
    "regression, 2 columns of labels, shared trees, high precision, dart": GoldenCase(
        {"multi_strategy": "multi_output_tree", "precision": "high", "boosting": "dart", "drop_rate": 0.5},
        n_rows=500,
        n_rounds=5,
        targets=2,
        init_score=True,
    ),
    "binary, is_unbalance": GoldenCase({"objective": "binary", "is_unbalance": True}, n_rounds=3, weighted=True),
    "multiclassova, scale_pos_weight": GoldenCase(
        {"objective": "multiclassova", "num_class": 4, "scale_pos_weight": 3.0}, n_rows=700, n_rounds=2
    ),
}
CASES |= {  # every threshold, and bins that are found before every tree; workers have neither
    name: replace(case, n_rows=600, n_rounds=3)
    for name, case in {
        "binary, exact": GoldenCase(
            {"objective": "binary", "tree_method": "exact", "num_leaves": 15}, missing=True, weighted=True
        ),
        "regression, exact, categories, bagging": GoldenCase(
            {"tree_method": "exact", "bagging_fraction": 0.6, "bagging_freq": 1, "min_data_per_group": 20},
            levels={1: 20, 4: 5},
        ),
        "regression, exact, constraints": GoldenCase(
            {"tree_method": "exact", "monotone_constraints": [1, 0, -1, 0, 0, 0], "path_smooth": 2.0}, missing=True
        ),
        "regression, exact, costs": GoldenCase(
            {"tree_method": "exact", "cegb_penalty_split": 0.02, "cegb_penalty_feature_lazy": [0.05, 0, 0.2, 0, 0.1, 0]}
        ),
        "regression, exact, sparse, depthwise": GoldenCase(
            {"tree_method": "exact", "grow_policy": "depthwise", "max_depth": 4}, zeros=0.9, n_features=9
        ),
        "binary, approx": GoldenCase(
            {"objective": "binary", "tree_method": "approx", "max_bin": 20}, missing=True, weighted=True
        ),
        "multiclass, approx, features": GoldenCase(
            {"objective": "multiclass", "num_class": 3, "tree_method": "approx", "feature_fraction": 0.6}
        ),
        "binary, approx, goss, categories": GoldenCase(
            {"objective": "binary", "tree_method": "approx", "data_sample_strategy": "goss", "learning_rate": 0.5},
            levels={1: 20, 4: 5},
        ),
        "regression, approx, ties": GoldenCase({"tree_method": "approx", "max_bin": 12}, tied=True, missing=True),
    }.items()
}
CASES |= {  # what the cases above leave at its default: every parameter has a case (testing/capabilities.py)
    name: replace(case, n_rows=500, n_rounds=max(2, case.n_rounds - 3))
    for name, case in {
        "regression, from zero": GoldenCase({"boost_from_average": False}),
        "poisson, base_score": GoldenCase({"objective": "poisson", "base_score": 2.5}),
        "regression, initial scores": GoldenCase({}, init_score=True),
        "regression, least gain": GoldenCase({"min_gain_to_split": 200.0}),
        "binary, least hessian": GoldenCase({"objective": "binary", "min_sum_hessian_in_leaf": 12.0}),
        "regression, NaN as zero": GoldenCase({"use_missing": False}, missing=True),
        "regression, bins from a sample": GoldenCase({"bin_construct_sample_cnt": 150, "max_bin": 40}),
        "regression, bins by feature": GoldenCase(
            {"max_bin_by_feature": [3, 200, 5, 2, 9, 40], "forcedbins_filename": [[0, [0.25]], [4, [3.0, 20.0]]]}
        ),
        "rank_xendcg, objective_seed": GoldenCase({"objective": "rank_xendcg", "objective_seed": 11}, group=QUERIES),
        "fair, fair_c": GoldenCase({"objective": "fair", "fair_c": 0.5}),
        "pseudohuber, huber_slope": GoldenCase({"objective": "pseudohuber", "huber_slope": 0.5}),
        "poisson, small steps": GoldenCase({"objective": "poisson", "poisson_max_delta_step": 0.2}),
        "tweedie, power": GoldenCase({"objective": "tweedie", "tweedie_variance_power": 1.2}),
        "focal, gamma and alpha": GoldenCase({"objective": "focal", "focal_gamma": 1.0, "focal_alpha": 0.6}),
        "hinge, beyond the margin": GoldenCase({"objective": "hinge", "learning_rate": 0.8}),
        "dart, one_drop, forest": GoldenCase(
            {
                "boosting": "dart",
                "drop_rate": 0.25,
                "skip_drop": 0.0,
                "one_drop": True,
                "xgboost_dart_mode": True,
                "xgboost_dart_forest": True,
            },
            n_rounds=12,
        ),
        "dart, drop_seed": GoldenCase({"boosting": "dart", "drop_rate": 0.5, "drop_seed": 11}, n_rounds=9),
        "bagging, bagging_seed": GoldenCase({"bagging_fraction": 0.6, "bagging_freq": 1, "bagging_seed": 11}),
        "goss, rates": GoldenCase(
            {"data_sample_strategy": "goss", "learning_rate": 1.0, "top_rate": 0.3, "other_rate": 0.2}
        ),
        "regression, feature_fraction_seed": GoldenCase({"feature_fraction": 0.5, "feature_fraction_seed": 11}),
        "regression, categories, one against the rest": GoldenCase({"max_cat_to_onehot": 12}, levels={1: 10, 4: 3}),
        "regression, forced splits": GoldenCase(
            {"forcedsplits_filename": FORCED, "bagging_fraction": 0.8, "bagging_freq": 1}, missing=True, weighted=True
        ),
        "binary, forced splits, depthwise, monotone": GoldenCase(
            {
                "objective": "binary",
                "forcedsplits_filename": FORCED,
                "grow_policy": "depthwise",
                "num_leaves": 7,
                "monotone_constraints": [0, 1, 0, 0, 0, 0],
                "monotone_constraints_method": "intermediate",
            }
        ),
        "multiclass, forced splits, dart, categories": GoldenCase(
            {
                "objective": "multiclass",
                "num_class": 3,
                "forcedsplits_filename": FORCED,
                "boosting": "dart",
                "drop_rate": 0.5,
                "feature_fraction": 0.5,
            },
            levels={2: 9},
            zeros=0.3,
        ),
        "regression, extra_seed": GoldenCase({"extra_trees": True, "extra_seed": 11}),
        "regression, linear leaves": GoldenCase({"linear_tree": True, "linear_lambda": 0.01, "num_leaves": 15}),
        "binary, linear leaves, weights, missing, bagging": GoldenCase(
            {"objective": "binary", "linear_tree": True, "bagging_fraction": 0.7, "bagging_freq": 1, "num_leaves": 15},
            missing=True,
            weighted=True,
        ),
        "multiclass, linear leaves, goss, categories": GoldenCase(
            {
                "objective": "multiclass",
                "num_class": 3,
                "linear_tree": True,
                "data_sample_strategy": "goss",
                "learning_rate": 0.4,
                "num_leaves": 7,
            },
            levels={2: 9},
        ),
    }.items()
}
CASES |= {
    f"{name}{', weights' if weighted else ''}, missing": GoldenCase(
        params_for(name), n_rows=700, n_rounds=3, missing=True, weighted=weighted
    )
    for name in OBJECTIVES
    for weighted in (False, True)
    if name not in ("regression", "binary", "multiclass")
}


def expected_fingerprints() -> dict[str, str]:
    """Read the golden fingerprints by case."""
    expected: dict[str, str] = json.loads(GOLDEN_FILE.read_text(encoding="ascii"))
    return expected


def main(arguments: list[str] | None = None) -> int:
    """Write the file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hornbeam.testing.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", required=True, help="write golden.json anew")
    parser.parse_args(arguments)
    made = {name: case.train(device="reference").fingerprint() for name, case in CASES.items()}
    GOLDEN_FILE.write_text(json.dumps(made, indent=2, sort_keys=True) + "\n", encoding="ascii")
    sys.stdout.write(f"{GOLDEN_FILE}: {len(made)} fingerprints written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

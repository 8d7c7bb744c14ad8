"""Outputs below a split of categories carry the weight decay that the split was chosen with, as LightGBM's do."""

from __future__ import annotations

import numpy as np
import pytest

import hornbeam as hb

CAT_L2 = 7.0


def stump(n_levels, **more):
    """Train one split of one categorical feature; return its leaf values, and the sums and rows of the labels there."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, n_levels, 900)
    y = np.where(level % 2 == 0, 3.0, -2.0) + 0.1 * rng.normal(size=900)
    X = np.column_stack([level, rng.normal(size=900)])
    params = {
        "num_leaves": 2, "learning_rate": 1.0, "boost_from_average": False, "cat_l2": CAT_L2, "lambda_l2": 1.0,
        "cat_smooth": 1.0, "min_data_per_group": 5, "verbosity": -1, "device": "cpu", "metric": "none",
    }  # fmt: skip
    booster = hb.train(params | more, hb.Dataset(X, y, categorical_features=[0]), 1)
    assert booster.trees[0].feature.tolist() == [0]
    leaf = booster.predict(X, pred_leaf=True)[:, 0]
    return booster.trees[0].leaf_value, np.bincount(leaf, y), np.bincount(leaf)


@pytest.mark.parametrize("more", [{}, {"device": "reference"}, {"interaction_constraints": [[0, 1]]}])
@pytest.mark.parametrize(("n_levels", "l2"), [(3, 1.0), (20, 1.0 + CAT_L2)])
def test_leaves_below_sets_of_levels_add_cat_l2(n_levels, l2, more):
    values, sums, rows = stump(n_levels, **more)
    assert np.allclose(values, sums / (rows + l2), rtol=1e-6)

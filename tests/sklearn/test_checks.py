"""scikit-learn's own checks of an estimator, none of them excused."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hornbeam.sklearn import HornbeamClassifier, HornbeamRegressor

# The checks train on a few dozen rows: every row may be a leaf and a bin of its own. With 16 bits, the gradients of
# repeated rows and of a weighted row would be rounded differently, which the check of weights could see.
SMALL = {"n_estimators": 5, "min_child_samples": 1, "min_data_in_bin": 1, "precision": "high", "verbosity": -1}


@parametrize_with_checks(
    [
        HornbeamClassifier(**SMALL),
        HornbeamRegressor(**SMALL),
    ]
)
def test_estimator_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.large  # the estimator is the one above, and ../determinism shows what holds for trees of any policy
@parametrize_with_checks([HornbeamClassifier(**SMALL, grow_policy="depthwise", n_jobs=1)])
def test_other_parameters_change_nothing_about_that(estimator, check):
    check(estimator)

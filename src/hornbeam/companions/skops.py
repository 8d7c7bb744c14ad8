"""skops: files of models that can be looked through before anything in them is loaded.

`skops.io.dump` writes a Booster as the bytes of its model file, and an estimator as its parameters beside them.
`skops.io.load` makes objects of types that it trusts, which are those of scikit-learn, NumPy and Python, and of those
that its caller names. There is no way to add to its trust from outside, and that is its purpose. So the caller names
ours, all of which are in `TRUSTED`, or calls `load` here. They are safe to trust: a Booster is read as a model file is,
with every check and its seal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hornbeam.companions.packages import require

TRUSTED = (
    "hornbeam.model.booster.Booster",
    "hornbeam.sklearn.estimators.HornbeamClassifier",
    "hornbeam.sklearn.estimators.HornbeamRegressor",
    "hornbeam.sklearn.histogram_estimators.HistGradientBoostingClassifier",
    "hornbeam.sklearn.histogram_estimators.HistGradientBoostingRegressor",
    "hornbeam.sklearn.lightgbm_estimators.LGBMClassifier",
    "hornbeam.sklearn.lightgbm_estimators.LGBMRanker",
    "hornbeam.sklearn.lightgbm_estimators.LGBMRegressor",
    "hornbeam.sklearn.ranker.HornbeamRanker",
    "hornbeam.sklearn.xgboost_estimators.XGBClassifier",
    "hornbeam.sklearn.xgboost_estimators.XGBRFClassifier",
    "hornbeam.sklearn.xgboost_estimators.XGBRFRegressor",
    "hornbeam.sklearn.xgboost_estimators.XGBRanker",
    "hornbeam.sklearn.xgboost_estimators.XGBRegressor",
)
"""Every type of Hornbeam that a file of skops may hold, for `skops.io.load(path, trusted=...)`."""


def load(file: str | os.PathLike[str], trusted: Sequence[Any] = ()) -> Any:
    """Load a Booster, an estimator, or what holds one (a pipeline), from a file of skops.

    Parameters
    ----------
    file
        Path of the file that `skops.io.dump` wrote.
    trusted
        Further types that the file may hold, as for `skops.io.load`. Others raise skops's UntrustedTypesFoundException.
    """
    return require("skops.io").load(file, trusted=[*TRUSTED, *trusted])

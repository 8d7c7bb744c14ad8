"""`LGBMClassifier`, `LGBMRegressor`, `LGBMRanker`: the estimators by LightGBM's names.

They are classes of their own, because names of classes are seen: `make_pipeline(LGBMClassifier())` calls its step
"lgbmclassifier", and what searches set is "lgbmclassifier__num_leaves".
"""

from __future__ import annotations

from hornbeam.sklearn.estimators import HornbeamClassifier, HornbeamRegressor
from hornbeam.sklearn.ranker import HornbeamRanker

__all__ = ["LGBMClassifier", "LGBMRanker", "LGBMRegressor"]


class LGBMClassifier(HornbeamClassifier):
    """`HornbeamClassifier` by LightGBM's name."""


class LGBMRegressor(HornbeamRegressor):
    """`HornbeamRegressor` by LightGBM's name."""


class LGBMRanker(HornbeamRanker):
    """`HornbeamRanker` by LightGBM's name."""

"""What everything stands on: errors, the log, record types, exact arithmetic, random choices."""

import sys
from typing import Any

from hornbeam.core.errors import XGBoostError

__all__ = ["XGBoostError"]  # scripts for XGBoost find it here

_OF_XGBOOST = ("Booster", "DMatrix", "DataIter", "ExtMemQuantileDMatrix", "QuantileDMatrix")
"""Classes that scripts for XGBoost find here, too."""


def __getattr__(name: str) -> Any:
    if name not in _OF_XGBOOST:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(sys.modules["hornbeam"], name)

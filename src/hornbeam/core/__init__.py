"""What everything stands on: errors, the log, record types, exact arithmetic, random choices."""

from hornbeam.core.errors import XGBoostError

__all__ = ["XGBoostError"]  # scripts for XGBoost find it here

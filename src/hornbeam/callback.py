"""Callbacks by the names that users of LightGBM and XGBoost know: `from hornbeam.callback import EarlyStopping`."""

from hornbeam.training.peer_callbacks import *  # noqa: F403
from hornbeam.training.peer_callbacks import __all__ as __all__

"""Optuna: `PruningCallback` ends trials of little promise, `HornbeamTuner` and `HornbeamTunerCV` tune by steps."""

from hornbeam.companions.optuna.pruning import PruningCallback
from hornbeam.companions.optuna.tuner import HornbeamTuner, HornbeamTunerCV

__all__ = ["HornbeamTuner", "HornbeamTunerCV", "PruningCallback"]

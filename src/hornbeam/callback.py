"""Callbacks by the names that users of LightGBM and XGBoost know: `from hornbeam.callback import EarlyStopping`."""

from hornbeam.training.peer_callbacks import (
    CallbackEnv,
    EarlyStopException,
    EarlyStopping,
    EvaluationMonitor,
    LearningRateScheduler,
    TrainingCallback,
    TrainingCheckPoint,
    early_stopping,
    log_evaluation,
    record_evaluation,
    reset_parameter,
)

__all__ = [
    "CallbackEnv",
    "EarlyStopException",
    "EarlyStopping",
    "EvaluationMonitor",
    "LearningRateScheduler",
    "TrainingCallback",
    "TrainingCheckPoint",
    "early_stopping",
    "log_evaluation",
    "record_evaluation",
    "reset_parameter",
]

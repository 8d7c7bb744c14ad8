"""`autolog`: every training of the process becomes a run of MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from hornbeam.companions.mlflow import flavour
from hornbeam.companions.packages import require
from hornbeam.core.log import logger
from hornbeam.model.booster import Booster
from hornbeam.params.params import BY_NAME, Params
from hornbeam.training.callbacks import CallbackEnv
from hornbeam.training.watchers import WATCHERS

MOST_METRICS = 1000
"""Values that MLflow takes at once."""

SEND_S = 5.0
"""Seconds from one sending of values to the next: a server may be far away."""


class Autolog:
    """Makes the watch over each training."""

    def __init__(self, log_models: bool) -> None:
        self._log_models = log_models
        self._logged: set[str] = set()  # runs that hold a training already

    def __call__(self, params: Params, n_rounds: int) -> RunWatch:
        """Find or start the run of a training, and log its parameters."""
        mlflow = require("mlflow")
        active = mlflow.active_run()
        is_free = active is not None and active.info.run_id not in self._logged
        run = active if is_free else mlflow.start_run(nested=active is not None)
        self._logged.add(run.info.run_id)
        watch = RunWatch(run.info.run_id, is_ours=not is_free, log_models=self._log_models)
        try:
            mlflow.log_params(logged_params(params, n_rounds))
        except BaseException:
            watch.failed()
            raise
        return watch


class RunWatch:
    """The watch over one training: metrics as it goes on; fingerprint, importance and model at its end.

    What fails before training starts is an error. What fails later is a warning: the model must not be lost.
    """

    replayed = True

    def __init__(self, run_id: str, is_ours: bool, log_models: bool) -> None:
        self._run_id, self._is_ours, self._log_models = run_id, is_ours, log_models
        self._client = require("mlflow").MlflowClient()
        self._waiting: list[Any] = []
        self._sent = time.monotonic()

    def __call__(self, env: CallbackEnv) -> None:
        """Note the evaluations of an iteration."""
        metric = require("mlflow.entities").Metric
        now = int(time.time() * 1000)
        self._waiting += [
            metric(metric_name(result.dataset, result.metric), result.value, now, env.iteration)
            for result in env.evaluation_result_list
        ]
        if len(self._waiting) >= MOST_METRICS or time.monotonic() - self._sent >= SEND_S:
            self._send()

    def finished(self, booster: Booster) -> None:
        """Log what the training gave."""
        self._send()
        self._attempt("the fingerprint", lambda: self._log_outcome(booster))
        self._attempt("the importance", lambda: self._client.log_dict(self._run_id, importance(booster), IMPORTANCE))
        if self._log_models:
            self._attempt("the model", lambda: flavour.log_model(booster, run_id=self._run_id))
        self._end("FINISHED")

    def failed(self) -> None:
        """End the run, with the metrics so far."""
        self._send()
        self._end("FAILED")

    def _log_outcome(self, booster: Booster) -> None:
        self._client.set_tag(self._run_id, "hornbeam.fingerprint", booster.fingerprint())
        self._client.log_metric(self._run_id, "n_iterations", booster.n_iterations)
        if booster.n_best > 0:
            self._client.log_metric(self._run_id, "best_iteration", booster.n_best)

    def _send(self) -> None:
        for begin in range(0, len(self._waiting), MOST_METRICS):
            part = self._waiting[begin : begin + MOST_METRICS]
            self._attempt("metrics", partial(self._client.log_batch, self._run_id, metrics=part))
        self._waiting, self._sent = [], time.monotonic()

    def _end(self, status: str) -> None:
        if self._is_ours:
            self._attempt("the end of the run", lambda: require("mlflow").end_run(status))

    def _attempt(self, what: str, log: Callable[[], Any]) -> None:
        try:
            log()
        except Exception as error:
            logger.warning(f"MLflow did not take {what}: {error}")


IMPORTANCE = "feature_importance.json"


def importance(booster: Booster) -> dict[str, dict[str, float]]:
    """Return number of splits and sum of gains of every feature, by its name."""
    kinds = {kind: booster.feature_importance(kind).tolist() for kind in ("split", "gain")}
    return {kind: dict(zip(booster.feature_names, values, strict=True)) for kind, values in kinds.items()}


def logged_params(params: Params, n_rounds: int) -> dict[str, Any]:
    """Return the parameters that are not at their defaults, and the number of iterations; a function by its name."""
    values = {name: value for name, value in params.to_dict().items() if value != BY_NAME[name].default}
    for name, value in values.items():
        if callable(value):
            values[name] = getattr(value, "__name__", repr(value))
    return {**values, "num_iterations": n_rounds}


def metric_name(dataset: str, metric: str) -> str:
    """Return a name that MLflow allows: valid-auc, valid-ndcg_at_5."""
    return re.sub(r"[^\w\-. :/]", "_", f"{dataset}-{metric}".replace("@", "_at_"))


def autolog(log_models: bool = True, disable: bool = False) -> None:
    """Make every `hornbeam.train`, and so every `fit` of an estimator, a run of MLflow.

    Logged are the parameters that are not at their defaults, the metrics of every iteration, the numbers of
    iterations, the importance of the features (feature_importance.json), the fingerprint (tag hornbeam.fingerprint)
    and the model. A training goes into the active run, or into a run of its own if there is none; if the active run
    holds a training already, into a run nested in it. `cv` is not logged.

    Parameters
    ----------
    log_models
        Log the Booster too.
    disable
        Log no longer.
    """
    if not disable:
        require("mlflow")
    WATCHERS[:] = [watcher for watcher in WATCHERS if not isinstance(watcher, Autolog)]
    if not disable:
        WATCHERS.append(Autolog(log_models))

"""A callback that reports to an Optuna trial, and ends the training when the study's pruner says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.companions.packages import require
from hornbeam.core.errors import ParameterError
from hornbeam.metrics import ALIASES
from hornbeam.params.params import whole_number
from hornbeam.training.callbacks import CallbackEnv
from hornbeam.training.evaluations import Evaluation


class PruningCallback:
    """Reports a metric to a trial after every iteration; raises optuna.TrialPruned when the trial is to end.

    For `train`, `cv` (the means over the folds are reported) and `fit` of the estimators.

    Parameters
    ----------
    trial
        The trial of the objective function, of a study with one objective.
    metric
        Name or alias of the metric to report; the study must go in its direction.
    valid_name
        Name of the validation set; None: the first one. `cv` calls its set "valid", estimators theirs "valid_0", ...
    report_interval
        Report and ask every so many iterations.
    """

    order = 25  # after the evaluations are recorded (20), before early stopping (30)
    replayed = True

    def __init__(self, trial: Any, metric: str, valid_name: str | None = None, report_interval: int = 1) -> None:
        self._pruned = require("optuna").TrialPruned
        if not hasattr(trial, "report") or not hasattr(trial, "should_prune"):
            raise ParameterError(
                f"trial is a {type(trial).__name__}; pass the trial that Optuna gives to the objective"
            )
        if not isinstance(metric, str):
            raise ParameterError(f"metric={metric!r}: must be the name of a metric, such as 'auc'")
        self.trial = trial
        self.metric = metric
        self.valid_name = valid_name
        self.report_interval = whole_number(report_interval, "report_interval", low=1)
        if len(self._directions()) > 1:
            raise ParameterError("the study has several objectives, and Optuna prunes trials of one objective alone")

    def _directions(self) -> list[str]:
        """Return the directions of the study, "MINIMIZE" or "MAXIMIZE"; none for a trial without a study."""
        study = getattr(self.trial, "study", None)
        return [] if study is None else [direction.name for direction in study.directions]

    def check(self, validation_sets: Sequence[str], has_metrics: bool) -> None:
        """Refuse before training what could never report; `train` and `cv` call this."""
        if not validation_sets:
            raise ParameterError(
                "PruningCallback needs a validation set: pass one in valid_sets (estimators: eval_set)"
            )
        if self.valid_name is not None and self.valid_name not in validation_sets:
            raise ParameterError(
                f"PruningCallback: valid_name={self.valid_name!r} is no validation set; there is "
                f"{', '.join(map(repr, validation_sets))}; None takes the first"
            )
        if not has_metrics:
            raise ParameterError("PruningCallback needs a metric, and there is none: name one in the parameter metric")

    def __call__(self, env: CallbackEnv) -> None:
        """Report, and raise TrialPruned if the trial is to end."""
        results = [result for result in env.evaluation_result_list if result.dataset not in env.training_names]
        if not results:  # metric_freq skips this iteration
            return
        result = self._watched(results)
        if (env.iteration + 1) % self.report_interval != 0:
            return
        self.trial.report(result.value, step=env.iteration)
        if self.trial.should_prune():
            raise self._pruned(f"pruned at iteration {env.iteration}: {result.metric} {result.value:g}")

    def _watched(self, results: list[Evaluation]) -> Evaluation:
        """Return the evaluation that is reported; its direction must be that of the study."""
        name = results[0].dataset if self.valid_name is None else self.valid_name
        by_metric = {result.metric: result for result in results if result.dataset == name}
        result = by_metric.get(self.metric) or by_metric.get(ALIASES.get(self.metric, ""))
        if result is None:
            raise ParameterError(
                f"PruningCallback: {self.metric!r} is not evaluated on {name!r}, but {', '.join(map(repr, by_metric))} "
                "is; name one of these, or add it to the parameter metric"
            )
        wanted = "MAXIMIZE" if result.higher_is_better else "MINIMIZE"
        if self._directions() and self._directions() != [wanted]:
            raise ParameterError(
                f"the study's direction is {self._directions()[0].lower()}, and that of {result.metric!r} is "
                f"{wanted.lower()}; make it with optuna.create_study(direction={wanted.lower()!r})"
            )
        return result

"""`HornbeamTuner` and `HornbeamTunerCV`: parameters tuned a few at a time, in the manner of Optuna's LightGBMTuner.

The first training is that of the parameters as they are given, so that the result is never worse. Then step after step
(steps.py) tries values, and what is better than the best so far is kept. The same data, parameters and seed give the
same trials, and so the same model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from hornbeam.companions.optuna.steps import STEPS, Step, Values, checked_steps
from hornbeam.companions.packages import require
from hornbeam.core.errors import ParameterError
from hornbeam.core.log import inform
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.model.cv_booster import CVBooster
from hornbeam.params.params import BY_NAME, Params
from hornbeam.training.callbacks import Callback, CallbackEnv
from hornbeam.training.cross_validation import cv
from hornbeam.training.evaluated_sets import ValidSets
from hornbeam.training.evaluations import Evaluation
from hornbeam.training.function_calls import MetricFunction
from hornbeam.training.training import train

Model = TypeVar("Model", Booster, CVBooster)


class Watch:
    """Remembers the evaluation that steers the tuner: the first metric on the first validation set."""

    order = 20
    replayed = True

    def __init__(self) -> None:
        self.evaluation: Evaluation | None = None

    def check(self, validation_sets: Sequence[str], has_metrics: bool) -> None:
        """Refuse before training what could not be compared."""
        if not validation_sets:
            raise ParameterError("the tuner needs a validation set: pass one in valid_sets besides the training set")
        if not has_metrics:
            raise ParameterError("the tuner needs a metric: name one in the parameter metric, or pass feval=")

    def __call__(self, env: CallbackEnv) -> None:
        """Remember the evaluation."""
        results = [result for result in env.evaluation_result_list if result.dataset not in env.training_names]
        self.evaluation = results[0] if results else self.evaluation


class _Tuner(Generic[Model]):
    """What both tuners share; see `HornbeamTuner`."""

    def __init__(
        self,
        params: Mapping[str, Any] | None,
        train_set: Dataset,
        arguments: dict[str, Any],
        callbacks: Sequence[Callback] | None,
        steps: Mapping[str, int] | None,
        time_budget: float | None,
        study: Any,
        seed: int,
    ) -> None:
        if isinstance(params, Params):
            raise ParameterError("params is a Params object, which is complete; pass a dict")
        if callable(callbacks):
            raise ParameterError("callbacks is one function; pass a list, also of one")
        if time_budget is not None and not time_budget > 0:
            raise ParameterError(f"time_budget={time_budget!r}: must be a number of seconds > 0, or None")
        self._params = dict(params or {})
        self._steps = checked_steps(steps, Params.from_dict(self._params))
        self._train_set, self._arguments, self._callbacks = train_set, arguments, list(callbacks or [])
        self._time_budget, self._given_study, self._seed = time_budget, study, seed
        self.study: Any = study
        self._tuned: Values = {}
        self._best: tuple[float, Model] | None = None

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters as given, with the best values of those that were tuned."""
        self._result()
        return self._with(self._tuned)

    @property
    def best_score(self) -> float:
        """The metric that these parameters reach on the validation set."""
        return self._result()[0]

    def get_best_booster(self) -> Model:
        """Return the model that reached it; of the tuner by cross-validation, the CVBooster."""
        return self._result()[1]

    def _result(self) -> tuple[float, Model]:
        if self._best is None:
            raise ParameterError("nothing is tuned yet: call run() first")
        return self._best

    def run(self) -> None:
        """Tune, step by step."""
        begin = time.monotonic()
        self._tuned, self._best = {}, None
        if self._given_study is not None and self._given_study.trials:
            raise ParameterError("the study has trials already; pass a new one, or None")
        score, model, steering = self._train({})
        self._best = score, model
        self._begin_study(steering, score)
        verbosity = Params.from_dict(self._params).verbosity
        for name, n_trials in self._steps.items():
            self._go(name, STEPS[name], n_trials, begin)
            inform(f"tuner: {name}: {steering.metric} {self.best_score:g} with {self._tuned}", verbosity)

    def _begin_study(self, steering: Evaluation, score: float) -> None:
        """Make the study, or check the user's, and enter the training with the parameters as given."""
        optuna = require("optuna")
        direction = "maximize" if steering.higher_is_better else "minimize"
        if self._given_study is None:
            sampler = optuna.samplers.TPESampler(seed=self._seed)
            self.study = optuna.create_study(direction=direction, sampler=sampler)
        if [each.name.lower() for each in self.study.directions] != [direction]:
            raise ParameterError(
                f"the study must {direction} {steering.metric!r}; make it with create_study(direction={direction!r})"
            )
        value = None if math.isnan(score) else score
        state = optuna.trial.TrialState.FAIL if value is None else optuna.trial.TrialState.COMPLETE
        first = optuna.trial.create_trial(state=state, value=value, user_attrs={"step": "given", "tuned": {}})
        self.study.add_trial(first)

    def _go(self, name: str, step: Step, n_trials: int, begin: float) -> None:
        """Try the values of a step, and keep the best."""
        so_far = Params.from_dict(self._with(self._tuned))
        tries: list[Values | None] = [None] * n_trials
        if step.grid is not None:
            tries = [values for values in step.grid(so_far) if any(getattr(so_far, k) != v for k, v in values.items())]
        base = dict(self._tuned)
        for values in tries[:n_trials]:
            if self._time_budget is not None and time.monotonic() - begin >= self._time_budget:
                return
            self._try({**base}, name, step, values, so_far)

    def _try(self, base: Values, name: str, step: Step, values: Values | None, so_far: Params) -> None:
        """Run one trial."""
        failed = require("optuna").trial.TrialState.FAIL
        if values is not None:
            self.study.enqueue_trial(values)
        trial = self.study.ask()
        tuned = {**base, **step.suggest(trial, so_far)}
        trial.set_user_attr("step", name)
        trial.set_user_attr("tuned", tuned)
        try:
            score, model, steering = self._train(tuned)
        except BaseException:
            self.study.tell(trial, state=failed)
            raise
        if math.isnan(score):
            self.study.tell(trial, state=failed)
            return
        self.study.tell(trial, score)
        best = self.best_score
        is_better = score > best if steering.higher_is_better else score < best
        if is_better or math.isnan(best):
            self._best, self._tuned = (score, model), tuned

    def _with(self, tuned: Values) -> dict[str, Any]:
        """Return the parameters of the user with tuned ones in their place, whatever alias they were given by."""
        others = {k: v for k, v in self._params.items() if k not in BY_NAME or BY_NAME[k].name not in tuned}
        return {**others, **tuned}

    def _train(self, tuned: Values) -> tuple[float, Model, Evaluation]:
        """Train with tuned parameters; returns score, model and the evaluation that steers."""
        watch = Watch()
        score, model = self._score(self._with(tuned), [watch, *self._callbacks], watch)
        if watch.evaluation is None:
            raise ParameterError("the tuner saw no evaluation: the metric functions returned none")
        return score, model, watch.evaluation

    def _score(self, params: dict[str, Any], callbacks: list[Callback], watch: Watch) -> tuple[float, Model]:
        """Train; returns the score at the best iteration, without early stopping at the last, and the model."""
        raise NotImplementedError


class HornbeamTuner(_Tuner[Booster]):
    """Tunes parameters step by step on a validation set.

    The steps: `feature_fraction`, `num_leaves`, `bagging` (bagging_fraction and bagging_freq), `feature_fraction_again`
    (near the best), `regularisation` (lambda_l1 and lambda_l2), `min_data_in_leaf`. A parameter that is given and tuned
    is where tuning starts. Deterministic, unless `time_budget` cuts it short or `study` has a sampler without a seed.

    Parameters
    ----------
    params, train_set, num_boost_round, valid_sets, valid_names, feval
        As in `hornbeam.train`. The first metric on the first validation set steers.
    callbacks
        Callbacks of every training, such as `early_stopping`.
    steps
        Dict of the steps to go and their number of trials (of a grid: at most); None: all. With GOSS, or fractions
        by class, `bagging` is left out.
    time_budget
        Seconds after which no further trial begins.
    study
        Optuna study without trials, to be filled; None: a new one, with Optuna's TPE sampler.
    seed
        Seed of the sampler.

    Attributes
    ----------
    study
        The study; the user attribute `step` of a trial names its step, `tuned` all values tuned so far.
    """

    def __init__(
        self,
        params: Mapping[str, Any] | None,
        train_set: Dataset,
        num_boost_round: int | None = None,
        valid_sets: ValidSets = None,
        valid_names: Sequence[str] | str | None = None,
        feval: MetricFunction | Sequence[MetricFunction] | None = None,
        *,
        callbacks: Sequence[Callback] | None = None,
        steps: Mapping[str, int] | None = None,
        time_budget: float | None = None,
        study: Any = None,
        seed: int = 0,
    ) -> None:
        arguments = {
            "num_boost_round": num_boost_round, "valid_sets": valid_sets, "valid_names": valid_names, "feval": feval
        }  # fmt: skip
        super().__init__(params, train_set, arguments, callbacks, steps, time_budget, study, seed)

    def _score(self, params: dict[str, Any], callbacks: list[Callback], watch: Watch) -> tuple[float, Booster]:
        booster = train(params, self._train_set, callbacks=callbacks, verbose_eval=False, **self._arguments)  # type: ignore[call-arg]
        if booster.interrupted:
            raise KeyboardInterrupt
        steering = watch.evaluation
        score = math.nan if steering is None else booster.best_score[steering.dataset][steering.metric]
        return score, booster


class HornbeamTunerCV(_Tuner[CVBooster]):
    """Tunes parameters step by step by cross-validation.

    Parameters
    ----------
    params, train_set, num_boost_round, folds, nfold, stratified, shuffle, feval
        As in `hornbeam.cv`. The mean of the first metric over the folds steers.
    callbacks, steps, time_budget, study
        As in `HornbeamTuner`.
    seed
        Seed of the sampler; that of the folds is the parameter `seed`.
    """

    def __init__(
        self,
        params: Mapping[str, Any] | None,
        train_set: Dataset,
        num_boost_round: int | None = None,
        folds: Iterable[tuple[Any, Any]] | Any = None,
        *,
        nfold: int = 5,
        stratified: bool = True,
        shuffle: bool = True,
        feval: MetricFunction | Sequence[MetricFunction] | None = None,
        callbacks: Sequence[Callback] | None = None,
        steps: Mapping[str, int] | None = None,
        time_budget: float | None = None,
        study: Any = None,
        seed: int = 0,
    ) -> None:
        if isinstance(folds, Iterable):
            folds = list(folds)  # every trial goes through them
        arguments = {
            "num_boost_round": num_boost_round, "folds": folds, "nfold": nfold, "stratified": stratified,
            "shuffle": shuffle, "feval": feval,
        }  # fmt: skip
        super().__init__(params, train_set, arguments, callbacks, steps, time_budget, study, seed)

    def _score(self, params: dict[str, Any], callbacks: list[Callback], watch: Watch) -> tuple[float, CVBooster]:
        history = cv(params, self._train_set, callbacks=callbacks, return_cvbooster=True, **self._arguments)
        steering = watch.evaluation
        score = math.nan if steering is None else history[f"{steering.dataset} {steering.metric}-mean"][-1]
        return score, history["cvbooster"]

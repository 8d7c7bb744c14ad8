"""`cv`: the same training on several folds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from hornbeam.core.errors import ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import speaking
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.file_columns import take_file_columns
from hornbeam.model.booster import Booster
from hornbeam.model.cv_booster import CVBooster
from hornbeam.params.params import Params
from hornbeam.params.peer_arguments import CV, takes_peer_arguments
from hornbeam.training.boosting import check_boosting
from hornbeam.training.callbacks import Callback, EarlyStopException, prepare
from hornbeam.training.checkpoints import Checkpoints
from hornbeam.training.evaluations import Evaluation, MeanEvaluation
from hornbeam.training.folds import make_folds
from hornbeam.training.function_calls import MetricFunction, metric_functions
from hornbeam.training.idle_parameters import warn_of_idle
from hornbeam.training.init_model import model_to_train_on
from hornbeam.training.loop import CheckpointHook, Hook, Loop, Member
from hornbeam.training.peer_callbacks import adapted
from hornbeam.training.run import TrainingRun
from hornbeam.training.state import TrainingState
from hornbeam.training.training import number_of_rounds
from hornbeam.training.xgboost_arguments import (
    as_xgboosts_history,
    has_xgboosts_ways,
    takes_xgboost_arguments,
    with_default_metric,
    with_stopping,
)

Preparation = Callable[[Dataset, Dataset, dict[str, Any]], Any]
"""function(training set, validation set, parameters) of a fold -> the three to be used."""

VALID = "valid"
"""Name of the validation set of each fold."""


@takes_xgboost_arguments
@takes_peer_arguments(CV)
def cv(
    params: Mapping[str, Any] | Params | None,
    train_set: Dataset,
    num_boost_round: int | None = None,
    folds: Iterable[tuple[Any, Any]] | Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    metrics: str | Sequence[str] | None = None,
    feval: MetricFunction | Sequence[MetricFunction] | None = None,
    init_model: Booster | str | os.PathLike[str] | None = None,
    fpreproc: Preparation | None = None,
    seed: int | None = None,
    callbacks: Sequence[Callback] | None = None,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
    *,
    as_pandas: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_freq: int = 10,
) -> dict[str, Any]:
    """Cross-validate: train on all folds in step and average the metrics.

    Parameters
    ----------
    params, train_set, num_boost_round, feval, callbacks, init_model
        As in `train`.
    folds
        Pairs of (training rows, validation rows), or a scikit-learn splitter, which gets the query of every row as
        its groups; None: `nfold` folds, of whole queries where the Dataset has them.
    nfold, stratified, shuffle, seed
        How to make the folds. Stratified keeps the share of each class, where labels are classes: those of the
        objectives for classes, and with an objective function whole numbers of which each occurs at least `nfold` times
        on average. The seed defaults to the parameter `seed`.
    metrics
        Replaces the parameter `metric`.
    fpreproc
        Function of (training set, validation set, parameters) of a fold that returns the three it shall have: it may
        transform the data by what the training rows say. The parameters are a dict.
    checkpoint, checkpoint_freq
        As in `train`, with a file for each fold: `run.ckpt.fold0` and so on for `checkpoint="run.ckpt"`. Folds that
        were interrupted at different iterations come back into step.
    eval_train_metric
        Evaluate the training rows of each fold too.
    return_cvbooster
        Add the Boosters under the key "cvbooster".
    as_pandas
        Whether a DMatrix gives a table of pandas, as in XGBoost; None: if pandas is installed. Its columns are
        "test-auc-mean", "test-auc-std" and those of the training rows.

    Returns
    -------
    dict
        "valid l2-mean": list, one value an evaluated iteration (see `metric_freq`); "valid l2-stdv"; likewise for every
        metric. The lists end at the best iteration if early stopping ran. A fold ends where `train` would, and keeps
        its last values while others go on.

    Examples
    --------
    >>> history = hb.cv({"objective": "binary", "metric": "auc"}, hb.Dataset(X, label=y), 5, nfold=3)
    >>> list(history)
    ['valid auc-mean', 'valid auc-stdv']
    """
    params = take_file_columns(params, [train_set])
    params = params if isinstance(params, Params) else Params.from_dict(params)
    is_xgboosts = has_xgboosts_ways(train_set)
    if as_pandas and not is_xgboosts:
        raise ParameterError("as_pandas=True: make a table of the result: pandas.DataFrame(result)")
    if metrics is not None:
        params = params.replace(metric=metrics)
    params = with_default_metric(params, train_set)
    n_rounds = number_of_rounds(params, num_boost_round, 1, is_xgboosts)
    check_boosting(params)
    start = model_to_train_on(init_model)
    functions = metric_functions(feval)
    runs: list[TrainingRun] = []
    with ExitStack() as stack:
        stack.enter_context(speaking(params.verbosity))
        stack.enter_context(default_mode())
        rows_of_folds = make_folds(params, train_set, folds, nfold, stratified, shuffle, seed)
        for number, (train_rows, valid_rows) in enumerate(rows_of_folds):
            part = train_set.take_rows(train_rows)
            eval_train_metric = eval_train_metric or is_xgboosts
            valid, own_params = train_set.take_rows(valid_rows, reference=part), params
            if fpreproc is not None:
                part, valid, own_params = _prepared(fpreproc, part, valid, params)
            sets = {"train": part} if eval_train_metric else {}
            sets[VALID] = valid
            file = None
            if checkpoint is not None:
                path = f"{os.fspath(checkpoint)}.fold{number}"
                file = stack.enter_context(closing(Checkpoints(path, checkpoint_freq)))
            state = TrainingState(own_params, part, start, file, sets)
            stack.callback(state.engine.close)
            runs.append(TrainingRun(state, sets))
        warn_of_idle(runs[0].state, bool(functions))  # once, not once a fold
        runs[0].state.inform_of_encoding()
        result = CVBooster([run.state.booster for run in runs])
        kept = History(result, is_xgboosts)
        history = _boost_together(params, runs, kept, n_rounds, functions, list(callbacks or []))
    if is_xgboosts and not return_cvbooster:
        return as_xgboosts_history(history, as_pandas is not False)  # type: ignore[no-any-return]
    if return_cvbooster:
        history["cvbooster"] = result
    return history


def _prepared(fpreproc: Preparation, part: Dataset, valid: Dataset, params: Params) -> tuple[Dataset, Dataset, Params]:
    """Return the data and parameters of a fold as a function of the user's own makes them."""
    given = {name: value for name, value in params.to_dict().items() if name in params.given}
    made = fpreproc(part, valid, dict(given))
    if not isinstance(made, tuple) or len(made) != 3 or not all(isinstance(one, Dataset) for one in made[:2]):
        raise ParameterError("fpreproc must return (training Dataset, validation Dataset, parameters)")
    return made[0], made[1], params if made[2] == given else Params.from_dict(made[2])


def _boost_together(
    params: Params,
    runs: list[TrainingRun],
    history: History,
    n_rounds: int,
    functions: list[MetricFunction],
    callbacks: list[Callback],
) -> dict[str, Any]:
    """Run the iterations of all folds in step; callbacks see the means over the folds. Returns what `cv` does."""
    state = runs[0].state
    own_params, called = with_stopping(params, state.train_set, callbacks)
    has_metrics, is_xgboosts = bool(state.metrics or functions), state.train_set.is_xgboosts
    prepared = prepare(adapted(called), own_params, [VALID], has_metrics, is_xgboosts=is_xgboosts)
    members = [Member(run) for run in runs]
    hooks: list[Hook] = [CheckpointHook(), history]
    Loop(members, history.result, n_rounds, prepared, functions, history.enter, hooks).run()
    return history.values


class History:
    """Means and deviations over the folds, by set and metric; ends at the best iteration if there is one.

    is_xgboosts  whether it ends there only if patience came to its end
    """

    def __init__(self, result: CVBooster, is_xgboosts: bool) -> None:
        self.values: dict[str, Any] = {}
        self.result, self._is_xgboosts = result, is_xgboosts

    def enter(self, found: list[list[Evaluation]]) -> list[MeanEvaluation]:
        """Enter the evaluations of all folds after an iteration; returns their means."""
        return _means(found, self.values)

    def after_iteration(self, loop: Loop) -> None:
        """Go on."""

    def stopped(self, loop: Loop, stop: EarlyStopException) -> None:
        """End the history, and name the best iteration of each fold."""
        result = self.result
        result.best_iteration = stop.best_iteration + 1
        for booster in result.boosters:
            booster.n_best = min(result.best_iteration, booster.n_iterations)
        last = loop.env.iteration if stop.best_iteration < 0 else stop.best_iteration
        waited = loop.env.iteration - last
        if self._is_xgboosts and waited < getattr(loop.calling, "stopping_rounds", 0):
            last = loop.env.iteration
        n_kept = sum(iteration <= last for iteration in loop.evaluated)
        self.values = {key: values[:n_kept] for key, values in self.values.items()}

    def interrupted(self, loop: Loop) -> bool:
        """Give up: means of some folds would be no cross-validation."""
        return False

    def ended(self, loop: Loop) -> None:
        """Leave the history as it is."""


def _means(found: list[list[Evaluation]], history: dict[str, Any]) -> list[MeanEvaluation]:
    """Return the mean of each evaluation over the folds, and enter means and deviations into the history."""
    means = []
    for same in zip(*found, strict=True):
        values = [one.value for one in same]
        name, metric, _, higher_is_better = same[0]
        means.append(MeanEvaluation(name, metric, float(np.mean(values)), higher_is_better, float(np.std(values))))
        history.setdefault(f"{name} {metric}-mean", []).append(means[-1].value)
        history.setdefault(f"{name} {metric}-stdv", []).append(means[-1].stdv)
    return means

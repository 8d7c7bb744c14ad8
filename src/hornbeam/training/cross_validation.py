"""`cv`: the same training on several folds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from hornbeam.core.log import inform, speaking
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.model.cv_booster import CVBooster
from hornbeam.params.params import Params
from hornbeam.params.peer_arguments import CV, takes_peer_arguments
from hornbeam.training.boosting import check_boosting
from hornbeam.training.callbacks import (
    Callback,
    CallbackEnv,
    EarlyStopException,
    Evaluation,
    MeanEvaluation,
    close,
    finish,
    prepare,
)
from hornbeam.training.checkpoints import Checkpoints, Stopped, enter_history
from hornbeam.training.convergence import has_converged
from hornbeam.training.folds import make_folds, take_rows
from hornbeam.training.function_calls import MetricFunction
from hornbeam.training.idle_parameters import warn_of_idle
from hornbeam.training.init_model import model_to_train_on
from hornbeam.training.training import TrainingRun, number_of_rounds

VALID = "valid"


@takes_peer_arguments(CV)
def cv(
    params: Mapping[str, Any] | Params | None,
    train_set: Dataset,
    num_boost_round: int | None = None,
    folds: Iterable[tuple[Any, Any]] | Any = None,
    *,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    seed: int | None = None,
    metrics: str | Sequence[str] | None = None,
    feval: MetricFunction | Sequence[MetricFunction] | None = None,
    callbacks: Sequence[Callback] | None = None,
    init_model: Booster | str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_freq: int = 10,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
) -> dict[str, Any]:
    """Cross-validate: train on all folds in step and average the metrics.

    Parameters
    ----------
    params, train_set, num_boost_round, feval, callbacks, init_model
        As in `train`.
    folds
        Pairs of (training rows, validation rows), or a scikit-learn splitter, which is given the query of every row as
        groups; None: `nfold` folds made here, of whole queries where the Dataset has them.
    nfold, stratified, shuffle, seed
        How to make the folds. Stratified keeps the share of each class, where labels are classes: those of the
        objectives for classes, and with an objective function whole numbers of which each occurs at least `nfold` times
        on average. The seed defaults to the parameter `seed`.
    metrics
        Replaces the parameter `metric`.
    checkpoint, checkpoint_freq
        As in `train`, with a file for each fold: `run.ckpt.fold0` and so on for `checkpoint="run.ckpt"`. Folds that
        were interrupted at different iterations come back into step.
    eval_train_metric
        Evaluate the training rows of each fold too.
    return_cvbooster
        Add the Boosters under the key "cvbooster".

    Returns
    -------
    dict
        "valid l2-mean": list, one value an evaluated iteration (see `metric_freq`); "valid l2-stdv"; likewise for every
        metric. Ends at the best iteration if early stopping ran. A fold ends where `train` would, and keeps its last
        values while others go on.
    """
    params = params if isinstance(params, Params) else Params.from_dict(params)
    if metrics is not None:
        params = params.replace(metric=metrics)
    n_rounds = number_of_rounds(params, num_boost_round, 1)
    check_boosting(params)
    start = model_to_train_on(init_model)
    functions = [feval] if callable(feval) else list(feval or [])
    trained: list[Fold] = []
    told = ExitStack()
    try:
        told.enter_context(speaking(params.verbosity))
        rows_of_folds = make_folds(params, train_set, folds, nfold, stratified, shuffle, seed)
        for number, (train_rows, valid_rows) in enumerate(rows_of_folds):
            part = take_rows(train_set, train_rows)
            file = None if checkpoint is None else Checkpoints(f"{os.fspath(checkpoint)}.fold{number}", checkpoint_freq)
            sets = {"train": part} if eval_train_metric else {}
            sets[VALID] = take_rows(train_set, valid_rows, reference=part)
            run = TrainingRun(params, part, start, file, valid_sets=sets)
            trained.append(Fold(run))
            run.add_valid_sets(sets, None)
        warn_of_idle(trained[0].run, bool(functions))  # once, not once a fold
        trained[0].run.inform_of_encoding()
        result = CVBooster([fold.run.booster for fold in trained])
        history = _boost_together(params, trained, result, n_rounds, functions, list(callbacks or []))
    finally:
        for fold in trained:
            fold.run.engine.close()
        told.close()
    if return_cvbooster:
        history["cvbooster"] = result
    return history


class Fold:
    """The training of one fold: a run, and the iterations of it that a checkpoint holds already."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.has_converged = False
        self.n_there = run.booster.n_iterations
        self._results_there: dict[int, list[Evaluation]] = {}

    def begin(self, n_rounds: int, functions: list[MetricFunction]) -> int:
        """Check the checkpoint, if there is one; returns the number of the first iteration, before any resuming."""
        run, checkpoints = self.run, self.run.checkpoints
        if checkpoints is None:
            return self.n_there
        begin = checkpoints.begin(n_rounds, run.describe_evaluation(functions), run.booster)
        self._results_there = checkpoints.results_by_iteration
        return begin

    def boost(self, iteration: int, learning_rate: float) -> None:
        """Run an iteration, unless the checkpoint has it or the fold has ended where `train` would."""
        if self.has_converged or iteration < self.n_there:
            return
        trees = self.run.boost_once(learning_rate)
        self.has_converged = has_converged(self.run.params, self.run.changes, trees)
        if not self.has_converged:
            self.run.booster.trees.extend(grown.tree for grown in trees)

    def evaluate(self, iteration: int, functions: list[MetricFunction]) -> list[Evaluation]:
        """Evaluate after an iteration, or return what the checkpoint says of it."""
        if iteration < self.n_there:
            results = self._results_there.get(iteration, [])
            enter_history(self.run.booster, results)
            return results
        results = self.run.evaluate(functions)
        if self.run.checkpoints is not None and not self.has_converged:
            self.run.checkpoints.evaluated(iteration, results)
        return results

    def checkpoint(self, iteration: int, at_once: bool = False) -> None:
        """Note that an iteration is done, callbacks included, and write the checkpoint if it is due, or at once."""
        run, checkpoints = self.run, self.run.checkpoints
        if checkpoints is None:
            return
        is_due = False
        if iteration >= self.n_there and not self.has_converged:
            is_due = checkpoints.done(run.booster, run.booster.n_iterations, run.params.boosting == "dart")
        if is_due or at_once:
            checkpoints.write(run.booster)

    def stop(self, n_kept: int, stopped: Stopped | None) -> None:
        """End the training after its first iterations; a checkpoint may hold more of them."""
        booster, checkpoints = self.run.booster, self.run.checkpoints
        del booster.trees[n_kept * booster.n_outputs :]
        if checkpoints is not None:
            checkpoints.cut(booster.n_iterations)
            checkpoints.stopped = stopped
            checkpoints.write(booster)


def _boost_together(
    params: Params,
    folds: list[Fold],
    result: CVBooster,
    n_rounds: int,
    functions: list[MetricFunction],
    callbacks: list[Callback],
) -> dict[str, Any]:
    """Run the iterations of all folds in step; callbacks see the means over the folds. Returns what `cv` does."""
    first = folds[0].run
    callbacks = prepare(callbacks, params, [VALID], bool(first.metrics or functions))
    training = frozenset(entry.name for entry in first.evaluated if entry.is_training)
    begins = [fold.begin(n_rounds, functions) for fold in folds]
    begin = begins[0]
    env = CallbackEnv(
        result,  # type: ignore[arg-type]
        begin, begin, begin + n_rounds, params.learning_rate, training_names=training, params=params.to_dict(),
    )  # fmt: skip
    history: dict[str, Any] = {}
    evaluated: list[int] = []
    calling: Callback | None = None
    try:
        for iteration in range(begin, begin + n_rounds):
            env.begin(iteration, params.learning_rate)
            is_there = all(iteration < fold.n_there for fold in folds)  # done before, by the checkpoints
            called = [callback for callback in callbacks if not is_there or getattr(callback, "replayed", False)]
            for calling in called:
                if getattr(calling, "before_iteration", False):
                    calling(env)
            calling = None
            for fold in folds:
                fold.run.change(env.changes)
                fold.boost(iteration, env.learning_rate)
            have_ended = all(fold.has_converged for fold in folds)
            if have_ended and evaluated:
                inform(f"cv ends after {iteration} iterations: no split gains anything in any fold", params.verbosity)
                finish(callbacks)
                break
            if have_ended or iteration == begin + n_rounds - 1 or (iteration + 1) % params.metric_freq == 0:
                found = [fold.evaluate(iteration, functions) for fold in folds]
                env.evaluation_result_list = _means(found, history)  # type: ignore[assignment]  # with a fifth field
                evaluated.append(iteration)
            for calling in called:
                if not getattr(calling, "before_iteration", False):
                    calling(env)
            calling = None
            for fold in folds:
                fold.checkpoint(iteration)
            _stop_again(folds, iteration)
        for fold in folds:
            fold.checkpoint(-1, at_once=True)
    except EarlyStopException as stop:
        stopped = None
        if calling is not None and not getattr(calling, "replayed", False):
            stopped = Stopped(stop.best_iteration, stop.best_score)
        for fold in folds:
            fold.stop(env.iteration + 1, stopped)
        result.best_iteration = stop.best_iteration + 1
        for booster in result.boosters:
            booster.best_iteration = min(result.best_iteration, booster.n_iterations)
        n_kept = sum(iteration < result.best_iteration for iteration in evaluated)
        history = {key: values[:n_kept] for key, values in history.items()}
    except KeyboardInterrupt:
        for fold in folds:
            fold.checkpoint(-1, at_once=True)
        raise
    finally:
        close(callbacks)
    return history


def _stop_again(folds: list[Fold], iteration: int) -> None:
    """Stop after the last iteration of the checkpoints, where a callback that is not replayed had done so."""
    files = [fold.run.checkpoints for fold in folds]
    saved = [None if file is None or file.saved is None else file.saved.stopped for file in files]
    if saved[0] is not None and all(saved) and iteration == max(fold.n_there for fold in folds) - 1:
        raise EarlyStopException(saved[0].best_iteration, saved[0].best_score)


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

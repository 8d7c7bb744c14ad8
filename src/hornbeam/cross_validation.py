"""`cv`: the same training on several folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.booster import Booster
from hornbeam.boosting import check_boosting
from hornbeam.callbacks import Callback, CallbackEnv, EarlyStopException, Evaluation, close, prepare
from hornbeam.convergence import has_converged
from hornbeam.dataset import Dataset
from hornbeam.errors import DataError
from hornbeam.function_calls import MetricFunction
from hornbeam.log import inform
from hornbeam.params import Params, whole_number
from hornbeam.queries import query_of_row
from hornbeam.training import TrainingRun

VALID = "valid"


class CVBooster:
    """The Boosters of the folds.

    Attributes
    ----------
    boosters
        list of Booster.
    best_iteration
        Number of iterations that early stopping found best on average over the folds; 0 if it did not run.
    """

    def __init__(self, boosters: list[Booster]) -> None:
        self.boosters = boosters
        self.best_iteration = 0

    def predict(self, data: Any, **arguments: Any) -> list[NDArray[Any]]:
        """Predict with every fold's Booster; arguments as `Booster.predict`."""
        return [booster.predict(data, **arguments) for booster in self.boosters]


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
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
) -> dict[str, Any]:
    """Cross-validate: train on all folds in step and average the metrics.

    Parameters
    ----------
    params, train_set, num_boost_round, feval, callbacks
        As in `train`.
    folds
        Pairs of (training rows, validation rows), or a scikit-learn splitter, which is given the query of every row as
        groups; None: `nfold` folds made here, of whole queries where the Dataset has them.
    nfold, stratified, shuffle, seed
        How to make the folds. Stratified (classes only) keeps the share of each class. The seed defaults to the
        parameter `seed`.
    metrics
        Replaces the parameter `metric`.
    eval_train_metric
        Evaluate the training rows of each fold too.
    return_cvbooster
        Add the Boosters under the key "cvbooster".

    Returns
    -------
    dict
        "valid l2-mean": list, one value an iteration; "valid l2-stdv"; likewise for every metric. Ends at the best
        iteration if early stopping ran.
    """
    params = params if isinstance(params, Params) else Params.from_dict(params)
    if metrics is not None:
        params = params.replace(metric=metrics)
    n_rounds = whole_number(params.num_iterations if num_boost_round is None else num_boost_round, "num_boost_round", 1)
    check_boosting(params)
    runs = []
    for train_rows, valid_rows in _folds(params, train_set, folds, nfold, stratified, shuffle, seed):
        part = take_rows(train_set, train_rows)
        sets = {"train": part} if eval_train_metric else {}
        sets[VALID] = take_rows(train_set, valid_rows, reference=part)
        run = TrainingRun(params, part, None, valid_sets=sets)
        run.add_valid_sets(sets, None)
        runs.append(run)
    result = CVBooster([run.booster for run in runs])
    history: dict[str, Any] = {}
    functions = [feval] if callable(feval) else list(feval or [])
    try:
        _boost_together(params, runs, result, n_rounds, functions, list(callbacks or []), history)
    finally:
        for run in runs:
            run.engine.close()
    if return_cvbooster:
        history["cvbooster"] = result
    return history


def _boost_together(
    params: Params,
    runs: list[TrainingRun],
    result: CVBooster,
    n_rounds: int,
    functions: list[MetricFunction],
    callbacks: list[Callback],
    history: dict[str, Any],
) -> None:
    """Run the iterations of all folds in step; callbacks see the means over the folds."""
    callbacks = prepare(callbacks, params, [VALID], bool(runs[0].metrics or functions))
    training = frozenset(entry.name for entry in runs[0].evaluated if entry.is_training)
    env = CallbackEnv(result, 0, 0, n_rounds, params.learning_rate, training_names=training)  # type: ignore[arg-type]
    converged: set[int] = set()
    try:
        for iteration in range(n_rounds):
            env.iteration, env.learning_rate, env.evaluation_result_list = iteration, params.learning_rate, []
            for callback in callbacks:
                if getattr(callback, "before_iteration", False):
                    callback(env)
            _boost_once(params, runs, converged, env.learning_rate)
            if len(converged) == len(runs) and iteration > 0:
                inform(
                    f"cv ends after {iteration} iterations: no split gains anything any more in any fold",
                    params.verbosity,
                )
                for callback in callbacks:
                    finish = getattr(callback, "finish", None)
                    if finish is not None:
                        finish()
                break
            found = [run.evaluate(functions) for run in runs]
            for same in zip(*found, strict=True):
                values = [one.value for one in same]
                mean, key = float(np.mean(values)), f"{same[0].dataset} {same[0].metric}"
                history.setdefault(f"{key}-mean", []).append(mean)
                history.setdefault(f"{key}-stdv", []).append(float(np.std(values)))
                env.evaluation_result_list.append(
                    Evaluation(same[0].dataset, same[0].metric, mean, same[0].higher_is_better)
                )
            for callback in callbacks:
                if not getattr(callback, "before_iteration", False):
                    callback(env)
    except EarlyStopException as stop:
        result.best_iteration = stop.best_iteration + 1
        for booster in result.boosters:
            booster.best_iteration = result.best_iteration
        for key in history:
            history[key] = history[key][: result.best_iteration]
    finally:
        close(callbacks)


def _boost_once(params: Params, runs: list[TrainingRun], converged: set[int], learning_rate: float) -> None:
    """Run an iteration of the folds that have something left to learn; `converged` gets the numbers of the others.

    A fold ends where `train` would, and its model stays as it is while the other folds go on.
    """
    for number, run in enumerate(runs):
        if number in converged:
            continue
        trees = run.boost_once(learning_rate)
        if has_converged(params, trees):
            converged.add(number)
        else:
            run.booster.trees.extend(grown.tree for grown in trees)


def _folds(
    params: Params,
    train_set: Dataset,
    folds: Iterable[tuple[Any, Any]] | Any,
    nfold: int,
    stratified: bool,
    shuffle: bool,
    seed: int | None,
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return pairs of (training rows, validation rows)."""
    boundaries = train_set.query_boundaries
    if folds is not None:
        if hasattr(folds, "split"):
            groups = None if boundaries is None else query_of_row(boundaries)
            folds = folds.split(np.empty((train_set.n_rows, 0)), train_set.label, groups)
        return [(_row_numbers(a, train_set.n_rows), _row_numbers(b, train_set.n_rows)) for a, b in folds]
    if boundaries is not None:
        return _query_folds(boundaries, nfold, shuffle, params.seed if seed is None else seed)
    nfold = whole_number(nfold, "nfold", 2, train_set.n_rows)
    order = np.arange(train_set.n_rows)
    if shuffle:
        order = np.random.default_rng(params.seed if seed is None else seed).permutation(order)
    if stratified and params.objective in ("binary", "multiclass") and train_set.label is not None:
        order = order[np.argsort(train_set.label[order], kind="stable")]
        parts = [np.sort(order[first::nfold]) for first in range(nfold)]
    else:
        parts = [np.sort(part) for part in np.array_split(order, nfold)]
    every = np.arange(train_set.n_rows)
    return [(np.setdiff1d(every, part, assume_unique=True), part) for part in parts]


def _query_folds(
    boundaries: NDArray[np.int64], nfold: int, shuffle: bool, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return pairs of (training rows, validation rows) of whole queries, each fold with about as many queries."""
    n_queries = len(boundaries) - 1
    nfold = whole_number(nfold, "nfold", 2, n_queries)
    order = np.random.default_rng(seed).permutation(n_queries) if shuffle else np.arange(n_queries)
    fold = np.empty(n_queries, np.int64)
    for number, part in enumerate(np.array_split(order, nfold)):
        fold[part] = number
    of_row = fold[query_of_row(boundaries)]
    return [(np.flatnonzero(of_row != number), np.flatnonzero(of_row == number)) for number in range(nfold)]


def _row_numbers(rows: Any, n_rows: int) -> NDArray[np.intp]:
    """Return row numbers, given as numbers or as a mask."""
    array = np.asarray(rows)
    if array.dtype == bool and array.shape == (n_rows,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) == 0 or array.min() < 0 or array.max() >= n_rows:
        raise DataError(f"folds must hold row numbers from 0 to {n_rows - 1}, at least one on each side")
    return array.astype(np.intp)


def take_rows(dataset: Dataset, rows: NDArray[np.intp], reference: Dataset | None = None) -> Dataset:
    """Make a Dataset of some rows; its queries are the whole ones among them."""
    group = None
    if dataset.query_boundaries is not None:
        group = _whole_queries(dataset.query_boundaries, rows)
    own = {} if reference is not None else dataset._own_params
    return Dataset(
        dataset.reader.take(rows),
        label=None if dataset.label is None else dataset.label[rows],
        weight=None if dataset.weight is None else dataset.weight[rows],
        group=group,
        init_score=None if dataset.init_score is None else np.ascontiguousarray(dataset.init_score[:, rows].T),
        feature_names=dataset.feature_names,
        categorical_features="auto" if dataset._categorical is None else list(dataset._categorical),
        reference=reference,
        **own,
    )


def _whole_queries(boundaries: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the sizes of the queries that some rows make up, or raise DataError if they cut a query in two."""
    query = query_of_row(boundaries)[rows]
    starts = np.flatnonzero(np.append(True, query[1:] != query[:-1]))
    sizes = np.diff(np.append(starts, len(rows)))
    wrong = sizes != np.diff(boundaries)[query[starts]]
    if wrong.any():
        raise DataError(
            f"folds cut query {int(query[starts[int(np.argmax(wrong))]])} in two, or take its rows apart; rows of one "
            "query go to one side, in their order: use a splitter such as sklearn.model_selection.GroupKFold"
        )
    return sizes

"""Predictions of a Booster: which iterations, which columns, on which device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.costs import PredictionWork
from hornbeam.backends.devices import choose_device
from hornbeam.backends.prediction import (
    add_trees,
    predict_in_place,
    predict_leaf,
    predict_leaf_in_place,
    predict_raw,
    rows_first,
    transform,
)
from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError, DeviceError, ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import inform, warn
from hornbeam.data.column_names import same_columns
from hornbeam.data.device_arrays import check_device, in_library_of
from hornbeam.data.fields import Fields
from hornbeam.data.sources.opening import open_numbers, open_table
from hornbeam.data.sources.reader import TableReader
from hornbeam.data.sources.series_tables import as_table, is_series
from hornbeam.data.sources.wanted_columns import Wanted, first_columns
from hornbeam.dataset.dmatrix import DMatrix
from hornbeam.model.early_stopped import EarlyStop, can_stop, early_stopped_scores
from hornbeam.model.no_rows import takes_no_rows
from hornbeam.model.start import leaves_start_out
from hornbeam.model.stream_prediction import takes_streams
from hornbeam.model.xgboost_shapes import takes_xgboosts_shapes
from hornbeam.params.given import GivenParams
from hornbeam.params.params import BY_NAME, whole_number
from hornbeam.params.peer_arguments import PREDICT, takes_peer_arguments
from hornbeam.trees.forest import ArrayReader, Forest, Reader, average_scores, checked_init, fitting

if TYPE_CHECKING:
    from hornbeam.data.levels import Levels
    from hornbeam.objectives import Objective


class PredictingModel:
    """Predictions; `Booster` is one."""

    @takes_no_rows
    @takes_streams
    @takes_xgboosts_shapes
    @takes_peer_arguments(PREDICT)
    @leaves_start_out
    def predict(
        self,
        data: Any,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        data_has_header: bool = False,
        validate_features: bool = True,
        *,
        pred_interactions: bool = False,
        iteration_range: tuple[int, int] | None = None,
        ntree_limit: int = 0,
        base_margin: Any = None,
        pred_early_stop: bool = False,
        pred_early_stop_freq: int = 10,
        pred_early_stop_margin: float = 10.0,
        predict_disable_shape_check: bool = False,
        num_threads: int | None = None,
        device: str | None = None,
    ) -> Any:
        """Predict for every row of data.

        Parameters
        ----------
        data
            Table with the columns that the model was trained on, in the same order; sparse ones are not made dense.
            Categorical features are matched by value, whatever holds them; unseen levels count as missing, and so do
            numbers that are no integers, with a warning. Or a Dataset, whose table is predicted for, or a Stream. A
            Series is one row, `df.iloc[0]`, or the column of a model of one feature.
        raw_score
            Return raw scores instead of predictions (probabilities, means).
        pred_leaf
            Return the leaf number of every row in every tree instead.
        pred_contrib
            Return what every feature adds to the raw scores (SHAP values), and the expected score behind them, instead.
        pred_interactions
            Return what every two features do together instead: half of it at (i, j), half at (j, i).
        start_iteration, num_iteration
            Which iterations to use; None: up to the best iteration if early stopping found one, else all; 0 or less:
            all. From a later one on, the scores that training started from are left out, as in LightGBM.
        data_has_header
            Whether the first line of a text file names its columns; False: the file itself tells.
        validate_features
            Whether the names of columns are compared with those of the training; False: places alone count.
        iteration_range, ntree_limit
            XGBoost's: the iterations from the first to before the second, (0, 0): as without it; or the first ones. The
            start is always among them.
        pred_contribs, strict_shape
            XGBoost's: contributions by output, and results of as many dimensions whatever the model is
            (`takes_xgboosts_shapes`).
        base_margin
            Numbers to start from instead of the model's, one a row or (n_rows, n_outputs). A DMatrix brings its own.
        pred_early_stop, pred_early_stop_freq, pred_early_stop_margin
            Stop adding trees to a row, checked every so many iterations, when its class is clear by that margin: twice
            the size of the raw score of two classes, or of a rank; the distance of the two highest ones of several.
            What is returned for such rows is the score so far. Other objectives do not stop.
        predict_disable_shape_check
            Whether a table may have more columns than the model has features: the first ones count.
        num_threads
            None or 0: all that the process may use.
        device
            As in the parameter `device`: "cpu", "cuda:0", "gpu", ...; "auto": the one expected to be done first; None:
            where the data is, so "cpu" for data in host memory. It cannot be seen in the result.

        Returns
        -------
        float64 (n_rows,), or (n_rows, n_outputs) with several outputs. With `pred_leaf` the numbers of leaves, int32
        (n_rows, n_trees); where a DMatrix was trained on those of nodes, as `get_dump` has them, float32. With
        `predict_classes` (XGBoost's "multi:softmax") the number of the class of every row, float64 (n_rows,).
        With `pred_contrib` float64 (n_rows, n_outputs * (n_features + 1)), for sparse matrices of SciPy a sparse matrix
        (n_rows, n_features + 1), or a list with one an output; with `pred_interactions` float64 (n_rows, n_features +
        1, n_features + 1), or (n_rows, n_outputs, ...).
        NumPy arrays; for data on a CUDA device, arrays on that device: PyTorch's for PyTorch's, else CuPy's.
        """
        modes = {"pred_leaf": pred_leaf, "pred_contrib": pred_contrib, "pred_interactions": pred_interactions}
        asked = [mode for mode, is_asked in modes.items() if is_asked]
        if raw_score and pred_leaf:
            asked.insert(0, "raw_score")
        if len(asked) > 1:
            raise ParameterError(f"{asked[0]} and {asked[1]} are both set; ask for one of them")
        if iteration_range is not None or ntree_limit:
            start_iteration, num_iteration = _range_of(iteration_range, ntree_limit, start_iteration, num_iteration)
            is_one_more = num_iteration is not None and start_iteration + num_iteration == self.n_best + 1 > 1
            if is_one_more and not self.is_xgboosts:
                warn(
                    f"iteration_range={iteration_range}: best_iteration counts iterations here, as LightGBM's; those "
                    f"up to the best one are (0, {self.n_best})"
                )
        start_iteration, num_iteration = self.chosen_iterations(start_iteration, num_iteration)
        if predict_disable_shape_check:
            data = first_columns(data, self.n_features)
        if base_margin is None and isinstance(data, DMatrix):
            base_margin = data.get_init_score()
        if device is not None:
            device = BY_NAME["device"].check(device)
        if num_threads is not None:
            num_threads = BY_NAME["num_threads"].check(num_threads)
        is_plain = not asked and base_margin is None and not pred_early_stop and device in (None, "cpu")
        if is_plain and self._takes_as_it_is(data):
            n_threads = resolve_threads(self.num_threads if num_threads is None else num_threads)
            with default_mode():
                rows = ArrayReader(data)
                return self._predict(rows, raw_score, False, start_iteration, num_iteration, n_threads, "cpu")
        reader = self.checked_table(data, header=data_has_header or None, validate=validate_features)
        if pred_contrib or pred_interactions:
            task = self._explained(reader, (start_iteration, num_iteration), num_threads, device)
            result = self._predict_explained(task, data, pred_interactions)
            return result if reader.device is None else in_library_of(data, reader.to_device(result))
        n_threads = resolve_threads(self.num_threads if num_threads is None else num_threads)
        if reader.device is not None:
            check_device(reader.device, device or reader.device)
            if device not in ("cpu", "reference") and base_margin is None and not self.forest.is_linear:
                found = self._predict_in_place(reader, raw_score, pred_leaf, start_iteration, num_iteration)
                return in_library_of(data, found)
        given = raw_score, pred_leaf, start_iteration, num_iteration, n_threads
        with default_mode():
            if pred_early_stop and not pred_leaf and can_stop(self._objective, self.averages_trees):
                stop = EarlyStop.checked(pred_early_stop_freq, pred_early_stop_margin)
                trees = self.forest.tree_range(start_iteration, num_iteration)
                scores = early_stopped_scores(self.forest, reader, self.init_scores, trees, stop, n_threads)
                result = self._finished(scores, raw_score, n_threads, "cpu")
            elif base_margin is not None and not pred_leaf:
                raw = self._predict(reader, True, *given[1:], device or "cpu")
                scores = _with_margin(raw, base_margin)
                result = self._finished(scores, raw_score, n_threads, "cpu")
            else:
                result = self._predict(reader, *given, device or "cpu")
        return result if reader.device is None else in_library_of(data, reader.to_device(result))

    def _takes_as_it_is(self, data: Any) -> bool:
        """Say whether a table is an array that `checked_table` would find nothing to do for: one row is done sooner."""
        return (
            type(data) is np.ndarray
            and data.dtype == np.float64
            and data.ndim == 2
            and data.shape[0] > 0
            and data.shape[1] == self.n_features
            and data.flags.carray
            and self.levels is None
            and not self.params.get("zero_as_missing")
        )

    def staged_predict(self, data: Any, raw_score: bool = False) -> Iterator[NDArray[Any]]:
        """Yield what `predict` returns with 1, 2, ... iterations, up to those that it uses; a tree is added once."""
        reader = self.checked_table(data)
        first, last = self.forest.tree_range(*self.chosen_iterations(0, None))
        n_threads = resolve_threads(self.num_threads)
        start = np.zeros(self.n_outputs) if self.averages_trees else self.init_scores
        scores = np.repeat(np.asarray(start, np.float64)[:, None], reader.n_rows, axis=1)
        forest, rows = fitting(self.forest, reader)
        step = forest.trees_per_iteration
        for tree in range(first, last, step):
            with default_mode():
                add_trees(forest, rows, tree, tree + step, scores, n_threads, "cpu")
                made = scores.copy()
                if self.averages_trees:
                    average_scores(made, self.init_scores, tree // self.n_outputs + 1)
                result = self._finished(made, raw_score, n_threads, "cpu")
            yield result

    def chosen_iterations(self, start: int, number: int | None) -> tuple[int, int | None]:
        """Return start_iteration and num_iteration as `Forest.tree_range` takes them, checked.

        number  None: `n_used`
        """
        start = whole_number(start, "start_iteration", 0)
        if number is not None:
            return start, whole_number(number, "num_iteration", -sys.maxsize)
        if start >= self.n_used:
            return self.n_iterations, None  # nothing is left up to the best iteration
        return start, self.n_used - start

    def _predict(
        self,
        reader: Reader,
        raw_score: bool,
        pred_leaf: bool,
        start_iteration: int,
        num_iteration: int | None,
        n_threads: int,
        device: str,
    ) -> NDArray[Any]:
        """Predict for a table that is read block by block; the result is in host memory."""
        if device == "auto":
            first, last = self.forest.tree_range(start_iteration, num_iteration)
            device = choose_device("auto", PredictionWork(reader.n_rows, reader.n_features, last - first, n_threads))
            if device != "cpu":
                given = raw_score, pred_leaf, start_iteration, num_iteration, n_threads
                try:
                    return self._predict(reader, *given, device)
                except DeviceError as error:
                    inform(f"predicting on the CPU: {error}")
                    device = "cpu"
        if pred_leaf:
            leaves: Any = predict_leaf(self.forest, reader, start_iteration, num_iteration, n_threads, device)
            named: NDArray[Any] = self._named(leaves, self.forest.tree_range(start_iteration, num_iteration)[0])
            return named
        init = None if self.averages_trees else self.init_scores
        scores = predict_raw(self.forest, reader, init, start_iteration, num_iteration, n_threads, device)
        if self.averages_trees:
            first, last = self.forest.tree_range(start_iteration, num_iteration)
            average_scores(scores, self.init_scores, (last - first) // self.n_outputs)
        return self._finished(scores, raw_score, n_threads, device)

    def _named(self, leaves: Any, first: int) -> Any:
        """Return leaves of trees from a first one on as `predict` does: by XGBoost's numbers of nodes, or as they are.

        leaves  int32 (n_rows, n_trees), of NumPy or CuPy
        """
        n_trees = leaves.shape[1]
        if not self.is_xgboosts or n_trees == 0:
            return leaves
        trees = self.forest.trees[first : first + n_trees]
        nodes = np.zeros((n_trees, max(tree.n_leaves for tree in trees)), np.float32)
        for place, tree in enumerate(trees):
            for number, node in enumerate(tree.by_level()):
                if node < 0:
                    nodes[place, ~node] = number
        own: Any = np if isinstance(leaves, np.ndarray) else sys.modules["cupy"]
        return own.asarray(nodes)[own.arange(n_trees), leaves]

    def _finished(self, scores: NDArray[np.float64], raw_score: bool, n_threads: int, device: str) -> NDArray[Any]:
        """Return raw scores, float64 (n_outputs, n_rows), as `predict` returns them, or the predictions they make."""
        if self._objective.predicts_classes and not raw_score:
            classes: NDArray[np.float64] = np.argmax(scores, axis=0).astype(np.float64)  # the first of equals
            return classes
        is_raw = raw_score or self._objective.predicts_scores
        result = scores if is_raw else transform(self._objective, scores, n_threads, device)
        return result[0] if self.n_outputs == 1 else np.ascontiguousarray(result.T)

    def _predict_in_place(
        self, reader: TableReader, raw_score: bool, pred_leaf: bool, start_iteration: int, num_iteration: int | None
    ) -> Any:
        """Predict for data on a CUDA device; the result is a CuPy array there."""
        trees = self.forest.tree_range(start_iteration, num_iteration)
        if pred_leaf:
            return self._named(predict_leaf_in_place(self.forest, reader, trees), trees[0])
        init = checked_init(self.forest, self.init_scores)
        of_classes = self._objective.predicts_classes and not raw_score
        is_raw = raw_score or self._objective.predicts_scores
        objective = None if is_raw or of_classes else self._objective
        found = predict_in_place(self.forest, reader, init, trees, objective, self.averages_trees)
        return found.argmax(axis=0).astype(np.float64) if of_classes else rows_first(found)

    def checked_table(
        self, data: Any, name: str = "data", header: bool | None = None, validate: bool = True
    ) -> TableReader:
        """Return a reader of a table, which messages call `name`; its columns must be those of the training data.

        header    as in `Wanted`
        validate  whether their names are compared
        """
        data = data.data if isinstance(data, Fields) else data
        names = (self.feature_names, self.column_names or self.feature_names)
        if is_series(data):
            data = as_table(data, names[1], name)
        wanted = Wanted(names, n_features=self.n_features, header=header)
        reader = open_numbers(data, name, wanted) if self.levels is None else open_table(data, name, wanted)
        reader.zero_as_missing = bool(self.params.get("zero_as_missing")) and bool(self.params.get("use_missing", True))
        self.check_columns(reader.n_features, reader.names, name, validate)
        reader.other_numbers = "missing"
        return reader.with_levels(self.levels)

    def check_columns(self, n_features: int, names: list[str] | None, table: str, validate: bool = True) -> None:
        """Raise unless the columns of a table are those of the training data.

        names     as `TableReader.names`
        table     what messages call it
        validate  whether names are compared
        """
        if n_features != self.n_features:
            known = set(self.column_names or self.feature_names)
            more = [one for one in names or () if one not in known] if n_features > len(known) else []
            which = f" ({', '.join(map(repr, more[:3]))} was not there)" if more else ""
            raise DataError(
                f"{table} has {n_features} features, but the model was trained on {self.n_features}{which}; pass "
                "the same columns in the same order"
            )
        named = names if validate else None
        if named is not None and named != self.column_names and not same_columns(named, self.feature_names):
            position = next(i for i, name in enumerate(named) if name != self.feature_names[i])
            raise DataError(
                f"feature {position} of {table} is {named[position]!r}, but the model was trained on "
                f"{self.feature_names[position]!r} there; pass the same columns in the same order"
            )

    if TYPE_CHECKING:  # what Booster has
        params: GivenParams
        feature_names: list[str]
        column_names: list[str] | None
        levels: list[Levels | None] | None
        n_outputs: int
        init_scores: NDArray[np.float64]
        n_best: int
        n_used: int
        is_xgboosts: bool
        num_threads: int
        _objective: Objective
        _explained: Any
        _predict_explained: Any

        @property
        def forest(self) -> Forest:
            """The trees."""

        @property
        def averages_trees(self) -> bool:
            """Whether predictions are means over the trees."""

        @property
        def n_features(self) -> int:
            """Number of features."""

        @property
        def n_iterations(self) -> int:
            """Number of iterations."""


def _range_of(given: tuple[int, int] | None, limit: int, start: int, number: int | None) -> tuple[int, int | None]:
    """Return start_iteration and num_iteration for XGBoost's arguments, which are given beside neither of them."""
    if start != 0 or number is not None or (given is not None and limit):
        raise ParameterError("iteration_range, ntree_limit and start_iteration, num_iteration say the same; give one")
    if given is None:
        return 0, whole_number(limit, "ntree_limit", 0) or None
    if len(given) != 2:
        raise ParameterError(f"iteration_range={given!r}: must be two numbers, (first, one past the last)")
    first, end = whole_number(given[0], "iteration_range", 0), whole_number(given[1], "iteration_range", 0)
    if end == 0:
        return first, None
    if end <= first:
        raise ParameterError(f"iteration_range={given!r}: the second number must be above the first, or 0")
    return first, end - first


def _with_margin(raw: NDArray[np.float64], margin: Any) -> NDArray[np.float64]:
    """Return raw scores with numbers added, float64 (n_outputs, n_rows)."""
    values = np.asarray(margin, np.float64)
    if values.size != raw.size:
        raise DataError(f"base_margin has {values.size} numbers for {raw.size} scores; pass one a row and output")
    return np.ascontiguousarray(np.atleast_2d((raw + values.reshape(raw.shape)).T))

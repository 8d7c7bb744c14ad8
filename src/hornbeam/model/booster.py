"""`Booster`: a trained model. It predicts, saves itself, and can be trained on."""

from __future__ import annotations

import copyreg
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import inform
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.described import DescribedModel
from hornbeam.model.explained import ExplainedModel
from hornbeam.model.file import ModelData, write_atomically
from hornbeam.model.formats import HORNBEAM, format_of_name, is_of_dmatrix, model_of, read_file, read_with_bytes
from hornbeam.model.live import LiveModel
from hornbeam.model.predicting import PredictingModel
from hornbeam.model.refitting import check_params, refit
from hornbeam.model.saved import SavedModel
from hornbeam.model.start import without_start
from hornbeam.model.xgboost_face import XGBoostFace
from hornbeam.objectives import Objective, objective_from_dict
from hornbeam.params.given import GivenParams
from hornbeam.params.params import Params, whole_number
from hornbeam.params.peer_arguments import (
    BOOSTER,
    BOOSTER_ATTRIBUTES,
    REFIT,
    SAVE,
    PeerAttributes,
    takes_peer_arguments,
)
from hornbeam.trees.forest import Forest
from hornbeam.trees.tree import Tree


class Booster(PredictingModel, ExplainedModel, DescribedModel, SavedModel, LiveModel, XGBoostFace, PeerAttributes):
    """A trained model, as `hornbeam.train` returns it and `hornbeam.load` reads it.

    Parameters
    ----------
    params, train_set
        Parameters and a Dataset: an empty model, which `update` trains iteration by iteration; or
    model_file, model_str
        a model file, or its text, of any format that `hornbeam.load` reads. `num_threads` of params is taken.
    model
        What a model file holds, as an object or as the bytes of the file, in the place of params. Without any of these
        a Booster is empty, and `load_model` makes it a model.

    Attributes
    ----------
    feature_names
        Names of the columns, in order.
    levels
        Levels of each categorical feature, in the order of the codes in `Tree.left_codes`; None for the other features.
        None alone: no feature is categorical. `EncodedLevels` (target_encoding.py) where numbers replace them.
    column_names
        Names of the columns of the training table, where the features were given others; None: the same. Data to
        predict may bear either.
    n_outputs
        Raw scores a row.
    init_scores
        float64 (n_outputs,): raw scores before the first tree.
    trees
        list of Tree, in boosting order; tree i adds to output i % n_outputs.
    params
        Training parameters that can change the model and differ from their default, which a file keeps;
        `params["num_leaves"]`, by any name of a parameter, is its default where it is not among them. In the process
        that trained it, all that were given are there, too, `params["metric"]` and `params["num_iterations"]` say.
    n_best
        Number of iterations that early stopping found best; 0 if it did not run.
    n_used
        Number of iterations that `predict` uses: the best ones, or all, as by XGBoost where a DMatrix was trained on.
    best_iteration
        The same; where a DMatrix was trained on, the number of the best one as XGBoost counts them, from 0.
    best_score
        `best_score[dataset][metric]` at the best iteration, without early stopping at the last one; empty if nothing
        was evaluated. Where a DMatrix was trained on with early stopping: the number that it looked at. Not saved.
    eval_history
        `eval_history[dataset][metric]`: list, one value an evaluated iteration. Not saved.
    metric
        Metrics of the training, as in the parameter of that name. Not saved.
    interrupted
        Whether training was ended by Ctrl-C, with the trees built so far.

    Examples
    --------
    >>> hb.train({"objective": "binary"}, hb.Dataset(X, label=y), 10)[:4]
    <hornbeam.Booster: binary, 4 iterations, 4 trees, 28 features>
    """

    _instead = BOOSTER_ATTRIBUTES
    category_columns: frozenset[int] = frozenset()  # as in ModelData

    @takes_peer_arguments(BOOSTER)
    def __init__(
        self,
        params: Mapping[str, Any] | Params | ModelData | bytes | None = None,
        train_set: Any = None,
        model_file: str | os.PathLike[str] | bytearray | Booster | None = None,
        model_str: str | None = None,
    ) -> None:
        is_model = isinstance(params, (ModelData, bytes))
        if model_file is not None and isinstance(train_set, (list, tuple)):
            train_set = None  # what XGBoost keeps predictions of
        given = (params if is_model else None, train_set, model_file, model_str)
        if sum(one is not None for one in given) > 1:
            raise ParameterError(
                "a Booster is made from params and train_set, or from one of model_file and model_str; hornbeam.train "
                "makes trained ones"
            )
        if train_set is not None:
            self._begin_training(params, train_set)
            return
        if model_str is not None:
            self.take(model_of(model_str.encode()))
        elif model_file is not None:
            self._take_file(model_file)
        elif is_model:
            self.take(model_of(params) if isinstance(params, bytes) else params)  # type: ignore[arg-type]
        else:
            self.take(ModelData([], 1, {"name": "custom", "num_class": 1}, {}, [0.0]))  # until load_model
        if params is not None and not is_model:
            self._take_params(params)

    def take(self, model: ModelData) -> None:
        """Become the model of a file: every attribute is set anew."""
        self.feature_names = list(model.feature_names)
        self.levels = model.levels
        self.column_names = model.column_names
        self.n_outputs = model.n_outputs
        self.init_scores: NDArray[np.float64] = np.array(model.init_scores, np.float64)
        self.trees: list[Tree] = list(model.trees)
        self.params: GivenParams = GivenParams(model.params, {"objective": model.objective["name"]})
        self.n_best, self.stops_at_best = model.best_iteration, model.stops_at_best
        self.best_score: Any = {}
        self.take_attributes(model.attributes)
        self.category_columns = model.category_columns
        self.eval_history: dict[str, dict[str, list[float]]] = {}
        self.interrupted = False
        self.num_threads = 0
        self.metric: str | tuple[str, ...] | None = None
        self.trained_with, self.to_come = None, {}
        self._objective: Objective = objective_from_dict(model.objective)
        self._forest: Forest | None = None

    def _take_file(self, model_file: str | os.PathLike[str] | bytes | bytearray | Booster) -> None:
        """Become the model of a file, with XGBoost's ways where it is one of XGBoost's, or that of a Booster."""
        if isinstance(model_file, Booster):
            self.take(model_file.to_model())
            model_file.hand_ways_to(self)
            return
        model, data = read_with_bytes(model_file)
        self.take(model)
        if is_of_dmatrix(data, model):
            self.is_xgboosts, self.stops_at_best = True, False

    def _take_params(self, params: Any) -> None:
        """Take parameters beside a model that is read, of which prediction looks at the number of threads alone."""
        checked = params if isinstance(params, Params) else Params.from_dict(params)
        self.num_threads = checked.num_threads
        others = [name for name in sorted(checked.given) if name not in ("num_threads", "verbosity")]
        if others:
            inform(f"without effect on a model that is read: {', '.join(others)}", checked.verbosity)

    @property
    def n_features(self) -> int:
        """Number of columns that the model was trained on."""
        return len(self.feature_names)

    @property
    def objective(self) -> Objective:
        """The objective: what turns raw scores into predictions."""
        return self._objective

    def with_objective(self, objective: Objective) -> Booster:
        """Return a Booster of the same trees whose scores another objective makes predictions of."""
        made = copy(self)
        made._objective, made._forest = objective, self.forest
        return made

    @property
    def kept_params(self) -> dict[str, Any]:
        """Those of the parameters that a file of the model has."""
        return getattr(self.params, "kept", self.params)

    @property
    def n_iterations(self) -> int:
        """Number of iterations."""
        return len(self.trees) // self.trees_per_iteration

    @property
    def trees_per_iteration(self) -> int:
        """Trees of an iteration: one an output, times `num_parallel_tree`."""
        return self.n_outputs * int(self.params.get("num_parallel_tree", 1))

    @property
    def averages_trees(self) -> bool:
        """Whether predictions are means over the trees, not sums: a random forest."""
        return bool(self.params.get("boosting") == "rf")

    def replace_trees(self, trees: Mapping[int, Tree]) -> None:
        """Put other trees in the place of some, by number."""
        for number, tree in trees.items():
            self.trees[number] = tree
        self._forest = None

    @property
    def forest(self) -> Forest:
        """The trees in the form that prediction uses; made when first asked for."""
        if self._forest is None or len(self._forest.trees) != len(self.trees):
            self._forest = Forest(self.trees, self.n_outputs, self.trees_per_iteration)
        return self._forest

    def __getitem__(self, which: int | slice) -> Booster:
        """Return some iterations as a model of their own: `booster[:10]`, `booster[5:]`, `booster[::2]`, `booster[-1]`.

        It has the same init_scores and parameters, and no best iteration: `booster[:k]` predicts what
        `predict(num_iteration=k)` does.
        """
        if isinstance(which, slice):
            chosen = range(self.n_iterations)[which]
        else:
            try:
                place = range(self.n_iterations)[which]
            except TypeError:
                raise ParameterError(f"booster[{which!r}]: pass a number or a range of iterations") from None
            except IndexError:
                raise IndexError(f"booster[{which}]: the model has {self.n_iterations} iterations") from None
            chosen = range(place, place + 1)
        size = self.trees_per_iteration
        trees = [tree for i in chosen for tree in self.trees[i * size : (i + 1) * size]]
        return self.hand_ways_to(Booster(replace(self.to_model(), trees=trees, best_iteration=0)))

    def hand_ways_to(self, made: Booster) -> Booster:
        """Let a Booster that was made of this one predict and count as this one does; returns it."""
        made.num_threads, made.is_xgboosts = self.num_threads, self.is_xgboosts
        made.stops_at_best, made.types = self.stops_at_best, self.types
        return made

    def __iter__(self) -> Iterator[Booster]:
        """Yield every iteration as a model of its own."""
        return (self[i] for i in range(self.n_iterations))

    @takes_peer_arguments(REFIT)
    def refit(
        self,
        data: Any,
        label: Any,
        decay_rate: float = 0.9,
        *,
        weight: Any = None,
        group: Any = None,
        qid: Any = None,
        init_score: Any = None,
        objective: Callable[..., Any] | None = None,
        **params: Any,
    ) -> Booster:
        """Return a model with the same splits whose leaf values are moved towards what new data would give.

            new value = decay_rate * old value + (1 - decay_rate) * value from the new data

        Trees are refitted one after the other, each at the scores of the refitted trees before it. A leaf that no new
        row reaches keeps its value, as far as monotone constraints allow, which hold in the new model too. The initial
        scores move alike, unless `init_score` is given. The result does not depend on the order of the rows. With
        `decay_rate=0` and the training data the model stays as it is, unless its trees were grown on a sample of the
        rows, or dropped.

        Parameters
        ----------
        data
            Table with the columns that the model was trained on, as for `predict`.
        label, weight, group, qid, init_score
            As for Dataset.
        decay_rate
            From 0 (the new data alone) to 1 (nothing changes).
        objective
            The function, where the model was trained with an objective function.
        **params
            Parameters by any of their names, as for LightGBM's method. Those of the growth of trees have no effect, and
            a line of the log names them; other values than in training of what leaf values depend on are an error.
        """
        check_params(self.kept_params, params)
        reader = self.checked_table(data)
        dataset = Dataset(reader, label=label, weight=weight, group=group, qid=qid, init_score=init_score)
        n_threads = resolve_threads(self.num_threads)
        with default_mode():
            made = Booster(refit(self.to_model(), self.forest, dataset, decay_rate, objective, n_threads))
        return self.hand_ways_to(made)

    def to_model(self) -> ModelData:
        """Return what its file holds; lists and trees are those of the Booster, not copies."""
        return ModelData(
            feature_names=self.feature_names,
            n_outputs=self.n_outputs,
            objective=self._objective.to_dict(),
            params=self.kept_params,
            init_scores=self.init_scores.tolist(),
            best_iteration=self.n_best,
            trees=self.trees,
            levels=self.levels,
            column_names=self.column_names,
            stops_at_best=self.stops_at_best,
            attributes=self._attributes,
            category_columns=self.category_columns,
        )

    def _part(self, num_iteration: int | None, start_iteration: int) -> Booster:
        """Return the model of some iterations, which are named as for `predict`; of all: this one."""
        start = whole_number(start_iteration, "start_iteration", 0)
        count = None if num_iteration is None else whole_number(num_iteration, "num_iteration", -sys.maxsize)
        if start == 0 and (count is None or count <= 0):
            return self
        last = self.n_used if count is None else start + count if count > 0 else self.n_iterations
        part = self[start:last]
        return without_start(part) if start > 0 else part

    @takes_peer_arguments(SAVE)
    def save_model(
        self, filename: str | os.PathLike[str], num_iteration: int | None = None, start_iteration: int = 0
    ) -> Booster:
        """Write the model to a file, or some iterations of it alone; returns self.

        Iterations are named as for `predict`. Some of them are a model without a best iteration, and later ones one
        that starts from 0, as `predict` has them. The file is one that LightGBM reads too, or XGBoost, where a DMatrix
        was trained on; the model itself is in an entry of its own (docs/exchange.md). `save` writes Hornbeam's format
        alone.
        """
        part = self._part(num_iteration, start_iteration)
        if format_of_name(filename) != HORNBEAM:
            part.save(filename)
        elif self.is_xgboosts:
            part.save_as_xgboost(filename)
        else:
            write_atomically(filename, part.text_for_lightgbm())
        return self

    @takes_peer_arguments(SAVE)
    def model_to_string(self, num_iteration: int | None = None, start_iteration: int = 0) -> str:
        """Return the text of the file that `save_model` writes; of a model of a DMatrix, Hornbeam's own."""
        part = self._part(num_iteration, start_iteration)
        return (part.to_bytes() if self.is_xgboosts else part.text_for_lightgbm()).decode()

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it from its file. skops asks for this: loading then checks everything, and trusts no other type."""
        return type(self), (self.to_bytes(),)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Make it from its arrays. pickle, cloudpickle and copy ask for this, and it is faster than the file.

        There and back, 300 trees of 63 leaves on one core of a Xeon: 0.05 s, and 0.46 s by the file.
        """
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_forest", "_objective", "_training", "_loop", "trained_with")
        state = {key: value for key, value in self.__dict__.items() if key not in left_out}
        return {**state, "objective": self._objective.to_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._objective = objective_from_dict(state.pop("objective"))
        self._forest = None
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return (
            f"<hornbeam.Booster: {self._objective.name}, {self.n_iterations} iterations, "
            f"{len(self.trees)} trees, {self.n_features} features>"
        )


def load(path: str | os.PathLike[str] | bytes | bytearray, fingerprint: str | None = None) -> Booster:
    """Read a model from a file of Hornbeam, LightGBM (text) or XGBoost (JSON, UBJ); its content says which one it is.

    Parameters
    ----------
    path
        The file, whatever its name ends with; or its bytes.
    fingerprint
        `Booster.fingerprint()` of the model that it must be; None: any. A model of another library has one, too, that
        of what Hornbeam makes of it.

    Raises
    ------
    ModelFormatError
        If the file is damaged, was edited, holds another model than expected, or holds what Hornbeam does not have
        (docs/exchange.md).
    """
    is_text = isinstance(fingerprint, str) and re.fullmatch("[0-9a-f]{64}", fingerprint) is not None
    if fingerprint is not None and not is_text:
        raise ParameterError(
            f"fingerprint={fingerprint!r}: must be 64 hexadecimal digits, as Booster.fingerprint() has"
        )
    return Booster(read_file(path, fingerprint))

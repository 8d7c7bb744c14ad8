"""A Booster that trains on, iteration by iteration: methods that lead to `training/live.py`.

`Booster(params, train_set)` and `train(..., keep_training_booster=True)` make such a Booster: it holds a training
beside its trees. Any other one has none, and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hornbeam.core.errors import ParameterError
from hornbeam.core.random_choices import uniform
from hornbeam.dataset.dmatrix import DMatrix
from hornbeam.model.rooms import room
from hornbeam.model.xgboost_face import evaluation_line
from hornbeam.params.params import whole_number
from hornbeam.trees.tree import refuse_linear

if TYPE_CHECKING:
    from typing_extensions import Self

    from hornbeam.trees.tree import Tree


class LiveModel:
    """Training by single iterations, as LightGBM's and XGBoost's Boosters have it; `Booster` is one."""

    _training: Any = None
    """A `hornbeam.training.live.LiveTraining`; None: the model has no training."""

    _loop: Any = None
    """The `hornbeam.training.loop.Loop` that grows the model now; None: none does."""

    def _begin_training(self, params: Any, train_set: Any) -> None:
        """Become an empty model of a training that `update` moves."""
        room("training.live").begin(self, params, train_set)

    trained_with: Any = None
    """The `Params` of the training that made the model, in the process that trained it."""

    to_come: Mapping[str, Any] = MappingProxyType({})
    """Parameters that `set_param` has set of a model without a training: `update` goes on with them."""

    @property
    def _under_way(self) -> Any:
        if self._training is None:
            raise ParameterError(
                "this Booster has no training data: pass them, update(train_set), make it by Booster(params, "
                "train_set) or train(..., keep_training_booster=True), or use train(..., init_model=booster)"
            )
        return self._training

    @property
    def train_set(self) -> Any:
        """The Dataset of a live Booster; None for any other one."""
        return None if self._training is None else self._training.train_set

    def update(self, train_set: Any = None, iteration: Any = None, fobj: Any = None) -> bool:
        """Train one iteration more.

        Parameters
        ----------
        train_set
            Other data to train this iteration and the following ones on; None: the data there are. A model that holds
            no training, one that `train` has returned or that was read, goes on with its parameters on these data.
        iteration
            Number of the iteration, as XGBoost's users pass it; the Booster counts itself. A function is `fobj`, which
            LightGBM's users pass here.
        fobj
            Function of (raw scores, dataset) that returns gradients and hessians, in the place of the objective. From
            then on the model is one of an objective function: it predicts raw scores.

        Returns
        -------
        bool
            Whether the training is at its end: no split gains anything any more, and no tree was added.
        """
        function = iteration if callable(iteration) else fobj
        return self._update(train_set, function)

    def _update(self, train_set: Any, function: Any) -> bool:
        if self._training is None and train_set is not None:
            room("training.live").go_on(self, train_set)
        ended: bool = self._under_way.update(train_set, function)
        return ended

    def boost(self, train_set: Any, iteration: Any = None, grad: Any = None, hess: Any = None) -> bool:
        """Train one iteration more by gradients and hessians that were computed already, as XGBoost's Booster does.

        grad, hess  (n_rows,) or (n_rows, n_outputs), at the scores of the model as it is
        """
        if grad is None or hess is None:
            raise ParameterError("boost needs gradients and hessians: boost(train_set, iteration, grad, hess)")
        return self._update(train_set, lambda scores, dataset: (grad, hess))

    def rollback_one_iter(self) -> Self:
        """Take the last iteration back; returns self."""
        self._under_way.rollback()
        return self

    def add_valid(self, data: Any, name: str) -> Self:
        """Add a Dataset that `eval_valid` evaluates, or, in a callback of `train`, that training does; returns self."""
        (self._under_way if self._loop is None else self._loop).add_valid(data, name)
        return self

    def set_train_data_name(self, name: str) -> Self:
        """Set the name that the training set has in evaluations; returns self."""
        self._under_way.training_name = name
        return self

    def eval_train(self, feval: Any = None) -> list[tuple[str, str, float, bool]]:
        """Evaluate the training set: tuples (name of the set, metric, value, higher_is_better).

        A live Booster, or in a callback of `train`, where it is as of the iteration at hand.
        """
        if self._loop is not None:
            return self._loop.evaluate(self, True, feval)  # type: ignore[no-any-return]
        training = self._under_way
        return training.evaluate(training.train_set, training.training_name, feval)  # type: ignore[no-any-return]

    def eval_valid(self, feval: Any = None) -> list[tuple[str, str, float, bool]]:
        """Evaluate every set that was added by `add_valid`, or is in `valid_sets`; tuples as of `eval_train`."""
        if self._loop is not None:
            return self._loop.evaluate(self, False, feval)  # type: ignore[no-any-return]
        return self._under_way.evaluate_valid(feval)  # type: ignore[no-any-return]

    def eval(self, data: Any, name: str = "eval", feval: Any = None, iteration: int = 0) -> Any:
        """Evaluate a Dataset; tuples as of `eval_train`, but for a DMatrix the line of text that XGBoost returns.

        The metrics are those of the training, and the functions in feval. In a training the set is added to the
        validation sets if it is new.
        """
        if isinstance(feval, int):  # XGBoost's third argument is the number of the iteration
            feval, iteration = None, feval
        results = self.evaluate(data, name, feval)
        return evaluation_line(iteration, results) if isinstance(data, DMatrix) else results

    def evaluate(self, data: Any, name: str = "eval", feval: Any = None) -> list[tuple[str, str, float, bool]]:
        """Evaluate a Dataset by the metrics of the training: tuples as of `eval_train`."""
        if self._training is not None:
            return self._training.evaluate(data, name, feval)  # type: ignore[no-any-return]
        return room("training.finished_models").evaluate_model(self, data, name, feval)  # type: ignore[no-any-return]

    def reset_parameter(self, params: Mapping[str, Any]) -> Self:
        """Set parameters of the iterations to come, of a live Booster or in a callback of `train`; returns self."""
        (self._under_way if self._loop is None else self._loop).reset_parameter(params)
        return self

    def free_dataset(self) -> Self:
        """Let go of the training and its data: the Booster predicts, and trains no more; returns self."""
        if self._training is not None:
            self._training.close()
            self._training = None
        return self

    def reset(self) -> Self:
        """Let go of the training and its data, as `free_dataset`; `update` with data goes on; returns self."""
        params = self.trained_with if self._training is None else self._training.params
        self.free_dataset()
        self.trained_with = params
        return self

    def get_leaf_output(self, tree_id: int, leaf_id: int) -> float:
        """Return the output of a leaf, with the learning rate applied, by the numbers of tree and leaf."""
        tree = self._leaf_place(tree_id, leaf_id)
        return float(tree.leaf_value[leaf_id])

    def set_leaf_output(self, tree_id: int, leaf_id: int, value: float) -> Self:
        """Set the output of a leaf; returns self.

        What is trained afterwards is trained at the scores of the changed model.
        """
        tree = self._leaf_place(tree_id, leaf_id)
        refuse_linear([tree], "set_leaf_output")
        values = tree.leaf_value.copy()
        values[leaf_id] = float(value)
        self.replace_trees({tree_id: tree.with_leaf_values(values)})
        if self._training is not None:
            self._training.is_stale = True
        return self

    def shuffle_models(self, start_iteration: int = 0, end_iteration: int = -1) -> Self:
        """Put iterations in another order, always the same one; returns self.

        Predictions change by rounding alone. Iterations after the best one, which predictions do not use, are gone.

        start_iteration, end_iteration  which ones: from the first to before the second; 0 or less: to the last
        """
        if self.n_used < self.n_iterations:
            del self.trees[self.n_used * self.trees_per_iteration :]
        last = whole_number(end_iteration, "end_iteration", -sys.maxsize, self.n_iterations)
        last = self.n_iterations if last <= 0 else last
        first = whole_number(start_iteration, "start_iteration", 0, last)
        order = first + np.argsort(uniform(last, np.arange(last - first)))
        step, old = self.trees_per_iteration, list(self.trees)
        pairs = zip(range(first, last), order.tolist(), strict=True)
        self.replace_trees({to * step + i: old[at * step + i] for to, at in pairs for i in range(step)})
        if self._training is not None:
            self._training.is_stale = True
        return self

    def free_network(self) -> Self:
        """Return self: workers are connected for a training alone."""
        return self

    def _leaf_place(self, tree_id: int, leaf_id: int) -> Tree:
        """Return the tree of a leaf; ParameterError where there is none."""
        if not self.trees:
            raise ParameterError("the model has no trees, and so no leaves")
        tree = self.trees[whole_number(tree_id, "tree_id", 0, len(self.trees) - 1)]
        whole_number(leaf_id, "leaf_id", 0, tree.n_leaves - 1)
        return tree

    if TYPE_CHECKING:  # what Booster has
        trees: list[Tree]

        @property
        def n_used(self) -> int:
            """Number of iterations that predictions use."""

        @property
        def n_iterations(self) -> int:
            """Number of iterations."""

        @property
        def trees_per_iteration(self) -> int:
            """Trees of an iteration."""

        def replace_trees(self, trees: Mapping[int, Tree]) -> None:
            """Put other trees in the place of some, by number."""

"""The boosting loop, of one training (`train`) or of several in step (`cv`).

    callbacks before the iteration
    every member grows its trees                       run.py
    every metric_freq iterations: evaluate             results of the members are combined: means over folds
    callbacks after the iteration                      early stopping is one of them
    hooks after the iteration                          checkpoints are one of them

Iterations that a checkpoint holds already are gone through too: their evaluations come from the file, and only
callbacks that ask for it (`replayed`) see them. So a training that was interrupted ends as one in one go does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hornbeam.core.errors import ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.core.log import inform, warn
from hornbeam.params.params import BY_NAME, canonical_names
from hornbeam.training.callbacks import RESETTABLE, Callback, CallbackEnv, EarlyStopException, LoopEnv, close, finish
from hornbeam.training.checkpoints import Stopped, enter_history
from hornbeam.training.convergence import has_converged, lacks_rows
from hornbeam.training.evaluations import Evaluation
from hornbeam.training.function_calls import MetricFunction, metric_functions
from hornbeam.training.run import TrainingRun
from hornbeam.training.state import TrainingState

Combine = Callable[[list[list[Evaluation]]], list[Any]]
"""Evaluations of every member -> what callbacks see."""


class Member:
    """A training in the loop.

    Attributes
    ----------
    has_ended
        Whether it learns nothing any more.
    n_there
        Iterations of the model at the start: those of an init_model, and those that a checkpoint holds already.
    is_eager
        Whether trees are entered into the model at once, since somebody looks at it, and not while a device grows the
        next.
    """

    def __init__(self, run: TrainingRun, is_eager: bool = False) -> None:
        self.run = run
        self.has_ended = False
        self.is_eager = is_eager
        self.n_there = run.state.booster.n_iterations
        self._results_there: dict[int, list[Evaluation]] = {}

    @property
    def state(self) -> TrainingState:
        """The state of the training."""
        return self.run.state

    def begin(self, n_rounds: int, functions: list[MetricFunction]) -> int:
        """Check the checkpoint, if there is one; returns the number of the first iteration, before any resuming."""
        checkpoints, booster = self.state.checkpoints, self.state.booster
        if checkpoints is None:
            return self.n_there
        begin = checkpoints.begin(n_rounds, self.run.describe_evaluation(functions), booster)
        self._results_there = checkpoints.results_by_iteration
        if self.n_there > begin:
            text = f"going on after {self.n_there - begin} iterations of the checkpoint"
            inform(text, self.state.params.verbosity)
        return begin

    def boost(self, env: CallbackEnv) -> None:
        """Run an iteration, unless the checkpoint has it or the training has ended."""
        if self.has_ended or env.iteration < self.n_there:
            return
        state = self.state
        with default_mode():
            state.change(env.changes)
            trees = self.run.boost_once(env.learning_rate)
            self.has_ended = has_converged(state.params, state.changes, trees)
            state.finish_some_trees()  # those of iterations before, where no device gave time for them
        if not self.has_ended:
            state.keep(trees)
            if self.is_eager:
                state.finish_trees()

    def evaluate(self, iteration: int, functions: list[MetricFunction]) -> list[Evaluation]:
        """Evaluate after an iteration, or return what the checkpoint says of it."""
        if not self.state.evaluated and self.state.checkpoints is None:
            return []
        if iteration < self.n_there:
            results = self._results_there.get(iteration, [])
            enter_history(self.state.booster, results)
            return results
        with default_mode():
            results = self.run.evaluate(functions)
        if self.state.checkpoints is not None and not self.has_ended:
            self.state.checkpoints.evaluated(iteration, results)
        return results

    def cut(self, n_kept: int) -> None:
        """End the model after its first iterations: a checkpoint may have brought more of them."""
        self.state.finish_trees()
        booster = self.state.booster
        del booster.trees[n_kept * booster.trees_per_iteration :]


class Hook(Protocol):
    """What happens besides the loop's own work."""

    def after_iteration(self, loop: Loop) -> None:
        """Follow an iteration that is done, evaluation and callbacks included."""

    def stopped(self, loop: Loop, stop: EarlyStopException) -> None:
        """Follow the end of the training by a callback."""

    def interrupted(self, loop: Loop) -> bool:
        """Follow Ctrl-C; returns whether the training ends well all the same."""

    def ended(self, loop: Loop) -> None:
        """Follow the last iteration."""


class Loop:
    """The iterations of some trainings in step.

    Parameters
    ----------
    members
        The trainings; parameters are those of the first.
    model
        What callbacks see of the model: a Booster, or a CVBooster.
    callbacks
        In their order, see callbacks.prepare.
    functions
        Metric functions.
    combine
        What makes one list of evaluations of those of all members.
    hooks
        Called in their order.

    Attributes
    ----------
    evaluated
        Iterations that were evaluated.
    calling
        The callback that is being called; None: none is.
    """

    def __init__(
        self,
        members: list[Member],
        model: Any,
        n_rounds: int,
        callbacks: list[Callback],
        functions: list[MetricFunction],
        combine: Combine,
        hooks: Sequence[Hook],
    ) -> None:
        self.members, self.callbacks, self.functions = members, callbacks, functions
        self.combine, self.hooks = combine, hooks
        self.evaluated: list[int] = []
        self.calling: Callback | None = None
        self._reset: dict[str, Any] = {}  # by name, what callbacks have set for the iterations to come
        state = members[0].state
        training = frozenset(entry.name for entry in state.evaluated if entry.is_learned)
        begin, *_ = [member.begin(n_rounds, functions) for member in members]
        self.params = state.params
        self.env = LoopEnv(
            model, begin, begin, begin + n_rounds, state.params.learning_rate, training_names=training,
            params={**state.params.to_dict(), "num_iterations": n_rounds},
        )  # fmt: skip
        self.env.complete_model = self._complete_model
        self._before = [callback for callback in callbacks if getattr(callback, "before_iteration", False)]
        self.after = [callback for callback in callbacks if not getattr(callback, "before_iteration", False)]

    def run(self) -> None:
        """Run the iterations, to the end, until a callback stops them, or Ctrl-C."""
        states = [member.state for member in self.members]
        for state in states:
            state.grower.while_waiting = None if self._before else state.finish_some_trees
        for state in states:
            state.booster._loop = self
        try:
            self._iterate()
            for hook in self.hooks:
                hook.ended(self)
        except EarlyStopException as stop:
            for member in self.members:
                member.cut(self.env.iteration + 1)
            for hook in self.hooks:
                hook.stopped(self, stop)
        except KeyboardInterrupt:
            for state in states:
                state.finish_trees()
            ends_well = [hook.interrupted(self) for hook in self.hooks]
            if not any(ends_well):
                raise
        finally:
            for state in states:
                state.booster._loop = None
                state.grower.while_waiting = None
                state.finish_trees()
            self.env.complete_model = None  # so that nothing of the training waits for the collection of garbage
            close(self.callbacks)

    def _iterate(self) -> None:
        env, members = self.env, self.members
        for iteration in range(env.begin_iteration, env.end_iteration):
            env.begin(iteration, self.params.learning_rate)
            self._take_reset()
            is_there = all(iteration < member.n_there for member in members)
            self._call(self._before, is_there)
            for member in members:
                member.boost(env)
            have_ended = all(member.has_ended for member in members)
            is_due = iteration == env.end_iteration - 1 or (iteration + 1) % self.params.metric_freq == 0
            if (is_due and not have_ended) or (have_ended and not self.evaluated):
                env.evaluation_result_list = self.combine(
                    [member.evaluate(iteration, self.functions) for member in members]
                )
                self.evaluated.append(iteration)
            if have_ended:
                say, text = inform, "no split gains anything any more"
                if iteration == 0:
                    text = (
                        "no split gains anything, or min_sum_hessian_in_leaf="
                        f"{self.params.number('min_sum_hessian_in_leaf'):g}, min_data_in_leaf="
                        f"{self.params.min_data_in_leaf}, min_gain_to_split={self.params.min_gain_to_split:g} forbid it"
                    )
                state = members[0].state
                if lacks_rows(self.params, state.train_set.n_rows):
                    n_rows, least = state.train_set.n_rows, self.params.min_data_in_leaf
                    say, text = warn, f"{n_rows} rows are too few for min_data_in_leaf={least}, lower it"
                say(f"training ends after {iteration} iterations: {text}", self.params.verbosity)
                if env.evaluation_result_list:
                    self._call(self.after, is_there)
                finish(self.after)
                return
            self._call(self.after, is_there)
            for hook in self.hooks:
                hook.after_iteration(self)

    def _complete_model(self) -> None:
        """Enter all trees into the models now, and from now on at once: a callback looks at them."""
        for member in self.members:
            if not member.is_eager:
                member.is_eager = True
                member.state.finish_trees()

    def add_valid(self, data: Any, name: str) -> None:
        """Evaluate another data set from this iteration on."""
        if len(self.members) > 1 or self.members[0].state.checkpoints is not None:
            raise ParameterError(
                "add_valid in a callback of cv, or beside checkpoint=: all evaluations must be known when it begins; "
                "pass the set in valid_sets="
            )
        with default_mode():
            self.members[0].state.finish_trees()
            entry = self.members[0].run.add_new_set(name, data)
        if entry.is_training:
            self.env.training_names |= {entry.name}

    def evaluate(self, booster: Any, is_training: bool, feval: Any) -> list[Evaluation]:
        """Evaluate the training set of a member, or its validation sets, as they are now, beside what is due.

        booster  that of the member
        """
        member = next(one for one in self.members if one.state.booster is booster)
        if self.env.iteration < member.n_there:
            raise ParameterError(
                "eval_train and eval_valid: this iteration is that of a checkpoint, which has no scores"
            )
        with default_mode():
            return member.run.evaluate_now(is_training, metric_functions(feval))

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Take other values of parameters for the iterations to come, and for this one, if it has not begun."""
        changed = canonical_names(params)
        wrong = [name for name in changed if name not in RESETTABLE]
        if wrong:
            raise ParameterError(
                f"{wrong[0]} cannot change while `train` runs: a callback can set {', '.join(RESETTABLE)}; for other "
                "changes train on with init_model="
            )
        if any(member.state.checkpoints for member in self.members):
            raise ParameterError(
                f"{', '.join(changed)} set by a callback beside checkpoint=: a training that goes on from the file "
                "would not know of it; pass callbacks=[hornbeam.reset_parameter(...)], a schedule"
            )
        self._reset |= {name: BY_NAME[name].check(value) for name, value in changed.items()}
        self._take_reset()

    def _take_reset(self) -> None:
        """Enter what was reset into the iteration at hand."""
        self.env.learning_rate = self._reset.get("learning_rate", self.env.learning_rate)
        self.env.changes |= {name: value for name, value in self._reset.items() if name != "learning_rate"}

    def _call(self, callbacks: list[Callback], is_there: bool) -> None:
        """Call callbacks; those that are replayed alone, where the iteration was done before."""
        if not callbacks:
            return
        for self.calling in callbacks:
            if not is_there or getattr(self.calling, "replayed", False):
                self.calling(self.env)
        self.calling = None


class CheckpointHook:
    """Writes the checkpoints of all members, and stops where they say that the training had been stopped."""

    def after_iteration(self, loop: Loop) -> None:
        """Note that an iteration is done, and write the checkpoints that are due."""
        if not any(member.state.checkpoints for member in loop.members):
            return
        iteration = loop.env.iteration
        for member in loop.members:
            state, checkpoints = member.state, member.state.checkpoints
            if checkpoints is None or iteration < member.n_there or member.has_ended:
                continue
            changes_trees = state.params.boosting == "dart"
            if changes_trees:
                state.finish_trees()
            if checkpoints.done(state.booster, state.n_kept, changes_trees):
                state.finish_trees()
                checkpoints.write(state.booster)
        self._stop_again(loop)

    @staticmethod
    def _stop_again(loop: Loop) -> None:
        """Stop after the last iteration of the checkpoints, where a callback that is not replayed had done so."""
        files = [member.state.checkpoints for member in loop.members]
        saved = [None if file is None or file.saved is None else file.saved.stopped for file in files]
        last = max(member.n_there for member in loop.members) - 1
        if saved[0] is not None and all(saved) and loop.env.iteration == last:
            raise EarlyStopException(saved[0].best_iteration, saved[0].best_score)

    def stopped(self, loop: Loop, stop: EarlyStopException) -> None:
        """Write what there is, and that it is the end unless the callback will see it again."""
        is_replayed = loop.calling is not None and getattr(loop.calling, "replayed", False)
        for member in loop.members:
            checkpoints, booster = member.state.checkpoints, member.state.booster
            if checkpoints is not None:
                checkpoints.cut(booster.n_iterations)
                checkpoints.stopped = None if is_replayed else Stopped(stop.best_iteration, stop.best_score)
                checkpoints.write(booster)

    def interrupted(self, loop: Loop) -> bool:
        """Write what is done; Ctrl-C goes on."""
        self.ended(loop)
        return False

    def ended(self, loop: Loop) -> None:
        """Write what is done."""
        for member in loop.members:
            state = member.state
            state.finish_trees()
            if state.checkpoints is not None and state.booster.n_iterations > loop.env.begin_iteration:
                state.checkpoints.write(state.booster)

"""Watchers: what sees every `train` of the process, those of the estimators too, without being passed to any.

A companion that keeps a record of trainings enters a function in `WATCHERS`. It changes no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from hornbeam.model.booster import Booster
from hornbeam.params.params import Params
from hornbeam.training.callbacks import CallbackEnv


class Watch(Protocol):
    """The watch over one training: a callback that is told of the end too."""

    def __call__(self, env: CallbackEnv) -> None:
        """Follow an iteration."""

    def finished(self, booster: Booster) -> None:
        """Follow the end of a training that gave a model."""

    def failed(self) -> None:
        """Follow an error."""


WATCHERS: list[Callable[[Params, int], Watch]] = []
"""Functions of the parameters and the number of iterations; each is called before a training begins."""


@contextmanager
def watched(params: Params, n_rounds: int) -> Iterator[list[Watch]]:
    """Begin the watches over a training; an error in it is told to them."""
    watches: list[Watch] = []
    try:
        watches.extend(begin(params, n_rounds) for begin in WATCHERS)
        yield watches
    except BaseException:
        for watch in watches:
            watch.failed()
        raise

"""Scores and gradients of a training as arrays of CuPy, for functions of the user's own; see device_functions.py.

Functions run in CuPy's current stream, the engine in a stream of its own. An event in either direction orders them, and
nobody waits on the host:

    engine   ... scores ──event──┐                           ┌── quantize ...
    CuPy                         └─▶ copy, function, check, store ──event──┘
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.losses.gradients import DeviceGradients
from hornbeam.backends.gpu.metrics.scored_sets import DeviceSets
from hornbeam.backends.gpu.predict import transform
from hornbeam.backends.gpu.runtime.runtime import ArrayBridge, Buffer
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.columns import DeviceColumn
from hornbeam.data.device_arrays import as_cupy, check_device, device_of
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import Objective
from hornbeam.trees.records import ForestMean


class FindScores(Protocol):
    """The engine's scores."""

    def __call__(self, valid: int) -> tuple[Buffer, int]:
        """Return the buffer of a validation set's scores (-1: the training set's), and the number of outputs."""


class CupyExchange:
    """What protocol.ArrayExchange says, with CuPy.

    Parameters
    ----------
    bridge
        The runtime's.
    workspace, gradients, find_scores
        The engine's.
    """

    def __init__(
        self, bridge: ArrayBridge, workspace: Workspace, gradients: DeviceGradients, find_scores: FindScores
    ) -> None:
        self.xp, self.device = bridge.xp, bridge.device
        self._bridge = bridge
        self._workspace = workspace
        self._gradients = gradients
        self._find_scores = find_scores
        self._sets = DeviceSets(workspace)
        self._columns: dict[tuple[str, int], tuple[NDArray[Any] | DeviceColumn, Any]] = {}

    def scope(self) -> AbstractContextManager[None]:
        """Let CuPy come after the launches so far, and before those to come."""
        return self._bridge.scope()

    def scores(self) -> Any:
        """Return a copy of the training scores, as functions take them; within `scope`."""
        buffer, n_outputs = self._find_scores(-1)
        raw = self._bridge.array_of(buffer, (n_outputs, self._workspace.n_rows), np.float64)
        return raw[0].copy() if n_outputs == 1 else raw.T.copy()

    def predictions(self, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None) -> Any:
        """Return predictions of a data set, as functions take them; outside of `scope`, for kernels make them."""
        buffer, n_outputs = self._find_scores(valid)
        held = self._sets.find(dataset, valid, buffer, n_outputs)
        raw = self._sets.raw_scores(held, forest)
        with self.scope():
            made = self._bridge.array_of(raw, (n_outputs, held.n_rows), np.float64).copy()
        transform(self._workspace.runtime, objective, made, n_outputs, held.n_rows)
        with self.scope():
            return made[0] if n_outputs == 1 else made.T.copy()

    def array(self, values: Any, name: str) -> Any:
        """Return anything like an array as CuPy's, on this device; within `scope`."""
        found = device_of(values, name)
        if found is None:
            host = np.asarray(values)
            if host.dtype.kind not in "fiub":
                raise TypeError(f"dtype is {host.dtype}")
            return self.xp.asarray(host.astype(np.float64))
        check_device(found, self._bridge.device, name)
        return values if isinstance(values, self.xp.ndarray) else as_cupy(values, name)

    def column(self, name: str, valid: int, values: NDArray[Any] | DeviceColumn) -> Any:
        """Return a column of a data set on the device, where metrics may have brought it already; within `scope`."""
        known = self._columns.get((name, valid))
        if known is None or known[0] is not values:
            self._bridge.before_launches()
            buffer = self._sets.column(name, valid, values)
            self._bridge.after_launches()  # the upload is one
            known = values, self._bridge.array_of(buffer, values.shape, values.dtype)
            self._columns[name, valid] = known
        return known[1]

    def set_gradients(self, gradient: Any, hessian: Any) -> None:
        """Take gradients, which have been checked; within `scope`.

        gradient, hessian  CuPy float64 (n_rows,) or (n_rows, n_outputs)  in
        """
        n_rows = self._workspace.n_rows
        n_outputs = gradient.size // n_rows
        for buffer, values in zip(self._gradients.make_room(n_outputs), (gradient, hessian), strict=True):
            self._bridge.array_of(buffer, (n_outputs, n_rows), np.float64)[...] = values.reshape(n_rows, n_outputs).T

    def close(self) -> None:
        """Forget the arrays: memory is free when nobody knows it any more."""
        self._columns = {}
        self._sets.close()

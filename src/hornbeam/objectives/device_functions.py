"""Objectives and metrics of the user's own that work on arrays of the device that trains: `on_device`.

    @hb.on_device
    def squared(scores, data):
        return scores - data.label, data.xp.ones_like(scores)

On `cuda` such a function is given CuPy arrays, elsewhere NumPy arrays; `DeviceData` is what it sees of the Dataset.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.data.columns import DeviceColumn
from hornbeam.data.device_arrays import host_array
from hornbeam.data.fields import FieldGetters, Fields

F = TypeVar("F", bound=Callable[..., Any])

MARK = "_hornbeam_on_device"
"""Attribute of functions that are marked: it travels with them through pickle, copies and `functools.wraps`."""


def on_device(function: F) -> F:
    """Mark an objective or metric function: it is given arrays of the device that trains.

    Without the mark, functions are called with NumPy arrays on every device, and on a GPU scores and gradients travel
    through the host. With it, scores and predictions are CuPy arrays on `cuda` and NumPy arrays on all other devices,
    and the second argument is a `DeviceData`: `label`, `weight`, `init_score`, `group` and `query_boundaries` are
    arrays of that kind too, and `xp` is the module that made them, `cupy` or `numpy`. (The functions of estimators,
    which take y_true, y_pred and perhaps weights, are given all of these as such arrays.) So one function serves every
    device. Use as a decorator, or where the function is passed: `{"objective": hb.on_device(squared)}`.

    The function runs in CuPy's current stream of the thread that trains, with the device that trains current. It owns
    the scores, which are a copy; labels and weights are not copied. Gradients are checked and stay on the device.

    Parameters
    ----------
    function
        As for `train`: (scores, data) -> (gradient, hessian), or (predictions, data) -> (name, value,
        higher_is_better). It is marked itself; what takes no attributes, such as a bound method, is wrapped.

    Returns
    -------
    The function, marked.
    """
    if not callable(function):
        raise ParameterError(f"on_device takes a function, not {type(function).__name__}")
    if isinstance(function, type):
        raise ParameterError(f"on_device takes a function, not the class {function.__name__}; mark its __call__")
    try:
        setattr(function, MARK, True)
    except (AttributeError, TypeError):
        return _Marked(function)  # type: ignore[return-value]
    return function


class _Marked:
    """A marked callable, around one that takes no attributes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        setattr(self, MARK, True)

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def is_on_device(function: object) -> bool:
    """Say whether a function is marked by `on_device`, or is a partial application or an instance of what is."""
    while isinstance(function, functools.partial) and not hasattr(function, MARK):
        function = function.func
    own = getattr(type(function), "__call__", None)  # noqa: B004  (of an instance, its mark and not whether it is there)
    return bool(getattr(function, MARK, False) or getattr(own, MARK, False))


class Arrays(Protocol):
    """Arrays of one kind of memory, for functions."""

    @property
    def xp(self) -> ModuleType:
        """The module of the arrays, numpy or cupy."""

    def array(self, values: Any, name: str) -> Any:
        """Return anything like an array as an array of this kind; TypeError and ValueError where that cannot be."""

    @property
    def device(self) -> str:
        """Where they are, "cpu" or "cuda:0"."""

    def column(self, name: str, valid: int, values: NDArray[Any] | DeviceColumn) -> Any:
        """Return a column of a data set (validation set `valid`, -1: the training set), copied at most once."""


class HostArrays:
    """NumPy's arrays."""

    xp = np
    device = "cpu"

    def array(self, values: Any, name: str) -> Any:
        """Return anything like an array as NumPy's."""
        return host_array(values, name)

    def column(self, name: str, valid: int, values: NDArray[Any] | DeviceColumn) -> Any:
        """Return the column itself."""
        return values


HOST_ARRAYS = HostArrays()


class DeviceData(FieldGetters[Any, Any]):
    """A Dataset as functions that are marked by `on_device` see it; everything that is not here is the Dataset's.

    Attributes
    ----------
    xp
        The module of the arrays: `cupy` on `cuda`, else `numpy`.
    dataset
        The Dataset, whose own arrays are in host memory.
    """

    _holder = "data on the device"

    def __init__(self, dataset: Fields, arrays: Arrays = HOST_ARRAYS, valid: int = -1) -> None:
        self.dataset = dataset
        self.xp: Any = arrays.xp
        self._arrays = arrays
        self._valid = valid

    def _column(self, name: str) -> Any:
        given = name in ("label", "weight", "init_score")
        values = self.dataset.column(name, self._arrays.device) if given else getattr(self.dataset, name)
        return None if values is None else self._arrays.column(name, self._valid, values)

    @property
    def label(self) -> Any:
        """The labels, float64 (n_rows,), or None."""
        return self._column("label")

    @property
    def weight(self) -> Any:
        """The weights, float64 (n_rows,), or None."""
        return self._column("weight")

    @property
    def init_score(self) -> Any:
        """The initial scores, float64 (n_outputs, n_rows), or None."""
        return self._column("init_score")

    @property
    def group(self) -> Any:
        """Sizes of the queries, int64 (n_queries,), or None."""
        return self._column("group")

    @property
    def query_boundaries(self) -> Any:
        """Rows where queries begin, and the number of rows, int64 (n_queries + 1,), or None."""
        return self._column("query_boundaries")

    def array(self, values: Any, name: str = "the array") -> Any:
        """Return anything like an array as an array of the device."""
        return self._arrays.array(values, name)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset" or name.startswith("__"):  # not there yet, while a copy is made
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __repr__(self) -> str:
        return f"<data on the device for {self.xp.__name__}, {self.dataset!r}>"

"""Targets of estimators that are on a CUDA device: classes are found, and given back, without a copy of the rows.

Arrays are CuPy's here, in and out. What they are worked on with is CuPy, in its current stream, and everything is
waited for before it is given away: the engine has a stream of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.columns import find_facts
from hornbeam.core.errors import DataError
from hornbeam.data.columns import check_label
from hornbeam.data.device_arrays import as_cupy, finish, to_host


def read_target(y: Any) -> Any:
    """Return a target on a CUDA device, one finite number a row, as CuPy's (n_rows,); not copied."""
    array = as_cupy(y, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"y must have one dimension, not shape {tuple(array.shape)}; pass one number a row")
    if len(array) == 0:
        raise DataError("y is empty; pass one number a row")
    check_label(array, len(array), find_facts, "y")
    return array


def find_classes(y: Any) -> tuple[NDArray[Any], Any]:
    """Return the classes of a target, sorted, in host memory, and each row's place among them, on the device.

    y        CuPy (n_rows,)   in   finite numbers
    places   CuPy (n_rows,)   out  y itself where the classes are 0 and 1
    """
    import cupy

    column = check_label(y, len(y), find_facts, "y")
    facts = getattr(column, "facts", None)
    if facts is not None and facts.all_whole and (facts.smallest, facts.largest) == (0.0, 1.0):
        return np.array([0, 1], y.dtype), y
    if y.dtype.kind == "f" and facts is not None and not facts.all_whole:
        raise DataError("y has numbers that are not whole, so they are no classes; use HornbeamRegressor")
    with y.device:
        # sorting has no truth values
        classes, places = cupy.unique(y.astype(np.uint8) if y.dtype.kind == "b" else y, return_inverse=True)
        places = places.reshape(-1)
    finish(places)
    return to_host(classes).astype(y.dtype), places


def places_among(y: Any, classes: NDArray[Any]) -> Any:
    """Return each row's place among classes that are known; DataError where one is not among them.

    y        CuPy (n_rows,)      in
    classes  NumPy (n_classes,)  in   sorted
    """
    import cupy

    with y.device:
        known = cupy.asarray(classes)
        places = cupy.minimum(cupy.searchsorted(known, y.astype(known.dtype)), len(classes) - 1)
        wrong = known[places] != y
        n_wrong = int(wrong.sum())
        if n_wrong:
            first = y[int(wrong.argmax())].item()
            raise DataError(f"there are classes that fit has not seen ({first!r}); leave these rows out")
    finish(places)
    return places


def probabilities(result: Any, n_classes: int, divide: bool) -> Any:
    """Return the probability of every class, CuPy float64 (n_rows, n_classes), from what a Booster predicts.

    result  CuPy (n_rows,): of the second of two classes; or (n_rows, n_classes)
    divide  by their sum
    """
    import cupy

    with result.device:
        if n_classes == 1:
            made = cupy.ones((len(result), 1))
        elif result.ndim == 1:
            made = cupy.stack((1.0 - result, result), axis=1)
        else:
            made = divided_by_sum(result) if divide else result
    finish(made)
    return made


def divided_by_sum(values: Any) -> Any:
    """Return the numbers of every row divided by their sum, which is formed in their order; NumPy's or CuPy's."""
    total = values[:, 0]
    for k in range(1, values.shape[1]):
        total = total + values[:, k]
    return values / total[:, None]


def classes_of(probability: Any, classes: NDArray[Any]) -> Any:
    """Return the class of the highest probability of every row: the first of equal ones.

    probability  CuPy (n_rows, n_classes)  in
    classes      NumPy (n_classes,)        in

    On the device, unless classes are no numbers: then a NumPy array.
    """
    import cupy

    with probability.device:
        best = probability.argmax(axis=1)
        if classes.dtype.kind not in "fiub":
            chosen: NDArray[Any] = classes[to_host(best)]
            return chosen
        made = cupy.asarray(classes)[best]
    finish(made)
    return made

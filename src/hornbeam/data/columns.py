"""One number a row: labels, weights and initial scores, as they are given, checked once.

What is in host memory becomes a float64 copy. What lies on a CUDA device stays there as a `DeviceColumn`: it is checked
and read where it is, and copied to the host only when somebody needs it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, DeviceError
from hornbeam.core.lazy import lazy
from hornbeam.data.device_arrays import as_cupy, device_of, finish, host_array, to_host
from hornbeam.data.masked_arrays import is_masked
from hornbeam.data.queries import sizes_of_groups, sizes_of_ids

FloatArray = NDArray[np.float64]

LARGEST_LABEL = 1e38
"""Labels beyond this are refused: their squares and sums would leave the range of float64. So are initial scores."""

LARGEST_WEIGHT, LEAST_WEIGHT = 1e38, 1e-38
"""The largest weight of a Dataset must lie between: squares of weighted gradients are in the range of float64 then."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the numbers of a column are like.

    n           numbers
    all_finite  without NaN and infinite ones; the others speak of the finite ones alone
    all_whole   without fractions
    n_nonzero, n_positive
    smallest, largest
    """

    n: int
    all_finite: bool
    all_whole: bool
    n_nonzero: int
    n_positive: int
    smallest: float
    largest: float

    def lie_in(self, domain: str, n_classes: int = 0) -> bool:
        """Say whether the numbers lie in a domain of labels: see `Objective.labels`."""
        ends = {
            "real": (-np.inf, np.inf), "nonnegative": (0.0, np.inf), "positive": (np.nextafter(0.0, 1.0), np.inf),
            "unit": (0.0, 1.0), "binary": (0.0, 1.0), "classes": (0.0, n_classes - 1.0),
        }  # fmt: skip
        low, high = ends[domain]
        fits = low <= self.smallest and self.largest <= high
        return fits and (self.all_whole or domain not in ("binary", "classes"))


class DeviceColumn:
    """A column in the memory of a CUDA device, neither copied nor changed.

    Parameters
    ----------
    array
        CuPy array of real numbers, (n_rows,) or (n_outputs, n_rows), any strides. Nobody writes to it meanwhile.
    find_facts
        Function that looks at the numbers on the device; None: nobody will ask for `facts`.
    value_bytes
        Of a number where an engine takes a copy: 8, float64; 1, of labels 0 and 1.

    Attributes
    ----------
    device
        "cuda:0", ...
    shape, ndim
        Of the array.
    dtype
        float64, as which kernels and the host read it.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, array: Any, find_facts: FindFacts | None = None, value_bytes: int = 8) -> None:
        self.array = array
        self._find_facts = find_facts
        self.value_bytes = value_bytes
        self.device = f"cuda:{array.device.id}"
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """How many numbers."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_ready(self) -> bool:
        """Whether kernels can read the array itself: float64, or bytes where these are wanted, without gaps."""
        kinds = "f" if self.value_bytes == 8 else "biu"
        right = self.array.dtype.kind in kinds and self.array.dtype.itemsize == self.value_bytes
        return right and bool(self.array.flags.c_contiguous)

    @property
    def taken_bytes(self) -> int:
        """Bytes of device memory that an engine takes for it."""
        return 0 if self.is_ready else self.size * self.value_bytes

    @lazy
    def in_bytes(self) -> DeviceColumn:
        """The same column of zeros and ones, of which an engine takes a copy in bytes."""
        return DeviceColumn(self.array, self._find_facts, 1)

    @lazy
    def host(self) -> FloatArray:
        """A copy in host memory, float64, made when first asked for."""
        return np.array(to_host(self.array), np.float64, order="C")

    @lazy
    def facts(self) -> Facts:
        """What checks need to know, found on the device when first asked for."""
        assert self._find_facts is not None
        return self._find_facts(self)

    def can_be_read(self) -> bool:
        """Say whether kernels run on its device: CuPy alone does not make them."""
        try:
            return self.facts.n == self.size
        except DeviceError:
            return False


Column = FloatArray | DeviceColumn
FindFacts = Callable[[DeviceColumn], Facts]
"""Looks at the numbers of a column where they are; backends/columns.py has it."""


@dataclass(frozen=True, slots=True)
class StartScores:
    """Scores to start from where the initial ones are on a device: init[output] + column[output, row].

    init    float64 (n_outputs,)
    column  (n_outputs, n_rows)
    """

    init: FloatArray
    column: DeviceColumn

    def __len__(self) -> int:
        return len(self.init)


@overload
def host_of(column: Column) -> FloatArray: ...
@overload
def host_of(column: Column | None) -> FloatArray | None: ...
def host_of(column: Column | None) -> FloatArray | None:
    """Return a column in host memory."""
    return column.host if isinstance(column, DeviceColumn) else column


def column_on(column: Column | None, device: str) -> Column | None:
    """Return a column as a device can read it: a DeviceColumn of that very device, or an array in host memory."""
    return column if isinstance(column, DeviceColumn) and column.device == device else host_of(column)


def check_labels(labels: Any, n_rows: int, find_facts: FindFacts | None = None) -> Column:
    """Return labels: one finite number a row, (n_rows,), or a row of several, (n_rows, n_columns), in host memory."""
    shape = getattr(labels, "shape", None)
    if shape is None or isinstance(labels, (list, tuple)):
        labels = _numbers(labels, "label")
        shape = labels.shape
    if len(shape) != 2 or shape[1] < 2:
        return check_label(labels, n_rows, find_facts)
    array = _numbers(labels, "label")
    if len(array) != n_rows:
        raise DataError(f"label has {len(array)} rows and data {n_rows}; pass a row of labels for each")
    _check_finite(array, "label")
    place = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
    if abs(array[place]) > LARGEST_LABEL:
        raise DataError(
            f"label[{int(place[0])}, {int(place[1])}] is {array[place]}; magnitudes up to {LARGEST_LABEL} are allowed: "
            "rescale the labels"
        )
    return array


def check_label(label: Any, n_rows: int, find_facts: FindFacts | None = None, name: str = "label") -> Column:
    """Return labels, one finite number a row; messages call them `name`."""
    column = _device_column(label, name, n_rows, find_facts)
    if column is not None:
        facts = column.facts
        if facts.all_finite and max(-facts.smallest, facts.largest) <= LARGEST_LABEL:
            return column
        label = column.host  # which says where what is wrong
    array = _numbers_by_row(label, name, n_rows)
    largest = int(np.argmax(np.abs(array)))
    if abs(array[largest]) > LARGEST_LABEL:
        raise DataError(
            f"{name}[{largest}] is {array[largest]}; magnitudes up to {LARGEST_LABEL} are allowed: rescale the labels"
        )
    return array


def check_weight(
    weight: Any, n_rows: int, sizes: NDArray[np.int64] | None, find_facts: FindFacts | None = None
) -> Column:
    """Return weights, one a row; with queries they may be given one a query.

    sizes  int64 (n_queries,)  in  of the queries, or None
    """
    if sizes is None or getattr(weight, "shape", None) != (len(sizes),):
        column = _device_column(weight, "weight", n_rows, find_facts)
        if column is not None:
            facts = column.facts
            if facts.all_finite and facts.smallest >= 0.0 and LEAST_WEIGHT <= facts.largest <= LARGEST_WEIGHT:
                return column
            weight = column.host
    array = _numbers(weight, "weight")
    if sizes is not None and array.shape == (len(sizes),):  # one weight a query
        array = np.repeat(array, sizes)
    array = _numbers_by_row(array, "weight", n_rows)
    smallest = int(np.argmin(array))
    if array[smallest] < 0.0:
        raise DataError(
            f"weight[{smallest}] is {array[smallest]}; weights must be >= 0: drop rows that shall not count"
        )
    if not array.any():
        raise DataError("weight is zero in every row; at least one row must count: leave weight out for equal weights")
    largest = int(np.argmax(array))
    if not LEAST_WEIGHT <= array[largest] <= LARGEST_WEIGHT:
        raise DataError(
            f"weight[{largest}], the largest, is {array[largest]}; it must lie between {LEAST_WEIGHT} and "
            f"{LARGEST_WEIGHT}: multiply all weights by one number"
        )
    return array


def check_init_score(init_score: Any, n_rows: int, find_facts: FindFacts | None = None) -> Column:
    """Return initial scores as (n_outputs, n_rows)."""
    given = _on_device(init_score, "init_score")
    if given is not None:
        with given.device:
            by_output = _scores_by_output(given, n_rows)
        finish(by_output)  # of a flat array with gaps it is a copy
        column = _with_facts(by_output, find_facts)
        if column is not None:
            facts = column.facts
            if facts.all_finite and max(-facts.smallest, facts.largest) <= LARGEST_LABEL:
                return column
        init_score = to_host(given)
    array = np.ascontiguousarray(_scores_by_output(_numbers(init_score, "init_score"), n_rows))
    _check_finite(array, "init_score")
    place = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
    if abs(array[place]) > LARGEST_LABEL:
        raise DataError(
            f"init_score of row {int(place[1])} is {array[place]}; magnitudes up to {LARGEST_LABEL} are allowed: they "
            "are raw scores, in units of the labels or of log odds"
        )
    return array


def check_bound(bound: Any, n_rows: int, name: str) -> FloatArray:
    """Return one bound of each row's time: a lower one is at least 0, an upper one positive and perhaps infinite."""
    array: FloatArray = _by_row(_numbers(bound, name), name, n_rows)
    is_upper = name == "label_upper_bound"
    with np.errstate(invalid="ignore"):
        fits = array > 0.0 if is_upper else (array >= 0.0) & (array <= LARGEST_LABEL)
        fits = fits & ((array <= LARGEST_LABEL) | np.isposinf(array))
    if not fits.all():
        row = int(np.argmin(fits))
        allowed = "positive, and infinity where the time has no upper bound" if is_upper else "0 or more"
        raise DataError(f"{name}[{row}] is {array[row]}; it must be {allowed}, and at most {LARGEST_LABEL}")
    return array


def check_position(position: Any, n_rows: int) -> FloatArray:
    """Return the position of each row in the list that it was shown in: whole numbers of at least 0."""
    array = _numbers_by_row(position, "position", n_rows)
    wrong = (array < 0.0) | (array != np.floor(array))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"position[{row}] is {array[row]}; positions are whole numbers: 0, 1, ...")
    return array


def query_sizes(group: Any, qid: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Return the sizes of the queries, from sizes or from ids."""
    if group is not None and qid is not None:
        raise DataError("group and qid both say which rows belong to one query; pass one of them")
    name, given = ("qid", qid) if group is None else ("group", group)
    if given is None:
        return None
    if is_masked(given):
        raise DataError(f"{name} is a masked array, whose mask would be lost; leave the masked rows out")
    array = host_array(given, name)
    return sizes_of_ids(array, n_rows) if group is None else sizes_of_groups(array, n_rows)


def _scores_by_output(array: Any, n_rows: int) -> Any:
    """Return initial scores, NumPy's or CuPy's in one of the shapes that are taken, as (n_outputs, n_rows)."""
    if array.ndim == 1 and len(array) > 0 and len(array) % n_rows == 0:
        return array.reshape(-1, n_rows)
    if array.ndim == 2 and array.shape[0] == n_rows and array.shape[1] > 0:
        return array.T
    if array.ndim == 2 and array.shape[1] == n_rows and array.shape[0] > 0:
        return array
    raise DataError(
        f"init_score has shape {array.shape} and data {n_rows} rows; pass ({n_rows},), or ({n_rows}, n_outputs) "
        "for several outputs"
    )


def _on_device(values: Any, name: str) -> Any:
    """Return an array of real numbers on a CUDA device as CuPy's, in a form that kernels read; None: it is not there.

    Nothing is copied, unless it is float16, or strides are no multiples of its numbers.
    """
    if device_of(values, name) is None:
        return None
    array = as_cupy(values, name)
    _check_kind(array.dtype, name)
    if array.dtype == np.float16 or any(stride % array.dtype.itemsize for stride in array.strides):
        with array.device:
            array = array.astype(np.float32 if array.dtype == np.float16 else array.dtype, order="C")
        finish(array)
    return array


def _device_column(values: Any, name: str, n_rows: int, find_facts: FindFacts | None) -> DeviceColumn | None:
    """Return one number a row that lies on a CUDA device; None: it does not, or kernels cannot run there."""
    array = _on_device(values, name)
    return None if array is None else _with_facts(_by_row(array, name, n_rows), find_facts)


def _with_facts(array: Any, find_facts: FindFacts | None) -> DeviceColumn | None:
    """Return a column that has been looked at; None where kernels cannot run."""
    column = DeviceColumn(array, find_facts)
    if find_facts is None or not column.can_be_read():
        return None  # the CPU may train on a copy; the device will say what is wrong
    return column


def _numbers(values: Any, name: str) -> FloatArray:
    """Return a copy of an argument as float64, C order, whatever array-like it is."""
    if is_masked(values):
        raise DataError(f"{name} is a masked array, whose mask would be lost; leave the masked rows out")
    try:
        array = host_array(values, name)
        if array.dtype.kind == "O" and hasattr(values, "dtype"):  # nullable columns of frames
            array = np.asarray(values, np.float64)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # of any kind: frames have their own, and polars' panic is no Exception
        raise DataError(f"{name} cannot be read as numbers ({error}); code texts as numbers: 0, 1, ...") from None
    _check_kind(array.dtype, name)
    return np.array(array, np.float64, order="C")  # a copy: later changes by the caller do no harm


def _check_kind(dtype: Any, name: str) -> None:
    if dtype.kind not in "fiub":
        raise DataError(f"{name} has dtype {dtype}; floats, integers and booleans are supported: code them as numbers")


def _numbers_by_row(values: Any, name: str, n_rows: int) -> FloatArray:
    """Return an argument with one finite number a row as float64 (n_rows,)."""
    array: FloatArray = _by_row(_numbers(values, name), name, n_rows)
    _check_finite(array, name)
    return array


def _by_row(array: Any, name: str, n_rows: int) -> Any:
    """Return an array, NumPy's or CuPy's, of one number a row as (n_rows,)."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} must have one dimension, not shape {array.shape}; pass one number a row")
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} values and data {n_rows} rows; pass one number a row")
    return array


def _check_finite(array: FloatArray, name: str) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        position = np.unravel_index(int(np.argmin(finite)), array.shape)
        where = int(position[0]) if array.ndim == 1 else tuple(int(i) for i in position)
        raise DataError(
            f"{name}[{where}] is {array[position]}; NaN and infinite values are not allowed: drop these rows"
        )

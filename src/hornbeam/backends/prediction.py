"""Prediction on any device: raw scores and leaves, the same bits everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends import devices
from hornbeam.core.errors import DeviceError
from hornbeam.data.sources.reader import TableReader
from hornbeam.objectives.base import Objective
from hornbeam.trees.forest import Forest, Reader, checked_init, fitting


def predict_raw(
    forest: Forest,
    data: Reader | NDArray[Any],
    init_scores: NDArray[np.float64] | Sequence[float] | None = None,
    start_iteration: int = 0,
    num_iteration: int | None = None,
    n_threads: int = 1,
    device: str = "cpu",
) -> NDArray[np.float64]:
    """Compute raw scores.

    data         Reader, or array (n_rows, n_features)    in
    init_scores  float64 (n_outputs,)                     in   None: zeros
    returns      float64 (n_outputs, n_rows)

    `device` is "cpu", "reference", or a GPU as in the parameter `device`; the result is the same.
    """
    forest, reader = fitting(forest, data)
    first, last = forest.tree_range(start_iteration, num_iteration)
    init = checked_init(forest, init_scores)
    if is_gpu(device):
        from hornbeam.backends.gpu import predict as gpu

        if not forest.is_linear:
            return gpu.predict_raw(forest, reader, init, first, last, devices.choose_device(device))
    scores = np.empty((forest.n_outputs, reader.n_rows), np.float64)
    scores[:] = init[:, None]
    if is_gpu(device):
        _add_linear_trees(forest, reader, first, last, scores, devices.choose_device(device))
        return scores
    add_trees(forest, reader, first, last, scores, n_threads, device)
    return scores


def add_trees(
    forest: Forest,
    reader: Reader,
    first: int,
    last: int,
    scores: NDArray[np.float64],
    n_threads: int = 1,
    device: str = "cpu",
) -> None:
    """Add the values of trees first..last - 1 to scores in host memory, for every row in tree order.

    scores  float64 (n_outputs, n_rows)  in, out

    The forest and the reader are a pair as `forest.fitting` returns it; `device` is "cpu" or "reference".
    """
    if device == "cpu" and forest.is_linear:
        from hornbeam.backends.cpu.linear import forest as linear

        linear.add_trees(forest, reader, first, last, scores, n_threads)
    elif device == "cpu":
        from hornbeam.backends.cpu.prediction import walk as cpu

        cpu.add_trees(forest, reader, first, last, scores, n_threads)
    elif device == "reference":
        from hornbeam.backends.reference import predict as reference

        reference.add_trees(forest, reader, first, last, scores)
    else:
        raise _no_device(device)


FOUND_CELLS = 1 << 26
"""Leaves that a GPU finds at a time where their values are added on the host: 256 MB."""


def _add_linear_trees(
    forest: Forest, reader: Reader, first: int, last: int, scores: NDArray[np.float64], device: str
) -> None:
    """Find leaves on a GPU, and add the values of linear leaves on the host, some trees at a time."""
    from hornbeam.backends.cpu.linear.forest import add_values
    from hornbeam.backends.gpu.predict import predict_leaf as find_leaves

    step = max(1, FOUND_CELLS // max(1, reader.n_rows))
    for begin in range(first, last, step):
        end = min(begin + step, last)
        add_values(forest, reader, begin, end, find_leaves(forest, reader, begin, end, device), scores)


def transform(objective: Objective, scores: NDArray[np.float64], n_threads: int, device: str) -> NDArray[np.float64]:
    """Turn raw scores in host memory into predictions, float64 (n_outputs, n_rows); `device` has computed them."""
    if device == "reference":
        return objective.transform(scores)
    from hornbeam.backends.cpu.losses.gradients import transform_scores

    return transform_scores(objective, scores, n_threads)


def predict_leaf(
    forest: Forest,
    data: Reader | NDArray[Any],
    start_iteration: int = 0,
    num_iteration: int | None = None,
    n_threads: int = 1,
    device: str = "cpu",
) -> NDArray[np.int32]:
    """Find the leaf of every row in every tree.

    data         Reader, or array (n_rows, n_features)    in
    returns      int32 (n_rows, n_trees)                       leaf numbers of the trees of the chosen iterations
    """
    forest, reader = fitting(forest, data)
    first, last = forest.tree_range(start_iteration, num_iteration)
    if is_gpu(device):
        from hornbeam.backends.gpu import predict as gpu

        return gpu.predict_leaf(forest, reader, first, last, devices.choose_device(device))
    leaves = np.empty((reader.n_rows, last - first), np.int32)
    if device == "cpu":
        from hornbeam.backends.cpu.prediction import walk as cpu

        cpu.find_leaves(forest, reader, first, last, leaves, n_threads)
    elif device == "reference":
        from hornbeam.backends.reference import predict as reference

        reference.find_leaves(forest, reader, first, last, leaves)
    else:
        raise _no_device(device)
    return leaves


def predict_in_place(
    forest: Forest,
    table: TableReader,
    init_scores: NDArray[np.float64],
    trees: tuple[int, int],
    objective: Objective | None,
    average: bool = False,
) -> Any:
    """Compute raw scores, or predictions where an objective is given, of data on a device, which stay there.

    init_scores  float64 (n_outputs,)          in
    trees        the first one, and one past the last one
    average      trees are averaged, not summed
    returns      (n_outputs, n_rows), an array of the device's library
    """
    from hornbeam.backends.gpu.predict import predict_raw_in_place

    return predict_raw_in_place(forest, table, init_scores, *trees, objective, average)


def predict_leaf_in_place(forest: Forest, table: TableReader, trees: tuple[int, int]) -> Any:
    """Find the leaves of data on a device, int32 (n_rows, n_trees), an array of the device's library."""
    from hornbeam.backends.gpu.predict import predict_leaf_in_place as predict

    return predict(forest, table, *trees)


def rows_first(scores: Any) -> Any:
    """Turn what `predict_in_place` returns into (n_rows,), or (n_rows, n_outputs) with several outputs."""
    from hornbeam.backends.gpu.predict import rows_first as turn

    return turn(scores)


def is_gpu(device: str) -> bool:
    """Say whether a device is a GPU, or runs the kernels of one."""
    return device.partition(":")[0] in ("cuda", "opencl", "gpu")


def check_predicts(device: str) -> None:
    """Refuse what is no device for predictions and explanations."""
    if not is_gpu(device) and device not in ("cpu", "reference"):
        raise _no_device(device)


def _no_device(device: str) -> DeviceError:
    return DeviceError(
        f'prediction runs on "cpu", "reference", "gpu", "cuda" or "opencl", got device={device!r}; hornbeam.devices() '
        "lists what this machine offers"
    )

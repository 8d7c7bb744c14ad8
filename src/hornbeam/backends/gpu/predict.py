"""Prediction on a GPU: every row is a thread that walks down the trees one after the other.

Data in host memory go to the device block by block. Data on the device are read where they are, whatever their
strides, and the result stays on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime import devices
from hornbeam.backends.gpu.runtime.device_table import DeviceTable, launch_over
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, u32, u64
from hornbeam.core.errors import DeviceError
from hornbeam.data.cuda_errors import cupy_errors
from hornbeam.data.sources.reader import TableReader
from hornbeam.objectives.base import Objective
from hornbeam.trees.forest import Forest, Reader, average_scores
from hornbeam.trees.tree import Tree, code_bits

BLOCK_BYTES = 64 << 20
"""Host data, and leaf numbers, that are on the device at a time."""

TREE_NODE = np.dtype([("threshold", np.float64), ("column", np.uint32), ("child", np.uint32)])
"""tree_node_t of kernels/prediction/predict.cl."""

CATEGORICAL = 1 << 31
"""Bit of `column` that marks a categorical split."""


def pack_tree(tree: Tree, first_word: int = 0) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
    """Return a tree as kernels/prediction/predict.cl draws it.

    first_word   of this tree in the bits of all trees

    Returns its nodes by position, TREE_NODE (2 * n_splits + 1,), and the bits of its sets, uint32.
    """
    child = np.full(2 * tree.n_splits + 1, ~0, np.int64)  # a lone root is leaf 0
    if tree.n_splits:
        child[0] = 0
        child[1::2] = tree.left
        child[2::2] = tree.right
    nodes = np.zeros(len(child), TREE_NODE)
    is_leaf = child < 0
    leaf, split = ~child[is_leaf], child[~is_leaf]
    nodes["threshold"][is_leaf] = tree.leaf_value[leaf]
    nodes["column"][is_leaf] = leaf
    nodes["threshold"][~is_leaf] = tree.threshold[split]
    nodes["column"][~is_leaf] = 2 * tree.feature[split].astype(np.int64) + tree.missing_left[split]
    nodes["child"][~is_leaf] = 2 * split + 1
    bits: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
    if tree.left_codes is not None:
        place = {int(number): position for position, number in enumerate(child) if number >= 0}
        for number, codes in enumerate(tree.left_codes):
            if codes is not None:
                own = code_bits(codes, int(codes[-1]) // 32 + 1)
                node = nodes[place[number]]
                node["column"] = node["column"] + CATEGORICAL
                node["threshold"] = np.array(first_word << 32 | len(own), np.uint64).view(np.float64)
                bits.append(own)
                first_word += len(own)
    return nodes, np.concatenate(bits)


class GpuForest:
    """A forest in the memory of one device."""

    def __init__(self, runtime: Runtime, forest: Forest) -> None:
        trees: list[NDArray[np.void]] = []
        bits: list[NDArray[np.uint32]] = [np.zeros(1, np.uint32)]
        n_words = 1
        for tree in forest.trees:
            packed, own = pack_tree(tree, n_words)
            trees.append(packed)
            bits.append(own)
            n_words += len(own)
        starts = np.zeros(len(trees) + 1, np.uint64)
        np.cumsum([len(tree) for tree in trees], out=starts[1:])
        nodes = np.concatenate([np.empty(0, TREE_NODE), *trees])
        self.runtime = runtime
        self.n_outputs = forest.n_outputs
        self._nodes = runtime.allocate(nodes.nbytes)
        self._starts = runtime.allocate(starts.nbytes)
        sets = np.concatenate(bits)
        self._sets = runtime.allocate(sets.nbytes)
        runtime.upload(self._sets, sets)
        runtime.upload(self._nodes, nodes)
        runtime.upload(self._starts, starts)
        runtime.synchronize()

    def add_trees(self, table: DeviceTable, init: Buffer, first: int, last: int, stride: int, scores: Buffer) -> None:
        """Compute init + the values of trees first..last - 1, in tree order.

        init     float64 (n_outputs,)           in
        scores   float64 (n_outputs, stride)    out   the first table.n_rows of every output
        """
        trees = (self._nodes, self._starts, self._sets, u32(first), u32(last), u32(self.n_outputs))
        self._launch("add_trees_kernel", table, table.n_rows * self.n_outputs, *trees, init, u64(stride), scores)

    def find_leaves(self, table: DeviceTable, first: int, last: int, leaves: Buffer) -> None:
        """Find the leaf of every row in trees first..last - 1.

        leaves   int32 (n_rows, last - first)   out
        """
        self._launch(
            "find_leaves_kernel", table, table.n_rows, self._nodes, self._starts, self._sets, u32(first), u32(last),
            leaves,
        )  # fmt: skip

    def _launch(self, name: str, table: DeviceTable, n: int, *arguments: Any) -> None:
        size = table.dtype.itemsize
        launch_over(n, self.runtime, "predict.cl", name, *table.arguments, *arguments, value_bytes=size)


def forest_on(device: str, forest: Forest) -> GpuForest:
    """Return a forest on a device ("cuda:0", ...); it is kept there as long as the Forest lives."""
    return forest.packed_for(device, lambda: GpuForest(devices.open_runtime(device), forest))


def predict_raw(
    forest: Forest, reader: Reader, init: NDArray[np.float64], first: int, last: int, device: str
) -> NDArray[np.float64]:
    """Compute raw scores of a table that is read block by block.

    init      float64 (n_outputs,)           in
    returns   float64 (n_outputs, n_rows)         init + trees first..last - 1
    """
    held = forest_on(device, forest)
    scores = np.empty((forest.n_outputs, reader.n_rows))
    for start, table in _blocks(held.runtime, reader):
        with Scratch(held.runtime) as scratch:
            room = scratch.room(8 * forest.n_outputs * table.n_rows)
            held.add_trees(table, scratch.upload(init), first, last, table.n_rows, room)
            part = np.empty((forest.n_outputs, table.n_rows))
            held.runtime.download(room, part)
        scores[:, start : start + table.n_rows] = part
    return scores


def predict_leaf(forest: Forest, reader: Reader, first: int, last: int, device: str) -> NDArray[np.int32]:
    """Find the leaves of a table that is read block by block: int32 (n_rows, last - first)."""
    held = forest_on(device, forest)
    leaves = np.empty((reader.n_rows, last - first), np.int32)
    if last == first:
        return leaves
    for start, table in _blocks(held.runtime, reader, 4 * (last - first)):
        with Scratch(held.runtime) as scratch:
            room = scratch.room(4 * (last - first) * table.n_rows)
            held.find_leaves(table, first, last, room)
            held.runtime.download(room, leaves[start : start + table.n_rows])
    return leaves


class Scratch:
    """Device memory that is given back at the end of a block of code, after an error too."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: list[Buffer] = []

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_error: object) -> None:
        while self._held:
            self._runtime.free(self._held.pop())

    def room(self, n_bytes: int) -> Buffer:
        """Return memory, uninitialised."""
        self._held.append(self._runtime.allocate(n_bytes))
        return self._held[-1]

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Return memory with a copy of an array."""
        buffer = self.room(array.nbytes)
        self._runtime.upload(buffer, array)
        return buffer


def _blocks(runtime: Runtime, reader: Reader, result_bytes: int = 0) -> Any:
    """Yield (first row, rows on the device) for every block of a table in host memory.

    result_bytes   of a row
    """
    row_bytes = 8 * reader.n_features + result_bytes
    step = max(1, BLOCK_BYTES // row_bytes)
    with Scratch(runtime) as scratch:
        buffer = scratch.room(8 * reader.n_features * min(step, reader.n_rows))
        for start in range(0, reader.n_rows, step):
            stop = min(start + step, reader.n_rows)
            block = reader.block(start, stop) if isinstance(reader, TableReader) else reader.read(start, stop)
            yield start, DeviceTable.upload(runtime, block, buffer)


# --- data on a CUDA device --------------------------------------------------------------------------------------------


def predict_raw_in_place(
    forest: Forest,
    reader: TableReader,
    init: NDArray[np.float64],
    first: int,
    last: int,
    objective: Objective | None,
    average: bool = False,
) -> Any:
    """Compute raw scores, or predictions where an objective is given, of data on a CUDA device.

    init      float64 (n_outputs,)                in
    average   trees are averaged, not summed
    returns   CuPy float64 (n_outputs, n_rows)         on the device of the data
    """
    import cupy

    array = reader.device_array
    with cupy_errors(f"cuda:{array.device.id}", "predicting"), array.device:
        scores = cupy.empty((forest.n_outputs, reader.n_rows), np.float64)
        cupy.cuda.get_current_stream().synchronize()  # whoever had this memory before is done with it
    held = forest_on(f"cuda:{array.device.id}", forest)
    with Scratch(held.runtime) as scratch:
        start = scratch.upload(np.zeros_like(init) if average else init)
        for first_row, block in reader.device_blocks():
            with array.device:
                part = scores[:, first_row:]
            held.add_trees(DeviceTable.of_cupy(block), start, first, last, reader.n_rows, part)
            held.runtime.synchronize()
        if average:
            with cupy_errors(f"cuda:{array.device.id}", "predicting"), array.device:
                average_scores(scores, cupy.asarray(init), (last - first) // forest.n_outputs)
                cupy.cuda.get_current_stream().synchronize()
        if objective is not None:
            transform(held.runtime, objective, scores, forest.n_outputs, reader.n_rows)
        held.runtime.synchronize()
    return scores


def predict_leaf_in_place(forest: Forest, reader: TableReader, first: int, last: int) -> Any:
    """Find the leaves of data on a CUDA device: CuPy int32 (n_rows, last - first), on the device of the data."""
    import cupy

    array = reader.device_array
    with cupy_errors(f"cuda:{array.device.id}", "predicting"), array.device:
        leaves = cupy.empty((reader.n_rows, last - first), np.int32)
        cupy.cuda.get_current_stream().synchronize()
    if last == first:
        return leaves
    held = forest_on(f"cuda:{array.device.id}", forest)
    for first_row, block in reader.device_blocks():
        with array.device:
            part = leaves[first_row : first_row + len(block)]
        held.find_leaves(DeviceTable.of_cupy(block), first, last, part)
        held.runtime.synchronize()
    return leaves


def rows_first(scores: Any) -> Any:
    """Turn CuPy (n_outputs, n_rows) into (n_rows,), or (n_rows, n_outputs) with several outputs."""
    import cupy

    with cupy_errors(f"cuda:{scores.device.id}", "predicting"), scores.device:
        return scores[0] if len(scores) == 1 else cupy.ascontiguousarray(scores.T)


def transform(runtime: Runtime, objective: Objective, scores: Buffer, n_outputs: int, n_rows: int) -> None:
    """Turn raw scores on the device into predictions, as `objective.transform` does.

    scores   float64 (n_outputs, n_rows)   in, out
    """
    n_scores = n_outputs * n_rows
    if objective.link == "sigmoid":
        sigmoid = np.float64(getattr(objective, "sigmoid", 1.0))
        launch_over(n_scores, runtime, "gradients.cl", "sigmoid_kernel", scores, u64(n_scores), sigmoid)
    elif objective.link == "softmax":
        launch_over(n_rows, runtime, "gradients.cl", "softmax_kernel", scores, u64(n_rows), u32(n_outputs))
    elif objective.link in ("exp", "square", "softplus", "step"):
        launch_over(n_scores, runtime, "gradients.cl", f"{objective.link}_kernel", scores, u64(n_scores))
    elif objective.link != "identity":
        raise DeviceError(f"objective {objective.name!r} has no GPU kernel for its predictions; use device='cpu'")

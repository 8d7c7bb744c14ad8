"""What kernels/explain.cl takes: tables of rows, chunks of trees, and where what is found there belongs.

Rows go to the device block by block, and trees in *chunks*: walks or games of a chunk are all under way at once and
leave what they found in memory (`sums`). Then a kernel adds it up for every row and feature in the order of the walks
and trees, so that the bits are those of the other devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.predict import Scratch, pack_tree
from hornbeam.backends.gpu.runtime.device_table import DeviceTable
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u32, u64
from hornbeam.data.sources.reader import TableReader
from hornbeam.trees.forest import Forest, Reader

FloatArray = NDArray[np.float64]

BLOCK_ROWS = 32_768
"""Rows that are on the device at a time; a multiple of 32, as decisions of 32 rows are one word."""

CHUNK_BYTES = 512 << 20
"""Memory of what the walks of a chunk leave behind; at most an eighth of the device's."""

THREADS = 128
"""Threads of a group, fewer where what they keep would not fit twice into the local memory of a compute unit."""

GROUPS_A_UNIT = 8
"""Groups for each compute unit where threads keep their numbers in global memory, which all of them hold."""

SPLIT_TEST = np.dtype(
    [("threshold", np.float64), ("column", np.uint32), ("previous", np.int32), ("flip", np.uint32), ("_", np.uint32)]
)
"""split_test_t of kernels/explain.cl."""


@dataclass(frozen=True)
class Uses:
    """Which sums each place of the result gets, as gather_kernel reads them; n_places are those of a row."""

    keys: Buffer
    uses: Buffer
    n_keys: int
    n_sums: int


@dataclass(frozen=True)
class Chunk:
    """Some trees whose walks are under way at once.

    first_split, n_splits   of them, counted from the first of all trees
    items                   walk_t or game_t of the kernels, on the device
    features, pairs         where sums go
    """

    first_split: int
    n_splits: int
    items: Buffer
    n_items: int
    n_chances: int
    features: Uses
    pairs: Uses | None


class Kernels:
    """The kernels that walk and add up, in one compilation of explain.cl; those that decide are in another.

    So only the latter, which games have too, are compiled for each kind of raw values.
    """

    def __init__(self, runtime: Runtime, keep: int = 0, threads: int = THREADS, interactions: bool = False) -> None:
        self.runtime, self.threads = runtime, threads
        self._variant = Variant("explain.cl", threads, keep=keep, interactions=interactions)
        self._local_bytes = 8 * keep * threads

    def launch(self, name: str, groups: int, *arguments: Any) -> None:
        """Launch a kernel of so many groups."""
        local = self._local_bytes if name == "walk_kernel" else 0
        self.runtime.launch(self.runtime.kernel(name, self._variant, local), max(1, groups), *arguments)

    def launch_over(self, name: str, n: int, *arguments: Any) -> None:
        """Launch a kernel whose threads stride over n items."""
        self.launch(name, self._groups(n, self.threads), *arguments)

    def decide(self, table: DeviceTable, held: Any, chunk: Chunk, raw: Buffer) -> None:
        """Decide the splits of a chunk for the rows of a table; `held` has tests and sets."""
        kernel = self.runtime.kernel("decide_kernel", Variant("explain.cl", THREADS, value_bytes=table.dtype.itemsize))
        groups = self._groups(-(-table.n_rows // 32) * chunk.n_splits, THREADS)
        at = u32(chunk.first_split), u32(chunk.n_splits)
        self.runtime.launch(kernel, groups, *table.arguments, held.tests, held.sets, *at, raw)

    def _groups(self, n: int, threads: int) -> int:
        return max(1, min(self.runtime.facts.compute_units * 16, -(-n // threads)))


def split_tests(forest: Forest) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
    """Return the tests of all splits, SPLIT_TEST in the order of their numbers, and the bits of their sets."""
    parts: list[NDArray[np.void]] = []
    bits: list[NDArray[np.uint32]] = [np.zeros(1, np.uint32)]
    n_words = 1
    for tree in forest.trees:
        nodes, own = pack_tree(tree, n_words)
        splits = nodes[nodes["child"] != 0]
        splits = splits[np.argsort(splits["child"])]  # the children of split s stand at 2 s + 1
        tests = np.zeros(len(splits), SPLIT_TEST)
        tests["threshold"], tests["column"], tests["previous"] = splits["threshold"], splits["column"], -1
        parts.append(tests)
        bits.append(own)
        n_words += len(own)
    return np.concatenate([np.empty(0, SPLIT_TEST), *parts]), np.concatenate(bits)


class OnDevice:
    """A forest in the memory of one device, as a kernel wants it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._chunks: dict[Any, list[Chunk]] = {}

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Return a buffer with an array, which is kept as long as this lives."""
        array = np.ascontiguousarray(array)
        buffer = self.runtime.allocate(array.nbytes)
        self.runtime.upload(buffer, array)
        return buffer

    def budget(self) -> int:
        """Return the memory of the sums of a chunk."""
        facts = self.runtime.facts
        return min(CHUNK_BYTES, facts.memory_bytes // 8, facts.max_buffer_bytes)

    def uses(self, place: NDArray[np.int64], first: Any, count: Any, apart: Any, n_sums: int) -> Uses:
        """Sort sums by their place in the result; those of one place stay in the order of their trees.

        place                 int64 (n,)   in
        first, count, apart   int64 (n,)   in   rows of the sums
        """
        order = np.argsort(place, kind="stable")
        keys, starts = np.unique(place[order], return_index=True)
        stops = np.append(starts[1:], len(place))
        return Uses(
            self.upload(np.stack((keys, starts, stops), axis=1).astype(np.uint32)),
            self.upload(np.stack((first, count, apart), axis=1)[order].astype(np.uint32)),
            len(keys),
            n_sums,
        )


def trees_within(cost: NDArray[np.int64], chosen: range, budget: int) -> Iterator[NDArray[np.int64]]:
    """Yield the chosen trees in chunks that cost no more than a budget together, one tree at least."""
    begin, total = chosen.start, 0
    for tree in chosen:
        if total and total + cost[tree] > budget:
            yield np.arange(begin, tree)
            begin, total = tree, 0
        total += int(cost[tree])
    if begin < chosen.stop:
        yield np.arange(begin, chosen.stop)


def entries_of(starts: NDArray[np.int64], trees: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for every entry of some trees its place among those of its tree, and the place of the tree in `trees`."""
    sizes = starts[trees + 1] - starts[trees]
    whose = np.repeat(np.arange(len(trees)), sizes)
    return np.arange(len(whose)) - np.repeat(np.cumsum(sizes) - sizes, sizes), whose


def gather(kernels: Kernels, uses: Uses, sums: Buffer, n_rows: int, stride: int, n_places: int, result: Buffer) -> None:
    """Add sums to the result, float64 (n_rows, n_places)."""
    kernels.launch_over(
        "gather_kernel", n_rows * uses.n_keys, uses.keys, u32(uses.n_keys), uses.uses, sums, u64(n_rows), u64(stride),
        u64(n_places), result,
    )  # fmt: skip


def block_rows(n_rows: int, most: int) -> int:
    """Return the rows of a block: no more than asked for, than BLOCK_ROWS and, where 32 are enough, than `most`."""
    return max(1, min(n_rows, BLOCK_ROWS, max(32, most // 32 * 32)))


def tables_of(runtime: Runtime, reader: Reader, rows: range, step: int) -> Iterator[tuple[int, DeviceTable]]:
    """Yield (first row, counted from the first of those asked for; rows on the device) for every block."""
    with Scratch(runtime) as scratch:
        buffer = scratch.room(8 * reader.n_features * min(step, len(rows)))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            read = reader.block if isinstance(reader, TableReader) else reader.read
            block = read(part.start, part.stop)
            yield start, DeviceTable.upload(runtime, block, buffer)

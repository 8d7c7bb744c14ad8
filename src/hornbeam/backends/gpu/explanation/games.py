"""Shapley values against background rows on a GPU: a thread plays one row in one tree against all background rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.explanation.chunks import (
    GROUPS_A_UNIT,
    THREADS,
    Chunk,
    Kernels,
    OnDevice,
    block_rows,
    entries_of,
    gather,
    split_tests,
    tables_of,
    trees_within,
)
from hornbeam.backends.gpu.predict import Scratch
from hornbeam.backends.gpu.runtime import devices
from hornbeam.backends.gpu.runtime.device_table import DeviceTable
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, u32, u64
from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.shapley.background_game import coalition_weights, most_parted
from hornbeam.trees.shapley.joined_plan import starts_of

FloatArray = NDArray[np.float64]


class GpuGames(OnDevice):
    """A forest as games against background rows."""

    def __init__(self, runtime: Runtime, forest: Forest) -> None:
        super().__init__(runtime)
        trees = forest.trees
        features = [np.unique(tree.feature, return_inverse=True) for tree in trees]
        self.n_outputs = forest.n_outputs
        self.split_start = starts_of(tree.n_splits for tree in trees)
        self.leaf_start = starts_of(tree.n_leaves for tree in trees)
        self.feature_start = starts_of(len(own) for own, _ in features)
        self.features = np.concatenate([np.empty(0, np.int64), *(own for own, _ in features)]).astype(np.int64)
        tests, sets = split_tests(forest)
        branches = np.zeros((len(tests), 4), np.int32)
        for tree, start, (_, slots) in zip(trees, self.split_start, features, strict=False):
            own = branches[start : start + tree.n_splits]
            own[:, 0], own[:, 1], own[:, 2] = tree.left, tree.right, slots
        weights = coalition_weights(max((most_parted(tree) for tree in trees), default=0))
        self.most, self.most_slots = len(weights), int(np.diff(self.feature_start).max(initial=1))
        self.tests, self.sets, self.branches = self.upload(tests), self.upload(sets), self.upload(branches)
        self.leaves = self.upload(np.concatenate([np.empty(0), *(tree.leaf_value for tree in trees)]))
        self.weights = self.upload(np.array(weights))

    def chunks(self, chosen: range, n_rows: int, n_columns: int) -> list[Chunk]:
        """Return the chosen trees in chunks for so many rows, explained ones and background rows together."""
        key = chosen, n_rows, n_columns
        if key not in self._chunks:
            cost = n_rows * (8 * np.diff(self.feature_start) + np.diff(self.split_start))
            parts = trees_within(np.asarray(cost), chosen, self.budget())
            starts = self.split_start
            self._chunks = {
                key: [self._chunk(trees, n_columns) for trees in parts if starts[trees[-1] + 1] > starts[trees[0]]]
            }
        return self._chunks[key]

    def _chunk(self, trees: NDArray[np.int64], n_columns: int) -> Chunk:
        base, end = int(self.split_start[trees[0]]), int(self.split_start[trees[-1] + 1])
        trees = trees[self.split_start[trees + 1] > self.split_start[trees]]
        first_sum = starts_of((self.feature_start[trees + 1] - self.feature_start[trees]).tolist())
        first = self.split_start[trees]
        items = np.stack((first - base, first, self.leaf_start[trees], first_sum[:-1]), axis=1).astype(np.uint32)
        slot, whose = entries_of(self.feature_start, trees)
        place = trees[whose] % self.n_outputs * n_columns + self.features[self.feature_start[trees[whose]] + slot]
        once = np.ones(len(slot), np.int64)
        uses = self.uses(place, first_sum[whose] + slot, once, once, int(first_sum[-1]))
        return Chunk(base, end - base, self.upload(items), len(items), 0, uses, None)


def add_background(
    forest: Forest, reader: Reader, rows: range, background: FloatArray, chosen: range, out: FloatArray, device: str
) -> None:
    """Compute the Shapley values of the chosen trees for some rows, summed over the background rows.

    background  float64 (n_background, n_features)            in
    out         float64 (len(rows), n_outputs, n_features)    out   zeros at first
    """
    runtime = devices.open_runtime(device)
    held = forest.packed_for(f"{device}, background", lambda: GpuGames(runtime, forest))
    n_columns = out.shape[2]
    n_places = held.n_outputs * n_columns
    step = block_rows(len(rows), held.budget() // (8 * max(n_places, held.most_slots)))
    chunks = held.chunks(chosen, step + len(background), n_columns)
    with Scratch(runtime) as own:
        others = DeviceTable.upload(runtime, background, own.room(background.nbytes))
        for start, table in tables_of(runtime, reader, rows, step):
            with Scratch(runtime) as scratch:
                result = scratch.room(8 * table.n_rows * n_places)
                runtime.zero(result, 8 * table.n_rows * n_places)
                _play(held, table, others, chunks, result, n_places, scratch)
                runtime.download(result, out[start : start + table.n_rows])


def _play(
    held: GpuGames,
    table: DeviceTable,
    others: DeviceTable,
    chunks: list[Chunk],
    result: Buffer,
    n_places: int,
    scratch: Scratch,
) -> None:
    """Play a block of rows against the background rows in all chunks."""
    runtime = held.runtime
    kernels = Kernels(runtime)
    n_words, n_other_words = -(-table.n_rows // 32), -(-others.n_rows // 32)
    stride, most_splits = 32 * n_words, max((chunk.n_splits for chunk in chunks), default=1)
    raw, its_raw = scratch.room(4 * n_words * most_splits), scratch.room(4 * n_other_words * most_splits)
    most_sums = max((chunk.features.n_sums for chunk in chunks), default=1)
    sums = scratch.room(8 * stride * most_sums)
    groups = runtime.facts.compute_units * GROUPS_A_UNIT
    stack, saved = (scratch.room(n * held.most * THREADS * groups) for n in (4, 16))
    taken = scratch.room(4 * held.most_slots * THREADS * groups)
    for chunk in chunks:
        kernels.decide(table, held, chunk, raw)
        kernels.decide(others, held, chunk, its_raw)
        runtime.zero(sums, 8 * stride * chunk.features.n_sums)
        n_jobs = -(-table.n_rows // THREADS) * chunk.n_items
        kernels.launch(
            "play_kernel", min(n_jobs, groups), chunk.items, u32(chunk.n_items), raw, its_raw,
            u32(chunk.n_splits), u64(table.n_rows),
            u64(stride), u64(others.n_rows), held.branches, held.leaves, held.weights, u32(held.most),
            u32(held.most_slots), stack, saved, taken, sums,
        )  # fmt: skip
        gather(kernels, chunk.features, sums, table.n_rows, stride, n_places, result)

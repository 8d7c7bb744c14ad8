"""Explanations on a GPU: kernels/explain.cl, one thread a row.

Rows go to the device block by block, and trees in *chunks*: walks of a chunk are all under way at once, a walk being a
tree and two points of the quadrature, and leave what they found in memory (`sums`). Then a kernel adds it up for every
row and feature in the order of the walks and trees, so that the bits are those of the other devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.predict import Scratch, pack_tree
from hornbeam.backends.gpu.runtime import devices
from hornbeam.backends.gpu.runtime.device_table import DeviceTable
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u32, u64
from hornbeam.data.sources.reader import TableReader
from hornbeam.trees.background_game import coalition_weights, most_parted
from hornbeam.trees.forest import Forest, Reader
from hornbeam.trees.joined_plan import Paths, Walks, join_paths, join_walks, starts_of
from hornbeam.trees.shapley_plan import ShapleyPlan

FloatArray = NDArray[np.float64]

BLOCK_ROWS = 32_768
"""Rows that are on the device at a time; a multiple of 32, as decisions of 32 rows are one word."""

CHUNK_BYTES = 512 << 20
"""Memory of what the walks of a chunk leave behind; at most an eighth of the device's."""

THREADS = 128
"""Threads of a group, fewer where what they keep would not fit twice into the local memory of a compute unit."""

GROUPS_A_UNIT = 8
"""Groups for each compute unit where threads keep their numbers in global memory, which all of them hold."""

KEEP_STEP = 32
"""Numbers that threads keep are rounded up to a multiple of this, so that models share compiled kernels."""

SPLIT_TEST = np.dtype(
    [("threshold", np.float64), ("column", np.uint32), ("previous", np.int32), ("flip", np.uint32), ("_", np.uint32)]
)
"""split_test_t of kernels/explain.cl."""

WALK_FIELDS = (
    "first_split", "n_splits", "first_step", "n_steps", "point", "first_chance", "first_sum", "n_sums", "first_pair",
    "first_path", "whole_split", "padding",
)  # fmt: skip
"""Those of walk_t of kernels/explain.cl."""


@dataclass(frozen=True)
class _Uses:
    """Which sums each place of the result gets, as gather_kernel reads them; n_places are those of a row."""

    keys: Buffer
    uses: Buffer
    n_keys: int
    n_sums: int


@dataclass(frozen=True)
class _Chunk:
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
    features: _Uses
    pairs: _Uses | None


class _Kernels:
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

    def decide(self, table: DeviceTable, held: Any, chunk: _Chunk, raw: Buffer) -> None:
        """Decide the splits of a chunk for the rows of a table; `held` has tests and sets."""
        kernel = self.runtime.kernel("decide_kernel", Variant("explain.cl", THREADS, value_bytes=table.dtype.itemsize))
        groups = self._groups(-(-table.n_rows // 32) * chunk.n_splits, THREADS)
        at = u32(chunk.first_split), u32(chunk.n_splits)
        self.runtime.launch(kernel, groups, *table.arguments, held.tests, held.sets, *at, raw)

    def _groups(self, n: int, threads: int) -> int:
        return max(1, min(self.runtime.facts.compute_units * 16, -(-n // threads)))


def _tests(forest: Forest) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
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


class _OnDevice:
    """A forest in the memory of one device, as a kernel wants it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._chunks: dict[Any, list[_Chunk]] = {}

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

    def uses(self, place: NDArray[np.int64], first: Any, count: Any, apart: Any, n_sums: int) -> _Uses:
        """Sort sums by their place in the result; those of one place stay in the order of their trees.

        place                 int64 (n,)   in
        first, count, apart   int64 (n,)   in   rows of the sums
        """
        order = np.argsort(place, kind="stable")
        keys, starts = np.unique(place[order], return_index=True)
        stops = np.append(starts[1:], len(place))
        return _Uses(
            self.upload(np.stack((keys, starts, stops), axis=1).astype(np.uint32)),
            self.upload(np.stack((first, count, apart), axis=1)[order].astype(np.uint32)),
            len(keys),
            n_sums,
        )


def _within(cost: NDArray[np.int64], chosen: range, budget: int) -> Iterator[NDArray[np.int64]]:
    """Yield the chosen trees in chunks that cost no more than a budget together, one tree at least."""
    begin, total = chosen.start, 0
    for tree in chosen:
        if total and total + cost[tree] > budget:
            yield np.arange(begin, tree)
            begin, total = tree, 0
        total += int(cost[tree])
    if begin < chosen.stop:
        yield np.arange(begin, chosen.stop)


def _entries(starts: NDArray[np.int64], trees: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for every entry of some trees its place among those of its tree, and the place of the tree in `trees`."""
    sizes = starts[trees + 1] - starts[trees]
    whose = np.repeat(np.arange(len(trees)), sizes)
    return np.arange(len(whose)) - np.repeat(np.cumsum(sizes) - sizes, sizes), whose


# --- path-dependent values --------------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    """What a thread keeps while it walks: numbers by kind, and how many together."""

    levels: int
    rooms: int
    numbers: int


class GpuWalks(_OnDevice):
    """A forest and its plan."""

    def __init__(self, runtime: Runtime, forest: Forest, plan: ShapleyPlan) -> None:
        super().__init__(runtime)
        self.plan, self.n_outputs = plan, forest.n_outputs
        self.walks: Walks = join_walks(plan)
        walks = self.walks
        tests, sets = _tests(forest)
        tests = tests[walks.split]
        tests["flip"] = walks.is_right
        first = np.repeat(walks.split_start[:-1], np.diff(walks.split_start))
        tests["previous"] = np.where(walks.previous >= 0, walks.previous + 2 * first, -1)
        steps = np.empty((len(walks.step), 4), np.uint32)
        step_tree = np.repeat(np.arange(len(plan.trees)), np.diff(walks.step_start))
        split = walks.split_start[step_tree] + (walks.step >> 3)
        steps[:, 0], steps[:, 1] = walks.step, walks.level[split]
        steps[:, 2], steps[:, 3] = walks.room[split], walks.slot[split]
        self.tests, self.sets, self.steps = self.upload(tests), self.upload(sets), self.upload(steps)
        self.share, self.merged = self.upload(walks.share), self.upload(walks.merged)
        self.points, self.weights = self.upload(walks.point), self.upload(walks.weight)
        self.leaves = self.upload(walks.value)
        self._paths: tuple[Paths, Buffer, Buffer] | None = None
        levels, rooms = int(walks.level.max(initial=0)) + 1, int(walks.room.max(initial=0)) + 1
        most_features = int(np.diff(walks.feature_start).max(initial=0))
        self.kept = _Kept(levels, rooms, 2 * levels + 2 * rooms + most_features)

    @property
    def paths(self) -> tuple[Paths, Buffer, Buffer]:
        """The paths, first entries of splits, and edges with pairs; made when first asked for."""
        if self._paths is None:
            paths = join_paths(self.plan)
            edges = np.stack((paths.edge, paths.pair), axis=1).astype(np.int32)
            self._paths = paths, self.upload(paths.path_start.astype(np.uint32)), self.upload(edges)
        return self._paths

    def kernels(self, interactions: bool) -> tuple[_Kernels, int]:
        """Return the kernels, and the numbers that a thread keeps in local memory; 0: in global memory."""
        keep = -(-self.kept.numbers // KEEP_STEP) * KEEP_STEP
        facts = self.runtime.facts
        for threads in (THREADS, THREADS // 2, THREADS // 4):
            if 2 * (8 * keep * threads) <= facts.local_bytes:
                return _Kernels(self.runtime, keep, threads, interactions), keep
        return _Kernels(self.runtime, 0, THREADS, interactions), 0

    def row_bytes(self, interactions: bool) -> NDArray[np.int64]:
        """Return the memory that each tree takes for a row, int64 (n_trees,)."""
        walks = self.walks
        n_sums = np.diff(walks.feature_start)
        if interactions:
            n_sums = n_sums + np.diff(self.paths[0].pair_start)
        return np.asarray(8 * n_sums * (np.diff(walks.point_start) // 2) + np.diff(walks.split_start))

    def chunks(self, chosen: range, n_rows: int, n_columns: int, interactions: bool) -> list[_Chunk]:
        """Return the chosen trees in chunks for blocks of so many rows."""
        key = chosen, n_rows, n_columns, interactions
        if key not in self._chunks:
            walks = self.walks
            n_chances = np.diff(walks.split_start) * (np.diff(walks.point_start) // 2)
            cost = n_rows * self.row_bytes(interactions) + 176 * n_chances
            self._chunks = {
                key: [
                    self._chunk(trees, n_columns, interactions)
                    for trees in _within(np.asarray(cost), chosen, self.budget())
                    if walks.split_start[trees[-1] + 1] > walks.split_start[trees[0]]
                ]
            }
        return self._chunks[key]

    def _chunk(self, trees: NDArray[np.int64], n_columns: int, interactions: bool) -> _Chunk:
        walks = self.walks
        whole = trees
        trees = trees[walks.split_start[trees + 1] > walks.split_start[trees]]  # lone leaves explain nothing
        n_walks = (walks.point_start[trees + 1] - walks.point_start[trees]) // 2
        n_splits = walks.split_start[trees + 1] - walks.split_start[trees]
        n_sums = walks.feature_start[trees + 1] - walks.feature_start[trees]
        first_sum = starts_of((n_sums * n_walks).tolist())
        first_chance = starts_of((n_splits * n_walks).tolist())
        n_pairs, first_pair = np.zeros(len(trees), np.int64), np.zeros(len(trees) + 1, np.int64)
        if interactions:
            pair_start = self.paths[0].pair_start
            n_pairs = pair_start[trees + 1] - pair_start[trees]
            first_pair = starts_of((n_pairs * n_walks).tolist())
        whose = np.repeat(np.arange(len(trees)), n_walks)
        q = np.arange(len(whose)) - np.repeat(np.cumsum(n_walks) - n_walks, n_walks)
        tree, base = trees[whose], walks.split_start[whole[0]]
        values = {
            "first_split": walks.split_start[tree] - base,
            "n_splits": n_splits[whose],
            "first_step": walks.step_start[tree],
            "n_steps": walks.step_start[tree + 1] - walks.step_start[tree],
            "point": walks.point_start[tree] + 2 * q,
            "first_chance": first_chance[whose] + q * n_splits[whose],
            "first_sum": first_sum[whose] + q * n_sums[whose],
            "n_sums": n_sums[whose],
            "first_pair": first_pair[whose] + q * n_pairs[whose],
            "first_path": walks.split_start[tree] + tree,
            "whole_split": walks.split_start[tree],
            "padding": np.zeros(len(tree), np.int64),
        }
        items = np.stack([values[name] for name in WALK_FIELDS], axis=1).astype(np.uint32)
        slot, whose = _entries(walks.feature_start, trees)
        features = walks.features[walks.feature_start[trees[whose]] + slot]
        place = trees[whose] % self.n_outputs * n_columns + features
        pairs = None
        uses = self.uses(place, first_sum[whose] + slot, n_walks[whose], n_sums[whose], int(first_sum[-1]))
        if interactions:
            number, whose = _entries(pair_start, trees)
            slots = self.paths[0].pairs[pair_start[trees[whose]] + number]
            both = walks.features[walks.feature_start[trees[whose]][:, None] + slots].astype(np.int64)
            place = (trees[whose] % self.n_outputs * n_columns + both[:, 0]) * n_columns + both[:, 1]
            pairs = self.uses(
                place, first_pair[whose] + number, n_walks[whose], n_pairs[whose], int(first_pair[-1])
            )  # fmt: skip
        end = int(walks.split_start[whole[-1] + 1])
        return _Chunk(
            int(base), end - int(base), self.upload(items), len(items), int(first_chance[-1]), uses, pairs
        )  # fmt: skip


def explainer_on(device: str, forest: Forest, plan: ShapleyPlan, cover: str) -> GpuWalks:
    """Return a forest and its plan on a device; it is kept there as long as the Forest lives."""
    runtime = devices.open_runtime(device)
    return forest.packed_for(f"{device}, cover by {cover}", lambda: GpuWalks(runtime, forest, plan))


def add_contributions(
    held: GpuWalks, reader: Reader, rows: range, chosen: range, out: FloatArray, pairs_out: FloatArray | None
) -> None:
    """Compute the Shapley values of the chosen trees for some rows, and the derivatives for pairs of features.

    out        float64 (len(rows), n_outputs, n_features)              out   zeros at first
    pairs_out  float64 (len(rows), n_outputs, n_features, n_features)  out   zeros at first; or None
    """
    interactions = pairs_out is not None
    n_columns = out.shape[2]
    n_places = [held.n_outputs * n_columns] + [held.n_outputs * n_columns * n_columns] * interactions
    most_bytes = max(int(held.row_bytes(interactions).max(initial=1)), 8 * sum(n_places))
    step = _block_rows(len(rows), held.budget() // most_bytes)
    chunks = held.chunks(chosen, step, n_columns, interactions)
    for start, table in _tables(held.runtime, reader, rows, step):
        part = slice(start, start + table.n_rows)
        with Scratch(held.runtime) as scratch:
            results = [scratch.room(8 * table.n_rows * n) for n in n_places]
            for result, n in zip(results, n_places, strict=True):
                held.runtime.zero(result, 8 * table.n_rows * n)
            _walk(held, table, chunks, results, n_places, scratch)
            held.runtime.download(results[0], out[part])
            if pairs_out is not None:
                held.runtime.download(results[1], pairs_out[part])


def _walk(
    held: GpuWalks,
    table: DeviceTable,
    chunks: list[_Chunk],
    results: list[Buffer],
    n_places: list[int],
    scratch: Scratch,
) -> None:
    """Walk a block of rows through all chunks, and add what was found to the results."""
    interactions, runtime, kept = len(results) > 1, held.runtime, held.kept
    kernels, keep = held.kernels(interactions)
    n_words = -(-table.n_rows // 32)
    stride = 32 * n_words

    def room(sizes: list[int], n_bytes: int) -> Buffer:
        return scratch.room(n_bytes * max(sizes, default=1))

    raw = room([chunk.n_splits for chunk in chunks], 4 * n_words)
    codes = room([chunk.n_splits for chunk in chunks], 8 * n_words)
    chances = room([chunk.n_chances for chunk in chunks], 8 * 18)
    rates = room([chunk.n_chances for chunk in chunks] if interactions else [1], 8 * 4)
    sums = room([chunk.features.n_sums for chunk in chunks], 8 * stride)
    pair_sums = room([chunk.pairs.n_sums for chunk in chunks if chunk.pairs is not None], 8 * stride)
    most_groups = runtime.facts.compute_units * GROUPS_A_UNIT
    memory = scratch.room(8 if keep else 8 * kept.numbers * kernels.threads * most_groups)
    path_start, edges = held.paths[1:] if interactions else (rates, rates)
    for chunk in chunks:
        at = u32(chunk.first_split), u32(chunk.n_splits)
        kernels.decide(table, held, chunk, raw)
        kernels.launch_over("codes_kernel", n_words * chunk.n_splits, raw, u64(n_words), held.tests, *at, codes)
        n_items = u32(chunk.n_items)
        kernels.launch(
            "chances_kernel", chunk.n_items, chunk.items, n_items, held.tests, held.share, held.merged, held.points,
            chances, rates,
        )  # fmt: skip
        if chunk.pairs is not None:
            runtime.zero(pair_sums, 8 * stride * chunk.pairs.n_sums)
        n_jobs = -(-table.n_rows // kernels.threads) * chunk.n_items
        kernels.launch(
            "walk_kernel", n_jobs if keep else min(n_jobs, most_groups), chunk.items, n_items, codes, at[1],
            u64(table.n_rows), u64(stride), held.steps, held.leaves, chances, held.points, held.weights,
            u32(kept.levels), u32(kept.rooms), u32(kept.numbers), memory, sums, rates, path_start, edges, pair_sums,
        )  # fmt: skip
        _gather(kernels, chunk.features, sums, table.n_rows, stride, n_places[0], results[0])
        if chunk.pairs is not None:
            _gather(kernels, chunk.pairs, pair_sums, table.n_rows, stride, n_places[1], results[1])


def _gather(
    kernels: _Kernels, uses: _Uses, sums: Buffer, n_rows: int, stride: int, n_places: int, result: Buffer
) -> None:
    """Add sums to the result, float64 (n_rows, n_places)."""
    kernels.launch_over(
        "gather_kernel", n_rows * uses.n_keys, uses.keys, u32(uses.n_keys), uses.uses, sums, u64(n_rows), u64(stride),
        u64(n_places), result,
    )  # fmt: skip


def _block_rows(n_rows: int, most: int) -> int:
    """Return the rows of a block: no more than asked for, than BLOCK_ROWS and, where 32 are enough, than `most`."""
    return max(1, min(n_rows, BLOCK_ROWS, max(32, most // 32 * 32)))


def _tables(runtime: Runtime, reader: Reader, rows: range, step: int) -> Iterator[tuple[int, DeviceTable]]:
    """Yield (first row, counted from the first of those asked for; rows on the device) for every block."""
    with Scratch(runtime) as scratch:
        buffer = scratch.room(8 * reader.n_features * min(step, len(rows)))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            read = reader.block if isinstance(reader, TableReader) else reader.read
            block = read(part.start, part.stop)
            yield start, DeviceTable.upload(runtime, block, buffer)


# --- background rows --------------------------------------------------------------------------------------------------


class GpuGames(_OnDevice):
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
        tests, sets = _tests(forest)
        branches = np.zeros((len(tests), 4), np.int32)
        for tree, start, (_, slots) in zip(trees, self.split_start, features, strict=False):
            own = branches[start : start + tree.n_splits]
            own[:, 0], own[:, 1], own[:, 2] = tree.left, tree.right, slots
        weights = coalition_weights(max((most_parted(tree) for tree in trees), default=0))
        self.most, self.most_slots = len(weights), int(np.diff(self.feature_start).max(initial=1))
        self.tests, self.sets, self.branches = self.upload(tests), self.upload(sets), self.upload(branches)
        self.leaves = self.upload(np.concatenate([np.empty(0), *(tree.leaf_value for tree in trees)]))
        self.weights = self.upload(np.array(weights))

    def chunks(self, chosen: range, n_rows: int, n_columns: int) -> list[_Chunk]:
        """Return the chosen trees in chunks for so many rows, explained ones and background rows together."""
        key = chosen, n_rows, n_columns
        if key not in self._chunks:
            cost = n_rows * (8 * np.diff(self.feature_start) + np.diff(self.split_start))
            parts = _within(np.asarray(cost), chosen, self.budget())
            starts = self.split_start
            self._chunks = {
                key: [self._chunk(trees, n_columns) for trees in parts if starts[trees[-1] + 1] > starts[trees[0]]]
            }
        return self._chunks[key]

    def _chunk(self, trees: NDArray[np.int64], n_columns: int) -> _Chunk:
        base, end = int(self.split_start[trees[0]]), int(self.split_start[trees[-1] + 1])
        trees = trees[self.split_start[trees + 1] > self.split_start[trees]]
        first_sum = starts_of((self.feature_start[trees + 1] - self.feature_start[trees]).tolist())
        first = self.split_start[trees]
        items = np.stack((first - base, first, self.leaf_start[trees], first_sum[:-1]), axis=1).astype(np.uint32)
        slot, whose = _entries(self.feature_start, trees)
        place = trees[whose] % self.n_outputs * n_columns + self.features[self.feature_start[trees[whose]] + slot]
        once = np.ones(len(slot), np.int64)
        uses = self.uses(place, first_sum[whose] + slot, once, once, int(first_sum[-1]))
        return _Chunk(base, end - base, self.upload(items), len(items), 0, uses, None)


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
    step = _block_rows(len(rows), held.budget() // (8 * max(n_places, held.most_slots)))
    chunks = held.chunks(chosen, step + len(background), n_columns)
    with Scratch(runtime) as own:
        others = DeviceTable.upload(runtime, background, own.room(background.nbytes))
        for start, table in _tables(runtime, reader, rows, step):
            with Scratch(runtime) as scratch:
                result = scratch.room(8 * table.n_rows * n_places)
                runtime.zero(result, 8 * table.n_rows * n_places)
                _play(held, table, others, chunks, result, n_places, scratch)
                runtime.download(result, out[start : start + table.n_rows])


def _play(
    held: GpuGames,
    table: DeviceTable,
    others: DeviceTable,
    chunks: list[_Chunk],
    result: Buffer,
    n_places: int,
    scratch: Scratch,
) -> None:
    """Play a block of rows against the background rows in all chunks."""
    runtime = held.runtime
    kernels = _Kernels(runtime)
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
        _gather(kernels, chunk.features, sums, table.n_rows, stride, n_places, result)

"""Path-dependent Shapley values on a GPU: a walk is a tree and two points of the quadrature, and a thread is a row."""

from __future__ import annotations

from typing import NamedTuple

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
from hornbeam.trees.shapley.joined_plan import Paths, Walks, join_paths, join_walks, starts_of
from hornbeam.trees.shapley.plan import ShapleyPlan

FloatArray = NDArray[np.float64]

KEEP_STEP = 32
"""Numbers that threads keep are rounded up to a multiple of this, so that models share compiled kernels."""

WALK_FIELDS = (
    "first_split", "n_splits", "first_step", "n_steps", "point", "first_chance", "first_sum", "n_sums", "first_pair",
    "first_path", "whole_split", "padding",
)  # fmt: skip
"""Those of walk_t of kernels/prediction/explain.cl."""


class _Kept(NamedTuple):
    """What a thread keeps while it walks: numbers by kind, and how many together."""

    levels: int
    rooms: int
    numbers: int


class GpuWalks(OnDevice):
    """A forest and its plan."""

    def __init__(self, runtime: Runtime, forest: Forest, plan: ShapleyPlan) -> None:
        super().__init__(runtime)
        self.plan, self.n_outputs = plan, forest.n_outputs
        self.walks: Walks = join_walks(plan)
        walks = self.walks
        tests, sets = split_tests(forest)
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

    def kernels(self, interactions: bool) -> tuple[Kernels, int]:
        """Return the kernels, and the numbers that a thread keeps in local memory; 0: in global memory."""
        keep = -(-self.kept.numbers // KEEP_STEP) * KEEP_STEP
        facts = self.runtime.facts
        for threads in (THREADS, THREADS // 2, THREADS // 4):
            if 2 * (8 * keep * threads) <= facts.local_bytes:
                return Kernels(self.runtime, keep, threads, interactions), keep
        return Kernels(self.runtime, 0, THREADS, interactions), 0

    def row_bytes(self, interactions: bool) -> NDArray[np.int64]:
        """Return the memory that each tree takes for a row, int64 (n_trees,)."""
        walks = self.walks
        n_sums = np.diff(walks.feature_start)
        if interactions:
            n_sums = n_sums + np.diff(self.paths[0].pair_start)
        return np.asarray(8 * n_sums * (np.diff(walks.point_start) // 2) + np.diff(walks.split_start))

    def chunks(self, chosen: range, n_rows: int, n_columns: int, interactions: bool) -> list[Chunk]:
        """Return the chosen trees in chunks for blocks of so many rows."""
        key = chosen, n_rows, n_columns, interactions
        if key not in self._chunks:
            walks = self.walks
            n_chances = np.diff(walks.split_start) * (np.diff(walks.point_start) // 2)
            cost = n_rows * self.row_bytes(interactions) + 176 * n_chances
            self._chunks = {
                key: [
                    self._chunk(trees, n_columns, interactions)
                    for trees in trees_within(np.asarray(cost), chosen, self.budget())
                    if walks.split_start[trees[-1] + 1] > walks.split_start[trees[0]]
                ]
            }
        return self._chunks[key]

    def _chunk(self, trees: NDArray[np.int64], n_columns: int, interactions: bool) -> Chunk:
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
        slot, whose = entries_of(walks.feature_start, trees)
        features = walks.features[walks.feature_start[trees[whose]] + slot]
        place = trees[whose] % self.n_outputs * n_columns + features
        pairs = None
        uses = self.uses(place, first_sum[whose] + slot, n_walks[whose], n_sums[whose], int(first_sum[-1]))
        if interactions:
            number, whose = entries_of(pair_start, trees)
            slots = self.paths[0].pairs[pair_start[trees[whose]] + number]
            both = walks.features[walks.feature_start[trees[whose]][:, None] + slots].astype(np.int64)
            place = (trees[whose] % self.n_outputs * n_columns + both[:, 0]) * n_columns + both[:, 1]
            pairs = self.uses(
                place, first_pair[whose] + number, n_walks[whose], n_pairs[whose], int(first_pair[-1])
            )  # fmt: skip
        end = int(walks.split_start[whole[-1] + 1])
        return Chunk(
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
    step = block_rows(len(rows), held.budget() // most_bytes)
    chunks = held.chunks(chosen, step, n_columns, interactions)
    for start, table in tables_of(held.runtime, reader, rows, step):
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
    chunks: list[Chunk],
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
        gather(kernels, chunk.features, sums, table.n_rows, stride, n_places[0], results[0])
        if chunk.pairs is not None:
            gather(kernels, chunk.pairs, pair_sums, table.n_rows, stride, n_places[1], results[1])

"""Ranks joined to bins on a GPU: see kernels/growth/join.cl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.ranked.sorted_rows import sorted_rows
from hornbeam.backends.gpu.runtime.runtime import DeviceFacts, Variant, u32
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.binning import BinnedData
from hornbeam.data.quantiles import HEAVY_ROUNDS

THREADS, FEWEST_THREADS, EACH = 512, 64, 8
"""Threads of a group, at least so many where it takes a block of ranks at once, and ranks of each of them."""

LANES, GUESSES = 4, 1024
"""As in join.cl."""

MOST_BLOCKS = 4096
"""Of the ranks of a feature, or as many as local memory holds 64-bit sums of, for LANES features."""

CHUNKS_A_UNIT = 8
"""Chunks of rows for each compute unit, those of different features counted."""

MOST_ROWS = 1 << 16
"""Of a chunk: their hessians of 16 bits sum to 32."""

FEATURE = np.dtype(
    [
        ("weights", np.uint64),
        ("bins", np.uint64),
        ("n_ranks", np.uint32),
        ("n_bins", np.uint32),
        ("shift", np.uint32),
        ("guess_shift", np.uint32),
    ]
)
"""join.cl's feature_t."""

STATE_BYTES, BLOCK_BYTES = 40, 32
"""Of its state_t and block_t."""


@dataclass(frozen=True, slots=True)
class JoinSizes:
    """What join.cl is told of the features of numbers.

    n_rows       of the data set
    features     FEATURE (n_numeric,)
    n_blocks     of a feature, at most
    most_slots   blocks of a feature whose ranks are weighed one by one, at most
    n_weights    ranks of all such blocks
    """

    n_rows: int
    features: NDArray[np.void]
    n_blocks: int
    most_slots: int
    n_weights: int

    @classmethod
    def of(cls, facts: DeviceFacts, ranked: BinnedData, joined: BinnedData) -> JoinSizes:
        """Size what joins the ranks of one data set to the bins of another."""
        n = ranked.n_numeric
        n_blocks = min(MOST_BLOCKS, 1 << ((facts.local_bytes // (8 * LANES)).bit_length() - 1))
        n_ranks, n_bins = ranked.n_value_bins[:n].astype(np.int64), joined.n_value_bins[:n].astype(np.int64)
        features = np.zeros(n, FEATURE)
        features["bins"] = joined.offsets[:n]
        features["n_ranks"], features["n_bins"] = n_ranks, n_bins
        features["shift"], features["guess_shift"] = _shifts(n_ranks, n_blocks), _shifts(n_ranks, GUESSES)
        # a round finds new heavy ranks in fewer than n_bins / 2 blocks; in fewer than n_bins others the share changes
        slots = np.minimum(n_blocks, n_bins + HEAVY_ROUNDS * n_bins // 2) * (n_ranks > n_bins)
        ends = np.cumsum(slots << features["shift"].astype(np.int64))
        features["weights"] = ends - (slots << features["shift"].astype(np.int64))
        return cls(ranked.n_rows, features, n_blocks, int(slots.max(initial=1)), int(ends[-1]) if n else 0)

    @property
    def place_bytes(self) -> int:
        """Bytes of the place of a rank in its block."""
        return 2 if self.features["shift"].max(initial=0) <= 16 else 4

    @property
    def slot_threads(self) -> int:
        """Threads of a group that takes a block."""
        return int(np.clip((1 << int(self.features["shift"].max(initial=0))) // EACH, FEWEST_THREADS, THREADS))

    @property
    def changing(self) -> NDArray[np.intp]:
        """The features whose bins differ from tree to tree."""
        return np.flatnonzero(self.features["n_ranks"] > self.features["n_bins"])

    @property
    def listed(self) -> NDArray[np.uint32]:
        """The features whose rows are listed: those of blocks of several ranks."""
        changing = self.changing
        return changing[self.features["shift"][changing] > 0].astype(np.uint32)

    @property
    def buffers(self) -> dict[str, int]:
        """Names and bytes of what is kept besides ranks and bins."""
        n = max(1, len(self.features))
        n_ends, n_lists = int(self.features["n_bins"].sum()) + n, max(1, len(self.listed))
        return {
            "joined features": FEATURE.itemsize * n,
            "join states": STATE_BYTES * n,
            "rank blocks": BLOCK_BYTES * self.n_blocks * n,
            "block of slot": 4 * self.most_slots * n,
            "rank weights": 8 * max(1, self.n_weights),
            "listed ends": 4 * n_ends,
            "last rank": 4 * n_ends,
            "bin guesses": 2 * GUESSES * n,
            "listed features": 4 * n_lists,
            "rows by rank": 4 * n_lists * self.n_rows,
            "places in blocks": self.place_bytes * n_lists * self.n_rows,
            "block begins": 4 * n_lists * (self.n_blocks + 1),
        }


def _shifts(n_ranks: NDArray[np.int64], most: int) -> NDArray[np.uint32]:
    """Return the bits that ranks are shifted by to become numbers below `most`, a power of two."""
    bits = [int(n - 1).bit_length() for n in n_ranks.tolist()]
    return np.array([max(0, own - (most.bit_length() - 1)) for own in bits], np.uint32)


class RankJoin:
    """Joins ranks to bins, and writes these."""

    def __init__(self, workspace: Workspace, sizes: JoinSizes, ranks: PlacedBins) -> None:
        self._workspace, self._sizes, self._runtime = workspace, sizes, workspace.runtime
        layout = ranks.layout
        self._read = ranks.tiles, u32(layout.bin_bits), u32(layout.tile_words), u32(layout.n_rows)
        for name, n_bytes in sizes.buffers.items():
            workspace.room(name, n_bytes)
        workspace.upload("joined features", sizes.features)
        self._has_written = False
        if len(sizes.listed):
            workspace.upload("listed features", sizes.listed)
            self._list_rows(ranks)

    def _variant(self, wide: bool, threads: int = THREADS, **options: int) -> Variant:
        """Return the variant of join.cl; options of the bins, where they are written."""
        n_blocks, place_bytes = self._sizes.n_blocks, self._sizes.place_bytes
        return self._workspace.variant(
            "join.cl", threads, wide=wide, each=EACH, n_bins=n_blocks, value_bytes=place_bytes, **options
        )

    def _list_rows(self, ranks: PlacedBins) -> None:
        """Sort the rows by the ranks of each feature whose rows are listed."""
        own, sizes, buffer = self._workspace, self._sizes, self._workspace.buffer
        kernel = own.runtime.kernel("place_kernel", self._variant(False, words=1))
        for some in sorted_rows(own, ranks, sizes.listed):
            own.launch_over(
                some.n_features * sizes.n_rows, kernel, some.ranks, some.rows, u32(sizes.n_rows),
                buffer("listed features"), u32(some.first), u32(some.n_features), buffer("joined features"),
                buffer("rows by rank"), buffer("places in blocks"), buffer("block begins"),
            )  # fmt: skip

    def join(self, n_records: int, listed: bool, wide: bool, bins: PlacedBins) -> None:
        """Find the bins of a tree from the hessians of its root, and write all rows' bins.

        listed  whether the root has some rows alone, in "rows even"
        """
        if self._has_written and len(self._sizes.changing) == 0:
            return
        own, sizes, layout, runtime = self._workspace, self._sizes, bins.layout, self._runtime
        n, buffer, words = len(sizes.features), own.buffer, 2 - layout.tile_words % 2
        variant = self._variant(wide, words=words, **layout.options)
        of_slots = self._variant(wide, sizes.slot_threads, words=words, **layout.options)
        features, states, blocks = buffer("joined features"), buffer("join states"), buffer("rank blocks")
        block_of, weights, ends = buffer("block of slot"), buffer("rank weights"), buffer("listed ends")
        last_rank, guesses = buffer("last rank"), buffer("bin guesses")
        records, rows = buffer("records even"), buffer("rows even")
        most_groups = own.facts.compute_units * CHUNKS_A_UNIT

        def over_rows(name: str, n_rows: int, n_parts: int, *arguments: Any, local_bytes: int = 0) -> None:
            """Launch a kernel whose groups take a part of the features of a chunk of rows."""
            chunk = min(MOST_ROWS, max(THREADS, -(-n_rows * n_parts // most_groups)))
            groups = min(most_groups, -(-n_rows // chunk) * n_parts)
            kernel = runtime.kernel(name, variant, local_bytes)
            runtime.launch(kernel, groups, *self._read, u32(n), u32(chunk), *arguments)

        def over_slots(name: str, *arguments: Any) -> None:
            groups = min(own.groups * (THREADS // of_slots.threads), n * sizes.most_slots)
            runtime.launch(runtime.kernel(name, of_slots), groups, features, *counted, *arguments)

        def over_features(name: str, *arguments: Any) -> None:
            runtime.launch(runtime.kernel(name, variant), min(own.groups, n), features, *arguments)

        def weigh_ranks() -> None:
            over_slots("clear_kernel", states, blocks, block_of, weights)
            if n_lists:
                n_tiles = -(-sizes.n_rows // (EACH * of_slots.threads))
                groups = min(4 * own.groups * (THREADS // of_slots.threads), n_lists * n_tiles)
                runtime.launch(
                    runtime.kernel("weigh_ranks_kernel", of_slots), groups, *self._read,
                    buffer("listed features"), u32(n_lists), buffer("rows by rank"), buffer("places in blocks"),
                    buffer("block begins"), by_row, features, states, blocks, weights,
                )  # fmt: skip

        counted, n_lists, by_row = (u32(n), u32(sizes.most_slots)), len(sizes.listed), records
        if n_lists and listed:
            by_row = own.room("hessians by row", (8 if wide else 4) * sizes.n_rows)
            runtime.zero(by_row, (8 if wide else 4) * sizes.n_rows)
            own.launch_over(
                n_records, runtime.kernel("spread_kernel", variant), records, rows, u32(n_records), by_row
            )  # fmt: skip
        runtime.zero(blocks, BLOCK_BYTES * sizes.n_blocks * n)
        seen = records, rows, u32(listed), u32(n_records), features, blocks
        local_bytes = LANES * sizes.n_blocks * (8 if wide else 4)
        over_rows("weigh_blocks_kernel", n_records, -(-n // LANES), *seen, local_bytes=local_bytes)
        for heavy_round in range(HEAVY_ROUNDS):
            over_features("suspect_kernel", *counted, u32(heavy_round), states, blocks, block_of)
            weigh_ranks()
            over_slots("find_heavy_kernel", states, block_of, weights, blocks)
        over_features("choose_kernel", *counted, states, blocks, block_of)
        weigh_ranks()
        over_slots("find_ends_kernel", states, blocks, block_of, weights, ends)
        over_features("order_ends_kernel", u32(n), states, ends, last_rank, guesses)
        parts = np.arange(layout.n_tiles * layout.tile_words // words)
        if self._has_written:  # bins of the others are there
            parts = np.unique(sizes.changing // (words * 32 // layout.bin_bits))
        self._has_written = True
        written = own.upload("written parts", parts.astype(np.uint32))
        over_rows(
            "write_kernel", layout.n_rows, len(parts), u32(layout.n_used), written, u32(len(parts)), features,
            last_rank, guesses, bins.tiles, u32(bins.has_columns), bins.by_feature,
        )  # fmt: skip
        if bins.has_columns and layout.bin_bits < 8:
            bins.make_columns()

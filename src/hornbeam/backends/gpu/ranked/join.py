"""Ranks joined to bins on a GPU: see kernels/growth/join.cl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime.runtime import DeviceFacts, u32
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.binning import BinnedData

THREADS, EACH = 512, 8
"""Threads of a group, and ranks of each at a time: a block of ranks at once."""

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

STATE_BYTES, BLOCK_BYTES = 48, 32
"""Of its state_t and block_t."""


@dataclass(frozen=True, slots=True)
class JoinSizes:
    """What join.cl is told of the features of numbers.

    features     FEATURE (n_numeric,)
    n_blocks     of a feature, at most
    most_slots   blocks of a feature whose ranks are weighed one by one, at most
    n_weights    ranks of all such blocks
    """

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
        # fewer than n_bins / 2 blocks may hold heavy ranks, and in fewer than n_bins others the share changes
        slots = np.minimum(n_blocks, n_bins + n_bins // 2) * (n_ranks > n_bins)
        ends = np.cumsum(slots << features["shift"].astype(np.int64))
        features["weights"] = ends - (slots << features["shift"].astype(np.int64))
        return cls(features, n_blocks, int(slots.max(initial=1)), int(ends[-1]) if n else 0)

    @property
    def buffers(self) -> dict[str, int]:
        """Names and bytes of what is kept besides ranks and bins."""
        n = max(1, len(self.features))
        n_ends = int(self.features["n_bins"].sum()) + n
        return {
            "joined features": FEATURE.itemsize * n,
            "join states": STATE_BYTES * n,
            "rank blocks": BLOCK_BYTES * self.n_blocks * n,
            "block of slot": 4 * self.most_slots * n,
            "rank weights": 8 * max(1, self.n_weights),
            "listed ends": 4 * n_ends,
            "last rank": 4 * n_ends,
            "bin guesses": 2 * GUESSES * n,
        }


def _shifts(n_ranks: NDArray[np.int64], most: int) -> NDArray[np.uint32]:
    """Return the bits that ranks are shifted by to become numbers below `most`, a power of two."""
    bits = [int(n - 1).bit_length() for n in n_ranks.tolist()]
    return np.array([max(0, own - (most.bit_length() - 1)) for own in bits], np.uint32)


class RankJoin:
    """Joins ranks to bins, and writes these."""

    def __init__(self, workspace: Workspace, sizes: JoinSizes, ranks: PlacedBins) -> None:
        self._workspace, self._sizes, self._ranks = workspace, sizes, ranks
        for name, n_bytes in sizes.buffers.items():
            workspace.room(name, n_bytes)
        workspace.upload("joined features", sizes.features)

    def join(self, n_records: int, listed: bool, wide: bool, bins: PlacedBins) -> None:
        """Find the bins of a tree from the hessians of its root, and write all rows' bins.

        listed  whether the root has some rows alone, in "rows even"
        """
        own, sizes, layout = self._workspace, self._sizes, bins.layout
        runtime, n, ranks = own.runtime, len(sizes.features), self._ranks.layout
        features, states, blocks, block_of, weights, found, last_rank, guesses = (own.buffer(b) for b in sizes.buffers)
        variant = own.variant("join.cl", THREADS, wide=wide, each=EACH, n_bins=sizes.n_blocks, **layout.options)
        most_groups = own.facts.compute_units * CHUNKS_A_UNIT

        def over_rows(name: str, n_rows: int, n_parts: int, *arguments: Any, local_bytes: int = 0) -> None:
            """Launch a kernel whose groups take a part of the features of a chunk of rows."""
            chunk = min(MOST_ROWS, max(THREADS, -(-n_rows * n_parts // most_groups)))
            groups = min(most_groups, -(-n_rows // chunk) * n_parts)
            read = self._ranks.tiles, u32(ranks.bin_bits), u32(ranks.tile_words), u32(ranks.n_rows), u32(n), u32(chunk)
            runtime.launch(runtime.kernel(name, variant, local_bytes), groups, *read, *arguments)

        def over_slots(name: str, *arguments: Any) -> None:
            groups = min(own.groups, n * sizes.most_slots)
            runtime.launch(runtime.kernel(name, variant), groups, features, *counted, *arguments)

        def over_features(name: str, *arguments: Any) -> None:
            runtime.launch(runtime.kernel(name, variant), min(own.groups, n), features, *arguments)

        def weigh_ranks() -> None:
            over_slots("clear_kernel", states, blocks, block_of, weights)
            over_rows("weigh_ranks_kernel", n_records, n_parts, *records, features, states, blocks, weights)

        records = own.buffer("records even"), own.buffer("rows even"), u32(listed), u32(n_records)
        n_parts, counted = -(-n // LANES), (u32(n), u32(sizes.most_slots))
        runtime.zero(blocks, BLOCK_BYTES * sizes.n_blocks * n)
        local_bytes = LANES * sizes.n_blocks * (8 if wide else 4)
        over_rows(
            "weigh_blocks_kernel", n_records, n_parts, *records, features, blocks, local_bytes=local_bytes
        )  # fmt: skip
        over_features("suspect_kernel", *counted, states, blocks, block_of)
        weigh_ranks()
        over_slots("find_heavy_kernel", states, block_of, weights, blocks)
        over_features("choose_kernel", *counted, states, blocks, block_of)
        weigh_ranks()
        over_slots("find_ends_kernel", states, blocks, block_of, weights, found)
        over_features("order_ends_kernel", u32(n), states, found, last_rank, guesses)
        n_words = layout.n_tiles * layout.tile_words
        over_rows(
            "write_kernel", layout.n_rows, n_words, u32(layout.n_used), u32(layout.n_tiles), features, last_rank,
            guesses, bins.tiles,
        )  # fmt: skip
        if bins.has_columns:
            bins.make_columns()

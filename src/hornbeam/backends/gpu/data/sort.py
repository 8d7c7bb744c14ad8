"""A stable sort of keys on a device, see kernels/data/sort.cl."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u32

EACH = 8
"""Keys of a thread: 2,048 a tile, sorted in 34 KB of local memory."""


@dataclass(frozen=True, slots=True)
class SegmentSort:
    """Sorts n keys in each of n_segments segments.

    variant   of sort.cl: the bytes of a key, an even number, and whether they have a payload
    groups    most groups of a launch
    """

    runtime: Runtime
    variant: Variant
    groups: int
    n: int
    n_segments: int = 1

    @property
    def n_tiles(self) -> int:
        """Tiles of a segment."""
        return -(-self.n // (self.variant.each * self.variant.threads))

    @property
    def count_bytes(self) -> int:
        """Bytes of the counts of digits."""
        return 1024 * self.n_segments * self.n_tiles

    @property
    def total_bytes(self) -> int:
        """Bytes of their totals."""
        return 1024 * self.n_segments

    def launch(self, here: tuple[Buffer, Buffer], there: tuple[Buffer, Buffer], counts: Buffer, totals: Buffer) -> None:
        """Sort keys and payloads, which end where they were; without payloads those buffers are not looked at."""
        launch, kernel = self.runtime.launch, self.runtime.kernel
        count, scan, begin, scatter = (
            kernel(f"digit_{name}_kernel", self.variant) for name in ("counts", "scan", "begin", "scatter")
        )
        segments, n_tiles = u32(self.n_segments), u32(self.n_tiles)
        groups = min(self.n_segments * self.n_tiles, self.groups)
        for digit in range(self.variant.value_bytes):
            where = u32(self.n), segments, u32(8 * digit), n_tiles
            launch(count, groups, here[0], *where, counts)
            launch(scan, min(256 * self.n_segments, self.groups), counts, segments, n_tiles, totals)
            launch(begin, min(self.n_segments, self.groups), totals, segments)
            launch(scatter, groups, *here, *where, counts, totals, *there)
            here, there = there, here

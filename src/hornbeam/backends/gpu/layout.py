"""How bins, rows and histograms lie in device memory.

What an engine holds:

    tiles        u32 (n_tiles, n_rows, 8)     32 bytes of a row: 64 features of 4-bit bins, 32 of 8, 16 of 16 bits
    columns      u8 or u16 (n_used, n_rows)   the same bins by feature; of 4-bit bins two rows a byte. Where memory is
                                              short there are none (memory.py)
    rows         u32 (n_rows,)  twice         rows of the nodes, of even and of odd depth
    records      u32 or u64 (n_rows,)  twice  their fixed-point gradients
    histograms   i64 (n_slots, n_tiles, n_stats, n_bins, lanes)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime import DeviceFacts
from hornbeam.binning import BinnedData
from hornbeam.errors import DeviceError

TILE_WORDS = 8
"""32-bit words of a row in a tile: one memory sector."""

HALF_TILE_WORDS = 4
"""The same where 4-bit bins of all features fit in half a sector."""

MOST_ROWS = 2**32 - 2**16
"""Row places are 32-bit numbers with some room above the last."""


def padded_bins(n_bins: int) -> int:
    """Round a number of bins up, so that few variants of the kernels are compiled: 16, 64, or 256 times k."""
    return 16 if n_bins <= 16 else 64 if n_bins <= 64 else -(-n_bins // 256) * 256


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of one training set on a device."""

    n_rows: int
    n_used: int
    bin_bits: int  # 4, 8 or 16
    n_bins: int  # of every feature, padded
    tile_words: int

    @classmethod
    def of(cls, binned: BinnedData) -> Layout:
        """Lay out a training set."""
        if binned.n_rows > MOST_ROWS:
            raise DeviceError(f"{binned.n_rows} rows; a GPU takes at most {MOST_ROWS}: train on device='cpu'")
        return cls.of_sizes(binned.n_rows, binned.n_value_bins)

    @classmethod
    def of_sizes(cls, n_rows: int, n_value_bins: NDArray[np.int32]) -> Layout:
        """Lay out so many rows of features with these value bins, int32 (n_used,), and a missing one each."""
        most, n_used = int(n_value_bins.max(initial=1)) + 1, len(n_value_bins)
        bin_bits = 4 if most <= 16 else 8 if most <= 256 else 16
        half = bin_bits == 4 and n_used <= HALF_TILE_WORDS * 8
        return cls(n_rows, n_used, bin_bits, padded_bins(most), HALF_TILE_WORDS if half else TILE_WORDS)

    @property
    def lanes(self) -> int:
        """Features of a tile."""
        return self.tile_words * 32 // self.bin_bits

    @property
    def n_tiles(self) -> int:
        """Tiles of a row."""
        return -(-self.n_used // self.lanes)

    @property
    def host_bytes(self) -> int:
        """Bytes of a bin in host memory."""
        return 2 if self.bin_bits == 16 else 1

    @property
    def options(self) -> dict[str, int]:
        """Fields of the Variant of kernels that read tiles, or histograms."""
        return {"bin_bits": self.bin_bits, "tile_words": self.tile_words}

    def slot_size(self, n_stats: int) -> int:
        """Return the 64-bit sums of one histogram."""
        return self.n_tiles * n_stats * self.n_bins * self.lanes

    @property
    def tile_bytes(self) -> int:
        """Bytes of the tiles."""
        return self.n_rows * self.n_tiles * self.tile_words * 4

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns."""
        return self.n_used * (-(-self.n_rows // 2) if self.bin_bits == 4 else self.n_rows * self.host_bytes)


def check_buffer(n_bytes: int, what: str, facts: DeviceFacts) -> None:
    """Raise if a device cannot hold something in one piece."""
    if n_bytes > facts.max_buffer_bytes:
        raise DeviceError(
            f"{facts.name} gives at most {facts.max_buffer_bytes / 2**20:,.0f} MB in one piece, and {what} take "
            f"{n_bytes / 2**20:,.0f} MB; a smaller histogram_pool_size, fewer bins (max_bin) or device='cpu' help"
        )

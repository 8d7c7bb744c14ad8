"""How bins, rows and histograms lie in device memory.

What an engine holds:

    tiles        u32 (n_tiles, n_rows, 8)     32 bytes of a row: 64 features of 4-bit bins, 32 of 8, 16 of 16 bits;
                                              16, 8 or 4 bytes where all features fit. Where even these do not fit
                                              on the device they are in host memory, and columns too
    columns      u8 or u16 (n_columns, n_rows)   the same bins by feature; of 4-bit bins two rows a byte. Where memory
                                              is short there are none (memory.py)
    rows         u32 (n_rows,)  twice         rows of the nodes, of even and of odd depth
    records      u32 or u64 (n_rows,)  twice  their fixed-point gradients
    histograms   i64 (n_slots, n_tiles, n_stats, n_bins, lanes)

A column is a used feature, or a bundle of them (bundles.py), whose codes are its bins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime.runtime import DeviceFacts
from hornbeam.core.errors import DeviceError
from hornbeam.data.binning import BinnedData


class Bundled(Protocol):
    """Bundles of features, as far as the layout looks at them: the codes of each, int32 (n_bundles,)."""

    @property
    def sizes(self) -> NDArray[np.int32]:
        """How many codes each bundle has."""


TILE_WORDS = 8
"""32-bit words of a row in a tile: one memory sector."""

SEARCHED_LANES = 4
"""Columns that a group of the split search looks at: a tile has no fewer."""

NARROW_WORDS = (1, 2, 4)
"""The same where so many hold all columns: the smallest number that does."""

FEW_BINS = (16, 64)
"""Bins of a feature in the kernels, where so few hold those of all features: the smallest number that does."""

SMALL_TILE_WORDS = 3
"""Words of a row in a tile where all bundles' codes fit, and memory is short: rows of 12 bytes lie across sectors."""

MOST_ROWS = 2**32 - 2**16
"""Row places are 32-bit numbers with some room above the last."""


def words_of_tile(n_columns: int, bin_bits: int) -> int:
    """Return the fewest words of NARROW_WORDS that hold all columns, else 8."""
    for words in NARROW_WORDS:
        if words * 32 // bin_bits >= max(n_columns, SEARCHED_LANES):
            return words
    return TILE_WORDS


def padded_bins(n_bins: int) -> int:
    """Round a number of bins up, so that few variants of the kernels are compiled: FEW_BINS, or 256 times k."""
    return next((few for few in FEW_BINS if n_bins <= few), -(-n_bins // 256) * 256)


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of one training set on a device."""

    n_rows: int
    n_used: int
    n_columns: int
    bin_bits: int  # 4, 8 or 16; 32 for ranks
    n_bins: int  # of every column, padded
    tile_words: int
    on_host: bool = False  # whether bins are in memory of the host, which kernels read over the bus

    @classmethod
    def of(cls, binned: BinnedData, bundles: Bundled | None = None) -> Layout:
        """Lay out a training set."""
        if binned.n_rows > MOST_ROWS:
            raise DeviceError(f"{binned.n_rows} rows; a GPU takes at most {MOST_ROWS}: train on device='cpu'")
        if bundles is not None:
            return cls.of_bundles(binned.n_rows, binned.n_used, bundles.sizes)
        return cls.of_sizes(binned.n_rows, binned.n_value_bins)

    @classmethod
    def of_bundles(cls, n_rows: int, n_used: int, sizes: NDArray[np.int32]) -> Layout:
        """Lay out so many rows of columns with these codes, int32 (n_columns,), that hold n_used features."""
        most, n_columns = int(sizes.max(initial=2)), len(sizes)
        bin_bits = 4 if most <= 16 else 8
        return cls(n_rows, n_used, n_columns, bin_bits, padded_bins(most), words_of_tile(n_columns, bin_bits))

    def in_small_tiles(self) -> Layout | None:
        """Return a layout that takes less memory, if there is one."""
        fits = self.is_bundled and self.n_columns <= SMALL_TILE_WORDS * 32 // self.bin_bits
        return replace(self, tile_words=SMALL_TILE_WORDS) if fits and self.tile_words > SMALL_TILE_WORDS else None

    @classmethod
    def of_sizes(cls, n_rows: int, n_value_bins: NDArray[np.int32]) -> Layout:
        """Lay out so many rows of features with these value bins, int32 (n_used,), and a missing one each."""
        most, n_used = int(n_value_bins.max(initial=1)) + 1, len(n_value_bins)
        bin_bits = 4 if most <= 16 else 8 if most <= 256 else 16 if most <= 65_536 else 32
        return cls(n_rows, n_used, n_used, bin_bits, padded_bins(most), words_of_tile(n_used, bin_bits))

    @property
    def is_bundled(self) -> bool:
        """Whether columns are bundles."""
        return self.n_columns < self.n_used

    @property
    def lanes(self) -> int:
        """Columns of a tile."""
        return self.tile_words * 32 // self.bin_bits

    @property
    def n_tiles(self) -> int:
        """Tiles of a row."""
        return -(-self.n_columns // self.lanes)

    @property
    def n_pieces(self) -> int:
        """Pieces of a node's histogram that the split search looks at by themselves, the last tile's end left out."""
        return -(-self.n_columns // SEARCHED_LANES)

    @property
    def host_bytes(self) -> int:
        """Bytes of a bin in host memory."""
        return max(1, self.bin_bits // 8)

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
    def device_tile_bytes(self) -> int:
        """Bytes of the tiles on the device."""
        return 0 if self.on_host else self.tile_bytes

    @property
    def member_bytes(self) -> int:
        """Bytes of the tables of bundles and of their codes."""
        return 16 * self.n_used + 4 * self.n_columns * self.n_bins if self.is_bundled else 0

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns."""
        return self.n_columns * (-(-self.n_rows // 2) if self.bin_bits == 4 else self.n_rows * self.host_bytes)


def megabytes(n_bytes: float) -> str:
    """Return a size for people."""
    return f"{n_bytes / 2**20:,.0f} MB" if n_bytes >= 10 * 2**20 else f"{n_bytes / 2**20:,.2f} MB"


def check_buffer(n_bytes: int, what: str, facts: DeviceFacts) -> None:
    """Raise if a device cannot hold something in one piece."""
    if n_bytes > facts.max_buffer_bytes:
        raise DeviceError(
            f"{facts.name} gives at most {facts.max_buffer_bytes / 2**20:,.0f} MB in one piece, and {what} take "
            f"{n_bytes / 2**20:,.0f} MB; a smaller histogram_pool_size, fewer bins (max_bin) or device='cpu' help"
        )

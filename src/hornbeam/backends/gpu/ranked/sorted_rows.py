"""Rows in the order of the ranks of a feature, sorted on the device: see kernels/data/rank_rows.cl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.sort import EACH, SegmentSort
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.bin_upload import PlacedBins
from hornbeam.backends.gpu.workspace.tree_kernels import THREADS
from hornbeam.backends.gpu.workspace.workspace import Workspace, room_bytes

SORTED_BYTES = 1 << 30
"""Bytes of ranks and rows that are sorted at a time, and as many besides; or those of one feature."""

ROOMS = "sorted ranks", "sorted rows", "sorted ranks out", "sorted rows out"


def bytes_to_sort(n_rows: int) -> int:
    """Return what sorting the rows by one feature takes."""
    n_tiles = -(-n_rows // (EACH * THREADS))
    return len(ROOMS) * room_bytes(4 * n_rows) + room_bytes(1024 * n_tiles) + room_bytes(1024)


class SortedRows(NamedTuple):
    """The rows of some of the features that were asked for.

    first, n_features   which of them
    ranks, rows    u32 (n_features, n_rows), ascending by rank and row
    """

    first: int
    n_features: int
    ranks: Buffer
    rows: Buffer


def sorted_rows(workspace: Workspace, placed: PlacedBins, features: NDArray[np.uint32]) -> Iterator[SortedRows]:
    """Sort the rows by each of some features; what is yielded holds until the next."""
    runtime, layout, n = workspace.runtime, placed.layout, len(features)
    n_rows = layout.n_rows
    if n == 0:
        return
    step = min(n, max(1, min(SORTED_BYTES, workspace.spare_bytes() // 4) // (8 * n_rows)))
    rooms = dict.fromkeys(ROOMS, 4 * step * n_rows)
    sort = SegmentSort(runtime, workspace.variant("sort.cl", each=EACH, value_bytes=4), workspace.groups, n_rows, step)
    rooms |= {"digit counts": sort.count_bytes, "digit totals": sort.total_bytes}
    ranks, rows, ranks_out, rows_out, counts, totals = (workspace.room(name, size) for name, size in rooms.items())
    chosen = workspace.upload("sorted features", features)
    read = placed.tiles, u32(layout.bin_bits), u32(layout.tile_words), u32(n_rows), chosen
    kernel = runtime.kernel("keys_kernel", workspace.variant("rank_rows.cl"))
    for first in range(0, n, step):
        here = min(step, n - first)
        workspace.launch_over(here * n_rows, kernel, *read, u32(first), u32(here), ranks, rows)
        SegmentSort(runtime, sort.variant, sort.groups, n_rows, here).launch(
            (ranks, rows), (ranks_out, rows_out), counts, totals
        )
        yield SortedRows(first, here, ranks, rows)
    runtime.synchronize()
    for name in (*rooms, "sorted features"):
        workspace.release(name)
    runtime.trim()

"""Histograms of the rows of one worker, for trees that grow on several: gradients, hessians, and rows.

They are summed as those of one process are (rows/counters.py), and written with as many bits as travel to the others. A
third sum counts rows, for no worker can count those of all; where hessians are all alike, theirs does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.dense.growth import DenseGrowth
from hornbeam.backends.cpu.growth.dense.histograms import Layout, add_wide
from hornbeam.backends.cpu.growth.dense.partition import bins_at
from hornbeam.backends.cpu.growth.rows.counters import COUNTED_ROWS, PACKED_ROWS, PAIRS, TRIPLES, add_counters
from hornbeam.backends.cpu.growth.rows.pieces import whole_nodes
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK
from hornbeam.backends.cpu.host.kernels import borrowed, inner_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_threads
from hornbeam.trees.records import Segments

UPDATES_A_THREAD = 100_000
"""Additions below which another thread is not worth its waking."""


@inner_kernel
def add_rows(bins, records, begin, end, by_row, f0, f1, offsets, out):
    """Count rows of wide records for the features f0:f1, in the third sum of out."""
    for place in range(np.uint64(begin), np.uint64(end)):
        row = records[place] & ROW_MASK if by_row else place
        for f in range(np.uint64(f0), np.uint64(f1)):
            out[np.uint64(offsets[f]) + bins[row, f], 2] += 1


@inner_kernel
def unpack(counters, counted, slot):
    """Add packed counters to sums; counted: the counters have three fields."""
    for i in range(len(slot)):
        word = counters[i]
        if counted:
            slot[i, 0] += word >> 37
            slot[i, 1] += (word >> 11) & 0x3FFFFFF
            slot[i, 2] += word & 0x7FF
        else:
            slot[i, 0] += word >> 32
            slot[i, 1] += word & 0xFFFFFFFF


@kernel
def sum_nodes_kernel(first, last, rows, nodes, layout, counters, out):
    """Sum the rows of nodes, for the blocks of features first:last.

    rows      see DenseRows
    nodes     see Pieces
    counters  int64 (>= layout.most_counters,)              scratch
    out       int32 or int64 (n_nodes, n_total_bins, 2 or 3) out   gradients, hessians, and rows
    """
    rows, nodes, layout = borrowed(rows), borrowed(nodes), borrowed(layout)
    offsets, blocks, counted = layout.offsets, layout.blocks, out.shape[2] > 2
    fields, at_once = (TRIPLES, COUNTED_ROWS) if counted else (PAIRS, PACKED_ROWS)
    for block in range(first, last):
        f0, f1 = blocks[block], blocks[block + 1]
        own = counters[: offsets[f1] - offsets[f0]]
        for node in range(len(nodes.begin)):
            begin, end, depth = nodes.begin[node], nodes.end[node], nodes.depth[node]
            records, wide = (rows.even, rows.wide_even) if depth % 2 == 0 else (rows.odd, rows.wide_odd)
            bins, slot = bins_at(rows, depth), out[node, offsets[f0] : offsets[f1]]
            slot[:, :] = 0
            if len(wide) > 0:
                add_wide(bins, records, wide, begin, end, rows.by_row, f0, f1, offsets, out[node])
                if counted:
                    add_rows(bins, records, begin, end, rows.by_row, f0, f1, offsets, out[node])
                continue
            for start in range(begin, end, at_once):
                own[:] = 0
                stop = min(start + at_once, end)
                add_counters(bins, records, start, stop, rows.by_row, f0, f1, layout.places, own, fields)
                unpack(own, counted, slot)


def sum_nodes(growth: DenseGrowth, nodes: Segments, n_sums: int, dtype: Any) -> NDArray[Any]:
    """Return the sums of every node's rows by bin, (n_nodes, n_total_bins, n_sums) of that type; they must fit."""
    offsets, rows, pieces = growth.columns.offsets, growth.rows, whole_nodes(nodes)
    out = np.empty((len(nodes.begin), int(offsets[-1]), n_sums), dtype)
    n_used = len(offsets) - 1
    n_updates = int((nodes.end - nodes.begin).sum()) * n_used
    n_threads = max(1, min(growth.n_threads, n_used, n_updates // UPDATES_A_THREAD))
    layout = Layout.of(offsets, 0, n_used, min(growth.tuning.counters_at_once, -(-int(offsets[-1]) // n_threads)))
    n_blocks = len(layout.blocks) - 1
    cuts = [n_blocks * t // n_threads for t in range(n_threads + 1)]
    counters = np.empty((n_threads, layout.most_counters), np.int64)
    run_threads(
        lambda t: sum_nodes_kernel(cuts[t], cuts[t + 1], rows, pieces, layout, counters[t], out), n_threads
    )  # fmt: skip
    return out

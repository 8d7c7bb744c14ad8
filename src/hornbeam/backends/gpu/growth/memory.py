"""How much device memory a training takes: counted before anything is allocated, and what would help.

Some of it only makes training faster, and is left out where it does not fit, without any effect on the model:

    columns      the second layout of the bins, by feature: without it partition reads from the tiles
    histograms   beyond those of the two children of a node: see histogram_pool.py
    a word       of the four that a row of few bundles takes, where three hold them: see layout.py
    bins         in memory of the host, where kernels read them over the bus: it is a matter of time alone
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hornbeam.backends.demand import Demand
from hornbeam.backends.gpu.data.bundles import bundles_of
from hornbeam.backends.gpu.data.layout import Layout, megabytes
from hornbeam.backends.gpu.growth.categorical import LARGEST_LOCAL_SORT, SCRATCH_BYTES
from hornbeam.backends.gpu.growth.contexts import context_bytes
from hornbeam.backends.gpu.growth.outputs import output_bytes
from hornbeam.backends.gpu.growth.renewal import COUNTS_BYTES, LEAVES_AT_ONCE, filled
from hornbeam.backends.gpu.runtime.runtime import DeviceFacts
from hornbeam.backends.gpu.workspace.tree_kernels import CAPACITY, PARTITION_EACH, WARP
from hornbeam.core.dtypes import NODE, SPLIT
from hornbeam.core.errors import DeviceMemoryError
from hornbeam.data.binning import BinnedData
from hornbeam.trees.histogram_pool import SMALLEST_POOL

SMALL_BUFFERS = 5 << 18
"""Room for everything that does not depend on the data."""


WIDE_RECORDS = "gradients of 31 bits, should a tree need them"
"""What is kept free: any objective's gradients may come to be such that 16 bits are too few, see fixed_point.py."""


def wants_columns(layout: Layout, host_free: int | None) -> bool:
    """Say whether bins in host memory should lie there by feature as well, where so many bytes are free.

    A tree of 255 leaves on 60,000,000 x 28 takes an H200 476 ms with them and 925 without (benchmarks/host_bins.py).
    """
    return layout.on_host and 2 * layout.column_bytes <= (host_free or 0)


def slot_bytes(layout: Layout, stats: int) -> int:
    """Return the bytes of one histogram of 2 or 3 sums."""
    return 8 * max(1, layout.slot_size(stats))


def growth_bytes(layout: Layout, demand: Demand) -> int:
    """Return the bytes of everything that a growing tree takes besides rows and histograms."""
    counts = COUNTS_BYTES * min(filled(demand.n_leaves), LEAVES_AT_ONCE) if demand.renewed else 0
    shared = output_bytes(layout, demand.n_outputs, demand.n_leaves) if demand.n_histograms > 1 else 0
    tables = table_bytes(layout, demand.n_leaves) + shared
    in_order = order_bytes(layout, demand.n_leaves)
    return tables + _context_bytes(layout, demand) + _level_bytes(demand) + counts + in_order


def table_bytes(layout: Layout, n_leaves: int) -> int:
    """Return the bytes of the tables of a growing tree: its nodes, and the best split of each piece of a round."""
    return SPLIT.itemsize * 2 * n_leaves * layout.n_pieces + 2 * NODE.itemsize * CAPACITY + SMALL_BUFFERS


def lefts_bytes(n_rows: int, n_nodes: int, tile: int) -> int:
    """Return the bytes of a number for each tile of the rows of so many nodes, see kernels/growth/partition.cl."""
    return 4 * (n_rows // tile + n_nodes)


def order_bytes(layout: Layout, n_leaves: int) -> int:
    """Return the bytes by which rows keep their order, which they do where bins are in host memory."""
    least_tile = WARP * PARTITION_EACH
    return layout.n_rows + lefts_bytes(layout.n_rows, n_leaves, least_tile) if layout.on_host else 0


def estimate(layout: Layout, demand: Demand, stats: int = 3) -> dict[str, int]:
    """Return the bytes of everything that a training must hold, by what it is; see the modules for the buffers."""
    n_rows, high, shares = layout.n_rows, demand.high_precision, demand.n_histograms > 1
    wanted = {
        "bins": layout.device_tile_bytes,
        "row lists and fixed-point gradients": n_rows * (2 * 4 + 2 * (8 if high else 4) + 2),
        WIDE_RECORDS: 0 if high else n_rows * 2 * 4,
        "scores, gradients and hessians": n_rows * demand.n_outputs * 8 * (3 if demand.stores_gradients else 1),
        "labels, weights and queries": demand.given_bytes,
        "validation sets": sum(_valid_bytes(binned, demand.n_outputs, layout.on_host) for binned in demand.valid_sets),
        "marks of the rows that go left": order_bytes(layout, demand.n_leaves),
        "samples of the rows": n_rows * (4 + 2 * 8 + 2 + (8 if demand.goss else 0)) if demand.sampled else 0,
        "residuals of the leaves": _renewal_bytes(demand, n_rows),
        "sets of levels": _level_bytes(demand),
        "tables of a tree": table_bytes(layout, demand.n_leaves),
        "rounded gradients of all outputs": 8 * n_rows * demand.n_outputs if shares else 0,
        "splits of all outputs": output_bytes(layout, demand.n_outputs, demand.n_leaves) if shares else 0,
        "contexts of nodes": _context_bytes(layout, demand),
        "tables of bundles": layout.member_bytes,
        "the fewest histograms": SMALLEST_POOL * demand.n_histograms * slot_bytes(layout, stats),
    }
    return {what: n_bytes for what, n_bytes in wanted.items() if n_bytes > 0}


def fits(layout: Layout, demand: Demand, stats: int, available: int) -> bool:
    """Say whether so many bytes hold a training."""
    return sum(estimate(layout, demand, stats).values()) <= available


def valid_layout(binned: BinnedData, on_host: bool) -> Layout:
    """Return how the bins of a validation set lie; it has bundles of its own."""
    return replace(Layout.of(binned, bundles_of(binned)), on_host=on_host)


def _valid_bytes(binned: BinnedData, n_outputs: int, on_host: bool) -> int:
    """Return the bytes of a validation set, see routing.py: bins, members of bundles, and scores."""
    layout = valid_layout(binned, on_host)
    return layout.device_tile_bytes + layout.member_bytes + 8 * n_outputs * binned.n_rows


def _renewal_bytes(demand: Demand, n_rows: int) -> int:
    """Return the bytes of the renewal of leaves, see renewal.py: keys, weights, and counts by digit."""
    if not demand.renewed:
        return 0
    weighted = demand.renewal_weighted or demand.goss
    each = 8 + (8 if weighted else 0) + (8 if weighted and demand.sampled else 0)
    return n_rows * each + COUNTS_BYTES * min(filled(demand.n_leaves), LEAVES_AT_ONCE)


def _context_bytes(layout: Layout, demand: Demand) -> int:
    """Return the bytes of the contexts of a tree; small buffers may have twice what is asked for."""
    if not demand.in_context:
        return 0
    return 2 * context_bytes(layout.n_used, demand.n_groups, demand.n_leaves, demand.costs)


def _level_bytes(demand: Demand) -> int:
    """Return the bytes of the search for sets of levels, see categorical.py: splits and sets of a round, sorting."""
    n_items = 2 * demand.n_leaves * demand.n_categorical
    sorting = SCRATCH_BYTES if 32 * demand.set_words > LARGEST_LOCAL_SORT else 0
    return n_items * (SPLIT.itemsize + 4 * demand.set_words) + (sorting if n_items else 0)


def later_buffers(layout: Layout, demand: Demand) -> dict[str, int]:
    """Return the bytes of the buffers by row that a training may make, or make larger, only after its first tree began.

    Gradients turn to 31 bits (fixed_point.py), GOSS begins after some trees (bag.py, gradients.py), leaves are renewed
    (renewal.py), and DART brings its validation sets late, when histograms have taken their share. All of it is in
    `estimate`.
    """
    n_rows, weighted = layout.n_rows, demand.renewed and (demand.renewal_weighted or demand.goss)
    by_row = {
        "records even": 8,
        "records odd": 8,
        "gradient": 8 * demand.n_outputs if demand.stores_gradients else 0,
        "hessian": 8 * demand.n_outputs if demand.stores_gradients else 0,
        "bag": 4 if demand.sampled else 0,
        "importance": 8 if demand.goss else 0,
        "bag gradient": 8 if demand.sampled else 0,
        "bag hessian": 8 if demand.sampled else 0,
        "bag leaf": 2 if demand.sampled else 0,
        "residuals": 8 if demand.renewed else 0,
        "residual weights": 8 if weighted else 0,
        "tree weights": 8 if weighted and demand.sampled else 0,
    }
    later = {name: n_rows * n_bytes for name, n_bytes in by_row.items()}
    later["renewal weight"] = demand.renewal_weight_bytes if demand.renewed else 0
    for number, binned in enumerate(demand.valid_sets):
        later[f"scores of validation set {number}"] = 8 * demand.n_outputs * binned.n_rows
        later[f"bins of validation set {number}"] = valid_layout(binned, layout.on_host).device_tile_bytes
    return {name: n_bytes for name, n_bytes in later.items() if n_bytes > 0}


def remedies(layout: Layout) -> str:
    """Say what makes a training smaller."""
    fewer = {
        16: "fewer bins (max_bin=255 takes one byte a value instead of two, max_bin=15 half a byte)",
        8: "fewer bins (max_bin=15 packs two bins a byte)",
        4: "fewer features",
    }
    what = "" if layout.on_host else "fewer features, " if layout.is_bundled else f"{fewer[layout.bin_bits]}, "
    return f"fewer rows, {what}a smaller histogram_pool_size or device='cpu' help"


def check_memory(layout: Layout, demand: Demand, stats: int, facts: DeviceFacts, available: int) -> None:
    """Raise before anything is allocated if a training cannot fit.

    available  bytes that there are, after what others hold and what the user allows
    """
    if not fits(layout, demand, stats, available):
        wanted = estimate(layout, demand, stats)
        listed = ", ".join(f"{megabytes(n_bytes)} for {what}" for what, n_bytes in wanted.items())
        besides = " even with all bins in host memory" if layout.on_host else ""
        raise DeviceMemoryError(
            f"{layout.n_rows:,} rows x {layout.n_used:,} features need {megabytes(sum(wanted.values()))} of device "
            f"memory{besides} ({listed}), and {facts.name} has {megabytes(available)} for them: {remedies(layout)}"
        )


def fit_memory(
    layout: Layout, demand: Demand, stats: int, facts: DeviceFacts, available: int, may_stay: bool = False
) -> Layout:
    """Return a layout, or that in smaller tiles or in host memory where nothing else fits; see check_memory.

    may_stay  whether bins may be in host memory
    """
    places = [layout, layout.in_small_tiles(), replace(layout, on_host=True) if may_stay else None]
    layouts = [each for each in places if each is not None]
    for each in layouts[:-1]:
        if fits(each, demand, stats, available):
            return each
    check_memory(layouts[-1], demand, stats, facts, available)
    return layouts[-1]


def most_slots(layout: Layout, stats: int, spare: int, facts: DeviceFacts) -> int:
    """Return how many histograms fit into the spare bytes, and into one piece of memory."""
    return max(SMALLEST_POOL, int(min(spare, facts.max_buffer_bytes) // slot_bytes(layout, stats)))


def limit_bytes(facts: DeviceFacts, limit_mb: float) -> int:
    """Return the bytes that a training may hold: device_memory_limit, or all that the device has."""
    return facts.memory_bytes if limit_mb <= 0 else int(min(np.float64(facts.memory_bytes), limit_mb * 2**20))

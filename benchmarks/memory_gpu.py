"""Device memory of a training on data shaped like the paper's six sets: counted and measured, beside the paper's table.

    python benchmarks/memory_gpu.py                                          # counts; needs no device
    python benchmarks/memory_gpu.py --device cuda                            # and trains
    python benchmarks/memory_gpu.py --device opencl --rows 20000             # anywhere, with PoCL

Binary, one output, 255 leaves, min_data_in_leaf=1, no weights; MB are 2**20 bytes, and all figures are without the
context of the driver. What a line has:

    needed     what a training must hold, with the fewest histograms (gpu/growth/memory.py); 8 bytes a row more must be
               free, for trees that turn to 31 bits
    columns    the second layout of the bins, which is left out where it does not fit
    pool       all histograms that a tree may use, up to the default limit
    default    measured without limits: the peak of all buffers, and on CUDA the memory that the pool took for them
    limited    the same with histogram_pool_size=256 and device_memory_limit = paper + 256, or "no" where that does not
               fit; where less rows are trained than the shape has, the limit is needed + 256
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from train_gpu import EXPO_LEVELS, SHAPES, make, to_host

import hornbeam as hb
from hornbeam.backends.demand import Demand
from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.memory import WIDE_RECORDS, estimate, slot_bytes
from hornbeam.core.errors import DeviceError
from hornbeam.trees.histogram_pool import count_slots

PAPER = {"higgs": 611, "mslr": 413, "yahoo": 291, "epsilon": 901, "expo": 405, "bosch": 1067}
"""MB at 63 bins: Table 3."""

LEAVES = 255
POOL = 256
MEGABYTE = 2.0**20


def counted(shape: str, n_rows: int, bins: int) -> tuple[dict[str, int], int, int]:
    """Return what a training must hold, and the bytes of columns and of the whole pool."""
    n_features = SHAPES[shape][1]
    layout = Layout.of_sizes(n_rows, np.full(n_features, bins, np.int32))
    if shape == "expo":  # as bundles.py will find them
        full = [min(n_levels - first, 255) + 1 for n_levels in EXPO_LEVELS for first in range(0, n_levels, 255)]
        layout = Layout.of_bundles(n_rows, n_features, np.array([*full, bins + 1, bins + 1], np.int32))
    demand = Demand(n_leaves=LEAVES, given_bytes=n_rows, stores_gradients=False)
    small = layout.in_small_tiles()
    if small is not None and sum(estimate(layout, demand, stats=2).values()) > (PAPER[shape] + POOL) * MEGABYTE:
        layout = small
    needed = estimate(layout, demand, stats=2)
    del needed[WIDE_RECORDS]
    slot = slot_bytes(layout, 2)
    return needed, layout.column_bytes, slot * count_slots(LEAVES, slot, -1.0)


def peak(data: hb.Dataset, params: dict[str, Any]) -> tuple[float, float | None]:
    """Train two trees and return the peak of the buffers and what CUDA's pool took for them, None elsewhere, in MB."""
    from hornbeam.backends.gpu.workspace.workspace import Workspace

    seen: list[tuple[float, float | None]] = []
    close = Workspace.close

    def watched(self: Workspace) -> None:
        taken = getattr(self.runtime, "held_bytes", None)  # before the pool gives everything back
        seen.append((self.peak_bytes / MEGABYTE, None if taken is None else taken()[1] / MEGABYTE))
        close(self)

    Workspace.close = watched  # type: ignore[method-assign]
    try:
        hb.train(params, data, 2)
    finally:
        Workspace.close = close  # type: ignore[method-assign]
    return seen[-1]


def measured(data: hb.Dataset, params: dict[str, Any]) -> str:
    """Return the same as text, "no" where the training does not fit."""
    try:
        used, held = peak(data, params)
    except DeviceError as error:
        print(f"  {error}")
        return "no"
    return f"{used:.0f}" + ("" if held is None else f" ({held:.0f})")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help='train on "cuda", "opencl:1", ...; without it memory is only counted')
    parser.add_argument("--shape", choices=list(SHAPES), nargs="+", default=list(PAPER))
    parser.add_argument("--rows", type=int, help="instead of the shape's")
    parser.add_argument("--bins", type=int, nargs="+", default=[63, 255, 15])
    options = parser.parse_args()
    print("| shape | rows x features | bins | needed | columns | pool | paper | default | limited |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for shape in options.shape:
        n_rows = options.rows or SHAPES[shape][0]
        table = None
        if options.device:
            X, y = make(shape, n_rows)
            table = to_host(X), to_host(y)
            del X, y
        for bins in options.bins:
            needed, columns, pool = counted(shape, n_rows, bins)
            least, default, limited = sum(needed.values()) / MEGABYTE, "", ""
            if table is not None:
                params: dict[str, Any] = {
                    "objective": "binary",
                    "num_leaves": LEAVES,
                    "min_data_in_leaf": 1,
                    "max_bin": bins,
                    "device": options.device,
                    "verbosity": -1,
                }
                data = hb.Dataset(*table).construct(hb.Params.from_dict(params))
                default = measured(data, params)
                limit = POOL + (PAPER[shape] if n_rows == SHAPES[shape][0] else least)
                limited = measured(data, {**params, "histogram_pool_size": POOL, "device_memory_limit": limit})
                del data  # and its bins on the device
            print(
                f"| {shape} | {n_rows:,} x {SHAPES[shape][1]:,} | {bins} | {least:.0f} | {columns / MEGABYTE:.0f} | "
                f"{pool / MEGABYTE:.0f} | {PAPER[shape] if bins == 63 else ''} | {default} | {limited} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

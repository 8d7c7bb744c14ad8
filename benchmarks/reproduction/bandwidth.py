"""Histogram bandwidth against the depth of a node (the paper's C.2): our kernels on CPU and GPU, the paper's beside.

Bytes of feature data that are summed in a second, one byte a bin. A node of depth D has about n / 2^D rows, scattered
over all of memory. On a machine without a GPU the GPU kernels run under PoCL, on the CPU: that they run is all that it
shows.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import hornbeam as hb
from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.core.dtypes import SPLIT
from hornbeam.trees.records import Segments
from reproduction.journal import Journal
from reproduction.learners import gpu

BINS = {63: "k = 64", 255: "k = 256"}
"""Bins of values, and the paper's name: one more is for missing values."""

FEATURES = 32
ROWS = {("small", "cpu"): 500_000, ("small", "gpu"): 50_000, ("full", "cpu"): 8_000_000, ("full", "gpu"): 8_000_000}
DEPTHS = {"small": (0, 1, 2, 4, 6, 8, 10), "full": tuple(range(13))}
REPEATS = 5


def kernel_device() -> str | None:
    """Return the device that the GPU kernels run on: a GPU, else OpenCL on the CPU; None: neither."""
    return gpu() or next((one.name for one in hb.devices() if one.usable and one.name.startswith("opencl")), None)


def run(journal: Journal, jobs: list[tuple[str, int]], size: str) -> None:
    """Do the steps, (device, bins), that are not done."""
    for device, bins in jobs:
        key = f"bandwidth/{device}/{bins}"
        name = "cpu" if device == "cpu" else kernel_device()
        if name is None:
            journal.skip(key, "not there: neither CUDA nor OpenCL")
            continue

        def work(device: str = device, bins: int = bins, name: str = name) -> dict[str, Any]:
            n_rows = ROWS[size, device] if device == "cpu" or gpu() is not None else ROWS["small", "gpu"]
            points = on_cpu(n_rows, bins, size) if device == "cpu" else on_gpu(name, n_rows, bins, size)
            first = points[0]
            what = f"D = 0: {first[2]:.2f} GB/s" + ("" if first[3] is None else f", the paper's {first[3]:.2f}")
            return {"device": name, "is_gpu": device == "gpu" and gpu() is not None, "rows": n_rows,
                    "features": FEATURES, "points": points, "summary": what}  # fmt: skip

        journal.step(key, work)


def on_cpu(n_rows: int, bins: int, size: str) -> list[list[Any]]:
    """Return [depth, rows, our GB/s, None] for nodes of a tree that is split evenly, another feature at each depth."""
    from histogram_gpu import make_bins

    binned = make_bins("random", n_rows, FEATURES, bins)
    engine = CpuEngine(binned)
    rng = np.random.default_rng(2)
    engine.set_scores(np.zeros((1, n_rows)))
    engine.set_gradients(rng.uniform(-1, 1, (1, n_rows)), rng.uniform(0.25, 1, (1, n_rows)))
    engine.quantize(0, False)
    engine.begin_tree(1)
    node = Segments(np.zeros(1, np.int64), np.full(1, n_rows, np.int64), np.zeros(1, np.int32))
    slots = np.zeros(1, np.int32)
    points: list[list[Any]] = []
    for depth in range(max(DEPTHS[size]) + 1):
        n_node = int(node.end[0])
        if depth in DEPTHS[size] and n_node > 0:
            engine.build_histograms(node, slots)
            took = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                engine.build_histograms(node, slots)
                took.append(time.perf_counter() - start)
            points.append([depth, n_node, n_node * FEATURES / statistics.median(took) / 1e9, None])
        split = np.zeros(1, SPLIT)
        split["feature"], split["bin"] = depth, bins // 2
        n_left = engine.partition(node, split)
        node = Segments(np.zeros(1, np.int64), n_left, np.full(1, depth + 1, np.int32))
    return points


def on_gpu(name: str, n_rows: int, bins: int, size: str) -> list[list[Any]]:
    """Return [depth, rows, our GB/s, the paper's GB/s]; both kernels' sums are checked."""
    from histogram_gpu import (
        GROUPS_A_UNIT,
        GROUPS_TRIED,
        Ours,
        PaperHistogram,
        Stopwatch,
        bins_to_spread,
        check_paper,
        choose_device,
        make_bins,
        open_runtime,
        paper_variant,
        rows_of,
        time_paper,
    )  # fmt: skip

    chosen = choose_device(name)
    runtime = open_runtime(chosen)
    stopwatch = Stopwatch(runtime, name, REPEATS if runtime.facts.is_gpu else 2)
    binned = make_bins("random", n_rows, FEATURES, bins)
    ours = Ours(runtime, binned, False)
    spread = bins_to_spread("random", bins, FEATURES)
    paper = PaperHistogram(runtime, binned.bins[:, :FEATURES], spread, paper_variant(bins))
    groups = GROUPS_TRIED if runtime.facts.is_gpu else (GROUPS_A_UNIT,)
    points: list[list[Any]] = []
    for depth in DEPTHS[size]:
        rows = rows_of(depth, n_rows)
        n_node = n_rows if rows is None else len(rows)
        if n_node == 0:
            continue
        ours.set_node(rows)
        ours.check(rows)
        paper.set_node(rows, *ours.floats(rows))
        paper.launch()
        check_paper(paper, ours, n_node)
        took = stopwatch.median(ours.launch), time_paper(paper, stopwatch, groups)
        points.append([depth, n_node, *(n_node * FEATURES / each / 1e9 for each in took)])
    paper.close()
    ours.close()
    return points

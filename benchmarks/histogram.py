"""Histograms alone: (row, feature) updates a second, for nodes of several sizes.

    python benchmarks/histogram.py [--rows N] [--features N] [--bins N] [--threads N] [--high]

Bins are made directly. `nodes` nodes of equal size share all rows, as a level of a tree does; at depth 0 the rows stand
in order, below they have been partitioned once for each level, as in a real tree.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.core.dtypes import SPLIT
from hornbeam.data.binning import BinMapper, BinnedData, allocate_bins
from hornbeam.testing.data import BinnedSample, make_binned
from hornbeam.trees.records import Segments

NODES = (1, 4, 16, 64, 256, 1024)


def as_binned_data(sample: BinnedSample) -> BinnedData:
    """Wrap made bins as the bins of a data set; the bounds are made up."""
    n_rows, n_features = sample.bins.shape
    bounds = tuple(np.append(np.arange(n - 1, dtype=np.float64), np.inf) for n in sample.n_value_bins)
    mapper = BinMapper(bounds, sample.has_missing, use_missing=True)
    bins = allocate_bins(n_rows, n_features, mapper.bin_dtype)
    bins[:, :n_features] = sample.bins
    return BinnedData(mapper, bins)


def make_engine(sample: BinnedSample, threads: int) -> CpuEngine:
    """Make an engine that knows the gradients of its rows."""
    engine = CpuEngine(as_binned_data(sample), threads)
    engine.set_scores(np.zeros((1, len(sample.gradient))))
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    return engine


def middle_splits(engine: CpuEngine, n_nodes: int, level: int) -> NDArray[np.void]:
    """Return a split of each node near the middle of a feature with even bins, another feature at every level."""
    splits = np.zeros(n_nodes, SPLIT)
    # features of an even number have even bins in make_binned; a feature used again must be cut elsewhere
    evenly = np.arange(0, len(engine.binned.used), 2)
    feature = int(evenly[level % len(evenly)])
    turn = level // len(evenly)
    splits["feature"] = feature
    splits["bin"] = int(engine.binned.n_value_bins[feature]) // 2 ** (turn + 1)
    return splits


def split_evenly(engine: CpuEngine, n_levels: int, high_precision: bool) -> Segments:
    """Begin a tree and partition all rows n_levels times; returns the nodes of the last level that have rows."""
    engine.quantize(0, high_precision)  # an earlier tree has overwritten the records of depth 0
    nodes = Segments(np.zeros(1, np.int64), np.full(1, engine.n_rows, np.int64), np.zeros(1, np.int32))
    for level in range(n_levels):
        n_left = engine.partition(nodes, middle_splits(engine, len(nodes.begin), level))
        middle = nodes.begin + n_left
        begin = np.stack([nodes.begin, middle], axis=1).ravel()
        end = np.stack([middle, nodes.end], axis=1).ravel()
        filled = np.flatnonzero(end > begin)
        nodes = Segments(begin, end, np.full(len(begin), level + 1, np.int32)).take(filled)
    return nodes


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--bins", type=int, default=255)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--high", action="store_true", help="31-bit gradients")
    options = parser.parse_args()

    sample = make_binned(options.rows, options.features, options.bins)
    engine = make_engine(sample, options.threads)
    bits = 31 if options.high else 16
    print(
        f"{options.rows} x {options.features}, {options.bins} bins, {bits}-bit gradients, {engine.n_threads} threads, "
        f"median of {options.repeats}"
    )
    for n_nodes in NODES:
        nodes = split_evenly(engine, int(np.log2(n_nodes)), options.high)
        engine.begin_tree(len(nodes.begin))
        slots = np.arange(len(nodes.begin), dtype=np.int32)
        engine.build_histograms(nodes, slots)  # compiles, touches the slots
        times = []
        for _ in range(options.repeats):
            start = time.perf_counter()
            engine.build_histograms(nodes, slots)
            times.append(time.perf_counter() - start)
        median = statistics.median(times)
        rate = options.rows * options.features / median / 1e6
        size = options.rows // len(nodes.begin)
        print(
            f"  {len(nodes.begin):5d} nodes of {size:8d} rows  {median * 1e3:9.2f} ms  {rate:8.0f} M updates a second"
        )


if __name__ == "__main__":
    main()

"""Partition alone: rows moved to their children's places, a second, for nodes of several sizes.

    python benchmarks/partition.py [--rows N] [--features N] [--threads N] [--high]

The nodes are those of benchmarks/histogram.py. Where rows carry their bins with them (backends/cpu/growth/rows.py) the
bytes of a row count too, so the number of features matters.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from histogram import NODES, make_engine, middle_splits, split_evenly

from hornbeam.testing.data import make_binned


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

    engine = make_engine(make_binned(options.rows, options.features, options.bins), options.threads)
    print(
        f"{options.rows} x {options.features}, {options.bins} bins, {engine.n_threads} threads, "
        f"median of {options.repeats}"
    )
    for n_nodes in NODES:
        level = int(np.log2(n_nodes))
        nodes = split_evenly(engine, level, options.high)
        splits = middle_splits(engine, len(nodes.begin), level)
        engine.partition(nodes, splits)  # compiles; the nodes stay where they are, their children are overwritten
        times = []
        for _ in range(options.repeats):
            start = time.perf_counter()
            engine.partition(nodes, splits)
            times.append(time.perf_counter() - start)
        median = statistics.median(times)
        rate = options.rows / median / 1e6
        size = options.rows // len(nodes.begin)
        print(f"  {len(nodes.begin):5d} nodes of {size:8d} rows  {median * 1e3:9.2f} ms  {rate:8.1f} M rows a second")


if __name__ == "__main__":
    main()

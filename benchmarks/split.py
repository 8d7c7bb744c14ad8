"""Split search alone: histogram bins scanned a second, for several numbers of nodes.

    python benchmarks/split.py [--rows N] [--features N] [--bins N] [--min-data N] [--missing SHARE] [--threads N]

The nodes are those of benchmarks/histogram.py. Small nodes with a large --min-data show what the exact row counts cost
where hessian sums do not decide (backends/cpu/growth/split.py).
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from histogram import NODES, make_engine, split_evenly

from hornbeam.core.fixed_point import round_gradients
from hornbeam.params.params import Params
from hornbeam.testing.data import make_binned
from hornbeam.trees.splitting import SplitRules


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--bins", type=int, default=255)
    parser.add_argument("--min-data", type=int, nargs="+", default=[1, 20], help="min_data_in_leaf")
    parser.add_argument("--missing", type=float, default=0.0, help="share of missing values in every other feature")
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    sample = make_binned(options.rows, options.features, options.bins, options.missing)
    engine = make_engine(sample, options.threads)
    n_first = int(engine.binned.offsets[1])
    total_bins = int(engine.binned.offsets[-1])
    quantization = round_gradients(sample.gradient, sample.hessian)[2]
    print(
        f"{options.rows} x {options.features}, {options.bins} bins, {total_bins} in all, {engine.n_threads} threads, "
        f"{'31' if quantization.wide else '16'}-bit gradients, median of {options.repeats}"
    )
    for n_nodes in NODES:
        nodes = split_evenly(engine, int(np.log2(n_nodes)), high_precision=False)
        engine.begin_tree(len(nodes.begin))
        slots = np.arange(len(nodes.begin), dtype=np.int32)
        engine.build_histograms(nodes, slots)
        # every row is in one bin of the first feature, so its histogram adds up to the node's sums
        sums = np.ascontiguousarray(engine._histograms.histograms[slots, :n_first].sum(axis=1).T)
        for min_data in options.min_data:
            rules = SplitRules.from_params(Params(min_data_in_leaf=min_data))
            engine.find_splits(nodes, slots, sums[0], sums[1], rules)  # compiles
            times = []
            for _ in range(options.repeats):
                start = time.perf_counter()
                splits = engine.find_splits(nodes, slots, sums[0], sums[1], rules)
                times.append(time.perf_counter() - start)
            median = statistics.median(times)
            rate = total_bins * len(slots) / median / 1e6
            n_found = int(np.count_nonzero(splits["gain"] > -np.inf))
            size = options.rows // len(slots)
            print(
                f"  {len(slots):5d} nodes of {size:8d} rows, min_data {min_data:3d}  {median * 1e3:9.2f} ms  "
                f"{rate:8.0f} M bins a second  {n_found} splits"
            )


if __name__ == "__main__":
    main()

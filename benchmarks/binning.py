"""Binning beside LightGBM's `Dataset.construct`: cells (rows x features) a second, in one run.

    python benchmarks/binning.py [--rows N] [--features N] [--threads N] [--repeats N]

The two take turns, so that a busy machine slows both; the figures are medians. Ratios from one run count, seconds from
different runs do not.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np


def make_table(n_rows: int, n_features: int, dtype: str) -> np.ndarray:
    """Return continuous, heavy-tailed, integer and partly missing columns, in turns."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((n_rows, n_features), np.float32)
    table[:, 1::7] = np.exp(2.0 * table[:, 1::7])
    table[:, 2::7] = np.floor(20.0 * np.abs(table[:, 2::7]))
    table[:, 3::7] = np.where(table[:, 3::7] > 1.0, np.nan, table[:, 3::7])
    return table.astype(dtype)


def seconds(task: Callable[[], object]) -> float:
    """Return how long a task takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    import lightgbm

    from hornbeam.dataset.dataset import Dataset
    from hornbeam.params.params import Params

    params = Params.from_dict({"num_threads": options.threads})
    peer = {"num_threads": options.threads, "verbosity": -1}
    for dtype in ("float32", "float64"):
        table = make_table(options.rows, options.features, dtype)
        by_columns = np.asfortranarray(table)
        cases = {
            "hornbeam": lambda table=table: Dataset(table).construct(params),
            "hornbeam, columns in memory": lambda table=by_columns: Dataset(table).construct(params),
            "lightgbm": lambda table=table: lightgbm.Dataset(table, params=peer).construct(),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for repeat in range(options.repeats + 1):
            for name, task in cases.items():
                elapsed = seconds(task)
                if repeat > 0:  # the first round compiles and warms up
                    times[name].append(elapsed)
        print(f"{options.rows} x {options.features} {dtype}, {options.threads} threads, median of {options.repeats}")
        base = statistics.median(times["lightgbm"])
        for name, measured in times.items():
            median = statistics.median(measured)
            rate = options.rows * options.features / median / 1e6
            print(f"  {name:28s} {median:7.3f} s  {rate:8.1f} million cells a second  {base / median:6.2f} x LightGBM")


if __name__ == "__main__":
    main()

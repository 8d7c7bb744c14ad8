"""Peak memory of binning against the size of its input.

    python benchmarks/memory.py [--rows N] [--features N] [--threads N]

Every case is a process of its own: it imports and compiles on a small table, notes its memory, makes the table, and
bins it. The peak above that note must stay below 2.2 times the input plus the bins; the input itself counts once.
`getrusage` gives the peak, so this does not run on Windows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np

BAR = 2.2
CASES = ("float32", "float64", "float32, columns in memory", "int16", "pandas")
MEGABYTE = 1e6


def make_table(n_rows: int, n_features: int, case: str) -> object:
    """Make a table block by block, so that making it takes no more memory than the table."""
    dtype = "float64" if case == "pandas" else case.partition(",")[0]
    order = "F" if "columns" in case or case == "pandas" else "C"
    table = np.empty((n_rows, n_features), dtype, order=order)
    rng = np.random.default_rng(0)
    for start in range(0, n_rows, 10_000):
        block = table[start : start + 10_000]
        block[...] = 1000.0 * rng.standard_normal(block.shape, np.float32)
    if case == "pandas":
        import pandas as pd

        return pd.DataFrame(table, copy=False).rename(columns=str)
    return table


def measure(n_rows: int, n_features: int, case: str, n_threads: int) -> dict[str, float]:
    """Bin one table in this process; returns bytes."""
    import resource

    import psutil

    from hornbeam.dataset.dataset import Dataset
    from hornbeam.params.params import Params

    params = Params.from_dict({"num_threads": n_threads})
    Dataset(make_table(1000, n_features, case)).construct(params)
    before = psutil.Process().memory_info().rss
    table = make_table(n_rows, n_features, case)
    dataset = Dataset(table).construct(params)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    itemsize = 8 if case == "pandas" else np.dtype(case.partition(",")[0]).itemsize
    size = n_rows * n_features * itemsize
    return {"input": size, "bins": dataset.binned.bins.nbytes, "peak": peak - before}


def main() -> None:
    """Run and print; exit with 1 when a case is above the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--case", choices=CASES, help="measure one case in this process and print JSON")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.rows, options.features, options.case, options.threads)))
        return
    print(f"{options.rows} x {options.features}; megabytes; the bar is {BAR} x input + bins")
    passed = True
    for case in CASES:
        command = [sys.executable, __file__, "--case", case]
        command += [f"--{name}={getattr(options, name)}" for name in ("rows", "features", "threads")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        bar = BAR * found["input"] + found["bins"]
        verdict = "ok" if found["peak"] <= bar else "ABOVE THE BAR"
        passed &= found["peak"] <= bar
        figures = {name: value / MEGABYTE for name, value in {**found, "bar": bar}.items()}
        shown = "  ".join(f"{name} {value:8.1f}" for name, value in figures.items())
        factor = (found["peak"] - found["bins"]) / found["input"]
        print(f"  {case:27s} {shown}  (peak - bins) / input {factor:5.2f}  {verdict}", flush=True)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()

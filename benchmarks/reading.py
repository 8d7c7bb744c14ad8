"""From text files to bins, beside LightGBM: seconds for a LibSVM and a CSV file of made numbers.

    python benchmarks/reading.py [--rows N] [--threads N]

Both libraries read a file and bin it (`Dataset(path)`); `reading` is our reader alone. They take turns, and the fewest
seconds of several turns are printed, beside those of all processors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

import hornbeam as hb
from hornbeam.data.sources.files import read_files
from hornbeam.data.sources.wanted_columns import Wanted

FEATURES = {"libsvm": 136, "csv": 28}


def write(kind: str, path: Path, n_rows: int) -> None:
    """Write a file: half of the entries of LibSVM lines are zero; CSV numbers have 19 digits, as Higgs' have."""
    rng = np.random.default_rng(7)
    n_features = FEATURES[kind]
    with path.open("w") as file:
        for _ in range(n_rows):
            values = rng.normal(size=n_features)
            if kind == "csv":
                file.write(",".join(f"{value:.18e}" for value in [rng.integers(2), *values]) + "\n")
            else:
                chosen = np.flatnonzero(rng.random(n_features) < 0.5)
                file.write(" ".join([str(rng.integers(5)), *(f"{k}:{values[k]:.6g}" for k in chosen)]) + "\n")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    params = hb.Params.from_dict({"device": "cpu", "num_threads": options.threads})
    theirs = {"verbose": -1, "num_threads": options.threads}
    for kind, suffix in {"libsvm": ".svm", "csv": ".csv"}.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"table{suffix}"
            write(kind, path, options.rows)
            label = {"label": "Column_0"} if kind == "csv" else {}
            jobs: dict[str, Callable[[], Any]] = {
                "lightgbm": lambda path=path: lightgbm.Dataset(str(path), params=theirs).construct(),
                "hornbeam": lambda path=path, label=label: hb.Dataset(path, **label).construct(params),
                "reading": lambda path=path: read_files(path, Wanted()),
            }
            best = dict.fromkeys(jobs, (np.inf, np.inf))
            jobs["hornbeam"]()  # compiles
            for _ in range(options.turns):
                for name, job in jobs.items():
                    wall, busy = time.perf_counter(), time.process_time()
                    job()
                    took = time.perf_counter() - wall, time.process_time() - busy
                    best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
            size = path.stat().st_size / 1e6
            for name, (wall, busy) in best.items():
                print(f"{kind:7s} {size:5.0f} MB  {name:9s} {wall:6.2f} s, {busy:6.2f} s of processors", flush=True)


if __name__ == "__main__":
    main()

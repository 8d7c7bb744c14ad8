"""Training beyond memory: from Parquet through a file of bins, beside rows in memory and XGBoost's external memory.

    python benchmarks/streams.py                                            # 2 million rows x 28, 255 leaves
    python benchmarks/streams.py --rows 60_000_000 --folder /scratch --case hornbeam-disk
    python benchmarks/streams.py --rows 6_000_000 --rounds 4 --alternate       # the ratio, on a busy machine too

Rows are made, float32, and written to Parquet once; every case is a process of its own that reads this file, and cases
take turns. An iteration is the shortest of all. Memory is what the process has to itself (`RssAnon`, looked at every
10 ms): pages of the mapped file are in the system's cache, which gives them up when memory is short. `resident` is the
peak with these pages. Both libraries grow leaf by leaf, and in the cases `-depthwise` level by level with as many
leaves, which XGBoost's documentation recommends for external memory. Linux alone has these figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BYTES_A_ROW, BYTES_BESIDES = 48, 512 << 20
"""The bar for Hornbeam's memory from disk."""

ROW_GROUP = 1 << 18


def write_rows(path: Path, n_rows: int, n_features: int) -> None:
    """Write features and a label to a Parquet file, row group by row group."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{place}" for place in range(n_features)]
    schema = pa.schema([(name, pa.float32()) for name in [*names, "y"]])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for group, first in enumerate(range(0, n_rows, ROW_GROUP)):
            rng = np.random.default_rng(group)
            table = rng.standard_normal((min(ROW_GROUP, n_rows - first), n_features), np.float32)
            noise = rng.standard_normal(len(table), np.float32)
            label = (table[:, 0] * table[:, 1] + table[:, 2] + noise > 0.0).astype(np.float32)
            writer.write_table(pa.table([*np.ascontiguousarray(table.T), label], schema=schema))


def read_rows(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield features and labels, batch by batch."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(ROW_GROUP):
            columns = [column.to_numpy() for column in batch.columns]
            yield np.stack(columns[:-1], axis=1), columns[-1]


class Memory:
    """The largest memory of this process, watched by a thread."""

    def __init__(self) -> None:
        self.anonymous = self.resident = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.look()
            time.sleep(0.01)

    def look(self) -> None:
        """Read the figures of the system."""
        lines = Path("/proc/self/status").read_text().splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
        self.anonymous = max(self.anonymous, kilobytes["RssAnon"] << 10)
        self.resident = max(self.resident, kilobytes["VmRSS"] << 10)


def levels(given: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of trees that grow level by level to as many leaves."""
    return {"grow_policy": "depthwise", "max_depth": int(np.ceil(np.log2(given.leaves)))}


def train_hornbeam(
    path: Path, given: argparse.Namespace, cache: str | None, depthwise: bool = False
) -> tuple[float, list[float], str]:
    """Train from disk, or for `cache=None` in memory; returns seconds to build and of iterations, and a fingerprint."""
    import hornbeam as hb

    params = {"objective": "binary", "num_leaves": given.leaves, "verbosity": -1, "num_threads": given.threads}
    if depthwise:
        params |= {**levels(given), "num_leaves": 2 ** levels(given)["max_depth"]}
    start = time.perf_counter()
    stream = path if cache is None else hb.Stream(path, label="y")
    options = {"label": "y"} if cache is None else {"cache": cache}
    data = hb.Dataset(stream, **options).construct(hb.Params.from_dict({**params, "device": given.device}))
    built = time.perf_counter() - start
    ends: list[float] = []
    model = hb.train(
        {**params, "device": given.device}, data, given.rounds, callbacks=[lambda _: ends.append(time.perf_counter())]
    )
    return built, np.diff(ends).tolist(), model.fingerprint()


def train_xgboost(path: Path, given: argparse.Namespace, cache: str | None, depthwise: bool) -> Any:
    """Train XGBoost, likewise."""
    import xgboost as xgb

    class Rows(xgb.DataIter):
        def __init__(self) -> None:
            super().__init__(cache_prefix=None if cache is None else f"{cache}/xgboost")
            self.reset()

        def reset(self) -> None:
            self._rows = read_rows(path)

        def next(self, input_data: Callable[..., Any]) -> bool:
            batch = next(self._rows, None)
            if batch is not None:
                input_data(data=batch[0], label=batch[1])
            return batch is not None

    start = time.perf_counter()
    kind = xgb.QuantileDMatrix if cache is None else xgb.ExtMemQuantileDMatrix
    data = kind(Rows(), max_bin=256)
    built = time.perf_counter() - start
    shape = {"grow_policy": "lossguide", "max_leaves": given.leaves, "max_depth": 0}
    if depthwise:
        shape = levels(given)
    params = {"objective": "binary:logistic", "tree_method": "hist", "eta": 0.1, "nthread": given.threads, **shape}
    ends: list[float] = []

    class Clock(xgb.callback.TrainingCallback):
        def after_iteration(self, *state: Any) -> bool:
            ends.append(time.perf_counter())
            return False

    xgb.train(params, data, given.rounds, callbacks=[Clock()])
    return built, np.diff(ends).tolist(), ""


CASES: dict[str, Callable[[Path, argparse.Namespace, str], Any]] = {
    "hornbeam-memory": lambda path, given, cache: train_hornbeam(path, given, None),
    "hornbeam-disk": train_hornbeam,
    "hornbeam-disk-depthwise": lambda path, given, cache: train_hornbeam(path, given, cache, True),
    "xgboost-memory": lambda path, given, cache: train_xgboost(path, given, None, False),
    "xgboost-disk": lambda path, given, cache: train_xgboost(path, given, cache, False),
    "xgboost-disk-depthwise": lambda path, given, cache: train_xgboost(path, given, cache, True),
}


def alternate(path: Path, given: argparse.Namespace) -> None:
    """Train in memory and from disk in turns in this process, and show the ratio of the shortest iterations."""
    import hornbeam as hb

    params = {"objective": "binary", "num_leaves": given.leaves, "verbosity": -1, "num_threads": given.threads}
    params["device"] = given.device
    best = dict.fromkeys(("memory", "disk"), (np.inf, np.inf))
    with tempfile.TemporaryDirectory(dir=given.folder) as cache:
        sets = {
            name: hb.Dataset(hb.Stream(path, label="y"), cache=folder).construct(hb.Params.from_dict(params))
            for name, folder in (("disk", cache), ("memory", None))
        }
        for _ in range(given.turns):
            for name in best:
                ends: list[tuple[float, float]] = []
                note = lambda _, ends=ends: ends.append((time.perf_counter(), time.process_time()))  # noqa: E731
                hb.train(params, sets[name], given.rounds, callbacks=[note])
                wall, processor = np.diff(ends, axis=0).min(axis=0)
                best[name] = min(best[name][0], wall), min(best[name][1], processor)
    wall, processor = np.divide(best["disk"], best["memory"])
    print(f"from disk / in memory: {wall:.2f} by the clock, {processor:.2f} by the processor's time")


def measure(case: str, path: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Run one case in this process."""
    memory = Memory()
    with tempfile.TemporaryDirectory(dir=given.folder) as cache:
        built, seconds, fingerprint = CASES[case](path, given, cache)
    memory.look()
    figures = {"build": built, "iteration": min(seconds), "fingerprint": fingerprint}
    return {**figures, "anonymous": memory.anonymous, "resident": memory.resident}


def main() -> None:
    """Run the cases in turns, and show the best of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--alternate", action="store_true", help="in memory and from disk in one process, in turns")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    path = Path(given.folder) / f"rows-{given.rows}-{given.features}.parquet"
    if given.child:
        print(json.dumps(measure(given.child, path, given)))
        return
    if not path.exists():
        write_rows(path, given.rows, given.features)
    if given.alternate:
        alternate(path, given)
        return
    results: dict[str, list[dict[str, Any]]] = {case: [] for case in given.case}
    for _ in range(given.turns):
        for case in given.case:
            command = [sys.executable, __file__, *sys.argv[1:], "--child", case]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{case}: {done.stderr.strip().splitlines()[-1]}")
                continue
            results[case].append(json.loads(done.stdout.splitlines()[-1]))
            print(case, {name: round(value, 3) for name, value in results[case][-1].items() if name != "fingerprint"})
    print(f"{given.rows:,} x {given.features} float32, {given.leaves} leaves")
    print(f"{'':24}{'build s':>9}{'s/iter':>9}{'MB own':>9}{'bytes/row':>11}{'MB resident':>13}")
    for case, runs in results.items():
        if runs:
            best = {name: min(run[name] for run in runs) for name in ("build", "iteration", "anonymous", "resident")}
            print(
                f"{case:24}{best['build']:9.1f}{best['iteration']:9.3f}{best['anonymous'] / 1e6:9.0f}"
                f"{best['anonymous'] / given.rows:11.1f}{best['resident'] / 1e6:13.0f}"
            )
    prints = {run["fingerprint"] for runs in results.values() for run in runs if run["fingerprint"]}
    print(f"fingerprints of Hornbeam: {'one' if len(prints) == 1 else sorted(prints)}")
    print(f"bar from disk: {(BYTES_A_ROW * given.rows + BYTES_BESIDES) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()

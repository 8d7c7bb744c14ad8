"""Our histogram kernel beside the paper's own, against the depth of a node: the paper's synthetic benchmark (C.2).

    python benchmarks/histogram_gpu.py --device cuda                 # 10,000,000 rows x 32 features
    python benchmarks/histogram_gpu.py --device cuda --quick         # fewer depths, bins and kinds of data
    python benchmarks/histogram_gpu.py --device cuda --mechanisms    # the paper's mechanisms one by one, at the root
    python benchmarks/histogram_gpu.py --device opencl               # anywhere, with PoCL: 100,000 rows, quick

A node of depth D has every row with probability 2^-D, in ascending order: its rows are scattered over all of memory.
Effective bandwidth is the paper's: bytes of feature data (one a bin, whether packed or not) summed in a second, so that
1 GB/s is a billion (row, feature) updates a second.

Kinds of data: `random`: all bins equally likely; `zipf`: bin b with a probability like 1 / (b + 1); `one`: every row in
one bin of features that could have all (the paper's repeated values, A.4); `few`: features of three bins (the paper's
bin redistribution, A.3).

Before a time is taken, our sums are compared with NumPy's (`==`) and the paper's sums with ours (within the error of
float). Ours is the engine's build_histograms: the node's table goes up, the 64-bit sums are cleared, and histogram.cl
runs. The paper's is paper_histogram.cl with all its mechanisms and the final reduction; on a GPU it gets the best of
several numbers of groups. Neither time includes bringing a node's rows to the device. CUDA times are those of events,
with the second-level cache emptied before, and with a kernel that keeps the device busy while the host launches; others
are wall-clock times, waiting for the device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paper_histogram import GROUPS_A_UNIT, PaperHistogram, paper_variant

from hornbeam.backends.devices import choose_device
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime
from hornbeam.data.binning import BinMapper, BinnedData, allocate_bins
from hornbeam.trees.records import Segments

KINDS = ("random", "zipf", "one", "few")
FEW = 3
GROUPS_TRIED = (4, 8, 16, 32)
FEATURES_CHECKED = 4
"""Features whose sums NumPy checks where there are more than ROWS_CHECKED rows; the paper's are all held to ours."""
ROWS_CHECKED = 1_000_000
CACHE_BYTES = 256 << 20
"""More than any second-level cache holds: writing that much empties it."""
BUSY_CYCLES = 1_000_000
"""About half a millisecond: longer than the host needs for a few launches."""
BUSY = """extern "C" __global__ void busy(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}"""
LEAST_HESSIAN = 0.25


def make_bins(kind: str, n_rows: int, n_features: int, n_bins: int) -> BinnedData:
    """Make a training set directly in bins."""
    bounds = tuple(np.append(np.arange(n_bins - 1, dtype=np.float64), np.inf) for _ in range(n_features))
    mapper = BinMapper(bounds, np.zeros(n_features, np.bool_), use_missing=True)
    bins = allocate_bins(n_rows, n_features, mapper.bin_dtype)
    if kind == "one":
        bins[:, :n_features] = n_bins // 2
        return BinnedData(mapper, bins)
    likely = {"random": np.ones(n_bins), "zipf": 1 / np.arange(1, n_bins + 1), "few": np.ones(FEW)}[kind]
    edges = np.cumsum(likely / likely.sum())
    bin_of = np.searchsorted(edges[:-1], (np.arange(65_536) + 0.5) / 65_536, side="right").astype(np.uint8)
    rng = np.random.default_rng(1)
    for first in range(0, n_rows, 1_000_000):
        part = bins[first : first + 1_000_000, :n_features]
        part[:] = bin_of[rng.integers(0, 65_536, part.shape, np.uint16)]
    return BinnedData(mapper, bins)


class Ours:
    """histogram.cl, through the engine that trains with it."""

    def __init__(self, runtime: Runtime, binned: BinnedData, counted: bool) -> None:
        self._runtime = runtime
        self._binned = binned
        self._engine = GpuEngine(runtime, binned, min_data_in_leaf=20 if counted else 1)
        rng = np.random.default_rng(2)
        gradients = rng.uniform(-1, 1, (1, binned.n_rows))
        hessians = rng.uniform(LEAST_HESSIAN, 1, (1, binned.n_rows))
        self._engine.set_gradients(gradients, hessians)
        self._how = self._engine.quantize(0, False)
        if self._how.wide:
            raise SystemExit("the gradients were rounded to 31 bits: this benchmark is about 16")
        self._engine.begin_tree(1)
        self._records = np.empty(binned.n_rows, np.uint32)
        runtime.download(self._engine.workspace.buffer("records even"), self._records)

    def set_node(self, rows: NDArray[np.uint32] | None) -> None:
        """Take the rows of a node (None: all) as partition would leave them at depth 1."""
        n_rows, depth = self._binned.n_rows, 0
        if rows is not None:
            n_rows, depth = len(rows), 1
            self._runtime.upload(self._engine.workspace.buffer("rows odd"), rows)
            self._runtime.upload(self._engine.workspace.buffer("records odd"), self._records[rows])
        nodes = Segments(np.zeros(1, np.int64), np.full(1, n_rows, np.int64), np.full(1, depth, np.int32))
        self._nodes = nodes
        self.launch()
        self._runtime.synchronize()

    def launch(self) -> None:
        """Sum the rows of the node: a copy of 40 bytes and two launches."""
        self._engine.build_histograms(self._nodes, np.zeros(1, np.int32))

    def integers(self, rows: NDArray[np.uint32] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the fixed-point gradients and hessians of rows."""
        records = self._records if rows is None else self._records[rows]
        return records.astype(np.uint16).view(np.int16).astype(np.int64), (records >> 16).astype(np.int64)

    def floats(self, rows: NDArray[np.uint32] | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the same as floats, exactly: what the paper's kernel gets."""
        gradients, hessians = self.integers(rows)
        units = np.float32(self._how.gradient_unit), np.float32(self._how.hessian_unit)
        return gradients.astype(np.float32) * units[0], hessians.astype(np.float32) * units[1]

    def read(self) -> NDArray[np.int64]:
        """Return the sums, int64 (n_features, n_bins, 2)."""
        return self._engine.read_histogram(0).reshape(self._binned.n_used, -1, 2)[:, :-1]  # no value is missing here

    def read_floats(self) -> NDArray[np.float64]:
        """Return the same in units of gradients and hessians."""
        return self.read() * np.array([self._how.gradient_unit, self._how.hessian_unit])

    def check(self, rows: NDArray[np.uint32] | None) -> None:
        """Compare the sums with NumPy's."""
        n_features = self._binned.n_used
        checked: Iterable[int] = range(n_features)
        if self._binned.n_rows > ROWS_CHECKED:
            checked = np.linspace(0, n_features - 1, FEATURES_CHECKED).astype(int).tolist()
        found, values = self.read(), self.integers(rows)
        for feature in checked:
            column = self._binned.bins[:, feature] if rows is None else self._binned.bins[rows, feature]
            for stat in range(2):
                # sums of float64 are exact here: all are integers below 2^53
                expected = np.bincount(column, values[stat], found.shape[1]).astype(np.int64)
                if not np.array_equal(found[feature, :, stat], expected):
                    raise SystemExit(f"our sums are wrong: feature {feature}, statistic {stat}")

    def close(self) -> None:
        """Free everything."""
        self._engine.close()


def check_paper(paper: PaperHistogram, ours: Ours, n_rows: int) -> float:
    """Compare the paper's sums with ours; returns the largest error relative to the sum of hessians of a bin."""
    exact = ours.read_floats()
    found = paper.read()[:, : exact.shape[1], :2]
    error = np.abs(found - exact)
    hessians = exact[:, :, 1:]
    # n additions err by at most n * 2^-24 of the sum of magnitudes, and no gradient is larger than 4 hessians
    n_added = -(-n_rows // paper.groups_a_tuple) + paper.groups_a_tuple + paper.variant.n_bins
    allowed = n_added * 2.0**-24 * hessians / LEAST_HESSIAN
    if (error > allowed).any():
        raise SystemExit(f"the paper's sums are wrong: off by {np.max(error - allowed):.3g} more than float explains")
    return float(np.max(error / np.maximum(hessians, LEAST_HESSIAN)))


class Stopwatch:
    """Takes the time of launches on a device."""

    def __init__(self, runtime: Runtime, device: str, repeats: int) -> None:
        self._runtime = runtime
        self._repeats = repeats
        self._scratch: Buffer | None = runtime.allocate(CACHE_BYTES) if runtime.facts.is_gpu else None
        self._with_events = device.startswith("cuda")
        if self._with_events:
            import cupy

            self._busy = cupy.RawKernel(BUSY, "busy")
            self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()

    def median(self, launch: Callable[[], None]) -> float:
        """Return the median of the seconds that a launch takes on the device."""
        launch()
        return statistics.median(self._seconds(launch) for _ in range(self._repeats))

    def _seconds(self, launch: Callable[[], None]) -> float:
        runtime: Any = self._runtime
        if self._scratch is not None:
            runtime.zero(self._scratch, CACHE_BYTES)
        runtime.synchronize()
        if not self._with_events:
            start = time.perf_counter()
            launch()
            runtime.synchronize()
            return time.perf_counter() - start
        import cupy

        with runtime.device, runtime.stream:
            self._busy((1,), (1,), (np.int64(BUSY_CYCLES),))
        self._begin.record(runtime.stream)
        launch()
        self._end.record(runtime.stream)
        self._end.synchronize()
        return float(cupy.cuda.get_elapsed_time(self._begin, self._end)) / 1e3


def time_paper(paper: PaperHistogram, stopwatch: Stopwatch, groups_tried: tuple[int, ...]) -> float:
    """Return the paper's seconds with the best number of groups."""
    best = np.inf
    for groups in groups_tried:
        paper.set_groups(groups)
        best = min(best, stopwatch.median(paper.launch))
    return best


def rows_of(depth: int, n_rows: int) -> NDArray[np.uint32] | None:
    """Return the rows of a node, ascending; None at the root."""
    if depth == 0:
        return None
    chosen = np.random.default_rng(100 + depth).random(n_rows, np.float32) < 2.0**-depth
    return np.flatnonzero(chosen).astype(np.uint32)


def bins_to_spread(kind: str, n_bins: int, n_features: int) -> NDArray[np.int64]:
    """Return how many bins each feature can have, by which the paper spreads them."""
    return np.full(n_features, FEW if kind == "few" else n_bins)


def compare(runtime: Runtime, stopwatch: Stopwatch, kind: str, n_bins: int, options: argparse.Namespace) -> list[float]:
    """Print a table for one data set; returns updates a second of both at the first depth."""
    n_rows, n_features = options.rows, options.features
    binned = make_bins(kind, n_rows, n_features, n_bins)
    ours = Ours(runtime, binned, options.counts)
    variant = paper_variant(n_bins, counted=options.counts, doubled=options.double)
    n_distinct = bins_to_spread(kind, n_bins, n_features)
    paper = PaperHistogram(runtime, binned.bins[:, :n_features], n_distinct, variant)
    groups_tried = GROUPS_TRIED if runtime.facts.is_gpu else (GROUPS_A_UNIT,)
    print(f"\n### {kind} data, {n_bins} bins\n")
    print("| D | rows | ours us | ours GB/s | paper us | paper GB/s | ours / paper |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    largest_error, at_first_depth = 0.0, [0.0, 0.0]
    for depth in options.depths:
        rows = rows_of(depth, n_rows)
        size = n_rows if rows is None else len(rows)
        if size == 0:
            continue
        ours.set_node(rows)
        ours.check(rows)
        paper.set_node(rows, *ours.floats(rows))
        paper.launch()
        largest_error = max(largest_error, check_paper(paper, ours, size))
        seconds = stopwatch.median(ours.launch), time_paper(paper, stopwatch, groups_tried)
        rates = [size * n_features / each / 1e9 for each in seconds]
        if depth == options.depths[0]:
            at_first_depth = [rate * 1e9 for rate in rates]
        print(
            f"| {depth} | {size} | {seconds[0] * 1e6:.1f} | {rates[0]:.1f} | {seconds[1] * 1e6:.1f} | {rates[1]:.1f} | "
            f"{rates[0] / rates[1]:.2f} |",
            flush=True,
        )
    print(f"\nour sums exact; the paper's off by up to {largest_error:.1e} of a bin's hessians", flush=True)
    paper.close()
    ours.close()
    return at_first_depth


def mechanisms(n_bins: int) -> dict[str, dict[str, Any]]:
    """Return what to change to have the paper's kernel without each of its mechanisms."""
    off: dict[str, dict[str, Any]] = {
        "all of them": {},
        "no rotation (Algorithm 2)": {"rotated": False},
        "one bank (A.1)": {"num_banks": 1},
        "[feature][bin] counters": {"interleaved": False},
        "no fast path for repeated values (A.4)": {"last_bin": False},
        "no redistribution (A.3)": {"redistributed": False},
        "none: Algorithm 1 with atomics": {
            "rotated": False, "num_banks": 1, "interleaved": False, "last_bin": False, "redistributed": False,
        },
        "double precision (A.6)": {"doubled": True},
        "rows counted (section 4)": {"counted": True},
    }  # fmt: skip
    if n_bins <= 16:
        off["a byte a feature (without C.4)"] = {"features": 4}
    return off


def take_apart(
    runtime: Runtime, stopwatch: Stopwatch, kinds: Iterable[str], n_bins: int, options: argparse.Namespace
) -> None:
    """Print the paper's kernel at the root with its mechanisms switched off one by one, GB/s."""
    groups_tried = GROUPS_TRIED if runtime.facts.is_gpu else (GROUPS_A_UNIT,)
    columns: dict[str, list[str]] = {name: [] for name in ["ours", *mechanisms(n_bins)]}
    for kind in kinds:
        binned = make_bins(kind, options.rows, options.features, n_bins)
        ours = Ours(runtime, binned, counted=False)
        ours.set_node(None)
        ours.check(None)
        values = ours.floats(None)
        n_updates = options.rows * options.features / 1e9
        columns["ours"].append(f"{n_updates / stopwatch.median(ours.launch):.1f}")
        for name, changes in mechanisms(n_bins).items():
            changes = dict(changes)
            spread = changes.pop("redistributed", True)
            n_distinct = bins_to_spread(kind, n_bins, options.features)
            variant = paper_variant(n_bins, **changes)
            paper = PaperHistogram(runtime, binned.bins[:, : options.features], n_distinct, variant, spread)
            paper.set_node(None, *values)
            paper.launch()
            check_paper(paper, ours, options.rows)
            columns[name].append(f"{n_updates / time_paper(paper, stopwatch, groups_tried):.1f}")
            paper.close()
        ours.close()
    print(f"\n### the paper's mechanisms at the root, {n_bins} bins, GB/s\n")
    print(f"| | {' | '.join(kinds)} |\n|---|{'--:|' * len(list(kinds))}")
    for name, cells in columns.items():
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def read_options() -> argparse.Namespace:
    """Read the command line; sizes that were not given depend on the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help='"cuda", "opencl", "opencl:1", ...')
    parser.add_argument("--rows", type=int, help="10,000,000 on a GPU, 100,000 elsewhere")
    parser.add_argument("--features", type=int, default=32, help="32, or 28 as Higgs has")
    parser.add_argument("--bins", type=int, nargs="+", choices=[15, 63, 255])
    parser.add_argument("--data", nargs="+", choices=KINDS)
    parser.add_argument("--depths", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, help="of which the median counts: 9 on a GPU, 3 elsewhere")
    parser.add_argument("--counts", action="store_true", help="both count rows as well")
    parser.add_argument("--double", action="store_true", help="the paper's kernel sums in double precision")
    parser.add_argument("--quick", action="store_true", help="63 and 255 bins, random and one, six depths")
    parser.add_argument("--mechanisms", action="store_true", help="the paper's mechanisms one by one, at the root")
    options = parser.parse_args()
    options.bins = options.bins or ([63, 255] if options.quick else [15, 63, 255])
    options.data = options.data or (["random", "one"] if options.quick else list(KINDS))
    options.depths = options.depths or ([0, 1, 2, 4, 8, 12] if options.quick else list(range(13)))
    return options


def main() -> None:
    """Run and print."""
    options = read_options()
    device = choose_device(options.device)
    if not device.startswith(("cuda", "opencl")):
        raise SystemExit(f"--device {device}: only cuda and opencl have these kernels")
    start = time.perf_counter()
    runtime = open_runtime(device)
    is_gpu = runtime.facts.is_gpu
    options.rows = options.rows or (10_000_000 if is_gpu else 100_000)
    stopwatch = Stopwatch(runtime, device, options.repeats or (9 if is_gpu else 3))
    print(f"{runtime.facts.name}: {options.rows} rows x {options.features} features")
    if options.mechanisms:
        for n_bins in options.bins:
            take_apart(runtime, stopwatch, options.data, n_bins, options)
    else:
        first = {}
        for n_bins in options.bins:
            for kind in options.data:
                first[n_bins, kind] = compare(runtime, stopwatch, kind, n_bins, options)
        print(f"\n### depth {options.depths[0]}, trillions of updates a second: ours / the paper's\n")
        print(f"| bins | {' | '.join(options.data)} |\n|--:|{'--:|' * len(options.data)}")
        for n_bins in options.bins:
            cells = (first[n_bins, kind] for kind in options.data)
            print(f"| {n_bins} | {' | '.join(f'{a / 1e12:.3g} / {b / 1e12:.3g}' for a, b in cells)} |")
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()

"""Whole trainings on the CPU beside LightGBM, XGBoost and scikit-learn: the same data and parameters, one run.

    python benchmarks/train.py --shape higgs                # 1M x 28, 255 leaves
    python benchmarks/train.py --shape small wide           # 20k x 20, 31 leaves; 50k x 500, 63 leaves
    python benchmarks/train.py --tree-method exact --rows 200000 --features 28 --iterations 10
    python benchmarks/train.py --rows 200000 --features 50 --leaves 127 --iterations 20 --peers lightgbm

Every library is warmed up (2 iterations), then they take turns, so that a busy machine slows all of them. Seconds from
different runs do not compare; the ratios of one run do. An iteration's time is that of a training on data that are
already binned, divided by the iterations; scikit-learn bins in `fit`, so there it is the difference of two fits.
`lightgbm+q` is LightGBM with `use_quantized_grad` (4 levels, leaf values renewed): faster, and a coarser model.
XGBoost has no `min_data_in_leaf`; it always runs without. AUC and log loss are those on 100,000 further rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from libraries import Data, Library, LightGBM, ScikitLearn, XGBoost, by_depth

from hornbeam.testing.data import make_higgs_like

TEST_ROWS = 100_000
WARM_UP = 2


class Shape(NamedTuple):
    """Size of a training: rows, features, leaves, and how many iterations are timed."""

    rows: int
    features: int
    leaves: int
    iterations: int


SHAPES = {
    "small": Shape(20_000, 20, 31, 100),
    "higgs": Shape(1_000_000, 28, 255, 10),
    "wide": Shape(50_000, 500, 63, 10),
}


# the levels are LightGBM's default; without renewed leaf values the model is useless
QUANTIZED = {"use_quantized_grad": True, "num_grad_quant_bins": 4, "quant_train_renew_leaf": True}
LIBRARIES: dict[str, Callable[[dict[str, Any]], Library]] = {
    "hornbeam": Library,
    "lightgbm": LightGBM,
    "lightgbm+q": lambda params: LightGBM(params, **QUANTIZED),
    "xgboost": XGBoost,
    "sklearn": ScikitLearn,
}


@dataclass
class Measured:
    """Seconds of one library, one value a repetition, and the quality of its model."""

    build: list[float] = field(default_factory=list)
    iteration: list[float] = field(default_factory=list)
    auc: float = 0.0
    logloss: float = 0.0


def seconds(task: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long a task takes, and what it returns."""
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def measure(library: Library, data: Data, iterations: int, into: Measured) -> Any:
    """Build and train once, note the times, and return the model."""
    build, built = seconds(lambda: library.build(data))
    if isinstance(library, ScikitLearn):  # binning is in both fits and drops out
        first, _ = seconds(lambda: library.train(built, 1))
        whole, model = seconds(lambda: library.train(built, iterations))
        each = (whole - first) / (iterations - 1)
        build = first - each
    else:
        training, model = seconds(lambda: library.train(built, iterations))
        each = training / iterations
    into.build.append(build)
    into.iteration.append(each)
    return model


def run(shape: Shape, min_data: int, options: argparse.Namespace) -> dict[str, Measured]:
    """Time all libraries on one shape, in turns."""
    from sklearn.metrics import log_loss, roc_auc_score

    data = Data(*make_higgs_like(shape.rows, shape.features, seed=0))
    X_test, y_test = make_higgs_like(TEST_ROWS, shape.features, seed=1)
    params = {
        "objective": "binary",
        "num_leaves": shape.leaves,
        "learning_rate": 0.1,
        "min_data_in_leaf": min_data,
        "num_threads": options.threads,
        "device": "cpu",
        "metric": "none",
        "verbosity": -1,
    }
    if options.tree_method != "hist":
        params = by_depth(params, options.tree_method, options.depth)
    names = ["hornbeam", *(peer for peer in options.peers if peer != "hornbeam")]
    libraries = {name: LIBRARIES[name](params) for name in names}
    found = {name: Measured() for name in names}
    for library in libraries.values():
        library.train(library.build(data), WARM_UP)
    for repeat in range(options.repeats):
        turn = repeat % len(names)
        for name in names[turn:] + names[:turn]:  # nobody always runs after the same neighbour
            model = measure(libraries[name], data, shape.iterations, found[name])
            print(f"  {name} {found[name].iteration[-1] * 1e3:.1f} ms", file=sys.stderr, flush=True)
            if repeat == 0:
                predicted = libraries[name].predict(model, X_test, data)
                found[name].auc = float(roc_auc_score(y_test, predicted))
                found[name].logloss = float(log_loss(y_test, predicted))
    return found


def show(rows: list[list[str]], markdown: bool) -> None:
    """Print a table, the first row as its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells))
        if number == 0 and markdown:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def report(shape: Shape, min_data: int, found: dict[str, Measured], options: argparse.Namespace) -> None:
    """Print the results of one shape."""
    print(
        f"\n{shape.rows:,} rows x {shape.features} features, {shape.leaves} leaves, 255 bins, min_data_in_leaf = "
        f"{min_data}, {shape.iterations} iterations, {options.threads or 'all'} threads, {options.repeats} turns\n"
    )
    base = statistics.median(found["hornbeam"].iteration)
    rows = [["library", "build s", "ms an iteration", "fastest", "times Hornbeam's", "AUC", "log loss"]]
    for name, measured in found.items():
        median = statistics.median(measured.iteration)
        rows.append(
            [
                name,
                f"{statistics.median(measured.build):.2f}",
                f"{median * 1e3:.1f}",
                f"{min(measured.iteration) * 1e3:.1f}",
                f"{median / base:.2f}",
                f"{measured.auc:.5f}",
                f"{measured.logloss:.5f}",
            ]
        )
    show(rows, options.markdown)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=["small"])
    parser.add_argument("--rows", type=int, help="instead of the shape's; so are the next three")
    parser.add_argument("--features", type=int)
    parser.add_argument("--leaves", type=int)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--min-data", type=int, nargs="+", default=[1, 20], help="min_data_in_leaf; one table each")
    parser.add_argument("--threads", type=int, default=0, help="0: all that are available")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument(
        "--tree-method", choices=["hist", "exact", "approx"], default="hist", help="other than hist: beside XGBoost's"
    )
    parser.add_argument("--depth", type=int, default=8, help="of trees with another tree method than hist")
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/benchmarks.md")
    options = parser.parse_args()
    if options.iterations is not None and options.iterations < 2:
        parser.error(f"--iterations {options.iterations}: scikit-learn's time is a difference of fits; give 2 or more")
    if options.tree_method != "hist":
        options.peers, options.leaves, options.min_data = ["xgboost"], 2**options.depth, [1]
    for name in options.shape:
        given = {key: getattr(options, key) for key in Shape._fields if getattr(options, key) is not None}
        shape = SHAPES[name]._replace(**given)
        for min_data in options.min_data:
            report(shape, min_data, run(shape, min_data, options), options)


if __name__ == "__main__":
    main()

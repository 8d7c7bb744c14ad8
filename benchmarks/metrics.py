"""Metrics, and leaves renewed to percentiles, on a device beside the host: milliseconds each.

    python benchmarks/metrics.py --device cuda                     # 10,000,000 rows
    python benchmarks/metrics.py --device opencl --rows 100000     # anywhere, with PoCL

A figure is the fastest of some evaluations, waiting for the value. `host` is what the value costs where the scores have
to come down first: the copy and the same metric with all threads. Values are compared with `==` before a time is taken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from hornbeam.backends.cpu.growth.rows.renewal import renew_leaves
from hornbeam.core.cpus import resolve_threads
from hornbeam.dataset.dataset import Dataset
from hornbeam.metrics import get_metric
from hornbeam.objectives import get_objective
from hornbeam.params.params import Params
from hornbeam.testing.checks import binned_data, engine_on
from hornbeam.testing.data import make_binned
from hornbeam.trees.records import Segments

CASES = (
    ("l2", "regression"),
    ("binary_logloss", "binary"),
    ("auc", "binary"),
    ("average_precision", "binary"),
    ("ndcg", "lambdarank"),
)
QUERY = 100
N_LEAVES = 255


def fastest(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of some calls, in milliseconds; the first call does not count."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    n_rows, n_threads = given.rows // QUERY * QUERY, resolve_threads(0)
    rng = np.random.default_rng(0)
    engine = engine_on(given.device, binned_data(make_binned(n_rows, 2, 5)))
    scores = rng.normal(size=(1, n_rows))
    label = (rng.random(n_rows) < 0.5).astype(np.float64)
    engine.set_scores(scores)
    sys.stdout.write(f"{n_rows} rows, milliseconds\n{'':28s}{'device':>10s}{'host':>10s}\n")
    for weighted in (False, True):
        weight = rng.random(n_rows) if weighted else None
        dataset = Dataset(np.zeros((n_rows, 1)), label=label, weight=weight, group=np.full(n_rows // QUERY, QUERY))
        for name, objective_name in CASES:
            params = Params.from_dict({"objective": objective_name, "metric": name})
            metric, objective = get_metric(name, params), get_objective(params)

            def on_host(metric=metric, objective=objective, dataset=dataset):  # type: ignore[no-untyped-def]
                return metric.evaluate(dataset, engine.scores(), objective, n_threads)

            def on_device(metric=metric, objective=objective, dataset=dataset):  # type: ignore[no-untyped-def]
                return engine.evaluate(metric, objective, dataset, -1)

            assert on_device() in (None, on_host()), f"{name} differs"
            show(f"{name}{', weighted' if weighted else ''}", on_device, on_host, given.repeats)
        engine.set_gradients(np.ones((1, n_rows)), np.ones((1, n_rows)))
        engine.quantize(0, False)
        engine.begin_tree(2)
        ends = np.linspace(0, n_rows, N_LEAVES + 1).astype(np.int64)
        nodes = Segments(ends[:-1], ends[1:], np.zeros(N_LEAVES, np.int32))
        engine.assign_leaves(nodes, np.arange(N_LEAVES, dtype=np.int32))
        leaf = np.repeat(np.arange(N_LEAVES, dtype=np.uint16), np.diff(ends))

        def renew_on_device(weight=weight):  # type: ignore[no-untyped-def]
            return engine.renew_leaves(0, 0.5, label, weight, N_LEAVES)

        def renew_on_host(weight=weight, leaf=leaf):  # type: ignore[no-untyped-def]
            return renew_leaves(engine.scores()[0], label, weight, leaf, 0.5, N_LEAVES, n_threads)

        assert (renew_on_device() == renew_on_host()).all(), "renewed leaves differ"
        show(
            f"{N_LEAVES} leaves renewed{', weighted' if weighted else ''}",
            renew_on_device,
            renew_on_host,
            given.repeats,
        )
    engine.close()


def show(name: str, on_device: Callable[[], object], on_host: Callable[[], object], repeats: int) -> None:
    """Print a line of the table."""
    sys.stdout.write(f"{name:28s}{fastest(on_device, repeats):10.3f}{fastest(on_host, repeats):10.3f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

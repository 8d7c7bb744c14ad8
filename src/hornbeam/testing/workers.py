"""Data sets cut into parts, and trainings on several workers, to be held against one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from hornbeam.dataset.dataset import Dataset
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.dataset import Part, PartDataset
from hornbeam.distributed.threads import run_workers
from hornbeam.distributed.training import train
from hornbeam.model.booster import Booster
from hornbeam.testing.golden import CASES
from hornbeam.testing.golden_case import GoldenCase


def cut(dataset: Dataset, bounds: Sequence[int]) -> list[Part]:
    """Cut a data set into parts at some rows; those without rows are left out, and queries stay whole."""
    inner = np.array(bounds, np.int64)
    if dataset.query_boundaries is not None:
        inner = dataset.query_boundaries[np.searchsorted(dataset.query_boundaries, inner)]
    pairs = zip([0, *inner.tolist()], [*inner.tolist(), dataset.n_rows], strict=True)
    return [
        Part(number, dataset.take_rows(np.arange(first, last)))
        for number, (first, last) in enumerate(pairs)
        if last > first
    ]


def uneven_bounds(n_rows: int, n_workers: int) -> list[int]:
    """Return bounds of two parts a worker, some of one row and some empty."""
    shares = np.arange(1, 2 * n_workers) ** 2 / (2 * n_workers) ** 2
    bounds = np.floor(n_rows * shares).astype(int)
    bounds[0] = min(1, n_rows)
    return sorted(bounds.tolist())


def parts_of_worker(parts: Sequence[Part], rank: int, n_workers: int) -> list[Part]:
    """Deal parts to workers in turn; with three workers or more the last one gets nothing."""
    n_served = n_workers - 1 if n_workers > 2 else n_workers
    return [part for place, part in enumerate(parts) if place % n_served == rank]


def cases_of_workers() -> list[str]:
    """Return the names of the golden cases that workers train; they refuse the others."""
    return [name for name, case in CASES.items() if "tree_method" not in case.params]


def short_case(name: str) -> GoldenCase:
    """Return a golden case with as many rounds as each of its ways takes to begin: sampling, and dropping of trees."""
    case = CASES[name]
    is_sampled = case.params.get("data_sample_strategy") == "goss" or case.params.get("bagging_freq", 1) > 1
    most = 5 if case.params.get("boosting") == "dart" else 3 if is_sampled else 2
    return replace(case, n_rounds=min(case.n_rounds, most))


@cache
def expected_of_short(name: str) -> str:
    """Return the fingerprint that one process gives a short case."""
    return short_case(name).train(device="cpu", num_threads=1).fingerprint()


def train_on_workers(case: GoldenCase, n_workers: int, **machine: Any) -> list[Booster]:
    """Train a golden case on workers that are threads; returns the model of each of them."""
    dataset = case.dataset()
    parts = cut(dataset, uneven_bounds(dataset.n_rows, n_workers))
    params = {**case.params, **case.callables, "verbosity": -1, **machine}

    def work(collective: Collective) -> Booster:
        mine = PartDataset(collective, parts_of_worker(parts, collective.rank, n_workers))
        return train(params, mine, case.n_rounds)

    return run_workers(n_workers, work, timeout=120.0)

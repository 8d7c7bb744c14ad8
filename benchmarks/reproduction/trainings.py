"""Whole trainings: time, metrics and convergence of every algorithm, library and device on every set.

Times are those of training alone, binned data in memory, after a short training to warm up. A training that would take
longer than its share of time ends after fewer iterations than the paper's; the time of all of them is then that of an
iteration, times their number, and metrics are those of the shorter model.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from libraries import Data, Library, seconds
from numpy.typing import NDArray

from hornbeam.data.queries import boundaries_of
from hornbeam.metrics.ranked_lists import NormalizedGain
from reproduction.journal import Journal
from reproduction.learners import DEVICES, LIBRARIES, METHODS, THEIR_METHODS, make_learner, predict, reason_against
from reproduction.sets import SETS, PaperSet, Split, load

PROBE = 4
"""Iterations of the training that tells how many fit."""

LEAST_SHARE = 0.02
"""Of the time of that training, at least what its iterations but the first take: short trainings differ."""

ITERATIONS = {"small": 20, "full": 500}
"""Of all sets; 500 are the paper's."""

SECONDS_EACH = {"small": 6.0, "full": 5.0}
"""Of a training, unless told."""

CURVES = ("higgs", "mslr")
"""Sets whose convergence is shown."""

STOPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500)
"""Iterations at which a curve has a point."""


def key_of(one: str, library: str, device: str, method: str) -> str:
    """Return the key of a training."""
    return f"train/{one}/{library}/{device}/{method}"


def plan(sets: list[str], libraries: list[str], devices: list[str]) -> list[tuple[str, str, str, str]]:
    """Return all trainings, (set, device, library, method); what is ours comes first in each set."""
    return [
        (one, device, library, method)
        for one in sets
        for library in LIBRARIES
        if library in libraries
        for device in DEVICES
        if device in devices
        for method in METHODS
        if method in THEIR_METHODS[library]
    ]


def run(journal: Journal, jobs: list[tuple[str, str, str, str]], size: str, folder: Path | None, each: float) -> None:
    """Do the trainings that are not done."""
    for one in dict.fromkeys(job[0] for job in jobs):
        split: Split | None = None
        for _, device, library, method in (job for job in jobs if job[0] == one):
            key = key_of(one, library, device, method)
            reason = reason_against(library, device, method)
            if reason is not None and not journal.is_done(key):
                journal.skip(key, reason)
                continue
            if split is None and not (journal.is_done(key) and journal.is_done(f"data/{one}")):
                journal.check_time()
                split = load(SETS[one], size, folder)
                journal.step(f"data/{one}", split.facts)

            def work(
                split: Split | None = split, library: str = library, device: str = device, method: str = method
            ) -> dict[str, Any]:
                assert split is not None
                return train(SETS[one], split, library, device, method, size, each)  # noqa: B023

            journal.step(key, work)
            give_back()


def give_back() -> None:
    """Free what a training held, on a GPU too."""
    gc.collect()
    try:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
    except Exception:
        return


@dataclass(frozen=True)
class Timing:
    """A training: iterations, seconds on the clock, seconds of an iteration on the clock and of all processors."""

    iterations: int
    whole: float
    iteration: float
    processor: float
    model: Any


def timed(learner: Library, built: Any, target: int, each: float) -> Timing:
    """Train for as many iterations as fit into `each` seconds, the target at most."""
    took, busy, model = seconds(learner, built, 1)
    if took < 4 * each or learner.name == "hornbeam":  # once more, without what happens once
        again, again_busy, model = seconds(learner, built, 1)
        took, busy = min(took, again), min(busy, again_busy)
    if took > each:
        return Timing(1, took, took, busy, model)
    short, once = min(PROBE, target), took
    probe, probe_busy, model = seconds(learner, built, short)
    an_iteration = max(probe - once, LEAST_SHARE * probe) / (short - 1)
    n = max(short, min(target, int((each - once) / an_iteration)))
    if n == short:
        return Timing(short, probe, probe / short, probe_busy / short, model)
    took, busy, model = seconds(learner, built, n)
    pairs = (took, probe), (busy, probe_busy)
    # on a busy machine a short training may take longer than a long one
    clock, processor = [(long - brief) / (n - short) if long > brief else long / n for long, brief in pairs]
    return Timing(n, took, clock, processor, model)


def train(
    one: PaperSet, split: Split, library: str, device: str, method: str, size: str, each: float
) -> dict[str, Any]:
    """Train and measure."""
    learner = make_learner(library, one, method, size, device)
    start = time.perf_counter()
    built = learner.build(split.train)
    build = time.perf_counter() - start
    target = ITERATIONS[size]
    timing = timed(learner, built, target, each)
    n, model = timing.iterations, timing.model
    stops = sorted({stop for stop in STOPS if stop < n} | {n}) if one.key in CURVES else [n]
    curve = []
    for stop in stops:
        found = metrics_of(one, split.test, predict(library, learner, model, split.test, stop))
        curve.append([stop, found[one.metrics[-1]]])
    all_of_them = timing.whole if n == target else timing.iteration * target
    main = one.metrics[-1]
    return {
        "iterations": n, "target": target, "build_s": build, "train_s": timing.whole, "all_s": all_of_them,
        "iteration_ms": timing.iteration * 1e3, "processor_ms": timing.processor * 1e3,
        "metrics": found, "curve": curve, "version": learner.version,
        "params": {name: repr(value) for name, value in learner.params.items()},
        "fingerprint": model.fingerprint() if library == "hornbeam" else None,
        "summary": f"{timing.iteration * 1e3:.2f} ms an iteration, {n} iterations, {main} {found[main]:.5f}",
    }  # fmt: skip


def metrics_of(one: PaperSet, test: Data, predicted: Any) -> dict[str, float]:
    """Return the paper's metrics of predictions of the test rows."""
    if test.sizes is None:
        return {"auc": auc(test.y, np.asarray(predicted, np.float64))}
    ranks = tuple(int(name.partition("@")[2]) for name in one.metrics)
    values = NormalizedGain(ranks).at_ranks(test.y, np.asarray(predicted), None, boundaries_of(test.sizes))
    return dict(zip(one.metrics, map(float, values), strict=True))


def auc(y: NDArray[np.float64], score: NDArray[np.float64]) -> float:
    """Return the area under the ROC curve; rows of equal score share their ranks."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2
    positive = y > 0
    n_positive = int(positive.sum())
    n_negative = len(y) - n_positive
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    return float((rank[place][positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))

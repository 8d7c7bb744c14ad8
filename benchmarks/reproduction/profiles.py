"""What a tree spends its time on, by stage, on CPU and GPU: the paper's Table 5 has LightGBM's four functions.

On the CPU a tree is one compiled call. For the profile it is grown step by step by the same engine, in rounds, and
every operation is timed; the time of an iteration as it is trained stands beside. On a GPU every kernel is timed
(stages_gpu).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from libraries import seconds

from hornbeam.backends.cpu.engine import CpuEngine
from hornbeam.trees.steps import expand_in_steps
from reproduction.journal import Journal
from reproduction.learners import gpu, make_learner
from reproduction.printed import K255
from reproduction.sets import SETS, Split, load

PROFILED = ("higgs", "epsilon", "yahoo")
"""The sets of the paper's table."""

ITERATIONS = {"small": 5, "full": 10}

GRADIENTS, HISTOGRAMS, SEARCH, PARTITION, LEAVES = (
    "gradients, rounding", "histograms, subtraction", "split search", "partition", "leaves, scores",
)  # fmt: skip

OPERATIONS = {
    "compute_gradients": GRADIENTS,
    "quantize": GRADIENTS,
    "begin_tree": GRADIENTS,
    "build_histograms": HISTOGRAMS,
    "subtract": HISTOGRAMS,
    "find_splits": SEARCH,
    "partition": PARTITION,
    "assign_leaves": LEAVES,
    "leaf_sums": LEAVES,
    "add_leaf_values": LEAVES,
}
"""Stage of each operation of the engine."""


def run(journal: Journal, jobs: list[tuple[str, str]], size: str, folder: Path | None) -> None:
    """Do the steps, (set, device), that are not done."""
    for one in dict.fromkeys(job[0] for job in jobs):
        split: Split | None = None
        for device in (job[1] for job in jobs if job[0] == one):
            key = f"profile/{one}/{device}"
            if device == "gpu" and gpu() is None:
                journal.skip(key, "not there: this machine has no GPU")
                continue
            if split is None and not journal.is_done(key):
                journal.check_time()
                split = load(SETS[one], size, folder)

            def work(device: str = device, split: Split | None = split) -> dict[str, Any]:
                assert split is not None
                return profile(one, split, device, size)  # noqa: B023

            journal.step(key, work)


def profile(one: str, split: Split, device: str, size: str) -> dict[str, Any]:
    """Return milliseconds of the stages of a tree."""
    learner = make_learner("hornbeam", SETS[one], K255, size, device)
    built = learner.build(split.train)
    n = ITERATIONS[size]
    learner.train(built, 2)
    whole = (seconds(learner, built, 2 * n)[0] - seconds(learner, built, n)[0]) / n * 1e3
    if device == "gpu":
        from stages_gpu import kernel_times, stages_of

        stages = dict(stages_of(kernel_times(built, learner.params, n)[1], n))
    else:
        with stepped():
            learner.train(built, 2)  # compiles what trees in one call do not need
        with stepped() as spent:
            learner.train(built, n)
        stages = {name: spent[name] / n * 1e3 for name in dict.fromkeys(OPERATIONS.values())}
    found = {"stages": stages, "iteration_ms": max(whole, 0.0), "rows": split.train.X.shape[0]}
    return found | {"summary": ", ".join(f"{name} {value:.2f} ms" for name, value in stages.items())}


@contextmanager
def stepped() -> Iterator[dict[str, float]]:
    """Let the CPU engine grow trees step by step, and add up the seconds of each stage."""
    spent: dict[str, float] = defaultdict(float)
    originals = {name: getattr(CpuEngine, name) for name in (*OPERATIONS, "grow_ahead", "expand")}

    def watched(name: str, stage: str) -> Any:
        def operation(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return originals[name](*arguments, **named)
            finally:
                spent[stage] += time.perf_counter() - start

        return operation

    for name, stage in OPERATIONS.items():
        setattr(CpuEngine, name, watched(name, stage))
    setattr(CpuEngine, "grow_ahead", lambda *arguments, **named: None)  # noqa: B010
    setattr(CpuEngine, "expand", expand_in_steps)  # noqa: B010
    try:
        yield spent
    finally:
        for name, original in originals.items():
            setattr(CpuEngine, name, original)

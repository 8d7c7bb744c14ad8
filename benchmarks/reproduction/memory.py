"""GPU memory of a training in the six shapes (the paper's Table 3): counted everywhere, measured where a GPU is.

What is counted must be held with the fewest histograms (backends/gpu/growth/memory.py). What is measured is the peak of
all buffers, two trees, without limits: bins by feature as well, and as many histograms as a tree may use.
"""

from __future__ import annotations

from typing import Any

from memory_gpu import MEGABYTE, counted, peak
from train_gpu import make, to_host

import hornbeam as hb
from hornbeam.params.params import BY_NAME
from reproduction.journal import Journal
from reproduction.learners import METHODS, gpu, parameters
from reproduction.printed import EXACT, K15, K63, K255
from reproduction.sets import SETS, PaperSet
from reproduction.trainings import give_back

MEASURED = (K63, K255, K15, EXACT)


def plan(sets: list[str]) -> list[tuple[str, str]]:
    """Return (set, method) of all steps."""
    return [(one, method) for one in sets for method in MEASURED]


def run(journal: Journal, jobs: list[tuple[str, str]], size: str) -> None:
    """Do the steps that are not done."""
    device = gpu()
    for one in dict.fromkeys(job[0] for job in jobs):
        table: tuple[Any, Any] | None = None
        for method in (job[1] for job in jobs if job[0] == one):
            key = f"memory/{one}/{method}"
            if journal.is_done(key):
                journal.step(key, dict)
                continue
            if method == EXACT and (device is None or "tree_method" not in BY_NAME):
                what = "this machine has no GPU" if device is None else "this Hornbeam has no tree_method='exact'"
                journal.skip(key, f"not there: {what}")
                continue
            if table is None and device is not None and size == "full":
                journal.check_time()
                table = make(one, SETS[one].n_rows)  # arrays of the GPU where CuPy is

            def work(method: str = method, table: tuple[Any, Any] | None = table) -> dict[str, Any]:
                return measure(SETS[one], method, table, size)  # noqa: B023

            journal.step(key, work)
            give_back()


def measure(one: PaperSet, method: str, table: tuple[Any, Any] | None, size: str) -> dict[str, Any]:
    """Return MB: counted for the paper's rows, and measured."""
    found: dict[str, Any] = {"rows": one.n_rows}
    if METHODS[method].tree_method == "hist":
        needed, columns, pool = counted(one.key, one.n_rows, METHODS[method].bins)
        found |= {
            "counted": sum(needed.values()) / MEGABYTE, "columns": columns / MEGABYTE, "pool": pool / MEGABYTE,
        }  # fmt: skip
    if table is not None:
        params = parameters(one, method, size, "gpu") | {"objective": "binary"}
        if METHODS[method].tree_method != "hist":
            params["tree_method"] = METHODS[method].tree_method
            table = to_host(table[0]), to_host(table[1])
        data = hb.Dataset(*table).construct(hb.Params.from_dict(params))
        found["peak"], found["held"] = peak(data, params)
    found["summary"] = ", ".join(f"{name} {found[name]:.0f} MB" for name in ("counted", "peak") if found.get(name))
    return found

"""What every device can do, as a table that the tests enforce: docs/capabilities.md.

    python -m hornbeam.testing.capabilities    print the page

Every parameter that can change a model, and every kind of data, has golden cases (golden.py) that use it. The tests
hold every device that a machine offers against the fingerprints of these cases, so a cell "identical" is a test that
passed (for CUDA: on a machine that has it, see verify.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hornbeam.core.errors import HornbeamError
from hornbeam.dataset.dataset import Dataset
from hornbeam.objectives.device_functions import is_on_device
from hornbeam.params.params import GROUPS, PARAMETERS, Params
from hornbeam.testing.golden import CASES
from hornbeam.testing.golden_case import GoldenCase, golden_score, golden_table
from hornbeam.training.training import train

DEVICES = ("reference", "cpu", "opencl", "cuda")

MOST_CASES = 3
"""Golden cases that a row of the page names; the others are counted."""

DATA_KINDS: dict[str, Callable[[GoldenCase], bool]] = {
    "missing values": lambda case: case.missing,
    "weights": lambda case: case.weighted,
    "labels of several columns": lambda case: case.targets > 1,
    "queries (`group`, `qid`)": lambda case: bool(case.group),
    "positions of clicks (`position`)": lambda case: case.positions,
    "times between bounds (`label_lower_bound`, `label_upper_bound`)": lambda case: (
        case.censored and case.params["objective"] == "survival:aft"
    ),
    "initial scores (`init_score`)": lambda case: case.init_score,
    "mostly zeros, dense or as a sparse table": lambda case: case.zeros > 0.0,
    "columns that exclude each other": lambda case: bool(case.exclusive),
    "categorical features": lambda case: bool(case.levels),
    "labels with a heavy tail": lambda case: case.heavy_tail,
    "objective functions": lambda case: bool(case.callables),
    "objective functions of arrays of the device (`on_device`)": lambda case: any(
        map(is_on_device, case.callables.values())
    ),
}
"""Kinds of data, and which cases have them."""


@dataclass(frozen=True)
class Refusal:
    """A combination that raises before training, on every device."""

    what: str
    params: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)

    def error(self, device: str = "reference") -> HornbeamError | None:
        """Train with it, and return what it raises; None if it raises nothing of ours."""
        table = golden_table(60, 4)
        label = golden_score(table)
        if self.params.get("objective") in ("binary", "lambdarank"):
            label = (label > 1.0).astype(np.float64)
        try:
            train({**self.params, "device": device, "verbosity": -1}, Dataset(table, label=label, **self.data), 1)
        except HornbeamError as error:
            return error
        return None


REFUSALS = (
    Refusal(
        "percentile objectives with monotone constraints",
        {"objective": "quantile", "monotone_constraints": [1, 0, 0, 0]},
    ),
    Refusal("path smoothing of leaves of one row", {"path_smooth": 1.0, "min_data_in_leaf": 1}),
    Refusal(
        "two weights of the positive class", {"objective": "binary", "is_unbalance": True, "scale_pos_weight": 2.0}
    ),
    Refusal("a forest of equal trees", {"boosting": "rf"}),
    Refusal(
        "a forest with initial scores",
        {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
        {"init_score": np.zeros(60)},
    ),
    Refusal("GOSS with bagging", {"data_sample_strategy": "goss", "bagging_fraction": 0.5, "bagging_freq": 1}),
    Refusal("GOSS with rates above 1", {"data_sample_strategy": "goss", "top_rate": 0.8, "other_rate": 0.4}),
    Refusal("bagging by class without classes", {"pos_bagging_fraction": 0.5, "bagging_freq": 1}),
    Refusal("alpha where nothing looks at it", {"alpha": 0.5}),
    Refusal(
        "categorical features with monotone constraints on them",
        {"monotone_constraints": [0, 0, 1, 0]},
        {"categorical_features": [2]},
    ),
    Refusal(
        "forced bounds where every distinct value is one", {"tree_method": "exact", "forcedbins_filename": [[0, [0.5]]]}
    ),
    Refusal(
        "forced splits where bounds are others in every tree",
        {"tree_method": "approx", "forcedsplits_filename": {"feature": 0, "threshold": 0.5}},
    ),
    Refusal(
        "forced splits of categorical features",
        {"forcedsplits_filename": {"feature": 2, "threshold": 0.5}},
        {"categorical_features": [2]},
    ),
    Refusal(
        "trees that all outputs share, with contexts of nodes",
        {"objective": "quantile", "alpha": [0.1, 0.9], "multi_strategy": "multi_output_tree", "extra_trees": True},
    ),
    Refusal(
        "trees that all outputs share, with constraints",
        {"objective": "quantile", "alpha": [0.1, 0.9], "multi_strategy": "multi_output_tree"}
        | {"interaction_constraints": [[0, 1], [2, 3]]},
    ),
    Refusal(
        "trees that all outputs share, of every distinct value",
        {"objective": "quantile", "alpha": [0.1, 0.9], "multi_strategy": "multi_output_tree", "tree_method": "exact"},
    ),
    Refusal(
        "trees that all outputs share, of categorical features",
        {"objective": "quantile", "alpha": [0.1, 0.9], "multi_strategy": "multi_output_tree"},
        {"categorical_features": [2], "target_encoding_levels": -1},
    ),
    Refusal("linear leaves of percentile objectives", {"linear_tree": True, "objective": "quantile"}),
    Refusal("linear leaves with monotone constraints", {"linear_tree": True, "monotone_constraints": [1, 0, 0, 0]}),
    Refusal("linear leaves of trees that are dropped", {"linear_tree": True, "boosting": "dart"}),
    Refusal(
        "bounds by bin where every distinct value is a threshold",
        {
            "tree_method": "exact",
            "monotone_constraints": [1, 0, 0, 0],
            "monotone_constraints_method": "advanced",
        },
    ),
    Refusal("ranking without queries", {"objective": "lambdarank"}),
)
"""Combinations that raise, each tried by the tests on every device."""


def covered() -> dict[str, list[str]]:
    """Return the golden cases that set each parameter to another value than its default, and that use it."""
    cases: dict[str, list[str]] = {row.name: [] for row in PARAMETERS if row.in_model}
    for name, case in CASES.items():
        for parameter in Params.from_dict({**case.params, **case.callables}).model_dict():
            cases[parameter].append(name)
    return cases


def covered_data() -> dict[str, list[str]]:
    """Return the golden cases that have each kind of data."""
    return {kind: [name for name, case in CASES.items() if has(case)] for kind, has in DATA_KINDS.items()}


def _row(shown: str, cases: list[str]) -> str:
    cell = "identical" if cases else "not covered"
    more = f", and {len(cases) - MOST_CASES} more" if len(cases) > MOST_CASES else ""
    named = "; ".join(cases[:MOST_CASES]) + more
    return "| " + " | ".join([shown, *([cell] * len(DEVICES)), named]) + " |"


def to_markdown() -> str:
    """Return the text of docs/capabilities.md."""
    head = ["| | " + " | ".join(DEVICES) + " | golden cases |", "|---" * (len(DEVICES) + 2) + "|"]
    lines = [
        "# Capabilities",
        "",
        "<!-- Written by `make docs` from src/hornbeam/testing/capabilities.py; change it there. -->",
        "",
        "What each device can do. *identical*: the golden cases named in the row, which set the parameter to",
        "another value than its default, give the same model, bit for bit, on this device as on `reference`. Their",
        "fingerprints are in `src/hornbeam/testing/golden.json`. The tests reproduce them on every device that the",
        "machine offers, and fail if a parameter that can change a model has no case, or changes nothing in its cases.",
        "A machine without a GPU cannot test the column `cuda`; on one that has it run",
        "`python -m hornbeam.testing.verify --device cuda`.",
        "",
        "Parameters that are not listed change no tree by themselves: they say where and how long to train, what is",
        "shown, or how the data are read.",
        "",
    ]
    cases = covered()
    for group in GROUPS:
        rows = [row for row in PARAMETERS if row.group == group and row.in_model]
        if rows:
            lines += [f"## {group}", "", *head]
            lines += [_row(f"`{row.name}`", cases[row.name]) for row in rows] + [""]
    lines += ["## Data", "", *head, *(_row(kind, names) for kind, names in covered_data().items()), ""]
    lines += [
        "## On several workers",
        "",
        "Golden cases have the same fingerprint on 1, 2, 3 and 7 workers as in one process, with uneven and empty",
        "parts (`tests/distributed/test_fingerprints.py`), and on 1, 2 and 3 workers whose trees grow in the memory of",
        "GPUs (`tests/distributed/test_device_workers.py`): [several workers](distributed.md). Not that of one",
        "process: `tree_learner='voting'`, an approximation. Refused before training: `tree_method='exact'` and",
        "`'approx'`.",
        "",
        "## From a stream",
        "",
        "Every golden case but those of linear leaves has the same fingerprint from batches of 1,000 rows on",
        "`reference`, with the bins in a mapped file (`tests/dataset/test_streams.py`): [beyond memory](streams.md).",
        "Refused when the data are read: sparse batches, and batches on a device. Refused before training:",
        "`linear_tree=True`, which needs the numbers of all rows.",
        "",
    ]
    lines += ["## Refused on every device", "", "| | parameters | error |", "|---|---|---|"]
    for refusal in REFUSALS:
        error = refusal.error()
        given = ", ".join(f"`{name}={value!r}`" for name, value in refusal.params.items())
        lines += [f"| {refusal.what} | {given} | `{type(error).__name__}`: {error} |"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(to_markdown())

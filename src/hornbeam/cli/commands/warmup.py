"""`hornbeam warmup`: kernels compiled ahead of the first training."""

from __future__ import annotations

import time
from typing import Any

from hornbeam.cli import options

KINDS: tuple[dict[str, Any], ...] = (
    {"objective": "regression"},
    {"objective": "binary", "metric": "auc,binary_logloss"},
    {"objective": "multiclass", "num_class": 3},
)
"""Trainings whose kernels most others use."""

EXAMPLES = (
    "hornbeam warmup",
    "hornbeam warmup --device cuda",
)
"""Shown at the end of the help."""


def warmup(
    device: options.Device = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compile the kernels of common trainings, which is done once on a machine.

    Later trainings start at once; put it into the build of a container image.
    """
    import hornbeam as hb
    from hornbeam.cli.printing import be_quiet, print_facts, print_json

    be_quiet(quiet)
    start = time.perf_counter()
    compile_ahead = vars(hb).get("warmup")
    if compile_ahead is not None:
        compile_ahead(**({} if device is None else {"device": device}))
    else:
        train_small_models(device or "cpu")
    facts = {"device": device or "cpu", "seconds": round(time.perf_counter() - start, 3)}
    (print_json if json else print_facts)(facts)


def train_small_models(device: str, kinds: tuple[dict[str, Any], ...] = KINDS) -> None:
    """Train, evaluate and predict once for each of some kinds of model, with numbers and with a category."""
    import numpy as np

    import hornbeam as hb

    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((2000, 4))
    mixed = np.column_stack([numbers, rng.integers(0, 9, 2000)])
    label = np.arange(2000) % 3
    for params in kinds:
        y = label if "num_class" in params else np.minimum(label, 1)
        for table, categorical in ((numbers, []), (mixed, [4])):
            train = hb.Dataset(table, label=y, categorical_features=categorical)
            valid = hb.Dataset(table[:500], label=y[:500], reference=train)
            own = {**params, "device": device, "verbosity": 0}
            hb.train(own, train, 2, {"valid": valid}).predict(table)

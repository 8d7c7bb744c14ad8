"""What test_mpi.py lets every process do: trainings, errors in all of them or in one, and commands.

    mpi_script.py FOLDER [WORDS OF A COMMAND AS JSON] ...

The commands run one after the other, each in a folder of its own, FOLDER/0 being that of the first one. Each process
writes what it found into FOLDER/found-<rank>.json.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import numpy as np

import hornbeam as hb
import hornbeam.mpi as hbm

X = np.random.default_rng(0).normal(size=(600, 4))
Y = (X[:, 0] * X[:, 1] > 0.0).astype(float)
PARAMS = {"objective": "binary", "device": "reference", "verbosity": -1, "num_leaves": 7}


def own(values: np.ndarray) -> np.ndarray:
    """Return the rows of this process: uneven parts, the first one empty."""
    cuts = [len(values) * i**2 // hbm.size() ** 2 for i in range(hbm.size() + 1)]
    cuts[1] = 0 if hbm.size() > 1 else cuts[1]
    return values[cuts[hbm.rank()] : cuts[hbm.rank() + 1]]


def error_of(label: np.ndarray) -> str:
    try:
        hbm.train(PARAMS, hbm.Dataset(own(X), label=label), 2)
    except hb.HornbeamError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def run_command(words: list[str]) -> dict[str, object]:
    """Run a command of `hornbeam`; returns its exit code and what it prints."""
    from hornbeam.cli.app import app

    output, errors, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            app(words, prog_name="hornbeam")
        except SystemExit as ended:
            code = int(ended.code or 0)
    return {"code": code, "output": output.getvalue(), "errors": errors.getvalue()}


folder = Path(sys.argv[1])
train_set = hbm.Dataset(own(X[:500]), label=own(Y[:500]))
valid_set = hbm.Dataset(own(X[500:]), label=own(Y[500:]), reference=train_set)
several = hbm.train(PARAMS, train_set, 5, {"valid": valid_set})
whole = hb.Dataset(X[:500], label=Y[:500])
one = hb.train(PARAMS, whole, 5, {"valid": hb.Dataset(X[500:], label=Y[500:], reference=whole)})
found = {
    "who": [hbm.rank(), hbm.size()],
    "is_same": several.fingerprint() == one.fingerprint() and several.eval_history == one.eval_history,
    "everywhere": error_of(own(Y) + 0.5),
    "alone": error_of(own(Y)[: 3 if hbm.rank() == hbm.size() - 1 else None]),
}
again = hbm.train(PARAMS, hbm.Dataset(own(X[:500]), label=own(Y[:500])), 5)
found["is_same_again"] = again.fingerprint() == one.fingerprint()
found["commands"] = []
for number, command in enumerate(sys.argv[2:]):
    os.chdir(folder / str(number))
    found["commands"].append(run_command(json.loads(command)))
(folder / f"found-{hbm.rank()}.json").write_text(json.dumps(found))

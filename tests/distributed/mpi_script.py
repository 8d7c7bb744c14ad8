"""What test_mpi.py lets every process do: trainings, and errors in all of them or in one."""

from __future__ import annotations

import sys

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


train_set = hbm.Dataset(own(X[:500]), label=own(Y[:500]))
valid_set = hbm.Dataset(own(X[500:]), label=own(Y[500:]), reference=train_set)
several = hbm.train(PARAMS, train_set, 5, {"valid": valid_set})
whole = hb.Dataset(X[:500], label=Y[:500])
one = hb.train(PARAMS, whole, 5, {"valid": hb.Dataset(X[500:], label=Y[500:], reference=whole)})
is_same = several.fingerprint() == one.fingerprint() and several.eval_history == one.eval_history
everywhere = error_of(own(Y) + 0.5)
alone = error_of(own(Y)[: 3 if hbm.rank() == hbm.size() - 1 else None])
again = hbm.train(PARAMS, hbm.Dataset(own(X[:500]), label=own(Y[:500])), 5).fingerprint() == one.fingerprint()
sys.stdout.write(f"{hbm.rank()} of {hbm.size()}|same: {is_same}|{everywhere}|{alone}|again: {again}\n")

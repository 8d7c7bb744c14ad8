"""Contributions of features to raw scores, in one shape: the one place where plots and reports ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.device_arrays import host_array
from hornbeam.model.booster import Booster

FloatArray = NDArray[np.float64]


def contributions(booster: Booster, table: Any) -> FloatArray:
    """Return the contribution of every feature to every raw score, float64 (n_outputs, n_rows, n_features + 1).

    The last one is what the score is without features; together they add up to the raw score.
    """
    found = host_array(booster.predict(booster.checked_table(table), pred_contrib=True))
    n_columns = booster.n_features + 1
    by_output = found.reshape(len(found), booster.n_outputs, n_columns)
    return np.ascontiguousarray(by_output.transpose(1, 0, 2), np.float64)


def interactions(booster: Booster, table: Any) -> FloatArray:
    """Return what pairs of features add to raw scores, float64 (n_outputs, n_rows, n_features + 1, n_features + 1)."""
    found = host_array(booster.predict(booster.checked_table(table), pred_interactions=True))
    n_columns = booster.n_features + 1
    by_output = found.reshape(len(found), booster.n_outputs, n_columns, n_columns)
    return np.ascontiguousarray(by_output.transpose(1, 0, 2, 3), np.float64)

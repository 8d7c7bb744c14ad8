"""Gradients at scores in host memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.objectives.base import Objective

FloatArray = NDArray[np.float64]


def compute_gradients(
    objective: Objective, scores: FloatArray, label: FloatArray, weight: FloatArray | None, n_threads: int
) -> tuple[FloatArray, FloatArray]:
    """Return gradients and hessians, each float64 (n_outputs, n_rows), with compiled kernels.

    scores         float64 (n_outputs, n_rows)  in  C order
    label, weight  as `Objective.prepare` returns them
    """
    from hornbeam.backends.cpu.losses import gradients as cpu

    gradient, hessian = np.empty_like(scores), np.empty_like(scores)
    cpu.compute_gradients(objective, scores, label, weight, gradient, hessian, n_threads)
    return gradient, hessian

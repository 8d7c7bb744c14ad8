"""Labels in the domain of any objective, from one signal: tests that go through all objectives need no case of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.objectives import ALL_OBJECTIVES

N_CLASSES = 3


def params_for(objective: str) -> dict[str, object]:
    """Return the parameters without which an objective cannot be trained."""
    has_classes = ALL_OBJECTIVES[objective].labels == "classes"
    return {"objective": objective, **({"num_class": N_CLASSES} if has_classes else {})}


def labels_for(objective: str, signal: NDArray[np.float64], n_classes: int = N_CLASSES) -> NDArray[np.float64]:
    """Turn a signal of about -3 to 10 into labels that an objective accepts, by + - * / and floor alone.

    signal  float64 (n_rows,)  in

    Returns float64 (n_rows,), increasing with the signal except where labels must not be negative.
    """
    size = np.abs(signal)
    labels = {
        "real": signal,
        "positive": 0.0625 + size * size * 0.25,
        "nonnegative": np.floor(size * size * 0.25),
        "unit": size / (1.0 + size),
        "binary": (signal > 1.0).astype(np.float64),
        "classes": np.clip(np.floor(signal / 3.0) + 1.0, 0.0, n_classes - 1.0),
    }
    return labels[ALL_OBJECTIVES[objective].labels]

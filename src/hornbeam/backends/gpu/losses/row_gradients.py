"""Where kernels get the gradients of rows from: computed at each use, or stored; see kernels/losses/row_gradients.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64


@dataclass(frozen=True, slots=True)
class RowGradients:
    """Gradients and hessians of the rows of a tree.

    n_rows     of them
    arguments  what kernels take first
    options    fields of the kernels' Variant
    key        what launches that are recorded depend on
    """

    n_rows: int
    arguments: tuple[Any, ...]
    options: dict[str, int]
    key: tuple[Any, ...]

    @staticmethod
    def options_of(code: int, label_bytes: int) -> dict[str, int]:
        """Return the options of a formula; code 0: gradients are stored."""
        return {"objective": code, "value_bytes": label_bytes if code else 8}

    @classmethod
    def stored(cls, gradient: Buffer, hessian: Buffer, offset: int, n_rows: int) -> RowGradients:
        """Return those in two buffers, f64, from `offset` on."""
        unused = np.float64(0.0)
        arguments = (gradient, hessian, gradient, u32(0), unused, unused, u64(offset))
        return cls(n_rows, arguments, cls.options_of(0, 8), (n_rows, offset, id(gradient)))

    @classmethod
    def computed(
        cls, formula: tuple[int, float, float], scores: Buffer, label: Buffer, label_bytes: int, weight: Buffer,
        weighted: bool, n_rows: int,
    ) -> RowGradients:  # fmt: skip
        """Return those of a loss of one score and one label.

        formula      its number, and two constants: see Objective.formula
        label_bytes  of a label: 1 or 8
        """
        code, *constants = formula
        arguments = (scores, label, weight, u32(weighted), *map(np.float64, constants), u64(0))
        return cls(n_rows, arguments, cls.options_of(code, label_bytes), (n_rows, *formula, id(label)))

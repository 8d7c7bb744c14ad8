"""Gradients on a GPU: which kernel of kernels/gradients.cl or kernels/ranking.cl an objective has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.quantize import room_to_measure
from hornbeam.backends.gpu.ranking import DeviceRanking
from hornbeam.backends.gpu.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace import Workspace
from hornbeam.errors import DeviceError
from hornbeam.objectives import (
    BinaryObjective,
    MulticlassObjective,
    OneVsAllObjective,
    PointwiseObjective,
    RankingObjective,
    RegressionObjective,
)
from hornbeam.objectives.base import Objective


class DeviceGradients:
    """Computes `gradient` and `hessian`, f64 (n_outputs, n_rows), from `scores`, all buffers of the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._ranking: DeviceRanking | None = None
        self._measured = 0

    def compute(
        self,
        objective: Objective,
        n_outputs: int,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
    ) -> None:
        """Compute them for all outputs; those of a pointwise loss are measured too, for the next rounding."""
        formula, own = _formula(objective), self._workspace
        self._measured = 0
        if formula is None:
            self._compute_several(objective, n_outputs, label, weight)
            return
        code, *constants = formula
        kernel = own.runtime.kernel("pointwise_kernel", own.variant("gradients.cl", objective=code))
        self._measured = own.groups_over(own.n_rows, kernel)

        def launch() -> None:
            given, out = self._arguments(n_outputs, label, weight)
            own.launch_rows(kernel, *given, *map(np.float64, constants), *out, *room_to_measure(own))

        own.repeatable("gradients", (formula, id(label), id(weight)), launch)()

    def _arguments(
        self, n_outputs: int, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> tuple[tuple[Any, ...], tuple[Buffer, Buffer]]:
        """Return what the kernels of gradients.cl take first, and where they write to."""
        own = self._workspace
        size = 8 * n_outputs * own.n_rows
        given = (
            own.buffer("scores"),
            own.upload_once("label", label),
            own.upload_once("weight", weight),
            u32(0 if weight is None else weight.ndim),
            u32(own.n_rows),
        )
        return given, (own.room("gradient", size), own.room("hessian", size))

    def _compute_several(
        self, objective: Objective, n_outputs: int, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> None:
        """Compute the gradients of what is no loss of one score and one label."""
        own = self._workspace
        runtime, variant = own.runtime, own.variant("gradients.cl")
        given, out = self._arguments(n_outputs, label, weight)
        if isinstance(objective, MulticlassObjective):
            factor = np.float64(objective.hessian_factor)
            own.launch_rows(runtime.kernel("multiclass_kernel", variant), *given, u32(n_outputs), factor, *out)
        elif isinstance(objective, OneVsAllObjective):
            kernel = runtime.kernel("one_vs_all_kernel", variant)
            own.launch_rows(kernel, *given, u32(n_outputs), np.float64(objective.sigmoid), *out)
        elif isinstance(objective, RankingObjective):
            assert objective.queries is not None
            if self._ranking is None or self._ranking.queries is not objective.queries:
                self._ranking = DeviceRanking(own, objective.queries)
            self._ranking.compute(objective, given[0], given[2], given[3], *out)
        else:
            raise DeviceError(f"objective {objective.name!r} has no GPU kernel; train on device='cpu'")

    def take_measured(self) -> int:
        """Return how many groups have measured the gradients, see kernels/measure.h; the next time it is 0: nobody."""
        measured, self._measured = self._measured, 0
        return measured


def _formula(objective: Objective) -> tuple[int, float, float] | None:
    """Return which formula `pointwise_kernel` has for an objective, and its constants; None: it has none."""
    if isinstance(objective, PointwiseObjective):
        return (objective.code, *objective.constants)
    if isinstance(objective, RegressionObjective):
        return 12, 0.0, 0.0
    if isinstance(objective, BinaryObjective):
        return 13, objective.sigmoid, objective.sigmoid * objective.sigmoid
    return None

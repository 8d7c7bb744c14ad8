"""Gradients on a GPU: how each objective's are computed, and when they are stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.demand import label_bytes
from hornbeam.backends.gpu.losses.ranking import DeviceRanking
from hornbeam.backends.gpu.losses.row_gradients import RowGradients
from hornbeam.backends.gpu.losses.survival import DeviceRisks, compute_aft
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.errors import DeviceError
from hornbeam.data.columns import DeviceColumn
from hornbeam.objectives import (
    AftObjective,
    CoxObjective,
    MulticlassObjective,
    OneVsAllObjective,
    QuantileListObjective,
    RankingObjective,
    TargetsObjective,
)
from hornbeam.objectives.base import Objective

FloatArray = NDArray[np.float64]


class DeviceGradients:
    """The gradients at the scores, of all rows.

    Those of a loss of one score and one label are computed from `scores` by whoever needs them, as long as the scores
    stay; others, and those that somebody wants in memory, are in `gradient` and `hessian`, f64 (n_outputs, n_rows).
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._ranking: DeviceRanking | None = None
        self._risks: DeviceRisks | None = None
        self._computed: RowGradients | None = None  # None: they are stored
        self._labels: tuple[FloatArray, NDArray[np.uint8]] | None = None  # labels, and the same in bytes

    def compute(
        self,
        objective: Objective,
        n_outputs: int,
        label: FloatArray | DeviceColumn,
        weight: FloatArray | DeviceColumn | None,
    ) -> None:
        """Compute them for all outputs, or prepare that they are computed."""
        own, formula = self._workspace, objective.formula
        self._computed = None
        weights, weighted = own.upload_once("weight", weight), u32(0 if weight is None else weight.ndim)
        if formula is not None:
            n_bytes = label_bytes(objective)
            labels = own.upload_once("label", label if n_bytes == 8 else self._in_bytes(label))
            self._computed = RowGradients.computed(
                formula, own.buffer("scores"), labels, n_bytes, weights, weight is not None, own.n_rows
            )
            return
        runtime, variant, scores = own.runtime, own.variant("gradients.cl"), own.buffer("scores")
        given = (scores, own.upload_once("label", label), weights, weighted, u32(own.n_rows), u32(n_outputs))
        out = self._room(n_outputs)
        if isinstance(objective, MulticlassObjective):
            kernel = runtime.kernel("multiclass_kernel", variant)
            own.launch_rows(kernel, *given, np.float64(objective.hessian_factor), *out)
        elif isinstance(objective, OneVsAllObjective):
            kernel = runtime.kernel("one_vs_all_kernel", variant)
            own.launch_rows(kernel, *given, np.float64(objective.sigmoid), *out)
        elif isinstance(objective, RankingObjective):
            assert objective.queries is not None
            if self._ranking is None or self._ranking.queries is not objective.queries:
                self._ranking = DeviceRanking(own, objective.queries)
            self._ranking.compute(objective, scores, weights, weighted, *out)
        elif isinstance(objective, QuantileListObjective):
            kernel = runtime.kernel("quantiles_kernel", variant)
            own.launch_rows(kernel, *given, own.upload("quantiles", objective.table), *out)
        elif isinstance(objective, TargetsObjective):
            self._compute_targets(objective, given[0], given[1], weights, weighted, out)
        elif isinstance(objective, AftObjective):
            compute_aft(own, objective, own.upload_once("label", label), (weights, weighted), *out)
        elif isinstance(objective, CoxObjective):
            assert objective.risk_sets is not None
            if self._risks is None or self._risks.sets is not objective.risk_sets:
                self._risks = DeviceRisks(own, objective.risk_sets)
            self._risks.compute((weights, weighted), *out)
        else:
            raise DeviceError(f"objective {objective.name!r} has no GPU kernel; train on device='cpu'")

    def _compute_targets(
        self,
        objective: TargetsObjective,
        scores: Buffer,
        labels: Buffer,
        weights: Buffer,
        weighted: np.uint32,
        out: tuple[Buffer, Buffer],
    ) -> None:
        """Compute the gradients of each output from its column of the labels."""
        own, formulas = self._workspace, tuple(part.formula for part in objective.parts)

        def launches() -> None:
            for k, formula in enumerate(formulas):
                assert formula is not None
                code, *constants = formula
                variant = own.variant("gradients.cl", **RowGradients.options_of(code, 8))
                given = scores, labels, weights, weighted, *map(np.float64, constants), u64(k * own.n_rows)
                own.launch_rows(own.runtime.kernel("targets_kernel", variant), *given, u32(own.n_rows), *out)

        own.repeatable("gradients of targets", (formulas, int(weighted)), launches)()

    def _in_bytes(self, label: FloatArray | DeviceColumn) -> NDArray[np.uint8] | DeviceColumn:
        """Return labels 0 and 1 in bytes, made once."""
        if isinstance(label, DeviceColumn):
            return label.in_bytes
        if self._labels is None or self._labels[0] is not label:
            self._labels = label, label.astype(np.uint8)
        return self._labels[1]

    def _room(self, n_outputs: int) -> tuple[Buffer, Buffer]:
        own, size = self._workspace, 8 * n_outputs * self._workspace.n_rows
        return own.room("gradient", size), own.room("hessian", size)

    def set(self, gradient: FloatArray, hessian: FloatArray) -> None:
        """Take gradients from elsewhere, each float64 (n_outputs, n_rows)."""
        self._computed = None
        self._workspace.upload("gradient", np.array(gradient, np.float64, order="C"))
        self._workspace.upload("hessian", np.array(hessian, np.float64, order="C"))

    def make_room(self, n_outputs: int) -> tuple[Buffer, Buffer]:
        """Return the buffers of gradients and hessians, for somebody who writes them, f64 (n_outputs, n_rows)."""
        self._computed = None
        return self._room(n_outputs)

    def store(self) -> None:
        """See to it that they are in memory."""
        if self._computed is None:
            return
        own, computed = self._workspace, self._computed
        kernel = own.runtime.kernel("pointwise_kernel", own.variant("gradients.cl", **computed.options))
        own.launch_rows(kernel, *computed.arguments, u32(own.n_rows), *self._room(1))
        self._computed = None

    def close(self) -> None:
        """Forget the buffers: memory is free when nobody knows it any more."""
        self._computed = self._ranking = self._risks = None

    @property
    def are_stored(self) -> bool:
        """Whether they are in memory, and not computed at each use."""
        return self._computed is None

    def of_rows(self, output: int) -> RowGradients:
        """Return the gradients of one output of all rows."""
        own = self._workspace
        if self._computed is not None:
            return self._computed
        return RowGradients.stored(own.buffer("gradient"), own.buffer("hessian"), output * own.n_rows, own.n_rows)

"""Gradients of times that may be censored on a GPU: see kernels/losses/survival.cl."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.running_sums import BLOCK
from hornbeam.objectives.aft import AftObjective
from hornbeam.objectives.cox import RiskSets


def compute_aft(
    workspace: Workspace, objective: AftObjective, bounds: Buffer, weight: tuple[Buffer, np.uint32], *out: Buffer
) -> None:
    """Compute gradients and hessians of survival:aft at the engine's scores.

    bounds  f64 (2, n_rows)
    weight  the buffer, and whether it is read
    """
    number, inverse = objective.constants
    kernel = workspace.runtime.kernel("aft_kernel", workspace.variant("survival.cl"))
    scores, n_rows = workspace.buffer("scores"), u32(workspace.n_rows)
    workspace.launch_rows(kernel, scores, bounds, *weight, n_rows, u32(number), np.float64(inverse), *out)


class DeviceRisks:
    """The risk sets of a training on its device.

    sets  of the training set
    """

    def __init__(self, workspace: Workspace, sets: RiskSets) -> None:
        self.sets = sets
        self._workspace = workspace
        upload = workspace.upload
        self._order, self._event = upload("order of times", sets.order), upload("events", sets.event)
        self._sharing, self._following = upload("equal times", sets.sharing), upload("times before", sets.following)

    def compute(self, weight: tuple[Buffer, np.uint32], *out: Buffer) -> None:
        """Compute gradients and hessians of survival:cox at the engine's scores."""
        own, runtime, variant = self._workspace, self._workspace.runtime, self._workspace.variant("survival.cl")
        n, scores = own.n_rows, own.buffer("scores")
        kernels = {
            name: runtime.kernel(f"{name}_kernel", variant)
            for name in ("highest", "risk", "block_sums", "add_blocks", "share", "cox")
        }
        groups = own.groups_over(n, kernels["highest"])
        ordered = own.room("highest scores", 8 * groups)
        risk, sums, square = (own.room(name, 8 * n) for name in ("risks", "sums of risks", "sums of squares"))
        runtime.launch(kernels["highest"], groups, scores, u32(n), ordered)
        own.launch_rows(kernels["risk"], scores, *weight, u32(n), ordered, u32(groups), self._order, risk)
        own.launch_rows(kernels["risk"], scores, *weight, u32(n), ordered, u32(groups), self._order, sums)
        self._run(sums, n)
        share = own.room("shares of risks", 8 * n)
        of_places = u32(n), self._order, self._sharing, self._event
        own.launch_rows(kernels["share"], sums, *weight, *of_places, share, square)
        self._run(share, n)
        self._run(square, n)
        of_places = u32(n), self._order, self._following, self._event
        own.launch_rows(kernels["cox"], risk, share, square, *weight, *of_places, *out)

    def _run(self, values: Buffer, n: int, level: int = 0) -> None:
        """Turn values into running sums: core/running_sums.py."""
        own, variant = self._workspace, self._workspace.variant("survival.cl")
        n_blocks = -(-n // BLOCK)
        totals = own.room(f"totals of blocks {level}", 8 * n_blocks)
        own.launch_over(n_blocks, own.runtime.kernel("block_sums_kernel", variant), values, u32(n), totals)
        if n_blocks > 1:
            self._run(totals, n_blocks, level + 1)
            own.launch_over(n, own.runtime.kernel("add_blocks_kernel", variant), values, u32(n), totals)

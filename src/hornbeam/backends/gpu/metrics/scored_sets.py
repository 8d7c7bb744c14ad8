"""Data sets whose scores are on the device, and what metrics need of them; labels and weights go there once a set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.columns import DeviceSums, sums_on_device
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.data.columns import DeviceColumn
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import MeanLoss
from hornbeam.metrics.survival import BoundedLoss
from hornbeam.objectives.base import FloatArray
from hornbeam.trees.records import ForestMean

T = TypeVar("T")

REPORT = np.dtype([("largest", np.uint64), ("sum", np.int64), ("count", np.uint64), ("not_numbers", np.uint64)])
"""fixed_point.h's sum_report_t."""

NOT_FINITE = 0x7FF0000000000000
"""Bits of infinity; those of NaN are above them."""


@dataclass(slots=True)
class ScoredSet:
    """A data set whose scores are on the device.

    scores  float64 (n_outputs, n_rows)
    valid   number of the validation set, -1: the training set
    known   what depends on labels, weights and queries alone, by name; found once
    """

    dataset: Fields
    valid: int
    scores: Buffer
    n_outputs: int
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.dataset.n_rows)

    @property
    def label(self) -> FloatArray:
        """The labels."""
        assert self.dataset.label is not None
        return self.dataset.label

    def column(self, name: str, workspace: Workspace) -> FloatArray | DeviceColumn | None:
        """Return labels ("label") or weights ("weight") where the device finds them."""
        found: FloatArray | DeviceColumn | None = self.dataset.column(name, workspace.runtime.device_name)
        return found

    def sums(self, workspace: Workspace) -> DeviceSums | None:
        """Return sums of labels and weights that are on the device; None: they are not."""
        return self.once(
            "sums", lambda: sums_on_device(self.column("label", workspace), self.column("weight", workspace))
        )

    def once(self, name: str, find: Callable[[], T]) -> T:
        """Return what `find` returned when it was first called under this name."""
        if name not in self.known:
            self.known[name] = find()
        found: T = self.known[name]
        return found


def sum_of(report: np.void) -> float:
    """Return the sum that a device reports: what `fixed_point.exact_sum` returns; NaN if a value is not finite.

    report  REPORT ()  in
    """
    if int(report["largest"]) >= NOT_FINITE:
        return math.nan
    exponent = exact_exponent(float(report["largest"].view(np.float64)), int(report["count"]))
    return float(int(report["sum"])) * 2.0**-exponent


class DeviceSets:
    """The data sets of one training on its device.

    Parameters
    ----------
    workspace
        The engine's.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._sets: dict[int, ScoredSet] = {}

    def find(self, dataset: Fields, valid: int, scores: Buffer, n_outputs: int) -> ScoredSet:
        """Return a data set, known from before if it is the same."""
        held = self._sets.get(valid)
        if held is None or held.dataset is not dataset:
            held = self._sets[valid] = ScoredSet(dataset, valid, scores, n_outputs)
        held.scores, held.n_outputs = scores, n_outputs
        return held

    def close(self) -> None:
        """Forget them, and the buffers that they know."""
        self._sets = {}

    def label(self, held: ScoredSet) -> Buffer:
        """Return the labels on the device."""
        return self.column("label", held.valid, held.column("label", self.workspace))

    def targets(self, held: ScoredSet, metric: MeanLoss) -> Buffer:
        """Return what a loss compares scores with on the device: labels, or bounds of times."""
        if not isinstance(metric, BoundedLoss):
            return self.label(held)
        bounds = metric.targets(held.dataset)
        if self.workspace.uploaded("label") is bounds:
            return self.workspace.buffer("label")
        return self.workspace.upload_once(f"bounds of set {held.valid}", bounds)

    def weight(self, held: ScoredSet) -> tuple[Buffer, np.uint32]:
        """Return the weights on the device, and whether there are any."""
        given = held.column("weight", self.workspace)
        return self.column("weight", held.valid, given), u32(given is not None)

    def column(self, name: str, valid: int, array: NDArray[Any] | DeviceColumn | None) -> Buffer:
        """Upload an array once; labels and weights of the training set may be there already, for the gradients."""
        if array is not None and self.workspace.uploaded(name) is array:
            return self.workspace.buffer(name)
        return self.workspace.upload_once(f"{name} of set {valid}", array)

    def raw_scores(self, held: ScoredSet, forest: ForestMean | None) -> Buffer:
        """Return the raw scores: those of the engine, or the mean of the trees of a forest."""
        if forest is None:
            return held.scores
        n = held.n_rows * held.n_outputs
        out = self.workspace.room("forest scores", 8 * n)
        init = self.workspace.upload("forest start", np.ascontiguousarray(forest.init_scores, np.float64))
        n_trees = np.float64(forest.n_iterations)
        kernel = self.workspace.runtime.kernel("average_kernel", self.workspace.variant("metrics.cl"))
        self.workspace.launch_over(n, kernel, held.scores, init, n_trees, u32(held.n_rows), u32(held.n_outputs), out)
        return out

    def read_report(self, report: Buffer) -> np.void:
        """Bring a REPORT to the host."""
        found = np.empty(1, REPORT)
        self.workspace.runtime.download(report, found)
        seen: np.void = found[0]
        return seen

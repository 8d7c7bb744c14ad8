"""Leaf values from residuals that are spread over workers: twin of percentiles.py and logcosh_leaves.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.fixed_point import exact_exponent
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.selection import select
from hornbeam.objectives.logcosh_leaves import FARTHEST, LAST_STEP, MOST_STEPS, unit_weight
from hornbeam.objectives.percentiles import between, places

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class SharedLeaves:
    """The residuals of all leaves of a tree.

    residuals  float64 (n_rows,)  in  of this worker
    weight     float64 (n_rows,)  in  or None
    leaf       int64 (n_rows,)    in
    """

    def __init__(
        self, collective: Collective, residuals: FloatArray, weight: FloatArray | None, leaf: IntArray, n_leaves: int
    ) -> None:
        self._collective, self._residuals, self._leaf, self._n_leaves = collective, residuals, leaf, n_leaves
        largest = 0.0 if weight is None else float(weight.max(initial=0.0))
        seen = collective.gather_array(np.array([largest, len(leaf)]), "largest weight")
        self._n_rows = int(seen[:, 1].sum())
        self._weight: IntArray | None = None
        if weight is not None:
            exponent = exact_exponent(float(seen[:, 0].max()), self._n_rows)
            self._weight = np.rint(weight * 2.0**exponent).astype(np.int64)

    def _sums(self, values: IntArray | None, what: str) -> IntArray:
        """Return the sum of each leaf's values, None: their number, over all workers, int64 (n_leaves,)."""
        sums = np.zeros(self._n_leaves, np.int64)
        np.add.at(sums, self._leaf, 1 if values is None else values)
        self._collective.all_reduce(sums, what)
        return sums

    def percentiles(self, alpha: float) -> FloatArray:
        """Return percentiles.leaf_percentiles, float64 (n_leaves,)."""
        totals = self._sums(self._weight, "weight of leaves")
        if self._weight is None:
            low, high = np.array([places(total, alpha) for total in totals.tolist()], np.float64).T + 1.0
            ends = [self._select(low, False), self._select(high, False)]
        else:
            threshold = alpha * totals.astype(np.float64)
            ends = [self._select(threshold, False), self._select(threshold, True)]
        pairs = zip(*(end.tolist() for end in ends), totals.tolist(), strict=True)
        return np.array([between(low, high) if total > 0 else 0.0 for low, high, total in pairs])

    def _select(self, least: FloatArray, strictly: bool) -> FloatArray:
        return select(self._collective, self._residuals, self._weight, self._leaf, least, strictly)

    def minima(self) -> FloatArray:
        """Return logcosh_leaves.leaf_minima, float64 (n_leaves,)."""
        values, moving = self.percentiles(0.5), np.ones(self._n_leaves, np.bool_)
        weight = unit_weight(self._n_rows) if self._weight is None else self._weight.astype(np.float64)
        for _ in range(MOST_STEPS):
            d = np.minimum(np.maximum(values[self._leaf] - self._residuals, -FARTHEST), FARTHEST)
            t = d * numerics.tanh_ratio(d)
            slope = self._sums(np.rint(t * weight).astype(np.int64), "slopes")
            curvature = self._sums(np.rint((1.0 - t * t) * weight).astype(np.int64), "curvatures")
            moving &= (slope != 0) & (curvature != 0)
            if not moving.any():
                break
            ratio = (2.0 * np.abs(slope.astype(np.float64))) / np.where(curvature == 0, 1, curvature).astype(np.float64)
            step = 0.5 * numerics.log(1.0 + ratio)
            moved = np.where(slope > 0, values - step, values + step)
            values = np.where(moving, moved, values)
            moving &= step > LAST_STEP
        return values

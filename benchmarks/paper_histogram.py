"""The paper's histogram kernel as a baseline: lays data out for paper_histogram.cl, launches it, reads the sums.

Nothing of Hornbeam's training uses it; histogram_gpu.py times it beside our kernel, and
tests/backends/gpu/test_paper_kernel.py compares its sums with NumPy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.runtime import runtime as kernel_sources
from hornbeam.backends.gpu.runtime.runtime import Buffer, Runtime, Variant, u32

SOURCE = Path(__file__).with_suffix(".cl").name
"""The name by which the runtime finds the kernel."""

# The runtime knows the kernel files of the package alone: this one is entered among them.
kernel_sources._kernel_files()[SOURCE] = Path(__file__).with_suffix(".cl").resolve()

THREADS = 256
"""Threads of a group: m in the paper, "usually 256"."""

LOCAL_BUDGET = 12 << 10
"""Bytes of counters of a group (paper, A.1): one bank at 256 bins, four at 64."""

GROUPS_A_UNIT = 8
"""Groups a compute unit gets where nothing else is asked for: 8 x 256 threads fill one of NVIDIA's."""


@dataclass(frozen=True)  # no slots: with them a subclass of a dataclass with defaults cannot be made in Python 3.10
class PaperVariant(Variant):
    """One compilation of paper_histogram.cl; the flags are explained there."""

    features: int = 4
    rotated: bool = True
    num_banks: int = 1
    interleaved: bool = True
    last_bin: bool = True
    counted: bool = False
    doubled: bool = False

    @property
    def local_bytes(self) -> int:
        """Bytes of the counters of a group."""
        size = self.features * self.n_bins * (2 * (8 if self.doubled else 4) + (4 if self.counted else 0))
        return size * self.num_banks


def paper_variant(n_bins: int, **changes: Any) -> PaperVariant:
    """Return what the paper would run for a data set of this many bins; changes switch mechanisms off.

    With at most 16 bins a feature takes half a byte and a tuple has 8 (C.4). As many banks as 12 KB hold with three
    statistics a bin, whether rows are counted or not (A.1).
    """
    padded = next(size for size in (16, 64, 256) if n_bins <= size)
    features = changes.pop("features", 8 if padded == 16 else 4)
    banks = max(1, LOCAL_BUDGET // (features * 3 * 4 * padded))
    return PaperVariant(
        SOURCE, THREADS, n_bins=padded, features=features, num_banks=changes.pop("num_banks", banks), **changes
    )


def spread_of(n_distinct: int, n_bins: int) -> int:
    """Return m of the paper's Algorithm 3: into how many bins each of n_distinct bins is spread."""
    return 1 << int(math.log2(n_bins / n_distinct)) if 2 * n_distinct < n_bins else 1


def make_tuples(
    bins: NDArray[np.uint8], n_distinct: NDArray[np.integer[Any]], variant: PaperVariant, redistributed: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Lay bins out as the paper does: tuples of features, few bins spread over many.

    bins         uint8 (n_rows, n_features)   in
    n_distinct   int   (n_features,)          in   bins that a feature can have

    Returns tuples uint32 (n_tuples, n_rows) and how far each feature was spread, uint32 (n_tuples * FEATURES,).
    Features that fill the last tuple up get bins that meet no one, so that they cost as little as they can.
    """
    n_rows, n_features = bins.shape
    n_tuples = -(-n_features // variant.features)
    n_places = n_tuples * variant.features
    spread = np.ones(n_places, np.uint32)
    if redistributed:
        spread[:n_features] = [spread_of(int(n), variant.n_bins) for n in n_distinct]
    numbers = np.arange(n_rows, dtype=np.uint32)[:, None]
    codes = np.empty((n_rows, n_places), np.uint8)
    codes[:, :n_features] = bins
    codes[:, n_features:] = numbers % variant.n_bins
    if (spread > 1).any():
        codes *= spread.astype(np.uint8)  # a feature with one bin is spread over 256: 0 * 256 is 0 in 8 bits too
        codes += (numbers & (spread - 1)).astype(np.uint8)
    if variant.features == 8:
        codes = codes[:, 0::2] | codes[:, 1::2] << np.uint8(4)
    words = np.ascontiguousarray(codes).view("<u4")
    return np.ascontiguousarray(words.T, np.uint32), spread


class PaperHistogram:
    """One data set on a device, as the paper keeps it.

    Parameters
    ----------
    runtime
        The device.
    bins
        uint8 (n_rows, n_features).
    n_distinct
        int (n_features,): bins that a feature can have.
    variant
        What to compile; see paper_variant.
    redistributed
        Whether features of few bins are spread (A.3).
    """

    def __init__(
        self,
        runtime: Runtime,
        bins: NDArray[np.uint8],
        n_distinct: NDArray[np.integer[Any]],
        variant: PaperVariant,
        redistributed: bool = True,
    ) -> None:
        self.variant = variant
        self._runtime = runtime
        self._n_rows, self._n_features = bins.shape
        tuples, spread = make_tuples(bins, n_distinct, variant, redistributed)
        self._n_tuples = len(tuples)
        self._held: dict[str, tuple[Buffer, int]] = {}
        self._sum_kernel = runtime.kernel("paper_histogram_kernel", variant, variant.local_bytes)
        self._reduce_kernel = runtime.kernel("paper_reduce_kernel", variant)
        self._upload("tuples", tuples)
        self._upload("spread", spread)
        runtime.synchronize()  # before the arrays of this function go

    def _room(self, name: str, n_bytes: int) -> Buffer:
        held = self._held.get(name)
        if held is None or held[1] < n_bytes:
            if held is not None:
                self._runtime.free(self._held.pop(name)[0])
            self._held[name] = (self._runtime.allocate(n_bytes), n_bytes)
        return self._held[name][0]

    def _upload(self, name: str, array: NDArray[Any]) -> None:
        self._runtime.upload(self._room(name, array.nbytes), array)

    def set_node(
        self, rows: NDArray[np.uint32] | None, gradients: NDArray[np.float32], hessians: NDArray[np.float32]
    ) -> None:
        """Take the rows of a node, and their gradients and hessians in the same order; the paper copies them for each.

        rows                  uint32  (n_node_rows,)   ascending; None: all rows
        gradients, hessians   float32 (n_node_rows,)
        """
        self._is_root = rows is None
        self._n_node_rows = len(gradients)
        self._upload("rows", np.zeros(1, np.uint32) if rows is None else rows)
        self._upload("gradients", gradients)
        self._upload("hessians", hessians)
        self.set_groups(GROUPS_A_UNIT)
        self._runtime.synchronize()

    def set_groups(self, groups_a_unit: int) -> None:
        """Set among how many groups the rows of a tuple are shared."""
        wanted = -(-self._runtime.facts.compute_units * groups_a_unit // self._n_tuples)
        self.groups_a_tuple = max(1, min(wanted, -(-self._n_node_rows // THREADS)))
        v, sums = self.variant, self.variant.features * self.variant.n_bins
        groups, size = self._n_tuples * self.groups_a_tuple, 8 if v.doubled else 4
        self._room("partial", groups * 2 * sums * size)
        self._room("partial counts", groups * sums * 4 if v.counted else 8)
        self._room("out", self._n_tuples * 2 * sums * size)
        self._room("counts", self._n_tuples * sums * 4 if v.counted else 8)

    def launch(self) -> None:
        """Sum the rows of the node: two launches."""
        partial, partial_counts = self._held["partial"][0], self._held["partial counts"][0]
        self._runtime.launch(
            self._sum_kernel,
            self._n_tuples * self.groups_a_tuple,
            *(self._held[name][0] for name in ("tuples", "rows", "gradients", "hessians")),
            u32(self._n_node_rows),
            u32(self._n_rows),
            u32(self._is_root),
            u32(self.groups_a_tuple),
            partial,
            partial_counts,
        )
        n_sums = self._n_tuples * 2 * self.variant.features * self.variant.n_bins
        self._runtime.launch(
            self._reduce_kernel,
            -(-n_sums // THREADS),
            partial,
            partial_counts,
            self._held["spread"][0],
            u32(self._n_tuples),
            u32(self.groups_a_tuple),
            self._held["out"][0],
            self._held["counts"][0],
        )

    def read(self) -> NDArray[np.float64]:
        """Return the sums: float64 (n_features, N_BINS, 2), or 3 with counts, which are exact."""
        v = self.variant
        found = np.empty((self._n_tuples, 2, v.features, v.n_bins), np.float64 if v.doubled else np.float32)
        self._runtime.download(self._held["out"][0], found)
        sums = found.transpose(0, 2, 3, 1).reshape(-1, v.n_bins, 2).astype(np.float64)
        if v.counted:
            counts = np.empty((self._n_tuples * v.features, v.n_bins, 1), np.uint32)
            self._runtime.download(self._held["counts"][0], counts)
            sums = np.concatenate([sums, counts], axis=2)
        return sums[: self._n_features]

    def close(self) -> None:
        """Free everything."""
        while self._held:
            self._runtime.free(self._held.popitem()[1][0])

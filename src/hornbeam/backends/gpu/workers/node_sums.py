"""Histograms of one worker's rows on a GPU, for trees that grow on several: see kernels/workers/node_sums.cl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace.tree_kernels import SummedTree
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.trees.records import Segments


class NodeSums:
    """Sums rows by node and bin, and lays the sums together.

    offsets  int64 (n_used + 1,)  first bin of each feature among those of all
    """

    def __init__(
        self, workspace: Workspace, layout: Layout, histograms: DeviceHistograms, offsets: NDArray[np.int64]
    ) -> None:
        self._workspace, self._layout, self._histograms = workspace, layout, histograms
        self._offsets = offsets
        self._tables: dict[str, NDArray[np.uint32]] = {}

    @property
    def n_bins(self) -> int:
        """Bins of all features."""
        return int(self._offsets[-1])

    def read(self, tree: SummedTree, nodes: Segments, dtype: Any) -> NDArray[Any]:
        """Return the sums of every node's rows by bin, (n_nodes, n_bins, n_stats) of that type, in host memory."""
        n_nodes, whole = len(nodes.begin), [slice(0, self.n_bins)]
        out = np.empty((n_nodes, self.n_bins, tree.stats), dtype)
        for first in range(0, n_nodes, tree.n_slots):
            last = min(first + tree.n_slots, n_nodes)
            here = nodes.take(np.arange(first, last))
            self._workspace.runtime.download(self.lay(tree, here, dtype, whole), out[first:last])
        return out

    def lay(self, tree: SummedTree, nodes: Segments, dtype: Any, sections: Sequence[slice]) -> Buffer:
        """Return the same on the device, (n_sections, n_nodes, section_bins, n_stats); section_bins: of the largest.

        sections  of the bins, one behind the other
        """
        n_nodes, most = len(nodes.begin), largest(sections)
        sums = self._workspace.room("node sums", np.dtype(dtype).itemsize * len(sections) * n_nodes * most * tree.stats)
        for first in range(0, n_nodes, tree.n_slots):
            here = nodes.take(np.arange(first, min(first + tree.n_slots, n_nodes)))
            self._lay_some(tree, here, dtype, sections, (first, n_nodes), sums)
        return sums

    def _lay_some(
        self,
        tree: SummedTree,
        nodes: Segments,
        dtype: Any,
        sections: Sequence[slice],
        place: tuple[int, int],
        sums: Buffer,
    ) -> None:
        """Sum nodes for which there are slots; place: the first of them among all, and how many these are."""
        own, layout = self._workspace, self._layout
        has_rows = nodes.end > nodes.begin
        slots = np.where(has_rows, np.cumsum(has_rows) - 1, -1).astype(np.int32)
        self._histograms.sum_nodes(tree, nodes.take(np.flatnonzero(has_rows)), slots[has_rows])
        variant = own.variant("node_sums.cl", stats=tree.stats, value_bytes=np.dtype(dtype).itemsize)
        kernel = own.runtime.kernel("node_sums_kernel", variant)
        own.launch_over(
            len(slots) * self.n_bins, kernel, own.buffer("histograms"), u64(layout.slot_size(tree.stats)),
            u32(layout.n_bins * layout.lanes), own.upload("node slots", slots), u32(len(slots)), *map(u32, place),
            self._describe(tree.stats, sections), u32(self.n_bins), u32(largest(sections)), sums,
        )  # fmt: skip

    def _describe(self, stats: int, sections: Sequence[slice]) -> Buffer:
        """Return what the kernel knows of bins, uploaded once."""
        name = f"bins of {len(sections)} sections, {stats} sums"
        held = self._tables.get(name)
        if held is None:
            layout, sizes = self._layout, np.diff(self._offsets)
            feature = np.repeat(np.arange(len(sizes)), sizes)
            bin_ = np.arange(self.n_bins) - self._offsets[feature]
            tile, lane = feature // layout.lanes, feature % layout.lanes
            place = (tile * stats * layout.n_bins + bin_) * layout.lanes + lane
            starts = np.array([section.start for section in sections])
            lengths = [section.stop - section.start for section in sections]
            section = np.repeat(np.arange(len(sections)), lengths)
            held = np.stack([place, section, np.arange(self.n_bins) - starts[section]], axis=1).astype(np.uint32)
            self._tables[name] = held
        return self._workspace.upload_once(name, held)


def largest(sections: Sequence[slice]) -> int:
    """Return the bins of the largest section, at least 1."""
    return max([1, *(int(section.stop - section.start) for section in sections)])

"""Histograms of one worker's rows on a GPU, laid out as they travel: see kernels/workers/node_sums.cl."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.growth.histograms import DeviceHistograms
from hornbeam.backends.gpu.runtime.runtime import Buffer, Variant, u32, u64
from hornbeam.backends.gpu.workspace.tree_kernels import SummedTree
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.backends.histogram_messages import NARROW, NOTHING, WIDE, words_of
from hornbeam.core.fixed_point import Quantization
from hornbeam.trees.records import Segments

IntArray = NDArray[np.int64]

Reduction = Callable[[Buffer, Buffer, int, bool], None]
"""Adds up the buffers of all devices: (n_workers, n) of each -> (n,), n, whether the integers have 32 bits."""


def form_of(n_rows: IntArray, how: Quantization) -> IntArray:
    """Return the form of histograms of so many rows: narrow where a gradient has 32 bits, a hessian without a sign."""
    largest = 2**30 if how.wide else 2**15
    is_narrow = (n_rows < 2**31 // largest) & (n_rows * how.hessian_max < 2**32)
    return np.where(n_rows == 0, NOTHING, np.where(is_narrow, NARROW, WIDE))


def sending_variant(workspace: Workspace, stats: int) -> Variant:
    """Return the file that lays out histograms of so many sums."""
    return workspace.variant("node_sums.cl", stats=stats)


class NodeSums:
    """Sums rows by node and bin, and lays the sums together.

    offsets   int64 (n_used + 1,)  first bin of each feature among those of all
    sections  used features of each worker, (first, last + 1)
    """

    def __init__(
        self,
        workspace: Workspace,
        layout: Layout,
        histograms: DeviceHistograms,
        offsets: IntArray,
        sections: Sequence[tuple[int, int]],
    ) -> None:
        self._workspace, self._layout, self._histograms = workspace, layout, histograms
        self._offsets = offsets
        firsts, lasts = np.array(sections, np.int64).reshape(-1, 2).T
        self._first_bins, self._n_bins = offsets[firsts], offsets[lasts] - offsets[firsts]
        self._described: dict[int, NDArray[np.uint32]] = {}

    def messages(self, tree: SummedTree, nodes: Segments, how: Quantization) -> list[memoryview]:
        """Return the histograms of this worker's rows, a message to each worker, in host memory."""
        forms, n_nodes, at_once = form_of(nodes.end - nodes.begin, how), len(nodes.begin), tree.n_slots
        cuts = [np.arange(first, min(first + at_once, n_nodes)) for first in range(0, n_nodes, at_once)]
        parts = [self._some_messages(tree, nodes.take(some), forms[some]) for some in cuts]
        messages = parts[0]
        if len(parts) > 1:  # the forms of all nodes come first
            bodies = [[words[len(some) :] for words in part] for some, part in zip(cuts, parts, strict=True)]
            messages = [np.concatenate([forms, *of_worker]) for of_worker in zip(*bodies, strict=True)]
        return [words.data.cast("B") for words in messages]

    def _some_messages(self, tree: SummedTree, nodes: Segments, forms: IntArray) -> list[IntArray]:
        """Return the same of nodes for which there are slots, in words."""
        sizes = np.empty((len(self._n_bins), 1 + len(forms)), np.int64)
        sizes[:, 0], sizes[:, 1:] = len(forms), words_of(forms, self._n_bins[:, None], tree.stats)
        starts = np.cumsum(sizes).reshape(sizes.shape) - sizes
        here, words = np.flatnonzero(forms != NOTHING), np.empty(int(sizes.sum()), np.int64)
        if len(here):
            out = self._workspace.room("node sums", words.nbytes)
            self._lay(tree, nodes.take(here), forms[here], starts[:, 1:][:, here], out)
            self._workspace.runtime.download(out, words)
        messages = np.split(words, starts[1:, 0])
        for message in messages:
            message[: len(forms)] = forms
        return messages

    def reserve(self, n_nodes: int, most_stats: int, n_bytes: int) -> None:
        """Reserve up to so many bytes, or what one node needs, for `reduce` of so many nodes; alike on all workers.

        most_stats  sums of a bin, at most
        """
        each = 8 * most_stats * max(1, int(self._n_bins.max()))
        self._n_at_once = max(1, min(n_nodes, n_bytes // (each * len(self._n_bins))))
        reserved = self._workspace.reserved
        reserved["section sums"] = self._n_at_once * each
        reserved["node sums"] = len(self._n_bins) * reserved["section sums"]

    def make_room(self) -> None:
        """Take that memory: what can fail comes before other workers count on this one."""
        for name in ("node sums", "section sums"):
            self._workspace.room(name, self._workspace.reserved[name])

    def reduce(
        self,
        tree: SummedTree,
        slots: NDArray[np.int32],
        has_rows: NDArray[np.bool_],
        is_narrow: bool,
        rank: int,
        reduction: Reduction,
    ) -> None:
        """Replace the sums in slots by those of all workers' rows, in this worker's section.

        has_rows   bool (n_nodes,)  in  whether a slot has sums of this worker's rows
        is_narrow  whether 32 bits hold every sum
        """
        own, form = self._workspace, np.array(NARROW if is_narrow else WIDE)
        most = int(words_of(form, self._n_bins, tree.stats).max())
        sums, out = own.buffer("node sums"), own.buffer("section sums")
        for first in range(0, len(slots), self._n_at_once):
            some = slice(first, first + self._n_at_once)
            taken = np.where(has_rows[some], slots[some], -1)
            starts = most * np.arange(len(self._n_bins) * len(taken)).reshape(-1, len(taken))
            self._pack(tree, taken, np.full(len(taken), form), starts, sums)
            reduction(sums, out, len(taken) * most * (2 if is_narrow else 1), is_narrow)
            self._unpack(tree, slots[some], is_narrow, most, rank, out)

    def _lay(self, tree: SummedTree, nodes: Segments, forms: IntArray, starts: IntArray, out: Buffer) -> None:
        """Sum nodes, for each of which there is a slot, and write their sums from the words `starts` on."""
        slots = np.arange(len(forms), dtype=np.int32)
        self._histograms.sum_nodes(tree, nodes, slots)
        self._pack(tree, slots, forms, starts, out)

    def _pack(self, tree: SummedTree, slots: NDArray[np.int32], forms: IntArray, starts: IntArray, out: Buffer) -> None:
        """Write the sums in slots, -1: zeros, from the words `starts`, int64 (n_workers, n_nodes), on."""
        own, layout, n_all = self._workspace, self._layout, int(self._offsets[-1])
        table = np.column_stack([slots, forms == NARROW, starts.T]).astype(np.int64)
        own.launch_over(
            len(slots) * n_all, own.runtime.kernel("node_sums_kernel", sending_variant(own, tree.stats)),
            own.buffer("histograms"), u64(layout.slot_size(tree.stats)), u32(layout.n_bins * layout.lanes),
            own.upload("node table", table), u32(len(slots)), u32(len(starts)), self._describe(tree.stats), u32(n_all),
            out,
        )  # fmt: skip

    def _unpack(
        self, tree: SummedTree, slots: NDArray[np.int32], is_narrow: bool, stride: int, rank: int, sums: Buffer
    ) -> None:
        """Write the sums of a worker's section, `stride` words a node, into slots."""
        own, layout, n_bins = self._workspace, self._layout, int(self._n_bins[rank])
        if n_bins == 0:
            return
        own.launch_over(
            len(slots) * n_bins, own.runtime.kernel("section_sums_kernel", sending_variant(own, tree.stats)), sums,
            u64(stride), u32(is_narrow), own.upload("node table", slots.astype(np.int64)), u32(len(slots)),
            self._describe(tree.stats), u32(self._first_bins[rank]), u32(n_bins), own.buffer("histograms"),
            u64(layout.slot_size(tree.stats)), u32(layout.n_bins * layout.lanes),
        )  # fmt: skip

    def _describe(self, stats: int) -> Buffer:
        """Return what the kernel knows of bins, uploaded once."""
        if stats not in self._described:
            layout, sizes = self._layout, np.diff(self._offsets)
            feature, number = np.repeat(np.arange(len(sizes)), sizes), np.arange(int(self._offsets[-1]))
            bin_ = number - self._offsets[feature]
            tile, lane = feature // layout.lanes, feature % layout.lanes
            place = (tile * stats * layout.n_bins + bin_) * layout.lanes + lane
            section = np.repeat(np.arange(len(self._n_bins)), self._n_bins)
            table = np.column_stack([place, section, number - self._first_bins[section], self._n_bins[section]])
            self._described[stats] = np.ascontiguousarray(table.astype(np.uint32))
        return self._workspace.upload_once(f"bins of {stats} sums", self._described[stats])

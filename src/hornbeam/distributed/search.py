"""The best split of a node among the features of one worker, from sums over all rows.

Features are dealt to workers in sections of about as many bins. A worker has the histograms of its section alone, but
of the rows of all workers. What it finds goes to all others, and each of them takes the best: the highest gain, and of
equals the lowest feature, as a search of all features would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_messages import read_message
from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.core.lazy import lazy
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.collective import Buffer, Collective
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.trees.categorical_splits import best_level_set, set_record
from hornbeam.trees.output_splits import OutputsRoot, best_output_split
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, best_split, no_splits
from hornbeam.trees.tree import bits_to_codes, code_bits


def sections(binned: BinnedData, n_workers: int) -> list[tuple[int, int]]:
    """Return the used features of each worker, (first, last + 1), of about as many bins each."""
    ends = binned.offsets[1:]
    wanted = int(binned.offsets[-1]) * np.arange(n_workers + 1) / n_workers
    cuts = np.searchsorted(ends, wanted[1:-1], side="left")
    bounds = [0, *np.minimum(cuts, binned.n_used).tolist(), binned.n_used]
    return list(pairwise(bounds))


@dataclass(frozen=True, eq=False)
class NodeSums:
    """Nodes whose splits are looked for.

    segments           places of all workers' rows
    slots              int32 (n_nodes,)
    gradient, hessian  int64 (n_nodes,)   sums of all workers' rows
    """

    segments: Segments
    slots: NDArray[np.int32]
    gradient: NDArray[np.int64]
    hessian: NDArray[np.int64]


class Search(Protocol):
    """What searches a worker's section: host memory (SectionSearch), or the memory of its GPU (DeviceSearch).

    slot_bytes   of a histogram on this worker; 0: those of its section
    counts_rows  whether `find` counts the rows that go left
    n_numeric    features from here on are categorical
    set_words    words of a set
    """

    slot_bytes: int
    counts_rows: bool
    n_numeric: int
    set_words: int

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the used features that the trees to come may use; None: all."""

    def set_slots(self, n_slots: int) -> int:
        """Make room for the histograms of a tree, whose gradients are rounded; returns how many there is room for."""

    def sum_nodes(
        self,
        collective: Collective,
        rows: TreeRows,
        local: Segments,
        n_rows: NDArray[np.int64],
        n_sums: int,
        slots: NDArray[np.int32],
        parents: NDArray[np.int32] | None = None,
    ) -> None:
        """Sum the rows of nodes on all workers into slots, and subtract them from others.

        local    places of this worker's rows of each node
        n_rows   int64 (n_nodes,)  in   rows of all workers
        n_sums   sums of a bin, 2 or 3
        parents  int32 (n_nodes,)  in   slots to subtract from; -1: from none
        """

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """Turn the histograms of parents into those of their other children."""

    def find(
        self,
        nodes: NodeSums,
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> Candidates:
        """Find the best split of some nodes.

        first_set  number of the first node's set, for categorical splits
        """
        ...


class SectionSearch:
    """Searches the section of one worker, and keeps its histograms.

    binned       of this worker; its bins are not looked at
    first, last  used features of the section
    compiled     whether kernels are used, or the definition
    n_threads    threads of the kernels

    pairs, rows  int64 (n_slots, n_bins, 2) and (n_slots, n_bins): gradients, hessians and rows of all workers
    n_numeric    features from here on are categorical
    set_words    words of a set
    """

    slot_bytes = 0
    counts_rows = True

    def __init__(self, binned: BinnedData, first: int, last: int, compiled: bool, n_threads: int) -> None:
        self._binned, self._first, self._last = binned, first, last
        self._offsets = binned.offsets.astype(np.int64) - int(binned.offsets[first])
        self._n_bins = int(self._offsets[last])
        self._compiled = compiled and first < last
        self._n_threads = self._team(n_threads) if self._compiled else n_threads
        self.n_numeric, self.set_words = binned.n_numeric, binned.set_words
        self._features: NDArray[np.int32] | None = None
        self.pairs, self.rows = np.empty((0, self._n_bins, 2), np.int64), np.empty((0, self._n_bins), np.int64)

    @staticmethod
    def _team(n_threads: int) -> int:
        """Return how many threads may be a team."""
        from hornbeam.backends.cpu.host.team import largest_team
        from hornbeam.backends.cpu.tuning import in_use

        return largest_team(n_threads, in_use())

    @lazy
    def _slots(self) -> Any:
        """The compiled search."""
        from hornbeam.backends.cpu.workers.search import SectionSlots

        return SectionSlots(self._binned, self._first, self._last, self._n_threads)

    def bins_of(self, feature: int) -> slice:
        """Return where the bins of a feature of the section are."""
        return slice(int(self._offsets[feature]), int(self._offsets[feature + 1]))

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the used features that the trees to come may use; None: all."""
        self._features = features
        if self._compiled:
            self._slots.choose_features(features)

    def set_slots(self, n_slots: int) -> int:
        """Make room for the histograms of a tree."""
        if len(self.rows) < n_slots:
            self.pairs = np.empty((n_slots, self._n_bins, 2), np.int64)
            self.rows = np.empty((n_slots, self._n_bins), np.int64)
        return n_slots

    def sum_nodes(
        self,
        collective: Collective,
        rows: TreeRows,
        local: Segments,
        n_rows: NDArray[np.int64],
        n_sums: int,
        slots: NDArray[np.int32],
        parents: NDArray[np.int32] | None = None,
    ) -> None:
        """Let workers send each other their sums."""
        self.take(rows.exchange(collective, local, n_sums), n_sums, slots, parents)

    def take(
        self,
        messages: Sequence[Buffer],
        n_sums: int,
        slots: NDArray[np.int32],
        parents: NDArray[np.int32] | None = None,
    ) -> None:
        """Take the histograms of all workers into slots, and subtract them from others.

        messages  one of each worker, see backends/histogram_messages.py
        parents   int32 (n_nodes,)  in   slots to subtract from; -1: from none
        """
        received = [_words(message) for message in messages]
        if self._compiled:
            from hornbeam.backends.cpu.workers.received import add_messages

            add_messages(received, n_sums, slots, parents, self.pairs, self.rows, self._n_threads, self._slots.tuning)
            return
        sums = sum(read_message(words, len(slots), self._n_bins, n_sums) for words in received)
        assert isinstance(sums, np.ndarray)
        self.pairs[slots], self.rows[slots] = sums[..., :2], sums[..., -1]
        if parents is not None:
            self.subtract(parents[parents >= 0], slots[parents >= 0])

    def subtract(self, parents: NDArray[np.int32], children: NDArray[np.int32]) -> None:
        """Turn the histograms of parents into those of their other children."""
        if self._compiled:
            from hornbeam.backends.cpu.workers.received import subtract

            subtract(self.pairs, self.rows, parents, children, self._n_threads, self._slots.tuning)
            return
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            self.pairs[parent] -= self.pairs[child]
            self.rows[parent] -= self.rows[child]

    def find(
        self,
        nodes: NodeSums,
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> Candidates:
        """Find the best split of some nodes.

        first_set  number of the first node's set, for categorical splits
        """
        if self._compiled:
            return self._find_compiled(nodes, quantization, rules, context, first_set)
        found = Candidates.none(len(nodes.slots), self.set_words)
        self._find_defined(found, nodes.slots, quantization, rules, context, first_set)
        self._count_left(found, nodes.slots)
        return found

    def _find_compiled(
        self,
        nodes: NodeSums,
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> Candidates:
        """Search by kernels."""
        from hornbeam.backends.cpu.workers.nodes import count_left_kernel

        search, space, n_nodes = self._slots, self._slots.space, len(nodes.slots)
        search.quantization = quantization
        search.use(self.pairs, self.rows)
        splits = search.find_splits(nodes.segments, nodes.slots, nodes.gradient, nodes.hessian, rules, context)
        sets, n_left = np.zeros((n_nodes, self.set_words), np.uint32), np.empty(n_nodes, np.int64)
        if search.sets is not None:
            in_set = splits["feature"] >= space.n_numeric
            sets[in_set] = search.sets.sets[splits["bin"][in_set]]
            splits["bin"][in_set] = first_set + np.flatnonzero(in_set)
        count_left_kernel(splits, nodes.slots, sets, self.rows, space.offsets, space.n_numeric, n_left)
        if self._first > 0:
            splits["feature"][splits["feature"] >= 0] += self._first
        return Candidates(splits, n_left, sets)

    def _find_defined(
        self,
        found: Candidates,
        slots: NDArray[np.int32],
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> None:
        """Search by the definition."""
        binned, offsets, n_numeric = self._binned, self._offsets, self._binned.n_numeric
        chosen = np.arange(binned.n_used, dtype=np.int32) if self._features is None else self._features
        chosen = chosen[(chosen >= self._first) & (chosen < self._last)]
        for node, slot in enumerate(slots.tolist()):
            pairs, rows = self.pairs[slot], self.rows[slot]
            found.splits[node] = best_split(
                pairs, rows, offsets[: n_numeric + 1], binned.has_missing[:n_numeric], quantization, rules, context,
                node, chosen[chosen < n_numeric],
            )  # fmt: skip
            for feature in chosen[chosen >= n_numeric].tolist():
                if context is not None and not context.allows(node, feature):
                    continue
                own = slice(offsets[feature], offsets[feature + 1])
                best = best_level_set(pairs[own], rows[own], quantization, rules, context, node, feature)
                if best.gain > found.splits["gain"][node]:
                    found.splits[node] = set_record(best, feature, first_set + node)
                    found.sets[node] = code_bits(best.bins, binned.set_words)

    def find_outputs(
        self, slots: NDArray[np.int32], sums: NDArray[np.int64], root: OutputsRoot, rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Find the best split of some nodes for all outputs: see engine.OutputGrowth.find_output_splits."""
        binned, counter, how = self._binned, root.counter, root.quantizations
        section = np.arange(self._first, self._last, dtype=np.int32)
        is_chosen = np.ones(len(section), np.bool_) if self._features is None else np.isin(section, self._features)
        if self._compiled:
            from hornbeam.backends.cpu.growth.splits.shared import SharedBins, find_shared

            bins = SharedBins(
                self.pairs, np.ascontiguousarray(slots), self._offsets[self._first : self._last + 1],
                binned.has_missing[self._first : self._last], is_chosen,
            )  # fmt: skip
            splits, left = find_shared(bins, how, counter, rules, self._n_threads)
            splits["feature"][splits["feature"] >= 0] += self._first
            return splits, left
        splits, left = no_splits(len(slots)), np.zeros(sums.shape, np.int64)
        for node, own in enumerate(slots.tolist()):
            pairs, rows = self.pairs[own[: len(how)]], self.pairs[own[counter], :, 1]
            splits[node], left[node] = best_output_split(
                pairs, rows, self._offsets, binned.has_missing, how, rules, section[is_chosen]
            )
        return splits, left

    def _count_left(self, found: Candidates, slots: NDArray[np.int32]) -> None:
        """Count the rows that go left."""
        for node, (slot, split) in enumerate(zip(slots.tolist(), found.splits.tolist(), strict=True)):
            named = dict(zip(found.splits.dtype.names or (), split, strict=True))
            feature = int(named["feature"])
            if feature < 0:
                continue
            rows = self.rows[slot, self._offsets[feature] : self._offsets[feature + 1]]
            if feature >= self._binned.n_numeric:
                found.n_left[node] = rows[bits_to_codes(found.sets[node])].sum()
            else:
                found.n_left[node] = rows[: named["bin"] + 1].sum() + (rows[-1] if named["missing_left"] else 0)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best splits of some nodes.

    splits  SPLIT (n_nodes,)
    n_left  int64 (n_nodes,)              rows that go left
    sets    uint32 (n_nodes, set_words)   bins that go left, for categorical splits
    """

    splits: NDArray[np.void]
    n_left: NDArray[np.int64]
    sets: NDArray[np.uint32]

    @classmethod
    def none(cls, n_nodes: int, set_words: int) -> Candidates:
        """Return that no node has a split."""
        return cls(no_splits(n_nodes), np.zeros(n_nodes, np.int64), np.zeros((n_nodes, set_words), np.uint32))

    def to_bytes(self) -> bytes:
        """Return all of it, of a fixed size a node."""
        return self.splits.tobytes() + self.n_left.tobytes() + self.sets.tobytes()

    @classmethod
    def read(cls, message: Buffer, n_nodes: int, set_words: int) -> Candidates:
        """Return what `to_bytes` has written."""
        n_splits, n_counts, n_words = SPLIT.itemsize * n_nodes, 8 * n_nodes, n_nodes * set_words
        words = np.frombuffer(message, np.uint32, n_words, n_splits + n_counts) if n_words else np.empty(0, np.uint32)
        n_left = np.frombuffer(message, np.int64, n_nodes, n_splits)
        return cls(np.frombuffer(message, SPLIT, n_nodes), n_left, words.reshape(n_nodes, set_words))

    def put(self, nodes: int | NDArray[np.intp], others: Candidates) -> None:
        """Replace the splits of some nodes, or of as many as are given from one on."""
        where = slice(nodes, nodes + len(others.splits)) if isinstance(nodes, int) else nodes
        self.splits[where], self.n_left[where], self.sets[where] = others.splits, others.n_left, others.sets

    @classmethod
    def best_of(cls, messages: Sequence[Buffer], n_nodes: int, set_words: int) -> Candidates:
        """Return the best of what all workers have found: of equals the first, which has the lowest feature."""
        every = np.frombuffer(b"".join(messages), np.uint8).reshape(len(messages), -1)
        n_splits, n_counts = SPLIT.itemsize * n_nodes, 8 * n_nodes
        # views, which are of SPLIT itself: joined tables get a type of their own, which the library does not know
        splits: NDArray[np.void] = np.ascontiguousarray(every[:, :n_splits]).view(SPLIT)
        n_left = np.ascontiguousarray(every[:, n_splits : n_splits + n_counts]).view(np.int64)
        sets = np.ascontiguousarray(every[:, n_splits + n_counts :]).view(np.uint32)
        best = splits["gain"].argmax(axis=0), np.arange(n_nodes)
        return cls(splits[best], n_left[best], sets.reshape(len(messages), n_nodes, set_words)[best])


def best_of_outputs(
    messages: Sequence[Buffer], n_nodes: int, n_outputs: int
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the best of what all workers have found for all outputs, each the bytes of splits and of left sums."""
    every = np.frombuffer(b"".join(messages), np.uint8).reshape(len(messages), -1)
    parts = [np.ascontiguousarray(part) for part in np.split(every, [SPLIT.itemsize * n_nodes], axis=1)]
    splits: NDArray[np.void] = parts[0].view(SPLIT)
    best = np.argmax(splits["gain"], axis=0), np.arange(n_nodes)
    return splits[best], parts[1].view(np.int64).reshape(len(messages), n_nodes, n_outputs, 2)[best]


def _words(message: Buffer) -> NDArray[np.int64]:
    """Return a message as kernels take it."""
    words = np.frombuffer(message, np.int64)
    return words if words.flags.writeable and words.flags.aligned else words.copy()

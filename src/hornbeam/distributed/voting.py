"""The engine of one worker where workers vote on features, `tree_learner="voting"`: an approximation that sends less.

    histograms   every worker keeps those of its own rows, of all features; nothing is sent
    vote         for each node the `top_k` features whose best split has the highest gain among the worker's own rows
    find_splits  the 2 * top_k features of a node that have most votes, of equals the lowest; a worker adds up their
                 histograms for its share of the nodes, searches them, and tells the others

A worker sends histograms of 2 * top_k features a node, however many there are; the best feature may be none of them.
So the model depends on which rows each worker has. Where 2 * top_k features are all there are, it is that of one
process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.histogram_messages import read_message, write_message
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.distributed.engine import DistributedEngine
from hornbeam.distributed.search import Candidates, NodeSums, SectionSearch
from hornbeam.trees.categorical_splits import best_level_set
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, candidate_gains, leaf_score

JOINT_BYTES = 1 << 26
"""Histograms of nodes that are searched at once, with room for all features."""

CANDIDATES_AT_ONCE = 1 << 18
"""Bins of some nodes that a vote looks at together."""

SUMS = 3
"""Of a bin: gradients, hessians, rows."""


class VotingEngine(DistributedEngine):
    """See DistributedEngine; `top_k` features of a node have a worker's vote."""

    def __init__(self, *given: Any, top_k: int) -> None:
        super().__init__(*given)
        binned, n_bins = self._binned, max(1, int(self._binned.offsets[-1]))
        self._top_k, self._n_used = top_k, binned.n_used
        self._chosen = np.arange(self._n_used, dtype=np.int32)
        self._joint = SectionSearch(binned, 0, self._n_used, self._compiled, self._n_threads)
        self._most_nodes = max(1, JOINT_BYTES // (8 * SUMS * n_bins))
        self._filled: tuple[NDArray[np.intp], NDArray[np.int64]] = np.empty(0, np.intp), np.empty(0, np.int64)

    def _deal(self, binned: BinnedData) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """Let every worker have all features, of its own rows."""
        return [(0, binned.n_used)], (0, binned.n_used)

    def _make_search(self, section: tuple[int, int]) -> SectionSearch:
        """Keep histograms in host memory, where votes are counted."""
        self._votes = SectionSearch(self._binned, *section, *self._how)
        return self._votes

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features of the trees to come."""
        super().choose_features(features)
        self._chosen = np.arange(self._n_used, dtype=np.int32) if features is None else features

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum this worker's rows."""
        n_sums = self._quantization.n_sums
        messages = self._tree.messages(self._tree.local(nodes), n_sums, self._collective.room)
        self._votes.take(messages, n_sums, slots)

    def grow_ahead(self, *arguments: object, **named: object) -> None:
        """Leave that to the operations."""

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Vote, add up what was chosen, a share of the nodes on each worker, which searches them."""
        chosen = self._elect(slots, rules, context)
        received = self._exchange(slots, chosen)
        of_nodes, own = NodeSums(nodes, slots, gradient, hessian), self._share(self._collective.rank, len(slots))
        found = Candidates.none(len(own), self._binned.set_words)
        done = 0
        for first in range(0, len(own), self._most_nodes):
            some = own[first : first + self._most_nodes]
            done += self._fill_joint(some, chosen, received[done:])
            found.put(first, self._find_joint(some, of_nodes, rules, context))
        every = self._collective.all_gather(found.to_bytes(), "best splits")
        best = Candidates.none(len(slots), self._binned.set_words)
        for rank, message in enumerate(every):
            share = self._share(rank, len(slots))
            best.put(share, Candidates.read(message, len(share), self._binned.set_words))
        in_set = best.splits["feature"] >= self._binned.n_numeric
        best.splits["bin"][in_set] = len(self._sets) + np.flatnonzero(in_set)
        return self._take_best(nodes, best)

    def _share(self, rank: int, n_nodes: int) -> NDArray[np.intp]:
        """Return the nodes that a worker searches."""
        return np.arange(rank, n_nodes, self._collective.size)

    # --- votes --------------------------------------------------------------------------------------------------------

    def _elect(
        self, slots: NDArray[np.int32], rules: SplitRules, context: NodeContext | None
    ) -> list[NDArray[np.int32]]:
        """Return the features of each node whose histograms are added up, ascending."""
        own_rules = replace(  # a worker has a part of a leaf's rows
            rules,
            min_data_in_leaf=max(1, rules.min_data_in_leaf // self._collective.size),
            min_sum_hessian_in_leaf=rules.min_sum_hessian_in_leaf / self._collective.size,
        )
        of_features = self._chosen, self._binned.has_missing
        gains = own_gains(self._votes, slots, *of_features, self._quantization, own_rules)
        if context is not None:
            word, bit = self._chosen // 32, (self._chosen % 32).astype(np.uint32)
            gains[(context.mask[:, word] >> bit & np.uint32(1)) == 0] = -np.inf
        best = np.argsort(-gains, axis=1, kind="stable")[:, : self._top_k]
        is_vote = np.take_along_axis(gains, best, axis=1) > -np.inf
        ballots = self._collective.gather_array(np.where(is_vote, best, -1).astype(np.int32), "votes")
        _, node, _ = np.nonzero(ballots >= 0)
        votes = np.zeros(gains.shape, np.int64)
        np.add.at(votes, (node, ballots[ballots >= 0]), 1)
        most = np.argsort(-votes, axis=1, kind="stable")[:, : 2 * self._top_k]
        return [np.sort(self._chosen[places]) for places in most]

    # --- what was chosen ----------------------------------------------------------------------------------------------

    def _bins(self, features: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the bins of some features, one after the other."""
        offsets = self._binned.offsets.astype(np.int64)
        return np.concatenate([np.arange(offsets[f], offsets[f + 1]) for f in features] or [np.empty(0, np.int64)])

    def _exchange(self, slots: NDArray[np.int32], chosen: list[NDArray[np.int32]]) -> NDArray[np.int64]:
        """Send the histograms of what was chosen to those who search it; returns the sums of this worker's share.

        Returns int64 (n_bins, SUMS): node after node, in the bins of its features.
        """
        own, messages, sizes = self._votes, [], []
        for rank in range(self._collective.size):
            share = self._share(rank, len(slots))
            bins = [self._bins(chosen[node]) for node in share]
            slot = np.repeat(slots[share], [len(each) for each in bins])
            here = slot, np.concatenate([*bins, np.empty(0, np.int64)]).astype(np.int64)
            sums = np.concatenate([own.pairs[here], own.rows[here][:, None]], axis=1)
            messages.append(write_message(sums[None]).tobytes())
            sizes.append(len(sums))
        received = self._collective.exchange(messages, "histograms")
        n_bins = sizes[self._collective.rank]
        total = np.zeros((n_bins, SUMS), np.int64)
        for message in received:
            total += read_message(np.frombuffer(message, np.int64), 1, n_bins, SUMS)[0]
        return total

    def _fill_joint(self, some: NDArray[np.intp], chosen: list[NDArray[np.int32]], sums: NDArray[np.int64]) -> int:
        """Enter the sums of some nodes, the first of those given; returns how many bins these are.

        Features that were not chosen have no rows here: they split nothing, as a child has at least one.
        """
        joint, bins = self._joint, [self._bins(chosen[node]) for node in some]
        places = np.repeat(np.arange(len(some)), [len(each) for each in bins]), np.concatenate(bins)
        if len(joint.rows) < len(some):
            joint.set_slots(len(some))
            joint.pairs[:], joint.rows[:] = 0, 0
        else:
            joint.pairs[self._filled], joint.rows[self._filled] = 0, 0
        self._filled = places
        joint.pairs[places], joint.rows[places] = sums[: len(places[1]), :2], sums[: len(places[1]), 2]
        joint.choose_features(np.unique(np.concatenate([chosen[node] for node in some])))
        return len(places[1])

    def _find_joint(
        self, some: NDArray[np.intp], nodes: NodeSums, rules: SplitRules, context: NodeContext | None
    ) -> Candidates:
        """Find the best splits of some nodes, whose sums are entered."""
        slots = np.arange(len(some), dtype=np.int32)
        taken = NodeSums(nodes.segments.take(some), slots, nodes.gradient[some], nodes.hessian[some])
        return self._joint.find(taken, self._quantization, rules, None if context is None else context.take(some), 0)


def own_gains(
    search: SectionSearch,
    slots: NDArray[np.int32],
    features: NDArray[np.int32],
    has_missing: NDArray[np.bool_],
    quantization: Quantization,
    rules: SplitRules,
) -> NDArray[np.float64]:
    """Return what the best split of each node by each feature gains among one worker's rows, without a context.

    Returns float64 (n_nodes, n_features); -inf: there is no split.
    """
    gains = np.full((len(slots), len(features)), -np.inf)
    n_numeric = int(np.count_nonzero(features < search.n_numeric))  # categorical ones come last
    bins = [search.bins_of(feature) for feature in features.tolist()]
    most = max(1, len(slots) * max((own.stop - own.start for own in bins[:n_numeric]), default=1))
    step = max(1, CANDIDATES_AT_ONCE // most)
    for first in range(0, n_numeric, step):
        some = slice(first, min(first + step, n_numeric))
        gains[:, some] = _numeric_gains(search, slots, bins[some], has_missing[features[some]], quantization, rules)
    for place, own in enumerate(bins[n_numeric:], n_numeric):
        of_nodes = zip(search.pairs[slots, own], search.rows[slots, own], strict=True)
        gains[:, place] = [best_level_set(*of_node, quantization, rules).gain for of_node in of_nodes]
    return gains


def _numeric_gains(
    search: SectionSearch,
    slots: NDArray[np.int32],
    bins: list[slice],
    has_missing: NDArray[np.bool_],
    quantization: Quantization,
    rules: SplitRules,
) -> NDArray[np.float64]:
    """Return the gains by some numeric features at once: bins of each, and whether its last one is that of missing."""
    units = np.array([quantization.gradient_unit, quantization.hessian_unit])
    n_bins = np.array([own.stop - own.start for own in bins])
    last = np.cumsum(n_bins) - 1
    begin = last - n_bins + 1
    here = slots[:, None], np.concatenate([np.arange(own.start, own.stop) for own in bins])
    table = np.concatenate([search.pairs[here], search.rows[here][..., None]], axis=2)
    left = np.cumsum(table, axis=1)
    left -= np.repeat(left[:, begin] - table[:, begin], n_bins, axis=1)  # what features before have
    total = left[:, last]
    parent = np.repeat(leaf_score(total[..., 0] * units[0], total[..., 1] * units[1], rules), n_bins, axis=1)
    total, missing = (np.repeat(sums, n_bins, axis=1) for sums in (total, table[:, last]))
    gains = np.full(left.shape[:2], -np.inf)
    is_candidate = np.ones(left.shape[1], bool)
    is_candidate[last] = False
    for is_one, with_missing in ((is_candidate, False), (is_candidate & np.repeat(has_missing, n_bins), True)):
        own = left[:, is_one] + missing[:, is_one] if with_missing else left[:, is_one]
        others = total[:, is_one] - own
        found = candidate_gains(
            own[..., :2], others[..., :2], own[..., 2], others[..., 2], parent[:, is_one], units, rules
        )
        gains[:, is_one] = np.maximum(gains[:, is_one], found)
    return np.maximum.reduceat(gains, begin, axis=1)

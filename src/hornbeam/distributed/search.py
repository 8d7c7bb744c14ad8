"""The best split of a node among the features of one worker, from sums over all rows.

Features are dealt to workers in sections of about as many bins. A worker has the histograms of its section alone, but
of the rows of all workers. What it finds goes to all others, and each of them takes the best: the highest gain, and of
equals the lowest feature, as a search of all features would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import SPLIT
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.trees.categorical_splits import best_level_set, set_record
from hornbeam.trees.splitting import NodeContext, SplitRules, best_split, no_splits
from hornbeam.trees.tree import code_bits


def sections(binned: BinnedData, n_workers: int) -> list[tuple[int, int]]:
    """Return the used features of each worker, (first, last + 1), of about as many bins each."""
    ends = binned.offsets[1:]
    wanted = int(binned.offsets[-1]) * np.arange(n_workers + 1) / n_workers
    cuts = np.searchsorted(ends, wanted[1:-1], side="left")
    bounds = [0, *np.minimum(cuts, binned.n_used).tolist(), binned.n_used]
    return list(pairwise(bounds))


class SectionSearch:
    """Searches the section of one worker.

    binned       of this worker; its bins are not looked at
    first, last  used features of the section
    compiled     whether kernels may be used, where they know the rules
    n_threads    threads of the kernels
    """

    def __init__(self, binned: BinnedData, first: int, last: int, compiled: bool, n_threads: int) -> None:
        self._binned, self._first, self._last = binned, first, last
        self._compiled, self._n_threads = compiled, n_threads
        self._offsets = binned.offsets.astype(np.int64) - int(binned.offsets[first])

    def find(
        self,
        sums: NDArray[np.int64],
        features: NDArray[np.int32] | None,
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> Candidates:
        """Find the best split of some nodes.

        sums       int64 (n_nodes, n_bins of the section, 3)  in  gradients, hessians, rows
        features   int32 (n,)                                 in  used features that the tree may use; None: all
        first_set  number of the first node's set, for categorical splits
        """
        binned = self._binned
        chosen = np.arange(binned.n_used, dtype=np.int32) if features is None else features
        chosen = chosen[(chosen >= self._first) & (chosen < self._last)]
        numeric, categorical = chosen[chosen < binned.n_numeric], chosen[chosen >= binned.n_numeric]
        if self._compiled and context is None and not rules.scores_outputs:
            found = self._find_compiled(sums, numeric, quantization, rules)
        else:
            found = self._find_numeric(sums, numeric, quantization, rules, context)
        for node, feature in np.ndindex(len(sums), len(categorical)):
            position = int(categorical[feature])
            if context is None or context.allows(node, position):
                self._try_levels(found, sums[node], node, position, quantization, rules, context, first_set)
        return found

    def _find_numeric(
        self,
        sums: NDArray[np.int64],
        features: NDArray[np.int32],
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
    ) -> Candidates:
        """Search features of numbers by the definition."""
        found, offsets = Candidates.none(len(sums), self._binned.set_words), self._offsets
        n_numeric = self._binned.n_numeric
        for node, of_node in enumerate(sums):
            counts = np.ascontiguousarray(of_node[:, 2])
            split = best_split(
                np.ascontiguousarray(of_node[:, :2]), counts, offsets[: n_numeric + 1],
                self._binned.has_missing[:n_numeric], quantization, rules, context, node, features,
            )  # fmt: skip
            found.splits[node] = split
            feature = int(split["feature"])
            if feature >= 0:
                found.n_left[node] = counts[offsets[feature] : offsets[feature] + int(split["bin"]) + 1].sum()
                if split["missing_left"]:
                    found.n_left[node] += counts[offsets[feature + 1] - 1]
        return found

    def _find_compiled(
        self, sums: NDArray[np.int64], features: NDArray[np.int32], quantization: Quantization, rules: SplitRules
    ) -> Candidates:
        """Search features of numbers by a kernel."""
        from hornbeam.backends.cpu.host.threads import run_threads
        from hornbeam.backends.cpu.workers.search import best_splits_kernel

        found = Candidates.none(len(sums), self._binned.set_words)
        n_nodes, splits = len(sums), found.splits
        gain, place = np.empty(n_nodes), np.full((n_nodes, 2), -1, np.int32)
        side, left = np.zeros(n_nodes, np.bool_), np.zeros((n_nodes, 3), np.int64)
        limits = rules.lambda_l1, rules.lambda_l2, rules.min_gain_to_split, rules.min_sum_hessian_in_leaf
        units = np.array([quantization.gradient_unit, quantization.hessian_unit])
        numbers = np.array([*limits, float(rules.min_data_in_leaf)])
        n_threads = max(1, min(self._n_threads, n_nodes // 2))
        cuts = [n_nodes * t // n_threads for t in range(n_threads + 1)]

        def work(t: int) -> None:
            own = slice(cuts[t], cuts[t + 1])
            best_splits_kernel(
                sums[own], self._offsets, self._binned.has_missing, features, units, numbers, gain[own], place[own],
                side[own], left[own],
            )  # fmt: skip

        run_threads(work, n_threads)
        splits["gain"], splits["missing_left"] = gain, side
        splits["feature"], splits["bin"] = place.T
        splits["left_gradient"], splits["left_hessian"], found.n_left[:] = left.T
        return found

    def _try_levels(
        self,
        found: Candidates,
        sums: NDArray[np.int64],
        node: int,
        feature: int,
        quantization: Quantization,
        rules: SplitRules,
        context: NodeContext | None,
        first_set: int,
    ) -> None:
        """Enter the best split of a node by a categorical feature, if it is the best so far."""
        own = sums[self._offsets[feature] : self._offsets[feature + 1]]
        best = best_level_set(own[:, :2], own[:, 2], quantization, rules, context, node, feature)
        if best.gain > found.splits["gain"][node]:
            found.splits[node] = set_record(best, feature, first_set + node)
            found.sets[node] = code_bits(best.bins, self._binned.set_words)
            found.n_left[node] = own[best.bins, 2].sum()


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
    def best_of(cls, messages: Sequence[bytes], n_nodes: int, set_words: int) -> Candidates:
        """Return the best of what all workers have found: of equals the first, which has the lowest feature."""
        sizes = np.array([SPLIT.itemsize, 8, 4 * set_words]) * n_nodes
        cuts = [0, *np.cumsum(sizes).tolist()]

        def field(number: int, dtype: Any) -> list[NDArray[Any]]:
            own = slice(cuts[number], cuts[number + 1])
            return [np.frombuffer(message[own], dtype).reshape(n_nodes, -1) for message in messages]

        splits = np.stack(field(0, SPLIT))[..., 0]
        best = np.argmax(splits["gain"], axis=0), np.arange(n_nodes)
        words = np.stack([one.reshape(n_nodes, set_words) for one in field(2, np.uint32)])
        return cls(splits[best], np.stack(field(1, np.int64))[..., 0][best], words[best])

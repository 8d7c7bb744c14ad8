"""Trees of several workers by compiled kernels: a round is two messages, and little else that is not compiled.

    divide rows, write histograms  |  add up those of all workers, search a section  |  take the best of all sections

What a round does is what trees/grower.py does with an engine's operations (`DistributedEngine`), which is the
definition, and what trees with contexts are grown by. All workers keep the same table of nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.replay import replay
from hornbeam.backends.cpu.growth.splits.rules import RULES, Rules
from hornbeam.backends.cpu.workers.nodes import N_NODES, Round, TreeNodes, plan_kernel, release_kernel, take_kernel
from hornbeam.core.fixed_point import Quantization
from hornbeam.distributed.collective import Collective
from hornbeam.distributed.search import Candidates, NodeSums, Search
from hornbeam.distributed.tree_rows import TreeRows
from hornbeam.trees.frontier import SMALLEST_BATCH, GrowthLimits
from hornbeam.trees.records import Segments
from hornbeam.trees.splitting import SplitRules


class WorkersGrowth:
    """Grows one tree.

    table  all nodes so far
    """

    def __init__(
        self,
        collective: Collective,
        rows: TreeRows,
        search: Search,
        quantization: Quantization,
        rules: SplitRules,
        limits: GrowthLimits,
    ) -> None:
        self._collective, self._rows, self._search = collective, rows, search
        self._quantization, self._rules, self._limits = quantization, rules, limits
        self._numbers = np.zeros(1, RULES)
        self._numbers[0] = Rules.of(rules, quantization, False)

    def grow(self, root: NDArray[np.void], n_slots: int, set_words: int) -> None:
        """Expand nodes until the tree is full; root: NODE (1,)."""
        self.table = TreeNodes.of(root, self._rows.root.n_rows, n_slots, self._limits.n_leaves, set_words)
        plan = Round.of(np.zeros(1, np.int64))
        plan.sums[0], plan.slots[0], plan.parents[0], plan.searched[0] = 0, n_slots - 1, -1, 0
        plan.counts[:] = 1
        while True:
            if plan.counts[0]:
                self._evaluate(plan)
            batch = self._next_batch()
            if len(batch) == 0:
                return
            plan = self._divide(batch)

    @property
    def nodes(self) -> NDArray[np.void]:
        """All nodes so far, NODE (n,)."""
        return self.table.nodes[: self.table.size[N_NODES]]

    def _segments(self, numbers: NDArray[Any]) -> Segments:
        """Return the places of this worker's rows of some nodes."""
        places, depth = self.table.places[numbers], self.table.nodes["depth"][numbers]
        return Segments(places[:, 0].copy(), places[:, 1].copy(), depth)

    def _next_batch(self) -> NDArray[np.int64]:
        """Choose nodes to expand, as frontier.next_batch does."""
        nodes = self.nodes
        order, _ = replay(nodes, self._limits)
        batch = order[nodes["left"][order] < 0].astype(np.int64)
        release_kernel(self.table, order)
        return batch if self._limits.depthwise else batch[: max(SMALLEST_BATCH, (len(batch) + 1) // 2)]

    def _divide(self, batch: NDArray[np.int64]) -> Round:
        """Divide this worker's rows of some nodes, and enter their children."""
        self.table = table = self.table.with_room(2 * len(batch))
        plan = Round.of(batch)
        n_left = self._rows.divide(self._segments(batch), np.ascontiguousarray(table.nodes["split"][batch]), table.sets)
        if not self._search.counts_rows:
            table.n_left[batch] = self._collective.gather_array(n_left, "rows that go left").sum(axis=0)
        plan_kernel(table, plan, n_left, self._limits.max_depth, self._numbers)
        return plan

    def _evaluate(self, plan: Round) -> None:
        """Sum histograms and find splits, with all workers."""
        collective, search, nodes = self._collective, self._search, self.table.nodes
        n_built, n_searched = plan.counts.tolist()
        summed = plan.sums[:n_built]
        search.sum_nodes(
            collective, self._rows, self._segments(summed), nodes["end"][summed] - nodes["begin"][summed],
            self._quantization.n_sums, plan.slots[:n_built], plan.parents[:n_built],
        )  # fmt: skip
        searched = plan.searched[:n_searched]
        segments = Segments(*(nodes[name][searched] for name in ("begin", "end", "depth")))
        sums = (nodes[name][searched] for name in ("slot", "gradient", "hessian"))
        found = search.find(NodeSums(segments, *sums), self._quantization, self._rules, None, 0)
        best = Candidates.best_of(collective.all_gather(found.to_bytes(), "best splits"), n_searched, search.set_words)
        take_kernel(self.table, plan, best.splits, best.n_left, best.sets, search.n_numeric)

"""Ranking gradients on a GPU: which queries go to which variant of kernels/losses/ranking.cl, and what they need."""

from __future__ import annotations

import numpy as np

from hornbeam.backends.gpu.runtime.runtime import Buffer, u32, u64
from hornbeam.backends.gpu.workspace.tree_kernels import plain_variant
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.core.errors import DeviceError
from hornbeam.objectives.ranking import LambdarankObjective, QueryData, RankingObjective, XendcgObjective

SIZE_CLASSES = ((64, 64), (256, 128), (1024, 256))
"""Most documents of a query in local memory (24 bytes each), and threads of its group."""

LONG_THREADS = 1024
"""Threads of the group of a query that does not fit in local memory."""

SCRATCH_BYTES = 24
"""Bytes a document of such a query, in global memory."""

MAP_BYTES = 16
"""And those of rank_map besides; in local memory too."""

XENDCG_THREADS = 64

GROUPS_A_UNIT = 32
"""Groups for each compute unit; a group strides over the queries of its size."""


class DeviceRanking:
    """The queries of a training on its device.

    queries  bound to the training set
    """

    def __init__(self, workspace: Workspace, queries: QueryData) -> None:
        self.queries = queries
        self._workspace = workspace
        upload = workspace.upload
        self._boundaries = upload("query boundaries", queries.boundaries.astype(np.uint32))
        self._level = upload("query levels", queries.level)
        self._gains = upload("query gains", queries.gains)
        self._discounts = upload("query discounts", queries.discounts)
        facts = (queries.base, queries.slope, queries.ratio, queries.gradient_unit, queries.hessian_unit)
        self._facts = upload("query facts", np.stack(facts, axis=1))
        sizes = queries.sizes
        self._classes = []  # of queries: most documents, threads, their numbers, how many
        smallest = 0
        for documents, threads in (*SIZE_CLASSES, (0, LONG_THREADS)):
            largest = documents or int(sizes.max())
            found = np.flatnonzero((sizes > smallest) & (sizes <= largest)).astype(np.uint32)
            if len(found) > 0:
                self._classes.append((documents, threads, upload(f"queries of {documents}", found), len(found)))
            smallest = max(smallest, largest)

    def compute(
        self,
        objective: RankingObjective,
        scores: Buffer,
        weight: Buffer,
        weighted: np.uint32,
        gradient: Buffer,
        hessian: Buffer,
    ) -> None:
        """Compute gradients and hessians of all queries."""
        runtime, facts, room = self._workspace.runtime, self._workspace.facts, self._workspace.room
        most = facts.compute_units * GROUPS_A_UNIT
        if isinstance(objective, XendcgObjective):
            variant = plain_variant(facts, "ranking.cl", XENDCG_THREADS, documents=1)
            runtime.launch(
                runtime.kernel("xendcg_kernel", variant), min(most, self.queries.n_queries), self._boundaries,
                u32(self.queries.n_queries), scores, self._level, weight, weighted, u64(objective.key),
                room("query sums", 8 * len(self.queries.level)), gradient, hessian,
            )  # fmt: skip
            return
        if not isinstance(objective, LambdarankObjective):
            raise DeviceError(f"objective {objective.name!r} has no GPU kernel; train on device='cpu'")
        longest = int(self.queries.sizes.max())
        for documents, threads, numbers, count in self._classes:
            variant = plain_variant(facts, "ranking.cl", threads, documents=documents, metric=int(objective.by_map))
            groups = min(most if documents else facts.compute_units, count)
            n_bytes = SCRATCH_BYTES + (MAP_BYTES if objective.by_map else 0)
            scratch = room("query scratch", 8 if documents else n_bytes * longest * groups)
            runtime.launch(
                runtime.kernel("lambdarank_kernel", variant), groups, numbers, u32(count), self._boundaries, scores,
                self._level, weight, weighted, self._gains, self._discounts, self._facts,
                np.float64(objective.sigmoid), u32(objective.truncation_level), u32(objective.norm), scratch,
                u32(longest), gradient, hessian,
            )  # fmt: skip

"""ndcg, map and mrr on a GPU; see kernels/losses/query_metrics.cl."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.losses.ranking import GROUPS_A_UNIT, LONG_THREADS, SIZE_CLASSES
from hornbeam.backends.gpu.metrics.scored_sets import REPORT, DeviceSets, ScoredSet, sum_of
from hornbeam.backends.gpu.runtime.runtime import Buffer, u32
from hornbeam.core.fixed_point import exact_sum
from hornbeam.data.queries import discounts, ideal_dcg, query_of_row, query_weights
from hornbeam.metrics.ranked_lists import QueryMetric

CODES = {"ndcg": 0, "map": 1, "mrr": 2}
"""`metric` of kernels/losses/query_metrics.cl."""

SCRATCH_BYTES = 12
"""Bytes a document of a query that does not fit in local memory."""


@dataclass(frozen=True, slots=True)
class Lists:
    """The queries of a data set on the device.

    classes  of queries: most documents in local memory (0: none), threads, numbers, how many
    weight   float64 (n_queries,), or None
    total    of the weights, or the number of queries
    """

    boundaries: Buffer
    level: Buffer
    classes: list[tuple[int, int, Buffer, int]]
    weight: NDArray[np.float64] | None
    total: float
    n_queries: int
    longest: int


class DeviceLists:
    """Metrics of ranked lists, on one device."""

    def __init__(self, sets: DeviceSets) -> None:
        self._sets, self._workspace, self._runtime = sets, sets.workspace, sets.workspace.runtime

    def evaluate(self, metric: QueryMetric, held: ScoredSet, scores: Buffer) -> list[tuple[str, float]]:
        """Return name and value at every rank.

        scores  float64 (1, n_rows)
        """
        own, runtime, facts = self._workspace, self._runtime, self._workspace.facts
        lists = held.once("lists", lambda: self._upload(held))
        ranks = np.array([rank or lists.longest for rank in metric.at], np.uint32)
        which = f"{metric.name} of set {held.valid}"
        if held.known.get(which) is not metric:
            held.known[which] = metric
            own.upload(f"best {which}", self._best(metric, held, ranks))
            own.upload(f"ranks {which}", ranks)
            own.upload(f"gains {which}", metric.gains)
            own.upload(f"discounts {which}", discounts(min(lists.longest, int(ranks.max()))))
        values = own.room("query values", 8 * len(ranks) * lists.n_queries)
        most = facts.compute_units * GROUPS_A_UNIT
        for documents, threads, numbers, count in lists.classes:
            variant = own.variant("query_metrics.cl", threads=threads, documents=documents)
            groups = min(most if documents else facts.compute_units, count)
            scratch = own.room("list scratch", 8 if documents else SCRATCH_BYTES * lists.longest * groups)
            runtime.launch(
                runtime.kernel("query_values_kernel", variant), groups, u32(CODES[metric.name]), numbers, u32(count),
                u32(lists.n_queries), lists.boundaries, scores, lists.level, own.buffer(f"gains {which}"),
                own.buffer(f"discounts {which}"), own.buffer(f"best {which}"), own.buffer(f"ranks {which}"),
                u32(len(ranks)), scratch, u32(lists.longest), values,
            )  # fmt: skip
        adding = runtime.kernel("query_sums_kernel", own.variant("query_metrics.cl"))
        reports = own.room("query reports", REPORT.itemsize * len(ranks))
        weight = own.upload_once(f"query weights of set {held.valid}", lists.weight)
        weighted = u32(lists.weight is not None)
        runtime.launch(adding, len(ranks), values, weight, weighted, u32(lists.n_queries), reports)
        found = np.empty(len(ranks), REPORT)
        runtime.download(reports, found)
        return [(name, sum_of(report) / lists.total) for name, report in zip(metric.names, found, strict=True)]

    def _upload(self, held: ScoredSet) -> Lists:
        own, given = self._workspace, held.dataset.query_boundaries
        assert given is not None
        sizes, where = np.diff(given), f"of set {held.valid}"
        longest, weight = int(sizes.max()), query_weights(given, held.dataset.weight)
        classes, smallest = [], 0
        for documents, threads in (*SIZE_CLASSES, (0, LONG_THREADS)):
            largest = documents or longest
            found = np.flatnonzero((sizes > smallest) & (sizes <= largest)).astype(np.uint32)
            if len(found) > 0:
                classes.append((documents, threads, own.upload(f"lists of {documents} {where}", found), len(found)))
            smallest = max(smallest, largest)
        return Lists(
            boundaries=own.upload(f"boundaries {where}", given.astype(np.uint32)),
            level=own.upload(f"levels {where}", held.label.astype(np.int32)),
            classes=classes,
            weight=weight,
            total=float(len(sizes)) if weight is None else exact_sum(weight),
            n_queries=len(sizes),
            longest=longest,
        )

    @staticmethod
    def _best(metric: QueryMetric, held: ScoredSet, ranks: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return what the metric divides by at each rank, float64 (n_ranks, n_queries); 0: a query counts as 1."""
        boundaries = held.dataset.query_boundaries
        assert boundaries is not None
        if metric.name == "ndcg":
            return np.stack([ideal_dcg(held.label, boundaries, metric.gains, at) for at in ranks.tolist()])
        relevant = np.bincount(query_of_row(boundaries), held.label > 0.0, len(boundaries) - 1)
        sizes = np.diff(boundaries)
        return np.stack([np.minimum(relevant, np.minimum(at, sizes)) for at in ranks.tolist()]).astype(np.float64)

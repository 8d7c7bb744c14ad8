"""Metrics of ranked lists on the CPU: twins of `hornbeam.metrics.ranked_lists`, equal to them bit for bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.losses.ranking import rank_documents
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.data.queries import discounts
from hornbeam.objectives.base import FloatArray

IntArray = NDArray[np.int64]

FEW = 24
"""Up to this many first documents are found by insertion, more by sorting."""


def query_values(
    name: str,
    scores: FloatArray,
    label: FloatArray,
    boundaries: IntArray,
    at: tuple[int, ...],
    gains: FloatArray,
    n_threads: int,
) -> FloatArray:
    """Return the metric of every query at every rank, float64 (n_ranks, n_queries).

    name        ndcg, map or mrr
    scores      float64 (n_rows,)       in
    label       float64 (n_rows,)       in   whole numbers from 0 on that have a gain
    boundaries  int64 (n_queries + 1,)  in
    at          last ranks, ascending; 0: the whole list
    gains       float64 (n_gains,)      in   by label
    """
    sizes = np.diff(boundaries)
    longest = int(sizes.max())
    level = label.astype(np.int32)
    n_levels = int(level.max()) + 1
    ranks = np.array([rank or longest for rank in at], np.int64)
    table = discounts(min(longest, int(ranks.max())))
    out = np.empty((len(ranks), len(sizes)))

    def part(first: int, last: int) -> None:
        if name == "ndcg":
            ndcg_kernel(scores, level, boundaries, first, last, ranks, gains, table, n_levels, longest, out)
        elif name == "map":
            map_kernel(scores, level, boundaries, first, last, ranks, longest, out)
        else:
            mrr_kernel(scores, level, boundaries, first, last, ranks, out)

    run_ranges(part, len(sizes), n_threads, in_use().metric_queries_per_thread)
    return out


@kernel
def first_documents(scores: FloatArray, count: int, order: NDArray[np.int32], spare: NDArray[np.int32]) -> None:
    """Find the first `count` documents of a query in the order of `rank_documents`.

    scores  float64 (n,)   in
    order   int32 (>= n,)  out; the first min(count, n) entries
    spare   int32 (>= n,)  overwritten
    """
    if count > FEW:
        rank_documents(scores, order, spare)
        return
    held = 0
    for i in range(len(scores)):
        if held == count and not scores[i] > scores[order[held - 1]]:
            continue
        at = held if held < count else count - 1
        while at > 0 and scores[order[at - 1]] < scores[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
        held = held + 1 if held < count else held


@allocating_kernel
def ndcg_kernel(
    scores: FloatArray,
    level: NDArray[np.int32],
    boundaries: IntArray,
    first: int,
    last: int,
    ranks: IntArray,
    gains: FloatArray,
    discount: FloatArray,
    n_levels: int,
    longest: int,
    out: FloatArray,
) -> None:
    """NDCG of the queries [first, last) at every rank; arrays as in `query_values`.

    discount  float64 (most ranks,)            in
    out       float64 (n_ranks, n_queries)     out; the columns [first, last) are overwritten
    """
    order, spare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    counts = np.empty(n_levels, np.int64)
    most = ranks.max()
    for query in range(first, last):
        start, stop = boundaries[query], boundaries[query + 1]
        n = stop - start
        labels = level[start:stop]
        first_documents(scores[start:stop], most, order, spare)
        counts[:] = 0
        for i in range(n):
            counts[labels[i]] += 1
        label = n_levels - 1
        found, best, rank = 0.0, 0.0, 0
        for place in range(len(ranks)):
            while rank < min(ranks[place], n):
                while counts[label] == 0:
                    label -= 1
                counts[label] -= 1
                found = found + gains[labels[order[rank]]] * discount[rank]
                best = best + gains[label] * discount[rank]
                rank += 1
            out[place, query] = found / best if best > 0.0 else 1.0


@allocating_kernel
def map_kernel(
    scores: FloatArray,
    level: NDArray[np.int32],
    boundaries: IntArray,
    first: int,
    last: int,
    ranks: IntArray,
    longest: int,
    out: FloatArray,
) -> None:
    """MAP of the queries [first, last) at every rank; arrays as in `ndcg_kernel`."""
    order, spare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    most = ranks.max()
    for query in range(first, last):
        start, stop = boundaries[query], boundaries[query + 1]
        n = stop - start
        labels = level[start:stop]
        first_documents(scores[start:stop], most, order, spare)
        n_relevant = 0
        for i in range(n):
            n_relevant += 1 if labels[i] > 0 else 0
        n_found, total, rank = 0, 0.0, 0
        for place in range(len(ranks)):
            at = min(ranks[place], n)
            while rank < at:
                if labels[order[rank]] > 0:
                    n_found += 1
                    total = total + n_found / (rank + 1.0)
                rank += 1
            out[place, query] = total / min(n_relevant, at) if n_relevant > 0 else 1.0


@kernel
def mrr_kernel(
    scores: FloatArray,
    level: NDArray[np.int32],
    boundaries: IntArray,
    first: int,
    last: int,
    ranks: IntArray,
    out: FloatArray,
) -> None:
    """MRR of the queries [first, last) at every rank; arrays as in `ndcg_kernel`. Nothing has to be sorted."""
    for query in range(first, last):
        start, stop = boundaries[query], boundaries[query + 1]
        n = stop - start
        labels, own = level[start:stop], scores[start:stop]
        best = -1
        for i in range(n):
            if labels[i] > 0 and (best < 0 or own[i] > own[best]):
                best = i
        n_above = 0
        for i in range(n):
            n_above += 1 if own[i] > own[best] or (own[i] == own[best] and i < best) else 0
        for place in range(len(ranks)):
            value = 1.0 / (n_above + 1.0) if n_above < ranks[place] else 0.0
            out[place, query] = value if best >= 0 else 1.0

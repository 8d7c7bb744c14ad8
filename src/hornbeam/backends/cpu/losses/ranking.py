"""Gradients of the ranking objectives on the CPU: twins of `hornbeam.objectives.ranking`, equal to them bit for bit.

Queries are independent, so threads take runs of queries of about equal work. Sums over pairs are integers, so a kernel
may take the pairs of a query in any order; the one here keeps the documents sorted by (label, rank), every label from a
multiple of 4 on:

    rank        0  1  2  3  4  5  6            score falls
    label       1  0  2  0  1  0  0
    place       4  0  8  1  5  2  3            label 0: ranks 1 3 5 6 | label 1: ranks 0 4 - - | label 2: rank 2 - - -

The documents of lower labels are then one run of places, and those of higher labels another one: loops without a
branch, vectorised and without a remainder. What does not pair (a gap, a rank above the present one) is masked by 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts
from hornbeam.backends.cpu.losses.numerics import bits_from_float, exp_, log2_
from hornbeam.backends.cpu.losses.random_choices import uniform
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.objectives.base import FloatArray
from hornbeam.objectives.chosen_pairs import SCORE_DISTANCE
from hornbeam.objectives.ranking import (
    LOWEST_EXPONENT,
    SMALLEST_SHARE,
    STRIPES,
    LambdarankObjective,
    RankingObjective,
    XendcgObjective,
)

NO_WEIGHT = np.empty(0, np.float64)

ROUNDER = 1.5 * 2.0**52
"""Adding this to |x| < 2**51 rounds x to an integer (half to even), which then stands in the lower bits."""

ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))

RUN = 4
"""Places that a vectorised loop takes at once on ARM (two vectors of two); where it takes more, it has a remainder."""

SHORT = 64
"""Length of the runs that are sorted by counting, which vectorises and has no branch to foretell."""


class Documents(NamedTuple):
    """The documents of all queries.

    scores, weight  float64 (n_rows,)          weight: empty, there are none
    level           int32 (n_rows,)            see objectives.ranking.QueryData
    boundaries      int64 (n_queries + 1,)
    """

    scores: FloatArray
    level: NDArray[np.int32]
    weight: FloatArray
    boundaries: NDArray[np.int64]


class PairRules(NamedTuple):
    """How lambdarank weighs pairs: arrays of objectives.ranking.QueryData, and parameters.

    n_levels  number of different labels; longest: documents of the longest query
    """

    n_levels: int
    longest: int
    gains: FloatArray
    discounts: FloatArray
    base: FloatArray
    slope: FloatArray
    ratio: FloatArray
    gradient_unit: FloatArray
    hessian_unit: FloatArray
    sigmoid: float
    truncation_level: int
    norm: bool
    by_map: bool


def compute_ranking_gradients(
    objective: RankingObjective,
    scores: FloatArray,
    weight: FloatArray | None,
    gradient_out: FloatArray,
    hessian_out: FloatArray,
    n_threads: int,
) -> None:
    """Compute what `objective.gradients` returns, into the given arrays.

    scores        float64 (1, n_rows)  in   C order
    weight        float64 (n_rows,)    in   or None
    gradient_out  float64 (1, n_rows)  out, overwritten
    hessian_out   float64 (1, n_rows)  out, overwritten
    """
    data = objective.queries
    assert data is not None
    w = NO_WEIGHT if weight is None else weight
    sizes = data.sizes
    kernel: Callable[..., None]
    rules: Any
    if isinstance(objective, LambdarankObjective):
        work = sizes * np.minimum(sizes, objective.truncation_level)
        n_levels = int(data.level.max()) + 1
        longest = int(sizes.max())
        kernel = lambdarank_part
        rules = PairRules(
            n_levels, longest, data.gains, data.discounts, data.base, data.slope, data.ratio, data.gradient_unit,
            data.hessian_unit, objective.sigmoid, objective.truncation_level, objective.norm,
            objective.by_map,
        )  # fmt: skip
    elif isinstance(objective, XendcgObjective):
        work = sizes * 10
        kernel = xendcg_part
        rules = np.uint64(objective.key)
    else:
        raise TypeError(f"no kernel for {objective!r}")
    done = np.cumsum(work)
    n_parts = int(max(1, min(n_threads, done[-1] // in_use().ranking_pairs_per_thread)))
    bounds = np.searchsorted(done, done[-1] * np.arange(1, n_parts) // n_parts)
    ends = np.concatenate([[0], bounds + 1, [len(sizes)]])
    documents = Documents(scores[0], data.level, w, data.boundaries)
    run_parts(kernel, n_parts, ends, documents, rules, gradient_out[0], hessian_out[0])


@kernel
def rank_documents(scores: FloatArray, order: NDArray[np.int32], spare: NDArray[np.int32]) -> None:
    """Sort the documents of a query by falling score, equal ones in row order: merge sort of short sorted runs.

    scores  float64 (n,)    in
    order   int32 (>= n,)   out
    spare   int32 (>= n,)   overwritten
    """
    n = len(scores)
    for start in range(0, n, SHORT):
        run = scores[start : min(start + SHORT, n)]
        for i in range(len(run)):
            before, after = run[:i], run[i:]
            place = np.int64(start)
            for j in range(len(before)):
                place += np.int64(1) if before[j] >= run[i] else np.int64(0)
            for j in range(len(after)):
                place += np.int64(1) if after[j] > run[i] else np.int64(0)
            order[place] = start + i
    width = SHORT
    source, target = order, spare
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            left, right, out = start, middle, start
            while left < middle and right < stop:
                one, other = source[left], source[right]
                behind = scores[one] < scores[other]  # a number, not a branch: which side wins cannot be foreseen
                target[out] = other if behind else one
                right += behind
                left += not behind
                out += 1
            while left < middle:
                target[out] = source[left]
                left += 1
                out += 1
            while right < stop:
                target[out] = source[right]
                right += 1
                out += 1
        source, target = target, source
        width *= 2
    if width > SHORT:
        for i in range(n):
            order[i] = source[i]


@kernel
def add_pairs(
    one_is_high: bool,
    one: tuple[float, float, float, float],
    s: FloatArray,
    e: FloatArray,
    discount: FloatArray,
    gain: FloatArray,
    mask: FloatArray,
    constants: tuple[float, float, float, float, float],
    gradient: NDArray[np.int64],
    hessian: NDArray[np.int64],
) -> tuple[np.int64, np.int64]:
    """Pair one document with a run of others; returns the sums of lambdas and hessians.

    one                score, exponential, value of its rank as the first of a pair, and gain of the document
    s, e, discount, gain  float64 (n,)  in   of the others, with the value of the rank as the second
    mask               float64 (n,)     in   1, or 0 where the other does not pair
    constants          near, far, base, slope, ratio; the distance is near + far * (difference of the scores)
    gradient, hessian  int64 (n,)       in, out   of the others
    """
    own_s, own_e, own_discount, own_gain = one
    near, far, base, slope, ratio = constants
    sum_g, sum_h = np.int64(0), np.int64(0)
    n = len(s)
    if one_is_high:
        for k in range(n):
            a = near + far * (own_s - s[k])
            w = base + ((own_gain - gain[k]) * slope) * (own_discount - discount[k])
            r = mask[k] / ((own_e + e[k]) * a)
            g = (w * e[k]) * r
            h = (g * ratio) * ((own_e * a) * r)
            whole_g = bits_from_float(g + ROUNDER) - ROUNDER_BITS
            whole_h = bits_from_float(h + ROUNDER) - ROUNDER_BITS
            gradient[k] += whole_g
            hessian[k] += whole_h
            sum_g += whole_g
            sum_h += whole_h
    else:
        for k in range(n):
            a = near + far * (own_s - s[k])
            w = base + ((gain[k] - own_gain) * slope) * (own_discount - discount[k])
            r = mask[k] / ((own_e + e[k]) * a)
            g = (w * own_e) * r
            h = (g * ratio) * ((e[k] * a) * r)
            whole_g = bits_from_float(g + ROUNDER) - ROUNDER_BITS
            whole_h = bits_from_float(h + ROUNDER) - ROUNDER_BITS
            gradient[k] -= whole_g
            hessian[k] += whole_h
            sum_g += whole_g
            sum_h += whole_h
    return sum_g, sum_h


@kernel
def precision_values(level: NDArray[np.int32], order: NDArray[np.int32], above: FloatArray, below: FloatArray) -> None:
    """Twin of `MapObjective.rank_values`.

    level         int32 (n,)      in   by document
    order         int32 (>= n,)   in   documents by rank
    above, below  float64 (>= n,) out
    """
    count, total = 0.0, 0.0
    for rank in range(len(level)):
        x = 1.0 if level[order[rank]] > 0 else 0.0
        r = rank + 1.0
        before = total
        count = count + x
        total = total + x / r
        above[rank] = (count + (1.0 - x)) / r - total
        below[rank] = count / r - before


@allocating_kernel
def lambdarank_kernel(documents, first, last, rules, gradient, hessian):
    """Gradients of the queries [first, last): `LambdarankObjective.query_gradients`.

    documents, rules   see Documents and PairRules
    gradient, hessian  float64 (n_rows,)          out; the rows of these queries are overwritten
    """
    scores, level, weight, boundaries = documents.scores, documents.level, documents.weight, documents.boundaries
    n_levels, longest, sigmoid, norm = rules.n_levels, rules.longest, rules.sigmoid, rules.norm
    gains, discounts, base, slope, ratio = rules.gains, rules.discounts, rules.base, rules.slope, rules.ratio
    gradient_unit, hessian_unit, truncation_level = rules.gradient_unit, rules.hessian_unit, rules.truncation_level
    order = np.empty(longest, np.int32)
    place = np.empty(longest, np.int32)
    room = longest + RUN * n_levels
    s, e, d, gain, mask = np.empty(room), np.empty(room), np.empty(room), np.empty(room), np.empty(room)
    above, below = discounts, discounts  # `rank_values`
    if rules.by_map:
        above, below = np.empty(longest), np.empty(longest)
    sums_g, sums_h = np.empty(room, np.int64), np.empty(room, np.int64)
    begin = np.empty(n_levels + 1, np.int64)  # first place of a label
    fill = np.empty(n_levels, np.int64)
    for query in range(first, last):
        start = boundaries[query]
        n = boundaries[query + 1] - start
        own = scores[start : start + n]
        rank_documents(own, order, place)
        best, worst = own[order[0]], own[order[n - 1]]
        near, far = (SCORE_DISTANCE, 1.0) if norm and best != worst else (1.0, 0.0)
        constants = (near, far, base[query], slope[query], ratio[query])
        for label in range(n_levels):
            fill[label] = 0
        for i in range(n):
            fill[level[start + i]] += 1
        n_places = 0
        for label in range(n_levels):
            begin[label] = n_places
            n_places += -(-fill[label] // RUN) * RUN
            fill[label] = begin[label]
        begin[n_levels] = n_places
        if rules.by_map:
            precision_values(level[start : start + n], order, above, below)
        for at in range(n_places):
            s[at] = worst
            d[at] = 0.0
            gain[at] = 0.0
            mask[at] = 0.0
            sums_g[at] = 0
            sums_h[at] = 0
        for rank in range(n):
            label = level[start + order[rank]]
            at = fill[label]
            fill[label] = at + 1
            place[rank] = at
            s[at] = own[order[rank]]
            d[at] = below[rank]
            gain[at] = gains[label]
            mask[at] = 1.0
        for at in range(n_places):
            x = sigmoid * (s[at] - best)
            e[at] = exp_(LOWEST_EXPONENT if x < LOWEST_EXPONENT else x)
        total = 0.0
        for rank in range(min(truncation_level, n - 1)):
            at = place[rank]
            label = level[start + order[rank]]
            one = (s[at], e[at], above[rank], gain[at])
            mask[at] = 0.0
            s[at] = worst  # no distance of a masked one may be 0, for 0 / 0 is no number
            low, high = begin[label], begin[label + 1]
            row_sum = np.int64(0)
            if low > 0:
                sum_g, sum_h = add_pairs(
                    True, one, s[:low], e[:low], d[:low], gain[:low], mask[:low], constants, sums_g[:low], sums_h[:low]
                )
                sums_g[at] -= sum_g
                sums_h[at] += sum_h
                row_sum += sum_g
            if high < n_places:
                others = slice(high, n_places)
                sum_g, sum_h = add_pairs(
                    False, one, s[others], e[others], d[others], gain[others], mask[others], constants, sums_g[others],
                    sums_h[others],
                )  # fmt: skip
                sums_g[at] += sum_g
                sums_h[at] += sum_h
                row_sum += sum_g
            total = total + 2.0 * (np.float64(row_sum) * gradient_unit[query])
        factor = 1.0
        if norm and total > 0.0:
            factor = log2_(1.0 + total) / total
        for rank in range(n):
            row, at = start + order[rank], place[rank]
            g = (np.float64(sums_g[at]) * gradient_unit[query]) * factor
            h = (np.float64(sums_h[at]) * hessian_unit[query]) * factor
            if len(weight) > 0:
                g *= weight[row]
                h *= weight[row]
            gradient[row] = g
            hessian[row] = h


@kernel
def striped_sum_(values: FloatArray, sums: FloatArray) -> float:
    """Twin of `objectives.ranking.striped_sum`.

    values  float64 (n,)        in
    sums    float64 (STRIPES,)  overwritten
    """
    for k in range(STRIPES):
        sums[k] = 0.0
    n = len(values)
    for first in range(0, n, STRIPES):
        row = values[first : min(first + STRIPES, n)]
        for k in range(len(row)):
            sums[k] += row[k]
    total = 0.0
    for k in range(STRIPES):
        total = total + sums[k]
    return total


@allocating_kernel
def xendcg_kernel(documents, first, last, key, gradient, hessian):
    """Gradients of the queries [first, last): `XendcgObjective.query_gradients`; `hessian` holds rho meanwhile.

    documents          see Documents
    gradient, hessian  float64 (n_rows,)          out; the rows of these queries are overwritten
    """
    scores, level, weight, boundaries = documents.scores, documents.level, documents.weight, documents.boundaries
    longest = 0
    for query in range(first, last):
        longest = max(longest, boundaries[query + 1] - boundaries[query])
    room = np.empty(longest)
    stripes = np.empty(STRIPES)
    for query in range(first, last):
        start, stop = boundaries[query], boundaries[query + 1]
        s, g, rho, labels, p = scores[start:stop], gradient[start:stop], hessian[start:stop], level[start:stop], room
        p = room[: stop - start]
        n = len(s)
        if n == 1:
            g[0] = 0.0
            rho[0] = 0.0
            continue
        largest = s[0]
        for i in range(n):
            largest = s[i] if s[i] > largest else largest
        for i in range(n):
            rho[i] = exp_(s[i] - largest)
        total = striped_sum_(rho, stripes)
        for i in range(n):
            rho[i] = rho[i] / total
            p[i] = np.float64(np.int64(1) << np.int64(labels[i])) - uniform(key, np.uint64(start + i))
        v = 1.0 / max(SMALLEST_SHARE, striped_sum_(p, stripes))
        for i in range(n):
            t = rho[i] - p[i] * v
            g[i] = t
            p[i] = t / max(1.0 - rho[i], SMALLEST_SHARE)
        total = striped_sum_(p, stripes)
        for i in range(n):
            t = rho[i] * (total - p[i])
            g[i] += t
            p[i] = t / max(1.0 - rho[i], SMALLEST_SHARE)
        total = striped_sum_(p, stripes)
        for i in range(n):
            g[i] += rho[i] * (total - p[i])
            rho[i] = rho[i] * (1.0 - rho[i])
        if len(weight) > 0:
            for i in range(n):
                g[i] *= weight[start + i]
                rho[i] *= weight[start + i]


@kernel
def lambdarank_part(t, crew, ends, documents, rules, gradient, hessian):
    """Do one thread's queries of lambdarank_kernel (team.run_parts)."""
    call_helpers(t, crew, (ends, documents, rules, gradient, hessian))
    for part in range(t, len(ends) - 1, crew.size):
        lambdarank_kernel(documents, ends[part], ends[part + 1], rules, gradient, hessian)


@kernel
def xendcg_part(t, crew, ends, documents, key, gradient, hessian):
    """Do one thread's queries of xendcg_kernel (team.run_parts)."""
    call_helpers(t, crew, (ends, documents, key, gradient, hessian))
    for part in range(t, len(ends) - 1, crew.size):
        xendcg_kernel(documents, ends[part], ends[part + 1], key, gradient, hessian)

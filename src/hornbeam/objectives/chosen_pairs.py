"""Lambdas of chosen pairs of documents: XGBoost's sampled pairs, and its unbiased ranking.

    lambdarank_sampled_pairs   every document is paired with so many documents of its query that have other labels,
                               drawn anew in each iteration; instead of all pairs of the first ranks
    lambdarank_unbiased        clicks depend on where a document was shown (Hu et al. 2019, Unbiased LambdaMART): the
                               lambda of a pair is divided by the biases of both places, which are learned

The place of a document is that of its row in its query: rows are in the order in which documents were shown. For a pair
whose document at place i was clicked, or is more relevant, rather than that at place j, with cost = weight * log(1 +
exp(d)), d being what the score of the first exceeds that of the second by, times sigmoid, and sums over all pairs:

    clicked[i] = (sum(cost / passed[j]) / that of place 0) ** (1 / (1 + bias_norm))
    passed[j]  = (sum(cost / clicked[i]) / that of place 0) ** (1 / (1 + bias_norm))

Both begin with ones and move after each iteration. Pairs with a place that has no bias count as they are. The paper has
exp(-d) in the cost; XGBoost has exp(d), which ranked the true relevance of made clicks better.

All this is computed by NumPy on the host, whatever the device, some queries at a time. Sums are exact, with a scale for
each query, so that neither the order of pairs nor how queries are taken together can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.fixed_point import exact_bits, exact_exponent
from hornbeam.core.random_choices import derived_key, random_bits
from hornbeam.params.params import Params

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PAIRS_AT_ONCE = 1 << 20
"""Pairs whose numbers are in memory together, but for a query that has more by itself."""

MOST_PLACES = 32
"""Places that have a bias where pairs are sampled (XGBoost)."""

SMALLEST_BIAS = 1e-16
"""A smaller bias is not divided by (XGBoost)."""

SCORE_DISTANCE = 0.01
"""Added to the distance of two scores that a pair's weight is divided by (LightGBM, XGBoost)."""

FARTHEST = 600.0
"""Distances of scores, times sigmoid, count up to here."""


class PairChoice(NamedTuple):
    """Which pairs there are, where they are not all of the first ranks, or are weighed by places.

    n_sampled             pairs that are drawn for each document; 0: all of the first ranks
    bias_norm             of the biases of places; None: these are not learned
    seed, objective_seed  of the drawing
    """

    n_sampled: int
    bias_norm: float | None
    seed: int
    objective_seed: int

    @classmethod
    def of(cls, params: Params) -> PairChoice:
        """Take the choice from the training parameters."""
        bias_norm = params.lambdarank_bias_norm if params.lambdarank_unbiased else None
        if params.lambdarank_sampled_pairs == 0 and bias_norm is None:
            return ALL_PAIRS
        return cls(params.lambdarank_sampled_pairs, bias_norm, params.seed, params.objective_seed)


ALL_PAIRS = PairChoice(0, None, 0, 0)
"""All of the first ranks, places aside: what engines compute by themselves."""


class PairRules(Protocol):
    """What an objective says of pairs; LambdarankObjective has the meaning of its attributes."""

    sigmoid: float
    truncation_level: int
    norm: bool
    by_ndcg: ClassVar[bool]

    def rank_values(self, level: NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
        """Return a number for each rank that is the first of a pair, and one for each that is the second."""


class Cells(NamedTuple):
    """What values are summed by: each belongs to a cell, and a cell to a query.

    cell, query  int64 (n,)
    """

    cell: IntArray
    query: IntArray
    n_cells: int
    n_queries: int


def exact_sums(values: FloatArray, cells: Cells) -> FloatArray:
    """Return the exact sum of the values of each cell, float64 (n_cells,); every query has a scale of its own."""
    query = cells.query
    largest, n_values = np.zeros(cells.n_queries), np.bincount(query, minlength=cells.n_queries)
    np.maximum.at(largest, query, np.abs(values))
    bits = np.array([exact_bits(n) for n in n_values.tolist()])
    exponent = np.where(largest > 0.0, np.minimum(bits - np.frexp(largest)[1], 1000), 0)
    sums, of_cell = np.zeros(cells.n_cells, np.int64), np.zeros(cells.n_cells, np.int64)
    np.add.at(sums, cells.cell, np.rint(np.ldexp(values, exponent[query])).astype(np.int64))
    of_cell[cells.cell] = exponent[query]
    return np.ldexp(sums.astype(np.float64), -of_cell)


class Biases:
    """The biases of places; see the head of this file.

    clicked, passed  float64 (n_places,)
    """

    def __init__(self, n_places: int, bias_norm: float) -> None:
        self._power = 1.0 / (1.0 + bias_norm)
        self.clicked, self.passed = np.ones(n_places), np.ones(n_places)

    def enter(self, cost: FloatArray, i: IntArray, j: IntArray, query: IntArray, costs: FloatArray) -> FloatArray:
        """Sum the costs of pairs by query and place; returns what their lambdas are divided by, float64 (n_pairs,).

        i, j, query  int64 (n_pairs,)                   in   places of each pair, and its query
        costs        float64 (2, n_queries, n_places)   out
        """
        n_queries, n_places = costs.shape[1:]
        tracked = np.flatnonzero((i < n_places) & (j < n_places))
        i, j, query = i[tracked], j[tracked], query[tracked]
        clicked, passed = self.clicked[i], self.passed[j]
        for out, place, by in zip(costs, (i, j), (passed, clicked), strict=True):
            share = np.where(by >= SMALLEST_BIAS, cost[tracked] / np.maximum(by, SMALLEST_BIAS), 0.0)
            cells = Cells(query * n_places + place, query, n_queries * n_places, n_queries)
            out[:] = exact_sums(share, cells).reshape(n_queries, n_places)
        divisor, counts = np.ones(len(cost)), (clicked >= SMALLEST_BIAS) & (passed >= SMALLEST_BIAS)
        divisor[tracked[counts]] = (clicked * passed)[counts]
        return divisor

    def step(self, of_clicked: FloatArray, of_passed: FloatArray) -> None:
        """Move the biases; both float64 (n_queries, n_places): sums of the costs of each query."""
        self.clicked = self._moved(of_clicked, self.clicked)
        self.passed = self._moved(of_passed, self.passed)

    def _moved(self, costs: FloatArray, before: FloatArray) -> FloatArray:
        """Return the biases that follow from costs."""
        exponent = exact_exponent(float(costs.max()), len(costs))
        sums = np.rint(costs * 2.0**exponent).astype(np.int64).sum(axis=0).astype(np.float64) * 2.0**-exponent
        if sums[0] < SMALLEST_BIAS:
            return before
        share = sums / sums[0]
        moved = np.zeros(len(share))
        moved[share > 0.0] = numerics.exp(self._power * numerics.log(share[share > 0.0]))
        return moved


class Ranked(NamedTuple):
    """Documents by query and, in it, by falling score.

    row     int64 (n_rows,)    of each place in this order
    score   float64 (n_rows,)
    level   int32 (n_rows,)
    above, below  float64 (n_rows,)  see LambdarankObjective.rank_values
    """

    row: IntArray
    score: FloatArray
    level: NDArray[np.int32]
    above: FloatArray
    below: FloatArray


class Pairs(NamedTuple):
    """The pairs of the queries first:last.

    a, b   int64 (n_pairs,)  places of `Ranked`, a before b, with different labels
    query  int64 (n_pairs,)
    """

    first: int
    last: int
    a: IntArray
    b: IntArray
    query: IntArray


class ChosenPairs:
    """The pairs of a training's queries, and the biases of places.

    rules       the objective
    boundaries  int64 (n_queries + 1,)
    level       int32 (n_rows,)         labels
    gains       float64 (n_gains,)      by label
    slope       float64 (n_queries,)    weight of a pair that changes the metric by 1, times sigmoid
    n_sampled   pairs that are drawn for a document; 0: all of the first ranks
    """

    def __init__(
        self,
        rules: PairRules,
        boundaries: IntArray,
        level: NDArray[np.int32],
        gains: FloatArray,
        slope: FloatArray,
        n_sampled: int,
    ) -> None:
        self._rules, self._boundaries, self._level, self._n_sampled = rules, boundaries, level, n_sampled
        self._gains, self._slope = gains, slope
        self._sizes = np.diff(boundaries)
        self._query = np.repeat(np.arange(len(self._sizes)), self._sizes)
        self.biases: Biases | None = None
        """Of places, where they are learned."""

    def learn_biases(self, bias_norm: float) -> None:
        """Begin to learn the biases of places."""
        longest = int(self._sizes.max())
        self.biases = Biases(min(MOST_PLACES, longest) if self._n_sampled else self._rules.truncation_level, bias_norm)

    def gradients(self, scores: FloatArray, key: int) -> tuple[FloatArray, FloatArray]:
        """Return gradient and hessian, float64 (n_rows,), and move the biases.

        scores  float64 (n_rows,)  in
        key     of the random numbers of the iteration
        """
        ranked = self._rank(scores)
        gradient, hessian = np.zeros(len(scores)), np.zeros(len(scores))
        n_places = 0 if self.biases is None else len(self.biases.clicked)
        costs = np.zeros((2, len(self._sizes), n_places))
        for pairs in self._pairs(ranked, key):
            some = ranked.row[self._boundaries[pairs.first] : self._boundaries[pairs.last]]
            gradient[some], hessian[some] = self._sums(ranked, pairs, costs[:, pairs.first : pairs.last])
        if self.biases is not None:
            self.biases.step(*costs)
        return gradient, hessian

    def _rank(self, scores: FloatArray) -> Ranked:
        """Rank the documents of all queries."""
        row = np.lexsort((-scores, self._query))  # of equal scores the first row first
        level, above, below = self._level[row], np.empty(len(row)), np.empty(len(row))
        for start, stop in zip(self._boundaries[:-1].tolist(), self._boundaries[1:].tolist(), strict=True):
            above[start:stop], below[start:stop] = self._rules.rank_values(level[start:stop])
        return Ranked(row, scores[row], level, above, below)

    def _pairs(self, ranked: Ranked, key: int) -> Iterator[Pairs]:
        """Yield the pairs of some queries after the other."""
        most = np.minimum(self._rules.truncation_level, self._sizes - 1)
        each = most * (self._sizes - 1) - most * (most - 1) // 2
        if self._n_sampled:
            each = self._sizes * self._n_sampled
        upto, first = np.cumsum(each), 0
        while first < len(each):
            done = int(upto[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(upto, done + PAIRS_AT_ONCE, side="right")))
            if self._n_sampled:
                a, b = self._sampled_pairs(ranked, first, last, key)
            else:
                a, b = self._first_pairs(first, last, most[first:last])
            differ = ranked.level[a] != ranked.level[b]
            a, b = a[differ], b[differ]
            yield Pairs(first, last, a, b, self._query[a])
            first = last

    def _first_pairs(self, first: int, last: int, most: IntArray) -> tuple[IntArray, IntArray]:
        """Return the pairs of the first `most` ranks of some queries with all ranks after them."""
        sizes, starts = self._sizes[first:last], self._boundaries[first:last]
        query = np.repeat(np.arange(len(sizes)), most)
        rank = np.arange(len(query)) - np.repeat(np.cumsum(most) - most, most)
        n_after = sizes[query] - 1 - rank
        a = np.repeat(starts[query] + rank, n_after)
        return a, a + 1 + np.arange(len(a)) - np.repeat(np.cumsum(n_after) - n_after, n_after)

    def _sampled_pairs(self, ranked: Ranked, first: int, last: int, key: int) -> tuple[IntArray, IntArray]:
        """Draw pairs for every document of some queries; one whose query has one label alone is paired with itself."""
        start, stop = int(self._boundaries[first]), int(self._boundaries[last])
        query, level = self._query[start:stop], ranked.level[start:stop]
        by_label = np.lexsort((-level, query))  # in a query the highest label first, of equals the first rank
        of_label, of_query = level[by_label], query[by_label]
        begins = np.ones(stop - start, bool)
        begins[1:] = (of_label[1:] != of_label[:-1]) | (of_query[1:] != of_query[:-1])
        bucket = np.flatnonzero(begins)
        size = np.diff(bucket, append=stop - start)
        bucket, size = np.repeat(bucket, size), np.repeat(size, size)  # of the documents of equal labels
        begin = self._boundaries[of_query] - start
        n_others = (self._sizes[of_query] - size).astype(np.uint64)
        own, others = start + by_label, []
        for turn in range(self._n_sampled):
            bits = random_bits(derived_key(key, turn), ranked.row[own])
            drawn = begin + (((bits >> np.uint64(32)) * n_others) >> np.uint64(32)).astype(np.int64)
            drawn = np.where(drawn >= bucket, drawn + size, drawn)
            others.append(np.where(n_others > 0, start + by_label[np.minimum(drawn, stop - start - 1)], own))
        a, b = np.tile(own, self._n_sampled), np.concatenate(others)
        return np.minimum(a, b), np.maximum(a, b)

    def _sums(self, ranked: Ranked, pairs: Pairs, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and hessian of the documents of some queries, float64 (n,) by rank.

        costs  float64 (2, n_queries, n_places)  out  sums for clicked and passed places

        Order of operations, with `high` the document of the higher label:

        d = min(max(sigmoid * (s[high] - s[low]), -600), 600);  r = 1 / (1 + exp(d));  w as in `_weights`
        lambda = w * r;  hessian = (lambda * sigmoid) * (1 - r);  both divided by clicked[i] * passed[j] where there are
        such;  sums of both times a factor: 1 / drawn pairs, or log2(1 + t) / t, t being twice the sum of the lambdas.
        """
        rules, of_query, n_queries = self._rules, pairs.query - pairs.first, pairs.last - pairs.first
        is_high = ranked.level[pairs.a] > ranked.level[pairs.b]
        high, low = np.where(is_high, pairs.a, pairs.b), np.where(is_high, pairs.b, pairs.a)
        d = rules.sigmoid * (ranked.score[high] - ranked.score[low])
        d = np.minimum(np.maximum(d, -FARTHEST), FARTHEST)
        r, w = 1.0 / (1.0 + numerics.exp(d)), self._weights(ranked, pairs)
        lambda_ = w * r
        h = (lambda_ * rules.sigmoid) * (1.0 - r)
        if self.biases is not None:
            i, j = (ranked.row[one] - self._boundaries[pairs.query] for one in (high, low))
            by = self.biases.enter(w * numerics.log(1.0 + numerics.exp(d)), i, j, of_query, costs)
            lambda_, h = lambda_ / by, h / by
        start, stop = self._boundaries[pairs.first], self._boundaries[pairs.last]
        cells = Cells(np.concatenate([high, low]) - start, np.tile(of_query, 2), int(stop - start), n_queries)
        factor = np.ones(n_queries)
        if rules.norm and self._n_sampled:
            factor = factor / self._n_sampled
        elif rules.norm:
            total = 2.0 * exact_sums(lambda_, Cells(of_query, of_query, n_queries, n_queries))
            factor[total > 0.0] = numerics.log2(1.0 + total[total > 0.0]) / total[total > 0.0]
        of_row = factor[self._query[start:stop] - pairs.first]
        return (
            exact_sums(np.concatenate([-lambda_, lambda_]), cells) * of_row,
            exact_sums(np.concatenate([h, h]), cells) * of_row,
        )

    def _weights(self, ranked: Ranked, pairs: Pairs) -> FloatArray:
        """Return the weights of pairs, float64 (n_pairs,).

        w = sigmoid, or |(|gain[a] - gain[b]| * slope) * (above[a] - below[b])|, from rank_values;
        w = w / (0.01 + (s[a] - s[b])) with norm and if the scores of the query differ
        """
        a, b, query = pairs.a, pairs.b, pairs.query
        w = np.full(len(a), self._rules.sigmoid)
        if self._rules.by_ndcg:
            gap = np.abs(self._gains[ranked.level[a]] - self._gains[ranked.level[b]])
            w = np.abs((gap * self._slope[query]) * (ranked.above[a] - ranked.below[b]))
        if self._rules.norm:
            best, worst = self._boundaries[query], self._boundaries[query + 1] - 1
            apart = ranked.score[best] != ranked.score[worst]
            w = np.where(apart, w / (SCORE_DISTANCE + (ranked.score[a] - ranked.score[b])), w)
        return w

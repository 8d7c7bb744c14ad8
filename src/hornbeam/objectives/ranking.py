"""Learning to rank: lambdarank, rank_map, pairwise and rank_xendcg, on rows that are grouped into queries.

These are the NumPy definitions, one query at a time. A query's documents are its rows; they are ranked by falling
score, equal scores in row order. What a document gets from its pairs is summed in fixed point, so neither the order of
the pairs nor the number of threads can be seen; other sums have an order of their own (`striped_sum`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.fixed_point import EXACT_BITS
from hornbeam.core.random_choices import Purpose, random_key, uniform
from hornbeam.data.columns import Facts
from hornbeam.data.fields import Fields
from hornbeam.data.queries import DEFAULT_LABEL_GAIN, check_relevance, discounts, ideal_dcg
from hornbeam.objectives.base import FloatArray, Objective, first_wrong_label, require_labels
from hornbeam.objectives.chosen_pairs import ALL_PAIRS, SCORE_DISTANCE, ChosenPairs, PairChoice
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.objectives.position_bias import PositionBias
from hornbeam.params.params import Params

LOWEST_EXPONENT = -600.0
"""Scores this far (times sigmoid) below the best one of a query count as equally bad; keeps products normal numbers."""

PAIR_BITS = 50
"""Most bits of a pair's lambda in fixed point: below 2**51, where adding 1.5 * 2**52 rounds a float64 (CPU kernel)."""

STRIPES = 32
"""Running sums of `striped_sum`."""

SMALLEST_SHARE = 1e-15
"""rank_xendcg divides by at least this."""

SelfRanking = TypeVar("SelfRanking", bound="RankingObjective")
SelfLambdarank = TypeVar("SelfLambdarank", bound="LambdarankObjective")


@dataclass(frozen=True, slots=True, eq=False)
class QueryData:
    """What stays the same during a training: query boundaries, and what follows from the labels.

    boundaries     int64   (n_queries + 1,)
    level          int32   (n_rows,)      labels as whole numbers
    gains          float64 (n_gains,)     by label
    discounts      float64 (longest query,)  by rank
    base           float64 (n_queries,)   weight of a pair, in units of the query's fixed point: base + gap * slope *
    slope          float64 (n_queries,)   (difference of `rank_values`), where gap is the difference of the gains
    ratio          float64 (n_queries,)   fixed-point hessian of a pair = fixed-point lambda * ratio * (1 - p)
    gradient_unit  float64 (n_queries,)   a power of two: what 1 in fixed point stands for
    hessian_unit   float64 (n_queries,)
    """

    boundaries: NDArray[np.int64]
    level: NDArray[np.int32]
    gains: FloatArray
    discounts: FloatArray
    base: FloatArray
    slope: FloatArray
    ratio: FloatArray
    gradient_unit: FloatArray
    hessian_unit: FloatArray

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.boundaries) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Documents of each query, int64 (n_queries,)."""
        return np.diff(self.boundaries)

    def take(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> QueryData:
        """Return some queries, which have these rows, one after the other."""
        return replace(
            self,
            boundaries=np.append(0, np.cumsum(self.sizes[queries])),
            level=self.level[rows],
            base=self.base[queries],
            slope=self.slope[queries],
            ratio=self.ratio[queries],
            gradient_unit=self.gradient_unit[queries],
            hessian_unit=self.hessian_unit[queries],
        )


class RankingObjective(Objective):
    """What the ranking objectives share: labels are degrees of relevance, and scores start from zero.

    `bind` makes the objective that is trained on a data set; only that one has `queries` and gradients.
    """

    default_metric: ClassVar[str] = "ndcg"

    def __init__(self, label_gain: tuple[float, ...] | None = None) -> None:
        super().__init__(1, boost_from_average=False)
        self.label_gain = label_gain
        self.queries: QueryData | None = None

    @property
    def gains(self) -> FloatArray:
        """Gain by label, float64 (n_gains,)."""
        return np.array(self.label_gain or DEFAULT_LABEL_GAIN, np.float64)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be whole numbers that have a gain."""
        check_relevance(require_labels(label, self.name), len(self.gains), f"objective {self.name!r}")

    def bind(self: SelfRanking, dataset: Fields) -> SelfRanking:
        """Return this objective with the queries of a data set."""
        label = require_labels(dataset.label, self.name)
        boundaries = dataset.query_boundaries
        if boundaries is None:
            raise DataError(
                f"objective {self.name!r} needs to know which rows belong to one query; pass group= (sizes) or qid= "
                "(one id a row) to Dataset"
            )
        bound = copy.copy(self)
        bound.queries = self._query_data(label, boundaries)
        return bound

    def _query_data(self, label: FloatArray, boundaries: NDArray[np.int64]) -> QueryData:
        """Return what a training needs of its queries."""
        nothing = np.zeros(len(boundaries) - 1)
        level = label.astype(np.int32)
        return QueryData(boundaries, level, self.gains, np.empty(0), nothing, nothing, nothing, nothing, nothing)

    def accepts(self, facts: Facts) -> bool:
        """Say no: queries are laid out on the host, which needs the labels anyway."""
        return False

    def scores_of_sums(self, sums: LabelSums) -> FloatArray:
        """Return zero: only differences of scores matter."""
        return np.zeros(1)

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Compute one query after the other; with weights g = g * w, h = h * w."""
        assert self.queries is not None, "bind(dataset) comes first"
        gradient, hessian = np.empty_like(scores), np.empty_like(scores)
        bounds = self.queries.boundaries.tolist()
        for query, (start, stop) in enumerate(pairwise(bounds)):
            found = self.query_gradients(scores[0, start:stop], query)
            gradient[0, start:stop], hessian[0, start:stop] = found
        if weight is None:
            return gradient, hessian
        return gradient * weight, hessian * weight

    def query_gradients(self, scores: FloatArray, query: int) -> tuple[FloatArray, FloatArray]:
        """Return gradient and hessian of the documents of one query, each float64 (n,).

        scores  float64 (n,)  in
        """
        raise NotImplementedError

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores themselves."""
        return raw


def _pair_rules(params: Params) -> tuple[float, int, bool]:
    """Return sigmoid, truncation and norm of a training; drawn pairs are of all ranks."""
    level = params.lambdarank_truncation_level if params.lambdarank_sampled_pairs == 0 else 2**31 - 1
    return params.sigmoid, level, params.lambdarank_norm


def _bias_rules(params: Params) -> tuple[tuple[float, float], PairChoice]:
    """Return what biases of positions are learned by, and the choice of pairs."""
    return (params.lambdarank_position_bias_regularization, params.learning_rate), PairChoice.of(params)


class LambdarankObjective(RankingObjective):
    """LambdaMART: pairs of documents with different labels, weighted by what swapping them does to NDCG.

    Pairs have at least one document among the first `truncation_level` ranks. With `norm`, a pair's weight is divided
    by 0.01 + the distance of its scores, and all lambdas of a query by s / log2(1 + s), where s is the sum of their
    magnitudes.
    """

    name: ClassVar[str] = "lambdarank"
    by_ndcg: ClassVar[bool] = True
    """Whether pairs are weighted by the change of NDCG, or all alike."""
    by_map: ClassVar[bool] = False
    """Whether they are weighted by the change of the average precision instead."""

    def __init__(
        self,
        sigmoid: float = 1.0,
        truncation_level: int = 30,
        norm: bool = True,
        label_gain: tuple[float, ...] | None = None,
        bias_rates: tuple[float, float] = (0.0, 0.1),
        choice: PairChoice = ALL_PAIRS,
    ) -> None:
        super().__init__(label_gain)
        self.bias_rates = bias_rates
        self.positions: PositionBias | None = None
        self.choice = choice
        self.pairs: ChosenPairs | None = None
        self.iteration = 0
        self.sigmoid = float(sigmoid)
        self.truncation_level = truncation_level
        self.norm = norm

    @classmethod
    def from_params(cls, params: Params) -> LambdarankObjective:
        """Take sigmoid, the choice of pairs and the gains."""
        return cls(*_pair_rules(params), params.label_gain, *_bias_rules(params))

    def bind(self: SelfLambdarank, dataset: Fields) -> SelfLambdarank:
        """Return this objective with the queries, and the positions, of a data set."""
        bound = super().bind(dataset)
        position, choice = dataset.get_position(), self.choice
        if position is not None:
            bound.positions = PositionBias(position, *self.bias_rates)
        if choice is not ALL_PAIRS:
            data = bound.queries
            assert data is not None
            slope = self.pair_scales(data.level, data.boundaries)[0] if self.by_ndcg else np.zeros(data.n_queries)
            bound.pairs = ChosenPairs(bound, data.boundaries, data.level, data.gains, slope, choice.n_sampled)
            if choice.bias_norm is not None:
                bound.pairs.learn_biases(choice.bias_norm)
        return bound

    def begin_iteration(self, iteration: int) -> None:
        """Note the number of the iteration, for the random numbers."""
        self.iteration = iteration

    @property
    def key(self) -> int:
        """Key of this iteration's pairs."""
        return random_key(self.choice.seed, Purpose.PAIRS, self.iteration, self.choice.objective_seed)

    def _query_data(self, label: FloatArray, boundaries: NDArray[np.int64]) -> QueryData:
        """Find ideal DCG and fixed-point scale of every query.

        A lambda is at most sigmoid * (largest weight of a pair) / 0.01 and a hessian sigmoid / 4 times that, and a
        document has fewer than n pairs: with PAIR_BITS, or fewer in long queries, its sum stays below 2**62.
        """
        gains, sizes = self.gains, np.diff(boundaries)
        level = label.astype(np.int32)
        if self.by_ndcg:
            base = np.zeros(len(sizes))
            slope, bound = self.pair_scales(level, boundaries)
        else:
            base, slope = np.full(len(sizes), self.sigmoid), np.zeros(len(sizes))
            bound = base
        bound = bound / SCORE_DISTANCE if self.norm else bound
        with np.errstate(over="ignore"):
            finite = np.isfinite(bound * self.sigmoid).all()
        if not finite:
            raise ParameterError(f"sigmoid={self.sigmoid!r} is too large for objective {self.name!r}; use one near 1")
        bits = np.minimum(PAIR_BITS, EXACT_BITS - np.frexp(sizes.astype(np.float64))[1])
        g_exponent = _scale_exponents(bound, bits)
        h_exponent = _scale_exponents(bound * (self.sigmoid * 0.25), bits)
        return QueryData(
            boundaries,
            level,
            gains,
            discounts(int(sizes.max())),
            np.ldexp(base, g_exponent),
            np.ldexp(slope, g_exponent),
            np.ldexp(self.sigmoid, h_exponent - g_exponent),
            np.ldexp(1.0, -g_exponent),
            np.ldexp(1.0, -h_exponent),
        )

    def pair_scales(self, level: NDArray[np.int32], boundaries: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Return what differences of gains and ranks are multiplied by, and a bound of the product, by query."""
        ideal = ideal_dcg(level.astype(np.float64), boundaries, self.gains, self.truncation_level)
        slope = np.zeros(len(ideal))
        np.divide(self.sigmoid, ideal, out=slope, where=ideal > 0.0)
        of_rows = self.gains[level]
        largest = np.maximum.reduceat(of_rows, boundaries[:-1]) - np.minimum.reduceat(of_rows, boundaries[:-1])
        return slope, largest * slope

    def query_gradients(self, scores: FloatArray, query: int) -> tuple[FloatArray, FloatArray]:
        """Order of operations for a pair of ranks i < j with different labels, `high` having the higher label.

        e = exp(max(sigmoid * (s - s[0]), -600)) for every rank
        a = 0.01 + (s[i] - s[j]) with norm and if the scores of the query differ, else 1
        w = base + ((gain[high] - gain[low]) * slope) * (above[i] - below[j]), from `rank_values`
        r = 1 / ((e[i] + e[j]) * a)
        lambda = (w * e[low]) * r                     the probability of the wrong order, e[low] / (e[i] + e[j])
        hessian = (lambda * ratio) * ((e[high] * a) * r)

        Both are rounded to integers; the gradient of `low` grows by the lambda, that of `high` falls by it, both
        hessians grow. t = sum over i of 2 * (sum over j of lambda) in units of 1, added in the order of i;
        f = log2(1 + t) / t with norm and t > 0, else 1. Gradient and hessian are (integer * unit) * f.
        """
        data = self.queries
        assert data is not None
        start = int(data.boundaries[query])
        order = np.argsort(-scores, kind="stable")
        s, level = scores[order], data.level[start : start + len(scores)][order]
        e = numerics.exp(np.maximum(self.sigmoid * (s - s[0]), LOWEST_EXPONENT))
        gain = data.gains[level]
        base, slope, ratio = data.base[query], data.slope[query], data.ratio[query]
        gradient_unit, hessian_unit = data.gradient_unit[query], data.hessian_unit[query]
        above, below = self.rank_values(level)
        apart = self.norm and s[0] != s[-1]
        gradient, hessian = np.zeros(len(s), np.int64), np.zeros(len(s), np.int64)
        total = 0.0
        for i in range(min(self.truncation_level, len(s) - 1)):
            j = i + 1 + np.flatnonzero(level[i + 1 :] != level[i])
            is_high = level[i] > level[j]
            e_high, e_low = np.where(is_high, e[i], e[j]), np.where(is_high, e[j], e[i])
            a = SCORE_DISTANCE + (s[i] - s[j]) if apart else 1.0
            w = base + (np.abs(gain[i] - gain[j]) * slope) * (above[i] - below[j])
            r = 1.0 / ((e[i] + e[j]) * a)
            lambda_ = (w * e_low) * r
            h = np.rint((lambda_ * ratio) * ((e_high * a) * r)).astype(np.int64)
            g = np.rint(lambda_).astype(np.int64)
            signed = np.where(is_high, g, -g)
            gradient[j] += signed
            gradient[i] -= signed.sum()
            hessian[j] += h
            hessian[i] += h.sum()
            total = total + 2.0 * (float(g.sum()) * gradient_unit)
        factor = 1.0
        if self.norm and total > 0.0:
            factor = float(numerics.log2(np.array(1.0 + total))) / total
        back = np.empty(len(s), np.int64)
        back[order] = np.arange(len(s))
        return ((gradient * gradient_unit) * factor)[back], ((hessian * hessian_unit) * factor)[back]

    def rank_values(self, level: NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
        """Return a number for each rank that is the first of a pair, and one for each that is the second.

        level  int32 (n,)  in  labels by rank

        What swapping two ranks does to NDCG, or to the average precision, is proportional to their difference.
        """
        assert self.queries is not None
        return self.queries.discounts[: len(level)], self.queries.discounts[: len(level)]


class MapObjective(LambdarankObjective):
    """LambdaMART on the average precision of lists whose documents are relevant (1) or not (0): XGBoost's rank:map."""

    name: ClassVar[str] = "rank_map"
    default_metric: ClassVar[str] = "map"
    by_map: ClassVar[bool] = True

    @classmethod
    def from_params(cls, params: Params) -> MapObjective:
        """Take sigmoid and the choice of pairs."""
        return cls(*_pair_rules(params), None, *_bias_rules(params))

    @property
    def gains(self) -> FloatArray:
        """0 and 1."""
        return np.array([0.0, 1.0])

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be 0 or 1."""
        label = require_labels(label, self.name)
        found = first_wrong_label(label, (label != 0.0) & (label != 1.0))
        if found is not None:
            raise DataError(
                f"objective {self.name!r} takes labels 0 and 1, but {found}; recode the labels, or use 'lambdarank', "
                "which knows degrees of relevance"
            )

    def pair_scales(self, level: NDArray[np.int32], boundaries: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Return slope and bound: a swap changes the sum of precisions by at most 1 + (1 + 1/2 + ... + 1/n)."""
        sizes = np.diff(boundaries)
        relevant = np.add.reduceat(level.astype(np.float64), boundaries[:-1])
        slope = np.zeros(len(sizes))
        np.divide(self.sigmoid, relevant, out=slope, where=relevant > 0.0)
        return slope, slope * (2.0 + np.frexp(sizes.astype(np.float64))[1])

    def rank_values(self, level: NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
        """Order of operations, from the first rank on, with r = rank + 1, c and t starting from 0.

        For each rank: x = 1 if it is relevant, else 0; before = t; c = c + x; t = t + x / r;
        above = (c + (1 - x)) / r - t;  below = c / r - before.
        """
        x = (level > 0).astype(np.float64)
        r = np.arange(1.0, len(level) + 1.0)
        c, t = np.cumsum(x), np.cumsum(x / r)
        return (c + (1.0 - x)) / r - t, c / r - np.append(0.0, t[:-1])


class PairwiseObjective(LambdarankObjective):
    """RankNet on the same pairs: lambdarank whose pairs all weigh 1 (XGBoost's rank:pairwise)."""

    name: ClassVar[str] = "pairwise"
    by_ndcg: ClassVar[bool] = False


class XendcgObjective(RankingObjective):
    """Cross entropy between softmax(scores) and a random distribution around 2**label (XE-NDCG-MART).

    The random numbers of an iteration are a hash of (seed, objective_seed, iteration, row), the same on every device.
    """

    name: ClassVar[str] = "rank_xendcg"

    def __init__(self, seed: int = 0, objective_seed: int = 5, label_gain: tuple[float, ...] | None = None) -> None:
        super().__init__(label_gain)
        self.seed = seed
        self.objective_seed = objective_seed
        self.iteration = 0

    @classmethod
    def from_params(cls, params: Params) -> XendcgObjective:
        """Take the seeds and the gains."""
        return cls(params.seed, params.objective_seed, params.label_gain)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be whole numbers from 0 to 30; gains are 2**label here, whatever `label_gain` says."""
        check_relevance(require_labels(label, self.name), len(DEFAULT_LABEL_GAIN), f"objective {self.name!r}")

    def begin_iteration(self, iteration: int) -> None:
        """Note the number of the iteration, for the random numbers."""
        self.iteration = iteration

    @property
    def key(self) -> int:
        """Key of this iteration's random numbers."""
        return random_key(self.seed, Purpose.RANKING, self.iteration, self.objective_seed)

    def query_gradients(self, scores: FloatArray, query: int) -> tuple[FloatArray, FloatArray]:
        """Order of operations, with sums as in `striped_sum`.

        rho = exp(s - max(s)) / sum(exp(s - max(s)));  phi = 2**label - (random number in [0, 1))
        v = 1 / max(1e-15, sum(phi));  q = max(1 - rho, 1e-15)
        t1 = rho - phi * v;  p1 = t1 / q;  t2 = rho * (sum(p1) - p1);  p2 = t2 / q;  t3 = rho * (sum(p2) - p2)
        g = (t1 + t2) + t3;  h = rho * (1 - rho);  a query of one document has g = h = 0.
        """
        data = self.queries
        assert data is not None
        if len(scores) == 1:
            return np.zeros(1), np.zeros(1)
        rows = data.boundaries[query] + np.arange(len(scores))
        e = numerics.exp(scores - scores.max())
        rho = e / striped_sum(e)
        phi = np.ldexp(1.0, data.level[rows]) - uniform(self.key, rows)
        v = 1.0 / max(SMALLEST_SHARE, striped_sum(phi))
        q = np.maximum(1.0 - rho, SMALLEST_SHARE)
        t1 = rho - phi * v
        p1 = t1 / q
        t2 = rho * (striped_sum(p1) - p1)
        p2 = t2 / q
        t3 = rho * (striped_sum(p2) - p2)
        return (t1 + t2) + t3, rho * (1.0 - rho)


def _scale_exponents(largest: FloatArray, bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return for each query e such that largest * 2**e < 2**bits, as `quantize.scale_exponent`."""
    return np.where(largest > 0.0, np.minimum(bits - np.frexp(largest)[1], 1000), 0).astype(np.int32)


def striped_sum(values: FloatArray) -> float:
    """Sum in an order that a device can follow: 32 running sums, number k over the places k, k + 32, ..., added last.

    values  float64 (n,)  in
    """
    padded = np.zeros(-(-len(values) // STRIPES) * STRIPES)
    padded[: len(values)] = values
    sums = np.zeros(STRIPES)
    for row in padded.reshape(-1, STRIPES):
        sums = sums + row
    total = 0.0
    for stripe in sums.tolist():
        total = total + stripe
    return total

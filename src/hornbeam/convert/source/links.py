"""The arithmetic of models in Python: what turns raw scores into predictions. The text of this module goes into theirs.

Everything is done operation by operation as Hornbeam does it, so results have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_EXP_COEFFICIENTS = (
    1.6059043836821613e-10,
    2.08767569878681e-09,
    2.505210838544172e-08,
    2.755731922398589e-07,
    2.7557319223985893e-06,
    2.48015873015873e-05,
    0.0001984126984126984,
    0.001388888888888889,
    0.008333333333333333,
    0.041666666666666664,
    0.16666666666666666,
    0.5,
    1.0,
    1.0,
)


def exp(x: float) -> float:
    """Return e to the power of x, with Hornbeam's own exp: libraries differ in the last bit."""
    x = min(max(x, -708.0), 708.0)
    k = math.floor(x * 1.4426950408889634 + 0.5)
    r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
    p = _EXP_COEFFICIENTS[0]
    for coefficient in _EXP_COEFFICIENTS[1:]:
        p = p * r + coefficient
    return math.ldexp(p, k)


_LOG_COEFFICIENTS = (
    0.047619047619047616,
    0.05263157894736842,
    0.058823529411764705,
    0.06666666666666667,
    0.07692307692307693,
    0.09090909090909091,
    0.1111111111111111,
    0.14285714285714285,
    0.2,
    0.3333333333333333,
    1.0,
)


def log(x: float) -> float:
    """Return the natural logarithm of x from 1 to 2, with Hornbeam's own log."""
    m, k = (x, 0.0) if x < 1.4142135623730951 else (0.5 * x, 1.0)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = _LOG_COEFFICIENTS[0]
    for coefficient in _LOG_COEFFICIENTS[1:]:
        p = p * z + coefficient
    return k * 6.93147180369123816490e-01 + (k * 1.90821492927058770002e-10 + 2.0 * s * p)


def identity(scores: Sequence[float], slope: float) -> list[float]:
    """Return the scores."""
    return list(scores)


def square(scores: Sequence[float], slope: float) -> list[float]:
    """Return the squares of the scores, with their signs."""
    return [score * abs(score) for score in scores]


def exponential(scores: Sequence[float], slope: float) -> list[float]:
    """Return exp of the scores."""
    return [exp(score) for score in scores]


def sigmoid(scores: Sequence[float], slope: float) -> list[float]:
    """Return probabilities: 1 / (1 + exp(-slope * score))."""
    return [1.0 / (1.0 + exp(-(slope * score))) for score in scores]


def softplus(scores: Sequence[float], slope: float) -> list[float]:
    """Return log(1 + exp(score))."""
    predictions = []
    for score in scores:
        e = exp(-abs(score))
        d = (1.0 + e) - 1.0
        predictions.append(max(score, 0.0) + (log(1.0 + e) * (e / d) if d else e))
    return predictions


def step(scores: Sequence[float], slope: float) -> list[float]:
    """Return the classes: 1 where the score is above 0, else 0."""
    return [1.0 if score > 0.0 else 0.0 for score in scores]


def softmax(scores: Sequence[float], slope: float) -> list[float]:
    """Return the probabilities of classes, which add up to 1."""
    largest = max(scores)
    exps = [exp(score - largest) for score in scores]
    total = exps[0]
    for one in exps[1:]:
        total += one
    return [one / total for one in exps]

"""Gradients of the losses of one score and one label: twins of `PointwiseObjective.derivatives`, bit for bit.

A kernel has one signature: the constants a and b of the objective, and float64 (n,) arrays: scores and label in,
gradient and hessian out, overwritten. Only the kernels that are used are compiled. Weights are multiplied in
afterwards, but those of cross_entropy_lambda have a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.losses.numerics import exp_, log_, sigmoid_, softplus_, tanh_ratio_
from hornbeam.objectives.log_link import LARGEST_SCORE
from hornbeam.objectives.robust import FAR_AWAY, SMALLEST_CURVATURE

FloatArray = NDArray[np.float64]


@kernel
def weigh_kernel(values: FloatArray, weight: FloatArray) -> None:
    """Multiply values by weights, in place.

    values  float64 (n,)  in and out
    weight  float64 (n,)  in
    """
    for row in range(len(values)):
        values[row] = values[row] * weight[row]


@kernel
def absolute_error_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """g = sign(d); h = 1."""
    for row in range(len(scores)):
        d = scores[row] - label[row]
        gradient[row] = 1.0 if d > 0.0 else (-1.0 if d < 0.0 else 0.0)
        hessian[row] = 1.0


@kernel
def percentage_error_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """h = a / max(1, |label|); g = sign(d) * h."""
    for row in range(len(scores)):
        d = scores[row] - label[row]
        size = abs(label[row])
        h = a / (size if size > 1.0 else 1.0)
        gradient[row] = h if d > 0.0 else (-h if d < 0.0 else 0.0)
        hessian[row] = h


@kernel
def quantile_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """g = b where d >= 0, else a; h = 1."""
    for row in range(len(scores)):
        gradient[row] = b if scores[row] - label[row] >= 0.0 else a
        hessian[row] = 1.0


@kernel
def huber_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """g = d, clipped to +-a; h = 1."""
    for row in range(len(scores)):
        d = scores[row] - label[row]
        gradient[row] = a if d > a else (-a if d < -a else d)
        hessian[row] = 1.0


@kernel
def fair_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """r = a / (|d| + a); g = r * d; h = r * max(r, 0.5)."""
    for row in range(len(scores)):
        d = scores[row] - label[row]
        r = a / (abs(d) + a)
        gradient[row] = r * d
        hessian[row] = r * (r if r > 0.5 else 0.5)


@kernel
def pseudohuber_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """t = d / a, clipped to +-1e100; s = 1 + t * t; r = sqrt(s); g = a * (t / r); h = max(1 / (s * r), 0.5 / r)."""
    for row in range(len(scores)):
        t = (scores[row] - label[row]) / a
        t = FAR_AWAY if t > FAR_AWAY else (-FAR_AWAY if t < -FAR_AWAY else t)
        s = 1.0 + t * t
        r = np.sqrt(s)
        h, least = 1.0 / (s * r), 0.5 / r
        gradient[row] = a * (t / r)
        hessian[row] = h if h > least else least


@kernel
def squared_log_error_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """q = 1 + score, clipped to a...b; t = log(q) - log(1 + label); g = t / q; h = (1 - min(t, 0)) / (q * q)."""
    for row in range(len(scores)):
        q = 1.0 + (a if scores[row] < a else (b if scores[row] > b else scores[row]))
        t = log_(q) - log_(1.0 + label[row])
        gradient[row] = t / q
        hessian[row] = (1.0 - (t if t < 0.0 else 0.0)) / (q * q)


@kernel
def logcosh_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """r = tanh(d) / d; g = d * r; h = max(r, 1/64), or max(1 - g * g, 0.5 * r) where a > 0."""
    for row in range(len(scores)):
        d = scores[row] - label[row]
        r = tanh_ratio_(d)
        g = d * r
        gradient[row] = g
        hessian[row] = max(1.0 - g * g, 0.5 * r) if a > 0.0 else max(r, SMALLEST_CURVATURE)


@kernel
def expectile_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """h = b where d >= 0, else a; g = h * d."""
    for row in range(len(scores)):
        d = scores[row] - label[row]
        h = b if d >= 0.0 else a
        gradient[row] = h * d
        hessian[row] = h


@kernel
def bounded_(score: float) -> float:
    """Return the score clipped to +-300: the twin of hornbeam.objectives.log_link.bounded."""
    score = -LARGEST_SCORE if score < -LARGEST_SCORE else score
    return LARGEST_SCORE if score > LARGEST_SCORE else score


@kernel
def poisson_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """e = exp(score); g = e - label; h = e * a."""
    for row in range(len(scores)):
        e = exp_(bounded_(scores[row]))
        gradient[row] = e - label[row]
        hessian[row] = e * a


@kernel
def gamma_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """h = label * exp(-score); g = 1 - h."""
    for row in range(len(scores)):
        h = label[row] * exp_(-bounded_(scores[row]))
        gradient[row] = 1.0 - h
        hessian[row] = h


@kernel
def tweedie_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """t = label * exp(a * score); e = exp(b * score); g = e - t; h = b * e - a * t."""
    for row in range(len(scores)):
        score = bounded_(scores[row])
        t = label[row] * exp_(a * score)
        e = exp_(b * score)
        gradient[row] = e - t
        hessian[row] = b * e - a * t


@kernel
def focal_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """See hornbeam.objectives.focal."""
    for row in range(len(scores)):
        positive = label[row] > 0.0
        z = scores[row] if positive else -scores[row]
        p = sigmoid_(z)
        m = sigmoid_(-z)
        log_p = log_(p)
        factor = (b if positive else 1.0 - b) * exp_(a * log_(m))
        g = factor * (a * (p * log_p) - m)
        bend = (a * log_p) * (m - a * p)
        gradient[row] = g if positive else -g
        hessian[row] = (factor * p) * ((2.0 * a + 1.0) * m + (bend if bend > 0.0 else 0.0))


@kernel
def hinge_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """y = 2 * label - 1; where y * score < 1: g = -y, h = 1; else both are 0."""
    for row in range(len(scores)):
        y = 2.0 * label[row] - 1.0
        is_near = y * scores[row] < 1.0
        gradient[row] = -y if is_near else 0.0
        hessian[row] = 1.0 if is_near else 0.0


@kernel
def cross_entropy_lambda_kernel(
    a: float, b: float, scores: FloatArray, label: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """p = sigmoid(score); g = p - label; h = p * (1 - p)."""
    for row in range(len(scores)):
        p = sigmoid_(scores[row])
        gradient[row] = p - label[row]
        hessian[row] = p * (1.0 - p)


@kernel
def cross_entropy_lambda_weighted_kernel(
    scores: FloatArray, label: FloatArray, weight: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """See hornbeam.objectives.cross_entropy_lambda."""
    for row in range(len(scores)):
        score = bounded_(scores[row])
        p = sigmoid_(score)
        m = sigmoid_(-score)
        prediction = softplus_(score)
        x = weight[row] * prediction
        q = exp_(-x)
        d = 1.0 - q
        ratio = 1.0 if d == 0.0 else (x if d == 1.0 else -log_(q) / (1.0 if d == 0.0 else d))
        t = (p / prediction) * ratio
        a = weight[row] * p
        h = a * m + label[row] * (t * (t * q - m))
        gradient[row] = a - label[row] * t
        hessian[row] = h if h > 0.0 else 0.0


POINTWISE_KERNELS: dict[str, Callable[..., None]] = {
    "regression_l1": absolute_error_kernel,
    "mape": percentage_error_kernel,
    "quantile": quantile_kernel,
    "huber": huber_kernel,
    "squared_log_error": squared_log_error_kernel,
    "fair": fair_kernel,
    "pseudohuber": pseudohuber_kernel,
    "logcosh": logcosh_kernel,
    "expectile": expectile_kernel,
    "poisson": poisson_kernel,
    "gamma": gamma_kernel,
    "tweedie": tweedie_kernel,
    "focal": focal_kernel,
    "hinge": hinge_kernel,
    "cross_entropy_lambda": cross_entropy_lambda_kernel,
}
"""The kernel of each pointwise objective."""


@kernel
def exp_link_kernel(raw: FloatArray, out: FloatArray) -> None:
    """out = exp(raw); both float64 (n,)."""
    for row in range(len(raw)):
        out[row] = exp_(raw[row])


@kernel
def softplus_link_kernel(raw: FloatArray, out: FloatArray) -> None:
    """out = log(1 + exp(raw)); both float64 (n,)."""
    for row in range(len(raw)):
        out[row] = softplus_(raw[row])

"""Losses of one prediction and one label: twins of `MeanLoss.losses` in `hornbeam.metrics`, bit for bit.

A kernel has one signature: the constants a and b of the metric, and float64 (n,) arrays: label and predictions in, out
overwritten. Only the kernels that are used are compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.losses.numerics import exp_, log_, log_loss_, softplus_
from hornbeam.backends.cpu.losses.survival import aft_loss_kernel, within_bounds_kernel
from hornbeam.metrics.amounts import SMALLEST_MEAN

FloatArray = NDArray[np.float64]


@kernel
def mape_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = |label - prediction| / max(1, |label|)."""
    for row in range(len(label)):
        size = abs(label[row])
        out[row] = abs(label[row] - predictions[row]) / (size if size > 1.0 else 1.0)


@kernel
def quantile_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = -b * d where d = label - prediction < 0, else a * d."""
    for row in range(len(label)):
        d = label[row] - predictions[row]
        out[row] = -b * d if d < 0.0 else a * d


@kernel
def expectile_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = (b where d = prediction - label >= 0, else a) * (d * d)."""
    for row in range(len(label)):
        d = predictions[row] - label[row]
        out[row] = (b if d >= 0.0 else a) * (d * d)


@kernel
def huber_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """t = |prediction - label|; out = 0.5 * (t * t) where t <= a, else a * (t - 0.5 * a)."""
    for row in range(len(label)):
        t = abs(predictions[row] - label[row])
        out[row] = 0.5 * (t * t) if t <= a else a * (t - 0.5 * a)


@kernel
def fair_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """t = |prediction - label|; out = a * t - b * log(1 + t / a)."""
    for row in range(len(label)):
        t = abs(predictions[row] - label[row])
        out[row] = a * t - b * log_(1.0 + t / a)


@kernel
def pseudohuber_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """t = (prediction - label) / a; out = b * (sqrt(1 + t * t) - 1)."""
    for row in range(len(label)):
        t = (predictions[row] - label[row]) / a
        out[row] = b * (np.sqrt(1.0 + t * t) - 1.0)


@kernel
def squared_log_error_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """p = max(prediction, a); t = log(1 + p) - log(1 + label); out = t * t."""
    for row in range(len(label)):
        p = a if predictions[row] < a else predictions[row]
        t = log_(1.0 + p) - log_(1.0 + label[row])
        out[row] = t * t


@kernel
def logcosh_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """t = |prediction - label|; out = t + log(0.5 * (1 + exp(-(t + t))))."""
    for row in range(len(label)):
        t = abs(predictions[row] - label[row])
        out[row] = t + log_(0.5 * (1.0 + exp_(-(t + t))))


@kernel
def mean_(prediction: float) -> float:
    """Return the prediction, raised to 1e-10; NaN stays NaN."""
    return SMALLEST_MEAN if prediction < SMALLEST_MEAN else prediction


@kernel
def poisson_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = m - label * log(m)."""
    for row in range(len(label)):
        m = mean_(predictions[row])
        out[row] = m - label[row] * log_(m)


@kernel
def gamma_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = label / m + log(m)."""
    for row in range(len(label)):
        m = mean_(predictions[row])
        out[row] = label[row] / m + log_(m)


@kernel
def gamma_deviance_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """t = label / m; out = 2 * (t - log(t) - 1)."""
    for row in range(len(label)):
        t = label[row] / mean_(predictions[row])
        out[row] = 2.0 * ((t - log_(t)) - 1.0)


@kernel
def tweedie_(a: float, b: float, y: float, m: float) -> float:
    """Return exp(b * log(m)) / b - (y * exp(a * log(m))) / a; for a = 0: m - y * log(m)."""
    log_m = log_(m)
    if a == 0.0:
        return m - y * log_m
    loss: float = exp_(b * log_m) / b - (y * exp_(a * log_m)) / a
    return loss if m == m else m


@kernel
def tweedie_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = the loss of `TweedieLoss`."""
    for row in range(len(label)):
        out[row] = tweedie_(a, b, label[row], mean_(predictions[row]))


@kernel
def tweedie_deviance_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = the deviance of `TweedieDeviance`."""
    for row in range(len(label)):
        y = label[row]
        m = mean_(predictions[row])
        if a == 0.0:
            out[row] = 2.0 * ((y * log_(y / m) - y) + m)
        else:
            power = exp_(b * log_(y)) if y > 0.0 else 0.0
            out[row] = 2.0 * (power / (a * b) + tweedie_(a, b, y, m))


@kernel
def cross_entropy_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = y * -log(p) + (1 - y) * -log(1 - p), clipped."""
    for row in range(len(label)):
        y = label[row]
        p = predictions[row]
        out[row] = y * log_loss_(p) + (1.0 - y) * log_loss_(1.0 - p)


@kernel
def kullback_leibler_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = cross entropy of the prediction - cross entropy of the label itself."""
    for row in range(len(label)):
        y = label[row]
        p = predictions[row]
        crossed = y * log_loss_(p) + (1.0 - y) * log_loss_(1.0 - p)
        out[row] = crossed - (y * log_loss_(y) + (1.0 - y) * log_loss_(1.0 - y))


@kernel
def cross_entropy_lambda_kernel(a: float, b: float, label: FloatArray, scores: FloatArray, out: FloatArray) -> None:
    """q = exp(-w * log(1 + exp(score))); out = y * -log(1 - q) + (1 - y) * -log(q), clipped; label is (y, w)."""
    for row in range(len(scores)):
        y = label[0, row]
        q = exp_(-(label[1, row] * softplus_(scores[row])))
        out[row] = y * log_loss_(1.0 - q) + (1.0 - y) * log_loss_(q)


@kernel
def focal_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = (w * exp(a * log(1 - q))) * -log(q)."""
    for row in range(len(label)):
        positive = label[row] > 0.0
        q = predictions[row] if positive else 1.0 - predictions[row]
        weight = b if positive else 1.0 - b
        out[row] = (weight * exp_(a * log_(1.0 - q))) * log_loss_(q)


POINTWISE_LOSSES: dict[str, Callable[..., None]] = {
    "mape": mape_kernel,
    "quantile": quantile_kernel,
    "expectile": expectile_kernel,
    "huber": huber_kernel,
    "rmsle": squared_log_error_kernel,
    "fair": fair_kernel,
    "pseudohuber": pseudohuber_kernel,
    "logcosh": logcosh_kernel,
    "poisson": poisson_kernel,
    "gamma": gamma_kernel,
    "gamma_deviance": gamma_deviance_kernel,
    "tweedie": tweedie_kernel,
    "tweedie_deviance": tweedie_deviance_kernel,
    "cross_entropy": cross_entropy_kernel,
    "kullback_leibler": kullback_leibler_kernel,
    "cross_entropy_lambda": cross_entropy_lambda_kernel,
    "focal": focal_kernel,
    "aft-nloglik": aft_loss_kernel,
    "interval-regression-accuracy": within_bounds_kernel,
}
"""The kernel of each metric with constants."""

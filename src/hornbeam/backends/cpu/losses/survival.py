"""Gradients and losses of times that may be censored: twins of objectives/aft.py and objectives/cox.py, bit for bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import kernel
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.losses.numerics import exp_, log_, sigmoid_
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.core.numerics import BERNOULLI_COEFFICIENTS, BERNOULLI_LARGE, BERNOULLI_SMALL, MILLS_COEFFICIENTS
from hornbeam.core.running_sums import running_sums
from hornbeam.objectives.aft import (
    FARTHEST,
    LARGEST_GRADIENT,
    LARGEST_HESSIAN,
    NARROW,
    ROOT_TAU,
    SMALLEST_HESSIAN,
    SMALLEST_LIKELIHOOD,
    AftObjective,
)
from hornbeam.objectives.cox import LOWEST_EXPONENT, SMALLEST_SUM, CoxObjective, RiskSets

FloatArray = NDArray[np.float64]

NO_WEIGHT = np.empty(0, np.float64)
"""Stands for absent weights in kernels."""

# one name a coefficient: see numerics.py
M22, M21, M20, M19, M18, M17, M16, M15, M14, M13, M12, M11, M10, M9, M8, M7, M6, M5, M4, M3, M2, M1, M0 = (
    MILLS_COEFFICIENTS
)
B5, B4, B3, B2, B1, B0 = BERNOULLI_COEFFICIENTS


def compute_survival_gradients(
    objective: AftObjective | CoxObjective,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray | None,
    out: tuple[FloatArray, FloatArray],
    n_threads: int,
) -> None:
    """Compute what `objective.gradients` returns.

    scores  float64 (n_rows,)  in
    label   float64 (n_rows,)  in   as `prepare` returns it: (2, n_rows) of survival:aft
    weight  float64 (n_rows,)  in   or None
    out     gradient and hessian, each float64 (n_rows,)  out, overwritten
    """
    w = NO_WEIGHT if weight is None else weight
    smallest, n_rows = in_use().gradient_rows_per_thread, len(scores)
    gradient, hessian = out
    if isinstance(objective, CoxObjective):
        assert objective.risk_sets is not None
        _cox_gradients(objective.risk_sets, scores, w, out, n_threads)
        return
    number, inverse = objective.constants

    def part(start: int, stop: int) -> None:
        rows = slice(start, stop)
        own = w[rows] if len(w) else w
        aft_kernel(number, inverse, scores[rows], label[:, rows], own, gradient[rows], hessian[rows])

    run_ranges(part, n_rows, n_threads, smallest)


def _cox_gradients(
    sets: RiskSets, scores: FloatArray, weight: FloatArray, out: tuple[FloatArray, FloatArray], n_threads: int
) -> None:
    """Compute the gradients of survival:cox; running sums are NumPy's."""
    n_rows, smallest = len(scores), in_use().gradient_rows_per_thread
    highest = float(scores.max())
    risk = np.empty(n_rows)
    run_ranges(
        lambda start, stop: risk_kernel(highest, scores, weight, sets.order[start:stop], risk[start:stop]),
        n_rows, n_threads, smallest,
    )  # fmt: skip
    sums = running_sums(risk)
    share, square = np.empty(n_rows), np.empty(n_rows)
    run_ranges(
        lambda start, stop: share_kernel(
            sums, weight, sets.order[start:stop], sets.sharing[start:stop], sets.event[start:stop],
            share[start:stop], square[start:stop],
        ),
        n_rows, n_threads, smallest,
    )  # fmt: skip
    first, second = running_sums(share[::-1]), running_sums(square[::-1])

    def part(start: int, stop: int) -> None:
        rows = sets.order[start:stop], sets.following[start:stop], sets.event[start:stop]
        cox_kernel(risk[start:stop], first, second, rows, weight, *out)

    run_ranges(part, n_rows, n_threads, smallest)


@kernel
def mills_ratio_(t: float) -> float:
    """Return the upper tail of the normal distribution by its density: the twin of `core.numerics.mills_ratio`."""
    p = (t - 4.0) / (t + 4.0)
    r = M22 * p + M21
    r = r * p + M20
    r = r * p + M19
    r = r * p + M18
    r = r * p + M17
    r = r * p + M16
    r = r * p + M15
    r = r * p + M14
    r = r * p + M13
    r = r * p + M12
    r = r * p + M11
    r = r * p + M10
    r = r * p + M9
    r = r * p + M8
    r = r * p + M7
    r = r * p + M6
    r = r * p + M5
    r = r * p + M4
    r = r * p + M3
    r = r * p + M2
    r = r * p + M1
    r = r * p + M0
    return r / (1.0 + t)


@kernel
def bernoulli_ratio_(x: float) -> float:
    """Return x / (exp(x) - 1): the twin of `core.numerics.bernoulli_ratio`."""
    if x < BERNOULLI_SMALL:
        z = x * x
        s = B5 * z + B4
        s = s * z + B3
        s = s * z + B2
        s = s * z + B1
        s = s * z + B0
        return s - 0.5 * x
    if x > BERNOULLI_LARGE:
        return 0.0
    return x / (exp_(x) - 1.0)


@kernel
def apart_(bound: float, score: float, inverse: float) -> float:
    """Return z of a bound, clipped: `aft.times_apart`."""
    z = (bound - score) * inverse
    z = -FARTHEST if z < -FARTHEST else z
    return FARTHEST if z > FARTHEST else z


@kernel
def slopes_(number: int, low: float, high: float) -> tuple[float, float]:
    """Return r and c of a distribution: `aft.SLOPES`."""
    if number == 0:
        mirrored = low + high < 0.0
        a = -high if mirrored else low
        b = -low if mirrored else high
        if b - a < NARROW:
            r = -0.5 * (a + b)
            return (-r if mirrored else r), 1.0
        e = exp_(-0.5 * ((b - a) * (b + a)))
        near = mills_ratio_(abs(a))
        far = e * mills_ratio_(b)
        difference = (ROOT_TAU * exp_(0.5 * (a * a)) - near) - far if a < 0.0 else near - far
        r = (e - 1.0) / difference
        c = (b * e - a) / difference + r * r
        return (-r if mirrored else r), c
    if number == 1:
        below = sigmoid_(low)
        above = sigmoid_(-high)
        return above - below, below * (1.0 - below) + above * (1.0 - above)
    w = exp_(low)
    d = exp_(high) - w
    ratio = bernoulli_ratio_(d)
    return ratio - w, w + ratio * ((ratio + d) - 1.0)


@kernel
def aft_kernel(
    number: int,
    inverse: float,
    scores: FloatArray,
    bounds: FloatArray,
    weight: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Gradients of survival:aft: `AftObjective.gradients`.

    scores             float64 (n,)          in
    bounds             float64 (2, n)        in   logarithms
    weight             float64 (n,) or (0,)  in   empty: no weights
    gradient, hessian  float64 (n,)          out, overwritten
    """
    square = inverse * inverse
    for row in range(len(scores)):
        low = apart_(bounds[0, row], scores[row], inverse)
        high = apart_(bounds[1, row], scores[row], inverse)
        r, c = slopes_(number, low, high)
        g = r * inverse
        g = -LARGEST_GRADIENT if g < -LARGEST_GRADIENT else g
        g = LARGEST_GRADIENT if g > LARGEST_GRADIENT else g
        h = c * square
        h = SMALLEST_HESSIAN if h < SMALLEST_HESSIAN else h
        h = LARGEST_HESSIAN if h > LARGEST_HESSIAN else h
        if len(weight):
            g = g * weight[row]
            h = h * weight[row]
        gradient[row] = g
        hessian[row] = h


@kernel
def parts_(number: int, low: float, high: float) -> tuple[float, float]:
    """Return the density at `low` and the probability between: `aft.PARTS`."""
    if number == 0:
        mirrored = low + high < 0.0
        a = -high if mirrored else low
        b = -low if mirrored else high
        e = exp_(-0.5 * ((b - a) * (b + a)))
        near = mills_ratio_(abs(a))
        far = e * mills_ratio_(b)
        density = exp_(-0.5 * (a * a)) / ROOT_TAU
        between = (1.0 - density * near) - density * far if a < 0.0 else density * (near - far)
        return exp_(-0.5 * (low * low)) / ROOT_TAU, between
    if number == 1:
        below = sigmoid_(low)
        above = sigmoid_(-low)
        return below * above, (above - sigmoid_(-high) if low > 0.0 else sigmoid_(high) - below)
    w = exp_(low)
    survival = exp_(-w)
    return w * survival, survival * (1.0 - exp_(-(exp_(high) - w)))


@kernel
def aft_loss_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = the loss of `aft.likelihood_losses`; a: number of the distribution, b: 1 / scale; label float64 (2, n)."""
    number = np.int64(a)
    for row in range(len(out)):
        score = predictions[row]
        density, between = parts_(number, apart_(label[0, row], score, b), apart_(label[1, row], score, b))
        likelihood = (density * b) / exp_(label[0, row]) if label[0, row] == label[1, row] else between
        likelihood = SMALLEST_LIKELIHOOD if likelihood < SMALLEST_LIKELIHOOD else likelihood
        loss = -log_(likelihood)
        out[row] = loss if score == score else score


@kernel
def within_bounds_kernel(a: float, b: float, label: FloatArray, predictions: FloatArray, out: FloatArray) -> None:
    """out = 1 where the score lies between the bounds, else 0, NaN where it is; label float64 (2, n)."""
    for row in range(len(out)):
        score = predictions[row]
        within = 1.0 if label[0, row] <= score and score <= label[1, row] else 0.0
        out[row] = within if score == score else score


@kernel
def risk_kernel(
    highest: float, scores: FloatArray, weight: FloatArray, order: NDArray[np.uint32], risk: FloatArray
) -> None:
    """Risks of some places: `RiskSets.risks`.

    scores  float64 (n_rows,)          in
    weight  float64 (n_rows,) or (0,)  in   empty: no weights
    order   uint32 (n,)                in   rows of these places
    risk    float64 (n,)               out, overwritten
    """
    for place in range(len(order)):
        apart = scores[order[place]] - highest
        e = exp_(LOWEST_EXPONENT if apart < LOWEST_EXPONENT else apart)
        risk[place] = e * weight[order[place]] if len(weight) else e


@kernel
def share_kernel(
    sums: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    sharing: NDArray[np.uint32],
    event: NDArray[np.uint8],
    share: FloatArray,
    square: FloatArray,
) -> None:
    """q = w / D and p = q / D of the events of some places, 0 of others: `CoxObjective.gradients`.

    sums                   float64 (n_rows,)          in   running sums of the risks
    weight                 float64 (n_rows,) or (0,)  in   empty: no weights
    order, sharing, event  uint32, uint32, uint8 (n,)  in   of RiskSets, of these places
    share, square          float64 (n,)               out, overwritten
    """
    for place in range(len(order)):
        total = sums[sharing[place]]
        total = SMALLEST_SUM if total < SMALLEST_SUM else total
        w = 0.0
        if event[place]:
            w = weight[order[place]] if len(weight) else 1.0
        q = w / total
        share[place] = q
        square[place] = q / total


@kernel
def cox_kernel(
    risk: FloatArray,
    share: FloatArray,
    square: FloatArray,
    rows: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint8]],
    weight: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Write the gradients of the rows of some places: `CoxObjective.gradients`.

    risk               float64 (n,)               in   of these places
    share, square      float64 (n_rows,)          in   running sums of `share_kernel`'s, in the reverse order
    rows               order, following and event of RiskSets, each (n,)  in   of these places
    weight             float64 (n_rows,) or (0,)  in   empty: no weights
    gradient, hessian  float64 (n_rows,)          out  of the rows of these places
    """
    order, following, event = rows
    for place in range(len(order)):
        row = order[place]
        e = risk[place]
        first = e * share[following[place]]
        second = (e * e) * square[following[place]]
        w = 0.0
        if event[place]:
            w = weight[row] if len(weight) else 1.0
        h = first - second
        gradient[row] = first - w
        hessian[row] = h if h > 0.0 else 0.0

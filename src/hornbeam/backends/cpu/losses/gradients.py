"""Gradients and link functions on the CPU: multi-threaded twins of `hornbeam.objectives`, equal to them bit for bit.

Every kernel works on a slice of the rows that its caller cut out, and counts rows from zero: Numba then knows that no
index is negative, and the loops vectorise. Rows are independent, so the number of threads cannot be seen in the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.host.kernels import allocating_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts, share_of
from hornbeam.backends.cpu.host.threads import run_ranges
from hornbeam.backends.cpu.losses.numerics import exp_, sigmoid_
from hornbeam.backends.cpu.tuning import in_use
from hornbeam.objectives import (
    AftObjective,
    BinaryObjective,
    CoxObjective,
    MulticlassObjective,
    Objective,
    OneVsAllObjective,
    PointwiseObjective,
    QuantileListObjective,
    RankingObjective,
    RegressionObjective,
    TargetsObjective,
)
from hornbeam.objectives.targets import of_output

FloatArray = NDArray[np.float64]

TILE = 512
"""Rows of a multiclass tile: the running maximum and the running sum of a tile stay in the first-level cache."""

NO_WEIGHT = np.empty(0, np.float64)
"""Stands for absent weights in kernels, which take an array of one type."""


def gradient_task(
    objective: Objective,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray | None,
    gradient_out: FloatArray,
    hessian_out: FloatArray,
    n_threads: int,
) -> Callable[[], None]:
    """Return what computes gradients, as often as it is called: see compute_gradients.

    On small data it takes as long to look what is to be done as to do it.
    """
    n_parts = max(1, min(n_threads, scores.shape[1] // in_use().gradient_rows_per_thread))
    w = NO_WEIGHT if weight is None else weight
    if isinstance(objective, MulticlassObjective):
        whole = objective.hessian_factor, scores, label, w, gradient_out, hessian_out
        return partial(run_parts, multiclass_part, n_parts, *whole)
    given = scores[0], label, w, gradient_out[0], hessian_out[0]
    if isinstance(objective, RegressionObjective):
        return partial(run_parts, regression_part, n_parts, *given)
    if isinstance(objective, BinaryObjective):
        return partial(run_parts, binary_part, n_parts, objective.sigmoid, *given)
    return partial(_compute_others, objective, scores, label, weight, gradient_out, hessian_out, n_threads)


def compute_gradients(
    objective: Objective,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray | None,
    gradient_out: FloatArray,
    hessian_out: FloatArray,
    n_threads: int,
) -> None:
    """Compute what `objective.gradients(scores, label, weight)` returns, into the given arrays.

    scores        float64 (n_outputs, n_rows)  in   C order
    label         float64 (n_rows,)            in   contiguous; (2, n_rows) of survival:aft
    weight        float64 (n_rows,)            in   contiguous, or None; (n_outputs, n_rows) where the objective says so
    gradient_out  float64 (n_outputs, n_rows)  out, overwritten; C order
    hessian_out   float64 (n_outputs, n_rows)  out, overwritten; C order
    n_threads     1 or more

    An objective without kernels goes through its NumPy definition.
    """
    gradient_task(objective, scores, label, weight, gradient_out, hessian_out, n_threads)()


def _compute_others(
    objective: Objective,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray | None,
    gradient_out: FloatArray,
    hessian_out: FloatArray,
    n_threads: int,
) -> None:
    """Compute the gradients of objectives that are more than one kernel."""
    if isinstance(objective, RankingObjective):
        from hornbeam.backends.cpu.losses.ranking import compute_ranking_gradients

        compute_ranking_gradients(objective, scores, weight, gradient_out, hessian_out, n_threads)
        return
    if isinstance(objective, QuantileListObjective):
        for k, part_of in enumerate(objective.parts):
            rows = scores[k : k + 1], label, weight, gradient_out[k : k + 1], hessian_out[k : k + 1]
            compute_gradients(part_of, *rows, n_threads)
        return
    if isinstance(objective, TargetsObjective):
        for k, of_column in enumerate(objective.parts):
            rows = scores[k : k + 1], label[k], of_output(weight, k), gradient_out[k : k + 1], hessian_out[k : k + 1]
            compute_gradients(of_column, *rows, n_threads)
        return
    if isinstance(objective, (AftObjective, CoxObjective)):
        from hornbeam.backends.cpu.losses.survival import compute_survival_gradients

        compute_survival_gradients(objective, scores[0], label, weight, (gradient_out[0], hessian_out[0]), n_threads)
        return

    w = NO_WEIGHT if weight is None else weight

    def part(start: int, stop: int) -> None:
        rows = slice(start, stop)
        own_w = w[..., rows]
        if isinstance(objective, OneVsAllObjective):
            for k in range(objective.n_outputs):
                own = (label[rows] == k).astype(np.float64)
                of_class = own_w[k] if own_w.ndim == 2 else own_w
                binary_kernel(
                    objective.sigmoid, scores[k, rows], own, of_class, gradient_out[k, rows], hessian_out[k, rows]
                )
        elif isinstance(objective, PointwiseObjective):
            pointwise_part(objective, scores[0, rows], label[rows], own_w, gradient_out[0, rows], hessian_out[0, rows])

    if isinstance(objective, (OneVsAllObjective, PointwiseObjective)):
        run_ranges(part, scores.shape[1], n_threads, in_use().gradient_rows_per_thread)
    else:
        gradient_out[:], hessian_out[:] = objective.gradients(scores, label, weight)


def pointwise_part(
    objective: PointwiseObjective,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Compute some rows of a pointwise objective; arrays as those of `regression_kernel`."""
    from hornbeam.backends.cpu.losses.pointwise import (
        POINTWISE_KERNELS,
        cross_entropy_lambda_weighted_kernel,
        weigh_kernel,
    )

    if len(weight) and objective.name == "cross_entropy_lambda":
        cross_entropy_lambda_weighted_kernel(scores, label, weight, gradient, hessian)
        return
    POINTWISE_KERNELS[objective.name](*objective.constants, scores, label, gradient, hessian)
    if len(weight):
        weigh_kernel(gradient, weight)
        weigh_kernel(hessian, weight)


def transform_scores(objective: Objective, raw: FloatArray, n_threads: int) -> FloatArray:
    """Compute what `objective.transform(raw)` returns.

    raw  float64 (n_outputs, n_rows)  in   C order

    The result is float64 (n_outputs, n_rows), a new array unless the link is the identity.
    """
    if objective.link not in ("sigmoid", "softmax", "exp", "softplus"):
        return objective.transform(raw)
    from hornbeam.backends.cpu.losses.pointwise import exp_link_kernel, softplus_link_kernel

    out, smallest = np.empty_like(raw), in_use().gradient_rows_per_thread
    if objective.link == "softmax":
        run_ranges(lambda start, stop: softmax_kernel(raw, start, stop, out), raw.shape[1], n_threads, smallest)
        return out
    flat, flat_out = raw.reshape(-1), out.reshape(-1)
    sigmoid = getattr(objective, "sigmoid", 1.0)

    def part(start: int, stop: int) -> None:
        if objective.link == "exp":
            exp_link_kernel(flat[start:stop], flat_out[start:stop])
        elif objective.link == "softplus":
            softplus_link_kernel(flat[start:stop], flat_out[start:stop])
        else:
            probability_kernel(sigmoid, flat[start:stop], flat_out[start:stop])

    run_ranges(part, raw.size, n_threads, smallest)
    return out


@kernel
def regression_kernel(
    scores: FloatArray, label: FloatArray, weight: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> None:
    """Gradients of the squared error: g = score - label, h = 1; times the weight.

    scores, label      float64 (n,)       in
    weight             float64 (n,) or (0,)  in   empty: no weights
    gradient, hessian  float64 (n,)       out, overwritten
    """
    n_rows = len(scores)
    if len(weight) == 0:
        for row in range(n_rows):
            gradient[row] = scores[row] - label[row]
            hessian[row] = 1.0
    else:
        for row in range(n_rows):
            gradient[row] = (scores[row] - label[row]) * weight[row]
            hessian[row] = weight[row]


@kernel
def binary_kernel(
    sigmoid: float,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Gradients of the logistic loss: g = s * (p - label), h = ((s * s) * p) * (1 - p); times the weight.

    scores, label      float64 (n,)       in
    weight             float64 (n,) or (0,)  in   empty: no weights
    gradient, hessian  float64 (n,)       out, overwritten
    """
    n_rows = len(scores)
    square = sigmoid * sigmoid
    if len(weight) == 0:
        for row in range(n_rows):
            p = sigmoid_(sigmoid * scores[row])
            gradient[row] = sigmoid * (p - label[row])
            hessian[row] = (square * p) * (1.0 - p)
    else:
        for row in range(n_rows):
            p = sigmoid_(sigmoid * scores[row])
            gradient[row] = (sigmoid * (p - label[row])) * weight[row]
            hessian[row] = ((square * p) * (1.0 - p)) * weight[row]


@kernel
def probability_kernel(sigmoid: float, raw: FloatArray, out: FloatArray) -> None:
    """Logistic link: out = 1 / (1 + exp(-(s * raw))).

    raw  float64 (n,)  in
    out  float64 (n,)  out, overwritten
    """
    for row in range(len(raw)):
        out[row] = sigmoid_(sigmoid * raw[row])


@allocating_kernel
def softmax_kernel(raw: FloatArray, start: int, stop: int, out: FloatArray) -> None:
    """Softmax of the rows [start, stop): subtract the maximum, exp, add in class order, divide.

    raw  float64 (n_outputs, n_rows)  in   C order
    out  float64 (n_outputs, n_rows)  out; the rows [start, stop) are overwritten
    """
    n_outputs = raw.shape[0]
    tile_max = np.empty(TILE)
    tile_sum = np.empty(TILE)
    for tile in range(start, stop, TILE):
        end = min(tile + TILE, stop)
        for i in range(TILE):
            tile_max[i] = -np.inf
            tile_sum[i] = 0.0
        for k in range(n_outputs):
            source = raw[k, tile:end]
            for i in range(len(source)):
                tile_max[i] = source[i] if source[i] > tile_max[i] else tile_max[i]
        for k in range(n_outputs):
            source = raw[k, tile:end]
            target = out[k, tile:end]
            for i in range(len(source)):
                e = exp_(source[i] - tile_max[i])
                target[i] = e
                tile_sum[i] += e  # the first is 0.0 + e, which is e
        for k in range(n_outputs):
            target = out[k, tile:end]
            for i in range(len(target)):
                target[i] = target[i] / tile_sum[i]


@kernel
def multiclass_kernel(
    factor: float,
    scores: FloatArray,
    label: FloatArray,
    weight: FloatArray,
    start: int,
    stop: int,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Gradients of the softmax loss, rows [start, stop): g = p - (label == k), h = (f * p) * (1 - p); times the weight.

    scores             float64 (n_outputs, n_rows)      in   C order
    label              float64 (n_rows,)                in
    weight             float64 (n_rows,) or (0,)        in   empty: no weights
    gradient, hessian  float64 (n_outputs, n_rows)      out; the rows [start, stop) are overwritten
    """
    for tile in range(start, stop, TILE):  # tile by tile, so that the probabilities are still in the cache
        end = min(tile + TILE, stop)
        softmax_kernel(scores, tile, end, gradient)
        for k in range(scores.shape[0]):
            g = gradient[k, tile:end]
            h = hessian[k, tile:end]
            y = label[tile:end]
            if len(weight) == 0:
                for i in range(len(g)):
                    p = g[i]
                    g[i] = p - (1.0 if y[i] == k else 0.0)
                    h[i] = (factor * p) * (1.0 - p)
            else:
                w = weight[tile:end]
                for i in range(len(g)):
                    p = g[i]
                    g[i] = (p - (1.0 if y[i] == k else 0.0)) * w[i]
                    h[i] = ((factor * p) * (1.0 - p)) * w[i]


@kernel
def regression_part(t, crew, scores, label, weight, gradient, hessian):
    """Do one thread's rows of regression_kernel; see team.py."""
    call_helpers(t, crew, (scores, label, weight, gradient, hessian))
    first, last = share_of(len(scores), t, crew.size)
    own_weight = weight[first:last] if len(weight) else weight
    regression_kernel(
        scores[first:last], label[first:last], own_weight, gradient[first:last], hessian[first:last]
    )  # fmt: skip


@kernel
def binary_part(t, crew, sigmoid, scores, label, weight, gradient, hessian):
    """Do one thread's rows of binary_kernel; see team.py."""
    call_helpers(t, crew, (sigmoid, scores, label, weight, gradient, hessian))
    first, last = share_of(len(scores), t, crew.size)
    own_weight = weight[first:last] if len(weight) else weight
    binary_kernel(
        sigmoid, scores[first:last], label[first:last], own_weight, gradient[first:last], hessian[first:last]
    )  # fmt: skip


@kernel
def multiclass_part(t, crew, factor, scores, label, weight, gradient, hessian):
    """Do one thread's rows of multiclass_kernel; see team.py."""
    call_helpers(t, crew, (factor, scores, label, weight, gradient, hessian))
    first, last = share_of(len(label), t, crew.size)
    multiclass_kernel(factor, scores, label, weight, first, last, gradient, hessian)

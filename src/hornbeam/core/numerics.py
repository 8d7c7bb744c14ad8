"""Elementary functions that give the same bits on every device.

libm differs between platforms in the last bit, so the few transcendental functions of the library are built here from
`+ - * /`, `floor`, comparisons and exponent bits, in a fixed order. These are the NumPy definitions; each backend has
a twin that the tests compare with `==`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # 33 leading bits of ln 2: k * LN2_HIGH is exact for |k| < 2**20
LN2_LOW = 1.90821492927058770002e-10
LN2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476

EXP_LIMIT = 708.0
"""`exp` clamps its argument to +-EXP_LIMIT, so that the result is a normal, finite number."""

# 1/13!, 1/12!, ..., 1/1!, 1/0!; written as literals in every twin
EXP_COEFFICIENTS = (
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

# log(m) = 2 s (1 + z/3 + z^2/5 + ...), s = (m - 1)/(m + 1), z = s^2; highest power first
LOG_COEFFICIENTS = (
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

# tanh(x) / x = 1 - x^2/3 + 2 x^4/15 - ...; highest power first
TANH_COEFFICIENTS = (
    0.003592128036572481,
    -0.008863235529902197,
    0.021869488536155203,
    -0.05396825396825397,
    0.13333333333333333,
    -0.3333333333333333,
    1.0,
)
TANH_SMALL = 0.125
"""Below this the power series of tanh is used: its next term is below 1e-15."""

# (1 + t) * (upper tail of the normal distribution at t) / (its density at t), t >= 0, as a polynomial in
# (t - 4) / (t + 4), highest power first: interpolated at Chebyshev nodes
MILLS_COEFFICIENTS = (
    -3.986306042239594e-09,
    3.944242628932816e-09,
    4.4337629856493366e-08,
    -2.0416884478429364e-08,
    -2.7775010057543326e-07,
    -3.81945638759123e-08,
    1.3825460500000452e-06,
    1.0510235287484173e-06,
    -6.548558179103517e-06,
    -8.624671593728754e-06,
    3.41569782984747e-05,
    5.3274076661035984e-05,
    -0.00022021512394531682,
    -0.00023670351432175782,
    0.001741848705711217,
    -0.0007159506400916629,
    -0.012539103614686712,
    0.04495912905478871,
    -0.08070800967927583,
    0.07169048120230266,
    0.0350918802347507,
    -0.24239967052181807,
    1.1832619145678034,
)

# x / (exp(x) - 1) + x / 2 in powers of x^2; highest power first
BERNOULLI_COEFFICIENTS = (
    2.08767569878681e-08,
    -8.267195767195768e-07,
    3.306878306878307e-05,
    -0.001388888888888889,
    0.08333333333333333,
    1.0,
)
BERNOULLI_SMALL = 0.25
"""Below this the power series of x / (exp(x) - 1) is used: its next term is below 1e-16."""

BERNOULLI_LARGE = 700.0
"""Above this x / (exp(x) - 1) counts as 0; `exp` ends at 708."""

SMALLEST_NORMAL = 2.2250738585072014e-308


def exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e**x, for x clamped to +-708; relative error below 1e-15.

    x  float64 (...)  in
    """
    x = np.minimum(np.maximum(np.asarray(x, np.float64), -EXP_LIMIT), EXP_LIMIT)
    k = np.floor(x * LOG2_E + 0.5)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = np.full_like(x, EXP_COEFFICIENTS[0])
    for coefficient in EXP_COEFFICIENTS[1:]:
        p = p * r + coefficient
    with np.errstate(invalid="ignore"):  # NaN has no exponent; p is NaN there already
        power = ((k.astype(np.int64) + 1023) << 52).view(np.float64)
    return np.asarray(p * power)


def log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the natural logarithm of x >= 0; values below the smallest normal number count as that number.

    x  float64 (...)  in
    """
    x = np.maximum(np.asarray(x, np.float64), SMALLEST_NORMAL)
    bits = x.view(np.int64)
    k = ((bits >> 52) - 1022).astype(np.float64)
    m = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000).view(np.float64)  # in [0.5, 1)
    low = m < SQRT_HALF
    m = np.where(low, m + m, m)
    k = np.where(low, k - 1.0, k)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = np.full_like(x, LOG_COEFFICIENTS[0])
    for coefficient in LOG_COEFFICIENTS[1:]:
        p = p * z + coefficient
    return np.asarray(k * LN2_HIGH + (k * LN2_LOW + 2.0 * s * p))


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + exp(-np.asarray(x, np.float64))))


def softplus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(1 + exp(x)); relative error below 1e-15.

    x  float64 (...)  in

    e = exp(-|x|); u = 1 + e; d = u - 1; max(x, 0) + (e where d is 0, else log(u) * (e / d)): what u has lost of e by
    rounding is lost in d, too.
    """
    x = np.asarray(x, np.float64)
    e = exp(-np.abs(x))
    u = 1.0 + e
    d = u - 1.0
    return np.asarray(np.maximum(x, 0.0) + np.where(d == 0.0, e, log(u) * (e / np.where(d == 0.0, 1.0, d))))


def softplus_inverse(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(exp(y) - 1) for y > 0: y + log(1 - exp(-y)).

    y  float64 (...)  in
    """
    q = exp(-np.asarray(y, np.float64))
    d = 1.0 - q
    exact = np.where(d == 0.0, y, np.where(d == 1.0, 1.0, d * (y / np.where(d == 0.0, 1.0, -log(q)))))
    return np.asarray(y + log(exact))


def log2(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of x >= 0 to the base 2: log(x) * LOG2_E."""
    return np.asarray(log(x) * LOG2_E)


def tanh_ratio(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return tanh(x) / x, which is 1 for x = 0; relative error below 1e-14.

    x  float64 (...)  in

    Power series in z = x * x where |x| < 1/8; else (1 - 2 / (exp(t + t) + 1)) / t, with t = |x|.
    """
    size = np.abs(np.asarray(x, np.float64))
    small = np.minimum(size, TANH_SMALL)
    z = small * small
    series = np.full_like(size, TANH_COEFFICIENTS[0])
    for coefficient in TANH_COEFFICIENTS[1:]:
        series = series * z + coefficient
    t = np.maximum(size, TANH_SMALL)
    return np.where(size < TANH_SMALL, series, (1.0 - 2.0 / (exp(t + t) + 1.0)) / t)


def mills_ratio(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper tail of the standard normal distribution by its density, at t >= 0; relative error below 1e-15.

    t  float64 (...)  in
    """
    t = np.asarray(t, np.float64)
    p = (t - 4.0) / (t + 4.0)
    ratio = np.full_like(t, MILLS_COEFFICIENTS[0])
    for coefficient in MILLS_COEFFICIENTS[1:]:
        ratio = ratio * p + coefficient
    return np.asarray(ratio / (1.0 + t))


def bernoulli_ratio(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x / (exp(x) - 1) for x >= 0, which is 1 for x = 0; relative error below 1e-14 up to x = 700, then 0.

    x  float64 (...)  in

    Power series in z = x * x where x < 1/4, less 0.5 * x; else x / (exp(x) - 1).
    """
    x = np.asarray(x, np.float64)
    small = np.minimum(x, BERNOULLI_SMALL)
    z = small * small
    series = np.full_like(x, BERNOULLI_COEFFICIENTS[0])
    for coefficient in BERNOULLI_COEFFICIENTS[1:]:
        series = series * z + coefficient
    large = np.maximum(x, BERNOULLI_SMALL)
    ratio = np.where(x > BERNOULLI_LARGE, 0.0, large / (exp(large) - 1.0))
    return np.where(x < BERNOULLI_SMALL, series - 0.5 * small, ratio)

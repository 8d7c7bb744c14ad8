// Losses of times between two bounds: twins of hornbeam/objectives/aft.py, the same float64 operations in the same
// order. Distributions are numbered: 0 normal, 1 logistic, 2 extreme.
#define ROOT_TAU 2.5066282746310002

// The upper tail of the normal distribution by its density, t >= 0: hornbeam/core/numerics.py.
DEVICE f64 mills_ratio_(f64 t) {
    const f64 p = (t - 4.0) / (t + 4.0);
    f64 r = -3.986306042239594e-09;
    r = r * p + 3.944242628932816e-09;
    r = r * p + 4.4337629856493366e-08;
    r = r * p + -2.0416884478429364e-08;
    r = r * p + -2.7775010057543326e-07;
    r = r * p + -3.81945638759123e-08;
    r = r * p + 1.3825460500000452e-06;
    r = r * p + 1.0510235287484173e-06;
    r = r * p + -6.548558179103517e-06;
    r = r * p + -8.624671593728754e-06;
    r = r * p + 3.41569782984747e-05;
    r = r * p + 5.3274076661035984e-05;
    r = r * p + -0.00022021512394531682;
    r = r * p + -0.00023670351432175782;
    r = r * p + 0.001741848705711217;
    r = r * p + -0.0007159506400916629;
    r = r * p + -0.012539103614686712;
    r = r * p + 0.04495912905478871;
    r = r * p + -0.08070800967927583;
    r = r * p + 0.07169048120230266;
    r = r * p + 0.0350918802347507;
    r = r * p + -0.24239967052181807;
    r = r * p + 1.1832619145678034;
    return r / (1.0 + t);
}

// x / (exp(x) - 1), x >= 0: hornbeam/core/numerics.py.
DEVICE f64 bernoulli_ratio_(f64 x) {
    if (x < 0.25) {
        const f64 z = x * x;
        f64 s = 2.08767569878681e-08;
        s = s * z + -8.267195767195768e-07;
        s = s * z + 3.306878306878307e-05;
        s = s * z + -0.001388888888888889;
        s = s * z + 0.08333333333333333;
        s = s * z + 1.0;
        return s - 0.5 * x;
    }
    return x > 700.0 ? 0.0 : x / (exp_(x) - 1.0);
}

DEVICE f64 apart_(f64 bound, f64 score, f64 inverse) {
    f64 z = (bound - score) * inverse;
    z = z < -1e4 ? -1e4 : z;
    return z > 1e4 ? 1e4 : z;
}

// First and second derivative by -z, of both bounds at once: SLOPES.
DEVICE void slopes_(u32 number, f64 low, f64 high, f64 *first, f64 *second) {
    if (number == 0) {
        const u32 mirrored = low + high < 0.0;
        const f64 a = mirrored ? -high : low, b = mirrored ? -low : high;
        f64 r, c = 1.0;
        if (b - a < 0.0000152587890625) {
            r = -0.5 * (a + b);
        } else {
            const f64 e = exp_(-0.5 * ((b - a) * (b + a)));
            const f64 near = mills_ratio_(fabs(a)), far = e * mills_ratio_(b);
            const f64 middle = (ROOT_TAU * exp_(0.5 * (a * a)) - near) - far;
            const f64 difference = a < 0.0 ? middle : near - far;
            r = (e - 1.0) / difference;
            c = (b * e - a) / difference + r * r;
        }
        *first = mirrored ? -r : r;
        *second = c;
    } else if (number == 1) {
        const f64 below = 1.0 / (1.0 + exp_(-low)), above = 1.0 / (1.0 + exp_(high));
        *first = above - below;
        *second = below * (1.0 - below) + above * (1.0 - above);
    } else {
        const f64 w = exp_(low), d = exp_(high) - w, ratio = bernoulli_ratio_(d);
        *first = ratio - w;
        *second = w + ratio * ((ratio + d) - 1.0);
    }
}

// The loss of one row: likelihood_losses. `low` and `high` are logarithms of the bounds.
DEVICE f64 likelihood_loss(u32 number, f64 inverse, f64 low, f64 high, f64 score) {
    const f64 l = apart_(low, score, inverse), h = apart_(high, score, inverse);
    f64 density, between;
    if (number == 0) {
        const u32 mirrored = l + h < 0.0;
        const f64 a = mirrored ? -h : l, b = mirrored ? -l : h;
        const f64 e = exp_(-0.5 * ((b - a) * (b + a)));
        const f64 near = mills_ratio_(fabs(a)), far = e * mills_ratio_(b);
        const f64 at_a = exp_(-0.5 * (a * a)) / ROOT_TAU;
        between = a < 0.0 ? (1.0 - at_a * near) - at_a * far : at_a * (near - far);
        density = exp_(-0.5 * (l * l)) / ROOT_TAU;
    } else if (number == 1) {
        const f64 below = 1.0 / (1.0 + exp_(-l)), above = 1.0 / (1.0 + exp_(l));
        between = l > 0.0 ? above - 1.0 / (1.0 + exp_(h)) : 1.0 / (1.0 + exp_(-h)) - below;
        density = below * above;
    } else {
        const f64 w = exp_(l), survival = exp_(-w);
        between = survival * (1.0 - exp_(-(exp_(h) - w)));
        density = w * survival;
    }
    f64 likelihood = low == high ? (density * inverse) / exp_(low) : between;
    likelihood = likelihood < 1e-12 ? 1e-12 : likelihood;
    const f64 loss = -log_(likelihood);
    return score == score ? loss : score;
}

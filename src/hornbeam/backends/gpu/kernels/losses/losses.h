// Losses of one score and one label: twins of hornbeam/objectives, the same float64 operations in the same order.
// OBJECTIVE is the number in Objective.formula; 0: none.

// Clipped to +-300: hornbeam/objectives/log_link.py.
DEVICE f64 bounded_(f64 score) {
    score = score < -300.0 ? -300.0 : score;
    return score > 300.0 ? 300.0 : score;
}

#if OBJECTIVE > 0
// The gradient and the hessian; a and b are constants of the formula.
DEVICE void pointwise_loss(f64 score, f64 y, f64 a, f64 b, f64 *gradient, f64 *hessian) {
    const f64 d = score - y;
    f64 g, h = 1.0;
#if OBJECTIVE == 1  // regression_l1
    g = d > 0.0 ? 1.0 : (d < 0.0 ? -1.0 : 0.0);
#elif OBJECTIVE == 2   // mape
    const f64 size = fabs(y);
    h = a / (size > 1.0 ? size : 1.0);
    g = d > 0.0 ? h : (d < 0.0 ? -h : 0.0);
#elif OBJECTIVE == 3   // quantile
    g = d >= 0.0 ? b : a;
#elif OBJECTIVE == 4   // huber
    g = d > a ? a : (d < -a ? -a : d);
#elif OBJECTIVE == 5   // fair
    const f64 r = a / (fabs(d) + a);
    g = r * d;
    h = r * (r > 0.5 ? r : 0.5);
#elif OBJECTIVE == 6   // logcosh
    const f64 r = tanh_ratio_(d);
    g = d * r;
    const f64 least = a > 0.0 ? 0.5 * r : 0.015625;
    h = a > 0.0 ? 1.0 - g * g : r;
    h = h > least ? h : least;
#elif OBJECTIVE == 7   // expectile
    h = d >= 0.0 ? b : a;
    g = h * d;
#elif OBJECTIVE == 8   // poisson
    const f64 e = exp_(bounded_(score));
    g = e - y;
    h = e * a;
#elif OBJECTIVE == 9   // gamma
    h = y * exp_(-bounded_(score));
    g = 1.0 - h;
#elif OBJECTIVE == 10  // tweedie
    const f64 s = bounded_(score), t = y * exp_(a * s), e = exp_(b * s);
    g = e - t;
    h = b * e - a * t;
#elif OBJECTIVE == 11  // focal
    const f64 z = y > 0.0 ? score : -score;
    const f64 p = 1.0 / (1.0 + exp_(-z)), m = 1.0 / (1.0 + exp_(z));
    const f64 log_p = log_(p);
    const f64 factor = (y > 0.0 ? b : 1.0 - b) * exp_(a * log_(m));
    const f64 bend = (a * log_p) * (m - a * p);
    g = factor * (a * (p * log_p) - m);
    g = y > 0.0 ? g : -g;
    h = (factor * p) * ((2.0 * a + 1.0) * m + (bend > 0.0 ? bend : 0.0));
#elif OBJECTIVE == 12  // regression
    g = d;
#elif OBJECTIVE == 13  // binary
    const f64 p = 1.0 / (1.0 + exp_(-(a * score)));
    g = a * (p - y);
    h = (b * p) * (1.0 - p);
#elif OBJECTIVE == 14  // pseudohuber
    const f64 far = d / a, t = far > 1e100 ? 1e100 : (far < -1e100 ? -1e100 : far);
    const f64 s = 1.0 + t * t, r = sqrt(s), least = 0.5 / r;
    g = a * (t / r);
    h = 1.0 / (s * r);
    h = h > least ? h : least;
#elif OBJECTIVE == 15  // squared_log_error
    const f64 q = 1.0 + (score < a ? a : (score > b ? b : score)), t = log_(q) - log_(1.0 + y);
    g = t / q;
    h = (1.0 - (t < 0.0 ? t : 0.0)) / (q * q);
#elif OBJECTIVE == 16  // hinge
    const f64 side = 2.0 * y - 1.0;
    h = side * score < 1.0 ? 1.0 : 0.0;
    g = h > 0.0 ? -side : 0.0;
#elif OBJECTIVE == 17  // cross_entropy_lambda
    const f64 p = 1.0 / (1.0 + exp_(-score));
    g = p - y;
    h = p * (1.0 - p);
#endif
    *gradient = g;
    *hessian = h;
}

// The same of a row with a weight, from those without.
DEVICE void weigh_loss(f64 score, f64 y, f64 weight, f64 *gradient, f64 *hessian) {
#if OBJECTIVE == 17  // which is an exponent: hornbeam/objectives/cross_entropy_lambda.py
    const f64 s = bounded_(score), p = 1.0 / (1.0 + exp_(-s)), m = 1.0 / (1.0 + exp_(s)), prediction = softplus_(s);
    const f64 x = weight * prediction, q = exp_(-x), d = 1.0 - q;
    const f64 ratio = d == 0.0 ? 1.0 : (d == 1.0 ? x : -log_(q) / (d == 0.0 ? 1.0 : d));
    const f64 t = (p / prediction) * ratio, a = weight * p, h = a * m + y * (t * (t * q - m));
    *gradient = a - y * t;
    *hessian = h > 0.0 ? h : 0.0;
#else
    *gradient = *gradient * weight;
    *hessian = *hessian * weight;
#endif
}
#endif

// Metrics that are means of a loss of each row: twins of hornbeam/metrics, the same float64 operations in the same
// order. Two launches and one small copy back: `loss` writes the losses and finds the largest, `exact_sum` derives the
// scale from it and adds integers, whose sum has no order.
//
//   METRIC    which loss; LOSSES in metrics.py. 0: this source is compiled for a kernel without a loss
//   link      what makes a prediction of a raw score; LINKS in metrics.py
//
//   scores    f64 (n_outputs, n_rows)   in
//   label     f64 (n_rows,)             in    (2, n_rows) where METRIC is 30 or more
//   weight    f64 (n_rows,)             in    read only when weighted is not 0
//   partial   u64 (n_groups,)                 bits of the largest |value| of a group
//   report    sum_report_t                    see fixed_point.h

#define SIGMOID  1
#define EXP      2
#define SQUARE   3
#define SOFTMAX  4
#define SOFTPLUS 5
#define STEP     6

// -log(q), where q is clipped to 1e-15 <= q <= 1; NaN stays NaN.
DEVICE f64 log_loss_(f64 q) {
    f64 clipped = q < 1e-15 ? 1e-15 : q;
    clipped = clipped > 1.0 ? 1.0 : clipped;
    const f64 loss = -log_(clipped);
    return q == q ? loss : q;
}

// The prediction of a mean, raised to 1e-10; NaN stays NaN.
DEVICE f64 mean_(f64 prediction) {
    return prediction < 1e-10 ? 1e-10 : prediction;
}

DEVICE f64 tweedie_(f64 a, f64 b, f64 y, f64 m) {
    const f64 log_m = log_(m);
    if (a == 0.0) return m - y * log_m;
    const f64 loss = exp_(b * log_m) / b - (y * exp_(a * log_m)) / a;
    return m == m ? loss : m;
}

DEVICE f64 link_(f64 score, u32 link, f64 sigmoid) {
    if (link == SIGMOID) return 1.0 / (1.0 + exp_(-(sigmoid * score)));
    if (link == EXP) return exp_(score);
    if (link == SQUARE) return score * fabs(score);
    if (link == SOFTPLUS) return softplus_(score);
    if (link == STEP) return score > 0.0 ? 1.0 : 0.0;
    return score;
}

#if METRIC > 0
// The loss of one row of several outputs.
DEVICE f64 loss_of_classes(GLOBAL const f64 *RESTRICT scores, u64 row, u32 n_rows, u32 n_outputs, u32 own, u32 link,
                           f64 sigmoid) {
    const f64 own_score = scores[(u64)own * n_rows + row];
#if METRIC == 26  // multi_error
    u32 at_least = 0;
    for (u32 k = 0; k < n_outputs; k++) at_least += scores[(u64)k * n_rows + row] >= own_score ? 1u : 0u;
    return at_least > 1 ? 1.0 : 0.0;
#else
    if (link != SOFTMAX) return log_loss_(link_(own_score, link, sigmoid));
    f64 largest = BITS_TO_F64(0xFFF0000000000000), total = 0.0;
    for (u32 k = 0; k < n_outputs; k++) {
        const f64 s = scores[(u64)k * n_rows + row];
        largest = s > largest ? s : largest;
    }
    for (u32 k = 0; k < n_outputs; k++) total = total + exp_(scores[(u64)k * n_rows + row] - largest);
    return log_loss_(exp_(own_score - largest) / total);
#endif
}

// The loss of one row of one output: prediction p, label y, the metric's constants a and b.
DEVICE f64 loss_of(f64 p, f64 y, f64 a, f64 b) {
#if METRIC == 1  // l1
    return fabs(p - y);
#elif METRIC == 2   // l2
    const f64 d = p - y;
    return d * d;
#elif METRIC == 3   // mape
    const f64 size = fabs(y);
    return fabs(y - p) / (size > 1.0 ? size : 1.0);
#elif METRIC == 4   // quantile
    const f64 d = y - p;
    return d < 0.0 ? -b * d : a * d;
#elif METRIC == 5   // expectile
    const f64 d = p - y;
    return (d >= 0.0 ? b : a) * (d * d);
#elif METRIC == 6   // huber
    const f64 t = fabs(p - y);
    return t <= a ? 0.5 * (t * t) : a * (t - 0.5 * a);
#elif METRIC == 7   // fair
    const f64 t = fabs(p - y);
    return a * t - b * log_(1.0 + t / a);
#elif METRIC == 8   // logcosh
    const f64 t = fabs(p - y);
    return t + log_(0.5 * (1.0 + exp_(-(t + t))));
#elif METRIC == 9   // poisson
    const f64 m = mean_(p);
    return m - y * log_(m);
#elif METRIC == 10  // gamma
    const f64 m = mean_(p);
    return y / m + log_(m);
#elif METRIC == 11  // gamma_deviance
    const f64 t = y / mean_(p);
    return 2.0 * ((t - log_(t)) - 1.0);
#elif METRIC == 12  // tweedie
    return tweedie_(a, b, y, mean_(p));
#elif METRIC == 13  // tweedie_deviance
    const f64 m = mean_(p);
    if (a == 0.0) return 2.0 * ((y * log_(y / m) - y) + m);
    const f64 power = y > 0.0 ? exp_(b * log_(y)) : 0.0;
    return 2.0 * (power / (a * b) + tweedie_(a, b, y, m));
#elif METRIC == 14  // binary_logloss
    return log_loss_(y > 0.0 ? p : 1.0 - p);
#elif METRIC == 15  // binary_error
    return (p > 0.5) != (y > 0.0) ? 1.0 : 0.0;
#elif METRIC == 16  // cross_entropy
    return y * log_loss_(p) + (1.0 - y) * log_loss_(1.0 - p);
#elif METRIC == 17  // kullback_leibler
    const f64 crossed = y * log_loss_(p) + (1.0 - y) * log_loss_(1.0 - p);
    return crossed - (y * log_loss_(y) + (1.0 - y) * log_loss_(1.0 - y));
#elif METRIC == 18  // focal
    const f64 q = y > 0.0 ? p : 1.0 - p, w = y > 0.0 ? b : 1.0 - b;
    return (w * exp_(a * log_(1.0 - q))) * log_loss_(q);
#elif METRIC == 20  // rmsle
    const f64 t = log_(1.0 + (p < a ? a : p)) - log_(1.0 + y);
    return t * t;
#elif METRIC == 19  // pseudohuber
    const f64 t = (p - y) / a;
    return b * (sqrt(1.0 + t * t) - 1.0);
#else
    return 0.0;
#endif
}

// The loss of one row whose weight is an exponent: cross_entropy_lambda.
DEVICE f64 loss_of_trials(f64 score, f64 y, f64 weight) {
    const f64 q = exp_(-(weight * softplus_(score)));
    return y * log_loss_(1.0 - q) + (1.0 - y) * log_loss_(q);
}

// The loss of one row of one output that has two targets: y and z.
DEVICE f64 loss_of_bounds(f64 score, f64 y, f64 z, f64 a, f64 b) {
#if METRIC == 30  // aft-nloglik
    return likelihood_loss((u32)a, b, y, z, score);
#else  // interval-regression-accuracy
    const f64 within = y <= score && score <= z ? 1.0 : 0.0;
    return score == score ? within : score;
#endif
}

//   sigmoid   factor of the scores, where link is the sigmoid
//   losses    f64 (n_rows,)   out   multiplied by the weight
//   report    out             zero sum, and the count
KERNEL(THREADS) void loss_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                 GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, u32 n_outputs, u32 link,
                                 f64 sigmoid, f64 a, f64 b, GLOBAL f64 *RESTRICT losses, GLOBAL u64 *RESTRICT partial,
                                 GLOBAL sum_report_t *RESTRICT report) {
    LOCAL u64 shared[THREADS];
    u64 largest = 0;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const f64 y = label[row];
#if METRIC == 21
        const f64 loss = loss_of_trials(scores[row], y, weighted ? weight[row] : 1.0);
#elif METRIC >= 30
        f64 loss = loss_of_bounds(scores[row], y, label[n_rows + row], a, b);
#elif METRIC > 24
        f64 loss = loss_of_classes(scores, row, n_rows, n_outputs, (u32)y, link, sigmoid);
#else
        f64 loss = loss_of(link_(scores[row], link, sigmoid), y, a, b);
#endif
#if METRIC != 21
        loss = weighted ? loss * weight[row] : loss;
#endif
        losses[row] = loss;
        largest = LARGER(SIZE_BITS(loss), largest);
    }
    shared[LOCAL_ID] = largest;
    REDUCE(shared, LARGER);
    if (LOCAL_ID == 0) partial[GROUP_ID] = shared[0];
    if (GROUP_ID == 0 && LOCAL_ID == 0) {
        report->sum = 0;
        report->count = n_rows;
    }
}
#endif

// Adds values in fixed point; the result means nothing where one is not finite.
//
//   values   f64 (n_values,)   in
//   partial  u64 (n_partial,)  in
//   report   in: count         out: largest, sum
KERNEL(THREADS) void exact_sum_kernel(GLOBAL const f64 *RESTRICT values, u64 n_values,
                                      GLOBAL const u64 *RESTRICT partial, u32 n_partial, GLOBAL sum_report_t *report) {
    LOCAL u64 shared[THREADS];
    LOCAL i64 totals[THREADS];
    u64 largest = 0;
    for (u32 i = LOCAL_ID; i < n_partial; i += THREADS) largest = LARGER(partial[i], largest);
    shared[LOCAL_ID] = largest;
    REDUCE(shared, LARGER);
    largest = shared[0];
    const f64 scale = exact_scale(BITS_TO_F64(largest), report->count);
    i64 total = 0;
    if (largest < 0x7FF0000000000000u) {
        for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_values; i += (u64)GROUP_COUNT * THREADS) {
            total += (i64)rint(values[i] * scale);
        }
    }
    totals[LOCAL_ID] = total;
    REDUCE(totals, SUM);
    if (LOCAL_ID == 0) ADD_GLOBAL64(&report->sum, totals[0]);
    if (LOCAL_ID == 0 && GROUP_ID == 0) report->largest = largest;
}

// The scores of a random forest: forest.average_scores.
//
//   sums     f64 (n_outputs, n_rows)   in
//   init     f64 (n_outputs,)          in
//   n_trees  of each output, as f64; divided by where it is above 0
//   out      f64 (n_outputs, n_rows)   out
KERNEL(THREADS) void average_kernel(GLOBAL const f64 *RESTRICT sums, GLOBAL const f64 *RESTRICT init, f64 n_trees,
                                    u32 n_rows, u32 n_outputs, GLOBAL f64 *RESTRICT out) {
    const u64 n = (u64)n_rows * n_outputs;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const f64 mean = n_trees > 0.0 ? sums[i] / n_trees : sums[i];
        out[i] = mean + init[i / n_rows];
    }
}

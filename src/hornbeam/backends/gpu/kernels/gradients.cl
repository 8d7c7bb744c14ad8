// Gradients and hessians from the raw scores: twins of hornbeam/objectives, the same float64 operations in the same
// order. One thread a row; rows of one output are contiguous.
//
//   scores, gradient, hessian   f64 (n_outputs, n_rows)
//   label, weight               f64 (n_rows,)           weight is read only when weighted is not 0
//   OBJECTIVE                   which formula `pointwise_kernel` has

// Clipped to +-300: hornbeam/objectives/log_link.py.
DEVICE f64 bounded_(f64 score) {
    score = score < -300.0 ? -300.0 : score;
    return score > 300.0 ? 300.0 : score;
}

// One logistic loss a class.
//
//   weighted   0: no weights, 1: weight f64 (n_rows,), 2: weight f64 (n_outputs, n_rows)
KERNEL(THREADS) void one_vs_all_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                       GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, u32 n_outputs,
                                       f64 sigmoid, GLOBAL f64 *RESTRICT gradient, GLOBAL f64 *RESTRICT hessian) {
    const f64 square = sigmoid * sigmoid;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        for (u32 k = 0; k < n_outputs; k++) {
            const u64 at = (u64)k * n_rows + row;
            const f64 p = 1.0 / (1.0 + exp_(-(sigmoid * scores[at])));
            const f64 g = sigmoid * (p - (label[row] == (f64)k ? 1.0 : 0.0));
            const f64 h = (square * p) * (1.0 - p);
            const f64 w = weighted ? weight[weighted == 2 ? at : row] : 1.0;
            gradient[at] = weighted ? g * w : g;
            hessian[at] = weighted ? h * w : h;
        }
    }
}

// The losses of one score and one label; a and b are constants of the formula. The gradients are measured on the way.
// OBJECTIVE is `code` of hornbeam/objectives/pointwise.py, or one of two more, see gradients.py; 0: this source is
// compiled for another kernel.
//
//   extremes, report   see measure.h
#if OBJECTIVE > 0
KERNEL(THREADS) void pointwise_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                      GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, f64 a, f64 b,
                                      GLOBAL f64 *RESTRICT gradient, GLOBAL f64 *RESTRICT hessian,
                                      GLOBAL f64 *RESTRICT extremes, GLOBAL report_t *RESTRICT report) {
    BEGIN_MEASURE;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const f64 score = scores[row], y = label[row], d = score - y;
        f64 g, h = 1.0;
#if OBJECTIVE == 1  // regression_l1
        g = d > 0.0 ? 1.0 : (d < 0.0 ? -1.0 : 0.0);
#elif OBJECTIVE == 2   // mape
        const f64 size = fabs(y), r = 1.0 / (size > 1.0 ? size : 1.0);
        g = d > 0.0 ? r : (d < 0.0 ? -r : 0.0);
#elif OBJECTIVE == 3   // quantile
        g = d >= 0.0 ? b : a;
#elif OBJECTIVE == 4   // huber
        g = d > a ? a : (d < -a ? -a : d);
#elif OBJECTIVE == 5   // fair
        const f64 r = a / (fabs(d) + a);
        g = r * d;
        h = r * r;
#elif OBJECTIVE == 6   // logcosh
        h = tanh_ratio_(d);
        g = d * h;
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
#endif
        g = weighted ? g * weight[row] : g;
        h = weighted ? h * weight[row] : h;
        gradient[row] = g;
        hessian[row] = h;
        MEASURE(g, h);
    }
    END_MEASURE(extremes, report);
}
#endif

// The exponentials wait in `gradient` until their sum is known.
KERNEL(THREADS) void multiclass_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                       GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, u32 n_outputs,
                                       f64 factor, GLOBAL f64 *RESTRICT gradient, GLOBAL f64 *RESTRICT hessian) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        f64 largest = scores[row];
        for (u32 k = 1; k < n_outputs; k++) {
            const f64 s = scores[(u64)k * n_rows + row];
            largest = s > largest ? s : largest;
        }
        f64 total = 0.0;
        for (u32 k = 0; k < n_outputs; k++) {
            const f64 e = exp_(scores[(u64)k * n_rows + row] - largest);
            gradient[(u64)k * n_rows + row] = e;
            total = total + e;  // the first is 0.0 + e, which is e
        }
        const f64 y = label[row];
        for (u32 k = 0; k < n_outputs; k++) {
            const u64 at = (u64)k * n_rows + row;
            const f64 p = gradient[at] / total;
            const f64 g = p - (y == (f64)k ? 1.0 : 0.0);
            const f64 h = (factor * p) * (1.0 - p);
            gradient[at] = weighted ? g * weight[row] : g;
            hessian[at] = weighted ? h * weight[row] : h;
        }
    }
}

// Predictions instead of raw scores, in place: the objectives' `transform`.
//
//   scores   f64 (n_outputs, n_rows)   in, out

KERNEL(THREADS) void sigmoid_kernel(GLOBAL f64 *RESTRICT scores, u64 n_rows, f64 sigmoid) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        scores[row] = 1.0 / (1.0 + exp_(-(sigmoid * scores[row])));
    }
}

KERNEL(THREADS) void exp_kernel(GLOBAL f64 *RESTRICT scores, u64 n_rows) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        scores[row] = exp_(scores[row]);
    }
}

// The inverse of a signed square root.
KERNEL(THREADS) void square_kernel(GLOBAL f64 *RESTRICT scores, u64 n_rows) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        scores[row] = scores[row] * fabs(scores[row]);
    }
}

KERNEL(THREADS) void softmax_kernel(GLOBAL f64 *RESTRICT scores, u64 n_rows, u32 n_outputs) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        f64 largest = scores[row];
        for (u32 k = 1; k < n_outputs; k++) {
            const f64 s = scores[k * n_rows + row];
            largest = s > largest ? s : largest;
        }
        f64 total = 0.0;
        for (u32 k = 0; k < n_outputs; k++) {
            const f64 e = exp_(scores[k * n_rows + row] - largest);
            scores[k * n_rows + row] = e;
            total = total + e;
        }
        for (u32 k = 0; k < n_outputs; k++) scores[k * n_rows + row] = scores[k * n_rows + row] / total;
    }
}

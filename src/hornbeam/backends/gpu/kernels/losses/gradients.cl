// Gradients and hessians from the raw scores: twins of hornbeam/objectives, the same float64 operations in the same
// order. One thread a row; rows of one output are contiguous.
//
//   scores, gradient, hessian   f64 (n_outputs, n_rows)
//   label, weight               f64 (n_rows,)           weight is read only when weighted is not 0

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

// Several quantiles: hornbeam/objectives/quantiles.py.
//
//   table   f64 (n_outputs, 2)   in   -alpha and 1 - alpha of each output
KERNEL(THREADS) void quantiles_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                      GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, u32 n_outputs,
                                      GLOBAL const f64 *RESTRICT table, GLOBAL f64 *RESTRICT gradient,
                                      GLOBAL f64 *RESTRICT hessian) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        for (u32 k = 0; k < n_outputs; k++) {
            const u64 at = (u64)k * n_rows + row;
            const f64 g = scores[at] - label[row] >= 0.0 ? table[2 * k + 1] : table[2 * k];
            gradient[at] = weighted ? g * weight[row] : g;
            hessian[at] = weighted ? weight[row] : 1.0;
        }
    }
}

// The gradients of a loss of one score and one label, for those who cannot compute them where they need them.
#if OBJECTIVE > 0
KERNEL(THREADS) void pointwise_kernel(ROW_GRADIENTS, u32 n_rows, GLOBAL f64 *RESTRICT gradient,
                                      GLOBAL f64 *RESTRICT hessian) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        GET_GRADIENT(row, g, h);
        gradient[row] = g;
        hessian[row] = h;
    }
}

// The gradients of one output where each has labels of its own: hornbeam/objectives/targets.py.
//
//   first, second   f64 (n_outputs, n_rows)   scores and labels; those of the output are offset : offset + n_rows
//   weighted        0: no weights, 1: third f64 (n_rows,), 2: third f64 (n_outputs, n_rows)
KERNEL(THREADS) void targets_kernel(ROW_GRADIENTS, u32 n_rows, GLOBAL f64 *RESTRICT gradient,
                                    GLOBAL f64 *RESTRICT hessian) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const u64 at = offset + row;
        f64 g, h;
        pointwise_loss(first[at], (f64)second[at], a, b, &g, &h);
        if (weighted) weigh_loss(first[at], (f64)second[at], third[weighted == 2 ? at : row], &g, &h);
        gradient[at] = g;
        hessian[at] = h;
    }
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

KERNEL(THREADS) void softplus_kernel(GLOBAL f64 *RESTRICT scores, u64 n_rows) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        scores[row] = softplus_(scores[row]);
    }
}

KERNEL(THREADS) void step_kernel(GLOBAL f64 *RESTRICT scores, u64 n_rows) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        scores[row] = scores[row] > 0.0 ? 1.0 : 0.0;
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

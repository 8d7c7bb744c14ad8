// Gradients and hessians from the raw scores: twins of hornbeam/objectives, the same float64 operations in the same
// order. One thread a row; rows of one output are contiguous.
//
//   scores, gradient, hessian   f64 (n_outputs, n_rows)
//   label, weight               f64 (n_rows,)           weight is read only when weighted is not 0

// e**x for x clamped to +-708: hornbeam/numerics.py.
DEVICE f64 exp_(f64 x) {
    x = x < -708.0 ? -708.0 : x;
    x = x > 708.0 ? 708.0 : x;
    const f64 k = floor(x * 1.4426950408889634 + 0.5);
    const f64 r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    f64 p = 1.6059043836821613e-10;
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 0.0001984126984126984;
    p = p * r + 0.001388888888888889;
    p = p * r + 0.008333333333333333;
    p = p * r + 0.041666666666666664;
    p = p * r + 0.16666666666666666;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * BITS_TO_F64(((i64)(i32)k + 1023) << 52);
}

KERNEL(THREADS) void regression_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                       GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows,
                                       GLOBAL f64 *RESTRICT gradient, GLOBAL f64 *RESTRICT hessian) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const f64 g = scores[row] - label[row];
        gradient[row] = weighted ? g * weight[row] : g;
        hessian[row] = weighted ? weight[row] : 1.0;
    }
}

KERNEL(THREADS) void binary_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label,
                                   GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, f64 sigmoid,
                                   GLOBAL f64 *RESTRICT gradient, GLOBAL f64 *RESTRICT hessian) {
    const f64 square = sigmoid * sigmoid;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const f64 p = 1.0 / (1.0 + exp_(-(sigmoid * scores[row])));
        const f64 g = sigmoid * (p - label[row]);
        const f64 h = (square * p) * (1.0 - p);
        gradient[row] = weighted ? g * weight[row] : g;
        hessian[row] = weighted ? h * weight[row] : h;
    }
}

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

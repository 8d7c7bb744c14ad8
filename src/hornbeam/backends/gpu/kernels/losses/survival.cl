// Gradients of times that may be censored: twins of hornbeam/objectives/aft.py and cox.py, the same float64 operations
// in the same order.
//
//   scores, gradient, hessian   f64 (n_rows,)
//   weight                      f64 (n_rows,)   in   read only when weighted is not 0

//   bounds    f64 (2, n_rows)   in    logarithms
//   number    of the distribution, see survival.h
//   inverse   1 / scale
KERNEL(THREADS) void aft_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT bounds,
                                GLOBAL const f64 *RESTRICT weight, u32 weighted, u32 n_rows, u32 number, f64 inverse,
                                GLOBAL f64 *RESTRICT gradient, GLOBAL f64 *RESTRICT hessian) {
    const f64 square = inverse * inverse;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const f64 score = scores[row];
        f64 r, c;
        slopes_(number, apart_(bounds[row], score, inverse), apart_(bounds[n_rows + row], score, inverse), &r, &c);
        f64 g = r * inverse, h = c * square;
        g = g < -15.0 ? -15.0 : g;
        g = g > 15.0 ? 15.0 : g;
        h = h < 1e-16 ? 1e-16 : h;
        h = h > 15.0 ? 15.0 : h;
        gradient[row] = weighted ? g * weight[row] : g;
        hessian[row] = weighted ? h * weight[row] : h;
    }
}

// Cox: places are rows in the order of falling times; see RiskSets.
//
//   order, sharing, following   u32 (n_rows,)   in    by place
//   event                       u8 (n_rows,)    in    by place
//   ordered                     u64 (n_groups,)       the highest score of a group, as an integer of the same order

// An integer that has the order of the numbers.
#define ORDERED(value)  ((u64)F64_TO_BITS(value) ^ (F64_TO_BITS(value) < 0 ? 0xFFFFFFFFFFFFFFFFu : 0x8000000000000000u))
#define UNORDERED(bits) BITS_TO_F64((bits) ^ ((bits) & 0x8000000000000000u ? 0x8000000000000000u : 0xFFFFFFFFFFFFFFFFu))

KERNEL(THREADS) void highest_kernel(GLOBAL const f64 *RESTRICT scores, u32 n_rows, GLOBAL u64 *RESTRICT ordered) {
    LOCAL u64 shared[THREADS];
    u64 highest = 0;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const f64 score = scores[row];
        const u64 bits = ORDERED(score);
        highest = LARGER(bits, highest);
    }
    shared[LOCAL_ID] = highest;
    REDUCE(shared, LARGER);
    if (LOCAL_ID == 0) ordered[GROUP_ID] = shared[0];
}

//   risk   f64 (n_rows,)   out   by place
KERNEL(THREADS) void risk_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT weight, u32 weighted,
                                 u32 n_rows, GLOBAL const u64 *RESTRICT ordered, u32 n_ordered,
                                 GLOBAL const u32 *RESTRICT order, GLOBAL f64 *RESTRICT risk) {
    LOCAL u64 shared[THREADS];
    u64 bits = 0;
    for (u32 i = LOCAL_ID; i < n_ordered; i += THREADS) bits = LARGER(ordered[i], bits);
    shared[LOCAL_ID] = bits;
    REDUCE(shared, LARGER);
    bits = shared[0];
    const f64 highest = UNORDERED(bits);
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n_rows; place += (u64)GROUP_COUNT * THREADS) {
        const u32 row = order[place];
        const f64 apart = scores[row] - highest, e = exp_(apart < -200.0 ? -200.0 : apart);
        risk[place] = weighted ? e * weight[row] : e;
    }
}

// Running sums, level by level: hornbeam/core/running_sums.py. A thread adds up a block of 64.
//
//   values   f64 (n,)          in, out   with those before them in the block
//   totals   f64 (n_blocks,)   out       of blocks
KERNEL(THREADS) void block_sums_kernel(GLOBAL f64 *RESTRICT values, u32 n, GLOBAL f64 *RESTRICT totals) {
    const u64 n_blocks = ((u64)n + 63) / 64;
    for (u64 block = (u64)GROUP_ID * THREADS + LOCAL_ID; block < n_blocks; block += (u64)GROUP_COUNT * THREADS) {
        const u64 last = (block + 1) * 64, end = SMALLER(last, (u64)n);
        f64 total = values[block * 64];
        for (u64 i = block * 64 + 1; i < end; i++) {
            total = total + values[i];
            values[i] = total;
        }
        totals[block] = total;
    }
}

//   totals   f64 (n_blocks,)   in   running sums of the blocks
KERNEL(THREADS) void add_blocks_kernel(GLOBAL f64 *RESTRICT values, u32 n, GLOBAL const f64 *RESTRICT totals) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        if (i >= 64) values[i] = totals[i / 64 - 1] + values[i];
    }
}

//   sums            f64 (n_rows,)   in    running sums of the risks
//   share, square   f64 (n_rows,)   out   in the reverse order of places
KERNEL(THREADS) void share_kernel(GLOBAL const f64 *RESTRICT sums, GLOBAL const f64 *RESTRICT weight, u32 weighted,
                                  u32 n_rows, GLOBAL const u32 *RESTRICT order, GLOBAL const u32 *RESTRICT sharing,
                                  GLOBAL const u8 *RESTRICT event, GLOBAL f64 *RESTRICT share,
                                  GLOBAL f64 *RESTRICT square) {
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n_rows; place += (u64)GROUP_COUNT * THREADS) {
        f64 total = sums[sharing[place]];
        total = total < 1e-300 ? 1e-300 : total;
        const f64 w = event[place] ? (weighted ? weight[order[place]] : 1.0) : 0.0;
        const f64 q = w / total;
        share[n_rows - 1 - place] = q;
        square[n_rows - 1 - place] = q / total;
    }
}

//   risk            f64 (n_rows,)   in   by place
//   share, square   f64 (n_rows,)   in   running sums in the reverse order of places
KERNEL(THREADS) void cox_kernel(GLOBAL const f64 *RESTRICT risk, GLOBAL const f64 *RESTRICT share,
                                GLOBAL const f64 *RESTRICT square, GLOBAL const f64 *RESTRICT weight, u32 weighted,
                                u32 n_rows, GLOBAL const u32 *RESTRICT order, GLOBAL const u32 *RESTRICT following,
                                GLOBAL const u8 *RESTRICT event, GLOBAL f64 *RESTRICT gradient,
                                GLOBAL f64 *RESTRICT hessian) {
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n_rows; place += (u64)GROUP_COUNT * THREADS) {
        const u32 row = order[place];
        const f64 e = risk[place], first = e * share[following[place]];
        const f64 second = (e * e) * square[following[place]];
        const f64 w = event[place] ? (weighted ? weight[row] : 1.0) : 0.0;
        const f64 h = first - second;
        gradient[row] = first - w;
        hessian[row] = h > 0.0 ? h : 0.0;
    }
}

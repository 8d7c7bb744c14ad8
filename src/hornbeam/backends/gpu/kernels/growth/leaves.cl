// Leaf numbers of rows, exact sums per leaf, and the score update.
//
// Leaf numbers are scattered once (2 bytes a row, which stay in the cache); sums and scores then go through the rows in
// sequence.

#define TILE (THREADS * 8)

//     count   u32 (1,)               in    n_nodes
//     table   u32 (5, n_nodes + 1)   in    first tile; begin; end; depth; leaf
//     leaf    u16 (n_rows,)          out
KERNEL(THREADS) void assign_kernel(GLOBAL const u32 *RESTRICT rows_even, GLOBAL const u32 *RESTRICT rows_odd,
                                   GLOBAL const u32 *RESTRICT table, GLOBAL const u32 *RESTRICT count,
                                   GLOBAL u16 *RESTRICT leaf) {
    const u32 n_nodes = count[0];
    if (n_nodes == 0) return;
    GLOBAL const u32 *first_tile = table, *begin = table + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL const u32 *depth = end + (n_nodes + 1), *leaves = depth + (n_nodes + 1);
    const u32 n_tiles = first_tile[n_nodes];
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile);
        const u32 from = begin[node] + (tile - first_tile[node]) * TILE;
        const u32 n_here = end[node] - from < TILE ? end[node] - from : TILE;
        GLOBAL const u32 *rows = depth[node] % 2 ? rows_odd : rows_even;
        const u16 number = (u16)leaves[node];
        UNROLL_SOME for (u32 i = LOCAL_ID; i < n_here; i += THREADS)
            leaf[depth[node] == 0 ? from + i : rows[from + i]] = number;
    }
}

// Exact sums: each value becomes an integer of at most 52 bits (fixed_point.exact_exponent), and the sum of all stays
// below 2^62. Local memory adds 32 bits fast and 64 bits slowly, so an integer is added in three pieces:
//
//     value    | upper 32, signed | middle 16 | lower 16 |
//
// Over the 65,536 rows that a group may take, lower and middle pieces stay below 2^32. The upper ones stay below 2^31:
// n values of b bits have n * 2^b <= 2^62, so n * 2^(b - 32) <= 2^30; and where b < 32 each is 0 or -1.
//
//     scales   powers of two
//     sums     i64 (n_leaves, 2)   in, out   zeros at first
//
// Where all outputs share a tree (OUTPUTS), as many groups sum each of them, from stored gradients:
//
//     scales   f64 (n_outputs, 4)             in       of gradients and hessians; what a step of their sums stands for
//     sums     i64 (n_outputs, n_leaves, 2)   in, out
#define SLICE 65536u
#if OUTPUTS
#define SCALES GLOBAL const f64 *RESTRICT scales
#define OUTPUT (GROUP_ID / ((n_rows + rows_a_group - 1) / rows_a_group))
#else
#define SCALES f64 gradient_scale, f64 hessian_scale
#define OUTPUT 0
#endif

KERNEL(THREADS) void leaf_sums_kernel(ROW_GRADIENTS, GLOBAL const u16 *RESTRICT leaf, SCALES, u32 n_rows,
                                      u32 rows_a_group, u32 n_leaves, GLOBAL i64 *sums) {
#if OUTPUTS
    const f64 gradient_scale = scales[OUTPUT * 4], hessian_scale = scales[OUTPUT * 4 + 1];
    offset += (u64)OUTPUT * n_rows;
    sums += OUTPUT * n_leaves * 2;
#endif
#if LEAVES > 0
    LOCAL u32 pieces[LEAVES * 6];
    for (u32 i = LOCAL_ID; i < n_leaves * 6; i += THREADS) pieces[i] = 0;
    BARRIER;
#endif
    const u64 from = (u64)(GROUP_ID - OUTPUT * ((n_rows + rows_a_group - 1) / rows_a_group)) * rows_a_group;
    const u64 to = from + rows_a_group < n_rows ? from + rows_a_group : n_rows;
    UNROLL_SOME for (u64 row = from + LOCAL_ID; row < to; row += THREADS) {
        const u32 at = leaf[row];
        GET_GRADIENT(row, exact_g, exact_h);
        const i64 g = (i64)rint(exact_g * gradient_scale), h = (i64)rint(exact_h * hessian_scale);
#if LEAVES > 0
        ADD_LOCAL32(&pieces[at], g & 0xFFFF);
        ADD_LOCAL32(&pieces[n_leaves + at], (g >> 16) & 0xFFFF);
        ADD_LOCAL32(&pieces[n_leaves * 2 + at], g >> 32);
        ADD_LOCAL32(&pieces[n_leaves * 3 + at], h & 0xFFFF);
        ADD_LOCAL32(&pieces[n_leaves * 4 + at], (h >> 16) & 0xFFFF);
        ADD_LOCAL32(&pieces[n_leaves * 5 + at], h >> 32);
#else
        ADD_GLOBAL64(&sums[at * 2], g);
        ADD_GLOBAL64(&sums[at * 2 + 1], h);
#endif
    }
#if LEAVES > 0
    BARRIER;
    for (u32 i = LOCAL_ID; i < n_leaves * 2; i += THREADS) {
        const u32 lower = i % 2 * 3 * n_leaves + i / 2, middle = lower + n_leaves, upper = middle + n_leaves;
        const u64 sum = ((u64)pieces[upper] << 32) + ((u64)pieces[middle] << 16) + pieces[lower];
        if (sum != 0) ADD_GLOBAL64(&sums[i], sum);
    }
#endif
}

// The leaves' values: splitting.leaf_output of their sums, times the learning rate.
//
//     units    f64                 powers of two: what a step of the sums stands for
//     least_hessian                min_sum_hessian_in_leaf
//     sums     i64 (n_leaves, 2)   in
//              f64 (n_leaves,)     out   behind them
KERNEL(THREADS) void leaf_values_kernel(GLOBAL i64 *sums, f64 gradient_unit, f64 hessian_unit, f64 least_hessian,
                                        f64 lambda_l1, f64 lambda_l2, f64 max_delta_step, f64 learning_rate,
                                        u32 n_leaves) {
    GLOBAL f64 *values = (GLOBAL f64 *)(sums + 2 * n_leaves);
    for (u32 leaf = GROUP_ID * THREADS + LOCAL_ID; leaf < n_leaves; leaf += GROUP_COUNT * THREADS) {
        const f64 gradient = (f64)sums[leaf * 2] * gradient_unit;
        const f64 hessian = finished_weight((f64)sums[leaf * 2 + 1] * hessian_unit, least_hessian);
        values[leaf] = leaf_output(gradient, hessian, lambda_l1, lambda_l2, max_delta_step) * learning_rate;
    }
}

// The same of all outputs that share a tree.
//
//     scales   see above
//     sums     i64 (n_outputs, n_leaves, 2)   in
//              f64 (n_outputs, n_leaves)      out   behind them
KERNEL(THREADS) void output_values_kernel(GLOBAL i64 *sums, GLOBAL const f64 *RESTRICT scales, f64 least_hessian,
                                          f64 lambda_l1, f64 lambda_l2, f64 max_delta_step, f64 learning_rate,
                                          u32 n_outputs, u32 n_leaves) {
    GLOBAL f64 *values = (GLOBAL f64 *)(sums + 2 * n_outputs * n_leaves);
    for (u32 i = GROUP_ID * THREADS + LOCAL_ID; i < n_outputs * n_leaves; i += GROUP_COUNT * THREADS) {
        GLOBAL const f64 *units = scales + i / n_leaves * 4 + 2;
        const f64 gradient = (f64)sums[i * 2] * units[0];
        const f64 hessian = finished_weight((f64)sums[i * 2 + 1] * units[1], least_hessian);
        values[i] = leaf_output(gradient, hessian, lambda_l1, lambda_l2, max_delta_step) * learning_rate;
    }
}

#define ROWS_AT_ONCE 4

//     values   f64               in        those of the leaves, from `first` on
//     scores   f64               in, out   of one output, from `offset` on
KERNEL(THREADS) void add_values_kernel(GLOBAL f64 *scores, u64 offset, GLOBAL const u16 *RESTRICT leaf,
                                       GLOBAL const f64 *RESTRICT values, u32 first, u32 n_rows) {
    const u64 step = (u64)GROUP_COUNT * THREADS;
    GLOBAL f64 *own = scores + offset;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += ROWS_AT_ONCE * step) {
        f64 sum[ROWS_AT_ONCE];  // all loads before the first store: they are under way together
        UNROLL for (u32 i = 0; i < ROWS_AT_ONCE; i++) {
            const u64 at = row + i * step < n_rows ? row + i * step : row;
            sum[i] = own[at] + values[first + leaf[at]];
        }
        UNROLL for (u32 i = 0; i < ROWS_AT_ONCE; i++) {
            if (row + i * step < n_rows) own[row + i * step] = sum[i];
        }
    }
}

//     start    f64 (n_outputs,)          in
//     scores   f64 (n_outputs, n_rows)   out   the same for all rows
KERNEL(THREADS) void fill_kernel(GLOBAL const f64 *RESTRICT start, u32 n_outputs, u32 n_rows,
                                 GLOBAL f64 *RESTRICT scores) {
    for (u32 output = 0; output < n_outputs; output++) {
        const f64 value = start[output];
        for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
            scores[(u64)output * n_rows + row] = value;
        }
    }
}

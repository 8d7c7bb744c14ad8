// One tree over the binned rows of a validation set: every row goes down and gets its leaf's value.
//
//     bins     bin_t (n_rows, stride)    in    row-major, as the host has them
//     nodes    i32 (n_splits, 6)         in    feature; bin; missing left; value bins of the feature; left; right
//                                              (a child >= 0 is a split, ~child a leaf). A categorical split has 2
//                                              for missing left, and for bin the place in `nodes`, as a word, where
//                                              the bits of the bins that go left begin
//     values   f64 (n_leaves,)           in
//     scores   f64                       in, out   of one output, from `offset` on

KERNEL(THREADS) void route_kernel(GLOBAL const bin_t *RESTRICT bins, u32 stride, u32 n_rows,
                                  GLOBAL const i32 *RESTRICT nodes, u32 n_splits, GLOBAL const f64 *RESTRICT values,
                                  GLOBAL f64 *scores, u64 offset) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        i32 node = n_splits > 0 ? 0 : -1;
        while (node >= 0) {
            GLOBAL const i32 *own = nodes + (u64)node * 6;
            const i32 bin = bins[row * stride + own[0]];
            i32 left = bin == own[3] ? own[2] : bin <= own[1];
            if (own[2] == 2) left = bin == own[3] ? 0 : ((GLOBAL const u32 *)nodes)[own[1] + bin / 32] >> bin % 32 & 1u;
            node = left ? own[4] : own[5];
        }
        scores[offset + row] = scores[offset + row] + values[~node];
    }
}

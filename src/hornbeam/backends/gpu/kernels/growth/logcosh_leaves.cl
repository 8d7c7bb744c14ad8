// Leaf values from medians on to the minimum of the sum of w * log(cosh(residual - value)): twin of
// logcosh_leaves.towards_minimum. `slopes` adds up the first and second derivatives of every leaf's loss, `step` moves
// the values. Sums are integers, so the order of the rows cannot be seen.
//
//   WIDE      rows have weights; otherwise all the same
//
//   table     u32 (5, n_nodes + 1)     in        first tile; begin; end; depth; leaf, as in leaves.cl
//   node_count   u32 (1,)              in        n_nodes
//   keys      u64 (n_tree,)            in        of the residuals, by place in the row list, as in renewal.cl
//   fixed     i64 (n_tree,)            in        weights in fixed point, likewise; only where WIDE
//   values    f64 (n_leaves,)          in, out   medians at first
//   state     slope_t (n_leaves,)      in, out   zeros at first
#define TILE     (THREADS * 8)
#define FARTHEST 32.0

// The derivatives of a leaf's loss; SLOPE_BYTES in renewal.py.
typedef struct {
    i64 slope, curvature;
    i64 finished;
} slope_t;

//   n_tree    rows of the tree
KERNEL(THREADS) void slopes_kernel(GLOBAL const u32 *RESTRICT table, GLOBAL const u32 *RESTRICT node_count,
                                   GLOBAL const u64 *RESTRICT keys, GLOBAL const i64 *RESTRICT fixed, u64 n_tree,
                                   GLOBAL const f64 *RESTRICT values, GLOBAL slope_t *state) {
    LOCAL i64 slopes[THREADS];
    LOCAL i64 curvatures[THREADS];
    const u32 n_nodes = node_count[0];
    GLOBAL const u32 *first_tile = table, *begin = table + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL const u32 *leaf_of = end + (n_nodes + 1) * 2;
    const u32 n_tiles = n_nodes > 0 ? first_tile[n_nodes] : 0;
#if !WIDE
    const f64 weight = exact_scale(1.0, n_tree);
#endif
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile);
        const u32 leaf = leaf_of[node];
        const u32 from = begin[node] + (tile - first_tile[node]) * TILE;
        const u32 rest = end[node] - from < TILE ? end[node] - from : TILE;
        const u32 n_here = state[leaf].finished ? 0 : rest;
        const f64 value = values[leaf];
        i64 slope = 0, curvature = 0;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            f64 d = value - value_of_key(keys[from + i]);
            d = d < -FARTHEST ? -FARTHEST : d;
            d = d > FARTHEST ? FARTHEST : d;
            const f64 t = d * tanh_ratio_(d);
#if WIDE
            const f64 weight = (f64)fixed[from + i];
#endif
            slope += (i64)rint(t * weight);
            curvature += (i64)rint((1.0 - t * t) * weight);
        }
        slopes[LOCAL_ID] = slope;
        curvatures[LOCAL_ID] = curvature;
        REDUCE(slopes, SUM);
        REDUCE(curvatures, SUM);
        if (LOCAL_ID == 0 && n_here > 0) {
            ADD_GLOBAL64(&state[leaf].slope, slopes[0]);
            ADD_GLOBAL64(&state[leaf].curvature, curvatures[0]);
        }
        BARRIER;
    }
}

//   last_step    a leaf is finished after a step of at most this length
KERNEL(THREADS) void step_kernel(u32 n_leaves, f64 last_step, GLOBAL f64 *RESTRICT values,
                                 GLOBAL slope_t *RESTRICT state) {
    for (u32 leaf = GROUP_ID * THREADS + LOCAL_ID; leaf < n_leaves; leaf += GROUP_COUNT * THREADS) {
        const i64 slope = state[leaf].slope, curvature = state[leaf].curvature;
        state[leaf].slope = 0;
        state[leaf].curvature = 0;
        if (slope == 0 || curvature == 0) {
            state[leaf].finished = 1;
        } else {
            const f64 ratio = (2.0 * fabs((f64)slope)) / (f64)curvature;
            const f64 step = 0.5 * log_(1.0 + ratio);
            values[leaf] = slope > 0 ? values[leaf] - step : values[leaf] + step;
            if (step <= last_step) state[leaf].finished = 1;
        }
    }
}

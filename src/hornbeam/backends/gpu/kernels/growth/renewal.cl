// Leaf values as percentiles of residuals: twin of percentiles.leaf_percentiles, without sorting.
//
// A percentile lies between two neighbours, `low` and `high`: the first values whose running weight C reaches, and
// passes, alpha times the total. Both are found digit by digit, most significant first, among the keys of the residuals
// (order.h): `count` adds up the weight of every leaf's rows whose digits so far are those found, by their next digit;
// `pick` takes the digit in which C gets there. Sums are integers, so the order of the rows cannot be seen.
//
//   WIDE      rows have weights; otherwise each counts 1
//
//   table     u32 (5, n_nodes + 1)        in   first tile; begin; end; depth; leaf, as in leaves.cl
//   node_count   u32 (1,)                 in   n_nodes; 0: the tree is not finished
//   keys      u64 (n_rows of the tree,)        of the residuals, by place in the row list: those of a node together
//   fixed     i64 (n_rows of the tree,)        weights in fixed point, likewise; only where WIDE
//   counts    i64 (n_leaves, 2, 256)           by digit, for low and high; zeros before and after a step
#define TILE (THREADS * 8)

// What is known of the percentile of a leaf; LEAF in renewal.py.
typedef struct {
    u64 low, high;                // keys of the neighbours: the digits found so far, then zeros
    i64 before_low, before_high;  // weight of the rows below them
    i64 total;
    f64 threshold;
} leaf_t;

#if WIDE
// Weights of the rows of a tree, and the largest of each group.
//
//   weight     f64 (n_rows,)          in    read only when weighted is not 0; otherwise all are 1
//   bag        u32 (n_in_bag,)        in    read only when bagged is not 0: see bag.cl
//   out        f64 (n_rows,)          out   only where bagged
//   partial    u64 (n_groups,)        out   bits of the largest weight of a group
KERNEL(THREADS) void tree_weights_kernel(GLOBAL const f64 *RESTRICT weight, u32 weighted,
                                         GLOBAL const u32 *RESTRICT bag, u32 bagged, u32 n_plain, u32 n_in_bag,
                                         f64 factor, GLOBAL f64 *RESTRICT out, GLOBAL u64 *RESTRICT partial) {
    LOCAL u64 shared[THREADS];
    u64 largest = 0;
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n_in_bag; place += (u64)GROUP_COUNT * THREADS) {
        const u64 row = bagged ? bag[place] : place;
        const f64 plain = weighted ? weight[row] : 1.0;
        const f64 w = place < n_plain ? plain : plain * factor;
        if (bagged) out[row] = w;
        largest = LARGER(SIZE_BITS(w), largest);
    }
    shared[LOCAL_ID] = largest;
    REDUCE(shared, LARGER);
    if (LOCAL_ID == 0) partial[GROUP_ID] = shared[0];
}
#endif

// Keys of label - score, and weights in fixed point.
//
//   scores    f64              in    of one output, from `offset` on
//   weight    f64 (n_rows,)    in    as tree_weights_kernel left them; n_tree is the number of rows of the tree
KERNEL(THREADS) void residuals_kernel(GLOBAL const u32 *RESTRICT rows_even, GLOBAL const u32 *RESTRICT rows_odd,
                                      GLOBAL const u32 *RESTRICT table, GLOBAL const u32 *RESTRICT node_count,
                                      GLOBAL const f64 *RESTRICT scores, u64 offset, GLOBAL const f64 *RESTRICT label,
                                      GLOBAL const f64 *RESTRICT weight, u64 n_tree, GLOBAL const u64 *RESTRICT partial,
                                      u32 n_partial, GLOBAL u64 *RESTRICT keys, GLOBAL i64 *RESTRICT fixed) {
    const u32 n_nodes = node_count[0];
    GLOBAL const u32 *first_tile = table, *begin = table + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL const u32 *depth = end + (n_nodes + 1);
    const u32 n_tiles = n_nodes > 0 ? first_tile[n_nodes] : 0;
#if WIDE
    LOCAL u64 shared[THREADS];
    u64 largest = 0;
    for (u32 i = LOCAL_ID; i < n_partial; i += THREADS) largest = LARGER(partial[i], largest);
    shared[LOCAL_ID] = largest;
    REDUCE(shared, LARGER);
    const f64 scale = exact_scale(BITS_TO_F64(shared[0]), n_tree);
#endif
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile);
        const u32 from = begin[node] + (tile - first_tile[node]) * TILE;
        const u32 n_here = end[node] - from < TILE ? end[node] - from : TILE;
        GLOBAL const u32 *rows = depth[node] % 2 ? rows_odd : rows_even;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u32 row = depth[node] == 0 ? from + i : rows[from + i];
            keys[from + i] = order_key(label[row] - scores[offset + row]);
#if WIDE
            fixed[from + i] = (i64)rint(weight[row] * scale);
#endif
        }
    }
}

//   step                0 to 7: which digit
//   first_leaf, last    leaves to do; `counts` begins with the first
//   leaves              leaf_t (all leaves,)   in
KERNEL(THREADS) void count_kernel(GLOBAL const u32 *RESTRICT table, GLOBAL const u32 *RESTRICT node_count,
                                  GLOBAL const u64 *RESTRICT keys, GLOBAL const i64 *RESTRICT fixed, u32 step,
                                  u32 first_leaf, u32 last, GLOBAL const leaf_t *RESTRICT leaves, GLOBAL i64 *counts) {
#if WIDE
    LOCAL u64 own[512];
#else
    LOCAL u32 own[512];
#endif
    const u32 n_nodes = node_count[0];
    GLOBAL const u32 *first_tile = table, *begin = table + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL const u32 *leaf_of = end + (n_nodes + 1) * 2;
    const u32 n_tiles = n_nodes > 0 ? first_tile[n_nodes] : 0;
    for (u32 i = LOCAL_ID; i < 512; i += THREADS) own[i] = 0;
    BARRIER;
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile);
        const u32 leaf = leaf_of[node];
        if (leaf < first_leaf || leaf >= last) continue;  // the whole group
        const u32 from = begin[node] + (tile - first_tile[node]) * TILE;
        const u32 n_here = end[node] - from < TILE ? end[node] - from : TILE;
        const u64 low = leaves[leaf].low, high = leaves[leaf].high;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u64 key = keys[from + i];
            const u32 digit = (u32)(key >> (56 - 8 * step)) & 0xFFu;
            const u32 is_low = step == 0 || (key ^ low) >> (64 - 8 * step) == 0;
            const u32 is_high = low != high && (key ^ high) >> (64 - 8 * step) == 0;
            if (is_low || is_high) {
#if WIDE
                ADD_LOCAL64(&own[is_high ? 256 + digit : digit], fixed[from + i]);
#else
                ADD_LOCAL32(&own[is_high ? 256 + digit : digit], 1);
#endif
            }
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < 512; i += THREADS) {
            if (own[i] != 0) ADD_GLOBAL64(&counts[(u64)(leaf - first_leaf) * 512 + i], own[i]);
            own[i] = 0;
        }
        BARRIER;
    }
}

// A group takes a leaf after the other, and all digits at once: of low, and of high where that is another one.
//
//   values    f64 (all leaves,)   out   in the last step; of leaves without rows in the first
KERNEL(THREADS) void pick_kernel(u32 step, u32 first_leaf, u32 last, f64 alpha, GLOBAL leaf_t *leaves,
                                 GLOBAL i64 *RESTRICT counts, GLOBAL f64 *RESTRICT values) {
    LOCAL i64 sums[2 * THREADS];
    LOCAL u64 found[2];
    for (u32 leaf = first_leaf + GROUP_ID; leaf < last; leaf += GROUP_COUNT) {
        GLOBAL i64 *own = counts + (u64)(leaf - first_leaf) * 512;
        if (step == 0) {  // all threads
            i64 sum = 0;
            for (u32 i = LOCAL_ID; i < 256; i += THREADS) sum += own[i];
            sums[LOCAL_ID] = sum;
            REDUCE(sums, SUM);
            if (LOCAL_ID == 0) {
                leaves[leaf].total = sums[0];
                leaves[leaf].threshold = alpha * (f64)sums[0];
            }
            BARRIER;
        }
        const leaf_t known = leaves[leaf];
        if (known.total == 0) {  // all threads: no rows, or none that weighs anything
            if (step == 0 && LOCAL_ID == 0) values[leaf] = 0.0;
            continue;
        }
        const u32 apart = known.low != known.high;
        i64 running[2] = {known.before_low, known.before_high};
        for (u32 first = 0; first < 256; first += THREADS) {
            const u32 digit = first + LOCAL_ID;
            i64 weight[2] = {0, 0}, upto[2], all[2];
            if (digit < 256) {
                weight[0] = own[digit];
                weight[1] = apart ? own[256 + digit] : weight[0];
                own[digit] = own[256 + digit] = 0;
            }
            BARRIER;
            SCAN_LANES(sums, 2, 1, weight, upto, all);
            UNROLL for (u32 is_high = 0; is_high < 2; is_high++) {
                const i64 below = running[is_high] + upto[is_high] - weight[is_high];
                const f64 before = (f64)below, after = (f64)(below + weight[is_high]);
                const u32 was_there = digit > 0 && (is_high ? before > known.threshold : before >= known.threshold);
                const u32 gets_there = is_high ? after > known.threshold : after >= known.threshold;
                if (digit < 256 && !was_there && (gets_there || digit == 255)) {
                    const u64 key = (is_high ? known.high : known.low) | (u64)digit << (56 - 8 * step);
                    if (is_high) {
                        leaves[leaf].high = key;
                        leaves[leaf].before_high = below;
                    } else {
                        leaves[leaf].low = key;
                        leaves[leaf].before_low = below;
                    }
                    found[is_high] = key;
                }
                running[is_high] += all[is_high];
            }
        }
        BARRIER;
        if (step == 7 && LOCAL_ID == 0) {
            const f64 low = value_of_key(found[0]), high = value_of_key(found[1]);
            values[leaf] = low + (high - low) * 0.5 + 0.0;
        }
        BARRIER;
    }
}

// What the host makes of the values, where it does not see them: at most max_delta_step, times the learning rate.
//
//   values    f64 (n_leaves,)     in
//   sums      i64 (n_leaves, 2)         as in leaves.cl
//             f64 (n_leaves,)     out   behind them
KERNEL(THREADS) void renewed_values_kernel(GLOBAL const f64 *RESTRICT values, f64 most, f64 learning_rate, u32 n_leaves,
                                           GLOBAL i64 *RESTRICT sums) {
    GLOBAL f64 *out = (GLOBAL f64 *)(sums + 2 * n_leaves);
    for (u32 leaf = GROUP_ID * THREADS + LOCAL_ID; leaf < n_leaves; leaf += GROUP_COUNT * THREADS) {
        const f64 value = values[leaf] < -most ? -most : values[leaf];
        out[leaf] = (value > most ? most : value) * learning_rate;
    }
}

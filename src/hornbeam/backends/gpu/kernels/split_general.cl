// The best split of each node with a context: twin of splitting.best_split with a NodeContext, the same float64
// operations in the same order. Where split.cl is quick this is plain: nothing is kept in registers, and histograms
// have been subtracted before.
//
// A group looks at one tile of one node, its threads form a grid of bins x lanes as in split.cl: each sums its own run
// of bins, the runs before it are added up, then it scans its run. split.cl's choose_kernel takes the best tile.
//
// Rows are the last of the sums, as in split.cl.
//
//     histograms    i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in
//     table         i64 (n_nodes, 4)          in    gradient and hessian sum of the node; rows; slot
//     context       i64 (n_nodes, 6)          in    f64 lower, upper, parent_output, score, monotone_factor; key
//     mask          u32 (n_nodes, n_words)    in    features that may be used
//     features      u32 (n_used,)             in    value bins * 2 + has missing
//     signs         i32 (n_used,)             in    monotone constraint
//     contribution  f64 (n_used,)             in    factor on gains
//     splits        split_t (n_nodes, n_tiles)   out
#define TILE_LANES (TILE_WORDS * 32 / BIN_BITS)
#define PARTS      (THREADS / TILE_LANES)
#define RUN        ((N_BINS + PARTS - 1) / PARTS)
#define PLANE      (N_BINS * TILE_LANES)

KERNEL(THREADS) void split_general_kernel(GLOBAL const i64 *RESTRICT histograms, GLOBAL const i64 *RESTRICT table,
                                          GLOBAL const i64 *RESTRICT context, GLOBAL const u32 *RESTRICT mask,
                                          u32 n_words, GLOBAL const u32 *RESTRICT features,
                                          GLOBAL const i32 *RESTRICT signs, GLOBAL const f64 *RESTRICT contribution,
                                          u32 n_used, u32 n_tiles, f64 gradient_unit, f64 hessian_unit, f64 lambda_l1,
                                          f64 lambda_l2, f64 max_delta_step, f64 min_gain, f64 min_hessian,
                                          i64 min_rows, f64 path_smooth, u32 monotone, u32 extra_trees,
                                          GLOBAL split_t *RESTRICT splits) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 node = GROUP_ID / n_tiles, tile = GROUP_ID % n_tiles;
    const u32 lane = LOCAL_ID % TILE_LANES, part = LOCAL_ID / TILE_LANES, feature = tile * TILE_LANES + lane;
    GLOBAL const i64 *own = table + (u64)node * 4;
    GLOBAL const i64 *around = context + (u64)node * 6;
    const i64 total_g = own[0], total_h = own[1], n_rows = own[STATS - 1];
    GLOBAL const i64 *histogram = histograms + ((u64)own[3] * n_tiles + tile) * (STATS * PLANE) + lane;
    const u32 used = feature < n_used && (mask[(u64)node * n_words + feature / 32] >> (feature % 32)) & 1u;
    const u32 described = used ? features[feature] : 0;
    const u32 n_values = described / 2, has_missing = described % 2;
    const u32 from = part * RUN < N_BINS ? part * RUN : N_BINS;
    const u32 to = from + RUN < N_BINS ? from + RUN : N_BINS;
    for (u32 stat = 0; stat < STATS; stat++) {
        i64 sum = 0;
        for (u32 bin = from; bin < to && bin < n_values; bin++) sum += histogram[stat * PLANE + bin * TILE_LANES];
        sums[stat * THREADS + LOCAL_ID] = sum;
    }
    BARRIER;
    for (u32 i = LOCAL_ID; i < STATS * TILE_LANES; i += THREADS) {
        const u32 first = i / TILE_LANES * THREADS + i % TILE_LANES;
        i64 before = 0;
        for (u32 p = 0; p < PARTS; p++) {
            const i64 sum = sums[first + p * TILE_LANES];
            sums[first + p * TILE_LANES] = before;
            before += sum;
        }
    }
    BARRIER;

    rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, min_rows);
    enter_context(&how, around, path_smooth, monotone);
    const i32 sign = used ? signs[feature] : 0;
    f64 factor = used ? contribution[feature] : 1.0;
    if (sign != 0) factor = factor * BITS_TO_F64(around[4]);
    const u32 only = random_threshold((u64)around[5], feature, n_values, has_missing);

    f64 best_gain = NO_GAIN;
    u64 best_key = NO_KEY;
    i64 best_g = 0, best_h = 0;
    i64 g = sums[LOCAL_ID], h = sums[THREADS + LOCAL_ID], rows = sums[(STATS - 1) * THREADS + LOCAL_ID];
    for (u32 bin = from; bin < to && bin < n_values; bin++) {
        g += histogram[bin * TILE_LANES];
        h += histogram[PLANE + bin * TILE_LANES];
        rows += histogram[(STATS - 1) * PLANE + bin * TILE_LANES];
        if (extra_trees && bin != only) continue;
        for (u32 side = has_missing ? 0 : 1; side < 2; side++) {  // 0: missing goes left
            const u32 missing = n_values * TILE_LANES;
            const i64 left_g = side ? g : g + histogram[missing];
            const i64 left_h = side ? h : h + histogram[PLANE + missing];
            const i64 left_rows = side ? rows : rows + histogram[(STATS - 1) * PLANE + missing];
            const f64 gain = candidate_gain(left_g, left_h, total_g - left_g, total_h - left_h, left_rows,
                                            n_rows - left_rows, gradient_unit, hessian_unit, sign, factor, &how);
            if (gain > best_gain) {  // the first of equals stays
                best_gain = gain;
                best_key = ((u64)feature << 32) | (bin << 1) | (has_missing ? side : 0);
                best_g = left_g;
                best_h = left_h;
            }
        }
    }
    FIND_BEST(gains, keys, best_gain, best_key);
    if (HAS_BEST(keys, best_key)) store_split(splits + GROUP_ID, best_gain, best_key, best_g, best_h);
}

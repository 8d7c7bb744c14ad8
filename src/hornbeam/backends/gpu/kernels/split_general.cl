// The best split of each node with a context: twin of splitting.best_split with a NodeContext, the same float64
// operations in the same order. Where split.cl is quick this is plain: nothing is kept in registers, and every
// candidate is computed by the one formula.
//
// A group looks at a piece of a tile (4 features) of one node, its threads form a grid of bins x lanes as in split.cl:
// each sums its own run of bins, the runs before it are added up, then it scans its run. When the histogram of a node
// is still that of its parent, the sibling's is subtracted on the way.
//
// Rows are the last of the sums, and ties are broken, as in split.cl.
//
//     histograms    i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in, out
//     count         u32 (1,)                  in    n_nodes / children
//     table         i64 (n_nodes, 5)          in    as in split.cl
//     features      u32 (n_used,)             in    value bins * 2 + has missing
//     units         f64 (2,)                  in    what a step of gradients and of hessians stands for
//     splits        split_t (n_nodes, n_tiles * PIECES)   out
//     context       i64 (n_nodes, 6)          in    f64 lower, upper, parent_output, score, monotone_factor; key
//     mask          u32 (n_nodes, n_words)    in    features that may be used
//     signs         i32 (n_used,)             in    monotone constraint
//     contribution  f64 (n_used,)             in    factor on gains
#define TILE_LANES (TILE_WORDS * 32 / BIN_BITS)
#define LANES      4
#define PIECES     (TILE_LANES / LANES)
#define PARTS      (THREADS / LANES)
#define RUN        ((N_BINS + PARTS - 1) / PARTS)
#define PLANE      (N_BINS * TILE_LANES)

KERNEL(THREADS) void split_general_kernel(
    GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT table, GLOBAL const u32 *RESTRICT count, u32 children,
    GLOBAL const u32 *RESTRICT features, u32 n_used, u32 n_tiles, GLOBAL const f64 *RESTRICT units, f64 lambda_l1,
    f64 lambda_l2, f64 max_delta_step, f64 min_gain, f64 min_hessian, i64 min_rows, GLOBAL split_t *RESTRICT splits,
    GLOBAL const i64 *RESTRICT context, GLOBAL const u32 *RESTRICT mask, u32 n_words, GLOBAL const i32 *RESTRICT signs,
    GLOBAL const f64 *RESTRICT contribution, f64 path_smooth, u32 monotone, u32 extra_trees) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 n_pieces = n_tiles * PIECES, n_items = count[0] * children * n_pieces;
    const u32 lane = LOCAL_ID % LANES, part = LOCAL_ID / LANES;
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    const u32 from = part * RUN < N_BINS ? part * RUN : N_BINS;
    const u32 to = from + RUN < N_BINS ? from + RUN : N_BINS;
    const f64 gradient_unit = units[0], hessian_unit = units[1];
    for (u32 item = GROUP_ID; item < n_items; item += GROUP_COUNT) {
        const u32 node = item / n_pieces, piece = item % n_pieces;
        const u32 in_tile = piece % PIECES * LANES + lane, feature = piece / PIECES * TILE_LANES + in_tile;
        GLOBAL const i64 *own = table + (u64)node * 5;
        GLOBAL const i64 *around = context + (u64)node * 6;
        const i64 total_g = own[0], total_h = own[1], n_rows = own[STATS - 1], slot = own[3], sibling = own[4];
        if (slot < 0) {
            if (LOCAL_ID == 0) {
                const split_t nothing = {NO_GAIN, 0, 0, 0, 0, 0, 0};
                splits[item] = nothing;
            }
            continue;
        }
        GLOBAL i64 *own_lane = histograms + (u64)(piece / PIECES) * (STATS * PLANE) + in_tile;
        GLOBAL i64 *histogram = own_lane + (u64)slot * slot_size;
        GLOBAL const i64 *minus = own_lane + (u64)(sibling < 0 ? 0 : sibling) * slot_size;
        const u32 used = feature < n_used && (mask[(u64)node * n_words + feature / 32] >> feature % 32 & 1u);
        const u32 described = used ? features[feature] : 0;
        const u32 n_values = described / 2, has_missing = described % 2;
        i64 run[STATS], upto[STATS], all[STATS];
        for (u32 stat = 0; stat < STATS; stat++) {
            run[stat] = 0;
            for (u32 bin = from; bin < to; bin++) {
                const u32 at = stat * PLANE + bin * TILE_LANES;
                i64 value = histogram[at];
                if (sibling >= 0) {
                    value -= minus[at];
                    histogram[at] = value;
                }
                run[stat] += bin < n_values ? value : 0;
            }
        }
        SCAN_LANES(sums, STATS, LANES, run, upto, all);

        rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, min_rows);
        enter_context(&how, around, path_smooth, monotone);
        const i32 sign = used ? signs[feature] : 0;
        f64 factor = used ? contribution[feature] : 1.0;
        if (sign != 0) factor = factor * BITS_TO_F64(around[4]);
        const u32 only = random_threshold((u64)around[5], feature, n_values, has_missing);

        f64 best_gain = NO_GAIN;
        u64 best_key = NO_KEY;
        i64 best_g = 0, best_h = 0;
        i64 g = upto[0] - run[0], h = upto[1] - run[1], rows = upto[STATS - 1] - run[STATS - 1];
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
        if (HAS_BEST(keys, best_key)) store_split(splits + item, best_gain, best_key, best_g, best_h);
        BARRIER;
    }
}

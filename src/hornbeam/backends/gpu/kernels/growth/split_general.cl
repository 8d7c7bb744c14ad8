// The best split of each node with a context: twin of splitting.best_split with a NodeContext, the same float64
// operations in the same order. Where split.cl is quick this is plain: every candidate is computed by the one formula.
//
// A group looks at a piece of a tile (4 features) of one node, its threads form a grid of bins x lanes as in split.cl:
// each sums its own run of bins, the runs before it are added up, then it scans its run. Features of more bins than the
// group has room for (256) are looked at in blocks. When the histogram of a node is still that of its parent, the
// sibling's is subtracted on the way.
//
// Rows are the last of the sums, and ties are broken, as in split.cl.
//
//     histograms    i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in, out
//     count         u32 (1,)                  in    n_nodes / children
//     table         i64 (n_nodes, 5)          in    as in split.cl
//     features      u32 (n_used,)             in    value bins * 2 + has missing
//     units         f64 (2,)                  in    what a step of gradients and of hessians stands for
//     splits        split_t (n_nodes, n_pieces)   out
//     CONTEXT_ARGUMENTS  see gains.h
#define RUN 4

KERNEL(THREADS) void split_general_kernel(GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT table,
                                          GLOBAL const u32 *RESTRICT count, u32 children,
                                          GLOBAL const u32 *RESTRICT features, u32 n_used, u32 n_tiles, u32 n_pieces,
                                          GLOBAL const f64 *RESTRICT units, f64 lambda_l1, f64 lambda_l2,
                                          f64 max_delta_step, f64 min_gain, f64 min_hessian, i64 min_rows,
                                          GLOBAL split_t *RESTRICT splits, CONTEXT_ARGUMENTS) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL i64 missing[STATS * LANES];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 n_items = count[0] * children * n_pieces;
    const u32 lane = LOCAL_ID % LANES, part = LOCAL_ID / LANES;
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
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
        if (part < STATS) {
            const u32 at = part * PLANE + n_values * TILE_LANES;
            missing[part * LANES + lane] = histogram[at] - (sibling >= 0 ? minus[at] : 0);
        }
        BARRIER;
        rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, min_rows);
        enter_context(&how, around, path_smooth, monotone);
        const i32 sign = used ? signs[feature] : 0;
        f64 factor = used ? contribution[feature] : 1.0;
        if (sign != 0) factor = factor * BITS_TO_F64(around[4]);
        if (used) how.score = BAR(around, node, feature);
        rules_t right = how;
        const u32 only = random_threshold((u64)around[5], feature, n_values, has_missing);

        f64 best_gain = NO_GAIN;
        u64 best_key = NO_KEY;
        i64 best_g = 0, best_h = 0, carry[STATS];  // what the blocks before this one add up to
        UNROLL for (u32 stat = 0; stat < STATS; stat++) carry[stat] = 0;
        for (u32 block = 0; block < N_BLOCKS; block++) {
            const u32 from = block * BLOCK + part * RUN;
            i64 kept[STATS * RUN], run[STATS], upto[STATS], block_total[STATS];
            READ_RUN(kept, histogram, minus, sibling >= 0);
            ADD_RUN_UP(kept, run);
            SCAN_LANES(sums, STATS, LANES, run, upto, block_total);
            i64 g = carry[0] + upto[0] - run[0], h = carry[1] + upto[1] - run[1];
            i64 rows = carry[STATS - 1] + upto[STATS - 1] - run[STATS - 1];
            UNROLL for (u32 stat = 0; stat < STATS; stat++) carry[stat] += block_total[stat];
            if (N_BLOCKS > 1) BARRIER;
            for (u32 k = 0; k < RUN && from + k < n_values; k++) {
                UNROLL for (u32 j = 0; j < RUN; j++) {
                    g += j == k ? kept[j] : 0;
                    h += j == k ? kept[RUN + j] : 0;
                    rows += j == k ? kept[(STATS - 1) * RUN + j] : 0;
                }
                if (n_sides > 0) enter_sides(&how, &right, sides, n_sides, node, side_offsets[feature] + from + k);
                for (u32 side = has_missing ? 0 : 1; side < 2 && (!extra_trees || from + k == only); side++) {
                    const i64 left_g = g + (side ? 0 : missing[lane]);  // 0: missing goes left
                    const i64 left_h = h + (side ? 0 : missing[LANES + lane]);
                    const i64 left_rows = rows + (side ? 0 : missing[(STATS - 1) * LANES + lane]);
                    const f64 gain =
                        gain_between(left_g, left_h, total_g - left_g, total_h - left_h, left_rows, n_rows - left_rows,
                                     gradient_unit, hessian_unit, sign, factor, &how, &right);
                    if (gain > best_gain) {  // the first of equals stays
                        best_gain = gain;
                        best_key = ((u64)feature << 32) | ((from + k) << 1) | (has_missing ? side : 0);
                        best_g = left_g;
                        best_h = left_h;
                    }
                }
            }
        }
        FIND_BEST(gains, keys, best_gain, best_key);
        if (HAS_BEST(keys, best_key)) store_split(splits + item, best_gain, best_key, best_g, best_h);
        BARRIER;
    }
}

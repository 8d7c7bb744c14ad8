// The best split of each node where columns are bundles of features (gpu/data/bundles.py): twin of
// splitting.best_split, the same float64 operations in the same order, with a context of the nodes (CONTEXT) or
// without. split.cl has the reasons for what is the same here, gains.h the gain of a candidate.
//
// A group looks at 4 columns of one node. Threads form a grid of codes x lanes: each sums its own run of codes, the
// runs before it are added up, and the sums of all codes up to each are kept in local memory. Then every code is a
// candidate threshold of its feature, which owns the codes first to last - 1. Place k of them:
//
//     bins below the default one    threshold k       left: the codes up to k
//     bins above it                 threshold k too   left: the node without the codes from k on
//
//     bin         0      1      2 (default)    3      4      missing
//     place       0      1                     2      3      4 (where some are missing)
//     threshold   0      1                     2      3      4
//     left        0..0   0..1                  0..2   0..3   0..4
//
// so that n bins with one default have n - 1 thresholds and n - 1 codes. The sums of the default bin are what the other
// codes leave of the node's; it may be the missing bin too. A feature alone in its column has no default bin, and the
// code of its missing bin is no threshold.
//
// Ties are broken by keys (candidates.h), and so is the choice among pieces: columns are not in the order of features.
//
//     histograms      i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in, out
//     count           u32 (1,)             in    n_nodes / children
//     table           i64 (n_nodes, 5)     in    as in split.cl
//     features        u32 (n_used,)        in    value bins * 2 + has missing; 0: not to be used
//     members         member_t (n_used,)   in    see bins.h
//     code_features   u32 (n_columns, N_BINS)   in   feature whose threshold a code is
//     units           f64 (2,)             in    what a step of gradients and of hessians stands for
//     splits          split_t (n_nodes, n_pieces)   out
//     CONTEXT_ARGUMENTS                         in    CONTEXT: see gains.h
#define LANES  4
#define PIECES (TILE_LANES / LANES)
#define PARTS  (THREADS / LANES)
#define RUN    ((N_BINS + PARTS - 1) / PARTS)
#define PLANE  (N_BINS * TILE_LANES)
#define NOBODY 0xFFFFFFFFu

// The sum of the codes before one.
#define BEFORE(stat, code) ((code) == 0 ? 0 : upto[((stat) * N_BINS + (code) - 1) * LANES + lane])

KERNEL(THREADS) void split_bundles_kernel(GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT table,
                                          GLOBAL const u32 *RESTRICT count, u32 children,
                                          GLOBAL const u32 *RESTRICT features, GLOBAL const member_t *RESTRICT members,
                                          GLOBAL const u32 *RESTRICT code_features, u32 n_columns, u32 n_tiles,
                                          u32 n_pieces, GLOBAL const f64 *RESTRICT units, f64 lambda_l1, f64 lambda_l2,
                                          f64 max_delta_step, f64 min_gain, f64 min_hessian, i64 min_rows,
                                          GLOBAL split_t *RESTRICT splits
#if CONTEXT
                                          ,
                                          CONTEXT_ARGUMENTS
#endif
) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL i64 upto[STATS * N_BINS * LANES];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 n_items = count[0] * children * n_pieces;
    const u32 lane = LOCAL_ID % LANES, part = LOCAL_ID / LANES;
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    const f64 gradient_unit = units[0], hessian_unit = units[1];
    for (u32 item = GROUP_ID; item < n_items; item += GROUP_COUNT) {
        const u32 node = item / n_pieces, piece = item % n_pieces;
        const u32 in_tile = piece % PIECES * LANES + lane, column = piece / PIECES * TILE_LANES + in_tile;
        GLOBAL const i64 *own = table + node * 5;
        const i64 total_g = own[0], total_h = own[1], n_rows = own[STATS - 1], slot = own[3], sibling = own[4];
        GLOBAL split_t *out = splits + item;
        if (slot < 0 || column - lane >= n_columns) {
            if (LOCAL_ID == 0) {
                const i32 none = slot >= 0 ? -1 : 0;
                const split_t nothing = {NO_GAIN, 0, 0, none, none, 0, 0};
                *out = nothing;
            }
            continue;
        }
        GLOBAL i64 *own_lane = histograms + (u64)(piece / PIECES) * (STATS * PLANE) + in_tile;
        GLOBAL i64 *histogram = own_lane + (u64)slot * slot_size;
        GLOBAL const i64 *minus = own_lane + (u64)(sibling < 0 ? 0 : sibling) * slot_size;
        const u32 from = part * RUN;
        i64 kept[STATS * RUN], run[STATS], scanned[STATS], all[STATS];
        UNROLL for (u32 i = 0; i < STATS * RUN; i++) {
            const u32 code = from + i % RUN;
            kept[i] = code < N_BINS ? histogram[i / RUN * PLANE + code * TILE_LANES] : 0;
        }
        if (sibling >= 0) {
            i64 other[STATS * RUN];  // all loads before the first use: they are under way together
            UNROLL for (u32 i = 0; i < STATS * RUN; i++) {
                const u32 code = from + i % RUN;
                other[i] = code < N_BINS ? minus[i / RUN * PLANE + code * TILE_LANES] : 0;
            }
            UNROLL for (u32 i = 0; i < STATS * RUN; i++) {
                const u32 code = from + i % RUN;
                kept[i] -= other[i];
                if (code < N_BINS) histogram[i / RUN * PLANE + code * TILE_LANES] = kept[i];
            }
        }
        UNROLL for (u32 stat = 0; stat < STATS; stat++) {
            run[stat] = 0;
            UNROLL for (u32 k = 0; k < RUN; k++) run[stat] += kept[stat * RUN + k];
        }
        SCAN_LANES(sums, STATS, LANES, run, scanned, all);
        UNROLL for (u32 stat = 0; stat < STATS; stat++) {
            i64 sum = scanned[stat] - run[stat];
            UNROLL for (u32 k = 0; k < RUN; k++) {
                sum += kept[stat * RUN + k];
                if (from + k < N_BINS) upto[(stat * N_BINS + from + k) * LANES + lane] = sum;
            }
        }
        BARRIER;

        rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, min_rows);
#if CONTEXT
        GLOBAL const i64 *around = context + (u64)node * 6;
        enter_context(&how, around, path_smooth, monotone);
#else
        how.score =
            leaf_score((f64)total_g * gradient_unit, (f64)total_h * hessian_unit, lambda_l1, lambda_l2, max_delta_step);
#endif
        f64 best_gain = NO_GAIN;
        u64 best_key = NO_KEY;
        i64 best_g = 0, best_h = 0;
        for (u32 k = 0; k < RUN; k++) {
            const u32 code = from + k;
            const u32 feature =
                code < N_BINS && column < n_columns ? code_features[(u64)column * N_BINS + code] : NOBODY;
            const u32 described = feature == NOBODY ? 0 : features[feature];
            const u32 n_values = described / 2, has_missing = described % 2;
            if (n_values == 0) continue;
            const member_t member = members[feature];
            i32 sign = 0;
            f64 factor = 1.0;
#if CONTEXT
            if (!(mask[(u64)node * n_words + feature / 32] >> feature % 32 & 1u)) continue;
            const u32 only = random_threshold((u64)around[5], feature, n_values, has_missing);
            if (extra_trees && code - member.first != only) continue;
            sign = signs[feature];
            factor = contribution[feature];
            if (sign != 0) factor = factor * BITS_TO_F64(around[4]);
            how.score = BAR(around, node, feature);
            rules_t right = how;
            if (n_sides > 0)
                enter_sides(&how, &right, sides, n_sides, node, side_offsets[feature] + code - member.first);
#else
            const rules_t right = how;
#endif
            const u32 first = member.first, last = first + member.n_codes, place = code - first;
            const u32 is_low = place < member.standard, rest_is_missing = member.standard == n_values;
            i64 left[STATS], missing[STATS];
            UNROLL for (u32 stat = 0; stat < STATS; stat++) {
                const i64 total = stat == 0 ? total_g : stat == STATS - 1 ? n_rows : total_h;
                const i64 before = BEFORE(stat, first), upto_last = BEFORE(stat, last);
                left[stat] = is_low ? BEFORE(stat, code + 1) - before : total - (upto_last - BEFORE(stat, code));
                missing[stat] = rest_is_missing              ? total - (upto_last - before)
                                : member.n_codes >= n_values ? upto_last - BEFORE(stat, last - 1)
                                                             : 0;
            }
            for (u32 side = has_missing ? 0 : 1; side < 2; side++) {  // 0: missing goes left
                const i64 g = left[0] + (side ? 0 : missing[0]), h = left[1] + (side ? 0 : missing[1]);
                const i64 rows = left[STATS - 1] + (side ? 0 : missing[STATS - 1]);
                const f64 gain = gain_between(g, h, total_g - g, total_h - h, rows, n_rows - rows, gradient_unit,
                                              hessian_unit, sign, factor, &how, &right);
                const u64 key = ((u64)feature << 32) | (place << 1) | (has_missing ? side : 0);
                if (gain > NO_GAIN && IS_BETTER(gain, key, best_gain, best_key)) {
                    best_gain = gain;
                    best_key = key;
                    best_g = g;
                    best_h = h;
                }
            }
        }
        FIND_BEST(gains, keys, best_gain, best_key);
        if (HAS_BEST(keys, best_key)) store_split(out, best_gain, best_key, best_g, best_h);
        BARRIER;
    }
}

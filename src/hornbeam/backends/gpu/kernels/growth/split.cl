// The best split of each node: twin of splitting.best_split, the same float64 operations in the same order.
//
// A group looks at a piece of a tile (4 features) of one node. Threads form a grid of bins x lanes:
// each sums its own run of bins, the runs before it are added up, then it scans its run. Features of more bins than
// the group has room for (256) are looked at in blocks, twice.
//
//              lane 0   lane 1   ...  lane 3
//     part 0   bins 0..7 of each feature              sums[stat][part][lane]: what each run adds up to,
//     part 1   bins 8..15                             then what all runs up to it add up to
//     ...
//
// Float64 divisions are slow, and only the winner's gain is needed. So every candidate's score is first taken in single
// precision, good to 2^-20; those within 2^-18 of the best of the piece are then computed by the one formula. All that
// could tie with the winner are among them.
//
// Ties are broken by keys, see candidates.h.
//
// Rows are the last of the sums: counted, or, where hessians are all 1 or only empty children are forbidden, the
// hessians themselves.
//
// When the histogram of a node is still that of its parent, the sibling's is subtracted on the way.
//
//     histograms   i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in, out
//     count        u32 (1,)           in    n_nodes / children
//     table        i64 (n_nodes, 5)   in    gradient and hessian sum of the node; rows; slot, or -1: cannot be split;
//                                           sibling's slot, or -1
//     features     u32 (n_used,)      in    value bins * 2 + has missing
//     units        f64 (2,)           in    what a step of gradients and of hessians stands for
//     splits       split_t (n_nodes, n_pieces)   out
//     mask         u32 (n_nodes, n_words)   in    CONTEXT, where contexts say no more than that: features that may be
//                                                 used; else split_general.cl searches
#define RUN   8
#define CLOSE 0.99999618530273437f /* 1 - 2**-18 */
#define MOST  0x3FFFFFFFFFFFFFFF

#if CONTEXT
#define IS_ALLOWED (mask[(u64)node * n_words + feature / 32] >> feature % 32 & 1u)
#else
#define IS_ALLOWED 1
#endif

// The least fixed-point hessian, 1 or more, whose weight is not below min_hessian.
DEVICE i64 least_allowed(f64 min_hessian, f64 unit) {
    const f64 quotient = min_hessian / unit;
    if (!(quotient < 4e18)) return MOST;
    i64 least = (i64)quotient + 1;
    while (least > 1 && (f64)(least - 1) * unit >= min_hessian) least--;
    while ((f64)least * unit < min_hessian) least++;
    return least;
}

// Whether any of the features of a piece has missing values.
DEVICE u32 has_missing_piece(GLOBAL const u32 *RESTRICT features, u32 first, u32 n_used) {
    u32 any = 0;
    UNROLL for (u32 i = 0; i < LANES; i++) any |= first + i < n_used ? features[first + i] % 2 : 0;
    return any;
}

KERNEL_SHARING(THREADS, 4)
void split_kernel(GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT table, GLOBAL const u32 *RESTRICT count,
                  u32 children, GLOBAL const u32 *RESTRICT features, u32 n_used, u32 n_tiles, u32 n_pieces,
                  GLOBAL const f64 *RESTRICT units, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step, f64 min_gain,
                  f64 min_hessian, i64 min_rows, GLOBAL split_t *RESTRICT splits
#if CONTEXT
                  ,
                  GLOBAL const u32 *RESTRICT mask, u32 n_words
#endif
) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL i64 missing[STATS * LANES];
    LOCAL u32 highest[1], n_found[1];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    LOCAL i64 lefts[2 * THREADS];
    const u32 n_items = count[0] * children * n_pieces;
    const u32 lane = LOCAL_ID % LANES, part = LOCAL_ID / LANES;
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    const f64 gradient_unit = units[0], hessian_unit = units[1];
    const i64 least_hessian = least_allowed(min_hessian, hessian_unit);
    const u32 is_plain = lambda_l1 == 0.0 && max_delta_step <= 0.0;  // else every candidate is computed
    const f32 extra = (f32)(lambda_l2 / hessian_unit);
    for (u32 item = GROUP_ID; item < n_items; item += GROUP_COUNT) {
        const u32 node = item / n_pieces, piece = item % n_pieces;
        const u32 in_tile = piece % PIECES * LANES + lane, feature = piece / PIECES * TILE_LANES + in_tile;
        const u32 described = feature < n_used && IS_ALLOWED ? features[feature] : 0;
        const u32 n_values = described / 2, has_missing = described % 2;
        const u32 any_missing = has_missing_piece(features, feature - lane, n_used);
        GLOBAL const i64 *own = table + node * 5;
        const i64 total_g = own[0], total_h = own[1], n_rows = own[STATS - 1], slot = own[3], sibling = own[4];
        GLOBAL i64 *own_lane = histograms + (u64)(piece / PIECES) * (STATS * PLANE) + in_tile;
        GLOBAL i64 *histogram = own_lane + (u64)(slot < 0 ? 0 : slot) * slot_size;
        GLOBAL const i64 *minus = own_lane + (u64)(sibling < 0 ? 0 : sibling) * slot_size;
        if (part < STATS && slot >= 0) {
            const u32 at = part * PLANE + n_values * TILE_LANES;
            missing[part * LANES + lane] = histogram[at] - (sibling >= 0 ? minus[at] : 0);
        }
        if (LOCAL_ID == 0) {
            highest[0] = 0;
            n_found[0] = 0;
        }
        BARRIER;
        const f64 parent =
            leaf_score((f64)total_g * gradient_unit, (f64)total_h * hessian_unit, lambda_l1, lambda_l2, max_delta_step);
        i64 kept[STATS * RUN], before[STATS];
        f32 rough[2 * RUN], best_rough = -1.0f;
        f64 best_gain = NO_GAIN;
        u64 best_key = NO_KEY;
        i64 best_g = 0, best_h = 0;
        const u32 several = N_BLOCKS > 1;
        for (u32 sweep = 0; sweep < 2; sweep++) {  // 0: all candidates roughly; 1: those that come close, exactly
            i64 carry[STATS];                      // what the blocks before this one add up to
            UNROLL for (u32 stat = 0; stat < STATS; stat++) carry[stat] = 0;
            for (u32 block = 0; block < N_BLOCKS && slot >= 0; block++) {
                const u32 from = block * BLOCK + part * RUN;
                if (sweep == 0 || several) {
                    const u32 subtracts = sweep == 0 && sibling >= 0;
                    READ_RUN(kept, histogram, minus, subtracts);
                    i64 run[STATS], upto[STATS], block_total[STATS];
                    ADD_RUN_UP(kept, run);
                    SCAN_LANES(sums, STATS, LANES, run, upto, block_total);
                    UNROLL for (u32 stat = 0; stat < STATS; stat++) {
                        before[stat] = carry[stat] + upto[stat] - run[stat];
                        carry[stat] += block_total[stat];
                    }
                    if (N_BLOCKS > 1) BARRIER;
                    // without a branch between the candidates; -1: not allowed
                    best_rough = -1.0f;
                    UNROLL for (u32 side = 0; side < 2; side++) {  // 0: missing goes left
                        i64 g = before[0], h = before[1], rows = before[STATS - 1];
                        UNROLL for (u32 k = 0; k < RUN; k++) rough[side * RUN + k] = -1.0f;
                        if (side == 0 && !any_missing) continue;
                        if (side == 0) {
                            g += missing[lane];
                            h += missing[LANES + lane];
                            rows += missing[(STATS - 1) * LANES + lane];
                        }
                        UNROLL for (u32 k = 0; k < RUN; k++) {
                            g += kept[k];
                            h += kept[RUN + k];
                            rows += kept[(STATS - 1) * RUN + k];
                            const u32 is_allowed = (from + k < n_values) & (side | has_missing) & (h >= least_hessian) &
                                                   (total_h - h >= least_hessian) & (rows >= min_rows) &
                                                   (n_rows - rows >= min_rows);
                            const f32 l = (f32)g, r = (f32)(total_g - g);
                            const f32 score = ROUGH_QUOTIENT(l * l, (f32)h + extra) +
                                              ROUGH_QUOTIENT(r * r, (f32)(total_h - h) + extra);
                            const f32 value = is_allowed ? (is_plain ? score : 1.0f) : -1.0f;
                            rough[side * RUN + k] = value;
                            best_rough = value > best_rough ? value : best_rough;
                        }
                    }
                }
                if (sweep == 0) MAX_LOCAL32_OF_ALL(&highest[0], best_rough > 0.0f ? F32_TO_BITS(best_rough) : 0u);
                const f32 bar = sweep == 0 ? 0.0f : BITS_TO_F32(highest[0]) * CLOSE;  // known after the first sweep
                if (sweep == 1 && best_rough >= bar) {
                    for (u32 i = 0; i < 2 * RUN; i++) {
                        const u32 k = i / 2, side = i % 2;  // in the order in which ties are broken
                        i64 left_g = before[0], left_h = before[1];
                        f32 own_rough = -1.0f;
                        UNROLL for (u32 j = 0; j < RUN; j++) {
                            left_g += j <= k ? kept[j] : 0;
                            left_h += j <= k ? kept[RUN + j] : 0;
                            own_rough = j == k ? (side ? rough[RUN + j] : rough[j]) : own_rough;
                        }
                        if (own_rough < bar) continue;
                        if (side == 0) {
                            left_g += missing[lane];
                            left_h += missing[LANES + lane];
                        }
                        const i64 right_g = total_g - left_g, right_h = total_h - left_h;
                        const f64 score = leaf_score((f64)left_g * gradient_unit, (f64)left_h * hessian_unit, lambda_l1,
                                                     lambda_l2, max_delta_step) +
                                          leaf_score((f64)right_g * gradient_unit, (f64)right_h * hessian_unit,
                                                     lambda_l1, lambda_l2, max_delta_step);
                        const f64 gain = score - parent;
                        if (gain > min_gain && gain > score * NOISE && gain > best_gain) {  // the first of equals stays
                            best_gain = gain;
                            best_key = ((u64)feature << 32) | ((from + k) << 1) | (has_missing ? side : 0);
                            best_g = left_g;
                            best_h = left_h;
                        }
                    }
                }
            }
            BARRIER;
        }
        if (best_key != NO_KEY) {
            const u32 at = ADD_LOCAL32(&n_found[0], 1);
            gains[at] = best_gain;
            keys[at] = best_key;
            lefts[at * 2] = best_g;
            lefts[at * 2 + 1] = best_h;
        }
        BARRIER;
        if (LOCAL_ID == 0) {  // seldom more than a few
            u32 best = 0;
            for (u32 i = 1; i < n_found[0]; i++) {
                if (IS_BETTER(gains[i], keys[i], gains[best], keys[best])) best = i;
            }
            const u32 found = n_found[0] > 0;
            const i32 none = slot >= 0 ? -1 : 0;
            GLOBAL split_t *out = splits + item;
            out->gain = found ? gains[best] : NO_GAIN;
            out->left_gradient = found ? lefts[best * 2] : 0;
            out->left_hessian = found ? lefts[best * 2 + 1] : 0;
            out->feature = found ? (i32)(keys[best] >> 32) : none;
            out->bin = found ? (i32)((u32)keys[best] >> 1) : none;
            out->missing_left = found && keys[best] % 2 == 0;
            out->padding = 0;
        }
        BARRIER;
    }
}

// Replaces parents' histograms by those of the larger children, where `split` did not do it on the way.
//
//     pairs   i32 (n_pairs, 2)   in   slot of the parent, slot of the child
KERNEL(THREADS) void subtract_kernel(GLOBAL i64 *histograms, GLOBAL const i32 *RESTRICT pairs, u32 n_pairs,
                                     u32 slot_size) {
    const u64 n = (u64)n_pairs * slot_size;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const u64 pair = i / slot_size, at = i % slot_size;
        histograms[(u64)pairs[pair * 2] * slot_size + at] -= histograms[(u64)pairs[pair * 2 + 1] * slot_size + at];
    }
}

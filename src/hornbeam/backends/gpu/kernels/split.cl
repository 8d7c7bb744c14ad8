// The best split of each node: twin of splitting.best_split, the same float64 operations in the same order.
//
// A group looks at one tile (32 features of 8-bit bins, or 16 of 16-bit bins) of one node. Threads form a grid of
// bins x lanes: each sums its own run of bins, the runs before it are added up, then it scans its run.
//
//              lane 0   lane 1   ...  lane 31
//     part 0   bins 0..7 of each feature              sums[stat][part][lane]: what each run adds up to,
//     part 1   bins 8..15                             then what all runs before it add up to
//     ...
//
// Ties: higher gain, then lower feature, then lower bin, then missing left. The last three are one number, the key
// (feature | bin | side), so whoever compares (gain, key) finds the same winner in any order.
//
// Rows are the last of the sums: counted, or, where hessians are all 1 or only empty children are forbidden, the
// hessians themselves.
//
// When the histogram of a node is still that of its parent, the sibling's is subtracted on the way (`minus`).
//
//     histograms   i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in, out
//     count        u32 (1,)           in    n_nodes / children
//     table        i64 (n_nodes, 5)   in    gradient and hessian sum of the node; rows; slot, or -1: cannot be split;
//                                           sibling's slot, or -1
//     features     u32 (n_used,)      in    value bins * 2 + has missing
//     splits       split_t (n_nodes, n_tiles)   out
#define TILE_LANES (32 / BIN_BYTES)
#define PARTS      (THREADS / TILE_LANES)
#define RUN        ((N_BINS + PARTS - 1) / PARTS)
#define PLANE      (N_BINS * TILE_LANES)
#define KEPT       (RUN <= 8 && STATS == 2) /* a run stays in registers */
#define NO_GAIN    BITS_TO_F64(0xFFF0000000000000)
#define NO_KEY     0xFFFFFFFFFFFFFFFF
#define NOISE      9.094947017729282e-13 /* splitting.ROUNDING_NOISE = 2**-40 */

// splitting.leaf_score
DEVICE f64 leaf_score(f64 gradient, f64 hessian, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step) {
    const f64 shrunk = gradient > lambda_l1 ? gradient - lambda_l1 : gradient < -lambda_l1 ? gradient + lambda_l1 : 0.0;
    const f64 weight = hessian + lambda_l2;
    if (!(weight > 0.0)) return 0.0;
    if (max_delta_step > 0.0) {
        f64 output = -shrunk / weight;
        output = output > -max_delta_step ? output : -max_delta_step;
        output = output < max_delta_step ? output : max_delta_step;
        return -(2.0 * shrunk * output + weight * output * output);
    }
    return shrunk * shrunk / weight;
}

// splits[0] of `kept` and `other` by (gain, key).
#define IS_BETTER(gain_a, key_a, gain_b, key_b) ((gain_a) > (gain_b) || ((gain_a) == (gain_b) && (key_a) < (key_b)))

KERNEL(THREADS) void split_kernel(GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT table,
                                  GLOBAL const u32 *RESTRICT count, u32 children, GLOBAL const u32 *RESTRICT features,
                                  u32 n_used, u32 n_tiles, f64 gradient_unit, f64 hessian_unit, f64 lambda_l1,
                                  f64 lambda_l2, f64 max_delta_step, f64 min_gain, f64 min_hessian, i64 min_rows,
                                  GLOBAL split_t *RESTRICT splits) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL i64 missing[STATS * TILE_LANES];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 node = GROUP_ID / n_tiles, tile = GROUP_ID % n_tiles;
    const u32 lane = LOCAL_ID % TILE_LANES, part = LOCAL_ID / TILE_LANES, feature = tile * TILE_LANES + lane;
    if (node >= count[0] * children) return;
    GLOBAL const i64 *own = table + node * 5;
    const i64 total_g = own[0], total_h = own[1], n_rows = own[STATS - 1], sibling = own[4];
    if (own[3] < 0) {
        if (LOCAL_ID == 0) {
            const split_t none = {NO_GAIN, 0, 0, 0, 0, 0, 0};
            splits[GROUP_ID] = none;
        }
        return;
    }
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    GLOBAL i64 *histogram = histograms + own[3] * slot_size + (u64)tile * (STATS * PLANE) + lane;
    GLOBAL const i64 *minus = histograms + (sibling < 0 ? 0 : sibling) * slot_size + (u64)tile * (STATS * PLANE) + lane;
    const u32 described = feature < n_used ? features[feature] : 0;
    const u32 n_values = described / 2, has_missing = described % 2;
    const u32 from = part * RUN < N_BINS ? part * RUN : N_BINS;
#if !KEPT
    const u32 to = from + RUN < N_BINS ? from + RUN : N_BINS;
#endif

#if KEPT
    i64 kept[STATS * RUN];  // all loads before the first use, so that they are under way together
    UNROLL for (u32 k = 0; k < STATS * RUN; k++) {
        const u32 bin = from + k % RUN;
        kept[k] = bin < N_BINS ? histogram[k / RUN * PLANE + bin * TILE_LANES] : 0;
    }
    if (sibling >= 0) {
        UNROLL for (u32 stat = 0; stat < STATS; stat++) {
            i64 other[RUN];
            UNROLL for (u32 k = 0; k < RUN; k++) {
                other[k] = from + k < N_BINS ? minus[stat * PLANE + (from + k) * TILE_LANES] : 0;
            }
            UNROLL for (u32 k = 0; k < RUN; k++) {
                kept[stat * RUN + k] -= other[k];
                if (from + k < N_BINS) histogram[stat * PLANE + (from + k) * TILE_LANES] = kept[stat * RUN + k];
            }
        }
    }
    UNROLL for (u32 stat = 0; stat < STATS; stat++) {
        i64 sum = 0;
        UNROLL for (u32 k = 0; k < RUN; k++) {
            if (from + k < n_values) sum += kept[stat * RUN + k];
            if (from + k == n_values) missing[stat * TILE_LANES + lane] = kept[stat * RUN + k];
        }
        sums[stat * THREADS + LOCAL_ID] = sum;
    }
#else
    for (u32 stat = 0; stat < STATS; stat++) {
        i64 sum = 0;
        for (u32 bin = from; bin < to; bin++) {
            const u32 at = stat * PLANE + bin * TILE_LANES;
            i64 value = histogram[at];
            if (sibling >= 0) {
                value -= minus[at];
                histogram[at] = value;
            }
            if (bin < n_values) sum += value;
            if (bin == n_values) missing[stat * TILE_LANES + lane] = value;
        }
        sums[stat * THREADS + LOCAL_ID] = sum;
    }
#endif
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

    f64 best_gain = NO_GAIN;
    u64 best_key = NO_KEY;
    i64 best_g = 0, best_h = 0;
    const f64 parent =
        leaf_score((f64)total_g * gradient_unit, (f64)total_h * hessian_unit, lambda_l1, lambda_l2, max_delta_step);
    i64 g = sums[LOCAL_ID], h = sums[THREADS + LOCAL_ID], rows = sums[(STATS - 1) * THREADS + LOCAL_ID];
#if KEPT
    UNROLL for (u32 k = 0; k < RUN; k++) {
        const u32 bin = from + k;
        if (bin >= n_values) continue;
        g += kept[k];
        h += kept[RUN + k];
        rows += kept[(STATS - 1) * RUN + k];
#else
    for (u32 bin = from; bin < to && bin < n_values; bin++) {
        g += histogram[bin * TILE_LANES];
        h += histogram[PLANE + bin * TILE_LANES];
        rows += histogram[(STATS - 1) * PLANE + bin * TILE_LANES];
#endif
        for (u32 side = has_missing ? 0 : 1; side < 2; side++) {  // 0: missing goes left
            const i64 left_g = side ? g : g + missing[lane];
            const i64 left_h = side ? h : h + missing[TILE_LANES + lane];
            const i64 left_rows = side ? rows : rows + missing[(STATS - 1) * TILE_LANES + lane];
            const i64 right_g = total_g - left_g, right_h = total_h - left_h;
            if (left_h <= 0 || right_h <= 0) continue;
            if (left_rows < min_rows || n_rows - left_rows < min_rows) continue;
            const f64 left_weight = (f64)left_h * hessian_unit, right_weight = (f64)right_h * hessian_unit;
            if (!(left_weight >= min_hessian && right_weight >= min_hessian)) continue;
            const f64 score =
                leaf_score((f64)left_g * gradient_unit, left_weight, lambda_l1, lambda_l2, max_delta_step) +
                leaf_score((f64)right_g * gradient_unit, right_weight, lambda_l1, lambda_l2, max_delta_step);
            const f64 gain = score - parent;
            if (gain > min_gain && gain > score * NOISE && gain > best_gain) {  // the first of equals stays
                best_gain = gain;
                best_key = ((u64)feature << 32) | (bin << 1) | (has_missing ? side : 0);
                best_g = left_g;
                best_h = left_h;
            }
        }
    }
    gains[LOCAL_ID] = best_gain;
    keys[LOCAL_ID] = best_key;
    for (u32 width = THREADS / 2; width > 0; width /= 2) {
        BARRIER;
        if (LOCAL_ID < width &&
            IS_BETTER(gains[LOCAL_ID + width], keys[LOCAL_ID + width], gains[LOCAL_ID], keys[LOCAL_ID])) {
            gains[LOCAL_ID] = gains[LOCAL_ID + width];
            keys[LOCAL_ID] = keys[LOCAL_ID + width];
        }
    }
    BARRIER;
    GLOBAL split_t *out = splits + GROUP_ID;
    if (keys[0] == NO_KEY ? LOCAL_ID == 0 : keys[0] == best_key) {  // the winner has the only such key
        const u32 found = keys[0] != NO_KEY;
        out->gain = best_gain;
        out->left_gradient = best_g;
        out->left_hessian = best_h;
        out->feature = found ? (i32)feature : -1;
        out->bin = found ? (i32)((u32)best_key >> 1) : -1;
        out->missing_left = found && best_key % 2 == 0;
        out->padding = 0;
    }
}

// The best of each node's tiles; a lower tile has the lower features.
//
//     splits   split_t (n_nodes, n_tiles)   in
//     best     split_t (n_nodes,)           out
KERNEL(64) void choose_kernel(GLOBAL const split_t *RESTRICT splits, GLOBAL const u32 *RESTRICT count, u32 children,
                              u32 n_tiles, GLOBAL split_t *RESTRICT best) {
    LOCAL f64 gains[64];
    LOCAL u32 winners[64];
    if (GROUP_ID >= count[0] * children) return;
    GLOBAL const split_t *own = splits + (u64)GROUP_ID * n_tiles;
    f64 gain = NO_GAIN;
    u32 winner = LOCAL_ID < n_tiles ? LOCAL_ID : 0;
    for (u32 tile = LOCAL_ID; tile < n_tiles; tile += 64) {
        if (own[tile].gain > gain) {
            gain = own[tile].gain;
            winner = tile;
        }
    }
    gains[LOCAL_ID] = gain;
    winners[LOCAL_ID] = winner;
    for (u32 width = 32; width > 0; width /= 2) {
        BARRIER;
        if (LOCAL_ID < width &&
            IS_BETTER(gains[LOCAL_ID + width], winners[LOCAL_ID + width], gains[LOCAL_ID], winners[LOCAL_ID])) {
            gains[LOCAL_ID] = gains[LOCAL_ID + width];
            winners[LOCAL_ID] = winners[LOCAL_ID + width];
        }
    }
    BARRIER;
    if (LOCAL_ID == 0) best[GROUP_ID] = own[winners[0]];
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

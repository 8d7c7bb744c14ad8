// The best split of each node of a tree that all outputs share: twin of trees/output_splits.py, the same float64
// operations in the same order.
//
// A group looks at one feature of one node: a thread has a threshold, and adds up what output after output gains there.
// Features of more bins than the group has threads are looked at in blocks.
//
//     count        u32 (2,)                      in    n_nodes / children; number of the first of the nodes
//     histograms   i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in
//     slots        i32 (n_nodes, n_histograms)   in    those of the outputs, and perhaps one that counts rows; -1: the
//                                                      node is not searched
//     sums         i64 (n_nodes, n_outputs, 2)   in    of the nodes
//     n_rows       i64 (n_nodes,)                in    as the histogram `counter` counts them
//     units        f64 (n_outputs, 2)            in
//     features     u32 (n_used,)                 in    value bins * 2 + has missing
#define TILE_LANES (TILE_WORDS * 32 / BIN_BITS)
#define PLANE      (N_BINS * TILE_LANES)

// Rules: f64 (5,).
#define LAMBDA_L1   rules[0]
#define LAMBDA_L2   rules[1]
#define MAX_STEP    rules[2]
#define MIN_GAIN    rules[3]
#define MIN_HESSIAN rules[4]

// What the outputs so far gain at a threshold, score there, and have in hessians on both sides at most.
typedef struct {
    f64 gain, score, left, right;
} worth_t;

DEVICE f64 side_score(f64 gradient, f64 weight, GLOBAL const f64 *RESTRICT rules) {
    const f64 least = MIN_HESSIAN;
    return leaf_score(gradient, weight > least ? weight : least, LAMBDA_L1, LAMBDA_L2, MAX_STEP);
}

DEVICE void add_output(worth_t *worth, i64 left_g, i64 left_h, i64 right_g, i64 right_h, f64 parent, f64 gradient_unit,
                       f64 hessian_unit, GLOBAL const f64 *RESTRICT rules) {
    const f64 left = (f64)left_h * hessian_unit, right = (f64)right_h * hessian_unit;
    const f64 score =
        side_score((f64)left_g * gradient_unit, left, rules) + side_score((f64)right_g * gradient_unit, right, rules);
    worth->gain = worth->gain + (score - parent);
    worth->score = worth->score + score;
    worth->left = left > worth->left ? left : worth->left;
    worth->right = right > worth->right ? right : worth->right;
}

DEVICE u32 is_allowed(const worth_t *worth, i64 left_rows, i64 right_rows, i64 min_rows,
                      GLOBAL const f64 *RESTRICT rules) {
    return worth->gain > MIN_GAIN && worth->gain > worth->score * NOISE && left_rows >= min_rows &&
           right_rows >= min_rows && worth->left > 0.0 && worth->right > 0.0 && worth->left >= MIN_HESSIAN &&
           worth->right >= MIN_HESSIAN;
}

// Where the device grows a tree by itself: replaces parents' histograms by those of the larger children.
//
//     search   i64 (n_nodes, 5)   in   the table of split.cl; histogram k of the node in slot s is in slot
//                                      s * n_histograms + k
KERNEL(THREADS) void subtract_outputs_kernel(GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT search,
                                             GLOBAL const u32 *RESTRICT count, u32 children, u32 n_histograms,
                                             u32 n_tiles) {
    const u32 n_nodes = count[0] * children, size = n_histograms * n_tiles * STATS * PLANE;
    const u32 piece = 8 * THREADS, n_pieces = (size + piece - 1) / piece;
    for (u32 item = GROUP_ID; item < n_nodes * n_pieces; item += GROUP_COUNT) {
        const i64 slot = search[item / n_pieces * 5 + 3], less = search[item / n_pieces * 5 + 4];
        if (slot < 0 || less < 0) continue;
        GLOBAL i64 *own = histograms + (u64)slot * size;
        GLOBAL const i64 *other = histograms + (u64)less * size;
        const u32 from = item % n_pieces * piece, to = size - from < piece ? size : from + piece;
        for (u32 i = from + LOCAL_ID; i < to; i += THREADS) own[i] -= other[i];
    }
}

// Then: tells the search the slots of each node, and its sums, which any feature has.
//
//     slots, sums, n_rows   out   see above
KERNEL(THREADS) void sum_outputs_kernel(GLOBAL const i64 *RESTRICT histograms, GLOBAL const i64 *RESTRICT search,
                                        GLOBAL const u32 *RESTRICT count, u32 children, u32 n_outputs, u32 n_histograms,
                                        u32 counter, u32 n_tiles, GLOBAL i32 *RESTRICT slots, GLOBAL i64 *RESTRICT sums,
                                        GLOBAL i64 *RESTRICT n_rows) {
    LOCAL i64 totals[THREADS];
    for (u32 item = GROUP_ID; item < count[0] * children * n_histograms; item += GROUP_COUNT) {
        const u32 node = item / n_histograms, k = item % n_histograms;
        const i64 slot = search[node * 5 + 3] < 0 ? -1 : search[node * 5 + 3] * n_histograms + k;
        if (LOCAL_ID == 0) slots[item] = (i32)slot;
        if (slot < 0) continue;
        GLOBAL const i64 *own = histograms + (u64)slot * n_tiles * STATS * PLANE;
        for (u32 stat = 0; stat < 2; stat++) {
            i64 sum = 0;
            for (u32 b = LOCAL_ID; b < N_BINS; b += THREADS) sum += own[stat * PLANE + b * TILE_LANES];
            BARRIER;
            totals[LOCAL_ID] = sum;
            REDUCE(totals, SUM);
            if (LOCAL_ID == 0 && k < n_outputs) sums[((u64)node * n_outputs + k) * 2 + stat] = totals[0];
            if (LOCAL_ID == 0 && k == counter && stat == 1) n_rows[node] = totals[0];
        }
        BARRIER;
    }
}

//     carries   i64 (n_groups, n_histograms, 2)   scratch   sums of the blocks before
//     gains     f64 (n_nodes, n_used)             out
//     keys      u64 (n_nodes, n_used)             out       see candidates.h
KERNEL(THREADS) void split_outputs_kernel(GLOBAL const i64 *RESTRICT histograms, GLOBAL const i32 *RESTRICT slots,
                                          GLOBAL const i64 *RESTRICT sums, GLOBAL const i64 *RESTRICT n_rows,
                                          GLOBAL const f64 *RESTRICT units, GLOBAL const u32 *RESTRICT features,
                                          GLOBAL const f64 *RESTRICT rules, GLOBAL const u32 *RESTRICT count,
                                          u32 children, u32 n_outputs, u32 n_histograms, u32 counter, u32 n_used,
                                          u32 n_tiles, i64 min_rows, GLOBAL i64 *carries, GLOBAL f64 *RESTRICT gains,
                                          GLOBAL u64 *RESTRICT keys) {
    LOCAL i64 scanned[2 * THREADS];
    LOCAL f64 best_gains[THREADS];
    LOCAL u64 best_keys[THREADS];
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    const u32 n_nodes = count[0] * children;
    GLOBAL i64 *carry = carries + (u64)GROUP_ID * n_histograms * 2;
    for (u32 item = GROUP_ID; item < n_nodes * n_used; item += GROUP_COUNT) {
        const u32 node = item / n_used, feature = item % n_used;
        const u32 n_values = features[feature] / 2, has_missing = features[feature] % 2;
        const u64 at_feature = (u64)(feature / TILE_LANES) * (STATS * PLANE) + feature % TILE_LANES;
        const u64 at_missing = at_feature + (u64)n_values * TILE_LANES;
        GLOBAL const i32 *own_slots = slots + (u64)node * n_histograms;
        if (own_slots[0] < 0) {
            if (LOCAL_ID == 0) {
                gains[item] = NO_GAIN;
                keys[item] = NO_KEY;
            }
            continue;
        }
        const i64 rows_missing = histograms[own_slots[counter] * slot_size + at_missing + PLANE];
        const u32 n_sides = has_missing && rows_missing != 0 ? 2 : 1;
        f64 best_gain = NO_GAIN;
        u64 best_key = NO_KEY;
        for (u32 from = 0; from < n_values; from += THREADS) {
            const u32 b = from + LOCAL_ID;
            worth_t worth[2];
            i64 left_rows = 0;
            for (u32 side = 0; side < 2; side++) {
                worth[side].gain = worth[side].score = worth[side].left = worth[side].right = 0.0;
            }
            for (u32 k = 0; k < n_histograms; k++) {
                GLOBAL const i64 *own = histograms + own_slots[k] * slot_size;
                i64 values[2], upto[2], total[2];
                values[0] = b < n_values ? own[at_feature + (u64)b * TILE_LANES] : 0;
                values[1] = b < n_values ? own[at_feature + PLANE + (u64)b * TILE_LANES] : 0;
                SCAN_LANES(scanned, 2, 1, values, upto, total);
                upto[0] += from > 0 ? carry[k * 2] : 0;
                upto[1] += from > 0 ? carry[k * 2 + 1] : 0;
                BARRIER;
                if (LOCAL_ID == 0 && from + THREADS < n_values) {
                    carry[k * 2] = total[0] + (from > 0 ? carry[k * 2] : 0);
                    carry[k * 2 + 1] = total[1] + (from > 0 ? carry[k * 2 + 1] : 0);
                }
                if (k == counter) left_rows = upto[1];
                if (k == n_outputs) continue;
                const i64 total_g = sums[((u64)node * n_outputs + k) * 2];
                const i64 total_h = sums[((u64)node * n_outputs + k) * 2 + 1];
                const f64 gradient_unit = units[k * 2], hessian_unit = units[k * 2 + 1];
                const f64 parent = side_score((f64)total_g * gradient_unit, (f64)total_h * hessian_unit, rules);
                for (u32 side = 0; side < n_sides; side++) {
                    const i64 g = upto[0] + (side == 0 ? own[at_missing] : 0);
                    const i64 h = upto[1] + (side == 0 ? own[at_missing + PLANE] : 0);
                    add_output(&worth[side], g, h, total_g - g, total_h - h, parent, gradient_unit, hessian_unit,
                               rules);
                }
            }
            for (u32 side = 0; side < n_sides && b < n_values; side++) {
                const i64 rows = left_rows + (side == 0 ? rows_missing : 0);
                if (worth[side].gain > best_gain &&
                    is_allowed(&worth[side], rows, n_rows[node] - rows, min_rows, rules)) {
                    best_gain = worth[side].gain;
                    best_key = ((u64)feature << 32) | ((u64)b << 1) | side;
                }
            }
            BARRIER;
        }
        FIND_BEST(best_gains, best_keys, best_gain, best_key);
        if (LOCAL_ID == 0) {
            gains[item] = best_gains[0];
            keys[item] = best_keys[0];
        }
        BARRIER;
    }
}

// The best of all features, and the sums of its left side.
//
//     splits   split_t (n_nodes,)             out   with the sums of all outputs together
//     left     i64 (n, n_outputs, 2)          out   by the number of a node
KERNEL(THREADS) void choose_outputs_kernel(GLOBAL const i64 *RESTRICT histograms, GLOBAL const i32 *RESTRICT slots,
                                           GLOBAL const u32 *RESTRICT features, GLOBAL const f64 *RESTRICT gains,
                                           GLOBAL const u64 *RESTRICT keys, GLOBAL const u32 *RESTRICT count,
                                           u32 children, u32 n_outputs, u32 n_histograms, u32 n_used, u32 n_tiles,
                                           GLOBAL split_t *RESTRICT splits, GLOBAL i64 *left) {
    LOCAL f64 best_gains[THREADS];
    LOCAL u64 best_keys[THREADS];
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    const u32 n_nodes = count[0] * children, first = count[1];
    for (u32 node = GROUP_ID; node < n_nodes; node += GROUP_COUNT) {
        f64 gain = NO_GAIN;
        u64 key = NO_KEY;
        for (u32 feature = LOCAL_ID; feature < n_used; feature += THREADS) {
            const u64 at = (u64)node * n_used + feature;
            if (IS_BETTER(gains[at], keys[at], gain, key)) {
                gain = gains[at];
                key = keys[at];
            }
        }
        FIND_BEST(best_gains, best_keys, gain, key);
        const u64 best = best_keys[0];
        GLOBAL i64 *own_left = left + (u64)(first + node) * n_outputs * 2;
        const u32 feature = (u32)(best >> 32), last = (u32)best >> 1;
        for (u32 k = LOCAL_ID; k < n_outputs; k += THREADS) {
            i64 g = 0, h = 0;
            if (best != NO_KEY) {
                GLOBAL const i64 *own = histograms + slots[(u64)node * n_histograms + k] * slot_size +
                                        (u64)(feature / TILE_LANES) * (STATS * PLANE) + feature % TILE_LANES;
                for (u32 b = 0; b <= last; b++) {
                    g += own[(u64)b * TILE_LANES];
                    h += own[PLANE + (u64)b * TILE_LANES];
                }
                if (best % 2 == 0) {
                    const u64 at_missing = (u64)(features[feature] / 2) * TILE_LANES;
                    g += own[at_missing];
                    h += own[PLANE + at_missing];
                }
            }
            own_left[k * 2] = g;
            own_left[k * 2 + 1] = h;
        }
        BARRIER;
        if (LOCAL_ID == 0) {
            i64 g = 0, h = 0;
            for (u32 k = 0; k < n_outputs; k++) {
                g += own_left[k * 2];
                h += own_left[k * 2 + 1];
            }
            store_split(splits + node, best_gains[0], best, g, h);
        }
        BARRIER;
    }
}

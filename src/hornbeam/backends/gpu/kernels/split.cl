// The best split of each node: twin of splitting.best_split, the same float64 operations in the same order.
//
// A group looks at a piece of a tile (8 features) of one node, or of two siblings. Threads form a grid of bins x lanes:
// each sums its own run of bins, the runs before it are added up, then it scans its run.
//
//              lane 0   lane 1   ...  lane 7
//     part 0   bins 0..7 of each feature              sums[stat][part][lane]: what each run adds up to,
//     part 1   bins 8..15                             then what all runs up to it add up to
//     ...
//
// Float64 divisions are slow, and only the winner's gain is needed. So every candidate's score is first taken in single
// precision, good to 2^-20; those within 2^-18 of the best of the piece are then computed by the one formula. All that
// could tie with the winner are among them.
//
// Ties: higher gain, then lower feature, then lower bin, then missing left. The last three are one number, the key
// (feature | bin | side), so whoever compares (gain, key) finds the same winner in any order.
//
// Rows are the last of the sums: counted, or, where hessians are all 1 or only empty children are forbidden, the
// hessians themselves.
//
// Of two siblings the smaller one has been summed. The other one's slot still has their parent's histogram, from which
// the smaller one's, in registers by then, is subtracted on the way.
//
//     histograms   i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in, out
//     count        u32 (1,)           in    n_nodes / children
//     children     1: nodes by themselves; 2: pairs of siblings, one of them with the other as its sibling
//     table        i64 (n_nodes, 5)   in    gradient and hessian sum of the node; rows; slot, or -1: cannot be split;
//                                           slot of the sibling to subtract, or -1
//     features     u32 (n_used,)      in    value bins * 2 + has missing
//     splits       split_t (n_nodes, n_tiles * PIECES)   out
#define TILE_LANES (32 / BIN_BYTES)
#define LANES      8
#define PIECES     (TILE_LANES / LANES)
#define PARTS      (THREADS / LANES)
#define RUN        ((N_BINS + PARTS - 1) / PARTS)
#define PLANE      (N_BINS * TILE_LANES)
#define KEPT       (RUN <= 8) /* a run stays in registers */
#define NO_GAIN    BITS_TO_F64(0xFFF0000000000000)
#define NO_KEY     0xFFFFFFFFFFFFFFFF
#define NOISE      9.094947017729282e-13 /* splitting.ROUNDING_NOISE = 2**-40 */
#define CLOSE      0.99999618530273437f  /* 1 - 2**-18 */
#define MOST       0x3FFFFFFFFFFFFFFF

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

// The least fixed-point hessian, 1 or more, whose weight is not below min_hessian.
DEVICE i64 least_allowed(f64 min_hessian, f64 unit) {
    const f64 quotient = min_hessian / unit;
    if (!(quotient < 4e18)) return MOST;
    i64 least = (i64)quotient + 1;
    while (least > 1 && (f64)(least - 1) * unit >= min_hessian) least--;
    while ((f64)least * unit < min_hessian) least++;
    return least;
}

// Whether (gain, key) a comes before b.
#define IS_BETTER(gain_a, key_a, gain_b, key_b) ((gain_a) > (gain_b) || ((gain_a) == (gain_b) && (key_a) < (key_b)))

KERNEL(THREADS) void split_kernel(GLOBAL i64 *histograms, GLOBAL const i64 *RESTRICT table,
                                  GLOBAL const u32 *RESTRICT count, u32 children, GLOBAL const u32 *RESTRICT features,
                                  u32 n_used, u32 n_tiles, f64 gradient_unit, f64 hessian_unit, f64 lambda_l1,
                                  f64 lambda_l2, f64 max_delta_step, f64 min_gain, f64 min_hessian, i64 min_rows,
                                  GLOBAL split_t *RESTRICT splits) {
    LOCAL i64 sums[STATS * THREADS];
    LOCAL i64 missing[STATS * LANES];
    LOCAL f32 scores[THREADS];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 n_pieces = n_tiles * PIECES, n_items = count[0] * n_pieces;
    const u32 lane = LOCAL_ID % LANES, part = LOCAL_ID / LANES;
    const u32 from = part * RUN < N_BINS ? part * RUN : N_BINS;
    const u64 slot_size = (u64)n_tiles * STATS * PLANE;
    const i64 least_hessian = least_allowed(min_hessian, hessian_unit);
    const u32 is_plain = lambda_l1 == 0.0 && max_delta_step <= 0.0;  // else every candidate is computed
    const f32 extra = (f32)(lambda_l2 / hessian_unit);
    for (u32 item = GROUP_ID; item < n_items; item += GROUP_COUNT) {
        const u32 first = item / n_pieces * children, piece = item % n_pieces;
        const u32 in_tile = piece % PIECES * LANES + lane, feature = piece / PIECES * TILE_LANES + in_tile;
        GLOBAL i64 *own_lane = histograms + (u64)(piece / PIECES) * (STATS * PLANE) + in_tile;
        const u32 described = feature < n_used ? features[feature] : 0;
        const u32 n_values = described / 2, has_missing = described % 2;
        const u32 swapped = children == 2 && table[first * 5 + 4] >= 0;  // the smaller sibling comes first
        const u32 is_needed = table[first * 5 + 3] >= 0 || (children == 2 && table[first * 5 + 8] >= 0);
#if KEPT
        i64 kept[STATS * RUN];
#endif
        for (u32 turn = 0; turn < children; turn++) {
            const u32 node = first + (turn ^ swapped);
            GLOBAL const i64 *own = table + node * 5;
            const i64 total_g = own[0], total_h = own[1], n_rows = own[STATS - 1];
            const u32 is_wanted = own[3] >= 0;
            const i64 sibling = own[4];
            // the smaller sibling's sums may be needed even if it is not wanted itself
            const i64 slot = children == 2 && turn == 0 ? table[(first + 1 - swapped) * 5 + 4] : own[3];
            GLOBAL i64 *histogram = own_lane + (u64)(slot < 0 ? 0 : slot) * slot_size;
            GLOBAL const i64 *minus = own_lane + (u64)(sibling < 0 ? 0 : sibling) * slot_size;
            f64 best_gain = NO_GAIN;
            u64 best_key = NO_KEY;
            i64 best_g = 0, best_h = 0;
#if KEPT
            if (is_needed && (turn == 0 || is_wanted)) {
                UNROLL for (u32 stat = 0; stat < STATS; stat++) {
                    i64 other[RUN];  // all loads before the first use, so that they are under way together
                    if (turn == 0 && sibling >= 0) {
                        UNROLL for (u32 k = 0; k < RUN; k++) {
                            const u32 at = stat * PLANE + (from + k) * TILE_LANES;
                            kept[stat * RUN + k] = from + k < N_BINS ? minus[at] : 0;
                        }
                    }
                    UNROLL for (u32 k = 0; k < RUN; k++) {
                        other[k] = from + k < N_BINS ? histogram[stat * PLANE + (from + k) * TILE_LANES] : 0;
                    }
                    UNROLL for (u32 k = 0; k < RUN; k++) {
                        if (sibling >= 0) {
                            other[k] -= kept[stat * RUN + k];
                            if (from + k < N_BINS) histogram[stat * PLANE + (from + k) * TILE_LANES] = other[k];
                        }
                        kept[stat * RUN + k] = other[k];
                    }
                }
            }
#define RUN_LENGTH      RUN
#define HELD(stat, bin) kept[(stat) * RUN + (bin) - from]
#else
            if (is_wanted && sibling >= 0) {
                for (u32 stat = 0; stat < STATS; stat++) {
                    for (u32 bin = from; bin < from + RUN && bin < N_BINS; bin++) {
                        const u32 at = stat * PLANE + bin * TILE_LANES;
                        histogram[at] -= minus[at];
                    }
                }
            }
#define RUN_LENGTH      (from + RUN < N_BINS ? RUN : N_BINS - from)
#define HELD(stat, bin) histogram[(stat) * PLANE + (bin) * TILE_LANES]
#endif
            if (is_wanted) {
                i64 before[STATS];
                UNROLL for (u32 stat = 0; stat < STATS; stat++) {
                    i64 sum = 0;
                    UNROLL for (u32 k = 0; k < RUN_LENGTH; k++) {
                        if (from + k < n_values) sum += HELD(stat, from + k);
                        if (from + k == n_values) missing[stat * LANES + lane] = HELD(stat, from + k);
                    }
                    sums[stat * THREADS + LOCAL_ID] = sum;
                    before[stat] = -sum;
                }
                BARRIER;
                for (u32 distance = LANES; distance < THREADS; distance *= 2) {
                    i64 lower[STATS];
                    UNROLL for (u32 stat = 0; stat < STATS; stat++) {
                        lower[stat] = LOCAL_ID >= distance ? sums[stat * THREADS + LOCAL_ID - distance] : 0;
                    }
                    BARRIER;
                    UNROLL for (u32 stat = 0; stat < STATS; stat++) sums[stat * THREADS + LOCAL_ID] += lower[stat];
                    BARRIER;
                }
                UNROLL for (u32 stat = 0; stat < STATS; stat++) before[stat] += sums[stat * THREADS + LOCAL_ID];
                const f64 parent = leaf_score((f64)total_g * gradient_unit, (f64)total_h * hessian_unit, lambda_l1,
                                              lambda_l2, max_delta_step);
                f32 best_score = -1.0f, bar = 0.0f;
                for (u32 pass = 0; pass < 2; pass++) {
                    if (pass == 1) {
                        scores[LOCAL_ID] = best_score;
                        for (u32 width = THREADS / 2; width > 0; width /= 2) {
                            BARRIER;
                            if (LOCAL_ID < width && scores[LOCAL_ID + width] > scores[LOCAL_ID]) {
                                scores[LOCAL_ID] = scores[LOCAL_ID + width];
                            }
                        }
                        BARRIER;
                        bar = scores[0] * CLOSE;
                    }
                    const u32 is_over = pass == 1 && !(best_score >= bar);  // nothing of this thread comes close
                    i64 g = before[0], h = before[1], rows = before[STATS - 1];
                    UNROLL for (u32 k = 0; k < RUN_LENGTH; k++) {
                        const u32 bin = from + k;
                        if (bin >= n_values || is_over) continue;
                        g += HELD(0, bin);
                        h += HELD(1, bin);
                        rows += HELD(STATS - 1, bin);
                        for (u32 side = has_missing ? 0 : 1; side < 2; side++) {  // 0: missing goes left
                            const i64 left_g = side ? g : g + missing[lane];
                            const i64 left_h = side ? h : h + missing[LANES + lane];
                            const i64 left_rows = side ? rows : rows + missing[(STATS - 1) * LANES + lane];
                            const i64 right_g = total_g - left_g, right_h = total_h - left_h;
                            if (left_h < least_hessian || right_h < least_hessian) continue;
                            if (left_rows < min_rows || n_rows - left_rows < min_rows) continue;
                            const f32 l = (f32)left_g, r = (f32)right_g;
                            const f32 rough =
                                is_plain ? l * l / ((f32)left_h + extra) + r * r / ((f32)right_h + extra) : 1.0f;
                            if (pass == 0) {
                                best_score = rough > best_score ? rough : best_score;
                                continue;
                            }
                            if (rough < bar) continue;
                            const f64 score = leaf_score((f64)left_g * gradient_unit, (f64)left_h * hessian_unit,
                                                         lambda_l1, lambda_l2, max_delta_step) +
                                              leaf_score((f64)right_g * gradient_unit, (f64)right_h * hessian_unit,
                                                         lambda_l1, lambda_l2, max_delta_step);
                            const f64 gain = score - parent;
                            if (gain > min_gain && gain > score * NOISE && gain > best_gain) {  // the first of equals
                                best_gain = gain;
                                best_key = ((u64)feature << 32) | (bin << 1) | (has_missing ? side : 0);
                                best_g = left_g;
                                best_h = left_h;
                            }
                        }
                    }
                }
            }
            gains[LOCAL_ID] = best_gain;
            keys[LOCAL_ID] = best_key;
            for (u32 width = THREADS / 2; width > 0 && is_wanted; width /= 2) {
                BARRIER;
                if (LOCAL_ID < width &&
                    IS_BETTER(gains[LOCAL_ID + width], keys[LOCAL_ID + width], gains[LOCAL_ID], keys[LOCAL_ID])) {
                    gains[LOCAL_ID] = gains[LOCAL_ID + width];
                    keys[LOCAL_ID] = keys[LOCAL_ID + width];
                }
            }
            BARRIER;
            GLOBAL split_t *out = splits + (u64)node * n_pieces + piece;
            if (keys[0] == NO_KEY ? LOCAL_ID == 0 : keys[0] == best_key) {  // the winner has the only such key
                const u32 found = keys[0] != NO_KEY;
                const i32 none = is_wanted ? -1 : 0;
                out->gain = best_gain;
                out->left_gradient = best_g;
                out->left_hessian = best_h;
                out->feature = found ? (i32)feature : none;
                out->bin = found ? (i32)((u32)best_key >> 1) : none;
                out->missing_left = found && best_key % 2 == 0;
                out->padding = 0;
            }
            BARRIER;
        }
    }
}

// The best of each node's pieces; a lower piece has the lower features.
//
//     splits   split_t (n_nodes, n_pieces)   in
//     best     split_t (n_nodes,)            out
KERNEL(64) void choose_kernel(GLOBAL const split_t *RESTRICT splits, GLOBAL const u32 *RESTRICT count, u32 children,
                              u32 n_pieces, GLOBAL split_t *RESTRICT best) {
    LOCAL f64 gains[64];
    LOCAL u32 winners[64];
    for (u32 node = GROUP_ID; node < count[0] * children; node += GROUP_COUNT) {
        GLOBAL const split_t *own = splits + (u64)node * n_pieces;
        f64 gain = NO_GAIN;
        u32 winner = LOCAL_ID < n_pieces ? LOCAL_ID : 0;
        for (u32 piece = LOCAL_ID; piece < n_pieces; piece += 64) {
            if (own[piece].gain > gain) {
                gain = own[piece].gain;
                winner = piece;
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
        if (LOCAL_ID == 0) best[node] = own[winners[0]];
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

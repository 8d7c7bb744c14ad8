// Splits of categorical features: twin of categorical.best_level_set, the same float64 operations in the same order.
//
// A group looks at one categorical feature of one node, then at the next. Its threads sort the levels by (key, bin), in
// local memory where they fit (SORT_SIZE), else in global scratch; the levels that may not be used come last. Then one
// thread takes levels from the front and another one from the back, and finally the bits of the better set are written.
//
// Histograms have been subtracted before, by the search of numbers. Rows are the last of the sums, as there.
//
//     histograms    i64 (n_slots, n_tiles, STATS, N_BINS, TILE_LANES)   in
//     table         i64 (n_nodes, 5)          in    as in split.cl
//     count         u32 (2,)                  in    n_nodes / children; number of the set of the first node
//     context       i64 (n_nodes, 6)          in    f64 lower, upper, parent_output, score, monotone_factor; key
//     mask          u32 (n_nodes, n_words)    in    features that may be used; both only where has_context is not 0
//     contribution  f64 (n_used,)             in
//     costs         f64 (n_nodes, n_costs)    in    see gains.h
//     features      u32 (n_used,)             in    value bins * 2 + has missing
//     units         f64 (2,)                  in    as in split.cl
//     sort_keys     f64 (groups, sort_room)   scratch
//     sort_bins     u32 (groups, sort_room)   scratch
//     found         split_t (n_nodes, n_categorical)          out
//     found_sets    u32 (n_nodes, n_categorical, set_words)   out
//     members       u32 (n_used, 4)           in    BUNDLED: column of each feature first, see bins.h; a categorical
//                                                   feature is alone in its column
#define TILE_LANES (TILE_WORDS * 32 / BIN_BITS)
#define PLANE      (N_BINS * TILE_LANES)
#define NO_BIN     0xFFFFFFFFu
#define LISTED     64u /* levels of each end that are read by all threads together */

#if SORT_SIZE > 0
#define KEY(i) keys[i]
#define BIN(i) bins[i]
#else
#define KEY(i) keys[(u64)GROUP_ID * sort_room + (i)]
#define BIN(i) bins[(u64)GROUP_ID * sort_room + (i)]
#endif

// The best of the candidates that one thread tried.
typedef struct {
    f64 gain;
    i64 gradient, hessian;
    u32 size;  // levels of the set; few levels: the level
} candidate_t;

KERNEL(THREADS) void split_categorical_kernel(
    GLOBAL const i64 *RESTRICT histograms, GLOBAL const i64 *RESTRICT table, GLOBAL const u32 *RESTRICT count,
    u32 children, GLOBAL const i64 *RESTRICT context, u32 has_context, GLOBAL const u32 *RESTRICT mask, u32 n_words,
    GLOBAL const f64 *RESTRICT contribution, GLOBAL const f64 *RESTRICT costs, u32 n_costs,
    GLOBAL const u32 *RESTRICT features, u32 n_numeric, u32 n_used, u32 n_tiles, GLOBAL const f64 *RESTRICT units,
    f64 lambda_l1, f64 lambda_l2, f64 max_delta_step, f64 min_gain, f64 min_hessian, i64 min_rows, f64 path_smooth,
    u32 monotone, u32 extra_trees, u32 max_onehot, u32 max_threshold, f64 smooth, f64 cat_l2, f64 min_group,
    GLOBAL f64 *sort_keys, GLOBAL u32 *sort_bins, u32 sort_room, u32 set_words, GLOBAL split_t *RESTRICT found,
    GLOBAL u32 *RESTRICT found_sets
#if BUNDLED
    ,
    GLOBAL const u32 *RESTRICT members
#endif
) {
#if SORT_SIZE > 0
    LOCAL f64 keys[SORT_SIZE];
    LOCAL u32 bins[SORT_SIZE];
#else
    GLOBAL f64 *keys = sort_keys;
    GLOBAL u32 *bins = sort_bins;
#endif
    LOCAL u32 n_usable_of_all[1];
    LOCAL i64 listed[2 * LISTED * 3];  // gradient, hessian and rows of the first and last levels
    LOCAL candidate_t ends[2];
    const u32 n_categorical = n_used - n_numeric, n_nodes = count[0] * children;
    const f64 gradient_unit = units[0], hessian_unit = units[1];
    for (u32 item = GROUP_ID; item < n_nodes * n_categorical; item += GROUP_COUNT) {
        const u32 node = item / n_categorical, feature = n_numeric + item % n_categorical;
        GLOBAL const i64 *own = table + (u64)node * 5;
        GLOBAL const i64 *around = context + (has_context ? (u64)node * 6 : 0);
        const u32 allowed = has_context ? mask[node * n_words + feature / 32] >> feature % 32 & 1u : 1u;
        GLOBAL split_t *out = found + item;
        if (own[3] < 0 || !allowed) {
            if (LOCAL_ID == 0) {
                const split_t none = {NO_GAIN, 0, 0, -1, -1, 0, 0};
                *out = none;
            }
            continue;
        }
        const i64 total_g = own[0], total_h = own[1], n_rows = own[2], known_rows = own[STATS - 1];
#if BUNDLED
        const u32 column = members[feature * 4];
#else
        const u32 column = feature;
#endif
        GLOBAL const i64 *histogram = histograms + own[3] * ((u64)n_tiles * STATS * PLANE) +
                                      (u64)(column / TILE_LANES) * (STATS * PLANE) + column % TILE_LANES;
        const u32 n_levels = features[feature] / 2;
        rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, min_rows);
        if (has_context) {
            enter_context(&how, around, path_smooth, monotone);
            how.score = BAR(around, node, feature);
        } else {
            const f64 g = (f64)total_g * gradient_unit, h = (f64)total_h * hessian_unit;
            how.score =
                max_delta_step > 0.0 ? given_score(g, h, side_output(g, h, 0, &how), &how) : free_score(g, h, &how);
        }
        const u64 key_of_node = (u64)around[5];
        const f64 factor = has_context ? contribution[feature] : 1.0;

        candidate_t best = {NO_GAIN, 0, 0, 0};
        u32 n_usable = 0;
        if (n_levels <= max_onehot) {
            if (LOCAL_ID == 0) {
                const u32 only = extra_trees ? random_threshold(key_of_node, feature, n_levels, 1) : NO_BIN;
                for (u32 bin = 0; bin < n_levels; bin++) {
                    if (extra_trees && bin != only) continue;
                    const i64 g = histogram[bin * TILE_LANES], h = histogram[PLANE + bin * TILE_LANES];
                    const i64 rows = histogram[(STATS - 1) * PLANE + bin * TILE_LANES];
                    const f64 gain = candidate_gain(g, h, total_g - g, total_h - h, rows, known_rows - rows,
                                                    gradient_unit, hessian_unit, 0, factor, &how);
                    if (gain > best.gain) {
                        best.gain = gain;
                        best.gradient = g;
                        best.hessian = h;
                        best.size = bin;
                    }
                }
                ends[0] = best;
            }
        } else {
            u32 size = 1;
            while (size < n_levels) size *= 2;
            const f64 share = (f64)n_rows / (f64)total_h;
            if (LOCAL_ID == 0) n_usable_of_all[0] = 0;
            BARRIER;
            for (u32 bin = LOCAL_ID; bin < size; bin += THREADS) {
                const i64 g = bin < n_levels ? histogram[bin * TILE_LANES] : 0;
                const i64 h = bin < n_levels ? histogram[PLANE + bin * TILE_LANES] : 0;
                const u32 usable = h > 0 && floor((f64)h * share + 0.5) >= smooth;
                KEY(bin) = usable ? ((f64)g * gradient_unit) / ((f64)h * hessian_unit + smooth) : 0.0;
                BIN(bin) = usable ? bin : NO_BIN;
                if (usable) ADD_LOCAL32(&n_usable_of_all[0], 1);
            }
            BARRIER;
            for (u32 run = 2; run <= size; run *= 2) {  // bitonic sort
                for (u32 distance = run / 2; distance > 0; distance /= 2) {
                    for (u32 i = LOCAL_ID; i < size / 2; i += THREADS) {
                        const u32 low = i / distance * distance * 2 + i % distance, high = low + distance;
                        const f64 key_low = KEY(low), key_high = KEY(high);
                        const u32 bin_low = BIN(low), bin_high = BIN(high);
                        const u32 both = bin_low != NO_BIN && bin_high != NO_BIN;
                        const u32 is_after = both ? key_low > key_high || (key_low == key_high && bin_low > bin_high)
                                                  : bin_low > bin_high;
                        const u32 downwards = (low & run) != 0;
                        if (bin_low != bin_high && is_after != downwards) {
                            KEY(low) = key_high;
                            KEY(high) = key_low;
                            BIN(low) = bin_high;
                            BIN(high) = bin_low;
                        }
                    }
                    BARRIER;
                }
            }
            n_usable = n_usable_of_all[0];
            const u32 half_of_all = (n_usable + 1) / 2,
                      most = max_threshold < half_of_all ? max_threshold : half_of_all;
            for (u32 i = LOCAL_ID; i < 2 * LISTED; i += THREADS) {
                const u32 place = i % LISTED;
                if (place >= most) continue;
                const u32 bin = BIN(i < LISTED ? place : n_usable - 1 - place);
                listed[i * 3] = histogram[bin * TILE_LANES];
                listed[i * 3 + 1] = histogram[PLANE + bin * TILE_LANES];
                listed[i * 3 + 2] = histogram[(STATS - 1) * PLANE + bin * TILE_LANES];
            }
            BARRIER;
            if (LOCAL_ID < 2) {
                const u32 only = extra_trees ? random_threshold(key_of_node, feature, most, 1) : NO_BIN;
                how.lambda_l2 = lambda_l2 + cat_l2;
                i64 g = 0, h = 0, rows = 0;
                f64 in_group = 0.0, so_far = 0.0;
                for (u32 i = 0; i < most; i++) {
                    i64 level_h;
                    if (i < LISTED) {
                        const u32 first = (LOCAL_ID * LISTED + i) * 3;
                        g += listed[first];
                        level_h = listed[first + 1];
                        rows += listed[first + 2];
                    } else {
                        const u32 bin = BIN(LOCAL_ID == 0 ? i : n_usable - 1 - i);
                        g += histogram[bin * TILE_LANES];
                        level_h = histogram[PLANE + bin * TILE_LANES];
                        rows += histogram[(STATS - 1) * PLANE + bin * TILE_LANES];
                    }
                    h += level_h;
                    const f64 estimated = floor((f64)level_h * share + 0.5);
                    in_group = in_group + estimated;
                    so_far = so_far + estimated;
                    if (rows < min_rows || (f64)h * hessian_unit < min_hessian) continue;
                    if (known_rows - rows < min_rows || (f64)(total_h - h) * hessian_unit < min_hessian) break;
                    if ((f64)n_rows - so_far < min_group) break;
                    if (in_group < min_group) continue;
                    in_group = 0.0;
                    if (extra_trees && i != only) continue;
                    const f64 gain = candidate_gain(g, h, total_g - g, total_h - h, rows, known_rows - rows,
                                                    gradient_unit, hessian_unit, 0, factor, &how);
                    if (gain > best.gain) {
                        best.gain = gain;
                        best.gradient = g;
                        best.hessian = h;
                        best.size = i + 1;
                    }
                }
                ends[LOCAL_ID] = best;
            }
        }
        GLOBAL u32 *set = found_sets + (u64)item * set_words;
        for (u32 i = LOCAL_ID; i < set_words; i += THREADS) set[i] = 0;
        BARRIER;
        if (LOCAL_ID == 0) {
            const u32 few = n_levels <= max_onehot, backwards = !few && ends[1].gain > ends[0].gain;
            const candidate_t winner = ends[backwards];
            const split_t split = {
                winner.gain, winner.gradient, winner.hessian, winner.gain > NO_GAIN ? (i32)feature : -1, 0, 0, 0};
            *out = split;
            if (few) set[winner.size / 32] |= 1u << winner.size % 32;
            for (u32 i = 0; i < winner.size && !few; i++) {
                const u32 bin = BIN(backwards ? n_usable - 1 - i : i);
                set[bin / 32] |= 1u << bin % 32;
            }
        }
        BARRIER;
    }
}

// Replaces the best split of a node where that of a categorical feature is better; the lowest feature among equals.
//
//     best          split_t (n_nodes,)           in, out
//     sets          u32 (n_sets, set_words)      out   node i has the set count[1] + i
KERNEL(64) void choose_set_kernel(GLOBAL const split_t *RESTRICT found, GLOBAL const u32 *RESTRICT found_sets,
                                  GLOBAL const u32 *RESTRICT count, u32 children, u32 n_categorical, u32 set_words,
                                  GLOBAL split_t *best, GLOBAL u32 *sets) {
    const u32 node = GROUP_ID, number = count[1] + node;
    if (node >= count[0] * children) return;
    GLOBAL const split_t *own = found + (u64)node * n_categorical;
    f64 gain = best[node].gain;
    u32 winner = NO_BIN;
    for (u32 i = 0; i < n_categorical; i++) {
        if (own[i].gain > gain) {
            gain = own[i].gain;
            winner = i;
        }
    }
    BARRIER;  // every thread has read the gain
    if (winner == NO_BIN) return;
    GLOBAL const u32 *set = found_sets + ((u64)node * n_categorical + winner) * set_words;
    for (u32 i = LOCAL_ID; i < set_words; i += 64) sets[(u64)number * set_words + i] = set[i];
    if (LOCAL_ID == 0) {
        best[node] = own[winner];
        best[node].bin = (i32)number;
    }
}

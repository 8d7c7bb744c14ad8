// Trees on all distinct values: every feature of numbers has a list of rows sorted by rank, which is divided as the
// tree grows and keeps its order. Twin of backends/cpu/growth/ranked/, which says more.
//
//     lists     u64 (n_numeric, n_rows)   rank | row; `whole` of all rows, `even` and `odd` of the nodes at such depths
//     sides     u8 (n_rows,)              which rows go left, by row
//     gradients record_t (n_rows,)        of the tree, by row
//     table     u32 (5, n_nodes + 1)      first tile, begin, end, depth and rows that go left of each node: tables.py
//     features  u32 (2, n_features)       those that the tree may use, and their lists
//
// Work is cut into items, a tile of a list each; the items of a feature are neighbours, node after node.
//
//     count, scan, scatter      divide lists: rows of each tile that go left, those of the tiles before, moves
//     sum, scan, search, choose find splits: sums of each tile, those of the tiles before, candidates, the best of a
//     node
#if WIDE
typedef u64 record_t;
#define GRADIENT(record) ((i64)(i32)(u32)(record))
#define HESSIAN(record)  ((i64)((record) >> 32))
#else
typedef u32 record_t;
#define GRADIENT(record) ((i64)(i16)(u16)(record))
#define HESSIAN(record)  ((i64)((record) >> 16))
#endif
#define TILE            (THREADS * EACH)
#define RANK_OF(entry)  ((u32)((entry) >> 32))
#define ROW_OF(entry)   ((u32)(entry))
#define LIST_OF(number) features[n_features + (number)]

// Entries of rows that are sorted by rank, see rank_rows.cl; from entry `first` on.
KERNEL(THREADS) void entries_kernel(GLOBAL const u32 *RESTRICT ranks, GLOBAL const u32 *RESTRICT rows, u64 first, u64 n,
                                    GLOBAL u64 *RESTRICT whole) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        whole[first + i] = (u64)ranks[i] << 32 | rows[i];
    }
}

// The gradients of a root by row; rows are `listed`, or lie in order.
KERNEL(THREADS) void spread_kernel(GLOBAL const record_t *RESTRICT records, GLOBAL const u32 *RESTRICT rows, u32 listed,
                                   u32 n_records, GLOBAL record_t *RESTRICT gradients) {
    for (u32 i = GROUP_ID * THREADS + LOCAL_ID; i < n_records; i += GROUP_COUNT * THREADS) {
        gradients[listed ? rows[i] : i] = records[i];
    }
}

// The sides of the rows of nodes that are divided, from the row list of their children.
KERNEL(THREADS) void mark_kernel(GLOBAL const u32 *RESTRICT rows_even, GLOBAL const u32 *RESTRICT rows_odd,
                                 GLOBAL const u32 *RESTRICT table, u32 n_nodes, GLOBAL u8 *RESTRICT sides) {
    const u32 n_tiles = table[n_nodes], one = n_nodes + 1;
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(table, n_nodes, tile), begin = table[one + node], end = table[2 * one + node];
        GLOBAL const u32 *rows = table[3 * one + node] % 2 ? rows_even : rows_odd;
        const u32 from = begin + (tile - table[node]) * TILE, middle = begin + table[4 * one + node];
        const u32 to = end - from < TILE ? end : from + TILE;
        for (u32 place = from + LOCAL_ID; place < to; place += THREADS) sides[rows[place]] = place < middle;
    }
}

#define LISTS_AT(depth) ((depth) == 0 ? whole : (depth) % 2 ? odd : even)

//     counts   u32 (n_features, n_tiles)   out
KERNEL(THREADS) void count_kernel(GLOBAL const u64 *RESTRICT whole, GLOBAL const u64 *RESTRICT even,
                                  GLOBAL const u64 *RESTRICT odd, u32 n_rows, GLOBAL const u8 *RESTRICT sides,
                                  GLOBAL const u32 *RESTRICT features, u32 n_features, GLOBAL const u32 *RESTRICT table,
                                  u32 n_nodes, GLOBAL u32 *RESTRICT counts) {
    LOCAL u32 n_left;
    const u32 n_tiles = table[n_nodes], one = n_nodes + 1;
    for (u64 item = GROUP_ID; item < (u64)n_features * n_tiles; item += GROUP_COUNT) {
        const u32 tile = (u32)(item % n_tiles), node = node_of_piece(table, n_nodes, tile);
        const u32 begin = table[one + node], end = table[2 * one + node], depth = table[3 * one + node];
        GLOBAL const u64 *entries = LISTS_AT(depth) + (u64)LIST_OF(item / n_tiles) * n_rows;
        const u32 from = begin + (tile - table[node]) * TILE, to = end - from < TILE ? end : from + TILE;
        if (LOCAL_ID == 0) n_left = 0;
        BARRIER;
        u32 mine = 0;
        for (u32 place = from + LOCAL_ID; place < to; place += THREADS) mine += sides[ROW_OF(entries[place])];
        ADD_LOCAL32(&n_left, mine);
        BARRIER;
        if (LOCAL_ID == 0) counts[item] = n_left;
        BARRIER;
    }
}

// Those of all tiles of a feature before; a group takes a feature.
KERNEL(THREADS) void scan_counts_kernel(GLOBAL u32 *RESTRICT counts, u32 n_features, u32 n_tiles) {
    LOCAL u32 sums[THREADS];
    for (u32 feature = GROUP_ID; feature < n_features; feature += GROUP_COUNT) {
        GLOBAL u32 *own = counts + (u64)feature * n_tiles;
        u32 so_far = 0;
        for (u32 first = 0; first < n_tiles; first += THREADS) {
            const u32 count = first + LOCAL_ID < n_tiles ? own[first + LOCAL_ID] : 0u;
            u32 before, total;
            SCAN(sums, count, before, total);
            if (first + LOCAL_ID < n_tiles) own[first + LOCAL_ID] = so_far + before;
            so_far += total;
        }
    }
}

KERNEL(THREADS) void scatter_kernel(GLOBAL const u64 *whole, GLOBAL u64 *even, GLOBAL u64 *odd, u32 n_rows,
                                    GLOBAL const u8 *RESTRICT sides, GLOBAL const u32 *RESTRICT features,
                                    u32 n_features, GLOBAL const u32 *RESTRICT table, u32 n_nodes,
                                    GLOBAL const u32 *RESTRICT counts) {
    LOCAL u64 kept[TILE];
    LOCAL u64 sorted[TILE];
    LOCAL u32 sums[THREADS];
    const u32 n_tiles = table[n_nodes], one = n_nodes + 1;
    for (u64 item = GROUP_ID; item < (u64)n_features * n_tiles; item += GROUP_COUNT) {
        const u32 tile = (u32)(item % n_tiles), node = node_of_piece(table, n_nodes, tile);
        const u32 begin = table[one + node], end = table[2 * one + node], depth = table[3 * one + node];
        const u64 list = (u64)LIST_OF(item / n_tiles) * n_rows;
        GLOBAL const u64 *entries = LISTS_AT(depth) + list;
        GLOBAL u64 *out = (depth % 2 ? even : odd) + list;
        const u32 from = begin + (tile - table[node]) * TILE, n_here = end - from < TILE ? end - from : TILE;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) kept[i] = entries[from + i];
        BARRIER;
        u32 goes_left = 0, n_left = 0;
        for (u32 j = 0; j < EACH; j++) {
            const u32 i = LOCAL_ID * EACH + j, left = i < n_here ? sides[ROW_OF(kept[i])] : 0u;
            goes_left |= left << j;
            n_left += left;
        }
        u32 before, total;
        SCAN(sums, n_left, before, total);
        u32 left_place = before, right_place = total + (LOCAL_ID * EACH - before);
        for (u32 j = 0; j < EACH && LOCAL_ID * EACH + j < n_here; j++) {
            sorted[goes_left >> j & 1u ? left_place++ : right_place++] = kept[LOCAL_ID * EACH + j];
        }
        BARRIER;
        const u32 earlier = counts[item] - counts[item - (tile - table[node])];  // of this node, that went left
        const u32 left = begin + earlier, right = begin + table[4 * one + node] + (from - begin - earlier);
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            out[i < total ? left + i : right + (i - total)] = sorted[i];
        }
        BARRIER;
    }
}

// Sums of the values of each tile: gradients, hessians, rows; missing values are left out.
//
//     n_ranks   u32 (n_numeric,)                     in    the rank of missing values
//     sums      i64 (n_features, n_tiles + 1, 3)     out   the last is for scan_sums
KERNEL(THREADS) void sum_kernel(GLOBAL const u64 *RESTRICT whole, GLOBAL const u64 *RESTRICT even,
                                GLOBAL const u64 *RESTRICT odd, u32 n_rows, GLOBAL const record_t *RESTRICT gradients,
                                GLOBAL const u32 *RESTRICT features, u32 n_features, GLOBAL const u32 *RESTRICT n_ranks,
                                GLOBAL const u32 *RESTRICT table, u32 n_nodes, GLOBAL i64 *RESTRICT sums) {
    LOCAL i64 shared[3 * THREADS];
    const u32 n_tiles = table[n_nodes], one = n_nodes + 1;
    for (u64 item = GROUP_ID; item < (u64)n_features * n_tiles; item += GROUP_COUNT) {
        const u32 tile = (u32)(item % n_tiles), node = node_of_piece(table, n_nodes, tile);
        const u32 number = (u32)(item / n_tiles), feature = features[number];
        const u32 begin = table[one + node], end = table[2 * one + node], depth = table[3 * one + node];
        GLOBAL const u64 *entries = LISTS_AT(depth) + (u64)LIST_OF(number) * n_rows;
        const u32 from = begin + (tile - table[node]) * TILE, to = end - from < TILE ? end : from + TILE;
        i64 g = 0, h = 0, n = 0;
        for (u32 place = from + LOCAL_ID; place < to; place += THREADS) {
            const u64 entry = entries[place];
            if (RANK_OF(entry) < n_ranks[feature]) {
                const record_t record = gradients[ROW_OF(entry)];
                g += GRADIENT(record);
                h += HESSIAN(record);
                n += 1;
            }
        }
        shared[LOCAL_ID] = g;
        shared[THREADS + LOCAL_ID] = h;
        shared[2 * THREADS + LOCAL_ID] = n;
        for (u32 width = THREADS / 2; width > 0; width /= 2) {
            BARRIER;
            if (LOCAL_ID < width) {
                for (u32 k = 0; k < 3; k++) shared[k * THREADS + LOCAL_ID] += shared[k * THREADS + LOCAL_ID + width];
            }
        }
        BARRIER;
        if (LOCAL_ID < 3) sums[((u64)number * (n_tiles + 1) + tile) * 3 + LOCAL_ID] = shared[LOCAL_ID * THREADS];
        BARRIER;
    }
}

// Those of all tiles of a feature before, and of all; a group takes a feature.
KERNEL(THREADS) void scan_sums_kernel(GLOBAL i64 *RESTRICT sums, u32 n_features, u32 n_tiles) {
    LOCAL i64 shared[3 * THREADS];
    for (u32 feature = GROUP_ID; feature < n_features; feature += GROUP_COUNT) {
        GLOBAL i64 *own = sums + (u64)feature * (n_tiles + 1) * 3;
        i64 so_far[3] = {0, 0, 0};
        for (u32 first = 0; first <= n_tiles; first += THREADS) {
            const u32 tile = first + LOCAL_ID;
            i64 mine[3], upto[3], total[3];
            for (u32 k = 0; k < 3; k++) mine[k] = tile < n_tiles ? own[tile * 3 + k] : 0;
            SCAN_LANES(shared, 3, 1, mine, upto, total);
            for (u32 k = 0; k < 3; k++) {
                if (tile <= n_tiles) own[tile * 3 + k] = so_far[k] + upto[k] - mine[k];
                so_far[k] += total[k];
            }
            BARRIER;
        }
    }
}

// The best candidate of each tile.
//
//     totals      i64 (n_nodes, 2)                     in    sums of each node
//     sums        i64 (n_features, n_tiles + 1, 3)     in
//     units       f64 (2,)                             in
//     in_context  whether nodes have contexts; without, CONTEXT_ARGUMENTS are not looked at
//     splits      split_t (n_features, n_tiles)        out
KERNEL(THREADS) void search_kernel(GLOBAL const u64 *RESTRICT whole, GLOBAL const u64 *RESTRICT even,
                                   GLOBAL const u64 *RESTRICT odd, u32 n_rows,
                                   GLOBAL const record_t *RESTRICT gradients, GLOBAL const u32 *RESTRICT features,
                                   u32 n_features, GLOBAL const u32 *RESTRICT n_ranks, GLOBAL const u32 *RESTRICT table,
                                   u32 n_nodes, GLOBAL const i64 *RESTRICT totals, GLOBAL const i64 *RESTRICT sums,
                                   GLOBAL const f64 *RESTRICT units, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step,
                                   f64 min_gain, f64 min_hessian, i64 min_rows, GLOBAL split_t *RESTRICT splits,
                                   u32 in_context, GLOBAL const u32 *RESTRICT described, CONTEXT_ARGUMENTS) {
    LOCAL u64 kept[TILE];
    LOCAL i64 shared[2 * THREADS];
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 n_tiles = table[n_nodes], one = n_nodes + 1;
    const f64 gradient_unit = units[0], hessian_unit = units[1];
    for (u64 item = GROUP_ID; item < (u64)n_features * n_tiles; item += GROUP_COUNT) {
        const u32 tile = (u32)(item % n_tiles), node = node_of_piece(table, n_nodes, tile);
        const u32 number = (u32)(item / n_tiles), feature = features[number];
        if (in_context && !(mask[(u64)node * n_words + feature / 32] >> feature % 32 & 1u)) {
            if (LOCAL_ID == 0) store_split(splits + item, NO_GAIN, NO_KEY, 0, 0);
            continue;
        }
        const u32 begin = table[one + node], end = table[2 * one + node], depth = table[3 * one + node];
        GLOBAL const u64 *entries = LISTS_AT(depth) + (u64)LIST_OF(number) * n_rows;
        const u32 from = begin + (tile - table[node]) * TILE, n_here = end - from < TILE ? end - from : TILE;
        const i64 total_g = totals[node * 2], total_h = totals[node * 2 + 1], n_node = end - begin;
        GLOBAL const i64 *own = sums + (u64)number * (n_tiles + 1) * 3;
        GLOBAL const i64 *first = own + (u64)table[node] * 3, *past = own + (u64)table[node + 1] * 3;
        const u32 n_values = (u32)(past[2] - first[2]), values_end = begin + n_values;
        const i64 missing_g = total_g - (past[0] - first[0]), missing_h = total_h - (past[1] - first[1]);
        const i64 n_missing = n_node - n_values;
        rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, min_rows);
        how.score =
            leaf_score((f64)total_g * gradient_unit, (f64)total_h * hessian_unit, lambda_l1, lambda_l2, max_delta_step);
        i32 sign = 0;
        f64 factor = 1.0;
        u32 only = 0;
        if (in_context) {
            GLOBAL const i64 *around = context + (u64)node * 6;
            enter_context(&how, around, path_smooth, monotone);
            sign = signs[feature];
            factor = contribution[feature];
            if (sign != 0) factor = factor * BITS_TO_F64(around[4]);
            how.score = BAR(around, node, feature);
            only = random_threshold((u64)around[5], feature, described[feature] / 2, described[feature] % 2);
        }
        const u32 one_alone = in_context && extra_trees;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) kept[i] = entries[from + i];
        BARRIER;
        i64 mine[2] = {0, 0}, upto[2], in_tile[2];
        for (u32 j = 0; j < EACH; j++) {
            const u32 i = LOCAL_ID * EACH + j;
            if (i < n_here && from + i < values_end) {
                const record_t record = gradients[ROW_OF(kept[i])];
                mine[0] += GRADIENT(record);
                mine[1] += HESSIAN(record);
            }
        }
        SCAN_LANES(shared, 2, 1, mine, upto, in_tile);
        i64 g = own[tile * 3] - first[0] + upto[0] - mine[0], h = own[tile * 3 + 1] - first[1] + upto[1] - mine[1];
        f64 best_gain = NO_GAIN;
        u64 best_key = NO_KEY;
        i64 best_g = 0, best_h = 0;
        // Missing values alone on the left, where no row has a rank so low: see ranked/search.py.
        const u32 lowest = one_alone ? only : 0;
        if (from == begin && LOCAL_ID == 0 && n_missing > 0 && n_values > 0 && RANK_OF(kept[0]) > lowest) {
            const f64 gain = candidate_gain(missing_g, missing_h, total_g - missing_g, total_h - missing_h, n_missing,
                                            n_node - n_missing, gradient_unit, hessian_unit, sign, factor, &how);
            if (gain > best_gain) {
                best_gain = gain;
                best_key = ((u64)feature << 32) | (lowest << 1);
                best_g = missing_g;
                best_h = missing_h;
            }
        }
        for (u32 j = 0; j < EACH; j++) {
            const u32 i = LOCAL_ID * EACH + j, place = from + i;
            if (i >= n_here || place >= values_end) break;
            const record_t record = gradients[ROW_OF(kept[i])];
            g += GRADIENT(record);
            h += HESSIAN(record);
            const u32 rank = RANK_OF(kept[i]), is_last = place + 1 == values_end;
            const u32 next = is_last ? 0xFFFFFFFFu : RANK_OF(i + 1 < n_here ? kept[i + 1] : entries[place + 1]);
            if (next == rank || (one_alone && !(rank <= only && only < next))) continue;
            const i64 rows = place + 1 - begin;
            for (u32 side = n_missing > 0 ? 0 : 1; side < 2; side++) {
                const i64 left_g = g + (side ? 0 : missing_g), left_h = h + (side ? 0 : missing_h);
                const i64 left_rows = rows + (side ? 0 : n_missing);
                const f64 gain = candidate_gain(left_g, left_h, total_g - left_g, total_h - left_h, left_rows,
                                                n_node - left_rows, gradient_unit, hessian_unit, sign, factor, &how);
                const u64 key = ((u64)feature << 32) | ((one_alone ? only : rank) << 1) | (n_missing > 0 ? side : 0);
                if (gain > NO_GAIN && IS_BETTER(gain, key, best_gain, best_key)) {
                    best_gain = gain;
                    best_key = key;
                    best_g = left_g;
                    best_h = left_h;
                }
            }
        }
        BARRIER;
        FIND_BEST(gains, keys, best_gain, best_key);
        if (HAS_BEST(keys, best_key)) store_split(splits + item, best_gain, best_key, best_g, best_h);
        BARRIER;
    }
}

// The best of all tiles of all features of a node; a group takes a node.
//
//     best   split_t (n_nodes,)   out
#define KEY_OF(split) \
    (((u64)(u32)(split)->feature << 32) | ((u32)(split)->bin << 1) | ((split)->missing_left & 0xFFu ? 0u : 1u))

KERNEL(THREADS) void choose_list_kernel(GLOBAL const split_t *RESTRICT splits, u32 n_features,
                                        GLOBAL const u32 *RESTRICT table, u32 n_nodes, GLOBAL split_t *RESTRICT best) {
    LOCAL f64 gains[THREADS];
    LOCAL u64 keys[THREADS];
    const u32 n_tiles = table[n_nodes];
    for (u32 node = GROUP_ID; node < n_nodes; node += GROUP_COUNT) {
        const u32 first = table[node], n_here = table[node + 1] - first;
        f64 gain = NO_GAIN;
        u64 key = NO_KEY, winner = 0;
        for (u64 i = LOCAL_ID; i < (u64)n_features * n_here; i += THREADS) {
            const u64 item = i / n_here * n_tiles + first + i % n_here;
            GLOBAL const split_t *own = splits + item;
            if (own->gain > NO_GAIN && IS_BETTER(own->gain, KEY_OF(own), gain, key)) {
                gain = own->gain;
                key = KEY_OF(own);
                winner = item;
            }
        }
        FIND_BEST(gains, keys, gain, key);
        if (HAS_BEST(keys, key)) {
            if (key == NO_KEY)
                store_split(best + node, NO_GAIN, NO_KEY, 0, 0);
            else
                best[node] = splits[winner];
        }
        BARRIER;
    }
}

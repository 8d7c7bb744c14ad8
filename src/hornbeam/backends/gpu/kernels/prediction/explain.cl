// Shapley values, one thread a row; trees/shapley/plan.py and trees/shapley/background_game.py say what is computed and
// in what order, gpu/explanation/ what the tables hold. All threads of a group take the same steps through a tree, so
// they read the same steps and neighbouring codes.
//
//   raw     u32 (n_words, n_splits)   bit r of [w, s]: row 32 w + r goes to child 1 at split s
//   codes   u64 (n_words, n_splits)   the same, and in the upper half the rows that left the path at an earlier split
//   sums    f64 (n_sums, stride)      what each walk found: features of the tree, rows side by side

typedef struct {
    f64 threshold;
    u32 column;
    i32 previous;  // 2 * split + child, the split counted from the first of all trees; -1: none
    u32 flip;      // child 1 is the right one
    u32 padding;
} split_test_t;

typedef struct {
    u32 split;  // 8 * split + kind, the split counted from the first of the tree
    u32 level, room, slot;
} __attribute__((aligned(16))) step_t;

// One walk: a tree and two points of the quadrature.
typedef struct {
    u32 first_split;  // counted from the first of the chunk, as are the next but one
    u32 n_splits;
    u32 first_step;  // counted from the first of all trees
    u32 n_steps;
    u32 point;
    u32 first_chance;
    u32 first_sum;
    u32 n_sums;
    u32 first_pair;
    u32 first_path;
    u32 whole_split;  // first split, counted from the first of all trees
    u32 padding;
} __attribute__((aligned(16))) walk_t;

enum { TO_FIRST, TO_SECOND, CLOSE, CLOSE_ONE, CLOSE_LEAVES };

#define CHANCES 18  // of a split: for codes 0, 1, 2 of a row f, 1 - f and f', each at two points

// Decides every split of a chunk of trees for every row.
KERNEL(THREADS) void decide_kernel(GLOBAL const raw_t *RESTRICT values, i64 row_stride, i64 column_stride, u64 n_rows,
                                   GLOBAL const split_test_t *RESTRICT tests, GLOBAL const u32 *RESTRICT sets,
                                   u32 first_split, u32 n_splits, GLOBAL u32 *RESTRICT raw) {
    const u64 n = (n_rows + 31) / 32 * n_splits;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const split_test_t test = tests[first_split + i % n_splits];
        const u64 begin = i / n_splits * 32, left = n_rows - begin;
        const u32 n_bits = left < 32 ? (u32)left : 32u;
        GLOBAL const raw_t *value = values + (i64)begin * row_stride + (i64)FEATURE_OF(test.column) * column_stride;
        u32 bits = 0;
        UNROLL_SOME
        for (u32 row = 0; row < n_bits; row++)
            bits |= goes_left(RAW_VALUE(value[(i64)row * row_stride]), test.threshold, test.column, sets) << row;
        raw[i] = test.flip ? ~bits : bits;
    }
}

// Adds which rows have left the path at an earlier split of the same feature.
KERNEL(THREADS) void codes_kernel(GLOBAL const u32 *RESTRICT raw, u64 n_words,
                                  GLOBAL const split_test_t *RESTRICT tests, u32 first_split, u32 n_splits,
                                  GLOBAL u64 *RESTRICT codes) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_words * n_splits; i += (u64)GROUP_COUNT * THREADS) {
        GLOBAL const u32 *own = raw + i / n_splits * n_splits;
        u32 gone = 0;
        for (i32 edge = tests[first_split + i % n_splits].previous; edge >= 0; edge = tests[(u32)edge >> 1].previous) {
            const u32 bits = own[((u32)edge >> 1) - first_split];
            gone |= edge & 1 ? bits : ~bits;
        }
        codes[i] = (u64)gone << 32 | raw[i];
    }
}

// Computes f, 1 - f and f' of every split for the codes 0, 1 and 2, and for interactions the rates of its children.
//
//     share    f64 (n_splits, 2)             in
//     merged   f64 (n_splits,)               in
//     points   f64                           in
//     chances  f64 (n_chances, CHANCES)      out
//     rates    f64 (n_chances, 2, 2)         out   by child and point
KERNEL(THREADS) void chances_kernel(GLOBAL const walk_t *RESTRICT walks, u32 n_walks,
                                    GLOBAL const split_test_t *RESTRICT tests, GLOBAL const f64 *RESTRICT share,
                                    GLOBAL const f64 *RESTRICT merged, GLOBAL const f64 *RESTRICT points,
                                    GLOBAL f64 *RESTRICT chances, GLOBAL f64 *RESTRICT rates) {
    for (u32 number = GROUP_ID; number < n_walks; number += GROUP_COUNT) {
        const walk_t walk = walks[number];
        for (u32 i = LOCAL_ID; i < 2 * walk.n_splits; i += THREADS) {
            const u32 split = i / 2, q = i % 2;
            const u64 whole = (u64)walk.whole_split + split;
            const f64 t = points[walk.point + q], u = 1.0 - t, z = merged[whole];
            const f64 z1 = share[2 * whole], z2 = share[2 * whole + 1];
            const f64 r = tests[whole].previous < 0 ? 1.0 : 1.0 / (z * u + t);
            const f64 a = z * z1 * u, b = z * z2 * u;
            GLOBAL f64 *own = chances + (u64)(walk.first_chance + split) * CHANCES + q;
            own[0] = a * r;
            own[2] = (b + t) * r;
            own[4] = -(z * z1 * r * r);
            own[6] = (a + t) * r;
            own[8] = b * r;
            own[10] = z * z2 * r * r;
            own[12] = z1;
            own[14] = z2;
            own[16] = 0.0;
#if INTERACTIONS
            GLOBAL f64 *rate = rates + (u64)(walk.first_chance + split) * 4 + q;
            const f64 y1 = z * z1, y2 = z * z2;
            rate[0] = (1.0 - y1) / (y1 * u + t);
            rate[2] = (1.0 - y2) / (y2 * u + t);
#endif
        }
    }
}

#if KEEP
#define AREA(place) area[(place) * THREADS + LOCAL_ID]
#else
#define AREA(place) area[(u64)(place) * THREADS + LOCAL_ID]
#endif

// Walks every row of a block through every tree of a chunk, at two points at a time.
//
//     leaves     f64 (n_splits, 2)        in   values of children that are leaves
//     paths      u32                      in   first entry of each split, one more a tree; for interactions
//     edges      i32 (n_entries, 2)       in   edge of another feature on the path, and number of the pair
//     memory     f64                      scratch, where KEEP is 0: n_numbers for each thread
//     n_levels, n_rooms                   that a thread keeps; its sums come behind them
//     pair_sums  f64 (n_pairs, stride)    in, out   zeros at first
KERNEL(THREADS) void walk_kernel(GLOBAL const walk_t *RESTRICT walks, u32 n_walks, GLOBAL const u64 *RESTRICT codes,
                                 u32 n_chunk_splits, u64 n_rows, u64 stride, GLOBAL const step_t *RESTRICT steps,
                                 GLOBAL const f64 *RESTRICT leaves, GLOBAL const f64 *RESTRICT chances,
                                 GLOBAL const f64 *RESTRICT points, GLOBAL const f64 *RESTRICT weights, u32 n_levels,
                                 u32 n_rooms, u32 n_numbers, GLOBAL f64 *memory, GLOBAL f64 *RESTRICT sums,
                                 GLOBAL const f64 *RESTRICT rates, GLOBAL const u32 *RESTRICT paths,
                                 GLOBAL const i32 *RESTRICT edges, GLOBAL f64 *RESTRICT pair_sums) {
#if KEEP
    BIG_LOCAL(f64, area, KEEP * THREADS);
#else
    GLOBAL f64 *area = memory + (u64)GROUP_ID * n_numbers * THREADS;
#endif
    const u32 h_begin = 2 * n_levels, sums_begin = h_begin + 2 * n_rooms;
    const u64 n_blocks = (n_rows + THREADS - 1) / THREADS;
    for (u64 job = GROUP_ID; job < n_blocks * n_walks; job += GROUP_COUNT) {
        const walk_t walk = walks[job / n_blocks];
        const u64 row = job % n_blocks * THREADS + LOCAL_ID;
        if (row >= n_rows) continue;
        const u32 lane = (u32)row % 32u;
        GLOBAL const u64 *own_codes = codes + row / 32 * n_chunk_splits + walk.first_split;
        GLOBAL const f64 *own_chances = chances + (u64)walk.first_chance * CHANCES;
        GLOBAL const f64 *own_leaves = leaves + (u64)walk.whole_split * 2;
        GLOBAL const step_t *own_steps = steps + walk.first_step;
        for (u32 slot = 0; slot < walk.n_sums; slot++) AREA(sums_begin + slot) = 0.0;
        // G of the split where the walk is, and H of the split that it left last
        f64 g0 = weights[walk.point], g1 = weights[walk.point + 1], h0 = 0.0, h1 = 0.0;
#if INTERACTIONS
        const f64 off0 = -1.0 / (1.0 - points[walk.point]), off1 = -1.0 / (1.0 - points[walk.point + 1]);
#endif
        for (u32 i = 0; i < walk.n_steps; i++) {
            const step_t step = own_steps[i];
            const u32 kind = step.split & 7u, split = step.split >> 3;
            const u64 bits = own_codes[split] >> lane;
            const u32 code = bits >> 32 & 1u ? 2u : (u32)(bits & 1u);
            GLOBAL const f64 *chance = own_chances + (u64)(split * 3 + code) * 6;
            const u32 g = 2 * step.level, h = h_begin + 2 * step.room;
            if (kind == TO_FIRST) {
                AREA(g) = g0;
                AREA(g + 1) = g1;
                g0 = g0 * chance[0];
                g1 = g1 * chance[1];
                continue;
            }
            if (kind == TO_SECOND) {
                AREA(h) = h0;
                AREA(h + 1) = h1;
                g0 = AREA(g) * chance[2];
                g1 = AREA(g + 1) * chance[3];
                continue;
            }
            f64 first0 = h0, first1 = h1, second0 = h0, second1 = h1;
            if (kind == CLOSE) {
                first0 = AREA(h);
                first1 = AREA(h + 1);
            } else {
                second0 = second1 = own_leaves[2 * split + 1];
            }
            if (kind == CLOSE_LEAVES) {
                first0 = first1 = own_leaves[2 * split];
            } else {
                g0 = AREA(g);
                g1 = AREA(g + 1);
            }
            const f64 d0 = first0 - second0, d1 = first1 - second1;
            const f64 p0 = g0 * (chance[4] * d0), p1 = g1 * (chance[5] * d1);
            AREA(sums_begin + step.slot) += p0 + p1;
            h0 = second0 + chance[0] * d0;
            h1 = second1 + chance[1] * d1;
#if INTERACTIONS
            for (u32 e = paths[walk.first_path + split]; e < paths[walk.first_path + split + 1]; e++) {
                const u32 edge = (u32)edges[2 * e], other = edge >> 1, child = edge & 1u;
                const u64 its_bits = own_codes[other] >> lane;
                const u32 on = !(its_bits >> 32 & 1u) && (u32)(its_bits & 1u) == 1u - child;
                GLOBAL const f64 *rate = rates + ((u64)(walk.first_chance + other) * 2 + child) * 2;
                const f64 rate0 = on ? rate[0] : off0, rate1 = on ? rate[1] : off1;
                GLOBAL f64 *total = pair_sums + (u64)(walk.first_pair + (u32)edges[2 * e + 1]) * stride + row;
                *total += p0 * rate0 + p1 * rate1;
            }
#endif
        }
        for (u32 slot = 0; slot < walk.n_sums; slot++)
            sums[(u64)(walk.first_sum + slot) * stride + row] = AREA(sums_begin + slot);
    }
}

// Adds the sums of a chunk to the result, walks of a tree in their order and then tree by tree.
//
//     keys     u32 (n_keys, 3)              in       place in a row of the result, first use, one past the last use
//     uses     u32 (n_uses, 3)              in       first of the sums, how many there are, how far apart
//     out      f64 (n_rows, n_places)       in, out
KERNEL(THREADS) void gather_kernel(GLOBAL const u32 *RESTRICT keys, u32 n_keys, GLOBAL const u32 *RESTRICT uses,
                                   GLOBAL const f64 *RESTRICT sums, u64 n_rows, u64 stride, u64 n_places,
                                   GLOBAL f64 *RESTRICT out) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_rows * n_keys; i += (u64)GROUP_COUNT * THREADS) {
        const u64 row = i % n_rows;
        GLOBAL const u32 *key = keys + 3 * (i / n_rows);
        f64 value = out[row * n_places + key[0]];
        for (u32 use = key[1]; use < key[2]; use++) {
            GLOBAL const f64 *part = sums + (u64)uses[3 * use] * stride + row;
            const u64 apart = (u64)uses[3 * use + 2] * stride;
            f64 total = part[0];
            for (u32 q = 1; q < uses[3 * use + 1]; q++) total += part[q * apart];
            value += total;
        }
        out[row * n_places + key[0]] = value;
    }
}

// --- background rows ------------------------------------------------------------------------------------------------

typedef struct {
    u32 first_split;  // counted from the first of the chunk
    u32 whole_split;  // counted from the first of all trees
    u32 first_leaf;   // counted from the first of all trees
    u32 first_sum;
} __attribute__((aligned(16))) game_t;

typedef struct {
    i32 left, right;
    u32 slot, padding;
} __attribute__((aligned(16))) branch_t;

// Plays every row of a block against every background row in every tree of a chunk.
//
//     raw, others   u32 (n_words, n_chunk_splits)   in     decisions of the rows and of the background rows
//     weights       f64 (most, most)                in     background_game.coalition_weights
//     stack         u32 (groups, most, THREADS)     scratch   2 * split + whose way the walk is on
//     saved         f64 (groups, 2 most, THREADS)   scratch   what came back from the explained row's way
//     taken         u32 (groups, most slots, THREADS)  scratch  0: free, 1: the row's, 2: the background row's
//     sums          f64 (n_sums, stride)            in, out   zeros at first
KERNEL(THREADS) void play_kernel(GLOBAL const game_t *RESTRICT games, u32 n_games, GLOBAL const u32 *RESTRICT raw,
                                 GLOBAL const u32 *RESTRICT others, u32 n_chunk_splits, u64 n_rows, u64 stride,
                                 u64 n_background, GLOBAL const branch_t *RESTRICT branches,
                                 GLOBAL const f64 *RESTRICT leaves, GLOBAL const f64 *RESTRICT weights, u32 most,
                                 u32 most_slots, GLOBAL u32 *stack, GLOBAL f64 *saved, GLOBAL u32 *taken,
                                 GLOBAL f64 *RESTRICT sums) {
    GLOBAL u32 *own_stack = stack + (u64)GROUP_ID * most * THREADS + LOCAL_ID;
    GLOBAL f64 *own_saved = saved + (u64)GROUP_ID * most * 2 * THREADS + LOCAL_ID;
    GLOBAL u32 *own_taken = taken + (u64)GROUP_ID * most_slots * THREADS + LOCAL_ID;
    for (u32 slot = 0; slot < most_slots; slot++) own_taken[slot * THREADS] = 0;
    const u64 n_blocks = (n_rows + THREADS - 1) / THREADS;
    for (u64 job = GROUP_ID; job < n_blocks * n_games; job += GROUP_COUNT) {
        const game_t game = games[job / n_blocks];
        const u64 row = job % n_blocks * THREADS + LOCAL_ID;
        if (row >= n_rows) continue;
        GLOBAL const u32 *own_raw = raw + row / 32 * n_chunk_splits + game.first_split;
        GLOBAL const branch_t *tree = branches + game.whole_split;
        GLOBAL const f64 *values = leaves + game.first_leaf;
        GLOBAL f64 *own_sums = sums + (u64)game.first_sum * stride + row;
        for (u64 other = 0; other < n_background; other++) {
            GLOBAL const u32 *its_raw = others + other / 32 * n_chunk_splits + game.first_split;
            i32 node = 0;
            u32 depth = 0, p = 0, n = 0;
            while (1) {
                while (node >= 0) {
                    const branch_t branch = tree[node];
                    u32 left = own_raw[node] >> (u32)row % 32u & 1u;
                    const u32 its_left = its_raw[node] >> (u32)other % 32u & 1u;
                    const u32 whose = own_taken[branch.slot * THREADS];
                    if (whose == 2) {
                        left = its_left;
                    } else if (whose == 0 && left != its_left) {
                        own_stack[depth * THREADS] = 2 * (u32)node;
                        own_taken[branch.slot * THREADS] = 1;
                        depth++;
                        p++;
                    }
                    node = left ? branch.left : branch.right;
                }
                const f64 value = values[~node];
                f64 one = value * weights[p * most + n], two = value * weights[n * most + p];
                u32 is_done = 1;
                while (depth > 0) {
                    const u32 entry = own_stack[(depth - 1) * THREADS];
                    const branch_t branch = tree[entry >> 1];
                    GLOBAL f64 *kept = own_saved + (u64)(depth - 1) * 2 * THREADS;
                    if (!(entry & 1u)) {  // now the background row's way
                        kept[0] = one;
                        kept[THREADS] = two;
                        own_stack[(depth - 1) * THREADS] = entry + 1;
                        own_taken[branch.slot * THREADS] = 2;
                        p--;
                        n++;
                        node = its_raw[entry >> 1] >> (u32)other % 32u & 1u ? branch.left : branch.right;
                        is_done = 0;
                        break;
                    }
                    own_sums[(u64)branch.slot * stride] += kept[0] - two;
                    one = kept[0] + one;
                    two = kept[THREADS] + two;
                    own_taken[branch.slot * THREADS] = 0;
                    n--;
                    depth--;
                }
                if (is_done) break;
            }
        }
    }
}

// Ranks joined to bins before every tree: twin of data/quantiles.py.
//
// The weight of a rank is the sum of its rows' hessians. Few ranks have to be weighed one by one: 2^shift neighbours
// make a block, and blocks are weighed first. What is looked at closely, a block with a slot, is one that weighs enough
// to hold a heavy rank, or one in which the light weight passes a multiple of the step.
//
//     weigh_blocks   adds the hessians of the tree's rows up by block
//     in each round of the search for heavy ranks:
//     suspect        gives blocks a slot that may hold heavy ranks                 a group takes a feature
//     clear          weights of the ranks of new slots                             a slot
//     weigh_ranks    adds hessians up by rank, in new slots alone                  a tile of a list
//     find_heavy     sums the heavy ranks of a block, and counts pairs with one    a slot
//     then:
//     choose         finds the step, and gives blocks a slot where bins end        a feature
//     clear, weigh_ranks
//     find_ends      lists the last ranks of bins, in any order                    a slot
//     order_ends     puts them in order                                            a feature
//     write          writes the tiles that histograms read, and columns
//
// Before the first tree rows are listed in the order of ranks, for each feature whose blocks have several:
//
//     place          keeps rows that are sorted (rank_rows.cl), and where each block begins among them
//
//     ranks        u32                             tiles of the ranks, whose layout is given at launch: see bins.h
//     records      record_t (n_rows,)              of the root
//     rows         u32 (n_rows,)                   rows of the records; not `listed`: as they lie
//     features     feature_t (n_numeric,)          sizes, see below
//     states       state_t (n_numeric,)            what has been found out about a tree
//     blocks       block_t (n_numeric, N_BINS)     zeros at first
//     block_of     u32 (n_numeric, most_slots)     the block of a slot
//     weights      i64                             of the ranks of slots, feature after feature
//     lists        u32 (n_lists, n_rows)           rows in the order of their ranks, missing ones last
//     places       place_t (n_lists, n_rows)       of their ranks in the blocks
//     begins       u32 (n_lists, N_BINS + 1)       where the rows of each block begin; then, the missing ones
//     ends         u32 (bins of all,)              last ranks of bins, as they were found
//     last_rank    i32 (bins of all,)              last rank of each bin
//     WORDS        of a tile that are written at once, a part: 2, or 1
//     parts        u32 (n_parts,)                  numbers of those that are written
//     guesses      u16 (n_numeric, GUESSES)        number of bins that end below rank i << guess_shift
#define NO_SLOT 0xFFFFFFFFu
#define GUESSES 1024
#define LANES   4

typedef struct {
    u64 weights, bins;       // where its own begin in `weights`, and in `ends` and `last_rank`
    u32 n_ranks, n_bins;     // without the missing one
    u32 shift, guess_shift;  // of a rank to its block, and to its guess
} feature_t;

typedef struct {
    i64 bar, step, n_light;
    u32 first_new, n_slots, n_ends, padding;
} state_t;

typedef struct {
    i64 weight, heavy, below;  // of all its ranks, of the heavy ones; light weight of all blocks before
    u32 n_beside, slot;        // pairs of neighbouring ranks of which one is heavy
} block_t;

// Of a rank in its block.
#if VALUE_BYTES == 2
typedef u16 place_t;
#else
typedef u32 place_t;
#endif
#define PLACE_OF(rank, own) ((rank) & ((1u << (own).shift) - 1u))

#define IS_FINE(own)  ((own).n_ranks <= (own).n_bins)
#define N_BLOCKS(own) ((((own).n_ranks - 1) >> (own).shift) + 1)

#if WIDE
typedef u64 record_t;
typedef u64 counter_t;
#define HESSIAN(record)           ((u64)(record) >> 32)
#define ADD_COUNTER(place, value) ADD_LOCAL64(place, value)
#else
typedef u32 record_t;
typedef u32 counter_t;  // of at most 2^16 rows
#define HESSIAN(record)           ((record) >> 16)
#define ADD_COUNTER(place, value) ADD_LOCAL32(place, value)
#endif

// A group takes four features of a chunk of at most 2^16 records.
KERNEL(THREADS) void weigh_blocks_kernel(GLOBAL const u32 *RESTRICT ranks, u32 bits, u32 words, u32 n_rows,
                                         u32 n_numeric, u32 chunk, GLOBAL const record_t *RESTRICT records,
                                         GLOBAL const u32 *RESTRICT rows, u32 listed, u32 n_records,
                                         GLOBAL const feature_t *RESTRICT features, GLOBAL block_t *RESTRICT blocks) {
    BIG_LOCAL(counter_t, counters, LANES * N_BINS);
    const u32 n_quads = (n_numeric + LANES - 1) / LANES, n_chunks = (n_records + chunk - 1) / chunk;
    for (u32 item = GROUP_ID; item < n_chunks * n_quads; item += GROUP_COUNT) {
        const u32 lane = LOCAL_ID % LANES, feature = item % n_quads * LANES + lane, from = item / n_quads * chunk;
        const u32 to = n_records - from < chunk ? n_records : from + chunk;
        for (u32 i = LOCAL_ID; i < LANES * N_BINS; i += THREADS) counters[i] = 0;
        BARRIER;
        if (feature < n_numeric && !IS_FINE(features[feature])) {
            const u32 n_ranks = features[feature].n_ranks, shift = features[feature].shift;
            UNROLL_SOME for (u32 place = from + LOCAL_ID / LANES; place < to; place += THREADS / LANES) {
                const u32 rank = rank_of(ranks, bits, words, n_rows, feature, listed ? rows[place] : place);
                if (rank < n_ranks) ADD_COUNTER(&counters[(rank >> shift) * LANES + lane], HESSIAN(records[place]));
            }
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < LANES * N_BINS; i += THREADS) {
            const u32 other = item % n_quads * LANES + i % LANES;
            if (counters[i] != 0) ADD_GLOBAL64(&blocks[(u64)other * N_BINS + i / LANES].weight, counters[i]);
        }
        BARRIER;
    }
}

// Adds a number of all threads up, and gives it to all.
#define SUM_ALL(sums, value, out)                                             \
    do {                                                                      \
        BARRIER;                                                              \
        sums[LOCAL_ID] = value;                                               \
        for (u32 width_ = THREADS / 2; width_ > 0; width_ /= 2) {             \
            BARRIER;                                                          \
            if (LOCAL_ID < width_) sums[LOCAL_ID] += sums[LOCAL_ID + width_]; \
        }                                                                     \
        BARRIER;                                                              \
        out = sums[0];                                                        \
        BARRIER;                                                              \
    } while (0)

//     turn     in which heavy ranks are looked for, from 0 on: what is known of them is from the rounds before
KERNEL(THREADS) void suspect_kernel(GLOBAL const feature_t *RESTRICT features, u32 n_numeric, u32 most_slots, u32 turn,
                                    GLOBAL state_t *RESTRICT states, GLOBAL block_t *RESTRICT blocks,
                                    GLOBAL u32 *RESTRICT block_of) {
    LOCAL i64 sums[THREADS];
    LOCAL u32 counts[THREADS];
    for (u32 feature = GROUP_ID; feature < n_numeric; feature += GROUP_COUNT) {
        const feature_t own = features[feature];
        GLOBAL block_t *mine = blocks + (u64)feature * N_BINS;
        GLOBAL state_t *state = states + feature;
        const u32 n_blocks = IS_FINE(own) ? 0u : N_BLOCKS(own), n_before = turn == 0 ? 0u : state->n_slots;
        i64 light = 0, n_beside = 0;
        for (u32 i = LOCAL_ID; i < n_blocks; i += THREADS) {
            light += mine[i].weight - mine[i].heavy;
            n_beside += mine[i].n_beside;
        }
        SUM_ALL(sums, light, light);
        SUM_ALL(sums, n_beside, n_beside);
        const i64 bar = 2 * light / ((i64)own.n_bins - n_beside);
        u32 n_slots = n_before;
        for (u32 first = 0; first < n_blocks; first += THREADS) {
            const u32 i = first + LOCAL_ID, is_there = i < n_blocks;
            const u32 is_free = is_there && (turn == 0 || mine[i].slot == NO_SLOT) ? 1u : 0u;
            const u32 is_suspect = is_free && mine[i].weight > bar ? 1u : 0u;
            u32 before, all;
            SCAN(counts, is_suspect, before, all);
            if (is_free) mine[i].slot = is_suspect ? n_slots + before : NO_SLOT;
            if (is_suspect) block_of[(u64)feature * most_slots + n_slots + before] = i;
            n_slots += all;
        }
        if (LOCAL_ID == 0) {
            state->bar = bar;
            state->first_new = n_before;
            state->n_slots = n_slots;
            state->n_ends = 0;
        }
        BARRIER;
    }
}

// Where a block is a rank, its weight is known.
KERNEL(THREADS) void clear_kernel(GLOBAL const feature_t *RESTRICT features, u32 n_numeric, u32 most_slots,
                                  GLOBAL const state_t *RESTRICT states, GLOBAL const block_t *RESTRICT blocks,
                                  GLOBAL const u32 *RESTRICT block_of, GLOBAL i64 *RESTRICT weights) {
    for (u32 item = GROUP_ID; item < n_numeric * most_slots; item += GROUP_COUNT) {
        const u32 feature = item / most_slots, slot = item % most_slots;
        if (slot < states[feature].first_new || slot >= states[feature].n_slots) continue;
        const u32 shift = features[feature].shift;
        GLOBAL i64 *own = weights + features[feature].weights + ((u64)slot << shift);
        const i64 known = shift == 0 ? blocks[(u64)feature * N_BINS + block_of[item]].weight : 0;
        for (u32 i = LOCAL_ID; i < 1u << shift; i += THREADS) own[i] = known;
    }
}

#define TILE (THREADS * EACH)

// By row, the hessians of the rows of a tree that does not have all.
KERNEL(THREADS) void spread_kernel(GLOBAL const record_t *RESTRICT records, GLOBAL const u32 *RESTRICT rows,
                                   u32 n_records, GLOBAL record_t *RESTRICT by_row) {
    for (u32 i = GROUP_ID * THREADS + LOCAL_ID; i < n_records; i += GROUP_COUNT * THREADS) by_row[rows[i]] = records[i];
}

//     by_row   record_t (n_rows,)   in
KERNEL(THREADS) void weigh_ranks_kernel(GLOBAL const u32 *RESTRICT ranks, u32 bits, u32 words, u32 n_rows,
                                        GLOBAL const u32 *RESTRICT feature_of, u32 n_lists,
                                        GLOBAL const u32 *RESTRICT lists, GLOBAL const place_t *RESTRICT places,
                                        GLOBAL const u32 *RESTRICT begins, GLOBAL const record_t *RESTRICT by_row,
                                        GLOBAL const feature_t *RESTRICT features,
                                        GLOBAL const state_t *RESTRICT states, GLOBAL const block_t *RESTRICT blocks,
                                        GLOBAL i64 *RESTRICT weights) {
    const u32 n_tiles = (n_rows + TILE - 1) / TILE;
    for (u32 item = GROUP_ID; item < n_lists * n_tiles; item += GROUP_COUNT) {
        const u32 number = item / n_tiles, feature = feature_of[number], from = item % n_tiles * TILE;
        const u32 first_new = states[feature].first_new;
        if (first_new == states[feature].n_slots) continue;
        const feature_t own = features[feature];
        GLOBAL const place_t *place = places + (u64)number * n_rows;
        GLOBAL const u32 *list = lists + (u64)number * n_rows, *begin = begins + (u64)number * (N_BINS + 1);
        GLOBAL const block_t *mine = blocks + (u64)feature * N_BINS;
        const u32 n_values = begin[N_BLOCKS(own)];
        if (from >= n_values) continue;
        const u32 to = n_values - from < TILE ? n_values : from + TILE;
        const u32 last = rank_of(ranks, bits, words, n_rows, feature, list[to - 1]) >> own.shift;
        u32 block = rank_of(ranks, bits, words, n_rows, feature, list[from]) >> own.shift;
        for (; block <= last; block++) {
            const u32 slot = mine[block].slot;
            if (slot == NO_SLOT || slot < first_new) continue;
            const u32 low = begin[block] > from ? begin[block] : from,
                      high = begin[block + 1] < to ? begin[block + 1] : to;
            GLOBAL i64 *out = weights + own.weights + ((u64)slot << own.shift);
            // a thread adds its neighbours of one rank up
            const u32 mine_from = low + LOCAL_ID * EACH, mine_to = high < mine_from + EACH ? high : mine_from + EACH;
            u32 at = 0;
            u64 sum = 0;
            UNROLL for (u32 j = 0; j < EACH; j++) {
                if (mine_from + j >= mine_to) continue;
                const u32 rank = place[mine_from + j];
                if (rank != at && sum != 0) {
                    ADD_GLOBAL64(&out[at], sum);
                    sum = 0;
                }
                at = rank;
                sum += HESSIAN(by_row[list[mine_from + j]]);
            }
            if (sum != 0) ADD_GLOBAL64(&out[at], sum);
        }
    }
}

KERNEL(THREADS) void place_kernel(GLOBAL const u32 *RESTRICT keys, GLOBAL const u32 *RESTRICT payload, u32 n_rows,
                                  GLOBAL const u32 *RESTRICT feature_of, u32 first, u32 n_here,
                                  GLOBAL const feature_t *RESTRICT features, GLOBAL u32 *RESTRICT lists,
                                  GLOBAL place_t *RESTRICT places, GLOBAL u32 *RESTRICT begins) {
    const u64 n = (u64)n_here * n_rows;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const u32 number = first + (u32)(i / n_rows), place = (u32)(i % n_rows);
        const feature_t own = features[feature_of[number]];
        GLOBAL u32 *begin = begins + (u64)number * (N_BINS + 1);
        lists[(u64)number * n_rows + place] = payload[i];
        places[(u64)number * n_rows + place] = (place_t)PLACE_OF(keys[i], own);
        const u32 past = keys[i] < own.n_ranks ? (keys[i] >> own.shift) + 1 : N_BLOCKS(own) + 1;
        u32 block = 0;  // the first that begins here, of those before `past`
        if (place > 0) block = keys[i - 1] < own.n_ranks ? (keys[i - 1] >> own.shift) + 1 : N_BLOCKS(own) + 1;
        for (; block < past; block++) begin[block] = place;
        if (place + 1 == n_rows) {
            for (; block <= N_BLOCKS(own); block++) begin[block] = n_rows;
        }
    }
}

// What a block with a slot has to know of those beside it: only one with a slot may hold heavy ranks.
typedef struct {
    u32 n_ranks;       // of the block itself
    u32 is_end;        // whether it is the last block
    u32 then_heavy;    // whether the next one begins with a heavy rank
    u32 begins_alone;  // whether it begins with a heavy rank itself, behind a block that has no slot
} neighbours_t;

DEVICE neighbours_t neighbours_of(feature_t own, GLOBAL const block_t *block, u32 number, GLOBAL const i64 *weights,
                                  i64 bar) {
    const u32 size = 1u << own.shift, begin = number << own.shift, rest = own.n_ranks - begin;
    neighbours_t found;
    found.n_ranks = rest < size ? rest : size;
    found.is_end = found.n_ranks == rest ? 1u : 0u;
    const u32 next_slot = found.is_end ? NO_SLOT : block[1].slot;
    found.then_heavy = next_slot != NO_SLOT && weights[(u64)next_slot << own.shift] > bar ? 1u : 0u;
    const u32 is_behind_none = number > 0 && block[-1].slot == NO_SLOT;
    found.begins_alone = is_behind_none && weights[(u64)block->slot << own.shift] > bar ? 1u : 0u;
    return found;
}

KERNEL(THREADS) void find_heavy_kernel(GLOBAL const feature_t *RESTRICT features, u32 n_numeric, u32 most_slots,
                                       GLOBAL const state_t *RESTRICT states, GLOBAL const u32 *RESTRICT block_of,
                                       GLOBAL const i64 *RESTRICT weights, GLOBAL block_t *RESTRICT blocks) {
    LOCAL i64 sums[THREADS];
    for (u32 item = GROUP_ID; item < n_numeric * most_slots; item += GROUP_COUNT) {
        const u32 feature = item / most_slots, slot = item % most_slots;
        if (slot >= states[feature].n_slots) continue;
        const feature_t own = features[feature];
        const i64 bar = states[feature].bar;
        GLOBAL block_t *block = blocks + (u64)feature * N_BINS + block_of[item];
        GLOBAL const i64 *all = weights + own.weights, *mine = all + ((u64)slot << own.shift);
        const neighbours_t beside = neighbours_of(own, block, block_of[item], all, bar);
        i64 heavy = 0, n_beside = LOCAL_ID == 0 && beside.begins_alone ? 1 : 0;
        for (u32 i = LOCAL_ID; i < beside.n_ranks; i += THREADS) {
            const u32 is_heavy = mine[i] > bar ? 1u : 0u, is_last = i + 1 == beside.n_ranks;
            heavy += is_heavy ? mine[i] : 0;
            if (is_last && beside.is_end) continue;  // there is no next one
            n_beside += is_heavy || (is_last ? beside.then_heavy : mine[i + 1] > bar) ? 1 : 0;
        }
        SUM_ALL(sums, heavy, heavy);
        SUM_ALL(sums, n_beside, n_beside);
        if (LOCAL_ID == 0) {
            block->heavy = heavy;
            block->n_beside = (u32)n_beside;
        }
    }
}

DEVICE i64 share_of(i64 below, i64 step, i64 n_light) {
    const i64 share = below / step;
    return share < n_light - 1 ? share : n_light - 1;
}

KERNEL(THREADS) void choose_kernel(GLOBAL const feature_t *RESTRICT features, u32 n_numeric, u32 most_slots,
                                   GLOBAL state_t *RESTRICT states, GLOBAL block_t *RESTRICT blocks,
                                   GLOBAL u32 *RESTRICT block_of) {
    LOCAL i64 sums[THREADS];
    LOCAL u32 counts[THREADS];
    for (u32 feature = GROUP_ID; feature < n_numeric; feature += GROUP_COUNT) {
        const feature_t own = features[feature];
        if (IS_FINE(own)) continue;
        GLOBAL block_t *mine = blocks + (u64)feature * N_BINS;
        GLOBAL state_t *state = states + feature;
        const u32 n_blocks = N_BLOCKS(own), n_suspects = state->n_slots;
        i64 n_beside = 0, all_light = 0;
        for (u32 i = LOCAL_ID; i < n_blocks; i += THREADS) {
            n_beside += mine[i].n_beside;
            all_light += mine[i].weight - mine[i].heavy;
        }
        SUM_ALL(sums, n_beside, n_beside);
        SUM_ALL(sums, all_light, all_light);
        const i64 n_light = (i64)own.n_bins - n_beside;
        i64 step = (all_light + n_light - 1) / n_light;
        step = step > 1 ? step : 1;
        i64 so_far = 0;
        u32 n_slots = n_suspects;
        for (u32 first = 0; first < n_blocks; first += THREADS) {
            const u32 i = first + LOCAL_ID;
            i64 light[1] = {i < n_blocks ? mine[i].weight - mine[i].heavy : 0}, upto[1], all[1];
            SCAN_LANES(sums, 1, 1, light, upto, all);
            const i64 past = so_far + upto[0], below = past - light[0];
            so_far += all[0];
            u32 is_new = 0, before, n_new;
            if (i < n_blocks) {
                mine[i].below = below;
                is_new = mine[i].slot == NO_SLOT && share_of(below, step, n_light) != share_of(past, step, n_light);
            }
            BARRIER;
            SCAN(counts, is_new, before, n_new);
            if (is_new) {
                mine[i].slot = n_slots + before;
                block_of[(u64)feature * most_slots + n_slots + before] = i;
            }
            n_slots += n_new;
        }
        BARRIER;
        if (LOCAL_ID == 0) {
            state->step = step;
            state->n_light = n_light;
            state->first_new = n_suspects;
            state->n_slots = n_slots;
        }
        BARRIER;
    }
}

// A bin ends with a rank where it or the next one is heavy, or where the share changes.
KERNEL(THREADS) void find_ends_kernel(GLOBAL const feature_t *RESTRICT features, u32 n_numeric, u32 most_slots,
                                      GLOBAL state_t *RESTRICT states, GLOBAL const block_t *RESTRICT blocks,
                                      GLOBAL const u32 *RESTRICT block_of, GLOBAL const i64 *RESTRICT weights,
                                      GLOBAL u32 *RESTRICT ends) {
    LOCAL i64 sums[THREADS];
    for (u32 item = GROUP_ID; item < n_numeric * most_slots; item += GROUP_COUNT) {
        const u32 feature = item / most_slots, slot = item % most_slots;
        GLOBAL state_t *state = states + feature;
        if (slot >= state->n_slots) continue;
        const feature_t own = features[feature];
        const i64 bar = state->bar, step = state->step, n_light = state->n_light;
        GLOBAL const block_t *block = blocks + (u64)feature * N_BINS + block_of[item];
        GLOBAL const i64 *all = weights + own.weights, *mine = all + ((u64)slot << own.shift);
        GLOBAL u32 *out = ends + own.bins;
        const u32 begin = block_of[item] << own.shift;
        const neighbours_t beside = neighbours_of(own, block, block_of[item], all, bar);
        const u32 n_here = beside.n_ranks;
        if (LOCAL_ID == 0 && beside.begins_alone) out[ADD_GLOBAL32(&state->n_ends, 1)] = begin - 1;
        i64 so_far = block->below;
        for (u32 tile = 0; tile < n_here; tile += TILE) {
            const u32 from = tile + LOCAL_ID * EACH, to = n_here < from + EACH ? n_here : from + EACH;
            i64 light[1] = {0}, upto[1], total[1];
            for (u32 i = from; i < to; i++) light[0] += mine[i] > bar ? 0 : mine[i];
            SCAN_LANES(sums, 1, 1, light, upto, total);
            i64 below = so_far + upto[0] - light[0];
            so_far += total[0];
            i64 share = share_of(below, step, n_light);
            for (u32 i = from; i < to; i++) {
                const u32 is_heavy = mine[i] > bar ? 1u : 0u;
                const u32 next_heavy = i + 1 < n_here ? (mine[i + 1] > bar ? 1u : 0u) : beside.then_heavy;
                below += is_heavy ? 0 : mine[i];
                const u32 passes = below >= (share + 1) * step && share < n_light - 1 ? 1u : 0u;
                if (passes) share = share_of(below, step, n_light);
                if (begin + i + 1 < own.n_ranks && (is_heavy || next_heavy || passes)) {
                    out[ADD_GLOBAL32(&state->n_ends, 1)] = begin + i;
                }
            }
            BARRIER;
        }
    }
}

KERNEL(THREADS) void order_ends_kernel(GLOBAL const feature_t *RESTRICT features, u32 n_numeric,
                                       GLOBAL const state_t *RESTRICT states, GLOBAL const u32 *RESTRICT listed_ends,
                                       GLOBAL i32 *RESTRICT last_rank, GLOBAL u16 *RESTRICT guesses) {
    for (u32 feature = GROUP_ID; feature < n_numeric; feature += GROUP_COUNT) {
        const feature_t own = features[feature];
        GLOBAL i32 *ends = last_rank + own.bins;
        GLOBAL const u32 *found = listed_ends + own.bins;
        const u32 n_ends = IS_FINE(own) ? own.n_ranks - 1 : states[feature].n_ends;
        for (u32 i = LOCAL_ID; i < own.n_bins; i += THREADS) {
            if (i >= n_ends) {
                ends[i] = (i32)own.n_ranks - 1;
            } else if (IS_FINE(own)) {
                ends[i] = (i32)i;
            } else {
                u32 place = 0;
                for (u32 j = 0; j < n_ends; j++) place += found[j] < found[i] ? 1u : 0u;
                ends[place] = (i32)found[i];
            }
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < GUESSES; i += THREADS) {
            const i64 rank = (i64)i << own.guess_shift;
            u32 low = 0, high = n_ends;
            while (low < high) {
                const u32 middle = (low + high) / 2;
                if (ends[middle] < rank)
                    low = middle + 1;
                else
                    high = middle;
            }
            guesses[(u64)feature * GUESSES + i] = (u16)low;
        }
        BARRIER;
    }
}

// Where the last ranks of the bins of a word's features are looked up.
#if BIN_BITS <= 8
#define ENDS_OF(j, bin) kept[(j) * (1 << BIN_BITS) + (bin)]
#else
#define ENDS_OF(j, bin) last_rank[features[first + (j)].bins + (bin)]
#endif

#define AT_ONCE (WORDS * PER_WORD)

// A group takes a part of a chunk of rows; categorical features have their ranks for bins. Columns
// of 4 bits are left.
KERNEL(THREADS) void write_kernel(GLOBAL const u32 *RESTRICT ranks, u32 bits, u32 words, u32 n_rows, u32 n_numeric,
                                  u32 chunk, u32 n_used, GLOBAL const u32 *RESTRICT parts, u32 n_parts,
                                  GLOBAL const feature_t *RESTRICT features, GLOBAL const i32 *RESTRICT last_rank,
                                  GLOBAL const u16 *RESTRICT guesses, GLOBAL u32 *RESTRICT tiles, u32 has_columns,
                                  GLOBAL bin_t *RESTRICT columns) {
    LOCAL u16 guessed[AT_ONCE * GUESSES];
    LOCAL feature_t own[AT_ONCE];
#if BIN_BITS <= 8
    LOCAL i32 kept[AT_ONCE << BIN_BITS];
#endif
    const u32 n_chunks = (n_rows + chunk - 1) / chunk;
    for (u32 item = GROUP_ID; item < n_chunks * n_parts; item += GROUP_COUNT) {
        const u32 first = parts[item % n_parts] * AT_ONCE, from = item / n_parts * chunk;
        const u32 to = n_rows - from < chunk ? n_rows : from + chunk;
        BARRIER;
        for (u32 j = 0; j < AT_ONCE && first + j < n_numeric; j++) {
            const feature_t mine = features[first + j];
            if (LOCAL_ID == 0) own[j] = mine;
            for (u32 i = LOCAL_ID; i < GUESSES; i += THREADS) {
                guessed[j * GUESSES + i] = guesses[(u64)(first + j) * GUESSES + i];
            }
#if BIN_BITS <= 8
            for (u32 i = LOCAL_ID; i < mine.n_bins; i += THREADS) kept[(j << BIN_BITS) + i] = last_rank[mine.bins + i];
#endif
        }
        BARRIER;
        UNROLL_SOME for (u32 row = from + LOCAL_ID; row < to; row += THREADS) {
            u32 word[WORDS] = {0};
            UNROLL for (u32 j = 0; j < AT_ONCE; j++) {
                if (first + j >= n_used) continue;
                const u32 rank = rank_of(ranks, bits, words, n_rows, first + j, row);
                u32 bin = rank;
                if (first + j < n_numeric) {
                    bin = own[j].n_bins;
                    if (rank < own[j].n_ranks) {
                        bin = guessed[j * GUESSES + (rank >> own[j].guess_shift)];
                        while ((u32)ENDS_OF(j, bin) < rank) bin++;
                    }
                }
                word[j / PER_WORD] |= bin << (j % PER_WORD * BIN_BITS);
#if BIN_BITS >= 8
                if (has_columns) columns[(u64)(first + j) * n_rows + row] = (bin_t)bin;
#endif
            }
            UNROLL for (u32 k = 0; k < WORDS; k++) tiles[TILE_PLACE(n_rows, first, row) + k] = word[k];
        }
    }
}

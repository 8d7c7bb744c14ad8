// Ranks joined to bins before every tree: twin of data/quantiles.py.
//
//     weigh   adds the hessians of the tree's rows up by rank
//     join    finds the bin of every rank; a group takes a feature
//     write   writes the tiles that histograms read
//
//     ranks        u32                            tiles of the ranks, whose layout is given at launch: see bins.h
//     records      record_t (n_rows,)             of the root
//     rows         u32 (n_rows,)                  rows of the records; not `listed`: as they lie
//     first_rank   u64 (n_numeric + 1,)           where the ranks of each feature are in weight and bin_of; the missing
//                                                 one last
//     weight       i64 (ranks of all,)            zeros at first
//     bin_of       u16 (ranks of all,)
//     first_bin    u64 (n_numeric + 1,)           where its bins are in last_rank, the missing one last
//     last_rank    i32 (bins of all,)             last rank of each bin
#if WIDE
typedef u64 record_t;
#define HESSIAN(record) ((u64)(record) >> 32)
#else
typedef u32 record_t;
#define HESSIAN(record) ((u64)((record) >> 16))
#endif

DEVICE u32 rank_of(GLOBAL const u32 *ranks, u32 bits, u32 words, u32 n_rows, u32 feature, u32 row) {
    const u32 per_word = 32 / bits, lanes = words * per_word;
    const u32 word = ranks[((u64)(feature / lanes) * n_rows + row) * words + feature % lanes / per_word];
    return bits == 32 ? word : word >> (feature % per_word * bits) & ((1u << bits) - 1u);
}

KERNEL(THREADS) void weigh_kernel(GLOBAL const u32 *RESTRICT ranks, u32 bits, u32 words, u32 n_rows, u32 n_numeric,
                                  GLOBAL const record_t *RESTRICT records, GLOBAL const u32 *RESTRICT rows, u32 listed,
                                  u32 n_records, GLOBAL const u64 *RESTRICT first_rank, GLOBAL i64 *RESTRICT weight) {
    const u64 n_items = (u64)n_records * n_numeric;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_items; i += (u64)GROUP_COUNT * THREADS) {
        const u32 place = (u32)(i / n_numeric), feature = (u32)(i % n_numeric), row = listed ? rows[place] : place;
        const u64 to = first_rank[feature] + rank_of(ranks, bits, words, n_rows, feature, row);
        ADD_GLOBAL64(&weight[to], HESSIAN(records[place]));
    }
}

#define TILE (THREADS * EACH)

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

KERNEL(THREADS) void join_kernel(GLOBAL const i64 *RESTRICT weight, u32 n_numeric,
                                 GLOBAL const u64 *RESTRICT first_rank, GLOBAL const u64 *RESTRICT first_bin,
                                 GLOBAL u16 *RESTRICT bin_of, GLOBAL i32 *RESTRICT last_rank) {
    LOCAL i64 sums[THREADS];
    LOCAL u32 counts[THREADS];
    for (u32 feature = GROUP_ID; feature < n_numeric; feature += GROUP_COUNT) {
        GLOBAL const i64 *own = weight + first_rank[feature];
        GLOBAL u16 *bins = bin_of + first_rank[feature];
        GLOBAL i32 *ends = last_rank + first_bin[feature];
        const u32 n_ranks = (u32)(first_rank[feature + 1] - first_rank[feature]) - 1u;
        const u32 n_bins = (u32)(first_bin[feature + 1] - first_bin[feature]) - 1u;
        const u32 is_fine = n_ranks <= n_bins;
        for (u32 i = LOCAL_ID; i < n_bins; i += THREADS) ends[i] = is_fine && i < n_ranks ? i : (i32)n_ranks - 1;
        if (LOCAL_ID == 0) bins[n_ranks] = (u16)n_bins;
        if (is_fine) {
            for (u32 i = LOCAL_ID; i < n_ranks; i += THREADS) bins[i] = (u16)i;
            continue;
        }
        i64 total = 0, n_heavy = 0, light = 0;
        for (u32 i = LOCAL_ID; i < n_ranks; i += THREADS) total += own[i];
        SUM_ALL(sums, total, total);
        const i64 bar = 2 * total / (i64)n_bins;
        for (u32 i = LOCAL_ID; i < n_ranks; i += THREADS) {
            n_heavy += own[i] > bar ? 1 : 0;
            light += own[i] > bar ? 0 : own[i];
        }
        SUM_ALL(sums, n_heavy, n_heavy);
        SUM_ALL(sums, light, light);
        const i64 n_light = (i64)n_bins - 2 * n_heavy;
        i64 step = (light + n_light - 1) / n_light;
        step = step > 1 ? step : 1;
        i64 below = 0;   // light weight of the tiles before
        u32 number = 0;  // bins that end before this tile
        for (u32 tile = 0; tile < n_ranks; tile += TILE) {
            const u32 from = tile + LOCAL_ID * EACH;
            i64 mine[1] = {0}, upto[1], in_tile[1];
            for (u32 j = 0; j < EACH && from + j < n_ranks; j++) mine[0] += own[from + j] > bar ? 0 : own[from + j];
            SCAN_LANES(sums, 1, 1, mine, upto, in_tile);
            i64 before = below + upto[0] - mine[0];  // light weight below the rank at hand
            below += in_tile[0];
            i64 last_light = 0, last_share = 0;
            u32 was_heavy = 0, begins = 0, n_begins = 0;
            if (from > 0 && from < n_ranks) {
                was_heavy = own[from - 1] > bar ? 1u : 0u;
                last_light = was_heavy ? 0 : own[from - 1];
            }
            last_share = (before - last_light) / step;
            last_share = last_share < n_light - 1 ? last_share : n_light - 1;
            for (u32 j = 0; j < EACH && from + j < n_ranks; j++) {
                const u32 is_heavy = own[from + j] > bar ? 1u : 0u;
                i64 share = before / step;
                share = share < n_light - 1 ? share : n_light - 1;
                const u32 here = from + j > 0 && (is_heavy || was_heavy || share != last_share) ? 1u : 0u;
                begins |= here << j;
                n_begins += here;
                before += is_heavy ? 0 : own[from + j];
                was_heavy = is_heavy;
                last_share = share;
            }
            u32 earlier, all;
            BARRIER;
            SCAN(counts, n_begins, earlier, all);
            u32 bin = number + earlier;
            number += all;
            for (u32 j = 0; j < EACH && from + j < n_ranks; j++) {
                if (begins >> j & 1u) ends[bin++] = (i32)(from + j) - 1;
                bins[from + j] = (u16)bin;
            }
            BARRIER;
        }
    }
}

// One thread a word of a tile, as in layout.cl; categorical features have their ranks for bins.
KERNEL(THREADS) void write_kernel(GLOBAL const u32 *RESTRICT ranks, u32 bits, u32 words, u32 n_rows, u32 n_numeric,
                                  u32 n_used, u32 n_tiles, GLOBAL const u64 *RESTRICT first_rank,
                                  GLOBAL const u16 *RESTRICT bin_of, GLOBAL u32 *RESTRICT tiles) {
    const u32 words_of_row = n_tiles * TILE_WORDS;
    const u64 n_words = (u64)n_rows * words_of_row;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_words; i += (u64)GROUP_COUNT * THREADS) {
        const u32 word_of_row = (u32)(i % words_of_row), row = (u32)(i / words_of_row);
        u32 word = 0;
        for (u32 j = 0; j < PER_WORD; j++) {
            const u32 feature = word_of_row * PER_WORD + j;
            if (feature >= n_used) continue;
            const u32 rank = rank_of(ranks, bits, words, n_rows, feature, row);
            word |= (feature < n_numeric ? (u32)bin_of[first_rank[feature] + rank] : rank) << (BIN_BITS * j);
        }
        tiles[TILE_PLACE(n_rows, word_of_row * PER_WORD, row)] = word;
    }
}

// Ranks and rows of some features, to be sorted (sort.cl).
//
//     feature_of   u32 (n_features,)      in    of which n_here are taken, from `first` on
//     keys         u32 (n_here, n_rows)   out   ranks
//     payload      u32 (n_here, n_rows)   out   rows
KERNEL(THREADS) void keys_kernel(GLOBAL const u32 *RESTRICT ranks, u32 bits, u32 words, u32 n_rows,
                                 GLOBAL const u32 *RESTRICT feature_of, u32 first, u32 n_here,
                                 GLOBAL u32 *RESTRICT keys, GLOBAL u32 *RESTRICT payload) {
    const u64 n = (u64)n_here * n_rows;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const u32 row = (u32)(i % n_rows);
        keys[i] = rank_of(ranks, bits, words, n_rows, feature_of[first + i / n_rows], row);
        payload[i] = row;
    }
}

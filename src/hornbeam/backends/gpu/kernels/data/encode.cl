// Raw values on the device become bins, laid out in tiles as the histogram kernel reads them.
//
//   values     raw_t, row i and feature j at [i * row_stride + j * column_stride]     in
//   tiles      u32 (n_tiles, n_rows, TILE_WORDS)     32 bytes of a row together, see layout.cl
//
// The bounds of a used feature are a table of 2^steps values, padded with +inf, as keys (order.h). They have the type
// of the values: a float64 bound that is rounded down to float32 separates the same float32 values
// (backends/cpu/binning/).
typedef struct {
    u64 start;    // of its table in `bounds`
    u32 feature;  // column of the values
    u32 steps;    // its table has 2^steps bounds
    u32 missing;  // code of NaN
    u32 padding;
} coding_t;

// One thread a word of a tile: 8 features of 4 bits, 4 of 8, or 2 of 16. A code is the number of bounds below the
// value, found by halving. Features beyond the last are bin 0.
//
//     codings        coding_t (n_used,)    in
//     bounds         raw_t                 in    keys
//     first          row of the tiles where the values begin
//     has_missing    u32 (n_used,)         in, out   set to 1 where NaN is seen: every thread would write the same
KERNEL(THREADS) void encode_kernel(GLOBAL const raw_t *RESTRICT values, i64 row_stride, i64 column_stride, u64 n_values,
                                   GLOBAL const coding_t *RESTRICT codings, u32 n_used, u32 n_tiles,
                                   GLOBAL const raw_t *RESTRICT bounds, u64 first, u64 n_rows,
                                   GLOBAL u32 *RESTRICT tiles, GLOBAL u32 *has_missing) {
    const u32 words = n_tiles * TILE_WORDS;
    const u64 n_words = n_values * words;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_words; i += (u64)GROUP_COUNT * THREADS) {
        const u32 word_of_row = (u32)(i % words);
        const u64 row = i / words;
        u32 word = 0;
        for (u32 j = 0; j < PER_WORD; j++) {
            const u32 used = word_of_row * PER_WORD + j;
            if (used >= n_used) break;
            const coding_t coding = codings[used];
            const raw_t value = values[(i64)row * row_stride + (i64)coding.feature * column_stride];
            const raw_t key = KEY_OF_BITS(value, RAW_SIGN);
            GLOBAL const raw_t *table = bounds + coding.start;
            u32 code = 0;
            for (u32 jump = 1u << coding.steps >> 1; jump != 0; jump >>= 1) {
                if (table[code + jump - 1] < key) code += jump;
            }
            if (IS_NAN(value)) {
                code = coding.missing;
                if (has_missing[used] == 0) has_missing[used] = 1;
            }
            word |= code << (BIN_BITS * j);
        }
        tiles[TILE_PLACE(n_rows, word_of_row * PER_WORD, first + row)] = word;
    }
}

// Looks at a few columns of the values: which have missing values, and which have others.
//
//     features          u32 (n_features,)    in
//     missing, present  u32 (n_features,)    in, out   set to 1
KERNEL(THREADS) void look_kernel(GLOBAL const raw_t *RESTRICT values, i64 row_stride, i64 column_stride, u64 n_values,
                                 GLOBAL const u32 *RESTRICT features, u32 n_features, GLOBAL u32 *missing,
                                 GLOBAL u32 *present) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_values * n_features; i += (u64)GROUP_COUNT * THREADS) {
        const u32 j = (u32)(i % n_features);
        const raw_t value = values[(i64)(i / n_features) * row_stride + (i64)features[j] * column_stride];
        GLOBAL u32 *seen = IS_NAN(value) ? missing : present;
        if (seen[j] == 0) seen[j] = 1;
    }
}

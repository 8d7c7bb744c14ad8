// From the row-major bins of a data set to the two layouts that the kernels read.
//
//   rows      bin_t (n_block, stride)                 a block of rows as the host has them
//   tiles     u32   (n_tiles, n_rows, TILE_WORDS)     32 bytes of a row together: histograms
//   columns   bin_t (n_used, n_rows)                  all rows of a feature together: partition
//
//     rows                     tiles                                  columns
//     | f0 f1 .. f31 f32 .. |  tile 0 | row 0: f0 .. f31 | row 1 ..   | f0 of all rows | f1 of all rows | ..
//     | f0 f1 .. f31 f32 .. |  tile 1 | row 0: f32 ..    | row 1 ..
//
// Bins of 4 bits lie two in a byte: a tile has 64 features of a row (or 32, in 16 bytes), and a column's byte two rows.

// One thread a word of a tile; features beyond the last are bin 0.
KERNEL(THREADS) void tile_kernel(GLOBAL const bin_t *RESTRICT rows, u32 stride, u32 n_used, u32 n_tiles, u32 first,
                                 u32 n_block, u32 n_rows, GLOBAL u32 *RESTRICT tiles) {
    const u32 words = n_tiles * TILE_WORDS;
    const u64 n_words = (u64)n_block * words;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_words; i += (u64)GROUP_COUNT * THREADS) {
        const u32 word_of_row = (u32)(i % words);
        const u64 row = i / words;
        u32 word = 0;
        for (u32 j = 0; j < PER_WORD; j++) {
            const u32 feature = word_of_row * PER_WORD + j;
            if (feature < n_used) word |= (u32)rows[row * stride + feature] << (BIN_BITS * j);
        }
        tiles[TILE_PLACE(n_rows, word_of_row * PER_WORD, first + row)] = word;
    }
}

// Makes the columns from the tiles. One thread a word of a tile (4 bits: of two neighbouring rows); neighbouring
// threads take neighbouring rows, so that writing is in sequence.
#if BIN_BITS == 4
#define ROWS_A_BYTE 2
#else
#define ROWS_A_BYTE 1
#endif

KERNEL(THREADS) void column_kernel(GLOBAL const u32 *RESTRICT tiles, u32 n_used, u32 n_rows,
                                   GLOBAL bin_t *RESTRICT columns) {
    const u64 n_bytes = ((u64)n_rows + ROWS_A_BYTE - 1) / ROWS_A_BYTE, n_words = (n_used + PER_WORD - 1) / PER_WORD;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_bytes * n_words; i += (u64)GROUP_COUNT * THREADS) {
        const u64 row = i % n_bytes * ROWS_A_BYTE;
        const u32 feature = (u32)(i / n_bytes) * PER_WORD;
        const u64 place = TILE_PLACE(n_rows, feature, row);
        const u32 word = tiles[place];
        const u32 next = ROWS_A_BYTE == 2 && row + 1 < n_rows ? tiles[place + TILE_WORDS] : 0;
        for (u32 j = 0; j < PER_WORD && feature + j < n_used; j++) {
            u32 bin = (word >> (BIN_BITS * j)) & BIN_MASK;
            if (ROWS_A_BYTE == 2) bin |= ((next >> (BIN_BITS * j)) & BIN_MASK) << 4;
            columns[(feature + j) * n_bytes + row / ROWS_A_BYTE] = (bin_t)bin;
        }
    }
}

// From the row-major bins of a data set to the two layouts that the kernels read.
//
//   rows      bin_t (n_block, stride)               a block of rows as the host has them
//   tiles     u32   (n_tiles, n_rows, 8)            32 bytes of a row together: histograms
//   columns   bin_t (n_used, n_rows)                all rows of a feature together: partition
//
//     rows                     tiles                                  columns
//     | f0 f1 .. f31 f32 .. |  tile 0 | row 0: f0 .. f31 | row 1 ..   | f0 of all rows | f1 of all rows | ..
//     | f0 f1 .. f31 f32 .. |  tile 1 | row 0: f32 ..    | row 1 ..
#if BIN_BYTES == 1
typedef u8 bin_t;
#else
typedef u16 bin_t;
#endif
#define PER_WORD (4 / BIN_BYTES)

// One thread a word of a tile; features beyond the last are bin 0.
KERNEL(THREADS) void tile_kernel(GLOBAL const bin_t *RESTRICT rows, u32 stride, u32 n_used, u32 n_tiles, u32 first,
                                 u32 n_block, u32 n_rows, GLOBAL u32 *RESTRICT tiles) {
    const u64 n_words = (u64)n_block * n_tiles * 8;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_words; i += (u64)GROUP_COUNT * THREADS) {
        const u32 word_of_row = (u32)(i % (n_tiles * 8));
        const u64 row = i / (n_tiles * 8);
        u32 word = 0;
        for (u32 j = 0; j < PER_WORD; j++) {
            const u32 feature = word_of_row * PER_WORD + j;
            if (feature < n_used) word |= (u32)rows[row * stride + feature] << (8 * BIN_BYTES * j);
        }
        tiles[((u64)(word_of_row / 8) * n_rows + first + row) * 8 + word_of_row % 8] = word;
    }
}

// One thread a bin; neighbouring threads take neighbouring rows, so that writing is in sequence.
KERNEL(THREADS) void column_kernel(GLOBAL const bin_t *RESTRICT rows, u32 stride, u32 n_used, u32 first, u32 n_block,
                                   u32 n_rows, GLOBAL bin_t *RESTRICT columns) {
    const u64 n_bins = (u64)n_block * n_used;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_bins; i += (u64)GROUP_COUNT * THREADS) {
        const u64 row = i % n_block, feature = i / n_block;
        columns[feature * n_rows + first + row] = rows[row * stride + feature];
    }
}

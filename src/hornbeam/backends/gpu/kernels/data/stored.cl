// Spells out stored bins (stored_bins.py): from columns of codes and entries to a bin for each column of a device,
// which is a feature or a bundle of them (gpu/data/bundles.py).
//
//   rows         bin_t (n, stride)           out   row by row, as layout.cl takes them
//   columns      i32 (n_columns, 4)          in    column of codes, -1: entries; first code, 0: the codes are taken as
//                                                  they are; codes; what stands where nothing is stored
//   codes        code_t (n_block, n_codes)   in    of the block
//   entries      u32                         in    of the block: places in a histogram
//   bounds       i64 (n_block + 1,)          in    entries before each row
//   places       u32 (n_places, 2)           in    column and bin of a place in a histogram
#if VALUE_BYTES == 2
typedef u16 code_t;
#else
typedef u8 code_t;
#endif

// One thread a bin: those of columns and bundles, and the default ones.
KERNEL(THREADS) void spell_codes_kernel(GLOBAL const code_t *RESTRICT codes, u32 n_codes,
                                        GLOBAL const i32 *RESTRICT columns, u32 n_columns, u32 n_block, u32 stride,
                                        GLOBAL bin_t *RESTRICT rows) {
    const u64 n_bins = (u64)n_block * n_columns;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_bins; i += (u64)GROUP_COUNT * THREADS) {
        const u64 row = i / n_columns;
        const u32 column = (u32)(i % n_columns);
        GLOBAL const i32 *own = columns + column * 4;
        i32 bin = own[3];
        if (own[0] >= 0) {
            const i32 code = codes[row * n_codes + own[0]], place = code - own[1];
            if (own[1] == 0)
                bin = code;
            else if (place >= 0 && place < own[2])
                bin = place + (place >= bin);
        }
        rows[row * stride + column] = (bin_t)bin;
    }
}

// One thread a row: its entries, in place of default bins.
KERNEL(THREADS) void spell_entries_kernel(GLOBAL const u32 *RESTRICT entries, GLOBAL const i64 *RESTRICT bounds,
                                          GLOBAL const u32 *RESTRICT places, u32 n_block, u32 stride,
                                          GLOBAL bin_t *RESTRICT rows) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_block; row += (u64)GROUP_COUNT * THREADS) {
        for (i64 i = bounds[row] - bounds[0]; i < bounds[row + 1] - bounds[0]; i++) {
            GLOBAL const u32 *own = places + (u64)entries[i] * 2;
            rows[row * stride + own[0]] = (bin_t)own[1];
        }
    }
}

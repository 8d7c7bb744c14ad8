// A histogram as the threads of a group look at it: of a piece of a tile (LANES features), each thread has a run of
// RUN bins of one feature, in registers. Features of more bins than all runs together are looked at in blocks.
#define TILE_LANES (TILE_WORDS * 32 / BIN_BITS)
#define LANES      4
#define PIECES     (TILE_LANES / LANES)
#define PARTS      (THREADS / LANES)
#define BLOCK      (PARTS * RUN)
#define N_BLOCKS   ((N_BINS + BLOCK - 1) / BLOCK)
#define PLANE      (N_BINS * TILE_LANES)

// Sum i of the run that begins at the bin `from`: its bins of the first statistic, then of the next.
#define AT(histogram, i) \
    (from + (i) % RUN < N_BINS ? (histogram)[(i) / RUN * PLANE + (from + (i) % RUN) * TILE_LANES] : 0)

// Read a run; where the histogram is still that of the parent, subtract the sibling's and write what is left.
//
//     kept   i64 (STATS * RUN,)   out
#define READ_RUN(kept, histogram, minus, subtracts)                                                   \
    do {                                                                                              \
        UNROLL for (u32 i = 0; i < STATS * RUN; i++) kept[i] = AT(histogram, i);                      \
        if (subtracts) {                                                                              \
            i64 other[STATS * RUN]; /* all loads before the first use: they are under way together */ \
            UNROLL for (u32 i = 0; i < STATS * RUN; i++) other[i] = AT(minus, i);                     \
            UNROLL for (u32 i = 0; i < STATS * RUN; i++) {                                            \
                kept[i] -= other[i];                                                                  \
                const u32 bin = from + i % RUN;                                                       \
                if (bin < N_BINS) histogram[i / RUN * PLANE + bin * TILE_LANES] = kept[i];            \
            }                                                                                         \
        }                                                                                             \
    } while (0)

// Add a run up.
//
//     run    i64 (STATS,)         out
#define ADD_RUN_UP(kept, run)                                                   \
    UNROLL for (u32 stat = 0; stat < STATS; stat++) {                           \
        run[stat] = 0;                                                          \
        UNROLL for (u32 k = 0; k < RUN; k++) run[stat] += kept[stat * RUN + k]; \
    }

// How bins lie in device memory; layout.py chooses, kernels/data/layout.cl draws it.
//
//     BIN_BITS     of a bin: 4, 8 or 16; 32 for ranks, which rows are only routed by
//     TILE_WORDS   32-bit words of a row in a tile: 8, or 4, 3, 2 or 1 where they hold all columns
//     BUNDLED      whether columns are bundles of features (gpu/data/bundles.py), and their bins codes
//     COLUMNS      whether one feature of many rows is read from `columns`, else from `tiles`
#define PER_WORD   (32 / BIN_BITS)
#define BIN_MASK   (0xFFFFFFFFu >> (32 - BIN_BITS))
#define TILE_LANES (TILE_WORDS * PER_WORD)

#if BIN_BITS == 32
typedef u32 bin_t;
#elif BIN_BITS == 16
typedef u16 bin_t;
#else
typedef u8 bin_t;
#endif

// The word of a tile that holds a feature of a row, and the feature's bits in it.
#define TILE_PLACE(n_rows, feature, row) \
    ((((u64)((feature) / TILE_LANES)) * (n_rows) + (row)) * TILE_WORDS + (feature) % TILE_LANES / PER_WORD)
#define TILE_SHIFT(feature) ((feature) % PER_WORD * BIN_BITS)

// One feature of all rows: `bins_t *bins` is columns or tiles, ONE_FEATURE points into it, BIN_OF reads from there.
#if !COLUMNS
typedef u32 bins_t;
#define ONE_FEATURE(bins, n_rows, feature) ((bins) + TILE_PLACE(n_rows, feature, 0))
#define BIN_OF(own, feature, row)          (((own)[(u64)(row) * TILE_WORDS] >> TILE_SHIFT(feature)) & BIN_MASK)
#elif BIN_BITS == 4
typedef u8 bins_t;  // two rows a byte
#define ONE_FEATURE(bins, n_rows, feature) ((bins) + (u64)(feature) * (((u64)(n_rows) + 1) / 2))
#define BIN_OF(own, feature, row)          ((u32)((own)[(row) / 2] >> (row) % 2 * 4) & BIN_MASK)
#else
typedef bin_t bins_t;
#define ONE_FEATURE(bins, n_rows, feature) ((bins) + (u64)(feature) * (n_rows))
#define BIN_OF(own, feature, row)          ((u32)(own)[row])
#endif

// A feature in a bundle: its codes are its bins without the default one, `standard`, for which any other code stands.
// One that is alone in its column has all its bins for codes. UNBUNDLED is the bin that a code of its column stands
// for.
typedef struct {
    u32 column, first, n_codes, standard;
} member_t;

#if BUNDLED
DEVICE u32 bin_of_code(member_t own, u32 code) {
    const u32 place = code - own.first;  // below the first: very large
    return place < own.n_codes ? place + (place >= own.standard ? 1u : 0u) : own.standard;
}
#define UNBUNDLED(member, code) bin_of_code(member, code)
#else
#define UNBUNDLED(member, code) (code)
#endif

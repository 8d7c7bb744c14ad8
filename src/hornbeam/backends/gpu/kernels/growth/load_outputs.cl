// Gradients of a tree that all outputs share: those of every output are kept by row, and before a histogram is summed
// the records of its nodes' rows get those of its output.
//
//     kept   u64 (n_outputs, n_rows)   hessian (32 bits) | gradient (32, two's complement)
//
// Records are those of quantize.cl; of the output at hand in `keep`, of the tree in `load`.
#if WIDE
typedef u64 record_t;
#define PAIR(record)  (record)
#define RECORD(kept_) (kept_)
#else
typedef u32 record_t;
#define PAIR(record)  (((u64)((record) >> 16) << 32) | (u32)(i32)(i16)((record) & 0xFFFFu))
#define RECORD(kept_) (((u32)((kept_) >> 32) << 16) | ((u32)(kept_) & 0xFFFFu))
#endif
#define TILE (THREADS * 8)

// Keeps the records of the root, one output's.
//
//     rows     u32 (n,)    in   numbers of the rows, where is_bag; else they are in order
//     offset   of the output in `kept`
KERNEL(THREADS) void keep_kernel(GLOBAL const record_t *RESTRICT records, GLOBAL const u32 *RESTRICT rows, u32 is_bag,
                                 u32 n, u64 offset, GLOBAL u64 *RESTRICT kept) {
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n; place += (u64)GROUP_COUNT * THREADS) {
        kept[offset + (is_bag ? rows[place] : place)] = PAIR(records[place]);
    }
}

// Writes the records of some nodes' rows.
//
//     count    u32 (1,)               in    n_nodes
//     table    u32 (4, n_nodes + 1)   in    first tile; begin; end; depth
//     counts   whether each row has no gradient and a hessian of 1, whatever is kept
KERNEL(THREADS) void load_kernel(GLOBAL const u32 *RESTRICT rows_even, GLOBAL const u32 *RESTRICT rows_odd,
                                 GLOBAL const u32 *RESTRICT table, GLOBAL const u32 *RESTRICT count,
                                 GLOBAL const u64 *RESTRICT kept, u64 offset, u32 counts,
                                 GLOBAL record_t *RESTRICT records_even, GLOBAL record_t *RESTRICT records_odd) {
    const u32 n_nodes = count[0];
    if (n_nodes == 0) return;
    GLOBAL const u32 *first_tile = table, *begin = table + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL const u32 *depth = end + (n_nodes + 1);
    const u32 n_tiles = first_tile[n_nodes];
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile), is_odd = depth[node] % 2;
        const u32 from = begin[node] + (tile - first_tile[node]) * TILE;
        const u32 n_here = end[node] - from < TILE ? end[node] - from : TILE;
        GLOBAL const u32 *rows = is_odd ? rows_odd : rows_even;
        GLOBAL record_t *records = is_odd ? records_odd : records_even;
        UNROLL_SOME for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u32 row = depth[node] == 0 ? from + i : rows[from + i];
            const u64 pair = counts ? (u64)1 << 32 : kept[offset + row];
            records[from + i] = RECORD(pair);
        }
    }
}

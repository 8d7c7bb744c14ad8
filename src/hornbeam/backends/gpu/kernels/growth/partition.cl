// Moving rows to their children's places.
//
// The rows of a node are a segment; nodes of even depth keep it in one buffer, of odd depth in the other. Sums are
// integers, so the order of rows inside a node does not matter, and one pass suffices: a group takes a tile of rows,
// sorts it into left and right in local memory, reserves room on both sides of the segment with one atomic each, and
// writes two runs.
//
//     depth d       [ . . . . tile . . . . )          one atomic counter a side and node
//                          |      |
//     depth d + 1   [ left -->          <-- right )
//
// Bins in host memory are read over the bus, many times as fast where the rows of a node ascend: neighbours share
// pages. There (IN_ORDER) three kernels keep the order: rows are marked, what lies left of each tile is counted, and
// then every row has a place of its own.
//
//     depth d       [ L R R L | R L L L | R R L R )      marks; lefts by tile 2 3 1, then before each 0 2 5
//     depth d + 1   [ L L   L L L   L | R R   R   R R R )
//
//     count      u32 (1,)                 in        n_nodes
//     batch      expansion_t (n_nodes,)   in        the nodes and their splits
//                u32 (n_nodes + 1,)       in        behind it: first tile of each node
//                u32 (n_nodes, 2)         in, out   behind that: rows placed so far, left and right; zeros at first
//     features   u32 (n_used,)            in        value bins * 2 + has missing
//     bins       columns or tiles         in        see bins.h
//     members    member_t (n_used,)       in        BUNDLED: see bins.h
//     sets       u32 (n_sets, n_words)    in        CATEGORICAL: bits of the bins that go left. The bin of a split of
//                                                   a feature from n_numeric on is the number of its set
//     marks      u8 (n_rows,)             out, in   IN_ORDER: by place in the row list, 1: goes left
//     lefts      u32 (n_tiles,)           out, in   IN_ORDER: rows that go left, of each tile, then of those before it
#if WIDE
typedef u64 record_t;
#else
typedef u32 record_t;
#endif
#define TILE                        (THREADS * EACH)
#define FIRST_TILE(batch, n_nodes)  ((GLOBAL const u32 *)((batch) + (n_nodes)))
#define ROWS_PLACED(batch, n_nodes) ((GLOBAL u32 *)((batch) + (n_nodes)) + ((n_nodes) + 1))

#if IN_ORDER
#define FIRST_KERNEL mark_kernel
#else
#define FIRST_KERNEL partition_kernel
#endif

// Moves rows; IN_ORDER: marks and counts those that go left.
KERNEL(THREADS) void FIRST_KERNEL(GLOBAL const bins_t *RESTRICT bins, GLOBAL u32 *rows_even, GLOBAL u32 *rows_odd,
                                  GLOBAL record_t *records_even, GLOBAL record_t *records_odd,
                                  GLOBAL const u32 *RESTRICT features, GLOBAL expansion_t *batch,
                                  GLOBAL const u32 *RESTRICT count, u32 n_rows
#if CATEGORICAL
                                  ,
                                  GLOBAL const u32 *RESTRICT sets, u32 n_words, u32 n_numeric
#endif
#if BUNDLED
                                  ,
                                  GLOBAL const member_t *RESTRICT members
#endif
#if IN_ORDER
                                  ,
                                  GLOBAL u8 *RESTRICT marks, GLOBAL u32 *RESTRICT lefts
#endif
) {
    const u32 n_nodes = count[0];
    LOCAL u32 counts[THREADS];  // rows that go left (lower half) and right (upper half)
#if !IN_ORDER
    LOCAL u32 bases[2];
    LOCAL u32 sorted_rows[TILE];
    LOCAL record_t sorted_records[TILE];
    GLOBAL u32 *n_taken = ROWS_PLACED(batch, n_nodes);
#endif
    GLOBAL const u32 *first_tile = FIRST_TILE(batch, n_nodes);
    const u32 n_tiles = first_tile[n_nodes];
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile);
        const expansion_t own = batch[node];
        const u32 begin = (u32)own.begin, end = (u32)own.end, from = begin + (tile - first_tile[node]) * TILE;
        const u32 n_here = end - from < TILE ? end - from : TILE;
        const u32 is_root = own.depth == 0, is_odd = own.depth % 2;
        GLOBAL const u32 *rows = is_odd ? rows_odd : rows_even;
#if !IN_ORDER
        GLOBAL const record_t *records = is_odd ? records_odd : records_even;
        GLOBAL u32 *rows_out = is_odd ? rows_even : rows_odd;
        GLOBAL record_t *records_out = is_odd ? records_even : records_odd;
#endif
#if BUNDLED
        const member_t member = members[own.feature];
        const u32 feature = member.column;
#else
        const u32 feature = (u32)own.feature;
#endif
        GLOBAL const bins_t *column = ONE_FEATURE(bins, n_rows, feature);
        const u32 threshold = (u32)own.bin, missing = features[own.feature] / 2, with_missing = own.missing_left;

#if CATEGORICAL
        const u32 is_set = (u32)own.feature >= n_numeric;
#endif

        u32 row[EACH], goes_left = 0, count = 0;
#if !IN_ORDER
        record_t record[EACH];
#endif
        UNROLL for (u32 j = 0; j < EACH; j++) {
            const u32 i = j * THREADS + LOCAL_ID;
            row[j] = i < n_here ? (is_root ? from + i : rows[from + i]) : 0u;
#if !IN_ORDER
            record[j] = i < n_here ? records[from + i] : 0u;
#endif
        }
        UNROLL for (u32 j = 0; j < EACH; j++) {
            const u32 present = j * THREADS + LOCAL_ID < n_here ? 1u : 0u;
            const u32 bin = UNBUNDLED(member, BIN_OF(column, feature, row[j]));
#if CATEGORICAL
            const u32 in_set =
                is_set && bin != missing ? sets[(u64)threshold * n_words + bin / 32] >> bin % 32 & 1u : 0u;
            const u32 left = (is_set ? in_set : bin == missing ? with_missing : bin <= threshold ? 1u : 0u) & present;
#else
            const u32 left = (bin == missing ? with_missing : (bin <= threshold ? 1u : 0u)) & present;
#endif
            goes_left |= left << j;
            count += left + ((present - left) << 16);
        }
        u32 before, total;
        SCAN(counts, count, before, total);
#if IN_ORDER
        UNROLL for (u32 j = 0; j < EACH; j++) {
            const u32 i = j * THREADS + LOCAL_ID;
            if (i < n_here) marks[from + i] = (u8)(goes_left >> j & 1u);
        }
        if (LOCAL_ID == 0) lefts[tile] = total & 0xFFFFu;
#else
        const u32 total_left = total & 0xFFFFu, total_right = total >> 16;
        if (LOCAL_ID == 0) {
            bases[0] = begin + ADD_GLOBAL32(&n_taken[node * 2], total_left);
            bases[1] = end - total_right - ADD_GLOBAL32(&n_taken[node * 2 + 1], total_right);
        }
        u32 left_place = before & 0xFFFFu, right_place = total_left + (before >> 16);
        UNROLL for (u32 j = 0; j < EACH; j++) {
            if (j * THREADS + LOCAL_ID < n_here) {
                const u32 place = (goes_left >> j) & 1u ? left_place++ : right_place++;
                sorted_rows[place] = row[j];
                sorted_records[place] = record[j];
            }
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u32 place = i < total_left ? bases[0] + i : bases[1] + (i - total_left);
            rows_out[place] = sorted_rows[i];
            records_out[place] = sorted_records[i];
        }
        BARRIER;
#endif
    }
}

#if IN_ORDER
// Counts the rows that go left in the tiles before each one of its node, and in all of them.
KERNEL(THREADS) void place_kernel(GLOBAL expansion_t *batch, GLOBAL const u32 *RESTRICT count,
                                  GLOBAL u32 *RESTRICT lefts) {
    const u32 n_nodes = count[0];
    LOCAL u32 counts[THREADS];
    GLOBAL const u32 *first_tile = FIRST_TILE(batch, n_nodes);
    GLOBAL u32 *n_taken = ROWS_PLACED(batch, n_nodes);
    for (u32 node = GROUP_ID; node < n_nodes; node += GROUP_COUNT) {
        u32 n_left = 0;
        for (u32 first = first_tile[node]; first < first_tile[node + 1]; first += THREADS) {
            const u32 tile = first + LOCAL_ID, is_here = tile < first_tile[node + 1] ? 1u : 0u;
            u32 before, total;
            SCAN(counts, is_here ? lefts[tile] : 0u, before, total);
            if (is_here) lefts[tile] = n_left + before;
            n_left += total;
        }
        if (LOCAL_ID == 0) {
            n_taken[node * 2] = n_left;
            n_taken[node * 2 + 1] = (u32)(batch[node].end - batch[node].begin) - n_left;
        }
    }
}

// Moves every row to its place.
KERNEL(THREADS) void move_kernel(GLOBAL u32 *rows_even, GLOBAL u32 *rows_odd, GLOBAL record_t *records_even,
                                 GLOBAL record_t *records_odd, GLOBAL expansion_t *batch,
                                 GLOBAL const u32 *RESTRICT count, GLOBAL const u8 *RESTRICT marks,
                                 GLOBAL const u32 *RESTRICT lefts) {
    const u32 n_nodes = count[0];
    LOCAL u32 counts[THREADS];
    LOCAL u32 places[TILE];  // in the tile: 1 where a row goes left, then where it lies once it is sorted
    LOCAL u32 sorted_rows[TILE];
    LOCAL record_t sorted_records[TILE];
    GLOBAL const u32 *first_tile = FIRST_TILE(batch, n_nodes), *n_taken = ROWS_PLACED(batch, n_nodes);
    const u32 n_tiles = first_tile[n_nodes];
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 node = node_of_piece(first_tile, n_nodes, tile), tile_of_node = tile - first_tile[node];
        const expansion_t own = batch[node];
        const u32 begin = (u32)own.begin, end = (u32)own.end, from = begin + tile_of_node * TILE;
        const u32 n_here = end - from < TILE ? end - from : TILE;
        const u32 is_root = own.depth == 0, is_odd = own.depth % 2;
        GLOBAL const u32 *rows = is_odd ? rows_odd : rows_even;
        GLOBAL const record_t *records = is_odd ? records_odd : records_even;
        GLOBAL u32 *rows_out = is_odd ? rows_even : rows_odd;
        GLOBAL record_t *records_out = is_odd ? records_even : records_odd;
        for (u32 i = LOCAL_ID; i < TILE; i += THREADS) places[i] = i < n_here ? marks[from + i] : 0u;
        BARRIER;
        u32 count_left = 0, before, total_left;
        UNROLL for (u32 j = 0; j < EACH; j++) count_left += places[LOCAL_ID * EACH + j];
        SCAN(counts, count_left, before, total_left);
        u32 left_place = before, right_place = total_left + LOCAL_ID * EACH - before;
        UNROLL for (u32 j = 0; j < EACH; j++) {
            const u32 i = LOCAL_ID * EACH + j;
            places[i] = places[i] ? left_place++ : right_place++;
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            sorted_rows[places[i]] = is_root ? from + i : rows[from + i];
            sorted_records[places[i]] = records[from + i];
        }
        BARRIER;
        const u32 left = begin + lefts[tile];
        const u32 right = begin + n_taken[node * 2] + (tile_of_node * TILE - lefts[tile]) - total_left;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u32 place = (i < total_left ? left : right) + i;
            rows_out[place] = sorted_rows[i];
            records_out[place] = sorted_records[i];
        }
        BARRIER;
    }
}
#endif

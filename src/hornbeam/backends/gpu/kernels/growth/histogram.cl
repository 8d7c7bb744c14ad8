// Sums of gradients and hessians (and rows) per (node, feature, bin).
//
// Bins lie in tiles: 8 words a row, a word holds 4 features of 8 bits, 2 of 16 or 8 of 4 (see bins.h). A warp of 32
// threads takes 32 / WORDS rows at once, thread (r, w) word w of row r; at step s it adds feature (s + r) mod 4 of its
// word. With 8 words and 8-bit bins the 32 threads hold 32 different features at every step:
//
//                 w=0  w=1 .. w=7            counters, local memory      [stat][bin][lane]
//     row r=0   |  0    4  ..  28            bin 0   | f0 f1 f2 ... f31 |   lane == feature == memory bank:
//     row r=1   |  1    5  ..  29   (s=0)    bin 1   | f0 f1 f2 ... f31 |   no two threads ever meet,
//     row r=2   |  2    6  ..  30            ...                            whatever the data
//     row r=3   |  3    7  ..  31
//
// Tiles of fewer features have fewer words (layout.py), and a warp takes more rows: with 2 words 16. Where there is
// room the counters are there COPIES times, [stat][bin][copy][lane], so that again no two threads meet: rows r .. r + 3
// have copy r / 4. With 3 words a warp takes 10 rows, and its last two threads add nothing.
//
// Where local memory is too small for 8 words, a group takes 4, 2 or 1 of them, and several groups read the same rows;
// where it is too small for one word (WORDS == 0), every row is added to the 64-bit sums in global memory at once.
//
// Local counters have 32 bits; at most MOST_ROWS rows are added between two flushes.
//
// The work of a launch is a list of chunks of rows, node after node (chunks.h); each group takes an equal share of the
// list and flushes when the node changes. A node whose chunks all fall to one group is stored, not added: it needs
// neither zeros nor atomics, and on wide data, where few groups share a tile, most nodes are such. Histograms are
// [slot][tile][stat][bin][lane], i64.
//
// Where all outputs share a tree (OUTPUTS), every histogram of a node has groups of its own: histogram k of the node in
// slot s is in slot s * n_histograms + k, and gradients are fetched from where they are kept by row (load_outputs.cl).
//
//     count   u32 (1,)               n_nodes
//     table   u32 (5, n_nodes + 1)   first chunk; begin, and last the rows of a chunk; end; depth; slot
#define UNROLLED 4
#if WORDS == 0
#define WORDS_AT_ONCE TILE_WORDS
#else
#define WORDS_AT_ONCE WORDS
#endif
#define ROWS_AT_ONCE (32 / WORDS_AT_ONCE)
#define HAS_ROW(r)   (32 % WORDS_AT_ONCE == 0 || (r) < ROWS_AT_ONCE)
#define LANES        (WORDS_AT_ONCE * PER_WORD)
#define BIN_COUNTERS (LANES * COPIES)
#define PLANE        (N_BINS * BIN_COUNTERS)
#define PASSES       (TILE_WORDS / WORDS_AT_ONCE)
#define SLOT_PLANE   (N_BINS * TILE_LANES)

#if WIDE
typedef u64 record_t;
typedef u64 counter_t;
#define GRADIENT(record)        ((i64)(i32)(u32)(record))
#define HESSIAN(record)         ((record) >> 32)
#define ADD_LOCAL(place, value) ADD_LOCAL64(place, value)
#define SIGNED_SUM(counter)     ((i64)(counter))
#else
typedef u32 record_t;
typedef u32 counter_t;
#define GRADIENT(record)        ((i32)(i16)((record) & 0xFFFFu))
#define HESSIAN(record)         ((record) >> 16)
#define ADD_LOCAL(place, value) ADD_LOCAL32(place, value)
#define SIGNED_SUM(counter)     ((i64)(i32)(counter))
#endif

#if BIN_BITS == 8
#define BIN(word, s) BYTE(word, s)
#else
#define BIN(word, s) (((word) >> (BIN_BITS * (s))) & BIN_MASK)
#endif

#define TURN_RIGHT(word, bits) (((word) >> (bits)) | ((word) << ((32 - (bits)) & 31)))

// A counter by bin and by the bytes to its lane: one multiplication and addition a bin, whatever the statistic.
#define COUNTER_BYTES ((u32)sizeof(counter_t))
#if WORDS == 0
#define ADD(stat, bin, at, value) \
    ADD_GLOBAL64(&out[(stat) * SLOT_PLANE + (bin) * TILE_LANES + (at) / COUNTER_BYTES], (i64)(value))
#else
#define COUNTERS(bin, at) \
    ((TO_LOCAL counter_t *)((TO_LOCAL u8 *)counters + ((bin) * (BIN_COUNTERS * COUNTER_BYTES) + (at))))
#define ADD(stat, bin, at, value) ADD_LOCAL(COUNTERS(bin, at) + (stat) * PLANE, value)
#endif

//     kept   u64 (n_outputs, n_rows)   in   where there are OUTPUTS
#if OUTPUTS
#define OF_OUTPUTS   , GLOBAL const u64 *RESTRICT kept, u32 n_outputs, u32 n_histograms
#define OUTPUT       (GROUP_ID / groups_a_pass / (n_tiles * PASSES))
#define SLOT(number) ((u64)(number) * n_histograms + OUTPUT)
#if WIDE
#define RECORD(pair) (pair)
#else
#define RECORD(pair) (((u32)((pair) >> 32) << 16) | ((u32)(pair) & 0xFFFFu))
#endif
#define RECORD_OF(place, row) (OUTPUT == n_outputs ? RECORD((u64)1 << 32) : RECORD(kept[(u64)OUTPUT * n_rows + (row)]))
#else
#define OF_OUTPUTS
#define SLOT(number)          ((u64)(number))
#define RECORD_OF(place, row) (records[place])
#endif

KERNEL_SHARING(THREADS, RESIDENT)
void histogram_kernel(GLOBAL const u32 *RESTRICT tiles, GLOBAL const u32 *RESTRICT rows_even,
                      GLOBAL const u32 *RESTRICT rows_odd, GLOBAL const record_t *RESTRICT records_even,
                      GLOBAL const record_t *RESTRICT records_odd, GLOBAL const u32 *RESTRICT table,
                      GLOBAL const u32 *RESTRICT count, u32 groups_a_pass, u32 n_rows, u32 n_tiles,
                      GLOBAL i64 *histograms OF_OUTPUTS) {
#if WORDS != 0
    BIG_LOCAL(counter_t, counters, STATS * PLANE);
#endif
    const u32 n_nodes = count[0];
    GLOBAL const u32 *first_chunk = table, *begin = table + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL const u32 *depth = end + (n_nodes + 1), *slot = depth + (n_nodes + 1);
    const u32 pass = GROUP_ID / groups_a_pass % (n_tiles * PASSES), share = GROUP_ID % groups_a_pass;
    const u32 tile = pass / PASSES, first_word = pass % PASSES * WORDS_AT_ONCE;
    const u32 n_chunks = first_chunk[n_nodes], chunk_rows = begin[n_nodes];
    u32 chunk = SHARE(n_chunks, share, groups_a_pass);
    const u32 last = SHARE(n_chunks, share + 1, groups_a_pass);

    const u32 lane = LOCAL_ID % 32, r = lane / WORDS_AT_ONCE, w = lane % WORDS_AT_ONCE;
    const u32 warp = LOCAL_ID / 32, step = THREADS / 32 * ROWS_AT_ONCE * UNROLLED;
    GLOBAL const u32 *own = tiles + (u64)tile * n_rows * TILE_WORDS + first_word + w;
    const u32 turn = (r + w / 4 * 4) % PER_WORD;  // 4 bits: words 0 and 4 share banks, so they begin 4 features apart
    u32 at[PER_WORD];  // bytes to the counter of each step's feature; the word is turned so that its bins are in the
                       // same places for all
    UNROLL for (u32 s = 0; s < PER_WORD; s++) {
        at[s] = (r / PER_WORD % COPIES * LANES + w * PER_WORD + (s + turn) % PER_WORD) * COUNTER_BYTES;
        KEEP_IN_REGISTER(at[s]);
    }

    u32 node = node_of_piece(first_chunk, n_nodes, chunk);
#if WORDS != 0
    for (u32 i = LOCAL_ID; i < STATS * PLANE && chunk < last; i += THREADS) counters[i] = 0;
    BARRIER;
#endif
    while (chunk < last) {
        while (chunk >= first_chunk[node + 1]) node++;
        u32 stop = first_chunk[node + 1] < last ? first_chunk[node + 1] : last;
        const u32 most = MOST_ROWS / chunk_rows;
        stop = stop < chunk + most ? stop : chunk + most;
        const u32 from = begin[node] + (chunk - first_chunk[node]) * chunk_rows;
        const u32 to = end[node] - from < (stop - chunk) * chunk_rows ? end[node] : from + (stop - chunk) * chunk_rows;
        const u32 is_root = depth[node] == 0, is_odd = depth[node] % 2;
        GLOBAL const u32 *rows = is_odd ? rows_odd : rows_even;
        GLOBAL const record_t *records = is_odd ? records_odd : records_even;
        GLOBAL i64 *out = histograms + (SLOT(slot[node]) * n_tiles + tile) * (STATS * SLOT_PLANE);
        for (u32 base = from + warp * ROWS_AT_ONCE * UNROLLED; base < to; base += step) {
            u32 word[UNROLLED];
            record_t record[UNROLLED];
            UNROLL for (u32 u = 0; u < UNROLLED; u++) {
                const u32 place = base + u * ROWS_AT_ONCE + r, near = place < to ? place : to - 1;
                const u32 row = is_root ? near : rows[near];  // loads do not wait for a condition
                const record_t loaded = RECORD_OF(near, row);
                word[u] = own[(u64)row * TILE_WORDS];
                record[u] = place < to && HAS_ROW(r) ? loaded : 0u;
            }
            UNROLL for (u32 u = 0; u < UNROLLED; u++) {
                const u32 turned = TURN_RIGHT(word[u], BIN_BITS * turn);
                UNROLL for (u32 s = 0; s < PER_WORD; s++) {
                    const u32 bin = BIN(turned, s);
                    ADD(0, bin, at[s], GRADIENT(record[u]));
                    ADD(1, bin, at[s], HESSIAN(record[u]));
#if STATS == 3
                    ADD(2, bin, at[s], base + u * ROWS_AT_ONCE + r < to && HAS_ROW(r) ? 1 : 0);
#endif
                }
            }
        }
#if WORDS != 0
        BARRIER;
        const u32 is_mine =
            has_one_owner(first_chunk[node], first_chunk[node + 1], n_chunks, groups_a_pass, chunk_rows);
        for (u32 i = LOCAL_ID; i < STATS * N_BINS * LANES; i += THREADS) {
            i64 sum = 0;
            UNROLL for (u32 copy = 0; copy < COPIES; copy++) {
                const u32 at_copy = i / LANES * BIN_COUNTERS + copy * LANES + i % LANES;
                const counter_t counter = counters[at_copy];
                counters[at_copy] = 0;  // for the next node
                sum += i < N_BINS * LANES ? SIGNED_SUM(counter) : (i64)counter;
            }
            const u64 place = (u64)(i / LANES) * TILE_LANES + first_word * PER_WORD + i % LANES;
            if (is_mine)
                out[place] = sum;
            else if (sum != 0)
                ADD_GLOBAL64(&out[place], sum);
        }
        BARRIER;
#endif
        chunk = stop;
    }
}

// Clears the slots that will be added to, one after the other; those of a single owner will be stored.
//
//     table   as above
KERNEL(THREADS) void zero_kernel(GLOBAL const u32 *RESTRICT table, GLOBAL const u32 *RESTRICT count, u32 groups_a_pass,
                                 u32 slot_size, GLOBAL i64 *RESTRICT histograms) {
    const u32 n_nodes = count[0];
    GLOBAL const u32 *first_chunk = table, *begin = table + (n_nodes + 1), *slots = table + 4 * (n_nodes + 1);
    const u32 n_chunks = first_chunk[n_nodes], chunk_rows = begin[n_nodes], n_pieces = PIECES(slot_size);
    for (u32 item = GROUP_ID; item < n_nodes * n_pieces; item += GROUP_COUNT) {
        const u32 node = item / n_pieces;
        if (!has_one_owner(first_chunk[node], first_chunk[node + 1], n_chunks, groups_a_pass, chunk_rows))
            clear_piece(histograms, slots[node], item % n_pieces, slot_size);
    }
}

// Between partition and histograms: which child is summed, which comes by subtraction, how the work is cut, and zeros
// where sums will be added.
//
// The twin of what steps.expand_in_steps does on the host. The child with fewer rows (the left one of equals) is summed
// into the spare slot; the other one keeps its parent's slot, from which the split search will subtract. A child that
// cannot be split is not wanted; where neither is, nothing is summed.
//
// Every group makes the whole plan, which is short; the first one writes it down, and all clear slots by it.
//
//     count       u32 (1,)                 in    n_nodes
//     batch       expansion_t (n_nodes,)   in    then first tiles, u32 (n_nodes + 1,)
//                                                then rows placed, u32 (n_nodes, 2), from partition
//     n_groups    that share the rows of a pass of histogram.cl
//     work        u32 (5, n_nodes + 1)     out   the table of histogram.cl
//     search      i64 (2 n_nodes, 5)       out   the table of split.cl
//     best        split_t (2 n_nodes,)           for split.cl
//                 u32 (n_nodes,)           out   behind it: rows that went left, so that one copy brings both back
//     histograms  i64 (n_slots, slot_size) out   zeros in the slots that need them
#define SMALLEST_CHUNK 512u
#define LARGEST_CHUNK  32768u
#define CHUNKS_A_GROUP 16u
#define MOST_NODES     65536u

// Rows of a node's smaller child, if they are to be summed.
typedef struct {
    u32 begin, end;
} rows_t;

DEVICE u32 is_wanted(i64 n_rows, i64 hessian, i32 depth, i64 min_rows, i32 max_depth) {
    return n_rows >= 2 * min_rows && hessian > 1 && depth < max_depth;
}

DEVICE rows_t rows_to_sum(GLOBAL const expansion_t *parent, u32 left_rows, i64 min_rows, i32 max_depth) {
    const u32 begin = (u32)parent->begin, end = (u32)parent->end, right_rows = end - begin - left_rows;
    const i64 left_h = parent->left_hessian, right_h = parent->hessian - left_h;
    const u32 right_is_small = left_rows > right_rows;
    rows_t rows;
    rows.begin = right_is_small ? begin + left_rows : begin;
    rows.end = rows.begin;
    if (is_wanted(left_rows, left_h, parent->depth + 1, min_rows, max_depth) ||
        is_wanted(right_rows, right_h, parent->depth + 1, min_rows, max_depth))
        rows.end = right_is_small ? end : begin + left_rows;
    return rows;
}

KERNEL(THREADS) void plan_kernel(GLOBAL const expansion_t *RESTRICT batch, GLOBAL const u32 *RESTRICT count,
                                 i64 min_rows, i32 max_depth, u32 n_groups, u32 slot_size, GLOBAL u32 *RESTRICT work,
                                 GLOBAL i64 *RESTRICT search, GLOBAL split_t *RESTRICT best,
                                 GLOBAL i64 *RESTRICT histograms) {
    LOCAL u32 sums[THREADS];
    LOCAL u32 is_stored[MOST_NODES / 32];  // bits
    const u32 n_nodes = count[0];
    if (n_nodes == 0) {  // the tree was finished before
        if (GROUP_ID == 0 && LOCAL_ID < 2) work[LOCAL_ID] = LOCAL_ID * SMALLEST_CHUNK;
        return;
    }
    GLOBAL const u32 *placed = (GLOBAL const u32 *)(batch + n_nodes) + (n_nodes + 1);
    const u32 each = (n_nodes + THREADS - 1) / THREADS;  // nodes of a thread
    const u32 from = LOCAL_ID * each < n_nodes ? LOCAL_ID * each : n_nodes;
    const u32 to = from + each < n_nodes ? from + each : n_nodes;
    for (u32 i = LOCAL_ID; i < n_nodes / 32 + 1; i += THREADS) is_stored[i] = 0;

    u32 n_rows = 0, before, n_all;
    for (u32 node = from; node < to; node++) {
        const rows_t rows = rows_to_sum(batch + node, placed[node * 2], min_rows, max_depth);
        n_rows += rows.end - rows.begin;
    }
    SCAN(sums, n_rows, before, n_all);
    // about CHUNKS_A_GROUP chunks a group, as tables.chunk_rows has it
    const u64 step = (u64)CHUNKS_A_GROUP * n_groups * SMALLEST_CHUNK;
    const u64 even = (n_all + step - 1) / step * SMALLEST_CHUNK;
    const u32 chunk = even < SMALLEST_CHUNK ? SMALLEST_CHUNK : even > LARGEST_CHUNK ? LARGEST_CHUNK : (u32)even;
    u32 n_own = 0, first, n_chunks;
    for (u32 node = from; node < to; node++) {
        const rows_t rows = rows_to_sum(batch + node, placed[node * 2], min_rows, max_depth);
        n_own += (rows.end - rows.begin + chunk - 1) / chunk;
    }
    SCAN(sums, n_own, first, n_chunks);

    GLOBAL u32 *n_left = (GLOBAL u32 *)(best + 2 * n_nodes);
    GLOBAL u32 *first_chunk = work, *begin = work + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL u32 *depth = end + (n_nodes + 1), *slot = depth + (n_nodes + 1);
    for (u32 node = from; node < to; node++) {
        GLOBAL const expansion_t *parent = batch + node;
        const u32 left_rows = placed[node * 2];
        const rows_t rows = rows_to_sum(parent, left_rows, min_rows, max_depth);
        const u32 next = first + (rows.end - rows.begin + chunk - 1) / chunk;
        if (has_one_owner(first, next, n_chunks, n_groups, chunk)) ADD_LOCAL32(&is_stored[node / 32], 1u << node % 32);
        if (GROUP_ID == 0) {
            const u32 right_rows = (u32)(parent->end - parent->begin) - left_rows;
            const u32 small = left_rows > right_rows;
            for (u32 side = 0; side < 2; side++) {
                const i64 own_rows = side ? right_rows : left_rows;
                const i64 h = side ? parent->hessian - parent->left_hessian : parent->left_hessian;
                const u32 wanted = is_wanted(own_rows, h, parent->depth + 1, min_rows, max_depth);
                GLOBAL i64 *child = search + (node * 2 + side) * 5;
                child[0] = side ? parent->gradient - parent->left_gradient : parent->left_gradient;
                child[1] = h;
                child[2] = own_rows;
                child[3] = !wanted ? -1 : side == small ? parent->spare_slot : parent->slot;
                child[4] = side == small ? -1 : parent->spare_slot;
            }
            first_chunk[node] = first;
            begin[node] = rows.begin;
            end[node] = rows.end;
            depth[node] = (u32)parent->depth + 1;
            slot[node] = (u32)parent->spare_slot;
            n_left[node] = left_rows;
        }
        first = next;
    }
    if (GROUP_ID == 0 && LOCAL_ID == 0) {
        first_chunk[n_nodes] = n_chunks;
        begin[n_nodes] = chunk;
    }
    BARRIER;

    const u32 n_pieces = PIECES(slot_size);
    for (u32 item = GROUP_ID; item < n_nodes * n_pieces; item += GROUP_COUNT) {
        const u32 node = item / n_pieces;
        if (!(is_stored[node / 32] >> node % 32 & 1u))
            clear_piece(histograms, (u32)batch[node].spare_slot, item % n_pieces, slot_size);
    }
}

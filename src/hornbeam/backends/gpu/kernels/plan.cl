// Between partition and histograms: which child is summed, which comes by subtraction, and how the work is cut.
//
// The twin of what steps.expand_in_steps does on the host. The child with fewer rows (the left one of equals) is summed
// into the spare slot; the other one keeps its parent's slot, from which the split search will subtract. A child that
// cannot be split is not wanted; where neither is, nothing is summed.
//
//     count    u32 (1,)                    in    n_nodes
//     batch    expansion_t (n_nodes,)      in    then first tiles, u32 (n_nodes + 1,)
//                                                then rows placed, u32 (n_nodes, 2), from partition
//     work     u32 (5, n_nodes + 1)        out   the table of histogram.cl
//     search   i64 (2 n_nodes, 5)          out   the table of split.cl
//     best     split_t (2 n_nodes,)              for split.cl
//              u32 (n_nodes,)              out   behind it: rows that went left, so that one copy brings both back
#define SMALLEST_CHUNK 512u
#define LARGEST_CHUNK  32768u
#define CHUNKS_A_GROUP 16u

// Exclusive sums over the threads of a group; `total` gets the sum of all.
#define SCAN(array, value, before, total)                                         \
    array[LOCAL_ID] = value;                                                      \
    BARRIER;                                                                      \
    for (u32 distance = 1; distance < THREADS; distance *= 2) {                   \
        const u64 lower = LOCAL_ID >= distance ? array[LOCAL_ID - distance] : 0u; \
        BARRIER;                                                                  \
        array[LOCAL_ID] += lower;                                                 \
        BARRIER;                                                                  \
    }                                                                             \
    before = array[LOCAL_ID] - value;                                             \
    total = array[THREADS - 1];                                                   \
    BARRIER

KERNEL(THREADS) void plan_kernel(GLOBAL const expansion_t *RESTRICT batch, GLOBAL const u32 *RESTRICT count,
                                 i64 min_rows, i32 max_depth, u32 n_groups, GLOBAL u32 *RESTRICT work,
                                 GLOBAL i64 *RESTRICT search, GLOBAL split_t *RESTRICT best) {
    LOCAL u64 shared[THREADS];
    const u32 n_nodes = count[0];
    GLOBAL const u32 *placed = (GLOBAL const u32 *)(batch + n_nodes) + (n_nodes + 1);
    GLOBAL u32 *n_left = (GLOBAL u32 *)(best + 2 * n_nodes);
    GLOBAL u32 *first_chunk = work, *begin = work + (n_nodes + 1), *end = begin + (n_nodes + 1);
    GLOBAL u32 *depth = end + (n_nodes + 1), *slot = depth + (n_nodes + 1);
    const u32 each = (n_nodes + THREADS - 1) / THREADS;  // nodes of a thread
    const u32 from = LOCAL_ID * each < n_nodes ? LOCAL_ID * each : n_nodes;
    const u32 to = from + each < n_nodes ? from + each : n_nodes;

    u64 rows = 0, before, total;
    for (u32 node = from; node < to; node++) {
        const expansion_t parent = batch[node];
        const u32 left_rows = placed[node * 2], all_rows = (u32)(parent.end - parent.begin);
        const u32 middle = (u32)parent.begin + left_rows, right_is_small = left_rows > all_rows - left_rows;
        u32 wanted[2];
        for (u32 side = 0; side < 2; side++) {
            const i64 n_rows = side ? all_rows - left_rows : left_rows;
            const i64 h = side ? parent.hessian - parent.left_hessian : parent.left_hessian;
            const u32 is_small = side == right_is_small;
            wanted[side] = n_rows >= 2 * min_rows && h > 1 && parent.depth + 1 < max_depth;
            GLOBAL i64 *child = search + (node * 2 + side) * 5;
            child[0] = side ? parent.gradient - parent.left_gradient : parent.left_gradient;
            child[1] = h;
            child[2] = n_rows;
            child[3] = !wanted[side] ? -1 : is_small ? parent.spare_slot : parent.slot;
            child[4] = is_small ? -1 : parent.spare_slot;
        }
        begin[node] = right_is_small ? middle : (u32)parent.begin;
        end[node] = wanted[0] || wanted[1] ? (right_is_small ? (u32)parent.end : middle) : begin[node];
        depth[node] = (u32)parent.depth + 1;
        slot[node] = (u32)parent.spare_slot;
        n_left[node] = left_rows;
        rows += end[node] - begin[node];
    }
    SCAN(shared, rows, before, total);
    // about CHUNKS_A_GROUP chunks a group, as tables.chunk_rows has it
    const u64 step = (u64)CHUNKS_A_GROUP * n_groups * SMALLEST_CHUNK;
    const u64 even = (total + step - 1) / step * SMALLEST_CHUNK;
    const u32 chunk = even < SMALLEST_CHUNK ? SMALLEST_CHUNK : even > LARGEST_CHUNK ? LARGEST_CHUNK : (u32)even;
    u64 chunks = 0;
    for (u32 node = from; node < to; node++) chunks += (end[node] - begin[node] + chunk - 1) / chunk;
    SCAN(shared, chunks, before, total);
    for (u32 node = from; node < to; node++) {
        first_chunk[node] = (u32)before;
        before += (end[node] - begin[node] + chunk - 1) / chunk;
    }
    if (LOCAL_ID == 0) {
        first_chunk[n_nodes] = (u32)total;
        begin[n_nodes] = chunk;
    }
}

// Between two rounds: enters the children of the last round, and chooses the nodes of the next one. With it the device
// runs round after round without the host; frontier.py has the reasons.
//
// Chosen is the better half of the nodes that are not expanded and still among the n_splits best of all. The host
// replays the growth one split at a time in the end, so this choice decides what is computed, never what the tree is. A
// node whose gain is above its parent's has its parent's priority; of such equals the one with the larger smallest gain
// since then
// (`second`, and once more `third`) would be split first, then the one with the lower number.
//
// Depth-wise, the nodes that are not expanded are one level: all of it is chosen, or as many of the highest gains as
// the tree may still split.
//
// One group; nodes are ranked by counting, which is quadratic but short: a tree has some hundreds of them.
//
//     state   u32 (16,)                    in, out  nodes to expand; nodes; slots in use
//             node_t (CAPACITY,)           in, out  behind it
//     batch   expansion_t (n_batch,)       out      then first tiles, u32 (n_batch + 1,); rows placed, u32 (n_batch, 2)
//     chosen  u32 (n_batch,)               in, out  the nodes' numbers
//     best    split_t (2 n_batch,)         in       of the last round, and behind it the rows that went left
#define N_BATCH  state[0]
#define N_NODES  state[1]
#define N_SLOTS  state[2]
#define NO_GAIN  BITS_TO_F64(0xFFF0000000000000)
#define INFINITE BITS_TO_F64(0x7FF0000000000000)
#define NONE     0xFFFFFFFFu

#define SMALLEST_BATCH 16u

// sums[i] becomes the sum of the values of the threads 0..i.
#define SUM_BEFORE(value)                                                        \
    sums[LOCAL_ID] = value;                                                      \
    BARRIER;                                                                     \
    for (u32 distance = 1; distance < THREADS; distance *= 2) {                  \
        const u32 lower = LOCAL_ID >= distance ? sums[LOCAL_ID - distance] : 0u; \
        BARRIER;                                                                 \
        sums[LOCAL_ID] += lower;                                                 \
        BARRIER;                                                                 \
    }

KERNEL(THREADS) void select_kernel(GLOBAL u32 *state, GLOBAL expansion_t *batch, GLOBAL u32 *chosen,
                                   GLOBAL const split_t *RESTRICT best, u32 most_splits, u32 depthwise, u32 n_slots,
                                   u32 most_nodes, u32 tile_rows) {
    LOCAL f64 priority[CAPACITY];
    LOCAL f64 second[CAPACITY];
    LOCAL f64 third[CAPACITY];
    LOCAL u32 ranks[CAPACITY];
    LOCAL u32 sums[THREADS];
    GLOBAL node_t *nodes = (GLOBAL node_t *)(state + 16);
    const u32 n_before = N_BATCH, n_parents = N_NODES, n_nodes = n_parents + 2 * n_before, slots_used = N_SLOTS;

    // the children of the last round
    GLOBAL const u32 *n_left = (GLOBAL const u32 *)(best + 2 * n_before);
    for (u32 i = LOCAL_ID; i < 2 * n_before; i += THREADS) {
        const u32 number = chosen[i / 2], side = i % 2;
        const node_t parent = nodes[number];
        const u32 left_rows = n_left[i / 2], right_rows = (u32)(parent.end - parent.begin) - left_rows;
        const u32 is_small = side == (left_rows > right_rows ? 1u : 0u);
        node_t child;
        child.begin = side ? parent.begin + left_rows : parent.begin;
        child.end = side ? parent.end : parent.begin + left_rows;
        child.gradient = side ? parent.gradient - parent.split.left_gradient : parent.split.left_gradient;
        child.hessian = side ? parent.hessian - parent.split.left_hessian : parent.split.left_hessian;
        child.split = best[i];
        const f64 gain = child.split.gain;
        const u32 is_first = gain < parent.priority, is_second = !is_first && gain < parent.second;
        child.priority = is_first ? gain : parent.priority;
        child.second = is_first ? INFINITE : is_second ? gain : parent.second;
        child.third = is_first || is_second ? INFINITE : gain < parent.third ? gain : parent.third;
        child.depth = parent.depth + 1;
        child.parent = (i32)number;
        child.left = -1;
        child.slot = is_small ? batch[i / 2].spare_slot : parent.slot;
        nodes[n_parents + i] = child;
    }
    BARRIER;
    for (u32 i = LOCAL_ID; i < n_before; i += THREADS) nodes[chosen[i]].left = (i32)(n_parents + 2 * i);
    BARRIER;

    // the nodes of the next round; each thread looks at a run of nodes, so that they stay in order
    for (u32 i = LOCAL_ID; i < n_nodes; i += THREADS) {
        priority[i] = !depthwise ? nodes[i].priority : nodes[i].left < 0 ? nodes[i].split.gain : NO_GAIN;
        second[i] = depthwise ? INFINITE : nodes[i].second;
        third[i] = depthwise ? INFINITE : nodes[i].third;
    }
    const u32 n_splits = depthwise ? most_splits - (n_nodes - 1) / 2 : most_splits;  // of which to be the best
    BARRIER;
    const u32 each = (n_nodes + THREADS - 1) / THREADS;
    const u32 from = LOCAL_ID * each < n_nodes ? LOCAL_ID * each : n_nodes;
    const u32 to = from + each < n_nodes ? from + each : n_nodes;
    u32 n_candidates = 0;
    for (u32 i = from; i < to; i++) {
        const f64 own = priority[i], own2 = second[i], own3 = third[i];
        u32 rank = NONE;
        if (own > NO_GAIN && nodes[i].left < 0) {
            rank = 0;
            for (u32 j = 0; j < n_nodes; j++) {
                const f64 other = priority[j];
                if (other < own) continue;
                const u32 ties = other == own && second[j] == own2;
                rank += other > own || (!ties && second[j] > own2) || (ties && third[j] > own3) ||
                        (ties && third[j] == own3 && j < i);
            }
        }
        ranks[i] = rank < n_splits ? rank : NONE;
        n_candidates += rank < n_splits;
    }
    SUM_BEFORE(n_candidates);
    const u32 n_all = sums[THREADS - 1], better_half = (n_all + 1) / 2;
    // frontier.next_batch: with the better half less is wasted
    const u32 n_best = depthwise ? n_all : better_half > SMALLEST_BATCH ? better_half : SMALLEST_BATCH;
    u32 mine[EACH], n_mine = 0;
    for (u32 i = from; i < to; i++) {
        if (ranks[i] == NONE) continue;
        u32 better = 0;
        for (u32 j = 0; j < n_nodes; j++) better += ranks[j] < ranks[i];
        if (better < n_best) mine[n_mine++] = i;
    }
    BARRIER;
    SUM_BEFORE(n_mine);
    u32 n_batch = sums[THREADS - 1], place = sums[LOCAL_ID] - n_mine;
    if (n_nodes + 2 * n_batch > most_nodes || slots_used + n_batch > n_slots) n_batch = 0;  // the host goes on
    GLOBAL u32 *first_tile = (GLOBAL u32 *)(batch + n_batch), *placed = first_tile + (n_batch + 1);
    BARRIER;
    u32 tiles = 0;
    for (u32 k = 0; k < n_mine && n_batch > 0; k++) {
        const node_t node = nodes[mine[k]];
        expansion_t entry;
        entry.begin = node.begin;
        entry.end = node.end;
        entry.gradient = node.gradient;
        entry.hessian = node.hessian;
        entry.left_gradient = node.split.left_gradient;
        entry.left_hessian = node.split.left_hessian;
        entry.depth = node.depth;
        entry.feature = node.split.feature;
        entry.bin = node.split.bin;
        entry.slot = node.slot;
        entry.spare_slot = (i32)(slots_used + place + k);
        entry.missing_left = node.split.missing_left & 0xFFu ? 1 : 0;
        batch[place + k] = entry;
        chosen[place + k] = mine[k];
        placed[(place + k) * 2] = 0;
        placed[(place + k) * 2 + 1] = 0;
        tiles += (u32)((node.end - node.begin + tile_rows - 1) / tile_rows);
    }
    SUM_BEFORE(tiles);
    u32 tile = sums[LOCAL_ID] - tiles;
    for (u32 k = 0; k < n_mine && n_batch > 0; k++) {
        first_tile[place + k] = tile;
        tile += (u32)((nodes[mine[k]].end - nodes[mine[k]].begin + tile_rows - 1) / tile_rows);
    }
    if (LOCAL_ID == 0) {
        first_tile[n_batch] = sums[THREADS - 1];
        N_BATCH = n_batch;
        N_NODES = n_nodes;
        N_SLOTS = slots_used + n_batch;
    }
}

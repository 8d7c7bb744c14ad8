// Between two rounds: enters the children of the last round, and chooses the nodes of the next one. With it the device
// runs round after round without the host; frontier.py has the reasons.
//
// Chosen are the best of the nodes that are not expanded and still among the n_splits best of all. The host replays the
// growth one split at a time in the end, so this choice decides what is computed, never what the tree is. A node whose
// gain is above its parent's has its parent's priority; of such equals the one with the larger smallest gain since then
// (`second`) would be split first, and so on; here one step of that, and single precision, must do. Then comes the one
// with the lower number.
//
// Depth-wise, the nodes that are not expanded are one level: all of it is chosen, or as many of the highest gains as
// the tree may still split.
//
// A node that has fallen out of the n_splits best stays out, so its histogram's slot is free again.
//
// One group, which sorts the nodes in local memory:
//
//     rank           0    1    2    3    4   ...  n_splits - 1 | ...
//     node           0    1    5    2    9                     |         sorted by priority
//     not expanded                  x    x                x    | x       candidates: those before the line
//
//     state   u32 (16,)                    in, out  nodes to expand; nodes; rounds
//             node_t (most_nodes,)         in, out  behind it
//     batch   expansion_t (n_batch,)       out      then first tiles, u32 (n_batch + 1,); rows placed, u32 (n_batch, 2)
//     chosen  u32 (n_batch,)               in, out  the nodes' numbers
//     best    split_t (2 n_batch,)         in       of the last round, and behind it the rows that went left; at first
//                                                   the root's alone
//     share   one candidate in `share` is chosen, but at least SMALLEST_BATCH / share
#define N_BATCH  state[0]
#define N_NODES  state[1]
#define N_ROUNDS state[2]
#define NO_GAIN  BITS_TO_F64(0xFFF0000000000000)
#define INFINITE BITS_TO_F64(0x7FF0000000000000)

#define SMALLEST_BATCH 32u
#define NUMBER_BITS    2047u
#define NUMBER(key)    (NUMBER_BITS - (u32)((key) & NUMBER_BITS))
#define LARGEST_F32    BITS_TO_F32(0x7F7FFFFFu)
#define MOST_SLOTS     2048u

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
                                   u32 most_nodes, u32 tile_rows, u32 share) {
    LOCAL u64 keys[CAPACITY];  // what a node is sorted by, its number in the last bits
    LOCAL u32 free_slots[MOST_SLOTS];
    LOCAL u32 sums[THREADS];
    LOCAL u32 is_used[MOST_SLOTS / 32];
    GLOBAL node_t *nodes = (GLOBAL node_t *)(state + 16);
    const u32 n_before = N_BATCH, n_parents = N_NODES, n_nodes = n_parents + 2 * n_before;
    if (n_before == 0 && N_ROUNDS > 0) return;  // the tree is finished

    if (N_ROUNDS == 0 && LOCAL_ID == 0) {
        nodes[0].split = best[0];
        nodes[0].priority = best[0].gain;
    }
    BARRIER;

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

    // all nodes by priority; gains are positive, so their bits are in the order of their values
    u32 n_sorted = 2;
    while (n_sorted < n_nodes) n_sorted *= 2;
    for (u32 i = LOCAL_ID; i < n_sorted; i += THREADS) {
        u64 key = 0;
        if (i < n_nodes) {
            GLOBAL const node_t *node = nodes + i;
            const f64 value = !depthwise ? node->priority : node->left >= 0 ? NO_GAIN : node->split.gain;
            const u64 second = depthwise ? 0 : ((u64)F64_TO_BITS(node->second) >> 42) & 0x1FFFFF;
            const f32 rough = value < LARGEST_F32 ? (f32)value : LARGEST_F32;
            if (value > 0.0) key = ((u64)F32_TO_BITS(rough) << 32) | (second << 11);
            key |= NUMBER_BITS - i;
        }
        keys[i] = key;
    }
    for (u32 i = LOCAL_ID; i < MOST_SLOTS / 32; i += THREADS) is_used[i] = 0;
    BARRIER;
    for (u32 size = 2; size <= n_sorted; size *= 2) {  // bitonic
        for (u32 distance = size / 2; distance > 0; distance /= 2) {
            for (u32 i = LOCAL_ID; i < n_sorted / 2; i += THREADS) {
                const u32 a = i / distance * (2 * distance) + i % distance, b = a + distance;
                const u64 key_a = keys[a], key_b = keys[b];
                if ((key_a > key_b) != ((a & size) == 0)) {
                    keys[a] = key_b;
                    keys[b] = key_a;
                }
            }
            BARRIER;
        }
    }

    // the nodes of the next round; each thread looks at EACH neighbours
    const u32 n_splits = depthwise ? most_splits - (n_nodes - 1) / 2 : most_splits;  // of which to be the best
    const u32 from = LOCAL_ID * EACH;
    u32 is_candidate = 0, n_candidates = 0;
    for (u32 k = 0; k < EACH; k++) {
        const u32 rank = from + k, number = rank < n_nodes ? NUMBER(keys[rank]) : 0;
        if (rank >= n_nodes || nodes[number].left >= 0) continue;
        const i32 slot = nodes[number].slot;
        if (rank < n_splits && keys[rank] > NUMBER_BITS && slot >= 0) {
            is_candidate |= 1u << k;
            n_candidates++;
            ADD_LOCAL32(&is_used[slot / 32], 1u << slot % 32);
        } else {
            nodes[number].slot = -1;
        }
    }
    SUM_BEFORE(n_candidates);
    const u32 n_all = sums[THREADS - 1];
    u32 place = sums[LOCAL_ID] - n_candidates;
    BARRIER;

    u32 n_free = 0;
    const u32 slots_each = (n_slots + THREADS - 1) / THREADS;
    for (u32 k = 0; k < slots_each; k++) {
        const u32 slot = LOCAL_ID * slots_each + k;
        n_free += slot < n_slots && !((is_used[slot / 32] >> slot % 32) & 1u);
    }
    SUM_BEFORE(n_free);
    u32 free_place = sums[LOCAL_ID] - n_free;
    n_free = sums[THREADS - 1];
    for (u32 k = 0; k < slots_each; k++) {
        const u32 slot = LOCAL_ID * slots_each + k;
        if (slot < n_slots && !((is_used[slot / 32] >> slot % 32) & 1u)) free_slots[free_place++] = slot;
    }
    BARRIER;

    const u32 some = (n_all + share - 1) / share, least = SMALLEST_BATCH / share;
    u32 n_batch = depthwise ? n_all : some > least ? some : least;
    const u32 room = (most_nodes - n_nodes) / 2;
    n_batch = n_batch < n_all ? n_batch : n_all;
    n_batch = n_batch < n_free ? n_batch : n_free;  // where nothing fits any more the host goes on
    n_batch = n_batch < room ? n_batch : room;
    GLOBAL u32 *first_tile = (GLOBAL u32 *)(batch + n_batch), *placed = first_tile + (n_batch + 1);
    const u32 first_place = place;
    u32 tiles = 0;
    for (u32 k = 0; k < EACH; k++) {
        if (!((is_candidate >> k) & 1u) || place >= n_batch) continue;
        const u32 number = NUMBER(keys[from + k]);
        const node_t node = nodes[number];
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
        entry.spare_slot = (i32)free_slots[place];
        entry.missing_left = node.split.missing_left & 0xFFu ? 1 : 0;
        batch[place] = entry;
        chosen[place] = number;
        placed[place * 2] = 0;
        placed[place * 2 + 1] = 0;
        tiles += (u32)((node.end - node.begin + tile_rows - 1) / tile_rows);
        place++;
    }
    SUM_BEFORE(tiles);
    u32 tile = sums[LOCAL_ID] - tiles;
    for (u32 at = first_place; at < place; at++) {
        first_tile[at] = tile;
        tile += (u32)((batch[at].end - batch[at].begin + tile_rows - 1) / tile_rows);
    }
    if (LOCAL_ID == 0) {
        first_tile[n_batch] = sums[THREADS - 1];
        N_BATCH = n_batch;
        N_NODES = n_nodes;
        N_ROUNDS = N_ROUNDS + 1;
    }
}

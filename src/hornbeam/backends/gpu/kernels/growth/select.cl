// Between two rounds: enters the children of the last round, and chooses the nodes of the next one. With it the device
// runs round after round without the host; frontier.py has the reasons.
//
// A tree that grows one split at a time splits nodes in a fixed order, whatever is known of the rest: new nodes come in
// between, but no two change places. So the order of the best n_splits nodes is kept from round to round, and the
// children are merged into it. What falls off its end stays out, and its histogram's slot is free again.
//
//     rank           0    1    2    3    4   ...  n_splits - 1
//     node           0    1    5    2    9
//     not expanded                  x    x                x         candidates; the first of them are the next round
//
// Which of two nodes is split first? Not the one of higher gain: that may wait behind an ancestor of low gain. Going up
// from a node, its chain is the next ancestor with a lower gain than its own, then the next with a lower gain than
// that, and so on; the last of them has the node's priority, the smallest gain on its path.
//
//     path     root 9    4    7    5    8    this 6           chain, from the top      4   5   6
//
// Nodes are in the order of their chains: at the first place where these differ the higher gain is first, and a node
// comes before those whose chains go on from its own. Of equal gains the one is first that was made first: the one
// whose parent is first in the order, and of two children the left one.
//
// Depth-wise, what is expanded comes first, then the others, which are one level, by gain.
//
// One group:
//
//     state   u32 (16,)                    in, out  nodes to expand; nodes; rounds; nodes in order;
//                                                   share: one candidate in so many is chosen, but not very few;
//                                                   from word 8 on what contexts.cl reads
//             node_t (most_nodes,)         in, out  behind it
//     order   u32 (most_splits,)           in, out  numbers of the best nodes
//     batch   expansion_t (n_batch,)       out      then first tiles, u32 (n_batch + 1,); rows placed, u32 (n_batch, 2)
//     chosen  u32 (n_batch,)               in, out  the nodes' numbers
//     best    split_t (2 n_batch,)         in       of the last round, and behind it the rows that went left; at first
//                                                   the root's alone
//     pieces  split_t (2 n_batch, n_pieces)  in     from split.cl; with n_pieces == 0 the best of them are in `best`
#define N_BATCH   state[0]
#define N_NODES   state[1]
#define N_ROUNDS  state[2]
#define N_ORDERED state[3]
#define SHARE_OF  state[4]
#define INFINITE  BITS_TO_F64(0x7FF0000000000000)

#define SMALLEST_BATCH 32u
#define SPREAD         8u
#define ORDERED        (CAPACITY / 4) /* most nodes in order */
#define MOST_SLOTS     2048u

// A node as it is ranked: first of all by `value`, the priority, or depth-wise the gain.
typedef struct {
    f64 value, gain;
    u16 number, lower;
} ranked_t;

// Whether node a was made before b: whether its parent is first in the order, where both parents are.
DEVICE u32 made_first(GLOBAL const node_t *nodes, GLOBAL const u32 *order, u32 n_old, u32 a, u32 b) {
    const u32 above_a = (u32)nodes[a].parent, above_b = (u32)nodes[b].parent;
    if (a == 0 || b == 0 || above_a == above_b) return a < b;
    u32 rank = 0;
    while (rank < n_old && order[rank] != above_a && order[rank] != above_b) rank++;
    return rank < n_old && order[rank] == above_a;
}

// Whether node a comes before b, which has the same priority.
DEVICE u32 comes_first(GLOBAL const node_t *nodes, GLOBAL const u32 *order, u32 n_old, u32 a, u32 b) {
    i32 x = (i32)a, y = (i32)b;
    for (i32 more = nodes[a].chain - nodes[b].chain; more > 0; more--) x = nodes[x].lower;
    for (i32 more = nodes[b].chain - nodes[a].chain; more > 0; more--) y = nodes[y].lower;
    if (x == y) return nodes[a].chain < nodes[b].chain;
    while (nodes[x].lower != nodes[y].lower) {
        x = nodes[x].lower;
        y = nodes[y].lower;
    }
    const f64 gain_x = nodes[x].split.gain, gain_y = nodes[y].split.gain;
    return gain_x > gain_y || (gain_x == gain_y && made_first(nodes, order, n_old, (u32)x, (u32)y));
}

// Whether a comes before b: nodes of which local memory has the number, value, gain and lower ancestor.
#define IS_BEFORE(a, b)                                                                                           \
    ((a).value > (b).value ||                                                                                     \
     ((a).value == (b).value &&                                                                                   \
      (depthwise                                        ? made_first(nodes, order, n_old, (a).number, (b).number) \
       : (a).lower == (b).lower && (a).gain != (b).gain ? (a).gain > (b).gain                                     \
                                                        : comes_first(nodes, order, n_old, (a).number, (b).number))))

KERNEL(THREADS) void select_kernel(GLOBAL u32 *state, GLOBAL u32 *order, GLOBAL expansion_t *batch, GLOBAL u32 *chosen,
                                   GLOBAL const split_t *RESTRICT best, GLOBAL const split_t *RESTRICT pieces,
                                   u32 n_pieces, u32 most_splits, u32 depthwise, u32 n_slots, u32 most_nodes,
                                   u32 tile_rows) {
    LOCAL ranked_t old[ORDERED], entered[2 * ORDERED];
    LOCAL u16 numbers[ORDERED];     // in the new order
    LOCAL u16 places[2 * ORDERED];  // of new nodes in their order: old nodes before them
    LOCAL u16 free_slots[MOST_SLOTS];
    LOCAL u32 is_used[MOST_SLOTS / 32];
    LOCAL u32 tile_counts[ORDERED], sums[THREADS], n_entered[1];
    GLOBAL node_t *nodes = (GLOBAL node_t *)(state + 16);
    const u32 n_before = N_BATCH, n_parents = N_NODES, n_old = N_ORDERED, is_first = N_ROUNDS == 0, share = SHARE_OF;
    if (n_before == 0 && !is_first) return;  // the tree is finished
    const u32 first_new = is_first ? 0 : n_parents, n_new = is_first ? 1 : 2 * n_before;
    const u32 n_nodes = first_new + n_new;

    // the best piece of each child, SPREAD threads at a time
    for (u32 first = 0; first < n_new && n_pieces > 0; first += THREADS / SPREAD) {
        const u32 i = first + LOCAL_ID / SPREAD;
        f64 gain = NO_GAIN;
        u32 winner = 0;
        if (i < n_new) {
            GLOBAL const split_t *own = pieces + (u64)i * n_pieces;
            for (u32 piece = LOCAL_ID % SPREAD; piece < n_pieces; piece += SPREAD) {
                const f64 other = own[piece].gain;
                winner = other > gain ? piece : winner;
                gain = other > gain ? other : gain;
            }
        }
        entered[LOCAL_ID].gain = gain;
        entered[LOCAL_ID].number = (u16)winner;
        BARRIER;
        if (i < n_new && LOCAL_ID % SPREAD == 0) {
            for (u32 k = 1; k < SPREAD; k++) {  // of equals the one with the lower features
                const f64 other = entered[LOCAL_ID + k].gain;
                const u32 piece = entered[LOCAL_ID + k].number;
                winner = other > gain || (other == gain && piece < winner) ? piece : winner;
                gain = other > gain ? other : gain;
            }
            places[i] = (u16)winner;
        }
        BARRIER;
    }

    // the order as it is; other threads enter the children of the last round meanwhile
    for (u32 i = LOCAL_ID; i < n_old; i += THREADS) {
        const u32 number = order[i];
        const f64 gain = nodes[number].split.gain, in_level = i < (n_nodes - 1) / 2 ? INFINITE : gain;
        old[i].value = depthwise ? in_level : nodes[number].priority;
        old[i].gain = gain;
        old[i].number = (u16)number;
        old[i].lower = (u16)nodes[number].lower;
    }
    GLOBAL const u32 *n_left = (GLOBAL const u32 *)(best + 2 * n_before);
    for (u32 i = THREADS - 1 - LOCAL_ID; i < n_new; i += THREADS) {
        const u32 number = is_first ? 0 : chosen[i / 2], side = i % 2, left_rows = is_first ? 0 : n_left[i / 2];
        const node_t parent = nodes[number];
        node_t child = parent;
        child.split = n_pieces > 0 ? pieces[(u64)i * n_pieces + places[i]] : best[i];
        child.priority = child.split.gain;
        child.lower = -1;
        if (!is_first) {
            const u32 right_rows = (u32)(parent.end - parent.begin) - left_rows;
            const u32 is_small = side == (left_rows > right_rows ? 1u : 0u);
            const i64 left_gradient = parent.split.left_gradient, left_hessian = parent.split.left_hessian;
            child.begin = side ? parent.begin + left_rows : parent.begin;
            child.end = side ? parent.end : parent.begin + left_rows;
            child.gradient = side ? parent.gradient - left_gradient : left_gradient;
            child.hessian = side ? parent.hessian - left_hessian : left_hessian;
            child.depth = parent.depth + 1;
            child.parent = (i32)number;
            child.left = -1;
            child.slot = is_small ? batch[i / 2].spare_slot : parent.slot;
            child.priority = child.split.gain < parent.priority ? child.split.gain : parent.priority;
        }
        const u32 is_wanted = child.split.gain > 0.0;
        child.chain = 0;
        if (!is_first && is_wanted) {
            f64 gain = parent.split.gain;
            i32 lower = (i32)number, next = parent.lower, chain = parent.chain;
            while (lower >= 0 && gain >= child.split.gain) {
                lower = next;
                if (lower >= 0) {
                    gain = nodes[lower].split.gain;
                    next = nodes[lower].lower;
                    chain = nodes[lower].chain;
                }
            }
            child.lower = lower;
            child.chain = lower < 0 ? 0 : chain + 1;
        }
        child.slot = is_wanted ? child.slot : -1;
        nodes[first_new + i] = child;
        entered[i].value = !is_wanted ? NO_GAIN : depthwise ? child.split.gain : child.priority;
        entered[i].gain = child.split.gain;
        entered[i].number = (u16)(first_new + i);
        entered[i].lower = (u16)child.lower;
    }
    if (LOCAL_ID == 0) n_entered[0] = 0;
    for (u32 i = LOCAL_ID; i < MOST_SLOTS / 32; i += THREADS) is_used[i] = 0;
    BARRIER;
    for (u32 i = LOCAL_ID; i < n_before; i += THREADS) nodes[chosen[i]].left = (i32)(first_new + 2 * i);

    // merge them into the order
    for (u32 i = LOCAL_ID; i < n_new; i += THREADS) {
        const ranked_t own = entered[i];
        if (own.value > 0.0) {
            u32 rank = 0, place = 0;
            for (u32 j = 0; j < n_new; j++) {
                const ranked_t other = entered[j];
                rank += j != i && IS_BEFORE(other, own);
            }
            for (u32 above = n_old; place < above;) {
                const u32 middle = (place + above) / 2;
                const ranked_t other = old[middle];
                if (IS_BEFORE(other, own))
                    place = middle + 1;
                else
                    above = middle;
            }
            places[rank] = (u16)place;
            ADD_LOCAL32(&n_entered[0], 1);
            if (rank + place < most_splits)
                numbers[rank + place] = own.number;
            else
                nodes[own.number].slot = -1;
        }
    }
    BARRIER;
    const u32 n_both = n_old + n_entered[0], n_ordered = n_both < most_splits ? n_both : most_splits;
    for (u32 i = LOCAL_ID; i < n_old; i += THREADS) {
        u32 n_in_front = 0;
        for (u32 above = n_entered[0]; n_in_front < above;) {
            const u32 middle = (n_in_front + above) / 2;
            if (places[middle] <= i)
                n_in_front = middle + 1;
            else
                above = middle;
        }
        if (i + n_in_front < most_splits)
            numbers[i + n_in_front] = old[i].number;
        else
            nodes[old[i].number].slot = -1;
    }
    BARRIER;

    // the nodes of the next round; each thread looks at EACH neighbours
    u32 is_candidate = 0, n_candidates = 0;
    for (u32 k = 0; k < EACH; k++) {
        const u32 rank = LOCAL_ID * EACH + k;
        if (rank < n_ordered) {
            GLOBAL const node_t *node = nodes + numbers[rank];
            order[rank] = numbers[rank];
            if (node->left < 0 && node->slot >= 0) {
                is_candidate |= 1u << k;
                n_candidates++;
                ADD_LOCAL32(&is_used[node->slot / 32], 1u << node->slot % 32);
            }
        }
    }
    BARRIER;
    u32 n_free = 0, before, total;
    const u32 slots_each = (n_slots + THREADS - 1) / THREADS;
    for (u32 k = 0; k < slots_each; k++) {
        const u32 slot = LOCAL_ID * slots_each + k;
        n_free += slot < n_slots && !(is_used[slot / 32] >> slot % 32 & 1u);
    }
    SCAN(sums, n_candidates | n_free << 16, before, total);
    u32 place = before & 0xFFFFu, free_place = before >> 16;
    for (u32 k = 0; k < slots_each; k++) {
        const u32 slot = LOCAL_ID * slots_each + k;
        if (slot < n_slots && !(is_used[slot / 32] >> slot % 32 & 1u)) free_slots[free_place++] = (u16)slot;
    }
    BARRIER;

    const u32 n_all = total & 0xFFFFu, n_all_free = total >> 16, room = (most_nodes - n_nodes) / 2;
    const u32 some = (n_all + share - 1) / share, least = SMALLEST_BATCH / share;
    u32 n_batch = depthwise ? n_all : some > least ? some : least;
    n_batch = n_batch < n_all ? n_batch : n_all;
    n_batch = n_batch < n_all_free ? n_batch : n_all_free;  // where nothing fits any more the host goes on
    n_batch = n_batch < room ? n_batch : room;

    // in the order of their features: nodes that read the same bins are neighbours, and find them in the cache
    const u32 first_place = place;
    u32 mine[EACH];
    expansion_t entries[EACH];
    UNROLL for (u32 k = 0; k < EACH; k++) {
        if ((is_candidate >> k & 1u) && place < n_batch) {
            mine[k] = numbers[LOCAL_ID * EACH + k];
            GLOBAL const node_t *node = nodes + mine[k];
            entries[k].begin = node->begin;
            entries[k].end = node->end;
            entries[k].gradient = node->gradient;
            entries[k].hessian = node->hessian;
            entries[k].left_gradient = node->split.left_gradient;
            entries[k].left_hessian = node->split.left_hessian;
            entries[k].depth = node->depth;
            entries[k].feature = node->split.feature;
            entries[k].bin = node->split.bin;
            entries[k].slot = node->slot;
            entries[k].spare_slot = (i32)free_slots[place];
            entries[k].missing_left = node->split.missing_left & 0xFFu ? 1 : 0;
            places[place++] = (u16)entries[k].feature;
        }
    }
    BARRIER;
    GLOBAL u32 *first_tile = (GLOBAL u32 *)(batch + n_batch), *placed = first_tile + (n_batch + 1);
    place = first_place;
    UNROLL for (u32 k = 0; k < EACH; k++) {
        if ((is_candidate >> k & 1u) && place < n_batch) {
            const u32 feature = places[place];
            u32 at = 0;
            for (u32 i = 0; i < n_batch; i++) at += places[i] < feature || (places[i] == feature && i < place);
            batch[at] = entries[k];
            chosen[at] = mine[k];
            placed[at * 2] = 0;
            placed[at * 2 + 1] = 0;
            tile_counts[at] = (u32)((entries[k].end - entries[k].begin + tile_rows - 1) / tile_rows);
            place++;
        }
    }
    BARRIER;
    u32 tiles = 0, tile, n_tiles;
    for (u32 at = LOCAL_ID * EACH; at < LOCAL_ID * EACH + EACH && at < n_batch; at++) tiles += tile_counts[at];
    SCAN(sums, tiles, tile, n_tiles);
    for (u32 at = LOCAL_ID * EACH; at < LOCAL_ID * EACH + EACH && at < n_batch; at++) {
        first_tile[at] = tile;
        tile += tile_counts[at];
    }
    if (LOCAL_ID == 0) {
        first_tile[n_batch] = n_tiles;
        N_BATCH = n_batch;
        N_NODES = n_nodes;
        N_ROUNDS = N_ROUNDS + 1;
        N_ORDERED = n_ordered;
    }
}

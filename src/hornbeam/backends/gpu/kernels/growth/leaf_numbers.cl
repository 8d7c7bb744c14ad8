// The end of a tree that the device has grown by itself: the leaf of every node that was not expanded, as a table for
// assign_kernel of leaves.cl. So rows learn their leaves, and leaves their values, before the host has seen the tree.
//
// The order that select.cl keeps is the order of the splits, and gives the numbers of trees/replay.py: the left child
// of a node has the leaf number of the node, the right child of the split with rank r the number r + 1. A node that was
// expanded in vain is not in order; what is below it belongs to the leaf that it is.
//
//     nodes           0 (rank 0)                     leaves of the nodes that were not expanded
//                   /            \
//             1 (rank 1)       2 (no rank)           3: 0    4: 2    5: 1    6: 1
//             /       \         /      \
//            3         4       5        6
//
// One group; each thread takes EACH nodes in a row.
//
//     state    see select.cl            in
//     order    u32 (n_ordered,)         in
//     table    u32 (5, n_ends + 1)      out   first tile; begin; end; depth; leaf
//     n_ends   u32 (1,)                 out   nodes in the table; 0: the tree is not finished
//     sums     i64 (2 * n_sums,)        out   zeros, for leaf_sums_kernel
//     leaf_nodes   u32 (n_sums,)        out   CONTEXT: the node of each leaf
#define N_BATCH    state[0]
#define N_NODES    state[1]
#define N_ORDERED  state[3]
#define NOT_RANKED 0xFFFFu

KERNEL(THREADS) void leaf_numbers_kernel(GLOBAL const u32 *RESTRICT state, GLOBAL const u32 *RESTRICT order,
                                         u32 tile_rows, u32 n_sums, GLOBAL u32 *RESTRICT table,
                                         GLOBAL u32 *RESTRICT n_ends, GLOBAL i64 *RESTRICT sums
#if CONTEXT
                                         ,
                                         GLOBAL u32 *RESTRICT leaf_nodes
#endif
) {
    LOCAL u16 rank[CAPACITY], parent[CAPACITY];
    LOCAL u32 scanned[THREADS], n_open[1];
    GLOBAL const node_t *nodes = (GLOBAL const node_t *)(state + 16);
    const u32 n_nodes = N_NODES, n_ordered = N_ORDERED, first = LOCAL_ID * EACH;
    for (u32 i = LOCAL_ID; i < 2 * n_sums; i += THREADS) sums[i] = 0;
    for (u32 i = LOCAL_ID; i < n_nodes; i += THREADS) {
        rank[i] = NOT_RANKED;
        parent[i] = (u16)nodes[i].parent;
    }
    if (LOCAL_ID == 0) n_open[0] = N_BATCH;
    BARRIER;
    for (u32 i = LOCAL_ID; i < n_ordered; i += THREADS) {
        rank[order[i]] = (u16)i;
        if (nodes[order[i]].left < 0) ADD_LOCAL32(&n_open[0], 1);
    }
    BARRIER;

    u32 is_end = 0, n_mine = 0, n_tiles = 0, place, tile, n_all, n_all_tiles;
    UNROLL for (u32 k = 0; k < EACH; k++) {
        if (first + k < n_nodes && nodes[first + k].left < 0) {
            is_end |= 1u << k;
            n_mine++;
            n_tiles += (u32)((nodes[first + k].end - nodes[first + k].begin + tile_rows - 1) / tile_rows);
        }
    }
    SCAN(scanned, n_mine, place, n_all);
    SCAN(scanned, n_tiles, tile, n_all_tiles);
    if (LOCAL_ID == 0) {
        n_ends[0] = n_open[0] > 0 ? 0 : n_all;
        table[n_all] = n_all_tiles;
    }
    const u32 size = n_all + 1;
    for (u32 k = 0; k < EACH; k++) {
        if (is_end >> k & 1u) {
            GLOBAL const node_t *node = nodes + first + k;
            u32 at = first + k;
            while (at > 0 && rank[parent[at]] == NOT_RANKED) at = parent[at];  // up to a node of the tree
#if CONTEXT
            const u32 in_tree = at;
#endif
            while (at > 0 && at % 2 == 1) at = parent[at];  // children come in pairs behind the root: odd is left
            table[place] = tile;
            table[size + place] = (u32)node->begin;
            table[2 * size + place] = (u32)node->end;
            table[3 * size + place] = (u32)node->depth;
            table[4 * size + place] = at == 0 ? 0 : rank[parent[at]] + 1u;
#if CONTEXT
            leaf_nodes[at == 0 ? 0 : rank[parent[at]] + 1u] = in_tree;
#endif
            tile += (u32)((node->end - node->begin + tile_rows - 1) / tile_rows);
            place++;
        }
    }
}

// Raw values go down trees, one thread a row: scores and leaf numbers.
//
//   values       raw_t, row i and feature j at [i * row_stride + j * column_stride]     in
//   nodes        tree_node_t (n_nodes,)     in    trees one after the other; children of a split stand side by side
//   tree_start   u64 (n_trees + 1,)         in    first node of each tree
//
//     position in the tree   0      1         2           3         4           ...   2s + 1    2s + 2
//     node                 root   left(0)   right(0)   left(1)   right(1)       ...   left(s)   right(s)
//
//   sets         u32                        in    bits of the codes that categorical splits send left
//
// Neighbouring rows are in the same tree at the same time, so nodes come from the cache; one load brings a node.
typedef struct {
    f64 threshold;  // of a split; the value of a leaf. Categorical: first word (upper 32 bits) and words of its set
    u32 column;     // of a split: 2 * feature + missing left, bit 31 set if categorical; the number of a leaf
    u32 child;      // position of a split's left child, the right one is next; 0 for a leaf
} __attribute__((aligned(16))) tree_node_t;

// Returns the leaf of a row.
DEVICE tree_node_t walk(GLOBAL const raw_t *row, i64 column_stride, GLOBAL const tree_node_t *tree,
                        GLOBAL const u32 *sets) {
    tree_node_t node = tree[0];
    while (node.child != 0) {
        const f64 value = RAW_VALUE(row[(i64)FEATURE_OF(node.column) * column_stride]);
        const u32 left = goes_left(value, node.threshold, node.column, sets);
        node = tree[node.child + 1 - left];
    }
    return node;
}

// Adds trees in their order: output k gets init[k] + tree first + k + tree first + n_outputs + k + ...
//
//     init     f64 (n_outputs,)           in
//     scores   f64 (n_outputs, stride)    out   the first n_rows of every output
KERNEL(THREADS) void add_trees_kernel(GLOBAL const raw_t *RESTRICT values, i64 row_stride, i64 column_stride,
                                      u64 n_rows, GLOBAL const tree_node_t *RESTRICT nodes,
                                      GLOBAL const u64 *RESTRICT tree_start, GLOBAL const u32 *RESTRICT sets, u32 first,
                                      u32 last, u32 n_outputs, GLOBAL const f64 *RESTRICT init, u64 stride,
                                      GLOBAL f64 *RESTRICT scores) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_rows * n_outputs; i += (u64)GROUP_COUNT * THREADS) {
        const u64 place = i % n_rows;
        const u32 output = (u32)(i / n_rows);
        GLOBAL const raw_t *row = values + (i64)place * row_stride;
        f64 score = init[output];
        for (u32 tree = first + output; tree < last; tree += n_outputs) {
            score = score + walk(row, column_stride, nodes + tree_start[tree], sets).threshold;
        }
        scores[output * stride + place] = score;
    }
}

//     leaves   i32 (n_rows, last - first)    out
KERNEL(THREADS) void find_leaves_kernel(GLOBAL const raw_t *RESTRICT values, i64 row_stride, i64 column_stride,
                                        u64 n_rows, GLOBAL const tree_node_t *RESTRICT nodes,
                                        GLOBAL const u64 *RESTRICT tree_start, GLOBAL const u32 *RESTRICT sets,
                                        u32 first, u32 last, GLOBAL i32 *RESTRICT leaves) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_rows; i += (u64)GROUP_COUNT * THREADS) {
        GLOBAL const raw_t *row = values + (i64)i * row_stride;
        for (u32 tree = first; tree < last; tree++) {
            const tree_node_t leaf = walk(row, column_stride, nodes + tree_start[tree], sets);
            leaves[i * (last - first) + (tree - first)] = (i32)leaf.column;
        }
    }
}

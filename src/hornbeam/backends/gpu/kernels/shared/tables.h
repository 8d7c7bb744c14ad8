// Tables of nodes, as tables.py has them: work is cut into pieces (tiles or chunks of rows), node after node, and
// `first` of a node is the number of its first piece; one more entry closes the list.

// The node of a piece, by bisection.
DEVICE u32 node_of_piece(GLOBAL const u32 *first, u32 n_nodes, u32 piece) {
    u32 node = 0;
    for (u32 above = n_nodes; above - node > 1;) {
        const u32 middle = (node + above) / 2;
        if (first[middle] <= piece)
            node = middle;
        else
            above = middle;
    }
    return node;
}

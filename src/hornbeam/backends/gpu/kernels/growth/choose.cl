// The best of the pieces of a node that split.cl, split_general.cl and split_bundles.cl search by themselves. A lower
// piece has the lower features, but for bundles (BUNDLED), where features lie in any column: there keys decide.
//
//     splits   split_t (n_nodes, n_pieces)   in
//     count    u32 (1,)                      in    n_nodes / children
//     best     split_t (n_nodes,)            out
#if BUNDLED
typedef u64 rank_t;
#define RANK(split, piece) \
    (((u64)(u32)(split)->feature << 32) | ((u32)(split)->bin << 1) | ((split)->missing_left & 0xFFu ? 0u : 1u))
#else
typedef u32 rank_t;
#define RANK(split, piece) (piece)
#endif

KERNEL(THREADS) void choose_kernel(GLOBAL const split_t *RESTRICT splits, GLOBAL const u32 *RESTRICT count,
                                   u32 children, u32 n_pieces, GLOBAL split_t *RESTRICT best) {
    LOCAL f64 gains[THREADS];
    LOCAL rank_t ranks[THREADS];
    LOCAL u32 winners[THREADS];
    for (u32 node = GROUP_ID; node < count[0] * children; node += GROUP_COUNT) {
        GLOBAL const split_t *own = splits + (u64)node * n_pieces;
        f64 gain = NO_GAIN;
        rank_t rank = (rank_t)NO_KEY;
        u32 winner = 0;
        for (u32 piece = LOCAL_ID; piece < n_pieces; piece += THREADS) {
            const rank_t other = RANK(own + piece, piece);
            if (IS_BETTER(own[piece].gain, other, gain, rank)) {
                gain = own[piece].gain;
                rank = other;
                winner = piece;
            }
        }
        gains[LOCAL_ID] = gain;
        ranks[LOCAL_ID] = rank;
        winners[LOCAL_ID] = winner;
        for (u32 width = THREADS / 2; width > 0; width /= 2) {
            BARRIER;
            const u32 next = LOCAL_ID + width;
            if (LOCAL_ID < width && IS_BETTER(gains[next], ranks[next], gains[LOCAL_ID], ranks[LOCAL_ID])) {
                gains[LOCAL_ID] = gains[next];
                ranks[LOCAL_ID] = ranks[next];
                winners[LOCAL_ID] = winners[next];
            }
        }
        BARRIER;
        if (LOCAL_ID == 0) best[node] = own[winners[0]];
        BARRIER;
    }
}

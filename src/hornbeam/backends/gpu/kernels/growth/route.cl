// Rows down a finished tree: all rows of a training or validation set, or those of a bag's places first to last - 1
// (`listed`). Each gets its leaf's value, or is told its leaf.
//
//     bins     columns or tiles          in    see bins.h
//     nodes    i32 (n_splits, 6)         in    feature; bin; missing left; value bins of the feature; left; right
//                                              (a child >= 0 is a split, ~child a leaf). A categorical split has 2
//                                              for missing left, and for bin the place in `nodes`, as a word, where
//                                              the bits of the bins that go left begin
//     bag      u32                       in    rows; where listed
//     leaf     u16 (n_rows,)             out   where `add` is 0
//     values   f64 (n_leaves,)           in    where it is not
//     scores   f64                       in, out   of one output, from `offset` on
//     members  member_t (n_used,)        in    BUNDLED: see bins.h
KERNEL(THREADS) void route_kernel(GLOBAL const bins_t *RESTRICT bins, u32 n_rows, GLOBAL const i32 *RESTRICT nodes,
                                  u32 n_splits, GLOBAL const u32 *RESTRICT bag, u32 listed, u32 first, u32 last,
                                  u32 add, GLOBAL u16 *leaf, GLOBAL const f64 *RESTRICT values, GLOBAL f64 *scores,
                                  u64 offset
#if BUNDLED
                                  ,
                                  GLOBAL const member_t *RESTRICT members
#endif
) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < last - first; i += (u64)GROUP_COUNT * THREADS) {
        const u32 row = listed ? bag[first + i] : (u32)(first + i);
        i32 node = n_splits > 0 ? 0 : -1;
        while (node >= 0) {
            GLOBAL const i32 *own = nodes + (u64)node * 6;
#if BUNDLED
            const member_t member = members[own[0]];
            const u32 feature = member.column;
#else
            const u32 feature = (u32)own[0];
#endif
            const i32 bin = (i32)UNBUNDLED(member, BIN_OF(ONE_FEATURE(bins, n_rows, feature), feature, row));
            i32 left = bin == own[3] ? own[2] : bin <= own[1];
            if (own[2] == 2) left = bin == own[3] ? 0 : ((GLOBAL const u32 *)nodes)[own[1] + bin / 32] >> bin % 32 & 1u;
            node = left ? own[4] : own[5];
        }
        if (add)
            scores[offset + row] = scores[offset + row] + values[~node];
        else
            leaf[row] = (u16)~node;
    }
}

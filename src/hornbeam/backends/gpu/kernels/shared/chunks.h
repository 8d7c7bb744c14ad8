// How the rows of a launch of histogram.cl are shared out: as chunks, node after node, an equal share of the list for
// each group. A node whose chunks all fall to one group is stored, not added: its slot needs no zeros.

// Rows that 32-bit counters can hold: 65,536 * 65,535 < 2^32 (hessians, unsigned), 65,536 * 32,767 < 2^31 (gradients).
#define MOST_ROWS 65536u

// First chunk of a group's share; the shares are equal but for one chunk.
#define SHARE(n_chunks, share, groups) ((u32)((u64)(n_chunks) * (share) / (groups)))

// Whether the chunks from..to of a node fall to one group, which sums them in one go.
DEVICE u32 has_one_owner(u32 from, u32 to, u32 n_chunks, u32 groups, u32 chunk_rows) {
    if (WORDS == 0 || from == to || to - from > MOST_ROWS / chunk_rows) return 0;
    const u32 owner = (u32)((((u64)from + 1) * groups - 1) / n_chunks);
    return to <= SHARE(n_chunks, owner + 1, groups);
}

// A slot is cleared in pieces, one a group at a time.
#define CLEARED_AT_ONCE   (4 * THREADS)
#define PIECES(slot_size) (((slot_size) + CLEARED_AT_ONCE - 1) / CLEARED_AT_ONCE)

DEVICE void clear_piece(GLOBAL i64 *histograms, u32 slot, u32 piece, u32 slot_size) {
    const u32 from = piece * CLEARED_AT_ONCE;
    const u32 to = from + CLEARED_AT_ONCE < slot_size ? from + CLEARED_AT_ONCE : slot_size;
    GLOBAL i64 *out = histograms + (u64)slot * slot_size;
    for (u32 i = from + LOCAL_ID; i < to; i += THREADS) out[i] = 0;
}

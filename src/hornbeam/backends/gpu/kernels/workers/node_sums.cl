// Histograms of one worker's rows as they travel to the others: the bins that features have, without padding, the sums
// of a bin side by side, and all that goes to one worker in one piece.
//
//     histograms   i64 (n_slots, slot_size)                               in    see layout.py
//     slots        i32 (n_here,)                                          in    of the nodes; -1: no rows, all zeros
//     bins         u32 (n_bins, 3)                                        in    place of a bin's first sum in a slot;
//                                                                               section; place in the section
//     sums         sum_t (n_sections, n_nodes, section_bins, STATS)       out   of the nodes from first_node on
//
// The other sums of a bin lie `plane` apart in a slot. A section may have fewer bins than section_bins: what is behind
// them is not written.
#if VALUE_BYTES == 4
typedef i32 sum_t;
#else
typedef i64 sum_t;
#endif

KERNEL(THREADS) void node_sums_kernel(GLOBAL const i64 *RESTRICT histograms, u64 slot_size, u32 plane,
                                      GLOBAL const i32 *RESTRICT slots, u32 n_here, u32 first_node, u32 n_nodes,
                                      GLOBAL const u32 *RESTRICT bins, u32 n_bins, u32 section_bins,
                                      GLOBAL sum_t *RESTRICT sums) {
    const u64 n_items = (u64)n_here * n_bins;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_items; i += (u64)GROUP_COUNT * THREADS) {
        const u32 here = (u32)(i / n_bins), bin = (u32)(i % n_bins);
        const i32 slot = slots[here];
        const u64 from = (slot < 0 ? 0 : (u64)slot) * slot_size + bins[bin * 3];
        const u64 to = ((u64)bins[bin * 3 + 1] * n_nodes + first_node + here) * section_bins + bins[bin * 3 + 2];
        UNROLL for (u32 k = 0; k < STATS; k++) {
            sums[to * STATS + k] = slot < 0 ? 0 : (sum_t)histograms[from + (u64)k * plane];
        }
    }
}

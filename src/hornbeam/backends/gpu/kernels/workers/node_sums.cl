// Histograms of one worker's rows as they travel to the others (backends/histogram_messages.py): the bins that features
// have, without padding, one kind of sums after the other, what goes to one worker in one piece.
//
//     histograms   i64 (n_slots, slot_size)         in    see layout.py; the sums of a bin lie `plane` apart
//     table        i64 (n_nodes, 2 + n_sections)    in    slot of a node, -1: it has no rows, all sums are 0;
//                                                         whether its sums have 32 bits, else 64;
//                                                         first word of its sums in each section
//     bins         u32 (n_bins, 4)                  in    place of a bin's first sum in a slot; its section; its place
//                                                         in the section; bins of the section
//     words        i64                              out
KERNEL(THREADS) void node_sums_kernel(GLOBAL const i64 *RESTRICT histograms, u64 slot_size, u32 plane,
                                      GLOBAL const i64 *RESTRICT table, u32 n_nodes, u32 n_sections,
                                      GLOBAL const u32 *RESTRICT bins, u32 n_bins, GLOBAL i64 *words) {
    const u64 n_items = (u64)n_nodes * n_bins;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_items; i += (u64)GROUP_COUNT * THREADS) {
        GLOBAL const u32 *own = bins + i % n_bins * 4;
        GLOBAL const i64 *node = table + i / n_bins * (2 + n_sections);
        const i64 slot = node[0];
        GLOBAL const i64 *from = histograms + (slot < 0 ? 0 : slot) * slot_size + own[0];
        GLOBAL i64 *to = words + node[2 + own[1]];
        UNROLL for (u32 k = 0; k < STATS; k++) {
            const i64 sum = slot < 0 ? 0 : from[(u64)k * plane];
            const u64 place = (u64)k * own[3] + own[2];
            if (node[1])
                ((GLOBAL u32 *)to)[place] = (u32)sum;
            else
                to[place] = sum;
        }
    }
}

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

// The way back: sums of one section that were added up over workers, into the histograms of their nodes.
//
//     words        i64 (n_nodes, stride)            in    laid out as above, all sums of 32 bits or all of 64
//     slots        i64 (n_nodes,)                   in
//     bins         u32 (n_bins of all, 4)           in    as above; the section has n_bins from first_bin on
//     histograms   i64 (n_slots, slot_size)         out   other bins stay as they are
KERNEL(THREADS) void section_sums_kernel(GLOBAL const i64 *RESTRICT words, u64 stride, u32 is_narrow,
                                         GLOBAL const i64 *RESTRICT slots, u32 n_nodes, GLOBAL const u32 *RESTRICT bins,
                                         u32 first_bin, u32 n_bins, GLOBAL i64 *RESTRICT histograms, u64 slot_size,
                                         u32 plane) {
    const u64 n_items = (u64)n_nodes * n_bins;
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n_items; i += (u64)GROUP_COUNT * THREADS) {
        const u64 node = i / n_bins, bin = i % n_bins;
        GLOBAL const i64 *from = words + node * stride;
        GLOBAL i64 *to = histograms + slots[node] * slot_size + bins[(first_bin + bin) * 4];
        UNROLL for (u32 k = 0; k < STATS; k++) {
            const u64 place = (u64)k * n_bins + bin;
            const u32 narrow = is_narrow ? ((GLOBAL const u32 *)from)[place] : 0;  // only gradients have a sign
            to[(u64)k * plane] = is_narrow ? (k == 0 ? (i64)(i32)narrow : (i64)narrow) : from[place];
        }
    }
}

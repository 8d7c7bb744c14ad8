// A stable sort of 64-bit keys with 32-bit payloads, digit by digit of 8 bits, least significant first. Three launches
// a digit, and no more of the device than local memory and barriers:
//
//     count     digits of each tile                                         counts   u32 (256, n_tiles)
//     scan      before each tile, those of the same digit; totals           totals   u32 (256,)
//     scatter   a tile is sorted in local memory, then written run by run
//
//   keys       u64 (n,)    payload   u32 (n,)
//   shift      0, 8, ..., 56
//   EACH       keys of a thread
#define TILE            (THREADS * EACH)
#define DIGIT_OF(key)   ((u32)((key) >> shift) & 0xFFu)
#define HALF_OF(key, h) (DIGIT_OF(key) >> (4 * (h)) & 0xFu)

KERNEL(THREADS) void digit_counts_kernel(GLOBAL const u64 *RESTRICT keys, u32 n, u32 shift, u32 n_tiles,
                                         GLOBAL u32 *RESTRICT counts) {
    LOCAL u32 own[256];
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        for (u32 i = LOCAL_ID; i < 256; i += THREADS) own[i] = 0;
        BARRIER;
        const u32 from = tile * TILE, n_here = n - from < TILE ? n - from : TILE;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) ADD_LOCAL32(&own[DIGIT_OF(keys[from + i])], 1);
        BARRIER;
        for (u32 i = LOCAL_ID; i < 256; i += THREADS) counts[(u64)i * n_tiles + tile] = own[i];
        BARRIER;
    }
}

// A group takes a digit.
//
//   counts   in: as counted   out: those of all tiles before
KERNEL(THREADS) void digit_scan_kernel(GLOBAL u32 *RESTRICT counts, u32 n_tiles, GLOBAL u32 *RESTRICT totals) {
    LOCAL u32 sums[THREADS];
    for (u32 digit = GROUP_ID; digit < 256; digit += GROUP_COUNT) {
        GLOBAL u32 *own = counts + (u64)digit * n_tiles;
        u32 so_far = 0;
        for (u32 first = 0; first < n_tiles; first += THREADS) {
            const u32 count = first + LOCAL_ID < n_tiles ? own[first + LOCAL_ID] : 0u;
            u32 before, total;
            SCAN(sums, count, before, total);
            if (first + LOCAL_ID < n_tiles) own[first + LOCAL_ID] = so_far + before;
            so_far += total;
        }
        if (LOCAL_ID == 0) totals[digit] = so_far;
    }
}

// Inside of a tile two stable passes of 4 bits: each thread counts its own keys by their 16 values, `places` counts
// those of smaller value, or of the same value and an earlier thread, and tells each key where it goes. What lies
// behind the last key counts as the largest value, and so stays behind.
KERNEL(THREADS) void digit_scatter_kernel(GLOBAL const u64 *RESTRICT keys, GLOBAL const u32 *RESTRICT payload, u32 n,
                                          u32 shift, u32 n_tiles, GLOBAL const u32 *RESTRICT counts,
                                          GLOBAL const u32 *RESTRICT totals, GLOBAL u64 *RESTRICT out_keys,
                                          GLOBAL u32 *RESTRICT out_payload) {
    LOCAL u64 k[TILE];
    LOCAL u32 p[TILE];
    LOCAL u16 places[16 * THREADS];
    LOCAL u32 sums[THREADS];
    LOCAL u32 base[256];   // where the keys of a digit begin in the result
    LOCAL u32 start[256];  // and in the sorted tile
    if (LOCAL_ID == 0) {
        u32 so_far = 0;
        for (u32 i = 0; i < 256; i++) {
            base[i] = so_far;
            so_far += totals[i];
        }
    }
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 from = tile * TILE, n_here = n - from < TILE ? n - from : TILE;
        BARRIER;
        for (u32 i = LOCAL_ID; i < TILE; i += THREADS) {
            k[i] = i < n_here ? keys[from + i] : 0xFFFFFFFFFFFFFFFFu;
            p[i] = i < n_here ? payload[from + i] : 0u;
        }
        BARRIER;
        for (u32 h = 0; h < 2; h++) {
            u64 own_k[EACH];
            u32 own_p[EACH];
            for (u32 value = 0; value < 16; value++) places[value * THREADS + LOCAL_ID] = 0;
            for (u32 j = 0; j < EACH; j++) {
                own_k[j] = k[LOCAL_ID * EACH + j];
                own_p[j] = p[LOCAL_ID * EACH + j];
                places[HALF_OF(own_k[j], h) * THREADS + LOCAL_ID] += 1;
            }
            BARRIER;
            u32 count = 0;
            for (u32 i = LOCAL_ID * 16; i < LOCAL_ID * 16 + 16; i++) {
                const u32 here = places[i];
                places[i] = (u16)count;
                count += here;
            }
            u32 before, total;
            SCAN(sums, count, before, total);
            for (u32 i = LOCAL_ID * 16; i < LOCAL_ID * 16 + 16; i++) places[i] += (u16)before;
            BARRIER;
            for (u32 j = 0; j < EACH; j++) {
                const u32 counter = HALF_OF(own_k[j], h) * THREADS + LOCAL_ID, to = places[counter];
                places[counter] = (u16)(to + 1);
                k[to] = own_k[j];
                p[to] = own_p[j];
            }
            BARRIER;
        }
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            if (i == 0 || DIGIT_OF(k[i]) != DIGIT_OF(k[i - 1])) start[DIGIT_OF(k[i])] = i;
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u32 digit = DIGIT_OF(k[i]);
            const u32 to = base[digit] + counts[(u64)digit * n_tiles + tile] + (i - start[digit]);
            out_keys[to] = k[i];
            out_payload[to] = p[i];
        }
    }
}

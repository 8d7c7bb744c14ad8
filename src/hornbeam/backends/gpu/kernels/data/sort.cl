// A stable sort of keys inside of segments of equal length, digit by digit of 8 bits, least significant first. Four
// launches a digit, and no more of the device than local memory and barriers:
//
//     count     digits of each tile                                         counts   u32 (n_segments, 256, n_tiles)
//     scan      before each tile, those of the same digit; totals           totals   u32 (n_segments, 256)
//     begin     where the keys of each digit begin in their segment         totals   in place
//     scatter   a tile is sorted in local memory, then written run by run
//
//   keys       raw_t (n_segments, n)    of VALUE_BYTES
//   payload    u32 (n_segments, n)      goes with the keys; neither read nor written without PAYLOAD
//   n_tiles    of a segment
//   shift      0, 8, ..., of 8 * VALUE_BYTES bits
//   EACH       keys of a thread
#define TILE            (THREADS * EACH)
#define DIGIT_OF(key)   ((u32)((key) >> shift) & 0xFFu)
#define HALF_OF(key, h) (DIGIT_OF(key) >> (4 * (h)) & 0xFu)

KERNEL(THREADS) void digit_counts_kernel(GLOBAL const raw_t *RESTRICT keys, u32 n, u32 n_segments, u32 shift,
                                         u32 n_tiles, GLOBAL u32 *RESTRICT counts) {
    LOCAL u32 own[256];
    for (u32 item = GROUP_ID; item < n_segments * n_tiles; item += GROUP_COUNT) {
        const u32 segment = item / n_tiles, tile = item % n_tiles;
        for (u32 i = LOCAL_ID; i < 256; i += THREADS) own[i] = 0;
        BARRIER;
        GLOBAL const raw_t *here = keys + (u64)segment * n + tile * TILE;
        const u32 n_here = n - tile * TILE < TILE ? n - tile * TILE : TILE;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) ADD_LOCAL32(&own[DIGIT_OF(here[i])], 1);
        BARRIER;
        for (u32 i = LOCAL_ID; i < 256; i += THREADS) counts[((u64)segment * 256 + i) * n_tiles + tile] = own[i];
        BARRIER;
    }
}

// A group takes a digit of a segment; where there are few tiles, a thread does.
//
//   counts   in: as counted   out: those of all tiles before
#define FEW_TILES 32
KERNEL(THREADS) void digit_scan_kernel(GLOBAL u32 *RESTRICT counts, u32 n_segments, u32 n_tiles,
                                       GLOBAL u32 *RESTRICT totals) {
    LOCAL u32 sums[THREADS];
    if (n_tiles <= FEW_TILES) {
        for (u32 digit = GROUP_ID * THREADS + LOCAL_ID; digit < n_segments * 256; digit += GROUP_COUNT * THREADS) {
            u32 so_far = 0;
            for (u64 at = (u64)digit * n_tiles; at < (u64)(digit + 1) * n_tiles; at++) {
                const u32 count = counts[at];
                counts[at] = so_far;
                so_far += count;
            }
            totals[digit] = so_far;
        }
        return;
    }
    for (u32 digit = GROUP_ID; digit < n_segments * 256; digit += GROUP_COUNT) {
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

// A group takes a segment.
KERNEL(THREADS) void digit_begin_kernel(GLOBAL u32 *RESTRICT totals, u32 n_segments) {
    LOCAL u32 sums[THREADS];
    for (u32 segment = GROUP_ID; segment < n_segments; segment += GROUP_COUNT) {
        GLOBAL u32 *own = totals + segment * 256;
        u32 so_far = 0;
        for (u32 first = 0; first < 256; first += THREADS) {
            const u32 digit = first + LOCAL_ID, count = digit < 256 ? own[digit] : 0u;
            u32 before, total;
            SCAN(sums, count, before, total);
            if (digit < 256) own[digit] = so_far + before;
            so_far += total;
        }
    }
}

// Inside of a tile two stable passes of 4 bits: each thread counts its own keys by their 16 values, `places` counts
// those of smaller value, or of the same value and an earlier thread, and tells each key where it goes. What lies
// behind the last key counts as the largest value, and so stays behind.
KERNEL(THREADS) void digit_scatter_kernel(GLOBAL const raw_t *RESTRICT keys, GLOBAL const u32 *RESTRICT payload, u32 n,
                                          u32 n_segments, u32 shift, u32 n_tiles, GLOBAL const u32 *RESTRICT counts,
                                          GLOBAL const u32 *RESTRICT begins, GLOBAL raw_t *RESTRICT out_keys,
                                          GLOBAL u32 *RESTRICT out_payload) {
    LOCAL raw_t k[TILE];
#if PAYLOAD
    LOCAL u32 p[TILE];
#endif
    LOCAL u16 places[16 * THREADS];
    LOCAL u32 sums[THREADS];
    LOCAL u32 start[256];  // of the keys of a digit in the sorted tile
    for (u32 item = GROUP_ID; item < n_segments * n_tiles; item += GROUP_COUNT) {
        const u32 segment = item / n_tiles, tile = item % n_tiles;
        const u32 from = tile * TILE, n_here = n - from < TILE ? n - from : TILE;
        const u64 begin = (u64)segment * n;
        BARRIER;
        for (u32 i = LOCAL_ID; i < TILE; i += THREADS) {
            k[i] = i < n_here ? keys[begin + from + i] : (raw_t)0 - 1;
#if PAYLOAD
            p[i] = i < n_here ? payload[begin + from + i] : 0u;
#endif
        }
        BARRIER;
        for (u32 h = 0; h < 2; h++) {
            raw_t own_k[EACH];
#if PAYLOAD
            u32 own_p[EACH];
#endif
            for (u32 value = 0; value < 16; value++) places[value * THREADS + LOCAL_ID] = 0;
            for (u32 j = 0; j < EACH; j++) {
                own_k[j] = k[LOCAL_ID * EACH + j];
#if PAYLOAD
                own_p[j] = p[LOCAL_ID * EACH + j];
#endif
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
#if PAYLOAD
                p[to] = own_p[j];
#endif
            }
            BARRIER;
        }
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            if (i == 0 || DIGIT_OF(k[i]) != DIGIT_OF(k[i - 1])) start[DIGIT_OF(k[i])] = i;
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            const u32 digit = DIGIT_OF(k[i]);
            const u64 of_segment = (u64)segment * 256 + digit;
            const u64 to = begin + begins[of_segment] + counts[of_segment * n_tiles + tile] + (i - start[digit]);
            out_keys[to] = k[i];
#if PAYLOAD
            out_payload[to] = p[i];
#endif
        }
    }
}

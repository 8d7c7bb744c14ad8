// Sums over the threads of a group, all of which take part: `before` becomes the sum of the values of the threads
// before this one, `total` that of all. Values are u32; `sums` is a local array of THREADS of them.
#ifdef __CUDACC__
DEVICE u32 sum_in_warp(u32 value) {
    UNROLL for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 lower = __shfl_up_sync(0xFFFFFFFFu, value, distance);
        value += threadIdx.x % 32 >= distance ? lower : 0u;
    }
    return value;
}

#define SCAN(sums, value, before, total)                                                     \
    do {                                                                                     \
        const u32 scanned_ = value, in_warp_ = sum_in_warp(scanned_), warp_ = LOCAL_ID / 32; \
        if (LOCAL_ID % 32 == 31) sums[warp_] = in_warp_;                                     \
        BARRIER;                                                                             \
        if (warp_ == 0) {                                                                    \
            const u32 warps_ = sum_in_warp(LOCAL_ID < THREADS / 32 ? sums[LOCAL_ID] : 0u);   \
            sums[LOCAL_ID] = warps_;                                                         \
        }                                                                                    \
        BARRIER;                                                                             \
        before = in_warp_ - scanned_ + (warp_ > 0 ? sums[warp_ - 1] : 0u);                   \
        total = sums[THREADS / 32 - 1];                                                      \
        BARRIER;                                                                             \
    } while (0)
#else
#define SCAN(sums, value, before, total)                                                \
    do {                                                                                \
        const u32 scanned_ = value;                                                     \
        sums[LOCAL_ID] = scanned_;                                                      \
        BARRIER;                                                                        \
        for (u32 distance_ = 1; distance_ < THREADS; distance_ *= 2) {                  \
            const u32 lower_ = LOCAL_ID >= distance_ ? sums[LOCAL_ID - distance_] : 0u; \
            BARRIER;                                                                    \
            sums[LOCAL_ID] += lower_;                                                   \
            BARRIER;                                                                    \
        }                                                                               \
        before = sums[LOCAL_ID] - scanned_;                                             \
        total = sums[THREADS - 1];                                                      \
        BARRIER;                                                                        \
    } while (0)
#endif

// Sums over the threads of a group, all of which take part: `before` becomes the sum of the values of the threads
// before this one, `total` that of all. Values are u32; `sums` is a local array of THREADS of them.
//
// SCAN_LANES does n such sums of i64 at once, of threads with the same LOCAL_ID % lanes: `upto` with the thread's own
// value; `sums` is a local array of n * THREADS, which may be used again after the next barrier.
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

DEVICE i64 sum_in_lane(i64 value, u32 lanes) {
    UNROLL for (u32 distance = lanes; distance < 32; distance *= 2) {
        const i64 lower = __shfl_up_sync(0xFFFFFFFFu, value, distance);
        value += threadIdx.x % 32 >= distance ? lower : 0;
    }
    return value;
}

#define SCAN_LANES(sums, n, lanes, values, upto, total)                                                              \
    do {                                                                                                             \
        const u32 warp_ = LOCAL_ID / 32;                                                                             \
        UNROLL for (u32 i_ = 0; i_ < (n); i_++) {                                                                    \
            upto[i_] = sum_in_lane(values[i_], lanes);                                                               \
            if (LOCAL_ID % 32 >= 32 - (lanes)) sums[i_ * THREADS + warp_ * (lanes) + LOCAL_ID % (lanes)] = upto[i_]; \
        }                                                                                                            \
        BARRIER;                                                                                                     \
        UNROLL for (u32 i_ = 0; i_ < (n); i_++) {                                                                    \
            total[i_] = 0;                                                                                           \
            UNROLL for (u32 w_ = 0; w_ < THREADS / 32; w_++) {                                                       \
                const i64 other_ = sums[i_ * THREADS + w_ * (lanes) + LOCAL_ID % (lanes)];                           \
                upto[i_] += w_ < warp_ ? other_ : 0;                                                                 \
                total[i_] += other_;                                                                                 \
            }                                                                                                        \
        }                                                                                                            \
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

#define SCAN_LANES(sums, n, lanes, values, upto, total)                                           \
    do {                                                                                          \
        UNROLL for (u32 i_ = 0; i_ < (n); i_++) sums[i_ * THREADS + LOCAL_ID] = values[i_];       \
        BARRIER;                                                                                  \
        for (u32 distance_ = (lanes); distance_ < THREADS; distance_ *= 2) {                      \
            UNROLL for (u32 i_ = 0; i_ < (n); i_++) {                                             \
                upto[i_] = LOCAL_ID >= distance_ ? sums[i_ * THREADS + LOCAL_ID - distance_] : 0; \
            }                                                                                     \
            BARRIER;                                                                              \
            UNROLL for (u32 i_ = 0; i_ < (n); i_++) sums[i_ * THREADS + LOCAL_ID] += upto[i_];    \
            BARRIER;                                                                              \
        }                                                                                         \
        UNROLL for (u32 i_ = 0; i_ < (n); i_++) {                                                 \
            upto[i_] = sums[i_ * THREADS + LOCAL_ID];                                             \
            total[i_] = sums[i_ * THREADS + THREADS - (lanes) + LOCAL_ID % (lanes)];              \
        }                                                                                         \
    } while (0)
#endif

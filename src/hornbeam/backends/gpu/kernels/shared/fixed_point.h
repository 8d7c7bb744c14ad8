// Fixed point on the device: scales as in hornbeam/core/fixed_point.py, and what groups of threads need to agree on
// them.

// Combines one value a thread into array[0]; in any order, so values are integers, or the larger or smaller is kept.
#ifdef __CUDACC__
#define REDUCE(array, combine)                                                   \
    do {                                                                         \
        auto own_ = array[LOCAL_ID];                                             \
        UNROLL for (u32 width_ = 16; width_ > 0; width_ /= 2) {                  \
            const auto other_ = __shfl_down_sync(0xFFFFFFFFu, own_, width_);     \
            own_ = combine(own_, other_);                                        \
        }                                                                        \
        BARRIER;                                                                 \
        if (LOCAL_ID % 32 == 0) array[LOCAL_ID / 32] = own_;                     \
        BARRIER;                                                                 \
        if (LOCAL_ID < 32) {                                                     \
            if (LOCAL_ID < THREADS / 32) own_ = array[LOCAL_ID];                 \
            UNROLL for (u32 width_ = THREADS / 64; width_ > 0; width_ /= 2) {    \
                const auto other_ = __shfl_down_sync(0xFFFFFFFFu, own_, width_); \
                own_ = combine(own_, other_);                                    \
            }                                                                    \
            if (LOCAL_ID == 0) array[0] = own_;                                  \
        }                                                                        \
        BARRIER;                                                                 \
    } while (0)
#else
#define REDUCE(array, combine)                                                   \
    for (u32 width = THREADS / 2; width > 0; width /= 2) {                       \
        BARRIER;                                                                 \
        if (LOCAL_ID < width) {                                                  \
            array[LOCAL_ID] = combine(array[LOCAL_ID], array[LOCAL_ID + width]); \
        }                                                                        \
    }                                                                            \
    BARRIER
#endif
#define LARGER(a, b)  ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define SUM(a, b)     ((a) + (b))

// 2**e with the largest e such that value * 2**e < 2**bits, but at most 2**1000; 1 for value 0.
DEVICE f64 scale_for(f64 value, i32 bits) {
    if (value == 0.0) return 1.0;
    const i32 above = (i32)((F64_TO_BITS(value) >> 52) & 0x7FF) - 1022;  // frexp; subnormal numbers end at 1000 anyway
    const i32 e = bits - above < 1000 ? bits - above : 1000;
    return BITS_TO_F64((i64)(e + 1023) << 52);
}

// The scale of an exact sum of n values: fixed_point.exact_exponent.
DEVICE f64 exact_scale(f64 largest, u64 n) {
    i32 bits = 62;
    for (u64 rest = n; rest != 0; rest >>= 1) bits -= 1;
    return scale_for(largest, bits < 52 ? bits : 52);
}

// The bits of |value|: as integers they are in the order of the values, NaN above infinity above all numbers.
#define SIZE_BITS(value) ((u64)F64_TO_BITS(value) & 0x7FFFFFFFFFFFFFFFu)

// What the host learns of an exact sum; REPORT in metrics.py.
typedef struct {
    u64 largest;      // bits of the largest |value|
    i64 sum;          // of the values in fixed point: fixed_point.exact_exponent(largest, count); zero at first
    u64 count;        // values
    u64 not_numbers;  // scores that are NaN, where it matters
} sum_report_t;

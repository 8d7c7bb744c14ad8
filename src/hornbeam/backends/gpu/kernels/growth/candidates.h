// Candidate splits: which of two is better, and the best one of a group of threads.
//
// Ties: higher gain, then lower feature, then lower bin, then missing left. The last three are one number, the key
// (feature | bin | side), so whoever compares (gain, key) finds the same winner in any order.
#define NO_GAIN BITS_TO_F64(0xFFF0000000000000)
#define NO_KEY  0xFFFFFFFFFFFFFFFF
#define NOISE   9.094947017729282e-13 /* splitting.ROUNDING_NOISE = 2**-40 */

// Whether (gain, key) a comes before b.
#define IS_BETTER(gain_a, key_a, gain_b, key_b) ((gain_a) > (gain_b) || ((gain_a) == (gain_b) && (key_a) < (key_b)))

// Brings the best of all threads to the front of two local arrays of THREADS; all threads take part.
#define FIND_BEST(gains, keys, own_gain, own_key)                                                               \
    do {                                                                                                        \
        gains[LOCAL_ID] = own_gain;                                                                             \
        keys[LOCAL_ID] = own_key;                                                                               \
        for (u32 width_ = THREADS / 2; width_ > 0; width_ /= 2) {                                               \
            BARRIER;                                                                                            \
            const u32 other_ = LOCAL_ID + width_;                                                               \
            if (LOCAL_ID < width_ && IS_BETTER(gains[other_], keys[other_], gains[LOCAL_ID], keys[LOCAL_ID])) { \
                gains[LOCAL_ID] = gains[other_];                                                                \
                keys[LOCAL_ID] = keys[other_];                                                                  \
            }                                                                                                   \
        }                                                                                                       \
        BARRIER;                                                                                                \
    } while (0)

// Whether this thread has the best one, or is to say that there is none: a key belongs to one thread.
#define HAS_BEST(keys, own_key) (keys[0] == NO_KEY ? LOCAL_ID == 0 : keys[0] == (own_key))

DEVICE void store_split(GLOBAL split_t *out, f64 gain, u64 key, i64 left_gradient, i64 left_hessian) {
    const u32 found = key != NO_KEY;
    out->gain = gain;
    out->left_gradient = left_gradient;
    out->left_hessian = left_hessian;
    out->feature = found ? (i32)(key >> 32) : -1;
    out->bin = found ? (i32)((u32)key >> 1) : -1;
    out->missing_left = found && key % 2 == 0;
    out->padding = 0;
}

// The histogram kernel of Zhang, Si, Hsieh, "GPU-acceleration for Large-scale Tree Boosting" (2017), as a baseline.
//
// Our own code in our portable dialect. What the paper's text leaves open (the order of the interleaved counters, which
// thread takes which bank, reading one row ahead) follows the authors' released code, LightGBM's histogram64.cl. Each
// mechanism is a -D flag, so that it can be timed alone:
//
//     FEATURES     4: one byte a feature (section 4); 8: half a byte, for at most 16 bins (appendix C.4)
//     ROTATED      Algorithm 2: threads of a warp begin at different features, half of them with the hessian
//     NUM_BANKS    copies of the counters, summed at the end (A.1)
//     INTERLEAVED  0: [bank][kind][feature][bin], one histogram after another; 1: [bin][bank][kind][feature]
//     LAST_BIN     the bin that was met last is summed in registers (A.4)
//     COUNTED      rows are counted as well: 3 statistics, as section 4 has it
//     DOUBLED      counters of 64 bits (A.6)
//     N_BINS       16, 64 or 256; with fewer bins in use the host spreads them (A.3), and reduce_kernel folds them back
//
// A group works on one tuple of features and on a share of the rows (section 4, "Parallel By Features and Data"):
//
//     tuples           u32 (n_tuples, n_rows)   in    feature p of a tuple lies in bits [p * BITS, (p + 1) * BITS)
//     rows             u32 (n_node_rows,)       in    ascending; not read if is_root
//     gradients, ..    f32 (n_node_rows,)       in    in the order of rows
//     partial          sum_t (n_tuples, groups_a_tuple, 2, FEATURES, N_BINS)   out
//     partial_counts   u32   (n_tuples, groups_a_tuple, FEATURES, N_BINS)      out, if COUNTED
#define BITS     (32 / FEATURES)
#define MASK     ((1u << BITS) - 1u)
#define KINDS    2
#define N_SUMS   (KINDS * FEATURES * N_BINS)
#define N_COUNTS (FEATURES * N_BINS)

#if DOUBLED
typedef double sum_t;
#define WORDS_A_SUM 2
#else
typedef float sum_t;
#define WORDS_A_SUM 1
#endif
#define LOCAL_WORDS (NUM_BANKS * (N_SUMS * WORDS_A_SUM + COUNTED * N_COUNTS))

// B.3: a float is added in local memory by compare-and-swap, on NVIDIA too, where the compiler makes the loop.
#ifdef __OPENCL_VERSION__
#define OF_LOCAL __local
#if DOUBLED
typedef u64 bits_t;
#define SWAP(place, seen, next) atom_cmpxchg(place, seen, next)
#define AS_BITS                 as_ulong
#define AS_SUM                  as_double
#else
typedef u32 bits_t;
#define SWAP(place, seen, next) atomic_cmpxchg(place, seen, next)
#define AS_BITS                 as_uint
#define AS_SUM                  as_float
#endif
static inline void add_local_sum(volatile __local sum_t *place, sum_t value) {
    volatile __local bits_t *bits = (volatile __local bits_t *)place;
    bits_t expected, seen = *bits;
    do {
        expected = seen;
        seen = SWAP(bits, expected, AS_BITS(AS_SUM(expected) + value));
    } while (seen != expected);
}
#define ADD_LOCAL_SUM(place, value) add_local_sum(place, value)
#else
#define OF_LOCAL
#define ADD_LOCAL_SUM(place, value) atomicAdd(place, value)
#endif

#if INTERLEAVED
// The memory bank of a counter does not depend on the bin, only on thread and step.
#define PLACE(kind, feature, bin) ((((bin) * NUM_BANKS + bank) * KINDS + (kind)) * FEATURES + (feature))
#define COUNT_PLACE(feature, bin) (((bin) * NUM_BANKS + bank) * FEATURES + (feature))
#else
#define PLACE(kind, feature, bin) (((bank * KINDS + (kind)) * FEATURES + (feature)) * N_BINS + (bin))
#define COUNT_PLACE(feature, bin) ((bank * FEATURES + (feature)) * N_BINS + (bin))
#endif

// Lines 10 and 11 of Algorithm 2 without an "if": thread by thread `first` is the gradient or the hessian.
#define ADD_PAIR(feature, bin, first, second)            \
    ADD_LOCAL_SUM(&sums[PLACE(c, feature, bin)], first); \
    ADD_LOCAL_SUM(&sums[PLACE(1u - c, feature, bin)], second)

KERNEL(THREADS) void paper_histogram_kernel(GLOBAL const u32 *RESTRICT tuples, GLOBAL const u32 *RESTRICT rows,
                                            GLOBAL const float *RESTRICT gradients,
                                            GLOBAL const float *RESTRICT hessians, u32 n_node_rows, u32 n_rows,
                                            u32 is_root, u32 groups_a_tuple, GLOBAL sum_t *RESTRICT partial,
                                            GLOBAL u32 *RESTRICT partial_counts) {
    BIG_LOCAL(u64, room, (LOCAL_WORDS + 1) / 2);
    OF_LOCAL sum_t *sums = (OF_LOCAL sum_t *)room;
    OF_LOCAL u32 *words = (OF_LOCAL u32 *)room;
#if COUNTED
    OF_LOCAL u32 *counts = words + NUM_BANKS * N_SUMS * WORDS_A_SUM;
#endif
    for (u32 i = LOCAL_ID; i < LOCAL_WORDS; i += THREADS) words[i] = 0;
    BARRIER;

    const u32 tuple = GROUP_ID / groups_a_tuple, share = GROUP_ID % groups_a_tuple;
    GLOBAL const u32 *own = tuples + (u64)tuple * n_rows;
#if ROTATED
    const u32 s = LOCAL_ID % FEATURES, c = LOCAL_ID / FEATURES % 2;
#else
    const u32 s = 0, c = 0;
#endif
    u32 bank = LOCAL_ID / (2 * FEATURES) % NUM_BANKS;
#if LAST_BIN
    u32 last[FEATURES], repeats[FEATURES];
    sum_t first_of[FEATURES], second_of[FEATURES];
    UNROLL for (u32 l = 0; l < FEATURES; l++) {
        last[l] = repeats[l] = 0;
        first_of[l] = second_of[l] = 0;
    }
#endif

    // The next row is read before this one is added: gathering from global memory takes long.
    const u32 step = groups_a_tuple * THREADS;
    u32 i = share * THREADS + LOCAL_ID;
    u32 next_word = 0;
    float next_gradient = 0, next_hessian = 0;
    if (i < n_node_rows) {
        next_word = own[is_root ? i : rows[i]];
        next_gradient = gradients[i];
        next_hessian = hessians[i];
    }
    while (i < n_node_rows) {
        const u32 word = next_word;
        const float first = c ? next_hessian : next_gradient, second = c ? next_gradient : next_hessian;
        i += step;
        if (i < n_node_rows) {
            next_word = own[is_root ? i : rows[i]];
            next_gradient = gradients[i];
            next_hessian = hessians[i];
        }
        UNROLL for (u32 l = 0; l < FEATURES; l++) {
            const u32 p = (l + s) % FEATURES;
            const u32 bin = (word >> (BITS * p)) & MASK;
#if LAST_BIN
            if (bin != last[l]) {
                if (repeats[l] != 0) {
                    ADD_PAIR(p, last[l], first_of[l], second_of[l]);
#if COUNTED
                    ADD_LOCAL32(&counts[COUNT_PLACE(p, last[l])], repeats[l]);
#endif
                }
                last[l] = bin;
                repeats[l] = 0;
                first_of[l] = second_of[l] = 0;
            }
            first_of[l] += first;
            second_of[l] += second;
            repeats[l]++;
#else
            ADD_PAIR(p, bin, first, second);
#if COUNTED
            ADD_LOCAL32(&counts[COUNT_PLACE(p, bin)], 1u);
#endif
#endif
        }
    }
#if LAST_BIN
    UNROLL for (u32 l = 0; l < FEATURES; l++) {
        const u32 p = (l + s) % FEATURES;
        if (repeats[l] != 0) {
            ADD_PAIR(p, last[l], first_of[l], second_of[l]);
#if COUNTED
            ADD_LOCAL32(&counts[COUNT_PLACE(p, last[l])], repeats[l]);
#endif
        }
    }
#endif
    BARRIER;

    // A.1: "counter values of all banks will be summed up to one value".
    for (u32 at = LOCAL_ID; at < N_SUMS; at += THREADS) {
        const u32 bin = at % N_BINS, feature = at / N_BINS % FEATURES, kind = at / N_COUNTS;
        sum_t sum = 0;
        for (bank = 0; bank < NUM_BANKS; bank++) sum += sums[PLACE(kind, feature, bin)];
        partial[(u64)GROUP_ID * N_SUMS + at] = sum;
    }
#if COUNTED
    for (u32 at = LOCAL_ID; at < N_COUNTS; at += THREADS) {
        const u32 bin = at % N_BINS, feature = at / N_BINS;
        u32 count = 0;
        for (bank = 0; bank < NUM_BANKS; bank++) count += counts[COUNT_PLACE(feature, bin)];
        partial_counts[(u64)GROUP_ID * N_COUNTS + at] = count;
    }
#endif
}

// Section 4: "a final reduction program (also runs on GPU)" merges the histograms of the groups of a tuple. It also
// folds spread bins (A.3), which the authors did on the CPU: bin b is the sum of b * m .. (b + 1) * m - 1.
//
//     spread   u32   (n_tuples * FEATURES,)               in    m of each feature, 1: not spread
//     out      sum_t (n_tuples, 2, FEATURES, N_BINS)      out
//     counts   u32   (n_tuples, FEATURES, N_BINS)         out, if COUNTED
KERNEL(THREADS) void paper_reduce_kernel(GLOBAL const sum_t *RESTRICT partial,
                                         GLOBAL const u32 *RESTRICT partial_counts, GLOBAL const u32 *RESTRICT spread,
                                         u32 n_tuples, u32 groups_a_tuple, GLOBAL sum_t *RESTRICT out,
                                         GLOBAL u32 *RESTRICT counts) {
    const u32 first = GROUP_ID * THREADS + LOCAL_ID, step = GROUP_COUNT * THREADS;
    for (u32 i = first; i < n_tuples * N_SUMS; i += step) {
        const u32 tuple = i / N_SUMS, at = i % N_SUMS, bin = at % N_BINS;
        const u32 m = spread[tuple * FEATURES + at / N_BINS % FEATURES];
        sum_t sum = 0;
        for (u32 g = 0; g < groups_a_tuple && (bin + 1) * m <= N_BINS; g++) {
            GLOBAL const sum_t *from = partial + ((u64)tuple * groups_a_tuple + g) * N_SUMS + (at - bin) + bin * m;
            for (u32 b = 0; b < m; b++) sum += from[b];
        }
        out[i] = sum;
    }
#if COUNTED
    for (u32 i = first; i < n_tuples * N_COUNTS; i += step) {
        const u32 tuple = i / N_COUNTS, at = i % N_COUNTS, bin = at % N_BINS;
        const u32 m = spread[tuple * FEATURES + at / N_BINS];
        u32 count = 0;
        for (u32 g = 0; g < groups_a_tuple && (bin + 1) * m <= N_BINS; g++) {
            GLOBAL const u32 *from =
                partial_counts + ((u64)tuple * groups_a_tuple + g) * N_COUNTS + (at - bin) + bin * m;
            for (u32 b = 0; b < m; b++) count += from[b];
        }
        counts[i] = count;
    }
#endif
}

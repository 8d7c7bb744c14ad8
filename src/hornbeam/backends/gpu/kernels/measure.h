// What rounding must know of all gradients before it begins: the largest |gradient|, the largest and the smallest
// hessian. Whatever goes over the rows last finds them on its way, each group for its own rows:
//
//     BEGIN_MEASURE;                                 at the head of a kernel
//     MEASURE(gradient, hessian);                    a row
//     END_MEASURE(extremes, report);                 all threads of the group
//
//     extremes   f64 (n_groups, 3)   out
//     report     report_t            out   as it is before any row is rounded

// What the host learns; REPORT in quantize.py.
typedef struct {
    f64 largest_g, largest_h, smallest_h;
    i64 sums[5];  // of g, h and |g|; gradients and hessians that are not zero
    i32 min_g, max_g, min_h, max_h;
} report_t;

#define BEGIN_MEASURE             \
    LOCAL f64 measured_[THREADS]; \
    f64 largest_g_ = 0.0, largest_h_ = 0.0, smallest_h_ = BITS_TO_F64(0x7FF0000000000000)

#define MEASURE(gradient, hessian)                   \
    do {                                             \
        const f64 size_ = fabs(gradient);            \
        largest_g_ = LARGER(size_, largest_g_);      \
        largest_h_ = LARGER(hessian, largest_h_);    \
        smallest_h_ = SMALLER(hessian, smallest_h_); \
    } while (0)

#define END_MEASURE(extremes, report)                                    \
    do {                                                                 \
        measured_[LOCAL_ID] = largest_g_;                                \
        REDUCE(measured_, LARGER);                                       \
        if (LOCAL_ID == 0) (extremes)[GROUP_ID * 3] = measured_[0];      \
        BARRIER;                                                         \
        measured_[LOCAL_ID] = largest_h_;                                \
        REDUCE(measured_, LARGER);                                       \
        if (LOCAL_ID == 0) (extremes)[GROUP_ID * 3 + 1] = measured_[0];  \
        BARRIER;                                                         \
        measured_[LOCAL_ID] = smallest_h_;                               \
        REDUCE(measured_, SMALLER);                                      \
        if (LOCAL_ID == 0) (extremes)[GROUP_ID * 3 + 2] = measured_[0];  \
        if (GROUP_ID == 0 && LOCAL_ID < 5) (report)->sums[LOCAL_ID] = 0; \
        if (GROUP_ID == 0 && LOCAL_ID == 0) {                            \
            (report)->min_g = 0x7FFFFFFF;                                \
            (report)->max_g = -0x7FFFFFFF;                               \
            (report)->min_h = 0x7FFFFFFF;                                \
            (report)->max_h = 0;                                         \
        }                                                                \
    } while (0)

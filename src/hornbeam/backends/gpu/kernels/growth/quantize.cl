// Rounding gradients to fixed point: twin of fixed_point.round_gradients.
//
// A record is what travels with a row from node to node:
//
//     narrow   u32   hessian (16 bits) | gradient (16, two's complement)
//     wide     u64   hessian (32 bits) | gradient (32, two's complement)
//
// Two launches and one small copy back: `measure` finds the largest values, `round` derives the scales from them (the
// same integer arithmetic as quantize.scale_exponent), so the host need not be asked in between. Gradients come from
// row_gradients.h.
//
// Where all outputs share a tree (OUTPUTS), as many groups round each of them, from stored gradients, and the pairs are
// kept by row (load_outputs.cl).
#if WIDE
typedef u64 record_t;
#define G_BITS  30
#define H_BITS  30
#define G_LIMIT 1073741824.0
#define H_LIMIT 1073741824.0
#else
typedef u32 record_t;
#define G_BITS  15
#define H_BITS  16
#define G_LIMIT 32767.0
#define H_LIMIT 65535.0
#endif

#if OUTPUTS
typedef u64 rounded_t;
#define OF_OUTPUTS    , u32 groups_an_output
#define GROUPS        groups_an_output
#define OUTPUT        (GROUP_ID / groups_an_output)
#define ROUNDED(g, h) (((u64)(u32)(h) << 32) | (u32)(g))
#else
typedef record_t rounded_t;
#define OF_OUTPUTS
#define GROUPS GROUP_COUNT
#define OUTPUT 0
#if WIDE
#define ROUNDED(g, h) (((u64)(u32)(h) << 32) | (u32)(g))
#else
#define ROUNDED(g, h) (((u32)(h) << 16) | ((u32)(g) & 0xFFFF))
#endif
#endif

// What the host learns; REPORT in quantize.py.
typedef struct {
    f64 largest_g, largest_h, smallest_h;
    i64 sums[5];  // of g, h and |g|; gradients and hessians that are not zero
    i32 min_g, max_g, min_h, max_h;
} report_t;

// Largest |gradient|, largest and smallest hessian of each group's rows; also clears what `round` adds to.
//
//   extremes   f64 (n_groups, 3)   out
//   report     see `round`         out   as it is before any row
KERNEL(THREADS) void measure_kernel(ROW_GRADIENTS, u32 n_rows, GLOBAL f64 *RESTRICT extremes,
                                    GLOBAL report_t *RESTRICT report OF_OUTPUTS) {
    LOCAL f64 shared[THREADS];
    const u32 n_groups = GROUPS, group = GROUP_ID - OUTPUT * n_groups;
    offset += (u64)OUTPUT * n_rows;
    report += OUTPUT;
    f64 largest_g = 0.0, largest_h = 0.0, smallest_h = BITS_TO_F64(0x7FF0000000000000);
    UNROLL_SOME for (u64 row = (u64)group * THREADS + LOCAL_ID; row < n_rows; row += (u64)n_groups * THREADS) {
        GET_GRADIENT(row, g, h);
        const f64 size = fabs(g);
        largest_g = LARGER(size, largest_g);
        largest_h = LARGER(h, largest_h);
        smallest_h = SMALLER(h, smallest_h);
    }
    shared[LOCAL_ID] = largest_g;
    REDUCE(shared, LARGER);
    if (LOCAL_ID == 0) extremes[GROUP_ID * 3] = shared[0];
    BARRIER;
    shared[LOCAL_ID] = largest_h;
    REDUCE(shared, LARGER);
    if (LOCAL_ID == 0) extremes[GROUP_ID * 3 + 1] = shared[0];
    BARRIER;
    shared[LOCAL_ID] = smallest_h;
    REDUCE(shared, SMALLER);
    if (LOCAL_ID == 0) extremes[GROUP_ID * 3 + 2] = shared[0];
    if (group == 0 && LOCAL_ID < 5) report->sums[LOCAL_ID] = 0;
    if (group == 0 && LOCAL_ID == 0) {
        report->min_g = 0x7FFFFFFF;
        report->max_g = -0x7FFFFFFF;
        report->min_h = 0x7FFFFFFF;
        report->max_h = 0;
    }
}

// Rounds every row, and gathers what the rule for coarse gradients looks at.
//
//   extremes   f64 (n_extremes, 3)    in        from measure, of each output
//   rounded    rounded_t (n_rows,)    out       in row order: the records of depth 0, or what is kept of each output
//   report     report_t               in, out   of each output
KERNEL(THREADS) void round_kernel(ROW_GRADIENTS, u32 n_rows, GLOBAL const f64 *RESTRICT extremes, u32 n_extremes,
                                  GLOBAL rounded_t *RESTRICT rounded, GLOBAL report_t *report OF_OUTPUTS) {
    LOCAL f64 shared[THREADS];
    LOCAL i64 totals[THREADS];
    const u32 n_groups = GROUPS, group = GROUP_ID - OUTPUT * n_groups;
    offset += (u64)OUTPUT * n_rows;
    extremes += (u64)OUTPUT * n_extremes * 3;
    rounded += (u64)OUTPUT * n_rows;
    report += OUTPUT;
    f64 largest_g = 0.0, largest_h = 0.0, smallest_h = BITS_TO_F64(0x7FF0000000000000);
    for (u32 i = LOCAL_ID; i < n_extremes; i += THREADS) {
        largest_g = LARGER(extremes[i * 3], largest_g);
        largest_h = LARGER(extremes[i * 3 + 1], largest_h);
        smallest_h = SMALLER(extremes[i * 3 + 2], smallest_h);
    }
    shared[LOCAL_ID] = largest_g;
    REDUCE(shared, LARGER);
    largest_g = shared[0];
    BARRIER;
    shared[LOCAL_ID] = largest_h;
    REDUCE(shared, LARGER);
    largest_h = shared[0];
    BARRIER;
    shared[LOCAL_ID] = smallest_h;
    REDUCE(shared, SMALLER);
    smallest_h = shared[0];
    if (group == 0 && LOCAL_ID == 0) {
        report->largest_g = largest_g;
        report->largest_h = largest_h;
        report->smallest_h = smallest_h;
    }
    const u32 is_constant = largest_h > 0.0 && smallest_h == largest_h;
    const f64 g_scale = scale_for(largest_g, G_BITS), h_scale = scale_for(largest_h, H_BITS);

    i64 sum_g = 0, sum_h = 0, sum_abs = 0, nonzero_g = 0, nonzero_h = 0;
    i32 min_g = 0x7FFFFFFF, max_g = -0x7FFFFFFF, min_h = 0x7FFFFFFF, max_h = 0;
    UNROLL_SOME for (u64 row = (u64)group * THREADS + LOCAL_ID; row < n_rows; row += (u64)n_groups * THREADS) {
        GET_GRADIENT(row, exact_g, exact_h);
        f64 rounded_g = rint(exact_g * g_scale);
        rounded_g = SMALLER(LARGER(rounded_g, -G_LIMIT), G_LIMIT);
        f64 rounded_h = rint(exact_h * h_scale);
        const f64 least = exact_h > 0.0 ? 1.0 : 0.0;  // a positive hessian never rounds to zero
        rounded_h = SMALLER(LARGER(rounded_h, least), H_LIMIT);
        const i32 g = (i32)rounded_g, h = is_constant ? 1 : (i32)rounded_h;
        sum_g += g;
        sum_h += h;
        sum_abs += g < 0 ? -g : g;
        nonzero_g += exact_g != 0.0 ? 1 : 0;
        nonzero_h += exact_h != 0.0 ? 1 : 0;
        min_g = SMALLER(min_g, g);
        max_g = LARGER(max_g, g);
        min_h = SMALLER(min_h, h);
        max_h = LARGER(max_h, h);
        rounded[row] = ROUNDED(g, h);
    }
    const i64 mine[5] = {sum_g, sum_h, sum_abs, nonzero_g, nonzero_h};
    for (u32 i = 0; i < 5; i++) {
        BARRIER;
        totals[LOCAL_ID] = mine[i];
        REDUCE(totals, SUM);
        if (LOCAL_ID == 0) ADD_GLOBAL64(&report->sums[i], totals[0]);
    }
    BARRIER;
    totals[LOCAL_ID] = min_g;
    REDUCE(totals, SMALLER);
    if (LOCAL_ID == 0) MIN_GLOBAL32(&report->min_g, totals[0]);
    BARRIER;
    totals[LOCAL_ID] = max_g;
    REDUCE(totals, LARGER);
    if (LOCAL_ID == 0) MAX_GLOBAL32(&report->max_g, totals[0]);
    BARRIER;
    totals[LOCAL_ID] = min_h;
    REDUCE(totals, SMALLER);
    if (LOCAL_ID == 0) MIN_GLOBAL32(&report->min_h, totals[0]);
    BARRIER;
    totals[LOCAL_ID] = max_h;
    REDUCE(totals, LARGER);
    if (LOCAL_ID == 0) MAX_GLOBAL32(&report->max_h, totals[0]);
}

// The ranking of a query's documents, which gradients and metrics share.

// Whether document a (score s, row i) stands behind document b in the ranking.
DEVICE u32 is_behind(f64 s_a, u32 row_a, f64 s_b, u32 row_b) {
    return s_a < s_b || (s_a == s_b && row_a > row_b);
}

// Sorts documents by falling score, equal ones by row: a bitonic network. The first exchange of a run mirrors it, so
// that every exchange puts the better document first, and places from n on, were they there, would never move.
//
//     s     f64 (n,)   in, out   local or global memory
//     row   u32 (n,)   in, out
#define SORT_DOCUMENTS(s, row, n)                                                                \
    for (u32 run = 2; run < 2 * n; run *= 2) {                                                   \
        for (u32 step = run / 2; step > 0; step /= 2) {                                          \
            for (u32 i = LOCAL_ID; (i / step) * 2 * step + i % step < n; i += THREADS) {         \
                const u32 low = (i / step) * 2 * step + i % step;                                \
                const u32 high = step == run / 2 ? low + 2 * (step - i % step) - 1 : low + step; \
                if (high < n && is_behind(s[low], row[low], s[high], row[high])) {               \
                    const f64 s_low = s[low];                                                    \
                    const u32 row_low = row[low];                                                \
                    s[low] = s[high];                                                            \
                    row[low] = row[high];                                                        \
                    s[high] = s_low;                                                             \
                    row[high] = row_low;                                                         \
                }                                                                                \
            }                                                                                    \
            BARRIER;                                                                             \
        }                                                                                        \
    }

// Brings the documents of a query from its start on, n of them, into that order.
#define RANK_DOCUMENTS(scores, start, n, s, row)        \
    do {                                                \
        for (u32 i = LOCAL_ID; i < (n); i += THREADS) { \
            s[i] = scores[(start) + i];                 \
            row[i] = (start) + i;                       \
        }                                               \
        BARRIER;                                        \
        SORT_DOCUMENTS(s, row, n);                      \
    } while (0)

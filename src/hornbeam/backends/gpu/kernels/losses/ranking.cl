// Gradients of the ranking objectives: twins of hornbeam/objectives/ranking.py. A group takes one query after the
// other.
//
// Queries of at most DOCUMENTS documents are sorted and paired in local memory; DOCUMENTS = 0 serves longer ones, with
// a piece of global memory a group in its place. What a document gets from its pairs is an integer sum, so threads
// share the pairs as they like:
//
//     a document of rank j     adds its pairs with the ranks i < min(j, truncation)        one thread a document
//     a rank i < truncation    adds its pairs with the ranks j > i, in stripes of j        THREADS / TOP threads a rank
//
// Every pair is computed twice, and no addition needs an atomic.
//
//   queries     u32 (n_queries,)      in   numbers of the queries to do
//   boundaries  u32 (all + 1,)        in   first row of each query
//   scores, gradient, hessian, weight f64 (n_rows,)   weight is read only when weighted is not 0
//   level       i32 (n_rows,)         in   labels
//   gains       f64 by label, discount f64 by rank, in
//   facts       f64 (all, 5)          in   base, slope, ratio, gradient unit, hessian unit of each query (QueryData)
//   METRIC      1: pairs are weighted by the change of the average precision, see MapObjective.rank_values
//   scratch     DOCUMENT_BYTES each   room for room documents a group, where DOCUMENTS is 0
#define TOP             (THREADS < 32 ? THREADS : 32)  // ranks that are served at once
#define SCORE_DISTANCE  0.01
#define LOWEST_EXPONENT -600.0
#define SMALLEST_SHARE  1e-15
#define STRIPES         32u
#define DOCUMENT_BYTES  (METRIC ? 40u : 24u)

typedef struct {
    f64 near, far, base, slope, ratio;
} constants_t;

typedef struct {
    f64 score, e, discount, gain;
    i32 level;
} document_t;

// Fixed-point lambda and hessian of a pair; `one` ranks before `other`. Adds the lambda to `gradient` with the sign of
// the document that asks, `other` or `one`; returns it without sign.
DEVICE i64 add_pair(document_t one, document_t other, constants_t c, u32 other_asks, i64 *gradient, i64 *hessian) {
    if (one.level == other.level) return 0;
    const u32 one_is_high = one.level > other.level;
    const f64 e_high = one_is_high ? one.e : other.e, e_low = one_is_high ? other.e : one.e;
    const f64 gap = one_is_high ? one.gain - other.gain : other.gain - one.gain;
    const f64 a = c.near + c.far * (one.score - other.score);
    const f64 w = c.base + (gap * c.slope) * (one.discount - other.discount);
    const f64 r = 1.0 / ((one.e + other.e) * a);
    const f64 g = (w * e_low) * r;
    const f64 h = (g * c.ratio) * ((e_high * a) * r);
    const i64 whole = (i64)rint(g);
    *gradient += one_is_high == other_asks ? whole : -whole;
    *hessian += (i64)rint(h);
    return whole;
}

KERNEL(THREADS) void lambdarank_kernel(GLOBAL const u32 *RESTRICT queries, u32 n_queries,
                                       GLOBAL const u32 *RESTRICT boundaries, GLOBAL const f64 *RESTRICT scores,
                                       GLOBAL const i32 *RESTRICT level, GLOBAL const f64 *RESTRICT weight,
                                       u32 weighted, GLOBAL const f64 *RESTRICT gains,
                                       GLOBAL const f64 *RESTRICT discount, GLOBAL const f64 *RESTRICT facts,
                                       f64 sigmoid, u32 truncation, u32 norm, GLOBAL u8 *scratch, u32 room,
                                       GLOBAL f64 *gradient, GLOBAL f64 *hessian) {
    GLOBAL i64 *whole_g = (GLOBAL i64 *)gradient;  // the same memory, while sums are integers
    GLOBAL i64 *whole_h = (GLOBAL i64 *)hessian;
    LOCAL i64 part_g[THREADS];
    LOCAL i64 part_h[THREADS];
    LOCAL i64 part_sum[THREADS];
    LOCAL f64 shared_total[1];
#if DOCUMENTS > 0
    LOCAL f64 s[DOCUMENTS];
    LOCAL f64 e[DOCUMENTS];
    LOCAL u32 row[DOCUMENTS];
    LOCAL i32 ranked_level[DOCUMENTS];
#if METRIC
    LOCAL f64 above[DOCUMENTS];
    LOCAL f64 below[DOCUMENTS];
#endif
#else
    GLOBAL f64 *s = (GLOBAL f64 *)(scratch + (u64)GROUP_ID * room * DOCUMENT_BYTES);
    GLOBAL f64 *e = s + room;
    GLOBAL u32 *row = (GLOBAL u32 *)(e + room);
    GLOBAL i32 *ranked_level = (GLOBAL i32 *)(row + room);
#if METRIC
    GLOBAL f64 *above = (GLOBAL f64 *)(ranked_level + room);
    GLOBAL f64 *below = above + room;
#endif
#endif
#if !METRIC
#define above discount
#define below discount
#endif
    const u32 stripes = THREADS / TOP;
    for (u32 number = GROUP_ID; number < n_queries; number += GROUP_COUNT) {
        const u32 query = queries[number];
        const u32 start = boundaries[query], n = boundaries[query + 1] - start;
        RANK_DOCUMENTS(scores, start, n, s, row);
        const f64 best = s[0], worst = s[n - 1];
        for (u32 i = LOCAL_ID; i < n; i += THREADS) {
            const f64 x = sigmoid * (s[i] - best);
            e[i] = exp_(x < LOWEST_EXPONENT ? LOWEST_EXPONENT : x);
            ranked_level[i] = level[row[i]];
        }
        BARRIER;
        GLOBAL const f64 *own = facts + (u64)query * 5u;
        constants_t c;
        const u32 apart = norm && best != worst;
        c.near = apart ? SCORE_DISTANCE : 1.0;
        c.far = apart ? 1.0 : 0.0;
        c.base = own[0];
        c.slope = own[1];
        c.ratio = own[2];
        const f64 gradient_unit = own[3], hessian_unit = own[4];
#if METRIC
        if (LOCAL_ID == 0) {
            f64 count = 0.0, sum = 0.0;
            for (u32 i = 0; i < n; i++) {
                const f64 x = ranked_level[i] > 0 ? 1.0 : 0.0, r = (f64)i + 1.0, before = sum;
                count = count + x;
                sum = sum + x / r;
                above[i] = (count + (1.0 - x)) / r - sum;
                below[i] = count / r - before;
            }
        }
        BARRIER;
#endif

        // what a document gets from those that rank before it
        const u32 n_top = truncation < n - 1 ? truncation : n - 1;
        for (u32 j = LOCAL_ID; j < n; j += THREADS) {
            document_t other;
            other.score = s[j];
            other.e = e[j];
            other.discount = below[j];
            other.level = ranked_level[j];
            other.gain = gains[other.level];
            i64 g = 0, h = 0;
            const u32 last = j < n_top ? j : n_top;
            for (u32 i = 0; i < last; i++) {
                document_t one;
                one.score = s[i];
                one.e = e[i];
                one.discount = above[i];
                one.level = ranked_level[i];
                one.gain = gains[one.level];
                add_pair(one, other, c, 1u, &g, &h);
            }
            whole_g[row[j]] = g;
            whole_h[row[j]] = h;
        }
        // what the first ranks get from those behind them
        f64 total = 0.0;  // of thread 0
        for (u32 first = 0; first < n_top; first += TOP) {
            const u32 i = first + LOCAL_ID / stripes, stripe = LOCAL_ID % stripes;
            i64 g = 0, h = 0, sum = 0;
            if (i < n_top) {
                document_t one;
                one.score = s[i];
                one.e = e[i];
                one.discount = above[i];
                one.level = ranked_level[i];
                one.gain = gains[one.level];
                for (u32 j = i + 1 + stripe; j < n; j += stripes) {
                    document_t other;
                    other.score = s[j];
                    other.e = e[j];
                    other.discount = below[j];
                    other.level = ranked_level[j];
                    other.gain = gains[other.level];
                    sum += add_pair(one, other, c, 0u, &g, &h);
                }
            }
            part_g[LOCAL_ID] = g;
            part_h[LOCAL_ID] = h;
            part_sum[LOCAL_ID] = sum;
            BARRIER;
            if (stripe == 0 && i < n_top) {
                for (u32 k = 1; k < stripes; k++) {
                    g += part_g[LOCAL_ID + k];
                    h += part_h[LOCAL_ID + k];
                    sum += part_sum[LOCAL_ID + k];
                }
                part_sum[LOCAL_ID] = sum;
                whole_g[row[i]] += g;
                whole_h[row[i]] += h;
            }
            BARRIER;
            if (LOCAL_ID == 0) {
                const u32 n_here = n_top - first < TOP ? n_top - first : TOP;
                for (u32 k = 0; k < n_here; k++) total = total + 2.0 * ((f64)part_sum[k * stripes] * gradient_unit);
            }
            BARRIER;
        }
        if (LOCAL_ID == 0) shared_total[0] = norm && total > 0.0 ? log2_(1.0 + total) / total : 1.0;
        BARRIER;
        const f64 factor = shared_total[0];
        for (u32 j = LOCAL_ID; j < n; j += THREADS) {
            const u32 at = row[j];
            const f64 g = ((f64)whole_g[at] * gradient_unit) * factor;
            const f64 h = ((f64)whole_h[at] * hessian_unit) * factor;
            gradient[at] = weighted ? g * weight[at] : g;
            hessian[at] = weighted ? h * weight[at] : h;
        }
        BARRIER;  // the next query takes the same places
    }
}

// The sum of values(i) in the order of striped_sum: STRIPES running sums, added last.
#define STRIPED_SUM(total, value)                                          \
    BARRIER;                                                               \
    for (u32 k = LOCAL_ID; k < STRIPES; k += THREADS) {                    \
        f64 own = 0.0;                                                     \
        for (u32 i = start + k; i < stop; i += STRIPES) own = own + value; \
        sums[k] = own;                                                     \
    }                                                                      \
    BARRIER;                                                               \
    total = 0.0;                                                           \
    for (u32 k = 0; k < STRIPES; k++) total = total + sums[k];             \
    BARRIER;

// rho waits in hessian; phi, and then what is summed, in p, f64 (n_rows,).
KERNEL(THREADS) void xendcg_kernel(GLOBAL const u32 *RESTRICT boundaries, u32 n_queries,
                                   GLOBAL const f64 *RESTRICT scores, GLOBAL const i32 *RESTRICT level,
                                   GLOBAL const f64 *RESTRICT weight, u32 weighted, u64 key, GLOBAL f64 *p,
                                   GLOBAL f64 *gradient, GLOBAL f64 *hessian) {
    LOCAL f64 sums[THREADS < 32 ? 32 : THREADS];
    for (u32 query = GROUP_ID; query < n_queries; query += GROUP_COUNT) {
        const u32 start = boundaries[query], stop = boundaries[query + 1];
        f64 largest = scores[start];
        for (u32 i = start + LOCAL_ID; i < stop; i += THREADS) largest = scores[i] > largest ? scores[i] : largest;
        sums[LOCAL_ID] = largest;
        BARRIER;
        for (u32 k = 0; k < THREADS; k++) largest = sums[k] > largest ? sums[k] : largest;
        for (u32 i = start + LOCAL_ID; i < stop; i += THREADS) hessian[i] = exp_(scores[i] - largest);
        f64 total;
        STRIPED_SUM(total, hessian[i])
        for (u32 i = start + LOCAL_ID; i < stop; i += THREADS) {
            hessian[i] = hessian[i] / total;
            p[i] = (f64)((i64)1 << level[i]) - random_uniform(key, i);
        }
        STRIPED_SUM(total, p[i])
        const f64 v = 1.0 / (total > SMALLEST_SHARE ? total : SMALLEST_SHARE);
        for (u32 i = start + LOCAL_ID; i < stop; i += THREADS) {
            const f64 rho = hessian[i], rest = 1.0 - rho;
            const f64 t = rho - p[i] * v;
            gradient[i] = t;
            p[i] = t / (rest > SMALLEST_SHARE ? rest : SMALLEST_SHARE);
        }
        STRIPED_SUM(total, p[i])
        for (u32 i = start + LOCAL_ID; i < stop; i += THREADS) {
            const f64 rho = hessian[i], rest = 1.0 - rho;
            const f64 t = rho * (total - p[i]);
            gradient[i] = gradient[i] + t;
            p[i] = t / (rest > SMALLEST_SHARE ? rest : SMALLEST_SHARE);
        }
        STRIPED_SUM(total, p[i])
        for (u32 i = start + LOCAL_ID; i < stop; i += THREADS) {
            const f64 rho = hessian[i];
            const u32 alone = stop - start == 1;
            const f64 g = alone ? 0.0 : gradient[i] + rho * (total - p[i]), h = rho * (1.0 - rho);
            gradient[i] = weighted ? g * weight[i] : g;
            hessian[i] = weighted ? h * weight[i] : h;
        }
        BARRIER;
    }
}

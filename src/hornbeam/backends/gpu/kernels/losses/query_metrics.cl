// Metrics of ranked lists, ndcg, map and mrr: twins of hornbeam/metrics/ranked_lists.py. A group takes one query after
// the other, as in ranking.cl, and its first thread adds up in rank order what the others have prepared.
//
//   DOCUMENTS   most documents of a query, which then are sorted in local memory; 0: in a piece of global memory
//
//   metric      0: ndcg   1: map   2: mrr
//   queries     u32 (n_queries,)    in   numbers of the queries to do
//   boundaries  u32 (n_all + 1,)    in   first row of each query
//   scores      f64 (n_rows,)       in
//   level       i32 (n_rows,)       in   labels
//   gains       f64 by label, discount f64 by rank, in; ndcg alone
//   best        f64 (n_ranks, n_all)  in   ndcg: of the best order; map: relevant documents, at most the rank
//   ranks       u32 (n_ranks,)      in   ascending
//   scratch     12 bytes for each of `room` documents a group, where DOCUMENTS is 0
//   values      f64 (n_ranks, n_all)  out
KERNEL(THREADS) void query_values_kernel(u32 metric, GLOBAL const u32 *RESTRICT queries, u32 n_queries, u32 n_all,
                                         GLOBAL const u32 *RESTRICT boundaries, GLOBAL const f64 *RESTRICT scores,
                                         GLOBAL const i32 *RESTRICT level, GLOBAL const f64 *RESTRICT gains,
                                         GLOBAL const f64 *RESTRICT discount, GLOBAL const f64 *RESTRICT best,
                                         GLOBAL const u32 *RESTRICT ranks, u32 n_ranks, GLOBAL u8 *scratch, u32 room,
                                         GLOBAL f64 *RESTRICT values) {
#if DOCUMENTS > 0
    LOCAL f64 s[DOCUMENTS];
    LOCAL u32 row[DOCUMENTS];
#else
    GLOBAL f64 *s = (GLOBAL f64 *)(scratch + (u64)GROUP_ID * room * 12u);
    GLOBAL u32 *row = (GLOBAL u32 *)(s + room);
#endif
    const u32 most = ranks[n_ranks - 1];
    for (u32 number = GROUP_ID; number < n_queries; number += GROUP_COUNT) {
        const u32 query = queries[number];
        const u32 start = boundaries[query], n = boundaries[query + 1] - start;
        RANK_DOCUMENTS(scores, start, n, s, row);
        const u32 n_seen = most < n ? most : n;
        for (u32 i = LOCAL_ID; i < n_seen; i += THREADS) {  // the scores are not needed any more
            const i32 own = level[row[i]];
            s[i] = metric == 0 ? gains[own] * discount[i] : own > 0 ? 1.0 : 0.0;
        }
        BARRIER;
        if (LOCAL_ID == 0) {
            f64 total = 0.0, n_found = 0.0;
            u32 rank = 0;
            for (u32 place = 0; place < n_ranks; place++) {
                const u32 at = ranks[place] < n ? ranks[place] : n;
                const f64 most_here = best[(u64)place * n_all + query];
                for (; rank < at; rank++) {
                    if (metric == 0) {
                        total = total + s[rank];
                    } else if (s[rank] > 0.0) {
                        n_found = n_found + 1.0;
                        if (metric == 1) total = total + n_found / ((f64)rank + 1.0);
                        if (metric == 2 && n_found == 1.0) total = 1.0 / ((f64)rank + 1.0);
                    }
                }
                const f64 value = metric == 2 ? total : total / most_here;
                values[(u64)place * n_all + query] = most_here > 0.0 ? value : 1.0;
            }
        }
        BARRIER;  // the next query takes the same places
    }
}

// Exact sums of the queries' values, one group a rank.
//
//   weight    f64 (n_all,)              in    of queries; read only when weighted is not 0
//   reports   sum_report_t (n_ranks,)   out
KERNEL(THREADS) void query_sums_kernel(GLOBAL const f64 *RESTRICT values, GLOBAL const f64 *RESTRICT weight,
                                       u32 weighted, u32 n_all, GLOBAL sum_report_t *RESTRICT reports) {
    LOCAL u64 shared[THREADS];
    LOCAL i64 totals[THREADS];
    GLOBAL const f64 *own = values + (u64)GROUP_ID * n_all;
    u64 largest = 0;
    for (u32 i = LOCAL_ID; i < n_all; i += THREADS) {
        const f64 value = weighted ? own[i] * weight[i] : own[i];
        largest = LARGER(SIZE_BITS(value), largest);
    }
    shared[LOCAL_ID] = largest;
    REDUCE(shared, LARGER);
    largest = shared[0];
    const f64 scale = exact_scale(BITS_TO_F64(largest), n_all);
    i64 total = 0;
    for (u32 i = LOCAL_ID; i < n_all; i += THREADS) {
        total += (i64)rint((weighted ? own[i] * weight[i] : own[i]) * scale);
    }
    totals[LOCAL_ID] = total;
    REDUCE(totals, SUM);
    if (LOCAL_ID == 0) {
        reports[GROUP_ID].largest = largest;
        reports[GROUP_ID].sum = totals[0];
        reports[GROUP_ID].count = n_all;
    }
}

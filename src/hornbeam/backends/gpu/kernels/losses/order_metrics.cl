// Metrics of the order in which scores put two classes, auc and average_precision: twins of
// hornbeam/metrics/class_order.py.
//
// The keys of the scores are sorted (sort.cl); then `sums` has, for every place, what lies before it, and whoever
// stands first among equal scores looks for their end. Counts and fixed-point weights are integers.
//
//   WIDE       rows have weights. Then the payload of a key is its row, otherwise 1: positive, 0: negative
//
//   positive   sum_t (n + 1,)   before each place, and in all; u32 counts, or i64 weights
//   negative   i64 (n + 1,)     likewise; only where WIDE
#define TILE (THREADS * EACH)
#if WIDE
typedef i64 sum_t;
#else
typedef u32 sum_t;
#endif

//   scores   f64 (n,)            in
//   label    f64 (n,)            in
//   report   out: not_numbers    zero at first
KERNEL(THREADS) void score_keys_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT label, u32 n,
                                       GLOBAL u64 *RESTRICT keys, GLOBAL u32 *RESTRICT payload,
                                       GLOBAL sum_report_t *report) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n; row += (u64)GROUP_COUNT * THREADS) {
        const f64 score = scores[row];
        keys[row] = order_key(score);
#if WIDE
        payload[row] = (u32)row;
#else
        payload[row] = label[row] > 0.0 ? 1u : 0u;
#endif
        if (score != score) ADD_GLOBAL64(&report->not_numbers, 1);
    }
}

#if WIDE
// Positive or negative weight of a sorted place.
#define WEIGHT_AT(place)                                \
    const u32 row = payload[place];                     \
    const i64 fixed = (i64)rint(weight[row] * scale);   \
    const u32 is_positive = label[row] > 0.0 ? 1u : 0u; \
    const sum_t plus = is_positive ? fixed : 0, minus = is_positive ? 0 : fixed
#else
#define WEIGHT_AT(place) const sum_t plus = payload[place], minus = 0
#endif

// Sums of each tile.
//
//   scale      of the weights, a power of two
//   tile_sums  sum_t (2, n_tiles)   out   positive, negative
KERNEL(THREADS) void tile_sums_kernel(GLOBAL const u32 *RESTRICT payload, GLOBAL const f64 *RESTRICT label,
                                      GLOBAL const f64 *RESTRICT weight, f64 scale, u32 n, u32 n_tiles,
                                      GLOBAL sum_t *RESTRICT tile_sums) {
    LOCAL sum_t shared[THREADS];
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u32 from = tile * TILE, n_here = n - from < TILE ? n - from : TILE;
        sum_t positive = 0, negative = 0;
        for (u32 i = LOCAL_ID; i < n_here; i += THREADS) {
            WEIGHT_AT(from + i);
            positive += plus;
            negative += minus;
        }
        shared[LOCAL_ID] = positive;
        REDUCE(shared, SUM);
        if (LOCAL_ID == 0) tile_sums[tile] = shared[0];
        BARRIER;
        shared[LOCAL_ID] = negative;
        REDUCE(shared, SUM);
        if (LOCAL_ID == 0) tile_sums[n_tiles + tile] = shared[0];
        BARRIER;
    }
}

// Inclusive sums over the threads; every thread takes part.
#define SCAN_THREADS(sums)                                                         \
    for (u32 distance = 1; distance < THREADS; distance *= 2) {                    \
        const sum_t before = LOCAL_ID >= distance ? sums[LOCAL_ID - distance] : 0; \
        BARRIER;                                                                   \
        sums[LOCAL_ID] += before;                                                  \
        BARRIER;                                                                   \
    }

// Sums of all tiles before: one group for the positive, one for the negative.
//
//   tile_sums  sum_t (2, n_tiles)   in, out
KERNEL(THREADS) void scan_tiles_kernel(u32 n_tiles, GLOBAL sum_t *RESTRICT tile_sums) {
    LOCAL sum_t sums[THREADS];
    GLOBAL sum_t *own = tile_sums + (u64)GROUP_ID * n_tiles;
    sum_t so_far = 0;
    for (u32 first = 0; first < n_tiles; first += THREADS) {
        const sum_t count = first + LOCAL_ID < n_tiles ? own[first + LOCAL_ID] : 0;
        sums[LOCAL_ID] = count;
        BARRIER;
        SCAN_THREADS(sums)
        if (first + LOCAL_ID < n_tiles) own[first + LOCAL_ID] = so_far + sums[LOCAL_ID] - count;
        so_far += sums[THREADS - 1];
        BARRIER;
    }
}

// Sums before every place. A thread has EACH places that follow each other.
KERNEL(THREADS) void sums_kernel(GLOBAL const u32 *RESTRICT payload, GLOBAL const f64 *RESTRICT label,
                                 GLOBAL const f64 *RESTRICT weight, f64 scale, u32 n, u32 n_tiles,
                                 GLOBAL const sum_t *RESTRICT tile_sums, GLOBAL sum_t *RESTRICT positive,
                                 GLOBAL sum_t *RESTRICT negative) {
    LOCAL sum_t sums[THREADS];
#if WIDE
    LOCAL sum_t other[THREADS];
#endif
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u64 from = (u64)tile * TILE + (u64)LOCAL_ID * EACH;
        sum_t own_positive = 0, own_negative = 0;
        for (u64 i = from; i < from + EACH && i < n; i++) {
            WEIGHT_AT(i);
            own_positive += plus;
            own_negative += minus;
        }
        sums[LOCAL_ID] = own_positive;
        BARRIER;
        SCAN_THREADS(sums)
        sum_t before = tile_sums[tile] + sums[LOCAL_ID] - own_positive;
#if WIDE
        other[LOCAL_ID] = own_negative;
        BARRIER;
        SCAN_THREADS(other)
        sum_t before_negative = tile_sums[n_tiles + tile] + other[LOCAL_ID] - own_negative;
#endif
        for (u64 i = from; i < from + EACH && i < n; i++) {
            WEIGHT_AT(i);
            positive[i] = before;
            before += plus;
            if (i + 1 == n) positive[n] = before;
#if WIDE
            negative[i] = before_negative;
            before_negative += minus;
            if (i + 1 == n) negative[n] = before_negative;
#endif
        }
        BARRIER;
    }
}

// The first place behind `first` with another key, or n: strides that double, then bisection.
DEVICE u32 end_of_equals(GLOBAL const u64 *RESTRICT keys, u32 first, u32 n) {
    const u64 key = keys[first];
    u64 inside = first, step = 1;
    while (inside + step < n && keys[inside + step] == key) {
        inside += step;
        step *= 2;
    }
    u64 outside = inside + step < n ? inside + step : n;
    while (outside - inside > 1) {
        const u64 middle = (inside + outside) / 2;
        if (keys[middle] == key)
            inside = middle;
        else
            outside = middle;
    }
    return (u32)outside;
}

// The first place with the key of the place `last`.
DEVICE u32 first_of_equals(GLOBAL const u64 *RESTRICT keys, u32 last) {
    const u64 key = keys[last];
    i64 inside = last, step = 1;
    while (inside - step >= 0 && keys[inside - step] == key) {
        inside -= step;
        step *= 2;
    }
    i64 outside = inside - step >= 0 ? inside - step : -1;
    while (inside - outside > 1) {
        const i64 middle = (inside + outside) / 2;
        if (keys[middle] == key)
            inside = middle;
        else
            outside = middle;
    }
    return (u32)inside;
}

// What the metric adds up.
//
//   of_area  1: auc     0: average_precision
//   values   f64 (n,)   out   zero where there is none
//   partial  u64 (n_groups,)   out   bits of the largest of each group
//   report   out: count, and for auc without weights, whose summands are integers, the sum; zeros at first
KERNEL(THREADS) void order_values_kernel(GLOBAL const u64 *RESTRICT keys, GLOBAL const u32 *RESTRICT payload, u32 n,
                                         u32 of_area, GLOBAL const sum_t *RESTRICT positive,
                                         GLOBAL const sum_t *RESTRICT negative, GLOBAL f64 *RESTRICT values,
                                         GLOBAL u64 *RESTRICT partial, GLOBAL sum_report_t *report) {
    LOCAL u64 shared[THREADS];
    u64 largest = 0, count = 0, pairs = 0;
    const sum_t all_positive = positive[n];
#if WIDE
    const sum_t all_negative = negative[n];
#else
    const u32 all_negative = n - all_positive;
#endif
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        f64 value = 0.0;
#if !WIDE
        if (!of_area && payload[i]) {
            const u32 first = first_of_equals(keys, (u32)i);
            const f64 above = (f64)(all_positive - positive[first]);
            const f64 wrong = (f64)(all_negative - (first - positive[first]));
            value = above / (above + wrong);
            count += 1;
        }
        if (of_area && (i == 0 || keys[i] != keys[i - 1])) {  // twice the pairs in the right order; ties count half
            const u32 end = end_of_equals(keys, (u32)i, n);
            const u64 right = (u64)(i - positive[i]) + (u64)(end - positive[end]);
            pairs += (u64)(positive[end] - positive[i]) * right;
        }
#else
        if (i == 0 || keys[i] != keys[i - 1]) {
            const u32 end = end_of_equals(keys, (u32)i, n);
            const i64 here = positive[end] - positive[i];
            const f64 below = (f64)negative[i] + 0.5 * (f64)(negative[end] - negative[i]);
            const f64 above = (f64)(all_positive - positive[i]), wrong = (f64)(all_negative - negative[i]);
            if (of_area || here > 0) {
                value = (f64)here * (of_area ? below : above / (above + wrong));
                count += 1;
            }
        }
#endif
        values[i] = value;
        largest = LARGER(SIZE_BITS(value), largest);
    }
    shared[LOCAL_ID] = largest;
    REDUCE(shared, LARGER);
    if (LOCAL_ID == 0) partial[GROUP_ID] = shared[0];
    BARRIER;
    shared[LOCAL_ID] = count;
    REDUCE(shared, SUM);
    if (LOCAL_ID == 0) ADD_GLOBAL64(&report->count, shared[0]);
    BARRIER;
    shared[LOCAL_ID] = pairs;
    REDUCE(shared, SUM);
    if (LOCAL_ID == 0) ADD_GLOBAL64(&report->sum, shared[0]);
}

// The rows of two classes with the difference of their scores, as `score_keys` and the others take them: auc_mu.
//
//   scores        f64 (n_outputs, n_rows)   in
//   weight        f64 (n_rows,)             in    read only when weighted is not 0
//   rows          u32                       in    of all classes, one class after the other
//   margin        f64 (n,)                  out   score[first] - score[second]: n_first rows of the first class from
//                                                 `from_first` on, then those of the second
//   label         f64 (n,)                  out   1: the first class, 0: the second
//   pair_weight   f64 (n,)                  out   where there are weights
KERNEL(THREADS) void margins_kernel(GLOBAL const f64 *RESTRICT scores, GLOBAL const f64 *RESTRICT weight, u32 weighted,
                                    GLOBAL const u32 *RESTRICT rows, u32 n_rows, u32 first, u32 second, u32 from_first,
                                    u32 n_first, u32 from_second, u32 n, GLOBAL f64 *RESTRICT margin,
                                    GLOBAL f64 *RESTRICT label, GLOBAL f64 *RESTRICT pair_weight) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const u32 row = i < n_first ? rows[from_first + i] : rows[from_second + (i - n_first)];
        margin[i] = scores[(u64)first * n_rows + row] - scores[(u64)second * n_rows + row];
        label[i] = i < n_first ? 1.0 : 0.0;
        if (weighted) pair_weight[i] = weight[row];
    }
}

//   scores   f64 (n,)            in
//   report   out: not_numbers    zero at first
KERNEL(THREADS) void not_numbers_kernel(GLOBAL const f64 *RESTRICT scores, u64 n, GLOBAL sum_report_t *report) {
    for (u64 i = (u64)GROUP_ID * THREADS + LOCAL_ID; i < n; i += (u64)GROUP_COUNT * THREADS) {
        const f64 score = scores[i];
        if (score != score) ADD_GLOBAL64(&report->not_numbers, 1);
    }
}

// Upper bounds of bins from values on the device: twin of data/bin_bounds.py.
//
//     take     writes the values of the sampled rows as keys (order.h), column after column; NaN as the largest number
//     (sort)   the keys of each column, see sort.cl
//     bounds   finds where the bins of a column end; a thread takes a column
//
//   keys     raw_t (n_columns, n_sampled)
#define NO_VALUE ((raw_t)0 - 1)

// Of the rows of a block that were sampled.
//
//     rows        u32 (n_taken,)     in    rows of the block
//     features    u32 (n_columns,)   in
//     small       u32 (n_columns,)   in    whether magnitudes up to `smallest` are missing
//     nan_key     key of missing values: NO_VALUE, or that of zero
//     first       the sampled row that is taken first
KERNEL(THREADS) void take_kernel(GLOBAL const raw_t *RESTRICT values, i64 row_stride, i64 column_stride, u64 n_values,
                                 GLOBAL const u32 *RESTRICT rows, u32 n_taken, GLOBAL const u32 *RESTRICT features,
                                 GLOBAL const u32 *RESTRICT small, u32 n_columns, raw_t smallest, raw_t nan_key,
                                 u32 first, u32 n_sampled, GLOBAL raw_t *RESTRICT keys) {
    LOCAL raw_t square[32 * 33];  // read along rows, written along columns
    const u32 wide = (n_columns + 31) / 32, high = (n_taken + 31) / 32;
    for (u64 item = GROUP_ID; item < (u64)wide * high; item += GROUP_COUNT) {
        const u32 column = (u32)(item % wide) * 32, row = (u32)(item / wide) * 32;
        for (u32 i = LOCAL_ID; i < 1024; i += THREADS) {
            const u32 r = row + i / 32, c = column + i % 32;
            if (r >= n_taken || c >= n_columns) continue;
            const raw_t value = values[(i64)rows[r] * row_stride + (i64)features[c] * column_stride];
            const raw_t size = value & ~RAW_SIGN;
            const u32 is_missing = IS_NAN(value) || (small[c] && size <= smallest) ? 1u : 0u;
            square[i / 32 * 33 + i % 32] = is_missing ? nan_key : KEY_OF_BITS(value, RAW_SIGN);
        }
        BARRIER;
        for (u32 i = LOCAL_ID; i < 1024; i += THREADS) {
            const u32 c = column + i / 32, r = row + i % 32;
            if (r < n_taken && c < n_columns) keys[(u64)c * n_sampled + first + r] = square[i % 32 * 33 + i / 32];
        }
        BARRIER;
    }
}

// The place behind the last key that is equal to the one at `place`, of n ascending ones.
DEVICE u32 run_end(GLOBAL const raw_t *keys, u32 n, u32 place) {
    const raw_t key = keys[place];
    u32 low = place + 1, high = n;
    if (low == n || keys[low] != key) return low;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (keys[middle] == key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The place of the first key that is equal to the one at `place`.
DEVICE u32 run_begin(GLOBAL const raw_t *keys, u32 place) {
    const raw_t key = keys[place];
    u32 low = 0, high = place;
    if (place == 0 || keys[place - 1] != key) return place;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (keys[middle] == key)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

DEVICE f64 value_of_raw_key(raw_t key) {
    const raw_t bits = key & RAW_SIGN ? key ^ RAW_SIGN : ~key;
    return RAW_VALUE(bits);
}

// The bound between the values before a place and at it.
DEVICE f64 bound_before(GLOBAL const raw_t *keys, u32 place) {
    const f64 low = value_of_raw_key(keys[place - 1]), high = value_of_raw_key(keys[place]);
    const f64 middle = low / 2.0 + high / 2.0;
    return (low <= middle && middle < high ? middle : low) + 0.0;
}

// The first value, from place `from` on where one begins, that appears at least `often` times: such a value covers a
// place that is a multiple of that number.
DEVICE u32 next_often(GLOBAL const raw_t *keys, u32 n, u32 from, u32 often, u32 *end) {
    for (u64 probe = (from + (u64)often - 1) / often * often; probe < n; probe += often) {
        const u32 begin = run_begin(keys, (u32)probe);
        *end = run_end(keys, n, (u32)probe);
        if (*end - begin >= often) return begin;
    }
    *end = n;
    return n;
}

//     most_bins      u32 (n_columns,)               in
//     min_data       of a bin
//     capacity       bounds of a column
//     bounds         f64 (n_columns, capacity)      out   all but the last, +inf
//     n_bounds       u32 (n_columns,)               out   with the last; 0: there is no value
KERNEL(THREADS) void bounds_kernel(GLOBAL const raw_t *RESTRICT keys, u32 n_sampled, u32 n_columns,
                                   GLOBAL const u32 *RESTRICT most_bins, u32 min_data, u32 capacity,
                                   GLOBAL f64 *RESTRICT bounds, GLOBAL u32 *RESTRICT n_bounds) {
    for (u32 column = GROUP_ID * THREADS + LOCAL_ID; column < n_columns; column += GROUP_COUNT * THREADS) {
        GLOBAL const raw_t *own = keys + (u64)column * n_sampled;
        GLOBAL f64 *out = bounds + (u64)column * capacity;
        u32 n = n_sampled, n_out = 0;
        if (own[n - 1] == NO_VALUE) n = run_begin(own, n - 1);
        if (n == 0) {
            n_bounds[column] = 0;
            continue;
        }
        u32 most = most_bins[column], n_distinct = 0;
        for (u32 place = 0; place < n && n_distinct <= most; n_distinct++) place = run_end(own, n, place);
        if (n_distinct <= most) {
            u32 below = 0;
            for (u32 place = run_end(own, n, 0); place < n; place = run_end(own, n, place)) {
                if (place - below < min_data) continue;
                out[n_out++] = bound_before(own, place);
                below = place;
            }
            n_bounds[column] = n_out + 1;
            continue;
        }
        most = n / min_data < most ? n / min_data : most;
        most = most > 1 ? most : 1;
        const u32 often = (n - 1) / most + 1;  // as an average bin
        i64 light_bins = most, light_rows = n;
        u32 heavy_end;
        for (u32 heavy = next_often(own, n, 0, often, &heavy_end); heavy < n;
             heavy = next_often(own, n, heavy_end, often, &heavy_end)) {
            light_bins -= 1;
            light_rows -= heavy_end - heavy;
        }
        u32 below = 0, heavy = next_often(own, n, 0, often, &heavy_end);
        while (n_out + 1 < most) {
            if (heavy < below) heavy = next_often(own, n, below, often, &heavy_end);
            u32 reached = heavy_end, is_heavy = 1;
            if (below != heavy) {
                const f64 mean = light_bins > 0 ? (f64)light_rows / (f64)light_bins : (f64)n;
                f64 wanted = (f64)(i64)mean;
                wanted = wanted < mean ? wanted + 1.0 : wanted;
                const u64 last = (u64)below + (wanted > 1.0 ? (u64)wanted : 1u) - 1u;
                is_heavy = last >= heavy ? 1u : 0u;
                if (!is_heavy) {
                    reached = run_end(own, n, (u32)last);
                } else if (light_bins > 0 && 2.0 * (f64)(heavy - below) >= mean) {
                    reached = heavy;
                    is_heavy = 0;
                }
            }
            if (reached >= n) break;
            out[n_out++] = bound_before(own, reached);
            light_rows -= reached - below - (is_heavy ? heavy_end - heavy : 0u);
            light_bins -= is_heavy ? 0 : 1;
            below = reached;
        }
        n_bounds[column] = n_out + 1;
    }
}

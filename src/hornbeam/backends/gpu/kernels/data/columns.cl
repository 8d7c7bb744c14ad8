// Labels, weights and initial scores that the user has on the device: looked at, copied and added up where they are.
//
// A column is an array of any real type with any strides, counted in entries of its type: entry k of the whole is at
// (k / length) * outer + (k % length) * inner. A column of one number a row has one row of this array: length is
// n_rows.
//
//     type   0: f32, 1: f64, 2 to 5: i8, i16, i32, i64, 6 to 9: u8, u16, u32, u64; TYPES in columns.py
#define COLUMN(name) GLOBAL const u8 *name, u32 name##_type, i64 name##_outer, i64 name##_inner, u64 name##_length
#define ENTRY(name, k) \
    entry_at(name, name##_type, (i64)((k) / name##_length) * name##_outer + (i64)((k) % name##_length) * name##_inner)

DEVICE f64 entry_at(GLOBAL const u8 *values, u32 type, i64 place) {
    if (type == 0) return value_of_f32(((GLOBAL const u32 *)values)[place]);
    if (type == 1) return ((GLOBAL const f64 *)values)[place];
    if (type == 2) return (f64)((GLOBAL const i8 *)values)[place];
    if (type == 3) return (f64)((GLOBAL const i16 *)values)[place];
    if (type == 4) return (f64)((GLOBAL const i32 *)values)[place];
    if (type == 5) return (f64)((GLOBAL const i64 *)values)[place];
    if (type == 6) return (f64)values[place];
    if (type == 7) return (f64)((GLOBAL const u16 *)values)[place];
    if (type == 8) return (f64)((GLOBAL const u32 *)values)[place];
    return (f64)((GLOBAL const u64 *)values)[place];
}

// Writes one combined value of the group; shared may be used again.
#define REPORT_GROUP(value, combine, place)      \
    shared[LOCAL_ID] = value;                    \
    REDUCE(shared, combine);                     \
    if (LOCAL_ID == 0) out[(place)] = shared[0]; \
    BARRIER

// What checks need to know.
//
//     out   u64 (n_groups, 6)   out   entries that are not finite; of the others those that are not whole, that are
//                                     not zero, that are positive; keys (order.h) of the smallest and of the largest
KERNEL(THREADS) void look_at_column_kernel(COLUMN(values), u64 n, GLOBAL u64 *RESTRICT out) {
    LOCAL u64 shared[THREADS];
    u64 not_finite = 0, not_whole = 0, not_zero = 0, positive = 0, smallest = ~(u64)0, largest = 0;
    for (u64 k = (u64)GROUP_ID * THREADS + LOCAL_ID; k < n; k += (u64)GROUP_COUNT * THREADS) {
        const f64 value = ENTRY(values, k);
        if (SIZE_BITS(value) >= 0x7FF0000000000000u) {
            not_finite += 1;
        } else {
            const u64 key = order_key(value);
            not_whole += value != floor(value) ? 1 : 0;
            not_zero += value != 0.0 ? 1 : 0;
            positive += value > 0.0 ? 1 : 0;
            smallest = SMALLER(key, smallest);
            largest = LARGER(key, largest);
        }
    }
    const u64 place = (u64)GROUP_ID * 6;
    REPORT_GROUP(not_finite, SUM, place);
    REPORT_GROUP(not_whole, SUM, place + 1);
    REPORT_GROUP(not_zero, SUM, place + 2);
    REPORT_GROUP(positive, SUM, place + 3);
    REPORT_GROUP(smallest, SMALLER, place + 4);
    REPORT_GROUP(largest, LARGER, place + 5);
}

// A copy, as float64 or as bytes; or start scores: those of the outputs plus the column.
//
//     start      f64 (n / length,)   in    read only where has_start is not 0
//     out_bytes  1 or 8
//     out        u8 or f64 (n,)      out
KERNEL(THREADS) void copy_column_kernel(COLUMN(values), u64 n, GLOBAL const f64 *start, u32 has_start, u32 out_bytes,
                                        GLOBAL u8 *out) {
    for (u64 k = (u64)GROUP_ID * THREADS + LOCAL_ID; k < n; k += (u64)GROUP_COUNT * THREADS) {
        const f64 value = ENTRY(values, k);
        if (out_bytes == 1) {
            out[k] = (u8)value;
        } else {
            ((GLOBAL f64 *)out)[k] = has_start ? start[k / values_length] + value : value;
        }
    }
}

// The parts of an exact sum (fixed_point.exact_sum) of one number a row, times its weight.
//
//     which   0: the label. 1: 1 where the label is `of_class`, else 0. 2: 1, of the rows whose label is `of_class`.
//             3: 1, of the rows whose label is positive. 4: 1, of all rows
//     weight  read only where weighted is not 0
//     scale   2**exponent, or 0: not known yet, there is no sum
//     out     u64 (n_groups, 3)   out   bits of the largest size; how many numbers; their sum in fixed point (i64)
KERNEL(THREADS) void add_up_kernel(COLUMN(values), COLUMN(weight), u32 weighted, u32 which, f64 of_class, f64 scale,
                                   u64 n, GLOBAL u64 *RESTRICT out) {
    LOCAL u64 shared[THREADS];
    u64 largest = 0, count = 0;
    i64 total = 0;
    for (u64 k = (u64)GROUP_ID * THREADS + LOCAL_ID; k < n; k += (u64)GROUP_COUNT * THREADS) {
        const f64 label = which == 4 ? 1.0 : ENTRY(values, k);
        f64 number = which == 0 ? label : (which == 1 && label != of_class ? 0.0 : 1.0);
        const u32 counts = which == 2 ? label == of_class : (which == 3 ? label > 0.0 : 1);
        if (counts) {
            if (weighted) number = number * ENTRY(weight, k);
            largest = LARGER(SIZE_BITS(number), largest);
            total += (i64)rint(number * scale);
            count += 1;
        }
    }
    const u64 place = (u64)GROUP_ID * 3;
    REPORT_GROUP(largest, LARGER, place);
    REPORT_GROUP(count, SUM, place + 1);
    REPORT_GROUP((u64)total, SUM, place + 2);
}

// Bags: which rows a tree sees, twin of hornbeam/trees/bagging.py, and their compact copies.
//
//     bag   u32 (n_rows,)   [ as they are )[ multiplied by factor )[ outside )
//                           0         n_plain              n_in_bag        n_rows
#define TILE (THREADS * EACH)

// What host and device say to each other about a bag; STATE in bag.py. The order of rows inside a part is left to
// chance: it cannot be seen in any sum.
typedef struct {
    u64 least;        // importance of the last top row, as bits
    u32 last;         // its number
    u32 n_left;       // while these two are searched: top rows still to be found
    u32 sizes[3];     // rows of the three parts so far; zeros at first
    u32 digits[256];  // rows by digit; zeros at first
} bag_t;

// Sums of |gradient * hessian| over the outputs, as bits: for numbers >= 0 they are in the order of the numbers.
//
//     gradient, hessian   f64 (n_outputs, n_rows)   in
//     importance          u64 (n_rows,)             out
KERNEL(THREADS) void importance_kernel(GLOBAL const f64 *RESTRICT gradient, GLOBAL const f64 *RESTRICT hessian,
                                       u32 n_outputs, u32 n_rows, GLOBAL u64 *RESTRICT importance) {
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        f64 total = fabs(gradient[row] * hessian[row]);
        for (u32 k = 1; k < n_outputs; k++) {
            const u64 at = (u64)k * n_rows + row;
            total = total + fabs(gradient[at] * hessian[at]);
        }
        importance[row] = (u64)F64_TO_BITS(total);
    }
}

// Finds the last top row digit by digit, most significant first: 8 digits of the importance, then 4 of the row number,
// of which the smaller is the better. `count` counts the rows whose digits so far are those found, by their next digit;
// `pick` takes the digit in which the last top row lies.
//
//     step   0 to 11
#define DIGIT(importance, row, step) \
    ((u32)((step) < 8 ? (importance) >> (56 - 8 * (step)) : (u64)(~(u32)(row)) >> (24 - 8 * ((step) - 8))) & 0xFFu)

KERNEL(THREADS) void count_kernel(GLOBAL const u64 *RESTRICT importance, u32 n_rows, u32 step, GLOBAL bag_t *bag) {
    LOCAL u32 counts[256];
    for (u32 i = LOCAL_ID; i < 256; i += THREADS) counts[i] = 0;
    BARRIER;
    const u64 least = bag->least;
    const u32 last = bag->last;
    for (u64 row = (u64)GROUP_ID * THREADS + LOCAL_ID; row < n_rows; row += (u64)GROUP_COUNT * THREADS) {
        const u64 value = importance[row];
        u32 same = 1;
        if (step > 8)
            same = value == least && ((~(u32)row ^ last) >> (32 - 8 * (step - 8))) == 0;
        else if (step == 8)
            same = value == least;
        else if (step > 0)
            same = ((value ^ least) >> (64 - 8 * step)) == 0;
        if (same) ADD_LOCAL32(&counts[DIGIT(value, row, step)], 1);
    }
    BARRIER;
    for (u32 i = LOCAL_ID; i < 256; i += THREADS) {
        if (counts[i] != 0) ADD_GLOBAL32(&bag->digits[i], counts[i]);
    }
}

// One thread. While it is searched, `last` is the complement of a row number; after the last step it is the number.
KERNEL(THREADS) void pick_kernel(u32 step, GLOBAL bag_t *bag) {
    if (GROUP_ID == 0 && LOCAL_ID == 0) {
        u32 digit = 255, n_left = bag->n_left;
        while (digit > 0 && bag->digits[digit] < n_left) n_left -= bag->digits[digit--];
        bag->n_left = n_left;
        if (step < 8)
            bag->least |= (u64)digit << (56 - 8 * step);
        else
            bag->last |= digit << (24 - 8 * (step - 8));
        if (step == 11) bag->last = ~bag->last;
        for (u32 i = 0; i < 256; i++) bag->digits[i] = 0;
    }
}

// Puts every row into its part.
//
//     goss           0: rows or queries are drawn     1: top rows are plain, drawn ones multiplied
//     n_top          first place of the rows that are multiplied; goss alone
//     label, query   f64, u32 (n_rows,)   in    read where by_label, by_query are not 0
//     bag            in, out              sizes; least and last, where goss
//     rows           u32 (n_rows,)        out
KERNEL(THREADS) void place_kernel(u64 key, u64 limit, u64 positive_limit, GLOBAL const f64 *RESTRICT label,
                                  u32 by_label, GLOBAL const u32 *RESTRICT query, u32 by_query, u32 goss,
                                  GLOBAL const u64 *RESTRICT importance, u32 n_top, u32 n_rows, GLOBAL bag_t *bag,
                                  GLOBAL u32 *RESTRICT rows) {
    LOCAL u32 counts[THREADS];  // rows of the first (lower half) and second part (upper half), then of all before too
    LOCAL u32 bases[3];
    const u64 least = bag->least;
    const u32 last = bag->last, n_tiles = (u32)(((u64)n_rows + TILE - 1) / TILE);
    for (u32 tile = GROUP_ID; tile < n_tiles; tile += GROUP_COUNT) {
        const u64 from = (u64)tile * TILE + (u64)LOCAL_ID * EACH;
        u32 parts = 0, count = 0;
        for (u32 j = 0; j < EACH; j++) {
            const u64 row = from + j;
            u32 part = 3;
            if (row < n_rows) {
                const u64 most = by_label && label[row] > 0.0 ? positive_limit : limit;
                const u32 drawn = random_bits(key, by_query ? query[row] : row) >> 11 < most ? 1u : 0u;
                if (goss) {
                    const u64 value = importance[row];
                    part = value > least || (value == least && row <= last) ? 0u : drawn ? 1u : 2u;
                } else {
                    part = drawn ? 0u : 2u;
                }
            }
            parts |= part << (2 * j);
            count += part == 0 ? 1u : part == 1 ? 1u << 16 : 0u;
        }
        counts[LOCAL_ID] = count;
        BARRIER;
        for (u32 distance = 1; distance < THREADS; distance *= 2) {  // inclusive sums over the threads
            const u32 before = LOCAL_ID >= distance ? counts[LOCAL_ID - distance] : 0u;
            BARRIER;
            counts[LOCAL_ID] += before;
            BARRIER;
        }
        if (LOCAL_ID == 0) {
            const u32 plain = counts[THREADS - 1] & 0xFFFFu, scaled = counts[THREADS - 1] >> 16;
            const u32 present = (u32)(n_rows - (u64)tile * TILE < TILE ? n_rows - (u64)tile * TILE : TILE);
            const u32 outside = present - plain - scaled;
            bases[0] = ADD_GLOBAL32(&bag->sizes[0], plain);
            bases[1] = n_top + ADD_GLOBAL32(&bag->sizes[1], scaled);
            bases[2] = n_rows - outside - ADD_GLOBAL32(&bag->sizes[2], outside);
        }
        BARRIER;
        const u32 before = counts[LOCAL_ID] - count;
        u32 plain = before & 0xFFFFu, scaled = before >> 16, outside = LOCAL_ID * EACH - plain - scaled;
        for (u32 j = 0; j < EACH; j++) {
            const u32 part = (parts >> (2 * j)) & 3u;
            if (part == 0)
                rows[bases[0] + plain++] = (u32)(from + j);
            else if (part == 1)
                rows[bases[1] + scaled++] = (u32)(from + j);
            else if (part == 2)
                rows[bases[2] + outside++] = (u32)(from + j);
        }
        BARRIER;
    }
}

// Gradients and hessians in the order of the bag, and its rows as the row list of the root.
//
//     out_gradient, out_hessian   f64 (n_in_bag,)   out
//     rows                        u32 (n_in_bag,)   out
KERNEL(THREADS) void take_kernel(GLOBAL const f64 *RESTRICT gradient, GLOBAL const f64 *RESTRICT hessian, u64 offset,
                                 GLOBAL const u32 *RESTRICT bag, u32 n_plain, u32 n_in_bag, f64 factor,
                                 GLOBAL f64 *RESTRICT out_gradient, GLOBAL f64 *RESTRICT out_hessian,
                                 GLOBAL u32 *RESTRICT rows) {
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n_in_bag; place += (u64)GROUP_COUNT * THREADS) {
        const u32 row = bag[place];
        const f64 g = gradient[offset + row], h = hessian[offset + row];
        out_gradient[place] = place < n_plain ? g : g * factor;
        out_hessian[place] = place < n_plain ? h : h * factor;
        rows[place] = row;
    }
}

//     leaf   u16 (n_rows,)     in
//     out    u16 (n_in_bag,)   out
KERNEL(THREADS) void take_leaves_kernel(GLOBAL const u16 *RESTRICT leaf, GLOBAL const u32 *RESTRICT bag, u32 n_in_bag,
                                        GLOBAL u16 *RESTRICT out) {
    for (u64 place = (u64)GROUP_ID * THREADS + LOCAL_ID; place < n_in_bag; place += (u64)GROUP_COUNT * THREADS) {
        out[place] = leaf[bag[place]];
    }
}

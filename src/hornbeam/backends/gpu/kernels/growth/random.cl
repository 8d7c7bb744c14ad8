// Random bits of a run of numbers, so that tests can compare this twin with the definition.
//
//     bits   u64 (n,)   out   of first, first + 1, ...
//     unit   f64 (n,)   out   the same as numbers in [0, 1)
KERNEL(THREADS) void random_kernel(u64 key, u64 first, u32 n, GLOBAL u64 *RESTRICT bits, GLOBAL f64 *RESTRICT unit) {
    for (u32 i = GROUP_ID * THREADS + LOCAL_ID; i < n; i += GROUP_COUNT * THREADS) {
        bits[i] = random_bits(key, first + i);
        unit[i] = random_uniform(key, first + i);
    }
}

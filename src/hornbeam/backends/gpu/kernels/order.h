// Floats as integers in the same order: of two numbers, neither NaN, the smaller has the smaller key, and 0.0 and -0.0
// have one key.
DEVICE u64 order_key(f64 value) {
    const u64 bits = value == 0.0 ? 0 : (u64)F64_TO_BITS(value);
    return bits >> 63 ? ~bits : bits | 0x8000000000000000u;
}

DEVICE f64 value_of_key(u64 key) {
    return BITS_TO_F64(key >> 63 ? key ^ 0x8000000000000000u : ~key);
}

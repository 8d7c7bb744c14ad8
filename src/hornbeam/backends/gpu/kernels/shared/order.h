// Floats as integers in the same order: of two numbers, neither NaN, the smaller has the smaller key, and 0.0 and -0.0
// have one key. Twin: gpu/runtime/order.py.
//
//     bits   of an f32 or f64, as u32 or u64
//     sign   the sign bit of that type
#define KEY_OF_BITS(bits, sign) ((bits) == (sign) ? (sign) : (bits) & (sign) ? ~(bits) : (bits) | (sign))

DEVICE u64 order_key(f64 value) {
    const u64 bits = (u64)F64_TO_BITS(value);
    return KEY_OF_BITS(bits, 0x8000000000000000u);
}

DEVICE f64 value_of_key(u64 key) {
    return BITS_TO_F64(key >> 63 ? key ^ 0x8000000000000000u : ~key);
}

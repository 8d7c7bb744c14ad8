// Raw values as kernels read them: the bits of f32 or f64. Arithmetic of f32 may take numbers below 2^-126 for 0 (CuPy
// compiles with -ftz=true, and OpenCL leaves it to the device), and then rows would go another way than on a CPU.
#if VALUE_BYTES == 4
typedef u32 raw_t;
#define RAW_SIGN     0x80000000u
#define RAW_INFINITY 0x7F800000u
#else
typedef u64 raw_t;
#define RAW_SIGN     0x8000000000000000u
#define RAW_INFINITY 0x7FF0000000000000u
#endif

#define IS_NAN(raw) (((raw) & ~RAW_SIGN) > RAW_INFINITY)

// Integers in the order of the values, none of which is NaN; 0.0 and -0.0 have one key.
DEVICE raw_t raw_key(raw_t raw) {
    const raw_t bits = raw == RAW_SIGN ? 0 : raw;
    return bits & RAW_SIGN ? ~bits : bits | RAW_SIGN;
}

DEVICE f64 raw_value(raw_t raw) {
#if VALUE_BYTES == 4
    const u32 size = raw & ~RAW_SIGN;
    if (size < 0x00800000u) {  // a multiple of 2^-149
        const f64 value = (f64)size * 1.4012984643248171e-45;
        return raw & RAW_SIGN ? -value : value;
    }
    return (f64)BITS_TO_F32(raw);
#else
    return BITS_TO_F64(raw);
#endif
}

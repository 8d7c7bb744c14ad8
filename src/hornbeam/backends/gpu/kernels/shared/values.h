// Raw values as kernels read them: the bits of f32 or f64. Arithmetic of f32 may take numbers below 2^-126 for 0 (CuPy
// compiles with -ftz=true, and OpenCL leaves it to the device), and then rows would go another way than on a CPU.
#if VALUE_BYTES == 4
typedef u32 raw_t;
#define RAW_SIGN       0x80000000u
#define RAW_INFINITY   0x7F800000u
#define RAW_VALUE(raw) value_of_f32(raw)
#else
typedef u64 raw_t;
#define RAW_SIGN       0x8000000000000000u
#define RAW_INFINITY   0x7FF0000000000000u
#define RAW_VALUE(raw) BITS_TO_F64(raw)
#endif

#define IS_NAN(raw) (((raw) & ~RAW_SIGN) > RAW_INFINITY)

// The number that the bits of an f32 stand for.
DEVICE f64 value_of_f32(u32 bits) {
    const u32 size = bits & 0x7FFFFFFFu;
    if (size < 0x00800000u) {  // a multiple of 2^-149
        const f64 value = (f64)size * 1.4012984643248171e-45;
        return bits >> 31 ? -value : value;
    }
    return (f64)BITS_TO_F32(bits);
}

// Whether a raw value goes left at a split.
//
//   threshold   of a split of numbers; categorical: first word (upper 32 bits) and words of its set, as bits
//   column      2 * feature + missing left, bit 31 set if categorical
//   sets        u32    bits of the codes that categorical splits send left
#define IS_CATEGORICAL     0x80000000u
#define FEATURE_OF(column) ((column) % IS_CATEGORICAL / 2)

DEVICE u32 goes_left(f64 value, f64 threshold, u32 column, GLOBAL const u32 *sets) {
    if (column < IS_CATEGORICAL) return value != value ? column % 2 : (u32)(value <= threshold);
    const u64 set = (u64)F64_TO_BITS(threshold);
    if (!(value >= 0.0 && value < 32.0 * (f64)(u32)set)) return 0;
    const u32 code = (u32)value;
    return (f64)code == value ? sets[(set >> 32) + code / 32] >> code % 32 & 1u : 0u;
}

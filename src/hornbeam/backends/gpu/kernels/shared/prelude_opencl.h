// The portable dialect, as OpenCL C 1.2. prelude_cuda.h defines the same names.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
typedef double f64;

#define KERNEL(threads)                 __kernel __attribute__((reqd_work_group_size(threads, 1, 1)))
#define KERNEL_SHARING(threads, groups) KERNEL(threads)
#define DEVICE                          static inline
#define GLOBAL                          __global
#define LOCAL                           __local
#define TO_LOCAL                        __local
#define RESTRICT                        restrict
// Local memory whose size may pass 48 KB; one such array a source file.
#define BIG_LOCAL(type, name, size) __local type name[size]

#define LOCAL_ID    ((u32)get_local_id(0))
#define GROUP_ID    ((u32)get_group_id(0))
#define GROUP_COUNT ((u32)get_num_groups(0))
#define BARRIER     barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define UNROLL
#define UNROLL_SOME

// A hint that only CUDA's compiler needs.
#define KEEP_IN_REGISTER(value)
#define BYTE(word, number) (((word) >> (8 * (number))) & 0xFFu)

#define BITS_TO_F64(bits)  as_double((i64)(bits))
#define BITS_TO_F32(bits)  as_float((u32)(bits))
#define F32_TO_BITS(value) as_uint((f32)(value))
#define F64_TO_BITS(value) as_long(value)

// The largest value of all threads of a group, every one of which takes part, and of what is there.
#define MAX_LOCAL32_OF_ALL(place, value) atomic_max((volatile __local u32 *)(place), (u32)(value))
// A quotient that is good to a few units in the last place.
#define ROUGH_QUOTIENT(a, b) ((a) / (b))

#define ADD_LOCAL32(place, value)  atomic_add((volatile __local u32 *)(place), (u32)(value))
#define ADD_GLOBAL32(place, value) atomic_add((volatile __global u32 *)(place), (u32)(value))
#define MIN_GLOBAL32(place, value) atomic_min((volatile __global i32 *)(place), (i32)(value))
#define MAX_GLOBAL32(place, value) atomic_max((volatile __global i32 *)(place), (i32)(value))

#ifdef ATOMIC64
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define ADD_LOCAL64(place, value)  atom_add((volatile __local u64 *)(place), (u64)(value))
#define ADD_GLOBAL64(place, value) atom_add((volatile __global u64 *)(place), (u64)(value))
#else
// 64-bit sums as two 32-bit halves, the lower first: whoever makes the lower half wrap carries into the upper one.
// Between the two additions the pair is no number, so it may only be read after all additions are done.
static inline void add_halves_local(volatile __local u32 *place, u64 value) {
    const u32 low = (u32)value;
    const u32 before = atomic_add(place, low);
    const u32 high = (u32)(value >> 32) + ((u32)(before + low) < low ? 1u : 0u);
    if (high != 0u) atomic_add(place + 1, high);
}
static inline void add_halves_global(volatile __global u32 *place, u64 value) {
    const u32 low = (u32)value;
    const u32 before = atomic_add(place, low);
    const u32 high = (u32)(value >> 32) + ((u32)(before + low) < low ? 1u : 0u);
    if (high != 0u) atomic_add(place + 1, high);
}
#define ADD_LOCAL64(place, value)  add_halves_local((volatile __local u32 *)(place), (u64)(value))
#define ADD_GLOBAL64(place, value) add_halves_global((volatile __global u32 *)(place), (u64)(value))
#endif

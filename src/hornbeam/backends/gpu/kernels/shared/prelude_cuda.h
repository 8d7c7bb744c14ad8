// The portable dialect, as CUDA C++ for NVRTC (compiled with --fmad=false). prelude_opencl.h defines the same names.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define KERNEL(threads) extern "C" __global__ __launch_bounds__(threads)
// As many registers a thread as let this many groups share a compute unit.
#define KERNEL_SHARING(threads, groups) extern "C" __global__ __launch_bounds__(threads, groups)
#define DEVICE                          static __device__ __forceinline__
#define GLOBAL
#define LOCAL    __shared__
#define TO_LOCAL /* of what a pointer points to */
#define RESTRICT __restrict__
// Local memory whose size may pass 48 KB is given at launch; one such array a source file.
#define BIG_LOCAL(type, name, size) extern __shared__ type name[]

#define LOCAL_ID    ((u32)threadIdx.x)
#define GROUP_ID    ((u32)blockIdx.x)
#define GROUP_COUNT ((u32)gridDim.x)
#define BARRIER     __syncthreads()
#define UNROLL      _Pragma("unroll")
// Some iterations of a long loop at once, so that their loads are under way together.
#define UNROLL_SOME _Pragma("unroll 4")

// The value is not computed anew at each use.
#define KEEP_IN_REGISTER(value) asm volatile("" : "+r"(value))
// Byte `number`, a constant, of a word.
#define BYTE(word, number) __byte_perm(word, 0u, 0x4440u + (number))

#define BITS_TO_F64(bits)  __longlong_as_double((i64)(bits))
#define BITS_TO_F32(bits)  __uint_as_float(bits)
#define F32_TO_BITS(value) __float_as_uint(value)
#define F64_TO_BITS(value) __double_as_longlong(value)

// The largest value of all threads of a group, every one of which takes part, and of what is there.
#if __CUDA_ARCH__ >= 800
#define MAX_LOCAL32_OF_ALL(place, value)                                        \
    do {                                                                        \
        const u32 largest_of_warp_ = __reduce_max_sync(0xFFFFFFFFu, value);     \
        if (threadIdx.x % 32 == 0) atomicMax((u32 *)(place), largest_of_warp_); \
    } while (0)
#else
#define MAX_LOCAL32_OF_ALL(place, value) atomicMax((u32 *)(place), (u32)(value))
#endif
// A quotient that is good to a few units in the last place.
#define ROUGH_QUOTIENT(a, b) __fdividef(a, b)

#define ADD_LOCAL32(place, value)  atomicAdd((u32 *)(place), (u32)(value))
#define ADD_GLOBAL32(place, value) atomicAdd((u32 *)(place), (u32)(value))
#define MIN_GLOBAL32(place, value) atomicMin((i32 *)(place), (i32)(value))
#define MAX_GLOBAL32(place, value) atomicMax((i32 *)(place), (i32)(value))
#define ADD_LOCAL64(place, value)  atomicAdd((u64 *)(place), (u64)(value))
#define ADD_GLOBAL64(place, value) atomicAdd((u64 *)(place), (u64)(value))

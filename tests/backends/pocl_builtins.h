// What kernels take from OpenCL's own header. PoCL 3 reads all of that, a megabyte, for every program, which takes 0.2
// seconds; tests/conftest.py gives it this in its place.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;

#define as_double(bits) __builtin_astype((bits), double)
#define as_float(bits)  __builtin_astype((bits), float)
#define as_uint(bits)   __builtin_astype((bits), uint)
#define as_long(bits)   __builtin_astype((bits), long)

#define CLK_LOCAL_MEM_FENCE  1
#define CLK_GLOBAL_MEM_FENCE 2

#define BUILTIN __attribute__((overloadable))
#define PURE    __attribute__((overloadable, const))

size_t PURE get_local_id(uint dimension);
size_t PURE get_group_id(uint dimension);
size_t PURE get_num_groups(uint dimension);
void BUILTIN __attribute__((convergent)) barrier(uint flags);

uint BUILTIN atomic_add(volatile __local uint *place, uint value);
uint BUILTIN atomic_add(volatile __global uint *place, uint value);
uint BUILTIN atomic_max(volatile __local uint *place, uint value);
int BUILTIN atomic_max(volatile __global int *place, int value);
int BUILTIN atomic_min(volatile __global int *place, int value);
uint BUILTIN atomic_cmpxchg(volatile __local uint *place, uint seen, uint next);
ulong BUILTIN atom_add(volatile __local ulong *place, ulong value);
ulong BUILTIN atom_add(volatile __global ulong *place, ulong value);
ulong BUILTIN atom_cmpxchg(volatile __local ulong *place, ulong seen, ulong next);

double PURE fabs(double x);
double PURE floor(double x);
double PURE rint(double x);
double PURE sqrt(double x);

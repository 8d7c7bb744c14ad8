// The record types that host and device share: hornbeam/core/dtypes.py.

// SPLIT
typedef struct {
    f64 gain;
    i64 left_gradient, left_hessian;
    i32 feature, bin;
    u32 missing_left;  // a byte and its padding
    u32 padding;
} split_t;

// EXPANSION
typedef struct {
    i64 begin, end, gradient, hessian, left_gradient, left_hessian;
    i32 depth, feature, bin, slot, spare_slot;
    u8 missing_left, padding[3];
} expansion_t;

// NODE
typedef struct {
    i64 begin, end, gradient, hessian;
    f64 priority;
    split_t split;
    i32 depth, parent, left, slot, lower, chain;
} node_t;

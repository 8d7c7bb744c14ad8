// Where kernels get the gradient and the hessian of a row from. Those of a loss of one score and one label are computed
// wherever they are needed: no memory, and no more time than to write them and read them again. Others are stored.
//
//                 OBJECTIVE == 0: stored        OBJECTIVE > 0: computed, see losses.h
//     first       gradients                     scores
//     second      hessians                      labels, of VALUE_BYTES
//     third       not read                      weights, read only when weighted is not 0
//     offset      of the rows of the output     0
//
//     GET_GRADIENT(row, g, h);                  f64 g and h
#if VALUE_BYTES == 1
typedef u8 second_t;
#else
typedef f64 second_t;
#endif

#define ROW_GRADIENTS                                                                                           \
    GLOBAL const f64 *RESTRICT first, GLOBAL const second_t *RESTRICT second, GLOBAL const f64 *RESTRICT third, \
        u32 weighted, f64 a, f64 b, u64 offset

#if OBJECTIVE > 0
#define GET_GRADIENT(row, g, h)                                 \
    f64 g, h;                                                   \
    pointwise_loss(first[row], (f64)second[row], a, b, &g, &h); \
    if (weighted) weigh_loss(first[row], (f64)second[row], third[row], &g, &h)
#else
#define GET_GRADIENT(row, g, h) const f64 g = first[offset + (row)], h = second[offset + (row)]
#endif

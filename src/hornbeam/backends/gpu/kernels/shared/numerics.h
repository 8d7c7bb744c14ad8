// Functions that give the same bits everywhere: twins of hornbeam/core/numerics.py, the same float64 operations in the
// same order. Never those of the platform.

// e**x for x clamped to +-708: hornbeam/core/numerics.py.
DEVICE f64 exp_(f64 x) {
    x = x < -708.0 ? -708.0 : x;
    x = x > 708.0 ? 708.0 : x;
    const f64 k = floor(x * 1.4426950408889634 + 0.5);
    const f64 r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    f64 p = 1.6059043836821613e-10;
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 0.0001984126984126984;
    p = p * r + 0.001388888888888889;
    p = p * r + 0.008333333333333333;
    p = p * r + 0.041666666666666664;
    p = p * r + 0.16666666666666666;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * BITS_TO_F64(((i64)(i32)k + 1023) << 52);
}

// Natural logarithm of x >= 0: hornbeam/core/numerics.py.
DEVICE f64 log_(f64 x) {
    x = x < 2.2250738585072014e-308 ? 2.2250738585072014e-308 : x;
    const i64 bits = F64_TO_BITS(x);
    f64 k = (f64)((i32)(bits >> 52) - 1022);
    f64 m = BITS_TO_F64((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000);
    const u32 low = m < 0.7071067811865476;
    m = low ? m + m : m;
    k = low ? k - 1.0 : k;
    const f64 s = (m - 1.0) / (m + 1.0);
    const f64 z = s * s;
    f64 p = 0.047619047619047616;
    p = p * z + 0.05263157894736842;
    p = p * z + 0.058823529411764705;
    p = p * z + 0.06666666666666667;
    p = p * z + 0.07692307692307693;
    p = p * z + 0.09090909090909091;
    p = p * z + 0.1111111111111111;
    p = p * z + 0.14285714285714285;
    p = p * z + 0.2;
    p = p * z + 0.3333333333333333;
    p = p * z + 1.0;
    return k * 6.93147180369123816490e-01 + (k * 1.90821492927058770002e-10 + 2.0 * s * p);
}

// log(1 + exp(x)): hornbeam/core/numerics.py.
DEVICE f64 softplus_(f64 x) {
    const f64 e = exp_(-fabs(x)), u = 1.0 + e, d = u - 1.0;
    const f64 part = d == 0.0 ? e : log_(u) * (e / (d == 0.0 ? 1.0 : d));
    return (x > 0.0 ? x : 0.0) + part;
}

// Logarithm to the base 2 of a normal number x > 0.
DEVICE f64 log2_(f64 x) {
    return log_(x) * 1.4426950408889634;
}

// tanh(x) / x: hornbeam/core/numerics.py.
DEVICE f64 tanh_ratio_(f64 x) {
    const f64 size = fabs(x);
    const f64 z = size * size;
    f64 p = 0.003592128036572481;
    p = p * z + -0.008863235529902197;
    p = p * z + 0.021869488536155203;
    p = p * z + -0.05396825396825397;
    p = p * z + 0.13333333333333333;
    p = p * z + -0.3333333333333333;
    p = p * z + 1.0;
    const f64 t = size < 0.125 ? 0.125 : size;
    const f64 ratio = (1.0 - 2.0 / (exp_(t + t) + 1.0)) / t;
    return size < 0.125 ? p : ratio;
}

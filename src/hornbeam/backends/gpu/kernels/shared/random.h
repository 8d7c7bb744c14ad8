// Twin of hornbeam/core/random_choices.py: random bits from a key and a number, without a stream.

DEVICE u64 hash_row(u64 row) {
    u64 z = (row + 1u) * (u64)0x9E3779B97F4A7C15 + (u64)0x5851F42D4C957F2D;
    z = (z ^ (z >> 30)) * (u64)0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * (u64)0x94D049BB133111EB;
    return z ^ (z >> 31);
}

DEVICE u64 random_bits(u64 key, u64 index) {
    return hash_row(hash_row(index) ^ key);
}

DEVICE f64 random_uniform(u64 key, u64 index) {
    return (f64)(random_bits(key, index) >> 11) * 1.1102230246251565e-16;  // 2^-53
}

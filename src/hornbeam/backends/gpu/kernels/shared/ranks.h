// The rank of a value, from tiles whose layout is given at launch: bits of a rank and words of a tile, see bins.h.
DEVICE u32 rank_of(GLOBAL const u32 *ranks, u32 bits, u32 words, u32 n_rows, u32 feature, u32 row) {
    const u32 per_word = 32 / bits, lanes = words * per_word;
    const u32 word = ranks[((u64)(feature / lanes) * n_rows + row) * words + feature % lanes / per_word];
    return bits == 32 ? word : word >> (feature % per_word * bits) & ((1u << bits) - 1u);
}

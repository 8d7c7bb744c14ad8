// The contexts of the nodes of a round, where the device grows a tree by itself: twin of contexts.TreeContexts, the
// same float64 operations in the same order.
//
// A group makes those of the two children of one node that is expanded, from the node's own and its split. What they
// will hand down stays in tables by the numbers of the nodes: child i of a round has the number N_NODES + i, as
// select.cl will enter it. The root, whose context comes from its sums alone, is a round of its own.
//
// A share of some features are those with the smallest hashes under a key. No two features have the same hash, so the
// largest one of the share is found digit by digit, from the top: the features whose upper digits are the same as its
// own are counted by the next one.
//
//     state         see select.cl             in    and at word 8 three keys, u64: features by node, thresholds,
//     features
//                                                   by level
//     chosen        u32 (n_batch,)            in    numbers of the nodes that are expanded
//     search        i64 (n_children, 5)       in    the table of split.cl: gradient and hessian sum; rows; slot
//     units         f64 (2,)                  in    as in split.cl
//     features      u32 (n_used,)             in    value bins * 2 + has missing; 0: the tree may not use it
//     signs         i32 (n_used,)             in    monotone constraint
//     factors       f64 (n_depths,)           in    contexts.monotone_factor
//     groups        u32 (n_groups, n_words)   in    interaction groups: features as bits
//     contexts      context_t (most_nodes,)   in, out   by number
//     alive         u32 (most_nodes, n_groups / 32 upwards)   in, out   by number: groups that hold the whole path
//     around, mask  i64 (n_children, 6), u32 (n_children, n_words)   out   as split_general.cl takes them
#define N_BATCH    state[0]
#define N_NODES    state[1]
#define INFINITE   BITS_TO_F64(0x7FF0000000000000)
#define DIGIT_BITS 4u
#define N_DIGITS   (64u / DIGIT_BITS)
#define N_VALUES   (1u << DIGIT_BITS)

#define HAS(mask, feature) ((mask)[(feature) / 32] >> (feature) % 32 & 1u)

// CONTEXT of hornbeam/core/dtypes.py
typedef struct {
    f64 lower, upper, output;
    u64 path;
} context_t;

// splitting.node_score, whose node has its own output as that of a parent
DEVICE f64 node_score(f64 gradient, f64 hessian, i64 rows, f64 output, rules_t how) {
    if (!(how.path_smooth > 0.0))
        return leaf_score(gradient, hessian, how.lambda_l1, how.lambda_l2, how.max_delta_step);
    how.parent_output = output;
    how.lower = -INFINITE;
    how.upper = INFINITE;
    return given_score(gradient, hessian, side_output(gradient, hessian, rows, &how) + 0.0, &how);
}

// contexts.share_of
DEVICE u32 share_of(u32 n, f64 fraction) {
    const u32 share = (u32)floor(fraction * (f64)n + 0.5), some = share > 1 ? share : 1u;
    return some < n ? some : n;
}

KERNEL(THREADS) void contexts_kernel(GLOBAL const u32 *RESTRICT state, GLOBAL const u32 *RESTRICT chosen, u32 is_root,
                                     GLOBAL const i64 *RESTRICT search, GLOBAL const f64 *RESTRICT units,
                                     GLOBAL const u32 *RESTRICT features, u32 n_used, u32 n_numeric, u32 max_onehot,
                                     f64 cat_l2, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step, f64 path_smooth,
                                     u32 monotone, GLOBAL const i32 *RESTRICT signs, GLOBAL const f64 *RESTRICT factors,
                                     GLOBAL const u32 *RESTRICT groups, u32 n_groups, f64 by_level, f64 by_node,
                                     u32 has_keys, GLOBAL context_t *contexts, GLOBAL u32 *alive,
                                     GLOBAL i64 *RESTRICT around, GLOBAL u32 *mask) {
    LOCAL u32 counts[N_DIGITS * N_VALUES];
    if (GROUP_ID >= (is_root ? 1u : N_BATCH)) return;
    GLOBAL const node_t *nodes = (GLOBAL const node_t *)(state + 16);
    GLOBAL const u64 *tree_keys = (GLOBAL const u64 *)(state + 8);
    const u32 n_words = (n_used + 31) / 32, group_words = (n_groups + 31) / 32, n_children = is_root ? 1 : 2;
    const u32 number = is_root ? 0 : chosen[GROUP_ID], first = is_root ? 0 : N_NODES + 2 * GROUP_ID;
    const u32 depth = is_root ? 0 : (u32)(nodes[number].depth - nodes[0].depth) + 1;
    const u32 feature = is_root ? 0 : (u32)nodes[number].split.feature;
    GLOBAL const i64 *sums = search + (u64)GROUP_ID * n_children * 5;

    // outputs, bounds and paths: little work, which every thread does
    rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, 0.0, 0.0, 0);
    how.path_smooth = path_smooth;
    how.monotone = monotone;
    const context_t nowhere = {-INFINITE, INFINITE, 0.0, 0}, above = is_root ? nowhere : contexts[number];
    how.lower = above.lower;
    how.upper = above.upper;
    how.parent_output = above.output;
    const u32 many_levels = !is_root && feature >= n_numeric && features[feature] / 2 > max_onehot;
    context_t own[2];
    UNROLL for (u32 side = 0; side < 2; side++) {
        own[side] = above;
        if (side < n_children) {
            const f64 g = (f64)sums[side * 5] * units[0], h = (f64)sums[side * 5 + 1] * units[1];
            how.lambda_l2 = lambda_l2 + (many_levels ? cat_l2 : 0.0);
            own[side].output = is_root ? leaf_output(g, h, lambda_l1, lambda_l2, max_delta_step)
                                       : side_output(g, h, sums[side * 5 + 2], &how) + 0.0;
            own[side].path = has_keys && !is_root ? hash_row(above.path ^ hash_row(side)) : 0;
        }
    }
    const i32 sign = is_root ? 0 : signs[feature];
    if (sign != 0) {
        const f64 middle = (own[0].output + own[1].output) / 2.0;
        const f64 below = middle < above.upper ? middle : above.upper;
        const f64 beyond = middle > above.lower ? middle : above.lower;
        if (sign > 0) {
            own[0].upper = below;
            own[1].lower = beyond;
        } else {
            own[0].lower = beyond;
            own[1].upper = below;
        }
    }
    how.lambda_l2 = lambda_l2;
    UNROLL for (u32 side = 0; side < 2; side++) {
        if (side < n_children && LOCAL_ID == side) {
            const f64 g = (f64)sums[side * 5] * units[0], h = (f64)sums[side * 5 + 1] * units[1];
            GLOBAL i64 *out = around + ((u64)GROUP_ID * n_children + side) * 6;
            contexts[first + side] = own[side];
            out[0] = F64_TO_BITS(own[side].lower);
            out[1] = F64_TO_BITS(own[side].upper);
            out[2] = F64_TO_BITS(own[side].output);
            out[3] = F64_TO_BITS(node_score(g, h, sums[side * 5 + 2], own[side].output, how));
            out[4] = F64_TO_BITS(factors[depth]);
            out[5] = (i64)random_bits(tree_keys[1], own[side].path);
        }
    }

    // groups and features
    GLOBAL u32 *left = mask + (u64)GROUP_ID * n_children * n_words, *right = left + (n_children - 1) * n_words;
    for (u32 word = LOCAL_ID; word < n_words; word += THREADS) {
        u32 of_tree = 0;
        UNROLL for (u32 k = 0; k < 32; k++) {
            const u32 described = word * 32 + k < n_used ? features[word * 32 + k] : 0;
            of_tree |= (described != 0 ? 1u : 0u) << k;
        }
        left[word] = of_tree;
    }
    for (u32 word = LOCAL_ID; word < group_words; word += THREADS) {
        u32 holding = 0;
        for (u32 k = 0; k < 32 && word * 32 + k < n_groups; k++)
            holding |= (is_root ? 1u : HAS(groups + (u64)(word * 32 + k) * n_words, feature)) << k;
        if (!is_root) holding &= alive[(u64)number * group_words + word];
        for (u32 side = 0; side < n_children; side++) alive[(u64)(first + side) * group_words + word] = holding;
    }
    BARRIER;
    for (u32 step = 0; step <= n_children; step++) {  // 0: the share of the depth; then those of the children
        if (step == 1) {
            for (u32 word = LOCAL_ID; word < n_words; word += THREADS) {
                u32 allowed = left[word], in_groups = 0;
                for (u32 group = 0; group < n_groups; group++)
                    in_groups |= HAS(alive + (u64)first * group_words, group) ? groups[(u64)group * n_words + word] : 0;
                if (n_groups > 0) allowed &= in_groups;
                left[word] = allowed;
                right[word] = allowed;
            }
            BARRIER;
        }
        GLOBAL u32 *own_mask = step == 2 ? right : left;
        const u32 is_searched = step == 0 || sums[(step == 2 ? 5 : 0) + 3] >= 0;
        const f64 fraction = step == 0 ? by_level : by_node;
        const u64 key = step == 0 ? random_bits(tree_keys[2], depth)
                                  : random_bits(tree_keys[0], step == 2 ? own[1].path : own[0].path);
        if (fraction < 1.0 && is_searched) {
            for (u32 i = LOCAL_ID; i < N_DIGITS * N_VALUES; i += THREADS) counts[i] = 0;
            BARRIER;
            u64 upper = 0;  // digits of the largest hash of the share, as far as they are known
            u32 shift = 64, n_missing = 0, is_found = 0;
            for (u32 digit = 0; digit < N_DIGITS && !is_found; digit++) {
                shift -= DIGIT_BITS;
                for (u32 i = LOCAL_ID; i < n_used; i += THREADS) {
                    const u64 bits = random_bits(key, i);
                    if (HAS(own_mask, i) && bits >> shift >> DIGIT_BITS == upper)
                        ADD_LOCAL32(&counts[digit * N_VALUES + (u32)(bits >> shift & (N_VALUES - 1u))], 1);
                }
                BARRIER;
                u32 value = digit * N_VALUES;
                if (digit == 0) {
                    for (u32 i = 0; i < N_VALUES; i++) n_missing += counts[i];
                    n_missing = share_of(n_missing, fraction);
                }
                while (n_missing > counts[value]) n_missing -= counts[value++];
                upper = upper << DIGIT_BITS | (value - digit * N_VALUES);
                is_found = n_missing == counts[value];  // all that begin like this are in the share
            }
            for (u32 word = LOCAL_ID; word < n_words; word += THREADS) {
                u32 share = own_mask[word];
                for (u32 k = 0; k < 32; k++)
                    if (share >> k & 1u && random_bits(key, word * 32 + k) >> shift > upper) share -= 1u << k;
                own_mask[word] = share;
            }
            BARRIER;
        }
    }
}

// The values of the leaves of a finished tree, where these depend on contexts: contexts.leaf_outputs times the learning
// rate. Splits by levels, whose children have more lambda_l2, are left to the host.
//
//     count        u32 (1,)            in    0: the tree is not finished
//     leaf_nodes   u32 (n_leaves,)     in    node of each leaf, from leaf_numbers.cl
//     sums         as in leaves.cl's leaf_values_kernel
#define N_ORDERED state[3]

KERNEL(THREADS) void values_in_context_kernel(GLOBAL const u32 *RESTRICT state, GLOBAL const u32 *RESTRICT count,
                                              GLOBAL const u32 *RESTRICT leaf_nodes,
                                              GLOBAL const context_t *RESTRICT contexts, GLOBAL i64 *sums,
                                              f64 gradient_unit, f64 hessian_unit, f64 least_hessian, f64 lambda_l1,
                                              f64 lambda_l2, f64 max_delta_step, f64 path_smooth, u32 monotone,
                                              f64 learning_rate, u32 n_leaves) {
    GLOBAL const node_t *nodes = (GLOBAL const node_t *)(state + 16);
    GLOBAL f64 *values = (GLOBAL f64 *)(sums + 2 * n_leaves);
    if (count[0] == 0) return;
    for (u32 leaf = GROUP_ID * THREADS + LOCAL_ID; leaf <= N_ORDERED; leaf += GROUP_COUNT * THREADS) {
        const u32 node = leaf_nodes[leaf];
        const f64 gradient = (f64)sums[leaf * 2] * gradient_unit;
        const f64 hessian = finished_weight((f64)sums[leaf * 2 + 1] * hessian_unit, least_hessian);
        f64 output = leaf_output(gradient, hessian, lambda_l1, lambda_l2, max_delta_step);
        if (node > 0) {
            rules_t how = plain_rules(lambda_l1, lambda_l2, max_delta_step, 0.0, 0.0, 0);
            how.path_smooth = path_smooth;
            how.monotone = monotone;
            how.lower = contexts[node].lower;
            how.upper = contexts[node].upper;
            how.parent_output = contexts[nodes[node].parent].output;
            output = side_output(gradient, hessian, nodes[node].end - nodes[node].begin, &how) + 0.0;
        }
        values[leaf] = output * learning_rate;
    }
}

// What a candidate split gains in its node: twin of splitting.candidate_gains, the same float64 operations in the same
// order, for the kernels that try one candidate after the other.

typedef struct {
    f64 lambda_l1, lambda_l2, max_delta_step, min_gain, min_hessian, path_smooth;
    f64 lower, upper, parent_output, score;
    i64 min_rows;
    u32 monotone;
} rules_t;

// Rules without a context; the node's score is for the caller to enter.
DEVICE rules_t plain_rules(f64 lambda_l1, f64 lambda_l2, f64 max_delta_step, f64 min_gain, f64 min_hessian,
                           i64 min_rows) {
    rules_t how;
    how.lambda_l1 = lambda_l1;
    how.lambda_l2 = lambda_l2;
    how.max_delta_step = max_delta_step;
    how.min_gain = min_gain;
    how.min_hessian = min_hessian;
    how.path_smooth = how.lower = how.upper = how.parent_output = how.score = 0.0;
    how.min_rows = min_rows;
    how.monotone = 0;
    return how;
}

// What kernels take of the nodes' contexts, in the order of PlacedContexts.arguments in gpu/growth/contexts.py.
//
//     context       i64 (n_nodes, 6)          in    f64 lower, upper, parent_output, score, monotone_factor; key
//     mask          u32 (n_nodes, n_words)    in    features that may be used
//     signs         i32 (n_used,)             in    monotone constraint
//     contribution  f64 (n_used,)             in    factor on gains
//     costs         f64 (n_nodes, n_costs)    in    what splits cost, by feature; n_costs is n_used, or 0: nothing
//     sides         f64 (n_nodes, 4, n_sides) in    splitting.SideBounds; n_sides is 0: there are none
//     side_offsets  u32 (n_used + 1,)         in
#define CONTEXT_ARGUMENTS                                                                                         \
    GLOBAL const i64 *RESTRICT context, GLOBAL const u32 *RESTRICT mask, u32 n_words,                             \
        GLOBAL const i32 *RESTRICT signs, GLOBAL const f64 *RESTRICT contribution, f64 path_smooth, u32 monotone, \
        u32 extra_trees, GLOBAL const f64 *RESTRICT costs, u32 n_costs, GLOBAL const f64 *RESTRICT sides,         \
        GLOBAL const u32 *RESTRICT side_offsets, u32 n_sides

// NodeContext.bar: the score that the children of a node by a feature must exceed.
#define BAR(around, node, feature) \
    (BITS_TO_F64((around)[3]) + (n_costs > 0 ? costs[(u64)(node) * n_costs + (feature)] : 0.0))

// Adds the context of a node, i64 (6,): bits of lower, upper, parent_output, score and factor; key.
DEVICE void enter_context(rules_t *how, GLOBAL const i64 *around, f64 path_smooth, u32 monotone) {
    how->path_smooth = path_smooth;
    how->monotone = monotone;
    how->lower = BITS_TO_F64(around[0]);
    how->upper = BITS_TO_F64(around[1]);
    how->parent_output = BITS_TO_F64(around[2]);
    how->score = BITS_TO_F64(around[3]);
}

// splitting.node_output
DEVICE f64 side_output(f64 gradient, f64 hessian, i64 rows, const rules_t *how) {
    f64 output = newton_step(gradient, hessian, how->lambda_l1, how->lambda_l2, how->max_delta_step);
    if (how->path_smooth > 0.0) {
        const f64 share = (f64)rows / how->path_smooth;
        output = output * share / (share + 1.0) + how->parent_output / (share + 1.0);
    }
    if (how->monotone) {
        output = output > how->lower ? output : how->lower;
        output = output < how->upper ? output : how->upper;
    }
    return output;
}

// splitting.given_score
DEVICE f64 given_score(f64 gradient, f64 hessian, f64 output, const rules_t *how) {
    const f64 weight = hessian + how->lambda_l2;
    if (!(weight > 0.0)) return 0.0;
    return -(2.0 * shrink(gradient, how->lambda_l1) * output + weight * output * output);
}

// splitting.leaf_score without max_delta_step
DEVICE f64 free_score(f64 gradient, f64 hessian, const rules_t *how) {
    return leaf_score(gradient, hessian, how->lambda_l1, how->lambda_l2, 0.0);
}

// Enters the bounds of both children by a split, column `at` of the node's.
DEVICE void enter_sides(rules_t *left, rules_t *right, GLOBAL const f64 *sides, u32 n_sides, u32 node, u32 at) {
    GLOBAL const f64 *own = sides + (u64)node * 4 * n_sides + at;
    left->lower = own[0];
    left->upper = own[n_sides];
    right->lower = own[2 * (u64)n_sides];
    right->upper = own[3 * (u64)n_sides];
}

// splitting.candidate_gains; `right` has the bounds of the right side, and else the same as `how`
DEVICE f64 gain_between(i64 left_g, i64 left_h, i64 right_g, i64 right_h, i64 left_rows, i64 right_rows,
                        f64 gradient_unit, f64 hessian_unit, i32 sign, f64 factor, const rules_t *how,
                        const rules_t *right) {
    if (left_rows < how->min_rows || right_rows < how->min_rows || left_h <= 0 || right_h <= 0) return NO_GAIN;
    const f64 left_weight = (f64)left_h * hessian_unit, right_weight = (f64)right_h * hessian_unit;
    if (!(left_weight >= how->min_hessian && right_weight >= how->min_hessian)) return NO_GAIN;
    const f64 left_sum = (f64)left_g * gradient_unit, right_sum = (f64)right_g * gradient_unit;
    f64 score;
    if (how->max_delta_step > 0.0 || how->path_smooth > 0.0 || how->monotone) {
        const f64 left_output = side_output(left_sum, left_weight, left_rows, how);
        const f64 right_output = side_output(right_sum, right_weight, right_rows, right);
        if (sign > 0 && !(left_output <= right_output)) return NO_GAIN;
        if (sign < 0 && !(left_output >= right_output)) return NO_GAIN;
        score = given_score(left_sum, left_weight, left_output, how) +
                given_score(right_sum, right_weight, right_output, how);
    } else {
        score = free_score(left_sum, left_weight, how) + free_score(right_sum, right_weight, how);
    }
    f64 gain = score - how->score;
    if (!(gain > how->min_gain && gain > score * NOISE)) return NO_GAIN;
    if (factor != 1.0) {
        gain = how->min_gain + (gain - how->min_gain) * factor;
        if (!(gain > how->min_gain)) return NO_GAIN;
    }
    return gain;
}

// The same where both sides have the bounds of the node.
DEVICE f64 candidate_gain(i64 left_g, i64 left_h, i64 right_g, i64 right_h, i64 left_rows, i64 right_rows,
                          f64 gradient_unit, f64 hessian_unit, i32 sign, f64 factor, const rules_t *how) {
    return gain_between(left_g, left_h, right_g, right_h, left_rows, right_rows, gradient_unit, hessian_unit, sign,
                        factor, how, how);
}

// splitting.random_threshold
DEVICE u32 random_threshold(u64 key, u32 feature, u32 n_values, u32 has_missing) {
    const u32 n_choices = n_values > 1 ? (has_missing ? n_values : n_values - 1) : 1;
    return (u32)(((random_bits(key, feature) >> 32) * (u64)n_choices) >> 32);
}

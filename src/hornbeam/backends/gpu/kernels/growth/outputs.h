// What a leaf gives, and what that is worth: twins of splitting.soft_threshold, leaf_output and leaf_score, the same
// float64 operations in the same order.
DEVICE f64 shrink(f64 gradient, f64 lambda_l1) {
    return gradient > lambda_l1 ? gradient - lambda_l1 : gradient < -lambda_l1 ? gradient + lambda_l1 : 0.0;
}

// The output of a leaf, which may be a negative zero.
DEVICE f64 newton_step(f64 gradient, f64 hessian, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step) {
    const f64 weight = hessian + lambda_l2;
    f64 output = weight > 0.0 ? -shrink(gradient, lambda_l1) / weight : 0.0;
    if (max_delta_step > 0.0) {
        output = output > -max_delta_step ? output : -max_delta_step;
        output = output < max_delta_step ? output : max_delta_step;
    }
    return output;
}

// Twin of splitting.finished_weight.
DEVICE f64 finished_weight(f64 hessian, f64 least_hessian) {
    return hessian > least_hessian ? hessian : least_hessian;
}

DEVICE f64 leaf_output(f64 gradient, f64 hessian, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step) {
    return newton_step(gradient, hessian, lambda_l1, lambda_l2, max_delta_step) + 0.0;  // no negative zero
}

DEVICE f64 leaf_score(f64 gradient, f64 hessian, f64 lambda_l1, f64 lambda_l2, f64 max_delta_step) {
    const f64 shrunk = shrink(gradient, lambda_l1), weight = hessian + lambda_l2;
    if (!(weight > 0.0)) return 0.0;
    if (max_delta_step > 0.0) {
        const f64 output = newton_step(gradient, hessian, lambda_l1, lambda_l2, max_delta_step);
        return -(2.0 * shrunk * output + weight * output * output);
    }
    return shrunk * shrunk / weight;
}

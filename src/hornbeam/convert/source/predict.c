/* The functions of a model in C: the same for all models, after the tables of one. Nothing is allocated.
 *
 * Arithmetic is that of Hornbeam, operation by operation: results have the same bits where the compiler keeps to IEEE
 * 754, as all do unless they are told otherwise. */

#ifdef __FAST_MATH__
#error "compile without -ffast-math: NaN is a missing value here"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#ifndef MODEL_NAME
#define MODEL_NAME hornbeam /* another name for each model of a program: cc -DMODEL_NAME=churn gives churn_predict */
#endif
#define JOIN_NAMES(a, b) a##_##b
#define JOIN(a, b)       JOIN_NAMES(a, b)

#if HAS_SETS || HAS_ENCODINGS
/* Return the place of a value in an ascending list of numbers, or -1. */
static int32_t find_number(double value, const double *numbers, int32_t first, int32_t last) {
    while (first < last) {
        const int32_t middle = first + (last - first) / 2;
        if (numbers[middle] == value) {
            return middle;
        }
        if (numbers[middle] < value) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return -1;
}
#endif

/* Say whether a row goes left at a split. */
static int goes_left(int32_t split, const double *row) {
    const int32_t feature = FEATURE[split];
    double value = row[feature];
#if HAS_SETS
    const int32_t set = SET[split];
    if (set >= 0) {
        return value != value ? MISSING_LEFT[split]
                              : find_number(value, MEMBER, SET_BEGIN[set], SET_BEGIN[set + 1]) >= 0;
    }
#endif
#if HAS_ENCODINGS
    const int32_t encoding = ENCODING[feature];
    if (encoding >= 0) {
        if (value != value || value < 0.0) {
            value = NUMBER_OF_MISSING[encoding];
        } else {
            const int32_t place = find_number(value, LEVEL, LEVEL_BEGIN[encoding], LEVEL_BEGIN[encoding + 1]);
            value = place < 0 ? NUMBER_OF_OTHERS[encoding] : NUMBER_OF_LEVEL[place];
        }
    }
#endif
#if ZEROS_ARE_MISSING
    if (IS_NUMBER[feature] && value >= -LARGEST_ZERO && value <= LARGEST_ZERO) {
        return MISSING_LEFT[split];
    }
#endif
    return value != value ? MISSING_LEFT[split] : value <= THRESHOLD[split];
}

/* row     N_FEATURES numbers  in   NaN is a missing value; levels of categories are integers from 0 on, or what
 *                                  MODEL_NAME_level returns where they are strings
 * scores  N_OUTPUTS numbers   out  raw scores */
void JOIN(MODEL_NAME, predict_raw)(const double *row, double *scores) {
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        scores[output] = AVERAGES_TREES ? 0.0 : INIT_SCORE[output];
    }
    for (int32_t tree = 0; tree < N_TREES; tree++) {
        int32_t node = ROOT[tree];
        while (node >= 0) {
            node = goes_left(node, row) ? LEFT[node] : RIGHT[node];
        }
        scores[tree % N_OUTPUTS] += LEAF_VALUE[~node];
    }
#if AVERAGES_TREES
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        if (N_TREES > 0) {
            scores[output] /= (double)(N_TREES / N_OUTPUTS);
        }
        scores[output] += INIT_SCORE[output];
    }
#endif
}

#if LINK == LINK_EXP || LINK == LINK_SIGMOID || LINK == LINK_SOFTMAX || LINK == LINK_SOFTPLUS
/* Return e to the power of x, with Hornbeam's own exp: libraries differ in the last bit. */
static double exp_of(double x) {
    static const double coefficients[] = {1.6059043836821613e-10,
                                          2.08767569878681e-09,
                                          2.505210838544172e-08,
                                          2.755731922398589e-07,
                                          2.7557319223985893e-06,
                                          2.48015873015873e-05,
                                          0.0001984126984126984,
                                          0.001388888888888889,
                                          0.008333333333333333,
                                          0.041666666666666664,
                                          0.16666666666666666,
                                          0.5,
                                          1.0,
                                          1.0};
    x = x < -708.0 ? -708.0 : x > 708.0 ? 708.0 : x;
    const double t = x * 1.4426950408889634 + 0.5;
    int64_t k = (int64_t)t;
    if ((double)k > t) {
        k -= 1;
    }
    const double r = (x - (double)k * 6.93147180369123816490e-01) - (double)k * 1.90821492927058770002e-10;
    double p = coefficients[0];
    for (int i = 1; i < 14; i++) {
        p = p * r + coefficients[i];
    }
    const uint64_t bits = (uint64_t)(k + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}
#endif

#if LINK == LINK_SOFTPLUS
/* Return the natural logarithm of x from 1 to 2, with Hornbeam's own log. */
static double log_of(double x) {
    static const double coefficients[] = {0.047619047619047616,
                                          0.05263157894736842,
                                          0.058823529411764705,
                                          0.06666666666666667,
                                          0.07692307692307693,
                                          0.09090909090909091,
                                          0.1111111111111111,
                                          0.14285714285714285,
                                          0.2,
                                          0.3333333333333333,
                                          1.0};
    const double k = x < 1.4142135623730951 ? 0.0 : 1.0, m = k == 0.0 ? x : 0.5 * x;
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = coefficients[0];
    for (int i = 1; i < 11; i++) {
        p = p * z + coefficients[i];
    }
    return k * 6.93147180369123816490e-01 + (k * 1.90821492927058770002e-10 + 2.0 * s * p);
}
#endif

/* row          as above
 * predictions  N_OUTPUTS numbers  out  probabilities, means: what Booster.predict returns */
void JOIN(MODEL_NAME, predict)(const double *row, double *predictions) {
    JOIN(MODEL_NAME, predict_raw)(row, predictions);
#if LINK == LINK_SQUARE
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        predictions[output] *= predictions[output] < 0.0 ? -predictions[output] : predictions[output];
    }
#elif LINK == LINK_EXP
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        predictions[output] = exp_of(predictions[output]);
    }
#elif LINK == LINK_SIGMOID
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        predictions[output] = 1.0 / (1.0 + exp_of(-(SLOPE * predictions[output])));
    }
#elif LINK == LINK_SOFTPLUS
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        const double score = predictions[output], e = exp_of(score < 0.0 ? score : -score);
        const double u = 1.0 + e, d = u - 1.0;
        predictions[output] = (score > 0.0 ? score : 0.0) + (d == 0.0 ? e : log_of(u) * (e / d));
    }
#elif LINK == LINK_STEP
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        predictions[output] = predictions[output] > 0.0 ? 1.0 : 0.0;
    }
#elif LINK == LINK_SOFTMAX
    double largest = predictions[0], total = 0.0;
    for (int32_t output = 1; output < N_OUTPUTS; output++) {
        largest = predictions[output] > largest ? predictions[output] : largest;
    }
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        predictions[output] = exp_of(predictions[output] - largest);
        total += predictions[output];
    }
    for (int32_t output = 0; output < N_OUTPUTS; output++) {
        predictions[output] /= total;
    }
#endif
}

/* Return the name of a column of a row, from 0 on. */
const char *JOIN(MODEL_NAME, feature_name)(int32_t feature) {
    return FEATURE_NAME[feature];
}

#if HAS_STRINGS
/* Return the number that stands for a level of a feature in a row.
 *
 * feature  number of the column, from 0 on
 * text     UTF-8; NULL is a missing value */
double JOIN(MODEL_NAME, level)(int32_t feature, const char *text) {
    if (text == NULL) {
        return NAN;
    }
    int32_t first = TEXT_BEGIN[feature], last = TEXT_BEGIN[feature + 1];
    while (first < last) {
        const int32_t middle = first + (last - first) / 2;
        const int order = strcmp(TEXT[middle], text);
        if (order == 0) {
            return (double)TEXT_NUMBER[middle];
        }
        if (order < 0) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return (double)(TEXT_BEGIN[feature + 1] - TEXT_BEGIN[feature]); /* a level that training did not see */
}
#endif

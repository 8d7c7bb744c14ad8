"""`tree_method`: exact and approx, against the definition, brute force and the peer."""

from fractions import Fraction

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.core.errors import HornbeamError
from hornbeam.data.quantiles import HEAVY_ROUNDS, join_ranks, last_ranks
from hornbeam.params.params import Params

RANDOM = np.random.default_rng(17)
N = 300
X = RANDOM.normal(size=(N, 5))
X[:, 1] = np.round(X[:, 1], 1)
X[RANDOM.random(N) < 0.2, 2] = np.nan
X[:, 4] = RANDOM.integers(0, 7, N)
Y = (np.nan_to_num(X[:, 2]) + X[:, 0] ** 2 + (X[:, 4] == 3) + 0.3 * RANDOM.normal(size=N) > 1).astype(float)
WEIGHT = RANDOM.uniform(0.5, 2.0, N)
PLAIN = {"objective": "binary", "num_leaves": 9, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 2}
FINEST = {"max_bin": 65_535, "min_data_in_bin": 1}

CASES = {
    "leaf-wise": {},
    "depth-wise": {"grow_policy": "depthwise", "max_depth": 4},
    "categories": {"categorical_feature": [4], "min_data_per_group": 10, "cat_smooth": 1.0},
    "a sample of rows": {"bagging_fraction": 0.6, "bagging_freq": 1},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "some features": {"feature_fraction": 0.6, "feature_fraction_bynode": 0.7},
    "contexts": {"monotone_constraints": [1, 0, -1, 0, 0], "path_smooth": 2.0, "max_delta_step": 0.7},
    "bounds of leaves": {"monotone_constraints": [1, 0, 0, 0, 0], "monotone_constraints_method": "intermediate"},
    "extra trees": {"extra_trees": True},
    "31 bits": {"precision": "high", "lambda_l1": 0.3},
    "percentiles": {"objective": "l1"},
    "classes": {"objective": "multiclass", "num_class": 2},
    "dropped trees": {"boosting": "dart", "drop_rate": 0.5},
    "zeros are missing": {"zero_as_missing": True},
    "no missing values": {"use_missing": False},
}


def train(device, rounds=2, data=X, **params):
    categorical = params.get("categorical_feature", "auto")
    train_set = hb.Dataset(data, label=Y, weight=WEIGHT, categorical_features=categorical)
    valid = train_set.create_valid(X[:100], Y[:100])
    return hb.train({**PLAIN, "device": device, **params}, train_set, rounds, {"valid": valid})


@pytest.fixture(scope="module")
def defined():
    """Models of the reference, by case and method, each trained once."""
    made = {}

    def get(case, method):
        if (case, method) not in made:
            more = {"max_bin": 16} if method == "approx" else {}
            made[case, method] = train("reference", tree_method=method, **more, **CASES[case])
        return made[case, method]

    return get


@pytest.mark.parametrize("case", CASES)
def test_exact_is_the_histogram_model_where_every_value_has_a_bin(case, defined):
    exact, histogram = defined(case, "exact"), train("reference", **FINEST, **CASES[case])
    assert [tree.threshold.tolist() for tree in exact.trees] == [tree.threshold.tolist() for tree in histogram.trees]
    np.testing.assert_array_equal(exact.predict(X), histogram.predict(X))
    assert exact.eval_history == histogram.eval_history


@pytest.mark.sampled
@pytest.mark.parametrize("method", ["exact", "approx"])
@pytest.mark.parametrize("case", CASES)
def test_the_cpu_has_the_model_of_the_reference(case, method, defined):
    more = {"max_bin": 16} if method == "approx" else {}
    found = train("cpu", tree_method=method, **more, **CASES[case])
    assert found.fingerprint() == defined(case, method).fingerprint()
    assert found.eval_history == defined(case, method).eval_history


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_the_model_is_the_same_for_any_number_of_threads(method, defined):
    more = {"max_bin": 16} if method == "approx" else {}
    found = train("cpu", tree_method=method, num_threads=3, **more)
    assert found.fingerprint() == defined("leaf-wise", method).fingerprint()


def test_a_sparse_table_has_the_model_of_its_dense_one():
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.where(np.abs(np.nan_to_num(X)) < 1.0, 0.0, np.nan_to_num(X))
    for method in ("exact", "approx"):
        of_both = [train("cpu", data=data, tree_method=method) for data in (dense, sparse.csr_matrix(dense))]
        assert of_both[0].fingerprint() == of_both[1].fingerprint()


def test_exact_finds_the_best_of_all_thresholds_of_a_stump():
    model = hb.train(
        {**PLAIN, "objective": "l2", "num_leaves": 2, "tree_method": "exact", "boost_from_average": False},
        hb.Dataset(X, label=X[:, 0] ** 3 + Y), 1,
    )  # fmt: skip
    label, best = X[:, 0] ** 3 + Y, (-np.inf, 0, 0.0)
    for feature in range(5):
        for value in np.unique(X[:, feature][~np.isnan(X[:, feature])]):
            for missing_left in (True, False):
                left = np.where(np.isnan(X[:, feature]), missing_left, X[:, feature] <= value)
                if min(left.sum(), (~left).sum()) >= 5:
                    score = label[left].sum() ** 2 / left.sum() + label[~left].sum() ** 2 / (~left).sum()
                    best = max(best, (score, feature, value))
    tree = model.trees[0]
    assert tree.feature[0] == best[1]
    after = np.unique(X[:, best[1]])
    after = after[after > best[2]][0]
    assert best[2] <= tree.threshold[0] < after


def heavy_ranks(weight, n_bins):
    """Return the ranks of the definition, looked for one by one, and the bins that are left to the others."""
    weight, heavy, n_light = weight.tolist(), set(), n_bins
    for _ in range(HEAVY_ROUNDS):
        average = Fraction(sum(w for rank, w in enumerate(weight) if rank not in heavy), n_light)
        heavy |= {rank for rank, w in enumerate(weight) if w > 2 * average}
        n_light = n_bins - sum(rank in heavy or rank + 1 in heavy for rank in range(len(weight) - 1))
    return sorted(heavy), n_light


@pytest.mark.parametrize("power", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("n_bins", [2, 3, 7, 16, 250])
def test_joined_ranks_have_equal_weight_and_heavy_ones_are_alone(n_bins, power):
    random = np.random.default_rng(n_bins + power)
    weight = np.floor(10 * random.exponential(size=300) ** power).astype(np.int64)
    bin_of, (heavy, n_light) = join_ranks(weight, n_bins), heavy_ranks(weight, n_bins)
    sums, sizes = np.bincount(bin_of, weight), np.bincount(bin_of)
    assert bin_of[0] == 0
    assert set(np.diff(bin_of)) <= {0, 1}
    assert n_light >= 1
    assert len(sums) <= n_bins
    assert (sizes[bin_of[heavy]] == 1).all()
    is_light = ~np.isin(np.arange(len(weight)), heavy)
    light = np.setdiff1d(np.arange(len(sums)), bin_of[heavy])
    assert sums[light].max() <= weight[is_light].sum() / n_light + weight[is_light].max() + 1
    assert last_ranks(bin_of, n_bins)[bin_of[-1]] == len(weight) - 1


def test_bins_that_heavy_ranks_do_not_need_are_left_to_the_others():
    weight = np.concatenate([np.full(20, 1000), np.full(400, 10)])  # heavy ones side by side
    bin_of = join_ranks(weight, 100)
    assert bin_of[:21].tolist() == list(range(21))
    assert bin_of[-1] + 1 == 100
    assert np.bincount(bin_of[20:]).max() <= 6  # 400 ranks in 80 bins


def test_bins_of_approx_follow_the_hessians():
    scores = np.where(X[:, 0] > 1.0, 0.0, 6.0)  # rows below 1 hardly count
    train_set = hb.Dataset(X[:, :1], label=Y, init_score=scores)
    params = {**PLAIN, "tree_method": "approx", "max_bin": 4, "num_leaves": 4, "min_data_in_leaf": 1}
    thresholds = hb.train({**params, "min_sum_hessian_in_leaf": 0.0}, train_set, 1).trees[0].threshold
    assert (thresholds > 0.9).all()


def test_sketch_eps_is_the_inverse_of_max_bin():
    assert Params.from_dict({"tree_method": "approx", "sketch_eps": 0.05}).max_bin == 20
    assert Params.from_dict({"sketch_eps": 0.05}).max_bin == 255


def test_names_of_xgboost_are_taken():
    assert Params.from_dict({"tree_method": "auto"}).tree_method == "hist"
    gpu = Params.from_dict({"tree_method": "gpu_hist"})
    assert (gpu.tree_method, gpu.device) == ("hist", "cuda")
    assert Params.from_dict({"tree_method": "gpu_hist", "device": "opencl"}).device == "opencl"


def test_a_dataset_of_bins_is_refused():
    train_set = hb.Dataset(X, label=Y).construct()
    with pytest.raises(HornbeamError, match=r"tree_method='exact'.*tree_method='hist'.*new Dataset"):
        hb.train({**PLAIN, "tree_method": "exact"}, train_set, 1)


def test_forced_bounds_are_refused():
    with pytest.raises(HornbeamError, match="forcedbins_filename"):
        train("cpu", tree_method="approx", forcedbins_filename=[(0, [0.5])])


def test_workers_are_refused():
    from hornbeam.distributed.training import refuse_methods

    with pytest.raises(HornbeamError, match=r"tree_method='exact' on workers.*one process"):
        refuse_methods(hb.Params(tree_method="exact"))

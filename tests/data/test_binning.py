"""Bins: their definition, how they are found, and the CPU twin against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hornbeam.backends.cpu.binning import table as cpu_table
from hornbeam.backends.cpu.binning.dense import encode
from hornbeam.backends.cpu.binning.table import bin_table
from hornbeam.backends.cpu.host.kernels import Kernel
from hornbeam.core.hashing import hash_rows
from hornbeam.data.bin_bounds import find_upper_bounds, sample_rows
from hornbeam.data.binning import BinMapper, BinnedData, BinParams, allocate_bins
from hornbeam.data.sources.opening import open_table

INF = np.inf
NAN = np.nan


def binned(table, n_threads=1, **params) -> BinnedData:
    return bin_table(open_table(table), BinParams(**params), n_threads)


def expected_bins(mapper: BinMapper, table: np.ndarray) -> np.ndarray:
    """The naive twin of the kernel."""
    columns = [mapper.codes(feature, table[:, feature]) for feature in mapper.used.tolist()]
    return np.array(columns, np.int64).reshape(len(columns), len(table)).T


def assert_bins_are_as_defined(data: BinnedData, table: np.ndarray) -> None:
    n_used = len(data.used)
    assert (data.bins[:, :n_used] == expected_bins(data.mapper, table)).all()
    assert not data.bins[:, n_used:].any()


def same_bins(left: BinnedData, right: BinnedData) -> bool:
    return (
        all(
            a.tobytes() == b.tobytes() for a, b in zip(left.mapper.upper_bounds, right.mapper.upper_bounds, strict=True)
        )
        and (left.mapper.has_missing == right.mapper.has_missing).all()
        and left.bins.dtype == right.bins.dtype
        and left.bins.tobytes() == right.bins.tobytes()
    )


# --- finding bins ---------------------------------------------------------------------------------------------------


def test_few_distinct_values_get_a_bin_each_with_midpoint_bounds():
    assert find_upper_bounds(np.repeat([5.0, 1.0, 2.0], 3), 255, 3).tolist() == [1.5, 3.5, INF]


def test_rare_values_are_merged_with_the_next():
    values = np.array([1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0, 5.0])
    assert find_upper_bounds(values, 255, 3).tolist() == [3.5, 4.5, INF]
    assert find_upper_bounds(values, 255, 1).tolist() == [1.5, 2.5, 3.5, 4.5, INF]


@pytest.mark.parametrize("values", [[], [NAN], [NAN, NAN]])
def test_no_value_gives_no_bin(values):
    assert len(find_upper_bounds(np.array(values), 255, 3)) == 0


@pytest.mark.parametrize("values", [[7.0], [7.0] * 10, [INF] * 5, [-INF] * 5, [0.0, -0.0, -0.0]])
def test_a_constant_gives_one_bin(values):
    assert find_upper_bounds(np.array(values), 255, 1).tolist() == [INF]


def test_infinite_values_are_ordinary_values():
    values = np.repeat([-INF, -1.0, 3.0, INF], 3)
    bounds = find_upper_bounds(values, 255, 3)
    assert bounds.tolist() == [-INF, 1.0, 3.0, INF]
    assert np.searchsorted(bounds, [-INF, -1.0, 3.0, INF]).tolist() == [0, 1, 2, 3]


def test_finding_bins_warns_about_nothing():
    table = np.repeat([[-INF], [INF], [1e300], [-1e-320], [0.0]], 3, axis=0)
    with np.errstate(all="raise"):
        assert find_upper_bounds(np.repeat([-INF, INF], 3), 255, 3).tolist() == [-INF, INF]
        assert_bins_are_as_defined(binned(table), table)


def test_huge_and_neighbouring_values_stay_separate():
    largest = np.finfo(np.float64).max
    for low, high in [(-largest, largest), (largest / 2, largest), (1.0, np.nextafter(1.0, 2)), (0.0, 5e-324)]:
        bounds = find_upper_bounds(np.repeat([low, high], 3), 255, 3)
        assert len(bounds) == 2
        assert low <= bounds[0] < high


def test_negative_zero_leaves_no_trace_in_the_bounds():
    for values in ([-0.0, 1.0], [0.0, 1.0], [-0.0, INF], [-5e-324, -0.0], [-5e-324, 0.0]):
        bounds = find_upper_bounds(np.repeat(values, 3), 255, 3)
        assert not np.signbit(bounds[bounds == 0.0]).any()


@pytest.mark.parametrize("max_bin", [2, 3, 16, 255, 1000])
def test_many_distinct_values_share_the_bins_evenly(max_bin):
    values = np.random.default_rng(0).standard_normal(20_000)
    bounds = find_upper_bounds(values, max_bin, 3)
    counts = np.bincount(np.searchsorted(bounds, values))
    assert len(bounds) == max_bin
    assert counts.max() - counts.min() <= 2


def test_heavy_values_have_bins_of_their_own():
    rng = np.random.default_rng(0)
    heavy = [-0.5, 0.0, 0.25]
    values = np.concatenate([rng.standard_normal(10_000), np.repeat(heavy, 4_000)])
    bounds = find_upper_bounds(values, 64, 3)
    codes = np.searchsorted(bounds, values)
    assert len(bounds) <= 64
    for value in heavy:
        inside = values[codes == np.searchsorted(bounds, value)]
        # light values just before a heavy one may share its bin, if they fill less than half a bin
        assert (inside != value).sum() <= 10_000 / 61 / 2 + 1
    light = np.bincount(codes[~np.isin(values, heavy)], minlength=len(bounds))
    assert light.max() <= 10_000 / 61 * 1.1


def test_min_data_in_bin_limits_the_number_of_bins():
    values = np.arange(1000.0)
    counts = np.bincount(np.searchsorted(find_upper_bounds(values, 255, 50), values))
    assert len(counts) == 20
    assert counts.min() >= 50


def test_bins_are_as_even_as_lightgbm_ones():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(3)
    columns = [rng.standard_normal(5000), np.exp(2 * rng.standard_normal(5000)), np.floor(rng.exponential(200, 5000))]
    columns.append(np.where(rng.random(5000) < 0.6, 1.0, rng.random(5000)))
    for values in columns:
        # One tree with a leaf for each bin, whose labels ascend, has every bound as a threshold.
        label = np.unique(values, return_inverse=True)[1].astype(float)
        params = {"max_bin": 63, "num_leaves": 64, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
        params |= {"num_threads": 1, "verbosity": -1}
        booster = lightgbm.train(params, lightgbm.Dataset(values[:, None], label), 1)
        theirs = np.unique(booster.trees_to_dataframe()["threshold"].dropna())
        ours = find_upper_bounds(values, 63, 3)
        # What matters for splits: the sum over bins of squared counts, which is smallest for even bins.
        spread = [float((np.bincount(np.searchsorted(np.append(b, INF), values)) ** 2.0).sum()) for b in (ours, theirs)]
        assert spread[0] <= spread[1] * 1.02


@given(
    hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(allow_nan=True, width=16)),
    st.integers(2, 40),
    st.integers(1, 10),
)
def test_bounds_ascend_and_respect_max_bin(values, max_bin, min_data_in_bin):
    bounds = find_upper_bounds(values, max_bin, min_data_in_bin)
    if np.isnan(values).all():
        assert len(bounds) == 0
        return
    assert 1 <= len(bounds) <= max_bin
    assert bounds[-1] == INF
    assert (np.diff(bounds) > 0).all() or len(bounds) == 1
    counts = np.bincount(np.searchsorted(bounds, values[~np.isnan(values)]), minlength=len(bounds))
    assert (counts > 0).all()


@given(hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(allow_nan=True)), st.randoms())
def test_bounds_do_not_depend_on_the_order_of_rows(values, random):
    permuted = values.copy()
    random.shuffle(permuted)
    assert find_upper_bounds(values, 20, 2).tobytes() == find_upper_bounds(permuted, 20, 2).tobytes()


# --- the sample -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "count"), [(1, 1), (10, 3), (1000, 999), (1000, 1), (200_000, 20_000)])
def test_sample_is_the_rows_with_the_smallest_hashes(n_rows, count):
    hashes = hash_rows(np.arange(n_rows, dtype=np.uint64))
    assert len(np.unique(hashes)) == n_rows
    assert sample_rows(n_rows, count).tolist() == sorted(np.argsort(hashes)[:count].tolist())


def test_sample_is_all_rows_when_they_are_few():
    assert sample_rows(5, 5).tolist() == sample_rows(5, 100).tolist() == [0, 1, 2, 3, 4]


def test_sample_is_spread_over_the_table():
    counts = np.histogram(sample_rows(1_000_000, 100_000), bins=10, range=(0, 1_000_000))[0]
    assert abs(counts - 10_000).max() < 500


def test_row_hash_is_part_of_the_contract():
    expected = [13441156890354882375, 475488058270310618, 17489009512603453930]
    assert hash_rows(np.arange(3, dtype=np.uint64)).tolist() == expected


def test_bins_come_from_the_sampled_rows_alone():
    table = np.random.default_rng(0).standard_normal((5000, 2))
    rows = sample_rows(5000, 500)
    data = binned(table, bin_construct_sample_cnt=500)
    for feature in range(2):
        assert (data.mapper.upper_bounds[feature] == find_upper_bounds(table[rows, feature], 255, 3)).all()
    assert_bins_are_as_defined(data, table)


# --- coding ---------------------------------------------------------------------------------------------------------


def mixed_table(n_rows: int = 3001) -> np.ndarray:
    rng = np.random.default_rng(5)
    table = rng.standard_normal((n_rows, 11)).astype(np.float32)
    table[:, 1] = np.round(table[:, 1] * 3)
    table[::7, 2] = NAN
    table[:, 3] = 1.0
    table[:, 4] = NAN
    table[::5, 5] = INF
    table[::6, 5] = -INF
    table[:, 6] = np.where(table[:, 6] > 0, 2.0, NAN)
    table[:, 7] = np.where(table[:, 7] > 0, 0.0, -0.0)
    table[:, 8] = np.exp(15 * table[:, 8])
    table[-1, 9] = NAN
    return table


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("use_missing", [True, False])
@pytest.mark.parametrize("max_bin", [2, 15, 255, 256, 1000])
def test_kernel_equals_the_definition(dtype, use_missing, max_bin):
    table = mixed_table().astype(dtype)
    data = binned(table, n_threads=2, max_bin=max_bin, use_missing=use_missing)
    assert_bins_are_as_defined(data, table)
    assert data.bins.dtype == (np.uint8 if max_bin <= 255 else np.uint16)


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float32, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=st.floats(allow_nan=True, width=32)
    ),
    st.integers(2, 30),
)
def test_kernel_equals_the_definition_on_any_floats(table, max_bin):
    data = binned(table, max_bin=max_bin, min_data_in_bin=1)
    assert_bins_are_as_defined(data, table)
    assert same_bins(data, binned(table.astype(np.float64), max_bin=max_bin, min_data_in_bin=1))


def test_float32_values_meet_bounds_that_are_not_float32():
    train = np.array([[1.0], [1.0 + 1e-12], [1e300], [-1e300], [2.0], [1.0 + 2e-7]])
    bounds = find_upper_bounds(train[:, 0], 255, 1)
    mapper = BinMapper((bounds,), np.zeros(1, np.bool_), True)
    after_one = np.nextafter(np.float32(1), np.float32(2))
    values = np.array([-INF, -3e38, 1, after_one, 2, 3e38, INF, NAN], np.float32)[:, None]
    bins, missing = encode(open_table(values), mapper, 1)
    assert bins[:, 0].tolist() == mapper.codes(0, values[:, 0]).tolist()
    assert missing.tolist() == [True]


def test_bins_are_identical_for_any_thread_count():
    table = mixed_table(20_000)
    first = binned(table, n_threads=1, bin_construct_sample_cnt=5000)
    for n_threads in (2, 3, 7):
        assert same_bins(first, binned(table, n_threads=n_threads, bin_construct_sample_cnt=5000))


def test_bins_do_not_depend_on_blocks_or_column_groups(tune):
    table = mixed_table()
    first = binned(table)
    tune(coded_cells=1, sampled_cells=1)
    assert same_bins(first, binned(table, n_threads=2))


def test_permuted_rows_give_the_same_mapper():
    table = mixed_table()
    order = np.random.default_rng(1).permutation(len(table))
    first, second = binned(table), binned(table[order])
    assert (first.bins[order] == second.bins).all()
    assert all((a == b).all() for a, b in zip(first.mapper.upper_bounds, second.mapper.upper_bounds, strict=True))
    assert (first.mapper.has_missing == second.mapper.has_missing).all()


def test_65535_bins():
    values = np.random.default_rng(0).permutation(80_000).astype(np.float64)[:, None]
    data = binned(values[:, [0, 0]], max_bin=65_535, min_data_in_bin=1)
    assert data.n_value_bins.tolist() == [65_535, 65_535]
    assert data.bins.dtype == np.uint16
    assert data.offsets.tolist() == [0, 65_536, 131_072]
    assert_bins_are_as_defined(data, values[:, [0, 0]])
    values[5] = NAN
    assert binned(values, max_bin=65_535, min_data_in_bin=1).bins[5, 0] == 65_535


def test_255_value_bins_and_missing_fit_in_a_byte():
    values = np.append(np.arange(255.0), NAN)[:, None]
    data = binned(values, min_data_in_bin=1)
    assert data.bins.dtype == np.uint8
    assert data.bins[:, 0].tolist() == list(range(256))


# --- missing values -------------------------------------------------------------------------------------------------


def test_missing_values_outside_the_sample_are_found():
    table = np.random.default_rng(0).standard_normal((3000, 4))
    table[:, 2] = 1.0
    table[:, 3] = NAN
    unsampled = np.setdiff1d(np.arange(3000), sample_rows(3000, 100))[-1]
    table[unsampled, 1:3] = NAN
    table[unsampled, 3] = 8.0
    data = binned(table, bin_construct_sample_cnt=100)
    assert data.mapper.has_missing.tolist() == [False, True, True, True]
    assert data.used.tolist() == [0, 1, 2, 3]
    assert data.n_value_bins.tolist()[2:] == [1, 1]
    assert_bins_are_as_defined(data, table)


def test_missing_code_is_one_past_the_value_bins():
    table = np.array([[1.0, 1.0], [2.0, 2.0], [NAN, 3.0]])
    data = binned(table, min_data_in_bin=1)
    assert data.n_value_bins.tolist() == [2, 3]
    assert data.has_missing.tolist() == [True, False]
    assert data.offsets.tolist() == [0, 3, 7]
    assert data.bins[:, :2].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert data.mapper.codes(1, np.array([NAN])).tolist() == [3]


def test_missing_counts_as_zero_without_use_missing():
    table = np.array([[-1.0, NAN], [NAN, NAN], [1.0, NAN], [0.0, NAN]])
    data = binned(table, min_data_in_bin=1, use_missing=False)
    assert data.used.tolist() == [0]
    assert not data.mapper.has_missing.any()
    assert data.bins[:, 0].tolist() == [0, 1, 2, 1]
    assert data.mapper.upper_bounds[0].tolist() == [-0.5, 0.5, INF]


def test_features_with_one_code_are_not_used():
    table = np.array([[1.0, NAN, 0.0, 5.0], [1.0, NAN, -0.0, NAN]])
    data = binned(table, min_data_in_bin=1)
    assert data.used.tolist() == [3]
    assert [len(bounds) for bounds in data.mapper.upper_bounds] == [1, 0, 1, 1]


def test_one_row_and_no_used_feature_are_fine():
    data = binned(np.array([[1.0, NAN, INF]]))
    assert data.n_rows == 1
    assert len(data.used) == 0
    assert data.offsets.tolist() == [0]
    assert data.bins.shape == (1, 8)


# --- layout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("n_used", [0, 1, 4, 5, 8, 9, 28])
def test_rows_of_bins_are_padded_and_aligned(dtype, n_used):
    bins = allocate_bins(13, n_used, dtype)
    assert bins.flags.c_contiguous
    assert bins.ctypes.data % 64 == 0
    assert bins.strides[0] % 8 == 0
    assert n_used <= bins.shape[1] < n_used + 8 + (n_used == 0)
    assert not bins.any()


def test_threshold_separates_the_bins():
    table = mixed_table().astype(np.float64)
    data = binned(table)
    for position, feature in enumerate(data.used.tolist()):
        values = table[:, feature]
        n_bins = int(data.n_value_bins[position])
        for split in (0, n_bins // 2, n_bins - 1):
            left = data.bins[:, position] <= split
            assert (left == (values <= data.threshold(position, split))).all()


@pytest.mark.parametrize(
    ("is_at_hand", "is_ready", "finder"), [(True, True, "kernel"), (True, False, "NumPy"), (False, True, "NumPy")]
)
def test_bounds_of_a_small_table_are_found_by_the_kernel_where_it_is_there(monkeypatch, is_at_hand, is_ready, finder):
    values = np.random.default_rng(0).normal(size=(300, 3)).round(2)
    expected = binned(values, max_bin=15).mapper.upper_bounds
    asked = set()

    def tells(name, find):
        return lambda *arguments: asked.add(name) or find(*arguments)

    monkeypatch.setattr(Kernel, "is_at_hand", is_at_hand)
    monkeypatch.setattr(Kernel, "is_ready", is_ready)
    monkeypatch.setattr(cpu_table, "find_upper_bounds", tells("NumPy", cpu_table.find_upper_bounds))
    monkeypatch.setattr(cpu_table, "find_many_bounds", tells("kernel", cpu_table.find_many_bounds))
    found = binned(values, max_bin=15).mapper.upper_bounds
    assert asked == {finder}
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]

"""Exact and approx on data of several tiles, and of more ranks than 16 bits hold, on every device."""

import re

import numpy as np
import pytest

import hornbeam as hb
from hornbeam.backends.gpu.ranked.list_blocks import ListBlocks
from hornbeam.core import host_memory
from hornbeam.core.errors import DeviceMemoryError

RANDOM = np.random.default_rng(3)


def make(n_rows):
    table = RANDOM.normal(size=(n_rows, 3))
    table[RANDOM.random(n_rows) < 0.3, 1] = np.nan
    table[:, 2] = np.floor(3.0 * table[:, 2])
    return table, table[:, 0] * np.nan_to_num(table[:, 1]) + table[:, 2] + 0.1 * RANDOM.normal(size=n_rows)


MANY = make(70_000)
SOME = make(5_000)


def train(device, data, rounds=2, **params):
    train_set = hb.Dataset(data[0], label=data[1])
    valid = train_set.create_valid(data[0][:50], data[1][:50])
    given = {"num_leaves": 12, "verbosity": -1, "device": device, "max_bin": 40, "objective": "poisson", **params}
    if given["objective"] == "poisson":
        train_set.label[:] = np.abs(data[1])
        valid.label[:] = np.abs(data[1][:50])
    return hb.train(given, train_set, rounds, {"valid": valid})


@pytest.fixture(scope="module")
def of_cpu():
    made = {}

    def get(method, bagging):
        if (method, bagging) not in made:
            made[method, bagging] = train("cpu", SOME, tree_method=method, **bagging_of(bagging))
        return made[method, bagging]

    return get


def bagging_of(bagging):
    return {"bagging_fraction": 0.5, "bagging_freq": 1} if bagging else {}


@pytest.mark.parametrize("bagging", [False, True])
@pytest.mark.parametrize("method", ["exact", "approx"])
def test_nodes_of_several_tiles(device, method, bagging, of_cpu):
    if device == "reference":
        pytest.skip("its histograms are as large as the data")
    found = train(device, SOME, tree_method=method, **bagging_of(bagging))
    assert found.fingerprint() == of_cpu(method, bagging).fingerprint()
    assert found.eval_history == of_cpu(method, bagging).eval_history


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_more_ranks_than_16_bits_hold(device, method):
    if device == "reference":
        pytest.skip("its histograms are as large as the data")
    found = train(device, MANY, 1, tree_method=method, objective="regression", bagging_fraction=0.9, bagging_freq=1)
    values = hb.Dataset(MANY[0], label=MANY[1]).construct(hb.Params.from_dict({"tree_method": method})).binned
    assert values.bins.dtype == np.uint32
    expected = train("cpu", MANY, 1, tree_method=method, objective="regression", bagging_fraction=0.9, bagging_freq=1)
    assert found.fingerprint() == expected.fingerprint()
    assert found.eval_history == expected.eval_history
    assert np.sort(found.trees[0].threshold)[0] < 0.0


@pytest.fixture(scope="module")
def of_reference():
    made = {}

    def get(fit, name):
        if name not in made:
            made[name] = fit("reference")
        return made[name]

    return get


@pytest.mark.parametrize("more", [{}, {"extra_trees": True}, {"feature_fraction": 0.6}])
def test_features_of_few_values_beside_features_of_many(device, more, of_reference):
    """Those have histograms and these lists; of splits that divide the rows alike the lower feature's is taken."""
    rng = np.random.default_rng(5)
    n = 900
    many = rng.normal(size=n)
    few = np.floor(2.0 * many)
    table = np.stack(
        [few, many, np.where(rng.random(n) < 0.2, np.nan, many), few, many > 0.3, rng.normal(size=n)], axis=1
    )
    table = np.column_stack([table, rng.integers(0, 6, n)])
    label = (many > 0.3) + 0.5 * few + 0.2 * table[:, 6] * np.nan_to_num(table[:, 2]) + 0.1 * rng.normal(size=n)

    def fit(on):
        given = {"device": on, "tree_method": "exact", "verbosity": -1, "num_leaves": 20, "seed": 3, **more}
        train_set = hb.Dataset(table, label=label, categorical_feature=[6])
        return hb.train(given, train_set, 4).fingerprint()

    assert fit(device) == of_reference(fit, str(more))


def test_bins_that_differ_from_tree_to_tree_beside_bins_that_do_not(device):
    table = (RANDOM.random((3_000, 20)) < 0.4).astype(float)
    table[:, [3, 17]] = RANDOM.normal(size=(3_000, 2))
    target = table[:, 3] * table[:, 0] + np.sin(3.0 * table[:, 17]) + table[:, 9] + 0.3 * RANDOM.normal(size=3_000)
    found = train(device, (table, target), 4, tree_method="approx")
    assert found.fingerprint() == train("cpu", (table, target), 4, tree_method="approx").fingerprint()
    assert {0, 3, 9, 17} <= {feature for tree in found.trees for feature in tree.feature.tolist()}
    thresholds = [set(tree.threshold[tree.feature == 17].tolist()) for tree in found.trees]
    assert thresholds[1] - thresholds[0]


@pytest.mark.parametrize("bagging", [False, True])
def test_lists_that_do_not_fit_are_taken_in_blocks(device, bagging, monkeypatch):
    """What is counted for blocks of one feature is enough, and less is refused before training."""
    if device in ("cpu", "reference"):
        pytest.skip("its lists are in host memory")
    n_blocks = []
    fill = ListBlocks.fill
    monkeypatch.setattr(ListBlocks, "fill", lambda self: n_blocks.append(len(self.blocks)) or fill(self))
    rng = np.random.default_rng(8)
    table = np.column_stack([rng.normal(size=(20_000, 6)), rng.integers(0, 9, 20_000)])
    data = table, table[:, 0] * table[:, 4] + table[:, 5] + (table[:, 6] == 2)
    how = {"tree_method": "exact", "objective": "regression", "num_leaves": 6, **bagging_of(bagging)}
    expected = train("cpu", data, **how).fingerprint()
    least = least_megabytes(device, data, **how)
    assert not n_blocks
    for more in (0.01, 0.5, 1.5, 3.5):
        assert train(device, data, device_memory_limit=least + more, **how).fingerprint() == expected
    assert list(dict.fromkeys(n_blocks)) == [6, 3, 2, 1]


def least_megabytes(device, data, **how):
    """Return what a training is told that it needs."""
    with pytest.raises(DeviceMemoryError) as refused:
        train(device, data, device_memory_limit=1.0, **how)
    needed = re.search(r"need ([0-9.]+) MB", str(refused.value))
    assert needed
    return float(needed[1])


def test_ranks_that_do_not_fit_are_refused_before_training(device):
    if device in ("cpu", "reference"):
        pytest.skip("they are in host memory")
    table = np.random.default_rng(3).normal(size=(30_000, 30))
    data, how = (table, table[:, 0]), {"tree_method": "exact", "objective": "regression", "num_leaves": 6}
    least = least_megabytes(device, data, **how)
    with pytest.raises(DeviceMemoryError, match=r"ranks of 30,000 rows x 30 features need.*tree_method='hist'"):
        train(device, data, device_memory_limit=least + 0.01, **how)


@pytest.mark.parametrize("max_bin", [15, 40, 500])
def test_heavy_ranks_among_many(device, max_bin):
    """Rows of large weight side by side and far apart, values of many rows, a column of fewer values than blocks."""
    if device == "reference":
        pytest.skip("its histograms are as large as the data")
    rng = np.random.default_rng(max_bin)
    n = 10_000
    table = rng.permuted(np.tile(np.arange(n, dtype=float)[:, None], 4), axis=0)
    for value in (0, 8, 4095, 7000):
        table[rng.random(n) < 0.1, 1] = value
    table[:, 3] = np.floor(table[:, 3] / 4)
    weight = rng.random(n)
    rank = table[:, 0].astype(int)
    weight[np.isin(rank, [0, 3, 4, 5, 8, 4000, 4001, 9999])] = 900.0
    weight[rng.random(n) < 0.3] = 0.0
    label = np.sin(table[:, 0] / 900) + np.cos(table[:, 1] / 700) + table[:, 2] / n + (table[:, 3] % 3)

    def fit(on):
        given = {"device": on, "tree_method": "approx", "max_bin": max_bin, "verbosity": -1, "num_leaves": 40}
        return hb.train(given, hb.Dataset(table, label=label, weight=weight), 2).fingerprint()

    assert fit(device) == fit("cpu")


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 200_000)
    with pytest.raises(DeviceMemoryError, match=r"exact.*MB of memory.*tree_method='hist'"):
        train("cpu", SOME, tree_method="exact")
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 20_000)
    with pytest.raises(DeviceMemoryError, match=r"ranks of 5,000 rows x 3 features.*fewer rows"):
        train("cpu", SOME, tree_method="approx")

"""Trees whose nodes have contexts, grown by a GPU without the host: the contexts, the leaves, and the copies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import sparse

import hornbeam as hb
from hornbeam.backends.gpu.data.bundles import bundles_of
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.growth.contexts import DeviceContexts
from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.core.random_choices import chance_limit
from hornbeam.data import stored_bins as bundling
from hornbeam.trees.bagging import Draw
from hornbeam.trees.contexts.tree_contexts import ContextPlan, TreeContexts
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.node_table import NodeTable
from hornbeam.trees.splitting import SplitRules

N_FEATURES = 40
SIGNS = [1, -1, 0, 1, 0] * 8
GROUPS = [[first, first + 1, (7 * first + 3) % N_FEATURES, 0] for first in range(N_FEATURES - 1)]  # more than a word
CASES = {
    "bounds": {"monotone_constraints": SIGNS, "monotone_penalty": 1.3},
    "smooth": {"path_smooth": 5.0, "max_delta_step": 0.4},
    "shares": {"feature_fraction": 0.8, "feature_fraction_bylevel": 0.7, "feature_fraction_bynode": 0.3},
    "groups": {"interaction_constraints": GROUPS, "extra_trees": True},
    "everything": {
        "monotone_constraints": SIGNS,
        "interaction_constraints": GROUPS,
        "path_smooth": 2.0,
        "feature_contri": [1.0, 0.9] * 20,
        "feature_fraction": 0.9,
        "feature_fraction_bylevel": 0.9,
        "feature_fraction_bynode": 0.5,
        "extra_trees": True,
        "lambda_l1": 0.1,
    },
}
LEVELS = {"categorical": {"path_smooth": 2.0, "feature_fraction_bynode": 0.6, "min_data_per_group": 5}}


def table(seed: int = 1, n_rows: int = 700, levels: bool = False, bundles: bool = False):
    """Return X and y; a feature with missing values, and with levels another one of 12 and one of 3.

    With bundles, all features from 8 on are zeros but for one in each row.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES)).round(1)
    y = 2.0 * X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3] + rng.normal(size=n_rows)
    X[rng.random(n_rows) < 0.2, 4] = np.nan
    if bundles:
        only = rng.integers(8, N_FEATURES, n_rows)
        X[:, 8:] *= np.arange(8, N_FEATURES) == only[:, None]
        y += only % 5 + X[:, 8:].sum(axis=1)
    if levels:
        X[:, 5], X[:, 6] = rng.integers(0, 12, n_rows), rng.integers(0, 3, n_rows)
        y += np.where(X[:, 5] % 3 == 0, 2.0, 0.0) + X[:, 6]
    return X, y


def dataset(levels: bool = False, bundles: bool = False, n_rows: int = 700) -> hb.Dataset:
    X, y = table(n_rows=n_rows, levels=levels, bundles=bundles)
    X = sparse.csr_matrix(X) if bundles else X
    return hb.Dataset(X, label=y, categorical_features=[5, 6] if levels else [])


def settings(**params):
    return {"num_leaves": 40, "min_data_in_leaf": 3, "verbosity": -1, **params}


@pytest.mark.parametrize(("name", "bagged"), [*((name, False) for name in [*CASES, *LEVELS]), ("everything", True)])
def test_contexts_of_the_device_are_those_of_the_host(gpu, monkeypatch, name, bagged):
    """What the search of every node is told, and what nodes hand down, with `==`."""
    params = hb.Params.from_dict(settings(**{**CASES, **LEVELS}[name]))
    data = dataset(name in LEVELS).construct(params)
    binned, n_rows = data.binned, data.binned.n_rows
    plan = ContextPlan(params, data.feature_names, binned.used, binned.n_numeric, data.categorical_features)
    rules, limits = SplitRules.from_params(params), GrowthLimits.of(params, n_rows)
    engine = GpuEngine(open_runtime(gpu), binned, min_data_in_leaf=3)
    engine.set_scores(np.zeros((1, n_rows)))
    engine.set_gradients(-data.label[None], np.ones((1, n_rows)))
    if bagged:
        engine.choose_rows(Draw(5, chance_limit(0.7)))
    engine.choose_features(plan.tree_features(2, 1))
    how = engine.quantize(0, False)
    root = engine.begin_tree(2 * limits.n_leaves)
    told = {}
    launch = DeviceContexts.launch

    def watched(self, groups, state, chosen, search, placed, *given):
        launch(self, groups, state, chosen, search, placed, *given)
        head = np.empty(16, np.uint32)
        self._runtime.download(state, head)
        n_children, first = (1, 0) if chosen is None else (2 * int(head[0]), int(head[1]))
        sums = np.empty((n_children, 5), np.int64)
        around, mask = np.empty((n_children, 6), np.int64), np.empty((n_children, placed.n_words), np.uint32)
        for buffer, out in ((search, sums), (placed.context, around), (placed.mask, mask)):
            if n_children:
                self._runtime.download(buffer, out)
        for i in range(n_children):
            if sums[i, 3] >= 0:
                told[first + i] = around[i], mask[i]

    monkeypatch.setattr(DeviceContexts, "launch", watched)
    ahead = engine.grow_ahead(NodeTable(root).root_table(), rules, limits, contexts=plan.ahead(2, 1))
    engine.close()
    nodes = NodeTable.from_table(ahead.nodes)
    expected = TreeContexts(plan, rules, how, nodes, binned, 2, 1)
    parents = sorted((node for node in range(len(nodes.left)) if nodes.left[node] >= 0), key=nodes.left.__getitem__)
    for parent in parents:
        expected.add_children([parent])
    assert len(parents) > 10
    assert ahead.contexts.tobytes() == expected.table().tobytes()
    some = sorted(told)
    of_host = expected.of(some)
    floats = np.array([told[node][0][:5] for node in some]).view(np.float64)
    for column, field in enumerate(("lower", "upper", "parent_output", "score", "monotone_factor")):
        assert np.array_equal(floats[:, column], getattr(of_host, field)), field
    assert [told[node][0][5].view(np.uint64) for node in some] == of_host.key.tolist()
    assert np.array_equal([told[node][1] for node in some], of_host.mask)


OPTIONS = {
    "leafwise": {},
    "depthwise": {"grow_policy": "depthwise", "max_depth": 5},
    "few slots": {"histogram_pool_size": 0.2},
    "bag, high precision": {"bagging_fraction": 0.6, "bagging_freq": 1, "precision": "high"},
    "levels": {},
    "bundles": {},
    "many leaves": {"num_leaves": 600, "min_data_in_leaf": 2},
    "16 bins, 1 output of 3": {"objective": "multiclass", "num_class": 3, "max_bin": 15},
}


@pytest.mark.parametrize(
    ("name", "option"),
    [("bounds", "leafwise"), ("bounds", "few slots"), *(("everything", option) for option in OPTIONS)],
)
def test_tree_in_context_is_the_same_however_it_is_finished(gpu, monkeypatch, assigned, name, option):
    """Leaves by the device; or by the host, from the device's nodes, from some of them, or from none."""
    params = settings(**CASES[name], **OPTIONS[option])
    if option == "bundles":
        monkeypatch.setattr(bundling, "PLAIN_CELLS", 0)
    if option == "levels":
        params["monotone_constraints"] = [0 if feature in (5, 6) else sign for feature, sign in enumerate(SIGNS)]

    def train(device):
        data = dataset(option == "levels", option == "bundles", 1300 if option == "many leaves" else 700)
        if option == "bundles":
            assert bundles_of(data.construct(hb.Params.from_dict(params)).binned) is not None
        if "num_class" in params:
            data = hb.Dataset(data.data, label=np.digitize(data.label, [-1.0, 1.0]))
        return hb.train({**params, "device": device}, data, 2)

    found = train(gpu).fingerprint()
    by_whom = {"few slots": {"device", "host"}, "levels": {"host"}, "many leaves": {"host"}}.get(option, {"device"})
    assert set(assigned) == by_whom
    assert found == train("cpu").fingerprint()


@pytest.mark.parametrize("name", [None, "shares", "everything"])
def test_copies_of_a_tree_do_not_depend_on_its_rounds(gpu, monkeypatch, name):
    """A tree of any size takes as many copies as any other, and at most one more where nodes have contexts."""
    copies: Counter[str] = Counter()
    runtime = type(open_runtime(gpu))
    for way in ("upload", "download", "download_later"):
        call = getattr(runtime, way)

        def counted(self, buffer, array, *given, way=way, call=call):
            copies[way] += 1
            return call(self, buffer, array, *given)

        monkeypatch.setattr(runtime, way, counted)

    def copies_of_a_tree(n_leaves):
        made = []
        for n_trees in (3, 5):
            copies.clear()
            params = settings(num_leaves=n_leaves, device=gpu, metric="none", **({} if name is None else CASES[name]))
            hb.train(params, dataset(), n_trees)
            made.append(copies.total())
        return (made[1] - made[0]) / 2

    few, many = copies_of_a_tree(4), copies_of_a_tree(20)
    assert few == many
    assert many <= 7 + (name is not None) + ("feature_fraction" in CASES.get(name, {}))


def test_plain_trees_ask_for_no_kernel_of_contexts(gpu, monkeypatch):
    asked = set()
    runtime = type(open_runtime(gpu))
    kernel = runtime.kernel
    monkeypatch.setattr(
        runtime, "kernel", lambda self, name, variant, *given: asked.add(name) or kernel(self, name, variant, *given)
    )
    of_contexts = {"contexts_kernel", "split_general_kernel", "values_in_context_kernel"}
    hb.train(settings(device=gpu), dataset(), 2)
    assert "select_kernel" in asked
    assert not asked & of_contexts
    hb.train(settings(device=gpu, **CASES["bounds"]), dataset(), 2)
    assert of_contexts <= asked

"""Bins in memory of the host: the same operations, and rows that keep their order (kernels/growth/partition.cl)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")

from hornbeam.backends.gpu import engine as engine_module
from hornbeam.backends.gpu.engine import GpuEngine
from hornbeam.backends.gpu.runtime import opencl
from hornbeam.backends.reference.engine import bins_go_left
from hornbeam.core.dtypes import SPLIT
from hornbeam.testing.checks import assert_same_operations, binned_data
from hornbeam.testing.data import make_binned
from hornbeam.trees.records import Segments


@pytest.fixture
def engine_of(monkeypatch):
    """Function that makes an engine whose bins are in host memory."""
    monkeypatch.setattr(engine_module, "fit_memory", lambda layout, *_: replace(layout, on_host=True))

    def make(binned) -> GpuEngine:
        engine = GpuEngine(opencl.open_device(0), binned, bins_may_stay=True)
        assert engine.host_bin_bytes > 0
        return engine

    return make


@pytest.mark.parametrize(
    ("n_features", "n_bins", "n_categorical", "high_precision"),
    [(40, 63, 2, False), (5, 300, 0, True)],
    ids=["two tiles, categories", "wide records"],
)
def test_operations_equal_the_reference(engine_of, n_features, n_bins, n_categorical, high_precision):
    sample = make_binned(2500, n_features, n_bins, 0.2, seed=n_bins)
    binned = binned_data(sample, n_categorical)
    engine = engine_of(binned)
    assert_same_operations(binned, sample.gradient[None], sample.hessian[None], engine, high_precision=high_precision)


@pytest.mark.parametrize("n_rows", [1, 5000, 140_000], ids=["a row", "a few tiles", "more tiles than threads"])
def test_rows_of_nodes_ascend(engine_of, n_rows):
    sample = make_binned(n_rows, 4, 31, 0.2, seed=3)
    binned = binned_data(sample)
    engine = engine_of(binned)
    engine.set_gradients(sample.gradient[None], sample.hessian[None])
    engine.quantize(0, False)
    engine.begin_tree(8)
    nodes, expected = [(0, n_rows)], [np.arange(n_rows)]
    for depth in range(3):
        segments = Segments(*np.array(nodes, np.int64).T.copy(), np.full(len(nodes), depth, np.int32))
        splits = np.zeros(len(nodes), SPLIT)
        splits["feature"], splits["bin"], splits["missing_left"] = depth, 10 + np.arange(len(nodes)), depth % 2
        n_left = engine.partition(segments, splits).tolist()
        children, rows = [], []
        for (begin, end), split, own, n in zip(nodes, splits, expected, n_left, strict=True):
            left = bins_go_left(binned, own, split["feature"], split["bin"], split["missing_left"], None)
            assert n == np.count_nonzero(left)
            children += [(begin, begin + n), (begin + n, end)]
            rows += [own[left], own[~left]]
        found = np.empty(n_rows, np.uint32)
        buffer = engine.workspace.buffer("rows even" if depth % 2 else "rows odd")
        opencl.open_device(0).download(buffer, found)
        for (begin, end), own in zip(children, rows, strict=True):
            np.testing.assert_array_equal(found[begin:end], own)
        nodes, expected = children, rows

"""More than 2**31 cells: every count, sum and address must be 64-bit. Needs about 15 GB of memory.

Run with `HORNBEAM_LARGE=1 pytest -m large tests/large`.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from hornbeam.backends.reference.engine import route
from hornbeam.data.binning import BinMapper, BinnedData, allocate_bins
from hornbeam.testing.checks import PLAIN_RULES, engine_on, histogram_of
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.grower import TreeGrower
from hornbeam.trees.records import Segments

pytestmark = [
    pytest.mark.large,
    pytest.mark.skipif(os.environ.get("HORNBEAM_LARGE") != "1", reason="set HORNBEAM_LARGE=1: needs 15 GB of memory"),
]

N_ROWS, N_FEATURES, N_BINS = 80_000_000, 28, 64
PLANTED, N_PLANTED = 27, 500_000
CHUNK = 1_000_000
assert (N_ROWS - N_PLANTED) * N_FEATURES > 2**31  # every planted cell lies beyond


def chunks():
    """Yield (first row, bins of the chunk, gradients of the chunk); gradients are small whole numbers."""
    for start in range(0, N_ROWS, CHUNK):
        rng = np.random.default_rng([7, start])
        bins = rng.integers(0, N_BINS - 8, (CHUNK, N_FEATURES), dtype=np.uint8)
        gradient = rng.integers(-1, 2, CHUNK).astype(np.float64)
        planted = np.arange(start, start + CHUNK) >= N_ROWS - N_PLANTED
        bins[planted, PLANTED] = N_BINS - 4
        gradient[planted] = -8.0
        yield start, bins, gradient


@pytest.fixture(scope="module")
def large() -> tuple[BinnedData, np.ndarray, np.ndarray]:
    """Bins, gradients, and sums per bin of feature 0 and of the planted feature, int64 (2, N_BINS, 2)."""
    bounds = np.append(np.arange(N_BINS - 1) + 0.5, np.inf)
    mapper = BinMapper((bounds,) * N_FEATURES, np.zeros(N_FEATURES, np.bool_), use_missing=True)
    bins = allocate_bins(N_ROWS, N_FEATURES, np.uint8)
    gradient = np.empty((1, N_ROWS))
    sums = np.zeros((2, N_BINS, 2), np.int64)
    for start, part, g in chunks():
        bins[start : start + CHUNK, :N_FEATURES] = part
        gradient[0, start : start + CHUNK] = g
        for i, feature in enumerate((0, PLANTED)):
            sums[i, :, 0] += np.bincount(part[:, feature], g, N_BINS).astype(np.int64)
            sums[i, :, 1] += np.bincount(part[:, feature], minlength=N_BINS)
    return BinnedData(mapper, bins), gradient, sums


def test_more_than_2_to_the_31_cells(large, device):
    if device == "reference":
        pytest.skip("NumPy would need far more memory")
    binned, gradient, sums = large
    engine = engine_on(device, binned)
    engine.set_scores(np.zeros((1, N_ROWS)))
    engine.set_gradients(gradient, np.ones((1, N_ROWS)))
    quantization = engine.quantize(0, False)

    root = engine.begin_tree(2)
    assert root.n_rows == root.hessian == N_ROWS
    assert root.gradient * quantization.gradient_unit == sums[0, :, 0].sum()

    whole = Segments(np.zeros(1, np.int64), np.array([N_ROWS]), np.zeros(1, np.int32))
    slot = np.zeros(1, np.int32)
    engine.build_histograms(whole, slot)
    histogram = histogram_of(engine, 0)
    if histogram is not None:
        for i, feature in enumerate((0, PLANTED)):
            own = histogram[binned.offsets[feature] : binned.offsets[feature + 1] - 1]
            assert own[:, 1].tolist() == sums[i, :, 1].tolist()
            assert (own[:, 0] * quantization.gradient_unit).tolist() == sums[i, :, 0].tolist()

    grower = TreeGrower(engine, binned, PLAIN_RULES, GrowthLimits(8, 1 << 30, False), 16)
    for iteration in range(2):
        if iteration:
            engine.set_gradients(gradient + np.asarray(engine.scores()), np.ones((1, N_ROWS)))
            quantization = engine.quantize(0, False)
        grown = grower.grow(quantization, 0.5)
        engine.add_leaf_values(0, grown.tree.leaf_value)
        assert grown.tree.split_count[0] == N_ROWS
        assert grown.tree.leaf_count.sum() == N_ROWS
        assert grown.tree.leaf_weight.sum() == N_ROWS
        if iteration == 0:
            scores = np.asarray(engine.scores())[0]
            # the planted rows are what the first split finds, and they sit beyond 2**31 cells
            assert grown.tree.feature[0] == PLANTED
            assert N_BINS - 9 <= grown.tree.threshold[0] - 0.5 < N_BINS - 4
            for first in (0, N_ROWS // 2, N_ROWS - N_PLANTED - 1000, N_ROWS - 100_000):
                rows = slice(first, first + 100_000 if first + 100_000 <= N_ROWS else N_ROWS)
                part = BinnedData(binned.mapper, binned.bins[rows])
                assert (scores[rows] == grown.tree.leaf_value[route(part, grown.binned)]).all()
    assert np.asarray(engine.scores())[0, -N_PLANTED:].min() > 4.0
    engine.close()

"""The paper's kernel, which is only a benchmark's baseline, sums what NumPy sums: a wrong baseline proves nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from hornbeam.backends.gpu.runtime.devices import open_runtime
from hornbeam.testing.checks import usable_devices

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
GPUS = [name for name in usable_devices() if name.startswith(("cuda", "opencl"))]
FLOAT_ERROR = 2.0**-24
N_ROWS, N_FEATURES = 3001, 11

pytestmark = pytest.mark.skipif(not GPUS, reason="no usable GPU and no OpenCL device")


def load(name):
    """Import a program of benchmarks/, which is no package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


paper = load("paper_histogram")


@pytest.fixture(scope="module", params=GPUS)
def runtime(request):
    return open_runtime(request.param)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(3)
    return rng.normal(size=N_ROWS).astype(np.float32), rng.random(N_ROWS).astype(np.float32)


def expected_sums(bins, rows, gradients, hessians, n_bins):
    """Return float64 (n_features, n_bins, 3): gradients, hessians, rows; and the first two of magnitudes."""
    weights = (gradients, hessians, np.ones(N_ROWS), np.abs(gradients), hessians)
    sums = [[np.bincount(bins[rows, f], np.float64(w)[rows], n_bins) for w in weights] for f in range(bins.shape[1])]
    found = np.array(sums).transpose(0, 2, 1)
    return found[:, :, :3], found[:, :, 3:]


def check(runtime, bins, n_distinct, values, variant, part=1.0, redistributed=True):
    n_distinct = np.full(bins.shape[1], n_distinct)
    rows = np.flatnonzero(np.random.default_rng(5).random(N_ROWS) < part).astype(np.uint32)
    gradients, hessians = values
    baseline = paper.PaperHistogram(runtime, bins, n_distinct, variant, redistributed)
    try:
        baseline.set_node(None if part == 1.0 else rows, gradients[rows], hessians[rows])
        for groups in (1, paper.GROUPS_A_UNIT):
            baseline.set_groups(groups)
            baseline.launch()
            found = baseline.read()
            sums, magnitudes = expected_sums(bins, rows, gradients, hessians, variant.n_bins)
            error = 1e-14 if variant.doubled else FLOAT_ERROR
            assert (np.abs(found[:, :, :2] - sums[:, :, :2]) <= N_ROWS * error * magnitudes).all()
            if variant.counted:
                np.testing.assert_array_equal(found[:, :, 2], sums[:, :, 2])
    finally:
        baseline.close()


def random_bins(n_bins):
    return np.random.default_rng(n_bins).integers(0, n_bins, (N_ROWS, N_FEATURES), dtype=np.uint8)


@pytest.mark.sampled
@pytest.mark.parametrize("part", [1.0, 0.25, 0.0], ids=["root", "quarter", "no rows"])
@pytest.mark.parametrize("n_bins", [15, 63, 255])
def test_sums_are_those_of_numpy(runtime, values, n_bins, part):
    check(runtime, random_bins(n_bins), n_bins, values, paper.paper_variant(n_bins), part)


@pytest.mark.parametrize(
    "changes",
    [
        {"rotated": False},
        {"interleaved": False},
        {"last_bin": False},
        {"num_banks": 1},
        {"num_banks": 2, "interleaved": False},
        {"counted": True},
        {"counted": True, "last_bin": False, "interleaved": False},
        {"doubled": True, "counted": True},
        {"features": 4, "num_banks": 16},
    ],
    ids=lambda changes: ",".join(f"{name}={int(value)}" for name, value in changes.items()),
)
def test_sums_do_not_depend_on_the_mechanisms(runtime, values, changes):
    n_bins = 15 if "features" in changes else 63
    check(runtime, random_bins(n_bins), n_bins, values, paper.paper_variant(n_bins, **changes), part=0.5)


@pytest.mark.sampled
@pytest.mark.parametrize("redistributed", [True, False], ids=["spread", "as they are"])
@pytest.mark.parametrize("n_bins", [15, 63, 255])
def test_spread_bins_are_folded_back(runtime, values, n_bins, redistributed):
    variant = paper.paper_variant(n_bins, counted=True)
    check(runtime, random_bins(3), 3, values, variant, part=0.5, redistributed=redistributed)


def test_repeated_values_are_summed_once(runtime, values):
    bins = random_bins(255)
    bins[np.random.default_rng(1).random(bins.shape) < 0.95] = 7
    check(runtime, bins, 255, values, paper.paper_variant(255, counted=True), part=0.5)


@pytest.mark.parametrize(("n_distinct", "n_bins", "spread"), [(1, 256, 256), (3, 256, 64), (3, 64, 16), (127, 256, 2)])
def test_few_bins_are_spread_as_algorithm_3_says(n_distinct, n_bins, spread):
    assert paper.spread_of(n_distinct, n_bins) == spread


@pytest.mark.parametrize("n_distinct", [128, 129, 256])
def test_many_bins_are_not_spread(n_distinct):
    assert paper.spread_of(n_distinct, 256) == 1


def test_banks_are_those_of_the_paper():
    """Appendix A.1: no additional bank at 256 bins, four at 64."""
    assert [paper.paper_variant(n).num_banks for n in (255, 63)] == [1, 4]

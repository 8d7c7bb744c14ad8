"""Explanations of a device beside those of another: contributions, interactions and background rows, with ==."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.explanation import Trees, background_contributions, contributions, interactions
from hornbeam.data.sources.opening import open_table
from hornbeam.testing.same_bits import assert_same_bits
from hornbeam.trees.forest import ArrayReader, Forest


def assert_same_explanations(
    forest: Forest, X: NDArray[Any], device: str, beside: str = "cpu", n_threads: int = 1, n_background: int = 7
) -> None:
    """Explain rows on two devices and compare; the first rows are the background, and few rows have interactions."""
    reader = open_table(X) if X.dtype in (np.float32, np.float64) else ArrayReader(X)
    trees = Trees(forest, 0, len(forest.trees), "count", n_threads, device)
    others = replace(trees, device=beside)
    rows, few = range(len(X)), range(min(len(X), 64))
    found, expected = (contributions(one, reader, rows) for one in (trees, others))
    assert_same_bits(found, expected, "contributions")
    found, expected = (contributions(replace(one, cover="weight"), reader, few) for one in (trees, others))
    assert_same_bits(found, expected, "contributions by hessians")
    pairs, expected_pairs = (interactions(one, reader, few) for one in (trees, others))
    for of, a, b in zip(("contributions", "pairs"), pairs, expected_pairs, strict=True):
        assert_same_bits(a, b, f"interactions: {of}")
    background = ArrayReader(np.asarray(X[:n_background], np.float64))
    found, expected = (background_contributions(one, reader, few, background) for one in (trees, others))
    assert_same_bits(found, expected, "contributions against background rows")

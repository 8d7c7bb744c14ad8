"""Ranks found by sorting are the codes that the definition searches for."""

import numpy as np
import pytest

from hornbeam.backends.cpu.binning.ranks import encode_ranks
from hornbeam.backends.cpu.binning.table import bin_table
from hornbeam.data.binning import BinParams
from hornbeam.data.sources.opening import open_table


def make_table(n_rows, dtype, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n_rows, 5))
    table[:, 1] = np.round(3.0 * table[:, 1])
    table[rng.random(n_rows) < 0.2, 2] = np.nan
    table[:, 3] = np.where(table[:, 3] > 0.0, table[:, 3], rng.choice([0.0, -0.0, 1e-40, -np.inf, np.inf], n_rows))
    if np.issubdtype(dtype, np.integer):
        table = np.nan_to_num(100.0 * table, posinf=7.0, neginf=-7.0)
    return table.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("options", [{}, {"zero_as_missing": True}, {"use_missing": False}])
@pytest.mark.parametrize("n_rows", [200, 3_000])  # bins of 8 and of 16 bits
def test_ranks_are_those_of_the_definition(dtype, options, n_rows):
    params = BinParams(tree_method="exact", **options)
    table = make_table(n_rows, dtype, 1)
    mapper = bin_table(open_table(table), params, 2).mapper
    other = np.concatenate([table[: n_rows // 2], make_table(100, dtype, 2)])  # and values unseen
    bins, missing = encode_ranks(open_table(other), mapper, params, 3)
    for position, feature in enumerate(mapper.used.tolist()):
        values = other[:, feature].astype(np.float64)
        if params.zeros_are_missing:
            values[np.abs(values) <= 1e-35] = np.nan
        assert (bins[:, position] == mapper.codes(feature, values)).all(), feature
        assert missing[position] == np.isnan(values).any()

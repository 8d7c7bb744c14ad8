"""Where the bins of sparse features are kept, and which features share a column.

A sparse feature has a *default* bin, that of zero (or the missing bin, where zeros are missing), which is never stored:
its sums are what is left of the node's total, exactly, since sums are integers. Each used feature lives in one of three
places:

    column of its own   every row's bin, as in plain data
    bundle              a column that several features share. No two of them are ever other than default in one row,
                        so a code says which feature it is of, and its bin:

                            code 0       all are default
                            code 1..3    feature a, its bins without the default one
                            code 4..9    feature b

    entries             the bins that are not default, row by row (CSR), as places in a histogram: first entry of the
                        feature + bin. They ascend in a row, so the bin of a feature is found by bisection

Storage is a matter of speed and memory. It follows from the data by the rules below and cannot be seen in the model:
bundles are checked over all rows, and a feature that conflicts with another leaves its bundle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import BIN_LARGE, BIN_SMALL

PLAIN_CELLS = 1 << 21
"""Smaller tables (rows x used features) are kept plain: their rounds are shorter than what stored features cost."""

BUNDLED_ROWS = 50_000
"""Sampled rows from which bundles are found."""

BUNDLES_TRIED = 128
"""Bundles that a feature is held against before it starts one of its own: the latest ones."""

FULL_BUNDLE = 0.5
"""A bundle is a column when at least this share of its rows is other than default: an entry takes about twice the time
of a code, which every row has."""

LARGEST_SHARE = 0.9
"""A feature with more entries than this share of the rows is in no bundle: there is no room for others."""


@dataclass(frozen=True, eq=False)
class StoredBins:
    """The bins of a table whose features live in columns, bundles and entries.

    offsets      int64 (n_used + 1,)      first histogram place of each feature, see BinnedData
    default      int32 (n_used,)          the bin that is not stored
    column       int32 (n_used,)          column of codes, -1: entries
    first_code   int32 (n_used,)          0: the column is the feature's own; else first code in the bundle
    n_codes      int32 (n_used,)          codes of the feature in its bundle
    code_starts  int64 (n_columns + 1,)   codes of the columns before
    codes        uint8 or uint16 (n_rows, stride)   columns, rows padded to words as in BinnedData.bins
    indptr       int64 (n_rows + 1,)      the entries of row i are indptr[i] to indptr[i + 1]
    entries      uint32 (n_entries,)
    derived      what an engine makes of all this and keeps for the next training; not pickled
    """

    offsets: NDArray[np.int64]
    default: NDArray[np.int32]
    column: NDArray[np.int32]
    first_code: NDArray[np.int32]
    n_codes: NDArray[np.int32]
    code_starts: NDArray[np.int64]
    codes: NDArray[Any]
    indptr: NDArray[np.int64]
    entries: NDArray[np.uint32]
    derived: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again."""
        return {**self.__dict__, "derived": {}}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def n_columns(self) -> int:
        """Number of columns, the padding left out."""
        return len(self.code_starts) - 1

    def fill(self, first: int, last: int, out: NDArray[Any]) -> None:
        """Write the bins of the rows first to last, a column for each feature: what this storage stands for.

        out   uint8 or uint16 (last - first, >= n_used)   out
        """
        for feature, column in enumerate(self.column.tolist()):
            if column < 0:
                out[:, feature] = self.default[feature]
                continue
            codes = self.codes[first:last, column].astype(np.int64)
            if self.first_code[feature] > 0:
                place = codes - self.first_code[feature]
                bins = place + (place >= self.default[feature])
                stored = (place >= 0) & (place < self.n_codes[feature])
                codes = np.where(stored, bins, self.default[feature])
            out[:, feature] = codes
        entries = self.entries[self.indptr[first] : self.indptr[last]].astype(np.int64)
        rows = np.repeat(np.arange(last - first), np.diff(self.indptr[first : last + 1]))
        features = np.searchsorted(self.offsets, entries, side="right") - 1
        out[rows, features] = entries - self.offsets[features]


@dataclass(frozen=True, eq=False)
class Plan:
    """Where each used feature shall live: the fields of StoredBins that say so."""

    column: NDArray[np.int32]
    first_code: NDArray[np.int32]
    code_starts: NDArray[np.int64]
    dtype: type[np.uint8] | type[np.uint16]

    @property
    def is_plain(self) -> bool:
        """Whether every feature has a column of its own."""
        return bool((self.column >= 0).all() and (self.first_code == 0).all())


def plan_storage(
    n_rows: int,
    n_stored: NDArray[np.int64],
    n_bins: NDArray[np.int64],
    n_codes: NDArray[np.int32],
    bundle: NDArray[np.int64],
    sparse_threshold: float,
) -> Plan:
    """Decide where features live.

    n_stored          int64 (n_used,)   in   rows whose bin is not the default one
    n_bins            int64 (n_used,)   in   bins, the missing one included
    n_codes           int32 (n_used,)   in   bins that may be stored in a bundle: those seen, the default one left out
    bundle            int64 (n_used,)   in   bundle of each feature, -1: none
    sparse_threshold  a column with at least this share of default rows is none; its features become entries. 2: never
    """
    column = np.full(len(n_stored), -1, np.int32)
    first_code = np.zeros(len(n_stored), np.int32)
    sizes: list[int] = []
    placed = np.zeros(len(n_stored), np.bool_)
    members_of: dict[int, list[int]] = {}
    for feature in np.flatnonzero(bundle >= 0).tolist():
        members_of.setdefault(int(bundle[feature]), []).append(feature)
    for feature in range(len(n_stored)):
        members = members_of.get(int(bundle[feature]), [feature]) if bundle[feature] >= 0 else [feature]
        if placed[feature]:
            continue
        placed[members] = True
        n_own = int(n_stored[members].sum())
        is_sparse = n_rows - n_own >= sparse_threshold * n_rows
        if is_sparse or (len(members) > 1 and sparse_threshold <= 1.0 and n_own < FULL_BUNDLE * n_rows):
            continue
        column[members] = len(sizes)
        if len(members) == 1:
            sizes.append(int(n_bins[feature]))
            continue
        starts = 1 + np.cumsum(n_codes[members]) - n_codes[members]
        first_code[members] = starts
        sizes.append(1 + int(n_codes[members].sum()))
    dtype = BIN_SMALL if max(sizes, default=0) <= 256 else BIN_LARGE
    return Plan(column, first_code, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), dtype)

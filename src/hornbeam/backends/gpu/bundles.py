"""Bundles on a GPU: features that exclude each other share a column of the device's bins.

The host keeps sparse features in columns, bundles and entries (bundling.py). A device has no entries: their features
are bundled too, however seldom they are other than default. Columns of a device hold one byte a row, or half of one:

    code 0             all features of the column have their default bins
    first, first + 1   the bins of one feature, without the default one; then those of the next

A feature that is alone in its column has its bins for codes. Histograms are those of the columns: the sums of a default
bin are what the others leave of the node's total, exactly, since sums are integers (kernels/split_bundles.cl).

Bundles are checked over all rows. They cannot be seen in the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam import bundling
from hornbeam.backends.gpu.layout import Layout
from hornbeam.binning import BinnedData, sample_rows
from hornbeam.bundling import StoredBins

MOST_CODES = 256
"""Codes of a column: a byte."""

TRIES = 4
"""How often features are grouped that met another one of their bundle outside of the sampled rows."""

ALONE = 0xFFFFFFFF
"""Stands for the default bin of a feature whose codes are its bins."""

NO_FEATURE = 0xFFFFFFFF
"""Stands for the feature of a code that has none."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """What a row of a device is made of.

    columns  int32 (n_columns, 4)    the column of StoredBins.codes that it comes from, -1: entries; first code, 0: all
                                     codes are the column's; codes; what stands where there is no entry
    places   uint32 (n_places, 2)    column and code of an entry, by the histogram place that it is
    """

    columns: NDArray[np.int32]
    places: NDArray[np.uint32]

    @classmethod
    def plain(cls, stored: StoredBins) -> Spelling:
        """Spell out a column for each feature."""
        columns = np.stack([stored.column, stored.first_code, stored.n_codes, stored.default], axis=1)
        feature = np.repeat(np.arange(len(stored.column)), np.diff(stored.offsets))
        bins = np.arange(len(feature)) - stored.offsets[feature]
        return cls(columns.astype(np.int32), np.stack([feature, bins], axis=1).astype(np.uint32))


@dataclass(frozen=True, eq=False)
class Bundles:
    """Which features share a column.

    members        uint32 (n_used, 4)          column; first code; codes; default bin, or ALONE
    sizes          int32 (n_columns,)          codes of each column
    code_features  uint32 (n_columns, n_bins)  feature whose threshold a code is, see kernels/split_bundles.cl
    spelling       how the rows are made
    """

    members: NDArray[np.uint32]
    sizes: NDArray[np.int32]
    code_features: NDArray[np.uint32]
    spelling: Spelling

    def unbundle(self, histogram: NDArray[np.int64], feature: int, n_values: int) -> NDArray[np.int64]:
        """Return the histogram of a feature, int64 (n_values + 1, 2), from that of the columns.

        histogram   int64 (n_columns, n_bins, 2)   in
        """
        column, first, n_codes, default = self.members[feature].tolist()
        codes = histogram[column, first : first + n_codes]
        if default == ALONE:
            return codes
        bins = np.zeros((n_values + 1, 2), np.int64)
        place = np.arange(n_codes)
        bins[place + (place >= default)] = codes
        bins[default] = histogram[column].sum(axis=0) - codes.sum(axis=0)
        return bins


def bundles_of(binned: BinnedData) -> Bundles | None:
    """Return the bundles of stored bins, or None where they would not make rows shorter."""
    stored = binned.stored
    if stored is None or stored.codes.dtype != np.uint8 or int(binned.n_value_bins.max(initial=0)) >= MOST_CODES:
        return None
    if "bundles" not in stored.derived:
        found = _find(stored, binned.n_value_bins)
        shorter = Layout.of(binned, found).tile_bytes < Layout.of(binned).tile_bytes
        stored.derived["bundles"] = found if shorter else None
    bundles: Bundles | None = stored.derived["bundles"]
    return bundles


def _find(stored: StoredBins, n_values: NDArray[np.int32]) -> Bundles:
    """Keep the host's columns, and bundle the features that are entries."""
    members, sizes, sources, initial = _place(stored, n_values, _group(stored))
    feature = np.repeat(np.arange(len(members)), np.diff(stored.offsets))
    bins = np.arange(len(feature)) - stored.offsets[feature]
    column, first, _, default = members[feature].T.astype(np.int64)
    places = np.stack([column, first + bins - (bins > default)], axis=1)
    columns = np.stack([sources, np.zeros_like(sources), sizes, initial], axis=1).astype(np.int32)

    code_features = np.full((len(sizes), Layout.of_bundles(1, len(members), sizes).n_bins), NO_FEATURE, np.uint32)
    for number, (column_, first_, n_codes, default_) in enumerate(members.tolist()):
        last = first_ + (int(n_values[number]) if default_ == ALONE else n_codes)
        code_features[column_, first_:last] = number
    return Bundles(members, sizes, code_features, Spelling(columns, places.astype(np.uint32)))


def _place(
    stored: StoredBins, n_values: NDArray[np.int32], bundle: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Give each feature its column and codes.

    bundle   int64 (n_used,)   in   of features that are entries; -1: none

    Returns the members and sizes of Bundles, and for each column its source and what stands where there is no entry.
    """
    members = np.zeros((len(n_values), 4), np.uint32)
    sizes = np.diff(stored.code_starts).tolist()
    sources, initial = list(range(len(sizes))), [0] * len(sizes)
    column_of: dict[int, int] = {}
    for feature in range(len(n_values)):
        column, first, n_codes = (
            int(stored.column[feature]),
            int(stored.first_code[feature]),
            int(stored.n_codes[feature]),
        )
        default = int(stored.default[feature])
        own_bundle = int(bundle[feature])
        is_alone = first == 0 if column >= 0 else own_bundle < 0
        if column < 0:
            column = column_of.get(own_bundle, -1) if own_bundle >= 0 else -1
            if column < 0:
                column = len(sizes)
                sizes.append(int(n_values[feature]) + 1 if is_alone else 1)
                sources.append(-1)
                initial.append(default if is_alone else 0)
            if not is_alone:
                column_of[own_bundle] = column
                first = sizes[column]
                sizes[column] += n_codes
        members[feature] = (column, 0, n_values[feature] + 1, ALONE) if is_alone else (column, first, n_codes, default)
    return members, np.array(sizes, np.int32), np.array(sources, np.int64), np.array(initial, np.int64)


def _group(stored: StoredBins) -> NDArray[np.int64]:
    """Group the features that are entries: int64 (n_used,), -1: in no bundle."""
    from hornbeam.backends.cpu.binning import rows_below
    from hornbeam.backends.cpu.sparse_binning import check_kernel, group_kernel

    n_used = len(stored.column)
    found = np.full(n_used, -1, np.int64)
    loose = np.flatnonzero((stored.column < 0) & (stored.n_codes < MOST_CODES - 1))
    if len(loose) < 2:
        return found
    feature_of = np.repeat(np.arange(n_used, dtype=np.int32), np.diff(stored.offsets))
    rows = sample_rows(stored.n_rows, bundling.BUNDLED_ROWS, rows_below)
    lengths = np.diff(stored.indptr)[rows]
    number = np.repeat(np.arange(len(rows), dtype=np.int32), lengths)
    starts = stored.indptr[rows] - (np.cumsum(lengths) - lengths)
    feature = feature_of[stored.entries[np.repeat(starts, lengths) + np.arange(int(lengths.sum()))]]
    order = np.argsort(feature, kind="stable")
    first = np.searchsorted(feature[order], np.arange(n_used + 1)).astype(np.int64)
    numbers = number[order]
    as_indices = stored.entries.view(np.int32)  # an entry tells its feature
    n_bundles = 0
    for _ in range(TRIES):
        candidates = loose[np.argsort(first[loose] - first[loose + 1], kind="stable")]  # the fullest first
        tried = np.full(n_used, -1, np.int64)
        group_kernel(candidates, first, numbers, stored.n_codes, MOST_CODES, len(rows), bundling.BUNDLES_TRIED, tried)
        leaves = np.zeros(n_used, np.bool_)
        check_kernel(stored.indptr, as_indices, feature_of, stored.entries, tried, leaves)
        stays = (tried >= 0) & ~leaves
        found[stays] = tried[stays] + n_bundles
        n_bundles += int(tried.max()) + 1
        loose = np.flatnonzero(leaves)
        if len(loose) < 2:
            break
    n_members = np.bincount(found[found >= 0], minlength=1)
    return np.where((found >= 0) & (n_members[found] > 1), found, -1)

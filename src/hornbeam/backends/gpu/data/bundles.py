"""Bundles on a GPU: features that exclude each other share a column of the device's bins.

The host keeps sparse features in columns, bundles and entries (stored_bins.py). A device has no entries: their features
are bundled too, however seldom they are other than default. Columns of a device hold one byte a row, or half of one:

    code 0             all features of the column have their default bins
    first, first + 1   the bins of one feature, without the default one; then those of the next

A feature that is alone in its column has its bins for codes; a categorical feature always is. Histograms are those of
the columns: the sums of a default bin are what the others leave of the node's total, exactly, since sums are integers
(kernels/growth/split_bundles.cl).

Bundles are checked over all rows. They cannot be seen in the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.data import stored_bins as bundling
from hornbeam.data.bin_bounds import sample_rows
from hornbeam.data.binning import BinnedData
from hornbeam.data.stored_bins import StoredBins

MOST_CODES = 256
"""Codes of a column: a byte."""

TRIES = 4
"""How often features are grouped that met another one of their bundle outside of the sampled rows."""

WHOLE_ENTRIES, WHOLE_BYTES = 1 << 22, 64 << 20
"""Up to so many entries, and bytes of a bit for each row and feature, features are grouped by all rows at once."""

WELL_PACKED = 1.25
"""Bundles, for each one that the codes would fill, with which the first grouping is good enough."""

BLOCK_ROWS = 1 << 18
"""Rows looked at a call."""

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
    code_features  uint32 (n_columns, n_bins)  feature whose threshold a code is, see kernels/growth/split_bundles.cl
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
        found = _find(stored, binned.n_value_bins, binned.n_numeric)
        layout = Layout.of(binned, found)
        shorter = layout.is_bundled and layout.tile_bytes < Layout.of(binned).tile_bytes
        stored.derived["bundles"] = found if shorter else None
    bundles: Bundles | None = stored.derived["bundles"]
    return bundles


def _find(stored: StoredBins, n_values: NDArray[np.int32], n_numeric: int) -> Bundles:
    """Keep the host's columns, and bundle the features of numbers that are entries."""
    members, sizes, sources, initial = _place(stored, n_values, _group(stored, n_numeric))
    feature = np.repeat(np.arange(len(members)), np.diff(stored.offsets))
    bins = np.arange(len(feature)) - stored.offsets[feature]
    column, first, _, default = members[feature].T.astype(np.int64)
    places = np.stack([column, first + bins - (bins > default)], axis=1)
    columns = np.stack([sources, np.zeros_like(sources), sizes, initial], axis=1).astype(np.int32)

    code_features = np.full((len(sizes), Layout.of_bundles(1, len(members), sizes).n_bins), NO_FEATURE, np.uint32)
    for number, (column_, first_, n_codes, default_) in enumerate(members[:n_numeric].tolist()):
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


def _group(stored: StoredBins, n_numeric: int) -> NDArray[np.int64]:
    """Group the features of numbers that are entries: int64 (n_used,), -1: in no bundle."""
    from hornbeam.backends.cpu.binning.dense import rows_below

    n_used = len(stored.column)
    found = np.full(n_used, -1, np.int64)
    loose = (stored.column < 0) & (stored.n_codes < MOST_CODES - 1) & (np.arange(n_used) < n_numeric)
    feature_of = np.repeat(np.arange(n_used, dtype=np.int32), np.diff(stored.offsets))
    n_places = len(feature_of)
    n_entries = np.zeros(n_places, np.int64)
    for first in range(0, len(stored.entries), BLOCK_ROWS):
        n_entries += np.bincount(stored.entries[first : first + BLOCK_ROWS], minlength=n_places)
    n_entries = np.bincount(feature_of, n_entries, minlength=n_used).astype(np.int64)
    sampled = sample_rows(stored.n_rows, bundling.BUNDLED_ROWS, rows_below)
    n_bundles = 0
    for _ in range(TRIES):
        if loose.sum() < 2:
            break
        n_loose, n_whole = int(loose.sum()), int(n_entries[loose].sum())
        whole = n_whole <= WHOLE_ENTRIES and n_whole * n_loose <= 8 * WHOLE_BYTES
        listed = _rows_of(stored, feature_of, loose, None if whole else sampled)
        # neighbours often are levels of one variable; if not, the fullest features find room best
        in_order = np.flatnonzero(loose)
        tried, leaving = _try(stored, feature_of, in_order, listed, whole)
        fewest = int(stored.n_codes[loose].sum()) / (MOST_CODES - 1)
        if leaving.any() or tried.max() > WELL_PACKED * fewest:
            by_size = in_order[np.argsort(-n_entries[in_order], kind="stable")]
            other = _try(stored, feature_of, by_size, listed, whole)
            if int(other[0].max()) + int(other[1].sum()) < int(tried.max()) + int(leaving.sum()):
                tried, leaving = other
        loose = leaving
        stays = (tried >= 0) & ~loose
        found[stays] = tried[stays] + n_bundles
        n_bundles += int(tried.max()) + 1
    n_members = np.bincount(found[found >= 0], minlength=1)
    return np.where((found >= 0) & (n_members[found] > 1), found, -1)


def _try(
    stored: StoredBins,
    feature_of: NDArray[np.int32],
    candidates: NDArray[np.int64],
    listed: tuple[NDArray[np.int64], NDArray[np.int32], int],
    whole: bool,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Group features, the first of the candidates first; returns the bundles, and who conflicts with another member.

    listed, whole   what _rows_of returned, and whether that was of all rows
    """
    from hornbeam.backends.cpu.binning.sparse import check_kernel, group_kernel

    starts, rows, n_rows = listed
    tried, leaves = np.full(len(stored.column), -1, np.int64), np.zeros(len(stored.column), np.bool_)
    group_kernel(candidates, starts, rows, stored.n_codes, MOST_CODES, n_rows, bundling.BUNDLES_TRIED, tried)
    if not whole:  # an entry tells its feature
        check_kernel(stored.indptr, stored.entries.view(np.int32), feature_of, stored.entries, tried, leaves)
    return tried, leaves


def _rows_of(
    stored: StoredBins, feature_of: NDArray[np.int32], wanted: NDArray[np.bool_], sampled: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """List the rows where each of some features has an entry, among the sampled rows or all.

    feature_of   int32 (n_places,)   in   feature of an entry
    wanted       bool (n_used,)      in

    Returns where each feature begins in the list, int64 (n_used + 1,); the list, int32; and one more than the largest
    number in it. Rows are numbered anew: only those count that have an entry.
    """
    numbers, features = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for first in range(0, stored.n_rows if sampled is None else len(sampled), BLOCK_ROWS):
        rows = (
            np.arange(first, min(first + BLOCK_ROWS, stored.n_rows))
            if sampled is None
            else sampled[first:][:BLOCK_ROWS]
        )
        lengths = stored.indptr[rows + 1] - stored.indptr[rows]
        begin = stored.indptr[rows] - (np.cumsum(lengths) - lengths)
        feature = feature_of[stored.entries[np.repeat(begin, lengths) + np.arange(int(lengths.sum()))]]
        kept = wanted[feature]
        numbers.append(np.repeat(rows, lengths)[kept])
        features.append(feature[kept])
    all_features = np.concatenate(features)
    distinct, number = np.unique(np.concatenate(numbers), return_inverse=True)
    order = np.argsort(all_features, kind="stable")
    starts = np.searchsorted(all_features[order], np.arange(len(wanted) + 1)).astype(np.int64)
    return starts, number[order].astype(np.int32), len(distinct)

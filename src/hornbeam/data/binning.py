"""Bins: how the values of a feature become small integers.

A feature has value bins 0, 1, ..., n - 1 in ascending order of value, and the code n is reserved for missing values
(NaN), whether or not training saw any:

    value     x <= b[0]    b[0] < x <= b[1]    ...    b[n-2] < x    NaN
    code      0            1                          n - 1         n

`upper_bounds` are b[0], ..., b[n-1] = +inf. They lie halfway between values of the training data, so a threshold
separates what training separated, and a split "code <= k" is the comparison "x <= upper_bounds[k]".

A categorical feature is read as codes (levels.py), and every code is a bin of its own; a level without a code is
missing. `used` lists its features after those of numbers. One of very many levels is read as numbers instead, and is a
feature of numbers here (target_encoding.py).

With `tree_method` "exact" and "approx" every distinct value of a feature of numbers has a bin, so that codes are ranks:
the former splits after any of them, the latter joins neighbours to `max_bin` bins before every tree (quantiles.py).

Everything here is NumPy and defines what the backends compute (`backends/cpu/binning/` is the fast twin).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.dtypes import BIN_LARGE, BIN_RANK, BIN_SMALL, MAX_BIN
from hornbeam.core.errors import DataError
from hornbeam.core.lazy import lazy
from hornbeam.data.stored_bins import StoredBins
from hornbeam.params.forced_bins import forced_bounds
from hornbeam.params.params import Params

ALIGNMENT = 64
"""Bytes; the first row of bins starts on a cache line."""

ROW_ALIGNMENT = 8
"""Bytes; every row of bins starts on a 64-bit word."""

BinType = type[np.uint8] | type[np.uint16] | type[np.uint32]


class DeviceBins(Protocol):
    """Bins in the memory of a device, as its engine reads them.

    device  its name, "cuda:0"
    """

    n_rows: int
    device: str

    def host(self) -> NDArray[Any]:
        """Return a copy in host memory, laid out as `BinnedData.bins` is."""


class MappedBins:
    """Bins in a file that is mapped into memory (streams/bin_file.py).

    bins  uint8 or uint16 (n_rows, stride), laid out as `BinnedData.bins` is
    """

    bins: NDArray[Any]

    def check_size(self) -> None:
        """Raise DataError if the file was cut off since it was opened: reading on would end the process."""


@dataclass(frozen=True)
class BinParams:
    """The data parameters: all that the bins depend on besides the data."""

    max_bin: int = 255
    min_data_in_bin: int = 3
    bin_construct_sample_cnt: int = 200_000
    use_missing: bool = True
    zero_as_missing: bool = False
    is_enable_sparse: bool = True
    sparse_threshold: float = 0.8
    enable_bundle: bool = True
    target_encoding_levels: int = 1000
    target_encoding_smooth: float = 10.0
    max_bin_by_feature: tuple[int, ...] | None = None
    forcedbins_filename: str | None = None
    tree_method: str = "hist"

    @classmethod
    def of(cls, params: Params | None, own: Mapping[str, Any]) -> BinParams:
        """Return those of a table that a training bins.

        params  of the training; None: the defaults
        own     what the data say themselves, which counts
        """
        given = {} if params is None else {name: getattr(params, name) for name in cls.__dataclass_fields__}
        return cls(**{**given, **own})

    @property
    def by_rank(self) -> bool:
        """Whether every distinct value of a feature of numbers has a bin: its rank among them."""
        return self.tree_method != "hist"

    def sampled_rows(self, n_rows: int) -> int:
        """Return the number of rows that bins are found from."""
        return n_rows if self.by_rank else min(self.bin_construct_sample_cnt, n_rows)

    @property
    def least_in_bin(self) -> int:
        """Smallest number of sampled rows of a bin of numbers."""
        return 1 if self.by_rank else self.min_data_in_bin

    def found_bins(self, feature: int) -> int:
        """Return the largest number of bins that are found for a feature when data are binned."""
        return 1 << 31 if self.by_rank else self.bins_of(feature)

    def bins_of(self, feature: int) -> int:
        """Return the largest number of bins of a feature, without those that `forced` bounds make."""
        most = self.max_bin if self.max_bin_by_feature is None else self.max_bin_by_feature[feature]
        return max(most - len(self.forced(feature)), 1)

    def forced(self, feature: int) -> tuple[float, ...]:
        """Return the bounds that a feature has in any case, ascending."""
        return forced_bounds(self.forcedbins_filename).get(feature, ())

    def with_forced(self, feature: int, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return bounds of a feature of numbers, float64 (n,), and those that it has in any case."""
        forced = self.forced(feature)
        return np.union1d(bounds, forced) if forced and len(bounds) else bounds

    def check(self, n_features: int) -> None:
        """Raise DataError where the parameters name other features than a table has."""
        given = self.max_bin_by_feature
        if given is not None and len(given) != n_features:
            raise DataError(
                f"max_bin_by_feature has {len(given)} entries and data {n_features} features; give one each"
            )
        if self.by_rank and self.forcedbins_filename:
            raise DataError(
                f"forcedbins_filename with tree_method={self.tree_method!r}, which has no such bounds; leave it out"
            )
        for feature, bounds in forced_bounds(self.forcedbins_filename).items():
            if feature >= n_features:
                raise DataError(f"forcedbins_filename names feature {feature}; they are numbered 0 to {n_features - 1}")
            most = self.max_bin if given is None else given[feature]
            if len(bounds) >= most:
                raise DataError(f"forcedbins_filename has {len(bounds)} bounds for feature {feature}, of {most} bins")

    @property
    def zeros_are_missing(self) -> bool:
        """Whether zeros are read as NaN."""
        return self.use_missing and self.zero_as_missing


@dataclass(frozen=True, eq=False)
class BinMapper:
    """How each feature of a table is binned.

    Attributes
    ----------
    upper_bounds
        For each feature, float64 (n_value_bins,), ascending, the last is +inf. Empty where training saw no value.
    has_missing
        bool (n_features,): whether training saw NaN in the feature (in any row, not only in the sample).
    use_missing
        False: NaN counts as 0.0, and no feature of numbers has missing values.
    n_levels
        For each categorical feature the number of its levels, by its number.
    """

    upper_bounds: tuple[NDArray[np.float64], ...]
    has_missing: NDArray[np.bool_]
    use_missing: bool
    n_levels: Mapping[int, int] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Number of features, the unused ones included."""
        return len(self.upper_bounds)

    @lazy
    def n_value_bins(self) -> NDArray[np.int32]:
        """Bins for values of each feature, int32 (n_features,)."""
        return np.array([len(bounds) for bounds in self.upper_bounds], np.int32)

    @lazy
    def used(self) -> NDArray[np.int32]:
        """Features that can be split (two bins or more, the missing bin included), int32 (n_used,).

        Those of numbers come first, then the categorical ones, both ascending.
        """
        used = np.flatnonzero(self.n_value_bins + self.has_missing >= 2).astype(np.int32)
        categorical = np.array([feature in self.n_levels for feature in used.tolist()], np.bool_)
        return np.concatenate([used[~categorical], used[categorical]])

    @lazy
    def n_numeric(self) -> int:
        """Number of used features that are not categorical."""
        return sum(feature not in self.n_levels for feature in self.used.tolist())

    @property
    def bin_dtype(self) -> BinType:
        """The type that holds every code of the used features."""
        most = int(self.n_value_bins[self.used].max(initial=0))
        return BIN_SMALL if most < 256 else BIN_LARGE if most <= MAX_BIN else BIN_RANK

    def missing_code(self, feature: int) -> int:
        """Return the code of NaN: one past the value bins, or with `use_missing=False` the bin of 0.0.

        A categorical feature always has the former.
        """
        bounds = self.upper_bounds[feature]
        return (
            len(bounds)
            if self.use_missing or feature in self.n_levels
            else int(np.searchsorted(bounds, 0.0, side="left"))
        )

    def codes(self, feature: int, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the bins of values: the definition.

        feature          original feature number
        values   (n,)    in   any real dtype
        """
        values = np.asarray(values, np.float64)
        codes = np.searchsorted(self.upper_bounds[feature], values, side="left")
        return np.where(np.isnan(values), self.missing_code(feature), codes).astype(np.int64)


Bins = NDArray[Any] | MappedBins | DeviceBins | StoredBins
"""The bins of a table: dense in host memory or in a file, in the memory of a device, or stored otherwise
(stored_bins.py)."""


class BinnedData:
    """The bins of a table, row-major, used features only.

        row 0   | f0 f1 f2 ... | 0 0 |     stride = n_used rounded up to 8 bytes; the padding is zero
        row 1   | f0 f1 f2 ... | 0 0 |

    Attributes
    ----------
    mapper
        The bins of every feature.
    bins
        uint8, uint16 or uint32 (n_rows, stride), C order, starts on a cache line. Copied from the device when first
        asked for, if that is where they are, and spelled out if they are stored otherwise.
    on_device
        The bins in the memory of a device, or None.
    mapped
        The file that `bins` is mapped from, or None: memory need not hold all of them at once.
    stored
        The bins in columns, bundles and entries (stored_bins.py), or None.
    used
        int32 (n_used,): original number of each used feature; the first `n_numeric` of them are not categorical.
    n_value_bins
        int32 (n_used,): the missing bin, always reserved, comes after these.
    has_missing
        bool (n_used,): whether training saw NaN.
    offsets
        int64 (n_used + 1,): first histogram entry of each used feature, which takes n_value_bins + 1 entries.
    """

    def __init__(self, mapper: BinMapper, bins: Bins) -> None:
        self.mapper = mapper
        self.mapped: MappedBins | None = bins if isinstance(bins, MappedBins) else None
        bins = bins.bins if isinstance(bins, MappedBins) else bins
        self._bins: NDArray[Any] | None = bins if isinstance(bins, np.ndarray) else None
        self.stored: StoredBins | None = bins if isinstance(bins, StoredBins) else None
        self.on_device: DeviceBins | None = None if isinstance(bins, (np.ndarray, StoredBins)) else bins
        self.n_rows = len(bins) if isinstance(bins, np.ndarray) else bins.n_rows
        self.used = mapper.used
        self.n_value_bins: NDArray[np.int32] = mapper.n_value_bins[self.used]
        self.has_missing: NDArray[np.bool_] = mapper.has_missing[self.used]
        self.offsets = np.zeros(len(self.used) + 1, np.int64)
        np.cumsum(self.n_value_bins.astype(np.int64) + 1, out=self.offsets[1:])

    @property
    def bins(self) -> NDArray[Any]:
        """The bins in host memory, see above."""
        if self._bins is None and self.mapped is not None:  # another process wrote the state of this object
            self._bins = self.mapped.bins
        if self._bins is None and self.stored is not None:
            self._bins = self.block(0, self.n_rows)
        if self._bins is None:
            assert self.on_device is not None
            self._bins = self.on_device.host()
        return self._bins

    def leave_device(self) -> None:
        """Have the bins in host memory, and free that of the device."""
        if self.on_device is not None:
            _, self.on_device = self.bins, None

    def block(self, first: int, last: int) -> NDArray[Any]:
        """Return the bins of the rows first to last, laid out as `bins` is; it may be a view."""
        if self.stored is None or self._bins is not None:
            return self.bins[first:last]
        out = allocate_bins(last - first, self.n_used, self.mapper.bin_dtype)
        self.stored.fill(first, last, out)
        return out

    @property
    def stride(self) -> int:
        """Bins of a row in `bins`, the padding included."""
        return int(self.block(0, 1).shape[1])

    def __getstate__(self) -> dict[str, Any]:
        leaves_out = self.stored is not None or self.mapped is not None
        return {**self.__dict__, "_bins": None if leaves_out else self.bins, "on_device": None}

    @property
    def n_used(self) -> int:
        """Number of used features."""
        return len(self.used)

    @property
    def n_numeric(self) -> int:
        """Number of used features that are not categorical; those that are come after them."""
        return self.mapper.n_numeric

    @property
    def set_words(self) -> int:
        """32-bit words of a set of bins of a categorical feature; 0: there is none."""
        return -(-int(self.n_value_bins[self.n_numeric :].max(initial=0)) // 32)

    def threshold(self, feature_pos: int, bin: int) -> float:
        """Return the largest value of a bin: `x <= threshold` is `code <= bin`.

        feature_pos   position among the used features
        bin           value bin
        """
        return float(self.mapper.upper_bounds[int(self.used[feature_pos])][bin])

    def thresholds(self, feature: NDArray[np.int32], bins: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the threshold of each of some splits, float64 (n,); 0 for categorical features."""
        columns, upper_bounds = self.used[feature].tolist(), self.mapper.upper_bounds
        found, is_number = np.zeros(len(feature)), feature < self.n_numeric
        pairs = zip(columns, bins.tolist(), is_number.tolist(), strict=True)
        found[is_number] = [upper_bounds[column][b] for column, b, numeric in pairs if numeric]
        return found

    def missing_goes_left(
        self,
        feature: NDArray[np.int32],
        bins: NDArray[np.int32],
        missing_left: NDArray[np.bool_],
        left_rows: NDArray[np.int64],
        right_rows: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Return where some splits send missing values, bool (n,).

        feature, bins          int32 (n,)  in   position among the used features, value bin
        missing_left           bool (n,)   in   what the search has found
        left_rows, right_rows  int64 (n,)  in   rows of the children

        A feature without missing values in training sends them where most rows go.
        """
        if not self.mapper.use_missing:  # they are zeros
            return np.asarray(self.thresholds(feature, bins) >= 0.0)
        return np.where(self.has_missing[feature], missing_left, left_rows >= right_rows)


def bin_by(
    bounds: list[NDArray[np.float64]],
    params: BinParams,
    find_missing: Callable[[NDArray[np.int64]], tuple[NDArray[np.bool_], NDArray[np.bool_]]],
    encode: Callable[[BinMapper], tuple[Bins, NDArray[np.bool_]]],
    n_levels: Mapping[int, int] | None = None,
) -> BinnedData:
    """Bin a table whose bounds are found.

    bounds         upper bounds of each feature, see BinMapper
    find_missing   function(features) -> whether each of them has missing values, whether it has others; bool (n,)
    encode         function(mapper) -> bins, and whether each used feature has missing values; bool (n_used,)
    n_levels       see BinMapper
    """
    n_levels = dict(n_levels or {})
    has_missing = np.zeros(len(bounds), np.bool_)
    may_miss = np.array([params.use_missing or feature in n_levels for feature in range(len(bounds))], np.bool_)
    # Features with one value bin are used only if they have missing values too, so these are looked for first; the
    # others are used anyway, and their missing values are found while coding.
    doubtful = np.array([feature for feature, b in enumerate(bounds) if len(b) <= 1 and may_miss[feature]], np.int64)
    if len(doubtful) > 0:
        missing, present = find_missing(doubtful)
        has_missing[doubtful] = missing
        for feature in doubtful[present]:
            bounds[feature] = np.array([np.inf])
    mapper = BinMapper(tuple(bounds), has_missing, params.use_missing, n_levels)
    bins, missing = encode(mapper)
    if may_miss.any():
        has_missing = has_missing.copy()
        has_missing[mapper.used] |= missing & may_miss[mapper.used]
        mapper = BinMapper(mapper.upper_bounds, has_missing, params.use_missing, n_levels)
    return BinnedData(mapper, bins)


def allocate_bins(n_rows: int, n_used: int, dtype: BinType) -> NDArray[Any]:
    """Return zeroed bins (n_rows, stride), aligned as `BinnedData` says; a row takes 8 bytes at least."""
    size = np.dtype(dtype).itemsize
    stride = max(1, -(-n_used * size // ROW_ALIGNMENT)) * ROW_ALIGNMENT // size
    n_bytes = n_rows * stride * size
    buffer = np.zeros(n_bytes + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + n_bytes].view(dtype).reshape(n_rows, stride)

"""Where bins end: the rows that are looked at, and the bounds that their values give.

NumPy, and the definition of what the backends compute (`backends/cpu/binning/bounds.py` is the fast twin).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.hashing import hash_rows

_HASH_CHUNK = 1 << 16

RowsBelow = Callable[[int, np.uint64], tuple[NDArray[np.int64], NDArray[np.uint64]]]


def sample_rows(n_rows: int, count: int, below: RowsBelow | None = None) -> NDArray[np.int64]:
    """Return the `count` rows with the smallest hashes, ascending; all rows when there are no more than that.

    `below` is a fast twin of `rows_below`, or None.

    The hash is a bijection of the row number (splitmix64), so no two rows tie, and whether a row is chosen depends on
    nothing but n_rows and count.
    """
    if count >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    # Hashes are evenly spread, so a limit a little above the expected quantile keeps a little more than `count` rows;
    # only those are sorted. Should it keep too few, the limit grows: the result never depends on it.
    margin = 8.0 * math.sqrt(count) + 64.0
    while True:
        limit = min(2.0**64 * (count + margin) / n_rows, 2.0**64 - 2.0**11)
        rows, hashes = (below or rows_below)(n_rows, np.uint64(limit))
        if len(rows) >= count:
            chosen = np.argpartition(hashes, count - 1)[:count]
            return np.sort(rows[chosen])
        margin = 2.0 * margin + n_rows * 2.0**-10


def rows_below(n_rows: int, limit: np.uint64) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the rows whose hash is at most `limit`, and the hashes."""
    rows, hashes = [], []
    for start in range(0, n_rows, _HASH_CHUNK):
        chunk = np.arange(start, min(start + _HASH_CHUNK, n_rows), dtype=np.uint64)
        hashed = hash_rows(chunk)
        kept = np.flatnonzero(hashed <= limit)
        rows.append(kept + start)
        hashes.append(hashed[kept])
    return np.concatenate(rows).astype(np.int64), np.concatenate(hashes)


def find_upper_bounds(
    values: NDArray[Any], max_bin: int, min_data_in_bin: int, n_zeros: int = 0
) -> NDArray[np.float64]:
    """Find the bins of one feature from sampled values; empty where there is no value but NaN.

    values   float32 or float64 (n,)  in   sorted here; NaN is left out
    n_zeros  zeros besides, which a sparse matrix does not hold

    When every distinct value can have a bin of its own, it has one, but bins of fewer than min_data_in_bin rows are
    merged with the next. Otherwise values as frequent as a whole average bin get one of their own, and the others
    share the remaining bins evenly.
    """
    ordered = np.sort(values)  # NaN last
    ordered = ordered[: len(ordered) - int(np.count_nonzero(np.isnan(ordered)))]
    if len(ordered) + n_zeros == 0:
        return np.empty(0, np.float64)
    # last position of each value
    last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), np.arange(len(ordered))[-1:])
    distinct = ordered[last].astype(np.float64)
    cumulative = (last + 1).astype(np.int64)
    if n_zeros > 0:
        place = int(np.searchsorted(distinct, 0.0))
        if place == len(distinct) or distinct[place] != 0.0:
            distinct = np.insert(distinct, place, 0.0)
            cumulative = np.insert(cumulative, place, cumulative[place - 1] if place > 0 else 0)
        cumulative[place:] += n_zeros
    if len(distinct) <= max_bin:
        ends = _ends_of_distinct(cumulative, min_data_in_bin)
    else:
        ends = _ends_of_shared(cumulative, max_bin, min_data_in_bin)
    return _bounds_between(distinct, ends)


def _ends_of_distinct(cumulative: NDArray[np.int64], min_data_in_bin: int) -> NDArray[np.int64]:
    """Give each distinct value a bin, merging rare values with the next ones.

    cumulative  int64 (n_distinct,)  in   rows up to and including each distinct value

    Returns the last distinct value of each bin but the last bin.
    """
    n_distinct = len(cumulative)
    if int(np.diff(cumulative, prepend=0).min()) >= min_data_in_bin:
        return np.arange(n_distinct - 1, dtype=np.int64)
    ends: list[int] = []
    below = 0
    while True:
        end = int(cumulative.searchsorted(below + min_data_in_bin))
        if end >= n_distinct - 1:
            return np.array(ends, np.int64)
        ends.append(end)
        below = int(cumulative[end])


def _ends_of_shared(cumulative: NDArray[np.int64], max_bin: int, min_data_in_bin: int) -> NDArray[np.int64]:
    """Share max_bin bins among more distinct values than that; arguments and result as in `_ends_of_distinct`."""
    n_distinct, total = len(cumulative), int(cumulative[-1])
    max_bin = max(1, min(max_bin, total // min_data_in_bin))
    counts = np.diff(cumulative, prepend=0)
    heavy = np.flatnonzero(counts * max_bin >= total)  # as frequent as an average bin
    heavy_left = [*heavy.tolist(), n_distinct][::-1]  # a stack, the next heavy value on top
    light_bins = max_bin - len(heavy)
    light_rows = total - int(counts[heavy].sum())

    ends: list[int] = []
    start = below = 0
    rows_up_to = cumulative.data  # NumPy's search lets other threads run, and each would wait its turn here
    while len(ends) < max_bin - 1:
        next_heavy = heavy_left[-1]
        if start == next_heavy:
            end = start
        else:
            # Light values fill the bin to the mean of what is left. A heavy value met before that has the bin to
            # itself if the bin is at least half full without it.
            mean = light_rows / light_bins if light_bins > 0 else float(total)
            wanted = max(1, math.ceil(mean))
            end = bisect_left(rows_up_to, below + wanted, start, min(start + wanted, n_distinct))
            if end >= next_heavy:
                light = int(cumulative[next_heavy - 1]) - below
                end = next_heavy - 1 if light_bins > 0 and 2 * light >= mean else next_heavy
        if end >= n_distinct - 1:
            break
        ends.append(end)
        reached = int(cumulative[end])
        rows = reached - below
        if end == next_heavy:
            heavy_left.pop()
            rows -= int(counts[end])
        else:
            light_bins -= 1
        light_rows -= rows
        start, below = end + 1, reached
    return np.array(ends, np.int64)


def _bounds_between(distinct: NDArray[np.float64], ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the upper bounds of bins that end with these distinct values; the last bin ends with +inf.

    The bound m between neighbours a < b has a <= m < b, so that both fall on their side of it. The midpoint has, but
    not when b is infinite or when rounding reaches b.
    """
    low, high = distinct[ends], distinct[ends + 1]
    with np.errstate(all="ignore"):  # -inf/2 + inf/2
        middle = low / 2 + high / 2
    middle = np.where((low <= middle) & (middle < high), middle, low)
    return np.append(middle, np.inf) + 0.0  # -0.0 becomes 0.0: equal bounds have equal bits

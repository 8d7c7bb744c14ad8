"""Histograms of sparse rows.

A node of many rows is added up in scratch counters, which a thread has to itself: one for every histogram place, for
features of entries, and behind them one for every code of every column. Then the counters of all threads are unpacked
into the slot feature by feature, and the default bin gets what is left of the total:

    counters   | places of all features | codes of the columns |      one array a thread
                    ^ entries                 ^ codes                 narrow gradients are packed, see rows/counters.py

The total is that of the rows added, so nothing has to be known about the node.

A *thin* node has far fewer entries than there are bins. Its rows are subtracted from its parent's histogram at once,
entry by entry, and it gets no histogram itself: its sums are made in scratch memory, searched there and wiped out
again. Each thread of a team looks at all rows, and adds what its own features have. The slot of a thin node is *bare*,
and so are those of its children, whose sums come from their rows; an operation that needs the histogram after all makes
it (`fill_kernel`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.rows.counters import PAIRS, add_counters
from hornbeam.backends.cpu.growth.rows.records import ROW_MASK, gradient_of, hessian_of, packed
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, meet

ROWS_TOUCHED, CODES_TOUCHED = np.uint64(32), 128
"""Rows whose entries, or codes, are brought into the cache at a time."""


class Summing(NamedTuple):
    """How the threads of a team sum the rows of a node.

    cuts            int64 (n_threads + 1,)             the features cuts[t]:cuts[t + 1] are those of thread t
    runs, run_cuts  int64 (n_runs, 2), (n_threads + 1,)   counters of each thread's features: first, and past the last
    places          uint32 (n_columns,)                first counter of each column
    blocks          int64 (n_blocks + 1,)              columns whose counters fit in the cache together
    counters        int64 (n, 1 or 2, n_counters)      scratch  packed, or gradients and hessians; all zero before and
                                                                after
    totals          int64 (n_threads, a line)          scratch
    touched         uint32 (n_threads, two lines)      scratch  see touch_entries
    most_summing    threads that may add rows
    packed_rows     that are added at a time, all threads together
    worth           how many threads add rows is the square root of these times this
    """

    cuts: NDArray[np.int64]
    runs: NDArray[np.int64]
    run_cuts: NDArray[np.int64]
    places: NDArray[np.uint32]
    blocks: NDArray[np.int64]
    counters: NDArray[np.int64]
    totals: NDArray[np.int64]
    touched: NDArray[np.uint32]
    most_summing: int
    packed_rows: int
    worth: float


class Thin(NamedTuple):
    """What threads need for thin nodes.

    code_places  uint32 (n codes of all columns,)   in       place in the histogram, or NOWHERE
    feature_of   uint32 (n_total_bins,)             in       feature of a place
    sums         int64 (n_threads, n_used, 3)       scratch  gradients, hessians and rows of each feature beside its
                                                             default bin; all zero before and after
    beside       int64 (n_threads, n_numeric)       out      these rows, see splits/pairs.Scratch
    empty        int64 (n_threads or 0, n_total_bins, 2)   scratch  all zero before and after
    touched      uint32 (n_threads, two lines)      scratch  see touch_entries
    bare         int64 (n_parts, n_slots, 2)        in out   rows of the nodes whose slots hold nothing; (0, 0): it
                                                             does. Each thread of a team knows that by itself
    most_rows    a node of fewer rows is thin
    """

    code_places: NDArray[np.uint32]
    feature_of: NDArray[np.uint32]
    sums: NDArray[np.int64]
    beside: NDArray[np.int64]
    empty: NDArray[np.int64]
    touched: NDArray[np.uint32]
    bare: NDArray[np.int64]
    most_rows: float


@inner_kernel
def touch_entries(records, begin, end, indptr, entries):
    """Read a word of the entries of some rows, which brings them into the cache side by side; returns a useless sum.

    Rows of a node lie scattered, and to wait for one after the other takes longer than to add them: 2,000 rows of 20
    entries are summed in 250 microseconds instead of 600 (Neoverse-N1).
    """
    useless, last = np.uint32(0), np.uint64(len(entries) - 1)
    if len(entries) > 0:
        for place in range(begin, end):
            first = np.uint64(indptr[records[place] & ROW_MASK])
            useless += entries[min(first, last)] + entries[min(first + np.uint64(16), last)]
    return useless


@inner_kernel
def touch_codes(codes, records, begin, end, column):
    """Bring the codes of some rows into the cache; see touch_entries."""
    useless = np.uint32(0)
    for place in range(begin, end):
        useless += np.uint32(codes[records[place] & ROW_MASK, column])
    return useless


@inner_kernel
def add_entries(records, begin, end, indptr, entries, counters, touched):
    """Add the rows begin:end to the counters of their entries; narrow records. Returns the packed total of the rows."""
    total, one = np.int64(0), np.uint64(1)
    start, last = np.uint64(begin), np.uint64(end)
    if len(entries) == 0:  # all features are in columns: nothing is to be looked up
        for place in range(start, last):
            total += packed(records[place])
        return total
    while start < last:
        stop = min(start + ROWS_TOUCHED, last)
        touched[0] = touch_entries(records, start, stop, indptr, entries)
        for place in range(start, stop):
            record = records[place]
            value = packed(record)
            total += value
            row = record & ROW_MASK
            for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
                counters[entries[i]] += value
        start = stop
    return total


@inner_kernel
def add_wide(records, wide, begin, end, storage, n_columns, places, counters):
    """Add the rows begin:end to gradients counters[0] and hessians counters[1]; wide records. Returns their totals."""
    codes, indptr, entries, one = storage.codes, storage.indptr, storage.entries, np.uint64(1)
    total_g, total_h = np.int64(0), np.int64(0)
    for place in range(np.uint64(begin), np.uint64(end)):
        row, both = records[place] & ROW_MASK, wide[place]
        gradient, hessian = gradient_of(both), hessian_of(both)
        total_g += gradient
        total_h += hessian
        for c in range(np.uint64(n_columns)):
            counter = np.uint64(places[c]) + codes[row, c]
            counters[0, counter] += gradient
            counters[1, counter] += hessian
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
            counters[0, entries[i]] += gradient
            counters[1, entries[i]] += hessian
    return total_g, total_h


@inner_kernel
def add_rows(records, wide, begin, end, storage, summing, t):
    """Add at most PACKED_ROWS rows to the counters of thread t, and write their totals."""
    blocks, places, counters, total = summing.blocks, summing.places, summing.counters[t], summing.totals[t]
    codes, touched = storage.codes, summing.touched[t]
    if len(wide) > 0:
        total[0], total[1] = add_wide(records, wide, begin, end, storage, len(places), places, counters)
        return
    for block in range(len(blocks) - 1):
        f0, f1 = blocks[block], blocks[block + 1]
        for start in range(begin, end, CODES_TOUCHED):
            stop = min(start + CODES_TOUCHED, end)
            touched[0] = touch_codes(codes, records, np.uint64(start), np.uint64(stop), np.uint64(f0))
            add_counters(codes, records, start, stop, True, f0, f1, places, counters[0], PAIRS)
    both = add_entries(records, begin, end, storage.indptr, storage.entries, counters[0], touched)
    total[0], total[1] = both >> 32, both & 0xFFFFFFFF


@inner_kernel
def unpack(counters, total_g, total_h, features, f0, f1, places, is_first, out, larger):
    """Move the counters of the features f0:f1 to a slot, and subtract them from the histogram `larger`.

    counters          int64 (1 or 2, n)        in
    total_g, total_h  of the rows that were added
    is_first          the slot holds nothing yet
    out               int64 (n_total_bins, 2)  out
    larger            the same, or empty       in, out
    """
    is_wide, subtracts = len(counters) == 2, len(larger) > 0
    for f in range(f0, f1):
        of = features[f]
        first, d, source = of.first, of.default, of.first
        n, is_coded, is_bundled = of.last - first, of.column >= 0, of.first_code > 0
        if is_coded:
            source = np.int64(places[of.column]) + of.first_code
        if is_bundled:
            if is_first:
                out[first + d, 0], out[first + d, 1] = 0, 0
                out[first + n - 1, 0], out[first + n - 1, 1] = 0, 0  # may have no code
            n = d
        sum_g, sum_h, at = np.int64(0), np.int64(0), first
        for part in range(2):
            if part == 1:  # the codes of a bundle pass the default bin by
                if not is_bundled:
                    break
                source, at, n = source + d, first + d + 1, of.n_codes - d
            for i in range(np.uint64(n)):
                place, to = np.uint64(source) + i, np.uint64(at) + i
                gradient = counters[0, place]
                if is_wide:
                    hessian = counters[1, place]
                else:
                    gradient, hessian = gradient >> 32, gradient & 0xFFFFFFFF
                sum_g += gradient
                sum_h += hessian
                if is_first:
                    out[to, 0], out[to, 1] = gradient, hessian
                else:
                    out[to, 0] += gradient
                    out[to, 1] += hessian
                if subtracts:
                    larger[to, 0] -= gradient
                    larger[to, 1] -= hessian
        if is_coded and not is_bundled:
            continue
        rest = np.uint64(first + d)
        out[rest, 0] += total_g - sum_g
        out[rest, 1] += total_h - sum_h
        if subtracts:
            larger[rest, 0] -= total_g - sum_g
            larger[rest, 1] -= total_h - sum_h


@inner_kernel
def merge(counters, runs):
    """Add some counters of the other threads to those of the first, and clear them.

    counters  int64 (n_threads, 1 or 2, n)  in out
    runs      int64 (n_runs, 2)             in      places of the counters: first, last
    """
    for s in range(1, len(counters)):
        for word in range(counters.shape[1]):
            into, own = counters[0, word], counters[s, word]
            for run in range(len(runs)):
                for place in range(np.uint64(runs[run, 0]), np.uint64(runs[run, 1])):
                    into[place] += own[place]
                    own[place] = 0


@inner_kernel
def sum_rows(t, part, crew, storage, summing, records, wide, begin, end, out, larger):
    """Do one thread's part of summing the rows begin:end into a slot, and of subtracting them from `larger`.

    t, part        whose memory is used, and the number of the thread in its team
    records, wide  see rows/records.py
    out, larger    see unpack

    Returns False if a thread has failed.
    """
    cuts, runs = summing.cuts, summing.runs[summing.run_cuts[part] : summing.run_cuts[part + 1]]
    n_summing = max(1, min(summing.most_summing, np.int64(np.sqrt((end - begin) * summing.worth))))
    totals, counters = summing.totals[t - part :], summing.counters[t - part : t - part + n_summing]  # of the team
    start, is_first = begin, True
    while is_first or start < end:
        stop = min(start + summing.packed_rows, end)
        if part < n_summing:
            first = start + (stop - start) * part // n_summing
            last = start + (stop - start) * (part + 1) // n_summing
            add_rows(records, wide, first, last, storage, summing, t)
        if not meet(crew):
            return False
        total_g, total_h = np.int64(0), np.int64(0)
        for s in range(n_summing):
            total_g += totals[s, 0]
            total_h += totals[s, 1]
        merge(counters, runs)
        unpack(
            counters[0], total_g, total_h, storage.features, cuts[part], cuts[part + 1], summing.places, is_first, out,
            larger,
        )  # fmt: skip
        for run in range(len(runs)):
            counters[0, :, runs[run, 0] : runs[run, 1]] = 0
        start, is_first = stop, False
        if start < end and not meet(crew):  # before the counters are used again
            return False
    return True


@inner_kernel
def add_pair(out, place, gradient, hessian):
    """Add to one place of a histogram."""
    out[place, 0] += gradient
    out[place, 1] += hessian


@inner_kernel
def add_row(sums, feature, gradient, hessian):
    """Add a row to the sums of a feature."""
    add_pair(sums, feature, gradient, hessian)
    sums[feature, 2] += 1


@inner_kernel
def places_of(features, f0, f1):
    """Return the places of the features f0:f1 in a histogram: the first, and how many they are."""
    if f0 == f1:
        return np.uint64(0), np.uint64(0)
    return np.uint64(features[f0].first), np.uint64(features[f1 - 1].last - features[f0].first)


@inner_kernel
def add_thin(t, rows, records, wide, thin, begin, end, sign, f0, f1, out):
    """Add the rows begin:end to a histogram (sign 1), or subtract them (sign -1): what the features f0:f1 have.

    Those beside default bins are counted.

    t              thread whose memory is used
    records, wide  see rows/records.py
    out            int64 (n_total_bins, 2)   in, out
    """
    touched, beside = thin.touched[t], thin.beside[t]
    storage, code_places, feature_of, sums = rows.storage, thin.code_places, thin.feature_of, thin.sums[t]
    codes, code_starts, indptr, entries = storage.codes, storage.code_starts, storage.indptr, storage.entries
    features, is_wide, one, n_columns = storage.features, len(wide) > 0, np.uint64(1), np.uint64(len(code_starts) - 1)
    first, n_places = places_of(features, f0, f1)
    total_g, total_h = np.int64(0), np.int64(0)
    for at in range(np.uint64(begin), np.uint64(end)):
        if (at - np.uint64(begin)) % ROWS_TOUCHED == np.uint64(0):
            touched[0] = touch_entries(records, at, min(at + ROWS_TOUCHED, np.uint64(end)), indptr, entries)
        record = records[at]
        row = record & ROW_MASK
        if is_wide:
            gradient, hessian = sign * gradient_of(wide[at]), sign * hessian_of(wide[at])
        else:
            both = packed(record)
            gradient, hessian = sign * (both >> 32), sign * (both & 0xFFFFFFFF)
        total_g += gradient
        total_h += hessian
        for c in range(n_columns):
            place = np.uint64(code_places[np.uint64(code_starts[c]) + codes[row, c]])  # NOWHERE is no place
            if place - first < n_places:
                add_pair(out, place, gradient, hessian)
                add_row(sums, feature_of[place], gradient, hessian)
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
            place = np.uint64(entries[i])
            if place - first < n_places:
                add_pair(out, place, gradient, hessian)
                add_row(sums, feature_of[place], gradient, hessian)
    for f in range(f0, f1):
        of = features[f]
        if of.column < 0 or of.first_code > 0:
            add_pair(out, np.uint64(of.first + of.default), total_g - sums[f, 0], total_h - sums[f, 1])
        else:
            sums[f, 2] = end - begin  # it has no default bin
        if f < len(beside):
            beside[f] = sums[f, 2]
        sums[f, 0], sums[f, 1], sums[f, 2] = 0, 0, 0


@inner_kernel
def wipe_thin(rows, thin, begin, end, f0, f1, out):
    """Set the histogram of the rows begin:end to zero again, the features f0:f1 of it; see add_thin."""
    storage, records, code_places = rows.storage, rows.records, thin.code_places
    codes, code_starts, indptr, entries = storage.codes, storage.code_starts, storage.indptr, storage.entries
    features, n_columns = storage.features, np.uint64(len(code_starts) - 1)
    first, n_places = places_of(features, f0, f1)
    for at in range(np.uint64(begin), np.uint64(end)):
        row = records[at] & ROW_MASK
        for c in range(n_columns):
            place = np.uint64(code_places[np.uint64(code_starts[c]) + codes[row, c]])
            if place - first < n_places:
                out[place, 0], out[place, 1] = 0, 0
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            place = np.uint64(entries[i])
            if place - first < n_places:
                out[place, 0], out[place, 1] = 0, 0
    for f in range(f0, f1):
        of = features[f]
        if of.column < 0 or of.first_code > 0:
            place = np.uint64(of.first + of.default)
            out[place, 0], out[place, 1] = 0, 0


@kernel
def fill_kernel(rows, thin, slot, out):
    """Make the histogram of a bare slot, with the memory of thread 0."""
    n_used = len(rows.storage.features)
    begin, end = thin.bare[0, slot, 0], thin.bare[0, slot, 1]
    out[:, :] = 0
    add_thin(0, rows, rows.records, rows.wide, thin, begin, end, np.int64(1), np.int64(0), np.int64(n_used), out)
    thin.bare[:, slot] = 0


@kernel
def build_kernel(t, crew, rows, summing, begin, end, slots, histograms):
    """Sum some nodes, one after the other, each by the whole team.

    begin, end  int64 (n_nodes,)                   in
    slots       int32 (n_nodes,)                   in
    histograms  int64 (n_slots, n_total_bins, 2)   out
    """
    call_helpers(t, crew, (rows, summing, begin, end, slots, histograms))
    for i in range(len(slots)):
        out = histograms[slots[i]]
        if not sum_rows(t, t, crew, rows.storage, summing, rows.records, rows.wide, begin[i], end[i], out, out[:0]):
            return
        if not meet(crew):  # before the counters are used again
            return

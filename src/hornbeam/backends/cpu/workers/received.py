"""Histograms of all workers, added up from their messages: see histogram_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.slots import subtract_pairs
from hornbeam.backends.cpu.host.atomics import words_at
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.team import call_helpers, run_parts, share_of
from hornbeam.backends.cpu.tuning import Tuning
from hornbeam.backends.histogram_messages import NARROW, NOTHING, PACKED, WIDE

TAKEN_BINS = 512
"""Bins of a node that are added up at a time: 12 KB, which stay in the first-level cache."""


@inlined
def fields_of(word, n_sums):
    """Return the sums in a packed word; of two the hessian counts rows."""
    hessian = word & 0xFFFFFFFF if n_sums == 2 else (word >> 11) & 0x3FFFFFF
    rows = hessian if n_sums == 2 else word & 0x7FF
    return word >> (32 if n_sums == 2 else 37), hessian, rows


@inlined
def n_words(form, n_bins, n_sums):
    """Twin of histogram_messages.words_of."""
    wide = n_bins * n_sums
    return 0 if form == NOTHING else n_bins if form == PACKED else (wide + 1) // 2 if form == NARROW else wide


@inner_kernel
def add_message(words, form, at, n_bins, first, n, n_sums, sums):
    """Add the bins first:first + n of a node in a message to sums, int64 (3, >= n): gradients, hessians and rows.

    at      first word of the node
    n_bins  of the section
    """
    gradients, hessians, rows = sums[0, :n], sums[1, :n], sums[2, :n]
    if form == PACKED:
        own = words[at + first : at + first + n]
        for i in range(n):
            gradient, hessian, n_rows = fields_of(own[i], n_sums)
            gradients[i] += gradient
            hessians[i] += hessian
            rows[i] += n_rows
    elif form == NARROW:
        halves, begin = words.view(np.int32), 2 * at + first
        own_g, own_h = halves[begin : begin + n], halves[begin + n_bins : begin + n_bins + n]
        counts = begin + (n_sums - 1) * n_bins
        own_n = halves[counts : counts + n]
        for i in range(n):
            gradients[i] += own_g[i]
            hessians[i] += np.int64(own_h[i]) & 0xFFFFFFFF
            rows[i] += np.int64(own_n[i]) & 0xFFFFFFFF
    elif form == WIDE:
        begin = at + first
        own_g, own_h = words[begin : begin + n], words[begin + n_bins : begin + n_bins + n]
        counts = begin + (n_sums - 1) * n_bins
        own_n = words[counts : counts + n]
        for i in range(n):
            gradients[i] += own_g[i]
            hessians[i] += own_h[i]
            rows[i] += own_n[i]


@kernel
def take_kernel(t, crew, messages, n_sums, slots, parents, pairs, rows, places, sums):
    """Add up the nodes of all messages in their slots, and subtract them; each thread of a team takes some of them.

    messages     int64 (n_messages, 2)                    in       address and number of words of each
    slots        int32 (n_nodes,)                         in
    parents      int32 (n_nodes,)                         in       slots to subtract from; -1: from none
    pairs, rows  int64 (n_slots, n_bins, 2) and (n_slots, n_bins)  in out
    places       int64 (n_threads, n_messages)            scratch  first words of the next node
    sums         int64 (n_threads, 3, TAKEN_BINS)         scratch
    """
    call_helpers(t, crew, (messages, n_sums, slots, parents, pairs, rows, places, sums))
    n_bins, at, own = rows.shape[1], places[t], sums[t]
    begin, end = share_of(len(slots), t, crew.size)
    for k in range(len(messages)):
        at[k] = len(slots)
        words = words_at(messages[k, 0], messages[k, 1])
        for node in range(begin):
            at[k] += n_words(words[node], n_bins, n_sums)
    for node in range(begin, end):
        slot, parent = slots[node], parents[node]
        for first in range(0, n_bins, TAKEN_BINS):
            n = min(TAKEN_BINS, n_bins - first)
            own[:, :n] = 0
            for k in range(len(messages)):
                words = words_at(messages[k, 0], messages[k, 1])
                add_message(words, words[node], at[k], n_bins, first, n, n_sums, own)
            pair, row = pairs[slot, first : first + n], rows[slot, first : first + n]
            for i in range(n):
                pair[i, 0], pair[i, 1], row[i] = own[0, i], own[1, i], own[2, i]
            if parent >= 0:
                pair, row = pairs[parent, first : first + n], rows[parent, first : first + n]
                for i in range(n):
                    pair[i, 0] -= own[0, i]
                    pair[i, 1] -= own[1, i]
                    row[i] -= own[2, i]
        for k in range(len(messages)):
            at[k] += n_words(words_at(messages[k, 0], messages[k, 1])[node], n_bins, n_sums)


@kernel
def subtract_kernel(t, crew, pairs, rows, parents, children):
    """Turn the histograms of some parents into those of their other children; arrays as in take_kernel.

    parents, children  int32 (n,)  in   slots
    """
    call_helpers(t, crew, (pairs, rows, parents, children))
    first, last = share_of(len(parents), t, crew.size)
    for k in range(first, last):
        parent, child = parents[k], children[k]
        subtract_pairs(pairs[parent], pairs[child], 0, pairs.shape[1])
        for i in range(rows.shape[1]):
            rows[parent, i] -= rows[child, i]


def add_messages(
    messages: Sequence[NDArray[np.int64]],
    n_sums: int,
    slots: NDArray[np.int32],
    parents: NDArray[np.int32] | None,
    pairs: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_threads: int,
    tuning: Tuning,
) -> None:
    """Add up the messages of all workers in slots, and subtract them from those of `parents`; see take_kernel."""
    n_nodes, n_bins = len(slots), rows.shape[1]
    n_threads = max(1, min(n_threads, n_nodes, n_nodes * n_bins * len(messages) // tuning.merged_bins_per_thread))
    table = np.array([(words.__array_interface__["data"][0], len(words)) for words in messages], np.int64)
    parents = np.full(n_nodes, -1, np.int32) if parents is None else parents
    places, sums = np.empty((n_threads, len(messages)), np.int64), np.empty((n_threads, 3, TAKEN_BINS), np.int64)
    run_parts(take_kernel, n_threads, table, n_sums, slots, parents, pairs, rows, places, sums)


def subtract(
    pairs: NDArray[np.int64],
    rows: NDArray[np.int64],
    parents: NDArray[np.int32],
    children: NDArray[np.int32],
    n_threads: int,
    tuning: Tuning,
) -> None:
    """Subtract histograms of children from those of parents; see subtract_kernel."""
    n_threads = max(1, min(n_threads, len(parents), len(parents) * rows.shape[1] // tuning.merged_bins_per_thread))
    run_parts(subtract_kernel, n_threads, pairs, rows, parents, children)

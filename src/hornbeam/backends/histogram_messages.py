"""Histograms as workers send them to each other: exact, in few bytes a bin. This is the definition, in NumPy.

A message has the histograms of some nodes, in the bins of one section of the features. It consists of 64-bit words:
first the form of each node, then their sums, node after node. The sums of a bin are gradients, hessians and, where
hessians cannot say how many there are, rows.

    NOTHING                                  the sender has no rows of the node
    PACKED   int64 (n_bins,)                 all sums of a bin in one word
    NARROW   int32 (n_sums, n_bins)          gradients; hessians and rows without a sign; filled up to a word
    WIDE     int64 (n_sums, n_bins)

A packed word is gradient * 2**32 + hessian of two sums, (gradient * 2**26 + hessian) * 2**11 + rows of three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

NOTHING, PACKED, NARROW, WIDE = range(4)

NARROW_LIMIT = 2**31

Room = Callable[[int], bytearray | memoryview]
"""Returns memory that messages are written into, of a number of bytes; `bytearray` is one."""


def words_of(form: NDArray[Any], n_bins: NDArray[Any] | int, n_sums: int) -> NDArray[np.int64]:
    """Return how many words nodes of these forms take; arrays are broadcast against each other."""
    found = np.where(form == PACKED, n_bins, 0) + np.where(form == NARROW, (np.asarray(n_bins) * n_sums + 1) // 2, 0)
    return np.asarray(found + np.where(form == WIDE, np.asarray(n_bins) * n_sums, 0), np.int64)


def write_message(sums: NDArray[Any]) -> NDArray[np.int64]:
    """Return a message of histograms, integers (n_nodes, n_bins, n_sums): narrow where they fit."""
    largest = np.abs(sums.astype(np.int64)).max(axis=(1, 2), initial=0)
    forms = np.where(largest == 0, NOTHING, np.where(largest < NARROW_LIMIT, NARROW, WIDE))
    words = [forms.astype(np.int64)]
    for form, of_node in zip(forms.tolist(), sums, strict=True):
        if form == NARROW:
            halves = of_node.T.astype(np.int32).ravel()
            words.append(np.append(halves, np.zeros(len(halves) % 2, np.int32)).view(np.int64))
        elif form == WIDE:
            words.append(of_node.T.astype(np.int64).ravel())
    return np.concatenate(words)


def read_message(words: NDArray[np.int64], n_nodes: int, n_bins: int, n_sums: int) -> NDArray[np.int64]:
    """Return the histograms of a message, int64 (n_nodes, n_bins, n_sums)."""
    sums, at = np.zeros((n_nodes, n_bins, n_sums), np.int64), n_nodes
    for of_node, form in zip(sums, words[:n_nodes], strict=True):
        n_words = int(words_of(form, n_bins, n_sums))
        own, at = words[at : at + n_words], at + n_words
        if form == PACKED and n_sums == 2:
            of_node[:] = np.stack([own >> 32, own & 0xFFFFFFFF], axis=1)
        elif form == PACKED:
            of_node[:] = np.stack([own >> 37, (own >> 11) & 0x3FFFFFF, own & 0x7FF], axis=1)
        elif form == NARROW:
            of_node[:] = own.view(np.int32)[: n_bins * n_sums].reshape(n_sums, n_bins).T
            of_node[:, 1:] &= 0xFFFFFFFF
        elif form == WIDE:
            of_node[:] = own.reshape(n_sums, n_bins).T
    return sums

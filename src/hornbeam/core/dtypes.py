"""Every scalar and record type of Hornbeam, each with its reason."""

from __future__ import annotations

import numpy as np

BIN_SMALL = np.uint8
"""Bins of a data set whose features all have at most 256 bins, the missing bin included."""

BIN_LARGE = np.uint16
"""Bins of a data set with a feature of more than 256 bins; 65,535 value bins and the missing bin fit."""

BIN_RANK = np.uint32
"""Bins of a data set where every distinct value has one (`tree_method` exact and approx), where 16 bits are too few."""

MAX_BIN = 65_535
"""Most value bins a feature may have; with the missing bin they fill 16 bits."""

MAX_LEVELS = 65_534
"""Most levels of a categorical feature that have a bin."""

ROW = np.uint32
"""A row number: 4 billion rows a data set, half the memory traffic of 64 bits. Cell counts are 64-bit."""

SCORE = np.float64
"""Raw scores. 64-bit so that thousands of trees add up alike on every device."""

GRADIENT = np.float64
"""Gradients and hessians before they are rounded to fixed point."""

COUNTER = np.int64
"""Histogram sums and node totals: fixed-point integers, whose sum has no order."""

LEAF = np.uint16
"""Leaf number of a row; `MAX_LEAVES` leaves a tree."""

MAX_LEAVES = 65_535

SPLIT = np.dtype(
    [
        ("gain", np.float64),  # -inf where the node cannot be split
        ("left_gradient", COUNTER),  # fixed-point sums of the left child
        ("left_hessian", COUNTER),
        ("feature", np.int32),  # position among the used features
        ("bin", np.int32),  # bins <= bin go left
        ("missing_left", np.bool_),  # where the missing bin goes
    ],
    align=True,
)
"""The best split of one node, as `find_splits` reports it."""

EXPANSION = np.dtype(
    [
        ("begin", np.int64),  # the node's rows: places begin:end of the row list of its depth
        ("end", np.int64),
        ("gradient", COUNTER),  # fixed-point sums of the node
        ("hessian", COUNTER),
        ("left_gradient", COUNTER),  # and of its left child
        ("left_hessian", COUNTER),
        ("depth", np.int32),
        ("feature", np.int32),
        ("bin", np.int32),
        ("slot", np.int32),  # its histogram; the larger child takes it over
        ("spare_slot", np.int32),  # for the smaller child
        ("missing_left", np.bool_),
    ],
    align=True,
)
"""One node to expand in a round: its split and its slots."""

NODE = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("gradient", COUNTER),
        ("hessian", COUNTER),
        ("priority", np.float64),  # smallest gain on the path from the root
        ("split", SPLIT),
        ("depth", np.int32),
        ("parent", np.int32),  # -1: the root
        ("left", np.int32),  # -1: not expanded; the right child is left + 1
        ("slot", np.int32),  # its histogram
        ("lower", np.int32),  # the next ancestor of lower gain; -1: none
        ("chain", np.int32),  # how many ancestors one comes to that way, see gpu/kernels/growth/select.cl
    ],
    align=True,
)
"""One node of a growing tree, where a device keeps the table itself."""

CONTEXT = np.dtype(
    [
        ("lower", np.float64),  # bounds of the outputs of the node and of everything below it
        ("upper", np.float64),
        ("output", np.float64),  # of the node, before shrinkage
        ("path", np.uint64),  # hash of the way from the root
    ],
    align=True,
)
"""What a node hands down to its children, where nodes have contexts: see contexts.py."""

"""Bounds of leaves that come from other leaves, in a tree that is grown whole: the operations `bounds` and `sides`.

Twin of trees/contexts/leaf_boxes.LeafBoxes. What is kept is which leaves are ordered; the box of a leaf in one
feature is read off the path from the leaf to the root. A split makes two boxes of one, smaller in the feature of the
split and the same in all others. So another leaf is ordered with a child only if it was with the parent, by the same
feature and in the same direction, and it is unless the split has parted the two:

    by another feature     ordered still if the boxes overlap in the feature of the split
    by the split's own     ordered still if the child has values of it

Where both sides of a split have bounds of their own, a thread makes them whenever it searches a leaf, of the features
that it searches: it has room for one leaf.

Each thread keeps the order of all leaves for itself, as it keeps the table of nodes (driver.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.contexts import sides_of
from hornbeam.backends.cpu.growth.splits.rules import is_allowed
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.backends.cpu.host.kernels import inlined, inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced

BELOW, APART, ABOVE = -1, 0, 1
"""Where one leaf is, seen from another: see Boxes.order."""


class Boxes(NamedTuple):
    """The leaves of a growing tree, by their places: a left child has its parent's, a right child the next free one.

    order        int8 (n_threads, n_leaves, n_leaves)  in out  [a, b]: leaf b is ABOVE a, BELOW it, or neither
    node_of      int64 (n_threads, n_leaves)           in out
    place_of     int64 (n_threads, most_nodes)         in out
    moved        int64 (n_threads, n_leaves)           out     nodes whose bounds have changed
    levels       uint32 (n_threads, 3, n_words)        scratch
    has_missing  bool (n_numeric,)                     in
    use_missing  missing values are not zeros; zeros are on one side as all values are
    n_leaves     int64 (n_threads,)                    in out
    has_sides    both sides of a split have bounds of their own (LeafBoxes.side_bounds)
    """

    order: NDArray[np.int8]
    node_of: NDArray[np.int64]
    place_of: NDArray[np.int64]
    moved: NDArray[np.int64]
    levels: NDArray[np.uint32]
    has_missing: NDArray[np.bool_]
    use_missing: bool
    n_leaves: NDArray[np.int64]
    has_sides: bool


class Interval(NamedTuple):
    """The part of a box in one feature that is a number: bins low to high, and whether missing values are in it."""

    low: int
    high: int
    has_missing: bool


@inlined
def has_values(interval):
    """Say whether an interval has values, and not missing ones alone."""
    return interval.low <= interval.high


@inlined
def are_apart(one, other):
    """Say whether no value, and no missing one, is in both intervals."""
    overlap = (one.low <= other.high) & (other.low <= one.high) & has_values(one) & has_values(other)
    return not (overlap | (one.has_missing & other.has_missing))


@inner_kernel
def child_interval(nodes, number, side, interval, boxes):
    """Return the part of an interval that a split by its feature sends to one side (0: left)."""
    node = nodes[number]
    split, left, right = node.split, nodes[node.left], nodes[node.left + 1]
    missing_left = split.missing_left
    if not boxes.has_missing[split.feature]:
        missing_left = left.end - left.begin >= right.end - right.begin
    low, high, bin_ = interval.low, interval.high, np.int64(split.bin)
    has_missing = interval.has_missing and boxes.use_missing and missing_left == (side == 0)
    return Interval(low, min(high, bin_), has_missing) if side == 0 else Interval(max(low, bin_ + 1), high, has_missing)


@inner_kernel
def interval_of(nodes, number, feature, sides, boxes):
    """Return what the box of a node has of a feature that is a number."""
    interval = Interval(np.int64(0), sides.n_value_bins[feature] - 1, boxes.use_missing)
    while number > 0:
        above = np.int64(nodes[number].parent)
        if nodes[above].split.feature == feature:
            interval = child_interval(nodes, above, number - np.int64(nodes[above].left), interval, boxes)
        number = above
    return interval


@inner_kernel
def levels_of(nodes, number, feature, sides, levels):
    """Write which levels of a categorical feature are in the box of a node; say whether all others are, too.

    levels  uint32 (n_words,)  out  bits as in tree.code_bits; others: those that are in no set, and missing values
    """
    has_others = True
    levels[:] = np.uint32(0xFFFFFFFF)
    while number > 0:
        node = nodes[nodes[number].parent]
        if node.split.feature == feature:
            left_set, is_left = sides.sets[node.split.bin], number == node.left
            for word in range(len(levels)):
                levels[word] &= left_set[word] if is_left else ~left_set[word]
            has_others = has_others and not is_left
        number = np.int64(nodes[number].parent)
    return has_others


@inner_kernel
def share_levels(levels, others):
    """Say whether two sets of levels have one in common."""
    common = np.uint32(0)
    for word in range(len(levels)):
        common |= levels[word] & others[word]
    return common != 0


@inlined
def set_order(order, place, other, direction):
    """Note where a leaf is, seen from another."""
    order[place, other], order[other, place] = direction, -direction


@inlined
def stay_ordered(whole, part, other):
    """Say whether a box that is ordered with another is so still, when only a part of an interval is left to it."""
    return has_values(part) if are_apart(whole, other) else not are_apart(part, other)


@inner_kernel
def part_numbers(nodes, number, n_leaves, sign, sides, boxes, order, node_of, place_of):
    """Order the children of a node that was split by a number; order[place] still has that of the node itself.

    n_leaves  before the split, so it is the place of the right child
    """
    feature, left, right = np.int64(nodes[number].split.feature), place_of[number], n_leaves
    whole = interval_of(nodes, number, feature, sides, boxes)
    low, high = child_interval(nodes, number, 0, whole, boxes), child_interval(nodes, number, 1, whole, boxes)
    for place in range(n_leaves):
        direction = order[left, place]
        if direction != APART:
            other = interval_of(nodes, node_of[place], feature, sides, boxes)
            if stay_ordered(whole, high, other):
                set_order(order, right, place, direction)
            if not stay_ordered(whole, low, other):
                set_order(order, left, place, APART)
    if sign != 0 and has_values(low) and has_values(high):
        set_order(order, left, right, ABOVE if sign > 0 else BELOW)


@inner_kernel
def part_levels(nodes, number, n_leaves, sides, levels, order, node_of, place_of):
    """Order the children of a node that was split by a categorical feature; see part_numbers.

    levels  uint32 (3, n_words)  scratch
    """
    feature, first, left, right = np.int64(nodes[number].split.feature), nodes[number].left, place_of[number], n_leaves
    levels_of(nodes, np.int64(first), feature, sides, levels[0])
    has_others = levels_of(nodes, np.int64(first + 1), feature, sides, levels[1])
    for place in range(n_leaves):
        direction = order[left, place]
        if direction != APART:
            other_has = levels_of(nodes, node_of[place], feature, sides, levels[2])
            if (has_others and other_has) or share_levels(levels[1], levels[2]):
                set_order(order, right, place, direction)
            if not share_levels(levels[0], levels[2]):
                set_order(order, left, place, APART)


@inner_kernel
def enter_bounds(place, n_leaves, order, node_of, contexts, around):
    """Bound a leaf by the highest output below it and the lowest above it; say whether its bounds have changed."""
    lower, upper = -np.inf, np.inf
    for other in range(n_leaves):
        if order[place, other] == BELOW:
            lower = max(lower, contexts[node_of[other]].output)
        elif order[place, other] == ABOVE:
            upper = min(upper, contexts[node_of[other]].output)
    own = contexts[node_of[place]]
    has_changed = lower != own.lower or upper != own.upper
    own.lower, own.upper = lower, upper
    around[node_of[place]].lower, around[node_of[place]].upper = lower, upper
    return has_changed


@inner_kernel
def reach(own, other, n_values):
    """Return the first bin after which a split has a box on its left, and the last before which it has it on its right.

    own, other  intervals of the leaf that is split, and of the box of another leaf that is ordered with it

    Twin of LeafBoxes.side_bounds: a box that the feature of the split does not part is on both sides of all splits.
    """
    parted = (other.high < own.low) | (other.low > own.high) | ~(has_values(own) & has_values(other))
    if parted | (own.has_missing & other.has_missing):
        return np.int64(0), n_values
    return other.low, other.high


@inner_kernel
def enter_side_bounds(t, nodes, number, feature, sides, boxes, contexts, out):
    """Write the bounds of both sides of all splits of a leaf by a feature; out: BinBounds."""
    order, node_of, place = boxes.order[t], boxes.node_of[t], boxes.place_of[t, number]
    n_values, own = sides.n_value_bins[feature], interval_of(nodes, number, feature, sides, boxes)
    left_lower, left_upper, right_lower, right_upper = out.left_lower, out.left_upper, out.right_lower, out.right_upper
    left_lower[:], left_upper[:], right_lower[:], right_upper[:] = -np.inf, np.inf, -np.inf, np.inf
    lower, upper, any_parted = -np.inf, np.inf, False
    for other in range(boxes.n_leaves[t]):
        if order[place, other] != APART:
            output = contexts[node_of[other]].output
            first, last = reach(own, interval_of(nodes, node_of[other], feature, sides, boxes), n_values)
            is_below, is_whole = order[place, other] == BELOW, last == n_values
            any_parted |= not is_whole
            if is_whole and is_below:
                lower = max(lower, output)
            elif is_whole:
                upper = min(upper, output)
            elif is_below:
                left_lower[first] = max(left_lower[first], output)
                right_lower[max(last - 1, 0)] = max(right_lower[max(last - 1, 0)], output if last > 0 else -np.inf)
            else:
                left_upper[first] = min(left_upper[first], output)
                right_upper[max(last - 1, 0)] = min(right_upper[max(last - 1, 0)], output if last > 0 else np.inf)
    if not any_parted:
        left_lower[:], left_upper[:], right_lower[:], right_upper[:] = lower, upper, lower, upper
        return
    low, high = lower, upper
    for b in range(n_values):
        low, high = max(left_lower[b], low), min(left_upper[b], high)
        left_lower[b], left_upper[b] = low, high
    low, high = lower, upper
    for b in range(n_values - 1, -1, -1):
        low, high = max(right_lower[b], low), min(right_upper[b], high)
        right_lower[b], right_upper[b] = low, high


@inner_kernel
def bounds_beside(t, nodes, number, sides, boxes, contexts):
    """Return the bounds of both sides of the split of a leaf, by a number, that is still to be divided.

    They are (lower, upper) of the left side, then of the right one: a column of enter_side_bounds.
    """
    order, node_of, place = boxes.order[t], boxes.node_of[t], boxes.place_of[t, number]
    feature, bin_ = np.int64(nodes[number].split.feature), np.int64(nodes[number].split.bin)
    n_values, own = sides.n_value_bins[feature], interval_of(nodes, number, feature, sides, boxes)
    left_lower, left_upper, right_lower, right_upper = -np.inf, np.inf, -np.inf, np.inf
    for other in range(boxes.n_leaves[t]):
        if order[place, other] != APART:
            output, is_below = contexts[node_of[other]].output, order[place, other] == BELOW
            first, last = reach(own, interval_of(nodes, node_of[other], feature, sides, boxes), n_values)
            if first <= bin_ and is_below:
                left_lower = max(left_lower, output)
            if first <= bin_ and not is_below:
                left_upper = min(left_upper, output)
            if last > bin_ and is_below:
                right_lower = max(right_lower, output)
            if last > bin_ and not is_below:
                right_upper = min(right_upper, output)
    return left_lower, left_upper, right_lower, right_upper


@kernel
def bound_leaves(t, room, calls, nodes, sides, marks, boxes, contexts, around):
    """Bound the children of node call.number, or the root where that is -1, and the leaves around: the operation.

    nodes     NODE (n_threads, most_nodes)     in
    contexts  CONTEXT (n_threads, most_nodes)  in out  see contexts.Family, which has made those of the children
    around    AROUND (n_threads, most_nodes)   in out
    """
    if introduced(t, room, (calls, nodes, sides, marks, boxes, contexts, around)):
        return
    call, nodes = calls[t], nodes[t]
    contexts, around, number = contexts[t], around[t], call.number
    order, node_of, place_of, moved = boxes.order[t], boxes.node_of[t], boxes.place_of[t], boxes.moved[t]
    call.n_moved = 0
    if number < 0:
        order[0, 0], node_of[0], place_of[0], boxes.n_leaves[t] = APART, 0, 0, 1
        return
    feature, first, left = np.int64(nodes[number].split.feature), np.int64(nodes[number].left), place_of[number]
    n_leaves = right = boxes.n_leaves[t]
    boxes.n_leaves[t] += 1
    n_touched, n_moved = 0, 0
    for place in range(n_leaves):
        if order[left, place] != APART:
            moved[n_touched] = place
            n_touched += 1
        set_order(order, right, place, APART)
    order[right, right] = APART
    if feature < sides.n_numeric:
        sign = marks.sign[marks.numbers[feature]]
        part_numbers(nodes, number, n_leaves, sign, sides, boxes, order, node_of, place_of)
    else:
        part_levels(nodes, number, n_leaves, sides, boxes.levels[t], order, node_of, place_of)
    for side in range(2):
        place = right if side else left
        node_of[place], place_of[first + side] = first + side, place
    for side in range(2):
        enter_bounds(right if side else left, n_leaves + 1, order, node_of, contexts, around)
    for i in range(n_touched):
        place = moved[i]
        has_moved = enter_bounds(place, n_leaves + 1, order, node_of, contexts, around) or boxes.has_sides
        if has_moved and nodes[node_of[place]].slot >= 0:
            moved[n_moved] = node_of[place]
            n_moved += 1
    call.n_moved = n_moved


@kernel
def bound_sides(t, room, calls, nodes, sides, marks, boxes, contexts):
    """Bound both sides of every split of node call.number by the features call.first:call.last: the operation.

    marks  sides, out: those of thread t
    """
    if introduced(t, room, (calls, nodes, sides, marks, boxes, contexts)):
        return
    call = calls[t]
    mask = marks.masks[call.context]
    call.side_bounds = t
    for f in range(min(call.first, sides.n_numeric), min(call.last, sides.n_numeric)):
        if is_allowed(mask, np.int64(marks.numbers[f])):
            enter_side_bounds(t, nodes[t], call.number, f, sides, boxes, contexts[t], sides_of(call, marks, f))


def boxes_of(space: Space, n_words: int, use_missing: bool, n_threads: int, n_leaves: int, has_sides: bool) -> Boxes:
    """Make room for the leaves of a tree, 0: they do not bound each other; n_words: of a set of levels."""
    return Boxes(
        np.empty((n_threads, n_leaves, n_leaves), np.int8), np.empty((n_threads, n_leaves), np.int64),
        np.empty((n_threads, 2 * n_leaves), np.int64), np.empty((n_threads, n_leaves), np.int64),
        np.empty((n_threads, 3, n_words), np.uint32), space.features.has_missing, use_missing,
        np.empty(n_threads, np.int64), has_sides,
    )  # fmt: skip

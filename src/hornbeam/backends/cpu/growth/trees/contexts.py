"""The contexts of the nodes of a tree that is grown whole: the operation `contexts`.

Twin of trees/contexts/tree_contexts.TreeContexts, the same float64 operations in the same order. Each thread makes
those of all nodes for itself, as it keeps the table of nodes (driver.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.operations import Node, between
from hornbeam.backends.cpu.growth.splits.rules import (
    is_allowed,
    leaf_score,
    rules_in,
    score_of_output,
    shrink,
    side_output,
)
from hornbeam.backends.cpu.growth.trees.leaf_boxes import bounds_beside
from hornbeam.backends.cpu.host.kernels import inner_kernel, kernel
from hornbeam.backends.cpu.host.operations import introduced
from hornbeam.backends.cpu.losses.random_choices import hash_row, random_bits
from hornbeam.core.dtypes import CONTEXT
from hornbeam.trees.contexts.tree_contexts import monotone_factor
from hornbeam.trees.records import ContextRules, ContextsAhead
from hornbeam.trees.splitting import SplitRules, pack_mask

AROUND = np.dtype(
    [(name, np.float64) for name in ("score", "lower", "upper", "output", "factor")] + [("key", np.uint64)], align=True
)
"""What the search is told of a node: see operations.CALL."""


class Shares(NamedTuple):
    """Which features are chosen for depths and nodes, and the rules that say so.

    by_level, by_node  see ContextRules
    has_keys           the same
    keys               uint64 (3,)                in   ContextPlan.keys
    of_tree            uint32 (n_words,)          in   features of the tree
    groups             uint32 (n_groups, n_words) in
    hashes             uint64 (n_threads, n_used) scratch
    """

    by_level: float
    by_node: float
    has_keys: bool
    keys: NDArray[np.uint64]
    of_tree: NDArray[np.uint32]
    groups: NDArray[np.uint32]
    hashes: NDArray[np.uint64]


class LevelsL2(NamedTuple):
    """When the children of a categorical split have more lambda_l2, and how much: categorical_splits.l2_of_children."""

    max_one_hot: int
    cat_l2: float


class Family(NamedTuple):
    """The contexts of a tree.

    contexts  CONTEXT (n_threads, most_nodes)                 out  by the numbers of the nodes
    alive     uint32 (n_threads, most_nodes, group words)     out  groups that hold the whole path
    around    AROUND (n_threads, most_nodes)                  out  the same
    factors   float64 (n_depths,)                             in   contexts.monotone_factor
    """

    contexts: NDArray[np.void]
    alive: NDArray[np.uint32]
    around: NDArray[np.void]
    factors: NDArray[np.float64]


@inner_kernel
def nth_smallest(values, n):
    """Return the value that n others are smaller than; values: uint64 (m,), all different, in out."""
    low, high = np.int64(0), np.int64(len(values) - 1)
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            return values[n]
    return values[n]


@inner_kernel
def choose_share(key, fraction, hashes, mask):
    """Leave the share of a mask's features with the smallest hashes under a key: twin of contexts.choose_share.

    hashes  uint64 (n_used,)    scratch
    mask    uint32 (n_words,)   in out
    """
    n_used, n = len(hashes), np.int64(0)
    for feature in range(n_used):
        if is_allowed(mask, feature):
            hashes[n] = random_bits(key, np.uint64(feature))
            n += 1
    if n == 0:
        return
    share = min(max(np.int64(np.floor(fraction * np.float64(n) + 0.5)), 1), n)
    largest = nth_smallest(hashes[:n], share - 1)
    for feature in range(n_used):
        if is_allowed(mask, feature) and random_bits(key, np.uint64(feature)) > largest:
            mask[feature // 32] &= ~(np.uint32(1) << np.uint32(feature % 32))


@inner_kernel
def own_score(gradient, hessian, n_rows, output, rules):
    """Twin of splitting.node_score."""
    if not rules.path_smooth > 0.0:
        return leaf_score(gradient, hessian, rules.lambda_l1, rules.lambda_l2, rules.max_delta_step)
    zero = np.int64(0)
    nowhere = Node(zero, zero, zero, zero, zero, 0.0, -np.inf, np.inf, output, np.uint64(0))
    pulled = side_output(gradient, hessian, n_rows, nowhere, rules, 0.0) + 0.0
    return score_of_output(gradient, hessian, pulled, rules.lambda_l1, rules.lambda_l2)


@inner_kernel
def enter_family(
    t, call, nodes, sides, marks, level_l2, has_keys, thresholds_key, boxes, contexts, around, factors, rules
):
    """Make outputs, bounds and paths of the children of node call.number, or of the root where that is -1."""
    is_root, zero, feature = call.number < 0, np.int64(0), np.int64(0)
    parent = nodes[max(call.number, 0)]
    first, depth = np.int64(0), np.int64(0)
    lower, upper, above_output, above_path, sign, more_l2 = -np.inf, np.inf, 0.0, np.uint64(0), np.int64(0), 0.0
    if not is_root:
        first, depth = np.int64(parent.left), np.int64(parent.depth) - np.int64(nodes[0].depth) + 1
        above = contexts[call.number]
        lower, upper, above_output, above_path = above.lower, above.upper, above.output, above.path
        feature = np.int64(parent.split.feature)
        sign = np.int64(marks.sign[marks.numbers[feature]])
        if feature >= sides.n_numeric and sides.n_value_bins[feature] > level_l2.max_one_hot:
            more_l2 = level_l2.cat_l2
    left_lower, left_upper, right_lower, right_upper = lower, upper, lower, upper
    if boxes.has_sides and not is_root and feature < sides.n_numeric:
        left_lower, left_upper, right_lower, right_upper = bounds_beside(
            t, nodes, call.number, sides, boxes, contexts
        )  # fmt: skip
    node = Node(zero, zero, zero, zero, zero, 0.0, left_lower, left_upper, above_output, np.uint64(0))
    n_children = 1 if is_root else 2
    for side in range(n_children):
        child, own = nodes[first + side], contexts[first + side]
        g, h = child.gradient * rules.gradient_unit, child.hessian * rules.hessian_unit
        if is_root:
            weight = h + rules.lambda_l2
            output = -shrink(g, rules.lambda_l1) / weight if weight > 0.0 else 0.0
            if rules.max_delta_step > 0.0:
                output = min(max(output, -rules.max_delta_step), rules.max_delta_step)
            own.output = output + 0.0
        else:
            own.output = side_output(g, h, child.end - child.begin, node, rules, more_l2) + 0.0
            node = between(node, right_lower, right_upper)
        own.lower, own.upper, own.path = lower, upper, np.uint64(0)
        if has_keys and not is_root:
            own.path = hash_row(above_path ^ hash_row(np.uint64(side)))
    if sign != 0:
        left, right = contexts[first], contexts[first + 1]
        middle = (left.output + right.output) / 2.0
        below, beyond = min(upper, middle), max(lower, middle)
        if sign > 0:
            left.upper, right.lower = below, beyond
        else:
            left.lower, right.upper = beyond, below
    for side in range(n_children):
        child, own, out = nodes[first + side], contexts[first + side], around[first + side]
        g, h = child.gradient * rules.gradient_unit, child.hessian * rules.hessian_unit
        out.score = own_score(g, h, child.end - child.begin, own.output, rules)
        out.lower, out.upper, out.output, out.factor = own.lower, own.upper, own.output, factors[depth]
        out.key = random_bits(thresholds_key, own.path)
    return first, depth


@inner_kernel
def choose_features(call, first, depth, feature, shares, hashes, contexts, alive, masks):
    """Write which features the children from `first` on may use, or the root.

    feature  name of the parent's split
    masks    uint32 (2, n_words)  out
    """
    is_root, groups = call.number < 0, shares.groups
    n_children, n_groups = 1 if is_root else 2, len(groups)
    for word in range(masks.shape[1]):
        masks[0, word] = shares.of_tree[word]
    if shares.by_level < 1.0:
        choose_share(random_bits(shares.keys[2], np.uint64(depth)), shares.by_level, hashes, masks[0])
    if n_groups > 0:
        for side in range(n_children):
            for word in range(alive.shape[1]):
                alive[first + side, word] = np.uint32(0xFFFFFFFF) if is_root else alive[call.number, word]
            if not is_root:
                for group in range(n_groups):
                    if not is_allowed(groups[group], feature):
                        alive[first + side, group // 32] &= ~(np.uint32(1) << np.uint32(group % 32))
        for word in range(masks.shape[1]):
            in_groups = np.uint32(0)
            for group in range(n_groups):
                if is_allowed(alive[first], group):
                    in_groups |= groups[group, word]
            masks[0, word] &= in_groups
    for word in range(masks.shape[1]):
        masks[1, word] = masks[0, word]
    if shares.by_node < 1.0:
        for side in range(n_children):
            if call.wants_left if side == 0 else call.wants_right:
                key = random_bits(shares.keys[0], contexts[first + side].path)
                choose_share(key, shares.by_node, hashes, masks[side])


@kernel
def make_contexts(t, room, calls, nodes, sides, marks, level_l2, shares, boxes, family, rules):
    """Make the contexts of the children of node call.number, or of the root where that is -1: the operation.

    nodes  NODE (n_threads, most_nodes)  in   see driver.Table
    marks  masks, out: those of thread t come after those of all threads before it
    boxes  of a tree whose leaves bound each other, before the node is divided; else empty
    """
    if introduced(t, room, (calls, nodes, sides, marks, level_l2, shares, boxes, family, rules)):
        return
    call, own_nodes = calls[t], nodes[t]
    contexts = family.contexts[t]
    first, depth = enter_family(
        t, call, own_nodes, sides, marks, level_l2, shares.has_keys, shares.keys[1], boxes, contexts, family.around[t],
        family.factors, rules_in(rules[0]),
    )  # fmt: skip
    feature = np.int64(marks.numbers[max(own_nodes[max(call.number, 0)].split.feature, 0)])
    masks = marks.masks[t * len(own_nodes) + first : t * len(own_nodes) + first + 2]
    choose_features(call, first, depth, feature, shares, shares.hashes[t], contexts, family.alive[t], masks)


def shares_of(ahead: ContextsAhead, of_tree: NDArray[np.uint32], n_used: int, n_threads: int) -> Shares:
    """Return what says which features are chosen; of_tree: those of the tree, uint32 (n_words,)."""
    rules = ahead.rules
    groups = rules.groups if len(rules.groups) else np.zeros((0, len(of_tree)), np.uint32)
    return Shares(
        rules.by_level, rules.by_node, rules.has_keys, np.array(ahead.keys, np.uint64), of_tree, groups,
        np.empty((n_threads, n_used), np.uint64),
    )  # fmt: skip


def family_of(rules: ContextRules, n_threads: int, n_leaves: int) -> Family:
    """Make room for the contexts of a tree."""
    most, words = 2 * n_leaves - 1, -(-len(rules.groups) // 32)
    return Family(
        np.zeros((n_threads, most), CONTEXT), np.zeros((n_threads, most, words), np.uint32),
        np.zeros((n_threads, most), AROUND),
        np.array([monotone_factor(depth, rules.monotone_penalty) for depth in range(n_leaves + 1)]),
    )  # fmt: skip


def tree_mask(numbers: NDArray[np.int32], n_used: int) -> NDArray[np.uint32]:
    """Return the features of a tree as bits, uint32 (n_words,)."""
    chosen = np.zeros(n_used, np.bool_)
    chosen[numbers] = True
    return np.ascontiguousarray(pack_mask(chosen[None])[0])


def only_masks(ahead: ContextsAhead, rules: SplitRules) -> bool:
    """Say whether the masks are all that the search must know of the nodes."""
    as_they_are = bool((ahead.rules.features.contribution == 1.0).all())
    return as_they_are and not rules.outputs_in_context and not rules.extra_trees

"""Checks that a backend must pass, for any device: engines compared with `reference` op by op, and whole models.

Nothing here looks into an engine, with one exception: histograms are no result of any operation, so `histogram_of` asks
an engine for them and returns None where it cannot show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.devices import devices
from hornbeam.backends.engines import make_engine
from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinMapper, BinnedData, allocate_bins
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.params.params import Params
from hornbeam.testing.data import BinnedSample
from hornbeam.testing.growth_checks import assert_same_growth
from hornbeam.testing.same_bits import assert_same_bits
from hornbeam.training.training import train
from hornbeam.trees.bagging import Draw, Goss
from hornbeam.trees.engine import Engine
from hornbeam.trees.records import BinnedTree, Segments
from hornbeam.trees.splitting import NodeContext, SplitRules, finished_weight, leaf_output

__all__ = [
    "PLAIN_RULES",
    "assert_same_bits",
    "assert_same_operations",
    "binned_data",
    "engine_on",
    "gradients_of",
    "histogram_of",
    "leaf_numbers",
    "random_binned_tree",
    "usable_devices",
]

REFERENCE = "reference"

PLAIN_RULES = SplitRules(
    lambda_l1=0.0,
    lambda_l2=0.0,
    max_delta_step=0.0,
    min_gain_to_split=0.0,
    min_data_in_leaf=1,
    min_sum_hessian_in_leaf=0.0,
)
"""Rules that forbid nothing but empty children."""


def usable_devices() -> list[str]:
    """Return the names of the devices that this machine can train on."""
    return [info.name for info in devices() if info.usable]


def binned_data(sample: BinnedSample, n_categorical: int = 0) -> BinnedData:
    """Wrap a sample made in binned space; value bin b of a feature holds the numbers in (b - 1/2, b + 1/2].

    The last n_categorical features are categorical.

    Every feature must have two bins or more (the missing one included), so that none is left out.
    """
    bounds = tuple(
        np.append(np.arange(n - 1) + 0.5, np.inf) if n else np.empty(0) for n in sample.n_value_bins.tolist()
    )
    n_levels = dict(list(enumerate(sample.n_value_bins.tolist()))[len(bounds) - n_categorical :])
    mapper = BinMapper(bounds, sample.has_missing, True, n_levels)
    if len(mapper.used) != len(bounds):
        raise ValueError("a feature with fewer than two bins would be left out; give every feature two or more")
    bins = allocate_bins(len(sample.bins), len(bounds), mapper.bin_dtype)
    bins[:, : len(bounds)] = sample.bins
    return BinnedData(mapper, bins)


def engine_on(device: str, binned: BinnedData, num_threads: int = 0) -> Engine:
    """Make an engine on a device."""
    return make_engine(binned, Params.from_dict({"device": device, "num_threads": num_threads}))


def histogram_of(engine: Engine, slot: int) -> NDArray[np.int64] | None:
    """Return the histogram in a slot, int64 (n_total_bins, 2), or None if the engine cannot show it.

    An engine shows it through a method `read_histogram(slot)`; those in host memory are read directly.
    """
    read = getattr(engine, "read_histogram", None)
    if read is not None:
        return np.asarray(read(slot), np.int64)
    held: Any = getattr(engine, "_histograms", None)
    if isinstance(held, dict):
        return np.asarray(held[slot], np.int64)
    slots = getattr(held, "histograms", None)
    return None if slots is None else np.array(slots[slot], np.int64)


def gradients_of(engine: Engine) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the gradients and hessians that an engine holds, each float64 (n_outputs, n_rows)."""
    return engine.read_gradients()


def leaf_numbers(engine: Engine, nodes: Segments, others: BinnedTree | None = None) -> NDArray[np.int64]:
    """Return for every row the position of its node among these nodes, int64 (n_rows,).

    The nodes own all chosen rows; the leaves of the other rows, if there are any, are those of the tree `others`. Rows
    are seen through scores alone, so this works on every device; the scores are lost.
    """
    engine.set_scores(np.zeros((1, engine.n_rows)))
    engine.assign_leaves(nodes, np.arange(len(nodes.begin), dtype=np.int32))
    if others is not None:
        engine.find_other_leaves(others)
    engine.add_leaf_values(0, np.arange(len(nodes.begin), dtype=np.float64))
    return np.asarray(engine.scores()[0]).astype(np.int64)


@dataclass
class _Frontier:
    """The open nodes of the tree that both engines grow: places, depths, fixed-point sums and slots."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int32]
    gradient: NDArray[np.int64]
    hessian: NDArray[np.int64]
    slot: NDArray[np.int32]

    @property
    def segments(self) -> Segments:
        return Segments(self.begin, self.end, self.depth)


def assert_same_operations(
    binned: BinnedData,
    gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    engine: Engine,
    *,
    rules: SplitRules = PLAIN_RULES,
    high_precision: bool = False,
    n_levels: int = 3,
    valid: BinnedData | None = None,
    make_context: Callable[[Segments, NDArray[np.int64], NDArray[np.int64], Quantization], NodeContext] | None = None,
    draw: Draw | Goss | None = None,
) -> None:
    """Grow a tree level by level on an engine and on `reference`, and compare the result of every operation with ==.

    gradient, hessian  float64 (n_outputs, n_rows)  in
    make_context       function of nodes, their fixed-point sums and how these were rounded

    The smaller child is summed and the larger one had by subtraction; then the larger one is summed too, so that
    parent = left + right is checked on the engine itself.
    """
    reference = engine_on(REFERENCE, binned)
    both = (engine, reference)
    n_outputs, n_rows = gradient.shape
    for output in range(n_outputs):
        for one in both:
            one.set_scores(np.zeros((n_outputs, n_rows)))
            one.set_gradients(gradient.copy(), hessian.copy())
            kept = one.read_gradients()
            assert np.array_equal(kept[0], gradient) and np.array_equal(kept[1], hessian), "read_gradients"
        n_chosen, expected_chosen = (one.choose_rows(draw) for one in both)
        assert n_chosen == expected_chosen, f"choose_rows: {n_chosen}, expected {expected_chosen}"
        how, expected = (one.quantize(output, high_precision) for one in both)
        assert how == expected, f"quantize: {how}, expected {expected}"
        n_slots = 2 ** (n_levels + 1) + 2
        root, expected_root = (one.begin_tree(n_slots) for one in both)
        assert root == expected_root, f"begin_tree: {root}, expected {expected_root}"
        frontier = _Frontier(
            np.zeros(1, np.int64),
            np.array([root.n_rows], np.int64),
            np.array([root.depth], np.int32),
            np.array([root.gradient], np.int64),
            np.array([root.hessian], np.int64),
            np.zeros(1, np.int32),
        )
        closed: list[Segments] = []
        for one in both:
            one.build_histograms(frontier.segments, frontier.slot)
        _compare_histograms(both, frontier.slot, "root")
        for level in range(n_levels + 1):
            context = None
            if make_context is not None:
                context = make_context(frontier.segments, frontier.gradient, frontier.hessian, how)
            splits = _same_splits(both, frontier, rules, context)
            open_ = np.flatnonzero(splits["gain"] > -np.inf) if level < n_levels else np.empty(0, np.intp)
            closed.append(frontier.segments.take(np.setdiff1d(np.arange(len(splits)), open_)))
            if len(open_) == 0:
                break
            frontier = _split_level(both, frontier, open_, splits, n_slots)
        ends = Segments(
            np.concatenate([nodes.begin for nodes in closed]),
            np.concatenate([nodes.end for nodes in closed]),
            np.concatenate([nodes.depth for nodes in closed]),
        )
        others = random_binned_tree(np.random.default_rng(output), binned, len(ends.begin)) if draw else None
        _compare_leaves(both, ends, output, n_outputs, others)
    if valid is not None:
        _compare_valid(both, valid)
    if not rules.outputs_in_context:  # such trees need contexts
        assert_same_growth(both, binned, rules)
    for one in both:
        one.close()


def _compare_histograms(engines: tuple[Engine, Engine], slots: NDArray[np.int32], what: str) -> None:
    for slot in slots.tolist():
        found, expected = histogram_of(engines[0], slot), histogram_of(engines[1], slot)
        if found is not None and expected is not None:
            assert_same_bits(found, expected, f"histogram of {what}, slot {slot}")


def _same_splits(
    engines: tuple[Engine, Engine], nodes: _Frontier, rules: SplitRules, context: NodeContext | None = None
) -> NDArray[np.void]:
    found, expected = (
        one.find_splits(nodes.segments, nodes.slot, nodes.gradient, nodes.hessian, rules, context) for one in engines
    )
    assert_same_bits(found, expected, "find_splits")
    numbers = expected["bin"][expected["feature"] >= _n_numeric(engines[1])]
    if len(numbers):
        sets, expected_sets = (one.left_sets(numbers) for one in engines)
        assert_same_bits(sets, expected_sets, "left_sets")
    return expected


def _n_numeric(reference: Engine) -> int:
    """Return the first categorical feature of the reference engine's data."""
    binned: BinnedData = reference.binned  # type: ignore[attr-defined]
    return binned.n_numeric


def _split_level(
    engines: tuple[Engine, Engine],
    nodes: _Frontier,
    open_: NDArray[np.intp],
    splits: NDArray[np.void],
    n_slots: int,
) -> _Frontier:
    """Split the open nodes on both engines and return their children: the left ones, then the right ones."""
    parents, chosen = nodes.segments.take(open_), np.ascontiguousarray(splits[open_])
    found, expected = (one.partition(parents, chosen) for one in engines)
    assert_same_bits(found, expected, "partition")
    middle = parents.begin + expected
    in_use = set(nodes.slot[open_].tolist())
    free = [slot for slot in range(n_slots) if slot not in in_use][: len(open_) + 1]
    left_small = 2 * expected <= parents.end - parents.begin
    built, handed = np.array(free[:-1], np.int32), np.ascontiguousarray(nodes.slot[open_])
    small = Segments(
        np.where(left_small, parents.begin, middle), np.where(left_small, middle, parents.end), parents.depth + 1
    )
    large = Segments(
        np.where(left_small, middle, parents.begin), np.where(left_small, parents.end, middle), parents.depth + 1
    )
    for one in engines:
        one.build_histograms(small, built)
        one.subtract(handed, built)
    _compare_histograms(engines, built, "smaller children")
    _compare_histograms(engines, handed, "larger children, by subtraction")
    for i in range(len(open_)):
        scratch = np.array([free[-1]], np.int32)
        engines[0].build_histograms(large.take(np.array([i])), scratch)
        summed, subtracted = histogram_of(engines[0], free[-1]), histogram_of(engines[0], int(handed[i]))
        if summed is not None and subtracted is not None:
            assert_same_bits(subtracted, summed, "parent - smaller child, against the sum of the larger child")
    left_sums = chosen["left_gradient"].copy(), chosen["left_hessian"].copy()
    right_sums = nodes.gradient[open_] - left_sums[0], nodes.hessian[open_] - left_sums[1]
    return _Frontier(
        np.concatenate([parents.begin, middle]),
        np.concatenate([middle, parents.end]),
        np.tile(parents.depth + 1, 2).astype(np.int32),
        np.concatenate([left_sums[0], right_sums[0]]),
        np.concatenate([left_sums[1], right_sums[1]]),
        np.concatenate([np.where(left_small, built, handed), np.where(left_small, handed, built)]).astype(np.int32),
    )


def _compare_leaves(
    engines: tuple[Engine, Engine], ends: Segments, output: int, n_outputs: int, others: BinnedTree | None
) -> None:
    """Compare the rows of every leaf, the leaves' sums and renewed values, and the scores after adding leaf values."""
    found, expected = (leaf_numbers(one, ends, others) for one in engines)
    assert_same_bits(found, expected, "leaf numbers")
    n_leaves = len(ends.begin)
    sums, expected_sums = (one.leaf_sums(n_leaves) for one in engines)
    for of, a, b in zip(("gradient", "hessian"), sums, expected_sums, strict=True):
        assert_same_bits(np.asarray(a), np.asarray(b), f"leaf_sums of {of}")
    later = engines[0].leaf_values_later(n_leaves, PLAIN_RULES, 0.3)
    if later is not None:  # else the host computes them
        gradient, hessian = expected_sums
        expected_values = leaf_output(gradient, finished_weight(hessian, PLAIN_RULES), PLAIN_RULES) * 0.3
        for of, a, b in zip(("values", "hessians"), later(), (expected_values, hessian), strict=True):
            assert_same_bits(a, b, f"leaf_values_later: {of}")
    values = np.sin(np.arange(n_leaves) + 1.0) / 3.0
    scores = np.linspace(-1.0, 1.0, n_outputs * engines[0].n_rows).reshape(n_outputs, -1)
    for one in engines:
        one.set_scores(scores)
    label = np.rint(np.sin(np.arange(engines[0].n_rows) * 0.7) * 30.0)
    weight = np.rint(np.abs(label)) * 0.3
    for rule in ((0.5, label, None, n_leaves, True), (0.2, label, weight, n_leaves)):
        renewed, expected_renewed = (one.renew_leaves(output, *rule) for one in engines)
        assert_same_bits(np.asarray(renewed), np.asarray(expected_renewed), "renew_leaves")
    _compare_rows(engines)
    for one in engines:
        one.add_leaf_values(output, values)
        one.add_row_values(output, np.sin(np.arange(one.n_rows)))
        if others is not None:
            one.add_tree(-1, output, others)
    assert_same_bits(np.asarray(engines[0].scores()), np.asarray(engines[1].scores()), "scores")


def _compare_rows(engines: tuple[Engine, Engine]) -> None:
    """Compare what linear leaves are fitted to: the chosen rows, in any order, their gradients, and all leaves."""
    leaves, expected_leaves = (one.row_leaves() for one in engines)
    assert_same_bits(leaves, expected_leaves, "row_leaves")
    by_row = []
    for one in engines:
        rows, gradient, hessian = one.chosen_rows()
        own = np.full((2, one.n_rows), np.nan)
        own[:, slice(None) if rows is None else rows] = gradient, hessian
        by_row.append(own)
    assert_same_bits(by_row[0], by_row[1], "chosen_rows")
    assert_same_bits(engines[0].gather(by_row[1]), by_row[1][None], "gather")


def _compare_valid(engines: tuple[Engine, Engine], valid: BinnedData) -> None:
    """Compare the scores of a validation set after some random trees."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=(2, valid.n_rows))
    numbers = [one.add_valid(valid, start) for one in engines]
    for n_leaves, output in ((1, 0), (2, 1), (13, 0), (40, 1)):
        tree = random_binned_tree(rng, valid, n_leaves)
        leaves = [one.leaves_in(number, tree) for one, number in zip(engines, numbers, strict=True)]
        assert_same_bits(leaves[0], leaves[1], "leaves_in")
        for one, number in zip(engines, numbers, strict=True):
            one.add_tree(number, output, tree)
            one.add_row_values(output, np.sin(leaves[0] + 1.0), number)
    found, expected = (one.valid_scores(number) for one, number in zip(engines, numbers, strict=True))
    assert_same_bits(np.asarray(found), np.asarray(expected), "valid_scores")


def random_binned_tree(rng: np.random.Generator, binned: BinnedData, n_leaves: int) -> BinnedTree:
    """Make a tree of random splits over the bins of a data set."""
    from hornbeam.testing.trees import random_tree

    shape = random_tree(rng, n_leaves, binned.n_used)
    n_bins = np.maximum(binned.n_value_bins[shape.feature], 1)
    left_sets = None
    if binned.n_numeric < binned.n_used:
        inside = rng.random((n_leaves - 1, 32 * binned.set_words)) < 0.5
        inside &= np.arange(inside.shape[1]) < n_bins[:, None]
        left_sets = np.packbits(inside, axis=1, bitorder="little").view("<u4").astype(np.uint32)
    return BinnedTree(
        feature=shape.feature,
        bin=(rng.random(n_leaves - 1) * n_bins).astype(np.int32),
        missing_left=shape.missing_left,
        left=shape.left,
        right=shape.right,
        leaf_value=shape.leaf_value,
        left_sets=left_sets,
    )


def models_by_device(
    params: Mapping[str, Any],
    make_dataset: Callable[[], Dataset],
    devices: Iterable[str],
    num_boost_round: int = 5,
    thread_counts: Iterable[int] = (1, 2, 3, 8),
    **arguments: Any,
) -> dict[tuple[str, int], Booster]:
    """Train the same model on several devices, and on the CPU with several numbers of threads.

    `arguments` go to `train`; those that are functions without arguments are called first, so that every training gets
    data sets of its own. Returns the Boosters by (device, number of threads).
    """
    boosters = {}
    for device in devices:
        for n_threads in thread_counts if device == "cpu" else (0,):
            mine = {
                name: value() if name == "valid_sets" and callable(value) else value
                for name, value in arguments.items()
            }
            asked = {**params, "device": device, "num_threads": n_threads, "verbosity": -1}
            boosters[device, n_threads] = train(asked, make_dataset(), num_boost_round, **mine)
    return boosters


def assert_same_model(
    params: Mapping[str, Any],
    make_dataset: Callable[[], Dataset],
    devices: Iterable[str],
    num_boost_round: int = 5,
    thread_counts: Iterable[int] = (1, 2, 3, 8),
    **arguments: Any,
) -> Booster:
    """Train on several devices (see `models_by_device`), check that all fingerprints are equal, and return one Booster.

    Evaluations must be equal too, since they may steer training.
    """
    boosters = models_by_device(params, make_dataset, devices, num_boost_round, thread_counts, **arguments)
    (first_name, first), *others = boosters.items()
    for name, booster in others:
        assert booster.eval_history == first.eval_history, f"evaluations differ on {name} and {first_name}"
        if booster.fingerprint() != first.fingerprint():
            raise AssertionError(f"models differ on {name} and {first_name}: {first_difference(booster, first)}")
    return first


def first_difference(a: Booster, b: Booster) -> str:
    """Say where two models begin to differ."""
    if a.init_scores.tolist() != b.init_scores.tolist():
        return f"init_scores {a.init_scores.tolist()} and {b.init_scores.tolist()}"
    for number, (one, other) in enumerate(zip(a.trees, b.trees, strict=False)):
        for name in ("feature", "threshold", "missing_left", "left", "right", "gain", "split_count", "leaf_count",
                     "split_value", "split_weight", "leaf_weight", "leaf_value"):  # fmt: skip
            x, y = getattr(one, name).tolist(), getattr(other, name).tolist()
            if x != y:
                place = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
                return f"trees[{number}].{name}[{place}]: {x[place : place + 1]} and {y[place : place + 1]}"
        sets = [[None if own is None else own.tolist() for own in tree.left_codes or ()] for tree in (one, other)]
        if sets[0] != sets[1]:
            return f"trees[{number}].left_codes: {sets[0]} and {sets[1]}"
    if len(a.trees) != len(b.trees):
        return f"{len(a.trees)} and {len(b.trees)} trees"
    return "trees are equal; names, objective, parameters or best_iteration differ"

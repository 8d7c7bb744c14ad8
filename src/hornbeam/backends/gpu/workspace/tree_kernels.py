"""The kernels of a growing tree, for one kind of data on one device: which variants, and how they are launched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hornbeam.backends.gpu.data.layout import Layout
from hornbeam.backends.gpu.runtime.runtime import DeviceFacts, Kernel, Runtime, Variant
from hornbeam.backends.gpu.runtime.tables import groups_a_pass
from hornbeam.core.fixed_point import Quantization

THREADS = 256
"""Threads of a group where nothing speaks for more."""

CHOOSE_THREADS = 64
"""Threads of choose.cl, and of split_categorical.cl's choose_set_kernel."""

WARP = 32
"""Threads that step together, and banks of local memory, see kernels/growth/histogram.cl."""

SUMMING_THREADS = 768
"""Threads of histogram.cl on GPUs: two groups of them fill a compute unit with 40 registers a thread."""

SEARCHING_THREADS = 128
"""Threads of split.cl."""

PARTITION_THREADS, PARTITION_EACH = 128, 8
"""Threads of partition.cl and rows of each in a tile: 1,024 rows, sorted in 8 KB of local memory."""

CAPACITY = 2048
"""Most nodes of a tree that the device keeps, see kernels/growth/select.cl."""

MOST_ORDERED = CAPACITY // 4
"""Most nodes whose order select.cl keeps, and most leaves of a tree that it grows: a round may double the frontier."""

PLANNING_THREADS = 512
"""Threads of plan.cl: a node each."""


def plain_variant(facts: DeviceFacts, source: str, threads: int = THREADS, **options: Any) -> Variant:
    """Return a variant with as many threads as wished, or as the device allows."""
    return Variant(source, min(threads, 1 << (facts.max_threads.bit_length() - 1)), **options)


def histogram_variant(facts: DeviceFacts, layout: Layout, wide: bool, stats: int) -> tuple[Variant, int]:
    """Choose how many words of a tile a group takes at once, and the copies of its counters.

    Returns the variant and its local bytes.
    """
    copies = 1
    for words in [most for most in (8, 4, 3, 2, 1) if layout.tile_words % most == 0]:
        lanes = words * 32 // layout.bin_bits
        n_bytes = stats * layout.n_bins * lanes * (8 if wide else 4)
        if n_bytes <= facts.local_bytes:
            while copies * lanes < WARP and 2 * (2 * copies * n_bytes) <= facts.local_bytes and WARP % lanes == 0:
                copies *= 2  # and still two groups find room
            n_bytes *= copies
            break
    else:
        words, n_bytes = 0, 0
    threads = SUMMING_THREADS if facts.is_gpu and facts.max_threads >= SUMMING_THREADS else THREADS
    variant = plain_variant(
        facts,
        "histogram.cl",
        threads,
        **layout.options,
        wide=wide,
        stats=stats,
        n_bins=layout.n_bins,
        words=words,
        copies=copies,
        resident=max(1, min(2048 // threads, facts.local_bytes // max(1, n_bytes))),
    )
    return variant, n_bytes


def search_variant(facts: DeviceFacts, layout: Layout, stats: int, context: bool = False) -> Variant:
    """Return the variant of split.cl, for nodes that may not use all features or for others."""
    sizes = {**layout.options, "stats": stats, "n_bins": layout.n_bins}
    return plain_variant(facts, "split.cl", SEARCHING_THREADS, context=context, **sizes)


def general_variant(facts: DeviceFacts, layout: Layout, stats: int) -> Variant:
    """Return the variant of split_general.cl; compiled only where a node has a context."""
    return plain_variant(facts, "split_general.cl", **layout.options, stats=stats, n_bins=layout.n_bins)


def bundles_variant(facts: DeviceFacts, layout: Layout, stats: int, context: bool = False) -> Variant:
    """Return the variant of split_bundles.cl, for nodes with a context or without."""
    sizes = {**layout.options, "stats": stats, "n_bins": layout.n_bins}
    return plain_variant(facts, "split_bundles.cl", SEARCHING_THREADS, bundled=True, context=context, **sizes)


class TreeKind(NamedTuple):
    """What the kernels of a tree depend on besides the layout of the bins.

    wide         records of 64 bits
    stats        sums of a histogram, 2 or 3: gradients, hessians, rows
    categorical  there are categorical features
    columns      bins lie by feature as well
    """

    wide: bool
    stats: int
    categorical: bool = False
    columns: bool = False


def partition_variant(facts: DeviceFacts, layout: Layout, kind: TreeKind) -> Variant:
    """Return the variant of partition.cl."""
    return plain_variant(
        facts,
        "partition.cl",
        PARTITION_THREADS,
        **layout.options,
        columns=kind.columns,
        in_order=layout.on_host,
        bundled=layout.is_bundled,
        wide=kind.wide,
        each=PARTITION_EACH,
        categorical=kind.categorical,
    )


class OrderedPartition(NamedTuple):
    """The kernels that move rows where they keep their order: one after the other."""

    mark: Kernel
    place: Kernel
    move: Kernel

    @classmethod
    def load(cls, runtime: Runtime, variant: Variant) -> OrderedPartition:
        """Compile them, or find them compiled."""
        return cls(*(runtime.kernel(f"{name}_kernel", variant) for name in cls._fields))


class TreeVariants(NamedTuple):
    """The files that a tree needs, those first that take the compiler longest."""

    split: Variant
    search: Variant
    select: Variant
    histogram: Variant
    plan: Variant
    partition: Variant
    choose: Variant

    @classmethod
    def of(cls, facts: DeviceFacts, layout: Layout, kind: TreeKind) -> TreeVariants:
        """Choose them."""
        searching = search_variant(facts, layout, kind.stats)
        summing, _ = histogram_variant(facts, layout, kind.wide, kind.stats)
        selecting = plain_variant(facts, "select.cl", MOST_ORDERED, capacity=CAPACITY)
        return cls(
            split=bundles_variant(facts, layout, kind.stats) if layout.is_bundled else searching,
            search=searching,
            select=replace(selecting, each=MOST_ORDERED // selecting.threads),
            histogram=summing,
            plan=plain_variant(facts, "plan.cl", PLANNING_THREADS, words=summing.words),
            partition=partition_variant(facts, layout, kind),
            choose=plain_variant(facts, "choose.cl", CHOOSE_THREADS, bundled=layout.is_bundled),
        )


@dataclass(frozen=True, slots=True)
class RowKernels:
    """The kernels that sum and move the rows of one kind of tree, and how they are launched."""

    zero: Kernel
    histogram: Kernel
    partition: Kernel | OrderedPartition
    partition_tile: int
    n_passes: int  # of the histogram kernel over the rows
    groups_a_pass: int

    @classmethod
    def load(cls, runtime: Runtime, layout: Layout, kind: TreeKind) -> RowKernels:
        """Compile what rows need, or find it compiled."""
        return cls(**cls._of_rows(runtime, layout, kind))

    @staticmethod
    def _of_rows(runtime: Runtime, layout: Layout, kind: TreeKind) -> dict[str, Any]:
        """Return the fields that are named here."""
        kernel, facts = runtime.kernel, runtime.facts
        summing, local_bytes = histogram_variant(facts, layout, kind.wide, kind.stats)
        moving = partition_variant(facts, layout, kind)
        n_passes = max(1, layout.n_tiles * (layout.tile_words // summing.words if summing.words else 1))
        return {
            "zero": kernel("zero_kernel", summing),
            "histogram": kernel("histogram_kernel", summing, local_bytes),
            "partition": (
                OrderedPartition.load(runtime, moving) if moving.in_order else kernel("partition_kernel", moving)
            ),
            "partition_tile": moving.threads * moving.each,
            "n_passes": n_passes,
            "groups_a_pass": groups_a_pass(facts.compute_units * summing.resident, n_passes),
        }


@dataclass(frozen=True, slots=True)
class TreeKernels(RowKernels):
    """The kernels of one kind of tree that grows on one device."""

    subtract: Kernel
    split: Kernel
    choose: Kernel
    plan: Kernel
    select: Kernel
    n_pieces: int  # of a node that split.cl searches by themselves

    @classmethod
    def compile(cls, runtime: Runtime, layout: Layout, kind: TreeKind) -> TreeKernels:
        """Compile what a tree needs, or find it compiled."""
        kernel = runtime.kernel
        files = TreeVariants.of(runtime.facts, layout, kind)
        runtime.compile_soon(files)
        return cls(
            **cls._of_rows(runtime, layout, kind),
            subtract=kernel("subtract_kernel", files.search),
            split=kernel("split_bundles_kernel" if layout.is_bundled else "split_kernel", files.split),
            choose=kernel("choose_kernel", files.choose),
            plan=kernel("plan_kernel", files.plan),
            select=kernel("select_kernel", files.select),
            n_pieces=layout.n_pieces,
        )


@dataclass(frozen=True, slots=True)
class SummedTree:
    """What the rows of the tree at hand are summed and moved with.

    stats    sums of a histogram, 2 or 3: gradients, hessians, rows
    n_slots  of the histogram pool
    """

    kernels: RowKernels
    stats: int
    n_slots: int


@dataclass(frozen=True, slots=True)
class GrowingTree(SummedTree):
    """What a tree that grows on one device is made with.

    hessians_count  every hessian is 1, so that their sums count rows
    """

    kernels: TreeKernels
    quantization: Quantization
    hessians_count: bool

    @property
    def counts_rows(self) -> bool:
        """Whether histograms tell the rows of a bin."""
        return self.stats == 3 or self.hessians_count

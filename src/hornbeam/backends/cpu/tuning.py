"""Every measured constant of the CPU backend, in one table.

None of them can be seen in a model: they say how work is cut, where bins are kept, and which of several ways to the
same sums is taken. An engine takes a `Tuning` and hands it to its parts; what belongs to no engine (binning,
prediction, metrics) asks `in_use()`. Tests cut work finely with `tuned(...)`.

Costs are nanoseconds of one thread and rough: they choose between ways, so their ratios matter, not their size. Where
no machine is named the figure comes from two virtual CPUs of a Neoverse-N1 or a Xeon, and from benchmarks/.

What a compiled loop must know when it is compiled stays beside its kernel: the bounds that proofs rest on
(`PACKED_ROWS` in rows/counters.py, `SCORED` and `MARGIN` in splits/candidates.py), the lengths of tiles and
unrolled loops, and how long waiting threads look around (host/team.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Tuning:
    """The measured constants; the defaults are the measurements."""

    # --- teams (host/team.py) -----------------------------------------------------------------------------------------

    team_cpus: int = 0
    """Largest team; 0: as many as there are CPUs, since threads that share one wait for each other too long."""
    spare_cpu_from: int = 8
    """Of as many CPUs one is left to everything else: if the system takes one from a team, all of its threads wait."""
    waking_ns: float = 20_000
    """To wake one more thread of a team."""
    thread_work_ns: float = 400_000
    """Work that a thread of a team should have: on a busy machine, waiting costs more."""

    # --- how many items a second thread is worth waking for, about 60 microseconds of work ----------------------------

    thread_ns: float = 60_000
    """Work of nodes that are expanded in one go."""
    gradient_rows_per_thread: int = 8192
    ranking_pairs_per_thread: int = 20_000
    metric_queries_per_thread: int = 200
    rounded_rows_per_thread: int = 8192
    drawn_rows_per_thread: int = 16_384
    copied_rows_per_thread: int = 20_000
    """Rows whose chosen columns are copied side by side."""
    turned_cells_per_thread: int = 1 << 17
    """Bins that are written once more, one feature's in a row."""
    divided_rows_per_thread: int = 8192
    listed_rows_per_thread: int = 32_768
    """Rows of sparse nodes that are divided, and records that are told their places."""
    updates_per_thread: int = 60_000
    """(row, feature) updates of histograms."""
    merged_bins_per_thread: int = 1 << 14
    subtracted_bins_per_thread: int = 1 << 15
    searched_bins_per_thread: int = 20_000
    searched_bins_in_team: int = 5_000
    """The same where a team comes again and again, and its threads are awake: workers (4.2 milliseconds of a tree of
    255 leaves on 4 threads, 5.3 with the figure above)."""
    context_bins_per_thread: int = 5_000
    """Bins that are searched in contexts: every candidate gets its gain."""
    level_bins_per_thread: int = 2_000
    summed_rows_per_thread: int = 16_384
    """Rows whose leaves are summed, and whose scores are updated."""
    assigned_rows_per_thread: int = 131_072
    """More, since the rows of a leaf lie everywhere: threads that write their numbers take each other's cache lines."""
    routed_rows_per_thread: int = 1024
    routed_sparse_rows_per_thread: int = 512
    renewed_rows_per_thread: int = 32_768
    fitted_rows_per_thread: int = 2_048
    """Rows that linear leaves are fitted to."""

    # --- rows (growth/rows) -------------------------------------------------------------------------------------------

    ordered_bytes_per_row: int = 512
    """Rows up to this long travel with their records. On a Neoverse-N1 (benchmarks/histogram.py) moving still wins by
    4% at 500 bytes, and by far at 28."""
    ordered_smallest_bytes: int = 2 << 20
    """Bins of fewer bytes stay in the cache and are fetched by row number."""
    travelling_levels: float = 9
    """Whole trees of 2**n leaves let bins travel where n is as large. The rows of a node are in their order or the
    reverse, so those of a large one lie close to each other. To fetch a row of 28 bytes takes 4 nanoseconds at the
    fifth level of 100,000 rows, 10 of 1,000,000 and 20 of 8,000,000, for the third of them that is summed; to move one
    takes 8 to 13, for all."""
    smallest_piece: int = 16_384
    """Rows; a node is only cut where a piece outweighs what its extra histogram or counting pass costs."""
    pieces_per_thread: int = 4
    """More pieces balance better, fewer save histograms to add up."""

    # --- histograms ---------------------------------------------------------------------------------------------------

    counters_at_once: int = 8192
    """Packed counters in use at a time: 64 KB, the first-level cache of most cores. Wider data takes several passes."""
    lanes_at_once: int = 1 << 18
    """Counters of 32 bits in use at a time where all outputs share a tree: 1 MB, a second-level cache. A row of 28
    features in 16 lanes takes 1.7 to 3.1 nanoseconds a feature when all are added at once, 2.7 to 5.6 four at a time
    (Xeon at 2.5 GHz)."""
    rows_in_cache: int = 4096
    """Rows that are divided and summed while their bins are in the cache (growth/dense/single_pass.py): 256 KB of its
    lines, where each row has one. 20,000,000 x 28 on 16 cores of a Xeon: 0.25 seconds a tree, 0.26 with 1024."""
    most_counters_in_pass: int = 1 << 15
    """Packed counters that are in use beside these rows: 256 KB."""
    passing_threads: int = 4
    """Threads from which on large data in memory are read in such passes, instead of moving their bins. A tree of 255
    leaves, 255 by depth, and 31 leaves took 16 cores 0.53, 0.50 and 0.33 s on 20,000,000 x 28 (0.61, 0.60, 0.43 when
    bins moved), 0.29, 0.25 and 0.17 s on half of them (0.35, 0.29, 0.22); and 4 cores 0.44, 0.46, 0.37 (0.56, 0.48,
    0.35)."""
    codes_at_once: int = 16_384
    """The same for columns of sparse data: 128 KB. Most rows have the default code of a bundle, so that few counters
    are in the first-level cache all the same."""
    counter_bytes: int = 1 << 29
    """Memory for the counters of all threads on sparse data; with many bins fewer threads have some."""
    bins_per_thin_entry: float = 4
    """A sparse node is thin with fewer than one entry for as many bins."""
    thin_team: float = 4
    """In larger teams nodes must be smaller by as much to be thin: each thread looks at all of their rows."""
    packed_rows: int = 65_536
    """Rows that a team adds to packed counters at a time; no more than PACKED_ROWS."""

    # --- rounds: nodes that are expanded in one go, each by one thread ------------------------------------------------

    dense_round_row_ns: float = 8
    dense_round_update_ns: float = 0.5
    dense_round_bin_ns: float = 12
    """To move a row, to update a histogram, and to unpack, subtract and search a bin."""
    dense_steps_ns: float = 1_500_000
    """A round in steps costs some 700 microseconds more than in one go, so a node must be more work than this to be
    cut."""
    sparse_steps_ns: float = 60_000_000
    """The same by the number of threads. With two threads steps take longer than one thread alone takes for nodes of up
    to 20 milliseconds."""

    # --- whole trees on dense data ------------------------------------------------------------------------------------

    most_leaves: int = 1024
    """The best node is found by looking at all of them."""
    most_cells: int = 1 << 30
    """Rows times features: the copy of the bins in columns takes as many bytes. Whole trees of 255 leaves on 16 cores,
    beside rounds: 473,134 x 700 1.39 times as fast, 2,000,000 x 136 1.43, 10,000,000 x 28 1.14."""
    most_mapped_cells: int = 1 << 26
    """The same of bins in a mapped file: who has these there has no memory for a copy."""
    most_narrow_gradients: int = 2**31 - 1
    most_narrow_hessians: int = 2**32 - 1
    most_wide_sums: int = 2**37
    """Largest sums that running sums of 32 and of 64 bits stand for (growth/dense/running_sums.py): never more."""
    rows_at_once: int = 65_536
    """Most rows of data on which the trees of all outputs are grown in one call: Python takes 0.2 milliseconds a tree
    otherwise, a tree on as many rows several. On 100,000 x 28 the call took one thread 17.1 ms at depth 6, and 15.5
    without it; two threads took 11.0 and 11.2."""
    rows_at_once_by_team: int = 131_072
    """The same where there are several threads: Python would be waited for by all."""
    nodes_at_once_bytes: int = 1 << 26
    """Most memory for the nodes of these trees."""
    rounds_ns: float = 500_000
    """What rounds cost a tree of 2**n leaves, n times, besides the work that threads share."""
    rounds_work: float = 1.4
    """How much more there is to do in rounds, in sums of 64 bits, on the average of 20 to 100 features."""
    look_cost: float = 2.0
    """How much longer it takes to look at a row than to put a bin of another thread together."""
    large_share: float = 0.5
    """Where trees grow by depth, all threads share a node that is, times their number, more than this part of what is
    left to do at its depth. So equal nodes are a thread's own if there are two or more for each."""
    shared_bytes: int = 1 << 26
    """Largest memory for threads that share the rows of a node."""
    dense_row_ns: float = 2
    dense_update_ns: float = 1
    dense_bin_ns: float = 2
    dense_level_ns: float = 45
    """To move a row, to update a histogram, and for a bin and for a level of a categorical feature of a node."""
    dense_added_again: float = 0.3
    """Share of the rows that are in the smaller child, at each of n levels of a tree of 2**n leaves."""

    # --- sparse data --------------------------------------------------------------------------------------------------

    entry_cost: float = 8
    code_cost: float = 0.5
    """Listed rows that take as long as to ask one row of a node: by bisection of its entries, or by its code."""
    first_chunk: int = 64
    largest_chunk: int = 1024
    """Candidates of a chunk: few at first, since the gain they are held against is low then; more each time."""
    exact_rows: int = 1 << 22
    """Rows whose sums have 53 bits at most, since gradients and hessians have 31: never more."""
    sparse_listed_ns: float = 5
    sparse_row_ns: float = 40
    sparse_entry_ns: float = 6
    sparse_bin_ns: float = 5
    """A row in a list; a row and an entry that are summed; a bin that is unpacked, subtracted and searched."""
    sparse_added_again: float = 0.15
    """See dense_added_again: splits of sparse features are lopsided."""
    meeting_ns: float = 400
    """What one more thread costs a split: to meet."""
    few_rows: int = 256
    """Rows that one thread asks, or finds in lists, sooner than several can meet."""
    lists_team: int = 6
    """Lists are gone through together by this many threads or more: records wander between the caches then, and two
    threads take 85 nanoseconds for each row that leaves where one takes 32 (Neoverse-N1)."""
    share_feature_ns: float = 25
    share_bin_ns: float = 12
    share_level_ns: float = 60
    """A feature, a bin, and a level of a categorical feature, in a split: by these threads share the features."""
    added_ns: float = 4
    merged_ns: float = 1.5
    """To add an entry or code of a row, and to merge a counter of one thread."""

    # --- binning ------------------------------------------------------------------------------------------------------

    sampled_cells: int = 1 << 23
    """Sampled values held at once while bins are found (32 or 64 MB): wide tables are taken a few columns at a time."""
    compiled_bounds_cells: int = 1 << 21
    """Sampled values from which on a kernel finds the bounds, threads side by side, where Numba must compile it first.
    Once it is there it takes a twelfth of NumPy's time: 30 features of 569 values 1.7 ms instead of 20."""
    loaded_bounds_cells: int = 1 << 24
    """The same where Numba is not loaded yet, which takes a second, and may have to compile the kernel. NumPy finds the
    bounds of 28 features in 100,000 values each in 0.14 s."""
    coded_cells: int = 1 << 19
    """Values coded a call: where a block must be copied (other dtypes, frames) it stays small, in megabytes."""
    converted_values: int = 1 << 20
    """Values of sparse tables of another dtype that are converted at a time."""
    mostly_zeros_share: float = 0.1
    """A dense table with a larger share of values that are not zero stays as it is: an entry takes 8 bytes, a bin takes
    one."""
    mostly_zeros_rows: int = 1000
    """Rows that this share is estimated from."""

    # --- prediction ---------------------------------------------------------------------------------------------------

    read_code_bytes: int = 256 * 1024
    """Codes of the rows that are read at a time: a quarter of a second-level cache of 1 MB."""
    read_cells: int = 1 << 20
    """Most cells that are read as float64 at a time: 8 MB a thread, where the forest looks at few of many columns."""


_in_use = Tuning()


def in_use() -> Tuning:
    """Return the table that engines take unless they are given another."""
    return _in_use


@contextmanager
def tuned(**changes: Any) -> Iterator[Tuning]:
    """Let everything that begins within be tuned otherwise: for tests."""
    global _in_use
    before = _in_use
    _in_use = replace(before, **changes)
    try:
        yield _in_use
    finally:
        _in_use = before

"""What growth asks of the rows and histograms of a tree: one name here, one kernel for each kind of data.

Dense and sparse data differ in how a row's bin is looked up, how rows are moved and how they are summed. Everything
else is written once and calls these names; `kernels_by_kind` (host/kernels.py) puts in the kernel for the type of
`rows` or `sums` when the caller is compiled. The kernels are in dense/ and sparse/.

    rows   DenseRows or SparseRows: the rows of a tree
    sums   DenseSums, DensePairs or SparseSums: histograms, and how threads make them
    t      number of a thread in its team, 0, 1, ...; crew: the team (host/team.py)
    node   splits.rules.Node; small, child and `node` of divide: records of dtypes.NODE
"""

from __future__ import annotations

from typing import Any


def count_bins(rows: Any, f: int, node: Any, counts: Any) -> None:
    """Count the rows of a node in every bin of feature f; counts, int64 (n_bins of the feature,), out."""
    raise NotImplementedError


def count_all(rows: Any, node: Any, counts: Any) -> bool:
    """Count the rows of a node in every bin of every feature, if that is quicker than one feature at a time.

    counts  int64 (n_total_bins,)  out

    Returns False where nothing was counted.
    """
    raise NotImplementedError


def divide(t: int, crew: Any, rows: Any, node: Any, goes_left: Any, turn: int) -> tuple[int, bool]:
    """Do one thread's part of moving the rows of a node to its children's places.

    goes_left  uint8 (n_bins,)  in   which bins of the split's feature go left, the missing bin last
    turn       0 and 1 in turn, from split to split: threads may still read what the last split has written

    Returns how many rows went left, -1 if a thread has failed; and whether rows are still being copied, see
    sparse/partition.py.
    """
    raise NotImplementedError


def sum_smaller(
    t: int, crew: Any, rows: Any, sums: Any, small: Any, spare: int, kept: int, wanted: Any, moving: bool
) -> bool:
    """Do one thread's part of summing the rows of the smaller child, and of subtracting them from the larger one.

    spare, kept  slots of the smaller child, which is empty, and of the larger one, which has the sums of both; -1:
                 there is none
    wanted       (bool, bool): whether the smaller and the larger child are to be searched
    moving       see divide

    Returns False if a thread has failed.
    """
    raise NotImplementedError


def search_child(
    t: int,
    rows: Any,
    sums: Any,
    categories: Any,
    child: Any,
    slot: int,
    less: int,
    set_number: int,
    rules: Any,
    split: Any,
) -> None:
    """Find the best split of a child among the features of one thread.

    categories  splits.levels.Categories; None: no feature is categorical
    slot, less  slot of the child; that of its smaller sibling, whose sums the slot may have in it still; -1: it has not
    set_number  where the set of a categorical split is written, from the first set of the tree on
    split       SPLIT ()  out
    """
    raise NotImplementedError

"""What a backend has to provide: six subjects, about thirty operations, on data that stays on its device.

A backend makes an `Engine` for one training set. The engine owns the bins, the scores and the gradients; the growth
loop (grower.py) only sees node tables, split records and integer sums. `reference` is the living definition of every
operation; all others are compared with it with `==` (testing/checks.py).

    Scores       raw scores of the training set and of validation sets
    Gradients    gradients of the scores; which rows and features the next tree sees; rounding to fixed point
    Growth       histograms, splits, partition: one operation at a time, or whole rounds and trees
    OutputGrowth what a tree needs besides that all outputs share
    Leaves       which leaf a row is in, and the values of leaves
    Evaluation   metrics and functions of the user's own, where the scores are

An engine that trains with other workers wraps one of these for its rows (distributed/engine.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.fixed_point import Quantization
from hornbeam.data.binning import BinnedData
from hornbeam.data.columns import DeviceColumn
from hornbeam.data.fields import Fields
from hornbeam.metrics.base import Metric
from hornbeam.objectives.base import Objective
from hornbeam.trees.bagging import Draw, Goss
from hornbeam.trees.frontier import GrowthLimits
from hornbeam.trees.output_splits import OutputsRoot, SharedAhead
from hornbeam.trees.records import (
    BinnedTree,
    ChosenRows,
    ContextsAhead,
    FinishedTree,
    ForestMean,
    GrownAhead,
    LeafRenewal,
    LeavesLater,
    Root,
    Segments,
)
from hornbeam.trees.splitting import NodeContext, SplitRules


class ArrayExchange(Protocol):
    """Scores and gradients as arrays of the device (CuPy's), for functions of the user's own: device_functions.py.

    Arrays have the shapes that functions take: (n_rows,), or (n_rows, n_outputs) with several outputs.
    """

    @property
    def xp(self) -> ModuleType:
        """The module of the arrays."""

    @property
    def device(self) -> str:
        """Where they are, "cuda:0"."""

    def scope(self) -> AbstractContextManager[None]:
        """Return what functions are called in: their work is in order with the engine's."""

    def scores(self) -> Any:
        """Return a copy of the training scores, float64; within `scope`."""

    def predictions(self, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None) -> Any:
        """Return `objective.transform` of the scores of a validation set, or of the training set: `valid` is -1.

        Not within `scope`; other arguments as for Engine.evaluate.
        """

    def array(self, values: Any, name: str) -> Any:
        """Return anything like an array as an array of the device; within `scope`.

        Raises TypeError or ValueError where that cannot be, DeviceError for an array of another device.
        """

    def column(self, name: str, valid: int, values: NDArray[Any] | DeviceColumn) -> Any:
        """Return labels, weights and the like of a data set on the device, brought there once; within `scope`."""

    def set_gradients(self, gradient: Any, hessian: Any) -> None:
        """Take gradients and hessians, float64, finite, on the device; within `scope`."""


class Scores(Protocol):
    """Raw scores, float64 (n_outputs, n_rows), of the training set and of validation sets."""

    def set_scores(self, scores: NDArray[np.float64], valid: int = -1) -> None:
        """Set the raw scores, float64 (n_outputs, n_rows), of the training set or of a validation set."""

    def scores(self) -> NDArray[np.float64]:
        """Return the raw scores, float64 (n_outputs, n_rows); not to be written to."""

    def add_leaf_values(self, output: int, leaf_value: NDArray[np.float64] | None) -> None:
        """Add to each row's score the value of its leaf; None: the one that leaf_values_later has computed."""

    def add_row_values(self, output: int, values: NDArray[np.float64], valid: int = -1) -> None:
        """Add a value to the score of every row, of a worker its own, of a validation set or of the training set.

        values  float64 (n_rows,)  in
        """

    def add_valid(self, binned: BinnedData, scores: NDArray[np.float64]) -> int:
        """Keep a validation set binned like the training set, with its scores; return its number."""

    def add_tree(self, valid: int, output: int, tree: BinnedTree) -> None:
        """Add a tree's values to the scores of a validation set, or of the training set: `valid` is -1."""

    def valid_scores(self, valid: int) -> NDArray[np.float64]:
        """Return the scores of a validation set, float64 (n_outputs, n_rows)."""


class Gradients(Protocol):
    """Gradients and hessians at the scores, and the part of them that the next tree sees."""

    n_rows: int

    def compute_gradients(
        self, objective: Objective, label: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> None:
        """Compute gradients and hessians of all outputs from the scores."""

    def set_gradients(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> None:
        """Take gradients and hessians that were computed elsewhere, float64 (n_outputs, n_rows)."""

    def read_gradients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gradients and hessians in host memory, each float64 (n_outputs, n_rows); not to be written to."""

    def choose_rows(self, draw: Draw | Goss | None) -> int:
        """Choose the rows of the trees to come (bagging.py), None: all, and return their number.

        Whatever follows up to `leaf_sums` sees these rows alone. GOSS looks at the gradients.
        """

    def choose_features(self, features: NDArray[np.int32] | None) -> None:
        """Choose the features that the trees to come may use, None: all; to be called before `quantize`.

        features  int32 (n,)  in  positions among the used features, ascending

        Splits name features by their position among all used ones, as ever.
        """

    def quantize(self, output: int, high_precision: bool) -> Quantization:
        """Round the gradients of one output to fixed point, see fixed_point.py."""


class Steps(Protocol):
    """The operations that a round of growth is made of (steps.py)."""

    def partition(self, nodes: Segments, splits: NDArray[np.void]) -> NDArray[np.int64]:
        """Move the rows of each node to its children's places: left from begin on, right up to end.

        Returns the number of rows that went left, int64 (n_nodes,).
        """

    def build_histograms(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum gradients and hessians per (node, feature, bin) into the nodes' slots."""

    def subtract(self, parent_slots: NDArray[np.int32], child_slots: NDArray[np.int32]) -> None:
        """Replace each parent's histogram by parent - child: that of the other child."""

    def find_splits(
        self,
        nodes: Segments,
        slots: NDArray[np.int32],
        gradient: NDArray[np.int64],
        hessian: NDArray[np.int64],
        rules: SplitRules,
        context: NodeContext | None = None,
    ) -> NDArray[np.void]:
        """Find the best split of each node from its histogram; gradient and hessian are the nodes' sums.

        context  what the search must know of each node besides, see splitting.py; None: nothing

        Returns dtypes.SPLIT (n_nodes,); gain is -inf where no split is allowed. A split of a categorical feature has in
        the place of its bin the number of its set: node i of the k-th call for a tree has the number of nodes of the
        calls before, plus i. The engine keeps the sets until the next tree begins.
        """


class Growth(Steps, Protocol):
    """The tree that is growing: rows, histograms, splits."""

    rounds_are_costly: bool
    """Whether a round more costs more than some per cent of wasted rows: see frontier.next_batch."""
    nodes_are_costly: bool
    """Whether a node more costs more than a round."""
    slot_bytes: int
    """Bytes of one histogram."""

    def begin_tree(self, n_slots: int) -> Root:
        """Start a tree on all chosen rows, with room for n_slots histograms, or for fewer: see Root."""

    def left_sets(self, numbers: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return the bins that go left at categorical splits of the growing tree.

        numbers  int32 (n,)  in  as in the splits' records
        returns  uint32 (n, BinnedData.set_words), bits as in tree.code_bits
        """

    def expand(
        self, batch: NDArray[np.void], rules: SplitRules, max_depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Do a whole round: partition the nodes, get their children's histograms, and find the children's splits.

        batch  dtypes.EXPANSION (n_nodes,)  in

        The same as the operations of Steps in sequence (steps.expand_in_steps), for engines that do better in one go.
        The child with fewer rows, or the left one of equals, gets the spare slot, the other one its parent's.

        Returns the number of rows that went left, int64 (n_nodes,), and the best splits of both children, dtypes.SPLIT
        (n_nodes, 2); the gain is -inf where a child cannot be split (splitting.can_split).
        """

    def grow_ahead(
        self,
        root: NDArray[np.void],
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        contexts: ContextsAhead | None = None,
        renewal: LeafRenewal | None = None,
    ) -> GrownAhead | None:
        """Expand nodes for as many rounds as the engine likes, without the host choosing them.

        root           dtypes.NODE (1,)  in  without a split yet, and without a histogram; that goes to slot 0
        learning_rate  for the values of the leaves, if the engine goes on to these; None: it must not
        meanwhile      work for the host, to be done while the device is busy
        contexts       what the contexts of the nodes are made by; None: they have none
        renewal        what the values of the leaves come from; None: they are those of leaf_values_later

        Returns None where nothing was done. Whatever was expanded, the grower goes on until the tree is complete, and
        cuts back what is too much. A tree that grows in turn (ContextRules.in_turn) is grown one split at a time until
        it is complete, as growth_in_turn.py does it, or not at all.
        """

    def grow_outputs(
        self, rules: SplitRules, limits: GrowthLimits, n_slots: int, learning_rate: float
    ) -> Sequence[FinishedTree | None]:
        """Grow a tree for each output on the gradients, all rows and all features, and add it to the scores, at once.

        What `quantize`, `begin_tree`, `grow_ahead` and `add_leaf_values` do for each output. Returns a tree for each
        output, or None where it was left alone: it has to be grown by these; nothing where all were.
        """

    def replay(self, nodes: NDArray[np.void], limits: GrowthLimits) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Cut evaluated nodes back to the tree: replay.py has the definition.

        nodes  dtypes.NODE (n_nodes,)  in
        """


class OutputGrowth(Protocol):
    """A tree that all outputs share (output_splits.py); partition, subtraction and leaves are those of other trees."""

    def begin_outputs(self, n_slots: int, high_precision: bool, min_data_in_leaf: int) -> OutputsRoot:
        """Round the gradients of all outputs, and start one tree for them on all chosen rows.

        n_slots  nodes whose histograms there shall be room for
        """

    def grow_shared(
        self,
        table: NDArray[np.void],
        root: OutputsRoot,
        rules: SplitRules,
        limits: GrowthLimits,
        learning_rate: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> SharedAhead | None:
        """Grow the tree as far as is quicker than by the operations below; None: not at all.

        table                     dtypes.NODE (1,)  in  the root, which has the sums of all outputs together
        learning_rate, meanwhile  as in grow_ahead

        Histogram k of a node in slot s has the slot s * n_histograms + k.
        """

    def build_outputs(self, nodes: Segments, slots: NDArray[np.int32]) -> None:
        """Sum every histogram of each node into its slot.

        slots  int32 (n_nodes, n_histograms)  in  those of the outputs, and perhaps one that counts rows
        """

    def find_output_splits(
        self, nodes: Segments, slots: NDArray[np.int32], sums: NDArray[np.int64], rules: SplitRules
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Find the best split of each node from its histograms; see output_splits.best_output_split.

        slots  int32 (n_nodes, n_histograms)   in
        sums   int64 (n_nodes, n_outputs, 2)   in  of the nodes

        Returns dtypes.SPLIT (n_nodes,), whose sums mean nothing, and those of the left sides, int64 (n_nodes,
        n_outputs, 2).
        """

    def choose_output(self, output: int) -> None:
        """Choose the output that `leaf_sums` and `leaf_values_later` are of, after `assign_leaves`."""


class Leaves(Protocol):
    """The leaf of every row, and the sums that the values of leaves come from."""

    def assign_leaves(self, nodes: Segments, leaves: NDArray[np.int32]) -> None:
        """Note for every row of every node its leaf number; together the nodes own all chosen rows."""

    def find_other_leaves(self, tree: BinnedTree) -> None:
        """Note the leaf numbers of the rows that were not chosen: they go down the finished tree."""

    def chosen_rows(self) -> ChosenRows:
        """Return the rows that the tree was grown on, and the gradients that it was grown on, before their rounding."""

    def row_leaves(self) -> NDArray[np.uint16]:
        """Return the leaf of every row, uint16 (n_rows,), as noted; not to be written to.

        Before `find_other_leaves` that of a row that was not chosen may be any. Of a worker its own rows.
        """

    def leaves_in(self, valid: int, tree: BinnedTree) -> NDArray[np.uint16]:
        """Send the rows of a validation set, of a worker its own, down a tree; return their leaves, uint16."""

    def leaf_sums(self, n_leaves: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum gradients and hessians per leaf, with the precision that 62 bits leave (fixed_point.exact_exponent)."""

    def renew_leaves(
        self,
        output: int,
        percentile: float,
        label: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        n_leaves: int,
        logcosh: bool = False,
    ) -> NDArray[np.float64]:
        """Return a percentile of label - score over each leaf's rows, float64 (n_leaves,), see percentiles.py.

        label, weight  float64 (n_rows,)  in  from Objective.prepare and Objective.renewal_weights
        logcosh        go on from the percentile, the median, to the minimum of log(cosh): see logcosh_leaves.py
        """

    def leaf_values_later(self, n_leaves: int, rules: SplitRules, learning_rate: float) -> LeavesLater | None:
        """Compute splitting.leaf_output of the leaf sums, times the learning rate, where the rows are.

        Returns what fetches values and hessian sums when they are needed on the host, or None: the engine does no such
        thing, and the host computes the values from leaf_sums.
        """


class Evaluation(Protocol):
    """Metrics, and functions of the user's own, where the scores are."""

    @property
    def arrays(self) -> ArrayExchange | None:
        """Scores as arrays of the device; None: they are in host memory, or on a device that has no such arrays."""

    def evaluate(
        self, metric: Metric, objective: Objective, dataset: Fields, valid: int, forest: ForestMean | None = None
    ) -> list[tuple[str, float]] | None:
        """Evaluate a metric on the engine's scores of a validation set, or of the training set: `valid` is -1.

        dataset  what the scores are of
        forest   how scores are made of the engine's sums of trees; None: they are the scores

        Returns the bits that `Metric.evaluate` has for these scores, or None: the engine has no kernel for the metric,
        or the scores are in the host's memory anyway.
        """


class Engine(Scores, Gradients, Growth, OutputGrowth, Leaves, Evaluation, Protocol):
    """Training state on one device: one training set, its scores, and the tree that is growing."""

    device_name: str
    """Where it is, "cpu" or "cuda:0": labels, weights and initial scores may be `DeviceColumn`s of this device."""
    host_device: str
    """Where the host does what the engine leaves to it: "cpu", compiled kernels, or "reference", NumPy alone."""
    has_own_memory: bool
    """Whether it has memory of its own, as a GPU has, that a limit may be set for."""

    def gather(self, figures: NDArray[Any]) -> NDArray[Any]:
        """Return the figures of every worker, (n_workers, n), the same on all of them; who has all rows is alone."""

    def close(self) -> None:
        """Free what the engine holds on its device."""

"""How long work takes on a CPU and on a GPU, roughly: device="auto" takes what is expected to be done first.

The choice cannot be seen in a result, so a wrong guess costs time and nothing else. Rates are round numbers near what
`benchmarks/auto_device.py` measured on 2 and on 16 cores and on an H200 of 132 compute units (docs/dev/benchmarks.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hornbeam.trees.frontier import most_leaves

if TYPE_CHECKING:
    from hornbeam.params.params import Params

CPU_UPDATES = 7e8
"""Histogram updates, of a row and a feature, that a CPU thread does a second."""

CPU_SEARCH = 1e-6
"""Seconds that a CPU thread searches the bins of a feature in a node."""

THREADS_GAIN = 0.6
"""n threads are this power of n times as fast as one: they share memory and wait for one another."""

CPU_ROUND = 1e-4
"""Seconds that each thread adds to a round, of which a tree has a few more than levels; one alone has no rounds."""

GPU_UPDATES = 4e9
"""The same of a compute unit."""

GPU_TREE = 1e-3
"""Seconds that a tree takes on a GPU at least: launches one after the other."""

GPU_START = 0.5
"""Seconds until a GPU begins: its library and driver are loaded, and compiled kernels are read from disk."""

UPLOAD = 5e8
"""Values a second on their way to a GPU."""

CPU_PAIRS, GPU_PAIRS = 1.5e7, 1.5e8
"""Pairs of a row and a tree in prediction, of a CPU thread and of a compute unit, a second."""

CPU_EXPLAINED, GPU_EXPLAINED = 8e7, 8e8
"""Pairs of a row and a split in explanations, of a CPU thread and of a compute unit, a second."""


class Work(Protocol):
    """Something to be done on one device or another."""

    def cpu_seconds(self) -> float:
        """Return how long a CPU takes."""

    def gpu_seconds(self, compute_units: int) -> float:
        """Return how long a GPU of so many compute units takes, from its start on."""


@dataclass(frozen=True, slots=True)
class TrainingWork:
    """A training.

    n_trees     of all iterations and outputs
    is_there    the data are on the GPU already, so that it has been started
    """

    n_rows: int
    n_features: int
    n_trees: int
    n_leaves: int
    n_threads: int
    is_there: bool = False

    @classmethod
    def of(cls, n_rows: int, n_features: int, params: Params, is_there: bool = False) -> TrainingWork:
        """Say what a training on so many rows and features will be, as far as the parameters tell."""
        from hornbeam.core.cpus import resolve_threads

        n_trees = params.num_iterations * max(1, params.num_class)
        n_leaves = most_leaves(params, n_rows)
        return cls(n_rows, n_features, n_trees, n_leaves, resolve_threads(params.num_threads), is_there)

    def updates(self) -> float:
        """Return the histogram updates of a tree: rows of the root, and half of them at each of the levels below."""
        return self.n_rows * self.n_features * (1.0 + 0.5 * math.log2(max(2, self.n_leaves)))

    def cpu_seconds(self) -> float:
        """Return how long a CPU takes."""
        alone = self.updates() / CPU_UPDATES + 2 * self.n_leaves * self.n_features * CPU_SEARCH
        n_rounds = 4 + math.log2(max(2, self.n_leaves))
        together = n_rounds * self.n_threads * CPU_ROUND + alone / math.pow(self.n_threads, THREADS_GAIN)
        return self.n_trees * min(alone, together)

    def gpu_seconds(self, compute_units: int) -> float:
        """Return how long a GPU takes."""
        begin = 0.0 if self.is_there else GPU_START + self.n_rows * self.n_features / UPLOAD
        return begin + self.n_trees * (GPU_TREE + self.updates() / (GPU_UPDATES * max(1, compute_units)))


@dataclass(frozen=True, slots=True)
class PredictionWork:
    """A prediction for data in host memory."""

    n_rows: int
    n_features: int
    n_trees: int
    n_threads: int

    def cpu_seconds(self) -> float:
        """Return how long a CPU takes."""
        return self.n_rows * self.n_trees / (CPU_PAIRS * self.n_threads)

    def gpu_seconds(self, compute_units: int) -> float:
        """Return how long a GPU takes."""
        begin = GPU_START + self.n_rows * self.n_features / UPLOAD
        return begin + self.n_rows * self.n_trees / (GPU_PAIRS * max(1, compute_units))


@dataclass(frozen=True, slots=True)
class ExplanationWork:
    """Path-dependent contributions for data in host memory; n_splits are those of all trees."""

    n_rows: int
    n_features: int
    n_splits: int
    n_threads: int

    def cpu_seconds(self) -> float:
        """Return how long a CPU takes."""
        return self.n_rows * self.n_splits / (CPU_EXPLAINED * self.n_threads)

    def gpu_seconds(self, compute_units: int) -> float:
        """Return how long a GPU takes."""
        begin = GPU_START + 2.0 * self.n_rows * self.n_features / UPLOAD
        return begin + self.n_rows * self.n_splits / (GPU_EXPLAINED * max(1, compute_units))

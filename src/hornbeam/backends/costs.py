"""How long work takes on a CPU and on a GPU, roughly: device="auto" takes what is expected to be done first.

The choice cannot be seen in a result, so a wrong guess costs time and nothing else. Rates are round numbers near what
docs/benchmarks.md measured: 255 leaves on 1M x 28 take two CPU threads 0.1 s a tree, and on 10M x 28 an H200 (132
compute units) 3 ms; 500 trees of 255 leaves for 1M rows take two threads 17.5 s on a busy machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hornbeam.params import Params

CPU_UPDATES = 7e8
"""Histogram updates, of a row and a feature, that a CPU thread does a second."""

GPU_UPDATES = 4e9
"""The same of a compute unit."""

GPU_TREE = 1e-3
"""Seconds that a tree takes on a GPU at least: launches one after the other."""

GPU_START = 2.0
"""Seconds until a GPU begins: its library and driver are loaded, and compiled kernels are read from disk."""

UPLOAD = 5e8
"""Values a second on their way to a GPU."""

CPU_PAIRS, GPU_PAIRS = 1.5e7, 1.5e8
"""Pairs of a row and a tree in prediction, of a CPU thread and of a compute unit, a second."""


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
        from hornbeam.backends.cpu.threads import resolve_threads

        n_trees = params.num_iterations * max(1, params.num_class)
        return cls(n_rows, n_features, n_trees, params.num_leaves, resolve_threads(params.num_threads), is_there)

    def updates(self) -> float:
        """Return the histogram updates of a tree: rows of the root, and half of them at each of the levels below."""
        return self.n_rows * self.n_features * (1.0 + 0.5 * math.log2(max(2, self.n_leaves)))

    def cpu_seconds(self) -> float:
        """Return how long a CPU takes."""
        return self.n_trees * self.updates() / (CPU_UPDATES * self.n_threads)

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

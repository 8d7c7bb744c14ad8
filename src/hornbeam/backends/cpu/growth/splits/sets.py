"""The sets of categorical splits, and what the search for them needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.cpu.growth.splits.levels import Categories, LevelRules, LevelScratch
from hornbeam.backends.cpu.growth.splits.rules import NO_COSTS
from hornbeam.backends.cpu.growth.splits.space import Space
from hornbeam.trees.splitting import SplitRules

NO_CONTRIBUTION = np.empty(0)


class LeftSets:
    """The sets of the growing tree.

    sets  uint32 (n_sets, n_words): see engine.Engine.left_sets
    """

    def __init__(self, n_words: int, most_bins: int, n_threads: int) -> None:
        self.sets = np.zeros((64, n_words), np.uint32)
        self.n_sets = 0
        keys, estimated = np.empty((2, n_threads, most_bins))
        levels = np.empty((n_threads, most_bins), np.int64)
        self._scratch = LevelScratch(keys, estimated, levels, np.empty((n_threads, 2, most_bins), np.int64))

    def begin_tree(self) -> None:
        """Forget the sets."""
        self.n_sets = 0

    def reserve(self, n_sets: int) -> int:
        """Make room for some sets and return the number of the first."""
        first, self.n_sets = self.n_sets, self.n_sets + n_sets
        if self.n_sets > len(self.sets):
            more = np.zeros((max(2 * len(self.sets), self.n_sets), self.sets.shape[1]), np.uint32)
            more[:first] = self.sets[:first]
            self.sets = more
        return first

    def categories(
        self,
        space: Space,
        rules: SplitRules,
        n_sets: int,
        mask: NDArray[np.uint32],
        contribution: NDArray[np.float64] = NO_CONTRIBUTION,
        costs: NDArray[np.float64] = NO_COSTS,
    ) -> Categories:
        """Return what kernels take that search nodes with n_sets sets; mask, contribution, costs as in Categories."""
        of, n_numeric = rules.categorical, space.n_numeric
        level_rules = LevelRules(
            of.max_cat_to_onehot, of.max_cat_threshold, of.cat_l2, float(of.min_data_per_group), of.cat_smooth
        )
        first_bin, first_set = int(space.offsets[n_numeric]), self.reserve(n_sets)
        return Categories(
            first_bin, n_numeric, space.offsets[n_numeric:] - first_bin, space.numbers[n_numeric:], level_rules, mask,
            contribution, costs, self.sets, first_set, self._scratch,
        )  # fmt: skip

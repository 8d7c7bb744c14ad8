"""The operations of a GPU engine that give rows, leaf by leaf, to the host and take values from it: linear leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.backends.gpu.growth.routing import upload_tree
from hornbeam.backends.gpu.workspace.workspace import Workspace
from hornbeam.data.binning import BinnedData
from hornbeam.trees.records import BinnedTree, ChosenRows


class RowsOfLeaves:
    """What GpuEngine has of them; it has everything that is named here."""

    if TYPE_CHECKING:
        _bag: Any
        _binned: BinnedData
        _output: int
        _runtime: Any
        _valid: list[Any]
        n_rows: int
        workspace: Workspace
        read_gradients: Any
        scores: Any
        valid_scores: Any

    def chosen_rows(self) -> ChosenRows:
        """Return copies of what the tree was grown on."""
        if not self._bag:
            gradient, hessian = self.read_gradients()
            return ChosenRows(None, gradient[self._output], hessian[self._output])
        n, buffer = self._bag.n_in_bag, self.workspace.buffer
        rows, found = np.empty(n, np.uint32), np.empty((2, n))
        self._runtime.download(buffer("bag"), rows)
        self._runtime.download(buffer("bag gradient"), found[0])
        self._runtime.download(buffer("bag hessian"), found[1])
        return ChosenRows(rows, found[0], found[1])

    def row_leaves(self) -> NDArray[np.uint16]:
        """Return a copy of the leaf numbers."""
        leaf = np.empty(self.n_rows, np.uint16)
        self._runtime.download(self.workspace.buffer("leaf"), leaf)
        return leaf

    def leaves_in(self, valid: int, tree: BinnedTree) -> NDArray[np.uint16]:
        """Route the rows of a validation set."""
        device_tree = upload_tree(self.workspace, tree, self._binned)
        found: NDArray[np.uint16] = self._valid[valid].find_leaves(device_tree, len(tree.feature))
        return found

    def add_row_values(self, output: int, values: NDArray[np.float64], valid: int = -1) -> None:
        """Add on the host: what is added comes from there."""
        scores = self.scores() if valid < 0 else self.valid_scores(valid)
        scores[output] += values
        if valid < 0:
            self._runtime.upload(self.workspace.buffer("scores"), scores)
        else:
            self._valid[valid].write_scores(scores)

"""What a Booster tells of its features: methods that lead to the room `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError
from hornbeam.data.device_arrays import check_device
from hornbeam.data.sources.reader import TableReader
from hornbeam.model.rooms import room
from hornbeam.params.params import BY_NAME


class ExplainedModel:
    """Contributions and importances of features; `Booster` is one."""

    def explain(
        self,
        X: Any,
        background: Any = None,
        *,
        cover: str = "auto",
        start_iteration: int = 0,
        num_iteration: int | None = None,
        num_threads: int | None = None,
        device: str | None = None,
    ) -> Any:
        """Say what every feature adds to the raw score of every row: SHAP values.

        Parameters
        ----------
        X
            Table with the columns that the model was trained on, as for `predict`.
        background
            Rows that features are compared with, with the same columns (interventional SHAP values; some 100 rows are
            usual, and the work grows with them). None: the training rows of each branch say what is usual
            (path-dependent SHAP values).
        cover
            What counts as the size of a branch without background: "count", training rows, as LightGBM; "weight", sums
            of hessians, as XGBoost; "auto", rows where the model knows them, as all do but those read from XGBoost.
        start_iteration, num_iteration, num_threads, device
            As for `predict`.

        Returns
        -------
        shap.Explanation with `values` (n_rows, n_features) or (n_rows, n_features, n_outputs), `base_values`, `data`
        and `feature_names`; `hornbeam.explain.Explanation`, which has the same, where SHAP is not installed.
        """
        reader = self.checked_table(X)
        others = None if background is None else self.checked_table(_some_rows(background), "background")
        iterations = self.chosen_iterations(start_iteration, num_iteration)
        task = self._explained(reader, iterations, num_threads, device, cover, others is not None)
        return room("explain").explain(task, X, others)

    def feature_importance(
        self, importance_type: str = "split", iteration: int | None = None, *, data: Any = None, **choices: Any
    ) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return how much each feature was used.

        Parameters
        ----------
        importance_type
            "split": number of splits, int64 (n_features,). "gain": sum of their gains. "cover": sum of the hessians of
            the rows that come to them. "shap": mean size of the contributions to raw scores in `data`, outputs added.
            "permutation": mean loss of a metric when the feature is shuffled in `data`. float64 (n_features,) but for
            the first.
        iteration
            Use the trees of that many iterations; None: up to the best iteration if there is one, else all.
        data
            For "shap": a table as for `predict`. For "permutation": a Dataset with labels, or a table beside label=.
        choices
            For "shap": cover, num_threads and device, as for `explain`. For "permutation": keywords of
            `hornbeam.explain.permutation_importance`, which returns its spread as well.
        """
        return room("explain").importance_of(self, importance_type, iteration, data, choices)  # type: ignore[no-any-return]

    def to_shap(
        self, *, cover: str = "auto", start_iteration: int = 0, num_iteration: int | None = None
    ) -> dict[str, Any]:
        """Return the model as a dictionary of trees that `shap.TreeExplainer` takes.

        Models of numbers alone: SHAP has no categories there, and `explain` does it for any model. The dictionary
        computes raw scores. Arguments as for `explain`.
        """
        iterations = self.chosen_iterations(start_iteration, num_iteration)
        return room("explain").to_shap(self, iterations, cover)  # type: ignore[no-any-return]

    def _explained(
        self,
        reader: TableReader,
        iterations: tuple[int, int | None],
        num_threads: int | None,
        device: str | None,
        cover: str = "auto",
        has_background: bool = False,
    ) -> Any:
        """Return what the room `explain` works on: an `Explained`."""
        if device is not None:
            device = BY_NAME["device"].check(device)
        if num_threads is not None:
            num_threads = BY_NAME["num_threads"].check(num_threads)
        if reader.device is not None:
            check_device(reader.device, device or reader.device)
            device = device if device in ("cpu", "reference") else reader.device
        n_threads = resolve_threads(self.num_threads if num_threads is None else num_threads)
        chosen = (reader, iterations, n_threads, device or "cpu", cover, has_background)
        return room("explain").explained(self, *chosen)

    def _predict_explained(self, task: Any, data: Any, interactions: bool) -> Any:
        """Return contributions or interactions, as `predict` returns them."""
        explain = room("explain")
        if interactions:
            return explain.predict_interactions(task)
        form = getattr(data, "format", None) if hasattr(data, "tocsr") else None
        return explain.predict_contributions(task, None if form is None else "csc" if form == "csc" else "csr")

    if TYPE_CHECKING:  # what Booster has
        num_threads: int

        def checked_table(self, data: Any, name: str = "data") -> TableReader:
            """Return a reader of a table with the columns of the model."""

        def chosen_iterations(self, start: int, number: int | None) -> tuple[int, int | None]:
            """Return iterations as `Forest.tree_range` takes them."""


def _some_rows(background: Any) -> Any:
    """Refuse a background without rows, and one that is no table."""
    shape = getattr(background, "shape", None)
    n_rows = shape[0] if shape else len(background) if hasattr(background, "__len__") else 1
    if n_rows == 0:
        raise DataError("background has no rows; pass some rows that features are compared with, 100 say, or None")
    return background

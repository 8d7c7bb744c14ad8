"""`Explanation`: values, base values, data and names in one object, as SHAP's plots take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.device_arrays import device_of, host_array
from hornbeam.data.fields import Fields
from hornbeam.data.sources.reader import TableReader
from hornbeam.explain.contributions import Explained, background_expected


@dataclass
class Explanation:
    """What `shap.Explanation` holds, where SHAP is not installed.

    values         float64 (n_rows, n_features), or (n_rows, n_features, n_outputs) with several outputs
    base_values    float64 (n_rows,), or (n_rows, n_outputs)
    data           (n_rows, n_features), as it was explained
    feature_names  one a feature
    output_names   one an output, of several classes; None: they have none
    """

    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    data: Any
    feature_names: list[str]
    output_names: list[str] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        """Return the explanation of some rows."""
        return Explanation(
            self.values[rows], self.base_values[rows], self.data[rows], self.feature_names, self.output_names
        )


def explain(task: Explained, table: Any, background: TableReader | None) -> Any:
    """Explain every row: a `shap.Explanation`, or an `Explanation` where SHAP is not installed.

    table       what the rows were read from, to be shown in plots
    background  rows that features are compared with; None: the trees' covers say what is usual
    """
    if background is None:
        values, base = task.values(range(task.reader.n_rows)), task.expected()
    else:
        values, base = task.values_against(background), background_expected(task, background)
    values = task.all_features(values)
    base_values = np.tile(base, (len(values), 1))
    if task.booster.n_outputs == 1:
        values, base_values = values[:, 0], base_values[:, 0]
    else:
        values = np.ascontiguousarray(values.transpose(0, 2, 1))
    kind = explanation_class()
    return kind(
        values=np.ascontiguousarray(values),
        base_values=np.ascontiguousarray(base_values),
        data=shown(table),
        feature_names=list(task.booster.feature_names),
    )


def explanation_class() -> Any:
    """Return `shap.Explanation`, or ours where SHAP is not installed."""
    try:
        from shap import Explanation as OfShap
    except ImportError:
        return Explanation
    return OfShap


def shown(table: Any) -> Any:
    """Return a table as an array in host memory, dense; plots read its rows and columns."""
    table = table.data if isinstance(table, Fields) else table
    if isinstance(table, TableReader):
        return table.read(0, table.n_rows)
    if device_of(table) is not None:
        return host_array(table)
    if hasattr(table, "toarray"):
        return table.toarray()
    if hasattr(table, "to_numpy"):
        return table.to_numpy()
    if hasattr(table, "to_pandas"):
        return table.to_pandas().to_numpy()
    return np.asarray(table)

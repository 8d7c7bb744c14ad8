"""Tables as the estimators take them: names, strings, rows that do not count, columns that are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from narwhals import from_native
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, HornbeamError
from hornbeam.data.column_names import are_made_up
from hornbeam.data.columns import DeviceColumn
from hornbeam.data.sources.wanted_columns import Wanted
from hornbeam.dataset.dataset import Dataset


@contextmanager
def data_errors() -> Iterator[None]:
    """Make what scikit-learn finds wrong in a table a DataError, a ValueError still, as scripts of LightGBM's catch."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, HornbeamError):
            raise
        raise DataError(str(error)) from None


def wanted_columns(estimator: Any) -> Wanted:
    """Return the columns that a fitted estimator wants of a file, a stream or a lazy frame.

    scikit-learn 1.7 does not see the names of polars' columns; the model has them.
    """
    names = getattr(estimator, "feature_names_in_", None)
    count = getattr(estimator, "n_features_in_", None)
    booster = getattr(estimator, "booster_", None)
    if names is None and booster is not None and not are_made_up(booster.feature_names):
        names = booster.column_names or booster.feature_names
    return Wanted(() if names is None else ([str(name) for name in names],), n_features=count)


def with_uniform_names(frame: Any) -> Any:
    """Return a frame that has names of several kinds, strings among them, with all of them as texts, as Dataset does.

    scikit-learn refuses such names. The columns are not copied.
    """
    names = from_native(frame, eager_only=True).columns
    if all(isinstance(name, str) for name in names) or not any(isinstance(name, str) for name in names):
        return frame
    renamed = frame.copy(deep=False)  # of pandas, or like it: others have strings alone
    renamed.columns = [str(name) for name in names]
    return renamed


def has_rows_of_no_weight(dataset: Dataset) -> bool:
    """Say whether a row counts as absent."""
    weight = dataset.given("weight")
    if isinstance(weight, DeviceColumn):
        return weight.facts.n_nonzero < len(weight)
    return weight is not None and not weight.all()


def without_rows_of_no_weight(dataset: Dataset) -> Dataset:
    """Leave out rows of weight 0, which would still count for bins and for the rows of a leaf."""
    assert dataset.weight is not None
    return dataset.take_rows(np.flatnonzero(dataset.weight))


def refuse_strings(X: NDArray[Any]) -> None:
    """Say which column of an array of objects holds strings, where no categorical feature is named."""
    for position in range(X.shape[1]):
        text = next((value for value in X[:, position].tolist() if isinstance(value, str)), None)
        if text is not None:
            raise DataError(
                f"X holds strings: could not convert {text!r} in column {position} to a number; name the columns of "
                "strings in categorical_feature, or code them as numbers"
            )

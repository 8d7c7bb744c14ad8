"""Tables that scikit-learn would refuse, or would tell little about."""

from __future__ import annotations

from typing import Any

from narwhals import from_native
from numpy.typing import NDArray

from hornbeam.core.errors import DataError


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


def refuse_strings(X: NDArray[Any]) -> None:
    """Say which column of an array of objects holds strings, where no categorical feature is named."""
    for position in range(X.shape[1]):
        text = next((value for value in X[:, position].tolist() if isinstance(value, str)), None)
        if text is not None:
            raise DataError(
                f"X holds strings: could not convert {text!r} in column {position} to a number; name the columns of "
                "strings in categorical_feature, or code them as numbers"
            )

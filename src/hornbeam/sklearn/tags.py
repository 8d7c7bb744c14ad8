"""Tags: what scikit-learn may know of an estimator before it is fitted."""

from __future__ import annotations

from typing import Any


class Tagged:
    """An estimator that needs a target, and takes missing values and sparse tables."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags in the form that scikit-learn before 1.6 asks for."""
        return {"allow_nan": True, "requires_y": True}

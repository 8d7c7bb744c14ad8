"""Predictions of an estimator after every iteration, as scikit-learn's HistGradientBoosting has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.sklearn.target_columns import labels_that_hold

if TYPE_CHECKING:
    from hornbeam.model.booster import Booster


class Staged:
    """What both kinds of estimators share."""

    def _stages(self, X: Any, raw_score: bool) -> Iterator[NDArray[np.float64]]:
        booster = self._predicting
        return booster.staged_predict(self._check_table(X, reset=False), raw_score)

    if TYPE_CHECKING:

        @property
        def _fitted(self) -> Booster:
            """The model."""

        @property
        def _predicting(self) -> Booster:
            """The model as predictions ask it."""

        def _check_table(self, X: Any, reset: bool) -> Any:
            """Check features."""


class StagedRegressor(Staged):
    """Staged predictions of numbers."""

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the predictions after every iteration, float64 (n_rows,)."""
        return self._stages(X, False)


class StagedClassifier(Staged):
    """Decisions, and staged predictions of classes."""

    classes_: NDArray[Any]
    n_classes_: int

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return raw scores: (n_rows,) for two classes, above 0 for the second one; else (n_rows, n_classes)."""
        raw = self._fitted.predict(self._check_table(X, reset=False), raw_score=True)
        return self._decision(raw)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the raw scores after every iteration, as `decision_function` returns them."""
        return map(self._decision, self._stages(X, True))

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the probabilities after every iteration, float64 (n_rows, n_classes)."""
        return map(self._probabilities, self._stages(X, False))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the classes after every iteration, (n_rows,)."""
        if self._has_labels:
            return map(labels_that_hold, self.staged_predict_proba(X))
        return (self.classes_[np.argmax(chances, axis=1)] for chances in self.staged_predict_proba(X))

    def _decision(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._has_labels:
            return raw
        return raw[:, 1] - raw[:, 0] if raw.ndim == 2 and self.n_classes_ == 2 else raw

    if TYPE_CHECKING:

        @property
        def _has_labels(self) -> bool:
            """Whether the target has several columns."""

        def _probabilities(self, result: NDArray[np.float64]) -> NDArray[np.float64]:
            """Return probabilities of all classes."""

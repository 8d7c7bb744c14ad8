"""Softmax cross entropy of classes labelled 0, 1, ..., num_class - 1; one tree a class and iteration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.core.errors import DataError
from hornbeam.objectives.base import FloatArray, Objective, first_wrong_label, require_labels
from hornbeam.objectives.binary import SMALLEST_SHARE, values_for_rare
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.params.params import Params


class MulticlassObjective(Objective):
    """Loss -log(p[label]) a row, where p = softmax(scores)."""

    name: ClassVar[str] = "multiclass"
    default_metric: ClassVar[str] = "multi_logloss"
    link: str = "softmax"
    labels: ClassVar[str] = "classes"

    def __init__(
        self,
        n_outputs: int,
        boost_from_average: bool = True,
        predicts_classes: bool = False,
        hessian_factor: float = 0.0,
    ) -> None:
        super().__init__(n_outputs, boost_from_average)
        if hessian_factor > 0.0:
            self._given_factor = hessian_factor
        if predicts_classes:
            self.predicts_classes = True

    @classmethod
    def from_params(cls, params: Params) -> MulticlassObjective:
        """Take num_class, what is predicted, and what scales hessians."""
        factor = params.multiclass_hessian_factor
        return cls(params.num_class, params.boost_from_average, params.predict_classes, factor)

    _given_factor: float = 0.0

    @property
    def hessian_factor(self) -> float:
        """What the diagonal of the softmax hessian is scaled up by, because the classes move together.

        K / (K - 1), as in LightGBM, unless another one is given; XGBoost has 2.
        """
        return self._given_factor or self.n_outputs / (self.n_outputs - 1.0)

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be whole numbers from 0 to num_class - 1; a class may be absent."""
        label = require_labels(label, self.name)
        wrong = (label < 0.0) | (label >= self.n_outputs) | (label != np.floor(label))
        found = first_wrong_label(label, wrong)
        if found is not None:
            raise DataError(
                f"objective {self.name!r} with num_class={self.n_outputs} takes whole labels 0 to "
                f"{self.n_outputs - 1}, but {found}; recode the classes or raise num_class"
            )

    def scores_of_sums(self, sums: LabelSums) -> FloatArray:
        """Return log(share) of each class; an absent class counts as share 1e-15."""
        if not self.boost_from_average:
            return np.zeros(self.n_outputs)
        shares = np.array([sums.share_of_class(k) for k in range(self.n_outputs)])
        return numerics.log(np.maximum(shares, SMALLEST_SHARE))

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Damp the steps where one of the classes is rare."""
        shares = (sums.share_of_class(k) for k in range(self.n_outputs))
        return values_for_rare(min((share for share in shares if share > 0.0), default=1.0))

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Order of operations, with f = `hessian_factor` and p as in `transform`.

        g = p - 1 for the class of the label, else g = p; h = (f * p) * (1 - p); with weights g = g * w, h = h * w.
        """
        p = self.transform(scores)
        hessian = (self.hessian_factor * p) * (1.0 - p)
        gradient = p - (label == np.arange(self.n_outputs, dtype=np.float64)[:, None])
        if weight is None:
            return gradient, hessian
        return gradient * weight, hessian * weight

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the class probabilities.

        Order of operations: m = the largest score of the row; e[k] = exp(raw[k] - m); t = e[0] + e[1] + ... in this
        order; p[k] = e[k] / t.
        """
        e = numerics.exp(raw - raw.max(axis=0))
        total = e[0]
        for k in range(1, self.n_outputs):
            total = total + e[k]
        return np.asarray(e / total)

    def to_dict(self) -> dict[str, str | int | float]:
        """Return name, number of classes, and whether a model predicts these."""
        state: dict[str, str | int | float] = {"name": self.name, "num_class": self.n_outputs}
        return {**state, "predicts_classes": True} if self.predicts_classes else state

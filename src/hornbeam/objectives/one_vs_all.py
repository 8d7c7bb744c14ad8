"""One logistic loss a class: this class against all others. One tree a class and iteration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.core import numerics
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.objectives.binary import BinaryObjective, class_factors
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.objectives.multiclass import MulticlassObjective
from hornbeam.params.params import Params


class OneVsAllObjective(Objective):
    """The sum over the classes of the loss of `BinaryObjective`, with label 1 for the class and 0 for all others.

    Predictions are the probabilities of the classes by themselves; they do not add up to 1 (as LightGBM).
    """

    name: ClassVar[str] = "multiclassova"
    default_metric: ClassVar[str] = "multi_logloss"
    link: str = "sigmoid"
    labels: ClassVar[str] = "classes"

    def __init__(
        self,
        n_outputs: int,
        sigmoid: float = 1.0,
        boost_from_average: bool = True,
        scale_pos_weight: float = 1.0,
        is_unbalance: bool = False,
    ) -> None:
        super().__init__(n_outputs, boost_from_average)
        self.sigmoid = float(sigmoid)
        self.scale_pos_weight = scale_pos_weight
        self.is_unbalance = is_unbalance

    @classmethod
    def from_params(cls, params: Params) -> OneVsAllObjective:
        """Take num_class, sigmoid and the weights of classes."""
        return cls(
            params.num_class, params.sigmoid, params.boost_from_average, params.scale_pos_weight, params.is_unbalance
        )

    def check_labels(self, label: FloatArray | None) -> None:
        """Labels must be whole numbers from 0 to num_class - 1; a class may be absent."""
        MulticlassObjective.check_labels(self, label)  # type: ignore[arg-type]  # uses name and n_outputs alone

    @property
    def prepares(self) -> bool:
        """Whether classes have weights."""
        return self.scale_pos_weight != 1.0 or self.is_unbalance

    def prepare(self, label: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Weigh the classes: float64 (n_outputs, n_rows) weights where a class has a factor other than 1."""
        of_class = [
            class_factors(int(np.count_nonzero(label == k)), len(label), self.scale_pos_weight, self.is_unbalance)
            for k in range(self.n_outputs)
        ]
        if all(factors == (1.0, 1.0) for factors in of_class):
            return label, weight
        weights = np.empty((self.n_outputs, len(label)))
        for k, (of_others, own) in enumerate(of_class):
            weights[k] = np.where(label == k, own, of_others)
        return label, weights if weight is None else weights * weight

    def scores_of_sums(self, sums: LabelSums) -> FloatArray:
        """Return the log-odds of each class, divided by sigmoid."""
        if not self.boost_from_average:
            return np.zeros(self.n_outputs)
        one = BinaryObjective(self.sigmoid)
        return np.array([one.score_of_mean(sums.mean_of_class(k))[0] for k in range(self.n_outputs)])

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Damp the steps where one of the classes is rare."""
        return MulticlassObjective.open_values(self, sums)  # type: ignore[arg-type]  # uses n_outputs alone

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return what `BinaryObjective.gradients` returns for each class.

        weight  float64 (n_rows,) or (n_outputs, n_rows)  in  or None
        """
        one = BinaryObjective(self.sigmoid)
        classes = (label == np.arange(self.n_outputs, dtype=np.float64)[:, None]).astype(np.float64)
        return one.gradients(scores, classes, weight)

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the probability of each class against all others: 1 / (1 + exp(-(sigmoid * raw)))."""
        return numerics.sigmoid(self.sigmoid * raw)

    def to_dict(self) -> dict[str, str | int | float]:
        """Return name, number of classes and sigmoid."""
        return {"name": self.name, "num_class": self.n_outputs, "sigmoid": self.sigmoid}

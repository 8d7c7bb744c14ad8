"""Several quantiles in one model: the pinball loss of each, and a tree of each an iteration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hornbeam.objectives.base import FloatArray, Objective, require_labels
from hornbeam.objectives.percentiles import weighted_percentile
from hornbeam.objectives.robust import QuantileObjective
from hornbeam.params.params import Params


class QuantileListObjective(Objective):
    """The losses of `QuantileObjective` for several alphas; output k is the quantile alphas[k].

    Each output is trained as a model of its quantile alone would be, but for random choices, which are its own.
    Quantiles may cross.

    Parameters
    ----------
    alphas
        The quantiles, in the order of the outputs.
    """

    name: ClassVar[str] = "quantile"
    default_metric: ClassVar[str] = "quantile"

    def __init__(self, alphas: tuple[float, ...], boost_from_average: bool = True) -> None:
        super().__init__(len(alphas), boost_from_average)
        self.alphas = alphas

    @classmethod
    def from_params(cls, params: Params) -> QuantileListObjective:
        """Take the list alpha."""
        assert isinstance(params.alpha, tuple)
        return cls(params.alpha, params.boost_from_average)

    @property
    def parts(self) -> list[QuantileObjective]:
        """The objective of each output."""
        return [QuantileObjective(alpha, self.boost_from_average) for alpha in self.alphas]

    @property
    def table(self) -> FloatArray:
        """The constants of each output, float64 (n_outputs, 2): see `QuantileObjective.constants`."""
        return np.array([part.constants for part in self.parts])

    def check_labels(self, label: FloatArray | None) -> None:
        """Any finite label will do."""
        require_labels(label, self.name)

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the (weighted) quantiles of the labels."""
        if not self.boost_from_average:
            return np.zeros(self.n_outputs)
        return np.array([weighted_percentile(label, weight, alpha) for alpha in self.alphas])

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return what `QuantileObjective.gradients` returns for each output."""
        pairs = [part.gradients(scores[k : k + 1], label, weight) for k, part in enumerate(self.parts)]
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])

    @property
    def renewal_percentile(self) -> float:
        """The first of the quantiles: leaf values of every output are percentiles, see `percentile_of`."""
        return self.alphas[0]

    def percentile_of(self, output: int) -> float:
        """Return the quantile of an output."""
        return self.alphas[output]

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores themselves."""
        return raw

    def to_dict(self) -> dict[str, str | int | float]:
        """Return the name, and the number of quantiles."""
        return {"name": self.name, "n_quantiles": self.n_outputs}

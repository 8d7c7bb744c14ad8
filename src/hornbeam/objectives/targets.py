"""Labels of several columns: one loss a column, and a raw score of each.

That is regression of several targets at once, and classification with several labels a row (as XGBoost's matrices of
labels). Output k is trained as a model of column k alone would be, but for random choices, which are its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hornbeam.core.errors import DataError
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import FloatArray, Objective, require_labels
from hornbeam.objectives.label_sums import HostSums, LabelSums


class TargetsObjective(Objective):
    """The losses of `parts`, one a column of the labels; those of a loss of one score and one label (`formula`).

    Labels are float64 (n_rows, n_outputs) in a data set, and (n_outputs, n_rows) as `prepare` returns them.

    Parameters
    ----------
    parts
        The objective of each output: of one name, and with one link.
    """

    def __init__(self, parts: Sequence[Objective]) -> None:
        first = parts[0]
        super().__init__(len(parts), first.boost_from_average)
        self.parts = list(parts)
        self.n_targets = len(parts)
        self.name = first.name  # type: ignore[misc]  # those of the class in other objectives
        self.default_metric = first.default_metric  # type: ignore[misc]
        self.labels = first.labels  # type: ignore[misc]
        self.renewal_weights_by_label = first.renewal_weights_by_label  # type: ignore[misc]
        self.renews_to_logcosh = first.renews_to_logcosh  # type: ignore[misc]
        self.link, self.predicts_scores = first.link, first.predicts_scores
        self.sigmoid = getattr(first, "sigmoid", 1.0)

    @classmethod
    def of(cls, objective: Objective, n_targets: int) -> TargetsObjective:
        """Take one objective for every column; raises DataError if it is none of one score and one label."""
        if objective.formula is None:
            raise DataError(
                f"objective {objective.name!r} takes one label a row, but label has {n_targets} columns; objectives of "
                "a number a row and output do: regression, binary, poisson and the like"
            )
        return cls([objective] * n_targets)

    @classmethod
    def from_params(cls, params: object) -> TargetsObjective:
        """Not available: the number of columns is that of the labels."""
        raise TypeError("an objective of several columns is made by get_objective(params, n_targets)")

    def check_labels(self, label: FloatArray | None) -> None:
        """Every column must lie in the domain of the objective."""
        label = require_labels(label, self.name)
        if label.ndim != 2 or label.shape[1] != self.n_outputs:
            columns = 1 if label.ndim == 1 else label.shape[1]
            raise DataError(f"label has {columns} column(s), but the model has {self.n_outputs} outputs; pass as many")
        for k, part in enumerate(self.parts):
            try:
                part.check_labels(label[:, k])
            except DataError as error:
                raise DataError(f"column {k} of label: {error}") from None

    def check_data(self, dataset: Fields) -> None:
        """Check labels and weights of a data set."""
        self.check_labels(dataset.label)
        self.parts[0].check_weights(dataset)

    def bind(self, dataset: Fields) -> TargetsObjective:
        """Bind the objective of every output to its column."""
        label = require_labels(dataset.label, self.name)
        return TargetsObjective([part.bind(_column(dataset, label, k)) for k, part in enumerate(self.parts)])

    @property
    def prepares(self) -> bool:
        """Labels are kept by output."""
        return True

    def prepare(self, label: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Return labels by output, float64 (n_outputs, n_rows), and weights, which may be by output too."""
        pairs = [part.prepare(label[:, k], weight) for k, part in enumerate(self.parts)]
        labels = np.ascontiguousarray([pair[0] for pair in pairs])
        if all(pair[1] is weight for pair in pairs):
            return labels, weight
        ones = np.ones(len(label))
        return labels, np.array([ones if pair[1] is None else pair[1] for pair in pairs])

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the best constant of each column."""
        columns = np.ascontiguousarray(label.T)
        return np.concatenate([part.init_scores(own, weight) for part, own in zip(self.parts, columns, strict=True)])

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Return what any of the columns asks for, the largest of each: all trees grow by one set of rules."""
        assert isinstance(sums, HostSums)
        found: dict[str, float] = {}
        for k, part in enumerate(self.parts):
            for name, value in part.open_values(sums.column(k)).items():
                found[name] = max(value, found.get(name, value))
        return found

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the gradients of every output, each from its own scores and labels.

        label   float64 (n_outputs, n_rows)               in
        weight  float64 (n_rows,) or (n_outputs, n_rows)  in  or None
        """
        pairs = [part.gradients(scores[k : k + 1], label[k], of_output(weight, k)) for k, part in enumerate(self.parts)]
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])

    @property
    def renewal_percentile(self) -> float | None:
        """That of every output."""
        return self.parts[0].renewal_percentile

    def renewal_weights(self, label: FloatArray, weight: FloatArray | None) -> FloatArray | None:
        """Return the weights of the percentiles, by output where they depend on the labels."""
        if not self.renewal_weights_by_label:
            return weight
        made = [part.renewal_weights(label[k], of_output(weight, k)) for k, part in enumerate(self.parts)]
        return np.array(made)

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the predictions: links of one score do not look at other outputs."""
        return self.parts[0].transform(raw)

    def to_dict(self) -> dict[str, str | int | float]:
        """Return that of one output, and the number of columns."""
        return {**self.parts[0].to_dict(), "n_targets": self.n_targets}


def of_output(values: FloatArray | None, output: int) -> FloatArray | None:
    """Return the labels or weights of one output: a row of (n_outputs, n_rows), or (n_rows,) for all."""
    return values if values is None or values.ndim == 1 else values[output]


def _column(dataset: Fields, label: FloatArray, column: int) -> Fields:
    """Return the fields of a data set with one column of its labels."""
    own = Fields(dataset.n_rows, dataset.n_features)
    own._set_fields(label=np.ascontiguousarray(label[:, column]), weight=dataset.weight)
    return own

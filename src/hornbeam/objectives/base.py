"""What an objective is: labels it accepts, where it starts, its gradients, and its link function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core import numerics
from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.columns import Column, DeviceColumn, Facts, host_of
from hornbeam.data.fields import Fields
from hornbeam.objectives.label_sums import HostSums, LabelSums
from hornbeam.params.params import Params

FloatArray = NDArray[np.float64]


class Objective(ABC):
    """A loss to minimise, as NumPy definitions that every backend repeats bit for bit.

    The order of the float operations in `gradients` and `transform` is part of the contract: a twin performs the same
    additions, multiplications and divisions in the same order, in float64, never fused.

    Attributes
    ----------
    name
        Canonical name, as in the parameter `objective` and in the model file.
    n_outputs
        Raw scores a row, which is also the number of trees an iteration.
    default_metric
        Name of the metric used when the parameter `metric` is not given; "none" if there is none.
    link
        What `transform` does, for backends that have it as a kernel: "identity", "exp", "sigmoid", "softmax", "square",
        "softplus", "step"; "own": see `transform`.
    labels
        Domain of the labels: "real", "positive", "nonnegative", "unit" (0 to 1), "binary" (0 and 1) or "classes".
    boost_from_average
        Whether `init_scores` fits a constant or returns zeros.
    prepares
        Whether `prepare` may change anything.
    renewal_weights_by_label
        Whether `renewal_weights` depends on the labels.
    n_targets
        Columns of the labels; 1: one label a row.
    predicts_classes
        Whether `Booster.predict` returns classes instead of what `transform` returns.
    predicts_scores
        Whether it returns raw scores.
    renews_to_logcosh
        Whether the values of leaves go on from `renewal_percentile` to the minimum of log(cosh): see logcosh_leaves.py.
    """

    name: ClassVar[str]
    default_metric: ClassVar[str]
    link: str = "identity"
    labels: ClassVar[str] = "real"
    n_targets: int = 1
    renewal_weights_by_label: ClassVar[bool] = False
    renews_to_logcosh: ClassVar[bool] = False
    predicts_classes: bool = False
    predicts_scores: bool = False

    def __init__(self, n_outputs: int = 1, boost_from_average: bool = True) -> None:
        self.n_outputs = n_outputs
        self.boost_from_average = boost_from_average

    @property
    def formula(self) -> tuple[int, float, float] | None:
        """Number and constants of a loss of one score and one label (kernels/losses/losses.h); None: it is no such."""
        return None

    @classmethod
    @abstractmethod
    def from_params(cls, params: Params) -> Objective:
        """Build the objective from the training parameters, which have been checked."""

    @abstractmethod
    def check_labels(self, label: FloatArray | None) -> None:
        """Raise DataError unless the labels lie in the domain of this objective.

        label  float64 (n_rows,)  in  finite, or None
        """

    def check_data(self, dataset: Fields) -> None:
        """Raise DataError unless a data set, for training or validation, has what the objective takes as labels."""
        label = dataset.given("label")
        if label is not None and label.ndim == 2 and self.n_targets == 1:
            raise DataError(f"objective {self.name!r} takes one label a row, but label has {label.shape[1]} columns")
        check_domain(self, label)
        self.check_weights(dataset)

    def check_weights(self, dataset: Fields) -> None:  # noqa: B027  (most objectives take any)
        """Raise DataError unless the weights of a data set are such as the objective takes."""

    def accepts(self, facts: Facts) -> bool:
        """Say whether labels of which these facts are known lie in the domain; else `check_labels` has to see them."""
        return facts.lie_in(self.labels, self.n_outputs)

    def bind(self, dataset: Fields) -> Objective:
        """Return the objective that is trained on a data set: this one, or a copy that knows more of the data.

        Labels have been checked. Raises DataError if the data set lacks what the objective needs.
        """
        return self

    def begin_iteration(self, iteration: int) -> None:  # noqa: B027  (most objectives need not know)
        """Learn the number of the iteration, counted from the first of the model, before its gradients."""

    @property
    def prepares(self) -> bool:
        """Whether `prepare` may return something else than its arguments."""
        return False

    def prepare(self, label: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Return labels and weights in the form that `gradients` takes; called once a training.

        label   float64 (n_rows,)  in
        weight  float64 (n_rows,)  in  or None

        The weights returned may have shape (n_outputs, n_rows) where `gradients` says so.
        """
        return label, weight

    def init_scores(self, label: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the best constant raw scores, float64 (n_outputs,); they do not depend on the order of the rows.

        label   float64 (n_rows,)  in      the data set's own, not prepared
        weight  float64 (n_rows,)  in      or None
        """
        found = self.scores_of_sums(HostSums(label, weight))
        assert found is not None  # else it is defined here
        return found

    def scores_at(self, prediction: float | tuple[float, ...]) -> FloatArray:
        """Return the raw scores that predict a number, float64 (n_outputs,); of softmax and step that score.

        prediction  for every output, or one for each
        """
        link = "identity" if self.predicts_scores else self.link
        value, scale = np.atleast_1d(np.array(prediction, np.float64)), getattr(self, "sigmoid", 1.0)
        if len(value) not in (1, self.n_outputs):
            raise ParameterError(
                f"base_score has {len(value)} numbers, and the model {self.n_outputs} outputs; pass one each, or one"
            )
        if link == "sigmoid" and not (value.min() > 0.0 and value.max() < 1.0):
            raise ParameterError(f"base_score={prediction}: must be between 0 and 1 for objective {self.name!r}")
        if link in ("exp", "softplus") and not value.min() > 0.0:
            raise ParameterError(f"base_score={prediction}: must be above 0 for objective {self.name!r}")
        if link == "sigmoid":
            value = numerics.log(value / (1.0 - value)) / scale
        elif link == "exp":
            value = numerics.log(value)
        elif link == "softplus":
            value = numerics.softplus_inverse(value)
        elif link == "square":
            value = np.sign(value) * np.sqrt(np.abs(value))
        return np.array(np.broadcast_to(value, self.n_outputs))

    def scores_of_sums(self, sums: LabelSums) -> FloatArray | None:
        """Return `init_scores` from sums over the labels; None: they take the labels themselves."""
        return None

    def open_values(self, sums: LabelSums) -> dict[str, float]:
        """Return values for parameters that the user leaves open, by name: where the plain ones let steps go astray.

        A Newton step is G / H. It means little where H is next to nothing: few rows of a rare class, whose G is large
        all the same. docs/quality.md has what the values do.
        """
        return {}

    @abstractmethod
    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return first and second derivative of the loss by the raw score, each float64 (n_outputs, n_rows).

        scores  float64 (n_outputs, n_rows)  in
        label   float64 (n_rows,)            in  as `prepare` returns it
        weight  float64 (n_rows,)            in  as `prepare` returns it, or None; multiplies both, last
        """

    @property
    def renewal_percentile(self) -> float | None:
        """Which percentile of its rows' residuals a leaf's value becomes (percentiles.py); None: the Newton step."""
        return None

    def percentile_of(self, output: int) -> float | None:
        """Return the same for one output."""
        return self.renewal_percentile

    def renewal_weights(self, label: FloatArray, weight: FloatArray | None) -> FloatArray | None:
        """Return the weights of that percentile, float64 (n_rows,) or None; arguments as `prepare` returns them."""
        return weight

    @abstractmethod
    def transform(self, raw: FloatArray) -> FloatArray:
        """Turn raw scores into predictions; both float64 (n_outputs, n_rows). The result may be `raw` itself."""

    def predictions(self, raw: FloatArray) -> FloatArray:
        """Return what `Booster.predict` makes of raw scores, float64 (n_outputs, n_rows), or (1, n_rows) of classes."""
        if self.predicts_classes:
            return np.asarray(np.argmax(raw, axis=0)[None], np.float64)  # the first of equals
        return raw if self.predicts_scores else self.transform(raw)

    @property
    def of_predictions(self) -> Objective:
        """The objective that says what metrics look at: this one, but for a function beside which another is named."""
        return self

    def to_dict(self) -> dict[str, str | int | float]:
        """Return what the model file keeps: the name and what `transform` needs."""
        return {"name": self.name}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"


def check_domain(objective: Objective, label: Column | None) -> None:
    """Raise DataError unless the labels lie in the domain of an objective; on a device the facts tell, if they can."""
    if not (isinstance(label, DeviceColumn) and objective.accepts(label.facts)):
        objective.check_labels(host_of(label))


def require_labels(label: FloatArray | None, objective: str) -> FloatArray:
    """Return the labels, or raise DataError if there are none."""
    if label is None:
        raise DataError(
            f"objective {objective!r} needs labels, but the Dataset has none; pass label= to Dataset (of a file the "
            "name of a column, or params={'label_column': 0} for its first one)"
        )
    return label


def require_domain(label: FloatArray | None, objective: str, wrong: str, remedy: str) -> None:
    """Raise DataError unless every label lies in a domain.

    label   float64 (n_rows,)  in  or None
    wrong   "< 0", "<= 0" or "outside [0, 1]": the labels that are refused
    remedy  what the user should do
    """
    label = require_labels(label, objective)
    found = first_wrong_label(
        label,
        {"< 0": label < 0.0, "<= 0": label <= 0.0, "outside [0, 1]": (label < 0.0) | (label > 1.0)}[wrong],
    )
    if found is not None:
        raise DataError(f"objective {objective!r} takes no label {wrong}, but {found}; {remedy}")


def first_wrong_label(label: FloatArray, wrong: NDArray[np.bool_]) -> str | None:
    """Describe the first label that is wrong ("label[7] is 2.5"), or return None if none is."""
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return f"label[{', '.join(map(str, place))}] is {float(label[place])!r}"

"""An objective given as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.core.log import warn
from hornbeam.data.device_arrays import host_array
from hornbeam.data.fields import Fields
from hornbeam.objectives.base import FloatArray, Objective
from hornbeam.objectives.device_functions import HOST_ARRAYS, Arrays, DeviceData, is_on_device
from hornbeam.objectives.label_sums import LabelSums
from hornbeam.params.params import Params

ObjectiveFunction = Callable[[FloatArray, Fields], tuple[Any, Any]]


class CustomObjective(Objective):
    """function(scores, dataset) -> (gradient, hessian), with raw scores in and raw scores as predictions.

    Scores and both results have shape (n_rows,), or (n_rows, num_class) with several outputs. Scores are NumPy arrays,
    or arrays of the device that trains if the function is marked by `on_device`; the results may be arrays on a CUDA
    device (CuPy's, PyTorch's) in any case. The function applies the weights of the dataset itself, as in LightGBM;
    negative hessians count as 0. Training starts from zero. A model from a file has no function: it predicts, but needs
    `objective` anew to train on.

    named  the objective that is named beside the function, as XGBoost's users do: the model is one of it, and metrics
           look at its predictions; None: there is none
    """

    name: ClassVar[str] = "custom"
    default_metric: ClassVar[str] = "none"

    def __init__(self, function: ObjectiveFunction | None = None, n_outputs: int = 1) -> None:
        super().__init__(n_outputs, boost_from_average=False)
        self.function = function
        self.named: Objective | None = None
        self._has_warned = False

    @classmethod
    def from_params(cls, params: Params, n_targets: int = 1) -> CustomObjective:
        """Take the function and num_class, or as many outputs as the labels have columns."""
        if n_targets > 1 and params.num_class not in (1, n_targets):
            raise ParameterError(
                f"num_class={params.num_class}, but label has {n_targets} columns; leave num_class out, or make them "
                "equal"
            )
        made = cls(params.objective if callable(params.objective) else None, max(params.num_class, n_targets))
        made.n_targets = n_targets
        return made

    def check_labels(self, label: FloatArray | None) -> None:
        """Accept anything: what labels mean, and whether there are any, is the function's affair."""

    def scores_of_sums(self, sums: LabelSums) -> FloatArray:
        """Return zeros."""
        return np.zeros(self.n_outputs)

    def gradients(
        self, scores: FloatArray, label: FloatArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Not available: the function takes the whole Dataset, so call `evaluate`."""
        raise TypeError("a custom objective takes the whole Dataset: call evaluate(scores, dataset)")

    def evaluate(self, scores: FloatArray, dataset: Fields) -> tuple[FloatArray, FloatArray]:
        """Call the function on a copy of the scores, in host memory, and check what it returns.

        scores  float64 (n_outputs, n_rows)  in

        Returns gradient and hessian, each float64 (n_outputs, n_rows).
        """
        n_rows = scores.shape[1]
        shape = (n_rows,) if self.n_outputs == 1 else (n_rows, self.n_outputs)
        given = DeviceData(dataset) if is_on_device(self.function) else dataset
        gradient, hessian = self.call(scores.T.reshape(shape).copy(), given, HOST_ARRAYS)
        by_row = n_rows, self.n_outputs  # copies: the function may use its arrays again
        return np.array(gradient.reshape(by_row).T, order="C"), np.array(hessian.reshape(by_row).T, order="C")

    def call(self, scores: Any, data: Fields | DeviceData, arrays: Arrays) -> tuple[Any, Any]:
        """Call the function and check what it returns, where the arrays are.

        scores  of `arrays`, float64 (n_rows,) or (n_rows, n_outputs)  in  the function may change them

        Returns gradient and hessian, float64 of the same shape, finite.
        """
        if self.function is None:
            raise ParameterError(
                "this model was trained with a custom objective, which a model file does not hold; "
                "pass the function as objective= to train on"
            )
        shape = scores.shape
        result: Any = self.function(scores, data)  # type: ignore[arg-type]
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise DataError(
                f"the custom objective returned {type(result).__name__}, not a pair; return (gradient, hessian)"
            )
        gradient = self._converted("gradient", result[0], shape, arrays)
        hessian = self._converted("hessian", result[1], shape, arrays)
        finite = arrays.xp.isfinite
        if not bool(finite(gradient).all() & finite(hessian).all() & (hessian >= 0.0).all()):  # a device answers once
            self._explain(host_array(gradient), host_array(hessian))
            hessian = arrays.xp.maximum(hessian, 0.0)
        return gradient, hessian

    @staticmethod
    def _converted(what: str, values: Any, shape: tuple[int, ...], arrays: Arrays) -> Any:
        """Return one of the function's results as float64 of the right shape."""
        try:
            array = arrays.array(values, f"the {what} of the custom objective")
            if array.dtype.kind not in "fiub":
                raise TypeError(f"dtype is {array.dtype}")
            array = array.astype(np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"the custom objective returned a {what} that is no array of real numbers ({error}); "
                f"return a float array of shape {shape}"
            ) from error
        if array.shape != shape:
            raise DataError(
                f"the custom objective returned a {what} of shape {array.shape}; it must have shape {shape}"
            )
        return array

    def _explain(self, gradient: FloatArray, hessian: FloatArray) -> None:
        """Say what is wrong with the function's results: raises, but for negative hessians, which count as 0."""
        for what, values in (("gradient", gradient), ("hessian", hessian)):
            finite = np.isfinite(values)
            if not finite.all():
                raise DataError(
                    f"the custom objective returned a {what} that is NaN or infinite in row {_first_row(~finite)}; "
                    "all values must be finite: check the function for overflow, division by zero and log(0)"
                )
        if not (hessian > 0.0).any():
            raise DataError("the custom objective returned no hessian above 0 but negative ones; hessians must be >= 0")
        if not self._has_warned:
            warn(
                f"the custom objective returned a negative hessian in row {_first_row(hessian < 0.0)}; it counts as 0: "
                "return an upper bound of the curvature, or ones"
            )
        self._has_warned = True

    def transform(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores themselves."""
        return raw

    @property
    def of_predictions(self) -> Objective:
        """The objective that is named besides, or this one."""
        return self if self.named is None else self.named

    def to_dict(self) -> dict[str, str | int | float]:
        """Return name and number of outputs, or what is kept of the objective named besides; the function is not."""
        if self.named is not None:
            return self.named.to_dict()
        return {"name": self.name, "num_class": self.n_outputs}


def _first_row(wrong: NDArray[np.bool_]) -> int:
    """Return the first row where a value is wrong, bool (n_rows,) or (n_rows, n_outputs)."""
    return int(np.argmax(wrong if wrong.ndim == 1 else wrong.any(axis=1)))

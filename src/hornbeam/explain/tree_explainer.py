"""`TreeExplainer`: what scripts do with `shap.TreeExplainer`, for any model of Hornbeam.

SHAP's own class takes the classes of libraries that it knows by name, and has no way for others to be known. This one
has its methods, shapes and attributes; the values are those of `explain`, and SHAP's plots take them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.errors import ParameterError
from hornbeam.core.float_mode import default_mode
from hornbeam.data.sources.opening import open_numbers
from hornbeam.explain.contributions import background_expected, explained
from hornbeam.explain.explanation import explanation_class, shown
from hornbeam.model.booster import Booster

FloatArray = NDArray[np.float64]

PERTURBATIONS = ("auto", "interventional", "tree_path_dependent")
"""What features are compared with, by SHAP's names: training rows of each branch are "tree_path_dependent"."""


class TreeExplainer:
    """SHAP values of a model, by the methods of `shap.TreeExplainer`.

    Parameters
    ----------
    model
        Booster, or a fitted estimator.
    data
        Background rows that features are compared with, a table as for `predict`; None: the training rows of each
        branch.
    model_output
        "raw": raw scores are explained, as SHAP does by default. Others are an error.
    feature_perturbation
        "interventional" takes data, "tree_path_dependent" takes none, "auto" is the one that fits.
    feature_names
        Names of the features in what calling the explainer returns; None: those of the model.
    cover
        As for `Booster.explain`.

    Attributes
    ----------
    expected_value
        What the contributions of a row start from: a float, or float64 (n_outputs,) with several outputs.
    model, data, feature_names, model_output, feature_perturbation
        As given; feature_perturbation is never "auto".
    """

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        feature_names: Any = None,
        *,
        cover: str = "auto",
    ) -> None:
        booster = getattr(model, "booster_", model)
        if not isinstance(booster, Booster):
            raise ParameterError(f"model is a {type(model).__name__}; pass a Booster or a fitted estimator of Hornbeam")
        if feature_perturbation not in PERTURBATIONS:
            raise ParameterError(f"feature_perturbation={feature_perturbation!r}: must be one of {PERTURBATIONS}")
        if model_output != "raw":
            raise ParameterError(
                f"model_output={model_output!r}: raw scores are explained, model_output='raw'; for models of numbers "
                f"SHAP does it: shap.TreeExplainer(booster.to_shap(), data, model_output={model_output!r})"
            )
        if feature_perturbation == "interventional" and data is None:
            raise ParameterError("feature_perturbation='interventional' compares with rows: pass them in data=")
        if feature_perturbation == "tree_path_dependent" and data is not None:
            raise ParameterError("feature_perturbation='tree_path_dependent' has no background; leave out data=")
        self.model, self.data, self.model_output = model, data, model_output
        self.feature_perturbation = "tree_path_dependent" if data is None else "interventional"
        self.feature_names = list(booster.feature_names if feature_names is None else feature_names)
        self._booster, self._cover = booster, cover
        self.expected_value = self._expected()

    def shap_values(
        self,
        X: Any,
        y: Any = None,
        tree_limit: int | None = None,
        approximate: bool = False,
        check_additivity: bool = True,
    ) -> FloatArray:
        """Return the contributions of every feature, float64 (n_rows, n_features[, n_outputs]).

        Parameters
        ----------
        X
            Table as for `predict` of the model.
        y
            None; SHAP has labels where a loss is explained.
        tree_limit
            Explain the first trees, as many, and set `expected_value` to theirs; -1: all; None: those that `predict`
            uses.
        approximate
            False; contributions are exact.
        check_additivity
            Changes nothing: with `expected_value` they add up to the raw score, as tests hold.
        """
        return np.asarray(self._explained(X, y, tree_limit, approximate).values)

    def shap_interaction_values(self, X: Any, y: Any = None, tree_limit: int | None = None) -> FloatArray:
        """Return what every two features do together, float64 (n_rows, n_features, n_features[, n_outputs]).

        Half of it stands at (i, j), half at (j, i); arguments as for `shap_values`.
        """
        if self.data is not None:
            raise ParameterError("interactions have no background: make the explainer without data=")
        _refuse_labels(y)
        number = self._iterations(tree_limit)
        whole = np.asarray(self._booster.predict(self._table(X), num_iteration=number, pred_interactions=True))
        found = whole[..., :-1, :-1]
        return np.ascontiguousarray(found if found.ndim == 3 else found.transpose(0, 2, 3, 1))

    def __call__(
        self,
        X: Any,
        y: Any = None,
        interactions: bool = False,
        check_additivity: bool = True,
        approximate: bool = False,
    ) -> Any:
        """Explain every row: a `shap.Explanation`, or `hornbeam.explain.Explanation` where SHAP is not installed."""
        if interactions:
            values = self.shap_interaction_values(X, y)
            base = np.tile(np.asarray(self.expected_value), (len(values), 1) if values.ndim == 4 else len(values))
            kind = explanation_class()
            return kind(values=values, base_values=base, data=shown(X), feature_names=self.feature_names)
        found = self._explained(X, y, None, approximate)
        found.feature_names = self.feature_names
        return found

    def _explained(self, X: Any, y: Any, tree_limit: int | None, approximate: bool) -> Any:
        _refuse_labels(y)
        if approximate:
            raise ParameterError("approximate=True: contributions are exact, and fast; leave it out")
        number = self._iterations(tree_limit)
        found = self.model.explain(X, self.data, cover=self._cover, num_iteration=number)
        if number is not None and len(found.base_values):
            first = np.asarray(found.base_values[0])
            self.expected_value = first if first.ndim else float(first)
        return found

    def _iterations(self, tree_limit: int | None) -> int | None:
        """Return how many iterations have that many trees, as `predict` takes them."""
        if tree_limit is None or tree_limit <= 0:
            return tree_limit
        return max(1, tree_limit // self._booster.trees_per_iteration)

    def _table(self, X: Any) -> Any:
        return X if self.model is self._booster else self.model._features(X)[0]

    def _expected(self) -> float | FloatArray:
        booster = self._booster
        if self.data is None:
            reader = open_numbers(np.zeros((1, booster.n_features)))  # any row: the trees alone say what is expected
        else:
            reader = booster.checked_table(self._table(self.data), "data")
        task = explained(booster, reader, booster.chosen_iterations(0, None), 1, "cpu", self._cover)
        with default_mode():
            expected = task.expected() if self.data is None else background_expected(task, reader)
        return float(expected[0]) if booster.n_outputs == 1 else expected


def _refuse_labels(y: Any) -> None:
    if y is not None:
        raise ParameterError("y is for explanations of a loss; raw scores are explained: leave it out")

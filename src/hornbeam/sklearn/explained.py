"""What a fitted estimator says of its model: explanations and reports, with labels as the user has them."""

from __future__ import annotations

import os
from typing import Any

from sklearn.utils import check_consistent_length

from hornbeam.core.errors import DataError
from hornbeam.dataset.dataset import Dataset
from hornbeam.model.booster import Booster
from hornbeam.model.rooms import room


class ExplainedEstimator:
    """`explain` and `report` of an estimator; tables are checked as `predict` checks them."""

    @property
    def _fitted(self) -> Booster:
        raise NotImplementedError

    def explain(self, X: Any, background: Any = None, **choices: Any) -> Any:
        """Say what every feature adds to the raw score of every row: SHAP values.

        Parameters
        ----------
        X
            Table as for `predict`.
        background
            Rows that features are compared with, a table with the same columns; None: the training rows of each branch.
        choices
            As for `Booster.explain`: cover, start_iteration, num_iteration, num_threads, device.

        Returns
        -------
        shap.Explanation, or where SHAP is not installed `hornbeam.explain.Explanation`; the outputs of several classes
        are in the order of `classes_`, and bear their names.
        """
        booster = self._fitted
        others = None if background is None else self._features(background)[0]
        found = booster.explain(self._features(X)[0], others, **choices)
        names = getattr(self, "classes_", None)
        if found.values.ndim == 3 and names is not None and len(names) == found.values.shape[2]:
            found.output_names = [str(name) for name in names]
        return found

    def report(self, path: str | os.PathLike[str], valid: Any = None, *, train: Any = None, **choices: Any) -> None:
        """Write a report on the model as one HTML file.

        Parameters
        ----------
        path
            File to write.
        valid
            Data to judge the model by: a pair (X, y) as for `fit`, whose y are labels as they were there; for a ranker
            X is a frame with a column "qid". Or a hornbeam.Dataset, whose labels are numbers: 0, 1, ... in the order of
            `classes_`. None: the report has what the model alone tells.
        train
            Training data, as `valid`.
        choices
            As for `hornbeam.views.report.write_report`; class_names are `classes_` unless given.
        """
        booster = self._fitted
        data = {name: self._judged(given, name) for name, given in (("valid", valid), ("train", train))}
        names = getattr(self, "classes_", None)
        if names is not None and len(names) > 1:
            choices = {"class_names": [str(name) for name in names], **choices}
        room("views.report").write_report(booster, path, data["valid"], train=data["train"], **choices)

    def _judged(self, data: Any, name: str) -> Any:
        """Return a pair of features and labels as a Dataset whose labels are the model's."""
        if data is None or isinstance(data, Dataset):
            return data
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise DataError(f"{name} must be a pair (X, y), or a hornbeam.Dataset; got {type(data).__name__}")
        table, queries = self._features(data[0])
        label = self._code_target(self._check_target(data[1]))
        check_consistent_length(table, label)
        return self._make_data(table, label, **queries)

    def _make_data(self, table: Any, label: Any, **others: Any) -> Dataset:
        """Return data that are trained on, or evaluated."""
        return Dataset(table, label, **others)

    def _features(self, X: Any) -> tuple[Any, dict[str, Any]]:
        """Return a table as the model takes it, and what else of it is an argument of Dataset."""
        return self._check_table(X, reset=False), {}

    def _check_table(self, X: Any, reset: bool) -> Any:
        raise NotImplementedError

    def _check_target(self, y: Any) -> Any:
        raise NotImplementedError

    def _code_target(self, y: Any) -> Any:
        raise NotImplementedError

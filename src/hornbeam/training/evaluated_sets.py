"""The data sets that a training evaluates: by name, checked, and with the bins of the training set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.dataset.dataset import Dataset
from hornbeam.dataset.dmatrix import DMatrix
from hornbeam.objectives import Objective
from hornbeam.params.params import Params

ValidSets = Mapping[str, Dataset] | Sequence[Dataset] | Sequence[tuple[Dataset, str]] | Dataset | None

TRAINING = "training"
"""Name of the training set where it is evaluated too."""


@dataclass(frozen=True, slots=True)
class EvaluatedSet:
    """A data set to evaluate; `valid` is its number in the engine, -1: the engine's own scores of the training set."""

    name: str
    dataset: Dataset
    valid: int
    is_training: bool

    @property
    def is_learned(self) -> bool:
        """Whether it is the training set, or one called so, with other weights: early stopping looks past it."""
        return self.is_training or self.name == TRAINING


def data_sets_of(valid_sets: ValidSets) -> list[Any]:
    """Return what stands for validation sets, however they are given; `named_sets` checks it."""
    given: Any = valid_sets.values() if isinstance(valid_sets, Mapping) else valid_sets
    several = given if isinstance(given, Iterable) else () if given is None else (given,)
    return [entry[0] if isinstance(entry, tuple) and entry else entry for entry in several]


def named_sets(valid_sets: ValidSets, names: Sequence[str] | str | None, train_set: Dataset) -> dict[str, Dataset]:
    """Return the data sets to evaluate by name: the training set first, as LightGBM's, but for a DMatrix."""
    if valid_sets is None:
        return {}
    if isinstance(valid_sets, Mapping):
        named = dict(valid_sets)
    else:
        several: Any = [valid_sets] if isinstance(valid_sets, Dataset) else valid_sets
        if not isinstance(several, Iterable):
            raise DataError(
                f"valid_sets is a {type(several).__name__}; pass a dict or a list of Datasets, or a Dataset"
            )
        sets: list[Any] = list(several)
        given = [names] if isinstance(names, str) else names
        if sets and all(isinstance(entry, tuple) and len(entry) == 2 for entry in sets):  # as for XGBoost
            if given is not None:
                raise ParameterError("valid_names beside valid_sets of pairs (Dataset, name); give names once")
            sets, given = [entry[0] for entry in sets], [entry[1] for entry in sets]
        for name in given or []:
            _check_name(name)
        if given is not None and len(given) != len(sets):
            raise ParameterError(f"valid_names has {len(given)} names for {len(sets)} valid_sets; give one each")
        chosen = given or [TRAINING if dataset is train_set else f"valid_{i}" for i, dataset in enumerate(sets)]
        named = dict(zip(chosen, sets, strict=True))
        if len(named) < len(sets):
            raise ParameterError(f"valid_names {list(chosen)} are not unique; give every set a name of its own")
    for name, dataset in named.items():
        _check_name(name)
        if not isinstance(dataset, Dataset):
            raise DataError(f"valid_sets[{name!r}] must be a hornbeam.Dataset, not {type(dataset).__name__}")
    if train_set.is_xgboosts:
        return named
    return dict(sorted(named.items(), key=lambda entry: entry[1] is not train_set and entry[0] != TRAINING))


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise DataError(
            f"the name of a validation set must be a string, not {type(name).__name__}; pass a dict of names and "
            "Datasets, a list of Datasets, or pairs (Dataset, name), where a Dataset is Dataset(X, label=y)"
        )


def check_valid(name: str, dataset: Dataset, train_set: Dataset, params: Params, objective: Objective) -> None:
    """Check a validation set, and bin it as the training set is."""
    if dataset.n_features != train_set.n_features:
        raise DataError(
            f"valid_sets[{name!r}] has {dataset.n_features} features and train_set {train_set.n_features}; "
            "pass the same columns in the same order"
        )
    if dataset.reference is None and not dataset.is_binned:
        dataset.set_reference(train_set)
    dataset.construct(params)
    if isinstance(dataset, DMatrix) and dataset.binned.mapper is not train_set.binned.mapper:
        dataset.forget_bins(train_set)  # XGBoost takes any DMatrix to evaluate
        dataset.construct(params)
    if dataset.binned.mapper is not train_set.binned.mapper:
        whose = "is binned by itself" if dataset.reference is None else "has the bins of another training set"
        raise DataError(
            f"valid_sets[{name!r}] {whose}, and a Dataset is binned once; make one for this training set: "
            "Dataset(..., reference=train_set)"
        )
    objective.check_data(dataset)

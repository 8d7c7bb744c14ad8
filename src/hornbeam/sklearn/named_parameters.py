"""Parameters of an estimator as attributes, by any name that they have: `model.max_iter`, `model.gamma = 1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import NotFittedError

from hornbeam.params.objective_names import USED_BY
from hornbeam.params.params import BY_NAME
from hornbeam.params.peer_arguments import PeerAttributes

MODES = ("early_stopping", "n_iter_no_change")
"""Names that ask for early stopping: attributes only where they were given, since others ask whether there are such."""


OF_FIT = {"warm_start": False, "scoring": "loss", "tol": 1e-7, "validation_fraction": 0.1}
"""Parameters of scikit-learn's about the fit, and their defaults (held_out.py)."""

SET_BY_FIT = ("booster_", "classes_", "feature_names_in_", "n_classes_", "n_features_in_")
"""Attributes that `fit` sets; those that are read from `booster_` ask for it."""


class NamedParameters(PeerAttributes):
    """Reads what is no attribute among the parameters, and sets parameters by any of their names.

    A further keyword of the constructor is read by the name that it was given by. Any other name of a parameter reads
    that parameter, whatever it was called in the constructor, or its default.
    """

    _other_params: Mapping[str, Any]

    def _completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a training that are given, with those that stand for others."""
        return values

    if TYPE_CHECKING:

        @classmethod
        def _get_param_names(cls) -> list[str]:
            """Return the parameters of the constructor."""

    else:

        def __setattr__(self, name: str, value: Any) -> None:
            """Set a parameter as `set_params` does, and any other attribute."""
            given = self._other_params
            is_other = (name in given or name in BY_NAME) and name not in vars(self)
            if name == "alpha":  # which checks of scikit-learn set where it is read, though no loss looks at it
                is_other = is_other and (name in given or vars(self).get("objective") in USED_BY["alpha"])
            if is_other and name not in _named_in_constructors(type(self)):
                self.set_params(**{name: value})
            else:
                super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            """Return a parameter; AttributeError for every other name that is not there."""
            others = type(self)._other_params if "_other_params" not in vars(self) else vars(self)["_other_params"]
            if name in others or name in OF_FIT:
                return others.get(name, OF_FIT.get(name))
            row = BY_NAME.get(name)
            if name in SET_BY_FIT and "booster_" not in vars(self):
                raise NotFittedError(f"this {type(self).__name__} is not fitted, and has no {name}: call fit first")
            if row is None or name in MODES or name in self._get_param_names():
                return super().__getattr__(name)
            values = [others[other] for other in others if BY_NAME.get(other) is row]
            values += [vars(self)[own] for own in self._get_param_names() if BY_NAME.get(own) is row]
            return values[0] if values else row.default


@cache
def _named_in_constructors(kind: type) -> frozenset[str]:
    """Return the arguments of all constructors of a class, which set attributes by these names."""
    constructors = [vars(each)["__init__"] for each in kind.__mro__ if "__init__" in vars(each)]
    return frozenset(name for constructor in constructors for name in signature(constructor).parameters)


def without_other_names(given: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without those that are other names of what is chosen: max_iter, where n_estimators is."""
    names = {BY_NAME[name].name for name in chosen if name in BY_NAME}
    return {name: value for name, value in given.items() if name not in BY_NAME or BY_NAME[name].name not in names}


def without_default_twins(
    own: Mapping[str, Any], given: Mapping[str, Any], constructor: Callable[..., Any]
) -> dict[str, Any]:
    """Return parameters of a constructor without those that have their default and were given by another name."""
    names = {BY_NAME[name].name for name, value in given.items() if name in BY_NAME and value is not None}
    defaults = signature(constructor).parameters
    twins = {name for name in own if name in BY_NAME and BY_NAME[name].name in names and name in defaults}
    return {name: value for name, value in own.items() if name not in twins or value != defaults[name].default}

"""`Booster.params`: what a training was given, and what its model keeps; it reads as all parameters of the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hornbeam.params.params import BY_NAME


class GivenParams(dict[str, Any]):
    """Parameters by canonical name: those that a model keeps, and what else the training was given.

    `params[name]`, `get` and `in` take any name of a parameter. One that can change a model and is not there has its
    default. Iteration, `len` and equality are those of a dict.

    kept    what a model keeps: what can change it and is not the default
    others  what else the training was given, in the process that trained: the objective, metrics, iterations ...

    Attributes
    ----------
    kept
        Likewise: a file of the model has these alone.
    """

    def __init__(self, kept: Mapping[str, Any], others: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__({**others, **kept})
        self.kept = dict(kept)

    def __missing__(self, name: str) -> Any:
        """Return the parameter by another name of it, or its default; KeyError for what a model does not keep."""
        row = BY_NAME.get(name)
        if row is None or not (row.in_model or row.name in self.keys()):
            raise KeyError(name)
        return dict.get(self, row.name, row.default)

    def __contains__(self, name: object) -> bool:
        """Say whether a parameter is there, by any of its names."""
        row = BY_NAME.get(name) if isinstance(name, str) else None
        return dict.__contains__(self, name) or (row is not None and dict.__contains__(self, row.name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return what `params[name]` does, or another default where that is an error."""
        try:
            return self[name]
        except KeyError:
            return default

    def __reduce__(self) -> Any:
        texts = {name: value for name, value in self.items() if isinstance(value, (str, int, float))}
        return GivenParams, (self.kept, texts)  # functions may have no name to be found by

"""`Booster.params`: what was given and is not the default, which reads as all parameters of the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hornbeam.params.params import BY_NAME


class GivenParams(dict[str, Any]):
    """Parameters of a model; `params[name]` and `get` take any name of a parameter that can change a model.

    Such a parameter that is not there has its default. `in`, iteration and equality are those of a dict.

    others  what else the training was given, in the process that trained: the objective, metrics, iterations ...
    """

    def __init__(self, given: Mapping[str, Any], others: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(given)
        self.others = dict(others)

    def __missing__(self, name: str) -> Any:
        """Return the parameter by another name of it, or its default; KeyError for what a model does not keep."""
        row = BY_NAME.get(name)
        if row is None or not (row.in_model or row.name in self.others):
            raise KeyError(name)
        return dict.get(self, row.name, self.others.get(row.name, row.default))

    def get(self, name: str, default: Any = None) -> Any:
        """Return what `params[name]` does, or another default where that is an error."""
        try:
            return self[name]
        except KeyError:
            return default

    def __reduce__(self) -> Any:
        texts = {name: value for name, value in self.others.items() if isinstance(value, (str, int, float))}
        return GivenParams, (dict(self), texts)  # functions may have no name to be found by

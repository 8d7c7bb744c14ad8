"""`Booster.params`: what was given and is not the default, which reads as all parameters of the model."""

from __future__ import annotations

from typing import Any

from hornbeam.params.params import BY_NAME


class GivenParams(dict[str, Any]):
    """Parameters of a model; `params[name]` takes any name of a parameter that can change a model.

    Such a parameter that is not there has its default. Others, and `in`, `get` and iteration, are those of a dict.
    """

    def __missing__(self, name: str) -> Any:
        """Return the parameter by another name of it, or its default; KeyError for what a model does not keep."""
        row = BY_NAME.get(name)
        if row is None or not row.in_model:
            raise KeyError(name)
        return self.get(row.name, row.default)

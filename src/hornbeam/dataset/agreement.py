"""Whether the data parameters of a Dataset and those of a training agree."""

from __future__ import annotations

from typing import Any

from hornbeam.core.errors import DataError
from hornbeam.params.params import BY_NAME, Params


def check_agreement(own: dict[str, Any], params: Params | None, has: str) -> None:
    """Raise DataError where training parameters name another value of a data parameter than a Dataset has.

    own  data parameters of the Dataset by name
    has  how the message begins that says what they are: "the Dataset has"
    """
    for name, value in own.items():
        asked = value if params is None else getattr(params, name)
        is_given = params is not None and (name in params.given or asked != BY_NAME[name].default)
        if is_given and asked != value:
            raise DataError(
                f"{name}={asked!r} in the training parameters, but {has} {name}={value!r}; make them equal, or "
                "make a new Dataset"
            )

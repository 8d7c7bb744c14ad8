"""Whether the data parameters of a Dataset and those of a training agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from hornbeam.core.errors import DataError, ParameterError
from hornbeam.data.fields import Fields
from hornbeam.params.constraints import resolve_weights
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


def with_feature_weights(params: Params, data: Fields) -> Params:
    """Return parameters with the weights of features that the data have; ParameterError where both say different ones.

    params  of a training on the data
    """
    own = data.feature_weights
    if own is None:
        return params
    given = params.feature_weights
    if given is not None and not np.array_equal(resolve_weights(given, data.feature_names), own):
        raise ParameterError(
            f"feature_weights={given!r} in the training parameters, but the Dataset has "
            f"feature_weights={own.tolist()}; make them equal, or leave one out"
        )
    return params.replace(feature_weights=tuple(own.tolist()))

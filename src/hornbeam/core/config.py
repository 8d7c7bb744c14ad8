"""What XGBoost's users set for the whole program: `set_config(verbosity=0)`, `with config_context(verbosity=2)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hornbeam.core.errors import ParameterError
from hornbeam.core.log import most_verbose

QUIETEST, LOUDEST = 0, 3
"""XGBoost's verbosity: 0 says nothing, 1 warns, 2 and 3 inform; one more than the parameter `verbosity` here."""

_settings: dict[str, Any] = {}


def set_config(**settings: Any) -> None:
    """Set how much is said at most, whatever the parameter `verbosity` of a training is; evaluations are always said.

    verbosity  0: nothing; 1: warnings; 2 and 3: everything
    """
    for name, value in settings.items():
        if name == "use_rmm" and not value:
            continue
        if name != "verbosity":
            raise ParameterError(f"set_config({name}=): there is verbosity alone; parameters go to train")
        if value is not None and not (isinstance(value, int) and QUIETEST <= value <= LOUDEST):
            raise ParameterError(f"set_config(verbosity={value!r}): must be an integer from {QUIETEST} to {LOUDEST}")
        _settings.pop("verbosity", None)
        if value is not None:
            _settings["verbosity"] = value
        most_verbose(None if value is None else value - 1)


def get_config() -> dict[str, Any]:
    """Return what is set; a verbosity that nobody has set is 2: everything is said."""
    return {"verbosity": 2, "use_rmm": False, **_settings}


@contextmanager
def config_context(**settings: Any) -> Iterator[None]:
    """Set it for a block: `with hornbeam.config_context(verbosity=0): ...`."""
    before = _settings.get("verbosity")
    set_config(**settings)
    try:
        yield
    finally:
        set_config(verbosity=before)

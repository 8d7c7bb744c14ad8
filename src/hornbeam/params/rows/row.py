"""How a row of the table is written: a field of a dataclass that carries its `Parameter`."""

from __future__ import annotations

import dataclasses
from typing import Any

from hornbeam.params.checks import Parameter


def parameter(type: str, default: Any, group: str, doc: str, **details: Any) -> Any:
    """Make a dataclass field that carries its row of the table; table.py fills the field's name in."""
    row = Parameter("", type, default, doc, group, **details)
    return dataclasses.field(default=default, metadata={"parameter": row})

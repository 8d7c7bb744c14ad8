"""The packages that stand above the model and that methods of `Booster` lead to.

`explain`, `convert` and `views` (plots, reports) work on a finished model, so they import `model`, and `model` does not
import them. A method such as `Booster.explain` is the door to such a room: it opens it here, by name, when it is
called. `import hornbeam` brings in nothing of them.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def room(name: str) -> ModuleType:
    """Import a package that stands above the model: "explain", "convert" or one of its modules."""
    return importlib.import_module(f"hornbeam.{name}")

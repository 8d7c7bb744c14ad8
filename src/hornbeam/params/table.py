"""The table of parameters: names, aliases, defaults, ranges and documentation.

A parameter is a field of one of the classes in rows/, and the field carries its `Parameter`. Names and defaults are
LightGBM's; the names that XGBoost and scikit-learn users type are aliases. params.py makes training parameters of the
table, and docs.py docs/parameters.md.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from hornbeam.params.checks import Parameter
from hornbeam.params.rows.boosting import BoostingRows
from hornbeam.params.rows.data import DataRows
from hornbeam.params.rows.evaluation import EvaluationRows
from hornbeam.params.rows.objective import ObjectiveRows
from hornbeam.params.rows.tree import TreeRows

GROUPS = ("Objective", "Boosting", "Sampling", "Tree", "Constraints", "Binning", "Evaluation", "Machine")
"""Sections of docs/parameters.md, in order."""


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # Params has these
class ParameterTable(EvaluationRows, DataRows, TreeRows, BoostingRows, ObjectiveRows):  # fields of the last base first
    """The fields of `Params`, each with its row."""


PARAMETERS: tuple[Parameter, ...] = tuple(
    dataclasses.replace(field.metadata["parameter"], name=field.name) for field in dataclasses.fields(ParameterTable)
)
"""The table, in the order of the documentation."""

BY_NAME: dict[str, Parameter] = {name: row for row in PARAMETERS for name in (row.name, *row.aliases)}
"""Every name and alias."""

"""Names of columns: which two tables may have the same columns."""

from __future__ import annotations

from collections.abc import Sequence

MADE_UP_NAMES = ("{}", "Column_{}", "column_{}")
"""Names that columns without names are given by pandas, here, and by polars."""


def same_columns(names: Sequence[str], others: Sequence[str]) -> bool:
    """Say whether two tables may have the same columns: the same names, or names that one of them was not given.

    names, others  of the same length
    """
    return list(names) == list(others) or _are_of_no_one(names) or _are_of_no_one(others)


def _are_of_no_one(names: Sequence[str]) -> bool:
    """Say whether nobody gave these names: made up ones, or those that a text file has left behind its label."""
    return are_made_up(names) or are_made_up(["Column_0", *names])


def are_made_up(names: Sequence[str]) -> bool:
    """Say whether columns have no names but those that they are given for their positions."""
    return any(list(names) == [form.format(place) for place in range(len(names))] for form in MADE_UP_NAMES)

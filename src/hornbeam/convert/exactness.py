"""What a format cannot say: an error that says what, or with `approximate=True` a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from hornbeam.core.errors import ConversionError
from hornbeam.core.log import warn


class Exactness:
    """Whether a writer may approximate, and what it has approximated so far.

    title        what messages call the format
    approximate  whether the user allows it
    """

    def __init__(self, title: str, approximate: bool) -> None:
        self.title = title
        self.approximate = approximate
        self._approximated: list[str] = []

    def approximates(self, what: str, approximation: str) -> None:
        """Note that something is approximated; raise ConversionError where that is not allowed.

        what           a clause: "the mean of trees around a start other than 0"
        approximation  what is written instead and how far it is off: "the start is added to every leaf (1 part in ...)"
        """
        if not self.approximate:
            raise ConversionError(
                f"{self.title} cannot say this exactly: {what}. With approximate=True (--approximate), {approximation}"
            )
        self._approximated.append(f"{what}: {approximation}")

    def refuse(self, what: str, remedy: str) -> NoReturn:
        """Raise ConversionError for what cannot even be approximated."""
        raise ConversionError(f"{self.title} cannot say this: {what}; {remedy}")

    def report(self, say: Callable[[str], None] = warn) -> None:
        """Say what is approximated, if anything is: a warning, or what `say` makes of it."""
        if self._approximated:
            say(f"{self.title}, approximated: {'; '.join(self._approximated)}")

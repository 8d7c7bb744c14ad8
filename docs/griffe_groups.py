"""Docstrings as Hornbeam writes them, on the site.

    Parameters
    ----------
    start_iteration, num_iteration
        Which iterations to use.

    A paragraph after the parameters.

Griffe gives all names of a group the type and the default of the first one, ends a group at the end of a line, and
takes the paragraph for a parameter. Here each name gets what the signature says, names on a line before get the
description that follows, and the paragraph becomes a section of its own.
"""

from __future__ import annotations

from typing import Any

from griffe import Class, DocstringSectionKind, Extension, Function, Module, Object


def with_notes(text: str) -> str:
    """Return a docstring with the heading "Notes" above a paragraph that follows the parameters."""
    lines = [*text.splitlines(), ""]
    is_parameters = False
    for i in range(1, len(lines) - 1):
        if lines[i].startswith("---"):
            is_parameters = lines[i - 1] == "Parameters"
        begins = not lines[i - 1] and bool(lines[i]) and not lines[i].startswith(" ")
        if is_parameters and begins and not lines[i + 1].startswith(("---", " ")):
            return "\n".join([*lines[:i], "Notes", "-----", *lines[i:]])
    return text


class Groups(Extension):
    """Mends the sections "Parameters" of every docstring."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Go through a package that was loaded."""
        self._mend(pkg)

    def _mend(self, thing: Object) -> None:
        if isinstance(thing, Class | Function) and thing.docstring is not None:
            self._mend_parameters(thing)
        for member in thing.members.values():
            if not member.is_alias:
                self._mend(member)

    def _mend_parameters(self, thing: Class | Function) -> None:
        assert thing.docstring is not None
        thing.docstring.value = with_notes(thing.docstring.value)
        thing.docstring.parser = "numpy"
        for section in thing.docstring.parsed:
            if section.kind is not DocstringSectionKind.parameters:
                continue
            following = ""
            for item in reversed(section.value):
                following = item.description = item.description or following
                name = item.name.lstrip("*")
                if name in thing.parameters:
                    item.annotation = thing.parameters[name].annotation
                    item.value = thing.parameters[name].default

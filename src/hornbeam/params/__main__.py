"""`python -m hornbeam.params` prints docs/parameters.md."""

from __future__ import annotations

from hornbeam.params.docs import to_markdown

print(to_markdown(), end="")
